// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "targets.h"

#define DEFAULT_FORMAT "$jobname.$jobnum.$filenum"
#define FILES_MAX      (1u << 20)
#define JOBS_MAX       4096 /* fio refuses more */

unsigned int targets_count(const struct jobfile *jf, size_t index, const char *name)
{
	const char *value = jobfile_value(jf, index, name);
	unsigned long count = value ? strtoul(value, NULL, 10) : 1;

	if (!count)
		return 1;
	return count > FILES_MAX ? FILES_MAX : count;
}

/* The directory that fio's clone number @jobnum gets: one of the list, in turn. */
static char *pick_directory(const char *directories, unsigned int jobnum)
{
	char *copy = xstrdup(directories), *rest = copy, *directory = NULL;
	unsigned int nr = 0;

	while (text_next_path(&rest))
		nr++;
	if (nr) {
		strcpy(copy, directories);
		rest = copy;
		for (unsigned int i = 0; i <= jobnum % nr; i++)
			directory = text_next_path(&rest);
	}
	directory = xstrdup(directory ? directory : "");
	free(copy);
	return directory;
}

static void add_in_directory(struct targets *t, const char *directories, unsigned int jobnum,
			     const char *file)
{
	if (t->paths.nr == FILES_MAX) {
		t->unknown = true;
	} else if (!directories || !*directories) {
		text_list_add(&t->paths, "%s", file);
	} else {
		char *directory = pick_directory(directories, jobnum);

		text_list_add(&t->paths, "%s/%s", directory, file);
		free(directory);
	}
}

/* The files of one filename= line; fio skips blanks at its front. */
static void add_named(struct targets *t, const char *directories, const char *names)
{
	char *copy = xstrdup(names + strspn(names, " \t\v\f")), *rest = copy, *name;

	while ((name = text_next_path(&rest)))
		add_in_directory(t, directories, 0, name);
	free(copy);
}

/* fio adds up: the files of [global] stay when the job names its own. */
static void add_all_named(struct targets *t, const struct jobfile *jf, size_t index)
{
	for (size_t i = 0; i <= index; i++) {
		const struct jobfile_section *s = &jf->sections[i];

		if (!s->global && i != index)
			continue;
		for (size_t k = 0; k < s->nr_lines; k++)
			if (jobfile_sets(&s->lines[k], "filename") && s->lines[k].value)
				add_named(t, jobfile_value(jf, i, "directory"), s->lines[k].value);
	}
}

/* One name from @format; fio replaces $jobname, $jobnum, $filenum, and $clientuid by nothing. */
static char *format_name(const char *format, const char *jobname, unsigned int jobnum,
			 unsigned int filenum)
{
	struct stream stream;
	FILE *out = stream_open(&stream);

	while (*format) {
		if (!strncasecmp(format, "$jobname", 8)) {
			fputs(jobname, out);
			format += 8;
		} else if (!strncasecmp(format, "$jobnum", 7)) {
			fprintf(out, "%u", jobnum);
			format += 7;
		} else if (!strncasecmp(format, "$filenum", 8)) {
			fprintf(out, "%u", filenum);
			format += 8;
		} else if (!strncasecmp(format, "$clientuid", 10)) {
			format += 10;
		} else {
			fputc(*format++, out);
		}
	}
	return stream_text(&stream);
}

/* fio opens a job's name itself where that is something other than a regular file: [/dev/sdb] */
static bool names_a_device(const char *jobname)
{
	struct stat st;

	return !lstat(jobname, &st) && !S_ISREG(st.st_mode);
}

static void add_generated(struct targets *t, const struct jobfile *jf, size_t index)
{
	unsigned int count = targets_count(jf, index, "numjobs");
	unsigned int numjobs = count < JOBS_MAX ? count : JOBS_MAX;
	unsigned int nrfiles = targets_count(jf, index, "nrfiles");
	const char *format = jobfile_value(jf, index, "filename_format");
	const char *directories = jobfile_value(jf, index, "directory");
	const char *jobname = jf->sections[index].name;

	if (nrfiles == 1 && names_a_device(jobname)) {
		add_in_directory(t, directories, 0, jobname);
		return;
	}
	if (!format || !*format)
		format = DEFAULT_FORMAT;
	for (unsigned int i = 0; i < numjobs && !t->unknown; i++)
		for (unsigned int k = 0; k < nrfiles && !t->unknown; k++) {
			char *name = format_name(format, jobname, i, k);

			add_in_directory(t, directories, i, name);
			free(name);
		}
}

/* "[time] path action ...", the time since version 3. */
static void take_log_line(struct targets *t, const char *directories, char *line, bool timed)
{
	char *path, *action;

	if (timed)
		strsep(&line, " ");
	path = strsep(&line, " \n");
	action = strsep(&line, " \n");
	if (!action)
		return;
	t->writes |= !strcmp(action, "write") || !strcmp(action, "trim");
	if (!strcmp(action, "add"))
		add_in_directory(t, directories, 0, path);
}

/* A log that fio replays names its own files. A binary one is not taken apart here. */
static void add_logged(struct targets *t, const char *directories, const char *log)
{
	FILE *in = fopen(log, "re");
	unsigned int version = 0;
	char *line = NULL;
	size_t size = 0;

	if (in && getline(&line, &size, in) > 0)
		sscanf(line, "fio version %u iolog", &version);
	t->unknown |= version < 2;
	t->writes |= version < 2;
	while (version >= 2 && getline(&line, &size, in) > 0)
		take_log_line(t, directories, line, version >= 3);
	free(line);
	if (in)
		fclose(in);
}

static void add_replayed(struct targets *t, const struct jobfile *jf, size_t index,
			 const char *logs)
{
	const char *redirect = jobfile_value(jf, index, "replay_redirect");
	const char *directories = jobfile_value(jf, index, "directory");
	char *copy = xstrdup(logs), *rest = copy, *log;

	t->writes = false;
	while ((log = text_next_path(&rest)))
		add_logged(t, directories, log);
	free(copy);
	if (!redirect || !*redirect)
		return;
	text_list_free(&t->paths);
	t->unknown = false;
	text_list_add(&t->paths, "%s", redirect);
}

/* Everything but reads counts as writing: what fio does not know, it refuses itself. */
static bool rw_writes(const char *rw)
{
	size_t len = rw ? strcspn(rw, ":,") : 0;

	return len && strncmp(rw, "read", len > 4 ? len : 4) &&
	       strncmp(rw, "randread", len > 8 ? len : 8);
}

void targets_of(const struct jobfile *jf, size_t index, struct targets *t)
{
	const char *log = jobfile_value(jf, index, "read_iolog");

	t->writes = rw_writes(jobfile_value(jf, index, "rw"));
	if (log && *log) {
		add_replayed(t, jf, index, log);
		return;
	}
	add_all_named(t, jf, index);
	if (!t->paths.nr && !jobfile_value(jf, index, "opendir"))
		add_generated(t, jf, index);
}
