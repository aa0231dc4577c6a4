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
#define CONTEXT_LINES	  3

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
	return strndup(line, len);
}

/* Sets key and value of @l from option @text, as fio sees them. */
static int split_option(struct jobfile_line *l, const char *text)
{
	char *option = subst_expand(text), *equals;

	if (!option)
		return -ENOMEM;
	equals = strchr(option, '=');
	if (equals) {
		*equals = '\0';
		l->value = strdup(equals + 1);
	}
	l->key = strip(option);
	free(option);
	return l->key && (l->value || !equals) ? 0 : -ENOMEM;
}

/* Fills an empty line; @stripped is the option in it or NULL. */
static int init_line(struct jobfile_line *l, const char *text, const char *stripped)
{
	int ret;

	l->text = strdup(text);
	ret = l->text ? 0 : -ENOMEM;
	if (!ret && stripped)
		ret = split_option(l, stripped);
	if (ret) {
		free_line(l);
		*l = (struct jobfile_line){ 0 };
	}
	return ret;
}

static int add_line(struct jobfile_section *s, size_t at, const struct jobfile_line *l)
{
	struct jobfile_line *lines = text_grow(s->lines, s->nr_lines, sizeof(*lines));

	if (!lines)
		return -ENOMEM;
	s->lines = lines;
	memmove(lines + at + 1, lines + at, (s->nr_lines - at) * sizeof(*lines));
	lines[at] = *l;
	s->nr_lines++;
	return 0;
}

static struct jobfile_section *add_section(struct jobfile *jf)
{
	struct jobfile_section *s = text_grow(jf->sections, jf->nr_sections, sizeof(*s));

	if (!s)
		return NULL;
	jf->sections = s;
	s += jf->nr_sections++;
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
static int take_line(struct reader *r, const char *text, const char *option)
{
	struct jobfile *jf = r->jf;
	struct jobfile_line l = { .file = r->name, .line = r->line };
	struct jobfile_section *s;
	int ret;

	if (!jf->nr_sections && !add_section(jf))
		return -ENOMEM;
	s = &jf->sections[jf->nr_sections - 1];
	ret = init_line(&l, text, option);
	if (ret)
		return ret;
	if (!r->depth)
		l.origin = jf->original.nr;
	ret = add_line(s, s->nr_lines, &l);
	if (ret)
		free_line(&l);
	return ret;
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
	if (!s)
		return -ENOMEM;
	s->name = strndup(stripped + 1, len - 2);
	if (!s->name)
		return -ENOMEM;
	s->global = !strncmp(s->name, "global", strlen("global"));
	s->file = r->name;
	s->line = r->line;
	r->in_section = true;
	return take_line(r, text, NULL);
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
	if (access(name, F_OK) && slash) {
		if (asprintf(&path, "%.*s%s", (int)(slash + 1 - r->name), r->name, name) < 0)
			return -ENOMEM;
	} else {
		path = strdup(name);
	}
	if (!path)
		return -ENOMEM;
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
	return take_line(r, text, stripped);
}

static int take(struct reader *r, const char *text)
{
	char *stripped;
	int ret;

	r->line += r->numbered;

	if (strlen(text) > LINE_MAX_LEN)
		return fail(r, EINVAL, "fio cuts lines at 8191 characters, this one is longer", "");
	if (!r->depth) {
		ret = text_list_add(&r->jf->original, "%s", text);
		if (ret)
			return ret;
	}
	if (is_comment(text))
		return take_line(r, text, NULL);
	stripped = strip(text);
	if (!stripped)
		return -ENOMEM;
	ret = *stripped == '[' ? take_header(r, text, stripped) : take_option(r, text, stripped);
	free(stripped);
	return ret;
}

/* Lets @r read @text, which is taken apart. */
static int parse_into(struct reader *r, const char *name, char *text)
{
	struct text_list *names = &r->jf->names;
	char *line;
	int ret = text_list_add(names, "%s", name);

	if (ret)
		return ret;
	r->name = names->item[names->nr - 1];
	r->in_section = r->depth;

	while (!ret && (line = strsep(&text, "\n"))) {
		if (!text && !*line) /* the newline was the last character */
			break;
		if (!r->depth)
			r->jf->no_newline = !text;
		ret = take(r, line);
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
	*text = malloc(st.st_size + 1);
	if (!*text)
		return -ENOMEM;
	while ((got = read(fd, *text + len, st.st_size - len)) > 0)
		len += got;
	(*text)[len] = '\0';
	if (got < 0)
		return text_error(error, errno, "%s: %s", path, strerror(errno));
	if (strlen(*text) < len)
		return text_error(error, EINVAL, "%s: holds a NUL byte, so it is no job file",
				  path);
	return 0;
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
	char *copy = strdup(text);
	int ret;

	*error = NULL;
	if (!copy)
		return -ENOMEM;
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
	text_list_free(&jf->original);
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

int jobfile_insert(struct jobfile_section *s, size_t at, const char *text)
{
	struct jobfile_line l = { .file = s->file, .line = s->line };
	int ret = init_line(&l, text, text);

	if (!ret)
		ret = add_line(s, at, &l);
	if (ret)
		free_line(&l);
	return ret;
}

int jobfile_replace(struct jobfile_line *l, const char *text)
{
	struct jobfile_line new = { 0 };
	int ret = init_line(&new, text, text);

	if (ret)
		return ret;
	new.file = l->file;
	new.line = l->line;
	new.origin = l->origin;
	new.changed = true;
	free_line(l);
	*l = new;
	return 0;
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

int jobfile_append(struct jobfile_section *s, const char *key, const char *value)
{
	size_t at = s->nr_lines;
	char *text;
	int ret;

	while (at > 1 && !s->lines[at - 1].key)
		at--;
	if (asprintf(&text, "%s=%s", key, value) < 0)
		return -ENOMEM;
	ret = jobfile_insert(s, at, text);
	free(text);
	return ret;
}

bool jobfile_can_write(const char *value)
{
	size_t len = strlen(value);

	return !strpbrk(value, ";#\n\r") && !strstr(value, "${") && !strstr(value, "$pagesize") &&
	       !strstr(value, "$mb_memory") && !strstr(value, "$ncpus") &&
	       (!len || !is_blank(value[len - 1])) && len < LINE_MAX_LEN / 2;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The last line of the whole keeps the missing newline of the original, if it still is its last. */
bool jobfile_lacks_newline(const struct jobfile *jf, const struct jobfile_line *l)
{
	return jf->no_newline && l->origin == jf->original.nr && !l->changed;
}

char *jobfile_text(const struct jobfile *jf)
{
	const struct jobfile_line *previous = NULL;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < jf->nr_sections; i++) {
		const struct jobfile_section *s = &jf->sections[i];

		for (size_t k = 0; k < s->nr_lines; k++) {
			if (previous)
				fputc('\n', out);
			previous = &s->lines[k];
			fputs(previous->text, out);
		}
	}
	if (previous && !jobfile_lacks_newline(jf, previous))
		fputc('\n', out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
