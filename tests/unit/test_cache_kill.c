// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs that share a page cache are killed (time limit: 300): a random one, or the one whose
 * thread is the flusher. The others must finish, and their writes must be on the device. Of the
 * killed job everything must be there whose fsync had returned. Or all jobs are killed at once,
 * so that nobody is left to complete what a sync only promised. KP_ROUNDS=100 makes it longer.
 */
#include <linux/futex.h>
#include <signal.h>
#include <sys/wait.h>

#include "policy/cache/pages.h"
#include "unit.h"

#define NR_JOBS	   4
#define BLOCK	   1000u /* a block shares pages and blocks with its neighbours */
#define NR_BLOCKS  600u
#define ROUNDS	   8
#define SYNC_EVERY 25
#define ALL	   (-1)

/* What a job has done, in memory that outlives the job. */
struct job {
	uint32_t wrote[NR_BLOCKS];  /* the version, stored before the write */
	uint32_t synced[NR_BLOCKS]; /* the version at an fsync that returned 0 */
	uint32_t ios;
	uint32_t stop;
};

static struct job *jobs;
static struct unit unit;
static char path[512];

struct variant_case {
	const struct kp_policy *policy;
	const char *name;
	bool adjoin; /* the jobs' blocks interleave, so that they share pages */
};

static const struct variant_case cases[] = {
	{ &kp_writeback_policy, "overrun", true },  { &kp_writeback_policy, "strict", false },
	{ &kp_writeback_policy, "6.x", true },	    { &kp_blocksize_policy, "logical", true },
	{ &kp_blocksize_policy, "coalesce", true }, { &kp_blocksize_policy, "folio", false },
};

#define NR_CASES (sizeof(cases) / sizeof(*cases))

static uint64_t position(const struct variant_case *c, unsigned int job, unsigned int block)
{
	unsigned int nr = c->adjoin ? block * NR_JOBS + job : job * NR_BLOCKS + block;

	return (uint64_t)nr * BLOCK;
}

static void fill(uint32_t *block, unsigned int job, unsigned int nr, uint32_t version)
{
	for (unsigned int i = 0; i < BLOCK / 4; i++)
		block[i] = job << 28 ^ nr << 16 ^ version;
}

static void sync_job(struct kp_file *file, struct job *job)
{
	static uint32_t before[NR_BLOCKS];
	struct kp_io io;

	memcpy(before, job->wrote, sizeof(before));
	if (unit_io(&unit, &io, KP_OP_FDATASYNC, file, 0, NULL, 0))
		_exit(2);
	memcpy(job->synced, before, sizeof(before));
}

static void run_job(const struct variant_case *c, unsigned int nr)
{
	struct job *job = &jobs[nr];
	static uint32_t data[BLOCK / 4];
	struct kp_file *file;
	struct kp_io io;

	unit_seed = nr * 77 + getpid();
	if (kp_pipeline_create(&unit.pl, &unit.config) ||
	    kp_file_open(unit.pl, path, O_RDWR, 0, &file))
		_exit(3);
	while (!__atomic_load_n(&job->stop, __ATOMIC_RELAXED)) {
		unsigned int block = unit_between(0, NR_BLOCKS - 1);

		__atomic_store_n(&job->wrote[block], job->wrote[block] + 1, __ATOMIC_RELEASE);
		fill(data, nr, block, job->wrote[block]);
		if (unit_io(&unit, &io, KP_OP_WRITE, file, position(c, nr, block), data, BLOCK))
			_exit(4);
		if (++job->ios % SYNC_EVERY == 0)
			sync_job(file, job);
	}
	if (kp_file_close(file) || kp_pipeline_destroy(unit.pl))
		_exit(5);
	_exit(0);
}

/* The thread that is the flusher; 0: none is. */
static pid_t flusher_thread(void)
{
	struct page_cache *cache;

	ck_assert_int_eq(cache_find(unit.arena, &cache), 0);
	if (!cache->nr_files)
		return 0;
	return __atomic_load_n(&cache->files[0]->bdi->flusher_lock.__data.__lock,
			       __ATOMIC_RELAXED) &
	       FUTEX_TID_MASK;
}

/* The job that @thread belongs to. */
static int job_of(const pid_t *pids, pid_t thread)
{
	char name[64];

	for (int i = 0; i < NR_JOBS; i++) {
		snprintf(name, sizeof(name), "/proc/%d/task/%d", (int)pids[i], (int)thread);
		if (!access(name, F_OK))
			return i;
	}
	return -1;
}

/* Wait until each job has written, and there is a flusher. */
static void wait_for_jobs(void)
{
	uint64_t give_up = kp_now_ns() + 20000000000ull;

	for (int i = 0; i < NR_JOBS; i++) {
		while (__atomic_load_n(&jobs[i].ios, __ATOMIC_RELAXED) < 2 * SYNC_EVERY) {
			ck_assert_uint_lt(kp_now_ns(), give_up);
			usleep(1000);
		}
	}
	while (!flusher_thread()) {
		ck_assert_uint_lt(kp_now_ns(), give_up);
		usleep(1000);
	}
}

/* Another thread must become the flusher within a second. */
static void wait_for_successor(pid_t before)
{
	uint64_t from = kp_now_ns();
	pid_t now = flusher_thread();

	while (!now || now == before) {
		ck_assert_msg(kp_now_ns() - from < unit_patience(1000000000u),
			      "no new flusher within a second");
		usleep(1000);
		now = flusher_thread();
	}
}

/*
 * A job that ended has its last version in every block. A killed job may have left a write half
 * done, of any version since its last sync.
 */
static void check_block(const struct variant_case *c, const uint32_t *words, bool killed,
			unsigned int nr, unsigned int block)
{
	uint32_t most = jobs[nr].wrote[block];
	uint32_t least = killed ? jobs[nr].synced[block] : most;

	for (unsigned int i = 0; least && i < BLOCK / 4; i++) {
		uint32_t version = words[i] ^ nr << 28 ^ block << 16;

		ck_assert_msg(version >= least && version <= most,
			      "%s: job %u%s block %u word %u: version %u, synced %u, wrote %u",
			      c->name, nr, killed ? ", killed," : "", block, i, version,
			      jobs[nr].synced[block], jobs[nr].wrote[block]);
	}
}

/* @victim: the job that was killed; ALL: every job. */
static void check_device(const struct variant_case *c, int victim)
{
	size_t size = (size_t)NR_JOBS * NR_BLOCKS * BLOCK;
	size_t padded = kp_round_up(size, KP_PAGE_SIZE);
	char *data = unit_memory(padded);
	uint32_t words[BLOCK / 4];
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_le(st.st_size, victim == ALL ? padded : size);
	unit_read_file(path, data, st.st_size, 0);
	for (unsigned int nr = 0; nr < NR_JOBS; nr++) {
		for (unsigned int block = 0; block < NR_BLOCKS; block++) {
			memcpy(words, data + position(c, nr, block), BLOCK);
			check_block(c, words, victim == ALL || victim == (int)nr, nr, block);
		}
	}
	munmap(data, padded);
}

static void set_up(const struct variant_case *c)
{
	static struct kp_cache_options options = {
		.dirty_bytes = 256 * KIB,
		.dirty_background_bytes = 64 * KIB,
		.cache_bytes = MIB,
		.dirty_writeback_centisecs = 20,
		.dirty_expire_centisecs = 20,
		.read_ahead_kb = 32,
		.nr_to_write = 16,
	};
	const struct kp_variant *variant;
	char why[256];

	unit_init(&unit, unit_random() & 1 ? "libaio" : "io_uring");
	ck_assert_int_eq(kp_policy_find(c->policy, c->name, NULL, &variant, why, sizeof(why)), 0);
	unit_add_stage(&unit, c->policy, variant, &options);
	ck_assert_int_eq(kp_policy_find(&kp_plug_policy, NULL, NULL, &variant, why, sizeof(why)),
			 0);
	unit_add_stage(&unit, &kp_plug_policy, variant, NULL);
	strcpy(path, unit_path("kill"));
	unit_make_file(path, "", 0);
	jobs = mmap(NULL, NR_JOBS * sizeof(*jobs), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(jobs, MAP_FAILED);
}

static void start_jobs(const struct variant_case *c, pid_t *pids)
{
	set_up(c);
	for (unsigned int i = 0; i < NR_JOBS; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (!pids[i])
			run_job(c, i);
	}
	wait_for_jobs();
	usleep(unit_between(0, 50000));
}

static void end_round(void)
{
	unlink(path);
	munmap(jobs, NR_JOBS * sizeof(*jobs));
	kp_arena_destroy(unit.arena);
}

static void kill_round(const struct variant_case *c, bool flusher)
{
	pid_t pids[NR_JOBS], thread;
	int victim = unit_between(0, NR_JOBS - 1), status;

	start_jobs(c, pids);
	thread = flusher_thread();
	if (flusher && job_of(pids, thread) >= 0)
		victim = job_of(pids, thread);
	flusher = job_of(pids, thread) == victim;
	kill(pids[victim], SIGKILL);
	if (flusher)
		wait_for_successor(thread);
	usleep(unit_between(0, 100000));
	for (unsigned int i = 0; i < NR_JOBS; i++)
		__atomic_store_n(&jobs[i].stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NR_JOBS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		if (i != victim)
			ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status),
				      "%s: job %d ended with %x", c->name, i, status);
	}
	check_device(c, victim);
	end_round();
}

/* Kill the jobs in any order, the flusher's first or last, so that others take over meanwhile. */
static void kill_all_round(const struct variant_case *c)
{
	unsigned int first = unit_between(0, NR_JOBS - 1), pause = unit_between(0, 3) * 100;
	pid_t pids[NR_JOBS];
	int status;

	start_jobs(c, pids);
	for (unsigned int i = 0; i < NR_JOBS; i++) {
		kill(pids[(first + i) % NR_JOBS], SIGKILL);
		usleep(pause);
	}
	for (unsigned int i = 0; i < NR_JOBS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert(WIFSIGNALED(status));
	}
	check_device(c, ALL);
	end_round();
}

static int rounds(void)
{
	const char *text = getenv("KP_ROUNDS");

	return text ? atoi(text) : ROUNDS;
}

START_TEST(test_kill_random_job)
{
	unit_seed = kp_now_ns() | 1;
	for (int i = 0; i < rounds(); i++)
		kill_round(&cases[i % NR_CASES], false);
}
END_TEST

START_TEST(test_kill_flusher)
{
	unit_seed = kp_now_ns() | 1;
	for (int i = 0; i < rounds(); i++)
		kill_round(&cases[i % NR_CASES], true);
}
END_TEST

START_TEST(test_kill_all)
{
	unit_seed = kp_now_ns() | 1;
	for (int i = 0; i < rounds(); i++)
		kill_all_round(&cases[i % NR_CASES]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache_kill");
	TCase *tests = tcase_create("kill");

	tcase_set_timeout(tests, 140);
	tcase_add_test(tests, test_kill_random_job);
	tcase_add_test(tests, test_kill_flusher);
	tcase_add_test(tests, test_kill_all);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
