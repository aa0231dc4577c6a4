// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"

#define SESSION_FORMAT 2

/* ---- names --------------------------------------------------------------------------------- */

unsigned int session_slots(const struct session *session)
{
	return session->nr_variants + 1;
}

unsigned int session_slot_variant(const struct session *session, unsigned int slot)
{
	return slot % session->nr_variants;
}

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
	make_utf8(session->title);
	for (size_t i = 0; i < session->nr_variants; i++)
		make_utf8(session->variants[i].text);
	for (size_t i = 0; i < session->nr_jobs; i++) {
		make_utf8(session->jobs[i].name);
		if (session->jobs[i].after)
			make_utf8(session->jobs[i].after);
		if (session->jobs[i].fixed_ratio)
			make_utf8(session->jobs[i].fixed_ratio);
	}
	make_lines_utf8(&session->warnings);
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

double session_error(const struct session *session, unsigned int rounds)
{
	return judge_error(&session->looks, rounds, session->max_rounds);
}

void session_close(struct session *session)
{
	if (session->temporary && session->dir)
		remove_tree(session->dir);
	else if (session->fresh && session->dir)
		remove_fresh(session);
	for (size_t i = 0; i < session->nr_variants; i++) {
		struct session_variant *v = &session->variants[i];

		free(v->text);
		free(v->engine);
		for (char **arg = v->args; arg && *arg; arg++)
			free(*arg);
		free(v->args);
	}
	for (size_t i = 0; i < session->nr_jobs; i++) {
		free(session->jobs[i].name);
		free(session->jobs[i].after);
		free(session->jobs[i].fixed_ratio);
	}
	free(session->variants);
	free(session->jobs);
	free(session->dir);
	free(session->title);
	free(session->fio);
	free(session->fio_version);
	free(session->cwd);
	free(session->engine_dir);
	judge_looks_free(&session->looks);
	written_free(&session->written);
	text_list_free(&session->files);
	text_list_free(&session->warnings);
	text_list_free(&session->failures);
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

/* A path may be no UTF-8; what is kept of it is for people then. */
static json_t *json_text(const char *text)
{
	char *valid = text ? xstrdup(text) : NULL;
	json_t *value;

	if (valid)
		make_utf8(valid);
	value = valid ? json_string(valid) : json_null();
	free(valid);
	return value;
}

static json_t *pack_lines(char *const *line, size_t nr)
{
	json_t *array = json_array();

	for (size_t i = 0; i < nr; i++)
		json_array_append_new(array, json_text(line[i]));
	return array;
}

static json_t *pack_variant(const struct session_variant *v)
{
	size_t nr = 0;

	while (v->args && v->args[nr])
		nr++;
	return json_pack("{s:s, s:o, s:b, s:o}", "text", v->text, "engine", json_text(v->engine),
			 "off", v->off, "args", pack_lines(v->args, nr));
}

static json_t *pack_job(const struct session_job *job)
{
	return json_pack("{s:s, s:i, s:b, s:b, s:o, s:b, s:o, s:f}", "name", job->name, "group",
			 (int)job->group, "counted", job->counted, "phases", job->phases, "after",
			 json_text(job->after), "fixed_work", job->fixed_work, "fixed_ratio",
			 json_text(job->fixed_ratio), "seconds", job->seconds);
}

static json_t *pack_looks(const struct judge_looks *looks)
{
	json_t *array = json_array();

	for (size_t i = 0; i < looks->nr; i++)
		json_array_append_new(array,
				      json_pack("{s:i, s:f}", "rounds", (int)looks->look[i].rounds,
						"error", looks->look[i].error));
	return array;
}

static json_t *pack_session(const struct session *s)
{
	json_t *variants = json_array(), *jobs = json_array();

	for (size_t i = 0; i < s->nr_variants; i++)
		json_array_append_new(variants, pack_variant(&s->variants[i]));
	for (size_t i = 0; i < s->nr_jobs; i++)
		json_array_append_new(jobs, pack_job(&s->jobs[i]));
	return json_pack(
		"{s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:i, s:f, s:f, s:f, s:b, s:o, s:o, "
		"s:o, s:o, s:o}",
		"format", SESSION_FORMAT, "title", s->title, "fio", json_text(s->fio),
		"fio_version", s->fio_version, "cwd", json_text(s->cwd), "engine_dir",
		json_text(s->engine_dir), "variants", variants, "jobs", jobs, "max_rounds",
		(int)s->max_rounds, "precision", s->precision, "time", s->time, "timeout",
		s->timeout, "keep_going", s->keep_going, "looks", pack_looks(&s->looks), "written",
		written_pack(&s->written), "files", pack_lines(s->files.item, s->files.nr),
		"warnings", pack_lines(s->warnings.item, s->warnings.nr), "failures",
		pack_lines(s->failures.item, s->failures.nr));
}

int session_save(const struct session *session, char **error)
{
	json_t *value = pack_session(session);
	int ret = session_write_json(session, "session.json", value, error);

	json_decref(value);
	return ret;
}

static char *take_text(const json_t *value)
{
	return json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
}

static void take_lines(const json_t *array, struct text_list *lines)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		text_list_add(lines, "%s", json_string_value(json_array_get(array, i)));
}

static void take_variant(const json_t *value, struct session_variant *v)
{
	const json_t *args = json_object_get(value, "args");
	size_t nr = json_array_size(args);

	v->text = take_text(json_object_get(value, "text"));
	v->engine = take_text(json_object_get(value, "engine"));
	v->off = json_is_true(json_object_get(value, "off"));
	v->args = xcalloc(nr + 1, sizeof(*v->args));
	for (size_t i = 0; i < nr; i++)
		v->args[i] = take_text(json_array_get(args, i));
}

static void take_job(const json_t *value, struct session_job *job)
{
	job->name = take_text(json_object_get(value, "name"));
	job->group = json_integer_value(json_object_get(value, "group"));
	job->counted = json_is_true(json_object_get(value, "counted"));
	job->phases = json_is_true(json_object_get(value, "phases"));
	job->after = take_text(json_object_get(value, "after"));
	job->fixed_work = json_is_true(json_object_get(value, "fixed_work"));
	job->fixed_ratio = take_text(json_object_get(value, "fixed_ratio"));
	job->seconds = json_number_value(json_object_get(value, "seconds"));
}

static void take_looks(const json_t *array, struct judge_looks *looks)
{
	looks->nr = json_array_size(array);
	looks->look = xcalloc(looks->nr, sizeof(*looks->look));
	for (size_t i = 0; i < looks->nr; i++) {
		const json_t *look = json_array_get(array, i);

		looks->look[i] = (struct judge_look){
			json_integer_value(json_object_get(look, "rounds")),
			json_number_value(json_object_get(look, "error")),
		};
	}
}

static bool take_session(const json_t *value, struct session *s)
{
	const json_t *variants = json_object_get(value, "variants");
	const json_t *jobs = json_object_get(value, "jobs");
	bool whole = true;

	s->title = take_text(json_object_get(value, "title"));
	s->fio = take_text(json_object_get(value, "fio"));
	s->fio_version = take_text(json_object_get(value, "fio_version"));
	s->cwd = take_text(json_object_get(value, "cwd"));
	s->engine_dir = take_text(json_object_get(value, "engine_dir"));
	s->max_rounds = json_integer_value(json_object_get(value, "max_rounds"));
	s->precision = json_number_value(json_object_get(value, "precision"));
	s->time = json_number_value(json_object_get(value, "time"));
	s->timeout = json_number_value(json_object_get(value, "timeout"));
	s->keep_going = json_is_true(json_object_get(value, "keep_going"));
	take_looks(json_object_get(value, "looks"), &s->looks);
	written_unpack(json_object_get(value, "written"), &s->written);
	take_lines(json_object_get(value, "files"), &s->files);
	take_lines(json_object_get(value, "warnings"), &s->warnings);
	take_lines(json_object_get(value, "failures"), &s->failures);

	s->nr_variants = json_array_size(variants);
	s->variants = xcalloc(s->nr_variants, sizeof(*s->variants));
	for (size_t i = 0; i < s->nr_variants; i++) {
		take_variant(json_array_get(variants, i), &s->variants[i]);
		whole = whole && s->variants[i].text;
	}
	s->nr_jobs = json_array_size(jobs);
	s->jobs = xcalloc(s->nr_jobs, sizeof(*s->jobs));
	for (size_t i = 0; i < s->nr_jobs; i++) {
		take_job(json_array_get(jobs, i), &s->jobs[i]);
		whole = whole && s->jobs[i].name;
	}
	return whole && s->title && s->fio && s->fio_version && s->cwd && s->nr_variants &&
	       s->max_rounds >= 1 && s->precision > 0;
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
	else if (json_integer_value(json_object_get(value, "format")) != SESSION_FORMAT ||
		 !take_session(value, session))
		*error = format("%s: not a session of this kpolicy", path);
	else
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

/* fio names a job by its section; with group_reporting by the first of the group. */
void session_classify(struct run_result *run, const void *arg)
{
	const struct session *session = arg;

	for (size_t i = 0; i < run->nr_jobs; i++) {
		struct job_result *result = &run->jobs[i];

		for (size_t j = 0; j < session->nr_jobs; j++) {
			const struct session_job *job = &session->jobs[j];

			if (strcmp(result->name, job->name) || result->group != job->group)
				continue;
			result->counted = job->counted;
			result->phases = job->phases;
			result->after = job->after;
		}
	}
}

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
		session_classify(run, session);
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

bool session_read_round(const struct session *session, unsigned int round, struct run_result *runs,
			json_t **counters)
{
	bool whole = true;

	for (unsigned int slot = 0; slot < session_slots(session); slot++) {
		runs[slot] = (struct run_result){ 0 };
		counters[slot] = NULL;
	}
	for (unsigned int slot = 0; whole && slot < session_slots(session); slot++)
		whole = read_run(session, round, slot, &runs[slot], &counters[slot]);
	if (!whole)
		session_free_round(session, runs, counters);
	return whole;
}

void session_free_round(const struct session *session, struct run_result *runs, json_t **counters)
{
	for (unsigned int slot = 0; slot < session_slots(session); slot++) {
		result_free(&runs[slot]);
		json_decref(counters[slot]);
	}
}
