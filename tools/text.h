/* SPDX-License-Identifier: GPL-2.0-only */
/* Small helpers for messages and names. None of them keeps state. */
#ifndef KPOLICY_TOOLS_TEXT_H
#define KPOLICY_TOOLS_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "util.h"

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
