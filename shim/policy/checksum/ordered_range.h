/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges of a file with I/O in flight, shared by all jobs. Stands for the ordered extents of btrfs and
 * the extent lock that direct I/O holds: an I/O waits for those in flight that overlap it. Reads do
 * not wait for reads.
 *
 * A range is held until its I/O has completed; any thread may release it. When a job is killed, a
 * waiter finds its ranges. The waiter releases them once the kernel has completed the dead job's I/O,
 * which may reach the device until then.
 */
#ifndef KP_ORDERED_RANGE_H
#define KP_ORDERED_RANGE_H

#include "stage.h"

#define KP_RANGE_GRANULE 65536u /* a range is cut at multiples of this, and locked piece by piece */

#define KP_RANGE_BUCKETS 1024u

/* struct kp_range - the part of a range that is in one granule; in the arena. */
struct kp_range {
	struct kp_range *next;
	uint64_t start, end;	      /* bytes, end excluded */
	const struct kp_range *first; /* the first part of the same range */
	uint32_t owner;
	bool write;
	bool granted; /* atomic, in the first part: the whole range is locked, the I/O may have begun */
} __attribute__((aligned(64)));

/* struct kp_range_bucket - a list of parts in the order in which they were asked for. */
struct kp_range_bucket {
	/*
	 * The id of the owner that holds the bucket, or 0. Protects 'head' and the list. No lock nests
	 * inside. The next owner takes it over when the holder is dead.
	 */
	uint32_t lock;
	uint32_t wake;	  /* futex; changes when a range was released while there were waiters */
	uint32_t waiters; /* atomic; an upper bound */
	struct kp_range *head;
} __attribute__((aligned(64)));

/* struct kp_range_table - the ranges of one file; in the arena, zeroed. */
struct kp_range_table {
	struct kp_range_bucket buckets[KP_RANGE_BUCKETS];
};

/* struct kp_range_owner - a pipeline that locks ranges; in its own memory. */
struct kp_range_owner {
	struct kp_pipeline *pipeline;
	struct kp_stage *stage; /* a wait flushes the stages below it */
	uint32_t id;		/* kp_liveness_join() */
	/*
	 * A job died while it was writing [start, end), whose contents are unknown now. Not called for
	 * ranges that the job was waiting for. The owner's thread.
	 */
	void (*lost)(struct kp_range_owner *owner, struct kp_file *file, uint64_t start,
		     uint64_t end);
	uint64_t *wait_ns; /* KP_COUNTER_TIMES: waits for ranges */
};

/*
 * kp_range_open - @owner is going to do I/O on @file.
 *
 * Holds an OFD lock beyond EOF; it drops when the last in-flight I/O releases the open file. Other
 * jobs see by it that I/O of a dead job is still in flight.
 */
void kp_range_open(const struct kp_range_owner *owner, const struct kp_file *file);

/* kp_range_parts - how many struct kp_range a lock on [start, end) needs. */
static inline unsigned int kp_range_parts(uint64_t start, uint64_t end)
{
	return (end - 1) / KP_RANGE_GRANULE - start / KP_RANGE_GRANULE + 1;
}

/**
 * kp_range_lock - lock [start, end) of a file, and wait while an earlier range overlaps it.
 * @parts: as many as kp_range_parts() says, in the arena, in use until kp_range_unlock().
 * @write: exclude readers too.
 *
 * First come, first served. While it waits it reaps the pipeline's own completions. The owner's
 * thread. Return: 0; -EINTR when the run is to end and the range does not become free; -EDEADLK when
 * our own pipeline holds it and has nothing in flight.
 */
int kp_range_lock(struct kp_range_owner *owner, struct kp_range_table *table, struct kp_file *file,
		  struct kp_range *parts, uint64_t start, uint64_t end, bool write);

/* kp_range_unlock - release @nr parts and wake their waiters. Any thread of the owner's process. */
void kp_range_unlock(const struct kp_range_owner *owner, struct kp_range_table *table,
		     struct kp_range *parts, unsigned int nr);

/*
 * kp_range_leftover - call @visit for each range that a dead job had locked for writing. After the last
 * pipeline has ended.
 */
void kp_range_leftover(struct kp_range_table *table,
		       void (*visit)(void *arg, uint64_t start, uint64_t end), void *arg);

#endif
