/* SPDX-License-Identifier: GPL-2.0-only */
/* A fio command line, as its user pasted it, turned into the job file it is equivalent to. */
#ifndef KPOLICY_TOOLS_CMDLINE_H
#define KPOLICY_TOOLS_CMDLINE_H

#include "jobfile.h"
#include "util/util.h"

/*
 * Reads @argv (argv[0] is fio or a path to it; NULL-terminated) the way fio's getopt_long_only()
 * does: one dash or two, "name=value" or "name value", a job file anywhere among the options. A
 * job file given there follows the jobs of the command line. @fio is asked which options take a
 * value.
 *
 * Appends to @jf (zeroed; freed by the caller on failure too), to @args what only a command line
 * can say (--readonly ...), to @notes a line for each option without meaning here. Returns 0 or
 * -errno with *@error set to one line.
 */
int cmdline_read(char *const *argv, const char *fio, struct jobfile *jf, struct text_list *args,
		 struct text_list *notes, char **error);

#endif
