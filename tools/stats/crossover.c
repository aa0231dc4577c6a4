// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>

#include "crossover.h"

/* Where the line from (@x0, @y0) to (@x1, @y1) is 1, all logarithmic. */
static double line_at_one(double x0, double y0, double x1, double y1)
{
	double share = log(y0) / (log(y0) - log(y1));

	return exp(log(x0) + share * (log(x1) - log(x0)));
}

/* The bound of the interval that leaves 1 last, on the side where the ratio is @above 1. */
static double bound(const struct curve_point *p, int above)
{
	return above ? p->low : p->high;
}

/*
 * Walks from point @from in @step to the interval that leaves out 1 on the side that the ratio has at
 * @from. Returns where the bound crosses 1 on the way there, or NAN when no interval leaves out 1.
 */
static double edge(const struct curve_point *points, size_t nr, size_t from, int step, int above)
{
	size_t at = from;

	while ((bound(&points[at], above) > 1) != (above != 0)) {
		if (at == (step < 0 ? 0 : nr - 1))
			return NAN;
		at += step;
	}
	const struct curve_point *clear = &points[at], *last = &points[at - step];

	return line_at_one(clear->x, bound(clear, above), last->x, bound(last, above));
}

size_t crossover_find(const struct curve_point *points, size_t nr, struct crossover *found,
		      size_t most, bool *vague)
{
	size_t count = 0;

	*vague = false;
	for (size_t i = 1; i < nr; i++) {
		int before = points[i - 1].ratio > 1, after = points[i].ratio > 1;

		if (before == after)
			continue;
		double low = edge(points, nr, i - 1, -1, before);
		double high = edge(points, nr, i, 1, after);

		if (isnan(low) || isnan(high)) {
			*vague = true;
			continue;
		}
		if (count < most)
			found[count] = (struct crossover){
				.x = line_at_one(points[i - 1].x, points[i - 1].ratio, points[i].x,
						 points[i].ratio),
				.low = low,
				.high = high,
			};
		count++;
	}
	return count;
}
