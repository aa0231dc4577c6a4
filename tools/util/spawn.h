/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one place that starts other programs: one at a time, and none is left behind.
 *
 * fio's forked jobs lead sessions of their own, so no process group holds them, and they outlive a fio
 * that is killed. spawn_init() makes kpolicy their subreaper: it inherits them and kills them.
 */
#ifndef KPOLICY_TOOLS_SPAWN_H
#define KPOLICY_TOOLS_SPAWN_H

/* Call it once, before the first program. It takes over SIGINT, SIGTERM and SIGHUP. 0 or -errno. */
int spawn_init(void);

/* The signal by which the user asked kpolicy to stop, or 0. */
int spawn_interrupted(void);

/* A clock for durations, in seconds. */
double spawn_clock(void);

/* How a running program is watched. */
struct spawn_watch {
	double limit;		 /* seconds after which the program is ended; 0: none */
	void (*tick)(void *arg); /* called a few times a second; may be NULL */
	void *arg;
};

/* How a program ended. */
struct spawn_end {
	int status;	    /* as wait() gives it */
	double cpu_seconds; /* of the program and all its children */
};

/*
 * spawn - run a program to its end, with standard input from /dev/null
 * @argv: its words, then NULL; the program is looked for on the PATH
 * @out, @err: descriptors that become its standard output and standard error; -1: /dev/null
 * @watch: NULL: only a signal that arrives from now on ends the program
 *
 * Nothing of the program is left running, however it ends.
 * Return: 0, or -errno: -EINTR when the user asked to stop, -ETIMEDOUT past the limit, else why the
 * program could not be started, -ENOENT when there is none.
 */
int spawn(const char *const *argv, int out, int err, const struct spawn_watch *watch,
	  struct spawn_end *end);

/*
 * spawn_read - run a program and keep what it prints on standard output
 * @text: receives the output, to be freed; NULL on failure
 *
 * Return: its exit code, or -errno as spawn(); -EIO when a signal ended the program.
 */
int spawn_read(const char *const *argv, char **text);

#endif
