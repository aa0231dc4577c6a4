// SPDX-License-Identifier: GPL-2.0-only
/*
 * The flusher of a device: wb_workfn() and what it calls. Every pipeline that has a file of the
 * device open has a thread for it; the one that holds the role works, through a pipeline of its
 * own, the others look twice a second whether the role is free. Files are opened by their path,
 * or, when that has gone, through the process that has them open.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "page_cache.h"

#define STANDBY_NS    250000000u
#define LOOK_NS	      100000000u
#define REAP_EVERY_NS 500000000u
#define NR_REQUESTS   128u

struct flusher {
	struct flusher_config config;
	struct kp_pipeline_config pipeline;
	pthread_t thread;
	uint32_t state; /* atomic; enum flusher_state */
	uint32_t event; /* futex: the state changed */
	int start_error;
	struct kp_pipeline *pl;
	struct writeback wb;
	struct kp_file **files; /* by id */
	uint32_t turn;		/* the file whose turn it is */
	uint64_t next_periodic;
	uint64_t next_reap;
	/* What flusher_stop() wants, and the answer. */
	struct cache_file *const *last;
	unsigned int nr_last;
	int error;
};

enum flusher_state { STARTING, RUNNING, STOPPING };

static bool stopping(const struct flusher *flusher)
{
	return __atomic_load_n(&flusher->state, __ATOMIC_ACQUIRE) == STOPPING;
}

void flusher_wake(struct cache_bdi *bdi)
{
	__atomic_fetch_add(&bdi->work, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&bdi->sleeping, __ATOMIC_SEQ_CST))
		cache_futex_wake(&bdi->work);
}

/* ---- files --------------------------------------------------------------------------------- */

static struct kp_file *open_as(struct flusher *flusher, const struct cache_file *file,
			       const char *path)
{
	struct kp_file *kp_file;

	if (!file->is_null && access(path, W_OK))
		return NULL;
	if (kp_file_open(flusher->pl, path, O_RDWR, cache_load(&file->size), &kp_file))
		return NULL;
	if (!memcmp(&kp_file->key, &file->key, sizeof(file->key)) &&
	    !cache_guard(flusher->config.cache, kp_file))
		return kp_file;
	kp_file_close(kp_file); /* another file of that name */
	return NULL;
}

/* The descriptor of a job that has the file open. */
static struct kp_file *open_through_user(struct flusher *flusher, const struct cache_file *file)
{
	struct page_cache *cache = flusher->config.cache;
	struct kp_file *kp_file = NULL;
	char path[64];

	for (uint32_t i = 0; i < cache->nr_users && !kp_file; i++) {
		if (!file->users[i].opens)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", cache->users[i].pid,
			 file->users[i].fd);
		kp_file = open_as(flusher, file, path);
	}
	return kp_file;
}

/* Our own descriptor of a file. NULL: it is no more, and its pages go with it. */
static struct kp_file *file_of(struct flusher *flusher, struct cache_file *file)
{
	struct kp_file **slot = &flusher->files[file->id - 1];

	if (!*slot)
		*slot = open_as(flusher, file, file->path);
	if (!*slot)
		*slot = open_through_user(flusher, file);
	if (!*slot) {
		cache_lock(flusher->config.cache, file);
		cache_drop_all(flusher->config.cache, file);
		cache_unlock(file);
		cache_wake(file);
	}
	return *slot;
}

/* ---- work ---------------------------------------------------------------------------------- */

/* over_bground_thresh() */
static bool over_background(const struct page_cache *cache)
{
	return cache_totals(cache).dirty > cache->limits.dirty_background_bytes / KP_PAGE_SIZE;
}

/* The next dirty file of the device, in turn. NULL: none. */
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

/* A budget for the next dirty file. Return: pages written. */
static uint64_t write_some(struct flusher *flusher)
{
	struct cache_file *file = next_file(flusher);
	struct kp_file *kp_file = file ? file_of(flusher, file) : NULL;

	if (!kp_file)
		return 0;
	return writeback_pass(&flusher->wb, file, kp_file, flusher->config.nr_to_write);
}

/* wb_check_old_data_flush(): files that have been dirty for too long. */
static void write_old(struct flusher *flusher, uint64_t now)
{
	struct page_cache *cache = flusher->config.cache;
	uint32_t nr = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);
	uint64_t expire = cache->limits.dirty_expire_centisecs * 10000000ull;

	for (uint32_t i = 0; i < nr && !stopping(flusher); i++) {
		struct cache_file *file = cache->files[i];
		uint64_t since = cache_load(&file->dirtied_ns);
		uint64_t left = cache_load(&file->nr_dirty), written;
		struct kp_file *kp_file;

		if (file->bdi != flusher->config.bdi || !since || now < since + expire)
			continue;
		kp_file = file_of(flusher, file);
		if (!kp_file)
			continue;
		__atomic_store_n(&file->dirtied_ns, now, __ATOMIC_RELAXED); /* redirty_tail() */
		do {
			written = writeback_pass(&flusher->wb, file, kp_file,
						 flusher->config.nr_to_write);
			left -= kp_min(left, written);
		} while (left && written && !stopping(flusher));
	}
}

static void sleep_for_work(struct flusher *flusher, uint32_t seen)
{
	struct cache_bdi *bdi = flusher->config.bdi;

	if (__atomic_load_n(&flusher->wb.in_flight, __ATOMIC_ACQUIRE)) {
		if (kp_pipeline_wait(flusher->pl, flusher->wb.anchor.next) >= 0)
			return;
		usleep(100); /* a thread of some stage has it */
		return;
	}
	__atomic_store_n(&bdi->sleeping, 1, __ATOMIC_SEQ_CST);
	if (!stopping(flusher))
		cache_futex_wait(&bdi->work, seen, LOOK_NS);
	__atomic_store_n(&bdi->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void work(struct flusher *flusher)
{
	struct page_cache *cache = flusher->config.cache;
	uint64_t interval = cache->limits.dirty_writeback_centisecs * 10000000ull;
	uint32_t seen = __atomic_load_n(&flusher->config.bdi->work, __ATOMIC_SEQ_CST);
	uint64_t written = 0, now;

	if (over_background(cache))
		written = write_some(flusher);
	if (written) {
		kp_pipeline_poll(flusher->pl);
		return;
	}
	now = kp_now_ns();
	if (now >= flusher->next_reap) {
		cache_reap_users(cache);
		flusher->next_reap = now + REAP_EVERY_NS;
	}
	if (interval && now >= flusher->next_periodic) {
		flusher->next_periodic = now + interval;
		write_old(flusher, now);
	}
	sleep_for_work(flusher, seen);
}

/* The late flush: what nobody synced, when nobody is left to. */
static void write_last(struct flusher *flusher)
{
	uint64_t *counters = flusher->wb.counters;
	uint64_t from = kp_now_ns();
	uint64_t before = counters[CACHE_WRITEBACK_BYTES];

	for (unsigned int i = 0; i < flusher->nr_last; i++) {
		struct cache_file *file = flusher->last[i];
		struct kp_file *kp_file;
		uint32_t since;
		int ret;

		cache_lock(flusher->config.cache, file);
		since = cache_sample_error(file);
		cache_unlock(file);
		if (!cache_load(&file->nr_dirty) && !cache_load(&file->nr_writeback) &&
		    !cache_padded(file) && since == file->error_seq)
			continue;
		kp_file = file_of(flusher, file);
		if (!kp_file)
			continue;
		ret = writeback_range(&flusher->wb, file, kp_file, 0, UINT64_MAX);
		cache_stamp(flusher->config.cache, file, kp_file);
		cache_lock(flusher->config.cache, file);
		if (!ret)
			ret = cache_check_error(file, &since);
		cache_unlock(file);
		if (!ret)
			continue;
		kp_log("%s: late writeback failed: %s; some of what was written is not on the "
		       "device",
		       file->path, strerror(-ret));
		if (!flusher->error)
			flusher->error = ret;
	}
	cache_count(counters, CACHE_LATE_BYTES, counters[CACHE_WRITEBACK_BYTES] - before);
	if (counters[CACHE_WRITEBACK_BYTES] != before)
		cache_count(counters, CACHE_LATE_NS, kp_now_ns() - from);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static int set_up(struct flusher *flusher)
{
	const struct flusher_config *config = &flusher->config;
	int ret;

	flusher->files = calloc(CACHE_MAX_FILES, sizeof(*flusher->files));
	if (!flusher->files)
		return -ENOMEM;
	ret = kp_pipeline_create(&flusher->pl, &flusher->pipeline);
	if (ret)
		return ret;
	flusher->wb.variant = config->variant;
	flusher->wb.wrap_fault = config->wrap_fault;
	return writeback_init(&flusher->wb, config->cache, config->user, flusher->pl,
			      flusher->pl->first, flusher->pl->slot->values + config->counters_at);
}

static void tear_down(struct flusher *flusher)
{
	if (flusher->pl) {
		writeback_drain(&flusher->wb);
		kp_pipeline_destroy(flusher->pl);
	}
	writeback_exit(&flusher->wb);
	free(flusher->files);
}

static bool take_role(struct cache_bdi *bdi)
{
	int ret = pthread_mutex_trylock(&bdi->role);

	if (ret == EOWNERDEAD)
		pthread_mutex_consistent(&bdi->role);
	return !ret || ret == EOWNERDEAD;
}

static void set_state(struct flusher *flusher, enum flusher_state state)
{
	__atomic_store_n(&flusher->state, state, __ATOMIC_RELEASE);
	cache_futex_wake(&flusher->event);
}

/* Sleep until the state changes. */
static void stand_by(struct flusher *flusher)
{
	uint32_t seen = __atomic_load_n(&flusher->event, __ATOMIC_ACQUIRE);

	if (!stopping(flusher))
		cache_futex_wait(&flusher->event, seen, STANDBY_NS);
}

static void *flusher_main(void *arg)
{
	struct flusher *flusher = arg;
	struct cache_bdi *bdi = flusher->config.bdi;
	bool role = false;

	flusher->start_error = set_up(flusher);
	set_state(flusher, RUNNING);
	while (!flusher->start_error && !stopping(flusher)) {
		if (role) {
			work(flusher);
		} else if (take_role(bdi)) {
			role = true;
			cache_reap_users(flusher->config.cache);
		} else {
			stand_by(flusher);
		}
	}
	if (!flusher->start_error)
		write_last(flusher);
	tear_down(flusher);
	if (role)
		pthread_mutex_unlock(&bdi->role);
	return NULL;
}

/* The pipeline below the page cache, as the kernel's writeback sees it: it never waits for one. */
static void below(struct flusher *flusher, const struct kp_pipeline_config *job)
{
	struct kp_pipeline_config *config = &flusher->pipeline;

	*config = *job;
	config->depth = NR_REQUESTS;
	config->max_io_size = CACHE_BIO_PAGES * KP_PAGE_SIZE;
	config->synchronous = false;
	config->terminate = NULL; /* what was written goes out, however the job ends */
	config->device.null.synchronous = false;
	if (!strcmp(config->device.backend, "psync"))
		config->device.backend = "libaio";
	/* Counters of its own thread, which count for the same job. */
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
	below(flusher, config->pipeline);
	ret = -pthread_create(&flusher->thread, NULL, flusher_main, flusher);
	if (ret) {
		free(flusher);
		return ret;
	}
	while (__atomic_load_n(&flusher->state, __ATOMIC_ACQUIRE) == STARTING)
		cache_futex_wait(&flusher->event, 0, STANDBY_NS);
	ret = flusher->start_error;
	if (ret) {
		pthread_join(flusher->thread, NULL);
		free(flusher);
		return ret;
	}
	*result = flusher;
	return 0;
}

int flusher_stop(struct flusher *flusher, struct cache_file *const *last, unsigned int nr_last)
{
	int ret;

	flusher->last = last;
	flusher->nr_last = nr_last;
	set_state(flusher, STOPPING);
	flusher_wake(flusher->config.bdi);
	pthread_join(flusher->thread, NULL);
	ret = flusher->error;
	free(flusher);
	return ret;
}
