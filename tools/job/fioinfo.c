// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fioinfo.h"

extern char **environ;

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
 * All of @fd up to its end, or NULL without memory. A signal to us does not end it: fio gets the
 * terminal's itself, and who asked for this sees what came of it.
 */
static char *read_all(int fd)
{
	char *text = NULL, part[4096];
	size_t size;
	FILE *to = open_memstream(&text, &size);
	ssize_t got = to ? 0 : -1;

	while (to && ((got = read(fd, part, sizeof(part))) > 0 || (got < 0 && errno == EINTR)))
		if (got > 0)
			fwrite(part, 1, got, to);
	close(fd);
	if (to && fclose(to))
		got = -1;
	if (!got)
		return text;
	free(text);
	return NULL;
}

/* Returns 0 or a positive errno, as posix_spawn() does. */
static int spawn_fio(const char *fio, const char *argument, int out, pid_t *pid)
{
	char *argv[] = { (char *)fio, (char *)argument, NULL };
	posix_spawn_file_actions_t actions;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return err;
	err = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (!err)
		err = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (!err)
		err = posix_spawnp(pid, fio, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

/* The exit code of @pid; -EINTR: the user stopped it; -EIO: it has none, or nothing to execute. */
static int exit_code(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -EIO;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		return -EINTR;
	return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -EIO;
}

/*
 * Runs "@fio --@option=@value". Returns its stdout, to be freed, with *@code its exit code; or
 * NULL with *@code -errno.
 */
static char *ask(const char *fio, const char *option, const char *value, int *code)
{
	char *argument, *text;
	int pipefd[2], err, status;
	pid_t pid;

	*code = -ENOMEM;
	if (asprintf(&argument, "--%s=%s", option, value) < 0)
		return NULL;
	if (pipe2(pipefd, O_CLOEXEC)) {
		*code = -errno;
		free(argument);
		return NULL;
	}
	err = spawn_fio(fio, argument, pipefd[1], &pid);
	free(argument);
	close(pipefd[1]);
	if (err) {
		*code = -err;
		close(pipefd[0]);
		return NULL;
	}
	text = read_all(pipefd[0]);
	status = exit_code(pid);
	if (text)
		*code = status;
	if (status >= 0)
		return text;
	free(text);
	return NULL;
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
	char *query;
	int ret;

	if (asprintf(&query, "%s,%s", engine, key) < 0)
		return -ENOMEM;
	ret = ask_type(fio, "enghelp", query);
	free(query);
	return ret;
}

/* fio prints one option a line: "name   : help", the name indented below its parent's. */
static int take_names(char *help, struct text_list *names)
{
	char *line;
	int ret = 0;

	while (!ret && (line = strsep(&help, "\n"))) {
		size_t blanks = strspn(line, " \t");
		size_t len = strcspn(line + blanks, " \t:");
		char *colon = line + blanks + len + strspn(line + blanks + len, " \t");

		if (len && *colon == ':')
			ret = text_list_add(names, "%.*s", (int)len, line + blanks);
	}
	return ret;
}

static int take_table(const char *engine, struct text_list *names)
{
	for (size_t i = 0; i < sizeof(engine_table) / sizeof(engine_table[0]); i++) {
		char *copy, *rest, *name;
		int ret = 0;

		if (strcmp(engine_table[i].engine, engine))
			continue;
		copy = rest = strdup(engine_table[i].options);
		if (!copy)
			return -ENOMEM;
		while (!ret && (name = strsep(&rest, " ")))
			if (*name)
				ret = text_list_add(names, "%s", name);
		free(copy);
		return ret;
	}
	return -ENOENT;
}

int fioinfo_engine_options(const char *fio, const char *engine, struct text_list *names)
{
	size_t before = names->nr;
	int code, ret = 0;
	char *help = ask(fio, "enghelp", engine, &code);

	if (!help && code == -ENOMEM)
		return code;
	if (help && code == 0)
		ret = take_names(help, names);
	free(help);
	/* an engine without options and one that is not there both end in exit code 1 */
	if (!ret && names->nr == before)
		ret = take_table(engine, names);
	return ret;
}
