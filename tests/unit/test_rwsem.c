// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock as it is used: each overtaking forced and counted, threads and processes at it by the
 * million, and SIGKILL after each step that a job makes on its way into the lock and out of it.
 *
 * The lock is compiled in again, with a stop after each step; after a kill waiters look for the
 * dead sooner.
 * time limit: 120
 */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/diolock/rwsem.h"

/* Where a contender is to die. */
enum stop_kind { STOP_NEVER, STOP_BEFORE, STOP_AFTER, STOP_LOCKED, STOP_UNLOCKED, STOP_HOLDS };

struct stop {
	int rules;
	enum stop_kind kind;
	int at;		    /* a step; STOP_HOLDS: a mode */
	unsigned int times; /* at the how manieth time */
};

static struct stop stop;
static __thread bool was_slow; /* the last operation */

/* Dawdle after this step, so that others come to one that is rare; 0: none. */
static int slow_step;

static void come_to(enum stop_kind kind, int at)
{
	if (slow_step && kind == STOP_AFTER && at == slow_step)
		usleep(200);
	was_slow |= kind != STOP_HOLDS;
	if (stop.kind == kind && stop.at == at && !--stop.times)
		kill(getpid(), SIGKILL);
}

#define KP_RWSEM_BEFORE(at)  come_to(STOP_BEFORE, at)
#define KP_RWSEM_STEPPED(at) come_to(STOP_AFTER, at)
#define KP_RWSEM_LOCKED()    come_to(STOP_LOCKED, 0)
#define KP_RWSEM_UNLOCKED()  come_to(STOP_UNLOCKED, 0)
static uint64_t look_around_ns = 100000000;
#define KP_RWSEM_LOOK_AROUND_NS look_around_ns
#include "policy/diolock/rwsem.c" // NOLINT(bugprone-suspicious-include)

#define FOR_EACH_RULE kp_nr_rwsem_rules

/* ---- forced overtakings -------------------------------------------------------------------- */

static struct kp_rwsem sem;
static const struct kp_rwsem_rules *rules;

static struct kp_rwsem_op begin(unsigned int job, enum kp_rwsem_mode mode)
{
	return (struct kp_rwsem_op){
		.at = mode == KP_RWSEM_READ ? KP_RWSEM_AT_READ : KP_RWSEM_AT_WRITE,
		.mode = mode,
		.job = job,
	};
}

/*
 * Step on until the operation would sleep, spins, or is over. wait_lock is free between the steps
 * of a test with one thread. @now as if that late. Return: what it asked last.
 */
static enum kp_rwsem_ask advance(struct kp_rwsem_op *op, uint64_t now)
{
	for (;;) {
		enum kp_rwsem_ask what = kp_rwsem_step(&sem, rules, op, now);

		if (what == KP_RWSEM_SLEEP || what == KP_RWSEM_END || what == KP_RWSEM_RELAX)
			return what;
		op->busy = false;
	}
}

static void takes(struct kp_rwsem_op *op)
{
	ck_assert_int_eq(advance(op, 1), KP_RWSEM_END);
	ck_assert(op->taken);
}

static void sleeps(struct kp_rwsem_op *op)
{
	enum kp_rwsem_ask what = advance(op, 1);

	if (what == KP_RWSEM_RELAX) /* the time for spinning is over */
		what = advance(op, 1 + KP_RWSEM_SPIN_NS * 2);
	ck_assert_int_eq(what, KP_RWSEM_SLEEP);
}

static struct kp_rwsem_op release(unsigned int job, enum kp_rwsem_mode mode)
{
	struct kp_rwsem_op op = {
		.at = mode == KP_RWSEM_READ ? KP_RWSEM_AT_UP_READ : KP_RWSEM_AT_UP_WRITE,
		.mode = mode,
		.job = job,
	};

	ck_assert_int_eq(advance(&op, 1), KP_RWSEM_END);
	return op;
}

/* The release of the word alone: the one that waits is not woken yet. */
static struct kp_rwsem_op release_word(unsigned int job, enum kp_rwsem_mode mode)
{
	struct kp_rwsem_op op = {
		.at = mode == KP_RWSEM_READ ? KP_RWSEM_AT_UP_READ : KP_RWSEM_AT_UP_WRITE,
		.mode = mode,
		.job = job,
	};

	while (op.at != KP_RWSEM_AT_WAKE)
		ck_assert_int_eq(kp_rwsem_step(&sem, rules, &op, 1), KP_RWSEM_GO_ON);
	return op;
}

static void begin_test(int i)
{
	rules = &kp_rwsem_rules[i];
	ck_assert_int_eq(kp_rwsem_init(&sem), 0);
}

/* A writer held, one that sleeps in the queue, and one that steals when the lock is let go. */
START_TEST(writer_steals)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), waiter, thief, up;

	begin_test(_i);
	takes(&holder);
	waiter = begin(1, KP_RWSEM_READ);
	sem.owner = KP_RWSEM_SLEEPING; /* so that nobody spins */
	sleeps(&waiter);
	up = release_word(0, KP_RWSEM_WRITE);
	thief = begin(2, KP_RWSEM_WRITE);
	takes(&thief);
	ck_assert_uint_eq(thief.events[KP_RWSEM_WRITE_STEALS], 1);
	ck_assert_int_eq(advance(&up, 1), KP_RWSEM_END);
	/* The waiter was robbed: it is woken for nothing, if at all, and sleeps again. */
	ck_assert_int_eq(advance(&waiter, 1), KP_RWSEM_SLEEP);
	up = release(2, KP_RWSEM_WRITE);
	ck_assert_uint_eq(up.events[KP_RWSEM_READERS_GRANTED], 1);
	takes(&waiter);
}
END_TEST

/* A queued writer that happens to be awake takes the lock before the first in the queue. */
START_TEST(queued_writer_steals)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), first, second, up;

	begin_test(_i);
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	first = begin(1, KP_RWSEM_WRITE);
	sleeps(&first);
	second = begin(2, KP_RWSEM_WRITE);
	sleeps(&second);
	up = release_word(0, KP_RWSEM_WRITE);
	takes(&second);
	ck_assert_uint_eq(second.events[KP_RWSEM_QUEUE_STEALS], 1);
	ck_assert_int_eq(advance(&up, 1), KP_RWSEM_END);
	release(2, KP_RWSEM_WRITE);
	takes(&first);
}
END_TEST

/* Held by a reader, a writer waits, another reader comes. */
START_TEST(reader_passes_a_waiting_writer)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_READ), waiter, other;
	enum kp_rwsem_ask what;

	begin_test(_i);
	takes(&holder);
	waiter = begin(1, KP_RWSEM_WRITE);
	sleeps(&waiter);
	sem.owner =
		KP_RWSEM_READER_OWNED; /* as if the time that writers may spin on readers were not over */
	other = begin(2, KP_RWSEM_READ);
	what = advance(&other, 1);
	/* 4.9: no barging. 5.11: not while another reader is counted. 5.3: it spins and steals. */
	ck_assert_int_eq(what, rules->readers_spin ? KP_RWSEM_END : KP_RWSEM_SLEEP);
	ck_assert_uint_eq(other.events[KP_RWSEM_READ_STEALS], rules->readers_spin);
}
END_TEST

/* The last reader has gone, the writer is not awake yet, another reader comes. */
START_TEST(reader_steals_a_free_lock)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_READ), waiter, other, up;
	bool steals;

	begin_test(_i);
	steals = rules->readers_spin || rules->readers_steal;
	takes(&holder);
	waiter = begin(1, KP_RWSEM_WRITE);
	sleeps(&waiter);
	sem.owner = KP_RWSEM_READER_OWNED;
	up = release_word(0, KP_RWSEM_READ);
	other = begin(2, KP_RWSEM_READ);
	ck_assert_int_eq(advance(&other, 1), steals ? KP_RWSEM_END : KP_RWSEM_SLEEP);
	ck_assert_uint_eq(other.events[KP_RWSEM_READ_STEALS], steals);
	ck_assert_int_eq(advance(&up, 1), KP_RWSEM_END);
}
END_TEST

/* Queued: reader, writer, reader. 4.9 grants the first; later all readers, past the writer. */
START_TEST(grants)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), first, writer, second, up;
	bool all;

	begin_test(_i);
	all = rules->grants_all_readers;
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	first = begin(1, KP_RWSEM_READ);
	sleeps(&first);
	writer = begin(2, KP_RWSEM_WRITE);
	sleeps(&writer);
	second = begin(3, KP_RWSEM_READ);
	sleeps(&second);
	up = release(0, KP_RWSEM_WRITE);
	ck_assert_uint_eq(up.events[KP_RWSEM_GRANTS], 1);
	ck_assert_uint_eq(up.events[KP_RWSEM_READERS_GRANTED], all ? 2 : 1);
	ck_assert_uint_eq(up.events[KP_RWSEM_READERS_PASSED], all);
	takes(&first);
	ck_assert_int_eq(advance(&second, 1), all ? KP_RWSEM_END : KP_RWSEM_SLEEP);
}
END_TEST

/* A first waiter that waited 4 ms is promised the lock: from then on nobody steals. */
START_TEST(handoff)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), waiter, thief, up;
	uint64_t late = KP_RWSEM_WAIT_NS * 2;

	begin_test(_i);
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	waiter = begin(1, KP_RWSEM_WRITE);
	sleeps(&waiter);
	ck_assert_int_eq(advance(&waiter, late), KP_RWSEM_SLEEP);
	ck_assert_uint_eq(waiter.events[KP_RWSEM_HANDOFFS], rules->hands_off);
	up = release_word(0, KP_RWSEM_WRITE);
	thief = begin(2, KP_RWSEM_WRITE);
	if (rules->hands_off) {
		sleeps(&thief);
		ck_assert_uint_eq(thief.events[KP_RWSEM_WRITE_STEALS], 0);
		thief = begin(3, KP_RWSEM_READ);
		ck_assert_int_ne(advance(&thief, 1), KP_RWSEM_END);
	} else {
		takes(&thief);
	}
	ck_assert_int_eq(advance(&up, 1), KP_RWSEM_END);
	if (rules->hands_off)
		takes(&waiter);
}
END_TEST

/* 4.9: writers spin on a running writer, not on one that sleeps, and not on readers. */
START_TEST(spinning)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), other = begin(1, KP_RWSEM_WRITE);

	begin_test(_i);
	takes(&holder);
	ck_assert_int_eq(advance(&other, 1), KP_RWSEM_RELAX);
	sem.owner = KP_RWSEM_SLEEPING;
	ck_assert_int_eq(advance(&other, 1), KP_RWSEM_SLEEP);

	begin_test(_i);
	holder = begin(0, KP_RWSEM_READ);
	takes(&holder);
	other = begin(1, KP_RWSEM_WRITE);
	ck_assert_int_eq(advance(&other, 1),
			 rules->writers_spin_on_readers ? KP_RWSEM_RELAX : KP_RWSEM_SLEEP);
	/* 5.3: (20 + 1 reader) / 2 us, then no writer spins on these readers any more */
	if (rules->writers_spin_on_readers) {
		ck_assert_int_eq(advance(&other, 1 + 10499), KP_RWSEM_RELAX);
		ck_assert_int_eq(advance(&other, 1 + 10500), KP_RWSEM_SLEEP);
		other = begin(2, KP_RWSEM_WRITE);
		ck_assert_int_eq(advance(&other, 1), KP_RWSEM_SLEEP);
	}
}
END_TEST

/* What a kernel makes of the flags that say who does not spin. */
static const struct {
	const char *name;
	uint32_t timed_out, after_reader, last_left, queued_writer;
} flags_wanted[] = {
	{ "4.9", KP_RWSEM_READER_OWNED, KP_RWSEM_READER_OWNED, KP_RWSEM_READER_OWNED, 0 },
	{ "5.3", KP_RWSEM_READER_OWNED | KP_RWSEM_NO_READER_SPIN | KP_RWSEM_NO_WRITER_SPIN,
	  KP_RWSEM_READER_OWNED | KP_RWSEM_NO_READER_SPIN,
	  KP_RWSEM_READER_OWNED | KP_RWSEM_NO_READER_SPIN, KP_RWSEM_NO_READER_SPIN },
	{ "5.11", KP_RWSEM_READER_OWNED | KP_RWSEM_NO_WRITER_SPIN,
	  KP_RWSEM_READER_OWNED | KP_RWSEM_NO_WRITER_SPIN, KP_RWSEM_READER_OWNED, 0 },
};

/*
 * A writer spins on a reader for too long and queues; another one does not try. The last reader
 * leaves: a new writer spins, and takes the lock before those that are queued.
 */
START_TEST(flags)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_READ), slow = begin(1, KP_RWSEM_WRITE), other,
			   up, thief;
	bool spins;
	uint32_t owner;

	begin_test(_i);
	spins = rules->writers_spin_on_readers;
	ck_assert_str_eq(rules->name, flags_wanted[_i].name);
	takes(&holder);
	ck_assert_int_eq(advance(&slow, 1), spins ? KP_RWSEM_RELAX : KP_RWSEM_SLEEP);
	ck_assert_int_eq(advance(&slow, 20000), KP_RWSEM_SLEEP);
	ck_assert_uint_eq(sem.owner, flags_wanted[_i].timed_out);
	other = begin(2, KP_RWSEM_WRITE);
	ck_assert_int_eq(advance(&other, 1), KP_RWSEM_SLEEP);
	ck_assert_uint_eq(other.events[KP_RWSEM_SPINS], 0);
	other = begin(3, KP_RWSEM_READ);
	ck_assert_int_eq(advance(&other, 1), KP_RWSEM_SLEEP);
	ck_assert_uint_eq(other.events[KP_RWSEM_SPINS], 0);

	owner = sem.owner;
	kp_rwsem_set_reader_owned(&sem, rules); /* another reader, by a fast path */
	ck_assert_uint_eq(sem.owner, flags_wanted[_i].after_reader);
	sem.owner = owner;

	up = release_word(0, KP_RWSEM_READ);
	kp_rwsem_step(&sem, rules, &up, 1);
	ck_assert_uint_eq(sem.owner, flags_wanted[_i].last_left);
	thief = begin(4, KP_RWSEM_WRITE);
	takes(&thief); /* 4.9: it queues, as nobody spins on readers, and is first to look */
	ck_assert_uint_eq(thief.events[KP_RWSEM_WRITE_STEALS], spins);
	ck_assert_uint_eq(thief.events[KP_RWSEM_QUEUE_STEALS], !spins);
	ck_assert_uint_eq(sem.owner, 0); /* one that did not queue lets readers spin again */
	ck_assert_int_eq(advance(&up, 1), KP_RWSEM_END);
	release(4, KP_RWSEM_WRITE);
	takes(&slow);
	ck_assert_uint_eq(sem.owner, flags_wanted[_i].queued_writer);
}
END_TEST

/* A reader that spins stops when the lock says that readers shall not. */
START_TEST(reader_stops_spinning)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), other = begin(1, KP_RWSEM_READ);

	begin_test(_i);
	takes(&holder);
	ck_assert_int_eq(advance(&other, 1), rules->readers_spin ? KP_RWSEM_RELAX : KP_RWSEM_SLEEP);
	sem.owner = KP_RWSEM_NO_READER_SPIN;
	ck_assert_int_eq(advance(&other, 1), KP_RWSEM_SLEEP);
}
END_TEST

/*
 * A job that holds the lock for an I/O in flight waits for its next. Whoever came into wait_lock
 * died there: it keeps its place all the same.
 */
START_TEST(repair_keeps_a_holder_that_waits)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), again, other, up;

	begin_test(_i);
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	again = begin(0, KP_RWSEM_WRITE);
	sleeps(&again);
	other = begin(1, KP_RWSEM_WRITE);
	sleeps(&other);
	kp_rwsem_repair(&sem);
	ck_assert_uint_eq(sem.waiting[0], 3);
	up = release(0, KP_RWSEM_WRITE);
	ck_assert_uint_eq(up.events[KP_RWSEM_GRANTS], 0);
	takes(&again);
	ck_assert_uint_eq(again.events[KP_RWSEM_QUEUE_STEALS], 0);
	release(0, KP_RWSEM_WRITE);
	takes(&other);
	release(1, KP_RWSEM_WRITE);
	ck_assert_uint_eq(sem.word, 0);
	ck_assert_uint_eq(sem.first, 0);
}
END_TEST

/* ---- what a waiter does meanwhile ---------------------------------------------------------- */

static char idle_calls[8];

/* Note the calls; give up before the first sleep. */
static bool note_idle(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	(void)user;
	(void)timeout_ns;
	strcat(idle_calls, timed_out ? "d" : "s"); // NOLINT: few
	return timed_out;
}

static uint64_t counted_events[KP_RWSEM_NR_EVENTS];

static void add_events(struct kp_rwsem_user *user, const struct kp_rwsem_op *op, uint64_t ns)
{
	(void)user;
	(void)ns;
	for (int i = 0; i < KP_RWSEM_NR_EVENTS; i++)
		counted_events[i] += op->events[i];
}

/* One that died spinning would keep all from spinning: who is refused looks for the dead. */
START_TEST(the_one_that_spins_may_be_dead)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE);
	uint64_t taken[2] = { 0 };
	struct kp_rwsem_user user = { .sem = &sem,
				      .place = { &sem.word, 2 },
				      .job = 1,
				      .taken = { &taken[0], &taken[1] },
				      .idle = note_idle };

	begin_test(_i);
	user.rules = rules;
	takes(&holder);
	sem.spinner = 8;
	idle_calls[0] = 0;
	ck_assert_int_eq(kp_rwsem_down(&user, KP_RWSEM_WRITE), -ECANCELED);
	ck_assert_str_eq(idle_calls, "ds");
	idle_calls[0] = 0; /* not each time */
	ck_assert_int_eq(kp_rwsem_down(&user, KP_RWSEM_WRITE), -ECANCELED);
	ck_assert_str_eq(idle_calls, "s");
	kp_rwsem_recover(&sem, rules, 7);
	ck_assert_uint_eq(sem.spinner, 0);
}
END_TEST

/* As a job with I/O in flight: look every 50 us, until the tenth time. */
static bool poll_ten_times(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	unsigned int *polls = user->private;

	(void)timed_out;
	*timeout_ns = 50000;
	return (*polls)++ < 10;
}

START_TEST(polls_are_one_sleep)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE);
	uint64_t taken[2] = { 0 };
	unsigned int polls = 0;
	struct kp_rwsem_user user = { .sem = &sem,
				      .place = { &sem.word, 2 },
				      .job = 1,
				      .taken = { &taken[0], &taken[1] },
				      .idle = poll_ten_times,
				      .account = add_events,
				      .private = &polls };

	begin_test(_i);
	user.rules = rules;
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	memset(counted_events, 0, sizeof(counted_events));
	ck_assert_int_eq(kp_rwsem_down(&user, KP_RWSEM_WRITE), -ECANCELED);
	ck_assert_uint_eq(polls, 11);
	ck_assert_uint_eq(counted_events[KP_RWSEM_SLEEPS], 1);
	ck_assert_uint_eq(counted_events[KP_RWSEM_WAKES_WATCHED], 0);
}
END_TEST

/* Polls that take longer than they were to: the dead are looked for by the clock all the same. */
static bool poll_slowly(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	(void)user;
	idle_calls[0] = timed_out ? 'd' : idle_calls[0];
	*timeout_ns = 1000;
	usleep(5000);
	return idle_calls[0] != 'd';
}

START_TEST(time_passes_by_the_clock)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE);
	uint64_t taken[2] = { 0 }, start;
	struct kp_rwsem_user user = { .sem = &sem,
				      .place = { &sem.word, 2 },
				      .job = 1,
				      .taken = { &taken[0], &taken[1] },
				      .idle = poll_slowly };

	begin_test(_i);
	user.rules = rules;
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	idle_calls[0] = 0;
	start = kp_now_ns();
	ck_assert_int_eq(kp_rwsem_down(&user, KP_RWSEM_WRITE), -ECANCELED);
	ck_assert_uint_lt(kp_now_ns() - start, 1000000000u);
}
END_TEST

/* The first and the last job, in the lock word and beyond it. */
static const unsigned int edge_jobs[] = { 0,
					  KP_RWSEM_WORD_JOBS - 1,
					  KP_RWSEM_WORD_JOBS,
					  2 * KP_RWSEM_WORD_JOBS - 1,
					  2 * KP_RWSEM_WORD_JOBS,
					  KP_RWSEM_JOBS - 1 };

#define NR_EDGE_JOBS (sizeof(edge_jobs) / sizeof(*edge_jobs))

static void check_free(const struct kp_rwsem *lock)
{
	ck_assert_uint_eq(lock->word & ~KP_RWSEM_MORE, 0);
	ck_assert_uint_eq(lock->first, 0);
	ck_assert_uint_eq(lock->last, 0);
	ck_assert_uint_eq(lock->spinner, 0);
	for (unsigned int i = 0; i < KP_RWSEM_WORDS; i++)
		ck_assert_uint_eq(lock->waiting[i], 0);
	for (unsigned int i = 0; i < KP_RWSEM_WORDS - 1; i++)
		ck_assert_uint_eq(lock->beyond[i], KP_RWSEM_WAITERS);
}

/* Without jobs beyond it the lock word is all that the fast paths touch. */
START_TEST(fast_paths)
{
	unsigned int last = KP_RWSEM_WORD_JOBS - 1;
	struct kp_rwsem_op a = begin(0, KP_RWSEM_READ), b = begin(last, KP_RWSEM_READ);

	begin_test(_i);
	takes(&a);
	takes(&b);
	ck_assert_uint_eq(sem.word, 1ull | 1ull << last);
	release(0, KP_RWSEM_READ);
	release(last, KP_RWSEM_READ);
	a = begin(last, KP_RWSEM_WRITE);
	takes(&a);
	ck_assert_uint_eq(sem.word, (uint64_t)KP_RWSEM_WORD_JOBS << KP_RWSEM_WRITER_SHIFT);
	release(last, KP_RWSEM_WRITE);
	check_free(&sem);
}
END_TEST

/* All jobs read together; no job writes until the last of them has released the lock. */
START_TEST(all_jobs_read)
{
	begin_test(_i);
	for (unsigned int i = 0; i < KP_RWSEM_JOBS; i++) {
		struct kp_rwsem_op op = begin(i, KP_RWSEM_READ);

		kp_rwsem_admit(&sem, i);
		takes(&op);
	}
	for (unsigned int i = 0; i < KP_RWSEM_JOBS; i++) {
		struct kp_rwsem_op op = begin(i, KP_RWSEM_WRITE);

		sem.owner = KP_RWSEM_READER_OWNED | KP_RWSEM_NO_WRITER_SPIN;
		sleeps(&op);
	}
	for (unsigned int i = 0; i < KP_RWSEM_JOBS; i++) {
		struct kp_rwsem_op up = release(i, KP_RWSEM_READ);

		/* The last one wakes the first writer in the queue. */
		ck_assert_uint_eq(up.wake[0], i == KP_RWSEM_JOBS - 1);
	}
}
END_TEST

/* A writer among @readers that wait: a grant takes all readers, but no more than the kernel does. */
START_TEST(grant_to_many)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE), up;
	unsigned int readers = KP_RWSEM_JOBS - 1, granted, left;

	begin_test(_i);
	kp_rwsem_admit(&sem, KP_RWSEM_JOBS - 1);
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	for (unsigned int i = 1; i <= readers; i++) {
		struct kp_rwsem_op op = begin(i, KP_RWSEM_READ);

		sleeps(&op);
	}
	up = release(0, KP_RWSEM_WRITE);
	granted = up.events[KP_RWSEM_READERS_GRANTED];
	ck_assert_uint_eq(granted, rules->max_granted ? 256 : readers);
	left = readers - granted;
	for (unsigned int i = 1; i <= readers; i++) {
		if (i % granted == 1 &&
		    i > 1) /* the last reader of the grant before was the last */
			ck_assert_uint_eq(up.events[KP_RWSEM_READERS_GRANTED],
					  kp_min(left, granted));
		if (i % granted == 1 && i > 1)
			left -= kp_min(left, granted);
		up = release(i, KP_RWSEM_READ);
	}
	check_free(&sem);
}
END_TEST

/* Each pair of jobs, wherever their bits are: what one holds keeps the other out. */
START_TEST(edges_exclude)
{
	for (size_t i = 0; i < NR_EDGE_JOBS * NR_EDGE_JOBS; i++) {
		unsigned int a = edge_jobs[i / NR_EDGE_JOBS], b = edge_jobs[i % NR_EDGE_JOBS];
		struct kp_rwsem_op first, second;

		if (a == b)
			continue;
		for (int modes = 0; modes < 4; modes++) {
			begin_test(_i);
			kp_rwsem_admit(&sem, a);
			kp_rwsem_admit(&sem, b);
			first = begin(a, modes & 1);
			takes(&first);
			sem.owner = modes & 1 ? KP_RWSEM_SLEEPING : KP_RWSEM_READER_OWNED;
			second = begin(b, modes / 2);
			if (modes)
				sleeps(&second);
			else
				takes(&second);
			release(a, modes & 1);
			takes(&second);
			release(b, modes / 2);
			check_free(&sem);
		}
	}
}
END_TEST

/* The queue is linked again from its bits and tickets, in the order of the tickets. */
START_TEST(repair_links_the_queue)
{
	struct kp_rwsem_op holder = begin(0, KP_RWSEM_WRITE);
	static const unsigned int jobs[] = { 700, 3, 48, 1023, 49 };
	unsigned int i = 0;

	begin_test(_i);
	kp_rwsem_admit(&sem, KP_RWSEM_JOBS - 1);
	takes(&holder);
	sem.owner = KP_RWSEM_SLEEPING;
	for (size_t j = 0; j < sizeof(jobs) / sizeof(*jobs); j++) {
		struct kp_rwsem_op op = begin(jobs[j], KP_RWSEM_WRITE);

		sleeps(&op);
	}
	sem.first = sem.last = 0;
	for (unsigned int j = 0; j < KP_RWSEM_JOBS; j++)
		sem.waiters[j].next = sem.waiters[j].prev = 5;
	kp_rwsem_repair(&sem);
	for (unsigned int at = sem.first; at; at = sem.waiters[at - 1].next)
		ck_assert_uint_eq(at - 1, jobs[i++]);
	ck_assert_uint_eq(i, sizeof(jobs) / sizeof(*jobs));
	ck_assert_uint_eq(sem.last, 49 + 1);
}
END_TEST

START_TEST(of_kernel)
{
	static const struct {
		const char *kernel, *rwsem;
	} wanted[] = {
		{ "4.3", "4.9" },     { "4.9", "4.9" },	  { "5.2.0", "4.9" },
		{ "5.3-rc1", "4.9" }, { "5.3", "5.3" },	  { "5.4", "5.3" },
		{ "5.10.7", "5.3" },  { "5.11", "5.11" }, { "6.12", "5.11" },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		ck_assert_str_eq(kp_rwsem_of_kernel(wanted[i].kernel)->name, wanted[i].rwsem);
	ck_assert_ptr_null(kp_rwsem_find("5.4"));
}
END_TEST

/* ---- stress -------------------------------------------------------------------------------- */

#define CONTENDERS 8

/* Shared by processes: the lock, and what it protects. */
struct arena {
	struct kp_rwsem sem;
	uint64_t a, b;				 /* equal whenever nobody writes */
	uint64_t readers_inside, writers_inside; /* atomic */
	uint64_t events[KP_RWSEM_NR_EVENTS];
	uint64_t done[CONTENDERS];
	uint64_t writes[CONTENDERS];
	bool dead[CONTENDERS];
	bool stop;
	uint64_t start_ns;
};

static struct arena *arena;
static unsigned int first_job; /* the job number of contender 0 */

struct contender {
	struct kp_rwsem_user user;
	uint64_t taken[2];
	uint64_t random;
	unsigned int rounds;
};

static void tally(struct kp_rwsem_user *user, const struct kp_rwsem_op *op, uint64_t ns)
{
	(void)user;
	(void)ns;
	for (int i = 0; i < KP_RWSEM_NR_EVENTS; i++)
		__atomic_fetch_add(&arena->events[i], op->events[i], __ATOMIC_RELAXED);
}

static bool recover_dead(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	/* Where one dies, some poll, as a job does that has I/O in flight. */
	if (((user->job - first_job) % 2 && look_around_ns == 20000000) ||
	    stop.at == KP_RWSEM_AT_GRANTED)
		*timeout_ns = 50000;
	/* To come to the steps of a waiter that gives up. */
	if (!timed_out && stop.kind == STOP_AFTER && stop.at >= KP_RWSEM_AT_LEAVE_BEYOND &&
	    stop.at <= KP_RWSEM_AT_LEAVE_FLAG)
		return false;
	for (unsigned int i = 0; timed_out && i < CONTENDERS; i++) {
		if (__atomic_exchange_n(&arena->dead[i], false, __ATOMIC_ACQ_REL))
			kp_rwsem_recover(user->sem, user->rules, first_job + i);
	}
	return true;
}

static struct contender contender(unsigned int i, unsigned int rounds)
{
	struct contender c = { .rounds = rounds, .random = i * 7919 + 1 };

	kp_rwsem_user_init(&c.user, &arena->sem, rules, first_job + i);
	c.user.idle = recover_dead;
	c.user.account = tally;
	return c;
}

static unsigned int next_random(struct contender *c)
{
	c->random = c->random * 6364136223846793005ull + 1442695040888963407ull;
	return c->random >> 40;
}

/* In a child that may be killed at any time, Check's own assertions would garble its pipe. */
static void must(bool condition)
{
	if (!condition)
		abort();
}

static void inside_as_reader(void)
{
	__atomic_fetch_add(&arena->readers_inside, 1, __ATOMIC_RELAXED);
	must(__atomic_load_n(&arena->writers_inside, __ATOMIC_RELAXED) == 0);
	must(arena->a == arena->b);
	__atomic_fetch_sub(&arena->readers_inside, 1, __ATOMIC_RELAXED);
}

static void inside_as_writer(struct contender *c)
{
	must(__atomic_fetch_add(&arena->writers_inside, 1, __ATOMIC_RELAXED) == 0);
	must(__atomic_load_n(&arena->readers_inside, __ATOMIC_RELAXED) == 0);
	arena->a++; /* not atomic: a race would lose some, or be seen by the thread sanitizer */
	if (next_random(c) % 256 == 0) {
		kp_rwsem_sleeping(&c->user);
		sched_yield();
	}
	arena->b++;
	__atomic_fetch_sub(&arena->writers_inside, 1, __ATOMIC_RELAXED);
}

/* Return: false when the wait was given up. */
static bool take(struct contender *c, enum kp_rwsem_mode mode)
{
	int ret;

	was_slow = false;
	ret = kp_rwsem_down(&c->user, mode);
	must(!ret || (ret == -ECANCELED && stop.kind));
	if (!ret && !was_slow)
		come_to(STOP_HOLDS, mode);
	return !ret;
}

static void one_round(struct contender *c)
{
	unsigned int kind = next_random(c) % 16;

	if (kind < 10) {
		if (!take(c, KP_RWSEM_READ))
			return;
		inside_as_reader();
		kp_rwsem_up(&c->user, KP_RWSEM_READ);
		return;
	}
	if (!take(c, KP_RWSEM_WRITE))
		return;
	inside_as_writer(c);
	__atomic_fetch_add(&arena->writes[c->user.job - first_job], 1, __ATOMIC_RELAXED);
	if (kind < 15) {
		kp_rwsem_up(&c->user, KP_RWSEM_WRITE);
		return;
	}
	kp_rwsem_downgrade(&c->user);
	inside_as_reader();
	kp_rwsem_up(&c->user, KP_RWSEM_READ);
}

static void *contend(void *arg)
{
	struct contender *c = arg;

	c->user.taken[0] = &c->taken[0];
	c->user.taken[1] = &c->taken[1];
	for (unsigned int i = 0; i < c->rounds && !__atomic_load_n(&arena->stop, __ATOMIC_RELAXED);
	     i++) {
		one_round(c);
		__atomic_fetch_add(&arena->done[c->user.job - first_job], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Jobs in the lock word, on both sides of its end, and beyond it. */
static const unsigned int first_jobs[] = { 0, KP_RWSEM_WORD_JOBS - 2, KP_RWSEM_WORD_JOBS };

#define NR_FIRST_JOBS (sizeof(first_jobs) / sizeof(*first_jobs))

/* A test for each of the rules, times each of first_jobs. */
static void choose(int i)
{
	rules = &kp_rwsem_rules[i / NR_FIRST_JOBS];
	first_job = first_jobs[i % NR_FIRST_JOBS];
}

static void new_arena(int i)
{
	choose(i);
	arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(arena, MAP_FAILED);
	ck_assert_int_eq(kp_rwsem_init(&arena->sem), 0);
	arena->start_ns = kp_now_ns();
}

static void check_arena(void)
{
	uint64_t writes = 0;

	for (int i = 0; i < CONTENDERS; i++)
		writes += arena->writes[i];
	ck_assert_uint_eq(arena->a, writes);
	ck_assert_uint_eq(arena->b, writes);
	check_free(&arena->sem);
	/* A job may be preempted between release and wake for as long as 100 ms; not often. */
	ck_assert_uint_le(arena->events[KP_RWSEM_LOST_WAKES],
			  3 + (kp_now_ns() - arena->start_ns) / 1000000000);
	printf("rwsem %s, jobs from %u: %llu writes, steals %llu+%llu+%llu, passed %llu, handoffs "
	       "%llu\n",
	       rules->name, first_job, (unsigned long long)writes,
	       (unsigned long long)arena->events[0], (unsigned long long)arena->events[1],
	       (unsigned long long)arena->events[2], (unsigned long long)arena->events[3],
	       (unsigned long long)arena->events[KP_RWSEM_HANDOFFS]);
	if (!rules->hands_off)
		ck_assert_uint_eq(arena->events[KP_RWSEM_HANDOFFS], 0);
	munmap(arena, sizeof(*arena));
}

static unsigned int stress_rounds(void)
{
	const char *rounds = getenv("KP_ROUNDS");

	return rounds ? strtoul(rounds, NULL, 10) : 30000;
}

START_TEST(threads)
{
	struct contender c[CONTENDERS];
	pthread_t thread[CONTENDERS];

	new_arena(_i);
	for (int i = 0; i < CONTENDERS; i++) {
		c[i] = contender(i, stress_rounds());
		ck_assert_int_eq(pthread_create(&thread[i], NULL, contend, &c[i]), 0);
	}
	for (int i = 0; i < CONTENDERS; i++)
		pthread_join(thread[i], NULL);
	check_arena();
}
END_TEST

/* Run contender @i in a process of its own that dies at @where. */
static pid_t fork_contender(unsigned int i, unsigned int rounds, struct stop where)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct contender c = contender(i, rounds);

		stop = where;
		contend(&c);
		_exit(0);
	}
	return pid;
}

START_TEST(processes)
{
	pid_t pid[CONTENDERS];

	new_arena(_i);
	for (int i = 0; i < CONTENDERS; i++)
		pid[i] = fork_contender(i, stress_rounds(), (struct stop){ 0 });
	for (int i = 0; i < CONTENDERS; i++) {
		int status;

		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_msg(!status, "contender %d: status %x", i, status);
	}
	check_arena();
}
END_TEST

/* ---- SIGKILL after each step --------------------------------------------------------------- */

#define SURVIVORS 3 /* contenders 1 to 3; contender 0 dies */

static const char *const step_names[KP_RWSEM_NR_AT] = {
	"read",	      "read look",    "read slow",  "read undo",      "write",	   "write more",
	"write slow", "scan",	      "unclaim",    "spin begin",     "spin",	   "spin look",
	"spin undo",  "spin end",     "queue",	    "enqueue",	      "try write", "dequeue",
	"mark wake",  "grant beyond", "grant word", "grant undo",     "grant",	   "leave beyond",
	"leave word", "leave queue",  "leave flag", "unlock",	      "sleep",	   "woken",
	"granted",    "own",	      "up read",    "up read look",   "up write",  "up write word",
	"wake",	      "wake tried",   "downgrade",  "downgrade word", "done",
};

/* Which steps does contender 0 take? Those of a fast path have kinds of stops of their own. */
static bool is_taken(enum kp_rwsem_at at)
{
	bool beyond = kp_rwsem_is_beyond(first_job);

	switch (at) {
	case KP_RWSEM_AT_READ:
	case KP_RWSEM_AT_READ_LOOK:
	case KP_RWSEM_AT_WRITE:
	case KP_RWSEM_AT_WRITE_MORE:
	case KP_RWSEM_AT_UP_READ:
	case KP_RWSEM_AT_UP_READ_LOOK:
	case KP_RWSEM_AT_UP_WRITE:
	case KP_RWSEM_AT_UP_WRITE_WORD:
		return false; /* STOP_HOLDS, STOP_BEFORE */
	case KP_RWSEM_AT_READ_UNDO:
		return rules->readers_spin;
	case KP_RWSEM_AT_SCAN:
	case KP_RWSEM_AT_GRANT_BEYOND:
	case KP_RWSEM_AT_GRANT_WORD:
		return first_job;
	case KP_RWSEM_AT_UNCLAIM:
	case KP_RWSEM_AT_GRANT_UNDO:
		return false; /* too rare: the walk over all interleavings has them */
	case KP_RWSEM_AT_SPIN_LOOK:
		return beyond && rules->readers_spin;
	case KP_RWSEM_AT_SPIN_UNDO:
		return false;
	case KP_RWSEM_AT_GRANTED:
		return !beyond;
	case KP_RWSEM_AT_DOWNGRADE_WORD:
		return beyond;
	case KP_RWSEM_AT_WAKE_TRIED:
		return rules->spinner_saves_wake;
	default:
		return true;
	}
}

static uint64_t steps_of(unsigned int i)
{
	return __atomic_load_n(&arena->done[i], __ATOMIC_RELAXED);
}

/* Each survivor does something within a second, the recovery included. */
static void check_survivors(const char *name)
{
	uint64_t before[1 + SURVIVORS], start = kp_now_ns();

	for (unsigned int i = 1; i <= SURVIVORS; i++)
		before[i] = steps_of(i);
	for (unsigned int i = 1; i <= SURVIVORS; i++) {
		while (steps_of(i) == before[i]) {
			ck_assert_msg(kp_now_ns() - start < 1000000000u,
				      "rwsem %s, died %s: contender %u does nothing, word %llx",
				      rules->name, name, i, (unsigned long long)arena->sem.word);
			usleep(100);
		}
	}
}

/* Wait for @pid, but not for ever. */
static int wait_for(pid_t pid, const char *name, const char *problem)
{
	uint64_t start = kp_now_ns();
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		ck_assert_msg(kp_now_ns() - start < 20000000000u, "rwsem %s, %s: %s", rules->name,
			      name, problem);
		usleep(200);
	}
	return status;
}

/* The step that others have to linger at, so that a job comes to @at. */
static int slowed_for(int at)
{
	if (at == KP_RWSEM_AT_GRANTED) /* between a grant and its queue: who polls finds its bit */
		return KP_RWSEM_AT_MARK_WAKE;
	if (at == KP_RWSEM_AT_WAKE_TRIED) /* with the lock released, somebody spins */
		return KP_RWSEM_AT_SPIN_BEGIN;
	return 0;
}

/* Contender 0 dies at @where; the others go on, and leave nothing in the lock at the end. */
static void die_at(struct stop where, const char *name)
{
	pid_t pid[1 + SURVIVORS];
	int status;

	new_arena(where.rules);
	slow_step = where.kind == STOP_AFTER ? slowed_for(where.at) : 0;
	look_around_ns = 20000000;
	for (unsigned int i = 1; i <= SURVIVORS; i++)
		pid[i] = fork_contender(i, UINT32_MAX, (struct stop){ 0 });
	pid[0] = fork_contender(0, UINT32_MAX, where);
	status = wait_for(pid[0], name, "never comes there");
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "rwsem %s, %s: status %x",
		      rules->name, name, status);
	__atomic_store_n(&arena->dead[0], true, __ATOMIC_RELEASE);
	check_survivors(name);
	__atomic_store_n(&arena->stop, true, __ATOMIC_RELEASE);
	for (unsigned int i = 1; i <= SURVIVORS; i++) {
		status = wait_for(pid[i], name, "a survivor does not end");
		ck_assert_msg(!status, "rwsem %s, %s: survivor %u: status %x", rules->name, name, i,
			      status);
	}
	if (arena->dead[0])
		kp_rwsem_recover(&arena->sem, rules, first_job);
	check_free(&arena->sem);
	munmap(arena, sizeof(*arena));
}

static void die_at_times(struct stop where, const char *kind, const char *step)
{
	unsigned int times = getenv("KP_LONG") ? 20 : 1;
	char name[64];

	for (where.times = 1; where.times <= times; where.times++) {
		snprintf(name, sizeof(name), "%s %s, time %u", kind, step, where.times);
		die_at(where, name);
	}
}

/* After each step; and before the first of a slow path, where a fast path left off. */
START_TEST(killed_after_each_step)
{
	static const enum kp_rwsem_at first[] = { KP_RWSEM_AT_READ_SLOW, KP_RWSEM_AT_WRITE_SLOW,
						  KP_RWSEM_AT_WAKE, KP_RWSEM_AT_DOWNGRADE };

	choose(_i);
	for (int at = 0; at < KP_RWSEM_NR_AT; at++) {
		if (is_taken(at))
			die_at_times((struct stop){ _i, STOP_AFTER, at, 1 }, "after",
				     step_names[at]);
	}
	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		die_at_times((struct stop){ _i, STOP_BEFORE, first[i], 1 }, "before",
			     step_names[first[i]]);
}
END_TEST

/* With wait_lock just taken, or just released and nobody woken yet; as a holder. */
START_TEST(killed_between_steps)
{
	choose(_i);
	die_at_times((struct stop){ _i, STOP_LOCKED, 0, 1 }, "with", "wait_lock");
	die_at_times((struct stop){ _i, STOP_UNLOCKED, 0, 1 }, "before", "its wakes");
	die_at_times((struct stop){ _i, STOP_HOLDS, KP_RWSEM_READ, 1 }, "holding", "by reading");
	die_at_times((struct stop){ _i, STOP_HOLDS, KP_RWSEM_WRITE, 1 }, "holding", "by writing");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rwsem");
	TCase *steps_case = tcase_create("steps"), *stress = tcase_create("stress");
	SRunner *runner;
	int failures;

	tcase_add_loop_test(steps_case, fast_paths, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, all_jobs_read, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, grant_to_many, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, edges_exclude, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, repair_links_the_queue, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, writer_steals, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, queued_writer_steals, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, reader_passes_a_waiting_writer, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, reader_steals_a_free_lock, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, grants, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, handoff, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, spinning, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, flags, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, reader_stops_spinning, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, repair_keeps_a_holder_that_waits, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, the_one_that_spins_may_be_dead, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, polls_are_one_sleep, 0, FOR_EACH_RULE);
	tcase_add_loop_test(steps_case, time_passes_by_the_clock, 0, FOR_EACH_RULE);
	tcase_add_test(steps_case, of_kernel);
	tcase_set_timeout(stress, 0);
	tcase_add_loop_test(stress, threads, 0, FOR_EACH_RULE * NR_FIRST_JOBS);
	tcase_add_loop_test(stress, processes, 0, FOR_EACH_RULE * NR_FIRST_JOBS);
	tcase_add_loop_test(stress, killed_after_each_step, 0, FOR_EACH_RULE * NR_FIRST_JOBS);
	tcase_add_loop_test(stress, killed_between_steps, 0, FOR_EACH_RULE * NR_FIRST_JOBS);
	suite_add_tcase(suite, steps_case);
	suite_add_tcase(suite, stress);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failures = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
