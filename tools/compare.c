// SPDX-License-Identifier: GPL-2.0-only
/* kpolicy compare and kpolicy report. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "compare.h"
#include "run/run.h"
#include "print/print.h"
#include "util/units.h"

/* ---- running ------------------------------------------------------------------------------- */

/* From what the jobs say, before anything ran: groups one after the other. */
static double told_seconds(const struct session *session)
{
	double sum = 0, longest = 0;
	unsigned int group = 0;

	for (size_t i = 0; i < session->comparison.nr_jobs; i++) {
		const struct comparison_job *job = &session->comparison.jobs[i];

		if (!(job->seconds > 0))
			return 0;
		if (job->group != group) {
			sum += longest;
			longest = 0;
			group = job->group;
		}
		longest = fmax(longest, job->seconds);
	}
	return sum + longest;
}

static void say_estimate(const struct session *session)
{
	double run = told_seconds(session);
	unsigned int slots = comparison_slots(&session->comparison);

	fprintf(stderr, "%u to %u rounds of %u runs", JUDGE_MIN_ROUNDS,
		session->comparison.max_rounds, slots);
	if (!(run > 0)) {
		fputs("; how long is known after the warm-up\n", stderr);
		return;
	}
	double warm_up = run * session->comparison.nr_variants;
	double most = run * slots * session->comparison.max_rounds;

	if (session->time > 0)
		most = fmin(most, session->time);
	char *span =
		format_span(warm_up + fmin(run * slots * JUDGE_MIN_ROUNDS, most), warm_up + most);

	fprintf(stderr, ", as long as the job says: %s\n", span);
	free(span);
}

enum rounds_end compare_run(const struct options *options, struct session *session,
			    struct analysis *analysis)
{
	char *error = NULL;

	analysis_init(analysis, &session->comparison);
	if (options->resume)
		session_load_rounds(session, analysis);
	if (!options->quiet)
		say_estimate(session);
	enum rounds_end end = rounds_run(session, analysis, options->quiet);

	analysis_finish(analysis);
	findings_add(analysis);
	json_t *result = report_json(analysis);

	if (session_write_json(session, "result.json", result, &error)) {
		complain(error);
		end = ROUNDS_FAILED;
	}
	json_decref(result);
	return end;
}

static bool is_slower(const struct options *options, const struct analysis *analysis)
{
	for (size_t i = 0; i < analysis->nr_deciding; i++) {
		const struct compared *c = &analysis->deciding[i];
		double best = quantity_kinds[c->figure->quantity].more_is_faster
				      ? c->estimate.high
				      : 1 / c->estimate.low;

		if (c->judged && c->estimate.rounds >= JUDGE_MIN_ROUNDS &&
		    best < 1 - options->fail_if_slower)
			return true;
	}
	return false;
}

static bool is_undecided(const struct analysis *analysis)
{
	for (size_t i = 0; i < analysis->nr_deciding; i++)
		if (analysis->deciding[i].verdict == VERDICT_UNDECIDED)
			return true;
	return !analysis->nr_deciding;
}

int compare_exit_code(const struct options *options, const struct analysis *analysis,
		      enum rounds_end end)
{
	if (end == ROUNDS_FAILED || end == ROUNDS_REFUSED)
		return EXIT_CANNOT;
	if (end == ROUNDS_INTERRUPTED)
		return 128 + spawn_interrupted();
	if (options->fail_if_slower > 0 && is_slower(options, analysis))
		return EXIT_SLOWER;
	if (options->fail_if_undecided && is_undecided(analysis))
		return EXIT_UNDECIDED;
	return EXIT_DONE;
}

void compare_say_resume(const struct session *session, enum rounds_end end)
{
	if ((end == ROUNDS_INTERRUPTED || end == ROUNDS_FAILED) && !session->temporary)
		fprintf(stderr, "to go on: kpolicy compare --resume %s\n", session->dir);
}

/* ---- the command --------------------------------------------------------------------------- */

static bool print_all(const struct options *options, const struct session *session,
		      const struct analysis *analysis)
{
	bool done = true;

	if (report_print(analysis, options->format, stdout)) {
		message("cannot write the report: %s", strerror(errno));
		done = false;
	}
	if (options->plot)
		done = plot_write(analysis, options->plot) && done;
	if (options->html)
		done = html_write(analysis, session, options->html) && done;
	return done;
}

/* The same fio, engines, machine and devices, or the rounds do not belong together. */
static char *changed(const struct session *session)
{
	char *path = format("%s/environment.json", session->dir);
	json_t *before = json_load_file(path, 0, NULL), *now = environment_collect(session);
	char *difference =
		before ? environment_difference(before, now) : format("%s cannot be read", path);
	char *line = difference ? format("%s: begin a new comparison", difference) : NULL;

	free(difference);
	free(path);
	json_decref(before);
	json_decref(now);
	return line;
}

/* The error of a result that was printed is spent, whatever --rounds says now. */
static char *spent(const struct session *session, unsigned int rounds)
{
	const struct judge_looks *looks = &session->comparison.looks;
	unsigned int last = looks->nr ? looks->look[looks->nr - 1].rounds : 0;

	if (!rounds || !last)
		return NULL;
	if (rounds < last)
		return format("--rounds %u: %u rounds have been judged already", rounds, last);
	if (rounds > last && !(judge_error(looks, rounds, rounds) > 0))
		return format("--rounds %u: the result after %u rounds was the last one of an "
			      "interval of 95 %%: begin a new comparison",
			      rounds, last);
	return NULL;
}

/* What kpolicy itself puts on fio's command line; of the rest much runs commands or writes files. */
static bool is_known_arg(const char *arg)
{
	static const char *const known[] = { "--readonly", "--warnings-fatal",
					     "--alloc-size=", "--aux-path=" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strncmp(arg, known[i], strlen(known[i])))
			return true;
	return false;
}

/*
 * A directory may come from anybody. Its job files are looked at as those of a new comparison are;
 * returns why they must not be run. What they write now is what is checked before each round.
 */
static char *check_job(const struct options *options, struct session *session, size_t number)
{
	char *path = session_job_path(session, number), *error = NULL;
	const struct comparison_variant *v = &session->comparison.variants[number];
	const struct swap_input input = { .path = path };
	const struct swap_options swap = { .fio = session->fio,
					   .engine_dir = options->engine_dir,
					   .destructive = options->destructive,
					   .allow_exec = options->allow_exec };
	struct variant native;
	struct swap_result result;

	for (size_t i = 0; i < v->args.nr && !error; i++)
		if (!is_known_arg(v->args.item[i]))
			error = format("%s/session.json: kpolicy gives fio no option '%s'",
				       session->dir, v->args.item[i]);
	if (!error && !variant_parse("native", &native, &error)) {
		if (!swap_job(&input, &native, &swap, &result, &error)) {
			for (size_t i = 0; i < result.nr_written; i++)
				written_add(&session->written, result.written[i]);
			session->written.unknown |= result.writes_unknown;
			swap_result_free(&result);
		}
		variant_free(&native);
	}
	free(path);
	return error;
}

/* The programs that the directory names: fio, and what its job files run. */
static char *cannot_trust(const struct options *options, struct session *session)
{
	char *fio = strchr(options->fio, '/') ? realpath(options->fio, NULL) : NULL, *error = NULL;

	if (!options->allow_exec && strcmp(session->fio, fio ? fio : options->fio))
		error = format("%s/session.json names the fio %s; if it may be run, say "
			       "--allow-exec",
			       session->dir, session->fio);
	for (size_t i = 0; i < session->comparison.nr_variants && !error; i++)
		error = check_job(options, session, i);
	free(fio);
	return error;
}

static char *cannot_resume(const struct options *options, struct session *session)
{
	char *error = NULL, *version = NULL;

	if (chdir(session->cwd))
		return format("%s: %s: the comparison was started there", session->cwd,
			      strerror(errno));
	error = cannot_trust(options, session);
	if (error)
		return error;
	if (fio_check(session->fio, &version, &error))
		return error;
	if (strcmp(version, session->comparison.fio_version))
		error = format("%s is %s now, the comparison was begun with %s", session->fio,
			       version, session->comparison.fio_version);
	free(version);
	if (!error)
		error = changed(session);
	return error ? error : spent(session, options->rounds);
}

/* What was not said again is as it was. */
static void take_options(const struct options *options, struct session *session)
{
	if (options->rounds)
		session->comparison.max_rounds = options->rounds;
	if (options->precision > 0)
		session->comparison.precision = options->precision;
	if (options->time > 0)
		session->time = options->time;
	if (options->timeout > 0)
		session->timeout = options->timeout;
	session->keep_going = session->keep_going || options->keep_going;
	session->destructive = options->destructive;
}

static bool resume_session(const struct options *options, struct session *session)
{
	char *error = NULL;

	if (session_load(session, options->resume, &error))
		return complain(error);
	error = cannot_resume(options, session);
	if (!error) {
		take_options(options, session);
		session_save(session, &error);
	}
	if (!error)
		return true;
	session_close(session);
	return complain(error);
}

static bool check_words(const struct options *options)
{
	if (!options->input.path && !options->input.argv) {
		message("compare what? kpolicy compare JOB.fio VARIANT VARIANT");
		return false;
	}
	if (options->nr_variants < 2 && !options->show) {
		message("compare needs two variants or more: 'kpolicy list' names them, 'native' "
			"is the file as it is");
		return false;
	}
	if (!options->nr_variants) {
		message("--show needs a variant: 'kpolicy list' names them");
		return false;
	}
	return true;
}

static int run_and_print(const struct options *options, struct session *session)
{
	struct analysis analysis;
	enum rounds_end end = compare_run(options, session, &analysis);
	int code = compare_exit_code(options, &analysis, end);

	if (analysis.rounds && !print_all(options, session, &analysis))
		code = EXIT_CANNOT;
	if (!analysis.rounds && end == ROUNDS_INTERRUPTED)
		message("stopped before the first round was complete");
	compare_say_resume(session, end);
	analysis_free(&analysis);
	session_close(session);
	return code;
}

static int compare_new(const struct options *options)
{
	struct session session;

	if (!check_words(options))
		return EXIT_CANNOT;
	if (options->show)
		return compare_show(options) ? EXIT_DONE : EXIT_CANNOT;
	if (!compare_prepare(options, options->output, &session))
		return EXIT_CANNOT;
	return run_and_print(options, &session);
}

static int compare_resumed(const struct options *options)
{
	struct session session;

	return resume_session(options, &session) ? run_and_print(options, &session) : EXIT_CANNOT;
}

int cmd_compare(int argc, char **argv)
{
	struct options options;
	int code = EXIT_CANNOT;

	if (options_read(&options, argc, argv, FOR_COMPARE))
		code = options.resume ? compare_resumed(&options) : compare_new(&options);
	options_free(&options);
	return code;
}

int cmd_report(int argc, char **argv)
{
	struct options options;
	struct session session;
	struct analysis analysis;
	char *error = NULL;
	int code = EXIT_CANNOT;

	if (!options_read(&options, argc, argv, FOR_REPORT)) {
		;
	} else if (options.nr_variants != 1) {
		message("report what? kpolicy report DIR, a directory written with --output");
	} else if (!session_load(&session, options.variants[0], &error)) {
		analysis_init(&analysis, &session.comparison);
		session_load_rounds(&session, &analysis);
		analysis_finish(&analysis);
		findings_add(&analysis);
		if (!analysis.rounds)
			message("%s: no round is complete", session.dir);
		else if (print_all(&options, &session, &analysis))
			code = compare_exit_code(&options, &analysis, ROUNDS_SPENT);
		analysis_free(&analysis);
		session_close(&session);
	} else {
		complain(error);
	}
	options_free(&options);
	return code;
}
