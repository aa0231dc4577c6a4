// SPDX-License-Identifier: GPL-2.0-only
/* kpolicy reproduce: each published table with our own measurement beside it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "compare.h"
#include "seed_tables.h"
#include "util/units.h"

#define SEED_ROUNDS  8
#define SEED_RUNTIME "1"

struct measured {
	double value; /* NAN: not measured */
	bool judged;
	struct judge_estimate estimate;
};

/* A row of the printed table before it is laid out. */
struct seed_line {
	const struct seed *seed;
	const struct seed_row *row;
	const struct seed_figure *figure;
	unsigned int column;
	struct measured measured;
};

struct seed_lines {
	struct seed_line *line;
	size_t nr;
};

static unsigned int nr_columns(const struct seed *seed)
{
	unsigned int nr = 0;

	while (nr < SEED_COLUMNS && seed->columns[nr].label)
		nr++;
	return nr;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static char *variant_of(const struct seed *seed, const struct seed_row *row, unsigned int column,
			const struct options *user)
{
	const char *variant = seed->columns[column].variant;

	if (user->device)
		return xstrdup(variant);
	return format("%s,backend=null,%s", variant, row->device);
}

/* The job of a row as a command line. */
static char **row_command(const struct seed *seed, const struct seed_row *row)
{
	size_t nr = 0, more = 0;

	while (seed->fio[nr])
		nr++;
	while (row->settings && row->settings[more])
		more++;
	char **command = xcalloc(nr + more + 1, sizeof(*command));

	for (size_t i = 0; i < nr; i++)
		command[i] = xstrdup(seed->fio[i]);
	for (size_t i = 0; i < more; i++)
		command[nr + i] = format("--%s", row->settings[i]);
	return command;
}

static bool is_set(const struct options *options, const char *key)
{
	for (size_t i = 0; i < options->nr_set; i++)
		if (!strcmp(options->set[i].key, key))
			return true;
	return false;
}

/* A report that copied a file is over when that is done. */
static bool runs_for_a_time(const struct seed *seed)
{
	for (const char *const *arg = seed->fio; *arg; arg++)
		if (!strcmp(*arg, "--time_based=1"))
			return true;
	return false;
}

/* The user's options, filled up with what the row asks for. */
static void row_options(struct options *options, const struct options *user,
			const struct seed *seed, const struct seed_row *row)
{
	*options = *user;
	options->set = NULL;
	options->nr_set = 0;
	options->engine_dir = xstrdup(user->engine_dir);
	options->input = (struct swap_input){ .argv = row_command(seed, row) };
	options->rounds = user->rounds ? user->rounds : SEED_ROUNDS;
	options->nr_variants = nr_columns(seed);
	options->variants = xcalloc(options->nr_variants, sizeof(*options->variants));
	for (unsigned int i = 0; i < options->nr_variants; i++)
		options->variants[i] = variant_of(seed, row, i, user);
	if (user->device)
		options_set_target(options, user->device);
	if (runs_for_a_time(seed) && !is_set(user, "runtime"))
		options_set(options, "runtime", SEED_RUNTIME);
	for (size_t i = 0; i < user->nr_set; i++)
		options_set(options, user->set[i].key, user->set[i].value);
}

static void free_row_options(struct options *options)
{
	for (size_t i = 0; i < options->nr_variants; i++)
		free(options->variants[i]);
	for (char *const *arg = options->input.argv; *arg; arg++)
		free(*arg);
	free((void *)options->input.argv);
	options_free(options);
}

static struct measured find_measured(const struct analysis *a, const struct seed_figure *figure,
				     unsigned int column)
{
	const struct compared *c =
		analysis_total(a, 0, figure->direction, figure->quantity, column ? column : 1);
	struct measured m = { .value = NAN };

	if (!c)
		return m;
	m.value = column ? c->value : c->control;
	m.judged = column && c->judged;
	m.estimate = c->estimate;
	return m;
}

static void add_lines(struct seed_lines *lines, const struct seed *seed, const struct seed_row *row,
		      const struct analysis *a)
{
	for (size_t f = 0; f < SEED_FIGURES && row->figures[f].name; f++) {
		for (unsigned int column = 0; column < nr_columns(seed); column++) {
			lines->line = xrealloc(lines->line, lines->nr + 1, sizeof(*lines->line));
			lines->line[lines->nr++] =
				(struct seed_line){ seed, row, &row->figures[f], column,
						    find_measured(a, &row->figures[f], column) };
		}
	}
}

static char *row_dir(const struct options *user, const struct seed *seed, size_t row)
{
	return user->output ? format("%s/seed%u.%zu", user->output, seed->number, row + 1) : NULL;
}

static int run_row(const struct options *user, const struct seed *seed, size_t number,
		   struct seed_lines *lines)
{
	const struct seed_row *row = &seed->rows[number];
	char *dir = row_dir(user, seed, number);
	struct options options;
	struct session session;
	struct analysis analysis;
	int code = EXIT_CANNOT;

	row_options(&options, user, seed, row);
	if (!user->quiet)
		fprintf(stderr, "seed %u: %s\n", seed->number, row->label);
	if (compare_prepare(&options, dir, &session)) {
		enum rounds_end end = compare_run(&options, &session, &analysis);

		code = compare_exit_code(&options, &analysis, end);
		if (analysis.rounds)
			add_lines(lines, seed, row, &analysis);
		analysis_free(&analysis);
		session_close(&session);
	}
	free_row_options(&options);
	free(dir);
	return code;
}

/* ---- printing ------------------------------------------------------------------------------ */

static char *in_unit(double value, double unit)
{
	return isnan(value) ? xstrdup("not measured") : format_number(value / unit);
}

static char *published_ratio(const struct seed_line *line)
{
	double control = line->figure->published[0];

	return line->column ? format("%.3f", line->figure->published[line->column] / control)
			    : xstrdup("");
}

static void fill_table(const struct seed_lines *lines, struct table *table)
{
	static const char *heads[] = { "run",  "figure",	  "kernel",    "published",
				       "ours", "published ratio", "our ratio", "95 % interval" };

	table_init(table, NULL, heads, ARRAY_SIZE(heads), 3);
	for (size_t i = 0; i < lines->nr; i++) {
		const struct seed_line *line = &lines->line[i];
		const struct measured *m = &line->measured;

		table_add(table, xstrdup(line->row->label));
		table_add(table, xstrdup(line->figure->name));
		table_add(table, xstrdup(line->seed->columns[line->column].label));
		table_add(table, format_number(line->figure->published[line->column]));
		table_add(table, in_unit(m->value, line->figure->unit));
		table_add(table, published_ratio(line));
		table_add(table, m->judged ? format("%.3f", m->estimate.ratio) : xstrdup(""));
		table_add(table, m->judged ? report_interval(&m->estimate) : xstrdup(""));
	}
}

static void print_words(const struct options *user, const struct seed *seed,
			const struct seed_lines *lines, bool markdown)
{
	struct table table;

	printf("%sSeed %u: %s\n", markdown ? "### " : "", seed->number, seed->title);
	printf("%stheirs: %s%s\n", markdown ? "\n" : "", seed->theirs, markdown ? "  " : "");
	if (user->device)
		printf("ours: %s%s\n", user->device, markdown ? "  " : "");
	else
		printf("ours: the null device, %s%s\n", seed->stand_in, markdown ? "  " : "");
	printf("published: %s\n\n", seed->headline);
	fill_table(lines, &table);
	if (markdown)
		table_print_markdown(&table, stdout);
	else
		table_print_text(&table, stdout, table_colour(stdout));
	table_free(&table);
	putchar('\n');
}

static json_t *json_line(const struct seed_line *line)
{
	const struct measured *m = &line->measured;
	json_t *value = json_pack("{s:i, s:s, s:s, s:s, s:s, s:f}", "seed", (int)line->seed->number,
				  "run", line->row->label, "figure", line->figure->name, "kernel",
				  line->seed->columns[line->column].label, "variant",
				  line->seed->columns[line->column].variant, "published",
				  line->figure->published[line->column]);

	if (!isnan(m->value))
		json_object_set_new(value, "ours", json_real(m->value / line->figure->unit));
	if (m->judged)
		json_object_update_new(value,
				       json_pack("{s:f, s:f, s:f}", "ratio", m->estimate.ratio,
						 "low", m->estimate.low, "high", m->estimate.high));
	return value;
}

static void print_seed(const struct options *user, const struct seed *seed,
		       const struct seed_lines *lines, json_t *all)
{
	struct table table;

	switch (user->format) {
	case REPORT_TEXT:
	case REPORT_MARKDOWN:
		print_words(user, seed, lines, user->format == REPORT_MARKDOWN);
		break;
	case REPORT_CSV:
		fill_table(lines, &table);
		table_print_csv(&table, stdout);
		table_free(&table);
		break;
	case REPORT_JSON:
		for (size_t i = 0; i < lines->nr; i++)
			json_array_append_new(all, json_line(&lines->line[i]));
		break;
	}
	fflush(stdout); /* a seed takes minutes */
}

/* ---- the command --------------------------------------------------------------------------- */

static bool is_built(const struct options *user, const struct seed *seed)
{
	char *path = format("%s/%s.so", user->engine_dir, seed->engine);
	bool built = !access(path, F_OK);

	if (!built)
		message("seed %u: engine %s is not built", seed->number, seed->engine);
	free(path);
	return built;
}

static int run_seed(const struct options *user, const struct seed *seed, json_t *all)
{
	struct seed_lines lines = { 0 };
	int code = EXIT_DONE;

	for (size_t row = 0; code == EXIT_DONE && seed->rows[row].label; row++)
		code = run_row(user, seed, row, &lines);
	if (lines.nr)
		print_seed(user, seed, &lines, all);
	free(lines.line);
	return code;
}

static bool wanted(const struct options *user, const struct seed *seed)
{
	for (size_t i = 0; i < user->nr_variants; i++)
		if ((unsigned int)atoi(user->variants[i]) == seed->number)
			return true;
	return !user->nr_variants;
}

static bool check_words(const struct options *user)
{
	for (size_t i = 0; i < user->nr_variants; i++) {
		char *end;
		unsigned long number = strtoul(user->variants[i], &end, 10);

		if (*end || number < 1 || number > NR_SEEDS) {
			message("no seed '%s': they are 1 to %d", user->variants[i], NR_SEEDS);
			return false;
		}
	}
	if (user->output && mkdir(user->output, 0777) && errno != EEXIST) {
		message("%s: %s", user->output, strerror(errno));
		return false;
	}
	return true;
}

static int run_seeds(const struct options *user)
{
	json_t *all = json_array();
	unsigned int ran = 0;
	int code = EXIT_DONE;

	for (size_t i = 0; code == EXIT_DONE && i < NR_SEEDS; i++) {
		if (!wanted(user, &seeds[i]))
			continue;
		if (is_built(user, &seeds[i])) {
			code = run_seed(user, &seeds[i], all);
			ran++;
		} else if (user->nr_variants) { /* asked for by its number */
			code = EXIT_CANNOT;
		}
	}
	if (user->format == REPORT_JSON && ran) {
		json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
		putchar('\n');
	}
	json_decref(all);
	if (fflush(stdout) || ferror(stdout)) {
		message("cannot write the report: %s", strerror(errno));
		code = EXIT_CANNOT;
	}
	return ran ? code : EXIT_CANNOT;
}

int cmd_reproduce(int argc, char **argv)
{
	struct options options;
	int code = EXIT_CANNOT;

	if (options_read(&options, argc, argv, FOR_REPRODUCE) && check_words(&options))
		code = run_seeds(&options);
	options_free(&options);
	return code;
}
