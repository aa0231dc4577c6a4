/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A reader-writer lock in shared memory that behaves as the kernel's rw_semaphore did in 4.9, 5.3
 * or 5.11, and that says who holds it, so that the death of a job can be repaired.
 *
 * The lock is a word and a queue. The word has a bit per job that reads, the number of the job
 * that writes, and the two flags of the kernel's own word. What a job does on its way to the lock
 * is cut into steps of one access to shared memory each: kp_rwsem_step(). Steps never call the
 * system; what they need of it, they ask for. The same steps are run by kp_rwsem_down(), by the
 * enumerator that tries every interleaving of them, and by the test that kills after each.
 */
#ifndef KP_RWSEM_H
#define KP_RWSEM_H

#include "stage.h"

#define KP_RWSEM_JOBS 56 /* bits for readers in the word: jobs that may share a lock */

/* The word. Readers that a fast path let in too early are in it for a moment, as in the kernel. */
#define KP_RWSEM_READERS      ((1ull << KP_RWSEM_JOBS) - 1)
#define KP_RWSEM_WRITER_SHIFT KP_RWSEM_JOBS
#define KP_RWSEM_WRITER	      (63ull << KP_RWSEM_WRITER_SHIFT) /* number + 1 of who writes */
#define KP_RWSEM_WAITERS      (1ull << 62)		       /* RWSEM_FLAG_WAITERS */
#define KP_RWSEM_HANDOFF      (1ull << 63)		       /* RWSEM_FLAG_HANDOFF */
#define KP_RWSEM_HELD	      (KP_RWSEM_READERS | KP_RWSEM_WRITER)

/*
 * 'owner', the flags of rw_semaphore.owner. A writer that takes the lock, or releases it, clears
 * them all. They are hints: a change that is lost costs a spin.
 */
#define KP_RWSEM_SLEEPING	(1u << 0) /* the writer is inside the device's wait: !on_cpu */
#define KP_RWSEM_READER_OWNED	(1u << 1) /* by readers now, or last */
#define KP_RWSEM_NO_READER_SPIN (1u << 2) /* RWSEM_RD_NONSPINNABLE, from 5.3 to 5.10 */
#define KP_RWSEM_NO_WRITER_SPIN (1u << 3) /* RWSEM_WR_NONSPINNABLE; 5.11: RWSEM_NONSPINNABLE */

#define KP_RWSEM_SPIN_NS 25000u	  /* stands for need_resched(): nobody spins longer */
#define KP_RWSEM_WAIT_NS 4000000u /* RWSEM_WAIT_TIMEOUT: then a waiter asks for handoff */

enum kp_rwsem_mode { KP_RWSEM_READ, KP_RWSEM_WRITE };

/* struct kp_rwsem_rules - what differs between the kernels. */
struct kp_rwsem_rules {
	const char *name; /* rwsem=NAME; the first release that did it */
	const char *summary;
	bool readers_spin;	      /* before they queue */
	bool readers_steal;	      /* on the slow path, unless another reader is counted */
	bool writers_spin_on_readers; /* for a time; otherwise only on a running writer */
	bool grants_all_readers;      /* past queued writers; otherwise up to the first writer */
	bool hands_off;		      /* to a first waiter of KP_RWSEM_WAIT_NS: no stealing */
	bool spinner_saves_wake;      /* a release leaves the lock to a spinner */
	/* Of the flags of 'owner' that say who does not spin: */
	uint32_t timeout_sets;	      /* a writer that spun on readers for too long */
	uint32_t readers_keep;	      /* another reader that takes the lock */
	uint32_t last_reader_clears;  /* that leaves while somebody waits, or was never there */
	bool writers_silence_readers; /* one that queued though flagged sets NO_READER_SPIN */
};

extern const struct kp_rwsem_rules kp_rwsem_rules[];
extern const unsigned int kp_nr_rwsem_rules;

/* kp_rwsem_find - the rules by name ("4.9"), or those of a kernel. NULL: unknown. Any thread. */
const struct kp_rwsem_rules *kp_rwsem_find(const char *name);
const struct kp_rwsem_rules *kp_rwsem_of_kernel(const char *kernel);

struct kp_rwsem_waiter {
	_Alignas(64) uint64_t ticket; /* order in the queue */
	uint64_t since_ns;
	uint32_t mode;
	uint32_t no_reader_spin; /* what the kernel keeps in waiter.last_rowner */
	uint32_t futex;		 /* atomic; counts wakes, outlives a stay in the queue */
};

struct kp_rwsem {
	_Alignas(64) uint64_t word; /* atomic */
	uint32_t owner;		    /* atomic; flags as in rw_semaphore.owner, see rwsem.c */
	uint32_t spinner;	    /* atomic; number + 1 of the one that spins (osq) */
	/*
	 * Protects what follows, and all changes of WAITERS. Robust: kp_rwsem_repair() makes good
	 * what a job left that died inside. Nothing nests inside it. wait_lock of the kernel.
	 */
	_Alignas(64) pthread_mutex_t wait_lock;
	uint64_t waiting; /* atomic; a bit per job: the queue, in the order of tickets */
	uint64_t next_ticket;
	struct kp_rwsem_waiter waiters[KP_RWSEM_JOBS];
};

int kp_rwsem_init(struct kp_rwsem *sem);

/* ---- fast paths: one atomic operation each ------------------------------------------------- */

static inline uint64_t kp_rwsem_reader(unsigned int job)
{
	return 1ull << job;
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

/* Return: true when we have the lock; otherwise our bit is in the word, as *seen says. */
static inline bool kp_rwsem_read_fast(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				      unsigned int job, uint64_t *seen)
{
	uint64_t mine = kp_rwsem_reader(job);

	*seen = __atomic_fetch_add(&sem->word, mine, __ATOMIC_ACQUIRE) + mine;
	if (*seen & ~KP_RWSEM_READERS)
		return false;
	kp_rwsem_set_reader_owned(sem, rules);
	return true;
}

static inline bool kp_rwsem_write_fast(struct kp_rwsem *sem, unsigned int job, uint64_t *seen)
{
	*seen = 0;
	if (!__atomic_compare_exchange_n(&sem->word, seen, kp_rwsem_writer(job), false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	kp_rwsem_set_owner(sem, 0);
	return true;
}

/* Return: true when nobody has to be woken. */
static inline bool kp_rwsem_read_release(struct kp_rwsem *sem, unsigned int job)
{
	uint64_t left = __atomic_sub_fetch(&sem->word, kp_rwsem_reader(job), __ATOMIC_RELEASE);

	return (left & (KP_RWSEM_HELD | KP_RWSEM_WAITERS)) != KP_RWSEM_WAITERS;
}

static inline bool kp_rwsem_write_release(struct kp_rwsem *sem, unsigned int job)
{
	return !(__atomic_sub_fetch(&sem->word, kp_rwsem_writer(job), __ATOMIC_RELEASE) &
		 KP_RWSEM_WAITERS);
}

/* ---- steps --------------------------------------------------------------------------------- */

enum kp_rwsem_at {
	KP_RWSEM_AT_READ, /* down_read() */
	KP_RWSEM_AT_READ_SLOW,
	KP_RWSEM_AT_READ_UNDO,
	KP_RWSEM_AT_WRITE, /* down_write() */
	KP_RWSEM_AT_WRITE_SLOW,
	KP_RWSEM_AT_SPIN_BEGIN,
	KP_RWSEM_AT_SPIN,
	KP_RWSEM_AT_SPIN_END,
	KP_RWSEM_AT_QUEUE, /* from here with wait_lock held */
	KP_RWSEM_AT_ENQUEUE,
	KP_RWSEM_AT_TRY_WRITE,
	KP_RWSEM_AT_DEQUEUE,
	KP_RWSEM_AT_MARK_WAKE,
	KP_RWSEM_AT_GRANT,
	KP_RWSEM_AT_LEAVE_WORD, /* a job leaves: dead, or tired of waiting */
	KP_RWSEM_AT_LEAVE_QUEUE,
	KP_RWSEM_AT_LEAVE_FLAG,
	KP_RWSEM_AT_UNLOCK,
	KP_RWSEM_AT_SLEEP, /* without wait_lock again */
	KP_RWSEM_AT_WOKEN,
	KP_RWSEM_AT_GRANTED, /* with wait_lock: in the word, and still in the queue */
	KP_RWSEM_AT_OWN,
	KP_RWSEM_AT_UP_READ,
	KP_RWSEM_AT_UP_WRITE,
	KP_RWSEM_AT_UP_WRITE_WORD,
	KP_RWSEM_AT_WAKE,
	KP_RWSEM_AT_WAKE_TRIED,
	KP_RWSEM_AT_DOWNGRADE,
	KP_RWSEM_AT_DONE,
	KP_RWSEM_NR_AT,
};

/* What a step asks of its caller before the next. */
enum kp_rwsem_ask {
	KP_RWSEM_GO_ON,
	KP_RWSEM_RELAX,	  /* spinning */
	KP_RWSEM_LOCK,	  /* take wait_lock */
	KP_RWSEM_TRYLOCK, /* the same, unless it is busy: op->busy */
	KP_RWSEM_UNLOCK,  /* release it, then wake the jobs in op->wake */
	KP_RWSEM_SLEEP,	  /* until woken, or until a time is over: op->timed_out */
	KP_RWSEM_END,	  /* taken, released, or given up */
};

/* Each overtaking of the queue is one of the first four. */
enum kp_rwsem_event {
	KP_RWSEM_WRITE_STEALS,	 /* a writer took a free lock past the queue */
	KP_RWSEM_QUEUE_STEALS,	 /* a queued writer that was not the first */
	KP_RWSEM_READ_STEALS,	 /* a reader, past the queue */
	KP_RWSEM_READERS_PASSED, /* a queued reader was granted the lock before an older writer */
	KP_RWSEM_GRANTS,
	KP_RWSEM_READERS_GRANTED,
	KP_RWSEM_HANDOFFS, /* requested: from here on nobody steals */
	KP_RWSEM_SPINS,
	KP_RWSEM_SLEEPS,	/* counted by the shell, as the next */
	KP_RWSEM_WAKES_WATCHED, /* came before the waiter slept */
	KP_RWSEM_WAKES_SAVED,	/* left to a spinner */
	KP_RWSEM_LOST_WAKES,	/* a waiter found by itself that the lock was free: somebody died */
	KP_RWSEM_RECOVERED,	/* places of dead jobs, in the word or the queue */
	KP_RWSEM_NR_EVENTS,
};

/* struct kp_rwsem_op - one job on its way to the lock or out of it. */
struct kp_rwsem_op {
	uint8_t at;
	uint8_t mode;
	uint8_t job;
	uint8_t leaver; /* who leaves */
	uint8_t wake_type;
	uint8_t then; /* where to go on after unlock */
	uint8_t after_wake;
	bool keeps_writer; /* the leaver's hold on the lock as writer stays */
	bool taken;
	bool given_up;
	bool busy;
	bool timed_out;
	bool refused;	     /* somebody else spins */
	bool asleep;	     /* since the last wake */
	bool no_reader_spin; /* seen on the way into the queue */
	bool steals;
	uint64_t seen; /* the word as it was last seen or made */
	uint64_t granted;
	uint64_t wake;
	uint64_t spin_until, reader_spin_until;
	uint64_t asleep_since_ns; /* when asleep */
	uint32_t events[KP_RWSEM_NR_EVENTS];
};

/**
 * kp_rwsem_step - the next step of @op.
 * @now: the clock, in nanoseconds.
 *
 * op->at is where it begins: READ, WRITE, UP_READ, UP_WRITE, DOWNGRADE; LEAVE_WORD with wait_lock
 * held for op->leaver. Return: what to do before the next step.
 */
enum kp_rwsem_ask kp_rwsem_step(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
				struct kp_rwsem_op *op, uint64_t now);

/* kp_rwsem_repair - with wait_lock from a job that died inside: make queue and word agree. */
void kp_rwsem_repair(struct kp_rwsem *sem);

/* ---- the lock as it is used ---------------------------------------------------------------- */

/* struct kp_rwsem_user - one job's access to a lock. */
struct kp_rwsem_user {
	struct kp_rwsem *sem;
	const struct kp_rwsem_rules *rules;
	unsigned int job;
	uint64_t *taken[2]; /* counters, by mode */
	/*
	 * Before each sleep of a waiter: make progress elsewhere. *timeout_ns comes as the longest
	 * sleep and may be shortened. Return: false to give the wait up.
	 * With @timed_out, after 100 ms without a wake or of others' spinning: look whether
	 * somebody died.
	 */
	bool (*idle)(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns);
	/* What happened on a slow path, and how long it took; any thread that called us. */
	void (*account)(struct kp_rwsem_user *user, const struct kp_rwsem_op *op, uint64_t ns);
	uint64_t doubted_ns; /* when it last looked whether the one that spins is alive */
	void *private;
};

/* What follows a fast path that did not do. */
int kp_rwsem_down_slow(struct kp_rwsem_user *user, enum kp_rwsem_mode mode, uint64_t seen);
void kp_rwsem_wake(struct kp_rwsem_user *user, enum kp_rwsem_mode mode);

/**
 * kp_rwsem_down - take the lock; down_read(), down_write().
 *
 * A job holds it at most once in each mode. Return: 0; -ECANCELED when user->idle() gave up.
 * The thread that owns the job.
 */
static inline int kp_rwsem_down(struct kp_rwsem_user *user, enum kp_rwsem_mode mode)
{
	uint64_t seen;
	bool taken = mode == KP_RWSEM_READ
			     ? kp_rwsem_read_fast(user->sem, user->rules, user->job, &seen)
			     : kp_rwsem_write_fast(user->sem, user->job, &seen);

	kp_count(user->taken[mode], 1);
	return taken ? 0 : kp_rwsem_down_slow(user, mode, seen);
}

/* kp_rwsem_up - release it. Any thread of the job's process. */
static inline void kp_rwsem_up(struct kp_rwsem_user *user, enum kp_rwsem_mode mode)
{
	bool quiet;

	if (mode == KP_RWSEM_READ) {
		quiet = kp_rwsem_read_release(user->sem, user->job);
	} else {
		kp_rwsem_set_owner(user->sem, 0);
		quiet = kp_rwsem_write_release(user->sem, user->job);
	}
	if (!quiet)
		kp_rwsem_wake(user, mode);
}

/* kp_rwsem_downgrade - from writer to reader without letting a writer in; downgrade_write(). */
void kp_rwsem_downgrade(struct kp_rwsem_user *user);

/* kp_rwsem_sleeping - the writer goes to sleep holding the lock: it is no running owner. */
static inline void kp_rwsem_sleeping(struct kp_rwsem_user *user)
{
	uint32_t flags = __atomic_load_n(&user->sem->owner, __ATOMIC_RELAXED);

	/* Nobody else writes it while a writer holds the lock. */
	__atomic_store_n(&user->sem->owner, flags | KP_RWSEM_SLEEPING, __ATOMIC_RELAXED);
}

/*
 * kp_rwsem_recover - release what dead job @dead held of the lock and let the next ones in.
 * Return: places recovered. Any thread; one at a time for the same @dead.
 */
unsigned int kp_rwsem_recover(struct kp_rwsem *sem, const struct kp_rwsem_rules *rules,
			      unsigned int dead);

#endif
