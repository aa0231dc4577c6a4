// SPDX-License-Identifier: GPL-2.0-only
/*
 * Set-up that fails: each call by which the library allocates, maps, opens or starts something
 * fails in turn, for every backend and every kind of stage. The linker sends those calls here
 * (--wrap in the Makefile). Whatever fails, the library reports an error or does without; it ends
 * by no signal, keeps no thread and no descriptor, and loses no data that it said were written.
 */
#include <dirent.h>
#include <liburing.h>
#include <libaio.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "unit.h"

#define BLOCK 4096ull

/* ---- calls that fail ----------------------------------------------------------------------- */

static bool armed;
static unsigned int fail_at; /* the call that fails, from 1 */
static unsigned int nr_calls;
static const char *failed; /* its name */

static bool fails(const char *name, int error)
{
	if (!armed || __atomic_add_fetch(&nr_calls, 1, __ATOMIC_RELAXED) != fail_at)
		return false;
	failed = name;
	errno = error;
	return true;
}

/* WRAP - define the stand-in for a function of the linker's --wrap list. */
#define WRAP(TYPE, NAME, ERROR, RESULT, PARAMETERS, ARGUMENTS)                   \
	TYPE __real_##NAME PARAMETERS;                                           \
	TYPE __wrap_##NAME PARAMETERS;                                           \
	TYPE __wrap_##NAME PARAMETERS                                            \
	{                                                                        \
		return fails(#NAME, ERROR) ? (RESULT) : __real_##NAME ARGUMENTS; \
	}

WRAP(void *, malloc, ENOMEM, NULL, (size_t size), (size))
WRAP(void *, calloc, ENOMEM, NULL, (size_t nr, size_t size), (nr, size))
WRAP(void *, realloc, ENOMEM, NULL, (void *memory, size_t size), (memory, size))
WRAP(void *, aligned_alloc, ENOMEM, NULL, (size_t alignment, size_t size), (alignment, size))
WRAP(void *, mmap, ENOMEM, MAP_FAILED,
     (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
WRAP(int, madvise, ENOMEM, -1, (void *start, size_t size, int advice), (start, size, advice))
WRAP(int, statx, ENOMEM, -1,
     (int fd, const char *path, int flags, unsigned int mask, struct statx *st),
     (fd, path, flags, mask, st))
WRAP(int, fstat, ENOMEM, -1, (int fd, struct stat *st), (fd, st))
WRAP(FILE *, fopen, EMFILE, NULL, (const char *path, const char *mode), (path, mode))
WRAP(DIR *, opendir, EMFILE, NULL, (const char *path), (path))
WRAP(int, eventfd, EMFILE, -1, (unsigned int count, int flags), (count, flags))
WRAP(int, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg),
     (thread, attr, start, arg))
WRAP(int, io_setup, EAGAIN, -EAGAIN, (int nr, io_context_t *context), (nr, context))
WRAP(int, io_uring_queue_init, EMFILE, -EMFILE,
     (unsigned int entries, struct io_uring *ring, unsigned int flags), (entries, ring, flags))
WRAP(int, io_uring_register_files_sparse, ENOMEM, -ENOMEM,
     (struct io_uring * ring, unsigned int nr), (ring, nr))
WRAP(int, io_uring_register_files_update, ENOMEM, -ENOMEM,
     (struct io_uring * ring, unsigned int at, const int *fds, unsigned int nr),
     (ring, at, fds, nr))
WRAP(int, io_uring_register_buffers, ENOMEM, -ENOMEM,
     (struct io_uring * ring, const struct iovec *buffers, unsigned int nr), (ring, buffers, nr))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return fails("open", EMFILE) ? -1 : __real_open(path, flags, mode);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	return fails("fcntl", ENOLCK) ? -1 : __real_fcntl(fd, command, arg);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return fails("ioctl", ENOTTY) ? -1 : __real_ioctl(fd, request, arg);
}

/* ---- one run ------------------------------------------------------------------------------- */

struct kind {
	const char *name;
	const struct kp_policy *policies[3];
	const char *variants[3];
};

static const struct kind kinds[] = {
	{ "none", { NULL }, { NULL } },
	{ "split, plug", { &kp_split_policy, &kp_plug_policy }, { "clone", "4.9" } },
	{ "diolock", { &kp_diolock_policy }, { "ext4-4.9" } },
	{ "checksum inline", { &kp_checksum_policy }, { "unsplit_inline" } },
	{ "checksum async, plug", { &kp_checksum_policy, &kp_plug_policy }, { "async", "4.9" } },
	{ "writeback, split", { &kp_writeback_policy, &kp_split_policy }, { "6.x", "6.1" } },
	{ "blocksize", { &kp_blocksize_policy }, { "logical" } },
};

#define NR_KINDS (sizeof(kinds) / sizeof(*kinds))

static struct unit unit;
static struct kp_checksum_options checksum_options;
static char file_path[512], sums_path[512];
static char *data, *buffer;

static void add_stages(const struct kind *kind)
{
	for (unsigned int i = 0; i < 3 && kind->policies[i]; i++) {
		const struct kp_policy *policy = kind->policies[i];
		const struct kp_variant *variant;
		char why[256];

		ck_assert_msg(!kp_policy_find(policy, kind->variants[i], NULL, &variant, why,
					      sizeof(why)),
			      "%s", why);
		unit_add_stage(&unit, policy, variant,
			       policy == &kp_checksum_policy ? &checksum_options : NULL);
	}
}

static unsigned int count_entries(const char *path)
{
	DIR *dir = __real_opendir(path);
	unsigned int nr = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Write, sync, read. Return: 0 when all of them did what they say. */
static int do_io(struct kp_file *file)
{
	struct kp_io io = { 0 };
	int ret = unit_io(&unit, &io, KP_OP_WRITE, file, BLOCK, data, 16 * BLOCK);

	if (!ret)
		ret = unit_io(&unit, &io, KP_OP_FLUSH, file, 0, NULL, 0);
	if (!ret)
		ret = unit_io(&unit, &io, KP_OP_READ, file, BLOCK, buffer, 16 * BLOCK);
	if (!ret && memcmp(data, buffer, 16 * BLOCK))
		ck_abort_msg("read something else than was written");
	return ret;
}

/* From the arena on. Return: 0 or the first error. */
static int set_up_and_run(bool *written)
{
	struct kp_file *file;
	int ret = kp_arena_create(&unit.arena, 1ull << 34), end;

	if (ret)
		return ret;
	unit.config.arena = unit.arena;
	ret = kp_pipeline_create(&unit.pl, &unit.config);
	if (!ret) {
		kp_pipeline_buffers(unit.pl, data, MIB);
		ret = kp_file_open(unit.pl, file_path, O_RDWR, MIB, &file);
		if (!ret) {
			ret = do_io(file);
			*written = !ret;
			end = kp_file_close(file);
			ret = ret ? ret : end;
		}
		end = kp_pipeline_destroy(unit.pl);
		ret = ret ? ret : end;
	}
	kp_arena_finish(unit.arena);
	kp_arena_destroy(unit.arena);
	return ret;
}

#define NO_SUCH_CALL 77

/* In a process of its own. Exits with 0, or with NO_SUCH_CALL when there are fewer calls. */
static void one_failure(const struct kind *kind, const char *backend)
{
	unsigned int fds, tasks;
	bool written = false;
	int ret;

	unit_init(&unit, backend);
	kp_arena_destroy(unit.arena);
	checksum_options.sums = strcmp(backend, "null") ? sums_path : NULL;
	add_stages(kind);
	fds = count_entries("/proc/self/fd");
	alarm(60);
	armed = true;
	ret = set_up_and_run(&written);
	armed = false;
	if (!failed && ret)
		ck_abort_msg("nothing failed, yet the result is %s", strerror(-ret));
	for (unsigned int tries = 0;; tries++) { /* a joined thread may still be leaving /proc */
		tasks = count_entries("/proc/self/task") - 2;
		if (tasks == 1 || tries == 1000)
			break;
		usleep(1000);
	}
	if (tasks != 1 || count_entries("/proc/self/fd") != fds)
		ck_abort_msg("%s failed: left %u threads, %u descriptors more", failed, tasks - 1,
			     count_entries("/proc/self/fd") - fds);
	if (written && strcmp(backend, "null")) {
		unit_read_file(file_path, buffer, 16 * BLOCK, BLOCK);
		if (memcmp(data, buffer, 16 * BLOCK))
			ck_abort_msg("%s failed: lost what was written", failed);
	}
	_exit(failed ? 0 : NO_SUCH_CALL);
}

/* Loop index: the kind of stages and the backend. */
START_TEST(every_call_fails_in_turn)
{
	const struct kind *kind = &kinds[_i / NR_BACKENDS];
	const char *backend = unit_backends[_i % NR_BACKENDS];
	int status = 0;

	snprintf(file_path, sizeof(file_path), "%s", unit_path("set_up"));
	snprintf(sums_path, sizeof(sums_path), "%s", unit_path("set_up_sums"));
	data = unit_memory(MIB);
	buffer = unit_memory(MIB);
	unit_make_file(file_path, buffer, MIB);
	unit_fill(data, 16 * BLOCK);
	for (fail_at = 1; !status; fail_at++) {
		pid_t child = fork();

		ck_assert_int_ge(child, 0);
		if (!child)
			one_failure(kind, backend);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_msg(WIFEXITED(status), "%s on %s, call %u: signal %d", kind->name,
			      backend, fail_at, WTERMSIG(status));
		ck_assert_msg(!status || WEXITSTATUS(status) == NO_SUCH_CALL, "%s on %s, call %u",
			      kind->name, backend, fail_at);
	}
	ck_assert_uint_gt(fail_at, 5); /* it did count */
	unlink(file_path);
	unlink(sums_path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("set_up");
	TCase *tcase = tcase_create("set_up");

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, every_call_fails_in_turn, 0, NR_KINDS * NR_BACKENDS);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
