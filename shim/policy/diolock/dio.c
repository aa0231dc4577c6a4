// SPDX-License-Identifier: GPL-2.0-only
/*
 * The dio_lock stage: the inode lock around direct I/O, as a row of diolock.c says.
 *
 * The lock is held around the submission of that very I/O, down to the device: I/Os that arrive
 * are kept until the batch is committed, and then submitted one by one, as io_submit() does. Every
 * row submits and then waits, also for synchronous I/O, so that all are compared over the same
 * device interface.
 */
#include <stdlib.h>

#include "core/futex.h"
#include "diolock.h"

#define POLL_NS	       50000u	     /* a waiter with I/O in flight reaps it this often */
#define LOOK_AROUND_NS 100000000u    /* a wait looks around this often */
#define GRACE_NS       2000000000ull /* how long a wait goes on after the run was to end */
#define SAMPLE	       64u	     /* one hold in so many is timed */

enum counter {
	READ_WAIT = 0,
	WRITE_WAIT = READ_WAIT + KP_TIME_VALUES,
	READ_HOLD = WRITE_WAIT + KP_TIME_VALUES,
	WRITE_HOLD = READ_HOLD + KP_TIME_VALUES,
	DIO_WAIT = WRITE_HOLD + KP_TIME_VALUES,
	READ_LOCKS = DIO_WAIT + KP_TIME_VALUES,
	WRITE_LOCKS,
	EVENTS, /* in the order of enum kp_rwsem_event, up to the recoveries */
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
	uint32_t live_id; /* 0: none yet */
	struct kp_pool dios;
	struct kp_bio *first, **last; /* held until flush */
	bool flushing;		      /* a wait inside may flush the whole pipeline */
	unsigned int nr_holds;
	uint64_t ends_ns; /* the run is to end: waits are given up at this time */
	/*
	 * In a shared pipeline end_io may run beside the owner: protects the counters. Nothing
	 * nests inside it.
	 */
	pthread_mutex_t count_lock;
};

/* What the stage keeps of an open file. */
struct dio_file {
	struct dio_lock *lock;
	struct kp_inode *inode;
	unsigned int job; /* our number on it */
	struct kp_rwsem_user rwsem, aio_mutex;
};

/* An I/O that was let through. */
struct dio {
	struct dio_file *file;
	void (*end_io)(struct kp_bio *bio); /* of whoever is above us */
	void *private;
	uint64_t pos, size;
	uint64_t since_ns; /* when its hold began, 0: not timed */
	uint8_t class;
	uint8_t hold; /* enum dio_mode that its end releases */
	bool unwritten;
	bool owner_ends; /* completion is passed on by the owner, after more work */
	bool *ended;	 /* atomic; the owner looks at it while it is in carry_out() */
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

static void recover(struct dio_file *file)
{
	struct dio_lock *lock = file->lock;
	struct kp_inode_lost lost = kp_inode_recover(file->inode, lock->stage.pipeline->arena);
	uint64_t *values = lock->stage.counters;

	if (!lost.jobs)
		return;
	begin_count(lock);
	kp_count(&values[DEAD_JOBS], lost.jobs);
	kp_count(&values[RECOVERED], lost.places);
	kp_count(&values[RECOVERED_DIO], lost.in_flight);
	end_count(lock);
}

/* Is the run at its end for so long that a wait is hopeless? */
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
 * What a waiter does before it sleeps. Others may wait for what it has in flight, so it goes on
 * reaping; once a sleep passed without news it looks for the dead.
 */
static bool look_around(struct dio_file *file, bool timed_out, uint64_t *timeout_ns)
{
	struct kp_pipeline *pl = file->lock->stage.pipeline;

	if (pl->shared || __atomic_load_n(&pl->device->in_flight, __ATOMIC_RELAXED)) {
		kp_pipeline_poll(pl);
		*timeout_ns = kp_min(*timeout_ns, POLL_NS);
	}
	if (timed_out)
		recover(file);
	return !is_over(file->lock);
}

static bool idle(struct kp_rwsem_user *user, bool timed_out, uint64_t *timeout_ns)
{
	return look_around(user->private, timed_out, timeout_ns);
}

/* A slow path of the lock is behind us. */
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

/* inode_dio_wait(), ext4_unwritten_wait(). 0 or -ECANCELED. */
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
		uint64_t timeout = LOOK_AROUND_NS;

		__atomic_store_n(&inode->dio_waiters, 1, __ATOMIC_SEQ_CST);
		if (kp_inode_quiet(inode, count))
			break;
		if (!look_around(file, timed_out, &timeout))
			return -ECANCELED;
		kp_futex_wait(&inode->dio_futex, seen, timeout);
		/* Those that live may wake us all the time. */
		timed_out = kp_now_ns() - since >= LOOK_AROUND_NS;
		if (timed_out)
			since = kp_now_ns();
	}
	begin_count(file->lock);
	kp_count_time(&file->lock->stage.counters[DIO_WAIT], kp_now_ns() - start);
	end_count(file->lock);
	return 0;
}

/* ---- taking and releasing ------------------------------------------------------------------ */

/* How an I/O came through. */
struct passage {
	enum dio_class class; /* what it is to the inode */
	enum dio_mode mode;   /* what it holds */
	bool aio_mutex;	      /* and this */
	bool demotes;	      /* X was taken to look only */
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

/* One hold in SAMPLE is timed. Return: when it began, 0: this one is not. */
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

/* Found under the shared lock that it will not do: let go, and take it exclusive. */
static int give_up_shared(struct dio_file *file)
{
	int ret = take(file, SHARED);

	if (!ret)
		release(file, SHARED);
	kp_count(&file->lock->stage.counters[RETAKEN], 1);
	return ret;
}

/*
 * Take the lock as @passage->class wants it, and look again: size and blocks may have changed while
 * we waited. The kernel decides under the lock; who has it exclusive keeps it so.
 */
static int take_by_class(struct dio_file *file, const struct kp_bio *bio, struct passage *passage)
{
	const struct dio_row *row = file->lock->row;
	const struct dio_rule *rule = &row->rules[passage->class];
	int ret = rule->flags & RETAKES ? give_up_shared(file) : 0;

	if (!ret)
		ret = take(file, rule->mode);
	if (ret)
		return ret;
	passage->mode = rule->mode;
	passage->demotes = rule->flags & DEMOTES;
	passage->class = diolock_classify(row, file->inode, bio);
	if (passage->mode == EXCLUSIVE || row->rules[passage->class].mode != EXCLUSIVE)
		return 0;
	release(file, SHARED);
	kp_count(&file->lock->stage.counters[RETAKEN], 1);
	ret = take(file, EXCLUSIVE);
	passage->mode = ret ? UNLOCKED : EXCLUSIVE;
	passage->class = diolock_classify(row, file->inode, bio);
	return ret;
}

/* XFS downgrades too when it finds that it need not have taken it exclusive. */
static bool demotes(const struct passage *passage, const struct dio_rule *rule)
{
	return rule->flags & DEMOTES || (rule->mode == SHARED && passage->demotes);
}

/*
 * A read that takes no lock, while somebody punches a hole: as reads without dioread_nolock. ext4
 * looks at EXT4_STATE_DIOREAD_LOCK for that, btrfs at BTRFS_INODE_READDIO_NEED_LOCK.
 */
static int take_until_submitted(struct dio_file *file, struct passage *passage)
{
	int ret = take(file, EXCLUSIVE);

	if (!ret)
		passage->mode = EXCLUSIVE;
	return ret;
}

/* Take the lock and do what is to be done under it. On success passage->mode is then held. */
static int take_lock(struct dio_file *file, const struct kp_bio *bio, bool async,
		     struct passage *passage)
{
	const struct dio_rule *rule = &file->lock->row->rules[passage->class];
	int ret;

	passage->mode = UNLOCKED;
	if (rule->mode == UNLOCKED)
		return kp_inode_reads_locked(file->inode) ? take_until_submitted(file, passage) : 0;
	ret = take_by_class(file, bio, passage);
	if (ret)
		return ret;
	rule = &file->lock->row->rules[passage->class];
	if (passage->class == PUNCH)
		kp_inode_lock_reads(file->inode, file->job);
	if (rule->flags & DRAINS || (async && rule->flags & AIO_DRAINS))
		ret = wait_in_flight(file, KP_INODE_DIO);
	if (ret && passage->class == PUNCH)
		kp_inode_resume_reads(file->inode, file->job);
	if (ret || rule->flags & DROPS) {
		release(file, passage->mode);
		passage->mode = UNLOCKED;
	} else if (passage->mode == EXCLUSIVE && demotes(passage, rule)) {
		kp_rwsem_downgrade(&file->rwsem);
		kp_count(&file->lock->stage.counters[DOWNGRADES], 1);
		passage->mode = SHARED;
	}
	return ret;
}

/* What comes before i_rwsem, by what the I/O is then; and the lock. */
static int enter(struct dio_file *file, const struct kp_bio *bio, bool async,
		 struct passage *passage)
{
	const struct dio_rule *rule;
	int ret = 0;

	passage->class = diolock_classify(file->lock->row, file->inode, bio);
	rule = &file->lock->row->rules[passage->class];
	passage->aio_mutex = async && rule->flags & AIO_MUTEX;
	if (passage->aio_mutex)
		ret = kp_rwsem_down(&file->aio_mutex, KP_RWSEM_WRITE);
	if (ret)
		return ret;
	if (async && rule->flags & AIO_UNWRITTEN)
		ret = wait_in_flight(file, KP_INODE_UNWRITTEN);
	if (!ret)
		ret = take_lock(file, bio, async, passage);
	if (ret && passage->aio_mutex)
		kp_rwsem_up(&file->aio_mutex, KP_RWSEM_WRITE);
	return ret;
}

/* ---- completion ---------------------------------------------------------------------------- */

/* What the inode learns from a write or discard. */
static void note_blocks(const struct dio *dio, const struct kp_bio *bio)
{
	struct kp_arena *arena = dio->file->lock->stage.pipeline->arena;
	struct kp_inode *inode = dio->file->inode;
	uint64_t size = dio->size - kp_min(dio->size, bio->resid);

	if (dio->class == READ || bio->status || !size)
		return;
	/* Without memory for the map, blocks stay as they were: slower, never wrong. */
	if (dio->class != PUNCH && dio->class != OVERWRITE)
		kp_inode_set_blocks(inode, arena, dio->pos, size, KP_BLOCKS_WRITTEN);
	if (dio->class == PUNCH)
		kp_inode_punch(inode, arena, dio->pos, size);
	else
		kp_inode_extend(inode, dio->pos + size);
}

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

/* Submit, with everything taken that the rule wants, down to the device. */
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

/* Now that it is known what it is: what its end releases. */
static void set_out(struct dio *dio, const struct passage *passage, const struct dio_rule *rule,
		    bool async)
{
	dio->class = passage->class;
	dio->unwritten = async && fills_blocks(passage->class);
	dio->owner_ends = !async && rule->flags & DROPS;
	dio->since_ns = passage->mode ? begin_hold(dio->file->lock) : 0;
	if (rule->until == COMPLETION || (rule->until == CALL && !async))
		dio->hold = passage->mode;
}

/* One I/O through the lock. */
static void carry_out(struct dio_lock *lock, struct kp_bio *bio)
{
	struct dio_file *file = bio->file->stage_data[lock->stage.index];
	bool async = !(bio->flags & KP_BIO_SYNC);
	bool shared = lock->stage.pipeline->shared;
	struct dio *dio = new_dio(file, bio);
	const struct dio_rule *rule;
	struct passage passage;
	bool waits, sleeps, retakes, ended = false;
	uint64_t since;
	int ret = dio ? enter(file, bio, async, &passage) : -ENOMEM;

	if (ret) {
		if (dio)
			kp_pool_put(&lock->dios, dio);
		kp_bio_fail(bio, ret);
		return;
	}
	rule = &lock->row->rules[passage.class];
	retakes = rule->flags & DROPS;
	waits = (async && rule->flags & AIO_WAITS) || (!async && retakes);
	set_out(dio, &passage, rule, async);
	since = dio->hold ? 0 : dio->since_ns;
	sleeps = dio->hold == EXCLUSIVE;
	/* In a shared pipeline others may end it at any time: no look back unless we wait. */
	if (waits || !shared)
		dio->ended = &ended;
	if (shared && sleeps)
		kp_rwsem_sleeping(&file->rwsem);
	if (dio->hold)
		passage.mode = UNLOCKED; /* no longer ours */
	submit(file, dio, bio);
	if (!shared && !ended && sleeps)
		kp_rwsem_sleeping(&file->rwsem);
	if (async && rule->flags & AIO_UNWRITTEN_AFTER)
		wait_in_flight(file, KP_INODE_UNWRITTEN);
	if (waits)
		kp_pipeline_wait_for(lock->stage.pipeline, lock->stage.next, &ended);
	else if (!shared && !ended)
		dio->ended = NULL;
	if (passage.mode) {
		end_hold(lock, passage.mode, since);
		release(file, passage.mode);
	}
	if (retakes && !take(file, EXCLUSIVE))
		release(file, EXCLUSIVE);
	if (passage.aio_mutex)
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
			carry_out(lock, bio);
		else
			kp_stage_submit(stage->next, bio);
		return;
	}
	bio->next = NULL;
	*lock->last = bio;
	lock->last = &bio->next;
}

/* The batch is committed: io_submit() walks it. */
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
			carry_out(lock, bio);
		else
			kp_stage_submit(stage->next, bio);
	}
	lock->flushing = false;
}

/* ---- files, and setting up ----------------------------------------------------------------- */

static void refuse_file(struct kp_file *file, struct kp_inode *inode, int error)
{
	if (error == -EUSERS && !__atomic_exchange_n(&inode->told_full, true, __ATOMIC_RELAXED))
		kp_log("diolock: %s: a lock has room for %u jobs: give fewer numjobs= on one file",
		       file->path, KP_RWSEM_JOBS);
	else if (error == -EBUSY)
		kp_log("diolock: %s: jobs of another policy= or rwsem= use it: give all jobs on a "
		       "file the same, or stonewall",
		       file->path);
}

static int dio_open(struct kp_stage *stage, struct kp_file *kp_file)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);
	struct dio_file *file = calloc(1, sizeof(*file));
	struct kp_inode *inode = NULL;
	int ret;

	if (!file)
		return -ENOMEM;
	ret = kp_inode_attach(kp_file, stage->variant, lock->rules, lock->live_id, &inode,
			      &file->job);
	if (ret) {
		refuse_file(kp_file, inode, ret);
		free(file);
		return ret == -EUSERS ? -EBUSY : ret;
	}
	file->lock = lock;
	file->inode = inode;
	file->rwsem = (struct kp_rwsem_user){
		.sem = &inode->rwsem,
		.rules = lock->rules,
		.job = file->job,
		.taken = { &stage->counters[READ_LOCKS], &stage->counters[WRITE_LOCKS] },
		.idle = idle,
		.account = account,
		.private = file,
	};
	file->aio_mutex = file->rwsem;
	file->aio_mutex.sem = &inode->aio_mutex;
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
	ret = kp_liveness_join(config->arena, &lock->live_id);
	if (ret == -ENOSPC)
		kp_log("diolock: too many jobs: give fewer numjobs=");
	if (ret)
		return ret;
	/* As many as the application may have in flight, and one that is waited for. */
	return kp_pool_init(&lock->dios, sizeof(struct dio), config->depth + 1,
			    stage->pipeline->shared);
}

static void dio_exit(struct kp_stage *stage)
{
	struct dio_lock *lock = kp_container_of(stage, struct dio_lock, stage);

	if (lock->live_id)
		kp_liveness_leave(stage->pipeline->arena, lock->live_id);
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
