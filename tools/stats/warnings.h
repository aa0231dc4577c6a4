/* SPDX-License-Identifier: GPL-2.0-only */
/* Where a ratio means little or nothing, in words. */
#ifndef KPOLICY_TOOLS_WARNINGS_H
#define KPOLICY_TOOLS_WARNINGS_H

#include "analysis.h"

/* Adds to analysis->warnings what its runs and judgements give rise to. */
void warnings_add(struct analysis *a);

#endif
