// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pipeline: stages above a device, the I/Os that enter at the top and the queue of those that
 * completed. Everything here runs on the owner's thread except io_end(), kp_pipeline_wake() and
 * kp_pipeline_defer().
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bio.h"
#include "device.h"
#include "file.h"
#include "log.h"
#include "owner.h"
#include "pipeline.h"

/* ---- completion ---------------------------------------------------------------------------- */

static void account_io(struct kp_pipeline *pl, const struct kp_io *io)
{
	bool moved = kp_op_has_data(io->bio.op) && !io->bio.status;

	kp_count_io(pl->slot, moved ? io->segment.len - io->bio.resid : 0);
}

static void push_done(struct kp_pipeline *pl, struct kp_io *io)
{
	if (io->waiting)
		io->done = true;
	else
		pl->done[pl->done_tail++ & pl->done_mask] = io;
	account_io(pl, io);
}

/* io_end() of a shared pipeline: another thread leaves the I/O to the owner. */
static kp_noinline void io_end_shared(struct kp_pipeline *pl, struct kp_io *io)
{
	struct kp_io *top = __atomic_load_n(&pl->posted, __ATOMIC_RELAXED);

	if (kp_pipeline_owned(pl)) {
		push_done(pl, io);
		return;
	}
	do {
		io->next = top;
	} while (!__atomic_compare_exchange_n(&pl->posted, &top, io, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if (!top)
		kp_pipeline_wake(pl);
}

static void io_end(struct kp_bio *bio)
{
	struct kp_io *io = kp_container_of(bio, struct kp_io, bio);
	struct kp_pipeline *pl = io->pipeline;

	if (kp_likely(!pl->shared))
		push_done(pl, io);
	else
		io_end_shared(pl, io);
}

/* bio->private holds the stage while a bio is deferred. */
void kp_pipeline_defer(struct kp_pipeline *pl, struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_bio *top = __atomic_load_n(&pl->deferred, __ATOMIC_RELAXED);

	bio->private = stage;
	do {
		bio->next = top;
	} while (!__atomic_compare_exchange_n(&pl->deferred, &top, bio, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if (pl->shared && !kp_pipeline_owned(pl))
		kp_pipeline_wake(pl);
}

static void drain_deferred(struct kp_pipeline *pl)
{
	struct kp_bio *bio = __atomic_exchange_n(&pl->deferred, NULL, __ATOMIC_ACQUIRE);
	struct kp_bio *oldest = NULL;

	while (bio) { /* the stack gives the newest first */
		struct kp_bio *next = bio->next;

		bio->next = oldest;
		oldest = bio;
		bio = next;
	}
	while (oldest) {
		struct kp_stage *stage = oldest->private;

		bio = oldest;
		oldest = bio->next;
		bio->next = NULL;
		kp_stage_submit(stage, bio);
		kp_pipeline_flush(pl, stage->next);
	}
}

/* Take over the I/Os that other threads have completed, and submit the deferred bios. */
static void drain(struct kp_pipeline *pl)
{
	struct kp_io *io;

	if (pl->shared) {
		io = __atomic_exchange_n(&pl->posted, NULL, __ATOMIC_ACQUIRE);
		while (io) {
			struct kp_io *next = io->next;

			push_done(pl, io);
			io = next;
		}
	}
	if (__atomic_load_n(&pl->deferred, __ATOMIC_RELAXED))
		drain_deferred(pl);
}

/* ---- progress ------------------------------------------------------------------------------ */

static bool holds_lower(const struct kp_pipeline *pl)
{
	return __atomic_load_n(&pl->lower_holder, __ATOMIC_RELAXED) == kp_this_thread();
}

/* Take 'lower'. The owner does not wait. Return: false when another thread holds the lock. */
static bool enter_lower(struct kp_pipeline *pl)
{
	if (!holds_lower(pl)) {
		if (!kp_pipeline_owned(pl))
			pthread_mutex_lock(&pl->lower);
		else if (pthread_mutex_trylock(&pl->lower))
			return false;
		__atomic_store_n(&pl->lower_holder, kp_this_thread(), __ATOMIC_RELAXED);
	}
	pl->lower_depth++;
	return true;
}

static inline void flush_stages(struct kp_stage *from)
{
	for (struct kp_stage *stage = from; stage; stage = stage->next) {
		if (stage->ops->flush)
			stage->ops->flush(stage);
	}
}

/* As enter_lower(), but ask the holder to flush in the caller's place when there is one. */
static bool enter_or_ask(struct kp_pipeline *pl)
{
	if (enter_lower(pl))
		return true;
	(void)__atomic_exchange_n(&pl->flush_wanted, true, __ATOMIC_ACQ_REL);
	return enter_lower(pl);
}

/* Release 'lower', and do the flush that the owner asked for meanwhile. */
static void leave_lower(struct kp_pipeline *pl)
{
	while (--pl->lower_depth == 0) {
		__atomic_store_n(&pl->lower_holder, NULL, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&pl->lower);
		/* Either this thread sees the owner's wish, or the owner finds the lock free. */
		if (!__atomic_exchange_n(&pl->flush_wanted, false, __ATOMIC_ACQ_REL) ||
		    !enter_or_ask(pl))
			break;
		flush_stages(pl->threaded->next);
	}
}

void kp_lower_lock(struct kp_pipeline *pl)
{
	if (!pl->threaded)
		return;
	while (!enter_lower(pl)) {
		kp_pipeline_poll(pl);
		sched_yield();
	}
}

void kp_lower_unlock(struct kp_pipeline *pl)
{
	if (pl->threaded)
		leave_lower(pl);
}

static kp_noinline void flush_threaded(struct kp_pipeline *pl, struct kp_stage *from)
{
	for (; from->index <= pl->threaded->index; from = from->next) {
		if (from->ops->flush)
			from->ops->flush(from);
	}
	if (!enter_or_ask(pl))
		return;
	flush_stages(from);
	leave_lower(pl);
}

void kp_pipeline_flush(struct kp_pipeline *pl, struct kp_stage *from)
{
	if (!from)
		from = pl->first;
	if (kp_likely(!pl->threaded))
		flush_stages(from);
	else
		flush_threaded(pl, from);
}

/* The device is idle, but another thread may post an I/O. */
static void wait_posted(struct kp_pipeline *pl, const struct timespec *timeout)
{
	struct pollfd poll_fd = { .fd = pl->owner.wake_fd, .events = POLLIN };
	uint64_t count;

	if (ppoll(&poll_fd, 1, timeout, NULL) > 0) {
		ssize_t ret = read(pl->owner.wake_fd, &count, sizeof(count));

		(void)ret;
	}
}

static unsigned int device_in_flight(struct kp_pipeline *pl)
{
	return __atomic_load_n(&pl->device->in_flight, __ATOMIC_RELAXED);
}

/*
 * The owner is about to sleep. Return: false when a request has ended since the owner asked last:
 * the flush before this wait, or another thread, may have ended what the owner waits for.
 */
static bool owner_may_sleep(struct kp_pipeline *pl)
{
	struct kp_device *device = pl->device;
	unsigned int seq;

	/* Sequentially consistent, as in kp_device_ended(): one of the two sees the other. */
	__atomic_store_n(&device->owner_sleeps, true, __ATOMIC_SEQ_CST);
	seq = __atomic_load_n(&device->progress_seq, __ATOMIC_SEQ_CST);
	if (seq == device->owner_seen)
		return true;
	device->owner_seen = seq;
	return false;
}

/*
 * End @min requests, as far as there are any. Like reap of a device, whatever the device. The
 * caller has flushed the stages that may hold what it waits for.
 */
static int reap_device(struct kp_pipeline *pl, unsigned int min, const struct timespec *timeout)
{
	unsigned int in_flight;
	int ret = 0;

	if (min && pl->shared && !owner_may_sleep(pl))
		min = 0;
	in_flight = device_in_flight(pl);
	if (in_flight && pl->device->ops->reap) {
		ret = pl->device->ops->reap(pl->device, kp_min(min, in_flight), timeout);
	} else if (min && pl->shared) {
		if (!__atomic_load_n(&pl->posted, __ATOMIC_RELAXED) &&
		    !__atomic_load_n(&pl->deferred, __ATOMIC_RELAXED))
			wait_posted(pl, timeout);
	} else if (min && !__atomic_load_n(&pl->deferred, __ATOMIC_RELAXED)) {
		ret = -EAGAIN;
	}
	if (pl->shared)
		__atomic_store_n(&pl->device->owner_sleeps, false, __ATOMIC_RELAXED);
	drain(pl);
	return ret;
}

/*
 * Another thread than the owner cannot reap; it waits until the owner has. What ended since the
 * thread was here last counts: its look at what it waits for may be older than that.
 */
static int wait_for_owner(struct kp_pipeline *pl)
{
	static __thread unsigned int seen;
	struct kp_device *device = pl->device;
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += KP_LOOK_AROUND_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&device->lock);
	if (!device->waiting++ && device->progress_seq == seen)
		kp_pipeline_wake(pl); /* it may sleep until many have ended */
	while (device->progress_seq == seen && !ret)
		ret = pthread_cond_timedwait(&device->progress, &device->lock, &until);
	seen = device->progress_seq;
	device->waiting--;
	pthread_mutex_unlock(&device->lock);
	return ret ? 0 : 1;
}

int kp_pipeline_wait(struct kp_pipeline *pl, struct kp_stage *from)
{
	static const struct timespec look_around = { .tv_nsec = KP_LOOK_AROUND_NS };

	kp_pipeline_flush(pl, from);
	if (!kp_pipeline_owned(pl))
		return wait_for_owner(pl);
	return reap_device(pl, 1, &look_around);
}

void kp_pipeline_wait_for(struct kp_pipeline *pl, struct kp_stage *from, const bool *done)
{
	while (!__atomic_load_n(done, __ATOMIC_ACQUIRE)) {
		int ret = kp_pipeline_wait(pl, from);

		if (ret < 0 && !__atomic_load_n(done, __ATOMIC_ACQUIRE)) {
			kp_log("an I/O was lost: %s", strerror(-ret));
			abort();
		}
	}
}

int kp_pipeline_poll(struct kp_pipeline *pl)
{
	return reap_device(pl, 0, NULL);
}

bool kp_pipeline_busy(const struct kp_pipeline *pl)
{
	for (unsigned int i = 0; i < pl->nr_stages; i++) {
		if (pl->stages[i]->ops->busy && pl->stages[i]->ops->busy(pl->stages[i]))
			return true;
	}
	return false;
}

void kp_pipeline_drain(struct kp_pipeline *pl)
{
	kp_pipeline_flush(pl, NULL);
	while (device_in_flight(pl) || kp_pipeline_busy(pl)) {
		if (kp_pipeline_wait(pl, NULL) < 0)
			break;
	}
}

/*
 * Whoever closes files or takes a pipeline down is its owner from then on: the thread that was may
 * have ended (fio's io_submit_mode=offload), and nobody else may reap.
 */
void kp_pipeline_adopt(struct kp_pipeline *pl)
{
	kp_owner_adopt(&pl->owner);
}

/* ---- pools of bios ---------------------------------------------------------------------------- */

/* Completions below the stage return bios to its pools. */
static int wait_for_bios(struct kp_bio_set *set)
{
	return kp_pipeline_wait(set->stage->pipeline, set->stage->next);
}

int kp_bio_set_init(struct kp_bio_set *set, struct kp_stage *stage, size_t bios,
		    const size_t vecs[KP_VEC_CLASSES])
{
	set->stage = stage;
	set->wait = wait_for_bios;
	return kp_bio_pools_init(set, bios, vecs, stage->pipeline->shared);
}

/* ---- the application's side ---------------------------------------------------------------- */

static void start_io(struct kp_pipeline *pl, struct kp_io *io)
{
	io->pipeline = pl;
	if (pl->shared)
		io->bio.flags |= KP_BIO_SHARED;
	io->bio.status = 0;
	io->bio.resid = 0;
	io->bio.parent = NULL;
	io->bio.next = NULL;
	io->bio.end_io = io_end;
	if (!io->bio.iter.size && kp_op_has_data(io->bio.op)) {
		io_end(&io->bio); /* a read or write of nothing */
		return;
	}
	kp_stage_submit(pl->first, &io->bio);
}

int kp_submit(struct kp_pipeline *pl, struct kp_io *io)
{
	if (pl->outstanding == pl->depth)
		return -EBUSY;
	pl->outstanding++;
	pl->uncommitted = true;
	io->waiting = false;
	start_io(pl, io);
	return 0;
}

int kp_commit(struct kp_pipeline *pl)
{
	pl->uncommitted = false;
	kp_pipeline_flush(pl, NULL);
	return 0;
}

int kp_submit_wait(struct kp_pipeline *pl, struct kp_io *io)
{
	io->waiting = true;
	io->done = false;
	io->bio.flags |= KP_BIO_SYNC;
	start_io(pl, io);
	if (!io->done)
		kp_pipeline_wait_for(pl, NULL, &io->done);
	return io->bio.status;
}

static kp_noinline ssize_t transfer_by_io(struct kp_file *file, void *buffer, size_t len,
					  uint64_t pos, enum kp_op op)
{
	struct kp_io io;

	kp_io_prepare(&io, op, file, pos, buffer, len);
	kp_submit_wait(file->pipeline, &io);
	return kp_io_error(&io) ? kp_io_error(&io) : (ssize_t)(len - kp_io_resid(&io));
}

ssize_t kp_transfer(struct kp_file *file, void *buffer, size_t len, uint64_t pos, enum kp_op op)
{
	struct kp_pipeline *pl = file->pipeline;
	struct kp_counter_slot *slot = pl->slot;
	ssize_t ret;

	if (!pl->transfer || !len)
		return transfer_by_io(file, buffer, len, pos, op);
	ret = pl->transfer(file, buffer, len, pos, op);
	if (ret == (ssize_t)len) {
		kp_count_transfer(slot, len);
	} else {
		kp_count_request(slot, len);
		kp_count_io(slot, kp_max(ret, 0));
	}
	return ret;
}

/* Of @ready that have ended the application gets up to @max. */
static inline int hand_out(struct kp_pipeline *pl, unsigned int ready, unsigned int max)
{
	pl->reaped = kp_min(ready, max);
	pl->outstanding -= pl->reaped;
	return (int)pl->reaped;
}

/* kp_reap() when fewer than @min have ended, or none. */
static kp_noinline int reap_after_wait(struct kp_pipeline *pl, unsigned int min, unsigned int max,
				       const struct timespec *timeout)
{
	unsigned int ready = pl->done_tail - pl->done_head;
	struct timespec left;
	uint64_t give_up = 0;
	int ret;

	min = kp_min(min, kp_min(max, pl->outstanding));
	if (!min && !ready) {
		ret = reap_device(pl, 0, NULL);
		if (ret < 0)
			return ret;
		ready = pl->done_tail - pl->done_head;
	}
	if (ready < min) {
		if (pl->uncommitted)
			kp_commit(pl);
		if (timeout) {
			left = *timeout;
			give_up = kp_now_ns() + left.tv_sec * 1000000000ull + left.tv_nsec;
		}
	}
	while (ready < min) {
		/* What is not in the device a stage may hold. The flush may end it. */
		if (!device_in_flight(pl)) {
			kp_pipeline_flush(pl, NULL);
			ready = pl->done_tail - pl->done_head;
			if (ready >= min)
				break;
		}
		ret = reap_device(pl, min - ready, timeout ? &left : NULL);
		ready = pl->done_tail - pl->done_head;
		if (ret == -EAGAIN)
			break; /* nothing is left that could end */
		if (ret < 0)
			return ret;
		if (timeout) {
			uint64_t now = kp_now_ns();

			if (now >= give_up)
				break;
			left.tv_sec = (give_up - now) / 1000000000;
			left.tv_nsec = (give_up - now) % 1000000000;
		}
	}
	return hand_out(pl, ready, max);
}

int kp_reap(struct kp_pipeline *pl, unsigned int min, unsigned int max,
	    const struct timespec *timeout)
{
	unsigned int ready;

	pl->done_head += pl->reaped;
	pl->reaped = 0;
	ready = pl->done_tail - pl->done_head;
	if (!ready || ready < min)
		return reap_after_wait(pl, min, max, timeout);
	return hand_out(pl, ready, max);
}

struct kp_io *kp_reaped(struct kp_pipeline *pl, unsigned int i)
{
	return pl->done[(pl->done_head + i) & pl->done_mask];
}
