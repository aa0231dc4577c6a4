// SPDX-License-Identifier: GPL-2.0-only
/* The kpolicy command: which command is meant, and its help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"
#include "util/spawn.h"
#include "util/util.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	unsigned int options; /* of options_for; 0: it takes none */
	const char *help;
};

static const char help_all[] =
	"kpolicy compares Linux I/O policies under your own fio job.\n"
	"\n"
	"  kpolicy compare JOB.fio VARIANT VARIANT...   which is faster, how sure, why\n"
	"  kpolicy compare VARIANT... -- fio --name=... the same for a fio command line\n"
	"  kpolicy sweep JOB.fio VARIANT... --over bs=4k,8k,64k\n"
	"  kpolicy report DIR                           print a result again\n"
	"  kpolicy list [POLICY]                        the variants\n"
	"  kpolicy show VARIANT                         what one does and leaves out\n"
	"  kpolicy reproduce [N...]                     published figures beside yours\n"
	"\n"
	"A variant is ENGINE:POLICY[,option=value...], ENGINE:kernel=VERSION or native.\n"
	"kpolicy COMMAND --help says more, man kpolicy all.\n";

static const char help_compare[] =
	"kpolicy compare JOB.fio VARIANT VARIANT... [OPTION...] [-- fio ARG...]\n"
	"The first variant is the control. The job file is only read.\n";

static const char help_sweep[] =
	"kpolicy sweep JOB.fio VARIANT VARIANT... --over KEY=VALUES [OPTION...]\n"
	"Compares at each value of a job or engine option; finds where variants cross.\n"
	"--output DIR keeps each point as a comparison: kpolicy report DIR/bs=4k.\n";

static const char help_report[] =
	"kpolicy report DIR [OPTION...]\n"
	"Prints a comparison that was run with --output DIR again. Nothing is run.\n";

static const char help_list[] =
	"kpolicy list [POLICY]\n"
	"The variants: the kernels that had them, the commit, what they do.\n";

static const char help_show[] = "kpolicy show VARIANT\n"
				"What a variant does, what it leaves out, where it comes from.\n";

static const char help_reproduce[] =
	"kpolicy reproduce [N...] [OPTION...]\n"
	"The five published reports, or those named: their figures beside yours.\n"
	"--runtime (1) and --rounds (8) say how long a row takes.\n";

static const struct command commands[] = {
	{ "compare", cmd_compare, FOR_COMPARE, help_compare },
	{ "sweep", cmd_sweep, FOR_SWEEP, help_sweep },
	{ "report", cmd_report, FOR_REPORT, help_report },
	{ "list", cmd_list, 0, help_list },
	{ "show", cmd_show, 0, help_show },
	{ "reproduce", cmd_reproduce, FOR_REPRODUCE, help_reproduce },
};

static const char exit_codes[] =
	"\nExit codes: 0 done, 2 cannot, 3 slower, 4 undecided, 128 + signal.\n";

static const struct command *find_command(const char *name)
{
	if (!strcmp(name, "seeds")) /* its former name */
		name = "reproduce";
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static int print_help(const struct command *c)
{
	fputs(c ? c->help : help_all, stdout);
	if (c && c->options) {
		putchar('\n');
		options_help(c->options, stdout);
		fputs(exit_codes, stdout);
	}
	return fflush(stdout) ? EXIT_CANNOT : EXIT_DONE;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Behind '--' stands a fio command line. */
static bool wants_help(char **argv)
{
	for (; *argv && strcmp(*argv, "--"); argv++)
		if (is_help(*argv))
			return true;
	return false;
}

static int unknown_command(const char *name)
{
	const char *names[ARRAY_SIZE(commands) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	const char *near = text_nearest(name, names);

	if (near)
		message("no command '%s': did you mean '%s'?", name, near);
	else
		message("no command '%s': see kpolicy --help", name);
	return EXIT_CANNOT;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		message("which command? see kpolicy --help");
		return EXIT_CANNOT;
	}
	if (is_help(argv[1]) || !strcmp(argv[1], "help"))
		return print_help(argc > 2 ? find_command(argv[2]) : NULL);
	if (!strcmp(argv[1], "--version")) {
		puts("kpolicy " KP_VERSION);
		return EXIT_DONE;
	}
	const struct command *command = find_command(argv[1]);

	if (!command)
		return unknown_command(argv[1]);
	if (wants_help(argv + 2))
		return print_help(command);
	int ret = spawn_init();

	if (ret) {
		message("cannot adopt fio's jobs: %s", strerror(-ret));
		return EXIT_CANNOT;
	}
	int code = command->run(argc - 1, argv + 1);

	/* What could not be done because the user stopped it. */
	return code == EXIT_CANNOT && spawn_interrupted() ? 128 + spawn_interrupted() : code;
}
