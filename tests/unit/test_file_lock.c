// SPDX-License-Identifier: GPL-2.0-only
/* Locks beyond EOF: no two uses share an offset, and a lock lives as long as its open file. */
#include "core/file_lock.h"
#include "core/liveness.h"
#include "unit.h"

static int fds[2];

static void open_twice(void)
{
	const char *path = unit_path("locks");

	unit_make_file(path, "x", 1);
	fds[0] = open(path, O_RDWR);
	fds[1] = open(path, O_RDONLY);
	ck_assert(fds[0] >= 0 && fds[1] >= 0);
	unlink(path);
}

/* Each use has its own offsets, enough of them for every id, and off_t can hold the last. */
START_TEST(test_offsets)
{
	for (unsigned int a = 0; a < KP_NR_LOCK_USES; a++) {
		ck_assert_uint_le(kp_file_lock_offset(a, KP_FILE_LOCK_SPAN - 1), INT64_MAX);
		for (unsigned int b = a + 1; b < KP_NR_LOCK_USES; b++)
			ck_assert_uint_lt(kp_file_lock_offset(a, KP_FILE_LOCK_SPAN - 1),
					  kp_file_lock_offset(b, 0));
	}
	ck_assert_uint_lt(KP_LIVENESS_IDS, KP_FILE_LOCK_SPAN);
}
END_TEST

/* A lock of one use is not seen by any other use, whatever the ids. */
START_TEST(test_uses_apart)
{
	static const uint32_t ids[] = { 0, 1, 4711, KP_FILE_LOCK_SPAN - 1 };

	open_twice();
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		ck_assert_int_eq(kp_file_lock(fds[0], _i, ids[i]), 0);
	for (unsigned int use = 0; use < KP_NR_LOCK_USES; use++) {
		bool held = use == (unsigned int)_i;

		ck_assert_int_eq(kp_file_locked(fds[1], use, 0, KP_FILE_LOCK_SPAN - 1), held);
		ck_assert_int_eq(kp_file_locked(fds[1], use, 4711, 4711), held);
	}
	ck_assert(!kp_file_locked(fds[1], _i, 2, 4710));
	ck_assert(!kp_file_locked(fds[1], _i, 4712, KP_FILE_LOCK_SPAN - 2));
}
END_TEST

/* An owner has several open files; the lock is gone with the last of them. */
START_TEST(test_last_close)
{
	char path[64];
	int second;

	open_twice();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	second = open(path, O_RDONLY);
	ck_assert_int_ge(second, 0);
	ck_assert_int_eq(kp_file_lock(fds[0], _i, 7), 0);
	ck_assert_int_eq(kp_file_lock(second, _i, 7), 0);
	ck_assert(kp_file_locked(fds[1], _i, 7, 7));
	close(fds[0]);
	ck_assert(kp_file_locked(fds[1], _i, 7, 7));
	ck_assert(!kp_file_locked(second, _i, 7, 7)); /* it holds the only lock itself */
	close(second);
	ck_assert(!kp_file_locked(fds[1], _i, 7, 7));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file_lock");
	TCase *tests = tcase_create("file_lock");

	tcase_add_test(tests, test_offsets);
	tcase_add_loop_test(tests, test_uses_apart, 0, KP_NR_LOCK_USES);
	tcase_add_loop_test(tests, test_last_close, 0, KP_NR_LOCK_USES);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
