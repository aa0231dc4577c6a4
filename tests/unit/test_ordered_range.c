// SPDX-License-Identifier: GPL-2.0-only
/* Ranges in flight: who waits for whom, across threads and processes; jobs that die. */
#include <signal.h>
#include <sys/wait.h>

#include "core/liveness.h"
#include "policy/checksum/ordered_range.h"
#include "unit.h"

#define MAX_PARTS 40

/* A pipeline that takes ranges: no stage needs to be behind it. */
struct party {
	struct unit unit;
	struct kp_file *file;
	struct kp_range_owner owner;
	struct kp_range *parts;
	uint64_t wait_ns[KP_TIME_VALUES];
};

static struct kp_arena *arena;
static struct kp_range_table *table;
static const char *path;
static uint64_t lost_start, lost_end;
static unsigned int nr_lost;

static void lost(struct kp_range_owner *owner, struct kp_file *file, uint64_t start, uint64_t end)
{
	(void)owner;
	(void)file;
	lost_start = start;
	lost_end = end;
	nr_lost++;
}

static void setup(void)
{
	path = unit_path("ranges");
	unit_make_file(path, "x", 1);
	ck_assert_int_eq(kp_arena_create(&arena, 1ull << 34), 0);
	table = kp_arena_alloc(arena, sizeof(*table));
}

static void teardown(void)
{
	kp_arena_destroy(arena);
	unlink(path);
}

static void join(struct party *party)
{
	memset(party, 0, sizeof(*party));
	party->unit.config = (struct kp_pipeline_config){
		.arena = arena,
		.device.backend = "psync",
		.depth = 4,
		.max_io_size = MIB,
	};
	unit_start(&party->unit);
	ck_assert_ptr_nonnull(party->unit.pl);
	party->file = unit_open(&party->unit, path, O_RDWR);
	party->owner = (struct kp_range_owner){
		.pipeline = party->unit.pl,
		.stage = party->unit.pl->first,
		.lost = lost,
		.wait_ns = party->wait_ns,
	};
	ck_assert_int_eq(kp_liveness_join(arena, &party->owner.id), 0);
	kp_range_open(&party->owner, party->file);
	party->parts = kp_arena_alloc(arena, 64 * MAX_PARTS * sizeof(*party->parts));
}

static void leave(struct party *party)
{
	kp_liveness_leave(arena, party->owner.id);
	kp_pipeline_destroy(party->unit.pl);
}

static struct kp_range *parts_of(struct party *party, unsigned int i)
{
	return party->parts + (size_t)i * MAX_PARTS;
}

static int take(struct party *party, unsigned int i, uint64_t start, uint64_t end, bool write)
{
	/* A device without anything in flight ends a wait for ourselves. */
	party->owner.stage = party->unit.pl->first;
	return kp_range_lock(&party->owner, table, party->file, parts_of(party, i), start, end,
			     write);
}

static void give(struct party *party, unsigned int i, uint64_t start, uint64_t end)
{
	kp_range_unlock(&party->owner, table, parts_of(party, i), kp_range_parts(start, end));
}

START_TEST(parts)
{
	ck_assert_uint_eq(kp_range_parts(0, 1), 1);
	ck_assert_uint_eq(kp_range_parts(0, 65536), 1);
	ck_assert_uint_eq(kp_range_parts(0, 65537), 2);
	ck_assert_uint_eq(kp_range_parts(65535, 65537), 2);
	ck_assert_uint_eq(kp_range_parts(4096, 65536 * 3 + 4096), 4);
}
END_TEST

/* Who holds a range itself and has nothing in flight would wait for ever: it is told. */
START_TEST(conflicts)
{
	static const struct {
		uint64_t start, end;
		bool write, free_of_read, free_of_write;
	} cases[] = {
		/* against [64 KiB, 192 KiB) */
		{ 0, 64 * KIB, true, true, true },
		{ 0, 64 * KIB + 4096, true, false, false },
		{ 0, 64 * KIB + 4096, false, true, false },
		{ 128 * KIB, 132 * KIB, true, false, false },
		{ 128 * KIB, 132 * KIB, false, true, false },
		{ 188 * KIB, 400 * KIB, true, false, false },
		{ 192 * KIB, 400 * KIB, true, true, true },
		{ 0, MIB, false, true, false },
		/* the same bucket, another part of the file */
		{ 64 * MIB + 64 * KIB, 64 * MIB + 192 * KIB, true, true, true },
	};
	struct party party;

	setup();
	join(&party);
	for (int write = 0; write < 2; write++) {
		ck_assert_int_eq(take(&party, 0, 64 * KIB, 192 * KIB, write), 0);
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			bool is_free = write ? cases[i].free_of_write : cases[i].free_of_read;
			int ret = take(&party, 1, cases[i].start, cases[i].end, cases[i].write);

			ck_assert_msg(ret == (is_free ? 0 : -EDEADLK), "case %zu: %d", i, ret);
			if (!ret)
				give(&party, 1, cases[i].start, cases[i].end);
		}
		give(&party, 0, 64 * KIB, 192 * KIB);
		/* nothing stays behind */
		ck_assert_int_eq(take(&party, 1, 0, MIB, true), 0);
		give(&party, 1, 0, MIB);
	}
	leave(&party);
	teardown();
}
END_TEST

/* ---- threads and processes ----------------------------------------------------------------- */

#define GRAIN	4096ull
#define GRAINS	256u
#define PARTIES 4

struct board {
	int32_t grain[GRAINS]; /* atomic; -1: a writer, else readers */
	uint32_t wrong;
};

static struct board *board;

static void enter(unsigned int first, unsigned int end, bool write)
{
	for (unsigned int i = first; i < end; i++) {
		int32_t before = write ? __atomic_fetch_sub(&board->grain[i], 1, __ATOMIC_SEQ_CST)
				       : __atomic_fetch_add(&board->grain[i], 1, __ATOMIC_SEQ_CST);

		if (before < 0 || (write && before))
			__atomic_fetch_add(&board->wrong, 1, __ATOMIC_SEQ_CST);
	}
}

static void exit_range(unsigned int first, unsigned int end, bool write)
{
	for (unsigned int i = first; i < end; i++)
		__atomic_fetch_add(&board->grain[i], write ? 1 : -1, __ATOMIC_SEQ_CST);
}

static void hammer(unsigned int seed, unsigned int rounds)
{
	struct party party;

	join(&party);
	unit_seed = seed + 1;
	for (unsigned int round = 0; round < rounds; round++) {
		unsigned int nr = unit_between(1, 40), first = unit_between(0, GRAINS - nr);
		bool write = unit_between(0, 1);

		ck_assert_int_eq(take(&party, 0, first * GRAIN, (first + nr) * GRAIN, write), 0);
		enter(first, first + nr, write);
		if (round % 16 == 0)
			usleep(unit_between(1, 50));
		exit_range(first, first + nr, write);
		give(&party, 0, first * GRAIN, (first + nr) * GRAIN);
	}
	leave(&party);
}

static void *hammer_thread(void *arg)
{
	hammer((uintptr_t)arg, 4000);
	return NULL;
}

static void check_board(void)
{
	ck_assert_uint_eq(board->wrong, 0);
	for (unsigned int i = 0; i < GRAINS; i++)
		ck_assert_int_eq(board->grain[i], 0);
}

START_TEST(exclusion_threads)
{
	pthread_t threads[PARTIES];

	setup();
	board = kp_arena_alloc(arena, sizeof(*board));
	for (uintptr_t i = 0; i < PARTIES; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer_thread, (void *)i), 0);
	for (int i = 0; i < PARTIES; i++)
		pthread_join(threads[i], NULL);
	check_board();
	teardown();
}
END_TEST

static void reap_children(int nr)
{
	for (int i = 0; i < nr; i++) {
		int status;

		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
}

START_TEST(exclusion_processes)
{
	setup();
	board = kp_arena_alloc(arena, sizeof(*board));
	for (int i = 0; i < PARTIES; i++) {
		if (!fork()) {
			hammer(i, 4000);
			_exit(0);
		}
	}
	reap_children(PARTIES);
	check_board();
	teardown();
}
END_TEST

/* ---- death --------------------------------------------------------------------------------- */

START_TEST(liveness)
{
	uint32_t id, *other, again;
	int fds[2], status;
	char byte;
	pid_t pid;

	setup();
	other = kp_arena_alloc(arena, sizeof(*other));
	ck_assert_int_eq(kp_liveness_join(arena, &id), 0);
	ck_assert(!kp_liveness_dead(arena, id));
	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		kp_liveness_join(arena, other);
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	ck_assert(!kp_liveness_dead(arena, *other));
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < 3; i++)
		ck_assert(kp_liveness_dead(arena, *other));
	/* An id of the dead is not handed out, one that was given back is. */
	ck_assert_int_eq(kp_liveness_join(arena, &again), 0);
	ck_assert_uint_ne(again, *other);
	kp_liveness_leave(arena, again);
	ck_assert(!kp_liveness_dead(arena, again));
	kp_liveness_leave(arena, id);
	teardown();
}
END_TEST

static void count_leftover(void *arg, uint64_t start, uint64_t end)
{
	*(uint64_t *)arg += end - start;
}

/* A child that does @work, which may not return, and then sits there until killed. */
static pid_t start_child(void (*work)(struct party *party), bool blocks)
{
	int fds[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		struct party child;

		join(&child);
		if (!blocks)
			work(&child);
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		if (blocks)
			work(&child);
		pause();
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

static void kill_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}

#define NR_PIECES 64u

static void take_much(struct party *party)
{
	for (unsigned int i = 0; i < NR_PIECES; i++)
		take(party, i, i * 64 * KIB, i * 64 * KIB + 4 * KIB, true);
}

/* The dead are found out once, not once for each place where they had something. */
START_TEST(killed_holder_of_much)
{
	struct party party;
	uint64_t begun;

	setup();
	join(&party);
	kill_child(start_child(take_much, false));
	begun = kp_now_ns();
	ck_assert_int_eq(take(&party, 0, 0, 16 * 64 * KIB, true), 0);
	for (unsigned int i = 16; i < NR_PIECES; i++)
		ck_assert_int_eq(take(&party, i, i * 64 * KIB, i * 64 * KIB + 512, false), 0);
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(1000 * 1000000ull));
	ck_assert_uint_eq(nr_lost, NR_PIECES);
	leave(&party);
	teardown();
}
END_TEST

/* Does somebody wait for a range? */
static bool somebody_waits(void)
{
	for (unsigned int i = 0; i < KP_RANGE_BUCKETS; i++)
		if (__atomic_load_n(&table->buckets[i].waiters, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

/* Of [0, 128K) the second half is not free. */
static void wait_for_parent(struct party *party)
{
	take(party, 0, 0, 128 * KIB, true);
}

/* What a job had only waited for when it died was not written: the sums there are good. */
START_TEST(killed_waiter)
{
	uint64_t bytes = 0;
	struct party party;
	pid_t pid;

	setup();
	join(&party);
	ck_assert_int_eq(take(&party, 0, 64 * KIB, 68 * KIB, true), 0);
	pid = start_child(wait_for_parent, true);
	ck_assert(unit_until(somebody_waits()));
	kill_child(pid);
	give(&party, 0, 64 * KIB, 68 * KIB);
	kp_range_leftover(table, count_leftover, &bytes);
	ck_assert_uint_eq(bytes, 0);
	ck_assert_int_eq(take(&party, 0, 0, 128 * KIB, true), 0);
	ck_assert_uint_eq(nr_lost, 0);
	give(&party, 0, 0, 128 * KIB);
	leave(&party);
	teardown();
}
END_TEST

/* A child that is killed with ranges held: the parent gets them, and hears of those written. */
START_TEST(killed_holder)
{
	struct party party;
	int fds[2], status;
	char byte;
	pid_t pid;
	uint64_t begun;

	setup();
	join(&party);
	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		struct party child;

		join(&child);
		take(&child, 0, 0, 8 * KIB, true);
		take(&child, 1, 128 * KIB, 256 * KIB, false);
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	begun = kp_now_ns();
	ck_assert_int_eq(take(&party, 0, 4 * KIB, 12 * KIB, true), 0);
	ck_assert_uint_eq(nr_lost, 1);
	ck_assert_uint_eq(lost_start, 0);
	ck_assert_uint_eq(lost_end, 8 * KIB);
	ck_assert_int_eq(take(&party, 1, 128 * KIB, 256 * KIB, true), 0);
	ck_assert_uint_eq(nr_lost, 1); /* what was only read is not lost */
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(3000000000ull));
	ck_assert_uint_eq(party.wait_ns[0], 1); /* the dead were buried everywhere */
	give(&party, 0, 4 * KIB, 12 * KIB);
	give(&party, 1, 128 * KIB, 256 * KIB);
	leave(&party);
	teardown();
}
END_TEST

static bool let_go;

/* End the I/O of the dead job, when the range has been waited for long enough to look for the dead. */
static void *end_io(void *fd)
{
	if (!unit_until(somebody_waits()))
		return NULL;
	usleep(400000);
	__atomic_store_n(&let_go, true, __ATOMIC_SEQ_CST);
	close(*(int *)fd);
	return NULL;
}

/* As long as the dead job's open file is referenced, its I/O may be in flight: not before. */
START_TEST(killed_holder_drains)
{
	struct party party;
	pthread_t ender;
	int fds[2], end[2], status, keep;
	char byte;
	pid_t pid, holder;

	setup();
	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(pipe(end), 0);
	pid = fork();
	if (!pid) {
		struct party child;

		join(&child);
		take(&child, 0, 0, 8 * KIB, true);
		holder = fork(); /* has the file open, as the kernel has for an I/O in flight */
		if (!holder) {
			keep = dup(child.file->fd);
			close(end[1]);
			_exit(keep < 0 || read(end[0], &byte, 1)); /* until it is closed */
		}
		close(end[1]);
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	join(&party);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(pthread_create(&ender, NULL, end_io, &end[1]), 0);
	ck_assert_int_eq(take(&party, 0, 0, 4 * KIB, true), 0);
	ck_assert(__atomic_load_n(&let_go, __ATOMIC_SEQ_CST));
	ck_assert_int_eq(pthread_join(ender, NULL), 0);
	ck_assert_uint_eq(nr_lost, 1);
	give(&party, 0, 0, 4 * KIB);
	leave(&party);
	teardown();
}
END_TEST

START_TEST(leftover)
{
	uint64_t bytes = 0;
	struct party party;

	setup();
	join(&party);
	ck_assert_int_eq(take(&party, 0, 60 * KIB, 200 * KIB, true), 0);
	ck_assert_int_eq(take(&party, 1, 0, 4 * KIB, false), 0);
	kp_range_leftover(table, count_leftover, &bytes);
	ck_assert_uint_eq(bytes, 140 * KIB);
	give(&party, 0, 60 * KIB, 200 * KIB);
	give(&party, 1, 0, 4 * KIB);
	leave(&party);
	teardown();
}
END_TEST

/* Processes that are killed anywhere, again and again, in the middle of a lock too. */
START_TEST(killed_at_random)
{
	struct party party;

	setup();
	board = kp_arena_alloc(arena, sizeof(*board));
	join(&party);
	for (int round = 0; round < 12; round++) {
		pid_t pids[3];
		int status;

		for (int i = 0; i < 3; i++) {
			pids[i] = fork();
			if (!pids[i]) {
				hammer(round * 3 + i, 1000000);
				_exit(0);
			}
		}
		usleep(unit_between(5000, 30000));
		/* All at a time: the board does not know that one is dead, and the others would go on. */
		for (int i = 0; i < 3; i++) {
			kill(pids[i], SIGSTOP);
			ck_assert_int_eq(waitpid(pids[i], &status, WUNTRACED), pids[i]);
		}
		for (int i = 0; i < 3; i++)
			kill_child(pids[i]);
		/* All that they held can be had. */
		ck_assert_int_eq(take(&party, 0, 0, GRAINS * GRAIN, true), 0);
		memset(board->grain, 0, sizeof(board->grain));
		give(&party, 0, 0, GRAINS * GRAIN);
	}
	ck_assert_uint_eq(board->wrong, 0);
	leave(&party);
	teardown();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ordered_range");
	TCase *tcase = tcase_create("ordered_range");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, parts);
	tcase_add_test(tcase, conflicts);
	tcase_add_test(tcase, exclusion_threads);
	tcase_add_test(tcase, exclusion_processes);
	tcase_add_test(tcase, liveness);
	tcase_add_test(tcase, killed_holder);
	tcase_add_test(tcase, killed_holder_of_much);
	tcase_add_test(tcase, killed_waiter);
	tcase_add_test(tcase, killed_holder_drains);
	tcase_add_test(tcase, leftover);
	tcase_add_test(tcase, killed_at_random);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
