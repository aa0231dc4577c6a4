// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "units.h"
#include "util.h"

#define SHOWN	5    /* counters on a line */
#define NOTABLE 0.05 /* relative difference below which a counter explains nothing */

void counters_add(struct counter_sums *sums, const json_t *file)
{
	const json_t *total = json_object_get(file, "total");
	const char *name;
	json_t *value;

	if (!total)
		return;
	json_object_foreach ((json_t *)total, name, value) {
		size_t i = 0;

		if (!json_is_number(value))
			continue;
		while (i < sums->nr && strcmp(sums->counters[i].name, name))
			i++;
		if (i == sums->nr) {
			sums->counters =
				xrealloc(sums->counters, ++sums->nr, sizeof(*sums->counters));
			sums->counters[i] = (struct counter_sum){ .name = xstrdup(name) };
		}
		sums->counters[i].sum += json_number_value(value);
	}
	sums->runs++;
}

void counters_free(struct counter_sums *sums)
{
	for (size_t i = 0; i < sums->nr; i++)
		free(sums->counters[i].name);
	free(sums->counters);
	*sums = (struct counter_sums){ 0 };
}

static double sum_of(const struct counter_sums *sums, const char *name)
{
	for (size_t i = 0; i < sums->nr; i++)
		if (!strcmp(sums->counters[i].name, name))
			return sums->counters[i].sum;
	return 0;
}

/* ---- what a counter's name says ------------------------------------------------------------ */

/* Is @word one of the words that underscores separate? */
static bool has_word(const char *name, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = name; (at = strstr(at, word)); at += len)
		if ((at == name || at[-1] == '_') && (!at[len] || at[len] == '_'))
			return true;
	return false;
}

/* Percentiles and extremes hold for a run as a whole; other counters grow with its length. */
static bool is_level(const char *name)
{
	static const char *const words[] = { "p50",  "p90", "p95", "p99",
					     "p999", "max", "min", "mean" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has_word(name, words[i]))
			return true;
	return false;
}

/* Every engine has these, whatever its policy does. */
static bool is_common(const char *name)
{
	static const char *const names[] = { "ios", "bytes", "bios", "requests", "request_bytes" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && !strcmp(name + n - s, suffix);
}

static char *label_of(const char *name)
{
	char *label = xstrdup(name);

	if (ends_in(label, "_ns"))
		label[strlen(label) - 3] = '\0';
	else if (ends_in(label, "_bytes"))
		label[strlen(label) - 6] = '\0';
	for (char *c = label; *c; c++)
		if (*c == '_')
			*c = ' ';
	if (!is_level(name)) {
		char *per = format("%s per I/O", label);

		free(label);
		return per;
	}
	return label;
}

static char *value_text(const char *name, double value)
{
	if (ends_in(name, "_ns"))
		return format_nsec(value);
	if (ends_in(name, "_bytes"))
		return format_bytes(value);
	return format_number(value);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static double level_of(const struct counter_sums *sums, const char *name)
{
	double per = is_level(name) ? sums->runs : sum_of(sums, "ios");

	return per > 0 ? sum_of(sums, name) / per : 0;
}

struct difference {
	const char *name;
	double base, value;
	double weight; /* how much it differs: the logarithm of the ratio, larger from or to zero */
	size_t order;  /* in the file */
};

static int by_weight(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return (x->order > y->order) - (x->order < y->order);
}

static double weigh(double base, double value)
{
	if (base == value)
		return 0;
	if (!(base > 0) || !(value > 0))
		return INFINITY;
	return fabs(log(value / base));
}

/* Without a control's counters what the policy itself counts comes first. */
static double weigh_alone(const char *name, double value)
{
	return !(value > 0) ? 0 : is_common(name) ? 1 : 2;
}

char *explain_line(const struct counter_sums *base, const struct counter_sums *sums)
{
	struct difference *diff = xcalloc(sums->nr, sizeof(*diff));
	size_t nr = 0;
	char *line = NULL;

	for (size_t i = 0; i < sums->nr; i++) {
		const char *name = sums->counters[i].name;
		struct difference d = { .name = name, .value = level_of(sums, name), .order = i };

		if (!strcmp(name, "ios") || !strcmp(name, "bytes"))
			continue;
		if (base->runs)
			d.base = level_of(base, name);
		d.weight = base->runs ? weigh(d.base, d.value) : weigh_alone(name, d.value);
		if (d.weight > NOTABLE)
			diff[nr++] = d;
	}
	qsort(diff, nr, sizeof(*diff), by_weight);
	for (size_t i = 0; i < nr && i < SHOWN; i++) {
		char *label = label_of(diff[i].name);
		char *value = value_text(diff[i].name, diff[i].value);
		char *old = value_text(diff[i].name, diff[i].base);
		char *longer = format("%s%s%s %s%s%s", line ? line : "", line ? "; " : "", label,
				      base->runs ? old : "", base->runs ? " → " : "", value);

		free(line);
		line = longer;
		free(label);
		free(value);
		free(old);
	}
	free(diff);
	return line;
}

bool counters_stayed_zero(const struct counter_sums *sums)
{
	if (!sums->runs)
		return false;
	for (size_t i = 0; i < sums->nr; i++)
		if (!is_common(sums->counters[i].name) && sums->counters[i].sum > 0)
			return false;
	/* A policy may show in the number of bios alone. */
	return sum_of(sums, "bios") == sum_of(sums, "ios");
}
