/* SPDX-License-Identifier: GPL-2.0-only */
/* The five published reports as data: what was run, on what, and what came out. */
#ifndef KPOLICY_TOOLS_SEED_TABLES_H
#define KPOLICY_TOOLS_SEED_TABLES_H

#include "stats/stats.h"

#define SEED_COLUMNS 4
#define SEED_FIGURES 6

/* One figure of a row; a published value per column, 0 where the report has none. */
struct seed_figure {
	const char *name; /* with its unit, as published */
	enum direction direction;
	enum quantity quantity;
	double unit; /* of the published value in ours: 1e6 for MB/s */
	double published[SEED_COLUMNS];
};

/* One configuration that every column was run in. */
struct seed_row {
	const char *label;
	const char *const *settings; /* more job options, key=value, NULL-terminated, or NULL */
	const char *device;	     /* the null device that stands in for theirs */
	struct seed_figure figures[SEED_FIGURES]; /* up to the first without a name */
};

struct seed_column {
	const char *label;   /* as the report calls it */
	const char *variant; /* as kpolicy does */
};

struct seed {
	unsigned int number;
	const char *title;
	const char *engine;
	const char *theirs;   /* what it was measured on */
	const char *stand_in; /* how the null device was chosen */
	const char *headline;
	const char *const *fio;			  /* the job as a command line, NULL-terminated */
	struct seed_column columns[SEED_COLUMNS]; /* the first is the control */
	const struct seed_row *rows;		  /* up to the first without a label */
};

#define NR_SEEDS 5

extern const struct seed seeds[NR_SEEDS];

#endif
