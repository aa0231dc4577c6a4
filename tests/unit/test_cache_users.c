// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users of one page cache (time limit: 120): they use the same page, leave, are killed, and come
 * back.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/file_lock.h"
#include "unit_cache.h"

static unsigned char buffer[MIB] __attribute__((aligned(4096)));
static unsigned char data[MIB] __attribute__((aligned(4096)));

static void set_up(unsigned int nr, const char *backend)
{
	set_up_case(&cases[nr], backend);
	unit_fill(buffer, sizeof(buffer));
}

static int do_io(struct kp_file *file, enum kp_op op, uint64_t pos, void *memory, size_t len)
{
	struct kp_io io;

	return unit_io(&unit, &io, op, file, pos, memory, len);
}

/* ---- another process that uses the cache --------------------------------------------------- */

struct other {
	pid_t pid;
	int ready; /* the process writes a byte when it has done its job */
	int go;	   /* a byte tells the process to close its file and end */
};

typedef void (*other_job)(struct kp_file *file);

static void other_ready(int fd)
{
	ck_assert_int_eq(write(fd, "", 1), 1);
}

/*
 * Start a process with a pipeline of its own, which does @job on a file and then waits to be
 * killed or told to end.
 */
static struct other start_other(const char *path, int flags, other_job job)
{
	int ready[2], go[2];
	struct other other;

	ck_assert(!pipe(ready) && !pipe(go));
	other.ready = ready[0];
	other.go = go[1];
	other.pid = fork();
	ck_assert_int_ge(other.pid, 0);
	if (!other.pid) {
		struct kp_file *file;
		char byte;

		close(go[1]);
		unit.pl = NULL;
		if (kp_pipeline_create(&unit.pl, &unit.config) ||
		    kp_file_open(unit.pl, path, flags, MIB, &file))
			_exit(2);
		job(file);
		other_ready(ready[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(3);
		_exit(kp_file_close(file) || kp_pipeline_destroy(unit.pl) ? 4 : 0);
	}
	close(ready[1]);
	close(go[0]);
	return other;
}

static void wait_ready(const struct other *other)
{
	char byte;

	ck_assert_int_eq(read(other->ready, &byte, 1), 1);
}

static void kill_other(struct other *other)
{
	int status;

	kill(other->pid, SIGKILL);
	ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
	close(other->ready);
	close(other->go);
}

static void end_other(struct other *other, bool tell)
{
	int status;

	if (tell)
		ck_assert_int_eq(write(other->go, "", 1), 1);
	ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
	ck_assert_int_eq(status, 0);
	close(other->ready);
	close(other->go);
}

static void check_disk(const char *path, size_t size)
{
	unit_read_file(path, data, size, 0);
	ck_assert_mem_eq(data, buffer, size);
}

/* ---- at a page ----------------------------------------------------------------------------- */

static void read_first_page(struct kp_file *file)
{
	char page[4096];

	if (do_io(file, KP_OP_READ, 0, page, sizeof(page)))
		_exit(5);
}

static void write_first_sector(struct kp_file *file)
{
	if (do_io(file, KP_OP_WRITE, 0, buffer, 512))
		_exit(5);
}

/* Start a slow null device. Its reads copy the data when they are submitted. */
static struct kp_file *slow_reads(unsigned int nr)
{
	struct kp_file *file;

	set_up(nr, "null");
	unit.config.device.null.read_nsec = 200000000;
	unit_start(&unit);
	file = unit_open(&unit, "slow", O_RDWR | O_DIRECT);
	memset(data, 1, 4096);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, data, 4096), 0);
	return file;
}

/*
 * A direct write or a trim ends while another job's read is in flight: the data of that read is
 * stale.
 */
START_TEST(test_read_gets_stale)
{
	struct kp_file *file = slow_reads(_i / 2), *cached;
	struct other other = start_other("slow", O_RDWR, read_first_page);

	ck_assert(unit_until(cache_totals(cache()).pages)); /* of the read that is under way */
	cached = unit_open(&unit, "slow", O_RDWR);
	if (_i % 2)
		ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 4096), 0);
	else
		ck_assert_int_eq(do_io(file, KP_OP_DISCARD, 0, NULL, 4096), 0);
	wait_ready(&other);
	ck_assert_int_eq(do_io(cached, KP_OP_READ, 0, data, 4096), 0);
	if (!(_i % 2))
		memset(buffer, 0, 4096);
	ck_assert_mem_eq(data, buffer, 4096);
	end_other(&other, true);
	unit_exit(&unit);
}
END_TEST

/*
 * A direct write changes one part of a block while a buffered write reads the block to change
 * another.
 */
START_TEST(test_direct_beside_rmw)
{
	struct kp_file *file = slow_reads(_i);
	struct other other = start_other("slow", O_RDWR, write_first_sector);

	ck_assert(unit_until(cache_totals(cache()).pages)); /* of the read that is under way */
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 1024, buffer + 1024, 512), 0);
	wait_ready(&other);
	end_other(&other, true);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, 4096), 0);
	ck_assert_mem_eq(data, buffer, 512);
	ck_assert_mem_eq(data + 1024, buffer + 1024, 512);
	ck_assert_int_eq(data[512], 1);
	unit_exit(&unit);
}
END_TEST

/* Readahead that meets a bad block does not fail the reads before and behind it. */
START_TEST(test_bad_block_ahead)
{
	struct kp_file *file;

	set_up(_i, "null");
	unit.config.device.null.badblocks = "64-71";
	options.read_ahead_kb = 128;
	unit_start(&unit);
	file = unit_open(&unit, "bad", O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, 8 * 4096),
			 0); /* and readahead of 8 pages more */
	for (unsigned int i = 0; i < 64; i++)
		ck_assert_int_eq(do_io(file, KP_OP_READ, i * 4096ull, data, 4096),
				 i == 8 ? -EIO : 0);
	unit_exit(&unit);
}
END_TEST

/* ---- one writes what another reads --------------------------------------------------------- */

#define SHARED_PAGES 64u
#define SHARED_NS    300000000u

/*
 * The version of each page: 'begun' changes before it is written, 'done' after. A trimmed page is
 * all zeroes.
 */
struct shared_page {
	uint32_t begun;
	uint32_t done;
	uint32_t trim; /* the latest version that was a trim */
};

static struct shared_page *shared;
static struct kp_file *shared_direct;

static void write_version(struct kp_file *file, unsigned int page)
{
	struct shared_page *p = &shared[page];
	uint32_t version = p->begun + 1, *words = (uint32_t *)data;
	unsigned int how = unit_between(0, 9);
	int ret;

	if (how == 9)
		__atomic_store_n(&p->trim, version, __ATOMIC_RELAXED);
	__atomic_store_n(&p->begun, version, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 1024; i++)
		words[i] = version;
	if (how == 9)
		ret = do_io(file, KP_OP_DISCARD, page * 4096ull, NULL, 4096);
	else
		ret = do_io(how >= 7 ? shared_direct : file, KP_OP_WRITE, page * 4096ull, data,
			    4096);
	if (!ret && how == 0)
		ret = do_io(file, KP_OP_FDATASYNC, 0, NULL, 0);
	if (ret)
		_exit(5);
	__atomic_store_n(&p->done, version, __ATOMIC_RELEASE);
}

static void write_versions(struct kp_file *file)
{
	uint64_t until = kp_now_ns() + SHARED_NS;

	unit_seed = until | 1;
	if (kp_file_open(unit.pl, file->path, O_RDWR | O_DIRECT, MIB, &shared_direct))
		_exit(6);
	while (kp_now_ns() < until)
		write_version(file, unit_between(0, SHARED_PAGES - 1));
	if (kp_file_close(shared_direct))
		_exit(7);
}

static void check_versions(struct kp_file *file, unsigned int page)
{
	const struct shared_page *p = &shared[page];
	uint32_t least = __atomic_load_n(&p->done, __ATOMIC_ACQUIRE), most;
	const uint32_t *words = (uint32_t *)buffer;

	ck_assert_int_eq(do_io(file, KP_OP_READ, page * 4096ull, buffer, 4096), 0);
	most = __atomic_load_n(&p->begun, __ATOMIC_ACQUIRE);
	for (unsigned int i = 0; i < 1024; i++) {
		if (!words[i] && __atomic_load_n(&p->trim, __ATOMIC_RELAXED) >= least)
			continue;
		ck_assert_msg(words[i] >= least && words[i] <= most,
			      "page %u: version %u, of %u to %u", page, words[i], least, most);
	}
}

/*
 * A read returns nothing older than the last write that had returned, and nothing newer than the
 * last that had begun: cached, direct or trimmed, while pages are evicted and written back all
 * the time.
 */
START_TEST(test_reader_beside_writer)
{
	const char *path = unit_path("beside");
	struct kp_file *file, *direct;
	struct other other;
	unsigned int reads = 0;
	uint64_t until;

	set_up(_i, _i % 2 ? "libaio" : "null");
	options.cache_bytes = 64 * 4096;
	options.dirty_bytes = 16 * 4096;
	options.dirty_background_bytes = 4 * 4096;
	memset(data, 0, sizeof(data));
	unit_make_file(path, data, SHARED_PAGES * 4096);
	shared = mmap(NULL, SHARED_PAGES * sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	direct = unit_open(&unit, path, O_RDWR | O_DIRECT);
	other = start_other(path, O_RDWR, write_versions);
	until = kp_now_ns() + SHARED_NS;
	unit_seed = until | 1;
	for (; kp_now_ns() < until; reads++)
		check_versions(reads % 8 ? file : direct, unit_between(0, SHARED_PAGES - 1));
	wait_ready(&other);
	for (unsigned int i = 0; i < SHARED_PAGES; i++)
		check_versions(file, i);
	ck_assert_uint_gt(reads, 10);
	end_other(&other, true);
	ck_assert_int_eq(kp_file_close(direct), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* ---- leaving and dying --------------------------------------------------------------------- */

static void write_half(struct kp_file *file)
{
	if (do_io(file, KP_OP_WRITE, 0, buffer, 24 * KIB))
		_exit(5);
}

/* The next opener finds the dirty pages of a killed user, and they are written. */
START_TEST(test_killed_left_dirty)
{
	const char *path = unit_path("left");
	struct kp_file *file;
	struct other other;

	set_up(_i, "libaio");
	unit_make_file(path, data, 0);
	other = start_other(path, O_RDWR, write_half);
	wait_ready(&other);
	kill_other(&other);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, 24 * KIB), 0);
	ck_assert_mem_eq(data, buffer, 24 * KIB);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path, 24 * KIB);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/* The next opener has another block size: the dirty pages are written first. */
START_TEST(test_killed_other_block_size)
{
	const char *path = unit_path("sizes");
	struct kp_file *file;
	struct other other;

	set_up(5, "libaio");
	options.block_size = 512;
	unit_make_file(path, data, 0);
	other = start_other(path, O_RDWR, write_half);
	wait_ready(&other);
	kill_other(&other);
	options.block_size = 4096;
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	check_disk(path, 24 * KIB);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer + 512, 512), 0);
	memmove(buffer, buffer + 512, 512);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path, 24 * KIB);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/*
 * A file is opened during the late flush of its last user, with the same options and with others.
 */
START_TEST(test_open_during_late_flush)
{
	struct kp_file *file;
	struct other other;

	set_up(_i ? 5 : 4, "null");
	unit.config.device.null.write_nsec = 100000000;
	unit.config.device.null.queue_depth = 1;
	options.block_size = _i ? 512 : 0;
	other = start_other("late", O_RDWR, write_half);
	wait_ready(&other);
	ck_assert_int_eq(write(other.go, "", 1), 1);
	for (unsigned int i = 0; !cache_totals(cache()).writeback && i < 5000; i++)
		usleep(1000);
	ck_assert_uint_gt(cache_totals(cache()).writeback, 0);
	options.block_size = _i ? 4096 : 0;
	unit_start(&unit);
	file = unit_open(&unit, "late", O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, 24 * KIB), 0);
	ck_assert_mem_eq(data, buffer, 24 * KIB);
	end_other(&other, false);
	/* No page of the other user may stay under writeback for ever. */
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 24 * KIB), 0);
	ck_assert_int_eq(do_io(file, KP_OP_FLUSH, 0, NULL, 0), 0);
	ck_assert_uint_eq(cache_totals(cache()).writeback, 0);
	unit_exit(&unit);
}
END_TEST

static void *open_and_end(void *path)
{
	struct kp_pipeline *pl;
	struct kp_file *file;

	if (kp_pipeline_create(&pl, &unit.config) || kp_file_open(pl, path, O_RDWR, MIB, &file))
		_exit(5);
	return NULL;
}

static char dying_path[512];

/* A thread ends without leaving: its user is dead, but its process is not. */
static void die_slowly(struct kp_file *file)
{
	pthread_t thread;

	(void)file;
	if (pthread_create(&thread, NULL, open_and_end, dying_path) || pthread_join(thread, NULL))
		_exit(6);
	if (kp_pipeline_destroy(unit.pl))
		_exit(7);
}

/* The last live user writes everything back, however long a dead user's process takes to end. */
START_TEST(test_last_beside_dying)
{
	const char *path = unit_path("dying");
	struct kp_file *file;
	struct other other;
	uint64_t from;

	set_up(_i, "libaio");
	strcpy(dying_path, path);
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 24 * KIB), 0);
	other = start_other(path, O_RDWR, die_slowly);
	wait_ready(&other);
	from = kp_now_ns();
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path, 24 * KIB);
	ck_assert_uint_lt(kp_now_ns() - from, unit_patience(5000000000u));
	kill_other(&other);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

static void write_nearly_all(struct kp_file *file)
{
	if (do_io(file, KP_OP_WRITE, 0, buffer, 112 * KIB))
		_exit(5);
}

/* Dirty pages of a device that lost its only user count against writers on other devices. */
START_TEST(test_orphans_of_other_device)
{
	char shm[64];
	const char *path = unit_path("second");
	struct kp_file *file;
	struct other other;
	struct stat st[2];

	snprintf(shm, sizeof(shm), "/dev/shm/kpolicy.%d", (int)getpid());
	set_up(_i, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	unit_make_file(path, data, 0);
	unit_make_file(shm, data, 0);
	ck_assert(!stat(path, &st[0]) && !stat(shm, &st[1]));
	ck_assert_int_ne(st[0].st_dev, st[1].st_dev);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	other = start_other(shm, O_RDWR, write_nearly_all);
	wait_ready(&other);
	ck_assert_uint_eq(cache_totals(cache()).dirty, 112 / 4);
	kill_other(&other);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 112 * KIB), 0);
	/* Our dirty pages stay below the background limit, those of the dead user are written. */
	for (unsigned int i = 0; cache()->files[1]->nr_dirty && i < 3000; i++)
		usleep(1000);
	check_disk(shm, 112 * KIB);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path, 112 * KIB);
	kp_arena_destroy(unit.arena);
	unlink(path);
	unlink(shm);
}
END_TEST

/* Dirty pages for which nobody has a device are given up with a message and an error. */
START_TEST(test_orphans_of_no_device)
{
	const char *path = unit_path("nodev");
	struct kp_file *file;
	struct other other;

	set_up(4, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	unit_make_file(path, data, 0);
	other = start_other(path, O_RDWR, write_nearly_all);
	wait_ready(&other);
	kill_other(&other);
	unit.config.device.backend = "null";
	unit_start(&unit);
	file = unit_open(&unit, "null", O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 112 * KIB), 0);
	for (unsigned int i = 0; cache()->files[0]->nr_dirty && i < 3000; i++)
		usleep(1000);
	ck_assert_ptr_nonnull(strstr(unit_said, "given up"));
	ck_assert_int_eq(cache()->files[0]->error, -EIO);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* ---- files that cannot be opened ----------------------------------------------------------- */

static void limit_files(rlim_t limit)
{
	struct rlimit files;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = limit ? limit : files.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/*
 * Without descriptors pages stay dirty until there is one again, or until they are given up with
 * an error.
 */
START_TEST(test_no_descriptors)
{
	const char *path = unit_path("many");
	struct kp_file *file;

	set_up(4, "libaio");
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	limit_files(3);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 64 * KIB), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	for (unsigned int i = 0; i < 5000; i++) {
		if (__atomic_load_n(&cache()->files[0]->unopened_ns, __ATOMIC_ACQUIRE))
			break;
		usleep(1000);
	}
	usleep(250000); /* the flusher tries again without a message */
	ck_assert_uint_eq(cache_totals(cache()).dirty, 16);
	ck_assert_ptr_nonnull(strstr(unit_said, "cannot be opened"));
	ck_assert_uint_eq(unit_nr_said, 1);
	if (_i) {
		limit_files(0);
		ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
		check_disk(path, 64 * KIB);
	} else {
		ck_assert_int_eq(kp_pipeline_destroy(unit.pl), -EMFILE);
		ck_assert_ptr_nonnull(strstr(unit_said, "late writeback failed"));
		limit_files(0); /* sanitizers need some */
	}
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/*
 * A file without links loses its pages at the last close. Without a name, but open, it keeps
 * them.
 */
START_TEST(test_unlinked)
{
	const char *path = unit_path("unlinked");
	struct kp_file *file;
	int fd;

	set_up(4, "libaio");
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 16 * KIB), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 16 * KIB, buffer + 16 * KIB, 48 * KIB), 0);
	/* The flusher opens it through our descriptor. */
	ck_assert(unit_until(cache_totals(cache()).dirty < 16));
	ck_assert_int_eq(do_io(file, KP_OP_FDATASYNC, 0, NULL, 0), 0);
	ck_assert_int_eq(pread(fd, data, 64 * KIB, 0), 64 * KIB);
	ck_assert_mem_eq(data, buffer, 64 * KIB);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 4096), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_uint_eq(cache_totals(cache()).pages, 0);
	/* Another file may get its inode number. */
	close(fd);
	memset(data, 0x55, 8192);
	unit_make_file(path, data, 8192);
	file = unit_open(&unit, path, O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, 8192), 0);
	ck_assert_int_eq(data[0], 0x55);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	ck_assert_uint_eq(unit_nr_said, 0);
	unlink(path);
}
END_TEST

/* ---- names that change --------------------------------------------------------------------- */

enum name_change {
	NAME_RENAMED,
	NAME_FOLDER_RENAMED,
	NAME_ONE_OF_TWO_LINKS,
	NAME_SYMLINK_SWAPPED,
	NAME_REPLACED, /* the name belongs to another file */
	NAME_ONLY_LINK,
	NR_NAME_CHANGES,
};

static const char *const name_changes[] = {
	"renamed",	   "folder renamed", "one of two links removed",
	"symlink swapped", "replaced",	     "only link removed",
};

/* The names of one file: the job opens 'opened'; afterwards the file is at 'found'. */
struct names {
	char folder[600], moved[600], opened[700], other[700], found[700];
};

static void make_names(struct names *n, enum name_change change)
{
	snprintf(n->folder, sizeof(n->folder), "%s", unit_path("names"));
	snprintf(n->moved, sizeof(n->moved), "%s", unit_path("moved"));
	snprintf(n->opened, sizeof(n->opened), "%s/file", n->folder);
	snprintf(n->other, sizeof(n->other), "%s/other", n->folder);
	snprintf(n->found, sizeof(n->found), "%s/%s",
		 change == NAME_FOLDER_RENAMED ? n->moved : n->folder,
		 change == NAME_FOLDER_RENAMED ? "file" : "other");
	ck_assert_int_eq(mkdir(n->folder, 0700), 0);
	if (change == NAME_SYMLINK_SWAPPED) {
		unit_make_file(n->other, data, 0);
		ck_assert_int_eq(symlink(n->other, n->opened), 0);
	} else {
		unit_make_file(n->opened, data, 0);
	}
	if (change == NAME_ONE_OF_TWO_LINKS)
		ck_assert_int_eq(link(n->opened, n->other), 0);
}

static void change_names(const struct names *n, enum name_change change)
{
	switch (change) {
	case NAME_RENAMED:
		ck_assert_int_eq(rename(n->opened, n->other), 0);
		break;
	case NAME_FOLDER_RENAMED:
		ck_assert_int_eq(rename(n->folder, n->moved), 0);
		break;
	case NAME_SYMLINK_SWAPPED:
		ck_assert_int_eq(unlink(n->opened), 0);
		ck_assert_int_eq(symlink("/dev/null", n->opened), 0);
		break;
	case NAME_REPLACED:
		ck_assert_int_eq(rename(n->opened, n->other), 0);
		unit_make_file(n->opened, "not mine", 8);
		break;
	default:
		ck_assert_int_eq(unlink(n->opened), 0);
	}
}

static void check_names(const struct names *n, enum name_change change)
{
	char byte[9] = "";

	if (change == NAME_ONLY_LINK)
		ck_assert_uint_eq(cache_totals(cache()).pages, 0);
	else
		check_disk(n->found, 24 * KIB);
	if (change == NAME_REPLACED) {
		unit_read_file(n->opened, byte, 8, 0);
		ck_assert_str_eq(byte, "not mine");
	}
	unlink(n->opened);
	unlink(n->found);
	rmdir(n->folder);
	rmdir(n->moved);
}

/*
 * Data that was not synced gets to the file, whether its name changes before or after the job
 * closes it. When the only link is removed the data may go, as in the kernel.
 */
START_TEST(test_name_changes)
{
	enum name_change change = _i / 2;
	bool closed_first = _i % 2;
	struct kp_file *file;
	struct names names = { 0 };

	set_up(4, "libaio");
	make_names(&names, change);
	unit_start(&unit);
	file = unit_open(&unit, names.opened, O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 24 * KIB), 0);
	if (!closed_first)
		change_names(&names, change);
	ck_assert_int_eq(kp_file_close(file), 0);
	if (closed_first)
		change_names(&names, change);
	ck_assert_msg(!kp_pipeline_destroy(unit.pl) && !unit_nr_said, "%s: %s",
		      name_changes[change], unit_said);
	check_names(&names, change);
	kp_arena_destroy(unit.arena);
}
END_TEST

/* The same with two jobs. The writer leaves first, while the other has the file open or had it. */
START_TEST(test_name_changes_of_jobs)
{
	enum name_change change = _i / 3;
	unsigned int mine =
		_i % 3; /* open; closed before the other writes; open for reading only */
	struct kp_file *file;
	struct names names = { 0 };
	struct other other;

	set_up(5, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	make_names(&names, change);
	unit_start(&unit);
	file = unit_open(&unit, names.opened, mine == 2 ? O_RDONLY : O_RDWR);
	if (mine == 1)
		ck_assert_int_eq(kp_file_close(file), 0);
	other = start_other(names.opened, O_RDWR, write_half);
	wait_ready(&other);
	change_names(&names, change);
	end_other(&other, true);
	if (mine != 1)
		ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_msg(!kp_pipeline_destroy(unit.pl) && !unit_nr_said, "%s: %s",
		      name_changes[change], unit_said);
	check_names(&names, change);
	kp_arena_destroy(unit.arena);
}
END_TEST

/* A killed job keeps no descriptor. If nothing leads to its file, the loss is logged. */
START_TEST(test_renamed_and_killed)
{
	struct kp_file *file;
	struct names names = { 0 };
	struct other other;
	char mine[600];

	set_up(4, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	make_names(&names, NAME_RENAMED);
	snprintf(mine, sizeof(mine), "%s", unit_path("mine"));
	unit_make_file(mine, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, mine, O_RDWR);
	other = start_other(names.opened, O_RDWR, write_half);
	wait_ready(&other);
	change_names(&names, NAME_RENAMED);
	kill_other(&other);
	for (unsigned int i = 0; cache_totals(cache()).dirty && i < 5000; i++)
		usleep(1000);
	ck_assert_uint_eq(cache_totals(cache()).dirty, 0);
	ck_assert_ptr_nonnull(strstr(unit_said, "24576 bytes that were not synced are lost"));
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(mine);
	unlink(names.found);
	rmdir(names.folder);
}
END_TEST

/* A job closes more dirty files than it can keep descriptors of, and loses nothing. */
START_TEST(test_many_closed)
{
	struct kp_file *file;
	struct rlimit files;
	char name[32];

	set_up(4, "libaio");
	options.dirty_bytes = MIB;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = 128;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	unit_start(&unit);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "closed%u", i);
		unit_make_file(unit_path(name), data, 0);
		file = unit_open(&unit, unit_path(name), O_RDWR);
		ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 4096), 0);
		ck_assert_int_eq(kp_file_close(file), 0);
	}
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	ck_assert_uint_eq(unit_nr_said, 0);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "closed%u", i);
		check_disk(unit_path(name), 4096);
		unlink(unit_path(name));
	}
	kp_arena_destroy(unit.arena);
}
END_TEST

/* ---- pids that come back ------------------------------------------------------------------- */

/* Another process has the pid of a job that was killed: nobody waits for that process. */
START_TEST(test_pid_reused)
{
	const char *path = unit_path("pid");
	struct kp_file *file;
	struct other other;
	uint64_t from;

	set_up(_i, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	other = start_other(path, O_RDWR, write_half);
	wait_ready(&other);
	/* Pretend that the other user had a page under writeback when it was killed. */
	cache_lock(cache(), cache()->files[0]);
	cache_start_writeback(cache(), cache()->files[0], cache_lookup(cache()->files[0], 1), 1);
	cache_unlock(cache()->files[0]);
	kill_other(&other);
	cache()->users[1].pid = getppid();
	from = kp_now_ns();
	ck_assert_int_eq(do_io(file, KP_OP_FDATASYNC, 0, NULL, 0), 0);
	ck_assert_uint_lt(kp_now_ns() - from, unit_patience(5000000000u));
	check_disk(path, 24 * KIB);
	ck_assert_int_eq(kp_file_close(file), 0);
	unit_exit(&unit);
	unlink(path);
}
END_TEST

/* A dead user is not reaped as long as one of its open files exists. */
START_TEST(test_io_not_over)
{
	const char *path = unit_path("inflight");
	struct kp_file *file;
	struct other other;
	char fd_path[64];
	int held;

	set_up(4, "libaio");
	options.dirty_background_bytes = 120 * KIB;
	unit_make_file(path, data, 0);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	other = start_other(path, O_RDWR, write_half);
	wait_ready(&other);
	cache_lock(cache(), cache()->files[0]);
	cache_start_writeback(cache(), cache()->files[0], cache_lookup(cache()->files[0], 1), 1);
	cache_unlock(cache()->files[0]);
	/* An open file with the user's lock stands for an I/O in flight. */
	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", file->fd);
	held = open(fd_path, O_RDONLY);
	ck_assert_int_eq(kp_file_lock(held, KP_LOCK_CACHE_USER, 1), 0);
	kill_other(&other);
	for (unsigned int i = 0; i < 20; i++) {
		ck_assert(cache_reap_users(cache()));
		usleep(5000);
	}
	ck_assert_uint_eq(cache_totals(cache()).writeback, 1);
	close(held);
	for (unsigned int i = 0; cache_reap_users(cache()) && i < 1000; i++)
		usleep(1000);
	ck_assert_uint_eq(cache_totals(cache()).writeback, 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	check_disk(path, 24 * KIB);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

/* ---- threads that end ---------------------------------------------------------------------- */

static struct kp_file *left_open;

/* Read from the start, so that readahead is in flight when the thread ends. */
static void *read_and_end(void *arg)
{
	(void)arg;
	unit_start(&unit);
	left_open = unit_open(&unit, "ended", O_RDWR);
	for (unsigned int i = 0; i < 6; i++)
		ck_assert_int_eq(do_io(left_open, KP_OP_READ, i * 4096ull, data, 4096), 0);
	return NULL;
}

/* io_submit_mode=offload: another thread destroys the pipeline after its maker has ended. */
START_TEST(test_taken_down_by_another)
{
	pthread_t thread;

	set_up(_i, "null");
	unit.config.device.null.read_nsec = 20000000;
	ck_assert_int_eq(pthread_create(&thread, NULL, read_and_end, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(kp_file_close(left_open), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	kp_arena_destroy(unit.arena);
}
END_TEST

static uint32_t *stop_writing;

static void write_on(struct kp_file *file)
{
	uint64_t give_up = kp_now_ns() + 20000000000u;

	for (uint64_t i = 0; !__atomic_load_n(stop_writing, __ATOMIC_RELAXED); i++) {
		if (do_io(file, KP_OP_WRITE, i * 4096, buffer, 4096) || kp_now_ns() > give_up)
			_exit(5);
	}
}

/*
 * A flusher gives up its lock when its job leaves, even if its scan would continue while others
 * write.
 */
START_TEST(test_leave_while_others_write)
{
	struct kp_file *file;
	struct other other;
	uint64_t from;

	set_up(_i, "null");
	/* The device is slower than the writer, so that there are always dirty pages. */
	unit.config.device.null.memory_backed = false;
	unit.config.device.null.submit_nsec = 1000000;
	unit.config.device.limits.max_sectors_kb = 64;
	options.dirty_bytes = 64 * MIB;
	stop_writing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unit_start(&unit);
	file = unit_open(&unit, "busy", O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_WRITE, 0, buffer, 64 * KIB), 0);
	other = start_other("busy", O_RDWR, write_on);
	usleep(300000);
	from = kp_now_ns();
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	ck_assert_uint_lt(kp_now_ns() - from, unit_patience(3000000000u));
	__atomic_store_n(stop_writing, 1, __ATOMIC_RELAXED);
	wait_ready(&other);
	end_other(&other, true);
	kp_arena_destroy(unit.arena);
}
END_TEST

/* ---- limits -------------------------------------------------------------------------------- */

/* Smaller limits of later users hold, and memory is given back. */
START_TEST(test_smaller_limits)
{
	const uint64_t size = 16 * MIB;
	unsigned char *resident = unit_memory(size);
	unsigned int pages = 0;
	struct kp_file *file;

	set_up(_i, "null");
	options.cache_bytes = size;
	unit_start(&unit);
	file = unit_open(&unit, "limits", O_RDWR);
	for (uint64_t pos = 0; pos < size; pos += MIB)
		ck_assert_int_eq(do_io(file, KP_OP_READ, pos, data, MIB), 0);
	ck_assert_uint_eq(cache_totals(cache()).pages, size / KP_PAGE_SIZE);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	options.cache_bytes = MIB;
	unit_start(&unit);
	ck_assert_uint_le(cache_totals(cache()).pages, MIB / KP_PAGE_SIZE);
	for (unsigned int i = 0; i < size / KP_PAGE_SIZE / PAGES_PER_CHUNK; i++) {
		ck_assert_int_eq(mincore(cache()->chunks[i]->data, sizeof(cache()->chunks[i]->data),
					 resident),
				 0);
		for (unsigned int j = 0; j < PAGES_PER_CHUNK; j++)
			pages += resident[j] & 1;
	}
	/* The pool gives whole chunks back. */
	ck_assert_uint_le(pages, 2 * PAGES_PER_CHUNK);
	file = unit_open(&unit, "limits", O_RDWR);
	ck_assert_int_eq(do_io(file, KP_OP_READ, 0, data, MIB), 0);
	unit_exit(&unit);
	munmap(resident, size);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache_users");
	TCase *tests = tcase_create("users");
	const char *sanitizer = getenv("KP_SANITIZE");

	tcase_set_timeout(tests, 30);
	tcase_add_loop_test(tests, test_bad_block_ahead, 0, NR_CASES);
	tcase_add_loop_test(tests, test_killed_left_dirty, 0, NR_CASES);
	tcase_add_test(tests, test_killed_other_block_size);
	tcase_add_loop_test(tests, test_open_during_late_flush, 0, 2);
	tcase_add_test(tests, test_orphans_of_no_device);
	tcase_add_loop_test(tests, test_no_descriptors, 0, 2);
	tcase_add_test(tests, test_unlinked);
	tcase_add_loop_test(tests, test_name_changes, 0, 2 * NR_NAME_CHANGES);
	tcase_add_test(tests, test_many_closed);
	tcase_add_loop_test(tests, test_taken_down_by_another, 3, 6);
	tcase_add_loop_test(tests, test_smaller_limits, 4, 6);
	/* Sanitizers may hang in a child whose parent had threads. */
	if (!sanitizer || !*sanitizer) {
		tcase_add_loop_test(tests, test_read_gets_stale, 8, 12);
		tcase_add_loop_test(tests, test_direct_beside_rmw, 3, 5);
		tcase_add_loop_test(tests, test_reader_beside_writer, 0, NR_CASES);
		tcase_add_loop_test(tests, test_last_beside_dying, 4, 6);
		tcase_add_loop_test(tests, test_name_changes_of_jobs, 0, 3 * NR_NAME_CHANGES);
		tcase_add_test(tests, test_renamed_and_killed);
		tcase_add_loop_test(tests, test_pid_reused, 4, 6);
		tcase_add_test(tests, test_io_not_over);
		tcase_add_loop_test(tests, test_orphans_of_other_device, 4, 6);
		tcase_add_loop_test(tests, test_leave_while_others_write, 0, 2);
	}
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
