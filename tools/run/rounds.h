/* SPDX-License-Identifier: GPL-2.0-only */
/* Runs the rounds of a session until they say enough. */
#ifndef KPOLICY_TOOLS_ROUNDS_H
#define KPOLICY_TOOLS_ROUNDS_H

#include <stdbool.h>

#include "stats/stats.h"
#include "session.h"

enum rounds_end {
	ROUNDS_PRECISE,	    /* the interval is narrow enough */
	ROUNDS_SPENT,	    /* --rounds or --time */
	ROUNDS_INTERRUPTED, /* the user stopped it */
	ROUNDS_FAILED,	    /* a run failed; the message is out */
	ROUNDS_REFUSED,	    /* a device must not be written now; the message is out */
};

/*
 * Goes on after the rounds that @analysis has, adds each complete one to it and files everything in
 * the session's directory. @quiet: no progress.
 */
enum rounds_end rounds_run(struct session *session, struct analysis *analysis, bool quiet);

#endif
