// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rows of the diolock policy: who may proceed while what is in flight. Two jobs, and a stage
 * below theirs that holds each I/O until the test lets it end; so nothing here depends on time.
 * Once with pipelines as fio has them, whose owner reaps what the device ends, and once with shared
 * ones, as a stage with threads makes them, where the test's thread ends the I/O.
 * Then the inode: blocks from FIEMAP, size, the dead, what is refused.
 */
#include <linux/falloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/futex.h"
#include "policy/diolock/inode.h"
#include "unit.h"

#define BLOCK 4096u
#define SIZE  (64 * BLOCK)

/* ---- a stage that holds bios --------------------------------------------------------------- */

struct gate {
	struct kp_stage stage;
	struct kp_bio *held; /* atomic */
	bool open;	     /* atomic; the owner lets it end */
	void (*end_io)(struct kp_bio *bio);
	void *private;
};

static bool shared_pipelines;

static unsigned int gate_needs(const struct kp_stage_config *config)
{
	(void)config;
	return shared_pipelines ? KP_NEEDS_SHARED : 0;
}

static void gate_end_io(struct kp_bio *bio);

/* Into the device for another moment, with the owner to reap it. */
static void go_round(struct gate *gate, struct kp_bio *bio)
{
	bio->end_io = gate_end_io;
	bio->private = gate;
	kp_stage_submit(gate->stage.next, bio);
}

static void gate_end_io(struct kp_bio *bio)
{
	struct gate *gate = bio->private;

	if (!__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE)) {
		kp_pipeline_defer(gate->stage.pipeline, &gate->stage, bio);
		return;
	}
	bio->end_io = gate->end_io;
	bio->private = gate->private;
	__atomic_store_n(&gate->held, NULL, __ATOMIC_RELEASE);
	bio->end_io(bio);
}

static void gate_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct gate *gate = kp_container_of(stage, struct gate, stage);

	if (!shared_pipelines) {
		if (gate->held != bio) {
			gate->end_io = bio->end_io;
			gate->private = bio->private;
			__atomic_store_n(&gate->open, false, __ATOMIC_RELEASE);
			__atomic_store_n(&gate->held, bio, __ATOMIC_RELEASE);
		}
		go_round(gate, bio);
		return;
	}
	__atomic_store_n(&gate->held, bio, __ATOMIC_RELEASE);
}

static bool gate_busy(struct kp_stage *stage)
{
	struct gate *gate = kp_container_of(stage, struct gate, stage);

	return shared_pipelines && __atomic_load_n(&gate->held, __ATOMIC_ACQUIRE);
}

static const struct kp_stage_ops gate_ops = {
	.name = "gate",
	.size = sizeof(struct gate),
	.needs = gate_needs,
	.submit = gate_submit,
	.busy = gate_busy,
};

static const struct kp_policy gate_policy = { .name = "gate", .ops = &gate_ops };

/* ---- two jobs ------------------------------------------------------------------------------ */

enum state { IDLE, START, BUSY, RETURNED, QUIT };

struct job {
	pthread_t thread;
	struct kp_arena *arena;
	const struct kp_variant *variant;
	struct kp_pipeline *pl;
	struct kp_file *file;
	struct kp_io io;
	bool sync;
	unsigned int number; /* on the inode */
	enum state state;    /* atomic */
	uint32_t wakes;	     /* futex */
	int tid;	     /* atomic */
};

static struct job jobs[2];
static char buffer[2 * BLOCK] __attribute__((aligned(4096)));

static enum state state_of(const struct job *job)
{
	return __atomic_load_n(&job->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct job *job, enum state state)
{
	__atomic_store_n(&job->state, state, __ATOMIC_RELEASE);
	kp_futex_signal(&job->wakes, 1);
}

/* The job's thread waits for an order. */
static enum state next_state(struct job *job)
{
	enum state state;

	for (;;) {
		uint32_t seen = __atomic_load_n(&job->wakes, __ATOMIC_ACQUIRE);

		state = state_of(job);
		if (state != IDLE)
			return state;
		kp_futex_wait(&job->wakes, seen, 1000000000);
	}
}

static struct gate *gate_of(const struct job *job)
{
	return kp_container_of(job->pl->stages[1], struct gate, stage);
}

static bool arrived(const struct job *job)
{
	return __atomic_load_n(&gate_of(job)->held, __ATOMIC_ACQUIRE);
}

static void do_io(struct job *job)
{
	if (job->sync) {
		kp_submit_wait(job->pl, &job->io);
	} else {
		kp_submit(job->pl, &job->io);
		kp_commit(job->pl);
	}
	set_state(job, RETURNED);
	if (!job->sync)
		kp_reap(job->pl, 1, 1, NULL);
	set_state(job, IDLE);
}

static void *run_job(void *arg)
{
	struct job *job = arg;
	struct kp_stage_config stages[] = {
		{ &kp_diolock_policy, job->variant, NULL },
		{ &gate_policy, NULL, NULL },
	};
	struct kp_pipeline_config config = {
		.arena = job->arena,
		.stages = stages,
		.nr_stages = 2,
		.device = { .backend = "null",
			    .null = { .read_nsec = shared_pipelines ? 0 : 100000,
				      .write_nsec = shared_pipelines ? 0 : 100000 } },
		.depth = 4,
		.max_io_size = BLOCK,
	};

	if (kp_pipeline_create(&job->pl, &config) ||
	    kp_file_open(job->pl, "model", O_RDWR, SIZE, &job->file))
		abort();
	set_state(job, IDLE);
	while (next_state(job) != QUIT) {
		set_state(job, BUSY);
		do_io(job);
	}
	kp_pipeline_destroy(job->pl);
	return NULL;
}

/* ---- what the rows are to do --------------------------------------------------------------- */

/* In the order of enum dio_class. */
static const struct {
	const char *name;
	enum kp_op op;
	uint64_t pos;
	uint32_t len;
} kinds[] = {
	{ "read", KP_OP_READ, 0, BLOCK },
	{ "overwrite", KP_OP_WRITE, 0, BLOCK },
	{ "preallocated", KP_OP_WRITE, 16 * BLOCK, BLOCK },
	{ "hole", KP_OP_WRITE, 31 * BLOCK, 2 * BLOCK },
	{ "extending", KP_OP_WRITE, SIZE - BLOCK, 2 * BLOCK },
	{ "beyond", KP_OP_WRITE, SIZE + BLOCK, BLOCK },
	{ "unaligned overwrite", KP_OP_WRITE, 512, 512 },
	{ "unaligned", KP_OP_WRITE, 17 * BLOCK + 512, BLOCK },
	{ "unaligned extending", KP_OP_WRITE, SIZE, 512 },
	{ "punch", KP_OP_DISCARD, 2 * BLOCK, BLOCK },
};

#define NR_KINDS (sizeof(kinds) / sizeof(*kinds))

/*
 * Per kind: the mode it takes (- none, S shared, X exclusive), the mode it holds while in flight,
 * d: waits for all direct I/O in flight, u: for asynchronous writes into unwritten blocks, w: an
 * asynchronous one is waited for. From the specification, not from the stage's table.
 */
static const struct {
	const char *name;
	const char *sync[NR_KINDS], *async[NR_KINDS];
} wanted[] = {
	{ "ext4-4.8",
	  { "X-", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "X-", "X-", "X-", "X-", "XXw", "XXw", "X-u", "X-u", "XXuw", "XXdw" } },
	{ "ext4-4.8-nolock",
	  { "--", "X-", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "--", "X-", "X-", "X-", "XXw", "XXw", "X-u", "X-u", "XXuw", "XXdw" } },
	{ "ext4-4.9",
	  { "SS", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "X-", "X-", "X-", "XXw", "XXw", "X-u", "XXuw", "XXuw", "XXdw" } },
	{ "ext4-4.9-nolock",
	  { "SS", "X-", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "X-", "X-", "X-", "XXw", "XXw", "X-u", "XXuw", "XXuw", "XXdw" } },
	{ "ext4-5.5",
	  { "SS", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "X-", "X-", "X-", "XXw", "XXw", "XXdw", "XXdw", "XXdw", "XXdw" } },
	{ "ext4-5.5-nolock",
	  { "SS", "XS", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "X-", "X-", "X-", "XXw", "XXw", "XXdw", "XXdw", "XXdw", "XXdw" } },
	{ "ext4-5.6",
	  { "SS", "SS", "XX", "XX", "XX", "XX", "XXd", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "X-", "X-", "XXw", "XXw", "XXdw", "XXdw", "XXdw", "XXdw" } },
	{ "ext4-6.3",
	  { "SS", "SS", "SS", "XX", "XX", "XX", "XXd", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "X-", "XXw", "XXw", "XXdw", "XXdw", "XXdw", "XXdw" } },
	{ "ext4-6.12",
	  { "SS", "SS", "SS", "XX", "XX", "XX", "SS", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "X-", "XXw", "XXw", "S-", "XXdw", "XXdw", "XXdw" } },
	{ "ext4-7.3",
	  { "SS", "SS", "SS", "SS", "XX", "XX", "SS", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "S-", "XXw", "XXw", "S-", "XXdw", "XXdw", "XXdw" } },
	{ "xfs-4.9",
	  { "SS", "SS", "SS", "SS", "SS", "XSd", "XXd", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "S-", "S-", "X-d", "X-d", "X-d", "X-d", "XXdw" } },
	{ "xfs-5.2",
	  { "SS", "SS", "SS", "SS", "SS", "XSd", "XXd", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "S-", "S-", "X-d", "XXdw", "XXdw", "XXdw", "XXdw" } },
	{ "xfs-6.12",
	  { "SS", "SS", "SS", "SS", "SS", "XSd", "SS", "XXd", "XXd", "XXd" },
	  { "S-", "S-", "S-", "S-", "S-", "X-d", "S-", "XXdw", "XXdw", "XXdw" } },
	{ "btrfs-4.9",
	  { "--", "X-", "X-", "X-", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "--", "X-", "X-", "X-", "XXw", "XXw", "XXw", "XXw", "XXw", "XXdw" } },
	{ "btrfs-5.10",
	  { "SS", "X-", "X-", "X-", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "X-", "X-", "X-", "X-", "X-", "XXw", "XXw", "XXw", "XXdw" } },
	{ "btrfs-5.11",
	  { "SS", "SS", "SS", "SS", "XX", "XX", "XX", "XX", "XX", "XXd" },
	  { "S-", "S-", "S-", "S-", "X-", "X-", "XXw", "XXw", "XXw", "XXdw" } },
	{ "exclusive",
	  { "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX" },
	  { "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX", "XX" } },
};

#define NR_ROWS (sizeof(wanted) / sizeof(*wanted))

static const char *cell(unsigned int row, unsigned int kind, bool sync)
{
	return sync ? wanted[row].sync[kind] : wanted[row].async[kind];
}

/* Asynchronous, into blocks that are allocated and not, or not wholly, written. */
static bool is_unwritten(unsigned int kind, bool sync)
{
	return !sync && (kind == 2 || kind == 3 || kind == 7);
}

/* Does an I/O with @second wait while one with @first is in flight, of kind @first_kind? */
static bool has_to_wait(const char *first, const char *second, unsigned int first_kind,
			bool first_unwritten)
{
	/* What takes no lock does while somebody punches. */
	if (first_kind == NR_KINDS - 1 && second[0] == '-')
		return true;
	if (second[0] != '-' && (first[1] == 'X' || (first[1] == 'S' && second[0] == 'X')))
		return true;
	return strchr(second + 2, 'd') || (first_unwritten && strchr(second + 2, 'u'));
}

/* ---- scripted sequences -------------------------------------------------------------------- */

static struct kp_inode *inode;
static char what[256];

static void find_inode(void)
{
	void *object;

	ck_assert_int_eq(kp_arena_object(jobs[0].arena, "inode", &jobs[0].file->key,
					 sizeof(jobs[0].file->key), sizeof(*inode), NULL, NULL,
					 &object),
			 0);
	inode = object;
}

/* Blocks 16 to 31 are unwritten, 32 to 47 holes, the others written. */
static void lay_out(void)
{
	struct kp_arena *arena = jobs[0].arena;

	inode->all_written = false;
	inode->size = SIZE;
	__atomic_store_n(&inode->dio_waiters, 0, __ATOMIC_RELAXED);
	kp_inode_set_blocks(inode, arena, 0, SIZE, KP_BLOCKS_WRITTEN);
	kp_inode_set_blocks(inode, arena, 16 * BLOCK, 16 * BLOCK, KP_BLOCKS_UNWRITTEN);
	kp_inode_set_blocks(inode, arena, 32 * BLOCK, 16 * BLOCK, KP_BLOCKS_HOLE);
	kp_inode_set_blocks(inode, arena, SIZE, 4 * BLOCK, KP_BLOCKS_HOLE);
}

static bool is_queued(struct kp_rwsem *sem, const struct job *job)
{
	bool queued;

	pthread_mutex_lock(&sem->wait_lock);
	queued = sem->waiting[0] & 1ull << job->number;
	pthread_mutex_unlock(&sem->wait_lock);
	return queued;
}

static bool is_waiting(const struct job *job)
{
	return is_queued(&inode->rwsem, job) || is_queued(&inode->aio_mutex, job) ||
	       __atomic_load_n(&inode->dio_waiters, __ATOMIC_RELAXED);
}

/* Is the thread asleep, in the kernel's eyes? */
static void wait_asleep(const struct job *job)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", job->tid);
	for (;;) {
		FILE *file = fopen(path, "r");

		ck_assert_ptr_nonnull(file);
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
		fclose(file);
		if (strstr(line, ") S "))
			return;
		usleep(20);
	}
}

#define WAIT_FOR(condition, message)                                \
	do {                                                        \
		uint64_t kp_start = kp_now_ns();                    \
		while (!(condition)) {                              \
			if (kp_now_ns() - kp_start > 5000000000u)   \
				ck_abort_msg("%s: " message, what); \
			usleep(20);                                 \
		}                                                   \
	} while (0)

static void start_at(struct job *job, enum kp_op op, uint64_t pos, uint32_t len, bool sync)
{
	kp_io_prepare(&job->io, op, job->file, pos, buffer, len);
	job->sync = sync;
	set_state(job, START);
}

static void start_io(struct job *job, unsigned int kind, bool sync)
{
	start_at(job, kinds[kind].op, kinds[kind].pos, kinds[kind].len, sync);
}

static void end_io(struct job *job)
{
	struct kp_bio *bio = __atomic_load_n(&gate_of(job)->held, __ATOMIC_ACQUIRE);

	if (!shared_pipelines) {
		__atomic_store_n(&gate_of(job)->open, true, __ATOMIC_RELEASE);
		WAIT_FOR(!arrived(job), "the owner does not reap");
		return;
	}
	__atomic_store_n(&gate_of(job)->held, NULL, __ATOMIC_RELEASE);
	kp_bio_endio(bio);
}

static char held_now(void)
{
	uint64_t word = __atomic_load_n(&inode->rwsem.word, __ATOMIC_RELAXED);

	if (word & KP_RWSEM_WRITER)
		return 'X';
	return word & KP_RWSEM_READERS ? 'S' : '-';
}

/* The first I/O is in flight: what does it hold, and has the call returned? */
static void check_first(struct job *job, const char *row)
{
	bool returns = !job->sync && !strchr(row + 2, 'w');

	if (returns)
		WAIT_FOR(state_of(job) == RETURNED, "the call does not return");
	else
		wait_asleep(job);
	ck_assert_msg(returns || state_of(job) == BUSY, "%s: the call returned early", what);
	ck_assert_msg(held_now() == row[1], "%s: holds %c, wanted %c", what, held_now(), row[1]);
}

static void check_pair(unsigned int row, unsigned int first, bool first_sync, unsigned int second,
		       bool second_sync)
{
	const char *a = cell(row, first, first_sync), *b = cell(row, second, second_sync);
	bool waits = has_to_wait(a, b, first, is_unwritten(first, first_sync));

	snprintf(what, sizeof(what), "%s: %s %s, then %s %s", wanted[row].name,
		 first_sync ? "sync" : "async", kinds[first].name, second_sync ? "sync" : "async",
		 kinds[second].name);
	lay_out();
	start_io(&jobs[0], first, first_sync);
	WAIT_FOR(arrived(&jobs[0]), "the first does not come through");
	check_first(&jobs[0], a);
	start_io(&jobs[1], second, second_sync);
	WAIT_FOR(arrived(&jobs[1]) || is_waiting(&jobs[1]), "the second is lost");
	ck_assert_msg(waits != arrived(&jobs[1]), "%s: the second %s", what,
		      waits ? "does not wait" : "waits");
	end_io(&jobs[0]);
	WAIT_FOR(arrived(&jobs[1]), "the second does not follow");
	end_io(&jobs[1]);
	WAIT_FOR(state_of(&jobs[0]) == IDLE && state_of(&jobs[1]) == IDLE, "no end");
	ck_assert_msg(!inode->rwsem.word && !inode->aio_mutex.word, "%s: something is left", what);
	ck_assert(kp_inode_quiet(inode, KP_INODE_DIO));
	ck_assert(kp_inode_quiet(inode, KP_INODE_UNWRITTEN));
}

static void *start_job(void *arg)
{
	struct job *job = arg;

	__atomic_store_n(&job->tid, gettid(), __ATOMIC_RELEASE);
	return run_job(job);
}

static void start_jobs(const char *variant)
{
	struct kp_arena *arena;
	char why[256];

	ck_assert_int_eq(kp_arena_create(&arena, 1ull << 34), 0);
	for (int i = 0; i < 2; i++) {
		jobs[i] = (struct job){ .arena = arena, .state = BUSY };
		ck_assert_int_eq(kp_policy_find(&kp_diolock_policy, variant, NULL, &jobs[i].variant,
						why, sizeof(why)),
				 0);
		ck_assert_int_eq(pthread_create(&jobs[i].thread, NULL, start_job, &jobs[i]), 0);
		while (state_of(&jobs[i]) != IDLE)
			usleep(20);
		jobs[i].number = i;
	}
	find_inode();
}

static void stop_jobs(void)
{
	for (int i = 0; i < 2; i++) {
		set_state(&jobs[i], QUIT);
		pthread_join(jobs[i].thread, NULL);
	}
	kp_arena_destroy(jobs[0].arena);
}

static void check_row(int row)
{
	start_jobs(wanted[row].name);
	for (unsigned int i = 0; i < NR_KINDS * 2; i++) {
		for (unsigned int j = 0; j < NR_KINDS * 2; j++)
			check_pair(row, i / 2, i % 2, j / 2, j % 2);
	}
	stop_jobs();
}

START_TEST(who_may_proceed)
{
	shared_pipelines = false;
	check_row(_i);
}
END_TEST

START_TEST(who_may_proceed_shared)
{
	shared_pipelines = true;
	check_row(_i);
}
END_TEST

/*
 * What an I/O is to the inode is seen under the lock: while the second waited, the end of the first
 * changed it. Then it holds what it is to hold, and an asynchronous call returns.
 */
static const struct {
	const char *row;
	enum kp_op op;
	uint64_t pos[2]; /* of the first, a synchronous one, and of the second, a write */
	bool sync;
	char holds;
} changes[] = {
	/* No longer extending. */
	{ "ext4-4.9", KP_OP_WRITE, { SIZE, SIZE }, false, '-' },
	{ "ext4-5.6", KP_OP_WRITE, { SIZE, SIZE }, false, '-' },
	{ "btrfs-4.9", KP_OP_WRITE, { SIZE, SIZE }, true, '-' },
	/* No longer over written blocks: shared will not do. */
	{ "ext4-5.6", KP_OP_DISCARD, { 0, 0 }, true, 'X' },
	{ "ext4-4.9-nolock", KP_OP_DISCARD, { 0, 0 }, true, 'X' },
	/* No longer a hole: still exclusive, once it is. */
	{ "ext4-6.12", KP_OP_WRITE, { 32 * BLOCK, 32 * BLOCK }, true, 'X' },
	/* No longer beyond the end: XFS downgrades. */
	{ "xfs-5.2", KP_OP_WRITE, { SIZE + 2 * BLOCK, SIZE + BLOCK }, true, 'S' },
};

#define NR_CHANGES (sizeof(changes) / sizeof(*changes))

START_TEST(decided_under_the_lock)
{
	bool sync = changes[_i].sync;

	shared_pipelines = false;
	start_jobs(changes[_i].row);
	lay_out();
	snprintf(what, sizeof(what), "%s, change %d", changes[_i].row, _i);
	start_at(&jobs[0], changes[_i].op, changes[_i].pos[0], BLOCK, true);
	WAIT_FOR(arrived(&jobs[0]), "the first does not come through");
	start_at(&jobs[1], KP_OP_WRITE, changes[_i].pos[1], BLOCK, sync);
	WAIT_FOR(is_waiting(&jobs[1]), "the second does not wait");
	end_io(&jobs[0]);
	WAIT_FOR(arrived(&jobs[1]), "the second does not follow");
	if (sync)
		wait_asleep(&jobs[1]);
	else
		WAIT_FOR(state_of(&jobs[1]) == RETURNED, "the call does not return");
	ck_assert_msg(held_now() == changes[_i].holds, "%s: holds %c", what, held_now());
	end_io(&jobs[1]);
	WAIT_FOR(state_of(&jobs[0]) == IDLE && state_of(&jobs[1]) == IDLE, "no end");
	ck_assert_msg(!inode->rwsem.word, "%s: something is left", what);
	stop_jobs();
}
END_TEST

START_TEST(every_row_is_checked)
{
	const struct kp_variant *variant;

	for (unsigned int i = 0; (variant = kp_policy_variant(&kp_diolock_policy, i)); i++) {
		ck_assert_uint_lt(i, NR_ROWS);
		ck_assert_str_eq(variant->name, wanted[i].name);
	}
}
END_TEST

/* ---- the inode ----------------------------------------------------------------------------- */

static const struct kp_variant *variant_of(const char *name)
{
	const struct kp_variant *variant;
	char why[256];

	ck_assert_int_eq(kp_policy_find(&kp_diolock_policy, name, NULL, &variant, why, sizeof(why)),
			 0);
	return variant;
}

static void start(struct unit *unit, struct kp_arena *arena, const char *backend,
		  const char *variant, const struct kp_diolock_options *options)
{
	unit_init(unit, backend);
	if (arena) {
		kp_arena_destroy(unit->arena);
		unit->arena = unit->config.arena = arena;
	}
	unit_add_stage(unit, &kp_diolock_policy, variant_of(variant), options);
	unit_start(unit);
}

static struct kp_inode *inode_of(const struct unit *unit, const struct kp_file *file)
{
	void *object;

	ck_assert_int_eq(kp_arena_object(unit->arena, "inode", &file->key, sizeof(file->key),
					 sizeof(struct kp_inode), NULL, NULL, &object),
			 0);
	return object;
}

/* What the file system says at open, and what our own writes make of it. */
START_TEST(blocks_of_a_file)
{
	const char *path = unit_path("blocks");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *data = unit_memory(MIB);
	struct kp_file *file;
	struct kp_inode *in;
	struct unit unit;
	struct kp_io io;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, MIB), 0);
	ck_assert_int_eq(pwrite(fd, data, 64 * KIB, 0), 64 * KIB);
	if (fallocate(fd, 0, 128 * KIB, 64 * KIB)) {
		close(fd);
		unlink(path);
		return; /* no unwritten extents here */
	}
	close(fd);
	start(&unit, NULL, "psync", "ext4-5.6", NULL);
	file = unit_open(&unit, path, O_RDWR);
	in = inode_of(&unit, file);
	ck_assert_uint_eq(kp_inode_size(in), MIB);
	ck_assert_int_eq(kp_inode_blocks(in, 0, 64 * KIB), KP_BLOCKS_WRITTEN);
	ck_assert_int_eq(kp_inode_blocks(in, 0, 64 * KIB + 1), KP_BLOCKS_HOLE);
	ck_assert_int_eq(kp_inode_blocks(in, 128 * KIB, 64 * KIB), KP_BLOCKS_UNWRITTEN);
	ck_assert_int_eq(kp_inode_blocks(in, 192 * KIB, 1), KP_BLOCKS_HOLE);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 128 * KIB, data, 8 * KIB), 0);
	ck_assert_int_eq(kp_inode_blocks(in, 128 * KIB, 8 * KIB), KP_BLOCKS_WRITTEN);
	ck_assert_int_eq(kp_inode_blocks(in, 128 * KIB, 12 * KIB), KP_BLOCKS_UNWRITTEN);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_DISCARD, file, 0, NULL, 4 * KIB), 0);
	ck_assert_int_eq(kp_inode_blocks(in, 0, 4 * KIB), KP_BLOCKS_HOLE);
	ck_assert_int_eq(kp_inode_blocks(in, 4 * KIB, 60 * KIB), KP_BLOCKS_WRITTEN);
	/* A block that is punched in part is not a hole. */
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_DISCARD, file, 10 * KIB, NULL, 12 * KIB), 0);
	ck_assert_int_eq(kp_inode_blocks(in, 8 * KIB, 4 * KIB), KP_BLOCKS_WRITTEN);
	ck_assert_int_eq(kp_inode_blocks(in, 12 * KIB, 1), KP_BLOCKS_HOLE);
	ck_assert_int_eq(kp_inode_blocks(in, 16 * KIB, 1), KP_BLOCKS_HOLE);
	ck_assert_int_eq(kp_inode_blocks(in, 20 * KIB, 44 * KIB), KP_BLOCKS_WRITTEN);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_DISCARD, file, 24 * KIB + 512, NULL, 4 * KIB),
			 0);
	ck_assert_int_eq(kp_inode_blocks(in, 20 * KIB, 44 * KIB), KP_BLOCKS_WRITTEN);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, MIB, data, 4 * KIB), 0);
	ck_assert_uint_eq(kp_inode_size(in), MIB + 4 * KIB);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* The map against a plain array of blocks. */
START_TEST(map_against_an_array)
{
	static unsigned char plain[4096];
	struct kp_arena *arena;
	struct kp_inode *in = calloc(1, sizeof(*in));

	ck_assert_ptr_nonnull(in);
	ck_assert_int_eq(kp_arena_create(&arena, 1ull << 34), 0);
	memset(plain, KP_BLOCKS_HOLE, sizeof(plain));
	in->block_size = BLOCK;
	for (int i = 0; i < 20000; i++) {
		uint64_t first = unit_between(0, 4000), nr = unit_between(1, 95);
		enum kp_blocks blocks = unit_between(0, 2), worst = KP_BLOCKS_WRITTEN;

		/* around a boundary between two chunks */
		uint64_t pos = (first + (1u << 18) - 2048) * BLOCK;

		if (i % 2) {
			ck_assert_int_eq(kp_inode_set_blocks(in, arena, pos, nr * BLOCK, blocks),
					 0);
			memset(plain + first, blocks, nr);
			continue;
		}
		for (uint64_t j = first; j < first + nr; j++)
			worst = kp_max(worst, plain[j]);
		ck_assert_int_eq(kp_inode_blocks(in, pos, nr * BLOCK), worst);
	}
	kp_arena_destroy(arena);
	free(in);
}
END_TEST

/* As many jobs as a lock has room for, each of which does I/O; others are refused, and told once. */
START_TEST(too_many_jobs)
{
	struct unit units[KP_RWSEM_JOBS + 2];
	struct kp_file *file;
	struct kp_io io;
	unsigned int i;

	for (i = 0; i < KP_RWSEM_JOBS + 2; i++)
		start(&units[i], i ? units[0].arena : NULL, "null", "ext4-4.9", NULL);
	for (i = 0; i < KP_RWSEM_JOBS; i++)
		unit_open(&units[i], "model", O_RDWR);
	for (i = 0; i < KP_RWSEM_JOBS; i++) {
		file = units[i].pl->files;
		ck_assert_int_eq(unit_io(&units[i], &io, KP_OP_WRITE, file, 0, buffer, BLOCK), 0);
		ck_assert_int_eq(unit_io(&units[i], &io, KP_OP_READ, file, 0, buffer, BLOCK), 0);
	}
	unit_nr_said = 0;
	for (; i < KP_RWSEM_JOBS + 2; i++)
		ck_assert_int_eq(kp_file_open(units[i].pl, "model", O_RDWR, SIZE, &file), -EBUSY);
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_ptr_nonnull(strstr(unit_said, "1024 jobs"));
	for (i = KP_RWSEM_JOBS + 2; i-- > 1;)
		kp_pipeline_destroy(units[i].pl);
	/* Numbers come back. */
	start(&units[1], units[0].arena, "null", "ext4-4.9", NULL);
	unit_open(&units[1], "model", O_RDWR);
	kp_pipeline_destroy(units[1].pl);
	unit_exit(&units[0]);
}
END_TEST

START_TEST(one_policy_per_file)
{
	static const struct kp_diolock_options other = { .rwsem = "5.3" };
	struct unit a, b;
	struct kp_file *file;

	start(&a, NULL, "null", "ext4-4.9", NULL);
	file = unit_open(&a, "model", O_RDWR);
	start(&b, a.arena, "null", "ext4-4.8", NULL);
	ck_assert_int_eq(kp_file_open(b.pl, "model", O_RDWR, SIZE, &file), -EBUSY);
	ck_assert_ptr_nonnull(strstr(unit_said, "model"));
	ck_assert_int_eq(kp_file_open(b.pl, "another", O_RDWR, SIZE, &file), 0);
	kp_pipeline_destroy(b.pl);
	start(&b, a.arena, "null", "ext4-4.9", &other);
	ck_assert_int_eq(kp_file_open(b.pl, "model", O_RDWR, SIZE, &file), -EBUSY);
	kp_file_close(a.pl->files);
	ck_assert_int_eq(kp_file_open(b.pl, "model", O_RDWR, SIZE, &file), 0);
	kp_pipeline_destroy(b.pl);
	unit_exit(&a);
}
END_TEST

/* A job that dies as a holder, and with direct I/O in flight. */
START_TEST(the_dead_are_buried)
{
	struct unit unit;
	struct kp_file *file;
	struct kp_inode *in;
	struct kp_io io;
	int status;
	pid_t pid;

	start(&unit, NULL, "null", "ext4-5.6", NULL);
	file = unit_open(&unit, "model", O_RDWR);
	in = inode_of(&unit, file);
	pid = fork();
	if (!pid) {
		struct unit child;
		uint64_t taken;
		struct kp_rwsem_user user = { .sem = &in->rwsem,
					      .job = 1,
					      .taken = { &taken, &taken } };

		start(&child, unit.arena, "null", "ext4-5.6", NULL);
		kp_file_open(child.pl, "model", O_RDWR, SIZE, &file);
		user.rules = in->rules;
		kp_rwsem_down(&user, KP_RWSEM_WRITE);
		kp_inode_begin(in, 1, KP_INODE_DIO);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(in->rwsem.word & KP_RWSEM_WRITER);
	ck_assert(!kp_inode_quiet(in, KP_INODE_DIO));
	/* unaligned: needs the lock and nothing in flight */
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 512, buffer, 512), 0);
	ck_assert_uint_eq(in->rwsem.word, 0);
	ck_assert_uint_eq(in->jobs[1].user, 0);
	unit_exit(&unit);
}
END_TEST

/* A wait for a holder that never lets go ends when the run is to end. */
START_TEST(a_run_always_ends)
{
	static volatile bool terminate = true;
	struct unit unit;
	struct kp_file *file;
	struct kp_io io;

	unit_init(&unit, "null");
	unit_add_stage(&unit, &kp_diolock_policy, variant_of("ext4-4.9"), NULL);
	unit.config.terminate = &terminate;
	unit_start(&unit);
	file = unit_open(&unit, "model", O_RDWR);
	inode_of(&unit, file)->rwsem.word = 8ull << KP_RWSEM_WRITER_SHIFT;
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 0, buffer, BLOCK), -ECANCELED);
	ck_assert_uint_eq(inode_of(&unit, file)->rwsem.first, 0);
	unit_exit(&unit);
}
END_TEST

START_TEST(options)
{
	static const struct kp_diolock_options unknown = { .rwsem = "5.4" },
					       known = { .rwsem = "5.3" };
	char why[256];

	ck_assert_int_eq(kp_policy_check(&kp_diolock_policy, &unknown, variant_of("ext4-4.9"), why,
					 sizeof(why)),
			 -EINVAL);
	ck_assert_str_eq(why, "rwsem=5.4: unknown, give one of: 4.9, 5.3, 5.11");
	ck_assert_int_eq(kp_policy_check(&kp_diolock_policy, &known, NULL, why, sizeof(why)),
			 -EINVAL);
	ck_assert_int_eq(kp_policy_check(&kp_diolock_policy, &known, variant_of("xfs-5.2"), why,
					 sizeof(why)),
			 0);
}
END_TEST

/* The row of a kernel, and its lock: 5.4 is ext4-4.9 on the lock of 5.3. */
START_TEST(kernels)
{
	static const struct {
		const char *kernel, *row, *rwsem;
	} known[] = {
		{ "4.4", "ext4-4.8", "4.9" },  { "4.9", "ext4-4.9", "4.9" },
		{ "5.2", "ext4-4.9", "4.9" },  { "5.4", "ext4-4.9", "5.3" },
		{ "5.5", "ext4-5.5", "5.3" },  { "5.10", "ext4-5.6", "5.3" },
		{ "6.1", "ext4-5.6", "5.11" }, { "6.12", "ext4-6.12", "5.11" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct kp_diolock_options o = { .kernel = known[i].kernel };
		const struct kp_variant *variant;
		struct kp_file *file;
		struct unit unit;
		char why[256];

		ck_assert_int_eq(kp_policy_find(&kp_diolock_policy, NULL, o.kernel, &variant, why,
						sizeof(why)),
				 0);
		ck_assert_str_eq(variant->name, known[i].row);
		start(&unit, NULL, "null", variant->name, &o);
		file = unit_open(&unit, "model", O_RDWR);
		ck_assert_str_eq(inode_of(&unit, file)->rules->name, known[i].rwsem);
		unit_exit(&unit);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("diolock");
	TCase *table = tcase_create("table"), *inodes = tcase_create("inode");

	prctl(PR_SET_TIMERSLACK, 1); /* sleeps as short as they are asked for */
	tcase_set_timeout(table, 60);
	tcase_add_loop_test(table, who_may_proceed, 0, NR_ROWS);
	tcase_add_loop_test(table, who_may_proceed_shared, 0, NR_ROWS);
	tcase_add_loop_test(table, decided_under_the_lock, 0, NR_CHANGES);
	tcase_add_test(table, every_row_is_checked);
	tcase_add_test(table, options);
	tcase_add_test(table, kernels);
	tcase_set_timeout(inodes, 30);
	tcase_add_test(inodes, blocks_of_a_file);
	tcase_add_test(inodes, map_against_an_array);
	tcase_add_test(inodes, too_many_jobs);
	tcase_add_test(inodes, one_policy_per_file);
	tcase_add_test(inodes, the_dead_are_buried);
	tcase_add_test(inodes, a_run_always_ends);
	suite_add_tcase(suite, table);
	suite_add_tcase(suite, inodes);
	return unit_run(suite);
}
