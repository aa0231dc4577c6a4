/* SPDX-License-Identifier: GPL-2.0-only */
/* Where one variant overtakes another along an option's values. Free of I/O. */
#ifndef KPOLICY_TOOLS_CROSSOVER_H
#define KPOLICY_TOOLS_CROSSOVER_H

#include <stdbool.h>
#include <stddef.h>

/* A measured value of the option: the ratio there, with its interval. */
struct curve_point {
	double x;
	double ratio, low, high;
};

struct crossover {
	double x;	  /* where the ratio is 1 */
	double low, high; /* the interval there holds 1 from low to high */
};

/*
 * Finds the crossovers of the curve through @nr points with rising, positive x, between which the
 * logarithms of x and ratio are taken as straight. A crossover's uncertainty runs from where the last
 * interval that leaves out 1 ends on one side to where the first one begins on the other. Where no
 * interval leaves out 1 on a side, estimates alone lie there, and their signs prove nothing: that is
 * no crossover, and sets *@vague. Returns how many it found, at most @most of them in @found.
 */
size_t crossover_find(const struct curve_point *points, size_t nr, struct crossover *found,
		      size_t most, bool *vague);

#endif
