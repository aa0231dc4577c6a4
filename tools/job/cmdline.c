// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline.h"
#include "fioinfo.h"

#define WHERE "command line"

enum argument { NO_ARGUMENT, ARGUMENT, OPTIONAL_ARGUMENT };

enum meaning {
	DROP,	 /* about output, which is kpolicy's here: dropped with a note */
	KEEP,	 /* handed on to every fio */
	SECTION, /* chooses sections of the job file */
	REFUSE,	 /* cannot be part of a comparison */
};

#define RUNS_NO_JOB "it makes fio print or test something and run no job"
#define REMOTE	    "the jobs would run in another process or on another machine than the engine"
#define TRIGGER	    "a trigger may end some runs and not others, and runs commands"

/* Options that only fio's command line has. */
static const struct cli_option {
	const char *name;
	char letter;
	enum argument argument;
	enum meaning meaning;
	const char *why; /* of a refusal */
} cli_options[] = {
	{ "output", 'o', ARGUMENT, DROP, NULL },
	{ "output-format", 'F', ARGUMENT, DROP, NULL },
	{ "append-terse", 'f', OPTIONAL_ARGUMENT, DROP, NULL },
	{ "minimal", 'm', NO_ARGUMENT, DROP, NULL },
	{ "terse-version", 'V', ARGUMENT, DROP, NULL },
	{ "eta", 'e', ARGUMENT, DROP, NULL },
	{ "eta-interval", 'O', ARGUMENT, DROP, NULL },
	{ "eta-newline", 'E', ARGUMENT, DROP, NULL },
	{ "status-interval", 'L', ARGUMENT, DROP, NULL },
	{ "bandwidth-log", 'b', NO_ARGUMENT, DROP, NULL },
	{ "debug", 'd', ARGUMENT, DROP, NULL },
	{ "idle-prof", 'I', ARGUMENT, DROP, NULL },
	{ "max-jobs", 'j', ARGUMENT, DROP, NULL },
	{ "aux-path", 'K', ARGUMENT, DROP, NULL },
	{ "readonly", 'r', NO_ARGUMENT, KEEP, NULL },
	{ "warnings-fatal", 'w', NO_ARGUMENT, KEEP, NULL },
	{ "alloc-size", 'a', ARGUMENT, KEEP, NULL },
	{ "section", 'x', ARGUMENT, SECTION, NULL },
	{ "latency-log", 'l', ARGUMENT, REFUSE, "fio no longer takes it; use write_lat_log" },
	{ "profile", 'p', ARGUMENT, REFUSE,
	  "a profile makes jobs of its own, with its own engine" },
	{ "client", 'C', ARGUMENT, REFUSE, REMOTE },
	{ "server", 'S', OPTIONAL_ARGUMENT, REFUSE, REMOTE },
	{ "daemonize", 'D', ARGUMENT, REFUSE, REMOTE },
	{ "remote-config", 'R', ARGUMENT, REFUSE, REMOTE },
	{ "trigger-file", 'W', ARGUMENT, REFUSE, TRIGGER },
	{ "trigger-timeout", 'B', ARGUMENT, REFUSE, TRIGGER },
	{ "trigger", 'H', ARGUMENT, REFUSE, TRIGGER },
	{ "trigger-remote", 'J', ARGUMENT, REFUSE, TRIGGER },
	{ "version", 'v', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "help", 'h', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "cmdhelp", 'c', OPTIONAL_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "enghelp", 'i', OPTIONAL_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "showcmd", 's', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "parse-only", 'P', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "inflate-log", 'X', ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "cpuclock-test", 'T', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "crctest", 'G', OPTIONAL_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "memcpytest", 'M', OPTIONAL_ARGUMENT, REFUSE, RUNS_NO_JOB },
	{ "merge-blktrace-only", 'A', NO_ARGUMENT, REFUSE, RUNS_NO_JOB },
};

struct command {
	char *const *next; /* word to be read */
	const char *fio;
	FILE *text; /* the job file as it grows */
	bool in_section;
	bool in_global;
	char *engine;	     /* of the section being read */
	char *global_engine; /* of [global], where sections begin */
	const char *job_file;
	struct text_list sections; /* --section */
	struct text_list *args;
	struct text_list *notes;
	char **error;
};

/* An option word taken apart. */
struct word {
	const char *typed;
	char name[64];
	const char *value; /* behind '=', or NULL */
};

static bool is_option(const char *word)
{
	return word[0] == '-' && word[1];
}

static int split_word(struct command *c, const char *typed, struct word *w)
{
	const char *name = typed + (typed[1] == '-' ? 2 : 1);
	size_t len = strcspn(name, "=");

	if (len >= sizeof(w->name))
		return text_error(c->error, EINVAL, WHERE ": fio has no option '%s'", typed);
	w->typed = typed;
	memcpy(w->name, name, len);
	w->name[len] = '\0';
	w->value = name[len] ? name + len + 1 : NULL;
	return 0;
}

/* A single letter behind a single dash is fio's short form. */
static const struct cli_option *find_cli_option(const struct word *w)
{
	bool is_short = w->typed[1] != '-' && w->typed[2] == '\0';

	for (size_t i = 0; i < sizeof(cli_options) / sizeof(cli_options[0]); i++) {
		const struct cli_option *o = &cli_options[i];

		if (!strcmp(o->name, w->name) || (is_short && o->letter == w->typed[1]))
			return o;
	}
	return NULL;
}

/* Takes the next word as the value of an option that needs one. */
static int need_value(struct command *c, struct word *w)
{
	if (!w->value && *c->next)
		w->value = *c->next++;
	if (!w->value || !*w->value)
		return text_error(c->error, EINVAL, WHERE ": option '%s' needs a value", w->typed);
	return 0;
}

static int take_cli_option(struct command *c, const struct cli_option *o, struct word *w)
{
	int ret = o->argument == ARGUMENT ? need_value(c, w) : 0;

	if (ret)
		return ret;
	switch (o->meaning) {
	case DROP:
		text_list_add(c->notes, WHERE ": --%s has no meaning in a comparison, dropped",
			      o->name);
		return 0;
	case KEEP:
		text_list_add(c->args, w->value ? "--%s=%s" : "--%s", o->name, w->value);
		return 0;
	case SECTION:
		text_list_add(&c->sections, "%s", w->value);
		return 0;
	case REFUSE:
		break;
	}
	return text_error(c->error, EOPNOTSUPP, WHERE ": --%s is refused: %s", o->name, o->why);
}

static void set_string(char **string, const char *value)
{
	char *old = *string;

	*string = xstrdup(value);
	free(old);
}

static void begin_section(struct command *c, const char *name)
{
	c->in_section = true;
	c->in_global = !strncmp(name, "global", strlen("global"));
	fprintf(c->text, "[%s]\n", name);
	set_string(&c->engine, c->global_engine);
}

/* fio recognizes an engine's options once the engine has been named. */
static int option_type(struct command *c, const struct word *w)
{
	int type = fioinfo_option(c->fio, w->name);

	if (type == FIO_OPTION_NONE)
		type = fioinfo_engine_option(c->fio, c->engine, w->name);
	if (type == FIO_OPTION_NONE)
		return text_error(c->error, EINVAL,
				  WHERE ": neither fio nor its engine %s has an option '%s'; write "
					"names in full, the engine's behind --ioengine",
				  c->engine, w->typed);
	if (type == -ENOENT || type == -EACCES)
		return text_error(c->error, -type, "cannot run '%s': %s", c->fio, strerror(-type));
	return type;
}

static int take_job_option(struct command *c, struct word *w)
{
	bool is_name = !strcmp(w->name, "name"), is_engine = !strcmp(w->name, "ioengine");
	int type = option_type(c, w), ret = 0;

	if (type < 0)
		return type;
	/* what is made use of below has to have one, whatever the fio at hand says */
	if (type == FIO_OPTION_VALUE || is_name || is_engine)
		ret = need_value(c, w);
	if (ret)
		return ret;
	if (w->value && !jobfile_can_write(w->value))
		return text_error(c->error, EOPNOTSUPP,
				  WHERE ": '%s=%s' cannot be written in a job file, which knows no "
					"quoting of ; # ${ $ncpus or blanks at the end",
				  w->name, w->value);
	if (is_name) {
		begin_section(c, w->value);
		return 0;
	}
	if (!c->in_section)
		begin_section(c, "global");
	fprintf(c->text, w->value ? "%s=%s\n" : "%s\n", w->name, w->value);
	if (is_engine)
		set_string(&c->engine, w->value);
	if (is_engine && c->in_global)
		set_string(&c->global_engine, w->value);
	return 0;
}

static int take_job_file(struct command *c, const char *path)
{
	if (c->job_file)
		return text_error(c->error, EOPNOTSUPP,
				  WHERE ": two job files, '%s' and '%s'; compare one at a time",
				  c->job_file, path);
	c->job_file = path;
	return 0;
}

static int take_words(struct command *c)
{
	bool options = true;
	int ret = 0;

	while (!ret && *c->next) {
		const char *typed = *c->next++;
		const struct cli_option *o;
		struct word w;

		if (options && !strcmp(typed, "--")) {
			options = false;
			continue;
		}
		if (!options || !is_option(typed)) {
			ret = take_job_file(c, typed);
			continue;
		}
		ret = split_word(c, typed, &w);
		if (ret)
			break;
		o = find_cli_option(&w);
		ret = o ? take_cli_option(c, o, &w) : take_job_option(c, &w);
	}
	return ret;
}

static int check_program(char *const *argv, char **error)
{
	const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argv[0];

	if (!name)
		return text_error(error, EINVAL, WHERE ": empty; write the fio command behind --");
	if (strncmp(name, "fio", strlen("fio")))
		return text_error(error, EINVAL,
				  WHERE
				  ": begins with '%s', not with fio; run kpolicy itself under "
				  "sudo, taskset or numactl",
				  argv[0]);
	return 0;
}

/* --section: what it does not name does not run; [global] always counts. */
static int keep_sections(struct jobfile *jf, const struct text_list *names, char **error)
{
	for (size_t i = 0; i < names->nr; i++) {
		size_t k = 0;

		while (k < jf->nr_sections &&
		       (!jf->sections[k].name || strcmp(jf->sections[k].name, names->item[i])))
			k++;
		if (k == jf->nr_sections)
			return text_error(error, EINVAL, WHERE ": there is no section '%s'",
					  names->item[i]);
	}
	for (size_t i = jf->nr_sections; names->nr && i-- > 0;)
		if (jobfile_is_job(&jf->sections[i]) && !text_list_has(names, jf->sections[i].name))
			jobfile_remove_section(jf, i);
	return 0;
}

/* Reads the words into *@text, to be freed by the caller. */
static int words_to_text(struct command *c, char **text)
{
	struct stream stream;
	int ret;

	c->engine = xstrdup("psync");
	c->global_engine = xstrdup("psync");
	c->text = stream_open(&stream);
	ret = take_words(c);
	*text = stream_text(&stream);
	return ret;
}

int cmdline_read(char *const *argv, const char *fio, struct jobfile *jf, struct text_list *args,
		 struct text_list *notes, char **error)
{
	struct command c = { .fio = fio, .args = args, .notes = notes, .error = error };
	char *text = NULL;
	int ret;

	*error = NULL;
	ret = check_program(argv, error);
	if (ret)
		return ret;
	c.next = argv + 1;
	ret = words_to_text(&c, &text);
	if (!ret)
		ret = jobfile_parse(jf, WHERE, false, text, error);
	if (!ret && c.job_file)
		ret = jobfile_read(jf, c.job_file, error);
	if (!ret)
		ret = keep_sections(jf, &c.sections, error);
	free(text);
	free(c.engine);
	free(c.global_engine);
	text_list_free(&c.sections);
	return ret;
}
