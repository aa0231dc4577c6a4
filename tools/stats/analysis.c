// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"

#define SAME_WORK 1.01 /* bytes of two runs that did the same fixed work */

static unsigned int slots(const struct analysis *a)
{
	return comparison_slots(a->comparison);
}

static double *values_of(const struct analysis *a, unsigned int round, unsigned int slot)
{
	return a->values + ((size_t)round * slots(a) + slot) * a->nr_figures;
}

struct run_facts *analysis_facts(const struct analysis *a, unsigned int round, unsigned int slot)
{
	return a->facts + ((size_t)round * slots(a) + slot) * a->nr_groups;
}

void analysis_init(struct analysis *analysis, const struct comparison *comparison)
{
	*analysis = (struct analysis){ .comparison = comparison };
	analysis->counters = xcalloc(comparison->nr_variants, sizeof(*analysis->counters));
}

void analysis_free(struct analysis *analysis)
{
	size_t variants = analysis->comparison->nr_variants;

	for (size_t i = 0; i < analysis->nr_figures; i++)
		free((char *)analysis->figures[i].job);
	for (size_t i = 0; i < variants; i++)
		counters_free(&analysis->counters[i]);
	for (size_t i = 0; i < variants * analysis->nr_groups; i++)
		free(analysis->latency[i].bins);
	free(analysis->figures);
	free(analysis->values);
	free(analysis->facts);
	free(analysis->latency);
	free(analysis->counters);
	free(analysis->deciding);
	free(analysis->others);
	text_list_free(&analysis->explanations);
	text_list_free(&analysis->warnings);
	*analysis = (struct analysis){ 0 };
}

/* ---- which figures there are --------------------------------------------------------------- */

static void add_figure(struct analysis *a, const struct figure *of, enum direction direction,
		       enum quantity quantity)
{
	a->figures = xrealloc(a->figures, a->nr_figures + 1, sizeof(*a->figures));
	struct figure *figure = &a->figures[a->nr_figures++];

	*figure = *of;
	figure->job = of->job ? xstrdup(of->job) : NULL;
	figure->direction = direction;
	figure->quantity = quantity;
}

static bool has_io(const struct run_result *run, const struct figure *of, int direction)
{
	struct figure figure = *of;

	figure.direction = direction;
	figure.quantity = Q_IOPS;
	return !isnan(result_figure(run, &figure));
}

/* The figures of a job, or of all jobs of a group, in the order in which they are shown. */
static void add_figures(struct analysis *a, const struct run_result *run, const struct figure *of)
{
	add_figure(a, of, DIR_ALL, Q_TIME);
	add_figure(a, of, DIR_ALL, Q_IOPS);
	for (int d = 0; d < NR_DIRECTIONS; d++) {
		if (!has_io(run, of, d))
			continue;
		for (int q = Q_IOPS; q <= Q_P99_9; q++)
			add_figure(a, of, d, q);
	}
	if (!of->job && a->nr_groups == 1)
		add_figure(a, of, DIR_ALL, Q_CPU);
}

static void list_group(struct analysis *a, const struct run_result *run, unsigned int group)
{
	unsigned int jobs = 0;

	for (size_t i = 0; i < run->nr_jobs; i++)
		jobs += run->jobs[i].counted && run->jobs[i].group == group;
	if (!jobs)
		return;
	add_figures(a, run, &(struct figure){ .group = group });
	for (size_t i = 0; jobs > 1 && i < run->nr_jobs; i++) {
		const struct job_result *job = &run->jobs[i];
		const struct figure of = { .group = group, .job = job->name, .index = job->index };

		if (job->counted && job->group == group)
			add_figures(a, run, &of);
	}
}

static void list_figures(struct analysis *a, const struct run_result *run)
{
	for (size_t i = 0; i < run->nr_jobs; i++)
		if (run->jobs[i].group >= a->nr_groups)
			a->nr_groups = run->jobs[i].group + 1;
	for (unsigned int group = 0; group < a->nr_groups; group++)
		list_group(a, run, group);
	a->latency = xcalloc(a->comparison->nr_variants * a->nr_groups, sizeof(*a->latency));
}

/* ---- adding rounds ------------------------------------------------------------------------- */

static void add_run(struct analysis *a, unsigned int slot, const struct run_result *run)
{
	unsigned int variant = comparison_slot_variant(a->comparison, slot);
	double *values = values_of(a, a->rounds, slot);
	struct run_facts *facts = analysis_facts(a, a->rounds, slot);

	for (size_t i = 0; i < a->nr_figures; i++)
		values[i] = result_figure(run, &a->figures[i]);
	for (unsigned int group = 0; group < a->nr_groups; group++) {
		const struct figure all = { .group = group, .direction = DIR_ALL };
		struct histogram h = result_histogram(run, &all);

		facts[group] = (struct run_facts){ .depth = result_depth(run, group),
						   .seconds = result_seconds(run, group),
						   .bytes = result_bytes(run, group) };
		facts[group].errors = result_errors(run, group, &facts[group].error);
		histogram_merge(&a->latency[variant * a->nr_groups + group], &h);
		free(h.bins);
	}
}

void analysis_add_round(struct analysis *analysis, const struct run_result *runs,
			json_t *const *counters)
{
	if (!analysis->nr_figures)
		list_figures(analysis, &runs[0]);

	size_t nr = (size_t)(analysis->rounds + 1) * slots(analysis);

	analysis->values =
		xrealloc(analysis->values, nr * analysis->nr_figures, sizeof(*analysis->values));
	analysis->facts =
		xrealloc(analysis->facts, nr * analysis->nr_groups, sizeof(*analysis->facts));
	for (unsigned int slot = 0; slot < slots(analysis); slot++) {
		unsigned int variant = comparison_slot_variant(analysis->comparison, slot);

		add_run(analysis, slot, &runs[slot]);
		counters_add(&analysis->counters[variant], counters[slot]);
	}
	analysis->rounds++;
}

/* ---- judging ------------------------------------------------------------------------------- */

static void collect(const struct analysis *a, size_t figure, unsigned int variant,
		    struct judge *judge)
{
	unsigned int last = slots(a) - 1;

	for (unsigned int round = 0; round < a->rounds; round++)
		if (judge_add(judge, values_of(a, round, 0)[figure],
			      values_of(a, round, last)[figure],
			      values_of(a, round, variant)[figure]) == -ENOMEM) {
			message("out of memory");
			exit(EXIT_CANNOT);
		}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of a figure over all measured runs of a variant; NAN without one. */
static double median(const struct analysis *a, size_t figure, unsigned int variant)
{
	double *value = xcalloc((size_t)a->rounds * slots(a), sizeof(*value));
	size_t nr = 0;

	for (unsigned int round = 0; round < a->rounds; round++)
		for (unsigned int slot = 0; slot < slots(a); slot++) {
			double v = values_of(a, round, slot)[figure];

			if (comparison_slot_variant(a->comparison, slot) == variant && !isnan(v))
				value[nr++] = v;
		}
	qsort(value, nr, sizeof(*value), compare_doubles);
	double middle = nr ? (value[(nr - 1) / 2] + value[nr / 2]) / 2 : NAN;

	free(value);
	return middle;
}

/* All runs of all variants moved the same bytes: fio ran out of work, not of time. */
static bool same_work(const struct analysis *a, unsigned int group)
{
	double least = INFINITY, most = 0;

	for (unsigned int round = 0; round < a->rounds; round++)
		for (unsigned int slot = 0; slot < slots(a); slot++) {
			least = fmin(least, analysis_facts(a, round, slot)[group].bytes);
			most = fmax(most, analysis_facts(a, round, slot)[group].bytes);
		}
	return most > 0 && most <= least * SAME_WORK;
}

static bool fixed_work(const struct analysis *a, unsigned int group)
{
	bool fixed = false;

	for (size_t i = 0; i < a->comparison->nr_jobs; i++) {
		const struct comparison_job *job = &a->comparison->jobs[i];

		if (!job->counted || job->group != group)
			continue;
		if (!job->fixed_work)
			return false;
		fixed = true;
	}
	return fixed && same_work(a, group);
}

static bool find_total_figure(const struct analysis *a, unsigned int group, enum quantity quantity,
			      size_t *index)
{
	for (size_t i = 0; i < a->nr_figures; i++) {
		const struct figure *figure = &a->figures[i];

		if (figure->group == group && !figure->job && figure->direction == DIR_ALL &&
		    figure->quantity == quantity) {
			*index = i;
			return true;
		}
	}
	return false;
}

/* The deciding figure of a group: total IOPS, or time when the work is fixed. */
static bool deciding_figure(const struct analysis *a, unsigned int group, size_t *index)
{
	return find_total_figure(a, group, fixed_work(a, group) ? Q_TIME : Q_IOPS, index);
}

static void compare_figure(const struct analysis *a, size_t figure, unsigned int variant,
			   double error, struct compared *c)
{
	struct judge judge = { 0 };

	collect(a, figure, variant, &judge);
	*c = (struct compared){
		.figure = &a->figures[figure],
		.variant = variant,
		.control = median(a, figure, 0),
		.value = median(a, figure, variant),
	};
	c->judged = judge_estimate(&judge, error, &c->estimate);
	judge_free(&judge);
}

/* The error of an interval as of now. */
static double error_now(const struct analysis *a)
{
	return comparison_error(a->comparison, a->rounds);
}

static void judge_figure(const struct analysis *a, size_t figure, unsigned int variant,
			 struct compared *c)
{
	compare_figure(a, figure, variant, error_now(a), c);
	if (c->judged)
		c->verdict = judge_verdict(&c->estimate, a->comparison->precision,
					   quantity_kinds[c->figure->quantity].more_is_faster);
}

bool analysis_judge(const struct analysis *analysis, unsigned int group, enum quantity quantity,
		    unsigned int variant, struct compared *compared)
{
	size_t figure;

	if (!analysis->rounds || !find_total_figure(analysis, group, quantity, &figure))
		return false;
	judge_figure(analysis, figure, variant, compared);
	return true;
}

static size_t judge_deciding(const struct analysis *a, struct compared *out)
{
	size_t nr = 0, figure;

	for (unsigned int group = 0; group < a->nr_groups; group++) {
		if (!deciding_figure(a, group, &figure))
			continue;
		for (unsigned int v = 1; v < a->comparison->nr_variants; v++)
			judge_figure(a, figure, v, &out[nr++]);
	}
	return nr;
}

double analysis_width(const struct analysis *analysis)
{
	size_t room = (size_t)analysis->nr_groups * analysis->comparison->nr_variants;
	struct compared *all = xcalloc(room, sizeof(*all));
	size_t nr = judge_deciding(analysis, all);
	double width = nr ? 0 : INFINITY;

	for (size_t i = 0; i < nr; i++)
		width = fmax(width, all[i].judged ? judge_width(&all[i].estimate) : INFINITY);
	free(all);
	return width;
}

static bool same_job(const struct figure *a, const struct figure *b)
{
	if (a->group != b->group || a->index != b->index || !a->job != !b->job)
		return false;
	return !a->job || !strcmp(a->job, b->job);
}

/* Is a figure worth a row? Not what decides, not the same thing twice, not the time limit. */
static bool is_shown(const struct analysis *a, size_t index)
{
	const struct figure *figure = &a->figures[index];
	unsigned int directions = 0;
	size_t decides;

	if (!deciding_figure(a, figure->group, &decides) || decides == index ||
	    figure->quantity == Q_TIME)
		return false;
	if (figure->quantity != Q_IOPS)
		return true;
	for (size_t i = 0; i < a->nr_figures; i++) {
		const struct figure *other = &a->figures[i];

		directions += same_job(other, figure) && other->direction != DIR_ALL &&
			      other->quantity == Q_MEAN;
	}
	if (figure->direction == DIR_ALL)
		return figure->job ? directions > 1 : a->figures[decides].quantity == Q_TIME;
	return directions > 1 || figure->job;
}

static void judge_others(struct analysis *a)
{
	unsigned int variants = a->comparison->nr_variants;
	size_t measured = 0;

	a->others = xcalloc(a->nr_figures * variants, sizeof(*a->others));
	for (size_t i = 0; i < a->nr_figures; i++)
		for (unsigned int v = 1; v < variants && is_shown(a, i); v++)
			measured += !isnan(median(a, i, 0)) && !isnan(median(a, i, v));
	for (size_t i = 0; i < a->nr_figures; i++)
		for (unsigned int v = 1; v < variants && is_shown(a, i); v++)
			compare_figure(a, i, v, error_now(a) / (measured ? measured : 1),
				       &a->others[a->nr_others++]);
	a->corrected_for = measured;
}

void analysis_finish(struct analysis *analysis)
{
	size_t room = (size_t)analysis->nr_groups * analysis->comparison->nr_variants;

	analysis->deciding = xcalloc(room, sizeof(*analysis->deciding));
	if (!analysis->rounds)
		return;
	analysis->nr_deciding = judge_deciding(analysis, analysis->deciding);
	judge_others(analysis);
}

/* ---- lookups ------------------------------------------------------------------------------- */

const struct compared *analysis_deciding(const struct analysis *analysis, unsigned int group,
					 unsigned int variant)
{
	for (size_t i = 0; i < analysis->nr_deciding; i++)
		if (analysis->deciding[i].figure->group == group &&
		    analysis->deciding[i].variant == variant)
			return &analysis->deciding[i];
	return NULL;
}

static const struct compared *find_total(const struct compared *all, size_t nr,
					 const struct figure *wanted, unsigned int variant)
{
	for (size_t i = 0; i < nr; i++)
		if (same_job(all[i].figure, wanted) && all[i].variant == variant &&
		    all[i].figure->direction == wanted->direction &&
		    all[i].figure->quantity == wanted->quantity)
			return &all[i];
	return NULL;
}

const struct compared *analysis_total(const struct analysis *analysis, unsigned int group,
				      enum direction direction, enum quantity quantity,
				      unsigned int variant)
{
	struct figure wanted = { .group = group, .direction = direction, .quantity = quantity };
	const struct compared *found =
		find_total(analysis->others, analysis->nr_others, &wanted, variant);

	if (found)
		return found;
	wanted.direction = DIR_ALL;
	found = find_total(analysis->deciding, analysis->nr_deciding, &wanted, variant);
	return found ? found : find_total(analysis->others, analysis->nr_others, &wanted, variant);
}

const char *analysis_group_name(const struct analysis *analysis, unsigned int group)
{
	for (size_t i = 0; i < analysis->comparison->nr_jobs; i++)
		if (analysis->comparison->jobs[i].group == group &&
		    analysis->comparison->jobs[i].counted)
			return analysis->comparison->jobs[i].name;
	return "jobs";
}

double analysis_aa_band(const struct analysis *analysis, unsigned int group)
{
	double band = NAN;

	for (size_t i = 0; i < analysis->nr_deciding; i++)
		if (analysis->deciding[i].figure->group == group && analysis->deciding[i].judged)
			band = fmax(isnan(band) ? 0 : band, analysis->deciding[i].estimate.aa_band);
	return band;
}
