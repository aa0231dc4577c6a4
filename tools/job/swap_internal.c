// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "swap_internal.h"

bool swap_is_swapped(const struct swap *s, size_t i)
{
	return s->v->engine && s->engines[i].backend;
}

bool swap_is_on(const struct jobfile *jf, size_t i, const char *name)
{
	const char *value = jobfile_value(jf, i, name);
	char *end;

	if (!value)
		return false;
	return strtol(value, &end, 10) || end == value;
}

bool swap_begins_group(const struct jobfile *jf, size_t i)
{
	return swap_is_on(jf, i, "stonewall") || swap_is_on(jf, i, "new_group");
}

void swap_warn(struct swap *s, const char *file, unsigned int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = text_vformat_at(file, line, fmt, ap);
	va_end(ap);
	if (!text_list_has(&s->warnings, text))
		text_list_add(&s->warnings, "%s", text);
	free(text);
}

bool swap_is_null(const struct swap *s, size_t i)
{
	const char *backend = jobfile_value(s->jf, i, "backend");

	if (swap_is_swapped(s, i) || s->engines[i].own)
		return backend && !strcmp(backend, "null");
	return !strcmp(s->engines[i].name, "null");
}

bool swap_writes_nothing(const struct swap *s, size_t i)
{
	return text_list_has(&s->args, "--readonly") || swap_is_null(s, i);
}
