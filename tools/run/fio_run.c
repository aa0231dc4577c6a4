// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fio_run.h"
#include "util/spawn.h"
#include "util/util.h"

#define OLDEST_MAJOR 3 /* total latency with percentiles and bins, and the engines' range */
#define OLDEST_MINOR 25

/* ---- fio ----------------------------------------------------------------------------------- */

static bool disk_full(const char *path)
{
	char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	struct statvfs st;

	if (slash)
		*slash = '\0';
	bool full =
		!statvfs(slash ? dir : ".", &st) && (!st.f_bavail || (st.f_files && !st.f_favail));
	free(dir);
	return full;
}

/* The first line that fio said, for the case that it said why it ended. */
static char *first_words(const char *path)
{
	char *text = read_whole(path, NULL);
	char *line = NULL;

	for (char *at = text; at && *at && !line; at += strcspn(at, "\n"), at += *at == '\n') {
		size_t len = strcspn(at, "\n");

		if (len && *at != '{' && strncmp(at, "note:", 5))
			line = format("%.*s", (int)len, at);
		else if (*at == '{')
			break;
	}
	free(text);
	return line;
}

char *fio_words(const char *output)
{
	char *errors = format("%s.err", output);
	char *words = first_words(errors);

	free(errors);
	return words ? words : first_words(output);
}

static char *why_ended(int status, const char *output, const char *errors)
{
	char *words = first_words(errors);

	if (!words)
		words = first_words(output);
	char *how = WIFSIGNALED(status)
			    ? format("fio was killed by signal %d (%s)", WTERMSIG(status),
				     strsignal(WTERMSIG(status)))
			    : format("fio ended with exit code %d", WEXITSTATUS(status));
	char *reason = words ? format("%s: %s", how, words) : xstrdup(how);

	free(words);
	free(how);
	return reason;
}

/* Adds to an error what the engine or fio printed about it. Takes @reason, which may be NULL. */
static char *with_words(char *reason, const char *errors)
{
	char *words = reason ? first_words(errors) : NULL;

	if (!words)
		return reason;
	char *all = strstr(words, reason) ? xstrdup(words) : format("%s: %s", reason, words);

	free(words);
	free(reason);
	return all;
}

/* Runs that ended by themselves: is the result there, and good? */
static int judge_run(const struct fio_run *fio, int status, const char *partial, const char *errors,
		     struct run_result *result, char **reason)
{
	char *unreadable = NULL;
	int ret = result_read(partial, result, &unreadable);

	if (!ret)
		comparison_classify(fio->comparison, result);
	/* The job's own error says more than the exit code, and what was printed more than both. */
	*reason = ret ? NULL : with_words(result_error(result, status), errors);
	if (!*reason && ret && disk_full(partial))
		*reason = format("%s: %s", partial, strerror(ENOSPC));
	if (!*reason && status)
		*reason = why_ended(status, partial, errors);
	if (!*reason)
		*reason = ret ? xstrdup(unreadable) : result_idle(result);
	free(unreadable);
	if (!*reason)
		return 0;
	result_free(result);
	return -EIO;
}

static const char **fio_argv(const struct fio_run *fio, const char *output_option)
{
	size_t at = 0;
	const char **argv = xcalloc(fio->args->nr + 6, sizeof(*argv));

	argv[at++] = fio->fio;
	for (size_t i = 0; i < fio->args->nr; i++)
		argv[at++] = fio->args->item[i];
	argv[at++] = "--eta=never";
	argv[at++] = "--output-format=json+";
	argv[at++] = output_option;
	argv[at++] = fio->job;
	return argv;
}

static int put_number(FILE *to, const void *number)
{
	return fprintf(to, "%.6f\n", *(const double *)number) < 0 ? -EIO : 0;
}

/* The CPU time first: where the result is, it is there too. */
static int name_result(const struct fio_run *fio, const char *partial, double cpu_seconds,
		       char **reason)
{
	int ret = write_whole(fio->cpu, put_number, &cpu_seconds);

	if (ret) {
		*reason = format("%s: %s", fio->cpu, strerror(-ret));
	} else if (rename(partial, fio->output)) {
		ret = -errno;
		*reason = format("%s: %s", fio->output, strerror(-ret));
	}
	return ret;
}

int fio_run(const struct fio_run *fio, struct run_result *result, double *seconds, char **reason)
{
	char *partial = format("%s.partial", fio->output);
	char *errors = format("%s.err", fio->output);
	char *failed = format("%s.failed", fio->output);
	char *option = format("--output=%s", partial);
	const char **argv = fio_argv(fio, option);
	int fd = open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	double start = spawn_clock();
	struct spawn_end end;
	int ret = fd < 0 ? -errno : 0;

	*reason = NULL;
	if (ret)
		*reason = format("%s: %s", errors, strerror(-ret));
	else if (spawn_interrupted()) /* between two runs */
		ret = -EINTR;
	else
		ret = spawn(argv, fd, fd, fio->watch, &end);
	*seconds = spawn_clock() - start;
	if (ret == -ETIMEDOUT)
		*reason = format("fio did not end within %.0f s and was stopped", *seconds);
	else if (ret && ret != -EINTR && !*reason)
		*reason = format("cannot start %s: %s", fio->fio, strerror(-ret));
	else if (!ret)
		ret = judge_run(fio, end.status, partial, errors, result, reason);
	if (!ret) {
		result->cpu_seconds = end.cpu_seconds;
		ret = name_result(fio, partial, end.cpu_seconds, reason);
		if (ret)
			result_free(result);
	}
	if (ret == -EINTR)
		unlink(partial);
	else if (ret)
		rename(partial, failed);
	if (fd >= 0)
		close(fd);
	free(argv);
	free(option);
	free(failed);
	free(errors);
	free(partial);
	return ret;
}

int fio_check(const char *fio, char **version, char **reason)
{
	const char *const argv[] = { fio, "--version", NULL };
	int major, minor, ret = spawn_read(argv, version);

	*reason = NULL;
	if (ret || sscanf(*version, "fio-%d.%d", &major, &minor) != 2) {
		*reason = format(
			"%s: not there, or not fio: install fio or name it with --fio PATH", fio);
		ret = ret < 0 ? ret : -ENOENT;
	} else if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR)) {
		*reason =
			format("%s is %.*s: needs %d.%d or newer (--fio PATH)", fio,
			       (int)strcspn(*version, "\n"), *version, OLDEST_MAJOR, OLDEST_MINOR);
		ret = -EINVAL;
	}
	if (ret) {
		free(*version);
		*version = NULL;
	} else {
		(*version)[strcspn(*version, "\n")] = '\0';
	}
	return ret;
}
