// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "judge.h"
#include "options.h"
#include "units.h"
#include "text.h"
#include "util.h"

#define MOST_ROUNDS 1000

enum {
	OPT_SET = 256,
	OPT_RUNTIME,
	OPT_SIZE,
	OPT_TARGET,
	OPT_ROUNDS,
	OPT_PRECISION,
	OPT_TIME,
	OPT_TIMEOUT,
	OPT_CPUS,
	OPT_FIO,
	OPT_ENGINE_DIR,
	OPT_OUTPUT,
	OPT_RESUME,
	OPT_FORMAT,
	OPT_PLOT,
	OPT_HTML,
	OPT_OVER,
	OPT_DEVICE,
	OPT_SLOWER,
	OPT_UNDECIDED,
	OPT_SHOW,
	OPT_STRICT,
	OPT_FORCE,
	OPT_DESTRUCTIVE,
	OPT_ALLOW_EXEC,
	OPT_KEEP_GOING,
};

static const struct option long_options[] = {
	{ "set", required_argument, NULL, OPT_SET },
	{ "runtime", required_argument, NULL, OPT_RUNTIME },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "target", required_argument, NULL, OPT_TARGET },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "precision", required_argument, NULL, OPT_PRECISION },
	{ "time", required_argument, NULL, OPT_TIME },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "cpus", required_argument, NULL, OPT_CPUS },
	{ "fio", required_argument, NULL, OPT_FIO },
	{ "engine-dir", required_argument, NULL, OPT_ENGINE_DIR },
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "resume", required_argument, NULL, OPT_RESUME },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "html", required_argument, NULL, OPT_HTML },
	{ "over", required_argument, NULL, OPT_OVER },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "fail-if-slower", required_argument, NULL, OPT_SLOWER },
	{ "fail-if-undecided", no_argument, NULL, OPT_UNDECIDED },
	{ "show", no_argument, NULL, OPT_SHOW },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "force", no_argument, NULL, OPT_FORCE },
	{ "destructive", no_argument, NULL, OPT_DESTRUCTIVE },
	{ "allow-exec", no_argument, NULL, OPT_ALLOW_EXEC },
	{ "keep-going", no_argument, NULL, OPT_KEEP_GOING },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

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

static void set_target(struct options *options, const char *path)
{
	struct stat st;
	bool dir = !stat(path, &st) && S_ISDIR(st.st_mode);

	options_set(options, dir ? "directory" : "filename", path);
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

static bool take_option(struct options *o, int option, char *arg)
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
		set_target(o, arg);
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
	case 'q':
		return o->quiet = true;
	case 'h':
		return o->help = true;
	}
	return false;
}

/* getopt names what it does not like; we do it in our own form, with the nearest name. */
static void name_bad_option(int option, char *const *argv)
{
	const char *names[ARRAY_SIZE(long_options)];
	size_t nr = 0;
	const char *word = argv[optind - 1];

	for (const struct option *o = long_options; o->name; o++)
		names[nr++] = o->name;
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

bool options_read(struct options *options, int argc, char **argv, bool job)
{
	int end = find_separator(argc, argv), option;

	*options = (struct options){ .fio = KP_FIO, .engine_dir = options_engine_dir() };
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
			name_bad_option(option, argv);
			return false;
		} else if (!take_option(options, option, optarg)) {
			return false;
		}
	}
	return true;
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
