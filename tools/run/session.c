// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"
#include "util/fields.h"

#define SESSION_FORMAT 2

/* ---- session.json -------------------------------------------------------------------------- */

#define FIELD(type, kind, key, member)                                 \
	{                                                              \
		key, FIELD_##kind, offsetof(struct type, member), NULL \
	}
#define FIELDS(type, kind, key, member, of)                          \
	{                                                            \
		key, FIELD_##kind, offsetof(struct type, member), of \
	}

static const struct fields variant_fields = {
	(const struct field[]){
		FIELD(comparison_variant, TEXT, "text", text),
		FIELD(comparison_variant, TEXT, "engine", engine),
		FIELD(comparison_variant, FLAG, "off", off),
		FIELD(comparison_variant, LINES, "args", args),
		{ 0 },
	},
	sizeof(struct comparison_variant),
};

static const struct fields job_fields = {
	(const struct field[]){
		FIELD(comparison_job, TEXT, "name", name),
		FIELD(comparison_job, WHOLE, "group", group),
		FIELD(comparison_job, FLAG, "counted", counted),
		FIELD(comparison_job, FLAG, "phases", phases),
		FIELD(comparison_job, TEXT, "after", after),
		FIELD(comparison_job, FLAG, "fixed_work", fixed_work),
		FIELD(comparison_job, TEXT, "fixed_ratio", fixed_ratio),
		FIELD(comparison_job, REAL, "seconds", seconds),
		{ 0 },
	},
	sizeof(struct comparison_job),
};

static const struct fields look_fields = {
	(const struct field[]){
		FIELD(judge_look, WHOLE, "rounds", rounds),
		FIELD(judge_look, REAL, "error", error),
		{ 0 },
	},
	sizeof(struct judge_look),
};

static const struct fields session_fields = {
	(const struct field[]){
		FIELD(session, WHOLE, "format", format),
		FIELD(session, TEXT, "title", comparison.title),
		FIELD(session, TEXT, "fio", fio),
		FIELD(session, TEXT, "fio_version", comparison.fio_version),
		FIELD(session, TEXT, "cwd", cwd),
		FIELD(session, TEXT, "engine_dir", engine_dir),
		FIELDS(session, ARRAY, "variants", comparison.variants, &variant_fields),
		FIELDS(session, ARRAY, "jobs", comparison.jobs, &job_fields),
		FIELD(session, WHOLE, "max_rounds", comparison.max_rounds),
		FIELD(session, REAL, "precision", comparison.precision),
		FIELD(session, REAL, "time", time),
		FIELD(session, REAL, "timeout", timeout),
		FIELD(session, FLAG, "keep_going", keep_going),
		FIELDS(session, ARRAY, "looks", comparison.looks, &look_fields),
		FIELDS(session, GROUP, "written", written, &written_fields),
		FIELD(session, LINES, "files", files),
		FIELD(session, LINES, "warnings", comparison.warnings),
		FIELD(session, LINES, "failures", comparison.failures),
		{ 0 },
	},
	sizeof(struct session),
};

/* ---- names --------------------------------------------------------------------------------- */

char *session_job_path(const struct session *session, size_t variant)
{
	return format("%s/jobs/%zu.fio", session->dir, variant);
}

char *session_run_path(const struct session *session, unsigned int round, unsigned int slot,
		       const char *suffix)
{
	return format("%s/runs/r%03u.s%u.%s", session->dir, round, slot, suffix);
}

char *session_counters_path(const struct session *session, size_t variant)
{
	return format("%s/runs/%zu.counters", session->dir, variant);
}

/* ---- directory ----------------------------------------------------------------------------- */

/* @made: was it not there? May be NULL. */
static int make_dir(char *path, bool *made, char **error)
{
	int ret = mkdir(path, 0777) ? -errno : 0;

	if (made)
		*made = !ret;
	if (ret == -EEXIST)
		ret = 0;

	if (ret)
		*error = format("%s: %s", path, strerror(-ret));
	free(path);
	return ret;
}

/* What another comparison left, or something else altogether, must not be taken for our own. */
static int check_empty(const char *dir, char **error)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;
	bool empty = true;

	if (!entries) {
		int ret = -errno;

		*error = format("%s: %s", dir, strerror(-ret));
		return ret;
	}
	while (empty && (entry = readdir(entries)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	closedir(entries);
	if (empty)
		return 0;
	char *taken = format("%s/session.json", dir);

	*error = access(taken, F_OK)
			 ? format("%s is not empty: --output needs a directory of its own", dir)
			 : format("%s holds a comparison: --resume %s goes on with it", dir, dir);
	free(taken);
	return -EEXIST;
}

/* What session_create() and its callers put there, before anything was run. */
static void remove_fresh(const struct session *session)
{
	static const char *const parts[] = { "jobs", "runs", "logs", "session.json",
					     "environment.json" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char *path = format("%s/%s", session->dir, parts[i]);

		remove_tree(path);
		free(path);
	}
	if (session->made)
		rmdir(session->dir);
}

int session_create(struct session *session, const char *dir, char **error)
{
	int ret;

	session->format = SESSION_FORMAT;
	if (!dir) {
		session->dir = temporary_path("XXXXXX");
		if (!mkdtemp(session->dir)) {
			ret = -errno;
			*error = format("%s: %s (TMPDIR names another directory)", session->dir,
					strerror(errno));
			free(session->dir);
			session->dir = NULL;
			return ret;
		}
		session->temporary = true;
	} else {
		ret = make_dir(xstrdup(dir), &session->made, error);
		if (ret)
			return ret;
		ret = check_empty(dir, error);
		if (ret)
			return ret;
		session->fresh = true;
		session->dir = realpath(dir, NULL);
		if (!session->dir) {
			*error = format("%s: %s", dir, strerror(errno));
			return -errno;
		}
	}
	ret = make_dir(format("%s/jobs", session->dir), NULL, error);
	if (!ret)
		ret = make_dir(format("%s/runs", session->dir), NULL, error);
	return ret;
}

static void make_lines_utf8(struct text_list *lines)
{
	for (size_t i = 0; i < lines->nr; i++)
		make_utf8(lines->item[i]);
}

void session_make_utf8(struct session *session)
{
	make_utf8(session->comparison.title);
	for (size_t i = 0; i < session->comparison.nr_variants; i++)
		make_utf8(session->comparison.variants[i].text);
	for (size_t i = 0; i < session->comparison.nr_jobs; i++) {
		make_utf8(session->comparison.jobs[i].name);
		if (session->comparison.jobs[i].after)
			make_utf8(session->comparison.jobs[i].after);
		if (session->comparison.jobs[i].fixed_ratio)
			make_utf8(session->comparison.jobs[i].fixed_ratio);
	}
	make_lines_utf8(&session->comparison.warnings);
}

json_t *session_load_counters(const char *path)
{
	char *text = read_whole(path, NULL);
	json_t *counters;

	if (!text)
		return NULL;
	make_utf8(text);
	counters = json_loads(text, 0, NULL);
	free(text);
	return counters;
}

void session_close(struct session *session)
{
	if (session->temporary && session->dir)
		remove_tree(session->dir);
	else if (session->fresh && session->dir)
		remove_fresh(session);
	free(session->dir);
	fields_free(&session_fields, session);
	*session = (struct session){ 0 };
}

static int dump_json(FILE *to, const void *value)
{
	if (json_dumpf(value, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10)))
		return errno ? -errno : -EIO;
	return fputc('\n', to) == EOF ? -EIO : 0;
}

int session_write_json(const struct session *session, const char *name, const json_t *value,
		       char **error)
{
	char *path = format("%s/%s", session->dir, name);

	errno = 0;
	int ret = write_whole(path, dump_json, value);
	if (ret)
		*error = format("%s: %s", path, strerror(-ret));
	free(path);
	return ret;
}

/* ---- session.json -------------------------------------------------------------------------- */

int session_save(const struct session *session, char **error)
{
	json_t *value = fields_pack(&session_fields, session);
	int ret = session_write_json(session, "session.json", value, error);

	json_decref(value);
	return ret;
}

/* Is it all there that nothing can be done without? */
static bool is_whole(const struct session *s)
{
	const struct comparison *c = &s->comparison;
	bool whole = true;

	for (size_t i = 0; i < c->nr_variants; i++)
		whole = whole && c->variants[i].text;
	for (size_t i = 0; i < c->nr_jobs; i++)
		whole = whole && c->jobs[i].name;
	return whole && c->title && s->fio && c->fio_version && s->cwd && c->nr_variants &&
	       c->max_rounds >= 1 && c->precision > 0;
}

int session_load(struct session *session, const char *dir, char **error)
{
	char *path = format("%s/session.json", dir);
	char *text = read_whole(path, NULL);
	json_error_t why;
	int ret = 0;

	*session = (struct session){ 0 };
	if (!text) {
		ret = -errno;
		*error = format("%s: %s: not a directory written with --output", path,
				strerror(errno));
		free(path);
		return ret;
	}
	json_t *value = json_loads(text, 0, &why);

	if (!value)
		*error = format("%s:%d: %s", path, why.line, why.text);
	fields_unpack(&session_fields, value, session);
	if (value && (session->format != SESSION_FORMAT || !is_whole(session)))
		*error = format("%s: not a session of this kpolicy", path);
	else if (value)
		session->dir = realpath(dir, NULL);
	if (!session->dir) {
		session_close(session);
		ret = -EINVAL;
	}
	json_decref(value);
	free(text);
	free(path);
	return ret;
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* CPU time is not in fio's result. */
static double read_cpu(const struct session *session, unsigned int round, unsigned int slot)
{
	char *path = session_run_path(session, round, slot, "cpu");
	char *line = read_line(path);
	double seconds = line ? strtod(line, NULL) : NAN;

	free(line);
	free(path);
	return seconds > 0 ? seconds : NAN;
}

static bool read_run(const struct session *session, unsigned int round, unsigned int slot,
		     struct run_result *run, json_t **counters)
{
	char *path = session_run_path(session, round, slot, "json");
	char *counters_path = session_run_path(session, round, slot, "counters");
	char *error = NULL;
	bool good = !access(path, F_OK) && !result_read(path, run, &error);

	if (good) {
		comparison_classify(&session->comparison, run);
		run->cpu_seconds = read_cpu(session, round, slot);
		char *failure = result_error(run, 0); /* or it would not be there */

		if (!failure)
			failure = result_idle(run);
		good = !failure;
		free(failure);
	}
	*counters = good ? session_load_counters(counters_path) : NULL;
	free(error);
	free(counters_path);
	free(path);
	return good;
}

/* Reads a round if all its runs are there and good; a counters entry may be NULL. */
static bool read_round(const struct session *session, unsigned int round, struct run_result *runs,
		       json_t **counters)
{
	unsigned int slots = comparison_slots(&session->comparison);
	bool whole = true;

	memset(runs, 0, slots * sizeof(*runs));
	memset(counters, 0, slots * sizeof(*counters));
	for (unsigned int slot = 0; whole && slot < slots; slot++)
		whole = read_run(session, round, slot, &runs[slot], &counters[slot]);
	if (!whole)
		session_free_round(session, runs, counters);
	return whole;
}

void session_load_rounds(const struct session *session, struct analysis *analysis)
{
	const struct comparison *c = &session->comparison;
	struct run_result *runs = xcalloc(comparison_slots(c), sizeof(*runs));
	json_t **counters = xcalloc(comparison_slots(c), sizeof(*counters));
	/* Failed rounds leave gaps. */
	unsigned int last = c->max_rounds + c->failures.nr;

	for (unsigned int round = 1; round <= last; round++) {
		if (!read_round(session, round, runs, counters))
			continue;
		analysis_add_round(analysis, runs, counters);
		session_free_round(session, runs, counters);
	}
	free(runs);
	free(counters);
}

void session_free_round(const struct session *session, struct run_result *runs, json_t **counters)
{
	for (unsigned int slot = 0; slot < comparison_slots(&session->comparison); slot++) {
		result_free(&runs[slot]);
		json_decref(counters[slot]);
	}
}
