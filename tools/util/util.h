/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every part of the kpolicy command needs: memory that is there or the command ends, text,
 * messages, whole files.
 */
#ifndef KPOLICY_TOOLS_UTIL_H
#define KPOLICY_TOOLS_UTIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes, for scripts: do not change them. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_CANNOT = 2,
	EXIT_SLOWER = 3,    /* --fail-if-slower */
	EXIT_UNDECIDED = 4, /* --fail-if-undecided */
};

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* These end the command with one line and EXIT_CANNOT when there is no memory. */
void *xcalloc(size_t nr, size_t size);
void *xrealloc(void *old, size_t nr, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t len);
char *vformat(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));
char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Makes room for one more element in @array, of @nr elements of @size bytes. The capacity is the
 * next power of two above @nr and is not stored.
 */
void *grow_array(void *array, size_t nr, size_t size);

/* A growing list of strings. */
struct text_list {
	char **item;
	size_t nr;
};

void text_list_add(struct text_list *list, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool text_list_has(const struct text_list *list, const char *item);
void text_list_free(struct text_list *list);

/* One line on standard error, headed by 'kpolicy: ', over any progress line. */
void message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints and frees an error text that a function handed out. Returns false, for 'return'. */
bool complain(char *error);

/*
 * A stream into memory. stream_text() closes it and returns what was written, to be freed. Both end
 * the command when there is no memory.
 */
struct stream {
	FILE *out;
	char *text;
	size_t len;
};

FILE *stream_open(struct stream *stream);
char *stream_text(struct stream *stream);

/*
 * Writes a file whole or not at all: @write fills a temporary file beside @path, which gets its
 * final name after it is safely on disk. Returns 0 or -errno; the temporary file is gone then.
 */
int write_whole(const char *path, int (*write)(FILE *to, const void *arg), const void *arg);

/* Reads a file into memory, terminated by a null byte. Returns NULL with errno set. */
char *read_whole(const char *path, size_t *len);

/*
 * Makes @text valid UTF-8 in place, a '?' for each byte that is not. fio takes any bytes for a name
 * and writes them as they are into its JSON, which has to be UTF-8.
 */
void make_utf8(char *text);

/* The first line of a small file without its newline, or NULL; the caller frees it. */
char *read_line(const char *path);

/* TMPDIR/kpolicy-@name, /tmp without TMPDIR; for mkstemp() and the like; the caller frees it. */
char *temporary_path(const char *name);

/* Removes a directory with everything in it. */
void remove_tree(const char *dir);

/* One formatted line with "FILE:LINE: " before it; "FILE: " for line 0. To be freed. */
char *text_format_at(const char *file, unsigned int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
char *text_vformat_at(const char *file, unsigned int line, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/*
 * Set *@error to one formatted line and have the value -@err, to be returned. @err is read first, so
 * that it may be errno. Macros, so that the compiler sees in the caller that the value is not 0.
 */
#define text_error(error, err, ...)             \
	({                                      \
		int text_err = (err);           \
		*(error) = format(__VA_ARGS__); \
		-text_err;                      \
	})
#define text_error_at(error, err, file, line, ...)                      \
	({                                                              \
		int text_err = (err);                                   \
		*(error) = text_format_at((file), (line), __VA_ARGS__); \
		-text_err;                                              \
	})

/*
 * The member of the NULL-terminated @candidates nearest to @name by edit distance, or NULL when
 * none is near enough (more than half of it would have to be retyped).
 */
const char *text_nearest(const char *name, const char *const *candidates);

/*
 * Cuts the next item off the list at *@rest, at a ':' that no backslash stands before; removes
 * those backslashes. This is how fio separates files. Modifies the string; NULL at its end.
 */
char *text_next_path(char **rest);

#endif
