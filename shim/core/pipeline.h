/* SPDX-License-Identifier: GPL-2.0-only */
/* What a stage or a device asks of the pipeline around it. */
#ifndef KP_PIPELINE_H
#define KP_PIPELINE_H

#include <pthread.h>

#include "bio.h"
#include "counters.h"
#include "device.h"
#include "kpolicy.h"
#include "owner.h"
#include "stage.h"

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
	bool shared;
	bool complete; /* every stage could be set up */
	int error;     /* of what stages did on their own; kp_pipeline_destroy() returns it */
	struct kp_owner owner;

	/* Completed I/Os: a ring that only the owner touches, and a stack for everybody else. */
	struct kp_io **done;
	unsigned int done_mask;
	unsigned int done_head, done_tail;
	unsigned int reaped;	  /* of which the last kp_reap() handed out */
	unsigned int outstanding; /* submitted and not handed out */
	bool uncommitted;	  /* something was submitted since the last kp_commit() */
	struct kp_io *posted;	  /* atomic */

	/* Bios that the owner submits to a stage again: kp_pipeline_defer(). */
	struct kp_bio *deferred; /* atomic stack, linked by bio->next */

	/* Stages that lie between one with threads of its own and the device: kp_lower_lock(). */
	struct kp_stage *threaded; /* the stage with threads; NULL: no such stages */
	pthread_mutex_t lower;
	const void *lower_holder; /* atomic; as owner */
	unsigned int lower_depth;
	bool flush_wanted; /* atomic; the owner asks the holder of 'lower' to flush */

	/* The device's, when no stage stands above it; NULL: an I/O passes the stages in a bio. */
	kp_transfer_fn transfer;
};

/*
 * kp_pipeline_create_with - kp_pipeline_create() for somebody who needs more of the device than the
 * stages do. @needs: enum kp_stage_needs.
 */
int kp_pipeline_create_with(struct kp_pipeline **pl, const struct kp_pipeline_config *config,
			    unsigned int needs);

/*
 * kp_bio_set_init - pools for @bios bios, of which @vecs[i] may have a vector of class i.
 *
 * A pool that runs out makes the stage wait for its own completions, so sizes decide speed, not
 * success; each must hold at least what one bio needs.
 */
int kp_bio_set_init(struct kp_bio_set *set, struct kp_stage *stage, size_t bios,
		    const size_t vecs[KP_VEC_CLASSES]);

/*
 * kp_pipeline_flush - flush every stage from @from (NULL: the first) down to the device.
 * Owner, and in a shared pipeline whoever submitted.
 */
void kp_pipeline_flush(struct kp_pipeline *pl, struct kp_stage *from);

/*
 * kp_pipeline_wait - wait in place: flush from @from down, then end at least one request, which
 * takes KP_LOOK_AROUND_NS at most. A stage passes its next, because a flush of the stages above would
 * enter the stage again. Deferred bios may be submitted to any stage meanwhile.
 *
 * Owner; another thread of a shared pipeline waits for the owner's progress instead.
 * Return: requests ended, 0 when the time ran out, -EAGAIN when nothing is in flight, -errno.
 */
int kp_pipeline_wait(struct kp_pipeline *pl, struct kp_stage *from);

/*
 * kp_pipeline_wait_for - kp_pipeline_wait() until @done, which an end_io sets (atomic, release).
 * It aborts, with a message, when no I/O is in flight that could set @done: an I/O was lost then.
 */
void kp_pipeline_wait_for(struct kp_pipeline *pl, struct kp_stage *from, const bool *done);

/*
 * kp_lower_lock - enter the stages below the one with threads of its own.
 *
 * Those stages are written for one thread. In a shared pipeline the stage with threads takes this
 * lock around kp_stage_submit(stage->next, ...), on any thread; kp_pipeline_flush() takes it itself.
 * The holder may take the lock again, and keeps it while it waits. The owner never blocks here: it
 * reaps, because the holder may wait for a completion. The lock protects the lower stages; the
 * device's lock and those of the pools nest inside it. Without such stages it does nothing.
 */
void kp_lower_lock(struct kp_pipeline *pl);
void kp_lower_unlock(struct kp_pipeline *pl);

/* kp_pipeline_busy - does a stage hold bios that its threads will hand on? Owner. */
bool kp_pipeline_busy(const struct kp_pipeline *pl);

/* kp_pipeline_drain - wait until no I/O is in flight. Owner. */
void kp_pipeline_drain(struct kp_pipeline *pl);

/* kp_pipeline_poll - end the requests that have completed, without waiting. Owner. */
int kp_pipeline_poll(struct kp_pipeline *pl);

/* kp_pipeline_adopt - the caller becomes the owner. The former owner must not use the pipeline. */
void kp_pipeline_adopt(struct kp_pipeline *pl);

/* kp_pipeline_terminating - must waits be left because the run ends? Any thread. */
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

/* kp_pipeline_wake - end a wait of the owner. Any thread of its process, when shared. */
static inline void kp_pipeline_wake(struct kp_pipeline *pl)
{
	kp_owner_wake(&pl->owner);
}

/* kp_pipeline_owned - is the caller the owner? Any thread. */
static inline bool kp_pipeline_owned(const struct kp_pipeline *pl)
{
	return kp_owner_is_me(&pl->owner);
}

#endif
