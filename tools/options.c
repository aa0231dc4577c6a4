// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/stats.h"
#include "options.h"
#include "util/units.h"
#include "util/util.h"

#define MOST_ROUNDS 1000
#define FIRST_LONG  256 /* beyond every character */

#define LINE_WIDTH    79
#define SECOND_COLUMN 42

enum option_row {
	OPT_SET,
	OPT_RUNTIME,
	OPT_SIZE,
	OPT_TARGET,
	OPT_CPUS,
	OPT_OVER,
	OPT_DEVICE,
	OPT_SHOW,
	OPT_STRICT,
	OPT_FORCE,
	OPT_DESTRUCTIVE,
	OPT_ALLOW_EXEC,
	OPT_ROUNDS,
	OPT_PRECISION,
	OPT_TIME,
	OPT_TIMEOUT,
	OPT_KEEP_GOING,
	OPT_FIO,
	OPT_ENGINE_DIR,
	OPT_FORMAT,
	OPT_PLOT,
	OPT_HTML,
	OPT_OUTPUT,
	OPT_RESUME,
	OPT_SLOWER,
	OPT_UNDECIDED,
	OPT_QUIET,
	OPT_HELP,
	NR_OPTIONS,
};

#define RUNS   (FOR_COMPARE | FOR_SWEEP | FOR_REPRODUCE)
#define PRINTS (RUNS | FOR_REPORT | FOR_RESUME)
#define ALL    (PRINTS)

/*
 * Every option, and who takes it: help, completion (which reads the help) and refusals follow from
 * here. FOR_RESUME: also beside --resume, where all else is as it was at the beginning.
 */
static const struct {
	const char *name, *value; /* NULL: it stands alone */
	unsigned int commands;
	const char *help;
} rows[NR_OPTIONS] = {
	[OPT_SET] = { "set", "KEY=VALUE", RUNS,
		      "a job or engine option for every run; repeatable" },
	[OPT_RUNTIME] = { "runtime", "S", RUNS, "the same for runtime" },
	[OPT_SIZE] = { "size", "S", RUNS, "and for size" },
	[OPT_TARGET] = { "target", "PATH", FOR_COMPARE | FOR_SWEEP, "file, device, directory" },
	[OPT_CPUS] = { "cpus", "LIST", RUNS, "pin every job" },
	[OPT_OVER] = { "over", "KEY=VALUES", FOR_SWEEP, "4k,16k,64k, or 4k:1m*2, or 1:16+5" },
	[OPT_DEVICE] = { "device", "PATH", FOR_REPRODUCE,
			 "this device or file, not the null device" },
	[OPT_SHOW] = { "show", NULL, FOR_COMPARE, "how the job changes; run nothing" },
	[OPT_STRICT] = { "strict", NULL, RUNS, "drop no option: refuse" },
	[OPT_FORCE] = { "force", NULL, RUNS, "run what is not comparable" },
	[OPT_DESTRUCTIVE] = { "destructive", NULL, RUNS | FOR_RESUME, "may write devices" },
	[OPT_ALLOW_EXEC] = { "allow-exec", NULL, RUNS | FOR_RESUME, "may run exec_prerun" },
	[OPT_ROUNDS] = { "rounds", "N", RUNS | FOR_RESUME, "at most so many" },
	[OPT_PRECISION] = { "precision", "PCT", RUNS | FOR_RESUME, "width to reach (2)" },
	[OPT_TIME] = { "time", "T", RUNS | FOR_RESUME, "at most so long (90s, 2h)" },
	[OPT_TIMEOUT] = { "timeout", "T", RUNS | FOR_RESUME, "one run at most" },
	[OPT_KEEP_GOING] = { "keep-going", NULL, RUNS | FOR_RESUME, "past a failed run" },
	[OPT_FIO] = { "fio", "PATH", RUNS, "another fio" },
	[OPT_ENGINE_DIR] = { "engine-dir", "DIR", RUNS, "other engines" },
	[OPT_FORMAT] = { "format", "F", PRINTS, "text, markdown, csv, json" },
	[OPT_PLOT] = { "plot", "FILE", FOR_COMPARE | FOR_SWEEP | FOR_REPORT | FOR_RESUME,
		       "a picture, .svg or .png" },
	[OPT_HTML] = { "html", "FILE", FOR_COMPARE | FOR_REPORT | FOR_RESUME, "all on one page" },
	[OPT_OUTPUT] = { "output", "DIR", RUNS, "keep everything" },
	[OPT_RESUME] = { "resume", "DIR", FOR_COMPARE | FOR_RESUME, "go on with it" },
	[OPT_SLOWER] = { "fail-if-slower", "PCT", PRINTS, "exit 3" },
	[OPT_UNDECIDED] = { "fail-if-undecided", NULL, PRINTS, "exit 4" },
	[OPT_QUIET] = { "quiet", NULL, RUNS | FOR_RESUME, "no progress" },
	[OPT_HELP] = { "help", NULL, ALL, "this" },
};

/* Two short ones on a line, so that all fit a screen. */
void options_help(unsigned int command, FILE *to)
{
	int column = 0;

	for (size_t i = 0; i < NR_OPTIONS; i++) {
		if (!(rows[i].commands & command) || i == OPT_HELP)
			continue;
		char *name = format("--%s%s%s", rows[i].name, rows[i].value ? " " : "",
				    rows[i].value ? rows[i].value : "");
		char *text = format("%-15s  %s", name, rows[i].help);
		bool fits = column && column < SECOND_COLUMN &&
			    SECOND_COLUMN + strlen(text) <= LINE_WIDTH;

		if (fits)
			fprintf(to, "%*s%s\n", SECOND_COLUMN - column, "", text);
		else
			column = fprintf(to, "%s  %s", column ? "\n" : "", text) - !!column;
		if (fits)
			column = 0;
		free(name);
		free(text);
	}
	if (column)
		fputc('\n', to);
}

void options_set(struct options *options, const char *key, const char *value)
{
	options->set = xrealloc(options->set, options->nr_set + 1, sizeof(*options->set));
	options->set[options->nr_set++] = (struct setting){ xstrdup(key), xstrdup(value) };
}

static bool set_pair(struct options *options, const char *pair)
{
	const char *equals = strchr(pair, '=');

	if (!equals || equals == pair) {
		message("--set %s: write --set key=value", pair);
		return false;
	}
	char *key = format("%.*s", (int)(equals - pair), pair);

	options_set(options, key, equals + 1);
	free(key);
	return true;
}

/* fio takes a ':' for the end of a file's name, unless a backslash stands before it. */
static char *escape_colons(const char *path)
{
	char *escaped = xcalloc(2 * strlen(path) + 1, 1), *to = escaped;

	for (; *path; *to++ = *path++)
		if (*path == ':')
			*to++ = '\\';
	return escaped;
}

void options_set_target(struct options *options, const char *path)
{
	struct stat st;
	bool dir = !stat(path, &st) && S_ISDIR(st.st_mode);
	char *escaped = escape_colons(path);

	options_set(options, dir ? "directory" : "filename", escaped);
	options->target = path;
	free(escaped);
}

static bool set_rounds(struct options *options, const char *text)
{
	char *end;
	unsigned long rounds = strtoul(text, &end, 10);

	if (end == text || *end || rounds < JUDGE_MIN_ROUNDS || rounds > MOST_ROUNDS) {
		message("--rounds %s: give a number from %u to %u", text, JUDGE_MIN_ROUNDS,
			MOST_ROUNDS);
		return false;
	}
	options->rounds = rounds;
	return true;
}

static bool set_percent(const char *option, const char *text, double *share)
{
	if (parse_percent(text, share) && *share < 1)
		return true;
	message("%s %s: give per cent, more than 0 and less than 100", option, text);
	return false;
}

static bool set_duration(const char *option, const char *text, double *seconds)
{
	if (parse_duration(text, seconds))
		return true;
	message("%s %s: give a time such as 90s, 10m or 2h", option, text);
	return false;
}

static bool set_format(struct options *options, const char *name)
{
	if (report_parse_format(name, &options->format))
		return true;
	message("--format %s: text, json, csv or markdown", name);
	return false;
}

static bool take_option(struct options *o, enum option_row option, char *arg)
{
	switch (option) {
	case OPT_SET:
		return set_pair(o, arg);
	case OPT_RUNTIME:
		options_set(o, "runtime", arg);
		return true;
	case OPT_SIZE:
		options_set(o, "size", arg);
		return true;
	case OPT_TARGET:
		options_set_target(o, arg);
		return true;
	case OPT_ROUNDS:
		return set_rounds(o, arg);
	case OPT_PRECISION:
		return set_percent("--precision", arg, &o->precision);
	case OPT_SLOWER:
		return set_percent("--fail-if-slower", arg, &o->fail_if_slower);
	case OPT_TIME:
		return set_duration("--time", arg, &o->time);
	case OPT_TIMEOUT:
		return set_duration("--timeout", arg, &o->timeout);
	case OPT_FORMAT:
		return set_format(o, arg);
	case OPT_CPUS:
		o->cpus = arg;
		return true;
	case OPT_FIO:
		o->fio = arg;
		return true;
	case OPT_ENGINE_DIR:
		free(o->engine_dir);
		o->engine_dir = xstrdup(arg);
		return true;
	case OPT_OUTPUT:
		o->output = arg;
		return true;
	case OPT_RESUME:
		o->resume = arg;
		return true;
	case OPT_PLOT:
		o->plot = arg;
		return true;
	case OPT_HTML:
		o->html = arg;
		return true;
	case OPT_OVER:
		o->over = arg;
		return true;
	case OPT_DEVICE:
		o->device = arg;
		return true;
	case OPT_UNDECIDED:
		return o->fail_if_undecided = true;
	case OPT_SHOW:
		return o->show = true;
	case OPT_STRICT:
		return o->strict = true;
	case OPT_FORCE:
		return o->force = true;
	case OPT_DESTRUCTIVE:
		return o->destructive = true;
	case OPT_ALLOW_EXEC:
		return o->allow_exec = true;
	case OPT_KEEP_GOING:
		return o->keep_going = true;
	case OPT_QUIET:
		return o->quiet = true;
	case OPT_HELP:
		return true; /* kpolicy has looked for it */
	case NR_OPTIONS:
		break;
	}
	return false;
}

/* getopt names what it does not like; we do it in our own form, with the nearest name. */
static void name_bad_option(int option, char *const *argv, unsigned int command)
{
	const char *names[NR_OPTIONS + 1];
	size_t nr = 0;
	const char *word = argv[optind - 1];

	for (size_t i = 0; i < NR_OPTIONS; i++)
		if (rows[i].commands & command)
			names[nr++] = rows[i].name;
	names[nr] = NULL;
	if (option == ':') {
		message("%s needs a value", word);
		return;
	}
	const char *name = text_nearest(word + strspn(word, "-"), names);

	if (name)
		message("unknown option %s: did you mean --%s?", word, name);
	else
		message("unknown option %s: see kpolicy %s --help", word, argv[0]);
}

/* What a command does not do is refused: who says --show must not find that it ran. */
static bool is_taken(enum option_row option, const char *name, unsigned int command)
{
	if (rows[option].commands & command)
		return true;
	message("%s has no --%s: see kpolicy %s --help", name, rows[option].name, name);
	return false;
}

static bool check_resume(const struct options *options, const bool *given)
{
	if (options->nr_variants || options->input.path || options->input.argv) {
		message("--resume %s goes on with the job and the variants it was begun with: "
			"leave '%s'",
			options->resume,
			options->input.path ? options->input.path
					    : (options->nr_variants ? options->variants[0] : "--"));
		return false;
	}
	for (size_t i = 0; i < NR_OPTIONS; i++) {
		if (!given[i] || (rows[i].commands & FOR_RESUME))
			continue;
		message("--%s cannot be changed by --resume %s: leave it, or begin anew",
			rows[i].name, options->resume);
		return false;
	}
	return true;
}

static void fill_long_options(struct option long_options[NR_OPTIONS + 1])
{
	for (int i = 0; i < NR_OPTIONS; i++)
		long_options[i] = (struct option){ rows[i].name,
						   rows[i].value ? required_argument : no_argument,
						   NULL, FIRST_LONG + i };
	long_options[NR_OPTIONS] = (struct option){ 0 };
}

/* A fio command line stands after '--', with or without the word fio. */
static void take_fio_line(struct options *options, int argc, char **argv, int at)
{
	static char fio_word[] = "fio";
	const char *first = at + 1 < argc ? argv[at + 1] : "";
	char **line = argv + at;

	if (*first == '-') /* no fio before its options: it stands where '--' was */
		line[0] = fio_word;
	else
		line++;
	options->input.argv = line;
}

static int find_separator(int argc, char **argv)
{
	int at = 1;

	while (at < argc && strcmp(argv[at], "--"))
		at++;
	return at;
}

static int option_index(int option)
{
	switch (option) {
	case 'q':
		return OPT_QUIET;
	case 'h':
		return OPT_HELP;
	}
	return option - FIRST_LONG;
}

bool options_read(struct options *options, int argc, char **argv, unsigned int command)
{
	int end = find_separator(argc, argv), option;
	bool job = command & (FOR_COMPARE | FOR_SWEEP), given[NR_OPTIONS] = { false };
	struct option long_options[NR_OPTIONS + 1];

	*options = (struct options){ .fio = KP_FIO, .engine_dir = options_engine_dir() };
	fill_long_options(long_options);
	if (end < argc) {
		take_fio_line(options, argc, argv, end);
		if (!options->input.argv[0]) {
			message("after -- stands a fio command line: -- fio --name=x "
				"--rw=randread");
			return false;
		}
	}
	optind = 0; /* a fresh start, for GNU getopt */
	while ((option = getopt_long(end, argv, "+:qh", long_options, NULL)) != -1 ||
	       optind < end) {
		if (option == -1 && job && !options->input.path && !options->input.argv) {
			options->input.path = argv[optind++];
		} else if (option == -1) {
			options->variants = xrealloc(options->variants, options->nr_variants + 1,
						     sizeof(*options->variants));
			options->variants[options->nr_variants++] = argv[optind++];
		} else if (option == '?' || option == ':') {
			name_bad_option(option, argv, command);
			return false;
		} else {
			int i = option_index(option);

			given[i] = true;
			if (!is_taken(i, argv[0], command) || !take_option(options, i, optarg))
				return false;
		}
	}
	return !options->resume || check_resume(options, given);
}

void options_free(struct options *options)
{
	for (size_t i = 0; i < options->nr_set; i++) {
		free(options->set[i].key);
		free(options->set[i].value);
	}
	free(options->set);
	free(options->variants);
	free(options->engine_dir);
	*options = (struct options){ 0 };
}

char *options_engine_dir(void)
{
	const char *set = getenv("KPOLICY_ENGINE_DIR");
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (set && *set)
		return xstrdup(set);
	for (int up = 0; len > 0 && up < 2; up++) { /* tools/kpolicy of a source tree */
		while (len && self[--len] != '/')
			;
		self[len] = '\0';
	}
	char *map = format("%s/engines/engine.map", self);
	bool source_tree = len > 0 && !access(map, F_OK);

	free(map);
	return source_tree ? format("%s/engines", self) : xstrdup(KP_ENGINE_DIR);
}
