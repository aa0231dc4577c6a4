// SPDX-License-Identifier: GPL-2.0-only
/*
 * The set-up of the page cache stage, and its files. Two policies have it as their stage:
 * writeback (P5) chooses how much the flusher writes in a turn, blocksize (P1) how a dirty page
 * becomes bios.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "blocksize.h"
#include "cache_stage.h"
#include "flusher.h"
#include "pages.h"
#include "scan.h"
#include "submit.h"
#include "users.h"

#define READ_AHEAD_KB 128u /* VM_MAX_READAHEAD */
#define NR_TO_WRITE   1024 /* MAX_WRITEBACK_PAGES */
#define DIRTY_BYTES   (256ull << 20)
#define CACHE_BYTES   (1024ull << 20)
#define LEAVE_NS      30000000000u /* how long others may write a file back before it is opened */
#define OTHERS_NS     3000000000u  /* how long an ending fio may take to release a file */
#define RELEASE_NS    100000000u
#define WAIT_US	      5000u

/*
 * posix_fadvise(POSIX_FADV_DONTNEED): drop whole pages only; the last page of the file counts as
 * whole.
 */
static void cache_stage_invalidate(struct kp_stage *stage, struct kp_file *file, uint64_t pos,
				   uint64_t len)
{
	struct cache_stage *cs = cache_stage(stage);
	struct cache_file *cached = open_file(cs, file)->file;
	uint64_t first = (pos + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE;
	uint64_t end = UINT64_MAX;

	if (len && pos + len < cache_load(&cached->size))
		end = (pos + len) / KP_PAGE_SIZE;
	if (first >= end)
		return;
	cache_lock(cs->cache, cached);
	cache_invalidate(cs->cache, cached, first, end - 1);
	cache_unlock(cached);
}

/* ---- files --------------------------------------------------------------------------------- */

/* Start a flusher thread for the device, unless this pipeline has one. */
static int ensure_flusher(struct cache_stage *cs, struct cache_bdi *bdi)
{
	struct flusher_config config = {
		.cache = cs->cache,
		.bdi = bdi,
		.user = cs->user,
		.variant = cs->open_options.variant,
		.nr_to_write = cs->options.nr_to_write,
		.wrap_fault = cs->options.wrap_fault,
		.pipeline = &cs->pipeline,
		.counters_at = cs->counters_at,
	};
	int ret;

	for (unsigned int i = 0; i < cs->nr_flushers; i++) {
		if (cs->bdis[i] == bdi)
			return 0;
	}
	if (cs->nr_flushers == CACHE_MAX_FLUSHERS) {
		kp_log("files on more than %u devices: too many for one job, use several",
		       CACHE_MAX_FLUSHERS);
		return -EMFILE;
	}
	ret = flusher_start(&config, &cs->flushers[cs->nr_flushers]);
	if (!ret)
		cs->bdis[cs->nr_flushers++] = bdi;
	return ret;
}

static int remember_file(struct cache_stage *cs, struct cache_file *file)
{
	for (unsigned int i = 0; i < cs->nr_files; i++) {
		if (cs->files[i] == file)
			return 0;
	}
	if (!(cs->nr_files & (cs->nr_files + 1))) {
		void *more = realloc(cs->files, (2 * cs->nr_files + 2) * sizeof(*cs->files));

		if (!more)
			return -ENOMEM;
		cs->files = more;
	}
	cs->files[cs->nr_files++] = file;
	return 0;
}

/*
 * Open the cached file. Users with other options that are leaving, or were killed, are waited
 * for.
 */
static int open_cached(struct cache_stage *cs, struct kp_file *kp_file, struct cache_file **file)
{
	uint64_t start = kp_now_ns();
	int ret;

	for (;;) {
		ret = cache_open(cs->cache, cs->user, kp_file, &cs->open_options, file);
		if (ret != -EAGAIN && ret != -EBUSY)
			return ret;
		if (kp_pipeline_terminating(cs->stage.pipeline))
			return -EINTR;
		if (ret == -EBUSY && kp_now_ns() > start + OTHERS_NS) {
			kp_log("%s: another engine or another fio has it in a page cache of its "
			       "own, run one after the other",
			       kp_file->path);
			return ret;
		}
		if (ret == -EAGAIN && kp_now_ns() > start + LEAVE_NS) {
			kp_log("%s: another job that is leaving, or was killed, has not written it "
			       "back yet, run one after the other",
			       kp_file->path);
			return -EBUSY;
		}
		ret = *file ? ensure_flusher(cs, (*file)->bdi) : 0;
		if (ret)
			return ret;
		usleep(WAIT_US);
	}
}

/* Close the kept descriptors of files that are written back or gone. */
static void release_kept(struct cache_stage *cs)
{
	cs->nr_kept = 0;
	for (unsigned int i = 0; i < cs->nr_files; i++)
		cs->nr_kept += !cache_release_kept(cs->cache, cs->user, cs->files[i]);
	cs->release_at = kp_now_ns() + RELEASE_NS;
}

static int cache_stage_open(struct kp_stage *stage, struct kp_file *file)
{
	struct cache_stage *cs = cache_stage(stage);
	struct open_file *of = calloc(1, sizeof(*of));
	int ret;

	if (!of)
		return -ENOMEM;
	if (cs->nr_kept && kp_now_ns() >= cs->release_at)
		release_kept(cs);
	ret = open_cached(cs, file, &of->file);
	if (ret) {
		free(of);
		return ret;
	}
	file->stage_data[stage->index] = of;
	of->previous = UINT64_MAX - 1;
	cache_lock(cs->cache, of->file);
	of->error_since = cache_sample_error(of->file);
	cache_unlock(of->file);
	ret = remember_file(cs, of->file);
	/* Readers need a flusher too: the writer may exit first. */
	return ret ? ret : ensure_flusher(cs, of->file->bdi);
}

/* Find another open file of this pipeline for the same cached file. */
static const struct kp_file *find_another(struct cache_stage *cs, const struct kp_file *file)
{
	const struct cache_file *cached = open_file(cs, file)->file;

	for (const struct kp_file *f = cs->stage.pipeline->files; f; f = f->next) {
		const struct open_file *of = open_file(cs, f);

		if (f != file && of && of->file == cached)
			return f;
	}
	return NULL;
}

static void cache_stage_close(struct kp_stage *stage, struct kp_file *file)
{
	struct cache_stage *cs = cache_stage(stage);
	struct open_file *of = open_file(cs, file);

	if (!of)
		return;
	cache_io_drain(&cs->ctx);
	if (cs->nr_kept >= cs->max_kept)
		release_kept(cs);
	cs->nr_kept += cache_close(cs->cache, cs->user, file, of->file, find_another(cs, file),
				   cs->nr_kept < cs->max_kept);
	file->stage_data[stage->index] = NULL;
	free(of);
}

/* ---- set-up -------------------------------------------------------------------------------- */

static unsigned int cache_needs(const struct kp_stage_config *config)
{
	(void)config;
	/*
	 * Writeback submits many bios without waiting. The I/O of a dead user must be over at
	 * some time.
	 */
	return KP_NEEDS_ASYNC_DEVICE | KP_NEEDS_OWN_IO;
}

/* A share of the machine's memory, at most @most, so that machines can be compared. */
static uint64_t share_of_memory(unsigned int percent, uint64_t most)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return most;
	return kp_min(kp_round_down((uint64_t)info.totalram * info.mem_unit / 100 * percent,
				    KP_PAGE_SIZE),
		      most);
}

/*
 * Fill in options that were not given: the kernel's defaults, with bounds on memory so that
 * machines can be compared.
 */
static void fill_options(struct cache_stage *cs, const struct kp_cache_options *options)
{
	static const struct kp_cache_options defaults = {
		.dirty_writeback_centisecs = 500,
		.dirty_expire_centisecs = 3000,
		.read_ahead_kb = READ_AHEAD_KB,
	};
	struct kp_cache_options *o = &cs->options;

	*o = options ? *options : defaults;
	if (!o->dirty_bytes)
		o->dirty_bytes = share_of_memory(20, DIRTY_BYTES);
	if (!o->dirty_background_bytes)
		o->dirty_background_bytes = o->dirty_bytes / 2;
	if (o->dirty_background_bytes >= o->dirty_bytes) /* as domain_dirty_limits() */
		o->dirty_background_bytes = o->dirty_bytes / 2;
	if (!o->cache_bytes)
		o->cache_bytes = share_of_memory(25, CACHE_BYTES);
	if (!o->nr_to_write)
		o->nr_to_write = NR_TO_WRITE;
	if (!o->mapped)
		o->mapped = "auto";
	cs->window = kp_min(o->read_ahead_kb / (KP_PAGE_SIZE / 1024), CACHE_MAX_WINDOW);
}

/* As the user gave them: 0 and NULL stand for the defaults, which are possible. */
static int check_options(const void *options, const struct kp_variant *variant, char *why,
			 size_t why_size)
{
	const struct kp_cache_options *o = options;

	if (!variant)
		return 0; /* policy=none has no page cache */
	if (o->mapped && strcmp(o->mapped, "auto") && strcmp(o->mapped, "none") &&
	    strcmp(o->mapped, "all")) {
		snprintf(why, why_size, "mapped=%s: unknown, give auto, none or all", o->mapped);
		return -EINVAL;
	}
	if (o->dirty_bytes && o->dirty_bytes < 2 * KP_PAGE_SIZE) {
		snprintf(why, why_size, "dirty_bytes=%llu: below two pages, give at least %u",
			 o->dirty_bytes, 2 * KP_PAGE_SIZE);
		return -EINVAL;
	}
	if (o->cache_bytes && o->cache_bytes < 64 * KP_PAGE_SIZE) {
		snprintf(why, why_size, "cache_bytes=%llu: below 64 pages, give at least %u",
			 o->cache_bytes, 64 * KP_PAGE_SIZE);
		return -EINVAL;
	}
	return 0;
}

static const struct kp_variant *find_variant(const struct kp_policy *policy, const char *name)
{
	const struct kp_variant *variant;

	for (unsigned int i = 0; (variant = kp_policy_variant(policy, i)); i++) {
		if (!strcmp(variant->name, name))
			break;
	}
	return variant;
}

/*
 * Choose the variants of both policies: the one that was asked for, and its counterpart. A file
 * system builds bios across blocks. A block device writes page after page (generic_writepages()),
 * which needs no mapping.
 */
static void choose_variants(struct cache_stage *cs, const struct kp_stage_config *config)
{
	struct cache_open_options *o = &cs->open_options;

	o->block_size = cs->options.block_size;
	o->mapped = cs->options.mapped;
	o->nr_to_write = cs->options.nr_to_write;
	o->wrap_fault = cs->options.wrap_fault;
	if (config->policy == &kp_blocksize_policy) {
		o->blocks = config->variant;
		o->variant = find_variant(&kp_writeback_policy, "6.x");
		o->device_blocks = true;
		o->mapped = "all";
	} else {
		o->variant = config->variant;
		o->blocks = find_variant(&kp_blocksize_policy, "folio");
	}
}

/* Half of the descriptors that the process may have. The application needs the others. */
static unsigned int max_kept(void)
{
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) ? 0 : kp_min(files.rlim_cur / 2, CACHE_MAX_FILES);
}

static int cache_init(struct kp_stage *stage, const struct kp_stage_config *config,
		      const struct kp_pipeline_config *pipeline)
{
	struct cache_stage *cs = cache_stage(stage);
	struct cache_limits limits;
	int ret;

	fill_options(cs, config->options);
	choose_variants(cs, config);
	cs->counters_at = kp_counters_at(config->policy);
	cs->pipeline = *pipeline;
	cs->pipeline.nr_stages = 0;
	for (unsigned int i = stage->index + 1; i < pipeline->nr_stages; i++)
		cs->lower[cs->pipeline.nr_stages++] = pipeline->stages[i];
	cs->pipeline.stages = cs->lower;
	ret = cache_find(pipeline->arena, &cs->cache);
	if (ret)
		return ret;
	limits = (struct cache_limits){
		.dirty_bytes = cs->options.dirty_bytes,
		.dirty_background_bytes = cs->options.dirty_background_bytes,
		.cache_bytes = cs->options.cache_bytes,
		.dirty_writeback_centisecs = cs->options.dirty_writeback_centisecs,
		.dirty_expire_centisecs = cs->options.dirty_expire_centisecs,
	};
	ret = cache_join(cs->cache, &limits,
			 &(struct cache_data){ pipeline->data_size, pipeline->data_id }, &cs->user);
	if (ret)
		return ret;
	cs->joined = true;
	cs->max_kept = max_kept();
	cs->ctx.variant = cs->open_options.variant;
	return cache_io_init(&cs->ctx, cs->cache, cs->user, stage->pipeline, stage->next,
			     stage->counters);
}

/* Leave all files. The flusher of a file's device writes it back if no other user can. */
static void leave_files(struct cache_stage *cs)
{
	struct cache_file **last = calloc(cs->nr_files + 1, sizeof(*last));
	bool *is_last = calloc(cs->nr_files + 1, sizeof(*is_last));

	if (!last || !is_last) {
		cs->stage.pipeline->error = -ENOMEM;
		kp_log("late writeback is not possible: %s", strerror(ENOMEM));
	}
	for (unsigned int i = 0; i < cs->nr_files; i++) {
		bool alone = cache_leave_file(cs->cache, cs->user, cs->files[i]);

		if (is_last)
			is_last[i] = alone;
	}
	for (unsigned int f = 0; f < cs->nr_flushers; f++) {
		unsigned int nr = 0;
		int ret;

		for (unsigned int i = 0; last && is_last && i < cs->nr_files; i++) {
			if (is_last[i] && cs->files[i]->bdi == cs->bdis[f])
				last[nr++] = cs->files[i];
		}
		ret = flusher_stop(cs->flushers[f], last, nr);
		if (ret && !cs->stage.pipeline->error)
			cs->stage.pipeline->error = ret;
	}
	for (unsigned int i = 0; i < cs->nr_files; i++)
		cache_left_file(cs->cache, cs->user, cs->files[i]);
	free(last);
	free(is_last);
}

static void cache_exit(struct kp_stage *stage)
{
	struct cache_stage *cs = cache_stage(stage);

	if (cs->joined) {
		leave_files(cs);
		cache_leave(cs->cache, cs->user);
	}
	cache_io_exit(&cs->ctx);
	free(cs->files);
}

static const struct kp_counter_desc cache_counters[] = {
	{ "cache_hits", KP_COUNTER_SUM },
	{ "cache_misses", KP_COUNTER_SUM },
	{ "cache_read_bytes", KP_COUNTER_SUM },
	{ "blocks_read_for_write", KP_COUNTER_SUM },
	{ "pages_dirtied", KP_COUNTER_SUM },
	{ "writeback_calls", KP_COUNTER_SUM },
	{ "writeback_rounds", KP_COUNTER_SUM },
	{ "writeback_pages", KP_COUNTER_SUM },
	{ "writeback_bytes", KP_COUNTER_SUM },
	{ "extents", KP_COUNTER_SUM },
	{ "single_page_extents", KP_COUNTER_SUM },
	{ "needless_locks", KP_COUNTER_SUM },
	{ "syncs", KP_COUNTER_SUM },
	{ "writeback_failed_bytes", KP_COUNTER_SUM },
	{ "late_flush_bytes", KP_COUNTER_SUM },
	{ "late_flush_ns", KP_COUNTER_SUM },
	{ "dirty_wait", KP_COUNTER_TIMES },
};

static const struct kp_stage_ops cache_ops = {
	.name = "page_cache",
	.buffers = true,
	.size = sizeof(struct cache_stage),
	.counters = cache_counters,
	.nr_counters = sizeof(cache_counters) / sizeof(*cache_counters),
	.needs = cache_needs,
	.init = cache_init,
	.open = cache_stage_open,
	.close = cache_stage_close,
	.submit = cache_submit,
	.invalidate = cache_stage_invalidate,
	.exit = cache_exit,
};

static const struct kp_alias writeback_aliases[] = {
	{ "jan", "overrun_once" },
	{ 0 },
};

const struct kp_policy kp_writeback_policy = {
	.name = "writeback",
	.summary = "how many pages a turn of the flusher writes, and when it stops",
	.default_variant = "6.x",
	.ops = &cache_ops,
	.check = check_options,
	.aliases = writeback_aliases,
	.rows = kp_writeback_rows,
	.row_size = sizeof(*kp_writeback_rows),
	.nr_rows = KP_NR_WRITEBACK_ROWS,
};

const struct kp_policy kp_blocksize_policy = {
	.name = "blocksize",
	.summary = "the block size of a block device, hence the size of writeback's bios",
	.default_variant = "logical",
	.ops = &cache_ops,
	.check = check_options,
	.rows = kp_blocksize_rows,
	.row_size = sizeof(*kp_blocksize_rows),
	.nr_rows = KP_NR_BLOCKSIZE_ROWS,
};
