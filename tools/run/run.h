/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Child processes: one at a time, never left behind.
 *
 * fio's forked jobs are leaders of their own sessions, so that no process group holds them, and
 * they outlive a fio that is killed. kpolicy is their subreaper: it inherits them and ends them.
 */
#ifndef KPOLICY_TOOLS_RUN_H
#define KPOLICY_TOOLS_RUN_H

#include <stdbool.h>

#include "stats/result.h"

/* Call once, before the first child. Takes over SIGINT, SIGTERM and SIGHUP. 0 or -errno. */
int run_init(void);

/* Has the user asked to stop? The signal, or 0. */
int run_interrupted(void);

/* A clock for durations, in seconds. */
double run_clock(void);

/* Kills and collects every process below this one. */
void run_end_descendants(void);

/* What is watched while a program runs. Without one a program is ended by a new signal only. */
struct run_watch {
	double limit;		 /* seconds after which the run is ended; 0: none */
	void (*tick)(void *arg); /* called a few times a second while waiting; may be NULL */
	void *arg;
};

/*
 * Runs a program to its end with standard input from /dev/null, its output in @output and its
 * errors in @errors (NULL: /dev/null). Nothing of it is left running, however it ends.
 *
 * Returns 0 with the wait status in *@status and, unless it is NULL, the CPU time of the program and
 * all its children in *@cpu_seconds; -EINTR when the user asked to stop, -ETIMEDOUT past
 * the limit, another -errno when it could not be started.
 */
int run_program(const char *const *argv, const char *output, const char *errors,
		const struct run_watch *watch, int *status, double *cpu_seconds);

struct fio_run {
	const char *fio;
	char *const *args; /* options that stand before the job file; NULL-terminated, or NULL */
	const char *job;
	/* Gets its name when the run was good; fio's errors are in output.err, its CPU time in @cpu. */
	const char *output;
	const char *cpu;
	const struct run_watch *watch;
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
