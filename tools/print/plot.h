/* SPDX-License-Identifier: GPL-2.0-only */
/* Pictures, drawn by gnuplot. Every function prints its own message when it fails. */
#ifndef KPOLICY_TOOLS_PLOT_H
#define KPOLICY_TOOLS_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "stats/stats.h"

/* The ratios with their intervals and the latency percentiles; @path ends in .svg or .png. */
bool plot_write(const struct analysis *analysis, const char *path);

/* The same as the text of an SVG element; NULL on failure; the caller frees it. */
char *plot_svg(const struct analysis *analysis);

/* What other pictures are made with. */

struct plot {
	void (*draw)(FILE *script, const void *arg); /* gnuplot commands, after 'set output' */
	const void *arg;
	unsigned int width, height; /* pixels */
};

/* Runs gnuplot. @path ends in .svg or .png, gets its picture whole or not at all. */
bool plot_draw(const struct plot *plot, const char *path);

/* A text as a gnuplot string, quotes included. */
void plot_quote(FILE *script, const char *text);

/* The colour of variant @i: distinct also for the colour-blind. */
const char *plot_colour(unsigned int i);

#endif
