/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the runs of a session to what they say: every figure judged, verdicts, explanations and
 * warnings. This is the one model of a result that all printers share.
 */
#ifndef KPOLICY_TOOLS_ANALYSIS_H
#define KPOLICY_TOOLS_ANALYSIS_H

#include "explain.h"
#include "judge.h"
#include "result.h"
#include "comparison.h"
#include "util/util.h"

/* One figure of one variant beside the control's. */
struct compared {
	const struct figure *figure;
	unsigned int variant;
	double control; /* medians over the rounds; NAN: not measured */
	double value;
	bool judged; /* there is an estimate */
	struct judge_estimate estimate;
	enum verdict verdict; /* of deciding figures only */
};

/* What a warning needs to know of a run, per stonewall group. */
struct run_facts {
	double depth;
	double seconds;
	double bytes;
	uint64_t errors; /* after which its jobs went on */
	int error;	 /* one of them, a positive errno */
};

struct analysis {
	const struct comparison *comparison;
	unsigned int rounds; /* complete ones */
	unsigned int nr_groups;
	struct figure *figures;
	size_t nr_figures;
	double *values;		       /* [round][slot][figure] */
	struct run_facts *facts;       /* [round][slot][group] */
	struct histogram *latency;     /* [variant][group], all directions of all runs */
	struct counter_sums *counters; /* [variant] */

	/* Filled in by analysis_finish(). */
	struct compared *deciding; /* [group][variant - 1] */
	size_t nr_deciding;
	struct compared *others; /* by figure, then by variant */
	size_t nr_others;
	size_t corrected_for; /* number of other figures whose intervals are held together */
	struct text_list explanations; /* by findings_add() */
	struct text_list warnings;
};

void analysis_init(struct analysis *analysis, const struct comparison *comparison);
void analysis_free(struct analysis *analysis);

/* Adds the runs of a complete round, one per slot; they may be freed afterwards. */
void analysis_add_round(struct analysis *analysis, const struct run_result *runs,
			json_t *const *counters);

/*
 * The width of the widest deciding interval, 0.02 for 2 %, as of the rounds so far; INFINITY while
 * there is none.
 */
double analysis_width(const struct analysis *analysis);

/* Judges everything. No round may be added afterwards. */
void analysis_finish(struct analysis *analysis);

/* The deciding figure of a variant (from 1) in a group. */
const struct compared *analysis_deciding(const struct analysis *analysis, unsigned int group,
					 unsigned int variant);

/*
 * Judges IOPS or time of all jobs of a group together as if that decided. False when there is none.
 */
bool analysis_judge(const struct analysis *analysis, unsigned int group, enum quantity quantity,
		    unsigned int variant, struct compared *compared);

/*
 * A figure of all jobs of a group together, whether it decides or not; NULL when there is none.
 * A job that only reads, say, has its IOPS once, under DIR_ALL: that one is given.
 */
const struct compared *analysis_total(const struct analysis *analysis, unsigned int group,
				      enum direction direction, enum quantity quantity,
				      unsigned int variant);

/* The first job's name of a group, for people. */
const char *analysis_group_name(const struct analysis *analysis, unsigned int group);

/* The facts of a run, by group. */
struct run_facts *analysis_facts(const struct analysis *a, unsigned int round, unsigned int slot);

/* The largest A/A band of the deciding figures of a group; NAN when unknown. */
double analysis_aa_band(const struct analysis *analysis, unsigned int group);

#endif
