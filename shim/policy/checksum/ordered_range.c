// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges with I/O in flight. Each 64 KiB of the file belong to one of the buckets in turn; a bucket is
 * a list.
 *
 * To lock a free range takes a compare-and-swap, a walk over the ranges in the bucket, and a store; to
 * release it takes the same. Each change of a list is a single store, so that a job that dies with a
 * bucket locked leaves the list whole.
 */
#include <sched.h>
#include <unistd.h>

#include "core/file_lock.h"
#include "core/futex.h"
#include "core/liveness.h"
#include "ordered_range.h"

#define NR_BUCKETS KP_RANGE_BUCKETS
#define SPINS	   100u
#define POLL_NS	   200000ull	  /* how often it reaps its own completions */
#define GIVE_UP_NS 10000000000ull /* how long it waits once the run is to end */

static struct kp_range_bucket *bucket_of(struct kp_range_table *table, uint64_t pos)
{
	return &table->buckets[pos / KP_RANGE_GRANULE % NR_BUCKETS];
}

/* ---- a bucket's lock ----------------------------------------------------------------------- */

static bool try_lock(struct kp_range_bucket *bucket, uint32_t holder, uint32_t id)
{
	return __atomic_compare_exchange_n(&bucket->lock, &holder, id, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* The holder keeps the bucket for a few dozen instructions, unless it was preempted or has died. */
static void lock_slowly(const struct kp_range_owner *owner, struct kp_range_bucket *bucket)
{
	for (unsigned int i = 1; !try_lock(bucket, 0, owner->id); i++) {
		uint32_t holder;

		if (i < SPINS) {
			cpu_relax();
			continue;
		}
		sched_yield();
		holder = __atomic_load_n(&bucket->lock, __ATOMIC_RELAXED);
		if (i % (SPINS * 10) == 0 && holder &&
		    kp_liveness_dead(owner->pipeline->arena, holder) &&
		    try_lock(bucket, holder, owner->id))
			return;
	}
}

static void lock_bucket(const struct kp_range_owner *owner, struct kp_range_bucket *bucket)
{
	if (!try_lock(bucket, 0, owner->id))
		lock_slowly(owner, bucket);
}

static void unlock_bucket(struct kp_range_bucket *bucket)
{
	__atomic_store_n(&bucket->lock, 0, __ATOMIC_RELEASE);
}

/* ---- the lists ----------------------------------------------------------------------------- */

static bool conflicts(const struct kp_range *a, const struct kp_range *b)
{
	return a->start < b->end && b->start < a->end && (a->write || b->write);
}

/* Find the first range before @range in the list that it must wait for. The bucket is locked. */
static const struct kp_range *find_blocker(const struct kp_range_bucket *bucket,
					   const struct kp_range *range)
{
	for (const struct kp_range *r = bucket->head; r != range; r = r->next) {
		if (conflicts(r, range))
			return r;
	}
	return NULL;
}

/* Append @range, and return what find_blocker() finds. The bucket is locked. */
static const struct kp_range *append(struct kp_range_bucket *bucket, struct kp_range *range)
{
	const struct kp_range *blocker = NULL;
	struct kp_range **link;

	for (link = &bucket->head; *link; link = &(*link)->next) {
		if (!blocker && conflicts(*link, range))
			blocker = *link;
	}
	__atomic_store_n(link, range, __ATOMIC_RELEASE);
	return blocker;
}

static void unlink_range(struct kp_range_bucket *bucket, const struct kp_range *range)
{
	struct kp_range **link = &bucket->head;

	while (*link != range)
		link = &(*link)->next;
	__atomic_store_n(link, range->next, __ATOMIC_RELEASE);
}

static void release(const struct kp_range_owner *owner, struct kp_range_table *table,
		    const struct kp_range *range)
{
	struct kp_range_bucket *bucket = bucket_of(table, range->start);
	bool wake;

	lock_bucket(owner, bucket);
	unlink_range(bucket, range);
	wake = __atomic_load_n(&bucket->waiters, __ATOMIC_RELAXED);
	if (wake)
		__atomic_fetch_add(&bucket->wake, 1, __ATOMIC_RELAXED);
	unlock_bucket(bucket);
	if (wake)
		kp_futex_wake(&bucket->wake, INT32_MAX);
}

/* ---- jobs that died ------------------------------------------------------------------------ */

void kp_range_open(const struct kp_range_owner *owner, const struct kp_file *file)
{
	/* Where the file system has no such locks, a dead owner counts as having nothing in flight. */
	if (file->fd >= 0 && file->writable)
		kp_file_lock(file->fd, KP_LOCK_RANGE_OWNER, owner->id);
}

/* Has all I/O of @id on @file completed? */
static bool drained(const struct kp_file *file, uint32_t id)
{
	return file->fd < 0 || !kp_file_locked(file->fd, KP_LOCK_RANGE_OWNER, id, id);
}

/* May the range have been written? Not when its owner died while waiting for a part of it. */
static bool was_written(const struct kp_range *range)
{
	return range->write && __atomic_load_n(&range->first->granted, __ATOMIC_ACQUIRE);
}

/* Release the ranges of a dead owner in one bucket. */
static void reap_bucket(struct kp_range_owner *owner, struct kp_range_bucket *bucket,
			struct kp_file *file, uint32_t dead)
{
	struct kp_range **link = &bucket->head;
	bool found = false;

	lock_bucket(owner, bucket);
	while (*link) {
		struct kp_range *range = *link;

		if (range->owner != dead) {
			link = &range->next;
			continue;
		}
		if (was_written(range))
			owner->lost(owner, file, range->start, range->end);
		__atomic_store_n(link, range->next, __ATOMIC_RELEASE);
		found = true;
	}
	if (found)
		__atomic_fetch_add(&bucket->wake, 1, __ATOMIC_RELAXED);
	unlock_bucket(bucket);
	if (found)
		kp_futex_wake(&bucket->wake, INT32_MAX);
}

/*
 * Release all ranges of a dead owner in the file, once its I/O has completed. They are in many buckets,
 * so that a waiter that has found the owner dead does not wait again in the next bucket.
 */
static void reap_dead(struct kp_range_owner *owner, struct kp_range_table *table,
		      struct kp_file *file, uint32_t dead)
{
	if (!drained(file, dead))
		return;
	for (unsigned int i = 0; i < NR_BUCKETS; i++) {
		struct kp_range_bucket *bucket = &table->buckets[i];

		/* The dead owner adds no ranges: a bucket that is empty now has none of its. */
		if (__atomic_load_n(&bucket->head, __ATOMIC_ACQUIRE))
			reap_bucket(owner, bucket, file, dead);
	}
}

void kp_range_leftover(struct kp_range_table *table,
		       void (*visit)(void *arg, uint64_t start, uint64_t end), void *arg)
{
	for (unsigned int i = 0; i < NR_BUCKETS; i++) {
		for (struct kp_range *r = table->buckets[i].head; r; r = r->next) {
			if (was_written(r))
				visit(arg, r->start, r->end);
		}
	}
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Sleep until @bucket changes, but only briefly while our own I/O may complete. */
static void sleep_on(const struct kp_range_owner *owner, struct kp_range_bucket *bucket,
		     uint32_t seen)
{
	struct kp_pipeline *pl = owner->pipeline;
	bool busy = pl->shared || __atomic_load_n(&pl->device->in_flight, __ATOMIC_RELAXED);

	kp_futex_wait(&bucket->wake, seen, busy ? POLL_NS : KP_LOOK_AROUND_NS);
	kp_pipeline_flush(pl, owner->stage->next);
	kp_pipeline_poll(pl);
}

/* Wait once for the range of @blocker, an owner's id. */
static int wait_turn(struct kp_range_owner *owner, struct kp_range_bucket *bucket, uint32_t blocker,
		     uint32_t seen)
{
	struct kp_pipeline *pl = owner->pipeline;
	int ret = 0;

	if (blocker == owner->id)
		ret = kp_pipeline_wait(pl, owner->stage->next);
	else
		sleep_on(owner, bucket, seen);
	return ret == -EAGAIN ? -EDEADLK : kp_min(ret, 0);
}

/* Wait until no earlier range in the bucket conflicts with @range. */
static int wait_in_bucket(struct kp_range_owner *owner, struct kp_range_table *table,
			  struct kp_file *file, struct kp_range *range)
{
	struct kp_range_bucket *bucket = bucket_of(table, range->start);
	struct kp_pipeline *pl = owner->pipeline;
	uint64_t start = kp_now_ns(), looked = 0, now = start;
	int ret = 0;

	__atomic_fetch_add(&bucket->waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		const struct kp_range *blocker;
		uint32_t seen, id = 0;

		lock_bucket(owner, bucket);
		blocker = find_blocker(bucket, range);
		if (blocker)
			id = blocker->owner;
		seen = __atomic_load_n(&bucket->wake, __ATOMIC_RELAXED);
		unlock_bucket(bucket);
		/* A wait that found nothing in flight may have ended the last of it, in its flush. */
		if (!blocker)
			ret = 0;
		if (!blocker || ret)
			break;
		/* Check at once, since the holder may have died long ago, and then from time to time. */
		if (id != owner->id && now - looked >= KP_LOOK_AROUND_NS) {
			looked = now;
			if (kp_liveness_dead(pl->arena, id))
				reap_dead(owner, table, file, id);
		}
		ret = wait_turn(owner, bucket, id, seen);
		now = kp_now_ns();
		if (now - start >= GIVE_UP_NS && kp_pipeline_terminating(pl))
			ret = -EINTR;
	}
	__atomic_fetch_sub(&bucket->waiters, 1, __ATOMIC_SEQ_CST);
	kp_count_time(owner->wait_ns, now - start);
	return ret;
}

int kp_range_lock(struct kp_range_owner *owner, struct kp_range_table *table, struct kp_file *file,
		  struct kp_range *parts, uint64_t start, uint64_t end, bool write)
{
	unsigned int nr = 0;

	/* In the order of the file, so that two ranges that overlap cannot wait for each other. */
	for (uint64_t pos = start; pos < end; nr++) {
		uint64_t granule_end = kp_round_down(pos, KP_RANGE_GRANULE) + KP_RANGE_GRANULE;
		struct kp_range_bucket *bucket = bucket_of(table, pos);
		bool free;
		int ret;

		parts[nr] = (struct kp_range){
			.start = pos,
			.end = kp_min(end, granule_end),
			.first = parts,
			.owner = owner->id,
			.write = write,
		};
		pos = parts[nr].end;
		lock_bucket(owner, bucket);
		free = !append(bucket, &parts[nr]);
		unlock_bucket(bucket);
		if (free)
			continue;
		ret = wait_in_bucket(owner, table, file, &parts[nr]);
		if (ret) {
			kp_range_unlock(owner, table, parts, nr + 1);
			return ret;
		}
	}
	__atomic_store_n(&parts->granted, true, __ATOMIC_RELEASE);
	return 0;
}

void kp_range_unlock(const struct kp_range_owner *owner, struct kp_range_table *table,
		     struct kp_range *parts, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		release(owner, table, &parts[i]);
}
