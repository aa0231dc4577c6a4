// SPDX-License-Identifier: GPL-2.0-only
/* From the command line to a session that can be run: variants, job files, like with like. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compare.h"
#include "run/run.h"
#include "job/job.h"

#define DEFAULT_ROUNDS	  32
#define DEFAULT_PRECISION 0.02

/*
 * Beyond the engine: total latency with its bins, the same random offsets in every run, and each
 * direction by itself.
 */
static const struct setting measured_with[] = {
	{ (char[]){ "lat_percentiles" }, (char[]){ "1" } },
	{ (char[]){ "randrepeat" }, (char[]){ "1" } },
	{ (char[]){ "allrandrepeat" }, (char[]){ "1" } },
	{ (char[]){ "unified_rw_reporting" }, (char[]){ "0" } },
};

/* One variant on its way from the command line into the session. */
struct candidate {
	struct variant variant;
	struct setting *set; /* for all sections: common ones, then those of a native variant */
	size_t nr_set;
	struct swap_result swap;
};

/* ---- variants ------------------------------------------------------------------------------ */

static void add_setting(struct setting **set, size_t *nr, const char *key, const char *value)
{
	*set = xrealloc(*set, *nr + 1, sizeof(**set));
	(*set)[(*nr)++] = (struct setting){ xstrdup(key), xstrdup(value) };
}

static void free_settings(struct setting *set, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		free(set[i].key);
		free(set[i].value);
	}
	free(set);
}

/* 'bs=4k,8k,iodepth=4': a comma starts a setting only where a key follows. */
static void take_native_settings(struct candidate *c, const char *text)
{
	while (*text) {
		size_t key = strcspn(text, "=");
		size_t end = key + strcspn(text + key, ",");

		while (text[end]) { /* further values of the same key */
			size_t next = end + 1 + strcspn(text + end + 1, ",=");

			if (text[next] == '=')
				break;
			end = next;
		}
		char *name = format("%.*s", (int)key, text);
		char *value = text[key] ? format("%.*s", (int)(end - key - 1), text + key + 1)
					: xstrdup("");

		add_setting(&c->set, &c->nr_set, name, value);
		free(name);
		free(value);
		text += end + (text[end] == ',');
	}
}

/*
 * 'native,option=value' changes the job alone. The engine's settings are the variant's own, so that
 * what comes after the comma belongs to the job here.
 */
static bool parse_variant(const char *text, struct candidate *c)
{
	static const char native[] = "native,";
	bool changed = !strncmp(text, native, strlen(native));
	char *error = NULL;

	if (variant_parse(changed ? "native" : text, &c->variant, &error))
		return complain(error);
	if (changed) {
		free(c->variant.text);
		c->variant.text = xstrdup(text);
		take_native_settings(c, text + strlen(native));
	}
	return true;
}

static void common_settings(const struct options *options, bool show_only, struct candidate *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(measured_with) && !show_only; i++)
		add_setting(&c->set, &c->nr_set, measured_with[i].key, measured_with[i].value);
	for (size_t i = 0; i < options->nr_set; i++)
		add_setting(&c->set, &c->nr_set, options->set[i].key, options->set[i].value);
}

static bool swap_candidate(const struct options *options, const struct session *session,
			   size_t number, struct candidate *c)
{
	char *run_dir = session ? format("%s/logs/%zu", session->dir, number) : NULL;
	const struct swap_options swap = {
		.set = c->set,
		.nr_set = c->nr_set,
		.fio = options->fio,
		.engine_dir = options->engine_dir,
		.run_dir = run_dir,
		.target = options->target,
		.cpus = options->cpus,
		.strict = options->strict,
		.force = options->force,
		.destructive = options->destructive,
		.allow_exec = options->allow_exec,
		.show_only = !session, /* not the option: what is run must be safe */
	};
	char *error = NULL;

	if (run_dir)
		mkdir(run_dir, 0777);
	if (session && c->variant.engine) {
		char *counters = session_counters_path(session, number);

		add_setting(&c->variant.settings, &c->variant.nr_settings, "counters", counters);
		free(counters);
	}
	bool done = !swap_job(&options->input, &c->variant, &swap, &c->swap, &error);

	free(run_dir);
	return done || complain(error);
}

static void free_candidates(struct candidate *c, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		variant_free(&c[i].variant);
		swap_result_free(&c[i].swap);
		free_settings(c[i].set, c[i].nr_set);
	}
	free(c);
}

/* @session NULL: only to be shown. */
static bool read_candidates(const struct options *options, const struct session *session,
			    struct candidate *c)
{
	/* All variants first: a word that is none should not have to wait for fio. */
	for (size_t i = 0; i < options->nr_variants; i++) {
		common_settings(options, !session, &c[i]);
		if (!parse_variant(options->variants[i], &c[i]))
			return false;
	}
	for (size_t i = 0; i < options->nr_variants; i++)
		if (!swap_candidate(options, session, i, &c[i]))
			return false;
	return true;
}

/* ---- like with like ------------------------------------------------------------------------ */

static bool runs_buffered(const struct candidate *c, size_t job)
{
	switch (variant_path(&c->variant)) {
	case VARIANT_DIRECT:
		return false;
	case VARIANT_BUFFERED:
		return true;
	case VARIANT_BOTH:
		break;
	}
	return c->swap.jobs[job].buffered;
}

/* The page cache on one side and the device on the other are not two policies. */
static char *unlike(const struct candidate *c, size_t nr)
{
	for (size_t i = 1; i < nr; i++) {
		for (size_t j = 0; j < c[0].swap.nr_jobs && j < c[i].swap.nr_jobs; j++) {
			bool swapped = c[0].swap.jobs[j].swapped || c[i].swap.jobs[j].swapped;
			bool first = runs_buffered(&c[0], j);

			if (!swapped || first == runs_buffered(&c[i], j))
				continue;
			const struct candidate *other = c[0].variant.engine ? &c[0] : &c[i];

			return format(
				"job '%s': %s goes through the page cache, %s does not: compare "
				"with %s:none",
				c[0].swap.jobs[j].name, c[first ? 0 : i].variant.text,
				c[first ? i : 0].variant.text, other->variant.engine);
		}
	}
	return NULL;
}

static bool check_like(const struct options *options, const struct candidate *c,
		       struct session *session)
{
	char *reason = unlike(c, options->nr_variants);

	if (!reason)
		return true;
	if (options->force)
		text_list_add(&session->comparison.warnings, "not comparable: %s", reason);
	else
		message("%s, or say --force", reason);
	free(reason);
	return options->force;
}

/* The row that a variant stands for; NULL: none, or native. */
static const struct kp_variant *row_of(const struct variant *v)
{
	const struct kp_variant *row = NULL;
	char why[512];

	if (v->engine)
		kp_policy_find(variant_policy(v->engine), variant_setting(v, "policy"),
			       variant_setting(v, "kernel"), &row, why, sizeof(why));
	return row;
}

static bool names_row(const char *key)
{
	return !strcmp(key, "policy") || !strcmp(key, "kernel");
}

/* Does @b set all that @a sets, but for what names the row? */
static bool has_settings(const struct variant *b, const struct variant *a)
{
	for (size_t i = 0; i < a->nr_settings; i++) {
		const char *other = variant_setting(b, a->settings[i].key);

		if (!names_row(a->settings[i].key) && strcmp(a->settings[i].key, "counters") &&
		    (!other || strcmp(other, a->settings[i].value)))
			return false;
	}
	return true;
}

/* diolock takes the rw_semaphore of kernel=: two kernels of one row may still differ. */
static bool same_kernel(const struct variant *a, const struct variant *b)
{
	const char *x = variant_setting(a, "kernel"), *y = variant_setting(b, "kernel");

	return strcmp(a->engine, "diolock") || (x && y ? !strcmp(x, y) : x == y);
}

/* Two words for the same thing: not the same word twice, which is a way to see the noise. */
static void warn_one_row(const struct candidate *c, size_t nr, struct session *session)
{
	for (size_t i = 1; i < nr; i++) {
		for (size_t j = 0; j < i; j++) {
			const struct variant *a = &c[j].variant, *b = &c[i].variant;
			const struct kp_variant *row = row_of(a);

			if (row && row == row_of(b) && !strcmp(a->engine, b->engine) &&
			    strcmp(a->text, b->text) && has_settings(a, b) && has_settings(b, a) &&
			    same_kernel(a, b))
				text_list_add(
					&session->comparison.warnings,
					"%s and %s are one variant, %s:%s: they do not differ",
					a->text, b->text, a->engine, row->name);
		}
	}
}

/* ---- filling the session ------------------------------------------------------------------- */

static void take_lines(struct text_list *to, char *const *line, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!text_list_has(to, line[i]))
			text_list_add(to, "%s", line[i]);
}

/* Storage engines are what a comparison is about; a job file of others is taken as it is. */
static void take_jobs(struct session *session, const struct swap_result *swap)
{
	bool any_storage = false;

	for (size_t i = 0; i < swap->nr_jobs; i++)
		any_storage = any_storage || swap->jobs[i].storage;
	session->comparison.jobs = xcalloc(swap->nr_jobs, sizeof(*session->comparison.jobs));
	session->comparison.nr_jobs = swap->nr_jobs;
	for (size_t i = 0; i < swap->nr_jobs; i++) {
		const struct swap_job *job = &swap->jobs[i];

		session->comparison.jobs[i] = (struct comparison_job){
			.name = xstrdup(job->name),
			.group = job->group,
			.counted = (job->storage || !any_storage) && !job->unmeasured,
			.phases = job->phases,
			.after = job->after ? xstrdup(job->after) : NULL,
			.fixed_work = job->fixed_work,
			.fixed_ratio = job->ratio_one ? xstrdup(job->ratio_one) : NULL,
			.seconds = job->us / 1e6,
		};
	}
}

static void take_variant(struct comparison_variant *to, const struct candidate *c)
{
	const char *policy = variant_setting(&c->variant, "policy");

	*to = (struct comparison_variant){
		.text = xstrdup(c->variant.text),
		.engine = c->variant.engine ? xstrdup(c->variant.engine) : NULL,
		.off = policy && !strcmp(policy, "none"),
	};
	for (size_t i = 0; i < c->swap.nr_args; i++)
		text_list_add(&to->args, "%s", c->swap.args[i]);
}

static int write_text(FILE *to, const void *text)
{
	return fputs(text, to) == EOF ? -EIO : 0;
}

static bool write_job(const struct session *session, size_t number, const char *text)
{
	char *path = session_job_path(session, number);
	int ret = write_whole(path, write_text, text);

	if (ret)
		message("%s: %s", path, strerror(-ret));
	free(path);
	return !ret;
}

static bool fill_session(const struct options *options, struct session *session,
			 const struct candidate *c)
{
	bool done = true;

	session->comparison.nr_variants = options->nr_variants;
	session->comparison.variants =
		xcalloc(session->comparison.nr_variants, sizeof(*session->comparison.variants));
	for (size_t i = 0; done && i < session->comparison.nr_variants; i++) {
		take_variant(&session->comparison.variants[i], &c[i]);
		take_lines(&session->comparison.warnings, c[i].swap.warnings,
			   c[i].swap.nr_warnings);
		take_lines(&session->files, c[i].swap.files, c[i].swap.nr_files);
		for (size_t k = 0; k < c[i].swap.nr_written; k++)
			written_add(&session->written, c[i].swap.written[k]);
		session->written.unknown |= c[i].swap.writes_unknown;
		done = write_job(session, i, c[i].swap.text);
	}
	warn_one_row(c, session->comparison.nr_variants, session);
	take_jobs(session, &c[0].swap);
	if (done)
		session_make_utf8(session);
	return done;
}

static char *title_of(const struct options *options)
{
	if (options->input.path)
		return xstrdup(options->input.path);
	char *title = xstrdup("fio");

	for (char *const *arg = options->input.argv + 1; *arg; arg++) {
		char *longer = format("%s %s", title, *arg);

		free(title);
		title = longer;
	}
	return title;
}

static bool write_environment(const struct session *session)
{
	json_t *environment = environment_collect(session);
	char *error = NULL;
	int ret = session_write_json(session, "environment.json", environment, &error);

	json_decref(environment);
	return !ret || complain(error);
}

/* fio as the child will find it, whatever directory the session is resumed from. */
static bool find_fio(const struct options *options, struct session *session)
{
	char *error = NULL;
	bool named = strchr(options->fio, '/') != NULL;

	session->fio = named ? realpath(options->fio, NULL) : xstrdup(options->fio);
	if (!session->fio)
		session->fio = xstrdup(options->fio);
	return !fio_check(session->fio, &session->comparison.fio_version, &error) ||
	       complain(error);
}

static bool start_session(const struct options *options, const char *dir, struct session *session)
{
	char *error = NULL;

	*session = (struct session){
		.comparison = {
			.title = title_of(options),
			.max_rounds = options->rounds ? options->rounds : DEFAULT_ROUNDS,
			.precision = options->precision > 0 ? options->precision
							    : DEFAULT_PRECISION,
		},
		.cwd = getcwd(NULL, 0),
		.engine_dir = realpath(options->engine_dir, NULL),
		.time = options->time,
		.timeout = options->timeout,
		.keep_going = options->keep_going,
		.destructive = options->destructive,
	};
	if (!session->cwd) {
		message("current directory: %s", strerror(errno));
		return false;
	}
	if (!find_fio(options, session))
		return false;
	if (session_create(session, dir, &error))
		return complain(error);
	char *logs = format("%s/logs", session->dir);

	mkdir(logs, 0777);
	free(logs);
	return true;
}

bool compare_prepare(const struct options *options, const char *dir, struct session *session)
{
	struct candidate *c = xcalloc(options->nr_variants, sizeof(*c));
	char *error = NULL;
	bool done = start_session(options, dir, session) && read_candidates(options, session, c) &&
		    check_like(options, c, session) && fill_session(options, session, c) &&
		    write_environment(session);

	if (done && session_save(session, &error))
		done = complain(error);
	free_candidates(c, options->nr_variants);
	if (!done)
		session_close(session);
	return done;
}

bool compare_show(const struct options *options)
{
	struct candidate *c = xcalloc(options->nr_variants, sizeof(*c));
	bool done = read_candidates(options, NULL, c);

	for (size_t i = 0; done && i < options->nr_variants; i++) {
		for (size_t j = 0; j < c[i].swap.nr_warnings; j++)
			message("%s: %s", c[i].variant.text, c[i].swap.warnings[j]);
		int ret = swap_show(stdout, &options->input, &c[i].swap);

		if (!ret && fflush(stdout))
			ret = -errno;
		if (ret) {
			message("cannot show the difference (by diff): %s", strerror(-ret));
			done = false;
		}
	}
	free_candidates(c, options->nr_variants);
	return done;
}
