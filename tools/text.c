// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

char *text_vformat_at(const char *file, unsigned int line, const char *fmt, va_list ap)
{
	char *what = vformat(fmt, ap);
	char *text = line ? format("%s:%u: %s", file, line, what) : format("%s: %s", file, what);

	free(what);
	return text;
}

char *text_format_at(const char *file, unsigned int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = text_vformat_at(file, line, fmt, ap);
	va_end(ap);
	return text;
}

/* Levenshtein distance with one row kept. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t nr = strlen(b), i;
	size_t *row = xcalloc(nr + 1, sizeof(*row));

	for (i = 0; i <= nr; i++)
		row[i] = i;
	for (size_t done = 1; *a; a++, done++) {
		size_t diagonal = row[0];

		row[0] = done;
		for (i = 1; i <= nr; i++) {
			size_t best = diagonal + (*a != b[i - 1]);

			if (row[i] + 1 < best)
				best = row[i] + 1;
			if (row[i - 1] + 1 < best)
				best = row[i - 1] + 1;
			diagonal = row[i];
			row[i] = best;
		}
	}
	size_t distance = row[nr];
	free(row);
	return distance;
}

const char *text_nearest(const char *name, const char *const *candidates)
{
	size_t best = (strlen(name) + 1) / 2 + 1;
	const char *nearest = NULL;

	for (; *candidates; candidates++) {
		size_t distance = edit_distance(name, *candidates);

		if (distance < best) {
			best = distance;
			nearest = *candidates;
		}
	}
	return nearest;
}

char *text_next_path(char **rest)
{
	char *item, *to, *from;

	if (!*rest)
		return NULL;
	/* fio skips empty items at the front: '::a' names 'a' */
	item = *rest + strspn(*rest, ":");
	if (!*item) {
		*rest = NULL;
		return NULL;
	}
	for (to = from = item; *from && *from != ':'; from++) {
		if (from[0] == '\\' && from[1] == ':')
			from++;
		*to++ = *from;
	}
	*rest = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}
