/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges of a file that have I/O in flight, across jobs. Stands for the ordered extents of btrfs
 * and the extent lock that direct I/O holds: who overlaps a range in flight waits for it. Reads do
 * not wait for reads.
 *
 * A range is held until its I/O ended, whatever thread ends it. The ranges of a job that was
 * killed are found by whoever waits for them, and given up once the kernel has let go of the
 * job's I/O: until then it may still reach the device.
 */
#ifndef KP_ORDERED_RANGE_H
#define KP_ORDERED_RANGE_H

#include "stage.h"

#define KP_RANGE_GRANULE 65536u /* a range is cut here; one step of the lock each */

#define KP_RANGE_BUCKETS 1024u

/* struct kp_range - the part of a held range that lies in one granule; in the arena. */
struct kp_range {
	struct kp_range *next;
	uint64_t start, end;	      /* bytes, end excluded */
	const struct kp_range *first; /* of the whole range */
	uint32_t owner;
	bool write;
	bool granted; /* atomic; of the first: all parts are free, the I/O may have begun */
} __attribute__((aligned(64)));

struct kp_range_bucket {
	/*
	 * The id of who holds the bucket, or 0. Protects 'head' and the list; nothing nests inside
	 * it. A dead holder is replaced.
	 */
	uint32_t lock;
	uint32_t wake;	  /* futex: changes when a range was given back that others wait for */
	uint32_t waiters; /* atomic; how many there may be */
	struct kp_range *head;
} __attribute__((aligned(64)));

/* struct kp_range_table - the ranges of one file; in the arena, zeroed. */
struct kp_range_table {
	struct kp_range_bucket buckets[KP_RANGE_BUCKETS];
};

/* struct kp_range_owner - a pipeline that takes ranges. Its own memory. */
struct kp_range_owner {
	struct kp_pipeline *pipeline;
	struct kp_stage *stage; /* waits flush what is below it */
	uint32_t id;		/* kp_liveness_join() */
	/*
	 * A job died while it wrote [start, end): what is there now is unknown. Not for what it had
	 * only waited for. Owner's thread.
	 */
	void (*lost)(struct kp_range_owner *owner, struct kp_file *file, uint64_t start,
		     uint64_t end);
	uint64_t *wait_ns; /* KP_COUNTER_TIMES: how long a range was not free */
};

/*
 * kp_range_open - @owner will do I/O on @file. Others see by a lock far behind its data when the
 * kernel has done the last of it, though the job be dead.
 */
void kp_range_open(const struct kp_range_owner *owner, const struct kp_file *file);

/* kp_range_parts - how many struct kp_range a lock on [start, end) takes. */
static inline unsigned int kp_range_parts(uint64_t start, uint64_t end)
{
	return (end - 1) / KP_RANGE_GRANULE - start / KP_RANGE_GRANULE + 1;
}

/**
 * kp_range_lock - take [start, end) of a file, waiting in place for who has it.
 * @parts: kp_range_parts(), in the arena, the caller's until kp_range_unlock().
 * @write: exclude readers as well.
 *
 * First come, first served. Reaps the pipeline's own completions meanwhile. The owner's thread.
 * Return: 0; -EINTR when the run ends and whoever has it does not let go; -EDEADLK when we
 * ourselves have it and nothing is in flight.
 */
int kp_range_lock(struct kp_range_owner *owner, struct kp_range_table *table, struct kp_file *file,
		  struct kp_range *parts, uint64_t start, uint64_t end, bool write);

/* kp_range_unlock - give @nr parts back and wake who waits for them. Any thread of the owner. */
void kp_range_unlock(const struct kp_range_owner *owner, struct kp_range_table *table,
		     struct kp_range *parts, unsigned int nr);

/*
 * kp_range_leftover - call @visit for each range that was held for writing when its job died.
 * After the last pipeline ended.
 */
void kp_range_leftover(struct kp_range_table *table,
		       void (*visit)(void *arg, uint64_t start, uint64_t end), void *arg);

#endif
