// SPDX-License-Identifier: GPL-2.0-only
/*
 * The steps of the lock. See rwsem.h; rwsem_futex.c runs them.
 *
 * What a step changes is one word, by one atomic operation, or what wait_lock protects. A place in
 * the queue is a bit of 'waiting'; it is entered and left by one store. A queued reader is granted
 * the lock by its bit in the word, and only then taken out of the queue. So a job that dies after
 * any step leaves one of few states behind, each of which kp_rwsem_repair() and the LEAVE steps
 * recognise.
 *
 * Left out of the kernel's: the line of spinners (osq), of whom here only the first spins;
 * rwsem_reader_phase_trylock() of 5.3.
 */
#include "core/robust.h"
#include "rwsem.h"

#define READER_OWNED   KP_RWSEM_READER_OWNED
#define NO_READER_SPIN KP_RWSEM_NO_READER_SPIN
#define NO_WRITER_SPIN KP_RWSEM_NO_WRITER_SPIN

/* How much a walk over the queue may wake: the kernel's enum rwsem_wake_type. */
enum wake_type { WAKE_ANY, WAKE_READERS, WAKE_READ_OWNED };

const struct kp_rwsem_rules kp_rwsem_rules[] = {
	{
		.name = "4.9",
		.summary = "writers spin on a running writer and steal; readers queue; no handoff",
		.spinner_saves_wake = true,
	},
	{
		.name = "5.3",
		.summary = "readers spin and steal too; a release grants all readers; handoff",
		.readers_spin = true,
		.writers_spin_on_readers = true,
		.grants_all_readers = true,
		.hands_off = true,
		.timeout_sets = NO_READER_SPIN | NO_WRITER_SPIN,
		.readers_keep = NO_READER_SPIN,
		.last_reader_clears = NO_WRITER_SPIN,
		.writers_silence_readers = true,
	},
	{
		.name = "5.11",
		.summary =
			"readers do not spin, but steal when no other reader is counted; handoff",
		.readers_steal = true,
		.writers_spin_on_readers = true,
		.grants_all_readers = true,
		.hands_off = true,
		.timeout_sets = NO_WRITER_SPIN,
		.readers_keep = NO_WRITER_SPIN,
		.last_reader_clears = NO_WRITER_SPIN,
	},
};

const unsigned int kp_nr_rwsem_rules = sizeof(kp_rwsem_rules) / sizeof(*kp_rwsem_rules);

const struct kp_rwsem_rules *kp_rwsem_find(const char *name)
{
	for (unsigned int i = 0; i < kp_nr_rwsem_rules; i++) {
		if (!strcmp(kp_rwsem_rules[i].name, name))
			return &kp_rwsem_rules[i];
	}
	return NULL;
}

const struct kp_rwsem_rules *kp_rwsem_of_kernel(const char *kernel)
{
	const struct kp_rwsem_rules *rules = &kp_rwsem_rules[0]; /* and before 4.9 */

	for (unsigned int i = 1; i < kp_nr_rwsem_rules; i++) {
		if (kp_version_compare(kp_rwsem_rules[i].name, kernel) <= 0)
			rules = &kp_rwsem_rules[i];
	}
	return rules;
}

int kp_rwsem_init(struct kp_rwsem *sem)
{
	memset(sem, 0, sizeof(*sem));
	return kp_robust_init(&sem->wait_lock);
}

/* ---- words --------------------------------------------------------------------------------- */

#define reader(job) kp_rwsem_reader(job)
#define writer(job) kp_rwsem_writer(job)

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool replace(uint64_t *word, uint64_t old, uint64_t new)
{
	return __atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void clear_owner(struct kp_rwsem *sem, uint32_t flags)
{
	if (kp_rwsem_owner(sem) & flags)
		__atomic_fetch_and(&sem->owner, ~flags, __ATOMIC_RELAXED);
}

/* ---- the queue, with wait_lock held -------------------------------------------------------- */

/* A waiter looks at its own bit without the lock; what it wrote before it queued comes first. */
static void set_waiting(struct kp_rwsem *sem, uint64_t waiting)
{
	__atomic_store_n(&sem->waiting, waiting, __ATOMIC_RELEASE);
}

/* The number of the first in the queue, which is not empty. */
static unsigned int first_waiter(const struct kp_rwsem *sem)
{
	unsigned int first = __builtin_ctzll(sem->waiting);

	for (uint64_t rest = sem->waiting; rest; rest &= rest - 1) {
		unsigned int i = __builtin_ctzll(rest);

		if (sem->waiters[i].ticket < sem->waiters[first].ticket)
			first = i;
	}
	return first;
}

/* Queued jobs of @mode with a ticket below @ticket. */
static uint64_t older_waiters(const struct kp_rwsem *sem, unsigned int mode, uint64_t ticket)
{
	uint64_t older = 0;

	for (uint64_t rest = sem->waiting; rest; rest &= rest - 1) {
		unsigned int i = __builtin_ctzll(rest);

		if (sem->waiters[i].mode == mode && sem->waiters[i].ticket < ticket)
			older |= reader(i);
	}
	return older;
}

static bool waited_long(const struct kp_rwsem *sem, unsigned int job, uint64_t now)
{
	return now > sem->waiters[job].since_ns &&
	       now - sem->waiters[job].since_ns > KP_RWSEM_WAIT_NS;
}

/* ---- steps --------------------------------------------------------------------------------- */

struct step {
	struct kp_rwsem *sem;
	const struct kp_rwsem_rules *rules;
	struct kp_rwsem_op *op;
	uint64_t now;
};

static enum kp_rwsem_ask go_on(const struct step *s, enum kp_rwsem_at at)
{
	s->op->at = at;
	return KP_RWSEM_GO_ON;
}

static enum kp_rwsem_ask ask(const struct step *s, enum kp_rwsem_ask what, enum kp_rwsem_at at)
{
	s->op->at = at;
	return what;
}

static enum kp_rwsem_ask end(const struct step *s)
{
	return ask(s, KP_RWSEM_END, KP_RWSEM_AT_DONE);
}

static enum kp_rwsem_ask taken(const struct step *s, enum kp_rwsem_at at)
{
	s->op->taken = true;
	return go_on(s, at);
}

static void count(const struct step *s, enum kp_rwsem_event event, unsigned int n)
{
	s->op->events[event] += n;
}

/* Walk the queue before unlocking, then go on at @then; rwsem_mark_wake(). */
static enum kp_rwsem_at mark_wake(const struct step *s, enum wake_type type,
				  enum kp_rwsem_at after_wake, enum kp_rwsem_at then)
{
	s->op->wake_type = type;
	s->op->after_wake = after_wake;
	s->op->then = then;
	return KP_RWSEM_AT_MARK_WAKE;
}

static enum kp_rwsem_at unlock_then(const struct step *s, enum kp_rwsem_at then)
{
	s->op->then = then;
	return KP_RWSEM_AT_UNLOCK;
}

static enum kp_rwsem_ask at_read(const struct step *s)
{
	if (kp_rwsem_read_fast(s->sem, s->rules, s->op->job, &s->op->seen))
		return taken(s, KP_RWSEM_AT_DONE);
	return go_on(s, KP_RWSEM_AT_READ_SLOW);
}

/* 5.3: rwsem_can_spin_on_owner() */
static bool reader_may_spin(const struct step *s, uint64_t word)
{
	uint32_t flags = kp_rwsem_owner(s->sem);

	if (flags & NO_READER_SPIN)
		return false;
	return !(word & KP_RWSEM_WRITER) || !(flags & KP_RWSEM_SLEEPING);
}

/* Our bit is in the word, next to a writer, waiters or a handoff. */
static enum kp_rwsem_ask at_read_slow(const struct step *s)
{
	uint64_t others = s->op->seen & KP_RWSEM_READERS & ~reader(s->op->job);
	uint32_t flags = kp_rwsem_owner(s->sem);

	s->op->no_reader_spin = flags & NO_READER_SPIN;
	if (s->rules->readers_spin && reader_may_spin(s, s->op->seen))
		return go_on(s, KP_RWSEM_AT_READ_UNDO);
	/* 5.11: reader optimistic lock stealing, but no stream of readers past a sleeper */
	if (s->rules->readers_steal && !(others && flags & READER_OWNED) &&
	    !(s->op->seen & (KP_RWSEM_WRITER | KP_RWSEM_HANDOFF))) {
		count(s, KP_RWSEM_READ_STEALS, 1);
		kp_rwsem_set_reader_owned(s->sem, s->rules);
		s->op->taken = true;
		if (others)
			return go_on(s, KP_RWSEM_AT_DONE);
		/* the first reader takes along those that wait */
		return ask(s, KP_RWSEM_LOCK,
			   mark_wake(s, WAKE_READ_OWNED, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
	}
	return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
}

static enum kp_rwsem_ask at_read_undo(const struct step *s)
{
	__atomic_fetch_sub(&s->sem->word, reader(s->op->job), __ATOMIC_RELAXED);
	return go_on(s, KP_RWSEM_AT_SPIN_BEGIN);
}

static enum kp_rwsem_ask at_write(const struct step *s)
{
	if (kp_rwsem_write_fast(s->sem, s->op->job, &s->op->seen))
		return taken(s, KP_RWSEM_AT_DONE);
	return go_on(s, KP_RWSEM_AT_WRITE_SLOW);
}

/* Is there something that a writer spins on? On readers up to a time, from 5.3 on. */
static bool writer_may_spin(const struct step *s, uint64_t word)
{
	uint32_t flags = kp_rwsem_owner(s->sem);

	if (word & KP_RWSEM_WRITER)
		return !(flags & KP_RWSEM_SLEEPING);
	/* READER_OWNED stays when the readers have gone: 4.9 then queues, though the lock is free */
	if (word & KP_RWSEM_READERS || flags & READER_OWNED)
		return s->rules->writers_spin_on_readers && !(flags & NO_WRITER_SPIN);
	return true;
}

static enum kp_rwsem_ask at_write_slow(const struct step *s)
{
	if (writer_may_spin(s, s->op->seen))
		return go_on(s, KP_RWSEM_AT_SPIN_BEGIN);
	return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
}

static enum kp_rwsem_ask at_spin_begin(const struct step *s)
{
	uint32_t nobody = 0;

	if (!__atomic_compare_exchange_n(&s->sem->spinner, &nobody, s->op->job + 1u, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		s->op->refused = true;
		return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
	}
	count(s, KP_RWSEM_SPINS, 1);
	s->op->spin_until = s->now + KP_RWSEM_SPIN_NS;
	s->op->reader_spin_until = 0;
	return go_on(s, KP_RWSEM_AT_SPIN);
}

/* rwsem_set_nonspinnable(): not when a writer came meanwhile. A change that is lost costs a spin. */
static void set_nonspinnable(const struct step *s)
{
	uint32_t flags = kp_rwsem_owner(s->sem);

	if (flags & READER_OWNED && !(flags & (NO_READER_SPIN | NO_WRITER_SPIN)))
		__atomic_compare_exchange_n(&s->sem->owner, &flags, flags | s->rules->timeout_sets,
					    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* rwsem_rspin_threshold(): the more readers, the longer; (20 + 30) / 2 us at most */
static bool readers_take_too_long(const struct step *s, uint64_t word)
{
	unsigned int readers = __builtin_popcountll(word & KP_RWSEM_READERS);

	if (!s->op->reader_spin_until)
		s->op->reader_spin_until = s->now + (20 + kp_min(readers, 30u)) * 500;
	if (s->now < s->op->reader_spin_until)
		return false;
	set_nonspinnable(s);
	return true;
}

static bool spin_goes_on(const struct step *s, uint64_t word)
{
	bool on_readers = !(word & KP_RWSEM_WRITER) && word & KP_RWSEM_READERS;

	if (s->now >= s->op->spin_until)
		return false;
	if (!on_readers)
		s->op->reader_spin_until = 0;
	if (s->op->mode == KP_RWSEM_READ)
		return reader_may_spin(s, word);
	return writer_may_spin(s, word) && !(on_readers && readers_take_too_long(s, word));
}

/* rwsem_try_write_lock_unqueued(), rwsem_try_read_lock_unqueued() */
static enum kp_rwsem_ask at_spin(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t word = load(&s->sem->word);
	uint64_t blockers = op->mode == KP_RWSEM_READ ? KP_RWSEM_WRITER : KP_RWSEM_HELD;
	uint64_t mine = op->mode == KP_RWSEM_READ ? reader(op->job) : writer(op->job);

	if (word & (blockers | KP_RWSEM_HANDOFF)) {
		if (spin_goes_on(s, word))
			return ask(s, KP_RWSEM_RELAX, KP_RWSEM_AT_SPIN);
		return go_on(s, KP_RWSEM_AT_SPIN_END);
	}
	if (!replace(&s->sem->word, word, word | mine))
		return go_on(s, KP_RWSEM_AT_SPIN);
	if (word & KP_RWSEM_WAITERS) {
		count(s, op->mode == KP_RWSEM_READ ? KP_RWSEM_READ_STEALS : KP_RWSEM_WRITE_STEALS,
		      1);
		op->steals = true;
	}
	return taken(s, KP_RWSEM_AT_SPIN_END);
}

static enum kp_rwsem_ask at_spin_end(const struct step *s)
{
	__atomic_store_n(&s->sem->spinner, 0, __ATOMIC_RELEASE);
	if (!s->op->taken)
		return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
	if (s->op->mode == KP_RWSEM_WRITE)
		return go_on(s, KP_RWSEM_AT_OWN);
	kp_rwsem_set_reader_owned(s->sem, s->rules);
	if (!s->op->steals)
		return go_on(s, KP_RWSEM_AT_DONE);
	return ask(s, KP_RWSEM_LOCK,
		   mark_wake(s, WAKE_READ_OWNED, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

/* Announce that somebody waits; a reader may find that it need not. */
static enum kp_rwsem_ask at_queue(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t old = load(&s->sem->word);
	bool enters = op->mode == KP_RWSEM_READ && !s->sem->waiting && !(old & KP_RWSEM_WRITER);
	uint64_t new;

	if (enters)
		new = (old | reader(op->job)) & ~(KP_RWSEM_WAITERS | KP_RWSEM_HANDOFF);
	else if (op->mode == KP_RWSEM_READ)
		new = (old & ~reader(op->job)) | KP_RWSEM_WAITERS;
	else
		new = old | KP_RWSEM_WAITERS;
	if (op->mode == KP_RWSEM_WRITE && s->rules->writers_silence_readers)
		op->no_reader_spin = kp_rwsem_owner(s->sem) & (NO_READER_SPIN | NO_WRITER_SPIN);
	if (!replace(&s->sem->word, old, new))
		return go_on(s, KP_RWSEM_AT_QUEUE);
	op->seen = new;
	if (enters) {
		kp_rwsem_set_reader_owned(s->sem, s->rules);
		return taken(s, unlock_then(s, KP_RWSEM_AT_DONE));
	}
	return go_on(s, KP_RWSEM_AT_ENQUEUE);
}

static enum kp_rwsem_ask at_enqueue(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	struct kp_rwsem_waiter *waiter = &s->sem->waiters[op->job];
	bool first = !s->sem->waiting;
	bool free = !(op->seen & KP_RWSEM_HELD);

	waiter->ticket = ++s->sem->next_ticket;
	waiter->since_ns = s->now;
	waiter->mode = op->mode;
	waiter->no_reader_spin = op->no_reader_spin;
	set_waiting(s->sem, s->sem->waiting | reader(op->job));
	if (op->mode == KP_RWSEM_READ) {
		if (!free)
			return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
		clear_owner(s->sem, s->rules->last_reader_clears);
		return go_on(s, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_SLEEP));
	}
	if (first || op->seen & KP_RWSEM_WRITER || (free && !s->rules->hands_off))
		return go_on(s, KP_RWSEM_AT_TRY_WRITE);
	/* Read-owned: readers ahead of us may join. Free: the first may have been promised it. */
	return go_on(s, mark_wake(s, free ? WAKE_ANY : WAKE_READERS, KP_RWSEM_AT_TRY_WRITE,
				  KP_RWSEM_AT_SLEEP));
}

/* rwsem_try_write_lock(): whoever is awake and queued, unless it was promised to the first. */
static enum kp_rwsem_ask at_try_write(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	bool first = first_waiter(s->sem) == op->job;
	uint64_t old = load(&s->sem->word);
	uint64_t new = old;

	if (old & KP_RWSEM_HANDOFF && !first)
		return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
	if (!(old & KP_RWSEM_HELD)) {
		new |= writer(op->job);
		new &= ~KP_RWSEM_HANDOFF;
		if (s->sem->waiting == reader(op->job))
			new &= ~KP_RWSEM_WAITERS;
	} else if (s->rules->hands_off && first && waited_long(s->sem, op->job, s->now)) {
		new |= KP_RWSEM_HANDOFF;
	}
	if (new == old)
		return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
	if (!replace(&s->sem->word, old, new))
		return go_on(s, KP_RWSEM_AT_TRY_WRITE);
	if (new &KP_RWSEM_HANDOFF) {
		count(s, KP_RWSEM_HANDOFFS, 1);
		return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
	}
	if (!first)
		count(s, KP_RWSEM_QUEUE_STEALS, 1);
	return taken(s, KP_RWSEM_AT_DEQUEUE);
}

static enum kp_rwsem_ask at_dequeue(const struct step *s)
{
	set_waiting(s->sem, s->sem->waiting & ~reader(s->op->job));
	return go_on(s, unlock_then(s, KP_RWSEM_AT_OWN));
}

/* rwsem_set_owner(); and rwsem_disable_reader_optspin() of a writer that had to queue */
static enum kp_rwsem_ask at_own(const struct step *s)
{
	kp_rwsem_set_owner(s->sem, s->op->no_reader_spin ? NO_READER_SPIN : 0);
	return end(s);
}

/* The readers that a release grants the lock to, @first being the first in the queue. */
static uint64_t readers_to_grant(const struct step *s, unsigned int first)
{
	uint64_t readers = older_waiters(s->sem, KP_RWSEM_READ, UINT64_MAX);
	uint64_t writers = older_waiters(s->sem, KP_RWSEM_WRITE, UINT64_MAX);
	uint64_t consecutive = reader(first);

	if (s->rules->grants_all_readers)
		return readers;
	for (uint64_t rest = readers; rest; rest &= rest - 1) {
		unsigned int i = __builtin_ctzll(rest);

		if (!(older_waiters(s->sem, KP_RWSEM_WRITE, s->sem->waiters[i].ticket) & writers))
			consecutive |= reader(i);
	}
	return consecutive;
}

/* A writer holds the lock that a release meant for the first reader: it was robbed. */
static enum kp_rwsem_ask robbed(const struct step *s, unsigned int first, uint64_t old)
{
	if (s->rules->hands_off && !(old & KP_RWSEM_HANDOFF) &&
	    waited_long(s->sem, first, s->now)) {
		if (!replace(&s->sem->word, old, old | KP_RWSEM_HANDOFF))
			return go_on(s, KP_RWSEM_AT_MARK_WAKE);
		count(s, KP_RWSEM_HANDOFFS, 1);
	}
	return go_on(s, s->op->after_wake);
}

static enum kp_rwsem_ask at_mark_wake(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t old, new;
	unsigned int first;

	if (!s->sem->waiting)
		return go_on(s, op->after_wake);
	first = first_waiter(s->sem);
	if (s->sem->waiters[first].mode == KP_RWSEM_WRITE) {
		/* Woken, not granted. */
		if (op->wake_type == WAKE_ANY)
			op->wake |= reader(first);
		return go_on(s, op->after_wake);
	}
	old = load(&s->sem->word);
	if (old & KP_RWSEM_WRITER)
		return robbed(s, first, old);
	op->granted = readers_to_grant(s, first);
	new = old | op->granted;
	new &= ~KP_RWSEM_HANDOFF;
	if (op->granted == s->sem->waiting)
		new &= ~KP_RWSEM_WAITERS;
	if (!replace(&s->sem->word, old, new))
		return go_on(s, KP_RWSEM_AT_MARK_WAKE);
	if (op->wake_type != WAKE_READ_OWNED) {
		kp_rwsem_set_reader_owned(s->sem, s->rules);
		if (s->sem->waiters[first].no_reader_spin)
			__atomic_fetch_or(&s->sem->owner, NO_READER_SPIN, __ATOMIC_RELAXED);
	}
	count(s, KP_RWSEM_GRANTS, 1);
	count(s, KP_RWSEM_READERS_GRANTED, __builtin_popcountll(op->granted));
	for (uint64_t rest = op->granted; rest; rest &= rest - 1) {
		uint64_t ticket = s->sem->waiters[__builtin_ctzll(rest)].ticket;

		if (older_waiters(s->sem, KP_RWSEM_WRITE, ticket))
			count(s, KP_RWSEM_READERS_PASSED, 1);
	}
	return go_on(s, KP_RWSEM_AT_GRANT);
}

static enum kp_rwsem_ask at_grant(const struct step *s)
{
	set_waiting(s->sem, s->sem->waiting & ~s->op->granted);
	s->op->wake |= s->op->granted;
	return go_on(s, s->op->after_wake);
}

static enum kp_rwsem_ask at_leave_word(const struct step *s)
{
	unsigned int leaver = s->op->leaver;
	uint64_t old = load(&s->sem->word);
	uint64_t new = old & ~reader(leaver);

	if (!s->op->keeps_writer && (old & KP_RWSEM_WRITER) == writer(leaver))
		new &= ~KP_RWSEM_WRITER;
	/* Was it promised to the leaver? Who still wants it will ask again. */
	new &= ~KP_RWSEM_HANDOFF;
	if (!replace(&s->sem->word, old, new))
		return go_on(s, KP_RWSEM_AT_LEAVE_WORD);
	if ((old ^ new) & KP_RWSEM_HELD)
		count(s, KP_RWSEM_RECOVERED, 1);
	return go_on(s, KP_RWSEM_AT_LEAVE_QUEUE);
}

static enum kp_rwsem_ask at_leave_queue(const struct step *s)
{
	unsigned int leaver = s->op->leaver;
	uint32_t spinner = leaver + 1;

	if (s->sem->waiting & reader(leaver))
		count(s, KP_RWSEM_RECOVERED, 1);
	set_waiting(s->sem, s->sem->waiting & ~reader(leaver));
	__atomic_compare_exchange_n(&s->sem->spinner, &spinner, 0, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return go_on(s, KP_RWSEM_AT_LEAVE_FLAG);
}

static enum kp_rwsem_ask at_leave_flag(const struct step *s)
{
	uint64_t old = load(&s->sem->word);

	if (!s->sem->waiting && !replace(&s->sem->word, old, old & ~KP_RWSEM_WAITERS))
		return go_on(s, KP_RWSEM_AT_LEAVE_FLAG);
	return go_on(s, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_unlock(const struct step *s)
{
	return ask(s, KP_RWSEM_UNLOCK, s->op->then);
}

static enum kp_rwsem_ask at_sleep(const struct step *s)
{
	return ask(s, KP_RWSEM_SLEEP, KP_RWSEM_AT_WOKEN);
}

/* A waiter that somebody should have woken, and did not, does his work: he is dead. */
static enum kp_rwsem_ask wake_for_the_dead(const struct step *s)
{
	s->op->timed_out = false;
	count(s, KP_RWSEM_LOST_WAKES, 1);
	return ask(s, KP_RWSEM_LOCK, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_WOKEN));
}

static enum kp_rwsem_ask at_woken(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t word = load(&s->sem->word);
	bool free = !(word & KP_RWSEM_HELD);

	if (op->mode == KP_RWSEM_READ && word & reader(op->job)) {
		op->taken = true;
		/* Whoever granted it may have died before we were out of the queue. */
		if (load(&s->sem->waiting) & reader(op->job))
			return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_GRANTED);
		return go_on(s, KP_RWSEM_AT_DONE);
	}
	if (free && op->timed_out)
		return wake_for_the_dead(s);
	if (op->mode == KP_RWSEM_READ)
		return go_on(s, KP_RWSEM_AT_SLEEP);
	if (free || (s->rules->hands_off && !(word & KP_RWSEM_HANDOFF) &&
		     waited_long(s->sem, op->job, s->now)))
		return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_TRY_WRITE);
	return go_on(s, KP_RWSEM_AT_SLEEP);
}

static enum kp_rwsem_ask at_granted(const struct step *s)
{
	set_waiting(s->sem, s->sem->waiting & ~reader(s->op->job));
	return go_on(s, unlock_then(s, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_up_read(const struct step *s)
{
	return kp_rwsem_read_release(s->sem, s->op->job) ? end(s) : go_on(s, KP_RWSEM_AT_WAKE);
}

/* rwsem_clear_owner() */
static enum kp_rwsem_ask at_up_write(const struct step *s)
{
	kp_rwsem_set_owner(s->sem, 0);
	return go_on(s, KP_RWSEM_AT_UP_WRITE_WORD);
}

static enum kp_rwsem_ask at_up_write_word(const struct step *s)
{
	return kp_rwsem_write_release(s->sem, s->op->job) ? end(s) : go_on(s, KP_RWSEM_AT_WAKE);
}

/* rwsem_wake() */
static enum kp_rwsem_ask at_wake(const struct step *s)
{
	/* The last reader has gone: writers get their chance before those who wait. */
	if (s->op->mode == KP_RWSEM_READ)
		clear_owner(s->sem, s->rules->last_reader_clears);
	/* 4.9: a spinner will take the lock, or queue and then find it free */
	if (s->rules->spinner_saves_wake && __atomic_load_n(&s->sem->spinner, __ATOMIC_SEQ_CST))
		return ask(s, KP_RWSEM_TRYLOCK, KP_RWSEM_AT_WAKE_TRIED);
	return ask(s, KP_RWSEM_LOCK, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_wake_tried(const struct step *s)
{
	if (s->op->busy) {
		count(s, KP_RWSEM_WAKES_SAVED, 1);
		return end(s);
	}
	return go_on(s, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_downgrade(const struct step *s)
{
	uint64_t word = __atomic_add_fetch(&s->sem->word, reader(s->op->job) - writer(s->op->job),
					   __ATOMIC_RELEASE);

	kp_rwsem_set_reader_owned(s->sem, s->rules);
	if (!(word & KP_RWSEM_WAITERS))
		return end(s);
	return ask(s, KP_RWSEM_LOCK,
		   mark_wake(s, WAKE_READ_OWNED, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_done(const struct step *s)
{
	return end(s);
}

static enum kp_rwsem_ask (*const steps[KP_RWSEM_NR_AT])(const struct step *s) = {
	[KP_RWSEM_AT_READ] = at_read,
	[KP_RWSEM_AT_READ_SLOW] = at_read_slow,
	[KP_RWSEM_AT_READ_UNDO] = at_read_undo,
	[KP_RWSEM_AT_WRITE] = at_write,
	[KP_RWSEM_AT_WRITE_SLOW] = at_write_slow,
	[KP_RWSEM_AT_SPIN_BEGIN] = at_spin_begin,
	[KP_RWSEM_AT_SPIN] = at_spin,
	[KP_RWSEM_AT_SPIN_END] = at_spin_end,
	[KP_RWSEM_AT_QUEUE] = at_queue,
	[KP_RWSEM_AT_ENQUEUE] = at_enqueue,
	[KP_RWSEM_AT_TRY_WRITE] = at_try_write,
	[KP_RWSEM_AT_DEQUEUE] = at_dequeue,
	[KP_RWSEM_AT_MARK_WAKE] = at_mark_wake,
	[KP_RWSEM_AT_GRANT] = at_grant,
	[KP_RWSEM_AT_LEAVE_WORD] = at_leave_word,
	[KP_RWSEM_AT_LEAVE_QUEUE] = at_leave_queue,
	[KP_RWSEM_AT_LEAVE_FLAG] = at_leave_flag,
	[KP_RWSEM_AT_UNLOCK] = at_unlock,
	[KP_RWSEM_AT_SLEEP] = at_sleep,
	[KP_RWSEM_AT_WOKEN] = at_woken,
	[KP_RWSEM_AT_GRANTED] = at_granted,
	[KP_RWSEM_AT_OWN] = at_own,
	[KP_RWSEM_AT_UP_READ] = at_up_read,
	[KP_RWSEM_AT_UP_WRITE] = at_up_write,
	[KP_RWSEM_AT_UP_WRITE_WORD] = at_up_write_word,
	[KP_RWSEM_AT_WAKE] = at_wake,
	[KP_RWSEM_AT_WAKE_TRIED] = at_wake_tried,
	[KP_RWSEM_AT_DOWNGRADE] = at_downgrade,
	[KP_RWSEM_AT_DONE] = at_done,
};

enum kp_rwsem_ask kp_rwsem_step(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				struct kp_rwsem_op *op, uint64_t now)
{
	struct step s = { sem, rules, op, now };

	return steps[op->at](&s);
}

/*
 * Readers that were granted the lock and are not yet out of the queue. A writer that took it and
 * is still there is no such case: either it died on its way out and goes when it is buried, or it
 * holds the lock for an I/O in flight and waits for its next.
 */
static uint64_t granted_in_queue(const struct kp_rwsem *sem, uint64_t word)
{
	return word & older_waiters(sem, KP_RWSEM_READ, UINT64_MAX);
}

void kp_rwsem_repair(struct kp_rwsem *sem)
{
	uint64_t old, new;

	do {
		old = load(&sem->word);
		set_waiting(sem, sem->waiting & ~granted_in_queue(sem, old));
		new = old & ~KP_RWSEM_WAITERS;
		if (sem->waiting)
			new |= KP_RWSEM_WAITERS;
		else
			new &= ~KP_RWSEM_HANDOFF;
	} while (!replace(&sem->word, old, new));
}
