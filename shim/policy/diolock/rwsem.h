/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A reader-writer lock in shared memory that behaves as the kernel's rw_semaphore did in 4.9, 5.3
 * or 5.11. Jobs may be threads or processes. Another job can release what a dead job held.
 *
 * The fast paths are here. rwsem.c has the slow paths, which run the steps of rwsem_steps.h.
 */
#ifndef KP_RWSEM_H
#define KP_RWSEM_H

#include "core/counters.h"
#include "rwsem_steps.h"

/* struct kp_rwsem_user - one job's access to a lock. */
struct kp_rwsem_user {
	struct kp_rwsem *sem;
	struct kp_rwsem_place place; /* of the job's reader bit */
	const struct kp_rwsem_rules *rules;
	unsigned int job;
	uint64_t *taken[2]; /* counters, by mode */
	/*
	 * A waiter calls this hook before each sleep, so that it can make progress elsewhere. The hook
	 * may shorten the sleep: *timeout_ns. It returns false to give the wait up.
	 *
	 * @timed_out: 100 ms have passed without a wake, or while another job spun. The hook then looks
	 * for dead jobs.
	 */
	bool (*idle)(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns);
	/* Called at the end of a slow path with its events and its duration, by the same thread. */
	void (*account)(struct kp_rwsem_user *user, const struct kp_rwsem_op *op, uint64_t ns);
	uint64_t doubted_ns; /* when the job last checked whether the spinning job is alive */
	void *private;
};

/* kp_rwsem_user_init - give @job access to @sem. The caller sets counters and hooks. Any thread. */
void kp_rwsem_user_init(struct kp_rwsem_user *user, struct kp_rwsem *sem,
			const struct kp_rwsem_rules *rules, unsigned int job);

/* Slow paths, after the fast path failed. */
int kp_rwsem_down_slow(struct kp_rwsem_user *user, enum kp_rwsem_mode mode, uint64_t seen);
void kp_rwsem_wake(struct kp_rwsem_user *user, enum kp_rwsem_mode mode);

/**
 * kp_rwsem_down - take the lock; down_read(), down_write().
 *
 * A job holds it at most once in each mode. The thread that owns the job.
 * Return: 0; -ECANCELED when user->idle() gave up.
 */
static inline int kp_rwsem_down(struct kp_rwsem_user *user, enum kp_rwsem_mode mode)
{
	uint64_t seen;
	bool taken = mode == KP_RWSEM_READ
			     ? kp_rwsem_read_fast(user->sem, user->rules, user->place, &seen)
			     : kp_rwsem_write_fast(user->sem, user->job, &seen);

	kp_count(user->taken[mode], 1);
	return taken ? 0 : kp_rwsem_down_slow(user, mode, seen);
}

/* kp_rwsem_up - release the lock. Any thread of the job's process. */
static inline void kp_rwsem_up(struct kp_rwsem_user *user, enum kp_rwsem_mode mode)
{
	bool quiet;

	if (mode == KP_RWSEM_READ) {
		quiet = kp_rwsem_read_release(user->place);
	} else {
		kp_rwsem_set_owner(user->sem, 0);
		quiet = kp_rwsem_write_release(user->sem, user->job);
	}
	if (!quiet)
		kp_rwsem_wake(user, mode);
}

/* kp_rwsem_downgrade - become a reader without letting a writer in; downgrade_write(). */
void kp_rwsem_downgrade(struct kp_rwsem_user *user);

/*
 * kp_rwsem_sleeping - the writer goes to sleep with the lock held, so that no job spins on it. Only
 * the writer changes 'owner' while it holds the lock.
 */
static inline void kp_rwsem_sleeping(struct kp_rwsem_user *user)
{
	uint32_t flags = kp_rwsem_owner(user->sem);

	__atomic_store_n(&user->sem->owner, flags | KP_RWSEM_SLEEPING, __ATOMIC_RELAXED);
}

/*
 * kp_rwsem_recover - release what the dead job @dead held of the lock, and wake the next waiters.
 *
 * Any thread; one at a time for the same @dead. Return: how many holds and queue places there were.
 */
unsigned int kp_rwsem_recover(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
			      unsigned int dead);

#endif
