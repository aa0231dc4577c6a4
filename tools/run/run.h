/* SPDX-License-Identifier: GPL-2.0-only */
/* One run of fio: started, watched, its result read and judged. */
#ifndef KPOLICY_TOOLS_RUN_H
#define KPOLICY_TOOLS_RUN_H

#include <stdbool.h>

#include "spawn.h"
#include "stats/result.h"

struct fio_run {
	const char *fio;
	char *const *args; /* options that stand before the job file; NULL-terminated, or NULL */
	const char *job;
	/* Gets its name when the run was good; fio's errors are in output.err, its CPU time in @cpu. */
	const char *output;
	const char *cpu;
	const struct spawn_watch *watch;
	/* Says which jobs are compared; NULL: all. */
	void (*classify)(struct run_result *run, const void *arg);
	const void *arg;
};

/*
 * Runs fio and reads its result.
 *
 * Returns 0, with @result to be freed and *@seconds the wall time; -EINTR; else -errno with
 * *@reason one line why the run does not count, to be freed. What fio wrote then stays in
 * 'output.failed'.
 */
int fio_run(const struct fio_run *fio, struct run_result *result, double *seconds, char **reason);

/* What fio said when it was not its result: the first line, for the caller to free, or NULL. */
char *fio_words(const char *output);

/*
 * Is there a fio that can be used? 0, or -errno with *@reason. *@version is for the caller to free.
 */
int fio_check(const char *fio, char **version, char **reason);

#endif
