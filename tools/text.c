// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

void *text_grow(void *array, size_t nr, size_t size)
{
	if (nr & (nr - 1))
		return array;
	return reallocarray(array, nr ? nr * 2 : 1, size);
}

int text_list_add(struct text_list *list, const char *fmt, ...)
{
	char **item = text_grow(list->item, list->nr, sizeof(*item));
	va_list ap;
	int len;

	if (!item)
		return -ENOMEM;
	list->item = item;
	va_start(ap, fmt);
	len = vasprintf(&item[list->nr], fmt, ap);
	va_end(ap);
	if (len < 0)
		return -ENOMEM;
	list->nr++;
	return 0;
}

bool text_list_has(const struct text_list *list, const char *item)
{
	for (size_t i = 0; i < list->nr; i++)
		if (!strcmp(list->item[i], item))
			return true;
	return false;
}

void text_list_free(struct text_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->item[i]);
	free(list->item);
	*list = (struct text_list){ 0 };
}

void text_format(char **text, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(text, fmt, ap) < 0)
		*text = NULL;
	va_end(ap);
}

void text_vformat_at(char **text, const char *file, unsigned int line, const char *fmt, va_list ap)
{
	char *what;

	*text = NULL;
	if (vasprintf(&what, fmt, ap) < 0)
		return;
	if (line)
		text_format(text, "%s:%u: %s", file, line, what);
	else
		text_format(text, "%s: %s", file, what);
	free(what);
}

void text_format_at(char **text, const char *file, unsigned int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_vformat_at(text, file, line, fmt, ap);
	va_end(ap);
}

/* Levenshtein distance with one row kept; -1 when memory is short. */
static long edit_distance(const char *a, const char *b)
{
	size_t nr = strlen(b), i;
	size_t *row = calloc(nr + 1, sizeof(*row));
	long distance;

	if (!row)
		return -1;
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
	distance = row[nr];
	free(row);
	return distance;
}

const char *text_nearest(const char *name, const char *const *candidates)
{
	long best = (strlen(name) + 1) / 2 + 1;
	const char *nearest = NULL;

	for (; *candidates; candidates++) {
		long distance = edit_distance(name, *candidates);

		if (distance >= 0 && distance < best) {
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
