// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "targets.h"

#define DEFAULT_FORMAT "$jobname.$jobnum.$filenum"
#define FILES_MAX      (1u << 20)

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
	char *copy = strdup(directories), *rest = copy, *directory = NULL;
	unsigned int nr = 0;

	while (copy && text_next_path(&rest))
		nr++;
	if (nr) {
		strcpy(copy, directories);
		rest = copy;
		for (unsigned int i = 0; i <= jobnum % nr; i++)
			directory = text_next_path(&rest);
	}
	directory = copy ? strdup(directory ? directory : "") : NULL;
	free(copy);
	return directory;
}

static int add_in_directory(struct targets *t, const char *directories, unsigned int jobnum,
			    const char *file)
{
	char *directory;
	int ret;

	if (t->paths.nr == FILES_MAX) {
		t->unknown = true;
		return 0;
	}
	if (!directories || !*directories)
		return text_list_add(&t->paths, "%s", file);
	directory = pick_directory(directories, jobnum);
	ret = directory ? text_list_add(&t->paths, "%s/%s", directory, file) : -ENOMEM;
	free(directory);
	return ret;
}

/* The files of one filename= line; fio skips blanks at its front. */
static int add_named(struct targets *t, const char *directories, const char *names)
{
	char *copy = strdup(names + strspn(names, " \t\v\f")), *rest = copy, *name;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && (name = text_next_path(&rest)))
		ret = add_in_directory(t, directories, 0, name);
	free(copy);
	return ret;
}

/* fio adds up: the files of [global] stay when the job names its own. */
static int add_all_named(struct targets *t, const struct jobfile *jf, size_t index)
{
	int ret = 0;

	for (size_t i = 0; i <= index && !ret; i++) {
		const struct jobfile_section *s = &jf->sections[i];

		if (!s->global && i != index)
			continue;
		for (size_t k = 0; k < s->nr_lines && !ret; k++)
			if (jobfile_sets(&s->lines[k], "filename") && s->lines[k].value)
				ret = add_named(t, jobfile_value(jf, i, "directory"),
						s->lines[k].value);
	}
	return ret;
}

/* One name from @format; fio replaces $jobname, $jobnum, $filenum, and $clientuid by nothing. */
static char *format_name(const char *format, const char *jobname, unsigned int jobnum,
			 unsigned int filenum)
{
	char *name = NULL;
	size_t size;
	FILE *out = open_memstream(&name, &size);

	if (!out)
		return NULL;
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
	if (fclose(out)) {
		free(name);
		return NULL;
	}
	return name;
}

/* fio opens a job's name itself where that is something other than a regular file: [/dev/sdb] */
static bool names_a_device(const char *jobname)
{
	struct stat st;

	return !lstat(jobname, &st) && !S_ISREG(st.st_mode);
}

static int add_generated(struct targets *t, const struct jobfile *jf, size_t index)
{
	unsigned int numjobs = targets_count(jf, index, "numjobs");
	unsigned int nrfiles = targets_count(jf, index, "nrfiles");
	const char *format = jobfile_value(jf, index, "filename_format");
	const char *directories = jobfile_value(jf, index, "directory");
	const char *jobname = jf->sections[index].name;
	int ret = 0;

	if (nrfiles == 1 && names_a_device(jobname))
		return add_in_directory(t, directories, 0, jobname);
	if (!format || !*format)
		format = DEFAULT_FORMAT;
	for (unsigned int i = 0; i < numjobs && !t->unknown; i++)
		for (unsigned int k = 0; k < nrfiles && !t->unknown && !ret; k++) {
			char *name = format_name(format, jobname, i, k);

			ret = name ? add_in_directory(t, directories, i, name) : -ENOMEM;
			free(name);
		}
	return ret;
}

/* "[time] path action ...", the time since version 3. */
static int take_log_line(struct targets *t, const char *directories, char *line, bool timed)
{
	char *path, *action;

	if (timed)
		strsep(&line, " ");
	path = strsep(&line, " \n");
	action = strsep(&line, " \n");
	if (!action)
		return 0;
	t->writes |= !strcmp(action, "write") || !strcmp(action, "trim");
	return strcmp(action, "add") ? 0 : add_in_directory(t, directories, 0, path);
}

/* A log that fio replays names its own files. A binary one is not taken apart here. */
static int add_logged(struct targets *t, const char *directories, const char *log)
{
	FILE *in = fopen(log, "re");
	unsigned int version = 0;
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	if (in && getline(&line, &size, in) > 0)
		sscanf(line, "fio version %u iolog", &version);
	t->unknown |= version < 2;
	t->writes |= version < 2;
	while (version >= 2 && !ret && getline(&line, &size, in) > 0)
		ret = take_log_line(t, directories, line, version >= 3);
	free(line);
	if (in)
		fclose(in);
	return ret;
}

static int add_replayed(struct targets *t, const struct jobfile *jf, size_t index, const char *logs)
{
	const char *redirect = jobfile_value(jf, index, "replay_redirect");
	const char *directories = jobfile_value(jf, index, "directory");
	char *copy, *rest, *log;
	int ret = 0;

	t->writes = false;
	copy = rest = strdup(logs);
	if (!copy)
		return -ENOMEM;
	while (!ret && (log = text_next_path(&rest)))
		ret = add_logged(t, directories, log);
	free(copy);
	if (ret || !redirect || !*redirect)
		return ret;
	text_list_free(&t->paths);
	t->unknown = false;
	return text_list_add(&t->paths, "%s", redirect);
}

/* Everything but reads counts as writing: what fio does not know, it refuses itself. */
static bool rw_writes(const char *rw)
{
	size_t len = rw ? strcspn(rw, ":,") : 0;

	return len && strncmp(rw, "read", len > 4 ? len : 4) &&
	       strncmp(rw, "randread", len > 8 ? len : 8);
}

int targets_of(const struct jobfile *jf, size_t index, struct targets *t)
{
	const char *log = jobfile_value(jf, index, "read_iolog");
	int ret;

	t->writes = rw_writes(jobfile_value(jf, index, "rw"));
	if (log && *log)
		return add_replayed(t, jf, index, log);
	ret = add_all_named(t, jf, index);
	if (!ret && !t->paths.nr && !jobfile_value(jf, index, "opendir"))
		ret = add_generated(t, jf, index);
	return ret;
}
