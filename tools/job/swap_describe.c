// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "swap_internal.h"
#include "targets.h"

/* Options that hold a job's rate, whatever the engine does. */
static const char *const fixed_ratio[] = {
	"rate", "rate_iops", "thinktime", "flow", "latency_target", "number_ios", NULL,
};

/* "10", "10s", "500ms", "2m": seconds unless a unit follows; of a range its beginning. */
static unsigned long long microseconds(const char *value)
{
	static const struct {
		const char *unit;
		unsigned long long usec;
	} units[] = {
		{ "us", 1 },
		{ "usec", 1 },
		{ "ms", 1000 },
		{ "msec", 1000 },
		{ "s", 1000000 },
		{ "m", 60 * 1000000ULL },
		{ "h", 3600000000ULL },
		{ "d", 24 * 3600000000ULL },
	};
	unsigned long long number;
	char *end;
	size_t len;

	if (!value)
		return 0;
	number = strtoull(value, &end, 10);
	len = strcspn(end, "-,:");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].unit) == len && !strncasecmp(units[i].unit, end, len))
			return number * units[i].usec;
	return number * 1000000;
}

/* direct and buffered are one switch: the later of the two counts. */
static bool is_buffered(const struct jobfile *jf, size_t i)
{
	for (;;) {
		const struct jobfile_section *s = &jf->sections[i];

		for (size_t k = s->nr_lines; k-- > 0;) {
			const struct jobfile_line *l = &s->lines[k];
			bool direct = jobfile_sets(l, "direct");

			if (direct || jobfile_sets(l, "buffered"))
				return (l->value && !strtol(l->value, NULL, 10)) == direct;
		}
		do {
			if (i-- == 0)
				return true;
		} while (!jf->sections[i].global);
	}
}

static char *find_fixed_ratio(const struct jobfile *jf, size_t i)
{
	for (const char *const *option = fixed_ratio; *option; option++)
		if (swap_is_on(jf, i, *option))
			return format("%s=%s", *option, jobfile_value(jf, i, *option));
	return NULL;
}

/* fio names a job by name= in its section, else by the section. */
static char *job_name(const struct jobfile_section *s)
{
	const struct jobfile_line *l = jobfile_own(s, "name");

	return xstrdup(l && l->value && *l->value ? l->value : s->name);
}

/* A job that only writes reads it back when all is written; one that also reads does so meanwhile. */
static bool verifies_afterwards(const struct jobfile *jf, size_t i)
{
	const char *verify = jobfile_value(jf, i, "verify"), *rw = jobfile_value(jf, i, "rw");
	const char *do_verify = jobfile_value(jf, i, "do_verify");

	if (!verify || !*verify || !strcmp(verify, "0") || !rw || !strstr(rw, "write"))
		return false;
	return strncmp(rw, "readwrite", 9) && (!do_verify || swap_is_on(jf, i, "do_verify"));
}

static void describe(struct swap *s, size_t i, struct swap_job *job)
{
	const struct jobfile *jf = s->jf;
	const struct jobfile_section *section = &jf->sections[i];
	const char *after = jobfile_value(jf, i, "wait_for");
	unsigned long long runtime = microseconds(jobfile_value(jf, i, "runtime"));

	job->name = job_name(section);
	job->file = section->file;
	job->line = section->line;
	job->storage = s->engines[i].backend;
	job->swapped = swap_is_swapped(s, i);
	job->old_engine = xstrdup(s->engines[i].name);
	job->buffered = is_buffered(jf, i);
	job->fixed_work = !(swap_is_on(jf, i, "time_based") && runtime);
	job->unmeasured = jobfile_value(jf, i, "stats") && !swap_is_on(jf, i, "stats");
	job->phases = verifies_afterwards(jf, i);
	job->numjobs = targets_count(jf, i, "numjobs");
	if (runtime)
		job->us = runtime + microseconds(jobfile_value(jf, i, "ramp_time")) +
			  microseconds(jobfile_value(jf, i, "startdelay"));
	if (after && *after)
		job->after = xstrdup(after);
	job->ratio_one = find_fixed_ratio(jf, i);
}

static void add_files(struct text_list *files, const struct text_list *paths)
{
	for (size_t k = 0; k < paths->nr; k++)
		text_list_add(files, "%s", paths->item[k]);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Jobs share files: each is to be named once. */
static void sort_files(struct text_list *files)
{
	size_t nr = 0;

	if (files->nr)
		qsort(files->item, files->nr, sizeof(*files->item), compare_names);
	for (size_t k = 0; k < files->nr; k++) {
		if (nr && !strcmp(files->item[nr - 1], files->item[k]))
			free(files->item[k]);
		else
			files->item[nr++] = files->item[k];
	}
	files->nr = nr;
}

void swap_describe(struct swap *s, struct swap_result *result)
{
	struct text_list files = { 0 }, written = { 0 };
	unsigned int group = 0;

	result->jobs = xcalloc(s->jf->nr_sections, sizeof(*result->jobs));
	for (size_t i = 0; i < s->jf->nr_sections; i++) {
		struct targets t = { 0 };
		struct swap_job *job;

		if (!jobfile_is_job(&s->jf->sections[i]))
			continue;
		if (result->nr_jobs && swap_begins_group(s->jf, i))
			group++;
		job = &result->jobs[result->nr_jobs++];
		job->group = group;
		describe(s, i, job);
		targets_of(s->jf, i, &t);
		job->writes = t.writes;
		add_files(&files, &t.paths);
		if (t.writes && !swap_writes_nothing(s, i)) {
			add_files(&written, &t.paths);
			result->writes_unknown |= t.unknown;
		}
		text_list_free(&t.paths);
	}
	sort_files(&files);
	result->files = files.item;
	result->nr_files = files.nr;
	sort_files(&written);
	result->written = written.item;
	result->nr_written = written.nr;
}
