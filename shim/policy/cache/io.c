// SPDX-License-Identifier: GPL-2.0-only
/*
 * I/O through the page cache: read(2), write(2), fsync(2) and their like. Buffered I/O ends inside
 * submit. It waits there for pages being read, for the writer before it (i_rwsem), and at the dirty
 * limit (balance_dirty_pages()).
 */
#include <fcntl.h>
#include <time.h>

#include "blocksize.h"
#include "cache_stage.h"

#define WAIT_NS	   100000000u
#define LAST_WAITS 50u /* for memory, when the run is to end */

static uint64_t file_size(const struct cache_file *file)
{
	return cache_load(&file->size);
}

/* ---- readahead ----------------------------------------------------------------------------- */

/* get_init_ra_size() */
static uint32_t first_window(uint32_t pages, uint32_t max)
{
	uint32_t size = 1;

	while (size < pages)
		size *= 2;
	if (size <= max / 32)
		size *= 4;
	else if (size <= max / 4)
		size *= 2;
	else
		size = max;
	return size;
}

/* get_next_ra_size() */
static uint32_t next_window(uint32_t size, uint32_t max)
{
	if (size < max / 16)
		return size * 4;
	return size <= max / 2 ? size * 2 : max;
}

/*
 * Mark the blocks of pages [@first, @first + @nr) that are not there as being read by us, as far
 * as memory and the file go. With the file's lock. Return: how many pages.
 */
static unsigned int begin_read(struct cache_stage *cs, struct cache_file *file, uint64_t first,
			       unsigned int nr)
{
	uint64_t end = (file_size(file) + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE;
	uint8_t all = cache_blocks(file, 0, KP_PAGE_SIZE);
	unsigned int n;

	for (n = 0; n < nr && first + n < end; n++) {
		uint32_t id = cache_lookup(file, first + n);
		struct cache_page *page;

		if (!id)
			id = cache_add_page(cs->cache, file, first + n);
		if (!id)
			break;
		page = cache_page(cs->cache, id);
		cs->ids[n] = id;
		cs->masks[n] = page->reading ? 0 : all & ~page->uptodate;
		if (!cs->masks[n])
			continue;
		page->reading = cs->masks[n];
		page->reader = cs->user;
	}
	return n;
}

/* Wait for the bios of a read of ours. */
static void wait_read(struct cache_stage *cs, struct cache_file *file, struct cache_read *read)
{
	kp_pipeline_flush(cs->stage.pipeline, cs->stage.next);
	while (__atomic_load_n(&read->pending, __ATOMIC_ACQUIRE)) {
		uint32_t seen = __atomic_load_n(&file->progress, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&read->pending, __ATOMIC_ACQUIRE))
			cache_wait_progress(&cs->ctx, file, seen);
	}
}

/* The next window goes out, nobody waits for it. With the file's lock, which is dropped. */
static void read_ahead_async(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file)
{
	struct cache_file *file = of->file;
	unsigned int nr;

	of->ra_start += of->ra_size;
	of->ra_size = next_window(of->ra_size, cs->window);
	of->ra_async = of->ra_size;
	nr = begin_read(cs, file, of->ra_start, of->ra_size);
	cache_unlock(file);
	if (!nr)
		return;
	cache_read_pages(&cs->ctx, file, kp_file, of->ra_start, nr, cs->ids, cs->masks, NULL);
	kp_pipeline_flush(cs->stage.pipeline, cs->stage.next);
}

/*
 * A page is not there: ondemand_readahead(). @left: pages that the I/O still wants; 0: this page
 * and nothing else. With the file's lock, which is dropped. Return: 0, -EAGAIN when no memory was to
 * be had, an error of the device.
 */
static int read_missing(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
			uint64_t number, uint32_t left)
{
	struct cache_file *file = of->file;
	struct cache_read read = { 0 };
	uint32_t window = kp_max(left, 1u);
	unsigned int nr;

	if (left && cs->window > 1 &&
	    (!number || number == of->previous + 1 || number == of->previous)) {
		if (of->ra_size && number == of->ra_start + of->ra_size) {
			of->ra_size = next_window(of->ra_size, cs->window);
			of->ra_async = of->ra_size;
		} else {
			of->ra_size = first_window(left, cs->window);
			of->ra_async = of->ra_size > left ? of->ra_size - left : of->ra_size;
		}
		of->ra_start = number;
		window = kp_max(of->ra_size, kp_min(left, cs->window));
	}
	nr = begin_read(cs, file, number, kp_min(window, CACHE_MAX_WINDOW));
	cache_unlock(file);
	if (!nr)
		return -EAGAIN;
	cache_read_pages(&cs->ctx, file, kp_file, number, nr, cs->ids, cs->masks, &read);
	wait_read(cs, file, &read);
	return read.error;
}

/* ---- waiting ------------------------------------------------------------------------------- */

static uint32_t balance_seen(const struct cache_stage *cs)
{
	return __atomic_load_n(&cs->cache->balance, __ATOMIC_SEQ_CST);
}

/*
 * Wait until something was written back since cache->balance was @seen, before memory was looked
 * for. Return: false when the run is to end and waiting has been to no avail for long.
 */
static bool wait_memory(struct cache_stage *cs, struct cache_file *file, uint32_t seen,
			unsigned int *waits)
{
	cache_wait_balance(&cs->ctx, file->bdi, seen);
	return !kp_pipeline_terminating(cs->stage.pipeline) || ++*waits < LAST_WAITS;
}

static bool over_limit(const struct cache_totals *totals, const struct cache_limits *limits)
{
	return totals->dirty + totals->writeback > limits->dirty_bytes / KP_PAGE_SIZE;
}

/* balance_dirty_pages(): wake the flusher above background, wait above the limit. */
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
		uint32_t seen = balance_seen(cs);

		totals = cache_totals(cs->cache);
		if (!over_limit(&totals, limits) || kp_pipeline_terminating(cs->stage.pipeline))
			break;
		cache_wait_balance(&cs->ctx, file->bdi, seen);
	}
	kp_count_time(&cs->stage.counters[CACHE_DIRTY_WAIT], kp_now_ns() - from);
}

/* Our turn to write. Meanwhile our own completions go on. */
static void lock_inode(struct cache_stage *cs, struct cache_file *file)
{
	struct timespec until;
	int ret = pthread_mutex_trylock(&file->write_lock);

	while (ret == EBUSY || ret == ETIMEDOUT) {
		if (cs->ctx.in_flight)
			kp_pipeline_poll(cs->stage.pipeline);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += WAIT_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		ret = pthread_mutex_clocklock(&file->write_lock, CLOCK_MONOTONIC, &until);
	}
	if (ret == EOWNERDEAD)
		pthread_mutex_consistent(&file->write_lock);
}

/* ---- a page of an I/O ---------------------------------------------------------------------- */

static int read_page(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
		     uint64_t number, unsigned int from, unsigned int to, char *into, uint32_t left)
{
	struct cache_file *file = of->file;
	uint64_t *counters = cs->stage.counters;
	uint8_t wanted = cache_blocks(file, from, to);
	unsigned int waits = 0;
	bool missed = false;

	for (;;) {
		uint32_t balance = balance_seen(cs);
		struct cache_page *page;
		uint32_t id, seen;
		int ret;

		cache_lock(cs->cache, file);
		seen = __atomic_load_n(&file->progress, __ATOMIC_RELAXED);
		id = cache_lookup(file, number);
		page = id ? cache_page(cs->cache, id) : NULL;
		if (page && !(wanted & ~page->uptodate)) {
			memcpy(into, cache_data(cs->cache, id) + from, to - from);
			page->referenced = 1;
			kp_count(&counters[missed ? CACHE_MISSES : CACHE_HITS], 1);
			of->previous = number;
			if (of->ra_size && number == of->ra_start + of->ra_size - of->ra_async)
				read_ahead_async(cs, of, kp_file);
			else
				cache_unlock(file);
			return 0;
		}
		missed = true;
		if (page && page->reading) {
			cache_unlock(file);
			cache_wait_progress(&cs->ctx, file, seen);
			continue;
		}
		ret = read_missing(cs, of, kp_file, number, left);
		if (ret == -EAGAIN) {
			if (!wait_memory(cs, file, balance, &waits))
				return -ENOMEM;
		} else if (ret && left) {
			/* What lies ahead may be to blame: shrink_readahead_size_eio(). */
			left = 0;
			of->ra_size = 0;
		} else if (ret) {
			return ret;
		}
	}
}

/* Read blocks that a write covers in part. With the file's lock, which is dropped. */
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
	wait_read(cs, file, &read);
	return read.error;
}

/* Blocks of page @number that lie behind the end of the file. */
static uint8_t behind_end(const struct cache_file *file, uint64_t number)
{
	uint64_t start = number * KP_PAGE_SIZE, size = file_size(file);
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

/* Copy into a page whose blocks are ready for it. With the file's lock. */
static void fill_page(struct cache_stage *cs, struct cache_file *file, uint32_t id,
		      unsigned int from, unsigned int to, const char *data)
{
	struct cache_page *page = cache_page(cs->cache, id);
	uint8_t touched = cache_blocks(file, from, to);
	uint64_t end = page->number * KP_PAGE_SIZE + to;

	/* Dirty first: should we die while copying, the device gets what the page then has. */
	if (!page->dirty)
		kp_count(&cs->stage.counters[CACHE_PAGES_DIRTIED], 1);
	cache_set_dirty(cs->cache, file, id, touched);
	memcpy(cache_data(cs->cache, id) + from, data, to - from);
	page->uptodate |= touched;
	page->referenced = 1;
	if (end > file_size(file))
		__atomic_store_n(&file->size, end, __ATOMIC_RELAXED);
}

/* __block_write_begin() and the copy. */
static int write_page(struct cache_stage *cs, struct cache_file *file, struct kp_file *kp_file,
		      uint64_t number, unsigned int from, unsigned int to, const char *data)
{
	uint8_t touched = cache_blocks(file, from, to);
	unsigned int waits = 0;

	for (;;) {
		uint32_t balance = balance_seen(cs);
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
			if (!wait_memory(cs, file, balance, &waits))
				return -ENOMEM;
			continue;
		}
		page = cache_page(cs->cache, id);
		missing = kp_blocksize_reads(file->blocks, file->block_size, from, to,
					     page->uptodate);
		behind = missing ? behind_end(file, number) : 0;
		/* PG_locked: a device writes into what we need, or into its neighbour. */
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

/* ---- I/Os ---------------------------------------------------------------------------------- */

static void cached_read(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	uint64_t size = file_size(of->file);
	struct kp_iter iter = bio->iter;
	uint64_t end = iter.pos + iter.size;
	int ret = 0;

	if (end > size) {
		bio->resid = end - kp_max(size, iter.pos);
		iter.size -= bio->resid;
		end -= bio->resid;
	}
	while (iter.size && !ret) {
		struct kp_segment segment = kp_iter_segment(bio->vec, &iter);
		uint64_t number = iter.pos / KP_PAGE_SIZE;
		unsigned int from = iter.pos % KP_PAGE_SIZE;
		size_t len = kp_min(segment.len, (size_t)KP_PAGE_SIZE - from);

		ret = read_page(cs, of, bio->file, number, from, from + len, segment.addr,
				(end - 1) / KP_PAGE_SIZE - number + 1);
		if (!ret)
			kp_iter_step(bio->vec, &iter, len);
	}
	if (ret) {
		bio->resid += iter.size;
		kp_bio_error(bio, ret);
	}
	kp_bio_endio(bio);
}

static int sync_range(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
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

static void flush_end_io(struct kp_bio *bio)
{
	__atomic_store_n((bool *)bio->private, true, __ATOMIC_RELEASE);
}

/* Flush the device's own cache, in place. */
static int flush_device(struct cache_stage *cs, struct kp_file *file, enum kp_op op)
{
	bool done = false;
	struct kp_bio bio = {
		.op = op,
		.file = file,
		.end_io = flush_end_io,
		.private = &done,
	};

	kp_stage_submit(cs->stage.next, &bio);
	kp_pipeline_wait_for(cs->stage.pipeline, cs->stage.next, &done);
	return bio.status;
}

/* generic_write_sync() */
static int write_sync(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	int ret;

	if (!(bio->file->flags & (O_SYNC | O_DSYNC)))
		return 0;
	ret = sync_range(cs, of, bio->file, bio->iter.pos, bio->iter.size);
	if (!ret)
		ret = flush_device(cs, bio->file,
				   (bio->file->flags & O_SYNC) == O_SYNC ? KP_OP_FLUSH
									 : KP_OP_FDATASYNC);
	return ret;
}

static void cached_write(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	struct cache_file *file = of->file;
	struct kp_iter iter = bio->iter;
	int ret = 0;

	if (file->block_device && iter.pos + iter.size > file_size(file)) {
		kp_bio_fail(bio, -ENOSPC);
		return;
	}
	lock_inode(cs, file);
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
		ret = write_sync(cs, of, bio);
	if (ret)
		kp_bio_error(bio, ret);
	kp_bio_endio(bio);
}

/* Hand an I/O on past the cache and wait for it, in place. Return: 0 or its error. */
static int direct_and_wait(struct cache_stage *cs, struct cache_file *file, struct kp_bio *bio)
{
	bool done = false;
	struct kp_bio copy = *bio;

	copy.end_io = flush_end_io;
	copy.private = &done;
	copy.parent = NULL;
	copy.next = NULL;
	copy.flags &= ~KP_BIO_CHAIN;
	cache_direct_io(&cs->ctx, file, &copy);
	kp_pipeline_wait_for(cs->stage.pipeline, cs->stage.next, &done);
	bio->resid = copy.resid;
	return copy.status;
}

static void end_bio(struct kp_bio *bio, int error)
{
	if (error)
		kp_bio_error(bio, error);
	kp_bio_endio(bio);
}

static void direct_read(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	uint64_t end = bio->iter.pos + bio->iter.size;
	int ret = writeback_and_wait_range(&cs->ctx, of->file, bio->file,
					   bio->iter.pos / KP_PAGE_SIZE, (end - 1) / KP_PAGE_SIZE);

	if (ret)
		kp_bio_fail(bio, ret);
	else
		cache_direct_io(&cs->ctx, of->file, bio);
}

/*
 * generic_file_direct_write(): the device has what the cache has, before and after. Against buffered
 * writers it holds i_rwsem until it is submitted; over the whole I/O when somebody waits for it
 * anyway, and when it covers blocks in part, which a buffered write might just be reading.
 */
static void direct_write(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	struct cache_file *file = of->file;
	uint64_t pos = bio->iter.pos, end = pos + bio->iter.size;
	uint64_t first = pos / KP_PAGE_SIZE, last = (end - 1) / KP_PAGE_SIZE;
	bool sync = bio->file->flags & (O_SYNC | O_DSYNC);
	bool wait = sync || bio->flags & KP_BIO_SYNC || (pos | end) % file->block_size;
	int ret;

	lock_inode(cs, file);
	ret = writeback_and_wait_range(&cs->ctx, file, bio->file, first, last);
	if (!ret) {
		cache_lock(cs->cache, file);
		cache_invalidate(cs->cache, file, first, last);
		if (end > file_size(file) && !file->block_device)
			__atomic_store_n(&file->size, end, __ATOMIC_RELAXED);
		cache_unlock(file);
		if (wait)
			ret = direct_and_wait(cs, file, bio);
		else
			cache_direct_io(&cs->ctx, file, bio);
	} else {
		wait = true;
	}
	pthread_mutex_unlock(&file->write_lock);
	if (!wait)
		return;
	if (!ret && sync)
		ret = write_sync(cs, of, bio);
	end_bio(bio, ret);
}

/* truncate_pagecache_range() for one page. With the file's lock. */
static void discard_page(struct cache_stage *cs, struct cache_file *file, uint32_t id,
			 unsigned int from, unsigned int to)
{
	struct cache_page *page = cache_page(cs->cache, id);
	uint8_t whole = 0;

	if (to - from == KP_PAGE_SIZE) {
		cache_drop_page(cs->cache, file, id);
		return;
	}
	for (unsigned int i = 0; i < KP_PAGE_SIZE / file->block_size; i++) {
		if (from <= i * file->block_size && (i + 1) * file->block_size <= to)
			whole |= 1u << i;
	}
	memset(cache_data(cs->cache, id) + from, 0, to - from);
	cache_clear_dirty(cs->cache, file, id, whole);
	page->uptodate &= ~whole;
}

static void discard(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	struct cache_file *file = of->file;
	uint64_t start = bio->iter.pos, end = start + bio->iter.size;
	uint64_t number = start / KP_PAGE_SIZE;
	uint32_t id, seen;
	int ret;

	lock_inode(cs, file);
	cache_lock(cs->cache, file);
	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number)) &&
	       number * KP_PAGE_SIZE < end) {
		struct cache_page *page = cache_page(cs->cache, id);
		uint64_t at = number * KP_PAGE_SIZE;

		if (page->writeback || page->reading) {
			seen = __atomic_load_n(&file->progress, __ATOMIC_RELAXED);
			cache_unlock(file);
			cache_wait_progress(&cs->ctx, file, seen);
			cache_lock(cs->cache, file);
			continue;
		}
		discard_page(cs, file, id, start > at ? start - at : 0,
			     kp_min(end - at, (uint64_t)KP_PAGE_SIZE));
		number++;
	}
	if (end / KP_PAGE_SIZE > (start + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE)
		cache_clear_mapped(cs->cache, file, (start + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE,
				   end / KP_PAGE_SIZE - (start + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE);
	cache_unlock(file);
	/* Over the whole I/O: what is written next must not be trimmed. */
	ret = direct_and_wait(cs, file, bio);
	pthread_mutex_unlock(&file->write_lock);
	end_bio(bio, ret);
}

/* fsync(2), fdatasync(2), sync_file_range(2) */
static void sync_file(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	uint64_t pos = 0, len = 0;
	int ret;

	if (bio->op == KP_OP_SYNC_RANGE) {
		pos = bio->iter.pos;
		len = bio->iter.size;
	}
	kp_count(&cs->stage.counters[CACHE_SYNCS], 1);
	ret = sync_range(cs, of, bio->file, pos, len);
	if (ret)
		kp_bio_fail(bio, ret);
	else if (bio->op == KP_OP_SYNC_RANGE)
		kp_bio_endio(bio); /* no metadata, no flush of the device */
	else
		kp_stage_submit(cs->stage.next, bio);
}

void cache_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct cache_stage *cs = cache_stage(stage);
	struct open_file *of = open_file(cs, bio->file);
	bool direct = bio->file->flags & O_DIRECT;

	if (bio->op == KP_OP_DISCARD && bio->iter.size)
		discard(cs, of, bio);
	else if (!kp_op_has_data(bio->op))
		sync_file(cs, of, bio);
	else if (!bio->iter.size)
		kp_bio_endio(bio);
	else if (direct && bio->op == KP_OP_READ)
		direct_read(cs, of, bio);
	else if (direct)
		direct_write(cs, of, bio);
	else if (bio->op == KP_OP_READ)
		cached_read(cs, of, bio);
	else
		cached_write(cs, of, bio);
}
