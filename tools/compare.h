/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A comparison from command line to result, in steps that compare, sweep and reproduce share.
 * Each step prints its own message when it fails.
 */
#ifndef KPOLICY_TOOLS_COMPARE_H
#define KPOLICY_TOOLS_COMPARE_H

#include "stats/stats.h"
#include "options.h"
#include "run/run.h"

/*
 * Rewrites the job for each variant, checks that like is compared with like, and makes the session
 * in directory @dir (NULL: a temporary one). Returns false when it cannot.
 */
bool compare_prepare(const struct options *options, const char *dir, struct session *session);

/* Prints how the job changes for each variant, and what there is to say about it. */
bool compare_show(const struct options *options);

/*
 * Runs the session to its end, after the rounds that it has, into @analysis, which is finished
 * then, and writes result.json.
 */
enum rounds_end compare_run(const struct options *options, struct session *session,
			    struct analysis *analysis);

/* The exit code that an end and the user's --fail-if... ask for. */
int compare_exit_code(const struct options *options, const struct analysis *analysis,
		      enum rounds_end end);

/* Where to go on after a stop: said on standard error when the directory stays. */
void compare_say_resume(const struct session *session, enum rounds_end end);

#endif
