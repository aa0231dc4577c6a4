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
 * Round 0 is the warm-up.
 */
#ifndef KPOLICY_TOOLS_SESSION_H
#define KPOLICY_TOOLS_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "job/job.h"
#include "stats/stats.h"

struct session {
	unsigned int format; /* of session.json */
	struct comparison comparison;
	char *dir;
	bool temporary; /* the user did not ask to keep it */
	bool made;	/* by session_create() */
	bool fresh;	/* nothing is in it yet that is worth keeping */
	char *fio;
	char *cwd;
	char *engine_dir;
	double time;		/* seconds that may be spent; 0: no limit */
	double timeout;		/* seconds that one run may take; 0: ten times the longest so far */
	bool keep_going;	/* a failed run does not end it */
	bool destructive;	/* block devices may be written; not kept, to be said each time */
	struct written written; /* by the jobs of all variants */
	struct text_list files; /* synced and invalidated between runs */
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

/* Frees it, and removes the directory if it is temporary or nothing was run in it. */
void session_close(struct session *session);

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

/* Adds every complete round that lies in the session's directory to @analysis. */
void session_load_rounds(const struct session *session, struct analysis *analysis);

/* Frees the runs of a round and their counters; both have an entry for every slot. */
void session_free_round(const struct session *session, struct run_result *runs, json_t **counters);

#endif
