/* SPDX-License-Identifier: GPL-2.0-only */
/* Small helpers for messages and lists of strings. None of them keeps state. */
#ifndef KPOLICY_TOOLS_TEXT_H
#define KPOLICY_TOOLS_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct text_list {
	char **item;
	size_t nr;
};

/* Appends one formatted string. Returns 0 or -ENOMEM, the list unchanged. */
int text_list_add(struct text_list *list, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

bool text_list_has(const struct text_list *list, const char *item);

void text_list_free(struct text_list *list);

/*
 * Grows @array, of @nr elements of @size bytes, so that one more fits. The capacity is the next
 * power of two above @nr and is not stored. Returns the array or NULL, the old one still valid.
 */
void *text_grow(void *array, size_t nr, size_t size);

/* Sets *@text to one formatted line, to be freed; NULL when there is no memory for it. */
void text_format(char **text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, with "FILE:LINE: " before it; "FILE: " for line 0. */
void text_format_at(char **text, const char *file, unsigned int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void text_vformat_at(char **text, const char *file, unsigned int line, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

/*
 * The same as an expression with the value -@err, to be returned. @err is read first, so that it
 * may be errno. Macros, so that whoever compiles or analyses the caller sees that it is not 0.
 */
#define text_error(error, err, ...)                \
	({                                         \
		int text_err = (err);              \
		text_format((error), __VA_ARGS__); \
		-text_err;                         \
	})
#define text_error_at(error, err, file, line, ...)                    \
	({                                                            \
		int text_err = (err);                                 \
		text_format_at((error), (file), (line), __VA_ARGS__); \
		-text_err;                                            \
	})

/*
 * The member of the NULL-terminated @candidates nearest to @name by edit distance, or NULL when
 * none is near enough (more than half of it would have to be retyped) or memory is short.
 */
const char *text_nearest(const char *name, const char *const *candidates);

/*
 * Cuts the next item off the list at *@rest, at a ':' that no backslash stands before; removes
 * those backslashes. This is how fio separates files. Modifies the string; NULL at its end.
 */
char *text_next_path(char **rest);

#endif
