// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that appear whole or not at all, in a folder where another user may have planted links under
 * every name that can be guessed.
 */
#include <dirent.h>
#include <sys/random.h>

#include "core/new_file.h"
#include "unit.h"

/* ---- names that the test knows ------------------------------------------------------------- */

static uint64_t next_number;
static bool same_number; /* each name is the same */

/* In place of libc's: the names become predictable, for this test only. */
ssize_t getrandom(void *buffer, size_t len, unsigned int flags)
{
	(void)flags;
	if (!same_number)
		next_number++;
	memcpy(buffer, &next_number, len);
	return len;
}

static char folder[512], victim[600], target[600];

static char *in_folder(const char *name, char path[600])
{
	snprintf(path, 600, "%s/%s", folder, name);
	return path;
}

static void temporary_of(uint64_t number, char path[600])
{
	char name[64];

	snprintf(name, sizeof(name), "target.%016llx.tmp", (unsigned long long)number);
	in_folder(name, path);
}

static void begin_test(void)
{
	snprintf(folder, sizeof(folder), "%s", unit_path("new_file"));
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	in_folder("victim", victim);
	in_folder("target", target);
	unit_make_file(victim, "precious", 8);
	next_number = 100;
	same_number = false;
}

static unsigned int count_files(void)
{
	DIR *dir = opendir(folder);
	unsigned int nr = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr - 2;
}

static void check_file(const char *path, const char *wanted)
{
	char data[64] = "";
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(read(fd, data, sizeof(data) - 1), 0);
	close(fd);
	ck_assert_str_eq(data, wanted);
}

static void end_test(void)
{
	char path[600];

	check_file(victim, "precious");
	unlink(victim);
	unlink(target);
	for (uint64_t i = 90; i < 300; i++) {
		temporary_of(i, path);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(folder), 0);
}

static int write_target(const char *text, int error, bool durable)
{
	struct kp_new_file file;
	int ret = kp_new_file_begin(&file, target);

	if (ret)
		return ret;
	fputs(text, file.stream);
	return kp_new_file_end(&file, error, durable);
}

/* ---- tests --------------------------------------------------------------------------------- */

START_TEST(appears_whole)
{
	struct kp_new_file file;
	struct stat st;
	mode_t mask;

	begin_test();
	mask = umask(022);
	ck_assert_int_eq(write_target("first", 0, _i), 0);
	check_file(target, "first");
	ck_assert_int_eq(stat(target, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0644);
	umask(mask);
	ck_assert_int_eq(kp_new_file_begin(&file, target), 0);
	fputs("second", file.stream);
	fflush(file.stream);
	check_file(target, "first");
	ck_assert_int_eq(kp_new_file_end(&file, 0, _i), 0);
	check_file(target, "second");
	ck_assert_uint_eq(count_files(), 2);
	end_test();
}
END_TEST

START_TEST(leaves_the_old_file_on_error)
{
	begin_test();
	ck_assert_int_eq(write_target("first", 0, false), 0);
	ck_assert_int_eq(write_target("second", -ENOMEM, true), -ENOMEM);
	check_file(target, "first");
	ck_assert_uint_eq(count_files(), 2);
	end_test();
}
END_TEST

/* The first names are links to a file that must not change, or to nothing, or are files already. */
START_TEST(follows_no_planted_link)
{
	char path[600], nothing[600];

	begin_test();
	in_folder("nothing", nothing);
	temporary_of(101, path);
	ck_assert_int_eq(symlink(victim, path), 0);
	temporary_of(102, path);
	ck_assert_int_eq(symlink(nothing, path), 0);
	temporary_of(103, path);
	ck_assert_int_eq(link(victim, path), 0);
	ck_assert_int_eq(write_target("text", 0, false), 0);
	ck_assert_uint_eq(next_number, 104);
	check_file(target, "text");
	ck_assert_int_ne(access(nothing, F_OK), 0);
	end_test();
}
END_TEST

/* Every name is taken: an error, and still nobody's file has changed. */
START_TEST(gives_up)
{
	char path[600];

	begin_test();
	same_number = true;
	temporary_of(100, path);
	ck_assert_int_eq(symlink(victim, path), 0);
	ck_assert_int_eq(write_target("text", 0, false), -EEXIST);
	ck_assert_int_ne(access(target, F_OK), 0);
	end_test();
}
END_TEST

START_TEST(no_folder)
{
	struct kp_new_file file;

	ck_assert_int_eq(kp_new_file_begin(&file, "/nonexistent/target"), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("new_file");
	TCase *tcase = tcase_create("all");
	SRunner *runner;
	int failures;

	tcase_add_loop_test(tcase, appears_whole, 0, 2);
	tcase_add_test(tcase, leaves_the_old_file_on_error);
	tcase_add_test(tcase, follows_no_planted_link);
	tcase_add_test(tcase, gives_up);
	tcase_add_test(tcase, no_folder);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failures = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
