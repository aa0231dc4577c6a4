/* SPDX-License-Identifier: GPL-2.0-only */
/* The paths that a job of a job file will open, worked out the way fio does. */
#ifndef KPOLICY_TOOLS_TARGETS_H
#define KPOLICY_TOOLS_TARGETS_H

#include <stdbool.h>

#include "jobfile.h"
#include "util/util.h"

struct targets {
	struct text_list paths;
	bool unknown; /* a replayed log that cannot be read, or more files than can be listed */
	bool writes;  /* by rw=, or a replayed log has writes or trims */
};

/* Fills @t, zeroed, for the job in section @index. Free @t->paths. */
void targets_of(const struct jobfile *jf, size_t index, struct targets *t);

/* numjobs, nrfiles and the like: the number in effect, at least 1, 1 when unset. */
unsigned int targets_count(const struct jobfile *jf, size_t index, const char *name);

#endif
