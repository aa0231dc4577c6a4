// SPDX-License-Identifier: GPL-2.0-only
/* kpolicy sweep: one comparison per value of an option, their curve, and where it crosses 1. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "axis.h"
#include "commands.h"
#include "compare.h"
#include "stats/stats.h"
#include "print/print.h"
#include "util/units.h"

#define MOST_CROSSING 8

/* What a point of the sweep says of one variant; the control has a ratio of 1. */
struct sample {
	double value;
	bool judged;
	struct judge_estimate estimate;
	enum verdict verdict;
};

/* The two quantities that can decide. */
enum judged_by { BY_IOPS, BY_TIME, NR_JUDGED_BY };

struct sweep {
	const struct options *options;
	struct axis axis;
	struct sample *samples; /* [point][variant][judged_by] */
	size_t points;		/* measured */
	bool not_by_time;	/* at some point the work was not fixed: IOPS decide for all */
	struct text_list warnings;
};

/* ---- measuring ----------------------------------------------------------------------------- */

/*
 * A curve has one meaning. Where one point ended by its work and another by its time limit, time
 * would be faster when it is less and IOPS when they are more: IOPS can be had of both.
 */
static enum quantity quantity_of(const struct sweep *sweep)
{
	return sweep->not_by_time ? Q_IOPS : Q_TIME;
}

static struct sample *sample_by(const struct sweep *sweep, size_t point, size_t variant,
				enum judged_by by)
{
	size_t at = point * sweep->options->nr_variants + variant;

	return &sweep->samples[at * NR_JUDGED_BY + by];
}

static struct sample *sample_of(const struct sweep *sweep, size_t point, size_t variant)
{
	return sample_by(sweep, point, variant, sweep->not_by_time ? BY_IOPS : BY_TIME);
}

static void take_sample(struct sweep *sweep, const struct analysis *a, unsigned int group,
			size_t variant, enum judged_by by)
{
	struct compared c;

	if (!analysis_judge(a, group, by == BY_TIME ? Q_TIME : Q_IOPS, variant, &c))
		return;
	sample_by(sweep, sweep->points, 0, by)->value = c.control;
	*sample_by(sweep, sweep->points, variant, by) = (struct sample){
		.value = c.value,
		.judged = c.judged,
		.estimate = c.estimate,
		.verdict = c.verdict,
	};
}

/* Groups stay apart in compare; the curve is that of the first. */
static void take_samples(struct sweep *sweep, const struct analysis *a)
{
	const struct figure *decides = a->deciding[0].figure;

	sweep->not_by_time = sweep->not_by_time || decides->quantity != Q_TIME;
	for (size_t v = 1; v < sweep->options->nr_variants; v++)
		for (int by = 0; by < NR_JUDGED_BY; by++)
			take_sample(sweep, a, decides->group, v, by);
	for (size_t i = 0; i < a->warnings.nr; i++)
		text_list_add(&sweep->warnings, "%s=%s: %s", sweep->axis.key,
			      sweep->axis.values[sweep->points].text, a->warnings.item[i]);
	if (a->nr_groups > 1 && !sweep->points)
		text_list_add(&sweep->warnings,
			      "the job has %u stonewall groups: this is the first one",
			      a->nr_groups);
}

static char *point_dir(const struct sweep *sweep, size_t point)
{
	if (!sweep->options->output)
		return NULL;
	return format("%s/%s=%s", sweep->options->output, sweep->axis.key,
		      sweep->axis.values[point].text);
}

static int run_point(struct sweep *sweep, struct options *options)
{
	const struct axis_value *value = &sweep->axis.values[sweep->points];
	char *dir = point_dir(sweep, sweep->points);
	struct session session;
	struct analysis analysis;
	int code = EXIT_CANNOT;

	if (!options->quiet)
		fprintf(stderr, "%s=%s, %zu of %zu\n", sweep->axis.key, value->text,
			sweep->points + 1, sweep->axis.nr);
	options_set(options, sweep->axis.key, value->text);
	if (compare_prepare(options, dir, &session)) {
		enum rounds_end end = compare_run(options, &session, &analysis);

		code = compare_exit_code(options, &analysis, end);
		if (analysis.nr_deciding) {
			take_samples(sweep, &analysis);
			sweep->points++;
		} else if (code < 128) {
			if (end != ROUNDS_FAILED)
				message("%s=%s: nothing was measured", sweep->axis.key,
					value->text);
			code = EXIT_CANNOT;
		}
		analysis_free(&analysis);
		session_close(&session);
	}
	free(dir);
	return code;
}

/* Every point is measured; the worst of their exit codes is the sweep's. */
static int run_points(struct sweep *sweep, struct options *options)
{
	int code = EXIT_DONE;

	if (options->output && mkdir(options->output, 0777) && errno != EEXIST) {
		message("%s: %s", options->output, strerror(errno));
		return EXIT_CANNOT;
	}
	for (size_t i = 0; i < sweep->axis.nr; i++) {
		int point = run_point(sweep, options);

		if (point == EXIT_CANNOT || point >= 128)
			return point;
		if (point == EXIT_SLOWER || code == EXIT_DONE)
			code = point;
	}
	return code;
}

/* ---- crossovers ---------------------------------------------------------------------------- */

/* Above 1 is faster: a ratio of times is turned round. */
static struct curve_point speed_point(const struct sweep *sweep, double x,
				      const struct judge_estimate *e)
{
	if (quantity_kinds[quantity_of(sweep)].more_is_faster)
		return (struct curve_point){ x, e->ratio, e->low, e->high };
	return (struct curve_point){ x, 1 / e->ratio, 1 / e->high, 1 / e->low };
}

static size_t curve_of(const struct sweep *sweep, size_t variant, struct curve_point *points)
{
	size_t nr = 0;

	for (size_t i = 0; i < sweep->points; i++) {
		const struct sample *s = sample_of(sweep, i, variant);

		if (s->judged && sweep->axis.values[i].number > 0)
			points[nr++] =
				speed_point(sweep, sweep->axis.values[i].number, &s->estimate);
	}
	return nr;
}

static char *axis_text(const struct axis *axis, double x)
{
	return axis->bytes ? format_bytes(x) : format_number(x);
}

static void describe_crossing(const struct sweep *sweep, size_t variant,
			      const struct crossover *crossing, struct text_list *lines)
{
	char *at = axis_text(&sweep->axis, crossing->x);
	char *low = axis_text(&sweep->axis, crossing->low);
	char *high = axis_text(&sweep->axis, crossing->high);

	text_list_add(lines, "%s crosses %s at %s=%s, between %s and %s",
		      sweep->options->variants[variant], sweep->options->variants[0],
		      sweep->axis.key, at, low, high);
	free(at);
	free(low);
	free(high);
}

static void find_crossings(const struct sweep *sweep, struct text_list *lines)
{
	struct curve_point *points = xcalloc(sweep->points, sizeof(*points));
	struct crossover found[MOST_CROSSING];

	for (size_t v = 1; v < sweep->options->nr_variants; v++) {
		size_t nr = curve_of(sweep, v, points);
		bool vague;
		size_t crossings = crossover_find(points, nr, found, MOST_CROSSING, &vague);

		for (size_t i = 0; i < crossings && i < MOST_CROSSING; i++)
			describe_crossing(sweep, v, &found[i], lines);
		if (!crossings && vague)
			text_list_add(lines,
				      "%s and %s: too few points are decided to say whether they "
				      "cross",
				      sweep->options->variants[v], sweep->options->variants[0]);
		else if (!crossings && nr)
			text_list_add(lines, "%s and %s do not cross", sweep->options->variants[v],
				      sweep->options->variants[0]);
	}
	free(points);
}

/* ---- printing ------------------------------------------------------------------------------ */

static void fill_words(const struct sweep *sweep, struct table *table)
{
	static const char *time_heads[] = { "",	     "variant",	      "time",
					    "ratio", "95 % interval", "verdict" };
	static const char *iops_heads[] = { "",	     "variant",	      "IOPS",
					    "ratio", "95 % interval", "verdict" };

	table_init(table, NULL, sweep->not_by_time ? iops_heads : time_heads,
		   ARRAY_SIZE(time_heads), 2);
	for (size_t i = 0; i < sweep->points; i++) {
		for (size_t v = 0; v < sweep->options->nr_variants; v++) {
			const struct sample *s = sample_of(sweep, i, v);

			table_add(table,
				  v ? xstrdup("")
				    : format("%s=%s", sweep->axis.key, sweep->axis.values[i].text));
			table_add(table, xstrdup(sweep->options->variants[v]));
			table_add(table, format_quantity(quantity_of(sweep), s->value));
			table_add(table, s->judged ? format("%.3f", s->estimate.ratio)
						   : xstrdup(v ? "-" : "1"));
			table_add(table, s->judged ? report_interval(&s->estimate) : xstrdup(""));
			table_add_mood(table, xstrdup(v ? verdict_name(s->verdict) : "control"),
				       v ? report_mood(s->verdict) : MOOD_PLAIN);
		}
	}
}

static char *raw(bool there, double value)
{
	return there ? format("%.10g", value) : xstrdup("");
}

static void fill_raw(const struct sweep *sweep, struct table *table)
{
	static const char *heads[] = { "option", "value", "variant", "figure", "measured",
				       "ratio",	 "low",	  "high",    "verdict" };

	table_init(table, NULL, heads, ARRAY_SIZE(heads), 0);
	for (size_t i = 0; i < sweep->points; i++) {
		for (size_t v = 0; v < sweep->options->nr_variants; v++) {
			const struct sample *s = sample_of(sweep, i, v);

			table_add(table, xstrdup(sweep->axis.key));
			table_add(table, raw(true, sweep->axis.values[i].number));
			table_add(table, xstrdup(sweep->options->variants[v]));
			table_add(table, xstrdup(quantity_kinds[quantity_of(sweep)].name));
			table_add(table, raw(true, s->value));
			table_add(table, raw(s->judged, s->estimate.ratio));
			table_add(table, raw(s->judged, s->estimate.low));
			table_add(table, raw(s->judged, s->estimate.high));
			table_add(table, xstrdup(v ? verdict_name(s->verdict) : "control"));
		}
	}
}

static json_t *json_sample(const struct sweep *sweep, size_t point, size_t variant)
{
	const struct sample *s = sample_of(sweep, point, variant);
	json_t *value =
		json_pack("{s:f, s:s, s:s, s:f}", sweep->axis.key, sweep->axis.values[point].number,
			  "variant", sweep->options->variants[variant], "figure",
			  quantity_kinds[quantity_of(sweep)].name, "value", s->value);

	if (s->judged)
		json_object_update_new(value,
				       json_pack("{s:f, s:f, s:f, s:s}", "ratio", s->estimate.ratio,
						 "low", s->estimate.low, "high", s->estimate.high,
						 "verdict", verdict_name(s->verdict)));
	return value;
}

static json_t *json_curve(const struct sweep *sweep, size_t variant)
{
	struct curve_point *points = xcalloc(sweep->points, sizeof(*points));
	struct crossover found[MOST_CROSSING];
	bool vague;
	size_t nr = crossover_find(points, curve_of(sweep, variant, points), found, MOST_CROSSING,
				   &vague);
	json_t *array = json_array();

	for (size_t i = 0; i < nr && i < MOST_CROSSING; i++)
		json_array_append_new(array,
				      json_pack("{s:s, s:f, s:f, s:f}", "variant",
						sweep->options->variants[variant], "at", found[i].x,
						"low", found[i].low, "high", found[i].high));
	free(points);
	return array;
}

static void print_json(const struct sweep *sweep, FILE *to)
{
	json_t *points = json_array(), *crossings = json_array(), *warnings = json_array();

	for (size_t i = 0; i < sweep->points; i++)
		for (size_t v = 0; v < sweep->options->nr_variants; v++)
			json_array_append_new(points, json_sample(sweep, i, v));
	for (size_t v = 1; v < sweep->options->nr_variants; v++) {
		json_t *curve = json_curve(sweep, v);

		json_array_extend(crossings, curve);
		json_decref(curve);
	}
	for (size_t i = 0; i < sweep->warnings.nr; i++)
		json_array_append_new(warnings, json_string(sweep->warnings.item[i]));
	json_t *all = json_pack("{s:s, s:o, s:o, s:o}", "over", sweep->axis.key, "points", points,
				"crossovers", crossings, "warnings", warnings);

	json_dumpf(all, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
	fputc('\n', to);
	json_decref(all);
}

static void print_lines(const struct text_list *lines, FILE *to, bool markdown)
{
	if (lines->nr)
		fputc('\n', to);
	for (size_t i = 0; i < lines->nr; i++)
		fprintf(to, "%s%s\n", markdown ? "- " : "", lines->item[i]);
}

static void print_words(const struct sweep *sweep, FILE *to, bool markdown)
{
	struct text_list crossings = { 0 };
	struct table table;

	fill_words(sweep, &table);
	if (markdown)
		table_print_markdown(&table, to);
	else
		table_print_text(&table, to, table_colour(to));
	find_crossings(sweep, &crossings);
	print_lines(&crossings, to, markdown);
	print_lines(&sweep->warnings, to, markdown);
	text_list_free(&crossings);
	table_free(&table);
}

static bool print_sweep(const struct sweep *sweep, FILE *to)
{
	struct table table;

	switch (sweep->options->format) {
	case REPORT_TEXT:
	case REPORT_MARKDOWN:
		print_words(sweep, to, sweep->options->format == REPORT_MARKDOWN);
		break;
	case REPORT_CSV:
		fill_raw(sweep, &table);
		table_print_csv(&table, to);
		table_free(&table);
		break;
	case REPORT_JSON:
		print_json(sweep, to);
		break;
	}
	if (!fflush(to) && !ferror(to))
		return true;
	message("cannot write the report: %s", strerror(errno));
	return false;
}

/* ---- the curve ----------------------------------------------------------------------------- */

/* Each variant's interval is the ratio's, applied to the control's value. */
static void curve_data(FILE *s, const struct sweep *sweep, size_t variant)
{
	fprintf(s, "$curve%zu << EOD\n", variant);
	for (size_t i = 0; i < sweep->points; i++) {
		const struct sample *p = sample_of(sweep, i, variant);
		double low = p->judged ? p->value * p->estimate.low / p->estimate.ratio : p->value;
		double high =
			p->judged ? p->value * p->estimate.high / p->estimate.ratio : p->value;

		fprintf(s, "%g %g %g %g\n", sweep->axis.values[i].number, p->value, low, high);
	}
	fputs("EOD\n", s);
}

static void curve_ticks(FILE *s, const struct sweep *sweep)
{
	fputs("set xtics (", s);
	for (size_t i = 0; i < sweep->points; i++) {
		fputs(i ? ", " : "", s);
		plot_quote(s, sweep->axis.values[i].text);
		fprintf(s, " %g", sweep->axis.values[i].number);
	}
	fputs(")\n", s);
}

static double largest_value(const struct sweep *sweep)
{
	double most = 0;

	for (size_t i = 0; i < sweep->points; i++)
		for (size_t v = 0; v < sweep->options->nr_variants; v++)
			most = fmax(most, sample_of(sweep, i, v)->value);
	return most;
}

/* The largest measured value over the smallest. */
static double value_spread(const struct sweep *sweep)
{
	double least = INFINITY;

	for (size_t i = 0; i < sweep->points; i++)
		for (size_t v = 0; v < sweep->options->nr_variants; v++)
			least = fmin(least, sample_of(sweep, i, v)->value);
	return largest_value(sweep) / least;
}

static void draw_sweep(FILE *s, const void *arg)
{
	const struct sweep *sweep = arg;
	const struct axis_value *values = sweep->axis.values;
	size_t nr = sweep->options->nr_variants;

	for (size_t v = 0; v < nr; v++)
		curve_data(s, sweep, v);
	curve_ticks(s, sweep);
	if (values[0].number > 0 && values[sweep->points - 1].number >= 8 * values[0].number)
		fputs("set logscale x 2\n", s);
	fputs("set offsets graph 0.04, graph 0.04, graph 0.08, graph 0\n"
	      "set grid\nset key outside top horizontal\n",
	      s);
	if (value_spread(sweep) > 20)
		fputs("set logscale y\n", s);
	else /* an interval that leaves the picture says no more than one that fills it */
		fprintf(s, "set yrange [0:%g]\n", 2 * largest_value(sweep));
	if (sweep->not_by_time)
		fputs("set format y '%.1s%c'\n", s);
	char *title = format("%s over %s",
			     sweep->options->input.path ? sweep->options->input.path : "fio",
			     sweep->axis.key);

	fputs("set title ", s);
	plot_quote(s, title);
	free(title);
	fputs("\nset xlabel ", s);
	plot_quote(s, sweep->axis.key);
	fprintf(s, "\nset ylabel '%s'\nplot ",
		sweep->not_by_time ? "IOPS" : "time, s (less is faster)");
	for (size_t v = 0; v < nr; v++) {
		fprintf(s,
			"%s$curve%zu using 1:2:3:4 with yerrorlines pt 7 ps 0.8 lw 2 lc rgb '%s' "
			"title ",
			v ? ", " : "", v, plot_colour(v));
		plot_quote(s, sweep->options->variants[v]);
	}
	fputc('\n', s);
}

/* ---- the command --------------------------------------------------------------------------- */

static bool check_words(const struct options *options)
{
	if ((!options->input.path && !options->input.argv) || options->nr_variants < 2) {
		message("sweep needs a job and two variants: kpolicy sweep JOB.fio VARIANT VARIANT "
			"--over bs=4k,8k");
		return false;
	}
	if (!options->over) {
		message("sweep over what? --over bs=4k,8k,64k or --over iodepth=1:64*2");
		return false;
	}
	return true;
}

static int sweep_and_print(struct options *options)
{
	struct sweep sweep = { .options = options };
	int code = EXIT_CANNOT;

	if (axis_read(&sweep.axis, options->over)) {
		sweep.samples = xcalloc(sweep.axis.nr * options->nr_variants * NR_JUDGED_BY,
					sizeof(*sweep.samples));
		code = run_points(&sweep, options);
		if (sweep.points && !print_sweep(&sweep, stdout))
			code = EXIT_CANNOT;
		const struct plot plot = { draw_sweep, &sweep, 900, 560 };

		if (sweep.points && options->plot && !plot_draw(&plot, options->plot))
			code = EXIT_CANNOT;
	}
	axis_free(&sweep.axis);
	free(sweep.samples);
	text_list_free(&sweep.warnings);
	return code;
}

int cmd_sweep(int argc, char **argv)
{
	struct options options;
	int code = EXIT_CANNOT;

	if (options_read(&options, argc, argv, FOR_SWEEP) && check_words(&options))
		code = sweep_and_print(&options);
	options_free(&options);
	return code;
}
