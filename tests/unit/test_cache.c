// SPDX-License-Identifier: GPL-2.0-only
/* The page cache stage (time limit: 120): every variant leaves the right data on the device. */
#include <signal.h>
#include <sys/wait.h>

#include "core/file_lock.h"
#include "unit_cache.h"

#define SIZE (MIB / 2)

static int do_io(struct kp_file *file, enum kp_op op, uint64_t pos, void *memory, size_t len)
{
	struct kp_io io;

	return unit_io(&unit, &io, op, file, pos, memory, len);
}

/* ---- against a plain copy ------------------------------------------------------------------ */

static unsigned char model[SIZE], buffer[SIZE] __attribute__((aligned(4096)));
static uint64_t model_size;

static void one_step(struct kp_file *file, struct kp_file *direct)
{
	uint64_t pos = unit_between(0, SIZE - 1), len = unit_between(1, 20000);
	struct kp_io io;

	len = kp_min(len, SIZE - pos);
	switch (unit_between(0, 15)) {
	case 0:
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, file, 0, NULL, 0), 0);
		break;
	case 1:
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_SYNC_RANGE, file, pos, NULL, len), 0);
		break;
	case 2:
		kp_file_invalidate(file, pos, len);
		break;
	case 3:
		pos = kp_round_down(pos, KP_PAGE_SIZE);
		len = KP_PAGE_SIZE;
		if (pos + len > model_size)
			break;
		unit_fill(buffer, len);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, direct, pos, buffer, len), 0);
		memcpy(model + pos, buffer, len);
		break;
	case 4:
		pos = kp_round_down(pos, KP_PAGE_SIZE);
		len = KP_PAGE_SIZE;
		if (pos + len > model_size)
			break;
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, direct, pos, buffer, len), 0);
		ck_assert_mem_eq(buffer, model + pos, len);
		break;
	case 5:
		pos = kp_round_down(pos, KP_SECTOR_SIZE);
		len = kp_min(kp_round_up(len, KP_SECTOR_SIZE), SIZE - pos);
		if (pos + len > model_size)
			break;
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_DISCARD, file, pos, NULL, len), 0);
		memset(model + pos, 0, len);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		memset(buffer, 0xee, len);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, pos, buffer, len), 0);
		ck_assert_uint_eq(kp_io_resid(&io),
				  pos + len > model_size ? pos + len - kp_max(pos, model_size) : 0);
		ck_assert_mem_eq(buffer, model + pos, len - kp_io_resid(&io));
		break;
	default:
		unit_fill(buffer, len);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, pos, buffer, len), 0);
		memcpy(model + pos, buffer, len);
		model_size = kp_max(model_size, pos + len);
	}
}

static void check_disk(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_size, model_size);
	unit_read_file(path, buffer, model_size, 0);
	ck_assert_mem_eq(buffer, model, model_size);
}

START_TEST(test_model)
{
	const struct variant_case *c = &cases[_i % NR_CASES];
	const char *path = unit_path("model");
	struct kp_file *file, *direct;

	unit_seed = _i + 1;
	set_up_case(c, unit_real_backends[_i % NR_REAL_BACKENDS]);
	model_size = _i % 2 ? 300001 : 0;
	memset(model, 0, sizeof(model));
	unit_fill(model, model_size);
	unit_make_file(path, model, model_size);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	direct = unit_open(&unit, path, O_RDWR | O_DIRECT);
	for (unsigned int i = 0; i < 1500; i++)
		one_step(file, direct);
	ck_assert_int_eq(kp_file_close(direct), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/* ---- several processes --------------------------------------------------------------------- */

#define TURNS 300

/* Two processes take turns. Each reads a range, adds one to every byte, and writes it back. */
static void take_turns(const char *path, uint32_t *turn, unsigned int me)
{
	unsigned char data[3000];
	struct kp_file *file;
	struct kp_io io;

	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	for (unsigned int i = me; i < TURNS; i += 2) {
		while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != i)
			usleep(20);
		if (unit_io(&unit, &io, KP_OP_READ, file, 1000, data, sizeof(data)))
			_exit(2);
		for (unsigned int j = 0; j < sizeof(data); j++) {
			if (data[j]++ != i % 256)
				_exit(3);
		}
		if (unit_io(&unit, &io, KP_OP_WRITE, file, 1000, data, sizeof(data)))
			_exit(4);
		if (i % 16 == me)
			kp_file_invalidate(file, 0, 0);
		__atomic_store_n(turn, i + 1, __ATOMIC_RELEASE);
	}
	_exit(kp_file_close(file) || kp_pipeline_destroy(unit.pl));
}

START_TEST(test_coherent)
{
	const char *path = unit_path("coherent");
	uint32_t *turn =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char data[3000];
	int status;

	set_up_case(&cases[_i], "libaio");
	memset(data, 0, sizeof(data));
	unit_make_file(path, buffer, 0);
	ck_assert_int_eq(truncate(path, 8000), 0);
	for (unsigned int i = 0; i < 2; i++) {
		if (!fork())
			take_turns(path, turn, i);
	}
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	unit_read_file(path, data, sizeof(data), 1000);
	for (unsigned int i = 0; i < sizeof(data); i++)
		ck_assert_uint_eq(data[i], TURNS % 256);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/* ---- a file of 1 TiB ----------------------------------------------------------------------- */

START_TEST(test_sparse_memory)
{
	const char *path = unit_path("sparse");
	uint64_t limit, chunks;
	struct kp_file *file;
	struct kp_io io;

	set_up_case(&cases[_i], "libaio");
	unit_make_file(path, buffer, 0);
	ck_assert_int_eq(truncate(path, 1ll << 40), 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	limit = (options.cache_bytes + options.dirty_bytes) / KP_PAGE_SIZE;
	for (unsigned int i = 0; i < 3000; i++) {
		uint64_t pos = unit_between(0, (1ull << 40) - 5000);

		memset(buffer, i, 5000);
		ck_assert_int_eq(unit_io(&unit, &io, i % 3 ? KP_OP_READ : KP_OP_WRITE, file, pos,
					 buffer, 5000),
				 0);
		ck_assert_uint_le(cache()->in_use, limit);
	}
	/*
	 * The index holds nodes for what is cached and no more: at most a path of nodes for each
	 * page.
	 */
	chunks = cache()->files[0]->index.nr_nodes;
	ck_assert_uint_le(chunks, limit * 6);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/* ---- the time that clean pages cost -------------------------------------------------------- */

#define NR_CLEAN 100000u

/* Wait until the flusher has written everything. */
static void wait_clean(void)
{
	struct cache_totals totals;

	do {
		totals = cache_totals(cache());
	} while (totals.dirty || totals.writeback);
}

/*
 * Measure how long it takes to write back one page of a null device's file of @size, by a sync
 * and in the background, while @clean pages are cached and clean. The best of 30 each.
 */
static void time_one_page(uint64_t size, unsigned int clean, uint64_t best[2])
{
	struct kp_file *file;
	uint64_t from;

	set_up_case(&cases[4], "null");
	unit.config.device.null.memory_backed = false;
	options.cache_bytes = 2ull * NR_CLEAN * KP_PAGE_SIZE;
	options.read_ahead_kb = 4096;
	options.dirty_background_bytes = 1;
	unit_start(&unit);
	file = unit_open(&unit, "onepage", O_RDWR);
	for (uint64_t pos = 0; pos < clean * 4096ull; pos += SIZE)
		ck_assert_int_eq(
			do_io(file, KP_OP_READ, pos, buffer, kp_min(clean * 4096ull, SIZE)), 0);
	ck_assert_uint_ge(cache_totals(cache()).pages, clean);
	best[0] = best[1] = UINT64_MAX;
	for (unsigned int i = 0; i < 30; i++) {
		ck_assert_int_eq(do_io(file, KP_OP_WRITE, size - 4096, buffer, 4096), 0);
		from = kp_now_ns();
		ck_assert_int_eq(do_io(file, KP_OP_SYNC_RANGE, 0, NULL, size), 0);
		best[0] = kp_min(best[0], kp_now_ns() - from);
		from = kp_now_ns();
		ck_assert_int_eq(do_io(file, KP_OP_WRITE, size - 4096, buffer, 4096), 0);
		wait_clean();
		best[1] = kp_min(best[1], kp_now_ns() - from);
	}
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
}

START_TEST(test_sparse_time)
{
	static const char *const names[] = { "sync", "background" };
	uint64_t small[2], large[2];

	time_one_page(MIB, 128, small);
	time_one_page(1ull << 40, NR_CLEAN, large);
	/* To look at each clean page would take several times as long. */
	for (unsigned int i = 0; i < 2; i++)
		ck_assert_msg(large[i] < 4 * small[i] + 100000, "%s: 1 TiB: %lu ns, 1 MiB: %lu ns",
			      names[i], large[i], small[i]);
}
END_TEST

/* ---- errors -------------------------------------------------------------------------------- */

START_TEST(test_errseq)
{
	struct kp_file *one, *two, *late;
	struct kp_io io;

	set_up_case(&cases[_i], "null");
	unit.config.device.null.badblocks = "64-71";
	unit_start(&unit);
	one = unit_open(&unit, "bad", O_RDWR);
	two = unit_open(&unit, "bad", O_RDWR);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, one, 32768, buffer, 4096), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, one, 0, NULL, 0), -EIO);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, one, 0, NULL, 0), 0);
	/* An opener does not see an error that somebody had seen before. */
	late = unit_open(&unit, "bad", O_RDWR);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, late, 0, NULL, 0), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FDATASYNC, two, 0, NULL, 0), -EIO);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FDATASYNC, two, 0, NULL, 0), 0);
	ck_assert_uint_eq(counter(CACHE_FAILED_BYTES), 4096);
	ck_assert_uint_eq(cache_totals(cache()).dirty, 0);
	/* A page that is dirtied again is written again. */
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, one, 32768, buffer, 512), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FLUSH, late, 0, NULL, 0), -EIO);
	/* Nobody asks for this error, so the end of the pipeline reports it. */
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, one, 32768, buffer, 512), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), -EIO);
	kp_arena_destroy(unit.arena);
}
END_TEST

/* ---- a sync that meets somebody else's claim ----------------------------------------------- */

struct claim {
	struct cache_file *file;
	uint32_t id;
};

/* Act as a flusher that locked the page and does not write it. */
static void *give_up(void *arg)
{
	struct claim *claim = arg;

	unit_until(__atomic_load_n(&claim->file->waiters, __ATOMIC_ACQUIRE));
	cache_lock(cache(), claim->file);
	cache_redirty(cache(), claim->file, claim->id);
	cache_unlock(claim->file);
	cache_wake(claim->file);
	return NULL;
}

static void start_writeback_page(struct claim *claim, uint16_t user)
{
	claim->file = cache()->files[0];
	cache_lock(cache(), claim->file);
	claim->id = cache_lookup(claim->file, 1);
	ck_assert_uint_ne(claim->id, 0);
	cache_start_writeback(cache(), claim->file, claim->id, user);
	cache_unlock(claim->file);
}

static const enum kp_op syncs[] = { KP_OP_FLUSH, KP_OP_FDATASYNC, KP_OP_SYNC_RANGE };

/*
 * A sync waits for a page that somebody else has under writeback. If that one redirties it, the
 * sync must write it before it returns.
 */
START_TEST(test_sync_given_up)
{
	const char *path = unit_path("given-up");
	struct cache_limits limits;
	struct kp_file *file, *direct;
	unsigned char data[4096] __attribute__((aligned(4096)));
	struct claim claim;
	pthread_t thread;
	struct kp_io io;
	uint16_t user;

	set_up_case(&cases[_i % NR_CASES], "libaio");
	unit_fill(buffer, 8192);
	memset(data, 0, sizeof(data));
	unit_make_file(path, data, 4096);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	direct = unit_open(&unit, path, O_RDWR | O_DIRECT);
	limits = cache()->limits;
	ck_assert_int_eq(cache_join(cache(), &limits, &(struct cache_data){ 0 }, &user), 0);
	for (unsigned int i = 0; i < 4; i++) {
		buffer[4096] = i;
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 0, buffer, 8192), 0);
		start_writeback_page(&claim, user);
		ck_assert_int_eq(pthread_create(&thread, NULL, give_up, &claim), 0);
		if (i < 3) {
			ck_assert_int_eq(unit_io(&unit, &io, syncs[i], file, 0, NULL, 8192), 0);
			ck_assert_uint_eq(claim.file->nr_dirty, 0);
			unit_read_file(path, data, 4096, 4096);
		} else {
			/* A direct read waits for the page in the same way. */
			ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, direct, 4096, data, 4096),
					 0);
		}
		ck_assert_mem_eq(data, buffer + 4096, 4096);
		pthread_join(thread, NULL);
	}
	cache_leave(cache(), user);
	ck_assert_int_eq(kp_file_close(direct), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* The same, with a flusher that is killed while it has the page under writeback. */
START_TEST(test_sync_killed)
{
	const char *path = unit_path("claimed");
	unsigned char data[4096];
	struct kp_file *file;
	struct claim claim;
	struct kp_io io;
	int status;
	pid_t pid;

	set_up_case(&cases[_i], "libaio");
	unit_fill(buffer, 8192);
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 0, buffer, 8192), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct cache_limits limits = cache()->limits;
		uint16_t user;

		if (cache_join(cache(), &limits, &(struct cache_data){ 0 }, &user))
			_exit(1);
		cache_touch_file(cache(), cache()->files[0], user);
		start_writeback_page(&claim, user);
		kill(getpid(), SIGSTOP);
		_exit(2);
	}
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	kill(pid, SIGKILL);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FDATASYNC, file, 0, NULL, 0), 0);
	unit_read_file(path, data, 4096, 4096);
	ck_assert_mem_eq(data, buffer + 4096, 4096);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* ---- smaller things ------------------------------------------------------------------------ */

START_TEST(test_osync)
{
	const char *path = unit_path("osync");
	static const int flags[] = { O_SYNC, O_DSYNC, O_SYNC | O_DIRECT };
	unsigned char data[4096];
	struct kp_file *file;
	struct kp_io io;

	set_up_case(&cases[4], "libaio");
	unit_make_file(path, buffer, 8192);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR | flags[_i]);
	unit_fill(buffer, 4096);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 4096, buffer, 4096), 0);
	unit_read_file(path, data, 4096, 4096);
	ck_assert_mem_eq(data, buffer, 4096);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

START_TEST(test_invalidate)
{
	struct kp_file *file;
	struct kp_io io;

	set_up_case(&cases[4], "null");
	unit_start(&unit);
	file = unit_open(&unit, "inv", O_RDWR);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, 0, buffer, 4096), 0);
	ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, 8 * MIB, buffer, 4096), 0);
	kp_file_invalidate(file, 0, 0);
	ck_assert_uint_eq(cache_totals(cache()).pages, 1);
	ck_assert_uint_eq(cache_totals(cache()).dirty, 1);
	unit_exit(&unit);
}
END_TEST

/*
 * mapped=auto takes the written extents of an existing file, and neither holes nor unwritten
 * ones.
 */
START_TEST(test_mapped_extents)
{
	const char *path = unit_path("mapped");
	struct kp_file *file;
	int fd;

	set_up_case(&cases[_i], "libaio");
	options.dirty_bytes = MIB;
	options.dirty_background_bytes = MIB / 2; /* only the sync writes */
	unit_make_file(path, buffer, 64 * KIB);
	fd = open(path, O_RDWR);
	if (fallocate(fd, 0, 64 * KIB, 64 * KIB)) {
		close(fd);
		return; /* the file system has no fallocate() */
	}
	ck_assert_int_eq(pwrite(fd, buffer, 4096, 200 * KIB), 4096);
	ck_assert_int_eq(fsync(fd), 0);
	close(fd);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	for (unsigned int i = 0; i < 60; i++)
		ck_assert_int_eq(cache_mapped(cache()->files[0], i), i < 16 || i == 50);
	/*
	 * There is one extent of mapped pages and one of others. All pages are mapped after they
	 * are written.
	 */
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 128 * KIB), 0);
	ck_assert_int_eq(do_io(file, KP_OP_FDATASYNC, 0, NULL, 0), 0);
	ck_assert_uint_eq(counter(CACHE_EXTENTS), 2);
	for (unsigned int i = 0; i < 32; i++)
		ck_assert(cache_mapped(cache()->files[0], i));
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* Expired pages are written below all limits, but only if the periodic check is on. */
START_TEST(test_expire)
{
	struct kp_file *file;
	uint64_t dirtied;

	set_up_case(&cases[_i / 2], "null");
	options.dirty_expire_centisecs = 10;
	options.dirty_writeback_centisecs = _i % 2 ? 5 : 0;
	unit_start(&unit);
	file = unit_open(&unit, "old", O_RDWR);
	dirtied = kp_now_ns();
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 8 * KIB), 0);
	while (kp_now_ns() - dirtied < 60000000) {
		uint32_t dirty = cache_totals(cache()).dirty;

		/* Not before; unless we did not run meanwhile. */
		ck_assert(dirty == 2 || kp_now_ns() - dirtied > 100000000);
		usleep(1000);
	}
	for (unsigned int i = 0; i < (_i % 2 ? 3000 : 300) && cache_totals(cache()).dirty; i++)
		usleep(1000);
	ck_assert_uint_eq(cache_totals(cache()).dirty, _i % 2 ? 0 : 2);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
}
END_TEST

/* Start a second user in the same process. Return: the error of its pipeline, or of its open. */
static int second_user(const char *path)
{
	struct kp_pipeline *pl;
	struct kp_file *file;
	int ret = kp_pipeline_create(&pl, &unit.config);

	if (ret)
		return ret;
	ret = kp_file_open(pl, path, O_RDWR, MIB, &file);
	kp_pipeline_destroy(pl);
	return ret;
}

START_TEST(test_disagree)
{
	struct kp_file *file;

	set_up_case(&cases[_i], "null");
	unit_start(&unit);
	file = unit_open(&unit, "same", O_RDWR);
	ck_assert_int_eq(second_user("same"), 0);
	options.dirty_bytes *= 2;
	ck_assert_int_eq(second_user("same"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(unit_said, "dirty_bytes"));
	options.dirty_bytes /= 2;
	unit.config.nr_stages = 0;
	add_policy(&cases[(_i + 1) % NR_CASES]);
	ck_assert_int_eq(second_user("same"), -EINVAL);
	/*
	 * Another file, but on the same null device, which has one flusher and one policy of
	 * writeback.
	 */
	ck_assert_int_eq(second_user("other"), _i >= 4 && _i < 8 ? 0 : -EINVAL);
	ck_assert_int_eq(kp_file_close(file), 0);
	kp_pipeline_destroy(unit.pl);
	kp_arena_destroy(unit.arena);
}
END_TEST

START_TEST(test_block_size_below_device)
{
	set_up_case(&cases[5], "null");
	options.block_size = 512;
	unit.config.device.limits.logical_block_size = 4096;
	unit_start(&unit);
	ck_assert_int_eq(second_user("dev"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(unit_said, "block_size=512"));
	unit_exit(&unit);
}
END_TEST

START_TEST(test_two_caches)
{
	const char *path = unit_path("twice");
	struct kp_arena *first;
	struct kp_file *file;

	set_up_case(&cases[4], "libaio");
	unit_make_file(path, buffer, 8192);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	first = unit.arena;
	ck_assert_int_eq(kp_arena_create(&unit.config.arena, 1ull << 34), 0);
	ck_assert_int_eq(second_user(path), -EBUSY);
	ck_assert_ptr_nonnull(strstr(unit_said, "page cache of its own"));
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	ck_assert_int_eq(second_user(path), 0);
	kp_arena_destroy(first);
	kp_arena_destroy(unit.config.arena);
	unlink(path);
}
END_TEST

static void *let_go(void *fd)
{
	usleep(300000);
	close(*(int *)fd);
	return NULL;
}

/* A fio that has ended but is still leaving is waited for. */
START_TEST(test_other_cache_leaves)
{
	const char *path = unit_path("leaving");
	struct kp_file *file;
	pthread_t thread;
	int fd;

	set_up_case(&cases[_i], "libaio");
	unit_make_file(path, buffer, 8192);
	unit_start(&unit);
	fd = open(path, O_RDWR);
	ck_assert_int_eq(kp_file_lock(fd, KP_LOCK_PAGE_CACHE, cache()->token ^ 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, let_go, &fd), 0);
	file = unit_open(&unit, path, O_RDWR);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(unit_nr_said, 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* When others change a file while nobody has it open here, its cached pages are dropped. */
START_TEST(test_changed_behind)
{
	const char *path = unit_path("changed");
	unsigned char data[4096];
	struct kp_file *file;
	struct kp_io io;
	int fd;

	set_up_case(&cases[4], "libaio");
	unit_make_file(path, buffer, 8192);
	for (unsigned int i = 0; i < 3; i++) {
		unit_start(&unit);
		file = unit_open(&unit, path, O_RDWR);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, 0, buffer, 4096), 0);
		/* The second time the file has not changed, and its page is still cached. */
		ck_assert_uint_eq(counter(i == 1 ? CACHE_HITS : CACHE_MISSES), 1);
		if (i == 2)
			ck_assert_mem_eq(buffer, data, 4096);
		ck_assert_int_eq(kp_file_close(file), 0);
		ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
		if (i < 1)
			continue;
		unit_fill(data, sizeof(data));
		fd = open(path, O_WRONLY);
		ck_assert_int_eq(pwrite(fd, data, sizeof(data), 0), sizeof(data));
		close(fd);
	}
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache");
	TCase *tests = tcase_create("cache");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, test_model, 0, 2 * NR_CASES);
	tcase_add_loop_test(tests, test_coherent, 0, NR_CASES);
	tcase_add_loop_test(tests, test_sparse_memory, 4, 6);
	tcase_add_test(tests, test_sparse_time);
	tcase_add_loop_test(tests, test_errseq, 0, NR_CASES);
	tcase_add_loop_test(tests, test_sync_given_up, 0, NR_CASES);
	tcase_add_loop_test(tests, test_sync_killed, 3, 6);
	tcase_add_loop_test(tests, test_osync, 0, 3);
	tcase_add_test(tests, test_invalidate);
	tcase_add_loop_test(tests, test_mapped_extents, 0, 4);
	tcase_add_loop_test(tests, test_expire, 6, 10);
	tcase_add_loop_test(tests, test_disagree, 0, NR_CASES);
	tcase_add_test(tests, test_block_size_below_device);
	tcase_add_test(tests, test_two_caches);
	tcase_add_loop_test(tests, test_other_cache_leaves, 4, 6);
	tcase_add_test(tests, test_changed_behind);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
