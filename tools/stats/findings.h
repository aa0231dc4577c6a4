/* SPDX-License-Identifier: GPL-2.0-only */
/* What an analysis has to say in words: why variants differ, and where a ratio means little. */
#ifndef KPOLICY_TOOLS_FINDINGS_H
#define KPOLICY_TOOLS_FINDINGS_H

#include "analysis.h"

/* Fills in explanations and warnings of an analysis that is finished. */
void findings_add(struct analysis *a);

#endif
