// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fioinfo.h"
#include "swap_internal.h"

#define DEFAULT_ENGINE "psync"

/* fio's engines over plain files, and the backend of ours with the same kernel interface. */
static const struct {
	const char *engine, *backend;
	const char *unlike; /* what the backend does otherwise, for a warning; NULL: nothing */
} storage_engines[] = {
	{ "sync", "psync", NULL },
	{ "psync", "psync", NULL },
	{ "vsync", "psync", "which joins requests that follow each other into one preadv" },
	{ "pvsync", "psync", NULL },
	{ "pvsync2", "psync", NULL },
	{ "libaio", "libaio", NULL },
	{ "linuxaio", "libaio", NULL },
	{ "aio", "libaio", NULL },
	{ "posixaio", "libaio", "which is threads" },
	{ "io_uring", "io_uring", NULL },
};

static const char *const backends[] = { "libaio", "io_uring", "psync", "null" };

/* The row of a storage engine of fio's, or -1. */
static int find_row(const char *engine)
{
	for (size_t i = 0; i < sizeof(storage_engines) / sizeof(storage_engines[0]); i++)
		if (!strcmp(storage_engines[i].engine, engine))
			return i;
	return -1;
}

/*
 * One of our own engines, as a job file names it: external:PATH/split.so, or the name alone where it
 * is installed as fio's. Returns the name of ours or NULL.
 */
static const char *own_engine(const char *engine)
{
	const char *base = strrchr(engine, '/');
	size_t len;

	base = base ? base + 1 : engine;
	len = strlen(base);
	if (!strncmp(engine, "external:", 9) && len > 3 && !strcmp(base + len - 3, ".so"))
		len -= 3;
	else if (base != engine)
		return NULL;
	for (const char *const *own = variant_engines; *own; own++)
		if (strlen(*own) == len && !strncmp(*own, base, len))
			return *own;
	return NULL;
}

/* What the job of one of our engines says itself, else our default. */
static const char *own_backend(const struct jobfile *jf, size_t i)
{
	const char *named = jobfile_value(jf, i, "backend");

	for (size_t k = 0; named && k < sizeof(backends) / sizeof(backends[0]); k++)
		if (!strcmp(backends[k], named))
			return backends[k];
	return backends[0];
}

/* Where the default engine is to be replaced: in the first [global] before the job, or in it. */
static size_t default_owner(const struct jobfile *jf, size_t job)
{
	for (size_t i = 0; i < job; i++)
		if (jf->sections[i].global)
			return i;
	return job;
}

void swap_find_engines(struct swap *s)
{
	const struct jobfile *jf = s->jf;

	s->engines = xcalloc(jf->nr_sections, sizeof(*s->engines));
	for (size_t i = 0; i < jf->nr_sections; i++) {
		const struct jobfile_line *l = jobfile_effective(jf, i, "ioengine");
		struct section_engine *e = &s->engines[i];

		e->name = xstrdup(l && l->value ? l->value : DEFAULT_ENGINE);
		e->own = own_engine(e->name);
		e->row = find_row(e->name);
		if (e->row >= 0)
			e->backend = storage_engines[e->row].backend;
		else if (e->own)
			e->backend = own_backend(jf, i);
		e->file = l ? l->file : jf->sections[i].file;
		e->line = l ? l->line : jf->sections[i].line;
		if (!l && jobfile_is_job(&jf->sections[i]))
			s->engines[default_owner(jf, i)].insert = true;
	}
}

static int drop_option(struct swap *s, size_t i, size_t at)
{
	const struct jobfile_line *l = &s->jf->sections[i].lines[at];
	const char *old = s->engines[i].name;

	if (s->opt->strict)
		return text_error_at(s->error, EPERM, l->file, l->line,
				     "'%s' is an option of %s that %s has not; without "
				     "--strict it is dropped",
				     l->key, old, s->v->engine);
	swap_warn(s, l->file, l->line, "'%s' is an option of %s that %s has not, dropped", l->key,
		  old, s->v->engine);
	jobfile_remove_line(&s->jf->sections[i], at);
	return 0;
}

int swap_load_options(struct swap *s, const char *engine)
{
	if (s->options_of && !strcmp(s->options_of, engine))
		return s->options_result;
	s->options_of = engine;
	text_list_free(&s->options);
	s->options_result = fioinfo_engine_options(s->opt->fio, engine, &s->options);
	return s->options_result;
}

/* A word of the variant, that the one to be compared says in its place. */
static bool is_policy(const struct swap *s, const char *key)
{
	static const char *const words[] = { "policy", "kernel", "fs", "counters", NULL };
	const char *underscore = strrchr(key, '_');

	for (const char *const *word = words; *word; word++)
		if (!strcmp(*word, key))
			return true;
	return variant_setting(s->v, key) || (underscore && !strcmp(underscore, "_policy"));
}

/*
 * A section of one of our engines: the policy is exchanged, the device below it stays as described
 * as far as the variant's engine has the option.
 */
static int drop_own_options(struct swap *s, size_t i)
{
	struct jobfile_section *section = &s->jf->sections[i];
	bool same = !strcmp(s->engines[i].own, s->v->engine);
	struct text_list old = { 0 };
	int ret = 0;

	if (!same) {
		const char *path = s->engines[i].name;

		ret = fioinfo_engine_options(s->opt->fio,
					     path + (strncmp(path, "external:", 9) ? 0 : 9), &old);
		if (!ret)
			ret = swap_load_options(s, s->so_path);
		if (ret == -ENOENT) /* not built: all is taken for common */
			ret = 0;
	}
	for (size_t k = 0; k < section->nr_lines && !ret;) {
		const char *key = section->lines[k].key;

		if (key && is_policy(s, key))
			jobfile_remove_line(section, k);
		else if (key && text_list_has(&old, key) && s->options.nr &&
			 !text_list_has(&s->options, key))
			ret = drop_option(s, i, k);
		else
			k++;
	}
	text_list_free(&old);
	return ret;
}

static int drop_options(struct swap *s, size_t i)
{
	struct jobfile_section *section = &s->jf->sections[i];
	int ret;

	if (s->engines[i].own)
		return drop_own_options(s, i);
	ret = swap_load_options(s, s->engines[i].name);

	if (ret == -ENOENT) /* neither fio nor the table knows the engine's options */
		ret = 0;

	for (size_t k = 0; k < section->nr_lines && !ret;) {
		const char *key = section->lines[k].key;

		if (key && text_list_has(&s->options, key))
			ret = drop_option(s, i, k);
		else
			k++;
	}
	return ret;
}

/* Writes the variant behind the ioengine line, at @at. */
static void insert_variant(struct swap *s, size_t i, size_t at)
{
	struct jobfile_section *section = &s->jf->sections[i];

	for (size_t k = 0; k < s->nr_engine_settings; k++)
		jobfile_insert(section, at++, s->engine_settings[k]->key,
			       s->engine_settings[k]->value);
	/* one of ours says itself what it is to run on */
	if (!s->engines[i].own && !variant_setting(s->v, "backend"))
		jobfile_insert(section, at, "backend", s->engines[i].backend);
}

/* Replaces the last ioengine line, which counts, and removes those it overruled; returns behind. */
static size_t replace_ioengine(struct jobfile_section *section, const char *engine)
{
	size_t k = jobfile_own(section, "ioengine") - section->lines, at = k + 1;

	jobfile_replace(&section->lines[k], engine);
	while (k-- > 0)
		if (jobfile_sets(&section->lines[k], "ioengine")) {
			jobfile_remove_line(section, k);
			at--;
		}
	return at;
}

static void exchange_section(struct swap *s, size_t i)
{
	struct jobfile_section *section = &s->jf->sections[i];
	bool named = jobfile_own(section, "ioengine");
	size_t at = 1; /* behind the header */
	char *engine;

	if (!named && !s->engines[i].insert)
		return;
	engine = format("external:%s", s->so_path);
	if (named)
		at = replace_ioengine(section, engine);
	else
		jobfile_insert(section, at++, "ioengine", engine);
	free(engine);
	insert_variant(s, i, at);
}

static bool is_left_alone(const struct swap *s, size_t i, const char *engine)
{
	return jobfile_is_job(&s->jf->sections[i]) && !strcmp(s->engines[i].name, engine);
}

/* One warning per engine, at its first job, that names all its jobs. */
static void warn_left_alone(struct swap *s, size_t first)
{
	const struct section_engine *e = &s->engines[first];
	struct stream stream;
	FILE *out;
	char *jobs;

	for (size_t i = 0; i < first; i++)
		if (is_left_alone(s, i, e->name))
			return;
	out = stream_open(&stream);
	for (size_t i = first; i < s->jf->nr_sections; i++)
		if (is_left_alone(s, i, e->name))
			fprintf(out, " [%s]", s->jf->sections[i].name);
	jobs = stream_text(&stream);
	swap_warn(s, e->file, e->line, "%s is no storage engine, left alone:%s", e->name, jobs);
	free(jobs);
}

static void warn_unlike(struct swap *s, size_t i)
{
	const struct section_engine *e = &s->engines[i];

	if (e->row >= 0 && storage_engines[e->row].unlike)
		swap_warn(s, e->file, e->line, "%s, %s, is exchanged with backend=%s", e->name,
			  storage_engines[e->row].unlike, e->backend);
}

static int nothing_to_exchange(struct swap *s)
{
	for (size_t i = 0; i < s->jf->nr_sections; i++)
		if (jobfile_is_job(&s->jf->sections[i]))
			return text_error_at(
				s->error, EOPNOTSUPP, s->engines[i].file, s->engines[i].line,
				"no job has a storage engine that can be exchanged, [%s] has %s%s",
				s->jf->sections[i].name, s->engines[i].name,
				strcmp(s->engines[i].name, "null")
					? ""
					: "; for a null device write ioengine=psync, and --set "
					  "backend=null");
	return -EINVAL;
}

int swap_exchange(struct swap *s)
{
	size_t nr_swapped = 0;
	int ret = 0;

	for (size_t i = 0; i < s->jf->nr_sections; i++)
		nr_swapped += jobfile_is_job(&s->jf->sections[i]) && s->engines[i].backend;
	if (!nr_swapped)
		return nothing_to_exchange(s);
	for (size_t i = 0; i < s->jf->nr_sections && !ret; i++) {
		if (!s->jf->sections[i].name)
			continue;
		if (s->engines[i].backend) {
			warn_unlike(s, i);
			ret = drop_options(s, i);
			if (!ret)
				exchange_section(s, i);
		} else if (jobfile_is_job(&s->jf->sections[i])) {
			warn_left_alone(s, i);
		}
	}
	return ret;
}
