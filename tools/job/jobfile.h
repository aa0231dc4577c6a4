/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A fio job file as its author wrote it: sections of lines, every line with the place it came
 * from, so that a change touches nothing else and a message can point at the cause. The reader
 * takes lines apart exactly as fio's own does, oddities included.
 */
#ifndef KPOLICY_TOOLS_JOBFILE_H
#define KPOLICY_TOOLS_JOBFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "util/util.h"

struct jobfile_line {
	char *text;	   /* as it will be written, without newline */
	char *key;	   /* NULL: a comment, a blank line or a section header */
	char *value;	   /* as fio sees it, words replaced; NULL: the key stands alone */
	const char *file;  /* where its author wrote it */
	unsigned int line; /* 0: it has no number */
	bool unended;	   /* the original ends here, without a newline */
};

struct jobfile_section {
	char *name; /* NULL: what stands before the first header */
	bool global;
	const char *file;
	unsigned int line; /* of the header */
	struct jobfile_line *lines;
	size_t nr_lines;
};

struct jobfile {
	struct jobfile_section *sections;
	size_t nr_sections;
	struct text_list names; /* of the files read */
	char *text;		/* the file as it was read */
};

/*
  * Appends the job file at @path, or job file @text that messages call @name, with line numbers or
 * without. Includes are read and take the place of their line.
 *
 * Returns 0 or -errno with *@error set to one line: what open() and read() report, -EINVAL for what
 * fio would not read either, -EOPNOTSUPP for standard input and pipes (each variant reads the file
 * again). @jf must start zeroed and be freed on failure too.
 */
int jobfile_read(struct jobfile *jf, const char *path, char **error);
int jobfile_parse(struct jobfile *jf, const char *name, bool numbered, const char *text,
		  char **error);

void jobfile_free(struct jobfile *jf);

/* A job: neither global nor what stands before the first header. */
bool jobfile_is_job(const struct jobfile_section *s);

/* Whether the line sets fio's option @name, under that name or an alias. */
bool jobfile_sets(const struct jobfile_line *l, const char *name);

/* The last line of section @s that sets @name, as fio's last one counts; NULL if none does. */
struct jobfile_line *jobfile_own(const struct jobfile_section *s, const char *name);

/* The line in effect in section @index: its own or that of the nearest [global] before it. */
struct jobfile_line *jobfile_effective(const struct jobfile *jf, size_t index, const char *name);

/* Its value; "" when the key stands alone, NULL when nothing sets it. */
const char *jobfile_value(const struct jobfile *jf, size_t index, const char *name);

/*
 * Changes of one line, which becomes "key=value"; jobfile_can_write(value) must hold. Pointers to
 * lines of the section become stale. jobfile_replace() keeps the key under fio's own name for it.
 */
void jobfile_insert(struct jobfile_section *s, size_t at, const char *key, const char *value);
void jobfile_replace(struct jobfile_line *l, const char *value);
void jobfile_remove_line(struct jobfile_section *s, size_t at);
void jobfile_remove_section(struct jobfile *jf, size_t index);

/* Adds "key=value" behind the section's last option, where it has the last word. */
void jobfile_append(struct jobfile_section *s, const char *key, const char *value);

/* Whether a job file can hold @value literally: there is no quoting in fio. */
bool jobfile_can_write(const char *value);

/* The whole as text, to be freed. */
char *jobfile_text(const struct jobfile *jf);

#endif
