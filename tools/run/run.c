// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "util.h"

#define TICK_NSEC     250000000L
#define PATIENCE      5.0 /* seconds that fio has to end by itself once asked to */
#define OLDEST_MAJOR  3	  /* total latency with percentiles and bins, and the engines' range */
#define OLDEST_MINOR  25
#define EXIT_NO_START 127 /* of a child that could not become the program */

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t interrupts;

static void on_signal(int signal)
{
	interrupted = signal;
	interrupts++;
}

int run_init(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };

	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction before;

		if (sigaction(signals[i], &action, &before))
			return -errno;
		/* nohup: the terminal may go away, the comparison stays */
		if (signals[i] == SIGHUP && before.sa_handler == SIG_IGN &&
		    sigaction(SIGHUP, &before, NULL))
			return -errno;
	}
	/* A reader that went away shows as a failed write. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	return 0;
}

int run_interrupted(void)
{
	return interrupted;
}

double run_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* ---- descendants --------------------------------------------------------------------------- */

/* The parent of a process, from the fourth field of its stat; the second may hold anything. */
static pid_t parent_of(const char *pid)
{
	char *path = format("/proc/%s/stat", pid);
	char *stat = read_whole(path, NULL);
	const char *after = stat ? strrchr(stat, ')') : NULL;
	int parent = -1;

	if (after)
		sscanf(after + 1, " %*c %d", &parent);
	free(stat);
	free(path);
	return parent;
}

static void kill_children(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		return;
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    parent_of(entry->d_name) == getpid())
			kill(atoi(entry->d_name), SIGKILL);
	closedir(proc);
}

void run_end_descendants(void)
{
	/* A child that dies leaves its own children to us: go on until there are none. */
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		kill_children();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* ---- one program --------------------------------------------------------------------------- */

static int redirect(int fd, const char *path, int flags)
{
	int file = open(path ? path : "/dev/null", flags | O_APPEND | O_CLOEXEC, 0666);

	return file < 0 || dup2(file, fd) < 0 ? -1 : 0;
}

static void become(const char *const *argv, const char *output, const char *errors)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* Its own group: a Ctrl-C of the terminal reaches kpolicy alone, which decides. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (redirect(STDIN_FILENO, NULL, O_RDONLY) ||
	    redirect(STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC) ||
	    redirect(STDERR_FILENO, errors, O_WRONLY | O_CREAT | O_TRUNC))
		_exit(EXIT_NO_START);
	execvp(argv[0], (char *const *)argv); /* it is not modified */
	_exit(EXIT_NO_START);
}

/* A child on its way out. */
struct child {
	pid_t pid;
	int status;
	struct rusage usage; /* its own and its children's, for fio waits for its jobs */
	sig_atomic_t seen;   /* signals before it that do not concern it */
};

/* Waits for the child alone or for the next tick. Returns true when it ended. */
static bool wait_tick(struct child *child, const sigset_t *chld)
{
	const struct timespec tick = { .tv_nsec = TICK_NSEC };

	if (wait4(child->pid, &child->status, WNOHANG, &child->usage) == child->pid)
		return true;
	sigtimedwait(chld, NULL, &tick);
	return wait4(child->pid, &child->status, WNOHANG, &child->usage) == child->pid;
}

static int wait_child(struct child *child, const struct run_watch *watch, const sigset_t *chld)
{
	double start = run_clock(), asked = 0;
	int ret = 0;

	while (!wait_tick(child, chld)) {
		double now = run_clock();

		if (watch && watch->tick)
			watch->tick(watch->arg);
		if (!ret && interrupts > child->seen)
			ret = -EINTR;
		if (!ret && watch && watch->limit > 0 && now - start > watch->limit)
			ret = -ETIMEDOUT;
		if (ret && !asked) {
			asked = now;
			kill(child->pid, SIGINT);
		} else if (ret && (now - asked > PATIENCE || interrupts > child->seen + 1)) {
			kill(child->pid, SIGKILL);
		}
	}
	/* It may have ended because of the same signal, before the tick. */
	return interrupts > child->seen ? -EINTR : ret;
}

static double seconds_of(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

int run_program(const char *const *argv, const char *output, const char *errors,
		const struct run_watch *watch, int *status, double *cpu_seconds)
{
	/* The picture of a comparison that was stopped is still drawn. */
	struct child child = { .seen = watch ? 0 : interrupts };
	sigset_t chld, before;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	child.pid = fork();
	int ret;

	if (!child.pid)
		become(argv, output, errors);
	if (child.pid < 0) {
		ret = -errno;
	} else {
		setpgid(child.pid, child.pid);
		ret = wait_child(&child, watch, &chld);
	}
	*status = child.status;
	if (cpu_seconds)
		*cpu_seconds = seconds_of(child.usage.ru_utime) + seconds_of(child.usage.ru_stime);
	run_end_descendants();
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}

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

/* Runs that ended by themselves: is the result there, and good? */
static int judge_run(const struct fio_run *fio, int status, const char *partial, const char *errors,
		     struct run_result *result, char **reason)
{
	char *unreadable = NULL;
	int ret = result_read(partial, result, &unreadable);

	if (!ret && fio->classify)
		fio->classify(result, fio->arg);
	/* The job's own error says more than the exit code that follows from it. */
	*reason = ret ? NULL : result_error(result, status);
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
	size_t nr = 0, at = 0;

	while (fio->args && fio->args[nr])
		nr++;
	const char **argv = xcalloc(nr + 6, sizeof(*argv));

	argv[at++] = fio->fio;
	for (size_t i = 0; i < nr; i++)
		argv[at++] = fio->args[i];
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
	double start = run_clock(), cpu_seconds;
	int status = 0;
	/* Asked to stop between two runs. */
	int ret = interrupted
			  ? -EINTR
			  : run_program(argv, errors, errors, fio->watch, &status, &cpu_seconds);

	*reason = NULL;
	*seconds = run_clock() - start;
	if (ret == -ETIMEDOUT)
		*reason = format("fio did not end within %.0f s and was stopped", *seconds);
	else if (ret && ret != -EINTR)
		*reason = format("cannot start %s: %s", fio->fio, strerror(-ret));
	else if (!ret)
		ret = judge_run(fio, status, partial, errors, result, reason);
	if (!ret) {
		result->cpu_seconds = cpu_seconds;
		ret = name_result(fio, partial, cpu_seconds, reason);
		if (ret)
			result_free(result);
	}
	if (ret == -EINTR)
		unlink(partial);
	else if (ret)
		rename(partial, failed);
	free(argv);
	free(option);
	free(failed);
	free(errors);
	free(partial);
	return ret;
}

int fio_check(const char *fio, char **version, char **reason)
{
	char *path = temporary_path("version-XXXXXX");
	int fd = mkstemp(path), status = 0, major, minor;
	const char *const argv[] = { fio, "--version", NULL };

	*version = NULL;
	*reason = NULL;
	if (fd < 0) {
		int failed = -errno;

		*reason = format("%s: %s (TMPDIR names another directory)", path, strerror(errno));
		free(path);
		return failed;
	}
	close(fd);
	int ret = run_program(argv, path, NULL, NULL, &status, NULL);
	char *line = read_line(path);

	unlink(path);
	free(path);
	if (ret || !line || status || sscanf(line, "fio-%d.%d", &major, &minor) != 2) {
		*reason = format(
			"%s: not there, or not fio: install fio or name it with --fio PATH", fio);
		ret = ret ? ret : -ENOENT;
	} else if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR)) {
		*reason = format("%s is %s: needs %d.%d or newer (--fio PATH)", fio, line,
				 OLDEST_MAJOR, OLDEST_MINOR);
		ret = -EINVAL;
	}
	if (ret)
		free(line);
	else
		*version = line;
	return ret;
}
