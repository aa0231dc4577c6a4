/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns a fio job file, or a fio command line, into a private copy that runs under a variant.
 *
 * The user's file is only read. The copy has the includes inlined and the engine exchanged section
 * by section; everything else stays as written, so that fio sees the same jobs. It has to be run
 * from the same working directory: fio resolves relative paths against it.
 */
#ifndef KPOLICY_TOOLS_SWAP_H
#define KPOLICY_TOOLS_SWAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "variant.h"

/* Exactly one of the two. */
struct swap_input {
	const char *path;  /* a job file, or NULL */
	char *const *argv; /* a fio command line as pasted, argv[0] is fio; NULL-terminated */
};

struct swap_options {
	const struct setting *set; /* overrides the job file in every section */
	size_t nr_set;
	const char *fio;	/* the fio binary; asked what options its engines have */
	const char *engine_dir; /* where split.so ... lie */
	const char *run_dir;	/* logs and state files go there; NULL: leave them */
	const char *target;	/* --target: no job may open a file elsewhere; NULL: any */
	const char *cpus;	/* cpus_allowed of every job; NULL: leave it */
	bool strict;		/* refuse to drop an option */
	bool force;		/* the caller's: what is comparable is not judged here */
	bool destructive;	/* block devices may be written, unless they are in use */
	bool allow_exec;	/* exec_prerun and the like may run */
	bool show_only;		/* nothing will be run: what a run would refuse is a warning, and
				 * the engine's .so need not exist */
};

struct swap_job {
	char *name;	      /* section name, as in fio's JSON */
	const char *file;     /* valid as long as the result */
	unsigned int line;    /* of the section header */
	bool storage;	      /* uses a storage engine: what a comparison is about, native or not */
	bool swapped;	      /* false: left alone, not a storage engine (or native) */
	char *old_engine;     /* as fio resolves it; psync when the file names none */
	bool buffered;	      /* direct=0 in effect */
	bool writes;	      /* writes or trims */
	bool fixed_work;      /* the size ends the job, not time_based: compare time */
	bool unmeasured;      /* stats=0: fio says nothing of it */
	bool phases;	      /* writes all, then reads it all back to verify */
	char *after;	      /* the job it waits for (wait_for=), or NULL */
	char *ratio_one;      /* option that fixes the ratio (rate=..., thinktime=...), or NULL */
	unsigned int group;   /* stonewall group, as fio counts them, from 0 */
	unsigned int numjobs; /* at least 1 */
	unsigned long long us; /* startdelay + ramp_time + runtime; 0 if no runtime is set */
};

struct swap_result {
	char *text; /* the private job file, complete */
	struct swap_job *jobs;
	size_t nr_jobs;
	char **warnings; /* one line each, no newline */
	size_t nr_warnings;
	char **files; /* targets as fio will open them, as far as they are known; sorted */
	size_t nr_files;
	char **written; /* those of them that jobs write, unless they touch no file; sorted */
	size_t nr_written;
	bool writes_unknown; /* a replayed log may write what cannot be told */
	char **args; /* options that only fio's command line has: pass them before the job file */
	size_t nr_args;
	struct jobfile *jobfile; /* for swap_show() */
};

/*
 * Reads @in, applies @v and @opt and fills @result.
 *
 * Returns 0, or -errno with *@error set to one line "FILE:LINE: reason" without newline, which the
 * caller frees: -ENOENT and the like when a file cannot be read, -EINVAL for what fio would not
 * take either, -EOPNOTSUPP for what the engine cannot do, -EPERM for what is refused without
 * --destructive, --allow-exec or with --strict, -EBUSY for a device in use.
 * @result is empty then. May run @opt->fio; not to be called while SIGCHLD is ignored.
 */
int swap_job(const struct swap_input *in, const struct variant *v, const struct swap_options *opt,
	     struct swap_result *result, char **error);

/*
 * Writes the unified difference between the original (for a command line: the job file it is
 * equivalent to) and the private copy; nothing when they are equal. Returns 0 or -EIO.
 */
int swap_show(FILE *out, const struct swap_input *in, const struct swap_result *result);

/* Frees what swap_job() put into @result and leaves it empty. */
void swap_result_free(struct swap_result *result);

#endif
