/* SPDX-License-Identifier: GPL-2.0-only */
/* On what a comparison ran: what a reader needs to believe its figures, or to get others. */
#ifndef KPOLICY_TOOLS_ENVIRONMENT_H
#define KPOLICY_TOOLS_ENVIRONMENT_H

#include <jansson.h>

#include "session.h"

/*
 * Kernel, fio, CPU and governor, and for each file of the session its device (model, scheduler,
 * queue limits), file system and mount options. What cannot be found out is left out. A new
 * reference.
 */
json_t *environment_collect(const struct session *session);

/* The same as lines 'name: value', from what environment_collect() gave. */
void environment_lines(const json_t *environment, struct text_list *lines);

/*
 * What of the machine is another than it was: one line with both values, for the caller to free, or
 * NULL. Rounds from before and after would not belong together.
 */
char *environment_difference(const json_t *before, const json_t *now);

#endif
