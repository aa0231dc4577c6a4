/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef KPOLICY_TOOLS_HTML_H
#define KPOLICY_TOOLS_HTML_H

#include <stdbool.h>

#include "run/run.h"
#include "stats/stats.h"

/* One page that needs no other file. Prints its own message and returns false when it fails. */
bool html_write(const struct analysis *analysis, const struct session *session, const char *path);

#endif
