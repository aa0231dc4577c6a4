// SPDX-License-Identifier: GPL-2.0-only
/* The walk over a file's extents, against a file whose holes and unwritten blocks are known. */
#include "core/extents.h"
#include "unit.h"

#define BLOCK	  (64 * KIB)
#define NR_BLOCKS 1024u /* more extents than one system call returns */

struct seen {
	unsigned char state[NR_BLOCKS]; /* 0: hole, else the state of the extent + 1 */
	uint64_t end;
	unsigned int visits, stop_after;
};

static int note(uint64_t pos, uint64_t len, enum kp_extent_state state, void *arg)
{
	struct seen *seen = arg;

	ck_assert_uint_ge(pos, seen->end); /* in order, and none twice */
	seen->end = pos + len;
	for (uint64_t at = pos; at < pos + len && at < NR_BLOCKS * BLOCK; at += 4 * KIB)
		seen->state[at / BLOCK] = state + 1;
	return ++seen->visits == seen->stop_after ? -EINTR : 0;
}

/* Every third block is a hole, every third preallocated, every third written. */
START_TEST(walk)
{
	const char *path = unit_path("extents");
	struct seen seen = { .stop_after = _i ? 3 : 0 };
	char *data = unit_memory(BLOCK);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	bool prealloc = true;
	int ret;

	ck_assert_int_ge(fd, 0);
	for (unsigned int i = 0; i < NR_BLOCKS; i += 3)
		ck_assert_int_eq(pwrite(fd, data, BLOCK, i * BLOCK), BLOCK);
	for (unsigned int i = 1; i < NR_BLOCKS; i += 3)
		prealloc = prealloc && !fallocate(fd, 0, i * BLOCK, BLOCK);
	ret = kp_extents_walk(fd, note, &seen);
	close(fd);
	unlink(path);
	if (ret == -EOPNOTSUPP)
		return; /* this file system does not tell */
	if (_i) {
		ck_assert_int_eq(ret, -EINTR);
		ck_assert_uint_eq(seen.visits, 3);
		return;
	}
	ck_assert_int_eq(ret, 0);
	for (unsigned int i = 0; i < NR_BLOCKS; i++) {
		unsigned int wanted = i % 3 == 0   ? KP_EXTENT_WRITTEN + 1
				      : i % 3 == 1 ? KP_EXTENT_UNWRITTEN + 1
						   : 0;

		if (i % 3 != 1 || prealloc)
			ck_assert_msg(seen.state[i] == wanted, "block %u: %u, wanted %u", i,
				      seen.state[i], wanted);
	}
}
END_TEST

START_TEST(no_file_system)
{
	struct seen seen = { 0 };
	int fd = open("/dev/null", O_RDONLY);

	ck_assert_int_eq(kp_extents_walk(fd, note, &seen), -EOPNOTSUPP);
	ck_assert_int_eq(kp_extents_walk(-1, note, &seen), -EOPNOTSUPP);
	ck_assert_uint_eq(seen.visits, 0);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("extents");
	TCase *tcase = tcase_create("extents");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, walk, 0, 2);
	tcase_add_test(tcase, no_file_system);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
