// SPDX-License-Identifier: GPL-2.0-only
/* Buffered writes, syncs and the dirty limit. See write.h. */
#include <fcntl.h>
#include <time.h>

#include "blocksize.h"
#include "pages.h"
#include "reclaim.h"
#include "wake.h"
#include "write.h"
#include "writeback.h"

/* ---- sync ------------------------------------------------------------------------------------ */

int cache_sync_range(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
		     uint64_t pos, uint64_t len)
{
	uint64_t last = len ? (pos + len - 1) / KP_PAGE_SIZE : UINT64_MAX;
	int ret = writeback_and_wait_range(&cs->ctx, of->file, kp_file, pos / KP_PAGE_SIZE, last);

	cache_lock(cs->cache, of->file);
	if (!ret)
		ret = cache_check_error(of->file, &of->error_since);
	cache_unlock(of->file);
	return ret;
}

/* Flush the device's cache and wait for that. */
static int flush_device(struct cache_stage *cs, struct kp_file *file, enum kp_op op)
{
	bool done = false;
	struct kp_bio bio = {
		.op = op,
		.file = file,
		.end_io = cache_done_end_io,
		.private = &done,
	};

	kp_stage_submit(cs->stage.next, &bio);
	kp_pipeline_wait_for(cs->stage.pipeline, cs->stage.next, &done);
	return bio.status;
}

/* generic_write_sync() */
int cache_write_sync(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	int ret;

	if (!(bio->file->flags & (O_SYNC | O_DSYNC)))
		return 0;
	ret = cache_sync_range(cs, of, bio->file, bio->iter.pos, bio->iter.size);
	if (!ret)
		ret = flush_device(cs, bio->file,
				   (bio->file->flags & O_SYNC) == O_SYNC ? KP_OP_FLUSH
									 : KP_OP_FDATASYNC);
	return ret;
}

/* ---- the dirty limit and i_rwsem ------------------------------------------------------------- */

static bool over_limit(const struct cache_totals *totals, const struct cache_limits *limits)
{
	return totals->dirty + totals->writeback > limits->dirty_bytes / KP_PAGE_SIZE;
}

/* balance_dirty_pages(): wake the flusher above the background limit, wait above the limit. */
static void balance_dirty_pages(struct cache_stage *cs, struct cache_file *file)
{
	const struct cache_limits *limits = &cs->cache->limits;
	struct cache_totals totals = cache_totals(cs->cache);
	uint64_t from;

	if (totals.dirty > limits->dirty_background_bytes / KP_PAGE_SIZE &&
	    __atomic_load_n(&file->bdi->sleeping, __ATOMIC_RELAXED))
		cache_wake_flusher(file->bdi);
	if (!over_limit(&totals, limits))
		return;
	from = kp_now_ns();
	for (;;) {
		uint32_t seen = cache_balance_seen(&cs->ctx);

		totals = cache_totals(cs->cache);
		if (!over_limit(&totals, limits) || kp_pipeline_terminating(cs->stage.pipeline))
			break;
		cache_wait_balance(&cs->ctx, file->bdi, seen);
	}
	kp_count_time(&cs->stage.counters[CACHE_DIRTY_WAIT], kp_now_ns() - from);
}

void cache_lock_inode(struct cache_stage *cs, struct cache_file *file)
{
	struct timespec until;
	int ret = pthread_mutex_trylock(&file->write_lock);

	while (ret == EBUSY || ret == ETIMEDOUT) {
		if (cs->ctx.in_flight)
			kp_pipeline_poll(cs->stage.pipeline);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += KP_LOOK_AROUND_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		ret = pthread_mutex_clocklock(&file->write_lock, CLOCK_MONOTONIC, &until);
	}
	if (ret == EOWNERDEAD)
		pthread_mutex_consistent(&file->write_lock);
}

/* ---- a page, and an I/O ---------------------------------------------------------------------- */

/* Read the blocks that a write covers in part. Called with the file's lock, which is released. */
static int read_blocks(struct cache_stage *cs, struct cache_file *file, struct kp_file *kp_file,
		       uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cs->cache, id);
	struct cache_read read = { 0 };
	uint64_t number = page->number;

	page->reading = mask;
	page->reader = cs->user;
	cache_unlock(file);
	kp_count(&cs->stage.counters[CACHE_RMW_READS], __builtin_popcount(mask));
	cache_read_pages(&cs->ctx, file, kp_file, number, 1, &id, &mask, &read);
	cache_wait_read(&cs->ctx, file, &read);
	return read.error;
}

/* A mask of the blocks of page @number that lie behind the end of the file. */
static uint8_t behind_end(const struct cache_file *file, uint64_t number)
{
	uint64_t start = number * KP_PAGE_SIZE, size = cache_file_size(file);
	uint8_t all = cache_blocks(file, 0, KP_PAGE_SIZE);

	if (size <= start)
		return all;
	if (size >= start + KP_PAGE_SIZE)
		return 0;
	return all & ~cache_blocks(file, 0, size - start);
}

static void zero_blocks(struct cache_stage *cs, const struct cache_file *file, uint32_t id,
			uint8_t mask)
{
	for (unsigned int i = 0; mask >> i; i++) {
		if (mask >> i & 1)
			memset(cache_data(cs->cache, id) + i * file->block_size, 0,
			       file->block_size);
	}
	cache_page(cs->cache, id)->uptodate |= mask;
}

/* Copy data into a page whose blocks are ready. With the file's lock. */
static void fill_page(struct cache_stage *cs, struct cache_file *file, uint32_t id,
		      unsigned int from, unsigned int to, const char *data)
{
	struct cache_page *page = cache_page(cs->cache, id);
	uint8_t touched = cache_blocks(file, from, to);
	uint64_t end = page->number * KP_PAGE_SIZE + to;

	/*
	 * The page becomes dirty first: if we die while we copy, the device gets the page as it
	 * is then.
	 */
	if (!page->dirty)
		kp_count(&cs->stage.counters[CACHE_PAGES_DIRTIED], 1);
	cache_set_dirty(cs->cache, file, id, touched);
	memcpy(cache_data(cs->cache, id) + from, data, to - from);
	page->uptodate |= touched;
	page->referenced = 1;
	if (end > cache_file_size(file))
		__atomic_store_n(&file->size, end, __ATOMIC_RELAXED);
}

/* Write to one page: __block_write_begin() and the copy. */
static int write_page(struct cache_stage *cs, struct cache_file *file, struct kp_file *kp_file,
		      uint64_t number, unsigned int from, unsigned int to, const char *data)
{
	uint8_t touched = cache_blocks(file, from, to);
	unsigned int waits = 0;

	for (;;) {
		uint32_t balance = cache_balance_seen(&cs->ctx);
		struct cache_page *page;
		uint8_t missing, behind;
		uint32_t id, seen;
		int ret;

		cache_lock(cs->cache, file);
		seen = __atomic_load_n(&file->progress, __ATOMIC_RELAXED);
		id = cache_lookup(file, number);
		if (!id)
			id = cache_add_page(cs->cache, file, number);
		if (!id) {
			cache_unlock(file);
			if (!cache_wait_memory(&cs->ctx, file->bdi, balance, &waits))
				return -ENOMEM;
			continue;
		}
		page = cache_page(cs->cache, id);
		missing = kp_blocksize_reads(file->blocks, file->block_size, from, to,
					     page->uptodate);
		behind = missing ? behind_end(file, number) : 0;
		/*
		 * PG_locked: a device writes into blocks that we need, or it reads while we must
		 * read others.
		 */
		if (page->reading & touched || (page->reading && missing & ~behind)) {
			cache_unlock(file);
			cache_wait_progress(&cs->ctx, file, seen);
			continue;
		}
		if (missing & ~behind) {
			ret = read_blocks(cs, file, kp_file, id, missing & ~behind);
			if (ret)
				return ret;
			continue;
		}
		zero_blocks(cs, file, id, missing);
		fill_page(cs, file, id, from, to, data);
		cache_unlock(file);
		return 0;
	}
}

void cache_write(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	struct cache_file *file = of->file;
	struct kp_iter iter = bio->iter;
	int ret = 0;

	if (file->block_device && iter.pos + iter.size > cache_file_size(file)) {
		kp_bio_fail(bio, -ENOSPC);
		return;
	}
	cache_lock_inode(cs, file);
	while (iter.size && !ret) {
		struct kp_segment segment = kp_iter_segment(bio->vec, &iter);
		unsigned int from = iter.pos % KP_PAGE_SIZE;
		size_t len = kp_min(segment.len, (size_t)KP_PAGE_SIZE - from);

		ret = write_page(cs, file, bio->file, iter.pos / KP_PAGE_SIZE, from, from + len,
				 segment.addr);
		if (ret)
			break;
		kp_iter_step(bio->vec, &iter, len);
		balance_dirty_pages(cs, file);
	}
	pthread_mutex_unlock(&file->write_lock);
	bio->resid = iter.size;
	if (!ret)
		ret = cache_write_sync(cs, of, bio);
	if (ret)
		kp_bio_error(bio, ret);
	kp_bio_endio(bio);
}
