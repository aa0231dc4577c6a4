/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Why a variant differs: the counters that its engine kept, summed over the runs, beside those of
 * the variant it is compared with.
 */
#ifndef KPOLICY_TOOLS_EXPLAIN_H
#define KPOLICY_TOOLS_EXPLAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct counter_sum {
	char *name; /* as in the counters file, with its unit */
	double sum; /* over the runs */
};

struct counter_sums {
	struct counter_sum *counters;
	size_t nr;
	unsigned int runs;
};

/* Adds the 'total' of a counters file; NULL, or a file without one, is no run. */
void counters_add(struct counter_sums *sums, const json_t *file);
void counters_free(struct counter_sums *sums);

/*
 * The counters that differ most, on one line: 'splits per I/O 0 -> 63; ...'. @base may have no runs
 * (the engine of the control keeps none): then what there is. NULL when nothing differs.
 */
char *explain_line(const struct counter_sums *base, const struct counter_sums *sums);

/* Did the policy do nothing at all, as far as its counters tell? */
bool counters_stayed_zero(const struct counter_sums *sums);

#endif
