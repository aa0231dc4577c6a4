// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "util/units.h"

bool report_parse_format(const char *name, enum report_format *format)
{
	static const char *const names[] = { "text", "markdown", "csv", "json" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(name, names[i])) {
			*format = i;
			return true;
		}
	}
	return false;
}

enum cell_mood report_mood(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_FASTER:
		return MOOD_GOOD;
	case VERDICT_SLOWER:
		return MOOD_BAD;
	case VERDICT_UNDECIDED:
		return MOOD_UNSURE;
	case VERDICT_NO_DIFFERENCE:
		break;
	}
	return MOOD_PLAIN;
}

/* ---- cells --------------------------------------------------------------------------------- */

static const char *variant_text(const struct analysis *a, unsigned int variant)
{
	return a->comparison->variants[variant].text;
}

char *report_interval(const struct judge_estimate *estimate)
{
	if (estimate->high >= 1000)
		return format("%.3f .. >999", estimate->low);
	return format("%.3f .. %.3f", estimate->low, estimate->high);
}

static char *ratio_text(const struct compared *c)
{
	return c->judged ? format("%.3f", c->estimate.ratio) : xstrdup("-");
}

static char *interval_text(const struct compared *c)
{
	return c->judged ? report_interval(&c->estimate) : xstrdup("-");
}

static char *figure_name(const struct figure *figure)
{
	const char *kind = quantity_kinds[figure->quantity].name;

	if (figure->direction == DIR_ALL)
		return format("%s", kind);
	return format("%s %s", direction_names[figure->direction], kind);
}

static char *job_name(const struct analysis *a, const struct figure *figure)
{
	if (!figure->job)
		return xstrdup("all");
	for (size_t i = 0; i < a->nr_figures; i++) {
		const struct figure *other = &a->figures[i];

		if (other->job && other->group == figure->group && other->index &&
		    !strcmp(other->job, figure->job))
			return format("%s #%u", figure->job, figure->index + 1);
	}
	return xstrdup(figure->job);
}

static char *group_text(const struct analysis *a, unsigned int group)
{
	return format("%u: %s", group, analysis_group_name(a, group));
}

/* ---- tables -------------------------------------------------------------------------------- */

void report_head(const struct analysis *analysis, struct text_list *lines)
{
	const struct comparison *s = analysis->comparison;

	text_list_add(lines, "%s: %u round%s, %u runs, %s", s->title, analysis->rounds,
		      analysis->rounds == 1 ? "" : "s", analysis->rounds * comparison_slots(s),
		      s->fio_version);
	for (unsigned int group = 0; group < analysis->nr_groups; group++) {
		double band = analysis_aa_band(analysis, group);
		char *name = group_text(analysis, group);

		if (!isnan(band))
			text_list_add(lines, "A/A%s%s: runs of %s differ by up to %.1f %%",
				      analysis->nr_groups > 1 ? " in group " : "",
				      analysis->nr_groups > 1 ? name : "", s->variants[0].text,
				      band * 100);
		free(name);
	}
}

static void add_control_row(const struct analysis *a, struct table *table, const struct compared *c)
{
	table_add(table, xstrdup(variant_text(a, 0)));
	table_add(table, format_quantity(c->figure->quantity, c->control));
	table_add(table, xstrdup("1"));
	table_add(table, xstrdup(""));
	table_add(table, xstrdup("control"));
}

static void add_verdict_row(const struct analysis *a, struct table *table, const struct compared *c)
{
	table_add(table, xstrdup(variant_text(a, c->variant)));
	table_add(table, format_quantity(c->figure->quantity, c->value));
	table_add(table, ratio_text(c));
	table_add(table, interval_text(c));
	table_add_mood(table, xstrdup(verdict_name(c->verdict)), report_mood(c->verdict));
}

void report_verdicts(const struct analysis *analysis, struct table *table)
{
	static const char *heads[] = { "group", "variant",	 "decides",
				       "ratio", "95 % interval", "verdict" };
	static const char *time_heads[] = { "variant", "time", "ratio", "95 % interval",
					    "verdict" };
	static const char *iops_heads[] = { "variant", "IOPS", "ratio", "95 % interval",
					    "verdict" };
	bool groups = analysis->nr_groups > 1;
	bool time = analysis->nr_deciding && analysis->deciding[0].figure->quantity == Q_TIME;

	if (groups)
		table_init(table, NULL, heads, ARRAY_SIZE(heads), 2);
	else
		table_init(table, NULL, time ? time_heads : iops_heads, ARRAY_SIZE(time_heads), 1);
	for (size_t i = 0; i < analysis->nr_deciding; i++) {
		const struct compared *c = &analysis->deciding[i];

		if (c->variant == 1) {
			if (groups)
				table_add(table, group_text(analysis, c->figure->group));
			add_control_row(analysis, table, c);
		}
		if (groups)
			table_add(table, xstrdup(""));
		add_verdict_row(analysis, table, c);
	}
}

void report_figures(const struct analysis *analysis, struct table *table)
{
	static const char *heads[] = { "group",	  "job",   "figure", "variant",
				       "control", "value", "ratio",  "interval" };
	bool groups = analysis->nr_groups > 1;
	char *title =
		format("Further figures, latency is total latency; intervals hold together for "
		       "all %zu",
		       analysis->corrected_for);
	size_t skip = groups ? 0 : 1;

	table_init(table, title, heads + skip, ARRAY_SIZE(heads) - skip, 4 - skip);
	free(title);
	for (size_t i = 0; i < analysis->nr_others; i++) {
		const struct compared *c = &analysis->others[i];
		const struct figure *f = c->figure;

		if (groups)
			table_add(table, group_text(analysis, f->group));
		table_add(table, job_name(analysis, f));
		table_add(table, figure_name(f));
		table_add(table, xstrdup(variant_text(analysis, c->variant)));
		table_add(table, format_quantity(f->quantity, c->control));
		table_add(table, format_quantity(f->quantity, c->value));
		table_add(table, ratio_text(c));
		table_add(table, interval_text(c));
	}
}

/* ---- text and markdown --------------------------------------------------------------------- */

static void print_list(FILE *to, const char *head, const struct text_list *lines, bool markdown)
{
	if (!lines->nr)
		return;
	fprintf(to, markdown ? "\n**%s**\n\n" : "\n%s\n", head);
	for (size_t i = 0; i < lines->nr; i++)
		fprintf(to, "%s%s\n", markdown ? "- " : "  ", lines->item[i]);
}

static void print_table(const struct table *table, FILE *to, bool markdown)
{
	if (!table->nr_cells)
		return;
	fputc('\n', to);
	if (markdown)
		table_print_markdown(table, to);
	else
		table_print_text(table, to, table_colour(to));
}

static void print_words(const struct analysis *a, FILE *to, bool markdown)
{
	struct text_list head = { 0 };
	struct table verdicts, figures;

	report_head(a, &head);
	report_verdicts(a, &verdicts);
	report_figures(a, &figures);
	for (size_t i = 0; i < head.nr; i++)
		fprintf(to, "%s%s\n", head.item[i], markdown ? "  " : "");
	print_table(&verdicts, to, markdown);
	print_list(to, "Why", &a->explanations, markdown);
	print_list(to, "Mind", &a->warnings, markdown);
	print_list(to, "Failed runs, not counted", &a->comparison->failures, markdown);
	print_table(&figures, to, markdown);
	table_free(&verdicts);
	table_free(&figures);
	text_list_free(&head);
}

/* ---- CSV ----------------------------------------------------------------------------------- */

static char *raw(double value)
{
	return isnan(value) ? xstrdup("") : format("%.10g", value);
}

static void add_csv_row(const struct analysis *a, struct table *table, const struct compared *c,
			const char *verdict)
{
	const struct figure *f = c->figure;

	table_add(table, format("%u", f->group));
	table_add(table, xstrdup(f->job ? f->job : ""));
	table_add(table, f->job ? format("%u", f->index) : xstrdup(""));
	table_add(table, xstrdup(direction_names[f->direction]));
	table_add(table, xstrdup(quantity_kinds[f->quantity].name));
	table_add(table, xstrdup(quantity_kinds[f->quantity].unit));
	table_add(table, xstrdup(variant_text(a, 0)));
	table_add(table, xstrdup(variant_text(a, c->variant)));
	table_add(table, raw(c->control));
	table_add(table, raw(c->value));
	table_add(table, raw(c->judged ? c->estimate.ratio : NAN));
	table_add(table, raw(c->judged ? c->estimate.low : NAN));
	table_add(table, raw(c->judged ? c->estimate.high : NAN));
	table_add(table, format("%u", c->judged ? c->estimate.rounds : 0));
	table_add(table, xstrdup(verdict));
}

static void print_csv(const struct analysis *a, FILE *to)
{
	static const char *heads[] = { "group",	  "job",    "index",	       "direction",
				       "figure",  "unit",   "control_variant", "variant",
				       "control", "value",  "ratio",	       "low",
				       "high",	  "rounds", "verdict" };
	struct table table;

	table_init(&table, NULL, heads, ARRAY_SIZE(heads), 0);
	for (size_t i = 0; i < a->nr_deciding; i++)
		add_csv_row(a, &table, &a->deciding[i], verdict_name(a->deciding[i].verdict));
	for (size_t i = 0; i < a->nr_others; i++)
		add_csv_row(a, &table, &a->others[i], "");
	table_print_csv(&table, to);
	table_free(&table);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_lines(const struct text_list *lines)
{
	json_t *array = json_array();

	for (size_t i = 0; i < lines->nr; i++)
		json_array_append_new(array, json_string(lines->item[i]));
	return array;
}

static json_t *json_compared(const struct analysis *a, const struct compared *c, bool decides)
{
	const struct figure *f = c->figure;
	json_t *value = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:o, s:o}", "group", (int)f->group, "variant",
		variant_text(a, c->variant), "direction", direction_names[f->direction], "figure",
		quantity_kinds[f->quantity].name, "unit", quantity_kinds[f->quantity].unit,
		"control", json_number(c->control), "value", json_number(c->value));

	if (f->job) {
		json_object_set_new(value, "job", json_string(f->job));
		json_object_set_new(value, "index", json_integer(f->index));
	}
	if (c->judged) {
		json_object_set_new(value, "ratio", json_number(c->estimate.ratio));
		json_object_set_new(value, "low", json_number(c->estimate.low));
		json_object_set_new(value, "high", json_number(c->estimate.high));
		json_object_set_new(value, "rounds", json_integer(c->estimate.rounds));
	}
	if (decides) {
		json_object_set_new(value, "verdict", json_string(verdict_name(c->verdict)));
		if (c->judged)
			json_object_set_new(value, "aa_band", json_number(c->estimate.aa_band));
	}
	return value;
}

json_t *report_json(const struct analysis *analysis)
{
	const struct comparison *s = analysis->comparison;
	json_t *variants = json_array(), *deciding = json_array(), *others = json_array();

	for (size_t i = 0; i < s->nr_variants; i++)
		json_array_append_new(variants, json_string(s->variants[i].text));
	for (size_t i = 0; i < analysis->nr_deciding; i++)
		json_array_append_new(deciding,
				      json_compared(analysis, &analysis->deciding[i], true));
	for (size_t i = 0; i < analysis->nr_others; i++)
		json_array_append_new(others, json_compared(analysis, &analysis->others[i], false));
	return json_pack("{s:s, s:s, s:i, s:f, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "job", s->title,
			 "fio_version", s->fio_version, "rounds", (int)analysis->rounds,
			 "precision", s->precision, "variants", variants, "verdicts", deciding,
			 "figures", others, "intervals_corrected_for", (int)analysis->corrected_for,
			 "explanations", json_lines(&analysis->explanations), "warnings",
			 json_lines(&analysis->warnings), "failed_runs", json_lines(&s->failures));
}

static void print_json(const struct analysis *a, FILE *to)
{
	json_t *value = report_json(a);

	json_dumpf(value, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
	fputc('\n', to);
	json_decref(value);
}

int report_print(const struct analysis *analysis, enum report_format format, FILE *to)
{
	switch (format) {
	case REPORT_TEXT:
		print_words(analysis, to, false);
		break;
	case REPORT_MARKDOWN:
		print_words(analysis, to, true);
		break;
	case REPORT_CSV:
		print_csv(analysis, to);
		break;
	case REPORT_JSON:
		print_json(analysis, to);
		break;
	}
	return fflush(to) || ferror(to) ? -EIO : 0;
}
