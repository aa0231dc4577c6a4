/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stats/ - from the figures of runs to a verdict.
 *
 *	result		what fio's JSON says of one run, taken apart into figures
 *	comparison	what is compared: variants, jobs, rounds, the looks that were taken
 *	judge		the statistics: a ratio with its interval and a verdict
 *	analysis	all rounds of a comparison: every figure judged
 *	explain		the engines' counters, summed and set side by side
 *	findings	what there is to say in words: why variants differ, what to mind
 *	crossover	where one variant overtakes another along an option's values
 *
 * State: an analysis holds the figures of all rounds that were added to it; nothing is kept between
 * analyses. The only file that is read is the result of a run (result_read()); nothing is printed
 * and nothing is run. The files here include util/ alone; tools/run/, tools/print/ and the commands
 * call them.
 */
#ifndef KPOLICY_TOOLS_STATS_H
#define KPOLICY_TOOLS_STATS_H

#include "analysis.h"
#include "comparison.h"
#include "crossover.h"
#include "explain.h"
#include "findings.h"
#include "judge.h"
#include "result.h"

#endif
