/* SPDX-License-Identifier: GPL-2.0-only */
/* What is compared: the variants, the jobs, and how far the comparison has to go. */
#ifndef KPOLICY_TOOLS_COMPARISON_H
#define KPOLICY_TOOLS_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>

#include "judge.h"
#include "result.h"
#include "util/util.h"

struct comparison_job {
	char *name;
	unsigned int group;
	bool counted;	   /* its I/O is compared */
	bool phases;	   /* writes, then reads back to verify */
	char *after;	   /* the job it waits for, or NULL */
	bool fixed_work;   /* ends when its size is done */
	char *fixed_ratio; /* option that makes every ratio 1, or NULL */
	double seconds;	   /* that it is told to run; 0: until its size is done */
};

struct comparison_variant {
	char *text;	       /* the label */
	char *engine;	       /* NULL: native */
	bool off;	       /* policy=none: no counters are expected */
	struct text_list args; /* for fio's command line */
};

struct comparison {
	char *title; /* the job file, or what stands for it */
	char *fio_version;
	struct comparison_variant *variants; /* the first is the control */
	size_t nr_variants;
	struct comparison_job *jobs; /* the same in every variant */
	size_t nr_jobs;
	unsigned int max_rounds;
	double precision;	   /* full width of the interval, 0.02: 2 % */
	struct judge_looks looks;  /* taken so far, by all who ran it */
	struct text_list warnings; /* known before the first run */
	struct text_list failures; /* runs that do not count */
};

/*
 * The runs of a round are its slots: slot 0 is the first variant, slot i is variant i, and the last
 * slot is the first variant again.
 */
unsigned int comparison_slots(const struct comparison *comparison);
unsigned int comparison_slot_variant(const struct comparison *comparison, unsigned int slot);

/* The error that intervals after so many rounds have. */
double comparison_error(const struct comparison *comparison, unsigned int rounds);

/* Sets in the jobs of a run which are compared, and which run one after the other. */
void comparison_classify(const struct comparison *comparison, struct run_result *run);

#endif
