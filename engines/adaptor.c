// SPDX-License-Identifier: GPL-2.0-only
/*
 * The adaptor is the only code between fio and the pipeline. It turns an io_u into a kp_io, and
 * the pipeline's negative error numbers into fio's positive ones.
 *
 * A job is synchronous (FIO_SYNCIO: queue() completes the I/O) on the psync backend, and on a null
 * device that completes in submission. Every other job is asynchronous.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "adaptor.h"
#include "verify.h"

#define MAX_OPTIONS	 96
#define POLICY_HELP_SIZE 1536

/* Rare work stays out of the functions that run for each I/O, and out of their stack frames. */
#define NOINLINE __attribute__((noinline))

static const struct kp_engine *engine;
static struct kp_arena *arena;

/* struct job - the pipeline of one thread_data, and the io_us it queued since the last commit. */
struct job {
	struct kp_pipeline *pipeline;
	struct kp_counter_slot *slot;
	bool synchronous;
	bool null;
	bool told_alignment;
	struct io_u **queued;
	unsigned int nr_queued;
	/* A worker of io_submit_mode=offload opens the files of its job for its own pipeline. */
	struct worker_file *files;
	unsigned int nr_files;
};

struct worker_file {
	const struct fio_file *of;
	struct kp_file *file;
};

/* ---- from options to a pipeline ------------------------------------------------------------ */

int kp_plan_policy(struct kp_plan *plan, const struct kp_policy *policy, const char *name,
		   const char *kernel, const void *options, char *why, size_t why_size)
{
	const struct kp_variant *variant;
	int ret = kp_policy_find(policy, name, kernel, &variant, why, why_size);

	if (!ret)
		ret = kp_policy_check(policy, options, variant, why, why_size);
	if (!ret && variant)
		plan->stages[plan->nr_stages++] =
			(struct kp_stage_config){ policy, variant, options };
	return ret;
}

static bool is_null(const struct kp_engine_options *o)
{
	return kp_backend_caps(o->device.backend) & KP_BACKEND_NO_FILE;
}

/* Does queue() complete the I/Os of this job? */
static bool is_synchronous(const struct thread_data *td)
{
	const struct kp_engine_options *o = td->eo;

	if (!is_null(o))
		return kp_backend_caps(o->device.backend) & KP_BACKEND_SYNCHRONOUS;
	if (o->null_completion)
		return !strcmp(o->null_completion, "sync");
	return td->o.iodepth == 1;
}

/* Fill in the fields that follow from other options. */
static void derive_device(const struct thread_data *td, struct kp_device_config *device)
{
	const struct kp_engine_options *o = td->eo;
	struct kp_null_options *null = &device->null;

	if (!null->read_nsec)
		null->read_nsec = o->null_completion_nsec;
	if (!null->write_nsec)
		null->write_nsec = o->null_completion_nsec;
	null->synchronous = is_null(o) && is_synchronous(td);
	device->sync_range_flags = td->o.sync_file_range;
}

/*
 * Add the plug, which is the last stage of every plan. plug=NAME may name the plug of another
 * kernel than kernel= does.
 */
static int plan_plug(const struct kp_engine_options *o, struct kp_plan *plan, char *why,
		     size_t size)
{
	bool by_kernel = o->kernel && engine->plug != KP_PLUG_ASKED;
	bool by_default = engine->plug == KP_PLUG_ALWAYS && plan->nr_stages;

	if (!o->plug && !by_kernel && !by_default)
		return 0;
	return kp_plan_policy(plan, &kp_plug_policy, o->plug, o->plug ? NULL : o->kernel,
			      plan->plug_options, why, size);
}

/* Can report() write counters=FILE at the end of the run? */
static int check_counters(const char *output, char *why, size_t size)
{
	const char *slash = strrchr(output, '/');
	int folder_len = slash ? (int)(slash - output) + 1 : 1;
	char folder[sizeof(((struct kp_counter_slot *)0)->output)];
	struct stat st;

	if (strlen(output) >= sizeof(folder)) {
		snprintf(why, size, "counters=%.40s...: too long, give at most %zu characters",
			 output, sizeof(folder) - 1);
		return -ENAMETOOLONG;
	}
	if (!stat(output, &st)) {
		if (S_ISDIR(st.st_mode))
			errno = EISDIR;
		else if (!access(output, W_OK))
			return 0;
	} else {
		snprintf(folder, sizeof(folder), "%.*s", folder_len, slash ? output : ".");
		if (!access(folder, W_OK))
			return 0;
	}
	snprintf(why, size, "counters=%s: cannot be written: %s", output, strerror(errno));
	return -EINVAL;
}

/* Reject paths where fio would unlink the file or create a regular file for a missing device. */
static int check_file(const struct thread_data *td, const char *path, char *why, size_t size)
{
	struct stat st;

	if (!stat(path, &st)) {
		if (!S_ISDIR(st.st_mode))
			return 0;
		snprintf(why, size, "filename=%s: is a directory, give a file or a block device",
			 path);
		return -EISDIR;
	}
	if (errno == ENOENT && td->o.allow_create && !read_only && strncmp(path, "/dev/", 5))
		return 0;
	snprintf(why, size, "filename=%s: %s, create it first", path, strerror(errno));
	return -ENOENT;
}

static int check_files(const struct thread_data *td, char *why, size_t size)
{
	struct fio_file *f;
	unsigned int i;
	int ret = 0;

	for_each_file (td, f, i)
		ret = ret ? ret : check_file(td, f->file_name, why, size);
	return ret;
}

/* Check the options before fio or the pipeline touches any file. */
static int check_options(const struct thread_data *td, char *why, size_t size)
{
	const struct kp_engine_options *o = td->eo;
	int ret = kp_device_check(&o->device, why, size);

	if (ret)
		return ret;
	if (o->null_completion && strcmp(o->null_completion, "sync") &&
	    strcmp(o->null_completion, "async")) {
		snprintf(why, size, "null_completion=%s: unknown, give sync or async",
			 o->null_completion);
		return -EINVAL;
	}
	if (is_null(o) && !o->device.null.memory_backed && td->o.verify != VERIFY_NONE &&
	    td->o.verify != VERIFY_NULL) {
		snprintf(why, size,
			 "verify= on backend=null: the device keeps no data, give "
			 "null_memory_backed=1");
		return -EINVAL;
	}
	if (is_null(o) && td->o.size_percent && !td->o.file_size_low) {
		snprintf(why, size,
			 "size=%u%% on backend=null: the device has no size, give size= in bytes",
			 td->o.size_percent);
		return -EINVAL;
	}
	if (o->counters && check_counters(o->counters, why, size))
		return -EINVAL;
	return 0;
}

static int make_plan(struct thread_data *td, struct kp_plan *plan, char *why, size_t size)
{
	int ret = check_options(td, why, size);

	memset(plan, 0, sizeof(*plan));
	if (!ret)
		ret = engine->plan(td->eo, plan, why, size);
	return ret ? ret : plan_plug(td->eo, plan, why, size);
}

/* Return the name of the variant of the engine's own policy. */
static const char *planned_variant(const struct kp_plan *plan)
{
	bool planned = plan->nr_stages && plan->stages[0].policy != &kp_plug_policy;

	return planned ? plan->stages[0].variant->name : "none";
}

static struct kp_counter_slot *fill_slot(const struct thread_data *td, const struct kp_plan *plan)
{
	const struct kp_engine_options *o = td->eo;
	struct kp_counter_slot *slot = kp_counters_slot(arena);

	if (!slot)
		return NULL;
	snprintf(slot->job, sizeof(slot->job), "%s", td->o.name);
	snprintf(slot->policy, sizeof(slot->policy), "%s", planned_variant(plan));
	snprintf(slot->kernel, sizeof(slot->kernel), "%s", o->kernel ? o->kernel : "");
	snprintf(slot->backend, sizeof(slot->backend), "%s", o->device.backend);
	snprintf(slot->output, sizeof(slot->output), "%s", o->counters ? o->counters : "");
	return slot;
}

/*
 * Name the engine and the job of a slot; the reports skip a slot without an engine. An offload
 * worker learns its job only from its first I/O.
 */
static void publish_slot(struct kp_counter_slot *slot, const struct thread_data *job)
{
	slot->job_number = job->thread_number;
	snprintf(slot->engine, sizeof(slot->engine), "%s", engine->name);
}

/* ---- hooks: set-up ------------------------------------------------------------------------- */

/*
 * fio calls this in the parent before it lays out files. An engine with this hook must set the
 * sizes of the files itself. A null device has no file, so the hook neither looks for one nor
 * creates one.
 */
static int adaptor_setup(struct thread_data *td)
{
	const struct kp_engine_options *o = td->eo;
	struct kp_plan plan;
	struct fio_file *f;
	unsigned int i;
	char why[512];
	int ret = make_plan(td, &plan, why, sizeof(why));

	if (!ret && !is_null(o))
		ret = check_files(td, why, sizeof(why));
	if (ret) {
		log_err("kpolicy: %s: job %s: %s\n", engine->name, td->o.name, why);
		td_verror(td, -ret, "kpolicy set-up");
		return 1;
	}
	kp_fio_keep_path(td);
	if (is_null(o))
		kp_fio_set_flags(td, FIO_DISKLESSIO | FIO_NODISKUTIL);
	for_each_file (td, f, i) {
		if (!is_null(o) && td_io_get_file_size(td, f)) {
			if (td->error != ENOENT) {
				log_err("%s\n", td->verror);
				return 1;
			}
			td->error = 0; /* fio lays the file out */
			td->verror[0] = '\0';
		}
		if (is_null(o) || f->real_file_size == -1ULL)
			f->real_file_size = td->o.size ? td->o.size / td->o.nr_files : -1ULL;
	}
	return 0;
}

static int adaptor_get_file_size(struct thread_data *td, struct fio_file *f)
{
	const struct job *job = td->io_ops_data;

	if (job ? job->null : is_null(td->eo))
		return 0;
	return generic_get_file_size(td, f);
}

/*
 * Hash (FNV-1a) the files of a job and the offsets at which it starts. Jobs with the same hash
 * touch the same data.
 */
static uint64_t data_id(const struct thread_data *td)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	struct fio_file *f;
	unsigned int i;

	for_each_file (td, f, i) {
		for (const char *c = f->file_name; *c; c++)
			hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
		hash = (hash ^ f->file_offset) * 0x100000001b3ull;
	}
	return hash;
}

static int create_pipeline(struct thread_data *td, struct job *job)
{
	const struct kp_engine_options *o = td->eo;
	struct kp_plan plan;
	struct kp_pipeline_config config = {
		.arena = arena,
		.stages = plan.stages,
		.device = o->device,
		.depth = td->o.iodepth,
		.max_io_size = td_max_bs(td),
		.data_size =
			td->o.io_size && td->o.io_size < td->o.size ? td->o.io_size : td->o.size,
		.data_id = data_id(td),
		.terminate = &td->terminate,
	};
	char why[512];
	int ret = make_plan(td, &plan, why, sizeof(why));

	if (ret)
		return ret; /* cannot happen: adaptor_setup() made the same plan */
	config.nr_stages = plan.nr_stages;
	derive_device(td, &config.device);
	config.slot = job->slot = fill_slot(td, &plan);
	if (!job->slot)
		return -ENOMEM;
	if (td->thread_number)
		publish_slot(job->slot, td);
	return kp_pipeline_create(&job->pipeline, &config);
}

/*
 * fio (3.33) frees the options of a job in the parent after it forked the job. It frees them
 * again at the end, unless the job cleared td->eo, which both processes share. A killed job never
 * clears it, and fio would crash before report() writes the counters. So the adaptor clears
 * td->eo here, and the job keeps its copy of the options. Offload workers take td->eo from their
 * job, which must keep it.
 */
static void keep_options(struct thread_data *td)
{
	if (!td->o.use_thread && td->o.io_submit_mode != IO_MODE_OFFLOAD)
		td->eo = NULL;
}

/*
 * A null device has no end. The files are as large as the range of the job, as with fio's own null
 * engine.
 */
static void size_null_files(struct thread_data *td)
{
	struct fio_file *f;
	unsigned int i;

	for_each_file (td, f, i) {
		if (f->real_file_size < f->file_offset + f->io_size)
			f->real_file_size = f->file_offset + f->io_size;
	}
}

static int adaptor_init(struct thread_data *td)
{
	struct job *job = calloc(1, sizeof(*job));
	int ret = -ENOMEM;

	if (job) {
		job->synchronous = is_synchronous(td);
		job->null = is_null(td->eo);
		if (job->null && !td->parent)
			size_null_files(td);
		job->queued = calloc(td->o.iodepth + 1, sizeof(*job->queued));
		if (job->queued)
			ret = create_pipeline(td, job);
	}
	if (ret) {
		if (job)
			free(job->queued);
		free(job);
		td_verror(td, -ret, "kpolicy pipeline");
		return 1;
	}
	td->io_ops_data = job;
	keep_options(td);
	return 0;
}

static int adaptor_post_init(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	/* fio prints a note, also into its JSON output, if init() already sets this flag. */
	if (job->synchronous)
		kp_fio_set_flags(td, FIO_SYNCIO);
	if (td->orig_buffer)
		kp_pipeline_buffers(job->pipeline, td->orig_buffer, td->orig_buffer_size);
	return 0;
}

static void adaptor_cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;
	int ret;

	if (!job)
		return;
	ret = kp_pipeline_destroy(job->pipeline);
	if (ret)
		td_verror(td, -ret, "late writeback");
	free(job->queued);
	free(job->files);
	free(job);
	td->io_ops_data = NULL;
}

static int adaptor_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	struct kp_io *io = aligned_alloc(64, (sizeof(*io) + 63) / 64 * 64);

	(void)td;
	/*
	 * fio calls io_u_free() even if this function fails. engine_data is in a union with fio's
	 * index, so it must be set in any case.
	 */
	io_u->engine_data = io;
	if (!io)
		return 1;
	memset(io, 0, sizeof(*io));
	io->private = io_u;
	return 0;
}

static void adaptor_io_u_free(struct thread_data *td, struct io_u *io_u)
{
	(void)td;
	free(io_u->engine_data);
	io_u->engine_data = NULL;
}

/* ---- hooks: files -------------------------------------------------------------------------- */

static int open_flags(const struct thread_data *td, const struct fio_file *f)
{
	int flags = td->o.sync_io | (td->o.odirect ? O_DIRECT : 0);

	/* With create_on_open, a reader creates its file, too. */
	if ((td_write(td) || td->o.create_on_open) && f->filetype == FIO_TYPE_FILE &&
	    td->o.allow_create)
		flags |= O_CREAT;
	return flags | (td_write(td) || td_trim(td) ? O_RDWR : O_RDONLY);
}

static int adaptor_open_file(struct thread_data *td, struct fio_file *f)
{
	struct job *job = td->io_ops_data;
	struct kp_file *file;
	int ret;

	/* The parent, which has no pipeline, opens a block device to learn its size. */
	if (!job)
		return generic_open_file(td, f);
	ret = kp_file_open(job->pipeline, f->file_name, open_flags(td, f), f->real_file_size,
			   &file);
	if (ret) {
		char what[256];

		if (ret != -EINVAL && ret != -EBUSY) /* the library logs these two */
			log_err("kpolicy: %s: job %s: filename=%s: cannot be opened%s: %s\n",
				engine->name, td->o.name, f->file_name,
				td_write(td) || td_trim(td) ? " for writing" : "", strerror(-ret));
		snprintf(what, sizeof(what), "open(%s)", f->file_name);
		td_verror(td, -ret, what);
		return 1;
	}
	f->fd = kp_file_fd(file);
	FILE_SET_ENG_DATA(f, file);
	return 0;
}

static int adaptor_close_file(struct thread_data *td, struct fio_file *f)
{
	struct kp_file *file = FILE_ENG_DATA(f);
	int ret;

	if (!file)
		return generic_close_file(td, f);
	ret = kp_file_close(file);
	FILE_SET_ENG_DATA(f, NULL);
	f->fd = -1;
	return -ret;
}

/* Drop the clean pages of the stages, and those in the kernel's own page cache. */
static int adaptor_invalidate(struct thread_data *td, struct fio_file *f)
{
	(void)td;
	if (FILE_ENG_DATA(f))
		kp_file_invalidate(FILE_ENG_DATA(f), f->file_offset, f->io_size);
	if (f->fd >= 0)
		posix_fadvise(f->fd, f->file_offset, f->io_size, POSIX_FADV_DONTNEED);
	return 0;
}

/* ---- hooks: I/O ---------------------------------------------------------------------------- */

static enum kp_op op_of(enum fio_ddir ddir)
{
	switch (ddir) {
	case DDIR_READ:
		return KP_OP_READ;
	case DDIR_WRITE:
		return KP_OP_WRITE;
	case DDIR_TRIM:
		return KP_OP_DISCARD;
	case DDIR_DATASYNC:
		return KP_OP_FDATASYNC;
	case DDIR_SYNC_FILE_RANGE:
		return KP_OP_SYNC_RANGE;
	default:
		return KP_OP_FLUSH;
	}
}

/* Reads and writes have the same numbers in fio and in the library. */
static enum kp_op op_of_data(enum fio_ddir ddir)
{
	_Static_assert((int)DDIR_READ == KP_OP_READ && (int)DDIR_WRITE == KP_OP_WRITE, "numbers");
	return (enum kp_op)ddir;
}

/*
 * fio opens files only in the thread_data of the job, and hands I/Os on these files to the
 * offload workers. A file belongs to one pipeline, so a worker opens the file again for its first
 * I/O on it. kp_pipeline_destroy() closes the file.
 */
static int worker_file(struct thread_data *td, struct fio_file *f, struct kp_file **file)
{
	struct job *job = td->io_ops_data;
	struct worker_file *more;
	int ret;

	for (unsigned int i = 0; i < job->nr_files; i++) {
		*file = job->files[i].file;
		if (job->files[i].of == f)
			return 0;
	}
	more = realloc(job->files, (job->nr_files + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	job->files = more;
	if (!job->nr_files)
		publish_slot(job->slot, td->parent);
	ret = kp_file_open(job->pipeline, f->file_name, open_flags(td, f) & ~O_CREAT,
			   f->real_file_size, file);
	if (!ret)
		job->files[job->nr_files++] = (struct worker_file){ f, *file };
	return ret;
}

static void prepare(struct kp_io *io, struct kp_file *file, const struct io_u *io_u)
{
	enum kp_op op = op_of(io_u->ddir);

	if (op <= KP_OP_DISCARD) {
		kp_io_prepare(io, op, file, io_u->offset, io_u->xfer_buf, io_u->xfer_buflen);
	} else if (op == KP_OP_SYNC_RANGE) {
		const struct fio_file *f = io_u->file;

		kp_io_prepare(io, op, file, f->first_write, NULL, f->last_write - f->first_write);
	} else {
		kp_io_prepare(io, op, file, 0, NULL, 0);
	}
}

/* Log the usual cause of EINVAL, once per job. */
static void tell_alignment(struct job *job, const struct io_u *io_u)
{
	struct kp_file *file = FILE_ENG_DATA(io_u->file);
	unsigned int block = kp_file_limits(file)->logical_block_size;

	if (job->told_alignment || !((io_u->offset | io_u->xfer_buflen) % block))
		return;
	job->told_alignment = true;
	log_err("kpolicy: %s: %s: offset %llu length %llu: direct I/O needs whole blocks of %u, "
		"change bs=, offset= or blockalign=\n",
		engine->name, io_u->file->file_name, (unsigned long long)io_u->offset,
		(unsigned long long)io_u->xfer_buflen, block);
}

static NOINLINE void set_failed(struct job *job, struct io_u *io_u, const struct kp_io *io)
{
	int error = kp_io_error(io);

	io_u->error = -error;
	io_u->resid = kp_io_resid(io);
	if (error == -EINVAL)
		tell_alignment(job, io_u);
}

/* td_io_queue() has cleared error and resid of the io_u. */
static void set_result(struct job *job, struct io_u *io_u, const struct kp_io *io)
{
	if (kp_io_error(io) || kp_io_resid(io))
		set_failed(job, io_u, io);
}

static int adaptor_commit(struct thread_data *td)
{
	struct job *job = td->io_ops_data;
	struct timespec now;

	if (!job->nr_queued)
		return 0;
	kp_commit(job->pipeline);
	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		for (unsigned int i = 0; i < job->nr_queued; i++) {
			job->queued[i]->issue_time = now;
			io_u_queued(td, job->queued[i]);
		}
		if (td->o.read_iolog_file)
			td->last_issue = now;
	}
	io_u_mark_submit(td, job->nr_queued);
	job->nr_queued = 0;
	return 0;
}

/* Set the result of a read or write that failed, or that the end of the file cut short. */
static NOINLINE enum fio_q_status transfer_failed(struct job *job, struct io_u *io_u, ssize_t ret)
{
	if (ret >= 0) {
		io_u->resid = io_u->xfer_buflen - ret;
	} else {
		io_u->error = -ret;
		if (ret == -EINVAL)
			tell_alignment(job, io_u);
	}
	return FIO_Q_COMPLETED;
}

/* Do a read or write of a synchronous job. */
static NOINLINE enum fio_q_status transfer(struct job *job, struct io_u *io_u, struct kp_file *file)
{
	ssize_t ret = kp_transfer(file, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset,
				  op_of_data(io_u->ddir));

	if (ret == (ssize_t)io_u->xfer_buflen)
		return FIO_Q_COMPLETED;
	return transfer_failed(job, io_u, ret);
}

/* Submit a read or write of an asynchronous job. */
static NOINLINE enum fio_q_status submit(struct job *job, struct io_u *io_u, struct kp_file *file)
{
	struct kp_io *io = io_u->engine_data;

	kp_io_prepare(io, op_of_data(io_u->ddir), file, io_u->offset, io_u->xfer_buf,
		      io_u->xfer_buflen);
	if (kp_submit(job->pipeline, io))
		return FIO_Q_BUSY;
	job->queued[job->nr_queued++] = io_u;
	return FIO_Q_QUEUED;
}

/* fio syncs the range that it wrote since the last sync. Is there nothing to sync? */
static bool is_empty_range(const struct io_u *io_u)
{
	const struct fio_file *f = io_u->file;

	return io_u->ddir == DDIR_SYNC_FILE_RANGE && f->first_write == f->last_write;
}

/*
 * Do a sync or a trim inside queue(). fio looks at the error of a sync only if queue() completes
 * the sync. fio's own asynchronous engines do trims inside queue() as well, and fio's verify code
 * relies on that.
 */
static NOINLINE enum fio_q_status sync_or_trim(struct thread_data *td, struct io_u *io_u,
					       struct kp_file *file)
{
	struct job *job = td->io_ops_data;
	struct kp_io *io = io_u->engine_data;

	/* As in fio's own engines: fio commits and reaps before it queues the trim again. */
	if (io_u->ddir == DDIR_TRIM && job->nr_queued)
		return FIO_Q_BUSY;
	if (job->nr_queued)
		adaptor_commit(td);
	if (is_empty_range(io_u))
		return FIO_Q_COMPLETED;
	prepare(io, file, io_u);
	kp_submit_wait(job->pipeline, io);
	set_result(job, io_u, io);
	if (io_u->ddir == DDIR_TRIM && !job->synchronous) {
		io_u_mark_submit(td, 1);
		io_u_mark_complete(td, 1);
	}
	return FIO_Q_COMPLETED;
}

static inline enum fio_q_status queue_to(struct thread_data *td, struct io_u *io_u,
					 struct kp_file *file)
{
	struct job *job = td->io_ops_data;

	if (io_u->ddir > DDIR_WRITE)
		return sync_or_trim(td, io_u, file);
	return job->synchronous ? transfer(job, io_u, file) : submit(job, io_u, file);
}

/* Queue an io_u that an offload worker got from its job. */
static NOINLINE enum fio_q_status queue_for_job(struct thread_data *td, struct io_u *io_u)
{
	struct kp_file *file;

	io_u->error = -worker_file(td, io_u->file, &file);
	return io_u->error ? FIO_Q_COMPLETED : queue_to(td, io_u, file);
}

static enum fio_q_status adaptor_queue(struct thread_data *td, struct io_u *io_u)
{
	fio_ro_check(td, io_u);
	return td->parent ? queue_for_job(td, io_u) : queue_to(td, io_u, FILE_ENG_DATA(io_u->file));
}

static int adaptor_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			     const struct timespec *t)
{
	struct job *job = td->io_ops_data;

	/* adaptor_commit() sets the issue times, which fio reads when it reaps an I/O. */
	if (job->nr_queued)
		adaptor_commit(td);
	return kp_reap(job->pipeline, min, max, t);
}

static struct io_u *adaptor_event(struct thread_data *td, int event)
{
	struct job *job = td->io_ops_data;
	struct kp_io *io = kp_reaped(job->pipeline, event);
	struct io_u *io_u = io->private;

	set_result(job, io_u, io);
	return io_u;
}

/* ---- options ------------------------------------------------------------------------------- */

#define COMMON(FIELD, ...) OPTION(struct kp_engine_options, FIELD, __VA_ARGS__)

static const struct fio_option common_options[] = {
	/* collect_options() makes the help of these two from the tables of the policies. */
	COMMON(policy, policy, FIO_OPT_STR_STORE, NULL),
	COMMON(plug, plug, FIO_OPT_STR_STORE, NULL),
	COMMON(kernel, kernel, FIO_OPT_STR_STORE,
	       "The variant that this kernel version had, such as 4.3-rc1 or 5.10"),
	COMMON(device.backend, backend, FIO_OPT_STR_STORE,
	       "Device below: libaio, io_uring, psync, or null (a model of null_blk)",
	       .def = "libaio"),
	COMMON(counters, counters, FIO_OPT_STR_STORE, "Write the counters to this file as JSON"),
	COMMON(null_completion_nsec, null_completion_nsec, FIO_OPT_STR_VAL,
	       "Null device: latency of reads and writes, ns; default 0"),
	COMMON(device.null.read_nsec, null_read_nsec, FIO_OPT_STR_VAL,
	       "Null device: latency of reads, ns; default null_completion_nsec"),
	COMMON(device.null.write_nsec, null_write_nsec, FIO_OPT_STR_VAL,
	       "Null device: latency of writes, ns; default null_completion_nsec"),
	COMMON(device.null.submit_nsec, null_submit_nsec, FIO_OPT_STR_VAL,
	       "Null device: serial time for each request it is handed, ns; default 0"),
	COMMON(device.null.mbps, null_mbps, FIO_OPT_INT,
	       "Null device: bandwidth, 10^6 B/s; default 0: no limit"),
	COMMON(device.null.queue_depth, null_queue_depth, FIO_OPT_INT,
	       "Null device: requests served at once, by all jobs together; default 64",
	       .minval = 1, .maxval = 4096),
	COMMON(device.null.memory_backed, null_memory_backed, FIO_OPT_BOOL,
	       "Null device: keep what is written; default 0"),
	COMMON(device.null.badblocks, null_badblocks, FIO_OPT_STR_STORE,
	       "Null device: sectors that fail with EIO, START-END[,START-END]; default none"),
	COMMON(null_completion, null_completion, FIO_OPT_STR_STORE,
	       "Null device: sync (ends in submission) or async; default sync at iodepth 1"),
	COMMON(device.limits.logical_block_size, logical_block_size, FIO_OPT_INT,
	       "Queue limit, bytes, a power of two; default the device's", .minval = 1),
	COMMON(device.limits.physical_block_size, physical_block_size, FIO_OPT_INT,
	       "Queue limit, bytes, a power of two; default the device's", .minval = 1),
	COMMON(device.limits.max_sectors_kb, max_sectors_kb, FIO_OPT_INT,
	       "Queue limit, KiB of a request, at least 4; default the device's", .minval = 1),
	COMMON(device.limits.max_segments, max_segments, FIO_OPT_INT,
	       "Queue limit, segments of a request; default the device's", .minval = 1),
	COMMON(device.limits.max_segment_size, max_segment_size, FIO_OPT_INT,
	       "Queue limit, bytes of a segment, at least 4096; default the device's", .minval = 1),
	COMMON(device.limits.chunk_sectors, chunk_sectors, FIO_OPT_INT,
	       "Queue limit, 512-byte sectors that no request crosses a multiple of; default the "
	       "device's",
	       .minval = 1),
	COMMON(device.fault, fault, FIO_OPT_STR_STORE,
	       "For tests: corrupt, error:N (every Nth fails) or short:BYTES; default none"),
};

#define NR_COMMON (sizeof(common_options) / sizeof(*common_options))

static struct fio_option all_options[MAX_OPTIONS];

/*
 * Write the help of a policy: "clone (54efd50bfd87, kernel 4.3-rc1): summary; ...; none: @none;
 * default @standard".
 */
static const char *policy_help(const struct kp_policy *policy, const char *none,
			       const char *standard, char *help)
{
	const struct kp_variant *v;
	size_t used = 0;

	for (unsigned int i = 0; (v = kp_policy_variant(policy, i)) && used < POLICY_HELP_SIZE;
	     i++) {
		used += snprintf(help + used, POLICY_HELP_SIZE - used, "%s%s (%s%s%s%s%s): %s",
				 i ? "; " : "", v->name, v->commit, v->since ? ", kernel " : "",
				 v->since ? v->since : "",
				 v->since && strcmp(v->since, v->until) ? " to " : "",
				 v->since && strcmp(v->since, v->until) ? v->until : "",
				 v->summary);
	}
	if (used < POLICY_HELP_SIZE)
		snprintf(help + used, POLICY_HELP_SIZE - used, "; none: %s; default %s", none,
			 standard);
	return help;
}

static const char *const plug_standard[] = {
	[KP_PLUG_ASKED] = "none",
	[KP_PLUG_KERNEL] = "by kernel=, else none",
	[KP_PLUG_ALWAYS] = "by kernel=, else the newest",
};

static void collect_options(void)
{
	static char help[2][POLICY_HELP_SIZE];

	memcpy(all_options, common_options, sizeof(common_options));
	all_options[0].help = policy_help(engine->policies[0], "the stage is off",
					  engine->policies[0]->default_variant, help[0]);
	all_options[1].help = policy_help(&kp_plug_policy, "every bio is a request",
					  plug_standard[engine->plug], help[1]);
	memcpy(all_options + NR_COMMON, engine->options,
	       engine->nr_options * sizeof(*engine->options));
}

/* ---- counters, and loading ----------------------------------------------------------------- */

static pid_t loaded_in;

/* The reports show the counters of these policies: the engine's, and the plug. */
static const struct kp_policy *counted[KP_PLAN_STAGES + 1];

static void collect_counted(void)
{
	unsigned int nr = 0;

	while (engine->policies[nr]) {
		counted[nr] = engine->policies[nr];
		nr++;
	}
	counted[nr] = &kp_plug_policy;
}

static int write_counters(const char *output, void *arg)
{
	int ret = kp_counters_write(arena, counted, output, fio_version_string);

	(void)arg;
	if (ret)
		fprintf(stderr, "kpolicy: counters=%s: not written: %s\n", output, strerror(-ret));
	return 0;
}

/*
 * The parent calls this at exit, after fio printed its summary. Forked jobs leave by _exit() and
 * never call it.
 */
static void report(void)
{
	if (getpid() != loaded_in)
		return;
	kp_arena_finish(arena);
	kp_counters_outputs(arena, write_counters, NULL);
	if (output_format & FIO_OUTPUT_NORMAL)
		kp_counters_print(arena, counted, f_out ? f_out : stdout);
}

static struct ioengine_ops ops = {
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_ASYNCIO_SETS_ISSUE_TIME | FIO_ASYNCIO_SYNC_TRIM,
	.setup = adaptor_setup,
	.init = adaptor_init,
	.post_init = adaptor_post_init,
	.queue = adaptor_queue,
	.commit = adaptor_commit,
	.getevents = adaptor_getevents,
	.event = adaptor_event,
	.cleanup = adaptor_cleanup,
	.open_file = adaptor_open_file,
	.close_file = adaptor_close_file,
	.invalidate = adaptor_invalidate,
	.get_file_size = adaptor_get_file_size,
	.io_u_init = adaptor_io_u_init,
	.io_u_free = adaptor_io_u_free,
	.options = all_options,
};

struct ioengine_ops *kp_adaptor_ops(const struct kp_engine *which)
{
	int ret;

	if (engine)
		return &ops; /* fio calls get_ioengine() for every job */
	ret = kp_arena_create(&arena, 0);
	if (ret) {
		fprintf(stderr,
			"kpolicy: %s: no address space for shared memory: %s; raise "
			"'ulimit -v'\n",
			which->name, strerror(-ret));
		return NULL;
	}
	engine = which;
	loaded_in = getpid();
	collect_options();
	collect_counted();
	ops.name = engine->name;
	ops.option_struct_size = engine->options_size;
	atexit(report);
	return &ops;
}
