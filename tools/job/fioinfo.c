// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fioinfo.h"
#include "util/spawn.h"

/* Aliases of fio 3.25 to 3.42. */
static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "allrandrepeat", "randrepeat" },
	{ "blockalign", "ba" },
	{ "blocksize", "bs" },
	{ "blocksize_range", "bsrange" },
	{ "blocksize_unaligned", "bs_unaligned" },
	{ "data_placement", "dataplacement" },
	{ "disable_bw", "disable_bw_measurement" },
	{ "fdp_pli", "plids" },
	{ "fdp_pli_select", "plid_select" },
	{ "fileoffset", "offset" },
	{ "fill_fs", "fill_device" },
	{ "io_limit", "io_size" },
	{ "iodepth_batch_complete", "iodepth_batch_complete_min" },
	{ "iodepth_batch_submit", "iodepth_batch" },
	{ "iomem", "mem" },
	{ "log_max_value", "log_window_value" },
	{ "log_unix_epoch", "log_alternate_epoch" },
	{ "mem_align", "iomem_align" },
	{ "nr_files", "nrfiles" },
	{ "ratecycle", "rate_cycle" },
	{ "ratemin", "rate_min" },
	{ "readwrite", "rw" },
	{ "ss", "steadystate" },
	{ "ss_dur", "steadystate_duration" },
	{ "ss_interval", "steadystate_check_interval" },
	{ "ss_ramp", "steadystate_ramp_time" },
	{ "timeout", "runtime" },
	{ "wait_for_previous", "stonewall" },
};

/* The engines an exchange meets, for a fio that was built without one of them. */
static const struct {
	const char *engine, *options;
} engine_table[] = {
	{ "sync", "" },
	{ "psync", "" },
	{ "vsync", "" },
	{ "pvsync", "" },
	{ "posixaio", "" },
	{ "pvsync2", "hipri hipri_percentage uncached nowait" },
	{ "libaio", "userspace_reap libaio_vectored nowait cmdprio cmdprio_percentage "
		    "cmdprio_class cmdprio_hint cmdprio_bssplit" },
	{ "io_uring",
	  "hipri fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored uncached "
	  "nowait force_async cmd_type cmdprio cmdprio_percentage cmdprio_class cmdprio_hint "
	  "cmdprio_bssplit readfua writefua write_mode verify_mode md_per_io_size pi_act pi_chk "
	  "apptag apptag_mask deac" },
};

const char *fioinfo_name(const char *key)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].alias, key))
			return aliases[i].name;
	return key;
}

/*
 * Runs "@fio --@option=@value". Returns its stdout, to be freed, with *@code its exit code; or
 * NULL with *@code -errno.
 */
static char *ask(const char *fio, const char *option, const char *value, int *code)
{
	char *argument = format("--%s=%s", option, value), *text;
	const char *const argv[] = { fio, argument, NULL };

	*code = spawn_read(argv, &text);
	free(argument);
	return text;
}

/* "type: empty or boolean value" is fio's way to describe an option that may stand alone. */
static enum fio_option_type type_of(const char *help)
{
	if (!strstr(help, "type: "))
		return FIO_OPTION_NONE;
	return strstr(help, "type: empty or boolean") ? FIO_OPTION_OPTIONAL : FIO_OPTION_VALUE;
}

/* fio exits with 1 when it has no such option; its help is that of the nearest then. */
static int ask_type(const char *fio, const char *option, const char *value)
{
	enum fio_option_type type;
	int code;
	char *help = ask(fio, option, value, &code);

	if (!help)
		return code;
	type = code ? FIO_OPTION_NONE : type_of(help);
	free(help);
	return type;
}

int fioinfo_option(const char *fio, const char *key)
{
	if (!strcmp(key, "all")) /* fio's word for every option */
		return FIO_OPTION_NONE;
	return ask_type(fio, "cmdhelp", key);
}

int fioinfo_engine_option(const char *fio, const char *engine, const char *key)
{
	char *query = format("%s,%s", engine, key);
	int ret = ask_type(fio, "enghelp", query);

	free(query);
	return ret;
}

/* fio prints one option a line: "name   : help", the name indented below its parent's. */
static void take_names(char *help, struct text_list *names)
{
	char *line;

	while ((line = strsep(&help, "\n"))) {
		size_t blanks = strspn(line, " \t");
		size_t len = strcspn(line + blanks, " \t:");
		char *colon = line + blanks + len + strspn(line + blanks + len, " \t");

		if (len && *colon == ':')
			text_list_add(names, "%.*s", (int)len, line + blanks);
	}
}

static int take_table(const char *engine, struct text_list *names)
{
	for (size_t i = 0; i < sizeof(engine_table) / sizeof(engine_table[0]); i++) {
		char *copy, *rest, *name;

		if (strcmp(engine_table[i].engine, engine))
			continue;
		copy = rest = xstrdup(engine_table[i].options);
		while ((name = strsep(&rest, " ")))
			if (*name)
				text_list_add(names, "%s", name);
		free(copy);
		return 0;
	}
	return -ENOENT;
}

int fioinfo_engine_options(const char *fio, const char *engine, struct text_list *names)
{
	size_t before = names->nr;
	int code;
	char *help = ask(fio, "enghelp", engine, &code);

	if (help && code == 0)
		take_names(help, names);
	free(help);
	/* an engine without options and one that is not there both end in exit code 1 */
	return names->nr == before ? take_table(engine, names) : 0;
}
