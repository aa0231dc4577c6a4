// SPDX-License-Identifier: GPL-2.0-only
/* Buffered reads and readahead. See read.h. */
#include "pages.h"
#include "read.h"
#include "reclaim.h"

/* ---- readahead ------------------------------------------------------------------------------- */

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
 * Mark the blocks that are not up to date among pages [@first, @first + @nr) as being read by us.
 * This stops at the end of the file, and when there is no page to be had. With the file's lock.
 * Return: how many pages were marked.
 */
static unsigned int begin_read(struct cache_stage *cs, struct cache_file *file, uint64_t first,
			       unsigned int nr)
{
	uint64_t end = (cache_file_size(file) + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE;
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

/* Read the next window without waiting for it. Called with the file's lock, which is released. */
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
 * Read a page that is not there, and a window ahead of it: ondemand_readahead(). @left: pages
 * that the I/O still needs; 0: read this page only. Called with the file's lock, which is
 * released. Return: 0; -EAGAIN when there was no page to be had; an error of the device.
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
	cache_wait_read(&cs->ctx, file, &read);
	return read.error;
}

/* ---- a page, and an I/O ---------------------------------------------------------------------- */

static int read_page(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
		     uint64_t number, unsigned int from, unsigned int to, char *into, uint32_t left)
{
	struct cache_file *file = of->file;
	uint64_t *counters = cs->stage.counters;
	uint8_t wanted = cache_blocks(file, from, to);
	unsigned int waits = 0;
	bool missed = false;

	for (;;) {
		uint32_t balance = cache_balance_seen(&cs->ctx);
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
			if (!cache_wait_memory(&cs->ctx, file->bdi, balance, &waits))
				return -ENOMEM;
		} else if (ret && left) {
			/*
			 * A page further ahead may have caused the error: read this one alone, as
			 * shrink_readahead_size_eio().
			 */
			left = 0;
			of->ra_size = 0;
		} else if (ret) {
			return ret;
		}
	}
}

void cache_read(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	uint64_t size = cache_file_size(of->file);
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
