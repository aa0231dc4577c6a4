// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entry of the page cache stage: direct I/O, discards, and the dispatch of all others. See
 * submit.h.
 */
#include <fcntl.h>

#include "mapped.h"
#include "pages.h"
#include "read.h"
#include "submit.h"
#include "write.h"
#include "writeback.h"

/* Hand an I/O to the device and wait for it. Return: 0 or its error. */
static int direct_and_wait(struct cache_stage *cs, struct cache_file *file, struct kp_bio *bio)
{
	bool done = false;
	struct kp_bio copy = *bio;

	copy.end_io = cache_done_end_io;
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
 * generic_file_direct_write(): write the range back and drop its pages, before and after the I/O.
 * i_rwsem keeps buffered writers out until the I/O is submitted. It is held until the I/O ends if
 * somebody waits for that anyway, and if the I/O covers blocks in part, which a buffered write
 * might be reading.
 */
static void direct_write(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio)
{
	struct cache_file *file = of->file;
	uint64_t pos = bio->iter.pos, end = pos + bio->iter.size;
	uint64_t first = pos / KP_PAGE_SIZE, last = (end - 1) / KP_PAGE_SIZE;
	bool sync = bio->file->flags & (O_SYNC | O_DSYNC);
	bool wait = sync || bio->flags & KP_BIO_SYNC || (pos | end) % file->block_size;
	int ret;

	cache_lock_inode(cs, file);
	ret = writeback_and_wait_range(&cs->ctx, file, bio->file, first, last);
	if (!ret) {
		cache_lock(cs->cache, file);
		cache_invalidate(cs->cache, file, first, last);
		if (end > cache_file_size(file) && !file->block_device)
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
		ret = cache_write_sync(cs, of, bio);
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

	cache_lock_inode(cs, file);
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
	/* i_rwsem is held until the discard ends: it must not discard what is written after it. */
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
	ret = cache_sync_range(cs, of, bio->file, pos, len);
	if (ret)
		kp_bio_fail(bio, ret);
	else if (bio->op == KP_OP_SYNC_RANGE)
		kp_bio_endio(bio); /* neither metadata nor the device's cache is flushed */
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
		cache_read(cs, of, bio);
	else
		cache_write(cs, of, bio);
}
