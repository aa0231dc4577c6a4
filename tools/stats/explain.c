// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "util/units.h"
#include "util/util.h"

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

/* What says more of two counters than each of them per I/O. */
static const struct {
	const char *label, *counted, *per;
} rates[] = {
	{ "readers per grant", "readers_granted", "grants" },
};

static double sum_of(const struct counter_sums *sums, const char *name)
{
	for (size_t i = 0; i < sums->nr; i++)
		if (!strcmp(sums->counters[i].name, name))
			return sums->counters[i].sum;
	return 0;
}

static bool has_counter(const struct counter_sums *sums, const char *name)
{
	for (size_t i = 0; i < sums->nr; i++)
		if (!strcmp(sums->counters[i].name, name))
			return true;
	return false;
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

/*
 * A distribution has a count, a mean and percentiles; its p99 stands for it. The parts of a rate
 * that is shown are not shown again.
 */
static bool stands_for_itself(const struct counter_sums *sums, const char *name)
{
	static const char *const parts[] = { "_count", "_mean_ns", "_p50_ns", "_max_ns" };

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
		if (!strcmp(name, rates[i].counted) || !strcmp(name, rates[i].per))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!ends_in(name, parts[i]))
			continue;
		char *p99 = format("%.*s_p99_ns", (int)(strlen(name) - strlen(parts[i])), name);
		bool there = has_counter(sums, p99);

		free(p99);
		return !there;
	}
	return strcmp(name, "ios") && strcmp(name, "bytes");
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

static double rate_of(const struct counter_sums *sums, size_t rate)
{
	double per = sum_of(sums, rates[rate].per);

	return per > 0 ? sum_of(sums, rates[rate].counted) / per : 0;
}

struct difference {
	char *label;
	const char *unit_of; /* a name that ends in the unit */
	double base, value;
	double weight; /* how much it differs: the logarithm of the ratio */
	size_t order;  /* in the file */
};

static int by_weight(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return (x->order > y->order) - (x->order < y->order);
}

/* What is too little to be told from nothing: a microsecond, a sector, once in a thousand I/Os. */
static double negligible(const char *name)
{
	return ends_in(name, "_ns") ? 1000 : ends_in(name, "_bytes") ? 512 : 0.001;
}

static double weigh(const char *name, double base, double value)
{
	return fabs(log((value + negligible(name)) / (base + negligible(name))));
}

/* Without a control's counters what the policy itself counts comes first. */
static double weigh_alone(const char *name, double value)
{
	return !(value > 0) ? 0 : is_common(name) ? 1 : 2;
}

struct differences {
	const struct counter_sums *base;
	struct difference *diff;
	size_t nr;
};

/* Takes @label over. */
static void add_difference(struct differences *all, char *label, const char *name, double base,
			   double value)
{
	double weight = all->base->runs ? weigh(name, base, value) : weigh_alone(name, value);

	if (weight > NOTABLE) {
		all->diff[all->nr] =
			(struct difference){ label, name, base, value, weight, all->nr };
		all->nr++;
	} else {
		free(label);
	}
}

static void find_differences(struct differences *all, const struct counter_sums *sums)
{
	for (size_t i = 0; i < sums->nr; i++) {
		const char *name = sums->counters[i].name;

		if (stands_for_itself(sums, name))
			add_difference(all, label_of(name), name, level_of(all->base, name),
				       level_of(sums, name));
	}
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
		if (has_counter(sums, rates[i].per))
			add_difference(all, xstrdup(rates[i].label), rates[i].label,
				       rate_of(all->base, i), rate_of(sums, i));
}

static char *describe(const struct difference *diff, bool with_base)
{
	char *value = value_text(diff->unit_of, diff->value);
	char *old = value_text(diff->unit_of, diff->base);
	char *text = with_base ? format("%s %s → %s", diff->label, old, value)
			       : format("%s %s", diff->label, value);

	free(value);
	free(old);
	return text;
}

char *explain_line(const struct counter_sums *base, const struct counter_sums *sums)
{
	struct differences all = { .base = base };
	char *line = NULL;

	all.diff = xcalloc(sums->nr + ARRAY_SIZE(rates), sizeof(*all.diff));
	find_differences(&all, sums);
	qsort(all.diff, all.nr, sizeof(*all.diff), by_weight);
	for (size_t i = 0; i < all.nr; i++) {
		if (i < SHOWN) {
			char *text = describe(&all.diff[i], base->runs);
			char *longer = line ? format("%s; %s", line, text) : xstrdup(text);

			free(line);
			free(text);
			line = longer;
		}
		free(all.diff[i].label);
	}
	free(all.diff);
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
