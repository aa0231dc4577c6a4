// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "safety.h"
#include "swap_internal.h"
#include "targets.h"

#define FDP "data placement directives end at fio's own engines"

/* What an exchanged engine cannot do. @value: the one that matters; NULL: any but 0. */
static const struct {
	const char *option, *value, *why;
} incapable[] = {
	{ "zonemode", "zbd", "the engines neither report nor reset zones; fio's own must run it" },
	{ "atomic", NULL, "the engines submit no atomic writes" },
	{ "fdp", NULL, FDP },
	{ "dataplacement", "fdp", FDP },
	{ "dataplacement", "streams", FDP },
	{ "num_range", NULL, "the engines trim one range at a time" },
	{ "filename", "-", "the engines do no I/O to standard input or output" },
};

/* What runs commands of the job file's author. */
static const char *const exec_options[] = { "exec_prerun", "exec_postrun", NULL };

/* Refused for a run, mentioned when it is only shown. @reason is freed. */
static int refuse_run(struct swap *s, int err, const struct jobfile_line *at, char *reason)
{
	int ret = 0;

	if (s->opt->show_only)
		swap_warn(s, at->file, at->line, "a run would be refused: %s", reason);
	else
		ret = text_error_at(s->error, err, at->file, at->line, "%s", reason);
	free(reason);
	return ret;
}

static int refuse_exec(struct swap *s, const struct jobfile_line *at, const char *what)
{
	return refuse_run(s, EPERM, at,
			  format("%s=%s %s; if it may, say --allow-exec", at->key,
				 at->value ? at->value : "", what));
}

/* An external engine is code that fio runs: ours are known. */
static bool is_foreign(const struct swap *s, const char *engine)
{
	static const char external[] = "external:";
	bool foreign = false;

	if (!strncmp(engine, external, strlen(external))) {
		char *dir = realpath(s->opt->engine_dir, NULL);
		char *path = realpath(engine + strlen(external), NULL);
		const char *below = dir ? dir : s->opt->engine_dir;
		const char *file = path ? path : engine + strlen(external);
		size_t len = strlen(below);

		foreign = strncmp(file, below, len) || file[len] != '/' ||
			  strchr(file + len + 1, '/');
		free(dir);
		free(path);
	}
	return foreign;
}

static int check_exec(struct swap *s, size_t i)
{
	const struct jobfile_line *l = jobfile_effective(s->jf, i, "ioengine");
	int ret = 0;

	if (s->opt->allow_exec)
		return 0;
	if (l && l->value && !strcmp(l->value, "exec"))
		return refuse_exec(s, l, "runs a command");
	if (l && l->value && is_foreign(s, l->value))
		return refuse_exec(s, l, "is code from outside of the folder of the engines");
	for (const char *const *option = exec_options; *option && !ret; option++) {
		l = jobfile_effective(s->jf, i, *option);
		if (l && l->value && *l->value)
			ret = refuse_exec(s, l, "runs a command");
	}
	return ret;
}

static int check_profile(struct swap *s, size_t i)
{
	const struct jobfile_line *l = jobfile_effective(s->jf, i, "profile");

	if (!l)
		return 0;
	return text_error_at(s->error, EOPNOTSUPP, l->file, l->line,
			     "profile=%s makes jobs of its own, with its own engine",
			     l->value ? l->value : "");
}

static int check_capabilities(struct swap *s, size_t i)
{
	for (size_t k = 0; k < sizeof(incapable) / sizeof(incapable[0]); k++) {
		const char *option = incapable[k].option;
		const struct jobfile_line *l = jobfile_effective(s->jf, i, option);
		bool hit = l && swap_is_on(s->jf, i, option);

		if (hit && incapable[k].value)
			hit = l->value && !strcmp(l->value, incapable[k].value);
		if (hit)
			return text_error_at(s->error, EOPNOTSUPP, l->file, l->line, "%s=%s: %s",
					     l->key, l->value ? l->value : "1", incapable[k].why);
	}
	return 0;
}

/* The line to blame for a target: the job's own, or its header when it names none. */
static struct jobfile_line *target_line(struct swap *s, size_t i)
{
	static const char *const options[] = { "read_iolog", "filename", "filename_format", NULL };

	for (const char *const *option = options; *option; option++) {
		struct jobfile_line *l = jobfile_effective(s->jf, i, *option);

		if (l)
			return l;
	}
	return &s->jf->sections[i].lines[0];
}

static int check_paths(struct swap *s, size_t i, const struct targets *t)
{
	const struct jobfile_line *at = target_line(s, i);
	char *why;
	int ret = 0;

	for (size_t k = 0; k < t->paths.nr && !ret; k++) {
		int err = safety_check_write(t->paths.item[k], s->opt->destructive, &safety_system,
					     &why);

		if (err)
			ret = refuse_run(s, -err, at, why);
	}
	if (!ret && t->unknown && !s->opt->destructive) {
		ret = refuse_run(s, EPERM, at,
				 xstrdup("the job may write to a block device that cannot be told "
					 "from here; use replay_redirect, or say --destructive"));
	}
	return ret;
}

static int check_targets(struct swap *s, size_t i)
{
	struct targets t = { 0 };
	int ret = 0;

	if (swap_writes_nothing(s, i))
		return 0;

	targets_of(s->jf, i, &t);
	if (t.writes)
		ret = check_paths(s, i, &t);
	text_list_free(&t.paths);
	return ret;
}

/* @path is @target or lies below it. */
static bool is_within(const char *path, const char *target)
{
	size_t len = strlen(target);

	while (len > 1 && target[len - 1] == '/')
		len--;
	if (strncmp(path, target, len) || (path[len] && path[len] != '/' && target[len - 1] != '/'))
		return false;
	for (const char *up = path; (up = strstr(up, "..")); up += 2)
		if (up > path && up[-1] == '/' && (!up[2] || up[2] == '/') && up >= path + len)
			return false;
	return true;
}

/* The last word on --target: whatever the rewriting did, no file is opened elsewhere. */
static int check_within(struct swap *s, size_t i)
{
	const struct jobfile_line *at = target_line(s, i);
	struct targets t = { 0 };
	int ret = 0;

	if (!s->opt->target || swap_is_null(s, i))
		return 0;
	targets_of(s->jf, i, &t);
	for (size_t k = 0; k < t.paths.nr && !ret; k++)
		if (!is_within(t.paths.item[k], s->opt->target))
			ret = text_error_at(s->error, EINVAL, at->file, at->line,
					    "the job would open %s, which is not within --target "
					    "%s; change its filename",
					    t.paths.item[k], s->opt->target);
	text_list_free(&t.paths);
	return ret;
}

int swap_refuse(struct swap *s)
{
	int ret = 0;

	for (size_t i = 0; i < s->jf->nr_sections && !ret; i++) {
		if (!jobfile_is_job(&s->jf->sections[i]))
			continue;
		ret = check_profile(s, i);
		if (!ret && swap_is_swapped(s, i))
			ret = check_capabilities(s, i);
		if (!ret)
			ret = check_exec(s, i);
		if (!ret)
			ret = check_within(s, i);
		if (!ret)
			ret = check_targets(s, i);
	}
	return ret;
}
