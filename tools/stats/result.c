// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "result.h"
#include "util/units.h"
#include "util/util.h"

const char *const direction_names[] = { "read", "write", "trim", "all" };

const struct quantity_kind quantity_kinds[NR_QUANTITIES] = {
	[Q_TIME] = { "time", "s", false },	 [Q_IOPS] = { "IOPS", "1/s", true },
	[Q_BANDWIDTH] = { "MB/s", "B/s", true }, [Q_MEAN] = { "mean", "ns", false },
	[Q_P50] = { "p50", "ns", false },	 [Q_P99] = { "p99", "ns", false },
	[Q_P99_9] = { "p99.9", "ns", false },	 [Q_CPU] = { "CPU per I/O", "ns", false },
};

char *format_quantity(enum quantity quantity, double value)
{
	if (isnan(value))
		return xstrdup("not measured");
	switch (quantity) {
	case Q_TIME:
		return format("%.3f s", value);
	case Q_IOPS:
		return format_number(value);
	case Q_BANDWIDTH:
		return format_number(value / 1e6);
	default:
		return format_nsec(value);
	}
}

/* ---- reading ------------------------------------------------------------------------------- */

static int compare_bins(const void *a, const void *b)
{
	const struct latency_bin *x = a, *y = b;

	return (x->nsec > y->nsec) - (x->nsec < y->nsec);
}

static struct histogram read_bins(const json_t *bins)
{
	struct histogram h = { .bins = xcalloc(json_object_size(bins), sizeof(*h.bins)) };
	const char *key;
	json_t *count;

	json_object_foreach ((json_t *)bins, key, count)
		h.bins[h.nr++] =
			(struct latency_bin){ strtoull(key, NULL, 10), json_integer_value(count) };
	qsort(h.bins, h.nr, sizeof(*h.bins), compare_bins);
	return h;
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void read_direction(const json_t *object, struct direction_result *dir)
{
	const json_t *latency = json_object_get(object, "lat_ns");

	dir->ios = json_integer_value(json_object_get(object, "total_ios"));
	dir->bytes = json_integer_value(json_object_get(object, "io_bytes"));
	dir->iops = number(object, "iops");
	dir->bytes_per_second = number(object, "bw_bytes");
	dir->seconds = number(object, "runtime") / 1000;
	dir->mean_nsec = number(latency, "mean");
	dir->samples = json_integer_value(json_object_get(latency, "N"));
	dir->latency = read_bins(json_object_get(latency, "bins"));
}

/* fio gives the share of submissions that found 1, 2, 4 ... in flight, or more up to the next. */
static double read_depth(const json_t *levels)
{
	double depth = 0;
	const char *key;
	json_t *share;

	json_object_foreach ((json_t *)levels, key, share) {
		const char *digits = key + strspn(key, ">=");

		depth += strtod(digits, NULL) * json_number_value(share) / 100;
	}
	return depth;
}

static void read_job(const json_t *object, struct job_result *job)
{
	const char *name = json_string_value(json_object_get(object, "jobname"));

	job->name = xstrdup(name ? name : "");
	job->group = json_integer_value(json_object_get(object, "groupid"));
	job->error = json_integer_value(json_object_get(object, "error"));
	job->errors = json_integer_value(json_object_get(object, "total_err"));
	job->counted = true;
	job->depth = read_depth(json_object_get(object, "iodepth_level"));
	for (int d = 0; d < NR_DIRECTIONS; d++)
		read_direction(json_object_get(object, direction_names[d]), &job->dir[d]);
}

/* Complaints of fio and of its engines stand before the first brace, and may have braces too. */
static json_t *find_json(const char *text, const char **start, json_error_t *why)
{
	const char *at = text;

	while (at) {
		if (*at == '{') {
			json_t *root = json_loads(at, JSON_DISABLE_EOF_CHECK, why);

			if (json_object_get(root, "fio version")) {
				*start = at;
				return root;
			}
			json_decref(root);
		}
		at = strchr(at, '\n');
		if (at)
			at++;
	}
	return NULL;
}

static void number_jobs(struct run_result *run)
{
	for (size_t i = 0; i < run->nr_jobs; i++)
		for (size_t j = 0; j < i; j++)
			if (run->jobs[j].group == run->jobs[i].group &&
			    !strcmp(run->jobs[j].name, run->jobs[i].name))
				run->jobs[i].index++;
}

static void read_jobs(const json_t *array, struct run_result *run)
{
	run->jobs = xcalloc(json_array_size(array), sizeof(*run->jobs));
	for (size_t i = 0; i < json_array_size(array); i++)
		/* fio says nothing of a job with stats=0, not even its name */
		if (json_object_get(json_array_get(array, i), "jobname"))
			read_job(json_array_get(array, i), &run->jobs[run->nr_jobs++]);
	number_jobs(run);
}

int result_read(const char *path, struct run_result *run, char **error)
{
	char *text = read_whole(path, NULL);
	const char *start = text;
	json_error_t why = { .text = "no JSON in it" };

	*run = (struct run_result){ .cpu_seconds = NAN };
	if (!text) {
		int ret = -errno;

		*error = format("%s: %s", path, strerror(-ret));
		return ret;
	}
	make_utf8(text);
	json_t *root = find_json(text, &start, &why);
	const json_t *jobs = json_object_get(root, "jobs");

	if (!json_is_array(jobs) || !json_array_size(jobs)) {
		*error = format("%s: not a complete result of fio: %s", path,
				root ? "no jobs in it" : why.text);
		json_decref(root);
		free(text);
		return -EINVAL;
	}
	const char *version = json_string_value(json_object_get(root, "fio version"));

	run->fio_version = xstrdup(version ? version : "");
	text[start - text] = '\0';
	run->text = text;
	read_jobs(jobs, run);
	json_decref(root);
	return 0;
}

void result_free(struct run_result *run)
{
	for (size_t i = 0; i < run->nr_jobs; i++) {
		free(run->jobs[i].name);
		for (int d = 0; d < NR_DIRECTIONS; d++)
			free(run->jobs[i].dir[d].latency.bins);
	}
	free(run->jobs);
	free(run->fio_version);
	free(run->text);
	*run = (struct run_result){ 0 };
}

/* A line of fio's complaints that has @word in it. */
static char *line_with(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	if (!at)
		return NULL;
	while (at > text && at[-1] != '\n')
		at--;
	return format("%.*s", (int)strcspn(at, "\n"), at);
}

char *result_error(const struct run_result *run, int status)
{
	for (size_t i = 0; i < run->nr_jobs; i++) {
		const struct job_result *job = &run->jobs[i];

		/* With continue_on_error fio reports the first one that it went on after. */
		if (job->error && (status || !job->errors))
			return format("job '%s': %s (error %d)", job->name, strerror(job->error),
				      job->error);
	}
	/* A job that was killed leaves no error, only this line. */
	return line_with(run->text, "got signal");
}

char *result_idle(const struct run_result *run)
{
	for (size_t i = 0; i < run->nr_jobs; i++) {
		const struct job_result *job = &run->jobs[i];
		uint64_t ios = 0;
		double seconds = 0;

		for (int d = 0; d < NR_DIRECTIONS; d++) {
			ios += job->dir[d].ios;
			seconds = fmax(seconds, job->dir[d].seconds);
		}
		if (job->counted && (!ios || !(seconds > 0)))
			return format("job '%s': %s", job->name,
				      ios ? "no runtime, it was over within a millisecond: give it "
					    "more with --size or --runtime"
					  : "did no I/O");
	}
	return NULL;
}

/* ---- histograms ---------------------------------------------------------------------------- */

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	struct latency_bin *merged = xcalloc(to->nr + from->nr, sizeof(*merged));
	size_t i = 0, j = 0, nr = 0;

	while (i < to->nr || j < from->nr) {
		if (j == from->nr || (i < to->nr && to->bins[i].nsec < from->bins[j].nsec)) {
			merged[nr++] = to->bins[i++];
		} else if (i == to->nr || to->bins[i].nsec > from->bins[j].nsec) {
			merged[nr++] = from->bins[j++];
		} else {
			merged[nr] = to->bins[i++];
			merged[nr++].count += from->bins[j++].count;
		}
	}
	free(to->bins);
	to->bins = merged;
	to->nr = nr;
}

double histogram_percentile(const struct histogram *histogram, double percentile)
{
	uint64_t total = 0, seen = 0;

	for (size_t i = 0; i < histogram->nr; i++)
		total += histogram->bins[i].count;
	if (!total)
		return NAN;
	/* 99.9 is no binary fraction: 99.9 % of 1000 must be rank 999, not 1000. */
	double rank = ceil(percentile / 100 * total - 1e-6);

	for (size_t i = 0; i < histogram->nr; i++) {
		seen += histogram->bins[i].count;
		if (seen >= rank)
			return histogram->bins[i].nsec;
	}
	return histogram->bins[histogram->nr - 1].nsec;
}

/* ---- figures ------------------------------------------------------------------------------- */

static bool job_matches(const struct job_result *job, const struct figure *figure)
{
	if (!job->counted || job->group != figure->group)
		return false;
	return !figure->job || (job->index == figure->index && !strcmp(job->name, figure->job));
}

/* The parts of a run that a figure is made of, one after the other; NULL after the last. */
struct parts {
	const struct run_result *run;
	const struct figure *figure;
	size_t job;
	int dir;
};

static const struct direction_result *next_part(struct parts *p)
{
	for (; p->job < p->run->nr_jobs; p->job++, p->dir = 0) {
		if (!job_matches(&p->run->jobs[p->job], p->figure))
			continue;
		for (; p->dir < NR_DIRECTIONS;) {
			int dir = p->dir++;

			if (p->figure->direction == DIR_ALL || (int)p->figure->direction == dir)
				return &p->run->jobs[p->job].dir[dir];
		}
	}
	return NULL;
}

#define for_each_part(part, run_, figure_)                                 \
	for (struct parts parts_ = { .run = (run_), .figure = (figure_) }; \
	     ((part) = next_part(&parts_)) != NULL;)

struct histogram result_histogram(const struct run_result *run, const struct figure *figure)
{
	const struct direction_result *part;
	struct histogram all = { 0 };

	for_each_part(part, run, figure) histogram_merge(&all, &part->latency);
	return all;
}

static double percentile(const struct run_result *run, const struct figure *figure, double p)
{
	struct histogram all = result_histogram(run, figure);
	double value = histogram_percentile(&all, p);

	free(all.bins);
	return value;
}

/*
 * fio counts the CPU time of its own job thread alone. An engine may have its work done by others,
 * and would look as if it saved it: only what the whole run cost says what it cost, and only where
 * the run is nothing but this group.
 */
static double cpu_seconds(const struct run_result *run, const struct figure *figure)
{
	for (size_t i = 0; i < run->nr_jobs; i++)
		if (!run->jobs[i].counted || run->jobs[i].group != figure->group)
			return NAN;
	return figure->job || figure->direction != DIR_ALL ? NAN : run->cpu_seconds;
}

static double job_seconds(const struct job_result *job, enum direction direction)
{
	const struct direction_result *dir = job->dir;

	if (direction != DIR_ALL)
		return dir[direction].seconds;
	/* fio starts a clock per direction: in a mixed job they run together */
	double others = fmax(dir[DIR_WRITE].seconds, dir[DIR_TRIM].seconds);

	return job->phases ? others + dir[DIR_READ].seconds : fmax(others, dir[DIR_READ].seconds);
}

/* When a job was done, as seconds from the start of its group. @most: of a chain, against loops. */
static double job_end(const struct run_result *run, const struct job_result *job,
		      enum direction direction, size_t most)
{
	double start = 0;

	for (size_t i = 0; job->after && most && i < run->nr_jobs; i++)
		if (run->jobs[i].group == job->group && !strcmp(run->jobs[i].name, job->after))
			start = fmax(start, job_end(run, &run->jobs[i], direction, most - 1));
	return start + job_seconds(job, direction);
}

static double figure_seconds(const struct run_result *run, const struct figure *figure)
{
	double seconds = 0;

	for (size_t i = 0; i < run->nr_jobs; i++) {
		const struct job_result *job = &run->jobs[i];

		if (job_matches(job, figure))
			seconds = fmax(seconds, figure->job ? job_seconds(job, figure->direction)
							    : job_end(run, job, figure->direction,
								      run->nr_jobs));
	}
	return seconds;
}

double result_figure(const struct run_result *run, const struct figure *figure)
{
	const struct direction_result *part;
	double iops = 0, bandwidth = 0, latency = 0, samples = 0, ios = 0;

	for_each_part(part, run, figure)
	{
		iops += part->iops;
		bandwidth += part->bytes_per_second;
		latency += part->mean_nsec * part->samples;
		samples += part->samples;
		ios += part->ios;
	}
	if (!(ios > 0))
		return NAN;
	switch (figure->quantity) {
	case Q_TIME:
		return figure_seconds(run, figure);
	case Q_IOPS:
		return iops;
	case Q_BANDWIDTH:
		return bandwidth;
	case Q_MEAN:
		return samples > 0 && latency > 0 ? latency / samples : NAN;
	case Q_P50:
		return percentile(run, figure, 50);
	case Q_P99:
		return percentile(run, figure, 99);
	case Q_P99_9:
		return percentile(run, figure, 99.9);
	case Q_CPU:
		return cpu_seconds(run, figure) / ios * 1e9;
	case NR_QUANTITIES:
		break;
	}
	return NAN;
}

double result_depth(const struct run_result *run, unsigned int group)
{
	double depth = 0;

	for (size_t i = 0; i < run->nr_jobs; i++)
		if (run->jobs[i].counted && run->jobs[i].group == group)
			depth += run->jobs[i].depth;
	return depth;
}

uint64_t result_errors(const struct run_result *run, unsigned int group, int *error)
{
	uint64_t errors = 0;

	for (size_t i = 0; i < run->nr_jobs; i++) {
		const struct job_result *job = &run->jobs[i];

		if (!job->counted || job->group != group || !job->errors)
			continue;
		errors += job->errors;
		*error = job->error;
	}
	return errors;
}

uint64_t result_bytes(const struct run_result *run, unsigned int group)
{
	const struct figure all = { .group = group, .direction = DIR_ALL };
	const struct direction_result *part;
	uint64_t bytes = 0;

	for_each_part(part, run, &all) bytes += part->bytes;
	return bytes;
}

double result_seconds(const struct run_result *run, unsigned int group)
{
	const struct figure all = { .group = group, .direction = DIR_ALL, .quantity = Q_TIME };
	double seconds = result_figure(run, &all);

	return isnan(seconds) ? 0 : seconds;
}
