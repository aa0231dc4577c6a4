// SPDX-License-Identifier: GPL-2.0-only
/*
 * The dio_lock stage: it takes the inode lock around direct I/O as a row of diolock.c says.
 *
 * An I/O is submitted down to the device while its lock is held. Asynchronous I/Os are kept until
 * the batch is committed, and then submitted one by one, as io_submit() does. A synchronous I/O is
 * submitted and then waited for, under every row, so that all rows use the same device interface.
 */
#include <stdlib.h>

#include "core/futex.h"
#include "diolock.h"

#define POLL_NS	 50000u	       /* a waiter with I/O in flight reaps this often */
#define GRACE_NS 2000000000ull /* a wait ends so long after the run was to end */
#define SAMPLE	 64u	       /* one hold in 64 is timed */

enum counter {
	READ_WAIT = 0,
	WRITE_WAIT = READ_WAIT + KP_TIME_VALUES,
	READ_HOLD = WRITE_WAIT + KP_TIME_VALUES,
	WRITE_HOLD = READ_HOLD + KP_TIME_VALUES,
	DIO_WAIT = WRITE_HOLD + KP_TIME_VALUES,
	READ_LOCKS = DIO_WAIT + KP_TIME_VALUES,
	WRITE_LOCKS,
	EVENTS, /* as enum kp_rwsem_event, up to KP_RWSEM_RECOVERED */
	RECOVERED = EVENTS + KP_RWSEM_RECOVERED,
	RECOVERED_DIO,
	DEAD_JOBS,
	MOST_READERS,
	RETAKEN,
	DOWNGRADES,
};

static const struct kp_counter_desc counters[] = {
	{ "read_wait", KP_COUNTER_TIMES },
	{ "write_wait", KP_COUNTER_TIMES },
	{ "read_hold", KP_COUNTER_TIMES },
	{ "write_hold", KP_COUNTER_TIMES },
	{ "dio_wait", KP_COUNTER_TIMES },
	{ "read_locks", KP_COUNTER_SUM },
	{ "write_locks", KP_COUNTER_SUM },
	{ "write_steals", KP_COUNTER_SUM },
	{ "queue_steals", KP_COUNTER_SUM },
	{ "read_steals", KP_COUNTER_SUM },
	{ "readers_passed", KP_COUNTER_SUM },
	{ "grants", KP_COUNTER_SUM },
	{ "readers_granted", KP_COUNTER_SUM },
	{ "handoffs", KP_COUNTER_SUM },
	{ "spins", KP_COUNTER_SUM },
	{ "sleeps", KP_COUNTER_SUM },
	{ "wakes_watched", KP_COUNTER_SUM },
	{ "wakes_saved", KP_COUNTER_SUM },
	{ "lost_wakes", KP_COUNTER_SUM },
	{ "recovered_locks", KP_COUNTER_SUM },
	{ "recovered_dio", KP_COUNTER_SUM },
	{ "dead_jobs", KP_COUNTER_SUM },
	{ "readers_granted_max", KP_COUNTER_MAX },
	{ "retaken_exclusive", KP_COUNTER_SUM },
	{ "downgrades", KP_COUNTER_SUM },
};

struct dio_lock {
	struct kp_stage stage;
	const struct dio_row *row;
	const struct kp_rwsem_rules *rules;
	uint32_t alive_id; /* 0: none yet */
	struct kp_pool dios;
	struct kp_bio *first, **last; /* kept until flush */
	bool flushing;		      /* a wait inside dio_flush() may flush the pipeline again */
	unsigned int nr_holds;
	uint64_t ends_ns; /* once the run is to end: when waits give up */
	/*
	 * Protects the counters in a shared pipeline, where end_io may run beside the owner. No lock
	 * nests inside.
	 */
	pthread_mutex_t count_lock;
};

/* The stage's data of an open file. */
struct dio_file {
	struct dio_lock *lock;
	struct kp_inode *inode;
	unsigned int job; /* our number on the inode */
	struct kp_rwsem_user rwsem, aio_mutex;
};

/* An I/O that has passed the lock. */
struct dio {
	struct dio_file *file;
	void (*end_io)(struct kp_bio *bio); /* the bio's own end_io and private, which we replace */
	void *private;
	uint64_t pos, size;
	uint64_t since_ns; /* when the hold began, 0: it is not timed */
	uint8_t class;
	uint8_t hold; /* enum dio_mode; the mode to release at completion */
	bool unwritten;
	bool owner_ends; /* the owner calls the bio's end_io, after more work */
	bool *ended;	 /* atomic; tells the owner in dio_run() that the I/O has completed */
};

static void begin_count(struct dio_lock *lock)
{
	if (lock->stage.pipeline->shared)
		pthread_mutex_lock(&lock->count_lock);
}

static void end_count(struct dio_lock *lock)
{
	if (lock->stage.pipeline->shared)
		pthread_mutex_unlock(&lock->count_lock);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Of all waiters on the inode one looks for dead jobs at a time; a thousand would keep the CPUs busy. */
static bool shall_look(struct kp_inode *inode)
{
	uint64_t now = kp_now_ns(), looked = __atomic_load_n(&inode->looked_ns, __ATOMIC_RELAXED);

	return now - looked >= KP_LOOK_AROUND_NS / 2 &&
	       __atomic_compare_exchange_n(&inode->looked_ns, &looked, now, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static void reap_dead(struct dio_file *file)
{
	struct dio_lock *lock = file->lock;
	uint64_t *values = lock->stage.counters;
	struct kp_inode_lost lost;

	if (!shall_look(file->inode))
		return;
	lost = kp_inode_reap_dead(file->inode, lock->stage.pipeline->arena);
	if (!lost.jobs)
		return;
	begin_count(lock);
	kp_count(&values[DEAD_JOBS], lost.jobs);
	kp_count(&values[RECOVERED], lost.places);
	kp_count(&values[RECOVERED_DIO], lost.in_flight);
	end_count(lock);
}

/* Was the run to end so long ago that waiting is hopeless? */
static bool is_over(struct dio_lock *lock)
{
	uint64_t now;

	if (!kp_pipeline_terminating(lock->stage.pipeline))
		return false;
	now = kp_now_ns();
	if (!lock->ends_ns)
		lock->ends_ns = now + GRACE_NS;
	return now >= lock->ends_ns;
}

/*
 * A waiter comes here before it sleeps. It reaps its own I/O in flight, which other jobs may wait
 * for. After a time without a wake it looks for dead jobs. Return: false to give the wait up.
 */
static bool look_around(struct dio_file *file, bool timed_out, uint64_t *timeout_ns)
{
	struct kp_pipeline *pl = file->lock->stage.pipeline;

	if (pl->shared || __atomic_load_n(&pl->device->in_flight, __ATOMIC_RELAXED)) {
		kp_pipeline_poll(pl);
		*timeout_ns = kp_min(*timeout_ns, POLL_NS);
	}
	if (timed_out)
		reap_dead(file);
	return !is_over(file->lock);
}

static bool idle(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	return look_around(user->private, timed_out, timeout_ns);
}

/* Count the events of a slow path that has ended. */
static void account(struct kp_rwsem_user *user, const struct kp_rwsem_op *op, uint64_t ns)
{
	struct dio_file *file = user->private;
	uint64_t *values = file->lock->stage.counters;

	begin_count(file->lock);
	for (unsigned int i = 0; i < KP_RWSEM_RECOVERED; i++) {
		if (op->events[i])
			kp_count(&values[EVENTS + i], op->events[i]);
	}
	kp_count_max(&values[MOST_READERS], op->events[KP_RWSEM_READERS_GRANTED]);
	if (op->taken)
		kp_count_time(&values[op->mode == KP_RWSEM_READ ? READ_WAIT : WRITE_WAIT], ns);
	end_count(file->lock);
}

/* inode_dio_wait() and ext4_unwritten_wait(). Return: 0 or -ECANCELED. */
static int wait_in_flight(struct dio_file *file, enum kp_inode_count count)
{
	struct kp_inode *inode = file->inode;
	uint64_t start, since;
	bool timed_out = false;

	if (kp_inode_quiet(inode, count))
		return 0;
	start = since = kp_now_ns();
	for (;;) {
		uint32_t seen = __atomic_load_n(&inode->dio_futex, __ATOMIC_ACQUIRE);
		uint64_t timeout = KP_LOOK_AROUND_NS;

		__atomic_store_n(&inode->dio_waiters, 1, __ATOMIC_SEQ_CST);
		if (kp_inode_quiet(inode, count))
			break;
		if (!look_around(file, timed_out, &timeout))
			return -ECANCELED;
		kp_futex_wait(&inode->dio_futex, seen, timeout);
		/* Living jobs may wake us all the time. */
		timed_out = kp_now_ns() - since >= KP_LOOK_AROUND_NS;
		if (timed_out)
			since = kp_now_ns();
	}
	begin_count(file->lock);
	kp_count_time(&file->lock->stage.counters[DIO_WAIT], kp_now_ns() - start);
	end_count(file->lock);
	return 0;
}

/* ---- taking and releasing ------------------------------------------------------------------ */

/* The locks of one I/O. */
struct lock_state {
	enum dio_class class; /* what the I/O is to the inode */
	enum dio_mode mode;   /* the mode in which i_rwsem is held */
	bool aio_mutex;	      /* ext4's AIO mutex is held */
	bool demotes;	      /* i_rwsem was taken exclusive only to look at the inode */
};

static enum kp_rwsem_mode rwsem_mode(enum dio_mode mode)
{
	return mode == SHARED ? KP_RWSEM_READ : KP_RWSEM_WRITE;
}

static int take(struct dio_file *file, enum dio_mode mode)
{
	return kp_rwsem_down(&file->rwsem, rwsem_mode(mode));
}

static void release(struct dio_file *file, enum dio_mode mode)
{
	kp_rwsem_up(&file->rwsem, rwsem_mode(mode));
}

/* One hold in SAMPLE is timed. Return: when this one began; 0 when it is not timed. */
static uint64_t begin_hold(struct dio_lock *lock)
{
	return lock->nr_holds++ % SAMPLE ? 0 : kp_now_ns();
}

static void end_hold(struct dio_lock *lock, enum dio_mode mode, uint64_t since)
{
	if (!since)
		return;
	begin_count(lock);
	kp_count_time(&lock->stage.counters[mode == SHARED ? READ_HOLD : WRITE_HOLD],
		      kp_now_ns() - since);
	end_count(lock);
}

/* The kernel takes i_rwsem shared, finds that it needs it exclusive, and releases it again. */
static int give_up_shared(struct dio_file *file)
{
	int ret = take(file, SHARED);

	if (!ret)
		release(file, SHARED);
	kp_count(&file->lock->stage.counters[RETAKEN], 1);
	return ret;
}

/*
 * Take i_rwsem as the rule for state->class says, then classify the I/O again: size and blocks may
 * have changed while we waited. When it is held shared and must be exclusive, it is taken again.
 * The kernel decides under the lock as well, and keeps it exclusive once it is.
 */
static int take_by_class(struct dio_file *file, const struct kp_bio *bio, struct lock_state *state)
{
	const struct dio_row *row = file->lock->row;
	const struct dio_rule *rule = &row->rules[state->class];
	int ret = rule->flags & RETAKES ? give_up_shared(file) : 0;

	if (!ret)
		ret = take(file, rule->mode);
	if (ret)
		return ret;
	state->mode = rule->mode;
	state->demotes = rule->flags & DEMOTES;
	state->class = diolock_classify(row, file->inode, bio);
	if (state->mode == EXCLUSIVE || row->rules[state->class].mode != EXCLUSIVE)
		return 0;
	release(file, SHARED);
	kp_count(&file->lock->stage.counters[RETAKEN], 1);
	ret = take(file, EXCLUSIVE);
	state->mode = ret ? UNLOCKED : EXCLUSIVE;
	state->class = diolock_classify(row, file->inode, bio);
	return ret;
}

/* XFS also downgrades when it finds under the lock that shared is enough. */
static bool demotes(const struct lock_state *state, const struct dio_rule *rule)
{
	return rule->flags & DEMOTES || (rule->mode == SHARED && state->demotes);
}

/*
 * While a job punches a hole, a read that takes no lock behaves like a read without dioread_nolock.
 * ext4 looks at EXT4_STATE_DIOREAD_LOCK, btrfs at BTRFS_INODE_READDIO_NEED_LOCK.
 */
static int take_until_submitted(struct dio_file *file, struct lock_state *state)
{
	int ret = take(file, EXCLUSIVE);

	if (!ret)
		state->mode = EXCLUSIVE;
	return ret;
}

/*
 * Take i_rwsem and wait for what the rule says must be waited for under it. On success i_rwsem is
 * held in state->mode.
 */
static int take_lock(struct dio_file *file, const struct kp_bio *bio, bool async,
		     struct lock_state *state)
{
	const struct dio_rule *rule = &file->lock->row->rules[state->class];
	int ret;

	state->mode = UNLOCKED;
	if (rule->mode == UNLOCKED)
		return kp_inode_reads_locked(file->inode) ? take_until_submitted(file, state) : 0;
	ret = take_by_class(file, bio, state);
	if (ret)
		return ret;
	rule = &file->lock->row->rules[state->class];
	if (state->class == PUNCH)
		kp_inode_lock_reads(file->inode, file->job);
	if (rule->flags & DRAINS || (async && rule->flags & AIO_DRAINS))
		ret = wait_in_flight(file, KP_INODE_DIO);
	if (ret && state->class == PUNCH)
		kp_inode_resume_reads(file->inode, file->job);
	if (ret || rule->flags & DROPS) {
		release(file, state->mode);
		state->mode = UNLOCKED;
	} else if (state->mode == EXCLUSIVE && demotes(state, rule)) {
		kp_rwsem_downgrade(&file->rwsem);
		kp_count(&file->lock->stage.counters[DOWNGRADES], 1);
		state->mode = SHARED;
	}
	return ret;
}

/*
 * Take ext4's AIO mutex and wait for unwritten extents if the rule says so, then take i_rwsem. The
 * rule for the first two is chosen before the wait, as in the kernel. Return: 0 or -ECANCELED.
 */
static int enter(struct dio_file *file, const struct kp_bio *bio, bool async,
		 struct lock_state *state)
{
	const struct dio_rule *rule;
	int ret = 0;

	state->class = diolock_classify(file->lock->row, file->inode, bio);
	rule = &file->lock->row->rules[state->class];
	state->aio_mutex = async && rule->flags & AIO_MUTEX;
	if (state->aio_mutex)
		ret = kp_rwsem_down(&file->aio_mutex, KP_RWSEM_WRITE);
	if (ret)
		return ret;
	if (async && rule->flags & AIO_UNWRITTEN)
		ret = wait_in_flight(file, KP_INODE_UNWRITTEN);
	if (!ret)
		ret = take_lock(file, bio, async, state);
	if (ret && state->aio_mutex)
		kp_rwsem_up(&file->aio_mutex, KP_RWSEM_WRITE);
	return ret;
}

/* ---- completion ---------------------------------------------------------------------------- */

/* Update the inode's size and block map after a write or discard. */
static void note_blocks(const struct dio *dio, const struct kp_bio *bio)
{
	struct kp_arena *arena = dio->file->lock->stage.pipeline->arena;
	struct kp_inode *inode = dio->file->inode;
	uint64_t size = dio->size - kp_min(dio->size, bio->resid);

	if (dio->class == READ || bio->status || !size)
		return;
	/* Without memory for the map, blocks keep their state: that is slower, but never wrong. */
	if (dio->class != PUNCH && dio->class != OVERWRITE)
		kp_inode_set_blocks(inode, arena, dio->pos, size, KP_BLOCKS_WRITTEN);
	if (dio->class == PUNCH)
		kp_inode_punch(inode, arena, dio->pos, size);
	else
		kp_inode_extend(inode, dio->pos + size);
}

/* Give the bio back to the stage above us. */
static void pass_on(struct dio *dio, struct kp_bio *bio)
{
	bio->end_io = dio->end_io;
	bio->private = dio->private;
	kp_pool_put(&dio->file->lock->dios, dio);
	bio->end_io(bio);
}

static void dio_end_io(struct kp_bio *bio)
{
	struct dio *dio = bio->private;
	struct dio_file *file = dio->file;
	struct kp_pipeline *pl = file->lock->stage.pipeline;
	bool *ended = dio->ended;
	bool owner_ends = dio->owner_ends;

	note_blocks(dio, bio);
	if (dio->unwritten)
		kp_inode_end(file->inode, file->job, KP_INODE_UNWRITTEN);
	kp_inode_end(file->inode, file->job, KP_INODE_DIO);
	if (dio->class == PUNCH)
		kp_inode_resume_reads(file->inode, file->job);
	if (dio->hold) {
		end_hold(file->lock, dio->hold, dio->since_ns);
		release(file, dio->hold);
	}
	if (ended) {
		__atomic_store_n(ended, true, __ATOMIC_RELEASE);
		if (pl->shared && !kp_pipeline_owned(pl))
			kp_pipeline_wake(pl);
	}
	if (!owner_ends)
		pass_on(dio, bio);
}

/* ---- submission ---------------------------------------------------------------------------- */

static struct dio *new_dio(struct dio_file *file, struct kp_bio *bio)
{
	struct dio *dio = kp_pool_get(&file->lock->dios);

	if (!dio)
		return NULL;
	*dio = (struct dio){
		.file = file,
		.end_io = bio->end_io,
		.private = bio->private,
		.pos = bio->iter.pos,
		.size = bio->iter.size,
	};
	return dio;
}

/* Submit the bio down to the device. The locks are held. */
static void submit(struct dio_file *file, struct dio *dio, struct kp_bio *bio)
{
	struct dio_lock *lock = file->lock;

	if (dio->unwritten)
		kp_inode_begin(file->inode, file->job, KP_INODE_UNWRITTEN);
	kp_inode_begin(file->inode, file->job, KP_INODE_DIO);
	bio->end_io = dio_end_io;
	bio->private = dio;
	kp_stage_submit(lock->stage.next, bio);
	kp_pipeline_flush(lock->stage.pipeline, lock->stage.next);
}

static bool fills_blocks(enum dio_class class)
{
	return class == PREALLOCATED || class == HOLE || class == UNALIGNED;
}

/* The class is final now: decide what the completion releases. */
static void set_hold(struct dio *dio, const struct lock_state *state, const struct dio_rule *rule,
		     bool async)
{
	dio->class = state->class;
	dio->unwritten = async && fills_blocks(state->class);
	dio->owner_ends = !async && rule->flags & DROPS;
	dio->since_ns = state->mode ? begin_hold(dio->file->lock) : 0;
	if (rule->until == COMPLETION || (rule->until == CALL && !async))
		dio->hold = state->mode;
}

/* Take the locks of one I/O, submit it, and release what its completion does not release. */
static void dio_run(struct dio_lock *lock, struct kp_bio *bio)
{
	struct dio_file *file = bio->file->stage_data[lock->stage.index];
	bool async = !(bio->flags & KP_BIO_SYNC);
	bool shared = lock->stage.pipeline->shared;
	struct dio *dio = new_dio(file, bio);
	const struct dio_rule *rule;
	struct lock_state state;
	bool waits, sleeps, retakes, ended = false;
	uint64_t since;
	int ret = dio ? enter(file, bio, async, &state) : -ENOMEM;

	if (ret) {
		if (dio)
			kp_pool_put(&lock->dios, dio);
		kp_bio_fail(bio, ret);
		return;
	}
	rule = &lock->row->rules[state.class];
	retakes = rule->flags & DROPS;
	waits = (async && rule->flags & AIO_WAITS) || (!async && retakes);
	set_hold(dio, &state, rule, async);
	since = dio->hold ? 0 : dio->since_ns;
	sleeps = dio->hold == EXCLUSIVE;
	/*
	 * In a shared pipeline another thread may complete the I/O at any time, and 'ended' is on our
	 * stack: use it only when we wait.
	 */
	if (waits || !shared)
		dio->ended = &ended;
	if (shared && sleeps)
		kp_rwsem_sleeping(&file->rwsem);
	if (dio->hold)
		state.mode = UNLOCKED; /* the completion releases it */
	submit(file, dio, bio);
	if (!shared && !ended && sleeps)
		kp_rwsem_sleeping(&file->rwsem);
	if (async && rule->flags & AIO_UNWRITTEN_AFTER)
		wait_in_flight(file, KP_INODE_UNWRITTEN);
	if (waits)
		kp_pipeline_wait_for(lock->stage.pipeline, lock->stage.next, &ended);
	else if (!shared && !ended)
		dio->ended = NULL;
	if (state.mode) {
		end_hold(lock, state.mode, since);
		release(file, state.mode);
	}
	if (retakes && !take(file, EXCLUSIVE))
		release(file, EXCLUSIVE);
	if (state.aio_mutex)
		kp_rwsem_up(&file->aio_mutex, KP_RWSEM_WRITE);
	if (retakes && !async)
		pass_on(dio, bio);
}

static bool takes_lock(const struct kp_bio *bio)
{
	return kp_op_has_data(bio->op) || bio->op == KP_OP_DISCARD;
}

static void dio_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);

	if (bio->flags & KP_BIO_SYNC) {
		if (takes_lock(bio))
			dio_run(lock, bio);
		else
			kp_stage_submit(stage->next, bio);
		return;
	}
	bio->next = NULL;
	*lock->last = bio;
	lock->last = &bio->next;
}

/* The batch is committed: submit it I/O by I/O, as io_submit() does. */
static void dio_flush(struct kp_stage *stage)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);

	if (lock->flushing)
		return;
	lock->flushing = true;
	while (lock->first) {
		struct kp_bio *bio = lock->first;

		lock->first = bio->next;
		if (!lock->first)
			lock->last = &lock->first;
		bio->next = NULL;
		if (takes_lock(bio))
			dio_run(lock, bio);
		else
			kp_stage_submit(stage->next, bio);
	}
	lock->flushing = false;
}

/* ---- files and set-up ---------------------------------------------------------------------- */

static void refuse_file(struct kp_file *file, struct kp_inode *inode, int error)
{
	if (error == -EUSERS && !__atomic_exchange_n(&inode->told_full, true, __ATOMIC_RELAXED))
		kp_log("diolock: %s: more than %u jobs use it: give fewer numjobs= on one file",
		       file->path, KP_RWSEM_JOBS);
	else if (error == -EBUSY)
		kp_log("diolock: %s: jobs with another policy= or rwsem= use it: give all jobs on "
		       "a file the same, or stonewall",
		       file->path);
}

static void init_user(struct kp_rwsem_user *user, struct kp_rwsem *sem, struct dio_file *file)
{
	uint64_t *values = file->lock->stage.counters;

	kp_rwsem_user_init(user, sem, file->lock->rules, file->job);
	user->taken[KP_RWSEM_READ] = &values[READ_LOCKS];
	user->taken[KP_RWSEM_WRITE] = &values[WRITE_LOCKS];
	user->idle = idle;
	user->account = account;
	user->private = file;
}

static int dio_open(struct kp_stage *stage, struct kp_file *kp_file)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);
	struct dio_file *file = calloc(1, sizeof(*file));
	struct kp_inode *inode = NULL;
	int ret;

	if (!file)
		return -ENOMEM;
	ret = kp_inode_attach(kp_file, stage->variant, lock->rules, lock->alive_id, &inode,
			      &file->job);
	if (ret) {
		refuse_file(kp_file, inode, ret);
		free(file);
		return ret == -EUSERS ? -EBUSY : ret;
	}
	file->lock = lock;
	file->inode = inode;
	init_user(&file->rwsem, &inode->rwsem, file);
	init_user(&file->aio_mutex, &inode->aio_mutex, file);
	kp_file->stage_data[stage->index] = file;
	return 0;
}

static void dio_close(struct kp_stage *stage, struct kp_file *kp_file)
{
	struct dio_file *file = kp_file->stage_data[stage->index];

	if (file)
		kp_inode_detach(file->inode, file->job);
	free(file);
	kp_file->stage_data[stage->index] = NULL;
}

static unsigned int dio_needs(const struct kp_stage_config *config)
{
	(void)config;
	return KP_NEEDS_ASYNC_DEVICE;
}

static int dio_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		    const struct kp_pipeline_config *config)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);
	int ret;

	lock->row = kp_container_of(stage_config->variant, struct dio_row, variant);
	lock->rules = diolock_rules(stage_config->options, lock->row);
	lock->last = &lock->first;
	pthread_mutex_init(&lock->count_lock, NULL);
	if (!lock->rules)
		return -EINVAL;
	ret = kp_liveness_join(config->arena, &lock->alive_id);
	if (ret == -ENOSPC)
		kp_log("diolock: too many jobs: give fewer numjobs=");
	if (ret)
		return ret;
	/* The application has at most depth I/Os in flight; one more may be waited for. */
	return kp_pool_init(&lock->dios, sizeof(struct dio), config->depth + 1,
			    stage->pipeline->shared);
}

static void dio_exit(struct kp_stage *stage)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);

	if (lock->alive_id)
		kp_liveness_leave(stage->pipeline->arena, lock->alive_id);
	kp_pool_exit(&lock->dios);
	pthread_mutex_destroy(&lock->count_lock);
}

const struct kp_stage_ops diolock_ops = {
	.name = "diolock",
	.size = sizeof(struct dio_lock),
	.counters = counters,
	.nr_counters = sizeof(counters) / sizeof(*counters),
	.needs = dio_needs,
	.init = dio_init,
	.open = dio_open,
	.close = dio_close,
	.submit = dio_submit,
	.flush = dio_flush,
	.exit = dio_exit,
};
