/* SPDX-License-Identifier: GPL-2.0-only */
/* One run of fio: started, watched, its result read and judged. */
#ifndef KPOLICY_TOOLS_FIO_RUN_H
#define KPOLICY_TOOLS_FIO_RUN_H

#include <stdbool.h>

#include "util/spawn.h"
#include "stats/stats.h"

struct fio_run {
	const char *fio;
	const struct text_list *args; /* options that stand before the job file */
	const char *job;
	/* Gets its name when the run was good; fio's errors are in output.err, its CPU time in @cpu. */
	const char *output;
	const char *cpu;
	const struct spawn_watch *watch;
	const struct comparison *comparison; /* says which jobs are compared */
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
