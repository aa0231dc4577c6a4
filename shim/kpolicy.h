/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libkpolicy: Linux I/O policies in userspace.
 *
 * An application makes an arena (shared memory, before it forks), one pipeline per thread that does
 * I/O, opens files in it, and then submits and reaps I/Os. On the way to the device an I/O passes
 * the stages of the pipeline, in the kernel's own order; a policy that is off is not there.
 *
 *	struct kp_pipeline_config config = {
 *		.device.backend = "psync",
 *		.depth = 1,
 *		.max_io_size = 4096,
 *	};
 *	struct kp_pipeline *pl;
 *	struct kp_file *file;
 *	struct kp_io io = { 0 };
 *
 *	kp_arena_create(&config.arena, 0);
 *	kp_pipeline_create(&pl, &config);
 *	kp_file_open(pl, path, O_RDONLY, 0, &file);
 *	kp_io_prepare(&io, KP_OP_READ, file, 0, buffer, 4096);
 *	kp_submit(pl, &io);
 *	kp_commit(pl);
 *	kp_reap(pl, 1, 1, NULL);
 *	kp_pipeline_destroy(pl);
 *	kp_arena_destroy(config.arena);
 *
 * Rules that hold for every function: results are 0 (or a count) or -errno; nothing is printed
 * except through kp_set_log(). The owner of a pipeline is the thread that created it.
 */
#ifndef KPOLICY_H
#define KPOLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with -fvisibility=hidden and exports only what this header declares. */
#pragma GCC visibility push(default)

#define KP_PAGE_SIZE 4096u

struct kp_arena;
struct kp_bio_set;
struct kp_counter_slot;
struct kp_file;
struct kp_pipeline;

/* ---- messages ------------------------------------------------------------------------------ */

/**
 * kp_set_log - say where one-line messages of the library go.
 * @log: called with one complete line, without the newline; NULL for standard error.
 *
 * Call before any pipeline exists. @log may be called from any thread.
 */
void kp_set_log(void (*log)(const char *line));

/* ---- queue limits -------------------------------------------------------------------------- */

/**
 * struct kp_queue_limits - what a block device accepts in one request, as queue_limits in the
 * kernel. All sizes in bytes unless the name says otherwise.
 */
struct kp_queue_limits {
	uint32_t logical_block_size;
	uint32_t physical_block_size;
	uint32_t max_sectors; /* sectors of 512 bytes */
	uint32_t max_segments;
	uint32_t max_segment_size;
	uint32_t chunk_sectors;	    /* no request crosses a multiple of this; 0: no boundary */
	uint64_t seg_boundary_mask; /* no segment crosses it; the kernel's default is 4 GiB - 1 */
	uint64_t
		virt_boundary_mask; /* gap rule: only first and last segment may miss it; 0: none */
};

/**
 * struct kp_limit_options - limits a user sets in place of the device's own. 0: the device's own.
 * @max_sectors_kb, like the sysfs file of that name, is in KiB.
 *
 * In this and in all other option structs the fields have types into which fio's option parser
 * can store: unsigned int for numbers and switches, unsigned long long for sizes and times, and
 * pointers to char for text.
 */
struct kp_limit_options {
	unsigned int logical_block_size;
	unsigned int physical_block_size;
	unsigned int max_sectors_kb;
	unsigned int max_segments;
	unsigned int max_segment_size;
	unsigned int chunk_sectors;
};

/* ---- bio ----------------------------------------------------------------------------------- */

enum kp_op {
	KP_OP_READ,
	KP_OP_WRITE,
	KP_OP_DISCARD,	  /* give the range back; a later read of it may return anything */
	KP_OP_FLUSH,	  /* fsync: completed writes and all metadata become durable */
	KP_OP_FDATASYNC,  /* fdatasync: of the metadata only what a read needs */
	KP_OP_SYNC_RANGE, /* sync_file_range(2) over the range of the bio */
	KP_NR_OPS,
};

/** struct kp_segment - a piece of memory; bio_vec in the kernel, where it lies in one page. */
struct kp_segment {
	void *addr;
	size_t len;
};

/** struct kp_iter - where a bio stands: bvec_iter in the kernel, with bytes instead of sectors. */
struct kp_iter {
	uint64_t pos;  /* byte position on the file or device */
	uint64_t size; /* bytes left */
	uint32_t idx;  /* current segment */
	uint32_t pad;
	size_t done; /* bytes of the current segment that the iterator has passed */
};

/**
 * struct kp_bio - one block I/O.
 *
 * The vector is immutable and may be shared. A bio that was split off has an iterator of its own over
 * the vector of its parent, and the parent lives longer because the two are chained.
 */
struct kp_bio {
	struct kp_iter iter;
	const struct kp_segment *vec;
	uint16_t op;
	uint16_t flags;
	int32_t status;	    /* 0 or -errno; the first error wins */
	uint32_t remaining; /* with children: the bio itself and the children in flight */
	uint32_t nr_vecs;
	uint64_t resid; /* atomic; bytes at the end that were not transferred, as after EOF */
	struct kp_file *file;
	struct kp_bio *parent;		    /* ends when all of its children have ended */
	void (*end_io)(struct kp_bio *bio); /* any thread; must not submit */
	void *private;			    /* of the code that set end_io */
	struct kp_bio *next;	    /* link in the holder's list, or to the request's next bio */
	struct kp_bio_set *set;	    /* the bio came from its pools and goes back to them */
	struct kp_segment *own_vec; /* a vector that is freed with the bio */
	uint32_t own_class;
};

/**
 * struct kp_io - one read, write, trim or sync of the application: its bio and its result.
 *
 * The application owns it, and the buffer, from kp_submit() until kp_reap() hands it back or
 * kp_submit_wait() returns.
 */
struct kp_io {
	struct kp_bio bio;
	struct kp_segment segment;
	struct kp_pipeline *pipeline;
	struct kp_io *next;
	void *private; /* the application's own */
	bool waiting;  /* inside kp_submit_wait() */
	bool done;     /* atomic */
};

/** kp_io_prepare - fill in an I/O. @buffer NULL and @len 0 for the sync operations. */
static inline void kp_io_prepare(struct kp_io *io, enum kp_op op, struct kp_file *file,
				 uint64_t pos, void *buffer, size_t len)
{
	io->segment.addr = buffer;
	io->segment.len = len;
	io->bio.iter = (struct kp_iter){ .pos = pos, .size = len };
	io->bio.vec = &io->segment;
	io->bio.nr_vecs = 1;
	io->bio.op = op;
	io->bio.flags = 0;
	io->bio.file = file;
}

/** kp_io_error - 0 or the -errno of a finished I/O. */
static inline int kp_io_error(const struct kp_io *io)
{
	return io->bio.status;
}

/** kp_io_resid - bytes at its end that a finished I/O did not transfer. */
static inline uint64_t kp_io_resid(const struct kp_io *io)
{
	return io->bio.resid;
}

/* ---- policies and their variants ----------------------------------------------------------- */

/**
 * struct kp_variant - a row of a policy's table: what one range of kernels did.
 * @since, @until: first and last release that did it, both included, NULL where no release did.
 */
struct kp_variant {
	const char *name; /* policy=NAME */
	const char *since;
	const char *until;
	const char *commit;
	const char *summary; /* what it does, one line */
	const char *omits;   /* what it leaves out of what the kernel did, one line, or NULL */
};

struct kp_stage_ops;

/** struct kp_alias - a former name of a variant, which policy= still takes. */
struct kp_alias {
	const char *name;
	const char *variant;
};

/** struct kp_policy - a stage and its table of variants. */
struct kp_policy {
	const char *name;
	const char *option; /* messages call the option that picks the variant so; NULL: "policy" */
	const char *summary;
	const char *default_variant;
	const struct kp_stage_ops *ops;
	const struct kp_alias
		*aliases; /* former names of variants, up to one without a name; or NULL */
	const void *rows; /* each begins with a struct kp_variant */
	size_t row_size;
	unsigned int nr_rows;
	/* See kp_policy_check(). Optional. */
	int (*check)(const void *options, const struct kp_variant *variant, char *why,
		     size_t why_size);
	/* Keep what is to outlive the run: see kp_arena_finish(). Optional. */
	void (*finish)(struct kp_arena *arena);
};

/** kp_policies - every policy of this library, in the order of the pipeline, then NULL. */
extern const struct kp_policy *const kp_policies[];

extern const struct kp_policy kp_diolock_policy;
extern const struct kp_policy kp_writeback_policy;
extern const struct kp_policy kp_checksum_policy;
extern const struct kp_policy kp_blocksize_policy;
extern const struct kp_policy kp_split_policy;
extern const struct kp_policy kp_plug_policy;

/** kp_policy_variant - row @i of @policy, NULL past the last. Any thread. */
const struct kp_variant *kp_policy_variant(const struct kp_policy *policy, unsigned int i);

/**
 * kp_policy_find - the variant that a user asked for.
 * @name: policy=NAME, or NULL.
 * @kernel: kernel=VERSION such as 4.3-rc1, 4.9 or 5.10.7, or NULL.
 * @variant: receives the row; NULL for name "none", which switches the stage off.
 * @why: receives one line that lists what is known.
 *
 * With neither, the policy's default. Return: 0; -ENOENT unknown; -EINVAL both given and they
 * disagree. Any thread.
 */
int kp_policy_find(const struct kp_policy *policy, const char *name, const char *kernel,
		   const struct kp_variant **variant, char *why, size_t why_size);

/**
 * kp_policy_check - do the options of a policy go with the variant?
 * @options: the policy's own struct, or NULL.
 * @variant: a row of @policy, or NULL for none.
 * @why: receives one line that names option, value and remedy.
 *
 * kp_pipeline_create() asks the same. Return: 0 or -EINVAL. Any thread.
 */
int kp_policy_check(const struct kp_policy *policy, const void *options,
		    const struct kp_variant *variant, char *why, size_t why_size);

/** kp_version_compare - order two kernel versions; a missing patch level matches any. */
int kp_version_compare(const char *a, const char *b);

/* ---- arena --------------------------------------------------------------------------------- */

/**
 * kp_arena_create - reserve memory that forked children share.
 * @size: bytes of address space; 0: 4 TiB, or what there is of it. Memory is used as it is
 * touched.
 *
 * Call it before any fork(). The arena leaves nothing behind in any file system.
 * Return: 0 or -ENOMEM.
 */
int kp_arena_create(struct kp_arena **arena, size_t size);

/** kp_arena_destroy - unmap the arena in this process. No pipeline may use it any more. */
void kp_arena_destroy(struct kp_arena *arena);

/**
 * kp_arena_alloc - zeroed memory at the same address in every process, page aligned.
 *
 * Any thread of any process that inherited the arena. Return: NULL when the space is used up.
 */
void *kp_arena_alloc(struct kp_arena *arena, size_t size);

/**
 * kp_arena_finish - after the last pipeline of all processes: policies write down what is to
 * outlive the run, such as sums=FILE. What cannot be written is logged. Any one thread.
 */
void kp_arena_finish(struct kp_arena *arena);

/* ---- counters ------------------------------------------------------------------------------ */

#define KP_SIZE_BUCKETS 16 /* 512 B and less, 1 KiB, ... 8 MiB, more */

/* Values that a counter takes up: a number is one, a histogram of sizes has its buckets. */
#define KP_COUNTER_WIDTH_SUM   1
#define KP_COUNTER_WIDTH_SIZES KP_SIZE_BUCKETS

/**
 * KP_CORE_COUNTERS - the counters that every pipeline has, whatever its stages.
 *
 *	ios, bytes		I/Os of the application that completed, and what they transferred
 *	bios, requests		that reached the device; the plug merges bios into one request
 *	splits, vecs_copied	cuts at a queue limit, and segments of a vector copied for them
 *	bio_sizes, request_sizes	histograms
 */
#define KP_CORE_COUNTERS(X)                   \
	X(KP_IOS, "ios", SUM)                 \
	X(KP_BYTES, "bytes", SUM)             \
	X(KP_BIOS, "bios", SUM)               \
	X(KP_REQUESTS, "requests", SUM)       \
	X(KP_SPLITS, "splits", SUM)           \
	X(KP_VECS_COPIED, "vecs_copied", SUM) \
	X(KP_BIO_SIZES, "bio_sizes", SIZES)   \
	X(KP_REQUEST_SIZES, "request_sizes", SIZES)

/** enum kp_core_counter - where the values of each begin in a slot. */
/* clang-format off */
enum kp_core_counter {
#define KP_COUNTER_ENUM(ID, NAME, KIND) ID, ID##_END = ID + KP_COUNTER_WIDTH_##KIND - 1,
	KP_CORE_COUNTERS(KP_COUNTER_ENUM)
#undef KP_COUNTER_ENUM
	KP_NR_CORE_COUNTERS,
};
/* clang-format on */

#define KP_MAX_COUNTERS 2048

/** struct kp_counter_run - events of one size in a row. Atomic, relaxed. */
struct kp_counter_run {
	uint64_t nr, bytes; /* bytes of each */
};

/** struct kp_counter_slot - the counters of one pipeline, in the arena. One thread writes. */
struct kp_counter_slot {
	char job[64];
	char engine[16];
	char policy[32];
	char kernel[16];
	char backend[16];
	char output[256];    /* counters=FILE */
	uint32_t job_number; /* slots of the same number are one job */
	uint32_t nr_values;
	uint64_t values[KP_MAX_COUNTERS]; /* atomic, relaxed */
	/* The latest ones, all of one size, which are not in @values yet. */
	struct kp_counter_run ios, requests;
	struct kp_counter_run transfers; /* both an I/O and a request */
};

/** kp_counters_slot - a new slot, which lives as long as the arena. Return: NULL when none is left. */
struct kp_counter_slot *kp_counters_slot(struct kp_arena *arena);

/**
 * kp_counters_write - write the counters of an arena as JSON.
 * @policies: whose counters follow the core ones, then NULL.
 * @output: only the slots that name this file; NULL for all.
 * @generator: the value of the "fio" member.
 *
 * The file appears whole or not at all. Call it from one thread, after the jobs have ended.
 * Return: 0 or -errno.
 */
int kp_counters_write(struct kp_arena *arena, const struct kp_policy *const *policies,
		      const char *output, const char *generator);

/** kp_counters_print - the same for people: a few lines to @to, zero counters left out. */
void kp_counters_print(struct kp_arena *arena, const struct kp_policy *const *policies, FILE *to);

/** kp_counters_outputs - call @visit once for every file that a slot names. */
int kp_counters_outputs(struct kp_arena *arena, int (*visit)(const char *output, void *arg),
			void *arg);

/* ---- pipeline ------------------------------------------------------------------------------ */

/** struct kp_null_options - the null device, in null_blk's vocabulary. */
struct kp_null_options {
	unsigned long long read_nsec;	/* latency of a read */
	unsigned long long write_nsec;	/* latency of a write or discard */
	unsigned long long submit_nsec; /* serial time the device spends on each request */
	unsigned int mbps;		/* bandwidth in MB/s (10^6), 0: unlimited */
	unsigned int queue_depth;	/* requests served at once; 0: 64 */
	unsigned int memory_backed;	/* 1: contents are kept */
	unsigned int synchronous;	/* 1: complete inside submission */
	const char *badblocks;		/* sectors that fail: "16-23,1024-1031"; NULL: none */
};

/** struct kp_device_config - the bottom stage. */
struct kp_device_config {
	const char *backend; /* a name of kp_backends */
	struct kp_limit_options limits;
	struct kp_null_options null;
	/* Flags of sync_file_range(2) for KP_OP_SYNC_RANGE; 0: all three, write and wait. */
	unsigned int sync_range_flags;
	const char *fault; /* for tests: "corrupt", "error:N", "short:N"; NULL: none */
};

/** kp_backends - the names of the devices, then NULL. */
extern const char *const kp_backends[];

/** enum kp_backend_caps - what a device is like. */
enum kp_backend_caps {
	KP_BACKEND_NO_FILE = 1 << 0,	 /* it opens no file and needs none: a path is a name */
	KP_BACKEND_SYNCHRONOUS = 1 << 1, /* an I/O has ended when its submission returns */
	KP_BACKEND_OWN_IO = 1 << 2,	 /* when a process has ended, its I/O is over */
};

/** kp_backend_caps - the enum kp_backend_caps of a device; 0 for an unknown name. Any thread. */
unsigned int kp_backend_caps(const char *name);

/**
 * kp_device_check - are the options of a device possible?
 * @why: receives one line that names option, value and remedy.
 *
 * kp_pipeline_create() asks the same. Return: 0 or -EINVAL. Any thread.
 */
int kp_device_check(const struct kp_device_config *config, char *why, size_t why_size);

/** struct kp_stage_config - a policy that is switched on. */
struct kp_stage_config {
	const struct kp_policy *policy;
	const struct kp_variant *variant;
	const void *options; /* the policy's own struct, such as kp_split_options; NULL: defaults */
};

/** struct kp_diolock_options - options of the diolock policy. */
struct kp_diolock_options {
	const char *rwsem;  /* behaviour of the lock: "4.9", "5.3", "5.11"; NULL: by kernel */
	const char *kernel; /* whose rw_semaphore; NULL: that of the variant's first kernels */
};

/** struct kp_split_options - options of the split policy. */
struct kp_split_options {
	/*
	 * Pages that adjoin in the buffer are taken as adjoining in memory too, as they do in huge
	 * pages. Otherwise, as with ordinary pages, each page is a segment of its own.
	 */
	unsigned int adjacent_pages;
	/*
	 * A page cache stands above: its bios are made of pages already and are cut as they come.
	 * An I/O of the application is not; bios are made of it, also of a single page.
	 */
	unsigned int below_cache;
};

/**
 * struct kp_cache_options - options of the writeback and blocksize policies: the page cache.
 *
 * The first five are one for all jobs, as the sysctls are.
 */
struct kp_cache_options {
	unsigned long long dirty_bytes; /* writers wait above; 0: 20 % of memory, at most 256 MiB */
	unsigned long long dirty_background_bytes; /* the flusher works above; 0: dirty_bytes / 2 */
	unsigned long long cache_bytes; /* clean pages kept; 0: 25 % of memory, at most 1 GiB */
	unsigned int dirty_writeback_centisecs; /* between looks for old pages; 0: never */
	unsigned int dirty_expire_centisecs;	/* what is old */
	unsigned int read_ahead_kb;
	unsigned int nr_to_write; /* budget of one file's turn, pages; 0: 1024 */
	unsigned int block_size;  /* 0: of the file system, or initial size of the policy */
	const char *mapped;	  /* which pages need no allocation: "auto", "none", "all" */
	unsigned int wrap_fault; /* of 3.11: the wrap to page 0 although nothing is left to spend */
};

/** struct kp_plug_options - options of the plug. */
struct kp_plug_options {
	unsigned int adjacent_pages; /* as in kp_split_options */
};

/** How the copies and stripes of the file system lie: BTRFS_BLOCK_GROUP_* */
enum kp_raid_profile {
	KP_RAID_SINGLE,
	KP_RAID_RAID0,
	KP_RAID_RAID1,
	KP_RAID_RAID10,
	KP_RAID_DUP,
	KP_RAID_RAID5,
	KP_RAID_RAID6,
};

/** The later kernel's knob: BTRFS_OFFLOAD_CSUM_FORCE_* */
enum kp_offload_csum {
	KP_OFFLOAD_CSUM_AUTO,
	KP_OFFLOAD_CSUM_ON,
	KP_OFFLOAD_CSUM_OFF,
};

/** struct kp_checksum_options - options of the checksum policy. All zero: the defaults. */
struct kp_checksum_options {
	unsigned int generic; /* CRC32C by table, as on a CPU without instructions for it */
	unsigned long long async_threshold; /* bytes, for the variant 'threshold'; 0: 64 KiB */
	unsigned int sync_writers;	    /* 3.19: O_SYNC, or an fsync that runs, cancels async */
	unsigned int writeback; /* bios are not REQ_SYNC, as those of direct I/O all are */
	enum kp_offload_csum offload_csum;
	enum kp_raid_profile raid_profile;
	unsigned int raid_devices;	    /* 0: 4 */
	unsigned int workers;		    /* 0: min(online CPUs + 2, 8) */
	unsigned int workers_threshold;	    /* of the queue: btrfs_alloc_workqueue(); 0: 16 */
	unsigned int mirrors;		    /* copies kept; 0: 1 */
	unsigned long long mirror_distance; /* from copy to copy; 0: file size / mirrors */
	unsigned int read_mirror;	    /* the copy that is read first */
	const char *sums; /* file, or folder of files, that keeps sums across runs */
};

struct kp_pipeline_config {
	struct kp_arena *arena;
	struct kp_counter_slot *slot;	      /* NULL: count into memory of the pipeline's own */
	const struct kp_stage_config *stages; /* in the order of kp_policies */
	unsigned int nr_stages;
	struct kp_device_config device;
	unsigned int depth;   /* I/Os in flight at most */
	uint64_t max_io_size; /* bytes of the largest I/O; pools are sized by it */
	uint64_t data_size;   /* bytes it will touch, for memory of a cache; 0: unknown */
	uint64_t data_id;     /* pipelines with the same id touch the same data; 0: none does */
	const volatile bool *terminate; /* set by anyone: waits end. NULL: never */
};

/**
 * kp_pipeline_create - make the pipeline of the calling thread, its owner.
 *
 * Return: 0; -EINVAL a stage or device refuses its options (the log says why); -ENOMEM; what the
 * device's interface answered.
 */
int kp_pipeline_create(struct kp_pipeline **pl, const struct kp_pipeline_config *config);

/**
 * kp_pipeline_buffers - tell the device where the application's buffers lie.
 *
 * io_uring registers them with the kernel; elsewhere, and where that fails, nothing changes.
 * Owner, before the first I/O.
 */
void kp_pipeline_buffers(struct kp_pipeline *pl, void *start, size_t size);

/**
 * kp_pipeline_destroy - wait for what is in flight and free everything. A page cache writes back
 * what nobody else is left to write.
 *
 * Owner, or another thread when that has ended. Return: 0, or the error of that writeback: data is
 * lost.
 */
int kp_pipeline_destroy(struct kp_pipeline *pl);

/**
 * kp_file_open - open a file or block device in a pipeline.
 * @flags: as open(2). O_DIRECT is added; where the file system has none, the log says 'not
 * direct' once. The null device opens nothing and looks for nothing.
 * @size: for the null device the size of its model; otherwise 0.
 *
 * Owner. Return: 0; -EINVAL or -EBUSY when the limits or a stage refuse it, logged; another -errno.
 */
int kp_file_open(struct kp_pipeline *pl, const char *path, int flags, uint64_t size,
		 struct kp_file **file);

/**
 * kp_file_close - wait for what is in flight, then close it. Owner, or another thread when that has
 * ended. Return: 0 or -errno.
 */
int kp_file_close(struct kp_file *file);

/**
 * kp_file_invalidate - drop what stages keep of a range and could read again, as
 * posix_fadvise(POSIX_FADV_DONTNEED): clean pages go, dirty ones stay. Owner.
 */
void kp_file_invalidate(struct kp_file *file, uint64_t pos, uint64_t len);

/** kp_file_fd - its descriptor, -1 on the null device. */
int kp_file_fd(const struct kp_file *file);

/** kp_file_limits - the queue limits in force on it. */
const struct kp_queue_limits *kp_file_limits(const struct kp_file *file);

/**
 * kp_submit - hand an I/O to the first stage.
 *
 * It may be held until kp_commit(). A policy that must wait does so here.
 * Owner. Return: 0; -EBUSY when 'depth' I/Os are in flight: reap first.
 */
int kp_submit(struct kp_pipeline *pl, struct kp_io *io);

/** kp_commit - end of a batch: everything held goes to the device. Owner. 0 or -errno. */
int kp_commit(struct kp_pipeline *pl);

/** kp_submit_wait - do one I/O and wait for it. Never busy. Owner. Return: kp_io_error(). */
int kp_submit_wait(struct kp_pipeline *pl, struct kp_io *io);

/**
 * kp_transfer - one read or write in place, as pread(2) and pwrite(2).
 *
 * As kp_submit_wait(), at less cost where no stage stands above a device that ends I/Os in
 * submission. Owner. Return: bytes transferred, fewer than @len when the file ended; -errno.
 */
ssize_t kp_transfer(struct kp_file *file, void *buffer, size_t len, uint64_t pos, enum kp_op op);

/**
 * kp_reap - collect finished I/Os.
 * @min: wait until this many are there, or as many as there can be. @max: take at most this many.
 * @timeout: of the whole wait; NULL to wait without limit.
 *
 * Before it waits it does what kp_commit() does.
 *
 * Owner. Return: how many, readable with kp_reaped() until the next call; -errno.
 */
int kp_reap(struct kp_pipeline *pl, unsigned int min, unsigned int max,
	    const struct timespec *timeout);

/** kp_reaped - I/O @i of those that kp_reap() just returned. */
struct kp_io *kp_reaped(struct kp_pipeline *pl, unsigned int i);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
