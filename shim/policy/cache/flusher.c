// SPDX-License-Identifier: GPL-2.0-only
/* The flusher of a device. See flusher.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file_lock.h"
#include "files.h"
#include "flusher.h"
#include "locate.h"
#include "page_pool.h"
#include "pages.h"
#include "users.h"
#include "wake.h"
#include "writeback.h"

#define STANDBY_NS    250000000u
#define REAP_EVERY_NS 500000000u
#define DYING_NS      20000000u
#define GIVE_UP_NS    2000000000u /* how long an unused file that cannot be opened is kept */
#define NR_REQUESTS   128u
#define OPEN_FILES    32u
#define OPEN_TRIES    10u

/* An open file of the flusher's pipeline. */
struct flusher_file {
	struct cache_file *file; /* NULL: the slot is free */
	struct kp_file *kp_file;
	uint64_t used;
};

struct flusher {
	struct flusher_config config;
	struct kp_pipeline_config pipeline;
	pthread_t thread;
	uint32_t event;		/* futex: 'stop' was set */
	bool stop;		/* atomic */
	struct kp_pipeline *pl; /* made when there is something to write */
	struct cache_io_ctx ctx;
	struct flusher_file files[OPEN_FILES]; /* the files used last */
	uint64_t uses;
	uint32_t turn; /* index of the file that is next */
	uint64_t next_periodic;
	uint64_t next_look;
	/* Set by flusher_stop(), and the answer to it. */
	struct cache_file *const *last;
	unsigned int nr_last;
	int error;
};

static bool stopping(const struct flusher *flusher)
{
	return __atomic_load_n(&flusher->stop, __ATOMIC_ACQUIRE);
}

/* ---- files --------------------------------------------------------------------------------- */

static bool is_null(const struct flusher *flusher)
{
	return flusher->pl->device->ops->caps & KP_BACKEND_NO_FILE;
}

/* Open what @path leads to. Return: 0; -ENOENT: it is not the file any more; another -errno. */
static int open_path(struct flusher *flusher, struct cache_file *file, const char *path,
		     struct kp_file **kp_file)
{
	struct page_cache *cache = flusher->config.cache;
	int ret;

	if (!file->is_null && access(path, W_OK))
		return errno == ENOTDIR ? -ENOENT : -errno;
	ret = kp_file_open(flusher->pl, path, O_RDWR, cache_load(&file->size), kp_file);
	if (ret)
		return ret;
	ret = -ENOENT;
	if (!memcmp(&(*kp_file)->key, &file->key, sizeof(file->key)))
		ret = cache_exclude_others(cache, *kp_file);
	if (ret) {
		kp_file_close(*kp_file);
		return ret;
	}
	cache_touch_file(cache, file, flusher->config.user);
	if ((*kp_file)->fd >= 0)
		kp_file_lock((*kp_file)->fd, KP_LOCK_CACHE_USER, flusher->config.user);
	return 0;
}

/*
 * Open a file. Return: 0; -ENOENT when no path leads to it; -EXDEV when it belongs to a null
 * device and our device is none, or the reverse; another -errno.
 */
static int open_file(struct flusher *flusher, struct cache_file *file, struct kp_file **kp_file)
{
	struct cache_location location = { 0 };
	int ret;

	if (file->is_null != is_null(flusher))
		return -EXDEV;
	if (file->is_null)
		return open_path(flusher, file, file->path, kp_file);
	for (unsigned int i = 0; i < OPEN_TRIES; i++) {
		ret = cache_locate_file(flusher->config.cache, file, &location);
		if (ret)
			return ret;
		ret = open_path(flusher, file, location.path, kp_file);
		if (ret != -ENOENT)
			return ret;
		/* The path was changed after we had found it. */
	}
	return -EAGAIN;
}

static void close_file(struct flusher_file *slot)
{
	if (slot->file)
		kp_file_close(slot->kp_file);
	slot->file = NULL;
}

/*
 * The slot of @file, or a free one. If all are in use, the file that was used least recently is
 * closed.
 */
static struct flusher_file *find_slot(struct flusher *flusher, const struct cache_file *file)
{
	struct flusher_file *oldest = &flusher->files[0];

	for (unsigned int i = 0; i < OPEN_FILES; i++) {
		struct flusher_file *slot = &flusher->files[i];

		if (slot->file == file)
			return slot;
		if (!slot->file || (oldest->file && slot->used < oldest->used))
			oldest = slot;
	}
	close_file(oldest);
	return oldest;
}

/*
 * Drop the pages of a file. @error 0: the file is gone, and its data may go. Otherwise data is
 * lost: -ENOENT when no path leads to the file, else an error that openers get from their next
 * sync.
 */
static void drop_pages(struct flusher *flusher, struct cache_file *file, int error)
{
	struct page_cache *cache = flusher->config.cache;
	uint64_t lost;

	cache_lock(cache, file);
	lost = error ? file->nr_dirty * KP_PAGE_SIZE : 0;
	if (error && error != -ENOENT)
		cache_set_error(file, -EIO);
	cache_drop_all(cache, file);
	cache_unlock(file);
	cache_count(flusher->ctx.counters, CACHE_FAILED_BYTES, lost);
	if (error == -ENOENT && lost)
		kp_log("%s: removed or renamed, and no job has it open: %llu bytes that were not "
		       "synced are lost",
		       file->path, (unsigned long long)lost);
	cache_wake(file);
	cache_wake_throttled(cache);
}

/* The file cannot be opened: say so once. Its pages stay dirty. */
static void note_unopened(struct cache_file *file, int error)
{
	if (error == -EXDEV || cache_load(&file->unopened_ns))
		return;
	kp_log("%s: cannot be opened for writeback: %s; its dirty pages are kept and "
	       "tried again",
	       file->path, strerror(-error));
	__atomic_store_n(&file->unopened_ns, kp_now_ns(), __ATOMIC_RELEASE);
}

/*
 * Get an open file for a cached one. Return: 0; -ENOENT when it is gone or nothing leads to it,
 * and its pages were dropped; another -errno.
 */
static int file_of(struct flusher *flusher, struct cache_file *file, struct kp_file **kp_file)
{
	struct flusher_file *slot = find_slot(flusher, file);
	int ret = 0;

	slot->used = ++flusher->uses;
	if (!slot->file) {
		ret = open_file(flusher, file, &slot->kp_file);
		if (ret == -EMFILE || ret == -ENFILE) {
			for (unsigned int i = 0; i < OPEN_FILES; i++)
				close_file(&flusher->files[i]);
			ret = open_file(flusher, file, &slot->kp_file);
		}
	}
	if (!ret && cache_is_gone(flusher->config.cache, file, slot->kp_file->fd)) {
		slot->file = file;
		close_file(slot);
		drop_pages(flusher, file, 0);
		return -ENOENT;
	}
	if (ret == -ENOENT) {
		drop_pages(flusher, file, ret);
	} else if (ret) {
		note_unopened(file, ret);
	} else {
		slot->file = file;
		*kp_file = slot->kp_file;
		__atomic_store_n(&file->unopened_ns, 0, __ATOMIC_RELAXED);
	}
	return ret;
}

/* ---- work ---------------------------------------------------------------------------------- */

/* over_bground_thresh() */
static bool over_background(const struct page_cache *cache)
{
	return cache_totals(cache).dirty > cache->limits.dirty_background_bytes / KP_PAGE_SIZE;
}

/* The next dirty file of the device, in turn. NULL: there is none. */
static struct cache_file *next_file(struct flusher *flusher)
{
	struct page_cache *cache = flusher->config.cache;
	uint32_t nr = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		struct cache_file *file = cache->files[(flusher->turn + i) % nr];

		if (file->bdi == flusher->config.bdi && cache_load(&file->nr_dirty)) {
			flusher->turn = (flusher->turn + i + 1) % nr;
			return file;
		}
	}
	return NULL;
}

/* Write one budget of pages of the next dirty file that can be opened. Return: pages written. */
static uint64_t write_next_file(struct flusher *flusher)
{
	uint32_t nr = __atomic_load_n(&flusher->config.cache->nr_files, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		struct cache_file *file = next_file(flusher);
		struct kp_file *kp_file;

		if (!file)
			break;
		if (!file_of(flusher, file, &kp_file))
			return writeback_background(&flusher->ctx, file, kp_file,
						    flusher->config.nr_to_write);
	}
	return 0;
}

/* Write all dirty pages of a file, one budget at a time. */
static void write_file(struct flusher *flusher, struct cache_file *file, struct kp_file *kp_file)
{
	uint64_t left = cache_load(&file->nr_dirty), written;

	do {
		written = writeback_background(&flusher->ctx, file, kp_file,
					       flusher->config.nr_to_write);
		left -= kp_min(left, written);
	} while (left && written && !stopping(flusher));
}

/* wb_check_old_data_flush(): write files that have been dirty for too long. */
static void write_expired(struct flusher *flusher, uint64_t now)
{
	struct page_cache *cache = flusher->config.cache;
	uint32_t nr = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);
	uint64_t expire = cache->limits.dirty_expire_centisecs * 10000000ull;

	for (uint32_t i = 0; i < nr && !stopping(flusher); i++) {
		struct cache_file *file = cache->files[i];
		uint64_t since = cache_load(&file->dirtied_ns);
		struct kp_file *kp_file;

		if (file->bdi != flusher->config.bdi || !since || now < since + expire ||
		    file_of(flusher, file, &kp_file))
			continue;
		__atomic_store_n(&file->dirtied_ns, now, __ATOMIC_RELAXED); /* redirty_tail() */
		write_file(flusher, file, kp_file);
	}
}

static bool try_flusher_lock(struct cache_bdi *bdi)
{
	bool died;

	return kp_robust_trylock(&bdi->flusher_lock, &died);
}

static void write_orphan(struct flusher *flusher, struct cache_file *file)
{
	struct kp_file *kp_file;
	int ret = file_of(flusher, file, &kp_file);
	uint64_t since = cache_load(&file->unopened_ns);

	if (!ret) {
		write_file(flusher, file, kp_file);
	} else if (ret == -EXDEV || (since && kp_now_ns() > since + GIVE_UP_NS)) {
		kp_log("%s: dirty pages of a job that was killed are given up: %s", file->path,
		       ret == -EXDEV ? "no job has a device for them" : strerror(-ret));
		drop_pages(flusher, file, ret);
	}
}

/*
 * Write the dirty pages of files whose users were all killed, since these count against the limit
 * of everybody. That includes files of other devices that have no flusher left.
 */
static void write_orphans(struct flusher *flusher)
{
	struct page_cache *cache = flusher->config.cache;
	uint32_t nr = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr && !stopping(flusher); i++) {
		struct cache_file *file = cache->files[i];
		bool own = file->bdi == flusher->config.bdi;

		if (!cache_load(&file->nr_dirty) || cache_in_use(cache, file) ||
		    (!own && !try_flusher_lock(file->bdi)))
			continue;
		write_orphan(flusher, file);
		if (!own)
			pthread_mutex_unlock(&file->bdi->flusher_lock);
	}
}

static void sleep_for_work(struct flusher *flusher, uint32_t seen)
{
	struct cache_bdi *bdi = flusher->config.bdi;

	if (__atomic_load_n(&flusher->ctx.in_flight, __ATOMIC_ACQUIRE)) {
		if (kp_pipeline_wait(flusher->pl, flusher->ctx.anchor.next) >= 0)
			return;
		usleep(100); /* a thread of another stage holds our bios */
		return;
	}
	__atomic_store_n(&bdi->sleeping, 1, __ATOMIC_SEQ_CST);
	if (!stopping(flusher))
		kp_futex_wait(&bdi->work, seen, KP_LOOK_AROUND_NS);
	__atomic_store_n(&bdi->sleeping, 0, __ATOMIC_SEQ_CST);
}

/* Look for killed users, and for what they left, every now and then. */
static void check_users(struct flusher *flusher, uint64_t now)
{
	bool dying;

	if (now < flusher->next_look)
		return;
	pool_map(flusher->config.cache); /* jobs that started later may need more memory */
	dying = cache_reap_users(flusher->config.cache);
	flusher->next_look = now + (dying ? DYING_NS : REAP_EVERY_NS);
	write_orphans(flusher);
}

static void work(struct flusher *flusher)
{
	struct page_cache *cache = flusher->config.cache;
	uint64_t interval = cache->limits.dirty_writeback_centisecs * 10000000ull;
	uint32_t seen = __atomic_load_n(&flusher->config.bdi->work, __ATOMIC_SEQ_CST);
	uint64_t written = 0, now;

	if (over_background(cache))
		written = write_next_file(flusher);
	now = kp_now_ns();
	check_users(flusher, now);
	if (written) {
		kp_pipeline_poll(flusher->pl);
		return;
	}
	if (interval && now >= flusher->next_periodic) {
		flusher->next_periodic = now + interval;
		write_expired(flusher, now);
	}
	sleep_for_work(flusher, seen);
}

/* Is anything of the file left to write, or an error that nobody has seen? */
static bool has_left(struct page_cache *cache, struct cache_file *file)
{
	bool left;

	cache_lock(cache, file);
	left = file->nr_dirty || file->nr_writeback || cache_padded(file) ||
	       cache_sample_error(file) != file->error_seq;
	cache_unlock(file);
	return left;
}

/* Write back what is left of a file. Return: 0, or the error that kept data from the device. */
static int write_last_file(struct flusher *flusher, struct cache_file *file)
{
	struct page_cache *cache = flusher->config.cache;
	struct kp_file *kp_file;
	uint32_t since;
	int ret;

	if (!has_left(cache, file))
		return 0;
	cache_lock(cache, file);
	since = cache_sample_error(file);
	cache_unlock(file);
	ret = file_of(flusher, file, &kp_file);
	while (ret && ret != -ENOENT && kp_now_ns() < cache_load(&file->unopened_ns) + GIVE_UP_NS) {
		usleep(KP_LOOK_AROUND_NS / 1000);
		ret = file_of(flusher, file, &kp_file);
	}
	if (ret == -ENOENT)
		return 0;
	if (ret) {
		drop_pages(flusher, file, ret);
		return ret;
	}
	ret = writeback_and_wait_range(&flusher->ctx, file, kp_file, 0, UINT64_MAX);
	cache_stamp(cache, file, kp_file);
	cache_lock(cache, file);
	if (!ret)
		ret = cache_check_error(file, &since);
	cache_unlock(file);
	return ret;
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Create the pipeline when it is first needed. Return: 0 or -errno. */
static int set_up(struct flusher *flusher)
{
	const struct flusher_config *config = &flusher->config;
	struct kp_pipeline *pl = NULL;
	int ret;

	if (flusher->pl)
		return 0;
	ret = kp_pipeline_create_with(&pl, &flusher->pipeline,
				      KP_NEEDS_ASYNC_DEVICE | KP_NEEDS_OWN_IO);
	if (ret || !pl)
		return ret ? ret : -ENOMEM;
	flusher->ctx.variant = config->variant;
	flusher->ctx.wrap_fault = config->wrap_fault;
	ret = cache_io_init(&flusher->ctx, config->cache, config->user, pl, pl->first,
			    pl->slot->values + config->counters_at);
	if (!ret) {
		flusher->pl = pl;
		return 0;
	}
	kp_pipeline_destroy(pl);
	cache_io_exit(&flusher->ctx);
	memset(&flusher->ctx, 0, sizeof(flusher->ctx));
	flusher->ctx.stop = stopping(flusher);
	return ret;
}

/* The late flush: write back what nobody has synced when the last user leaves. */
static void write_last(struct flusher *flusher)
{
	uint64_t from = kp_now_ns(), before = 0, *counters;
	bool left = false;
	int ret;

	for (unsigned int i = 0; i < flusher->nr_last; i++)
		left |= has_left(flusher->config.cache, flusher->last[i]);
	if (!left)
		return;
	ret = set_up(flusher);
	if (ret) {
		flusher->error = ret;
		kp_log("late writeback is not possible: %s", strerror(-ret));
		return;
	}
	counters = flusher->ctx.counters;
	before = counters[CACHE_WRITEBACK_BYTES];
	for (unsigned int i = 0; i < flusher->nr_last; i++) {
		ret = write_last_file(flusher, flusher->last[i]);
		if (!ret)
			continue;
		kp_log("%s: late writeback failed: %s; some of its data is not on the "
		       "device",
		       flusher->last[i]->path, strerror(-ret));
		if (!flusher->error)
			flusher->error = ret;
	}
	cache_count(counters, CACHE_LATE_BYTES, counters[CACHE_WRITEBACK_BYTES] - before);
	if (counters[CACHE_WRITEBACK_BYTES] != before)
		cache_count(counters, CACHE_LATE_NS, kp_now_ns() - from);
}

static void tear_down(struct flusher *flusher)
{
	if (!flusher->pl)
		return;
	cache_io_drain(&flusher->ctx);
	kp_pipeline_destroy(flusher->pl);
	cache_io_exit(&flusher->ctx);
}

/* Sleep for a while, or until flusher_stop(). */
static void stand_by(struct flusher *flusher)
{
	uint32_t seen = __atomic_load_n(&flusher->event, __ATOMIC_ACQUIRE);

	pool_map(flusher->config.cache);
	if (!stopping(flusher))
		kp_futex_wait(&flusher->event, seen, STANDBY_NS);
}

/* Try to become the flusher of the device. */
static bool begin_work(struct flusher *flusher)
{
	struct cache_bdi *bdi = flusher->config.bdi;
	int ret;

	if (!try_flusher_lock(bdi))
		return false;
	ret = set_up(flusher);
	if (!ret)
		return true;
	if (!flusher->error)
		kp_log("the flusher cannot work: %s", strerror(-ret));
	flusher->error = ret;
	pthread_mutex_unlock(&bdi->flusher_lock);
	return false;
}

static void *flusher_main(void *arg)
{
	struct flusher *flusher = arg;
	bool is_flusher = false;

	while (!stopping(flusher)) {
		if (is_flusher)
			work(flusher);
		else
			is_flusher = begin_work(flusher);
		if (!is_flusher)
			stand_by(flusher);
	}
	write_last(flusher);
	tear_down(flusher);
	if (is_flusher)
		pthread_mutex_unlock(&flusher->config.bdi->flusher_lock);
	return NULL;
}

/*
 * Configure the flusher's pipeline: the stages below the page cache, with an asynchronous device,
 * since the kernel's writeback does not wait for each bio.
 */
static void configure_lower(struct flusher *flusher, const struct kp_pipeline_config *job)
{
	struct kp_pipeline_config *config = &flusher->pipeline;

	*config = *job;
	config->depth = NR_REQUESTS;
	config->max_io_size = CACHE_BIO_PAGES * KP_PAGE_SIZE;
	config->terminate = NULL; /* dirty pages are written however the job ends */
	/* The thread has counters of its own, which are added to the job's. */
	if (job->slot) {
		config->slot = kp_counters_slot(job->arena);
		if (config->slot)
			memcpy(config->slot, job->slot, offsetof(struct kp_counter_slot, values));
	}
}

int flusher_start(const struct flusher_config *config, struct flusher **result)
{
	struct flusher *flusher = calloc(1, sizeof(*flusher));
	int ret;

	if (!flusher)
		return -ENOMEM;
	flusher->config = *config;
	configure_lower(flusher, config->pipeline);
	ret = -pthread_create(&flusher->thread, NULL, flusher_main, flusher);
	if (ret)
		free(flusher);
	else
		*result = flusher;
	return ret;
}

int flusher_stop(struct flusher *flusher, struct cache_file *const *last, unsigned int nr_last)
{
	int ret;

	flusher->last = last;
	flusher->nr_last = nr_last;
	__atomic_store_n(&flusher->ctx.stop, true, __ATOMIC_RELAXED);
	__atomic_store_n(&flusher->stop, true, __ATOMIC_RELEASE);
	kp_futex_signal(&flusher->event, 1);
	cache_wake_flusher(flusher->config.bdi);
	pthread_join(flusher->thread, NULL);
	ret = flusher->error;
	free(flusher);
	return ret;
}
