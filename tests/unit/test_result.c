// SPDX-License-Identifier: GPL-2.0-only
/* What kpolicy reads from fio's JSON, and what it makes of it. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/crossover.h"
#include "stats/explain.h"
#include "stats/result.h"
#include "util/units.h"
#include "util/util.h"
#include "job/written.h"

/* ---- reading ------------------------------------------------------------------------------- */

#define DIRECTION(ios, bytes, iops, bw, ms, mean, bins)                                        \
	"{\"io_bytes\": " bytes ", \"bw_bytes\": " bw ", \"iops\": " iops ", \"runtime\": " ms \
	", \"total_ios\": " ios ", \"lat_ns\": {\"mean\": " mean ", \"N\": " ios               \
	", \"bins\": {" bins "}}}"
#define NO_IO DIRECTION("0", "0", "0.0", "0", "0", "0.0", "")
#define JOB(name, group, error, read, write)                                         \
	"{\"jobname\": \"" name "\", \"groupid\": " group ", \"error\": " error      \
	", \"job_runtime\": 2000, \"usr_cpu\": 10.0, \"sys_cpu\": 15.0,"             \
	"\"iodepth_level\": {\"1\": 50.0, \"2\": 0.0, \"4\": 25.0, \">=64\": 25.0}," \
	"\"read\": " read ", \"write\": " write ", \"trim\": " NO_IO "}"
#define FIO(jobs) "{\"fio version\": \"fio-3.33\", \"jobs\": [" jobs "]}\n"

#define READER                                                         \
	DIRECTION("100", "409600", "50.0", "204800", "2000", "1000.0", \
		  "\"900\": 50, \"1100\": 49, \"5000\": 1")
#define WRITER                                                           \
	DIRECTION("300", "1228800", "150.0", "614400", "2000", "2000.0", \
		  "\"1100\": 200, \"3000\": 100")

static char path[] = "/tmp/kpolicy-test-XXXXXX";

static void make_file(void)
{
	strcpy(path + strlen(path) - 6, "XXXXXX");
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void remove_file(void)
{
	unlink(path);
}

static int read_text(const char *text, struct run_result *run, char **error)
{
	FILE *to = fopen(path, "w");

	fputs(text, to);
	fclose(to);
	*error = NULL;
	return result_read(path, run, error);
}

static void read_good(const char *text, struct run_result *run)
{
	char *error;

	ck_assert_msg(!read_text(text, run, &error), "%s", error);
}

static double figure(const struct run_result *run, unsigned int group, const char *job,
		     unsigned int index, enum direction direction, enum quantity quantity)
{
	const struct figure f = { group, job, index, direction, quantity };

	return result_figure(run, &f);
}

START_TEST(figures)
{
	struct run_result run;

	read_good(FIO(JOB("a", "0", "0", READER, NO_IO) "," JOB(
			  "a", "0", "0", READER, WRITER) "," JOB("b", "1", "0", NO_IO, WRITER)),
		  &run);
	ck_assert_str_eq(run.fio_version, "fio-3.33");
	ck_assert_uint_eq(run.nr_jobs, 3);
	ck_assert_uint_eq(run.jobs[1].index, 1);
	ck_assert_ptr_null(result_error(&run, 0));
	ck_assert_ptr_null(result_idle(&run));

	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_IOPS), 250, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_READ, Q_IOPS), 100, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, "a", 1, DIR_ALL, Q_IOPS), 200, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 1, NULL, 0, DIR_ALL, Q_BANDWIDTH), 614400, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_TIME), 2, 1e-9);
	/* Means are weighted by what they are means of. */
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_MEAN),
				(200 * 1000.0 + 300 * 2000) / 500, 1e-9);
	/* What the run cost cannot be told apart by groups. */
	run.cpu_seconds = 3;
	ck_assert(isnan(figure(&run, 0, NULL, 0, DIR_ALL, Q_CPU)));
	/* Not there is not zero. */
	ck_assert(isnan(figure(&run, 1, NULL, 0, DIR_READ, Q_IOPS)));
	ck_assert(isnan(figure(&run, 2, NULL, 0, DIR_ALL, Q_IOPS)));
	ck_assert_double_eq_tol(result_depth(&run, 0), 2 * (0.5 + 1 + 16), 1e-9);
	ck_assert_uint_eq(result_bytes(&run, 0), 2 * 409600 + 1228800);
	result_free(&run);
}
END_TEST

START_TEST(percentiles_of_merged_bins)
{
	struct run_result run;

	read_good(FIO(JOB("a", "0", "0", READER, WRITER) "," JOB("b", "0", "0", READER, NO_IO)),
		  &run);
	/* Reads: 100 at 900, 98 at 1100, 2 at 5000. */
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_READ, Q_P50), 900);
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_READ, Q_P99), 1100);
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_READ, Q_P99_9), 5000);
	/* With the writes: 900 100, 1100 298, 3000 100, 5000 2. */
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_ALL, Q_P50), 1100);
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_ALL, Q_P99), 3000);
	result_free(&run);
}
END_TEST

/* Merging against adding up in a plain array, on random histograms. */
START_TEST(merge_agrees_with_a_plain_array)
{
	unsigned int seed = 1;

	for (int round = 0; round < 200; round++) {
		struct histogram all = { 0 };
		uint64_t plain[100] = { 0 }, total = 0;

		for (int part = 0; part < 4; part++) {
			struct latency_bin bins[100];
			struct histogram h = { bins, 0 };

			for (unsigned int nsec = 0; nsec < 100; nsec++) {
				if (rand_r(&seed) % 3)
					continue;
				bins[h.nr] = (struct latency_bin){ nsec, rand_r(&seed) % 50 };
				plain[nsec] += bins[h.nr].count;
				total += bins[h.nr++].count;
			}
			histogram_merge(&all, &h);
		}
		for (double p = 1; total && p <= 100; p += 0.7) {
			uint64_t seen = 0;
			unsigned int at = 0;

			while ((seen += plain[at]) * 100.0 < p * total - 1e-4)
				at++;
			ck_assert_double_eq(histogram_percentile(&all, p), at);
		}
		free(all.bins);
	}
}
END_TEST

START_TEST(not_measured)
{
	struct run_result run;

	/* gtod_reduce=1: N is 0 and there are no bins. */
	read_good(FIO(JOB("a", "0", "0",
			  "{\"total_ios\": 10, \"iops\": 5.0, \"runtime\": 2000, \"bw_bytes\": 1,"
			  "\"lat_ns\": {\"mean\": 0.0, \"N\": 0}}",
			  NO_IO)),
		  &run);
	ck_assert_double_eq(figure(&run, 0, NULL, 0, DIR_ALL, Q_IOPS), 5);
	for (int q = Q_MEAN; q <= Q_P99_9; q++)
		ck_assert(isnan(figure(&run, 0, NULL, 0, DIR_ALL, q)));
	result_free(&run);
}
END_TEST

static void check_failure(const char *text, const char *reason)
{
	struct run_result run;

	read_good(text, &run);
	char *failure = result_error(&run, 0);

	if (!failure)
		failure = result_idle(&run);
	ck_assert_msg(failure && strstr(failure, reason), "%s", failure ? failure : "none");
	free(failure);
	result_free(&run);
}

START_TEST(failures)
{
	check_failure(FIO(JOB("ok", "0", "0", READER, NO_IO) "," JOB("x", "0", "5", READER, NO_IO)),
		      "job 'x': Input/output error");
	check_failure(FIO(JOB("x", "0", "0", NO_IO, NO_IO)), "job 'x': did no I/O");
	check_failure(
		"note: { odd\nfio: pid=12, got signal=9\n" FIO(JOB("x", "0", "0", READER, NO_IO)),
		"got signal=9");
	check_failure(
		FIO(JOB("x", "0", "0", DIRECTION("9", "9", "0.0", "0", "0", "1.0", ""), NO_IO)),
		"no runtime");
}
END_TEST

/* With continue_on_error the first error stands in the result of a fio that ended well. */
START_TEST(errors_after_which_a_job_went_on)
{
	struct run_result run;
	int error = 0;
	char *failure;

	read_good(FIO(JOB("a", "0", "5, \"total_err\": 7", READER,
			  NO_IO) "," JOB("b", "0", "5, \"total_err\": 7", READER,
					 NO_IO) "," JOB("c", "1", "0", READER, NO_IO)),
		  &run);
	ck_assert_ptr_null(result_error(&run, 0));
	ck_assert_ptr_null(result_idle(&run));
	ck_assert_uint_eq(result_errors(&run, 0, &error), 14);
	ck_assert_int_eq(error, EIO);
	ck_assert_uint_eq(result_errors(&run, 1, &error), 0);
	/* fio says by its exit status that one of them did end. */
	failure = result_error(&run, 1 << 8);
	ck_assert_msg(failure && strstr(failure, "job 'a': Input/output error"), "%s", failure);
	free(failure);
	result_free(&run);
}
END_TEST

/* A job that burns CPU does no I/O and that is right. */
START_TEST(only_counted_jobs_matter)
{
	struct run_result run;

	read_good(FIO(JOB("cpu", "0", "0", NO_IO, NO_IO) "," JOB("a", "0", "0", READER, NO_IO)),
		  &run);
	run.jobs[0].counted = false;
	ck_assert_ptr_null(result_error(&run, 0));
	ck_assert_ptr_null(result_idle(&run));
	/* The other job's CPU time is in the run's. */
	run.cpu_seconds = 3;
	ck_assert(isnan(figure(&run, 0, NULL, 0, DIR_ALL, Q_CPU)));
	result_free(&run);
}
END_TEST

/* Of the run and all its processes: fio's own figure leaves out who works for a job. */
START_TEST(cpu_of_the_run)
{
	struct run_result run;

	read_good(FIO(JOB("a", "0", "0", READER, NO_IO) "," JOB("a", "0", "0", READER, WRITER)),
		  &run);
	ck_assert(isnan(figure(&run, 0, NULL, 0, DIR_ALL, Q_CPU)));
	run.cpu_seconds = 3;
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_CPU), 3.0 / 500 * 1e9, 1e-3);
	ck_assert(isnan(figure(&run, 0, "a", 1, DIR_ALL, Q_CPU)));
	result_free(&run);
}
END_TEST

/* What fio 3.33 reports of --rw=write --verify=crc32c: 2000 ms of writing, then 500 ms of reading. */
#define VERIFIED DIRECTION("300", "1228800", "600.0", "2457600", "500", "2000.0", "")

START_TEST(phases_add_up)
{
	struct run_result run;

	read_good(FIO(JOB("w", "0", "0", VERIFIED, WRITER)), &run);
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_TIME), 2, 1e-9);
	run.jobs[0].phases = true;
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_ALL, Q_TIME), 2.5, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, "w", 0, DIR_ALL, Q_TIME), 2.5, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, NULL, 0, DIR_READ, Q_TIME), 0.5, 1e-9);
	/* A write phase half as fast again shows, though the reading takes longer than it. */
	run.jobs[0].dir[DIR_READ].seconds = 4;
	run.jobs[0].dir[DIR_WRITE].seconds = 3;
	ck_assert_double_eq_tol(result_seconds(&run, 0), 7, 1e-9);
	result_free(&run);
}
END_TEST

/* wait_for=: one after the other within a group. */
START_TEST(chains_add_up)
{
	struct run_result run;

	read_good(
		FIO(JOB("a", "0", "0", READER, NO_IO) "," JOB("b", "0", "0", READER, NO_IO) "," JOB(
			"c", "0", "0", VERIFIED, NO_IO) "," JOB("a", "1", "0", READER, NO_IO)),
		&run);
	ck_assert_double_eq_tol(result_seconds(&run, 0), 2, 1e-9);
	run.jobs[1].after = "a";
	ck_assert_double_eq_tol(result_seconds(&run, 0), 4, 1e-9);
	run.jobs[2].after = "b";
	ck_assert_double_eq_tol(result_seconds(&run, 0), 4.5, 1e-9);
	ck_assert_double_eq_tol(result_seconds(&run, 1), 2, 1e-9);
	ck_assert_double_eq_tol(figure(&run, 0, "c", 0, DIR_ALL, Q_TIME), 0.5, 1e-9);
	/* fio refuses a circle; nobody hangs in one here. */
	run.jobs[0].after = "c";
	ck_assert(isfinite(result_seconds(&run, 0)));
	result_free(&run);
}
END_TEST

/* Every prefix of a result is refused, with one line that names the file. */
/* fio writes an empty object for a job with stats=0. */
START_TEST(unmeasured_job)
{
	struct run_result run;
	char *error;

	ck_assert_int_eq(
		read_text(FIO("{}," JOB("a", "0", "0", READER, WRITER) ",{}"), &run, &error), 0);
	ck_assert_uint_eq(run.nr_jobs, 1);
	ck_assert_str_eq(run.jobs[0].name, "a");
	ck_assert_ptr_null(result_idle(&run));
	result_free(&run);
}
END_TEST

START_TEST(truncated)
{
	const char *whole = "note: text before\n" FIO(JOB("a", "0", "0", READER, WRITER));
	char *part = strdup(whole);

	for (size_t len = 0; len + 2 < strlen(whole); len++) {
		struct run_result run;
		char *error;

		memcpy(part, whole, len);
		part[len] = '\0';
		ck_assert_int_eq(read_text(part, &run, &error), -EINVAL);
		ck_assert_ptr_nonnull(strstr(error, path));
		ck_assert_ptr_null(strchr(error, '\n'));
		ck_assert_uint_eq(run.nr_jobs, 0);
		free(error);
	}
	free(part);
}
END_TEST

START_TEST(unreadable)
{
	struct run_result run;
	char *error = NULL;

	remove_file();
	ck_assert_int_eq(result_read(path, &run, &error), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, "No such file"));
	free(error);
}
END_TEST

/* ---- words --------------------------------------------------------------------------------- */

static void check_text(char *got, const char *wanted)
{
	ck_assert_str_eq(got, wanted);
	free(got);
}

START_TEST(units)
{
	double value;

	check_text(format_nsec(22100), "22.1 us");
	check_text(format_nsec(480), "480 ns");
	check_text(format_nsec(999.7), "1.00 us");
	check_text(format_nsec(1.5e9), "1.50 s");
	check_text(format_nsec(2e12), "2000 s");
	check_text(format_bytes(65536), "64.0 KiB");
	check_text(format_number(12227.4), "12227");
	check_text(format_number(3.14159), "3.142");
	check_text(format_number(0), "0");
	check_text(format_seconds(65), "1:05 min");
	check_text(format_seconds(7500), "2:05 h");
	check_text(format_quantity(Q_MEAN, NAN), "not measured");
	ck_assert(parse_scaled("4k", &value) && value == 4096);
	ck_assert(parse_scaled("1M", &value) && value == 1048576);
	ck_assert(parse_scaled("16", &value) && value == 16);
	ck_assert(parse_scaled("8kb", &value) && value == 8192);
	ck_assert(!parse_scaled("k", &value) && !parse_scaled("4x", &value));
	ck_assert(!parse_scaled("nan", &value) && !parse_scaled("", &value));
	ck_assert(parse_duration("2h", &value) && value == 7200);
	ck_assert(!parse_duration("2hm", &value) && !parse_duration("-1", &value));
	ck_assert(parse_percent("2%", &value) && value == 0.02);
	ck_assert(!parse_percent("0", &value) && !parse_percent("2x", &value));
}
END_TEST

static void count(struct counter_sums *sums, const char *text)
{
	json_t *file = json_loads(text, 0, NULL);

	ck_assert_ptr_nonnull(file);
	counters_add(sums, file);
	json_decref(file);
}

START_TEST(utf8)
{
	static const char *const texts[][2] = {
		{ "plain", "plain" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "a\xff"
		  "b\xe4",
		  "a?b?" },
		{ "\xc0\xaf", "??" },		/* too long for what it is */
		{ "\xed\xa0\x80", "???" },	/* half of a pair */
		{ "\xf4\x90\x80\x80", "????" }, /* beyond the last */
		{ "\xe2\x82", "??" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char *text = xstrdup(texts[i][0]);
		json_t *value;

		make_utf8(text);
		ck_assert_str_eq(text, texts[i][1]);
		value = json_string(text);
		ck_assert_ptr_nonnull(value);
		json_decref(value);
		free(text);
	}
}
END_TEST

/* What is written comes back whole from session.json, whatever its bytes are. */
START_TEST(written_targets)
{
	struct written written = { 0 }, back = { 0 };
	json_t *packed;

	written_add(&written, "/nowhere/\xff%41:b");
	written_add(&written, "/nowhere/x");
	written_add(&written, "/nowhere/x");
	ck_assert_uint_eq(written.nr, 2);
	packed = fields_pack(&written_fields, &written);
	fields_unpack(&written_fields, packed, &back);
	json_decref(packed);
	ck_assert_uint_eq(back.nr, 2);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_str_eq(back.targets[i].path, written.targets[i].path);
		ck_assert_ptr_null(back.targets[i].device);
	}
	ck_assert_ptr_null(written_refused(&back, false));
	/* It was a device, whatever is there now. */
	back.targets[0].device = xstrdup("8:16 naa.5");
	char *why = written_refused(&back, true);

	ck_assert_ptr_nonnull(why);
	ck_assert_ptr_nonnull(strstr(why, "was device 8:16 naa.5"));
	free(why);
	free(back.targets[0].device);
	back.targets[0].device = NULL;
	back.unknown = true;
	why = written_refused(&back, false);
	ck_assert_ptr_nonnull(why);
	free(why);
	ck_assert_ptr_null(written_refused(&back, true));
	fields_free(&written_fields, &written);
	fields_free(&written_fields, &back);
}
END_TEST

START_TEST(explanations)
{
	struct counter_sums base = { 0 }, sums = { 0 }, none = { 0 };

	/* Two runs of the control, twice as long together: rates count, not sums. */
	count(&base, "{\"total\": {\"ios\": 50, \"bytes\": 5, \"bios\": 50, \"splits\": 0,"
		     "\"lock_wait_p99_ns\": 20000, \"held_ns\": 500}}");
	count(&base, "{\"total\": {\"ios\": 150, \"bytes\": 15, \"bios\": 150, \"splits\": 0,"
		     "\"lock_wait_p99_ns\": 24000, \"held_ns\": 1500}}");
	count(&sums, "{\"total\": {\"ios\": 100, \"bytes\": 10, \"bios\": 100, \"splits\": 300,"
		     "\"lock_wait_p99_ns\": 480000, \"held_ns\": 1000}}");
	check_text(explain_line(&base, &sums),
		   "splits per I/O 0 → 3.000; lock wait p99 22.0 us → 480 us");
	ck_assert_ptr_null(explain_line(&base, &base));
	check_text(explain_line(&none, &sums),
		   "splits per I/O 3.000; lock wait p99 480 us; held per "
		   "I/O 10.0 ns; bios per I/O 1.000");
	ck_assert(!counters_stayed_zero(&sums));
	ck_assert(!counters_stayed_zero(&none)); /* none were kept */
	counters_free(&base);
	count(&base, "{\"total\": {\"ios\": 7, \"bytes\": 7, \"bios\": 7, \"requests\": 3, "
		     "\"splits\": 0}}");
	ck_assert(counters_stayed_zero(&base));
	/* Bios built to the limit: nothing is split and yet the policy was at work. */
	count(&base, "{\"total\": {\"ios\": 7, \"bytes\": 7, \"bios\": 70, \"requests\": 3, "
		     "\"splits\": 0}}");
	ck_assert(!counters_stayed_zero(&base));
	counters_free(&base);
	counters_free(&sums);

	/* The p99 stands for a distribution, readers per grant for its two counters. */
	count(&base,
	      "{\"total\": {\"ios\": 10, \"wait_count\": 1, \"wait_mean_ns\": 10, \"wait_p99_ns\":"
	      "22000, \"wait_max_ns\": 5, \"grants\": 4, \"readers_granted\": 4}}");
	count(&sums,
	      "{\"total\": {\"ios\": 10, \"wait_count\": 9, \"wait_mean_ns\": 90, \"wait_p99_ns\":"
	      "480000, \"wait_max_ns\": 9, \"grants\": 10, \"readers_granted\": 31}}");
	check_text(explain_line(&base, &sums),
		   "wait p99 22.0 us → 480 us; readers per grant 1.000 → 3.100");
	counters_free(&base);
	counters_free(&sums);
}
END_TEST

START_TEST(crossovers)
{
	static const struct curve_point up[] = {
		{ 4, 0.5, 0.45, 0.55 },
		{ 16, 0.8, 0.7, 1.1 },
		{ 64, 1.25, 1.1, 1.4 },
		{ 256, 2, 1.9, 2.1 },
	};
	static const struct curve_point flat[] = { { 1, 1.2, 1.1, 1.3 }, { 2, 1.1, 1.05, 1.15 } };
	static const struct curve_point half[] = { { 1, 0.9, 0.8, 0.95 }, { 2, 1.1, 0.9, 1.2 } };
	static const struct curve_point vague_points[] = { { 1, 0.9, 0.8, 1.2 },
							   { 2, 1.1, 0.9, 1.2 } };
	struct crossover c[2];
	bool vague;

	ck_assert_uint_eq(crossover_find(up, 4, c, 2, &vague), 1);
	ck_assert_double_eq_tol(c[0].x, 32, 1e-9); /* 0.8 and 1.25 are as far from 1 */
	/* The upper bound leaves 1 between 4 and 16, the lower between 16 and 64. */
	ck_assert_double_eq_tol(c[0].low, 4 * pow(4, log(1 / 0.55) / log(1.1 / 0.55)), 1e-9);
	ck_assert_double_eq_tol(c[0].high, 16 * pow(4, log(1 / 0.7) / log(1.1 / 0.7)), 1e-9);
	ck_assert_uint_eq(crossover_find(flat, 2, c, 2, &vague), 0);
	ck_assert_uint_eq(crossover_find(flat, 0, c, 2, &vague), 0);
	ck_assert(!vague);
	/* Where no interval leaves out 1 on a side the sign of an estimate proves nothing. */
	ck_assert_uint_eq(crossover_find(vague_points, 2, c, 2, &vague), 0);
	ck_assert(vague);
	ck_assert_uint_eq(crossover_find(half, 2, c, 2, &vague), 0);
	ck_assert(vague);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("result");
	TCase *reading = tcase_create("reading"), *words = tcase_create("words");

	tcase_add_checked_fixture(reading, make_file, remove_file);
	tcase_add_test(reading, figures);
	tcase_add_test(reading, percentiles_of_merged_bins);
	tcase_add_test(reading, merge_agrees_with_a_plain_array);
	tcase_add_test(reading, not_measured);
	tcase_add_test(reading, failures);
	tcase_add_test(reading, errors_after_which_a_job_went_on);
	tcase_add_test(reading, only_counted_jobs_matter);
	tcase_add_test(reading, cpu_of_the_run);
	tcase_add_test(reading, phases_add_up);
	tcase_add_test(reading, chains_add_up);
	tcase_add_test(reading, unmeasured_job);
	tcase_add_test(reading, truncated);
	tcase_add_test(reading, unreadable);
	tcase_add_test(words, units);
	tcase_add_test(words, utf8);
	tcase_add_test(words, written_targets);
	tcase_add_test(words, explanations);
	tcase_add_test(words, crossovers);
	tcase_set_timeout(reading, 30);
	suite_add_tcase(suite, reading);
	suite_add_tcase(suite, words);

	SRunner *runner = srunner_create(suite);

	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
