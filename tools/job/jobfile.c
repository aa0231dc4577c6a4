// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fioinfo.h"
#include "jobfile.h"
#include "subst.h"

/* fio reads into a buffer of 8192 bytes: a longer line would be two to it. */
#define LINE_MAX_LEN	  8190
#define NAME_MAX_LEN	  254
#define FILE_MAX_LEN	  (16 << 20)
#define INCLUDE_DEPTH_MAX 32

/* One file, or one included file, being read. */
struct reader {
	struct jobfile *jf;
	const char *name;
	unsigned int line;
	unsigned int depth; /* of includes; 0: the job file itself */
	bool in_section;
	bool numbered; /* lines have numbers in messages */
	char **error;
};

static int read_into(struct jobfile *jf, const char *path, unsigned int depth, char **error);

/* --- lines ------------------------------------------------------------------------------------ */

static void free_line(struct jobfile_line *l)
{
	free(l->text);
	free(l->key);
	free(l->value);
}

static bool is_blank(char c)
{
	return isspace((unsigned char)c) || iscntrl((unsigned char)c);
}

static bool is_comment(const char *line)
{
	while (*line && is_blank(*line) && *line != ';' && *line != '#')
		line++;
	return !*line || *line == ';' || *line == '#';
}

/* What fio leaves of a line: no blanks in front, no comment, nothing blank behind. */
static char *strip(const char *line)
{
	size_t len;

	while (isspace((unsigned char)*line))
		line++;
	len = strcspn(line, ";#");
	while (len > 1 && is_blank(line[len - 1]))
		len--;
	return xstrndup(line, len);
}

/* Sets key and value of @l from option @text, as fio sees them. */
static void split_option(struct jobfile_line *l, const char *text)
{
	char *option = subst_expand(text), *equals = strchr(option, '=');

	if (equals) {
		*equals = '\0';
		l->value = xstrdup(equals + 1);
	}
	l->key = strip(option);
	free(option);
}

/* Fills an empty line; @stripped is the option in it or NULL. */
static void init_line(struct jobfile_line *l, const char *text, const char *stripped)
{
	l->text = xstrdup(text);
	if (stripped)
		split_option(l, stripped);
}

static void add_line(struct jobfile_section *s, size_t at, const struct jobfile_line *l)
{
	s->lines = grow_array(s->lines, s->nr_lines, sizeof(*s->lines));
	memmove(s->lines + at + 1, s->lines + at, (s->nr_lines - at) * sizeof(*s->lines));
	s->lines[at] = *l;
	s->nr_lines++;
}

static struct jobfile_section *add_section(struct jobfile *jf)
{
	struct jobfile_section *s;

	jf->sections = grow_array(jf->sections, jf->nr_sections, sizeof(*s));
	s = &jf->sections[jf->nr_sections++];
	*s = (struct jobfile_section){ 0 };
	return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int fail(const struct reader *r, int err, const char *reason, const char *what)
{
	return text_error_at(r->error, err, r->name, r->line, "%s%s%s%s", reason, *what ? " '" : "",
			     what, *what ? "'" : "");
}

/* Takes @text as a line of the section that is being read. */
static void take_line(struct reader *r, const char *text, const char *option)
{
	struct jobfile *jf = r->jf;
	struct jobfile_line l = { .file = r->name, .line = r->line };
	struct jobfile_section *s;

	if (!jf->nr_sections)
		add_section(jf);
	s = &jf->sections[jf->nr_sections - 1];
	init_line(&l, text, option);
	add_line(s, s->nr_lines, &l);
}

/* fio takes all between the first bracket and the last character of the line for the name. */
static int take_header(struct reader *r, const char *text, const char *stripped)
{
	size_t len = strlen(stripped);
	struct jobfile_section *s;

	if (r->depth)
		return fail(r, EINVAL, "an included file cannot begin a section", stripped);
	if (len < 2)
		return fail(r, EINVAL, "a section needs a name", stripped);
	if (len - 2 > NAME_MAX_LEN)
		return fail(r, EINVAL, "fio cuts section names at 254 characters", "");
	s = add_section(r->jf);
	s->name = xstrndup(stripped + 1, len - 2);
	s->global = !strncmp(s->name, "global", strlen("global"));
	s->file = r->name;
	s->line = r->line;
	r->in_section = true;
	take_line(r, text, NULL);
	return 0;
}

/* fio looks in the working directory first, then beside the file that includes. */
static int take_include(struct reader *r, const char *stripped)
{
	size_t word = strlen("include");
	const char *name = stripped[word] ? stripped + word + 1 : "";
	const char *slash = strrchr(r->name, '/');
	char *path;
	int ret;

	if (!*name)
		return fail(r, EINVAL, "include names no file", "");
	if (r->depth == INCLUDE_DEPTH_MAX)
		return fail(r, ELOOP, "includes nest too deep, is there a loop?", name);
	if (access(name, F_OK) && slash)
		path = format("%.*s%s", (int)(slash + 1 - r->name), r->name, name);
	else
		path = xstrdup(name);
	if (access(path, R_OK))
		ret = text_error_at(r->error, errno, r->name, r->line,
				    "cannot read the included file '%s': %s", name,
				    strerror(errno));
	else
		ret = read_into(r->jf, path, r->depth + 1, r->error);
	free(path);
	return ret;
}

static int take_option(struct reader *r, const char *text, const char *stripped)
{
	if (!r->in_section)
		return fail(r, EINVAL, "option outside of a [section]", stripped);
	if (!strncmp(stripped, "include", strlen("include")))
		return take_include(r, stripped);
	take_line(r, text, stripped);
	return 0;
}

static int take(struct reader *r, const char *text)
{
	char *stripped;
	int ret;

	r->line += r->numbered;

	if (strlen(text) > LINE_MAX_LEN)
		return fail(r, EINVAL, "fio cuts lines at 8191 characters, this one is longer", "");
	if (is_comment(text)) {
		take_line(r, text, NULL);
		return 0;
	}
	stripped = strip(text);
	ret = *stripped == '[' ? take_header(r, text, stripped) : take_option(r, text, stripped);
	free(stripped);
	return ret;
}

static struct jobfile_line *last_line(struct jobfile *jf)
{
	struct jobfile_section *s = &jf->sections[jf->nr_sections - 1];

	return &s->lines[s->nr_lines - 1];
}

/* Lets @r read @text, which is taken apart. */
static int parse_into(struct reader *r, const char *name, char *text)
{
	struct text_list *names = &r->jf->names;
	char *line;
	int ret = 0;

	text_list_add(names, "%s", name);
	r->name = names->item[names->nr - 1];
	r->in_section = r->depth;

	while (!ret && (line = strsep(&text, "\n"))) {
		if (!text && !*line) /* the newline was the last character */
			break;
		ret = take(r, line);
		if (!ret && !text && !r->depth)
			last_line(r->jf)->unended = true;
	}
	return ret;
}

/* The whole of the regular file @fd, refused when it is no text; freed by the caller. */
static int slurp(int fd, const char *path, char **text, char **error)
{
	struct stat st;
	ssize_t got;
	size_t len = 0;

	if (fstat(fd, &st))
		return text_error(error, errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return text_error(error, EISDIR, "%s: is a directory, not a job file", path);
	if (!S_ISREG(st.st_mode))
		return text_error(error, EOPNOTSUPP,
				  "%s: not a regular file; every variant reads the job file "
				  "again, so save it to one first",
				  path);
	if (st.st_size > FILE_MAX_LEN)
		return text_error(error, EFBIG, "%s: too large for a job file", path);
	*text = xcalloc(st.st_size + 1, 1);
	while ((got = read(fd, *text + len, st.st_size - len)) > 0)
		len += got;
	if (got < 0)
		return text_error(error, errno, "%s: %s", path, strerror(errno));
	if (strlen(*text) < len)
		return text_error(error, EINVAL, "%s: holds a NUL byte, so it is no job file",
				  path);
	return 0;
}

/* A job file may follow the jobs of a command line. */
static void add_text(struct jobfile *jf, const char *text)
{
	char *all = format("%s%s", jf->text ? jf->text : "", text);

	free(jf->text);
	jf->text = all;
}

static int read_into(struct jobfile *jf, const char *path, unsigned int depth, char **error)
{
	/* a FIFO must not hang before it is refused */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct reader r = { .jf = jf, .depth = depth, .numbered = true, .error = error };
	char *text = NULL;
	int ret;

	if (fd < 0)
		return text_error(error, errno, "%s: %s", path, strerror(errno));
	ret = slurp(fd, path, &text, error);
	close(fd);
	if (!ret && !depth)
		add_text(jf, text);
	if (!ret)
		ret = parse_into(&r, path, text);
	free(text);
	return ret;
}

int jobfile_read(struct jobfile *jf, const char *path, char **error)
{
	*error = NULL;
	if (!strcmp(path, "-"))
		return text_error(error, EOPNOTSUPP,
				  "standard input cannot be read again for each variant; save the "
				  "job file first");
	return read_into(jf, path, 0, error);
}

int jobfile_parse(struct jobfile *jf, const char *name, bool numbered, const char *text,
		  char **error)
{
	struct reader r = { .jf = jf, .numbered = numbered, .error = error };
	char *copy = xstrdup(text);
	int ret;

	*error = NULL;
	add_text(jf, text);
	ret = parse_into(&r, name, copy);
	free(copy);
	return ret;
}

static void free_section(struct jobfile_section *s)
{
	for (size_t i = 0; i < s->nr_lines; i++)
		free_line(&s->lines[i]);
	free(s->lines);
	free(s->name);
}

void jobfile_free(struct jobfile *jf)
{
	for (size_t i = 0; i < jf->nr_sections; i++)
		free_section(&jf->sections[i]);
	free(jf->sections);
	text_list_free(&jf->names);
	free(jf->text);
	*jf = (struct jobfile){ 0 };
}

/* --- looking ---------------------------------------------------------------------------------- */

bool jobfile_is_job(const struct jobfile_section *s)
{
	return s->name && !s->global;
}

bool jobfile_sets(const struct jobfile_line *l, const char *name)
{
	return l->key && !strcmp(fioinfo_name(l->key), fioinfo_name(name));
}

struct jobfile_line *jobfile_own(const struct jobfile_section *s, const char *name)
{
	for (size_t i = s->nr_lines; i-- > 0;)
		if (jobfile_sets(&s->lines[i], name))
			return &s->lines[i];
	return NULL;
}

struct jobfile_line *jobfile_effective(const struct jobfile *jf, size_t index, const char *name)
{
	struct jobfile_line *l = jobfile_own(&jf->sections[index], name);

	while (!l && index-- > 0)
		if (jf->sections[index].global)
			l = jobfile_own(&jf->sections[index], name);
	return l;
}

const char *jobfile_value(const struct jobfile *jf, size_t index, const char *name)
{
	const struct jobfile_line *l = jobfile_effective(jf, index, name);

	if (!l)
		return NULL;
	return l->value ? l->value : "";
}

/* --- changing --------------------------------------------------------------------------------- */

void jobfile_insert(struct jobfile_section *s, size_t at, const char *key, const char *value)
{
	struct jobfile_line l = { .file = s->file, .line = s->line };
	char *text = format("%s=%s", key, value);

	init_line(&l, text, text);
	add_line(s, at, &l);
	free(text);
}

void jobfile_replace(struct jobfile_line *l, const char *value)
{
	struct jobfile_line new = { .file = l->file, .line = l->line };
	char *text = format("%s=%s", fioinfo_name(l->key), value);

	init_line(&new, text, text);
	free(text);
	free_line(l);
	*l = new;
}

void jobfile_remove_line(struct jobfile_section *s, size_t at)
{
	free_line(&s->lines[at]);
	s->nr_lines--;
	memmove(s->lines + at, s->lines + at + 1, (s->nr_lines - at) * sizeof(*s->lines));
}

void jobfile_remove_section(struct jobfile *jf, size_t index)
{
	free_section(&jf->sections[index]);
	jf->nr_sections--;
	memmove(jf->sections + index, jf->sections + index + 1,
		(jf->nr_sections - index) * sizeof(*jf->sections));
}

void jobfile_append(struct jobfile_section *s, const char *key, const char *value)
{
	size_t at = s->nr_lines;

	while (at > 1 && !s->lines[at - 1].key)
		at--;
	jobfile_insert(s, at, key, value);
}

bool jobfile_can_write(const char *value)
{
	size_t len = strlen(value);

	return !strpbrk(value, ";#\n\r") && !strstr(value, "${") && !strstr(value, "$pagesize") &&
	       !strstr(value, "$mb_memory") && !strstr(value, "$ncpus") &&
	       (!len || !is_blank(value[len - 1])) && len < LINE_MAX_LEN / 2;
}

/* --- writing ---------------------------------------------------------------------------------- */

char *jobfile_text(const struct jobfile *jf)
{
	const struct jobfile_line *previous = NULL;
	struct stream stream;
	FILE *out = stream_open(&stream);

	for (size_t i = 0; i < jf->nr_sections; i++) {
		const struct jobfile_section *s = &jf->sections[i];

		for (size_t k = 0; k < s->nr_lines; k++) {
			if (previous)
				fputc('\n', out);
			previous = &s->lines[k];
			fputs(previous->text, out);
		}
	}
	if (previous && !previous->unended)
		fputc('\n', out);
	return stream_text(&stream);
}
