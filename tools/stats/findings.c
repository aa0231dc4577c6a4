// SPDX-License-Identifier: GPL-2.0-only
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"

#define DEPTH_DIFFERS 1.25
#define SHORT_RUN     0.95 /* seconds; fio's 'one second' may be a few ms less */
#define WIDENED	      1.75 /* factor from which on it is worth a word */

static const char *variant_text(const struct analysis *a, unsigned int variant)
{
	return a->comparison->variants[variant].text;
}

/* ' in group 2 (seqwrite)', or nothing when there is one group. */
static char *in_group(const struct analysis *a, unsigned int group)
{
	if (a->nr_groups < 2)
		return xstrdup("");
	return format(" in group %u (%s)", group, analysis_group_name(a, group));
}

static void warn_fixed_ratio(struct analysis *a)
{
	for (size_t i = 0; i < a->comparison->nr_jobs; i++) {
		const struct comparison_job *job = &a->comparison->jobs[i];

		if (job->counted && job->fixed_ratio)
			text_list_add(
				&a->warnings,
				"job '%s' has %s: it holds the ratio near 1 whatever the policy "
				"does",
				job->name, job->fixed_ratio);
	}
}

static double mean_depth(const struct analysis *a, unsigned int group, unsigned int variant)
{
	double sum = 0;

	for (unsigned int round = 0; round < a->rounds; round++)
		sum += analysis_facts(a, round, variant)[group].depth;
	return sum / a->rounds;
}

static void warn_depth(struct analysis *a, unsigned int group)
{
	double control = mean_depth(a, group, 0);

	for (unsigned int v = 1; v < a->comparison->nr_variants; v++) {
		double depth = mean_depth(a, group, v);

		if (!(fmin(depth, control) > 0) ||
		    fmax(depth, control) < DEPTH_DIFFERS * fmin(depth, control))
			continue;
		char *where = in_group(a, group);

		text_list_add(&a->warnings,
			      "%s kept %.1f I/Os in flight, %s %.1f%s: the depth differs, not the "
			      "policy alone",
			      variant_text(a, 0), control, variant_text(a, v), depth, where);
		free(where);
	}
}

static void warn_short(struct analysis *a, unsigned int group)
{
	double least = INFINITY;

	for (unsigned int round = 0; round < a->rounds; round++)
		for (unsigned int slot = 0; slot < comparison_slots(a->comparison); slot++)
			least = fmin(least, analysis_facts(a, round, slot)[group].seconds);
	if (least > 0 && least < SHORT_RUN) {
		char *where = in_group(a, group);

		text_list_add(
			&a->warnings,
			"a run took %.3f s%s: start and end weigh in it; use --runtime or --size",
			least, where);
		free(where);
	}
}

/* I/Os that failed and after which the job went on, as continue_on_error asks. */
static void warn_errors(struct analysis *a, unsigned int group, unsigned int variant)
{
	uint64_t errors = 0;
	unsigned int runs = 0;
	int error = 0;

	for (unsigned int round = 0; round < a->rounds; round++) {
		for (unsigned int slot = 0; slot < comparison_slots(a->comparison); slot++) {
			const struct run_facts *facts = &analysis_facts(a, round, slot)[group];

			if (comparison_slot_variant(a->comparison, slot) != variant)
				continue;
			runs++;
			errors += facts->errors;
			error = facts->errors ? facts->error : error;
		}
	}
	if (!errors)
		return;
	char *where = in_group(a, group);

	text_list_add(&a->warnings, "%s: %llu I/Os failed in %u runs%s and the jobs went on: %s",
		      variant_text(a, variant), (unsigned long long)errors, runs, where,
		      strerror(error));
	free(where);
}

static void warn_noise(struct analysis *a, unsigned int group)
{
	double band = analysis_aa_band(a, group);

	if (band > JUDGE_AA_CAP) {
		char *where = in_group(a, group);

		text_list_add(
			&a->warnings,
			"equal runs differ by up to %.1f %%%s: a quieter machine, longer runs or "
			"--cpus help",
			band * 100, where);
		free(where);
	}
}

static void warn_dependence(struct analysis *a)
{
	for (size_t i = 0; i < a->nr_deciding; i++) {
		const struct compared *c = &a->deciding[i];

		if (c->judged && c->estimate.widening > WIDENED)
			text_list_add(&a->warnings,
				      "%s: rounds resemble the round before: the interval is %.1f "
				      "times wider for it",
				      variant_text(a, c->variant), c->estimate.widening);
	}
}

/* The interval leaves out 1 and yet two runs of the same thing differ as much. */
static void warn_inside_noise(struct analysis *a)
{
	for (size_t i = 0; i < a->nr_deciding; i++) {
		const struct compared *c = &a->deciding[i];

		bool differs = c->verdict == VERDICT_FASTER || c->verdict == VERDICT_SLOWER;

		if (c->judged && !differs && c->estimate.rounds >= JUDGE_MIN_ROUNDS &&
		    (c->estimate.low > 1 || c->estimate.high < 1))
			text_list_add(&a->warnings,
				      "%s: the interval leaves out 1, but runs of the same thing "
				      "differ as much",
				      variant_text(a, c->variant));
	}
}

static void warn_counters(struct analysis *a)
{
	for (size_t v = 0; v < a->comparison->nr_variants; v++)
		if (!a->comparison->variants[v].off && counters_stayed_zero(&a->counters[v]))
			text_list_add(
				&a->warnings,
				"%s: the counters of its policy stayed at zero: this job never "
				"met it",
				variant_text(a, v));
}

/* The control's counters are the base; a native control has none, then the first that has. */
static void explain(struct analysis *a)
{
	const struct counter_sums none = { 0 };
	const struct counter_sums *base = &a->counters[0];

	for (size_t v = 0; v < a->comparison->nr_variants; v++) {
		const struct counter_sums *sums = &a->counters[v];

		if (!sums->runs || (sums == base && v == 0))
			continue;
		char *line = explain_line(base->runs ? base : &none, sums);

		if (line)
			text_list_add(&a->explanations, "%s: %s", a->comparison->variants[v].text,
				      line);
		free(line);
		if (!base->runs)
			base = sums;
	}
}

void findings_add(struct analysis *a)
{
	if (!a->rounds)
		return;
	explain(a);
	for (size_t i = 0; i < a->comparison->warnings.nr; i++)
		text_list_add(&a->warnings, "%s", a->comparison->warnings.item[i]);
	warn_fixed_ratio(a);
	for (unsigned int group = 0; group < a->nr_groups; group++) {
		warn_depth(a, group);
		warn_short(a, group);
		warn_noise(a, group);
		for (unsigned int v = 0; v < a->comparison->nr_variants; v++)
			warn_errors(a, group, v);
	}
	warn_dependence(a);
	warn_inside_noise(a);
	warn_counters(a);
}
