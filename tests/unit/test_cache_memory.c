// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of the page cache (time limit: 120): it is populated before the job begins, also
 * where madvise() cannot do that, and no more of it than the job can use.
 */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "unit_cache.h"

#define SIZE  (32 * MIB)
#define PAGES ((unsigned int)(SIZE / KP_PAGE_SIZE))

static unsigned char buffer[MIB] __attribute__((aligned(4096)));
static bool old_kernel;
static unsigned int nr_refused;

/* This takes the place of the C library's. Kernels before 5.14 do not know MADV_POPULATE_WRITE. */
int madvise(void *addr, size_t len, int advice)
{
	if (old_kernel && advice == MADV_POPULATE_WRITE) {
		nr_refused++;
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_madvise, addr, len, advice);
}

static unsigned long faults(void)
{
	struct rusage usage;

	ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_minflt;
}

static void set_up(unsigned int kernel)
{
	old_kernel = kernel % 2;
	set_up_case(&cases[6], "null");
	unit.config.device.null.memory_backed = false;
	unit.config.data_size = SIZE;
	options.cache_bytes = 8 * SIZE;
	options.dirty_bytes = 4 * SIZE;
	options.dirty_background_bytes = 2 * SIZE;
	unit_fill(buffer, sizeof(buffer));
}

/* Write @size bytes of a file. Return: the page faults that this took. */
static unsigned long write_file(const char *name, uint64_t size)
{
	struct kp_file *file = unit_open(&unit, name, O_RDWR);
	unsigned long before;
	struct kp_io io;

	/* The first writeback touches memory that is not the pool's. */
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 0, buffer, MIB), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, file, 0, NULL, 0), 0);
	before = faults();
	for (uint64_t pos = MIB; pos < size; pos += MIB)
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, pos, buffer, MIB), 0);
	before = faults() - before;
	ck_assert_int_eq(kp_file_close(file), 0);
	return before;
}

/*
 * Jobs run one after the other, each with a file of its own, while the cache keeps the pages of
 * those before.
 */
START_TEST(test_one_after_the_other)
{
	static const char *const names[] = { "a", "b", "c" };

	set_up(_i);
	for (unsigned int i = 0; i < 3; i++) {
		unit_start(&unit);
		ck_assert_uint_lt(write_file(names[i], SIZE), PAGES / 20);
		ck_assert_uint_ge(cache_totals(cache()).pages, (i + 1) * PAGES);
		ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	}
	ck_assert_int_eq(nr_refused != 0, _i);
	kp_arena_destroy(unit.arena);
}
END_TEST

/* Two jobs at once: each needs memory for its own data. */
START_TEST(test_two_at_once)
{
	struct kp_pipeline *second, *first;

	set_up(_i);
	unit.config.data_id = 1;
	unit_start(&unit);
	first = unit.pl;
	unit.config.data_id = 2;
	ck_assert_int_eq(kp_pipeline_create(&second, &unit.config), 0);
	ck_assert_uint_lt(write_file("a", SIZE), PAGES / 20);
	unit.pl = second;
	ck_assert_uint_lt(write_file("b", SIZE), PAGES / 20);
	ck_assert_int_eq(kp_pipeline_destroy(first), 0);
	unit_exit(&unit);
}
END_TEST

/* Another process populates for itself what the first has populated. */
START_TEST(test_other_process)
{
	int status;
	pid_t pid;

	set_up(_i);
	unit.config.data_id = 1;
	unit_start(&unit);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unit_start(&unit);
		_exit(write_file("a", SIZE) >= PAGES / 20);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	unit_exit(&unit);
}
END_TEST

/* Count the pages of the pool that have memory. */
static unsigned int resident(void)
{
	unsigned char in_core[PAGES_PER_CHUNK];
	unsigned int nr = 0;

	for (unsigned int i = 0; i < CACHE_CHUNKS && cache()->chunks[i]; i++) {
		char *memory = (char *)cache()->chunks[i]->data;

		ck_assert_int_eq(mincore(memory, sizeof(cache()->chunks[i]->data), in_core), 0);
		for (unsigned int j = 0; j < PAGES_PER_CHUNK; j++)
			nr += in_core[j] & 1;
	}
	return nr;
}

/* Jobs with the same data populate memory for it once, and the limits hold. */
START_TEST(test_no_more_than_needed)
{
	struct kp_pipeline *pls[8];

	set_up(_i);
	unit.config.data_size = 4 * MIB;
	unit.config.data_id = 7;
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_int_eq(kp_pipeline_create(&pls[i], &unit.config), 0);
	/* The pool populates whole chunks. */
	ck_assert_uint_le(resident(), 4 * MIB / KP_PAGE_SIZE + PAGES_PER_CHUNK);
	unit.config.data_size = 1ull << 40;
	unit_start(&unit);
	ck_assert_uint_le(resident(), 12 * SIZE / KP_PAGE_SIZE + PAGES_PER_CHUNK);
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_int_eq(kp_pipeline_destroy(pls[i]), 0);
	unit_exit(&unit);
}
END_TEST

/* Another job's dirty pages keep their contents. */
START_TEST(test_contents_stay)
{
	static unsigned char data[MIB];
	struct kp_pipeline *second;
	struct kp_file *file;
	struct kp_io io;

	set_up(_i);
	unit.config.data_size = 0;
	unit_start(&unit);
	file = unit_open(&unit, "a", O_RDWR);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 0, buffer, MIB), 0);
	unit.config.data_size = SIZE;
	ck_assert_int_eq(kp_pipeline_create(&second, &unit.config), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, 0, data, MIB), 0);
	ck_assert_mem_eq(data, buffer, MIB);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(second), 0);
	unit_exit(&unit);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache_memory");
	TCase *tests = tcase_create("memory");
	const char *sanitizer = getenv("KP_SANITIZE");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, test_no_more_than_needed, 0, 2);
	tcase_add_loop_test(tests, test_contents_stay, 0, 2);
	/* Sanitizers take page faults of their own. */
	if (!sanitizer || !*sanitizer) {
		tcase_add_loop_test(tests, test_one_after_the_other, 0, 2);
		tcase_add_loop_test(tests, test_two_at_once, 0, 2);
		tcase_add_loop_test(tests, test_other_process, 0, 2);
	}
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
