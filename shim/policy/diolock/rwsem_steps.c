// SPDX-License-Identifier: GPL-2.0-only
/*
 * The steps of the inode lock. See rwsem_steps.h.
 *
 * A step changes one word by one atomic operation, or it changes what wait_lock protects. A job is
 * queued when its bit in waiting[] is set, which is the last thing that queueing does; the links of
 * the queue follow from these bits and the tickets. A queued reader is granted the lock by its reader
 * bit, and taken out of the queue afterwards. A job that dies after any step therefore leaves one of
 * a few states behind, which kp_rwsem_repair() and the LEAVE steps recognise.
 *
 * Not reproduced: the line of spinners (osq), of which only the first spins here, and
 * rwsem_reader_phase_trylock() of 5.3.
 */
#include <string.h>

#include "core/robust.h"
#include "rwsem_steps.h"

#define READER_OWNED   KP_RWSEM_READER_OWNED
#define NO_READER_SPIN KP_RWSEM_NO_READER_SPIN
#define NO_WRITER_SPIN KP_RWSEM_NO_WRITER_SPIN

/* Which waiters a walk over the queue may wake: the kernel's enum rwsem_wake_type. */
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
		.max_granted = 256,
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
		.max_granted = 256,
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
	const struct kp_rwsem_rules *rules = &kp_rwsem_rules[0]; /* also before 4.9 */

	for (unsigned int i = 1; i < kp_nr_rwsem_rules; i++) {
		if (kp_version_compare(kp_rwsem_rules[i].name, kernel) <= 0)
			rules = &kp_rwsem_rules[i];
	}
	return rules;
}

int kp_rwsem_init(struct kp_rwsem *sem)
{
	memset(sem, 0, sizeof(*sem));
	sem->nr_words = 1;
	for (unsigned int i = 0; i < KP_RWSEM_WORDS - 1; i++)
		sem->beyond[i] = KP_RWSEM_WAITERS;
	return kp_robust_init(&sem->wait_lock);
}

void kp_rwsem_admit(struct kp_rwsem *sem, unsigned int job)
{
	uint32_t words = job / KP_RWSEM_WORD_JOBS + 1;
	uint32_t old = __atomic_load_n(&sem->nr_words, __ATOMIC_SEQ_CST);

	if (words == 1)
		return;
	while (old < words && !__atomic_compare_exchange_n(&sem->nr_words, &old, words, false,
							   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	__atomic_fetch_or(&sem->word, KP_RWSEM_MORE, __ATOMIC_SEQ_CST);
}

/* ---- words --------------------------------------------------------------------------------- */

#define writer(job) kp_rwsem_writer(job)

static unsigned int word_of(unsigned int job)
{
	return job / KP_RWSEM_WORD_JOBS;
}

static uint64_t bit_of(unsigned int job)
{
	return 1ull << job % KP_RWSEM_WORD_JOBS;
}

/* The bit of @job in the lock word, where it has one. */
static uint64_t reader(unsigned int job)
{
	return kp_rwsem_is_beyond(job) ? 0 : bit_of(job);
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/*
 * The lock word, and with BEYOND whether other words have readers. A reader that clears its bit
 * after we looked at it will look at the lock word itself, and wake the queue.
 */
static uint64_t look(const struct kp_rwsem *sem)
{
	uint64_t word = load(&sem->word);

	return word & KP_RWSEM_MORE && kp_rwsem_readers_beyond(sem) ? word | KP_RWSEM_BEYOND : word;
}

static bool replace(uint64_t *word, uint64_t old, uint64_t new)
{
	old &= ~KP_RWSEM_BEYOND;
	return __atomic_compare_exchange_n(word, &old, new & ~KP_RWSEM_BEYOND, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Set or clear the reader bit of a job beyond the lock word. Return: was it set? */
static bool mark(struct kp_rwsem *sem, unsigned int job, bool on)
{
	struct kp_rwsem_place place = kp_rwsem_place(sem, job);

	return place.bit & (on ? __atomic_fetch_or(place.word, place.bit, __ATOMIC_SEQ_CST)
			       : __atomic_fetch_and(place.word, ~place.bit, __ATOMIC_SEQ_CST));
}

static void clear_owner(struct kp_rwsem *sem, uint32_t flags)
{
	if (kp_rwsem_owner(sem) & flags)
		__atomic_fetch_and(&sem->owner, ~flags, __ATOMIC_RELAXED);
}

/* ---- the queue, with wait_lock held -------------------------------------------------------- */

static bool is_queued(const struct kp_rwsem *sem, unsigned int job)
{
	return load(&sem->waiting[word_of(job)]) & bit_of(job);
}

/* The first job in the queue, which is not empty. */
static unsigned int first_waiter(const struct kp_rwsem *sem)
{
	return sem->first - 1u;
}

static void link_last(struct kp_rwsem *sem, unsigned int job)
{
	struct kp_rwsem_waiter *waiter = &sem->waiters[job];

	waiter->next = 0;
	waiter->prev = sem->last;
	if (sem->last)
		sem->waiters[sem->last - 1].next = job + 1;
	else
		sem->first = job + 1;
	sem->last = job + 1;
}

/* A waiter looks at its bit without the lock: the bit is set after all that the waiter wrote. */
static void enqueue(struct kp_rwsem *sem, unsigned int job)
{
	link_last(sem, job);
	__atomic_fetch_or(&sem->waiting[word_of(job)], bit_of(job), __ATOMIC_RELEASE);
}

static void dequeue(struct kp_rwsem *sem, unsigned int job)
{
	const struct kp_rwsem_waiter *waiter = &sem->waiters[job];

	if (!is_queued(sem, job))
		return;
	if (waiter->prev)
		sem->waiters[waiter->prev - 1].next = waiter->next;
	else
		sem->first = waiter->next;
	if (waiter->next)
		sem->waiters[waiter->next - 1].prev = waiter->prev;
	else
		sem->last = waiter->prev;
	__atomic_fetch_and(&sem->waiting[word_of(job)], ~bit_of(job), __ATOMIC_RELEASE);
}

static bool is_alone(const struct kp_rwsem *sem, unsigned int job)
{
	return sem->first == job + 1 && sem->last == job + 1;
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

/* ---- down_read() --------------------------------------------------------------------------- */

static enum kp_rwsem_ask at_read(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;

	if (kp_rwsem_read_fast(s->sem, s->rules, kp_rwsem_place(s->sem, op->job), &op->seen))
		return taken(s, KP_RWSEM_AT_DONE);
	op->marked = true;
	return go_on(s,
		     kp_rwsem_is_beyond(op->job) ? KP_RWSEM_AT_READ_LOOK : KP_RWSEM_AT_READ_SLOW);
}

static enum kp_rwsem_ask at_read_look(const struct step *s)
{
	if (kp_rwsem_read_look(s->sem, s->rules, &s->op->seen))
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

/* How many readers hold the lock, whose word is @word? */
static unsigned int count_readers(const struct kp_rwsem *sem, uint64_t word)
{
	unsigned int readers = __builtin_popcountll(word & KP_RWSEM_READERS);

	for (unsigned int i = 1; word & KP_RWSEM_MORE && i < sem->nr_words; i++)
		readers += __builtin_popcountll(load(&sem->beyond[i - 1]) & KP_RWSEM_READERS);
	return readers;
}

/* Does a reader hold the lock besides us? Our own bit is set. */
static bool has_other_readers(const struct step *s)
{
	unsigned int mine = kp_rwsem_is_beyond(s->op->job);

	return count_readers(s->sem, s->op->seen & ~reader(s->op->job)) > mine;
}

/* Our bit is set, and there is a writer, a waiter or a handoff. */
static enum kp_rwsem_ask at_read_slow(const struct step *s)
{
	uint32_t flags = kp_rwsem_owner(s->sem);
	bool others;

	s->op->no_reader_spin = flags & NO_READER_SPIN;
	if (s->rules->readers_spin && reader_may_spin(s, s->op->seen))
		return go_on(s, KP_RWSEM_AT_READ_UNDO);
	if (!s->rules->readers_steal || s->op->seen & (KP_RWSEM_WRITER | KP_RWSEM_HANDOFF))
		return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
	/* 5.11: reader optimistic lock stealing, but no stream of readers past a sleeping writer */
	others = has_other_readers(s);
	if (others && flags & READER_OWNED)
		return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
	count(s, KP_RWSEM_READ_STEALS, 1);
	kp_rwsem_set_reader_owned(s->sem, s->rules);
	s->op->taken = true;
	if (others)
		return go_on(s, KP_RWSEM_AT_DONE);
	/* The first reader wakes the readers that wait. */
	return ask(s, KP_RWSEM_LOCK,
		   mark_wake(s, WAKE_READ_OWNED, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_read_undo(const struct step *s)
{
	struct kp_rwsem_place place = kp_rwsem_place(s->sem, s->op->job);

	__atomic_fetch_sub(place.word, place.bit, __ATOMIC_SEQ_CST);
	s->op->marked = false;
	return go_on(s, KP_RWSEM_AT_SPIN_BEGIN);
}

/* ---- down_write() -------------------------------------------------------------------------- */

static enum kp_rwsem_ask at_write(const struct step *s)
{
	if (kp_rwsem_write_fast(s->sem, s->op->job, &s->op->seen))
		return taken(s, KP_RWSEM_AT_DONE);
	return go_on(s, s->op->seen == KP_RWSEM_MORE ? KP_RWSEM_AT_WRITE_MORE
						     : KP_RWSEM_AT_WRITE_SLOW);
}

/*
 * Our number is in the lock word, which was @old before. We hold the lock, unless jobs beyond the
 * lock word have reader bits.
 */
static enum kp_rwsem_ask claimed(const struct step *s, uint64_t old, enum kp_rwsem_event steal,
				 enum kp_rwsem_at then, enum kp_rwsem_at otherwise)
{
	if (!(old & KP_RWSEM_MORE)) {
		if (steal != KP_RWSEM_NR_EVENTS)
			count(s, steal, 1);
		return taken(s, then);
	}
	s->op->seen = old;
	s->op->steal_event = steal;
	s->op->claimed_then = then;
	s->op->unclaimed_then = otherwise;
	return go_on(s, KP_RWSEM_AT_SCAN);
}

static enum kp_rwsem_ask at_write_more(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;

	if (!kp_rwsem_claim(s->sem, op->job, &op->seen))
		return go_on(s, KP_RWSEM_AT_WRITE_SLOW);
	return claimed(s, op->seen, KP_RWSEM_NR_EVENTS, KP_RWSEM_AT_OWN, KP_RWSEM_AT_WRITE_SLOW);
}

static enum kp_rwsem_ask at_scan(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;

	if (kp_rwsem_readers_beyond(s->sem))
		return go_on(s, KP_RWSEM_AT_UNCLAIM);
	op->cleared = 0;
	if (op->steal_event != KP_RWSEM_NR_EVENTS)
		count(s, op->steal_event, 1);
	return taken(s, op->claimed_then);
}

/*
 * A reader that released the lock since the claim saw a writer, and woke nobody. All that come here
 * look again, after this step, and then take the lock or queue.
 */
static enum kp_rwsem_ask at_unclaim(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t old = load(&s->sem->word);
	uint64_t new = (old & ~KP_RWSEM_WRITER) | op->cleared;

	if (!replace(&s->sem->word, old, new))
		return go_on(s, KP_RWSEM_AT_UNCLAIM);
	op->cleared = 0;
	op->seen = new | KP_RWSEM_BEYOND;
	return go_on(s, op->unclaimed_then);
}

/* Is there something that a writer spins on? On readers only up to a time, and only from 5.3 on. */
static bool writer_may_spin(const struct step *s, uint64_t word)
{
	uint32_t flags = kp_rwsem_owner(s->sem);

	if (word & KP_RWSEM_WRITER)
		return !(flags & KP_RWSEM_SLEEPING);
	/* READER_OWNED stays when the readers have gone: 4.9 then queues, though the lock is free */
	if (word & KP_RWSEM_READ_HELD || flags & READER_OWNED)
		return s->rules->writers_spin_on_readers && !(flags & NO_WRITER_SPIN);
	return true;
}

static enum kp_rwsem_ask at_write_slow(const struct step *s)
{
	if (writer_may_spin(s, s->op->seen))
		return go_on(s, KP_RWSEM_AT_SPIN_BEGIN);
	return ask(s, KP_RWSEM_LOCK, KP_RWSEM_AT_QUEUE);
}

/* ---- spinning ------------------------------------------------------------------------------ */

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

/*
 * rwsem_set_nonspinnable(). It fails when a writer came meanwhile; when the change gets lost, a job
 * spins in vain.
 */
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
	if (!s->op->reader_spin_until)
		s->op->reader_spin_until =
			s->now + (20 + kp_min(count_readers(s->sem, word), 30u)) * 500;
	if (s->now < s->op->reader_spin_until)
		return false;
	set_nonspinnable(s);
	return true;
}

static bool spin_goes_on(const struct step *s, uint64_t word)
{
	bool on_readers = !(word & KP_RWSEM_WRITER) && word & KP_RWSEM_READ_HELD;

	if (s->now >= s->op->spin_until)
		return false;
	if (!on_readers)
		s->op->reader_spin_until = 0;
	if (s->op->mode == KP_RWSEM_READ)
		return reader_may_spin(s, word);
	return writer_may_spin(s, word) && !(on_readers && readers_take_too_long(s, word));
}

/* The spinner could not take the lock, which was @word. */
static enum kp_rwsem_ask spin_on(const struct step *s, uint64_t word)
{
	if (spin_goes_on(s, word))
		return ask(s, KP_RWSEM_RELAX, KP_RWSEM_AT_SPIN);
	return go_on(s, KP_RWSEM_AT_SPIN_END);
}

/* A spinning reader has taken the lock, which was @word. */
static enum kp_rwsem_ask read_spun(const struct step *s, uint64_t word)
{
	s->op->steals = word & KP_RWSEM_WAITERS;
	if (s->op->steals)
		count(s, KP_RWSEM_READ_STEALS, 1);
	return taken(s, KP_RWSEM_AT_SPIN_END);
}

/* rwsem_try_read_lock_unqueued() */
static enum kp_rwsem_ask spin_for_read(const struct step *s)
{
	uint64_t word = look(s->sem);

	if (word & (KP_RWSEM_WRITER | KP_RWSEM_HANDOFF))
		return spin_on(s, word);
	if (kp_rwsem_is_beyond(s->op->job)) {
		s->op->marked = true;
		mark(s->sem, s->op->job, true);
		return go_on(s, KP_RWSEM_AT_SPIN_LOOK);
	}
	if (!replace(&s->sem->word, word, word | reader(s->op->job)))
		return go_on(s, KP_RWSEM_AT_SPIN);
	return read_spun(s, word);
}

/* rwsem_try_write_lock_unqueued() */
static enum kp_rwsem_ask spin_for_write(const struct step *s)
{
	uint64_t word = look(s->sem);

	if (word & (KP_RWSEM_HELD | KP_RWSEM_HANDOFF))
		return spin_on(s, word);
	if (!replace(&s->sem->word, word, word | writer(s->op->job)))
		return go_on(s, KP_RWSEM_AT_SPIN);
	return claimed(s, word,
		       word & KP_RWSEM_WAITERS ? KP_RWSEM_WRITE_STEALS : KP_RWSEM_NR_EVENTS,
		       KP_RWSEM_AT_SPIN_END, KP_RWSEM_AT_SPIN);
}

static enum kp_rwsem_ask at_spin(const struct step *s)
{
	return s->op->mode == KP_RWSEM_READ ? spin_for_read(s) : spin_for_write(s);
}

static enum kp_rwsem_ask at_spin_look(const struct step *s)
{
	uint64_t word = load(&s->sem->word);

	if (word & (KP_RWSEM_WRITER | KP_RWSEM_HANDOFF))
		return go_on(s, KP_RWSEM_AT_SPIN_UNDO);
	s->op->seen = word;
	return read_spun(s, word);
}

static enum kp_rwsem_ask at_spin_undo(const struct step *s)
{
	s->op->marked = false;
	mark(s->sem, s->op->job, false);
	return go_on(s, KP_RWSEM_AT_SPIN);
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

/* ---- queueing ------------------------------------------------------------------------------ */

/*
 * Set WAITERS. A reader takes the lock instead when it finds the queue empty and no writer. A reader
 * beyond the lock word must have its bit set in the second case and cleared in the first: that is a
 * step of its own, after which the word is looked at again.
 */
static enum kp_rwsem_ask at_queue(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t old = load(&s->sem->word);
	bool reads = op->mode == KP_RWSEM_READ;
	bool enters = reads && !s->sem->first && !(old & KP_RWSEM_WRITER);
	uint64_t new;

	if (reads && kp_rwsem_is_beyond(op->job) && op->marked != enters) {
		op->marked = enters;
		mark(s->sem, op->job, enters);
		return go_on(s, KP_RWSEM_AT_QUEUE);
	}
	if (enters)
		new = (old | reader(op->job)) & ~(KP_RWSEM_WAITERS | KP_RWSEM_HANDOFF);
	else if (reads)
		new = (old & ~reader(op->job)) | KP_RWSEM_WAITERS;
	else
		new = old | KP_RWSEM_WAITERS;
	if (!reads && s->rules->writers_silence_readers)
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
	bool first = !s->sem->first;
	bool free = !(op->seen & KP_RWSEM_HELD) &&
		    !(op->seen & KP_RWSEM_MORE && kp_rwsem_readers_beyond(s->sem));

	waiter->ticket = ++s->sem->next_ticket;
	waiter->since_ns = s->now;
	waiter->mode = op->mode;
	waiter->no_reader_spin = op->no_reader_spin;
	enqueue(s->sem, op->job);
	if (op->mode == KP_RWSEM_READ) {
		if (!free)
			return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
		clear_owner(s->sem, s->rules->last_reader_clears);
		return go_on(s, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_SLEEP));
	}
	if (first || op->seen & KP_RWSEM_WRITER || (free && !s->rules->hands_off))
		return go_on(s, KP_RWSEM_AT_TRY_WRITE);
	/*
	 * When readers hold the lock, readers in the queue may join them. When it is free, it may have
	 * been handed to the first waiter.
	 */
	return go_on(s, mark_wake(s, free ? WAKE_ANY : WAKE_READERS, KP_RWSEM_AT_TRY_WRITE,
				  KP_RWSEM_AT_SLEEP));
}

/* rwsem_try_write_lock(): any queued writer that is awake, unless the first was promised the lock */
static enum kp_rwsem_ask at_try_write(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	bool first = first_waiter(s->sem) == op->job;
	uint64_t old = look(s->sem);
	uint64_t new = old;

	if (old & KP_RWSEM_HANDOFF && !first)
		return go_on(s, unlock_then(s, KP_RWSEM_AT_SLEEP));
	if (!(old & KP_RWSEM_HELD)) {
		new |= writer(op->job);
		new &= ~KP_RWSEM_HANDOFF;
		if (is_alone(s->sem, op->job))
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
	op->cleared = old & ~new;
	return claimed(s, old, first ? KP_RWSEM_NR_EVENTS : KP_RWSEM_QUEUE_STEALS,
		       KP_RWSEM_AT_DEQUEUE, KP_RWSEM_AT_TRY_WRITE);
}

static enum kp_rwsem_ask at_dequeue(const struct step *s)
{
	dequeue(s->sem, s->op->job);
	return go_on(s, unlock_then(s, KP_RWSEM_AT_OWN));
}

/* rwsem_set_owner(), and rwsem_disable_reader_optspin() of a writer that had to queue */
static enum kp_rwsem_ask at_own(const struct step *s)
{
	kp_rwsem_set_owner(s->sem, s->op->no_reader_spin ? NO_READER_SPIN : 0);
	return end(s);
}

/* ---- granting the lock to readers in the queue --------------------------------------------- */

/* The readers that a release grants the lock to; the first in the queue is one of them. */
struct grant {
	unsigned int readers;
	unsigned int passed; /* of these, how many pass an older writer */
	bool beyond;	     /* some have their bits beyond the lock word */
	bool all;	     /* nobody is left in the queue */
};

static struct grant choose_readers(const struct step *s)
{
	const struct kp_rwsem_waiter *waiters = s->sem->waiters;
	struct grant grant = { .all = true };
	bool writer_waits = false;

	memset(s->op->granted, 0, sizeof(s->op->granted));
	for (unsigned int i = s->sem->first; i; i = waiters[i - 1].next) {
		bool full = s->rules->max_granted && grant.readers == s->rules->max_granted;

		if (waiters[i - 1].mode == KP_RWSEM_WRITE || full) {
			grant.all = false;
			writer_waits = true;
			if (full || !s->rules->grants_all_readers)
				break;
			continue;
		}
		s->op->granted[word_of(i - 1)] |= bit_of(i - 1);
		grant.readers++;
		grant.passed += writer_waits;
		grant.beyond |= kp_rwsem_is_beyond(i - 1);
	}
	return grant;
}

/* Set or clear the bits beyond the lock word of the readers that were chosen. */
static void mark_granted(const struct step *s, bool on)
{
	for (unsigned int i = 1; i < s->sem->nr_words; i++) {
		uint64_t *word = &s->sem->beyond[i - 1], bits = s->op->granted[i];

		if (bits && on)
			__atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
		else if (bits)
			__atomic_fetch_and(word, ~bits, __ATOMIC_SEQ_CST);
	}
}

/* A writer took the lock that a release left to the first reader in the queue. */
static enum kp_rwsem_ask robbed(const struct step *s, uint64_t old)
{
	if (s->rules->hands_off && !(old & KP_RWSEM_HANDOFF) &&
	    waited_long(s->sem, first_waiter(s->sem), s->now)) {
		if (!replace(&s->sem->word, old, old | KP_RWSEM_HANDOFF))
			return go_on(s, KP_RWSEM_AT_MARK_WAKE);
		count(s, KP_RWSEM_HANDOFFS, 1);
	}
	return go_on(s, s->op->after_wake);
}

/* Grant the lock, whose word was @old; bits beyond it are set. Return: false when it has changed. */
static bool grant_readers(const struct step *s, uint64_t old)
{
	struct grant grant = choose_readers(s);
	uint64_t new = old | s->op->granted[0];

	new &= ~KP_RWSEM_HANDOFF;
	if (grant.all)
		new &= ~KP_RWSEM_WAITERS;
	if (!replace(&s->sem->word, old, new))
		return false;
	if (s->op->wake_type != WAKE_READ_OWNED) {
		kp_rwsem_set_reader_owned(s->sem, s->rules);
		if (s->sem->waiters[first_waiter(s->sem)].no_reader_spin)
			__atomic_fetch_or(&s->sem->owner, NO_READER_SPIN, __ATOMIC_RELAXED);
	}
	count(s, KP_RWSEM_GRANTS, 1);
	count(s, KP_RWSEM_READERS_GRANTED, grant.readers);
	count(s, KP_RWSEM_READERS_PASSED, grant.passed);
	return true;
}

static enum kp_rwsem_ask at_mark_wake(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t old;

	if (!s->sem->first)
		return go_on(s, op->after_wake);
	if (s->sem->waiters[first_waiter(s->sem)].mode == KP_RWSEM_WRITE) {
		/* It is woken, and tries to take the lock itself. */
		if (op->wake_type == WAKE_ANY)
			op->wake[word_of(first_waiter(s->sem))] |= bit_of(first_waiter(s->sem));
		return go_on(s, op->after_wake);
	}
	old = load(&s->sem->word);
	if (old & KP_RWSEM_WRITER)
		return robbed(s, old);
	if (s->sem->nr_words > 1 && choose_readers(s).beyond)
		return go_on(s, KP_RWSEM_AT_GRANT_BEYOND);
	return go_on(s, grant_readers(s, old) ? KP_RWSEM_AT_GRANT : KP_RWSEM_AT_MARK_WAKE);
}

static enum kp_rwsem_ask at_grant_beyond(const struct step *s)
{
	mark_granted(s, true);
	return go_on(s, KP_RWSEM_AT_GRANT_WORD);
}

/* Did a writer come before the bits were set? */
static enum kp_rwsem_ask at_grant_word(const struct step *s)
{
	uint64_t old = load(&s->sem->word);

	if (old & KP_RWSEM_WRITER)
		return go_on(s, KP_RWSEM_AT_GRANT_UNDO);
	return go_on(s, grant_readers(s, old) ? KP_RWSEM_AT_GRANT : KP_RWSEM_AT_GRANT_WORD);
}

/* The writer holds the lock, or it saw the bits and steps back. */
static enum kp_rwsem_ask at_grant_undo(const struct step *s)
{
	mark_granted(s, false);
	return go_on(s, KP_RWSEM_AT_MARK_WAKE);
}

static enum kp_rwsem_ask at_grant(const struct step *s)
{
	for (unsigned int i = 0; i < s->sem->nr_words; i++) {
		s->op->wake[i] |= s->op->granted[i];
		for (uint64_t rest = s->op->granted[i]; rest; rest &= rest - 1)
			dequeue(s->sem, i * KP_RWSEM_WORD_JOBS + __builtin_ctzll(rest));
	}
	return go_on(s, s->op->after_wake);
}

/* ---- a job leaves: it died, or it gave the wait up ----------------------------------------- */

static enum kp_rwsem_ask at_leave_beyond(const struct step *s)
{
	unsigned int leaver = s->op->leaver;

	if (kp_rwsem_is_beyond(leaver) && mark(s->sem, leaver, false))
		count(s, KP_RWSEM_RECOVERED, 1);
	return go_on(s, KP_RWSEM_AT_LEAVE_WORD);
}

static enum kp_rwsem_ask at_leave_word(const struct step *s)
{
	unsigned int leaver = s->op->leaver;
	uint64_t old = load(&s->sem->word);
	uint64_t new = old & ~reader(leaver);

	if (!s->op->keeps_writer && (old & KP_RWSEM_WRITER) == writer(leaver))
		new &= ~KP_RWSEM_WRITER;
	/* The leaver may be the one that the lock was promised to. Another waiter asks again. */
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

	if (is_queued(s->sem, leaver))
		count(s, KP_RWSEM_RECOVERED, 1);
	dequeue(s->sem, leaver);
	__atomic_compare_exchange_n(&s->sem->spinner, &spinner, 0, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return go_on(s, KP_RWSEM_AT_LEAVE_FLAG);
}

static enum kp_rwsem_ask at_leave_flag(const struct step *s)
{
	uint64_t old = load(&s->sem->word);

	if (!s->sem->first && !replace(&s->sem->word, old, old & ~KP_RWSEM_WAITERS))
		return go_on(s, KP_RWSEM_AT_LEAVE_FLAG);
	return go_on(s, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

/* ---- sleeping in the queue ----------------------------------------------------------------- */

static enum kp_rwsem_ask at_unlock(const struct step *s)
{
	return ask(s, KP_RWSEM_UNLOCK, s->op->then);
}

static enum kp_rwsem_ask at_sleep(const struct step *s)
{
	return ask(s, KP_RWSEM_SLEEP, KP_RWSEM_AT_WOKEN);
}

/* The waiter timed out and the lock is free: the job that had to wake the queue has died. */
static enum kp_rwsem_ask wake_for_the_dead(const struct step *s)
{
	s->op->timed_out = false;
	count(s, KP_RWSEM_LOST_WAKES, 1);
	return ask(s, KP_RWSEM_LOCK, mark_wake(s, WAKE_ANY, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_WOKEN));
}

/*
 * Has a queued reader been granted the lock? In the lock word its bit says so. Beyond the lock word
 * the bit may be cleared again, until the reader is taken out of the queue.
 */
static bool is_granted(const struct step *s, uint64_t word)
{
	unsigned int job = s->op->job;

	return kp_rwsem_is_beyond(job) ? !is_queued(s->sem, job) : word & reader(job);
}

static enum kp_rwsem_ask at_woken(const struct step *s)
{
	struct kp_rwsem_op *op = s->op;
	uint64_t word = look(s->sem);
	bool free = !(word & KP_RWSEM_HELD);

	if (op->mode == KP_RWSEM_READ && is_granted(s, word)) {
		op->taken = true;
		/* The job that granted it may have died before it took us out of the queue. */
		if (is_queued(s->sem, op->job))
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
	dequeue(s->sem, s->op->job);
	return go_on(s, unlock_then(s, KP_RWSEM_AT_DONE));
}

/* ---- up_read(), up_write(), downgrade_write() ---------------------------------------------- */

static enum kp_rwsem_ask at_up_read(const struct step *s)
{
	if (kp_rwsem_read_release(kp_rwsem_place(s->sem, s->op->job)))
		return end(s);
	return go_on(s,
		     kp_rwsem_is_beyond(s->op->job) ? KP_RWSEM_AT_UP_READ_LOOK : KP_RWSEM_AT_WAKE);
}

static enum kp_rwsem_ask at_up_read_look(const struct step *s)
{
	return kp_rwsem_release_look(s->sem) ? end(s) : go_on(s, KP_RWSEM_AT_WAKE);
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
	if (s->op->mode == KP_RWSEM_READ) {
		/* Readers beyond the lock word are left; the last of them wakes the queue. */
		if (kp_rwsem_readers_beyond(s->sem))
			return end(s);
		/* The last reader has gone: writers may spin again. */
		clear_owner(s->sem, s->rules->last_reader_clears);
	}
	/* 4.9: a spinner takes the lock, or it queues and finds it free */
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

static enum kp_rwsem_ask at_downgrade_word(const struct step *s)
{
	uint64_t word = __atomic_add_fetch(&s->sem->word, reader(s->op->job) - writer(s->op->job),
					   __ATOMIC_SEQ_CST);

	kp_rwsem_set_reader_owned(s->sem, s->rules);
	if (!(word & KP_RWSEM_WAITERS))
		return end(s);
	return ask(s, KP_RWSEM_LOCK,
		   mark_wake(s, WAKE_READ_OWNED, KP_RWSEM_AT_UNLOCK, KP_RWSEM_AT_DONE));
}

static enum kp_rwsem_ask at_downgrade(const struct step *s)
{
	if (!kp_rwsem_is_beyond(s->op->job))
		return at_downgrade_word(s);
	mark(s->sem, s->op->job, true);
	return go_on(s, KP_RWSEM_AT_DOWNGRADE_WORD);
}

static enum kp_rwsem_ask at_done(const struct step *s)
{
	return end(s);
}

static enum kp_rwsem_ask (*const steps[KP_RWSEM_NR_AT])(const struct step *s) = {
	[KP_RWSEM_AT_READ] = at_read,
	[KP_RWSEM_AT_READ_LOOK] = at_read_look,
	[KP_RWSEM_AT_READ_SLOW] = at_read_slow,
	[KP_RWSEM_AT_READ_UNDO] = at_read_undo,
	[KP_RWSEM_AT_WRITE] = at_write,
	[KP_RWSEM_AT_WRITE_MORE] = at_write_more,
	[KP_RWSEM_AT_WRITE_SLOW] = at_write_slow,
	[KP_RWSEM_AT_SCAN] = at_scan,
	[KP_RWSEM_AT_UNCLAIM] = at_unclaim,
	[KP_RWSEM_AT_SPIN_BEGIN] = at_spin_begin,
	[KP_RWSEM_AT_SPIN] = at_spin,
	[KP_RWSEM_AT_SPIN_LOOK] = at_spin_look,
	[KP_RWSEM_AT_SPIN_UNDO] = at_spin_undo,
	[KP_RWSEM_AT_SPIN_END] = at_spin_end,
	[KP_RWSEM_AT_QUEUE] = at_queue,
	[KP_RWSEM_AT_ENQUEUE] = at_enqueue,
	[KP_RWSEM_AT_TRY_WRITE] = at_try_write,
	[KP_RWSEM_AT_DEQUEUE] = at_dequeue,
	[KP_RWSEM_AT_MARK_WAKE] = at_mark_wake,
	[KP_RWSEM_AT_GRANT_BEYOND] = at_grant_beyond,
	[KP_RWSEM_AT_GRANT_WORD] = at_grant_word,
	[KP_RWSEM_AT_GRANT_UNDO] = at_grant_undo,
	[KP_RWSEM_AT_GRANT] = at_grant,
	[KP_RWSEM_AT_LEAVE_BEYOND] = at_leave_beyond,
	[KP_RWSEM_AT_LEAVE_WORD] = at_leave_word,
	[KP_RWSEM_AT_LEAVE_QUEUE] = at_leave_queue,
	[KP_RWSEM_AT_LEAVE_FLAG] = at_leave_flag,
	[KP_RWSEM_AT_UNLOCK] = at_unlock,
	[KP_RWSEM_AT_SLEEP] = at_sleep,
	[KP_RWSEM_AT_WOKEN] = at_woken,
	[KP_RWSEM_AT_GRANTED] = at_granted,
	[KP_RWSEM_AT_OWN] = at_own,
	[KP_RWSEM_AT_UP_READ] = at_up_read,
	[KP_RWSEM_AT_UP_READ_LOOK] = at_up_read_look,
	[KP_RWSEM_AT_UP_WRITE] = at_up_write,
	[KP_RWSEM_AT_UP_WRITE_WORD] = at_up_write_word,
	[KP_RWSEM_AT_WAKE] = at_wake,
	[KP_RWSEM_AT_WAKE_TRIED] = at_wake_tried,
	[KP_RWSEM_AT_DOWNGRADE] = at_downgrade,
	[KP_RWSEM_AT_DOWNGRADE_WORD] = at_downgrade_word,
	[KP_RWSEM_AT_DONE] = at_done,
};

enum kp_rwsem_ask kp_rwsem_step(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				struct kp_rwsem_op *op, uint64_t now)
{
	struct step s = { sem, rules, op, now };

	return steps[op->at](&s);
}

/* ---- repair -------------------------------------------------------------------------------- */

/* Link the queue again: the bits say which jobs are in it, the tickets say in which order. */
static void relink(struct kp_rwsem *sem)
{
	unsigned int nr_jobs = kp_min(sem->nr_words * KP_RWSEM_WORD_JOBS, KP_RWSEM_JOBS);
	uint64_t after = 0;

	sem->first = sem->last = 0;
	for (;;) {
		unsigned int next = 0;

		for (unsigned int job = 0; job < nr_jobs; job++) {
			uint64_t ticket = sem->waiters[job].ticket;

			if (is_queued(sem, job) && ticket > after &&
			    (!next || ticket < sem->waiters[next - 1].ticket))
				next = job + 1;
		}
		if (!next)
			return;
		link_last(sem, next - 1);
		after = sem->waiters[next - 1].ticket;
	}
}

/*
 * A queued reader whose bit is in the lock word was granted the lock, and leaves the queue. Beyond
 * the lock word we cannot tell whether the grant was complete: the bit is cleared, and the reader
 * waits on.
 *
 * A queued writer that holds the lock stays. Either it died on its way out, and leaves when its job
 * is recovered, or it holds the lock for an I/O in flight and waits for its next.
 */
static void settle_grants(struct kp_rwsem *sem, uint64_t word)
{
	unsigned int next;

	for (unsigned int i = sem->first; i; i = next) {
		unsigned int job = i - 1;

		next = sem->waiters[job].next;
		if (sem->waiters[job].mode == KP_RWSEM_WRITE)
			continue;
		if (kp_rwsem_is_beyond(job))
			mark(sem, job, false);
		else if (word & reader(job))
			dequeue(sem, job);
	}
}

void kp_rwsem_repair(struct kp_rwsem *sem)
{
	uint64_t old, new;

	relink(sem);
	do {
		old = load(&sem->word);
		settle_grants(sem, old);
		new = old & ~KP_RWSEM_WAITERS;
		if (sem->first)
			new |= KP_RWSEM_WAITERS;
		else
			new &= ~KP_RWSEM_HANDOFF;
	} while (!replace(&sem->word, old, new));
}
