/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The inode lock's state in shared memory, and the steps that change it.
 *
 * The lock behaves as the kernel's rw_semaphore did in 4.9, 5.3 or 5.11. In addition it records
 * which job holds it, so that another job can release what a dead job held.
 *
 * words[0] is the lock word. It has a bit for each of the first 49 jobs that reads, the number of
 * the job that writes, and the two flags of the kernel's own word. Jobs beyond the first 49 have
 * their bits in words[1] and up. Such a reader sets its bit and then looks at the lock word; a
 * writer puts its number into the lock word and then looks at all reader bits. At least one of the
 * two sees the other, and steps back. While no more than 49 jobs share the lock, neither of them
 * has to look.
 *
 * Every operation is cut into steps, each of which makes one access to shared memory outside
 * wait_lock: kp_rwsem_step(). A step never calls the system; it tells its caller what to do before
 * the next step. rwsem.c runs the steps with futexes. A unit test runs them in every order, and
 * another one kills a job after each step.
 */
#ifndef KP_RWSEM_STEPS_H
#define KP_RWSEM_STEPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util.h"
#include "stage.h"

#define KP_RWSEM_JOBS	   1024u /* jobs that may share a lock */
#define KP_RWSEM_WORD_JOBS 49u	 /* jobs that have their bits in the same word */
#define KP_RWSEM_WORDS	   ((KP_RWSEM_JOBS + KP_RWSEM_WORD_JOBS - 1) / KP_RWSEM_WORD_JOBS)

/*
 * The lock word. As in the kernel, a reader that fails on its fast path is counted for a moment.
 *
 * In words[1] and up WAITERS is always set, so that the fast paths of their jobs leave the common
 * code where it looks at this flag, and then look at the lock word.
 */
#define KP_RWSEM_READERS      ((1ull << KP_RWSEM_WORD_JOBS) - 1)
#define KP_RWSEM_BEYOND	      (1ull << 49) /* never stored; a step saw reader bits beyond words[0] */
#define KP_RWSEM_MORE	      (1ull << 50) /* there are jobs whose bits are beyond words[0] */
#define KP_RWSEM_WRITER_SHIFT 51
#define KP_RWSEM_WRITER	      (2047ull << KP_RWSEM_WRITER_SHIFT) /* number of the writer + 1 */
#define KP_RWSEM_WAITERS      (1ull << 62)			 /* RWSEM_FLAG_WAITERS */
#define KP_RWSEM_HANDOFF      (1ull << 63)			 /* RWSEM_FLAG_HANDOFF */
#define KP_RWSEM_READ_HELD    (KP_RWSEM_READERS | KP_RWSEM_BEYOND)
#define KP_RWSEM_HELD	      (KP_RWSEM_READ_HELD | KP_RWSEM_WRITER)
#define KP_RWSEM_READ_FAILED  (KP_RWSEM_WRITER | KP_RWSEM_WAITERS | KP_RWSEM_HANDOFF)

/*
 * The flags in 'owner', after those in rw_semaphore.owner. A writer clears all of them when it takes
 * the lock and when it releases it. They are hints: when a change gets lost, a job spins in vain.
 */
#define KP_RWSEM_SLEEPING	(1u << 0) /* the writer sleeps in the device's wait: !on_cpu */
#define KP_RWSEM_READER_OWNED	(1u << 1) /* readers hold the lock, or held it last */
#define KP_RWSEM_NO_READER_SPIN (1u << 2) /* RWSEM_RD_NONSPINNABLE, from 5.3 to 5.10 */
#define KP_RWSEM_NO_WRITER_SPIN (1u << 3) /* RWSEM_WR_NONSPINNABLE; 5.11: RWSEM_NONSPINNABLE */

#define KP_RWSEM_SPIN_NS 25000u	  /* stands for need_resched(): a job spins no longer than this */
#define KP_RWSEM_WAIT_NS 4000000u /* RWSEM_WAIT_TIMEOUT: afterwards a waiter sets HANDOFF */

enum kp_rwsem_mode { KP_RWSEM_READ, KP_RWSEM_WRITE };

/* struct kp_rwsem_rules - the differences between the kernels. */
struct kp_rwsem_rules {
	const char *name; /* rwsem=NAME; the first release with this behaviour */
	const char *summary;
	bool readers_spin;	      /* before they queue */
	bool readers_steal;	      /* on the slow path, unless another reader is counted */
	bool writers_spin_on_readers; /* for a time; otherwise only on a running writer */
	bool grants_all_readers;      /* past queued writers; otherwise up to the first writer */
	bool hands_off;		      /* to a first waiter of KP_RWSEM_WAIT_NS: no stealing */
	bool spinner_saves_wake;      /* a release leaves the lock to a spinner */
	unsigned int max_granted;     /* MAX_READERS_WAKEUP: readers in one grant; 0: no limit */
	/* How the NO_*_SPIN flags change: */
	uint32_t timeout_sets;	     /* a writer sets these after it spun on readers for too long */
	uint32_t readers_keep;	     /* a reader that takes the lock keeps these */
	uint32_t last_reader_clears; /* the last reader clears these when there are waiters */
	bool writers_silence_readers; /* a writer that queued under a flag sets NO_READER_SPIN */
};

extern const struct kp_rwsem_rules kp_rwsem_rules[];
extern const unsigned int kp_nr_rwsem_rules;

/* kp_rwsem_find - the rules by name ("4.9"). Return: NULL when unknown. Any thread. */
const struct kp_rwsem_rules *kp_rwsem_find(const char *name);

/* kp_rwsem_of_kernel - the rules of a kernel version. Any thread. */
const struct kp_rwsem_rules *kp_rwsem_of_kernel(const char *kernel);

/* struct kp_rwsem_waiter - a job's place in the queue: struct rwsem_waiter. */
struct kp_rwsem_waiter {
	_Alignas(64) uint64_t ticket; /* order in the queue */
	uint64_t since_ns;
	uint32_t mode;
	uint32_t no_reader_spin; /* the kernel keeps this in waiter.last_rowner */
	uint32_t futex;		 /* atomic; counts wakes, also those of earlier waits */
	uint16_t next, prev;	 /* neighbours in the queue, as 'first' */
};

struct kp_rwsem {
	_Alignas(64) uint64_t word; /* atomic; words[0] */
	uint32_t owner;		    /* atomic; hints about who holds the lock, see above */
	uint32_t spinner;	    /* atomic; number + 1 of the job that spins (osq) */
	uint32_t nr_words;	    /* atomic; words that have jobs */
	_Alignas(64) uint64_t beyond[KP_RWSEM_WORDS - 1]; /* atomic; words[1] and up */
	/*
	 * Protects the fields below and every change of WAITERS and HANDOFF. It is robust: when a
	 * job dies while it holds wait_lock, kp_rwsem_repair() makes queue and words agree. No lock
	 * nests inside. The kernel's wait_lock.
	 */
	_Alignas(64) pthread_mutex_t wait_lock;
	uint64_t waiting[KP_RWSEM_WORDS]; /* atomic; a bit per queued job, placed as in words[] */
	uint64_t next_ticket;
	uint16_t first, last; /* number + 1; 0: the queue is empty */
	struct kp_rwsem_waiter waiters[KP_RWSEM_JOBS];
};

/* kp_rwsem_init - 0 or -errno. */
int kp_rwsem_init(struct kp_rwsem *sem);

/* kp_rwsem_admit - @job is going to use the lock. Any thread. */
void kp_rwsem_admit(struct kp_rwsem *sem, unsigned int job);

/* ---- one access each ----------------------------------------------------------------------- */

/* struct kp_rwsem_place - where a job's reader bit is. */
struct kp_rwsem_place {
	uint64_t *word;
	uint64_t bit;
};

static inline struct kp_rwsem_place kp_rwsem_place(struct kp_rwsem *sem, unsigned int job)
{
	unsigned int word = job / KP_RWSEM_WORD_JOBS;

	return (struct kp_rwsem_place){ .word = word ? &sem->beyond[word - 1] : &sem->word,
					.bit = 1ull << job % KP_RWSEM_WORD_JOBS };
}

static inline bool kp_rwsem_is_beyond(unsigned int job)
{
	return job >= KP_RWSEM_WORD_JOBS;
}

static inline uint64_t kp_rwsem_writer(unsigned int job)
{
	return (uint64_t)(job + 1) << KP_RWSEM_WRITER_SHIFT;
}

static inline uint32_t kp_rwsem_owner(const struct kp_rwsem *sem)
{
	return __atomic_load_n(&sem->owner, __ATOMIC_RELAXED);
}

static inline void kp_rwsem_set_owner(struct kp_rwsem *sem, uint32_t flags)
{
	if (kp_rwsem_owner(sem) != flags)
		__atomic_store_n(&sem->owner, flags, __ATOMIC_RELAXED);
}

/* rwsem_set_reader_owned() */
static inline void kp_rwsem_set_reader_owned(struct kp_rwsem *sem,
					     const struct kp_rwsem_rules *rules)
{
	uint32_t keep = kp_rwsem_owner(sem) & rules->readers_keep;

	kp_rwsem_set_owner(sem, KP_RWSEM_READER_OWNED | keep);
}

/*
 * kp_rwsem_read_fast - set our reader bit.
 *
 * Return: true when we hold the lock. Otherwise our bit is set all the same; a job in the lock word
 * finds the word in *seen, any other job has to look: kp_rwsem_read_look().
 */
static inline bool kp_rwsem_read_fast(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				      struct kp_rwsem_place place, uint64_t *seen)
{
	*seen = __atomic_fetch_add(place.word, place.bit, __ATOMIC_SEQ_CST);
	if (*seen & KP_RWSEM_READ_FAILED)
		return false;
	kp_rwsem_set_reader_owned(sem, rules);
	return true;
}

/* kp_rwsem_read_look - as kp_rwsem_read_fast(), after a job beyond the lock word set its bit. */
static inline bool kp_rwsem_read_look(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				      uint64_t *seen)
{
	*seen = __atomic_load_n(&sem->word, __ATOMIC_SEQ_CST);
	if (*seen & KP_RWSEM_READ_FAILED)
		return false;
	kp_rwsem_set_reader_owned(sem, rules);
	return true;
}

/* kp_rwsem_write_fast - Return: true when we hold the lock; otherwise *seen is the lock word. */
static inline bool kp_rwsem_write_fast(struct kp_rwsem *sem, unsigned int job, uint64_t *seen)
{
	*seen = 0;
	if (!__atomic_compare_exchange_n(&sem->word, seen, kp_rwsem_writer(job), false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	kp_rwsem_set_owner(sem, 0);
	return true;
}

/* kp_rwsem_read_release - Return: true when nobody has to be woken, as far as our word tells. */
static inline bool kp_rwsem_read_release(struct kp_rwsem_place place)
{
	uint64_t left = __atomic_sub_fetch(place.word, place.bit, __ATOMIC_SEQ_CST);

	return (left & (KP_RWSEM_HELD | KP_RWSEM_WAITERS)) != KP_RWSEM_WAITERS;
}

/* kp_rwsem_release_look - the same after a job beyond the lock word has cleared its bit. */
static inline bool kp_rwsem_release_look(const struct kp_rwsem *sem)
{
	uint64_t word = __atomic_load_n(&sem->word, __ATOMIC_SEQ_CST);

	return (word & (KP_RWSEM_HELD | KP_RWSEM_WAITERS)) != KP_RWSEM_WAITERS;
}

static inline bool kp_rwsem_write_release(struct kp_rwsem *sem, unsigned int job)
{
	return !(__atomic_sub_fetch(&sem->word, kp_rwsem_writer(job), __ATOMIC_SEQ_CST) &
		 KP_RWSEM_WAITERS);
}

/* kp_rwsem_claim - put our number into a lock word that is free: *seen. *seen: the word then. */
static inline bool kp_rwsem_claim(struct kp_rwsem *sem, unsigned int job, uint64_t *seen)
{
	return __atomic_compare_exchange_n(&sem->word, seen, *seen | kp_rwsem_writer(job), false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* kp_rwsem_readers_beyond - is a reader bit set beyond the lock word? */
static inline bool kp_rwsem_readers_beyond(const struct kp_rwsem *sem)
{
	unsigned int nr_words = __atomic_load_n(&sem->nr_words, __ATOMIC_SEQ_CST);

	for (unsigned int i = 1; i < nr_words; i++) {
		if (__atomic_load_n(&sem->beyond[i - 1], __ATOMIC_SEQ_CST) & KP_RWSEM_READERS)
			return true;
	}
	return false;
}

/* ---- steps --------------------------------------------------------------------------------- */

enum kp_rwsem_at {
	KP_RWSEM_AT_READ, /* down_read() */
	KP_RWSEM_AT_READ_LOOK,
	KP_RWSEM_AT_READ_SLOW,
	KP_RWSEM_AT_READ_UNDO,
	KP_RWSEM_AT_WRITE, /* down_write() */
	KP_RWSEM_AT_WRITE_MORE,
	KP_RWSEM_AT_WRITE_SLOW,
	KP_RWSEM_AT_SCAN, /* the writer's number is in the word: are there readers beyond it? */
	KP_RWSEM_AT_UNCLAIM,
	KP_RWSEM_AT_SPIN_BEGIN,
	KP_RWSEM_AT_SPIN,
	KP_RWSEM_AT_SPIN_LOOK,
	KP_RWSEM_AT_SPIN_UNDO,
	KP_RWSEM_AT_SPIN_END,
	KP_RWSEM_AT_QUEUE, /* from here on with wait_lock held */
	KP_RWSEM_AT_ENQUEUE,
	KP_RWSEM_AT_TRY_WRITE,
	KP_RWSEM_AT_DEQUEUE,
	KP_RWSEM_AT_MARK_WAKE,
	KP_RWSEM_AT_GRANT_BEYOND,
	KP_RWSEM_AT_GRANT_WORD,
	KP_RWSEM_AT_GRANT_UNDO,
	KP_RWSEM_AT_GRANT,
	KP_RWSEM_AT_LEAVE_BEYOND, /* a job leaves: it is dead, or gave the wait up */
	KP_RWSEM_AT_LEAVE_WORD,
	KP_RWSEM_AT_LEAVE_QUEUE,
	KP_RWSEM_AT_LEAVE_FLAG,
	KP_RWSEM_AT_UNLOCK,
	KP_RWSEM_AT_SLEEP, /* without wait_lock again */
	KP_RWSEM_AT_WOKEN,
	KP_RWSEM_AT_GRANTED, /* with wait_lock: our bit is set, and we are still queued */
	KP_RWSEM_AT_OWN,
	KP_RWSEM_AT_UP_READ,
	KP_RWSEM_AT_UP_READ_LOOK,
	KP_RWSEM_AT_UP_WRITE,
	KP_RWSEM_AT_UP_WRITE_WORD,
	KP_RWSEM_AT_WAKE,
	KP_RWSEM_AT_WAKE_TRIED,
	KP_RWSEM_AT_DOWNGRADE,
	KP_RWSEM_AT_DOWNGRADE_WORD,
	KP_RWSEM_AT_DONE,
	KP_RWSEM_NR_AT,
};

/* What the caller of a step has to do before the next step. */
enum kp_rwsem_ask {
	KP_RWSEM_GO_ON,
	KP_RWSEM_RELAX,	  /* relax the CPU: the job spins */
	KP_RWSEM_LOCK,	  /* take wait_lock */
	KP_RWSEM_TRYLOCK, /* try to take wait_lock; op->busy tells that another job holds it */
	KP_RWSEM_UNLOCK,  /* release wait_lock, then wake the jobs in op->wake */
	KP_RWSEM_SLEEP,	  /* sleep until woken or until a time has passed: op->timed_out */
	KP_RWSEM_END,	  /* nothing: the lock is taken, released, or given up */
};

/* The first four are the ways to overtake the queue; each overtaking counts as one of them. */
enum kp_rwsem_event {
	KP_RWSEM_WRITE_STEALS,	 /* a writer that was not queued took a free lock */
	KP_RWSEM_QUEUE_STEALS,	 /* a queued writer took it that was not the first in the queue */
	KP_RWSEM_READ_STEALS,	 /* a reader that was not queued took it */
	KP_RWSEM_READERS_PASSED, /* a queued reader was granted the lock before an older writer */
	KP_RWSEM_GRANTS,
	KP_RWSEM_READERS_GRANTED,
	KP_RWSEM_HANDOFFS, /* HANDOFF was set: no job steals any more */
	KP_RWSEM_SPINS,
	KP_RWSEM_SLEEPS,	/* rwsem.c counts this one and the next */
	KP_RWSEM_WAKES_WATCHED, /* the wake came before the waiter slept */
	KP_RWSEM_WAKES_SAVED,	/* a release left the lock to a spinner */
	KP_RWSEM_LOST_WAKES,	/* a waiter timed out and found the lock free: its waker has died */
	KP_RWSEM_RECOVERED,	/* holds and queue places of dead jobs that were released */
	KP_RWSEM_NR_EVENTS,
};

/* struct kp_rwsem_op - one operation of one job on the lock. */
struct kp_rwsem_op {
	uint8_t at;
	uint8_t mode;
	uint16_t job;
	uint16_t leaver; /* the job that leaves */
	uint8_t wake_type;
	uint8_t then; /* the step after unlock */
	uint8_t after_wake;
	uint8_t claimed_then, unclaimed_then; /* the step after a claim that holds, or does not */
	uint8_t steal_event;		      /* what a claim counts as; NR_EVENTS: no steal */
	bool keeps_writer;		      /* the leaver goes on holding the lock as a writer */
	bool marked;			      /* our reader bit is set (beyond the lock word) */
	bool taken;
	bool given_up;
	bool busy;
	bool timed_out;
	bool refused;	     /* another job spins */
	bool asleep;	     /* since the last wake */
	bool no_reader_spin; /* the flag was set when the job queued */
	bool steals;
	uint64_t seen;	  /* the lock word as a step saw it or made it */
	uint64_t cleared; /* flags that a claim cleared */
	uint64_t granted[KP_RWSEM_WORDS];
	uint64_t wake[KP_RWSEM_WORDS];
	uint64_t spin_until, reader_spin_until;
	uint64_t asleep_since_ns; /* when asleep */
	uint32_t events[KP_RWSEM_NR_EVENTS];
};

/**
 * kp_rwsem_step - do the next step of @op.
 * @now: the clock, in nanoseconds.
 *
 * An operation begins with op->at at READ, WRITE, UP_READ, UP_WRITE or DOWNGRADE, or, with wait_lock
 * held, at LEAVE_BEYOND for op->leaver. Return: what to do before the next step.
 */
enum kp_rwsem_ask kp_rwsem_step(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				struct kp_rwsem_op *op, uint64_t now);

/* kp_rwsem_repair - make queue and words agree, after a job died with wait_lock, which we hold. */
void kp_rwsem_repair(struct kp_rwsem *sem);

#endif
