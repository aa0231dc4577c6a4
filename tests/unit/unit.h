/* SPDX-License-Identifier: GPL-2.0-only */
/* What the unit tests share: random numbers, a scratch file, a pipeline with one line of set-up. */
#ifndef KP_UNIT_H
#define KP_UNIT_H

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* ---- random numbers that repeat ------------------------------------------------------------ */

static __thread uint64_t unit_seed = 1;

static inline uint64_t unit_random(void)
{
	/* xorshift64* */
	unit_seed ^= unit_seed >> 12;
	unit_seed ^= unit_seed << 25;
	unit_seed ^= unit_seed >> 27;
	return unit_seed * 2685821657736338717ull;
}

/* unit_between - from @least to @most, both included. */
static inline uint64_t unit_between(uint64_t least, uint64_t most)
{
	return least + (unit_random() >> 8) % (most - least + 1);
}

static inline void unit_fill(void *memory, size_t len)
{
	unsigned char *byte = memory;

	for (size_t i = 0; i < len; i++)
		byte[i] = unit_random() >> 32;
}

/* ---- time ---------------------------------------------------------------------------------- */

/* unit_patience - a limit of time in ns on this machine, for what is much faster when nothing else runs. */
static inline uint64_t unit_patience(uint64_t ns)
{
	const char *slow = getenv("KP_SLOW");
	unsigned int times = slow ? atoi(slow) : 1;

	return ns * (times ? times : 1);
}

/* unit_until - wait for @condition; false if 20 s were not enough. */
#define unit_until(condition)                                                    \
	({                                                                       \
		uint64_t unit_end = kp_now_ns() + unit_patience(20000000000ull); \
                                                                                 \
		while (!(condition) && kp_now_ns() < unit_end)                   \
			usleep(1000);                                            \
		(bool)(condition);                                               \
	})

/* ---- memory and files ---------------------------------------------------------------------- */

/* unit_memory - page aligned, zeroed. */
static inline void *unit_memory(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

/* unit_path - a name in the test's own folder, where O_DIRECT works. */
static inline const char *unit_path(const char *name)
{
	static char path[512];
	const char *folder = getenv("KP_TMP");

	snprintf(path, sizeof(path), "%s/%s.%d", folder ? folder : "/var/tmp", name, (int)getpid());
	return path;
}

/* unit_make_file - a file of @size bytes, with @data or random contents. */
static inline void unit_make_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, data, size, 0), size);
	ck_assert_int_eq(fsync(fd), 0);
	close(fd);
}

/* unit_read_file - the contents of a file from @pos on, through the page cache. */
static inline void unit_read_file(const char *path, void *data, size_t size, off_t pos)
{
	int fd = open(path, O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, data, size, pos), size);
	close(fd);
}

/* ---- messages ------------------------------------------------------------------------------ */

static char unit_said[1024]; /* the last line of the library */
static unsigned int unit_nr_said;

static void unit_log(const char *line)
{
	snprintf(unit_said, sizeof(unit_said), "%s", line);
	unit_nr_said++;
}

/* ---- pipelines ----------------------------------------------------------------------------- */

static const char *const unit_real_backends[] = { "psync", "libaio", "io_uring" };
static const char *const unit_backends[] = { "psync", "libaio", "io_uring", "null" };

#define NR_REAL_BACKENDS 3
#define NR_BACKENDS	 4

/* struct unit - a pipeline under test and what it needs. Change config, then unit_start(). */
struct unit {
	struct kp_arena *arena;
	struct kp_pipeline *pl;
	struct kp_pipeline_config config;
	struct kp_stage_config stages[4];
	struct kp_split_options split;
};

static inline void unit_init(struct unit *unit, const char *backend)
{
	memset(unit, 0, sizeof(*unit));
	ck_assert_int_eq(kp_arena_create(&unit->arena, 1ull << 34), 0);
	unit->config = (struct kp_pipeline_config){
		.arena = unit->arena,
		.stages = unit->stages,
		.device.backend = backend,
		.depth = 32,
		.max_io_size = MIB,
	};
	if (!strcmp(backend, "null"))
		unit->config.device.null.memory_backed = true;
}

static inline void unit_add_stage(struct unit *unit, const struct kp_policy *policy,
				  const struct kp_variant *variant, const void *options)
{
	unit->stages[unit->config.nr_stages++] =
		(struct kp_stage_config){ policy, variant, options };
}

static inline void unit_add_split(struct unit *unit, const char *variant)
{
	const struct kp_variant *found;
	char why[256];

	ck_assert_int_eq(kp_policy_find(&kp_split_policy, variant, NULL, &found, why, sizeof(why)),
			 0);
	if (found)
		unit_add_stage(unit, &kp_split_policy, found, &unit->split);
}

static inline void unit_start(struct unit *unit)
{
	ck_assert_int_eq(kp_pipeline_create(&unit->pl, &unit->config), 0);
}

static inline struct kp_file *unit_open(struct unit *unit, const char *path, int flags)
{
	struct kp_file *file;

	ck_assert_int_eq(kp_file_open(unit->pl, path, flags, 1ull << 40, &file), 0);
	return file;
}

static inline void unit_exit(struct unit *unit)
{
	if (unit->pl)
		kp_pipeline_destroy(unit->pl);
	kp_arena_destroy(unit->arena);
}

/* unit_io - one I/O, waited for. Return: its error. */
static inline int unit_io(struct unit *unit, struct kp_io *io, enum kp_op op, struct kp_file *file,
			  uint64_t pos, void *buffer, size_t len)
{
	kp_io_prepare(io, op, file, pos, buffer, len);
	return kp_submit_wait(unit->pl, io);
}

static inline uint64_t unit_counter(const struct unit *unit, unsigned int counter)
{
	kp_counters_settle(unit->pl->slot);
	return unit->pl->slot->values[counter];
}

/* ---- running ------------------------------------------------------------------------------- */

static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	kp_set_log(unit_log);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
