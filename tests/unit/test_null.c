// SPDX-License-Identifier: GPL-2.0-only
/*
 * The null device: time that depth, bandwidth and forked processes share, contents, bad blocks.
 * Times have lower bounds that hold on any machine, and upper ones that hold on a busy one.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit.h"

#define MS 1000000ull

struct null_test {
	struct unit unit;
	struct kp_null_options *options;
	struct kp_file *file;
	char *buffer;
};

static void begin(struct null_test *test)
{
	unit_init(&test->unit, "null");
	test->options = &test->unit.config.device.null;
	*test->options = (struct kp_null_options){ 0 };
	test->unit.config.depth = 128;
}

static void start(struct null_test *test)
{
	unit_start(&test->unit);
	test->file = unit_open(&test->unit, "model", O_RDWR);
	test->buffer = unit_memory(MIB);
}

/* @nr I/Os of @size at once. Return: nanoseconds until the last has ended. */
static uint64_t batch(struct null_test *test, unsigned int nr, enum kp_op op, size_t size)
{
	static struct kp_io ios[128];
	uint64_t begun = kp_now_ns();

	for (unsigned int i = 0; i < nr; i++) {
		kp_io_prepare(&ios[i], op, test->file, 0, test->buffer, size);
		ck_assert_int_eq(kp_submit(test->unit.pl, &ios[i]), 0);
	}
	kp_commit(test->unit.pl);
	ck_assert_int_eq(kp_reap(test->unit.pl, nr, nr, NULL), nr);
	return kp_now_ns() - begun;
}

static void between(uint64_t ns, uint64_t least, uint64_t most)
{
	ck_assert_msg(ns >= least && ns < most, "%lu us, not %lu to %lu", ns / 1000, least / 1000,
		      most / 1000);
}

START_TEST(latency_at_depth)
{
	static const unsigned int depths[] = { 1, 2, 17, 64 };
	struct null_test test;

	begin(&test);
	test.options->read_nsec = 20 * MS;
	start(&test);
	for (int i = 0; i < 4; i++)
		between(batch(&test, depths[i], KP_OP_READ, 4096), 20 * MS, 120 * MS);
	/* 128 through the default of 64: two rounds */
	between(batch(&test, 128, KP_OP_READ, 4096), 40 * MS, 200 * MS);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(queue_depth)
{
	struct null_test test;

	begin(&test);
	test.options->write_nsec = 10 * MS;
	test.options->queue_depth = 4;
	start(&test);
	between(batch(&test, 32, KP_OP_WRITE, 4096), 80 * MS, 400 * MS);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(submit_nsec_is_serial)
{
	struct null_test test;

	begin(&test);
	test.options->submit_nsec = 2 * MS;
	start(&test);
	between(batch(&test, 32, KP_OP_READ, 4096), 64 * MS, 300 * MS);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(bandwidth)
{
	struct null_test test;

	begin(&test);
	test.options->mbps = 200; /* 1 MiB in 5.24 ms */
	start(&test);
	between(batch(&test, 20, KP_OP_READ, MIB), 104 * MS, 500 * MS);
	/* A discard moves no data. */
	between(batch(&test, 20, KP_OP_DISCARD, MIB), 0, 50 * MS);
	unit_exit(&test.unit);
}
END_TEST

/* Reads overtake slow writes; each ends at its own deadline, not before. */
START_TEST(deadlines_in_order)
{
	struct kp_io ios[40];
	struct null_test test;
	unsigned int ended = 0, reads = 0;
	uint64_t begun;

	begin(&test);
	test.options->read_nsec = 20 * MS;
	test.options->write_nsec = 60 * MS;
	start(&test);
	begun = kp_now_ns();
	for (int i = 0; i < 40; i++) {
		kp_io_prepare(&ios[i], i % 2 ? KP_OP_READ : KP_OP_WRITE, test.file, 0, test.buffer,
			      4096);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	while (ended < 40) {
		int nr = kp_reap(test.unit.pl, 1, 40, NULL);
		uint64_t now = kp_now_ns();

		ck_assert_int_gt(nr, 0);
		for (int i = 0; i < nr; i++, ended++) {
			bool read = kp_reaped(test.unit.pl, i)->bio.op == KP_OP_READ;

			ck_assert_uint_ge(now - begun, read ? 20 * MS : 60 * MS);
			ck_assert_int_eq(read, reads < 20);
			reads += read;
		}
	}
	unit_exit(&test.unit);
}
END_TEST

/* Who wants many at a time sleeps until the last of them is due, and is not woken for each. */
START_TEST(reap_of_many_sleeps_once)
{
	struct rusage before, after;
	struct null_test test;

	begin(&test);
	test.options->mbps = 4; /* 4 KiB in 1 ms */
	start(&test);
	getrusage(RUSAGE_THREAD, &before);
	between(batch(&test, 64, KP_OP_WRITE, 4096), 65 * MS, 300 * MS);
	getrusage(RUSAGE_THREAD, &after);
	ck_assert_int_lt(after.ru_nvcsw - before.ru_nvcsw, 8);
	unit_exit(&test.unit);
}
END_TEST

/* And not for longer: of reads and writes in flight, for the number that is wanted. */
START_TEST(reap_of_some_waits_for_those)
{
	struct kp_io ios[60];
	struct null_test test;
	uint64_t begun;

	begin(&test);
	test.options->read_nsec = 20 * MS;
	test.options->write_nsec = 200 * MS;
	start(&test);
	begun = kp_now_ns();
	for (int i = 0; i < 60; i++) {
		kp_io_prepare(&ios[i], i % 3 ? KP_OP_WRITE : KP_OP_READ, test.file, 0, test.buffer,
			      4096);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	ck_assert_int_eq(kp_reap(test.unit.pl, 20, 60, NULL), 20);
	between(kp_now_ns() - begun, 20 * MS, 200 * MS);
	ck_assert_int_eq(kp_reap(test.unit.pl, 40, 60, NULL), 40);
	between(kp_now_ns() - begun, 200 * MS, 500 * MS);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(synchronous_waits_in_submit)
{
	struct null_test test;
	struct kp_io io;
	uint64_t begun;

	begin(&test);
	test.options->read_nsec = 20 * MS;
	test.options->synchronous = true;
	start(&test);
	begun = kp_now_ns();
	kp_io_prepare(&io, KP_OP_READ, test.file, 0, test.buffer, 4096);
	ck_assert_int_eq(kp_submit(test.unit.pl, &io), 0);
	between(kp_now_ns() - begun, 20 * MS, 120 * MS);
	ck_assert_int_eq(kp_reap(test.unit.pl, 0, 1, NULL), 1);
	unit_exit(&test.unit);
}
END_TEST

/* Forked processes, each with its own pipeline and file: one device. */
static uint64_t forked(struct null_test *test, int processes, unsigned int ios, size_t size)
{
	uint64_t begun = kp_now_ns();
	pid_t pids[8];

	for (int i = 0; i < processes; i++) {
		char name[32];

		pids[i] = fork();
		if (pids[i])
			continue;
		snprintf(name, sizeof(name), "model.%d", i);
		unit_start(&test->unit);
		test->file = unit_open(&test->unit, name, O_RDWR);
		test->buffer = unit_memory(MIB);
		batch(test, ios, KP_OP_READ, size);
		_exit(0);
	}
	for (int i = 0; i < processes; i++) {
		int status;

		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	return kp_now_ns() - begun;
}

START_TEST(bandwidth_shared_by_processes)
{
	struct null_test test;

	begin(&test);
	test.options->mbps = 200;
	between(forked(&test, 4, 8, MIB), 160 * MS, 800 * MS);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(depth_shared_by_processes)
{
	struct null_test test;

	begin(&test);
	test.options->read_nsec = 20 * MS;
	test.options->queue_depth = 2;
	/* Two that pick a server at the same moment may queue behind one another. */
	between(forked(&test, 4, 4, 4096), 160 * MS, 900 * MS);
	unit_exit(&test.unit);
}
END_TEST

/* Free of cost: ends in submission, and nothing is kept. */
START_TEST(free_of_cost)
{
	struct null_test test;
	struct kp_io io;

	begin(&test);
	start(&test);
	memset(test.buffer, 0x77, 4096);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, 0, test.buffer, 4096), 0);
	ck_assert_int_eq(test.buffer[4095], 0x77);
	for (unsigned int op = 0; op < KP_NR_OPS; op++)
		ck_assert_int_eq(unit_io(&test.unit, &io, op, test.file, 0, test.buffer, 4096), 0);
	ck_assert_int_eq(access("model", F_OK), -1);
	ck_assert_int_eq(kp_file_fd(test.file), -1);
	unit_exit(&test.unit);
}
END_TEST

/* ---- bad blocks ---------------------------------------------------------------------------- */

START_TEST(badblocks)
{
	static const struct {
		uint64_t sector, sectors;
		int error;
	} table[] = {
		{ 0, 16, 0 },	{ 0, 17, -EIO },  { 16, 1, -EIO },   { 23, 1, -EIO },
		{ 24, 8, 0 },	{ 8, 100, -EIO }, { 1023, 1, 0 },    { 1024, 1, -EIO },
		{ 1025, 1, 0 }, { 99, 2, 0 },	  { 5000, 1000, 0 },
	};
	static const unsigned int ops[] = { KP_OP_READ, KP_OP_WRITE, KP_OP_DISCARD };

	for (int timed = 0; timed < 3; timed++) {
		struct null_test test;
		struct kp_io io;

		begin(&test);
		test.options->badblocks = "16-23,1024";
		test.options->memory_backed = true;
		test.options->read_nsec = test.options->write_nsec = timed ? 1000 : 0;
		test.options->synchronous = timed == 2;
		start(&test);
		for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
			for (int j = 0; j < 3; j++)
				ck_assert_int_eq(unit_io(&test.unit, &io, ops[j], test.file,
							 table[i].sector * 512, test.buffer,
							 table[i].sectors * 512),
						 table[i].error);
		}
		unit_exit(&test.unit);
	}
}
END_TEST

START_TEST(badblocks_text)
{
	static const char *const bad[] = { "x",
					   "5-",
					   "-5",
					   "7-3",
					   "1,,2",
					   "1-2-3",
					   "1;2",
					   "1 2",
					   "1,",
					   "",
					   "99999999999999999999" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct null_test test;

		begin(&test);
		test.options->badblocks = bad[i];
		unit_nr_said = 0;
		ck_assert_msg(kp_pipeline_create(&test.unit.pl, &test.unit.config) == -EINVAL,
			      "'%s' accepted", bad[i]);
		test.unit.pl = NULL;
		ck_assert_uint_eq(unit_nr_said, 1);
		ck_assert_ptr_nonnull(strstr(unit_said, bad[i]));
		unit_exit(&test.unit);
	}
}
END_TEST

/* ---- contents ------------------------------------------------------------------------------ */

/* Against an array: writes, reads and discards of any place and size. */
START_TEST(contents)
{
	enum { SIZE = 4 * 1024 * 1024, LARGEST = 200000 };
	/* Across the border of the 64 MiB pieces that contents come in. */
	const uint64_t base = 64 * MIB - SIZE / 2;
	char *model = unit_memory(SIZE), *buffer = unit_memory(LARGEST);
	struct null_test test;
	struct kp_io io;

	begin(&test);
	test.options->memory_backed = true;
	start(&test);
	for (int round = 0; round < 3000; round++) {
		size_t size = unit_between(1, unit_between(0, 1) ? 5000 : LARGEST);
		size_t at = unit_between(0, SIZE - size);
		unsigned int op = unit_between(0, 2);

		if (op == KP_OP_WRITE) {
			memset(buffer, round, size);
			memcpy(model + at, buffer, size);
		} else if (op == KP_OP_DISCARD) {
			memset(model + at, 0, size);
		}
		ck_assert_int_eq(unit_io(&test.unit, &io, op, test.file, base + at, buffer, size),
				 0);
		if (op == KP_OP_READ)
			ck_assert_mem_eq(buffer, model + at, size);
	}
	unit_exit(&test.unit);
}
END_TEST

/* One I/O larger than a piece, far out, and past the end of what can be kept. */
START_TEST(large_contents)
{
	const size_t size = 130 * MIB;
	char *data = unit_memory(size), *back = unit_memory(size);
	const uint64_t pos = 3ull << 40;
	struct null_test test;
	struct kp_io io;

	begin(&test);
	test.options->memory_backed = true;
	start(&test);
	for (size_t i = 0; i < size; i += 4096)
		*(uint64_t *)(data + i) = unit_random();
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_WRITE, test.file, pos + 512, data, size),
			 0);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, pos + 512, back, size), 0);
	ck_assert_int_eq(memcmp(data, back, size), 0);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_DISCARD, test.file, pos, NULL, 2 * size),
			 0);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, pos + 512, back, size), 0);
	memset(data, 0, size);
	ck_assert_int_eq(memcmp(data, back, size), 0);
	ck_assert_int_eq(
		unit_io(&test.unit, &io, KP_OP_WRITE, test.file, (16ull << 40) - 512, data, 1024),
		-ENOSPC);
	unit_exit(&test.unit);
}
END_TEST

static void write_in_child(struct null_test *test)
{
	struct kp_io io;

	start(test);
	memset(test->buffer, 0x3c, 8192);
	ck_assert_int_eq(
		unit_io(&test->unit, &io, KP_OP_WRITE, test->file, 4096, test->buffer, 8192), 0);
}

/* Contents belong to the file's name, in whatever process. */
START_TEST(contents_shared_by_name)
{
	struct null_test test;
	struct kp_file *other;
	struct kp_io io;
	int status;

	begin(&test);
	test.options->memory_backed = true;
	if (!fork()) {
		write_in_child(&test);
		_exit(0);
	}
	wait(&status);
	ck_assert_int_eq(status, 0);
	start(&test);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, 8192, test.buffer, 8192),
			 0);
	ck_assert_int_eq(test.buffer[4095], 0x3c);
	ck_assert_int_eq(test.buffer[4096], 0);
	other = unit_open(&test.unit, "other", O_RDWR);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, other, 8192, test.buffer, 8192), 0);
	ck_assert_int_eq(test.buffer[0], 0);
	unit_exit(&test.unit);
}
END_TEST

START_TEST(names_too_long)
{
	char name[4000];
	struct null_test test;
	struct kp_file *file;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	begin(&test);
	test.options->memory_backed = true;
	unit_start(&test.unit);
	ck_assert_int_eq(kp_file_open(test.unit.pl, name, O_RDWR, MIB, &file), -ENAMETOOLONG);
	ck_assert_int_eq(kp_file_open(test.unit.pl, "x", O_RDWR, UINT64_MAX, &file), -EFBIG);
	unit_exit(&test.unit);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("null");
	TCase *tcase = tcase_create("null");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, latency_at_depth);
	tcase_add_test(tcase, queue_depth);
	tcase_add_test(tcase, submit_nsec_is_serial);
	tcase_add_test(tcase, bandwidth);
	tcase_add_test(tcase, deadlines_in_order);
	tcase_add_test(tcase, reap_of_many_sleeps_once);
	tcase_add_test(tcase, reap_of_some_waits_for_those);
	tcase_add_test(tcase, synchronous_waits_in_submit);
	tcase_add_test(tcase, bandwidth_shared_by_processes);
	tcase_add_test(tcase, depth_shared_by_processes);
	tcase_add_test(tcase, free_of_cost);
	tcase_add_test(tcase, badblocks);
	tcase_add_test(tcase, badblocks_text);
	tcase_add_test(tcase, contents);
	tcase_add_test(tcase, large_contents);
	tcase_add_test(tcase, contents_shared_by_name);
	tcase_add_test(tcase, names_too_long);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
