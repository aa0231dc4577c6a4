// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spawn.h"
#include "util.h"

#define TICK_NSEC 250000000L
#define PATIENCE  5.0 /* seconds that a program has to end by itself once it was asked to */

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t interrupts;

static void on_signal(int signal)
{
	interrupted = signal;
	interrupts++;
}

int spawn_init(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };

	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction before;

		if (sigaction(signals[i], &action, &before))
			return -errno;
		/* nohup: the terminal may go away, the comparison goes on */
		if (signals[i] == SIGHUP && before.sa_handler == SIG_IGN &&
		    sigaction(SIGHUP, &before, NULL))
			return -errno;
	}
	/* A reader that went away shows as a failed write. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	return 0;
}

int spawn_interrupted(void)
{
	return interrupted;
}

double spawn_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* ---- descendants --------------------------------------------------------------------------- */

/* The parent of a process: the fourth field of its stat; the second field may hold anything. */
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

static void end_descendants(void)
{
	/* A child that dies leaves its own children to us: go on until there are none. */
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		kill_children();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* ---- the child ----------------------------------------------------------------------------- */

static bool use_as(int fd, int target)
{
	if (fd < 0)
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fd >= 0 && dup2(fd, target) >= 0;
}

/* Executes the program. @failed is closed by that; else it gets the errno. */
static void become(const char *const *argv, int out, int err, int failed)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* Its own group: Ctrl-C reaches kpolicy alone, which decides. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (use_as(-1, STDIN_FILENO) && use_as(out, STDOUT_FILENO) && use_as(err, STDERR_FILENO))
		execvp(argv[0], (char *const *)argv); /* it is not modified */
	int why = errno;

	_exit(write(failed, &why, sizeof(why)) < 0 ? 126 : 127);
}

/* Starts the child. Returns its process id, or -errno: why the program could not be executed. */
static pid_t start(const char *const *argv, int out, int err)
{
	int failed[2], why = 0;

	if (pipe2(failed, O_CLOEXEC))
		return -errno;
	pid_t pid = fork();

	if (!pid)
		become(argv, out, err, failed[1]);
	if (pid < 0)
		why = errno;
	close(failed[1]);
	if (pid > 0) {
		setpgid(pid, pid);
		while (read(failed[0], &why, sizeof(why)) < 0 && errno == EINTR)
			;
	}
	close(failed[0]);
	return why ? -why : pid;
}

/* ---- waiting ------------------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int status;
	struct rusage usage; /* the child's own and its children's, for fio waits for its jobs */
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

static int wait_child(struct child *child, const struct spawn_watch *watch, const sigset_t *chld)
{
	double start = spawn_clock(), asked = 0;
	int ret = 0;

	while (!wait_tick(child, chld)) {
		double now = spawn_clock();

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
	/* The same signal may have ended the child before the tick. */
	return interrupts > child->seen ? -EINTR : ret;
}

static double seconds_of(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

int spawn(const char *const *argv, int out, int err, const struct spawn_watch *watch,
	  struct spawn_end *end)
{
	/* The picture of a comparison that was stopped is still drawn. */
	struct child child = { .seen = watch ? 0 : interrupts };
	sigset_t chld, before;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	child.pid = start(argv, out, err);
	int ret = child.pid < 0 ? child.pid : wait_child(&child, watch, &chld);

	*end = (struct spawn_end){ child.status, seconds_of(child.usage.ru_utime) +
							 seconds_of(child.usage.ru_stime) };
	end_descendants();
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}

int spawn_read(const char *const *argv, char **text)
{
	int fd = memfd_create("output", MFD_CLOEXEC);
	struct spawn_end end;

	*text = NULL;
	if (fd < 0)
		return -errno;
	int ret = spawn(argv, fd, -1, NULL, &end);

	if (!ret) {
		char *path = format("/proc/self/fd/%d", fd);

		*text = read_whole(path, NULL);
		if (!*text)
			ret = -errno;
		free(path);
	}
	close(fd);
	if (!ret && !WIFEXITED(end.status)) {
		free(*text);
		*text = NULL;
		ret = -EIO;
	}
	return ret ? ret : WEXITSTATUS(end.status);
}
