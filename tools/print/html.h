/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef KPOLICY_TOOLS_HTML_H
#define KPOLICY_TOOLS_HTML_H

#include <stdbool.h>

#include "stats/analysis.h"

/* One page that needs no other file. Prints its own message and returns false when it fails. */
bool html_write(const struct analysis *analysis, const char *path);

#endif
