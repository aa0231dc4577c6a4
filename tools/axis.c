// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "axis.h"
#include "util/units.h"
#include "util/util.h"

#define MOST_POINTS 200

static char *size_text(double bytes)
{
	static const char units[] = "kmgt";
	int unit = -1;

	while (unit < 3 && bytes >= 1024 && fmod(bytes, 1024) == 0) {
		bytes /= 1024;
		unit++;
	}
	return unit < 0 ? format("%.0f", bytes) : format("%.0f%c", bytes, units[unit]);
}

static void add_value(struct axis *axis, char *text, double number)
{
	axis->values = xrealloc(axis->values, axis->nr + 1, sizeof(*axis->values));
	axis->values[axis->nr++] = (struct axis_value){ text, number };
}

/* '4k:1m*2' or '1:16+5'; without a step the values double. */
static bool add_range(struct axis *axis, char *range)
{
	char *colon = strchr(range, ':');
	char *step = colon + 1 + strcspn(colon + 1, "*+");
	char kind = *step ? *step : '*';
	double from, to, by = 2;

	*colon = '\0';
	if (*step) {
		*step = '\0';
		if (!parse_scaled(step + 1, &by))
			return false;
	}
	if (!parse_scaled(range, &from) || !parse_scaled(colon + 1, &to) || !(from > 0) ||
	    to < from)
		return false;
	if (kind == '*' ? !(by > 1) : !(by > 0))
		return false;
	/* Rounding must not lose the last one. */
	double x = from;

	while (x <= to * (1 + 1e-9)) {
		double whole = round(x);

		if (axis->nr == MOST_POINTS)
			return false;
		if (!axis->nr || axis->values[axis->nr - 1].number < whole)
			add_value(axis, axis->bytes ? size_text(whole) : format("%.0f", whole),
				  whole);
		x = kind == '*' ? x * by : x + by;
	}
	return true;
}

static bool add_values(struct axis *axis, char *list)
{
	char *item;

	while ((item = strsep(&list, ","))) {
		double number;

		if (strchr(item, ':')) {
			if (!add_range(axis, item))
				return false;
		} else if (parse_scaled(item, &number)) {
			add_value(axis, xstrdup(item), number);
		} else {
			return false;
		}
	}
	return true;
}

static int by_number(const void *a, const void *b)
{
	const struct axis_value *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

bool axis_read(struct axis *axis, const char *over)
{
	const char *equals = strchr(over, '=');
	char *list = xstrdup(equals ? equals + 1 : "");

	axis->key = format("%.*s", (int)(equals ? equals - over : 0), over);
	axis->bytes = strpbrk(list, "kKmMgG") != NULL;
	bool good = *axis->key && add_values(axis, list) && axis->nr >= 2;

	free(list);
	if (!good) {
		message("--over %s: write KEY=4k,8k,64k or KEY=4k:1m*2, numbers, two or more",
			over);
		return false;
	}
	qsort(axis->values, axis->nr, sizeof(*axis->values), by_number);
	return true;
}

void axis_free(struct axis *axis)
{
	for (size_t i = 0; i < axis->nr; i++)
		free(axis->values[i].text);
	free(axis->values);
	free(axis->key);
	*axis = (struct axis){ 0 };
}
