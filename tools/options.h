/* SPDX-License-Identifier: GPL-2.0-only */
/* The command line that compare, sweep, report and reproduce share. */
#ifndef KPOLICY_TOOLS_OPTIONS_H
#define KPOLICY_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "print/print.h"
#include "job/job.h"

/* Who reads the command line, as a set. */
enum options_for {
	FOR_COMPARE = 1,
	FOR_SWEEP = 2,
	FOR_REPORT = 4,
	FOR_REPRODUCE = 8,
	FOR_RESUME = 16, /* compare --resume */
};

struct options {
	struct swap_input input;
	char **variants; /* as typed */
	size_t nr_variants;
	struct setting *set; /* --set and its short forms */
	size_t nr_set;
	const char *target; /* --target, or NULL */
	const char *fio;
	char *engine_dir;
	const char *cpus;
	const char *output; /* --output DIR, or NULL */
	const char *resume; /* --resume DIR, or NULL */
	const char *plot;
	const char *html;
	const char *over;   /* sweep: key=values */
	const char *device; /* reproduce */
	enum report_format format;
	unsigned int rounds; /* 0: not given */
	double precision;    /* 0: not given */
	double time;
	double timeout;
	double fail_if_slower; /* share, 0: not asked */
	bool fail_if_undecided;
	bool show;
	bool strict;
	bool force;
	bool destructive;
	bool allow_exec;
	bool keep_going;
	bool quiet;
};

/*
 * Reads the arguments after the command's name; argv[0] is that name. @command is one of options_for.
 * For compare and sweep the first word that is no option is the job file, unless a fio command line
 * stands after '--'. False when they make no sense, or ask for what the command does not do: the
 * message is out.
 */
bool options_read(struct options *options, int argc, char **argv, unsigned int command);
void options_free(struct options *options);

/* Adds a setting for every run; the last one of a key holds. */
void options_set(struct options *options, const char *key, const char *value);

/* The file, device or directory that all jobs use. @path has to last. */
void options_set_target(struct options *options, const char *path);

/* Prints what @command takes, for its help. */
void options_help(unsigned int command, FILE *to);

/* Where the engines lie: next to this program's source tree, or where they are installed. */
char *options_engine_dir(void);

#endif
