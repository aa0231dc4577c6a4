/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the author of a stage or a device needs beyond kpolicy.h. Not installed.
 *
 * Who may call what: unless a hook says otherwise it runs on the owner's thread. A pipeline whose
 * stages have threads of their own is 'shared': its pools and its device then take their lock.
 */
#ifndef KP_STAGE_H
#define KP_STAGE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "kpolicy.h"

#define KP_MAX_STAGES 8

#define kp_min(a, b)		   ((a) < (b) ? (a) : (b))
#define kp_max(a, b)		   ((a) > (b) ? (a) : (b))
#define kp_round_down(x, multiple) ((x) - (x) % (multiple))
#define kp_round_up(x, multiple)   kp_round_down((x) + (multiple)-1, multiple)

#define kp_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* For the inner loops of a walk over a vector, whose state then stays in registers. */
#define kp_always_inline inline __attribute__((always_inline))

#define KP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* kp_log - one line for the user; kp_set_log() says where it goes. Any thread. */
void kp_log(const char *format, ...) KP_PRINTF(1, 2);

/* ---- pools --------------------------------------------------------------------------------- */

/*
 * struct kp_pool - objects of one size, sized once, handed out last-in first-out so that the
 * memory touched does not grow with the run.
 */
struct kp_pool {
	void *free;	   /* list through the objects' first word */
	char *fresh, *end; /* memory never handed out yet */
	size_t object_size;
	void *memory;
	size_t memory_size;
	bool shared;
	/* Protects 'free' and 'fresh' of a shared pool. Nothing nests inside it. */
	pthread_spinlock_t lock;
};

int kp_pool_init(struct kp_pool *pool, size_t object_size, size_t count, bool shared);
void kp_pool_exit(struct kp_pool *pool);

static inline void *kp_pool_get_unlocked(struct kp_pool *pool)
{
	void *object = pool->free;

	if (object) {
		pool->free = *(void **)object;
	} else if (pool->fresh != pool->end) {
		object = pool->fresh;
		pool->fresh += pool->object_size;
	}
	return object;
}

/* kp_pool_get - an object with old contents, or NULL when all are out. Any thread if shared. */
static inline void *kp_pool_get(struct kp_pool *pool)
{
	void *object;

	if (!pool->shared)
		return kp_pool_get_unlocked(pool);
	pthread_spin_lock(&pool->lock);
	object = kp_pool_get_unlocked(pool);
	pthread_spin_unlock(&pool->lock);
	return object;
}

static inline void kp_pool_put(struct kp_pool *pool, void *object)
{
	if (!pool->shared) {
		*(void **)object = pool->free;
		pool->free = object;
		return;
	}
	pthread_spin_lock(&pool->lock);
	*(void **)object = pool->free;
	pool->free = object;
	pthread_spin_unlock(&pool->lock);
}

/* ---- bio operations ------------------------------------------------------------------------ */

/* Vectors come in the size classes of the kernel's biovec slabs. */
#define KP_VEC_CLASSES 6
extern const uint16_t kp_vec_class_size[KP_VEC_CLASSES];

/* struct kp_bio_set - where a stage gets its bios and vectors, as bio_set in the kernel. */
struct kp_bio_set {
	struct kp_pool bios;
	struct kp_pool vecs[KP_VEC_CLASSES];
	struct kp_stage *stage;
};

/*
 * kp_bio_set_init - pools for @bios bios, of which @vecs[i] may have a vector of class i.
 *
 * A pool that runs out makes the stage wait for its own completions, so sizes decide speed, not
 * success; each must hold at least what one bio needs.
 */
int kp_bio_set_init(struct kp_bio_set *set, struct kp_stage *stage, size_t bios,
		    const size_t vecs[KP_VEC_CLASSES]);
void kp_bio_set_exit(struct kp_bio_set *set);

/* kp_vec_class - the smallest class that holds @nr_vecs (1 to KP_BIO_MAX_VECS) segments. */
unsigned int kp_vec_class(unsigned int nr_vecs);

/*
 * kp_bio_alloc - a bio without position or data, with room for @nr_vecs segments of its own
 * (0: none; it will share one). Waits in place for completions when the pool is empty.
 *
 * Return: NULL when nothing is in flight that could return one.
 */
struct kp_bio *kp_bio_alloc(struct kp_bio_set *set, unsigned int nr_vecs);

/* kp_bio_free - back to its pools. Any thread when the pipeline is shared. */
void kp_bio_free(struct kp_bio *bio);

/*
 * kp_bio_chain - @parent ends only after @bio has, and gets its error; @bio is freed when it ends.
 * As bio_chain() in the kernel.
 */
void kp_bio_chain(struct kp_bio *bio, struct kp_bio *parent);

/*
 * kp_bio_endio - @bio, or its last outstanding child, is done; set bio->status before.
 * Climbs to the parents in a loop, as bio_endio() does. Any thread.
 */
void kp_bio_endio(struct kp_bio *bio);

/* kp_bio_error - note an error on @bio; the first one stays. Any thread. */
static inline void kp_bio_error(struct kp_bio *bio, int error)
{
	int32_t none = 0;

	__atomic_compare_exchange_n(&bio->status, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* kp_bio_missing - @bytes more at the end of @bio were not transferred. Any thread. */
static inline void kp_bio_missing(struct kp_bio *bio, uint64_t bytes)
{
	__atomic_fetch_add(&bio->resid, bytes, __ATOMIC_RELAXED);
}

/* kp_bio_fail - end @bio with an error. */
static inline void kp_bio_fail(struct kp_bio *bio, int error)
{
	kp_bio_error(bio, error);
	kp_bio_endio(bio);
}

/* kp_iter_segment - the current segment, clipped to what the iterator covers. */
static inline struct kp_segment kp_iter_segment(const struct kp_segment *vec,
						const struct kp_iter *iter)
{
	const struct kp_segment *segment = vec + iter->idx;
	size_t len = segment->len - iter->done;

	return (struct kp_segment){
		.addr = (char *)segment->addr + iter->done,
		.len = kp_min(len, iter->size),
	};
}

/* kp_iter_advance - move @bytes, at most iter->size, on. */
void kp_iter_advance(const struct kp_segment *vec, struct kp_iter *iter, uint64_t bytes);

/* kp_iter_step - move past the segment that kp_iter_segment() returned. */
static inline void kp_iter_step(const struct kp_segment *vec, struct kp_iter *iter, size_t len)
{
	iter->pos += len;
	iter->size -= len;
	iter->done += len;
	if (iter->done == vec[iter->idx].len) {
		iter->idx++;
		iter->done = 0;
	}
}

/* kp_iter_next - the same in a walk that only ever takes whole segments. */
static inline void kp_iter_next(struct kp_iter *iter, size_t len)
{
	iter->pos += len;
	iter->size -= len;
	iter->idx++;
	iter->done = 0;
}

/* Walk the segments of a bio with a private iterator: bio_for_each_segment(). */
#define kp_for_each_segment(seg, vec, it, start)                                    \
	for ((it) = (start); (it).size && ((seg) = kp_iter_segment(vec, &(it)), 1); \
	     kp_iter_next(&(it), (seg).len))

/* ---- stages -------------------------------------------------------------------------------- */

struct kp_stage {
	const struct kp_stage_ops *ops;
	struct kp_stage *next; /* NULL only for the device */
	struct kp_pipeline *pipeline;
	const struct kp_variant *variant;
	uint64_t *counters; /* this stage's own, in the pipeline's slot */
	unsigned int index; /* position in the pipeline; file->stage_data[index] is ours */
};

/* What a stage needs of the pipeline around it; known after init. */
enum kp_stage_needs {
	/* Submission must return before completion, also for synchronous I/O. */
	KP_NEEDS_ASYNC_DEVICE = 1 << 0,
	/* Threads of its own submit or complete. */
	KP_NEEDS_SHARED = 1 << 1,
	/*
	 * When a process has gone, however it ended, its I/O must be over. libaio's is: exit_aio()
	 * waits; that of io_uring is left to a kernel worker (io_ring_exit_work()).
	 */
	KP_NEEDS_OWN_IO = 1 << 2,
};

/**
 * struct kp_stage_ops - a stage.
 *
 * Errors of an I/O travel in its bio's status, never as a return value of submit: whoever has a
 * bio ends it exactly once.
 */
struct kp_stage_ops {
	const char *name;
	/*
	 * Writes complete before the device has them, and the stage carries out O_SYNC and O_DSYNC:
	 * files are opened without.
	 */
	bool buffers;
	size_t size; /* of the stage's struct, which begins with struct kp_stage */
	const struct kp_counter_desc *counters;
	unsigned int nr_counters;

	/* What this configuration needs, before anything exists: enum kp_stage_needs. Optional. */
	unsigned int (*needs)(const struct kp_stage_config *config);
	/* Set up the zeroed private part. 0 or -errno, logged. Optional. */
	int (*init)(struct kp_stage *stage, const struct kp_stage_config *config,
		    const struct kp_pipeline_config *pipeline);
	/* A file is opened or closed: attach what the policy keeps about it. Optional. */
	int (*open)(struct kp_stage *stage, struct kp_file *file);
	void (*close)(struct kp_stage *stage, struct kp_file *file);
	/*
	 * Take a bio: hand it to stage->next, hold it, end it, or cut it into children. Submitted
	 * on the owner's thread, in a shared pipeline by any thread. Required.
	 */
	void (*submit)(struct kp_stage *stage, struct kp_bio *bio);
	/*
	 * End of a batch: hand on everything held. Must not call the next stage's flush, the
	 * pipeline does. Optional: a stage that holds nothing has none.
	 */
	void (*flush)(struct kp_stage *stage);
	/*
	 * Does it hold bios that its own threads will hand on? They count as in flight when the
	 * pipeline is drained. Optional: a stage without threads has none.
	 */
	bool (*busy)(struct kp_stage *stage);
	/*
	 * Drop what is kept of a range and could be read again. What is dirty stays. Optional: a
	 * stage that keeps no data has none.
	 */
	void (*invalidate)(struct kp_stage *stage, struct kp_file *file, uint64_t pos,
			   uint64_t len);
	/* Derived counters are brought up to date. Optional. */
	void (*stats)(struct kp_stage *stage);
	/* Free everything; also called after a failed init. Optional. */
	void (*exit)(struct kp_stage *stage);
};

static inline void kp_stage_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	stage->ops->submit(stage, bio);
}

/*
 * kp_count - add to a counter that only one thread at a time writes. Plain instructions, yet
 * defined when the parent looks at it meanwhile.
 */
static inline void kp_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* kp_count_max - the same for a maximum. */
static inline void kp_count_max(uint64_t *counter, uint64_t value)
{
	if (value > __atomic_load_n(counter, __ATOMIC_RELAXED))
		__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* kp_counters_width - values that some counters take up in a slot. */
unsigned int kp_counters_width(const struct kp_counter_desc *counters, unsigned int nr);

/* kp_counters_at - where the counters of @policy begin: in every slot at the same place. */
unsigned int kp_counters_at(const struct kp_policy *policy);

/* kp_count_time - add @ns to a KP_COUNTER_TIMES that only one thread at a time writes. */
void kp_count_time(uint64_t *counter, uint64_t ns);

/* kp_size_bucket - where a size belongs in a KP_COUNTER_SIZES histogram. */
static inline unsigned int kp_size_bucket(uint64_t bytes)
{
	unsigned int bits = 64 - __builtin_clzll((bytes - !!bytes) | (KP_SECTOR_SIZE - 1));

	return kp_min(bits - KP_SECTOR_SHIFT, KP_SIZE_BUCKETS - 1u);
}

/* ---- device -------------------------------------------------------------------------------- */

/* struct kp_device - the bottom stage; a device's own struct begins with it. */
struct kp_device {
	struct kp_stage stage;
	const struct kp_device_ops *ops;
	struct kp_device_config config;
	unsigned int depth;	/* requests in flight at most */
	unsigned int in_flight; /* submitted, held requests included; written locked, read by all */
	/*
	 * An eventfd that other threads write to end a wait in reap; -1 when nobody else posts.
	 */
	int wake_fd;
	uint64_t *values;	 /* counters of the job, those of bios and requests among them */
	uint64_t transfer_limit; /* bytes that one system call may move; for tests */
	bool shared;
	/*
	 * When shared: protects request slots, held requests and in_flight; taken around submit,
	 * flush and the return of slots, never while waiting for completions. Nests inside a
	 * stage's own lock; nothing nests inside it.
	 */
	pthread_mutex_t lock;
	/* With lock: the owner ended requests; for waiting threads but the owner. */
	pthread_cond_t progress;
	unsigned int progress_seq;
	unsigned int waiting; /* such threads: each request that ends may be what one waits for */
};

/**
 * struct kp_device_ops - a device.
 *
 * Its stage's submit takes a request: one bio, or several linked by bio->next that are contiguous
 * on the device, of one operation and one file. A synchronous device ends it there; another may
 * hold it until flush, which hands everything held to the kernel in as few system calls as it
 * can. A device without a free slot waits in place with kp_pipeline_wait().
 */
struct kp_device_ops {
	struct kp_stage_ops stage;
	bool synchronous; /* submit returns with the request ended */
	/* Open what the kernel needs for a file, such as a registered descriptor. Optional. */
	int (*open)(struct kp_device *device, struct kp_file *file);
	void (*close)(struct kp_device *device, struct kp_file *file);
	/*
	 * End at least @min requests (0: those that are ready), waiting up to @timeout (NULL: no
	 * limit) or until somebody writes wake_fd. Return: requests ended, or -errno. Required
	 * unless synchronous.
	 */
	int (*reap)(struct kp_device *device, unsigned int min, const struct timespec *timeout);
	/* Memory that I/Os will come from, to be registered with the kernel. Optional. */
	int (*buffers)(struct kp_device *device, void *start, size_t size);
};

extern const struct kp_device_ops kp_psync_device;
extern const struct kp_device_ops kp_libaio_device;
extern const struct kp_device_ops kp_io_uring_device;
extern const struct kp_device_ops kp_null_device;

/* For tests: a stage above the device that corrupts or fails I/O. See shim/device/fault.c. */
extern const struct kp_stage_ops kp_fault_stage;
int kp_fault_check(const char *fault);

/* kp_pipeline_wake - end a wait of the owner. Any thread of its process, when shared. */
void kp_pipeline_wake(struct kp_pipeline *pl);

/* kp_pipeline_owned - is the caller the owner? */
bool kp_pipeline_owned(const struct kp_pipeline *pl);

static inline struct kp_device *kp_stage_device(struct kp_stage *stage)
{
	return kp_container_of(stage, struct kp_device, stage);
}

static inline void kp_device_lock(struct kp_device *device)
{
	if (device->shared)
		pthread_mutex_lock(&device->lock);
}

static inline void kp_device_unlock(struct kp_device *device)
{
	if (device->shared)
		pthread_mutex_unlock(&device->lock);
}

/*
 * kp_device_fence - after a completion came in: what its submitter wrote before is seen from here
 * on. The kernel has ordered it, the language does not know.
 */
static inline void kp_device_fence(struct kp_device *device)
{
	kp_device_lock(device);
	kp_device_unlock(device);
}

/* kp_request_bytes - length of a request. */
static inline uint64_t kp_request_bytes(const struct kp_bio *bio)
{
	uint64_t bytes = 0;

	for (; bio; bio = bio->next)
		bytes += bio->iter.size;
	return bytes;
}

void kp_device_account_merged(struct kp_device *device, const struct kp_bio *bio);

/* kp_device_account - count a request and its bios, with the device locked. */
static inline void kp_device_account(struct kp_device *device, const struct kp_bio *bio)
{
	uint64_t *values = device->values;
	unsigned int bucket;

	if (!kp_op_has_data(bio->op))
		return;
	if (bio->next) {
		kp_device_account_merged(device, bio);
		return;
	}
	bucket = kp_size_bucket(bio->iter.size);
	kp_count(&values[KP_BIOS], 1);
	kp_count(&values[KP_REQUESTS], 1);
	kp_count(&values[KP_BIO_SIZES + bucket], 1);
	kp_count(&values[KP_REQUEST_SIZES + bucket], 1);
}

struct iovec;

/*
 * kp_request_iov - the memory of a request from byte @skip on, adjacent pieces joined.
 *
 * Return: how many of the KP_REQUEST_IOV entries of @iov are in use. What does not fit into them,
 * or into the device's transfer limit, is left for a continuation, as after a short transfer.
 */
#define KP_REQUEST_IOV 256
unsigned int kp_request_iov(const struct kp_device *device, const struct kp_bio *bio, uint64_t skip,
			    struct iovec *iov);

/* kp_request_is_plain - is @bio one whole segment, as an I/O that no stage touched? */
static inline bool kp_request_is_plain(const struct kp_device *device, const struct kp_bio *bio)
{
	return bio->nr_vecs == 1 && !bio->next && !device->transfer_limit;
}

/*
 * kp_request_end - end every bio of a request.
 * @bytes: how many bytes were transferred. Data missing at the end becomes the bios' resid.
 * @error: 0 or -errno, for the bios that lie behind @bytes.
 *
 * A bio may have heard from its children already: what they said stays.
 */
void kp_request_end(struct kp_bio *bio, uint64_t bytes, int error);

static inline void kp_device_add_in_flight(struct kp_device *device, int nr)
{
	__atomic_store_n(&device->in_flight, device->in_flight + nr, __ATOMIC_RELAXED);
}

/*
 * kp_device_started - a request entered the device, with the device locked. @news: an owner that
 * already waits must hear of it.
 */
static inline void kp_device_started(struct kp_device *device, bool news)
{
	kp_device_add_in_flight(device, 1);
	if (device->shared && news && !kp_pipeline_owned(device->stage.pipeline))
		kp_pipeline_wake(device->stage.pipeline);
}

/*
 * kp_device_ended - @nr requests left the device, their slots and bios are free: adjusts in_flight,
 * wakes who waits for any of that.
 */
void kp_device_ended(struct kp_device *device, unsigned int nr);

/*
 * kp_transfer_more - what to do after the kernel moved @result bytes at @done of @bytes.
 *
 * Return: true to go on with the rest. Otherwise the request is over and *error is set: a read
 * that met the end of the file is no error, a write that moved nothing is -EIO.
 */
bool kp_transfer_more(const struct kp_bio *bio, uint64_t bytes, uint64_t *done, ssize_t result,
		      int *error);

/* kp_device_sync - carry out a flush, sync or discard by system call and end it. Any thread. */
void kp_device_sync(struct kp_bio *bio);

/* ---- files --------------------------------------------------------------------------------- */

/* struct kp_file_key - what makes two opens the same file, in the whole arena. */
struct kp_file_key {
	uint64_t dev; /* of a block device: its own number, and ino 0 */
	uint64_t ino;
	uint64_t birth_ns;	    /* inode numbers come back after unlink */
	char name[KP_KEY_MAX - 24]; /* the null device knows files by name only */
};

struct kp_file {
	struct kp_pipeline *pipeline;
	struct kp_file *next;
	int fd;
	int index; /* among the pipeline's files; io_uring registers by it */
	bool block_device;
	bool direct;
	bool writable;
	bool dsync;    /* opened O_DSYNC or O_SYNC: writes are written through */
	int flags;     /* as given to kp_file_open() */
	uint64_t size; /* when opened */
	struct kp_file_key key;
	struct kp_queue_limits limits;
	void *stage_data[KP_MAX_STAGES];
	void *device_data;
	char path[];
};

/* ---- pipeline ------------------------------------------------------------------------------ */

struct kp_pipeline {
	struct kp_stage *first;
	struct kp_stage *stages[KP_MAX_STAGES];
	unsigned int nr_stages;
	struct kp_device *device;
	struct kp_arena *arena;
	struct kp_counter_slot *slot, *own_slot;
	const volatile bool *terminate;
	struct kp_file *files;
	struct kp_limit_options limits;
	unsigned int depth;
	bool synchronous;
	bool shared;
	int error;	   /* of what stages did on their own; kp_pipeline_destroy() returns it */
	const void *owner; /* address of a thread-local variable of the owner */

	/* Completed I/Os: a ring that only the owner touches, and a stack for everybody else. */
	struct kp_io **done;
	unsigned int done_mask;
	unsigned int done_head, done_tail;
	unsigned int reaped;	  /* of which the last kp_reap() handed out */
	unsigned int outstanding; /* submitted and not handed out */
	bool uncommitted;	  /* something was submitted since the last kp_commit() */
	struct kp_io *posted;	  /* atomic */
	int wake_fd;

	/* Bios that a stage takes up again, in submission context: kp_pipeline_defer(). */
	struct kp_bio *deferred; /* atomic stack, linked by bio->next */

	/* Stages that lie between one with threads of its own and the device: kp_below_lock(). */
	struct kp_stage *threaded; /* the stage with threads; NULL: no such stages */
	pthread_mutex_t below;
	const void *below_holder; /* atomic; as owner */
	unsigned int below_depth;
	bool flush_wanted; /* atomic; by the owner, of who is inside */
};

/*
 * kp_pipeline_flush - flush every stage from @from (NULL: the first) down to the device.
 * Owner, and in a shared pipeline whoever submitted.
 */
void kp_pipeline_flush(struct kp_pipeline *pl, struct kp_stage *from);

/*
 * kp_pipeline_wait - make progress: flush from @from down, then end at least one request, waiting
 * up to 100 ms. The way to wait in place. A stage passes its next: to flush what stands above it
 * would enter it again. Bios that were deferred may be submitted to any stage meanwhile.
 *
 * Owner; another thread of a shared pipeline waits for the owner's progress instead.
 * Return: requests ended, 0 when the time ran out, -EAGAIN when nothing is in flight, -errno.
 */
int kp_pipeline_wait(struct kp_pipeline *pl, struct kp_stage *from);

/*
 * kp_pipeline_wait_for - kp_pipeline_wait() until @done, which an end_io sets (atomic, release).
 * When nothing is in flight that could set it, an I/O was lost: says so and aborts.
 */
void kp_pipeline_wait_for(struct kp_pipeline *pl, struct kp_stage *from, const bool *done);

/*
 * kp_below_lock - enter the stages below the one with threads of its own.
 *
 * They are written for one thread. In a shared pipeline the threaded stage takes this around
 * kp_stage_submit(stage->next, ...), on whatever thread; kp_pipeline_flush() takes it itself. A
 * thread that waits inside keeps it, and may enter again. The owner never blocks here: it reaps,
 * since who is inside may wait for that. Protects those stages; the device's lock and the pools'
 * nest inside. Does nothing when there are no such stages.
 */
void kp_below_lock(struct kp_pipeline *pl);
void kp_below_unlock(struct kp_pipeline *pl);

/* kp_pipeline_busy - does a stage hold bios that its threads will hand on? Owner. */
bool kp_pipeline_busy(const struct kp_pipeline *pl);

/* kp_pipeline_drain - wait until nothing is in flight. Owner. */
void kp_pipeline_drain(struct kp_pipeline *pl);

/* kp_pipeline_poll - end what is ready without waiting. Owner. */
int kp_pipeline_poll(struct kp_pipeline *pl);

/* kp_pipeline_adopt - the caller becomes the owner. The thread that was must do nothing any more. */
void kp_pipeline_adopt(struct kp_pipeline *pl);

/* kp_pipeline_terminating - the run is to end: leave waits. Any thread. */
static inline bool kp_pipeline_terminating(const struct kp_pipeline *pl)
{
	return pl->terminate && *pl->terminate;
}

/*
 * kp_pipeline_defer - from end_io: submit @bio to @stage again on the owner's thread, at its
 * next wait or reap. bio->private is in use for that until then. Any thread.
 */
void kp_pipeline_defer(struct kp_pipeline *pl, struct kp_stage *stage, struct kp_bio *bio);

/* kp_pipeline_count - kp_count() where threads of a shared pipeline may meet. */
static inline void kp_pipeline_count(const struct kp_pipeline *pl, uint64_t *counter, uint64_t n)
{
	if (pl->shared)
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
	else
		kp_count(counter, n);
}

/* kp_now_ns - CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t kp_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
