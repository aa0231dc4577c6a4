// SPDX-License-Identifier: GPL-2.0-only
/* Slow paths of the inode lock: they run its steps with futexes, time, and wait_lock. See rwsem.h. */
#include <errno.h>

#include "core/futex.h"
#include "core/robust.h"
#include "rwsem.h"

/* A unit test stops a job before and after each step, and after wait_lock is taken or released. */
#ifndef KP_RWSEM_STEPPED
#define KP_RWSEM_BEFORE(at)
#define KP_RWSEM_STEPPED(at)
#define KP_RWSEM_LOCKED()
#define KP_RWSEM_UNLOCKED()
#endif

/* A waiter that was not woken for this long looks for dead jobs. */
#ifndef KP_RWSEM_LOOK_AROUND_NS
#define KP_RWSEM_LOOK_AROUND_NS KP_LOOK_AROUND_NS
#endif

/*
 * A waiter watches for its wake this long before it goes to sleep. A wake costs two or three
 * microseconds in the kernel, about ten in a process, and fifteen or more in a virtual machine.
 * Without the watch this cost, and not the policy, decides about locks that are held briefly.
 */
#ifndef KP_RWSEM_WATCH_NS
#define KP_RWSEM_WATCH_NS 10000
#endif

void kp_rwsem_user_init(struct kp_rwsem_user *user, struct kp_rwsem *sem,
			const struct kp_rwsem_rules *rules, unsigned int job)
{
	kp_rwsem_admit(sem, job);
	*user = (struct kp_rwsem_user){
		.sem = sem,
		.place = kp_rwsem_place(sem, job),
		.rules = rules,
		.job = job,
	};
}

static void lock_queue(struct kp_rwsem *sem)
{
	if (kp_robust_lock(&sem->wait_lock))
		kp_rwsem_repair(sem);
}

/* Return: false when a living job holds wait_lock. */
static bool trylock_queue(struct kp_rwsem *sem)
{
	bool died;

	if (!kp_robust_trylock(&sem->wait_lock, &died))
		return false;
	if (died)
		kp_rwsem_repair(sem);
	return true;
}

static void wake_jobs(struct kp_rwsem *sem, struct kp_rwsem_op *op)
{
	for (unsigned int i = 0; i < sem->nr_words; i++) {
		for (; op->wake[i]; op->wake[i] &= op->wake[i] - 1) {
			unsigned int job = i * KP_RWSEM_WORD_JOBS + __builtin_ctzll(op->wake[i]);

			kp_futex_signal(&sem->waiters[job].futex, 1);
		}
	}
}

/* Wait for a wake without sleeping. Return: false when there was none since @seen. */
static bool watch(const uint32_t *futex, uint32_t seen)
{
	uint64_t until;

	if (!KP_RWSEM_WATCH_NS)
		return false;
	until = kp_now_ns() + KP_RWSEM_WATCH_NS;
	do {
		if (__atomic_load_n(futex, __ATOMIC_ACQUIRE) != seen)
			return true;
		cpu_relax();
	} while (kp_now_ns() < until);
	return false;
}

/* A waiter gives up. It leaves the queue, which is locked on return. */
static void give_up(struct kp_rwsem_user *user, struct kp_rwsem_op *op)
{
	op->given_up = true;
	op->leaver = op->job;
	op->keeps_writer = true;
	op->at = KP_RWSEM_AT_LEAVE_BEYOND;
	lock_queue(user->sem);
}

/*
 * Sleep, unless there was a wake since @seen. A waiter that polls its own I/O in flight comes here
 * again and again; it watches for its wake once, and counts as asleep once.
 */
static void sleep_queued(struct kp_rwsem_user *user, struct kp_rwsem_op *op, uint32_t seen)
{
	uint32_t *futex = &user->sem->waiters[op->job].futex;
	uint64_t timeout = KP_RWSEM_LOOK_AROUND_NS;

	if (user->idle && !user->idle(user, false, &timeout)) {
		give_up(user, op);
		return;
	}
	op->timed_out = false;
	if (!op->asleep && watch(futex, seen)) {
		op->events[KP_RWSEM_WAKES_WATCHED]++;
		return;
	}
	if (!op->asleep) {
		op->events[KP_RWSEM_SLEEPS]++;
		op->asleep_since_ns = kp_now_ns();
	}
	op->asleep = kp_futex_wait(futex, seen, timeout);
	/* Ask the clock: a sleep of 50 us may take much longer. */
	if (!op->asleep || kp_now_ns() - op->asleep_since_ns < KP_RWSEM_LOOK_AROUND_NS)
		return;
	op->timed_out = true;
	op->asleep_since_ns = kp_now_ns();
	if (user->idle)
		user->idle(user, true, &timeout);
}

/* Another job spins. If it has died, no job can spin until it is recovered: look from time to time. */
static void doubt_spinner(struct kp_rwsem_user *user, struct kp_rwsem_op *op, uint64_t now)
{
	uint64_t timeout = 0;

	op->refused = false;
	if (now - user->doubted_ns < KP_RWSEM_LOOK_AROUND_NS)
		return;
	user->doubted_ns = now;
	if (user->idle)
		user->idle(user, true, &timeout);
}

/* Run the steps of an operation to its end. */
static void run(struct kp_rwsem_user *user, struct kp_rwsem_op *op)
{
	struct kp_rwsem *sem = user->sem;
	uint64_t start = kp_now_ns(), now = start;
	/* Read before any step looks at the lock, so that no wake after such a look gets lost. */
	uint32_t seen = __atomic_load_n(&sem->waiters[op->job].futex, __ATOMIC_ACQUIRE);

	KP_RWSEM_BEFORE(op->at);
	for (;;) {
		unsigned int at __attribute__((unused)) = op->at;
		enum kp_rwsem_ask what = kp_rwsem_step(sem, user->rules, op, now);

		KP_RWSEM_STEPPED(at);
		if (what == KP_RWSEM_END)
			break;
		if (what == KP_RWSEM_GO_ON)
			continue;
		if (what == KP_RWSEM_RELAX) {
			cpu_relax();
		} else if (what == KP_RWSEM_LOCK) {
			if (op->refused)
				doubt_spinner(user, op, now);
			lock_queue(sem);
			KP_RWSEM_LOCKED();
		} else if (what == KP_RWSEM_TRYLOCK) {
			op->busy = !trylock_queue(sem);
		} else if (what == KP_RWSEM_UNLOCK) {
			pthread_mutex_unlock(&sem->wait_lock);
			KP_RWSEM_UNLOCKED();
			wake_jobs(sem, op);
		} else {
			sleep_queued(user, op, seen);
			seen = __atomic_load_n(&sem->waiters[op->job].futex, __ATOMIC_ACQUIRE);
		}
		now = kp_now_ns();
	}
	if (user->account)
		user->account(user, op, kp_now_ns() - start);
}

static struct kp_rwsem_op new_op(const struct kp_rwsem_user *user, enum kp_rwsem_mode mode,
				 enum kp_rwsem_at at)
{
	return (struct kp_rwsem_op){ .at = at, .mode = mode, .job = user->job };
}

static int down(struct kp_rwsem_user *user, struct kp_rwsem_op *op, uint64_t seen)
{
	op->seen = seen;
	op->steal_event = KP_RWSEM_NR_EVENTS;
	run(user, op);
	return op->given_up ? -ECANCELED : 0;
}

/* With more jobs than the lock word has bits for, an uncontended lock is taken here. */
static int read_slow(struct kp_rwsem_user *user, uint64_t seen)
{
	struct kp_rwsem_op op;

	if (kp_rwsem_is_beyond(user->job) && kp_rwsem_read_look(user->sem, user->rules, &seen))
		return 0;
	op = new_op(user, KP_RWSEM_READ, KP_RWSEM_AT_READ_SLOW);
	op.marked = true;
	return down(user, &op, seen);
}

static int write_slow(struct kp_rwsem_user *user, uint64_t seen)
{
	struct kp_rwsem_op op;
	bool claimed = seen == KP_RWSEM_MORE && kp_rwsem_claim(user->sem, user->job, &seen);

	if (claimed && !kp_rwsem_readers_beyond(user->sem)) {
		kp_rwsem_set_owner(user->sem, 0);
		return 0;
	}
	op = new_op(user, KP_RWSEM_WRITE, claimed ? KP_RWSEM_AT_UNCLAIM : KP_RWSEM_AT_WRITE_SLOW);
	op.unclaimed_then = KP_RWSEM_AT_WRITE_SLOW;
	return down(user, &op, seen);
}

int kp_rwsem_down_slow(struct kp_rwsem_user *user, enum kp_rwsem_mode mode, uint64_t seen)
{
	return mode == KP_RWSEM_READ ? read_slow(user, seen) : write_slow(user, seen);
}

void kp_rwsem_wake(struct kp_rwsem_user *user, enum kp_rwsem_mode mode)
{
	struct kp_rwsem_op op;

	if (mode == KP_RWSEM_READ && kp_rwsem_is_beyond(user->job) &&
	    kp_rwsem_release_look(user->sem))
		return;
	op = new_op(user, mode, KP_RWSEM_AT_WAKE);
	run(user, &op);
}

void kp_rwsem_downgrade(struct kp_rwsem_user *user)
{
	struct kp_rwsem_op op = new_op(user, KP_RWSEM_READ, KP_RWSEM_AT_DOWNGRADE);

	run(user, &op);
}

unsigned int kp_rwsem_recover(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
			      unsigned int dead)
{
	struct kp_rwsem_user user = { .sem = sem, .rules = rules, .job = dead };
	struct kp_rwsem_op op = new_op(&user, KP_RWSEM_WRITE, KP_RWSEM_AT_LEAVE_BEYOND);

	op.leaver = dead;
	lock_queue(sem);
	run(&user, &op);
	return op.events[KP_RWSEM_RECOVERED];
}
