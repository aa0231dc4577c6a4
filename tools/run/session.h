/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A comparison as it lies on disk. Everything that is printed comes from here, so that a comparison
 * that was stopped can go on, and one that ended can be printed again.
 *
 *	DIR/session.json		what is compared and how
 *	DIR/environment.json		on what
 *	DIR/result.json			the result, as --format json prints it
 *	DIR/jobs/N.fio			the rewritten job file of variant N
 *	DIR/runs/rNNN.sN.json		what fio wrote in round NNN for slot N
 *	DIR/runs/rNNN.sN.counters	the engine's counters of that run
 *
 * Slots are the runs of a round: slot 0 is the first variant, slot i is variant i, and the last
 * slot is the first variant again. Round 0 is the warm-up.
 */
#ifndef KPOLICY_TOOLS_SESSION_H
#define KPOLICY_TOOLS_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "stats/judge.h"
#include "stats/result.h"
#include "util.h"
#include "job/written.h"

struct session_job {
	char *name;
	unsigned int group;
	bool counted;	   /* its I/O is compared */
	bool phases;	   /* writes, then reads back to verify */
	char *after;	   /* the job it waits for, or NULL */
	bool fixed_work;   /* ends when its size is done */
	char *fixed_ratio; /* option that makes every ratio 1, or NULL */
	double seconds;	   /* that it is told to run; 0: until its size is done */
};

struct session_variant {
	char *text;   /* the label */
	char *engine; /* NULL: native */
	bool off;     /* policy=none: no counters are expected */
	char **args;  /* for fio's command line, NULL-terminated */
};

struct session {
	char *dir;
	bool temporary; /* the user did not ask to keep it */
	bool made;	/* by session_create() */
	bool fresh;	/* nothing is in it yet that is worth keeping */
	char *title;	/* the job file, or what stands for it */
	char *fio;
	char *fio_version;
	char *cwd;
	char *engine_dir;
	struct session_variant *variants;
	size_t nr_variants;
	struct session_job *jobs; /* the same in every variant */
	size_t nr_jobs;
	unsigned int max_rounds;
	double precision; /* full width of the interval, 0.02: 2 % */
	double time;	  /* seconds that may be spent; 0: no limit */
	double timeout;	  /* seconds that one run may take; 0: ten times the longest so far */
	bool keep_going;  /* a failed run does not end it */
	bool destructive; /* block devices may be written; not kept, to be said each time */
	struct judge_looks looks;  /* taken so far, by all who ran it */
	struct written written;	   /* by the jobs of all variants */
	struct text_list files;	   /* synced and invalidated between runs */
	struct text_list warnings; /* known before the first run */
	struct text_list failures; /* runs that do not count */
};

/*
 * Makes the directory, or takes an empty one. @dir NULL: a temporary one, removed by
 * session_close(). Returns 0 or -errno with *@error one line (caller frees).
 */
int session_create(struct session *session, const char *dir, char **error);

/* Writes session.json. Returns 0 or -errno with *@error. */
int session_save(const struct session *session, char **error);

/* Reads session.json of @dir. Returns 0 or -errno with *@error; @session is empty then. */
int session_load(struct session *session, const char *dir, char **error);

/* The error that intervals after so many rounds have. */
double session_error(const struct session *session, unsigned int rounds);

/* Frees it, and removes the directory if it is temporary or nothing was run in it. */
void session_close(struct session *session);

/* The number of slots of a round: the variants and the second control. */
unsigned int session_slots(const struct session *session);

/* The variant that runs in a slot. */
unsigned int session_slot_variant(const struct session *session, unsigned int slot);

/* Makes all of it that is for people UTF-8, as its JSON and fio's have to be. */
void session_make_utf8(struct session *session);

/* What an engine counted, from the file it wrote; NULL when there is none. */
json_t *session_load_counters(const char *path);

/* Names of files, for the caller to free. */
char *session_job_path(const struct session *session, size_t variant);
char *session_run_path(const struct session *session, unsigned int round, unsigned int slot,
		       const char *suffix);
/* Where a variant's engine writes its counters, before they are filed under their run. */
char *session_counters_path(const struct session *session, size_t variant);

/* Writes a JSON value to DIR/NAME whole or not at all. Returns 0 or -errno with *@error. */
int session_write_json(const struct session *session, const char *name, const json_t *value,
		       char **error);

/* Says of the jobs of a run which are compared, and what runs one after the other. @arg is the session. For fio_run.classify. */
void session_classify(struct run_result *run, const void *arg);

/*
 * Reads a round if all its runs are there and good. @runs and @counters have room for every slot;
 * a counters entry is NULL where the engine wrote none. Returns false when it is not complete.
 */
bool session_read_round(const struct session *session, unsigned int round, struct run_result *runs,
			json_t **counters);

/* Frees what session_read_round() filled in. */
void session_free_round(const struct session *session, struct run_result *runs, json_t **counters);

#endif
