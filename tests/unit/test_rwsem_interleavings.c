// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every interleaving of the lock's own steps for three contenders: a depth-first walk over all
 * states, each visited once. In each state the test looks for two holders where only one may hold,
 * for a state that no contender can leave, and for an overtaking of the queue that is not counted.
 * A waiter may look at the lock at any time, as a job does that polls its I/O in flight. A second
 * walk lets one contender die after any of its steps; the others must end all the same, and leave
 * nothing in the lock.
 *
 * Contenders have their reader bits in the lock word, beyond it, or on both sides of its end.
 *
 * KP_LONG=1 (make test-long) walks more scripts and lets contenders die in all of them.
 * time limit: 900
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/diolock/rwsem.h"

#define NR    3
#define WORDS 3 /* words that the contenders may have bits in */
#define LATE  (KP_RWSEM_WAIT_NS * 10ull)

enum phase { IDLE, GOING, HOLDING, LEAVING, DOWNGRADING, OVER, DEAD };

/* What a contender does in turn: R read, W write, D write and downgrade. */
struct contender {
	struct kp_rwsem_op op;
	struct kp_rwsem_op rescue; /* recovery of the dead, in the middle of a sleep */
	const char *script;
	uint8_t phase;
	uint8_t asked;
	uint8_t rescue_asked;
	bool rescuing;
	bool woken;
	bool queued;
	bool granted;  /* it does not know yet */
	bool passed;   /* its claim of the lock passes a waiter */
	uint8_t wakes; /* a bit per contender: wakes to deliver after wait_lock was released */
};

struct state {
	uint64_t word, beyond[WORDS - 1], waiting[WORDS], next_ticket;
	uint32_t owner, spinner;
	uint16_t first, last;
	struct {
		uint64_t ticket;
		uint32_t mode, no_reader_spin;
		uint16_t next, prev;
	} waiters[NR];
	int8_t lock_holder; /* of wait_lock; -1: nobody */
	bool lock_orphaned;
	int8_t dead; /* -1: nobody */
	bool rescued;
	struct contender c[NR];
};

/* ---- states seen --------------------------------------------------------------------------- */

static uint64_t *seen;
static size_t seen_size, nr_seen;

/* Most words of a state are zero; a hash with their places in it may leave them out. */
static uint64_t hash_state(const struct state *s)
{
	const unsigned char *p = (const unsigned char *)s;
	uint64_t hash = 0;

	_Static_assert(sizeof(*s) % 8 == 0, "whole words");
	for (size_t i = 0; i < sizeof(*s); i += 8) {
		uint64_t word;

		memcpy(&word, p + i, 8);
		if (!word)
			continue;
		hash = (hash ^ word ^ i << 32) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static bool insert(uint64_t hash)
{
	size_t i = hash & (seen_size - 1);

	while (seen[i] && seen[i] != hash)
		i = (i + 1) & (seen_size - 1);
	if (seen[i])
		return false;
	seen[i] = hash;
	nr_seen++;
	return true;
}

static bool is_new(const struct state *s)
{
	uint64_t hash = hash_state(s) | 1;

	if (nr_seen * 2 > seen_size) {
		uint64_t *old = seen;
		size_t old_size = seen_size;

		seen_size *= 2;
		seen = calloc(seen_size, sizeof(*seen));
		ck_assert_ptr_nonnull(seen);
		nr_seen = 0;
		for (size_t i = 0; i < old_size; i++) {
			if (old[i])
				insert(old[i]);
		}
		free(old);
	}
	return insert(hash);
}

/* ---- the model's surroundings -------------------------------------------------------------- */

static struct kp_rwsem sem;
static const struct kp_rwsem_rules *rules;
static bool deaths;
static unsigned int first_job;
static uint64_t events[KP_RWSEM_NR_EVENTS];
static char trail[1 << 16]; /* how we came here, for a failure */
static size_t trail_len;

/* The job number of contender @i. */
static unsigned int job_of(int i)
{
	return first_job + i;
}

static bool has_bit(const uint64_t *words, unsigned int job)
{
	return words[job / KP_RWSEM_WORD_JOBS] >> job % KP_RWSEM_WORD_JOBS & 1;
}

static bool is_queued(const struct state *s, int i)
{
	return has_bit(s->waiting, job_of(i));
}

static bool has_reader_bit(const struct state *s, int i)
{
	uint64_t words[WORDS] = { s->word, s->beyond[0], s->beyond[1] };

	return has_bit(words, job_of(i));
}

static void put(const struct state *s)
{
	sem.word = s->word;
	memcpy(sem.beyond, s->beyond, sizeof(s->beyond));
	memcpy(sem.waiting, s->waiting, sizeof(s->waiting));
	sem.next_ticket = s->next_ticket;
	sem.owner = s->owner;
	sem.spinner = s->spinner;
	sem.first = s->first;
	sem.last = s->last;
	for (int i = 0; i < NR; i++) {
		struct kp_rwsem_waiter *waiter = &sem.waiters[job_of(i)];

		waiter->ticket = s->waiters[i].ticket;
		waiter->mode = s->waiters[i].mode;
		waiter->no_reader_spin = s->waiters[i].no_reader_spin;
		waiter->next = s->waiters[i].next;
		waiter->prev = s->waiters[i].prev;
		waiter->since_ns = 1;
	}
}

static void get(struct state *s)
{
	s->word = sem.word;
	memcpy(s->beyond, sem.beyond, sizeof(s->beyond));
	memcpy(s->waiting, sem.waiting, sizeof(s->waiting));
	s->next_ticket = sem.next_ticket;
	s->owner = sem.owner;
	s->spinner = sem.spinner;
	s->first = sem.first;
	s->last = sem.last;
	for (int i = 0; i < NR; i++) {
		const struct kp_rwsem_waiter *waiter = &sem.waiters[job_of(i)];

		s->waiters[i].ticket = waiter->ticket;
		s->waiters[i].mode = waiter->mode;
		s->waiters[i].no_reader_spin = waiter->no_reader_spin;
		s->waiters[i].next = is_queued(s, i) ? waiter->next : 0;
		s->waiters[i].prev = is_queued(s, i) ? waiter->prev : 0;
	}
}

static void failed(const struct state *s, const char *what)
{
	fprintf(stderr, "rwsem %s, jobs from %u: %s; words %llx %llx waiting %llx %llx\n%.*s\n",
		rules->name, first_job, what, (unsigned long long)s->word,
		(unsigned long long)s->beyond[0], (unsigned long long)s->waiting[0],
		(unsigned long long)s->waiting[1], (int)trail_len, trail);
	ck_abort_msg("rwsem %s: %s", rules->name, what);
}

static bool holds(const struct contender *c, char mode)
{
	bool reads = c->op.mode == KP_RWSEM_READ;

	return c->phase == HOLDING && reads == (mode == 'R');
}

static void check_exclusion(const struct state *s)
{
	int readers = 0, writers = 0;

	for (int i = 0; i < NR; i++) {
		readers += holds(&s->c[i], 'R');
		writers += holds(&s->c[i], 'W');
	}
	if (writers > 1 || (writers && readers))
		failed(s, "not exclusive");
}

/* ---- overtaking ---------------------------------------------------------------------------- */

/* Has contender @i, who is queued, been granted the lock by its bit in the lock word? */
static bool is_granted(const struct state *s, int i)
{
	return !kp_rwsem_is_beyond(job_of(i)) && has_reader_bit(s, i);
}

/* Did contender @i pass another one that queued before it and still waits? */
static bool passes(const struct state *before, const struct state *after, int i)
{
	for (int j = 0; j < NR; j++) {
		bool waits = j != i && before->c[j].queued && after->c[j].queued &&
			     !is_granted(after, j) && before->dead != j;

		if (waits &&
		    (!before->c[i].queued || before->waiters[j].ticket < before->waiters[i].ticket))
			return true;
	}
	return false;
}

static bool counted(const struct kp_rwsem_op *op)
{
	return op->events[KP_RWSEM_WRITE_STEALS] + op->events[KP_RWSEM_QUEUE_STEALS] +
	       op->events[KP_RWSEM_READ_STEALS] + op->events[KP_RWSEM_READERS_PASSED];
}

/* Check the order after a step of @op by contender @i. */
static void check_order(const struct state *before, struct state *after, int i,
			const struct kp_rwsem_op *op, bool took, int at)
{
	bool steals_early = at == KP_RWSEM_AT_READ_SLOW;
	bool claimed = at == KP_RWSEM_AT_SCAN;
	/* A reader that stole (5.11) had the lock since its fast path, a writer since its claim. */
	uint64_t met =
		steals_early || claimed || at == KP_RWSEM_AT_SPIN_LOOK ? op->seen : before->word;
	bool grants = op->at == KP_RWSEM_AT_GRANT;

	if (op->at == KP_RWSEM_AT_SCAN)
		after->c[i].passed = passes(before, after, i);
	if (took && (claimed ? before->c[i].passed : passes(before, after, i)) && !counted(op))
		failed(after, "an overtaking was not counted");
	if (took && met & KP_RWSEM_HANDOFF && passes(before, after, i))
		failed(after, "a lock that was promised was stolen");
	for (int j = 0; j < NR; j++) {
		if (grants && has_bit(op->granted, job_of(j)) && before->c[j].queued) {
			after->c[j].queued = false;
			after->c[j].granted = true;
		}
	}
	for (int j = 0; j < NR; j++) {
		if (before->c[j].queued && after->c[j].granted && !after->c[j].queued &&
		    passes(before, after, j) && !counted(op))
			failed(after, "a grant out of order was not counted");
	}
	if (took)
		after->c[i].queued = false;
	if (took || after->c[i].op.at != KP_RWSEM_AT_SCAN)
		after->c[i].passed = false;
}

static void collect(struct state *s, struct kp_rwsem_op *op)
{
	if (!rules->readers_spin && !rules->readers_steal && op->events[KP_RWSEM_READ_STEALS])
		failed(s, "a reader stole");
	if (!rules->grants_all_readers && op->events[KP_RWSEM_READERS_PASSED])
		failed(s, "a reader was granted the lock before a writer");
	if (!rules->hands_off && op->events[KP_RWSEM_HANDOFFS])
		failed(s, "a handoff");
	for (int i = 0; i < KP_RWSEM_NR_EVENTS; i++)
		events[i] += op->events[i];
	memset(op->events, 0, sizeof(op->events)); /* no part of the state */
}

/* ---- moves --------------------------------------------------------------------------------- */

static void walk(const struct state *s);

static void visit(struct state *s, int i, const char *what)
{
	size_t old = trail_len;

	check_exclusion(s);
	if (!is_new(s))
		return;
	if (trail_len + 32 < sizeof(trail))
		trail_len += sprintf(trail + trail_len, "%d:%s ", i, what);
	walk(s);
	trail_len = old;
}

/* Does the outcome of the step that comes depend on the time? */
static bool looks_at_clock(const struct kp_rwsem_op *op)
{
	return op->at == KP_RWSEM_AT_SPIN || op->at == KP_RWSEM_AT_WOKEN ||
	       op->at == KP_RWSEM_AT_TRY_WRITE || op->at == KP_RWSEM_AT_MARK_WAKE;
}

static void finish(struct contender *c)
{
	if (c->phase == GOING) {
		c->phase = HOLDING;
	} else if (c->phase == DOWNGRADING) {
		c->phase = HOLDING;
		c->op.mode = KP_RWSEM_READ;
	} else {
		c->script++;
		c->phase = *c->script ? IDLE : OVER;
	}
}

/* Drop what no later step looks at, so that fewer states differ. */
static void forget(struct contender *c)
{
	struct kp_rwsem_op op = { .at = c->op.at,
				  .mode = c->op.mode,
				  .job = c->op.job,
				  .no_reader_spin = c->op.no_reader_spin };

	if (c->phase == GOING && c->asked == KP_RWSEM_SLEEP)
		c->op = op;
	else if (c->phase == HOLDING)
		c->op = (struct kp_rwsem_op){ .mode = op.mode, .job = op.job };
	else if (c->phase == IDLE || c->phase == OVER)
		memset(&c->op, 0, sizeof(c->op));
}

/* One step of the contender's own operation, or of the rescue of a dead one. */
static void step(const struct state *before, int i, uint64_t now)
{
	struct state s = *before;
	struct contender *c = &s.c[i];
	struct kp_rwsem_op *op = c->rescuing ? &c->rescue : &c->op;
	bool had = op->taken;
	int at = op->at;
	char what[16];
	enum kp_rwsem_ask ask;
	bool took;

	put(&s);
	ask = kp_rwsem_step(&sem, rules, op, now);
	get(&s);
	took = !c->rescuing && !had && op->taken && !c->granted;
	if (!c->rescuing && at == KP_RWSEM_AT_ENQUEUE)
		c->queued = true;
	check_order(before, &s, i, op, took, at);
	collect(&s, op);
	if (c->rescuing)
		c->rescue_asked = ask;
	else
		c->asked = ask;
	if (ask == KP_RWSEM_END && c->rescuing) {
		c->rescuing = false;
		memset(&c->rescue, 0, sizeof(c->rescue));
		s.rescued = true;
		c->rescue_asked = 0;
	} else if (ask == KP_RWSEM_END) {
		c->asked = KP_RWSEM_GO_ON;
		finish(c);
	}
	forget(c);
	snprintf(what, sizeof(what), "%d%s", at, now > 1 ? "late" : "");
	visit(&s, i, what);
}

/* wait_lock; orphaned by a dead contender it needs repair. */
static void take_wait_lock(struct state *s, int i)
{
	s->lock_holder = i;
	if (!s->lock_orphaned)
		return;
	put(s);
	kp_rwsem_repair(&sem);
	get(s);
	s->lock_orphaned = false;
}

static void begin(const struct state *before, int i)
{
	struct state s = *before;
	struct contender *c = &s.c[i];
	bool reads = *c->script == 'R';

	memset(&c->op, 0, sizeof(c->op));
	c->op.job = job_of(i);
	c->op.mode = reads ? KP_RWSEM_READ : KP_RWSEM_WRITE;
	c->op.at = reads ? KP_RWSEM_AT_READ : KP_RWSEM_AT_WRITE;
	c->granted = false;
	c->phase = GOING;
	c->asked = KP_RWSEM_GO_ON;
	visit(&s, i, "go");
}

static void release(const struct state *before, int i)
{
	struct state s = *before;
	struct contender *c = &s.c[i];
	enum kp_rwsem_mode mode = c->op.mode;
	bool downgrade = *c->script == 'D' && mode == KP_RWSEM_WRITE;

	memset(&c->op, 0, sizeof(c->op));
	c->op.job = job_of(i);
	c->op.mode = mode;
	if (downgrade)
		c->op.at = KP_RWSEM_AT_DOWNGRADE;
	else
		c->op.at = mode == KP_RWSEM_READ ? KP_RWSEM_AT_UP_READ : KP_RWSEM_AT_UP_WRITE;
	c->phase = downgrade ? DOWNGRADING : LEAVING;
	visit(&s, i, downgrade ? "down" : "up");
}

/* A writer goes to sleep inside the device: nobody spins on it. */
static void sleep_in_device(const struct state *before, int i)
{
	struct state s = *before;

	s.owner |= KP_RWSEM_SLEEPING;
	visit(&s, i, "io");
}

static void deliver_wakes(const struct state *before, int i)
{
	struct state s = *before;

	for (int j = 0; j < NR; j++) {
		if (s.c[i].wakes & 1 << j)
			s.c[j].woken = true;
	}
	s.c[i].wakes = 0;
	visit(&s, i, "wake");
}

static void unlock(const struct state *before, int i, struct kp_rwsem_op *op)
{
	struct state s = *before;
	struct kp_rwsem_op *mine = op == &before->c[i].rescue ? &s.c[i].rescue : &s.c[i].op;

	s.lock_holder = -1;
	for (int j = 0; j < NR; j++) {
		if (has_bit(mine->wake, job_of(j)))
			s.c[i].wakes |= 1 << j;
	}
	memset(mine->wake, 0, sizeof(mine->wake));
	memset(mine->granted, 0, sizeof(mine->granted));
	if (s.c[i].rescuing)
		s.c[i].rescue_asked = KP_RWSEM_GO_ON;
	else
		s.c[i].asked = KP_RWSEM_GO_ON;
	visit(&s, i, "unlock");
}

/* Begin to recover the dead, in the middle of a sleep. */
static void rescue(const struct state *before, int i)
{
	struct state s = *before;

	for (int j = 0; j < NR; j++) {
		if (s.c[j].rescuing)
			return;
	}
	s.c[i].rescuing = true;
	memset(&s.c[i].rescue, 0, sizeof(s.c[i].rescue));
	s.c[i].rescue.at = KP_RWSEM_AT_LEAVE_BEYOND;
	s.c[i].rescue.job = job_of(i);
	s.c[i].rescue.leaver = job_of(s.dead);
	s.c[i].rescue_asked = KP_RWSEM_LOCK;
	visit(&s, i, "rescue");
}

static void die(const struct state *before, int i)
{
	struct state s = *before;

	s.dead = i;
	s.c[i].phase = DEAD;
	s.c[i].queued = false;
	if (s.lock_holder == i) {
		s.lock_holder = -1;
		s.lock_orphaned = true;
	}
	visit(&s, i, "dies");
}

/* A sleeper that is only awake because time passed, alone: does it get anywhere? */
static bool gets_on_by_itself(const struct state *before, int i)
{
	struct state s = *before;
	struct kp_rwsem_op *op = &s.c[i].op;

	if (s.lock_holder >= 0)
		return false;
	op->timed_out = true;
	for (;;) {
		enum kp_rwsem_ask ask;

		put(&s);
		ask = kp_rwsem_step(&sem, rules, op, LATE);
		get(&s);
		if (ask == KP_RWSEM_SLEEP || ask == KP_RWSEM_END)
			break;
		if (ask == KP_RWSEM_LOCK)
			take_wait_lock(&s, i);
	}
	for (int j = 0; j < NR; j++) {
		if (has_bit(op->wake, job_of(j)))
			return true;
	}
	return op->taken || s.word != before->word ||
	       memcmp(s.waiting, before->waiting, sizeof(s.waiting));
}

static void wake_up(const struct state *before, int i, bool timed_out, const char *what)
{
	struct state s = *before;

	s.c[i].op.timed_out = timed_out;
	s.c[i].woken = false;
	s.c[i].asked = KP_RWSEM_GO_ON;
	visit(&s, i, what);
}

/*
 * A wake; or 50 us over, which must never be needed to go on; or, when somebody has died, 100 ms
 * over, before and after the dead was recovered.
 */
static bool leave_sleep(const struct state *s, int i)
{
	if (s->c[i].woken) {
		wake_up(s, i, false, "woken");
		return true;
	}
	wake_up(s, i, false, "poll");
	if (s->dead < 0)
		return false;
	wake_up(s, i, true, "timeout");
	if (!s->rescued)
		rescue(s, i);
	return !s->rescued || gets_on_by_itself(s, i);
}

/* Everything contender @i may do next. Return: false when it can do nothing. */
static bool move(const struct state *s, int i)
{
	const struct contender *c = &s->c[i];
	uint8_t asked = c->rescuing ? c->rescue_asked : c->asked;
	struct state next;

	if (c->phase == OVER || c->phase == DEAD)
		return false;
	if (deaths && s->dead < 0 && c->phase != IDLE)
		die(s, i);
	if (c->wakes) {
		deliver_wakes(s, i);
		return true;
	}
	if (c->phase == IDLE) {
		begin(s, i);
		return true;
	}
	if (c->phase == HOLDING) {
		if (holds(c, 'W') && !(s->owner & KP_RWSEM_SLEEPING))
			sleep_in_device(s, i);
		release(s, i);
		return true;
	}
	switch (asked) {
	case KP_RWSEM_LOCK:
		if (s->lock_holder >= 0)
			return false;
		next = *s;
		take_wait_lock(&next, i);
		next.c[i].op.refused = false;
		if (c->rescuing)
			next.c[i].rescue_asked = KP_RWSEM_GO_ON;
		else
			next.c[i].asked = KP_RWSEM_GO_ON;
		visit(&next, i, "lock");
		return true;
	case KP_RWSEM_TRYLOCK:
		next = *s;
		next.c[i].op.busy = s->lock_holder >= 0;
		if (s->lock_holder < 0)
			take_wait_lock(&next, i);
		next.c[i].asked = KP_RWSEM_GO_ON;
		visit(&next, i, "trylock");
		return true;
	case KP_RWSEM_UNLOCK:
		unlock(s, i, c->rescuing ? (struct kp_rwsem_op *)&c->rescue : NULL);
		return true;
	case KP_RWSEM_SLEEP:
		return leave_sleep(s, i);
	default:
		step(s, i, 1);
		if (!c->rescuing && looks_at_clock(&c->op))
			step(s, i, LATE);
		return true;
	}
}

/* Nobody waited when one died: the next that comes will recover it. */
static const struct state *recovered(const struct state *before)
{
	static struct state s;
	struct kp_rwsem_op op = { .at = KP_RWSEM_AT_LEAVE_BEYOND, .leaver = job_of(before->dead) };

	s = *before;
	take_wait_lock(&s, before->dead);
	put(&s);
	while (kp_rwsem_step(&sem, rules, &op, 1) != KP_RWSEM_END)
		;
	get(&s);
	return &s;
}

static void check_end(const struct state *s)
{
	bool over = true;

	for (int i = 0; i < NR; i++)
		over &= s->c[i].phase == OVER || s->c[i].phase == DEAD;
	if (!over)
		failed(s, "nobody can go on");
	if (s->dead >= 0 && !s->rescued)
		s = recovered(s);
	for (int i = 0; i < NR; i++) {
		if (has_reader_bit(s, i) || is_queued(s, i))
			failed(s, "a job is left in the lock");
	}
	if (s->word & ~KP_RWSEM_MORE || s->first || s->last || s->spinner)
		failed(s, "something is left in the lock");
}

static void walk(const struct state *s)
{
	bool any = false;

	for (int i = 0; i < NR; i++)
		any |= move(s, i);
	if (!any)
		check_end(s);
}

static void walk_scripts(const char *scripts[NR])
{
	struct state s;

	ck_assert_int_eq(kp_rwsem_init(&sem), 0);
	for (int i = 0; i < NR; i++)
		kp_rwsem_admit(&sem, job_of(i));
	memset(&s, 0, sizeof(s));
	get(&s);
	s.lock_holder = -1;
	s.dead = -1;
	for (int i = 0; i < NR; i++)
		s.c[i].script = scripts[i];
	seen_size = 1 << 16;
	nr_seen = 0;
	seen = calloc(seen_size, sizeof(*seen));
	ck_assert_ptr_nonnull(seen);
	trail_len = 0;
	visit(&s, 0, "begin");
	printf("rwsem %s, jobs from %u: %s %s %s%s: %zu states\n", rules->name, first_job,
	       scripts[0], scripts[1], scripts[2], deaths ? ", one dies" : "", nr_seen);
	free(seen);
}

static const char *once[][NR] = {
	{ "R", "R", "R" }, { "R", "R", "W" }, { "R", "W", "W" },
	{ "W", "W", "W" }, { "D", "R", "W" }, { "D", "W", "W" },
};

static const char *twice[][NR] = {
	{ "RR", "W", "R" }, { "WR", "W", "R" }, { "RW", "R", "W" },
	{ "WW", "R", "W" }, { "WW", "W", "W" }, { "RR", "WW", "R" },
};

static bool long_form(void)
{
	return getenv("KP_LONG");
}

/* Jobs in the lock word; the last of its jobs and the first beyond; beyond; in two words beyond. */
static const unsigned int first_jobs[] = { 0, KP_RWSEM_WORD_JOBS - 1, KP_RWSEM_WORD_JOBS,
					   2 * KP_RWSEM_WORD_JOBS - 1 };

#define NR_FIRST_JOBS ((int)(sizeof(first_jobs) / sizeof(*first_jobs)))

/* All rules for the first of first_jobs, then all rules for the second, and so on. */
static void choose(int i)
{
	rules = &kp_rwsem_rules[i % kp_nr_rwsem_rules];
	first_job = first_jobs[i / kp_nr_rwsem_rules];
}

/*
 * Jobs beyond the lock word take more steps. The short form leaves out what takes long there: the
 * longer scripts, and some places of the jobs.
 */
static size_t nr_once(void)
{
	bool few = !long_form() && first_job >= KP_RWSEM_WORD_JOBS;

	return few ? 3 : sizeof(once) / sizeof(*once);
}

static size_t nr_twice(void)
{
	if (long_form())
		return sizeof(twice) / sizeof(*twice);
	return first_job ? 0 : 2;
}

START_TEST(all_interleavings)
{
	choose(_i);
	deaths = false;
	memset(events, 0, sizeof(events));
	for (size_t i = 0; i < nr_once(); i++)
		walk_scripts(once[i]);
	for (size_t i = 0; i < nr_twice(); i++)
		walk_scripts(twice[i]);
	/* The walk has seen what the behaviour is known for. */
	ck_assert_uint_gt(events[KP_RWSEM_WRITE_STEALS], 0);
	ck_assert_uint_gt(events[KP_RWSEM_QUEUE_STEALS], 0);
	ck_assert_uint_gt(events[KP_RWSEM_GRANTS], 0);
	ck_assert_int_eq(events[KP_RWSEM_READ_STEALS] > 0,
			 rules->readers_spin || rules->readers_steal);
	ck_assert_int_eq(events[KP_RWSEM_HANDOFFS] > 0, rules->hands_off);
	ck_assert_int_eq(events[KP_RWSEM_WAKES_SAVED] > 0, rules->spinner_saves_wake);
}
END_TEST

START_TEST(one_dies)
{
	choose(_i);
	deaths = true;
	for (size_t i = 0; i < (long_form() ? sizeof(once) / sizeof(*once) : 2); i++)
		walk_scripts(once[i]);
	for (size_t i = 0; i < (long_form() ? 2 : 0); i++)
		walk_scripts(twice[i]);
	ck_assert_uint_gt(events[KP_RWSEM_RECOVERED], 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rwsem_interleavings");
	TCase *tcase = tcase_create("all");
	int nr = kp_nr_rwsem_rules * NR_FIRST_JOBS, nr_deadly = nr;
	SRunner *runner;
	int failures;

	if (!long_form()) {
		nr = kp_nr_rwsem_rules * 3;
		nr_deadly = kp_nr_rwsem_rules * 2;
	}
	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, all_interleavings, 0, nr);
	tcase_add_loop_test(tcase, one_dies, 0, nr_deadly);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failures = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
