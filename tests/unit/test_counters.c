// SPDX-License-Identifier: GPL-2.0-only
/* Counters: distributions against sorted lists, folding, JSON that is whole or not there. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>

#include "unit.h"

static struct kp_arena *arena;

static void make_arena(void)
{
	ck_assert_int_eq(kp_arena_create(&arena, 0), 0);
}

static void drop_arena(void)
{
	kp_arena_destroy(arena);
}

/* A policy of the test's own: its counters lie behind those of all others. */
static const struct kp_counter_desc descs[] = {
	{ "things", KP_COUNTER_SUM },
	{ "deepest", KP_COUNTER_MAX },
	{ "wait", KP_COUNTER_TIMES },
	{ "piece_sizes", KP_COUNTER_SIZES },
};
static const struct kp_stage_ops ops = { .name = "mine", .counters = descs, .nr_counters = 4 };
static const struct kp_policy mine = { .name = "mine", .ops = &ops };
static const struct kp_policy *const policies[] = { &mine, NULL };

enum { THINGS, DEEPEST, WAIT, PIECES = WAIT + KP_TIME_VALUES };

static struct kp_counter_slot *slot(const char *job, unsigned int number, const char *output)
{
	struct kp_counter_slot *made = kp_counters_slot(arena);

	ck_assert_ptr_nonnull(made);
	snprintf(made->job, sizeof(made->job), "%s", job);
	snprintf(made->policy, sizeof(made->policy), "p");
	snprintf(made->backend, sizeof(made->backend), "null");
	snprintf(made->output, sizeof(made->output), "%s", output);
	snprintf(made->engine, sizeof(made->engine), "e");
	made->job_number = number;
	return made;
}

static uint64_t *values(struct kp_counter_slot *of)
{
	return of->values + kp_counters_at(&mine);
}

static json_t *load(const char *path)
{
	json_error_t error;
	json_t *json = json_load_file(path, 0, &error);

	ck_assert_msg(json != NULL, "%s: %s", path, error.text);
	return json;
}

static json_int_t number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	ck_assert_msg(json_is_integer(value), "no integer %s", name);
	return json_integer_value(value);
}

/* ---- sizes and times ----------------------------------------------------------------------- */

START_TEST(size_buckets)
{
	static const struct {
		uint64_t bytes;
		unsigned int bucket;
	} table[] = { { 0, 0 },	       { 1, 0 },	{ 512, 0 },	 { 513, 1 },
		      { 1024, 1 },     { 1025, 2 },	{ 4096, 3 },	 { 4097, 4 },
		      { 1048576, 11 }, { 8388608, 14 }, { 8388609, 15 }, { UINT64_MAX, 15 } };

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		ck_assert_uint_eq(kp_size_bucket(table[i].bytes), table[i].bucket);
}
END_TEST

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Percentiles within half a bucket, 12.5 %, of those of the sorted list; the rest exact. */
START_TEST(times_against_sorted_list)
{
	enum { MOST = 3000 };
	static uint64_t list[MOST];
	const char *path = unit_path("counters");

	for (int round = 0; round < 60; round++) {
		struct kp_counter_slot *s;
		unsigned int nr = unit_between(1, MOST), widest = unit_between(1, 40);
		uint64_t sum = 0;
		json_t *json, *total;

		make_arena();
		s = slot("j", 1, path);
		for (unsigned int i = 0; i < nr; i++) {
			list[i] = unit_between(0, (1ull << unit_between(1, widest)) - 1);
			sum += list[i];
			kp_count_time(values(s) + WAIT, list[i]);
		}
		qsort(list, nr, sizeof(*list), by_value);
		ck_assert_int_eq(kp_counters_write(arena, policies, path, "test"), 0);
		json = load(path);
		total = json_object_get(json, "total");
		ck_assert_int_eq(number(total, "wait_count"), nr);
		ck_assert_int_eq(number(total, "wait_mean_ns"), sum / nr);
		ck_assert_int_eq(number(total, "wait_max_ns"), list[nr - 1]);
		for (int p = 0; p < 2; p++) {
			unsigned int rank = (nr * (p ? 99u : 50u) + 99) / 100;
			double wanted = list[rank - 1];
			double got = number(total, p ? "wait_p99_ns" : "wait_p50_ns");

			ck_assert_msg(fabs(got - wanted) <= wanted / 8 + 0.5,
				      "%u: %.0f, wanted %.0f", nr, got, wanted);
		}
		json_decref(json);
		drop_arena();
	}
	make_arena();
	unlink(path);
}
END_TEST

/* The longest time there is does not leave the table. */
START_TEST(extreme_times)
{
	struct kp_counter_slot *s = slot("j", 1, "");

	kp_count_time(values(s) + WAIT, UINT64_MAX);
	kp_count_time(values(s) + WAIT, 0);
	ck_assert_uint_eq(values(s)[PIECES], 0);
	ck_assert_uint_eq(values(s)[WAIT], 2);
}
END_TEST

/* ---- jobs and files ------------------------------------------------------------------------ */

START_TEST(folded_and_summed)
{
	const char *path = unit_path("counters");
	struct kp_counter_slot *a1 = slot("a", 1, path), *a2 = slot("a", 1, path);
	struct kp_counter_slot *b = slot("b", 2, path), *other = slot("c", 3, "elsewhere");
	json_t *json, *jobs, *job;

	a1->values[KP_IOS] = 3;
	a2->values[KP_IOS] = 4;
	b->values[KP_IOS] = 100;
	other->values[KP_IOS] = 1000;
	values(a1)[DEEPEST] = 5;
	values(a2)[DEEPEST] = 2;
	values(b)[DEEPEST] = 9;
	values(a1)[PIECES + 3] = 1;
	values(b)[PIECES + 3] = 1;
	values(b)[PIECES + 15] = 2;
	kp_count_time(values(a1) + WAIT, 1000);
	kp_count_time(values(b) + WAIT, 5000);
	(void)kp_counters_slot(arena); /* of a job that never began */
	ck_assert_int_eq(kp_counters_write(arena, policies, path, "fio-x"), 0);
	json = load(path);
	ck_assert_str_eq(json_string_value(json_object_get(json, "fio")), "fio-x");
	jobs = json_object_get(json, "jobs");
	ck_assert_uint_eq(json_array_size(jobs), 2);
	job = json_array_get(jobs, 0);
	ck_assert_str_eq(json_string_value(json_object_get(job, "name")), "a");
	ck_assert_int_eq(number(job, "ios"), 7);
	ck_assert_int_eq(number(job, "deepest"), 5);
	ck_assert_int_eq(number(json_array_get(jobs, 1), "ios"), 100);
	job = json_object_get(json, "total");
	ck_assert_int_eq(number(job, "ios"), 107);
	ck_assert_int_eq(number(job, "deepest"), 9);
	ck_assert_int_eq(number(job, "wait_max_ns"), 5000);
	ck_assert_int_eq(number(json_object_get(job, "piece_sizes"), "4096"), 2);
	ck_assert_int_eq(number(json_object_get(job, "piece_sizes"), "more"), 2);
	for (int i = 0; i < 6; i++) {
		static const char *const core[] = { "ios",	"bytes",  "bios",
						    "requests", "splits", "vecs_copied" };

		number(job, core[i]);
	}
	json_decref(json);
	unlink(path);
}
END_TEST

/* What is counted in runs of one size, against counting one by one; also of a job that was killed. */
START_TEST(runs_against_single_counts)
{
	static const uint64_t sizes[] = { 0, 512, 4096, 4096, 5000, 1 << 20 };
	const char *path = unit_path("runs");

	for (int round = 0; round < 200; round++) {
		uint64_t ios = 0, bytes = 0, requests = 0, by_size[2] = { 0 };
		struct kp_counter_slot *s = slot("j", round, path);
		json_t *json, *job;

		for (unsigned int i = unit_between(0, 40); i; i--) {
			uint64_t size = sizes[unit_between(0, 5)];
			unsigned int nr = unit_between(1, 5);

			bool whole = size && unit_between(0, 1);

			for (unsigned int n = 0; n < nr; n++) {
				if (whole) {
					kp_count_transfer(s, size);
					continue;
				}
				kp_count_io(s, size);
				if (size)
					kp_count_request(s, size);
			}
			ios += nr;
			bytes += nr * size;
			requests += size ? nr : 0;
			by_size[0] += size == 4096 ? nr : 0;
			by_size[1] += size == 5000 ? nr : 0;
			if (!unit_between(0, 20))
				kp_counters_settle(s);
		}
		ck_assert_int_eq(kp_counters_write(arena, policies, path, "test"), 0);
		json = load(path);
		job = json_array_get(json_object_get(json, "jobs"), round);
		ck_assert_int_eq(number(job, "ios"), ios);
		ck_assert_int_eq(number(job, "bytes"), bytes);
		ck_assert_int_eq(number(job, "bios"), requests);
		ck_assert_int_eq(number(job, "requests"), requests);
		for (int i = 0; i < 2; i++) {
			const char *size = i ? "8192" : "4096";
			json_t *bios = json_object_get(job, "bio_sizes");
			json_t *all = json_object_get(job, "request_sizes");

			ck_assert_int_eq(json_integer_value(json_object_get(bios, size)),
					 by_size[i]);
			ck_assert_int_eq(json_integer_value(json_object_get(all, size)),
					 by_size[i]);
		}
		json_decref(json);
		kp_counters_settle(s); /* what was written did not change what is there */
		ck_assert_uint_eq(s->values[KP_IOS], ios);
		ck_assert_uint_eq(s->values[KP_BYTES], bytes);
	}
	unlink(path);
}
END_TEST

static int count_output(const char *output, void *arg)
{
	ck_assert(!strcmp(output, "one") || !strcmp(output, "two"));
	++*(int *)arg;
	return 0;
}

START_TEST(outputs_once_each)
{
	int nr = 0;

	slot("a", 1, "one");
	slot("b", 2, "");
	slot("c", 3, "two");
	slot("d", 4, "one");
	ck_assert_int_eq(kp_counters_outputs(arena, count_output, &nr), 0);
	ck_assert_int_eq(nr, 2);
}
END_TEST

START_TEST(slots_run_out)
{
	unsigned int nr = 0;

	while (kp_counters_slot(arena) && nr < 100000)
		nr++;
	ck_assert_uint_ge(nr, 1000);
	ck_assert_uint_lt(nr, 100000);
	ck_assert_ptr_null(kp_counters_slot(arena));
}
END_TEST

/* Names as users have them: UTF-8, bytes that are none, a name cut within a character. */
START_TEST(odd_names)
{
	static const char *const names[] = { "gr\xc3\xbc\xc3\x9f", "latin \xfc", "\"quoted\\\"",
					     "tab\tline\n" };
	const char *path = unit_path("counters");
	char lengthy[64] = "";
	json_t *json;

	for (int i = 0; i < 4; i++)
		slot(names[i], i, path);
	memset(lengthy, 'x', 62);
	lengthy[62] = '\xc3';
	slot(lengthy, 4, path);
	ck_assert_int_eq(kp_counters_write(arena, policies, path, "test"), 0);
	json = load(path);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "jobs")), 5);
	ck_assert_str_eq(json_string_value(json_object_get(
				 json_array_get(json_object_get(json, "jobs"), 0), "name")),
			 names[0]);
	json_decref(json);
	unlink(path);
}
END_TEST

/* ---- whole or not at all ------------------------------------------------------------------- */

static int files_in(const char *folder)
{
	DIR *dir = opendir(folder);
	int nr = 0;

	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		nr += entry->d_name[0] != '.';
	closedir(dir);
	return nr;
}

START_TEST(whole_or_not_at_all)
{
	char folder[600], path[700], link[700];
	struct stat st;
	json_t *json;

	snprintf(folder, sizeof(folder), "%s", unit_path("folder"));
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	snprintf(path, sizeof(path), "%s/counters", folder);
	snprintf(link, sizeof(link), "%s/link", folder);

	/* The old contents are replaced as a whole, a link stays a link, nothing else appears. */
	unit_make_file(path, "old", 3);
	ck_assert_int_eq(symlink(path, link), 0);
	slot("a", 1, link);
	ck_assert_int_eq(kp_counters_write(arena, policies, link, "test"), 0);
	ck_assert_int_eq(lstat(link, &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
	json = load(path);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "jobs")), 1);
	json_decref(json);
	ck_assert_int_eq(files_in(folder), 2);

	ck_assert_int_eq(kp_counters_write(arena, policies, "/no/such/folder/x", "test"), -ENOENT);
	ck_assert_int_eq(kp_counters_write(arena, policies, folder, "test"), -EISDIR);
	ck_assert_int_eq(files_in(folder), 2);
	unlink(link);
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* A device that is full: an error. What is no file is written to, never replaced. */
START_TEST(not_a_file)
{
	struct stat before, after;

	slot("a", 1, "/dev/null");
	ck_assert_int_eq(stat("/dev/null", &before), 0);
	ck_assert_int_eq(kp_counters_write(arena, policies, "/dev/null", "test"), 0);
	ck_assert_int_eq(stat("/dev/null", &after), 0);
	ck_assert(S_ISCHR(after.st_mode));
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_int_eq(kp_counters_write(arena, policies, "/dev/full", "test"), -ENOSPC);
}
END_TEST

START_TEST(printed_for_people)
{
	struct kp_counter_slot *a = slot("a", 1, ""), *b = slot("b", 2, "");
	char text[4096] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	a->values[KP_IOS] = 3;
	b->values[KP_IOS] = 4;
	kp_counters_print(arena, policies, to);
	fclose(to);
	ck_assert_ptr_nonnull(strstr(text, "kpolicy e:p"));
	ck_assert_ptr_nonnull(strstr(text, "2 jobs"));
	ck_assert_ptr_nonnull(strstr(text, "ios=7"));
	ck_assert_ptr_null(strstr(text, "splits"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("counters");
	TCase *tcase = tcase_create("counters");

	tcase_set_timeout(tcase, 30);
	tcase_add_checked_fixture(tcase, make_arena, drop_arena);
	tcase_add_test(tcase, size_buckets);
	tcase_add_test(tcase, times_against_sorted_list);
	tcase_add_test(tcase, extreme_times);
	tcase_add_test(tcase, folded_and_summed);
	tcase_add_test(tcase, runs_against_single_counts);
	tcase_add_test(tcase, outputs_once_each);
	tcase_add_test(tcase, slots_run_out);
	tcase_add_test(tcase, odd_names);
	tcase_add_test(tcase, whole_or_not_at_all);
	tcase_add_test(tcase, not_a_file);
	tcase_add_test(tcase, printed_for_people);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
