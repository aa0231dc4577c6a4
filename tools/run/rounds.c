// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rounds.h"
#include "fio_run.h"
#include "util/units.h"

#define TIMEOUT_FACTOR 10.0 /* a run that takes this many times the longest one hangs */
#define TIMEOUT_LEAST  60.0

struct progress {
	bool quiet;
	bool terminal;
	double started; /* of the run that is going on */
	double per_run; /* seconds, as measured so far; 0: unknown */
	double run_sum; /* of all runs so far */
	unsigned int runs;
	unsigned int slot; /* done in this round */
	unsigned int round;
	unsigned int max_rounds;
	unsigned int slots;
	const char *variant;
};

struct loop {
	struct session *session;
	struct analysis *analysis;
	struct progress progress;
	struct run_result *runs; /* of this round, by slot */
	json_t **counters;
	size_t nr_jobs; /* that fio reports; 0: not known yet */
	double longest; /* run so far, in seconds */
	double started; /* of everything */
};

/* ---- progress ------------------------------------------------------------------------------ */

/* Seconds until the next look at which it may end, for this is what can be promised. */
static double left_until_look(const struct progress *p, double now)
{
	unsigned int look = p->round > JUDGE_MIN_ROUNDS ? p->round : JUDGE_MIN_ROUNDS;

	while (look < p->max_rounds && !judge_is_look(look, p->max_rounds))
		look++;
	double runs = (double)(look - p->round) * p->slots + p->slots - p->slot;

	return fmax(runs * p->per_run - (now - p->started), 0);
}

/* One line, cut to the width of the terminal: a line that wraps could not be wiped out. */
static void put_progress(const char *text)
{
	struct winsize size = { 0 };
	int width = 80;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		width = size.ws_col;
	fprintf(stderr, "\r\033[K%.*s", width - 1, text);
}

static void show_progress(void *arg)
{
	const struct progress *p = arg;

	if (p->quiet || !p->terminal)
		return;
	char *left = format_seconds(left_until_look(p, spawn_clock()));
	char *line =
		p->round ? format("round %u of at most %u, run %u of %u, next look in %s: %s",
				  p->round, p->max_rounds, p->slot + 1, p->slots, left, p->variant)
			 : format("warm-up: %s", p->variant);

	put_progress(line);
	free(line);
	free(left);
}

static void end_progress(const struct progress *p)
{
	if (!p->quiet && p->terminal)
		fputs("\r\033[K", stderr);
}

/* The plain form: a line per round. */
static void show_round(const struct progress *p, const struct analysis *a)
{
	if (p->quiet || p->terminal)
		return;
	bool look = a->rounds >= JUDGE_MIN_ROUNDS &&
		    judge_is_look(a->rounds, a->comparison->max_rounds);
	double width = look ? analysis_width(a) : INFINITY;

	if (isfinite(width))
		fprintf(stderr, "round %u: interval %.1f %% wide, aim %.1f %%\n", a->rounds,
			width * 100, a->comparison->precision * 100);
	else
		fprintf(stderr, "round %u\n", a->rounds);
}

/* ---- between runs -------------------------------------------------------------------------- */

/* Every run finds the files on the device and nothing of them in the page cache. */
static void settle_files(const struct session *session)
{
	for (size_t i = 0; i < session->files.nr; i++) {
		int fd = open(session->files.item[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);

		if (fd < 0)
			continue; /* fio is about to make it */
		fdatasync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

/* ---- one run ------------------------------------------------------------------------------- */

/* A directory that will be gone is no place to send anybody to: its name is taken out. */
static char *without_directory(const struct session *session, const char *reason)
{
	char *text = xstrdup(reason), *at = text;
	char *dir = format("%s/", session->dir);

	while (session->temporary && (at = strstr(at, dir)))
		memmove(at, at + strlen(dir), strlen(at + strlen(dir)) + 1);
	free(dir);
	return text;
}

static void note_failure(struct loop *loop, unsigned int round, const char *variant,
			 const char *whole_reason)
{
	char *reason = without_directory(loop->session, whole_reason);
	char *error = NULL;

	if (round)
		text_list_add(&loop->session->comparison.failures, "round %u, %s: %s", round,
			      variant, reason);
	else
		text_list_add(&loop->session->comparison.failures, "warm-up, %s: %s", variant,
			      reason);
	if (session_save(loop->session, &error))
		message("%s", error);
	free(error);
	end_progress(&loop->progress);
	message("%s",
		loop->session->comparison.failures.item[loop->session->comparison.failures.nr - 1]);
	free(reason);
}

static double time_limit(const struct loop *loop)
{
	if (loop->session->timeout > 0)
		return loop->session->timeout;
	return loop->longest > 0 ? fmax(loop->longest * TIMEOUT_FACTOR, TIMEOUT_LEAST) : 0;
}

/* Files the counters under their run. */
static json_t *take_counters(const struct session *session, unsigned int round, unsigned int slot)
{
	char *written =
		session_counters_path(session, comparison_slot_variant(&session->comparison, slot));
	char *kept = session_run_path(session, round, slot, "counters");
	json_t *counters = NULL;

	if (!rename(written, kept))
		counters = session_load_counters(kept);
	free(written);
	free(kept);
	return counters;
}

/* All runs must report the same jobs: fio drops one whose options it does not like. */
static char *check_jobs(struct loop *loop, const struct run_result *run, const char *output)
{
	bool counted = false;

	for (size_t i = 0; i < run->nr_jobs; i++)
		counted = counted || run->jobs[i].counted;
	if (!counted)
		return xstrdup("fio reports no job of its own for what is compared: leave "
			       "group_reporting and stats=0, or give the other jobs a group "
			       "(new_group)");
	if (!loop->nr_jobs)
		loop->nr_jobs = run->nr_jobs;
	if (run->nr_jobs == loop->nr_jobs)
		return NULL;
	char *words = fio_words(output);
	char *reason = format("fio ran %zu jobs, with %s it ran %zu%s%s", run->nr_jobs,
			      loop->session->comparison.variants[0].text, loop->nr_jobs,
			      words ? ": " : "", words ? words : "");

	free(words);
	return reason;
}

static int run_slot(struct loop *loop, unsigned int round, unsigned int slot)
{
	const struct session *session = loop->session;
	unsigned int number = comparison_slot_variant(&session->comparison, slot);
	const struct comparison_variant *variant = &session->comparison.variants[number];
	struct progress *p = &loop->progress;
	struct spawn_watch watch = { time_limit(loop), show_progress, p };
	char *job = session_job_path(session, number);
	char *output = session_run_path(session, round, slot, "json");
	char *cpu = session_run_path(session, round, slot, "cpu");
	char *stale = session_counters_path(session, number);
	const struct fio_run fio = { .fio = session->fio,
				     .args = &variant->args,
				     .job = job,
				     .output = output,
				     .cpu = cpu,
				     .watch = &watch,
				     .comparison = &session->comparison };
	char *reason = NULL;
	double seconds;

	p->round = round;
	p->variant = variant->text;
	p->started = spawn_clock();
	show_progress(p);
	unlink(stale);
	settle_files(session);
	int ret = fio_run(&fio, &loop->runs[slot], &seconds, &reason);

	if (!ret) {
		loop->counters[slot] = take_counters(session, round, slot);
		reason = check_jobs(loop, &loop->runs[slot], output);
		if (reason) {
			ret = -EINVAL;
			unlink(output);
		}
		loop->longest = fmax(loop->longest, seconds);
		p->run_sum += seconds;
		p->per_run = p->run_sum / ++p->runs;
	}
	if (reason)
		note_failure(loop, round, variant->text, reason);
	free(reason);
	free(stale);
	free(cpu);
	free(output);
	free(job);
	return ret;
}

static void forget_round(struct loop *loop)
{
	session_free_round(loop->session, loop->runs, loop->counters);
	for (unsigned int slot = 0; slot < comparison_slots(&loop->session->comparison); slot++)
		loop->counters[slot] = NULL;
}

/* Looked at before each round, for a round may take long and a device be mounted meanwhile. */
static int check_written(const struct loop *loop)
{
	char *why = written_refused(&loop->session->written, loop->session->destructive);

	if (!why)
		return 0;
	end_progress(&loop->progress);
	complain(why);
	return -EBUSY;
}

/* Each variant once, so that files are laid out and caches of the device are in use. */
static int warm_up(struct loop *loop)
{
	int ret = check_written(loop);

	for (unsigned int v = 0; !ret && v < loop->session->comparison.nr_variants; v++)
		ret = run_slot(loop, 0, v);
	forget_round(loop);
	return ret;
}

/* Turned round from one round to the next, so that what drifts with time cancels out. */
static int run_round(struct loop *loop, unsigned int round)
{
	unsigned int slots = comparison_slots(&loop->session->comparison);
	int ret = check_written(loop);

	for (unsigned int i = 0; !ret && i < slots; i++) {
		loop->progress.slot = i;
		ret = run_slot(loop, round, round % 2 ? i : slots - 1 - i);
	}
	if (!ret)
		analysis_add_round(loop->analysis, loop->runs, loop->counters);
	forget_round(loop);
	return ret;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void show_estimate(const struct loop *loop)
{
	const struct progress *p = &loop->progress;
	unsigned int done = loop->analysis->rounds;
	unsigned int least = done < JUDGE_MIN_ROUNDS ? JUDGE_MIN_ROUNDS - done : 1;
	double round = p->per_run * p->slots;

	if (p->quiet)
		return;
	char *span = format_span(round * least, round * (p->max_rounds - done));

	end_progress(p);
	fprintf(stderr, "a run takes %.1f s: %s\n", p->per_run, span);
	free(span);
}

static bool time_is_up(const struct loop *loop)
{
	double round = loop->progress.per_run * loop->progress.slots;

	return loop->session->time > 0 &&
	       spawn_clock() - loop->started + round > loop->session->time;
}

/* The number of the next round: failed ones leave gaps. */
static unsigned int next_round(const struct session *session)
{
	unsigned int round = session->comparison.max_rounds + session->comparison.failures.nr;
	bool there = false;

	for (; round && !there; round -= !there) {
		char *path = session_run_path(session, round, 0, "json");
		char *other = session_run_path(session, round,
					       comparison_slots(&session->comparison) - 1, "json");

		there = !access(path, F_OK) && !access(other, F_OK);
		free(path);
		free(other);
	}
	return round + 1;
}

/* The time was up before the first round. */
static enum rounds_end nothing_measured(const struct loop *loop)
{
	const struct progress *p = &loop->progress;
	double needed = (spawn_clock() - loop->started) + p->per_run * p->slots * JUDGE_MIN_ROUNDS;

	end_progress(p);
	message("--time %gs is over before one round of %u runs of %.1f s: give --time %.0fs or "
		"more, or make runs shorter (--runtime, --size)",
		loop->session->time, p->slots, p->per_run, ceil(needed));
	return ROUNDS_FAILED;
}

/* From here on the error of this look is spent, also for whoever resumes. */
static void take_look(struct session *session, unsigned int rounds)
{
	char *error = NULL;

	if (judge_take_look(&session->comparison.looks, rounds, session->comparison.max_rounds) &&
	    session_save(session, &error))
		complain(error);
}

static bool is_precise(struct loop *loop)
{
	struct session *session = loop->session;
	unsigned int rounds = loop->analysis->rounds;

	if (rounds < JUDGE_MIN_ROUNDS || !judge_is_look(rounds, session->comparison.max_rounds))
		return false;
	take_look(session, rounds);
	return judge_may_stop(rounds, session->comparison.max_rounds,
			      analysis_width(loop->analysis), session->comparison.precision);
}

static enum rounds_end run_rounds(struct loop *loop)
{
	struct session *session = loop->session;
	struct analysis *analysis = loop->analysis;
	unsigned int round = next_round(session);
	size_t failures = session->comparison.failures.nr;

	while (analysis->rounds < session->comparison.max_rounds && !time_is_up(loop)) {
		if (is_precise(loop))
			return ROUNDS_PRECISE;
		int ret = run_round(loop, round++);

		if (ret == -EINTR || spawn_interrupted())
			return ROUNDS_INTERRUPTED;
		if (ret == -EBUSY)
			return ROUNDS_REFUSED;
		if (ret && (!session->keep_going || session->comparison.failures.nr - failures >
							    session->comparison.max_rounds))
			return ROUNDS_FAILED;
		if (!ret)
			show_round(&loop->progress, analysis);
	}
	if (!analysis->rounds)
		return nothing_measured(loop);
	if (analysis->rounds >= JUDGE_MIN_ROUNDS)
		take_look(session, analysis->rounds);
	return analysis_width(analysis) <= session->comparison.precision ? ROUNDS_PRECISE
									 : ROUNDS_SPENT;
}

enum rounds_end rounds_run(struct session *session, struct analysis *analysis, bool quiet)
{
	unsigned int slots = comparison_slots(&session->comparison);
	struct loop loop = {
		.session = session,
		.analysis = analysis,
		.progress = { .quiet = quiet,
			      .terminal = isatty(STDERR_FILENO),
			      .slots = slots,
			      .max_rounds = session->comparison.max_rounds },
		.runs = xcalloc(slots, sizeof(*loop.runs)),
		.counters = xcalloc(slots, sizeof(*loop.counters)),
		.started = spawn_clock(),
	};
	session->fresh = false; /* what fio says is worth keeping */
	int ret = warm_up(&loop);
	enum rounds_end end = ret == -EINTR   ? ROUNDS_INTERRUPTED
			      : ret == -EBUSY ? ROUNDS_REFUSED
					      : ROUNDS_FAILED;

	if (!ret) {
		show_estimate(&loop);
		end = run_rounds(&loop);
	}
	/* What is going to be printed is a look, wherever it ended. */
	if (analysis->rounds >= JUDGE_MIN_ROUNDS)
		take_look(session, analysis->rounds);
	end_progress(&loop.progress);
	free(loop.runs);
	free(loop.counters);
	return end;
}
