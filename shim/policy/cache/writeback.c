// SPDX-License-Identifier: GPL-2.0-only
/* Writeback of a file's dirty pages. See writeback.h. */
#include <unistd.h>

#include "blocksize.h"
#include "pages.h"
#include "mapped.h"
#include "scan.h"
#include "wake.h"
#include "writeback.h"

/* ---- writing --------------------------------------------------------------------------------- */

static void page_written(struct cache_io *io, uint32_t id, unsigned int from, unsigned int to)
{
	cache_end_writeback(io->ctx->cache, io->file, id, cache_blocks(io->file, from, to));
}

/* Note an error of writeback. With the file's lock. */
static void write_failed(struct cache_io *io, int error)
{
	cache_set_error(io->file, error);
	cache_count(io->ctx->counters, CACHE_FAILED_BYTES, io->size);
}

static void write_end_io(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;
	struct cache_file *file = io->file;
	struct cache_io_ctx *ctx = io->ctx;
	int error = bio->status ? bio->status : bio->resid ? -EIO : 0;

	cache_lock(ctx->cache, file);
	cache_for_each_page(io, page_written);
	if (error)
		write_failed(io, error);
	if (io->pos + io->size > file->size && !file->is_null)
		__atomic_store_n(&file->padded, true, __ATOMIC_RELAXED); /* until trim_padding() */
	cache_unlock(file);
	cache_bio_free(bio);
	cache_wake(file);
	cache_wake_throttled(ctx->cache);
}

/* Submit bytes [@pos, @pos + @len) of the batch as one bio. */
static void write_piece(struct cache_io_ctx *ctx, uint64_t pos, uint64_t len)
{
	struct cache_file *file = ctx->batch.file;
	uint64_t end = pos + len;
	struct kp_bio *bio;

	if (file->block_device && end > file->size)
		end = file->size; /* the device ends within a block */
	bio = cache_bio_alloc(ctx, file, ctx->batch.kp_file, pos,
			      (end - 1) / KP_PAGE_SIZE - pos / KP_PAGE_SIZE + 1);
	if (!bio) {
		struct cache_io io = { .ctx = ctx, .file = file, .pos = pos, .size = len };

		cache_lock(ctx->cache, file);
		cache_for_each_page(&io, page_written);
		write_failed(&io, -ENOMEM);
		cache_unlock(file);
		cache_wake(file);
		cache_wake_throttled(ctx->cache);
		return;
	}
	bio->op = KP_OP_WRITE;
	bio->end_io = write_end_io;
	cache_bio_add_pages(bio, pos, end,
			    ctx->batch.ids + (pos / KP_PAGE_SIZE - ctx->batch.start));
	cache_count(ctx->counters, CACHE_WRITEBACK_BYTES, bio->iter.size);
	cache_bio_submit(bio);
}

/* Submit the batch as bios. */
static void submit_batch(struct cache_io_ctx *ctx)
{
	struct cache_file *file = ctx->batch.file;
	struct kp_blocksize_bio piece = { 0 };
	unsigned int nr = ctx->batch.nr;
	uint64_t end = (ctx->batch.start + nr) * KP_PAGE_SIZE;

	if (!nr)
		return;
	/* If we die, somebody else has to trim the padding, and must know of it. */
	if (!file->is_null && end > __atomic_load_n(&file->size, __ATOMIC_RELAXED)) {
		cache_lock(ctx->cache, file);
		__atomic_store_n(&file->padded, true, __ATOMIC_RELAXED);
		cache_unlock(file);
	}
	while (kp_blocksize_next_bio(file->blocks, file->block_size, ctx->batch.masks, nr, &piece))
		write_piece(ctx, ctx->batch.start * KP_PAGE_SIZE + piece.offset, piece.len);
	ctx->batch.nr = 0;
}

/*
 * Trim padding: the last block was written whole, but the file ends within it. A sync and the
 * late flush do this; until then the file on disk may be longer than i_size.
 */
static void trim_padding(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file)
{
	if (!cache_padded(file) || file->block_device || kp_file->fd < 0 || !kp_file->writable)
		return;
	cache_lock(ctx->cache, file);
	/* The lock is held so that i_size does not grow before the file is truncated to it. */
	if (cache_padded(file) && !ftruncate(kp_file->fd, file->size))
		__atomic_store_n(&file->padded, false, __ATOMIC_RELAXED);
	cache_unlock(file);
}

/* ---- the scan's view of a file ------------------------------------------------------------- */

static bool scan_next_dirty(void *arg, uint64_t from, uint64_t *number)
{
	struct cache_io_ctx *ctx = arg;
	enum page_mark mark = ctx->batch.integrity ? PAGE_TOWRITE : PAGE_DIRTY;
	uint32_t id;

	/*
	 * A variant that continues while there are dirty pages would never let a job end that
	 * others write beside.
	 */
	if (!ctx->batch.integrity && __atomic_load_n(&ctx->stop, __ATOMIC_RELAXED))
		return false;
	cache_lock(ctx->cache, ctx->batch.file);
	id = page_index_next(&ctx->batch.file->index, from, mark, number);
	cache_unlock(ctx->batch.file);
	return id;
}

/*
 * Take the dirty blocks of a page for us. The writeback state serves as the page lock: only its
 * owner may write or redirty the blocks.
 */
static bool scan_lock(void *arg, uint64_t number, bool wait)
{
	struct cache_io_ctx *ctx = arg;
	struct cache_file *file = ctx->batch.file;
	struct cache_page *page;
	bool taken = false;
	uint32_t id, seen;

	for (;;) {
		cache_lock(ctx->cache, file);
		seen = __atomic_load_n(&file->progress, __ATOMIC_RELAXED);
		id = cache_lookup(file, number);
		page = id ? cache_page(ctx->cache, id) : NULL;
		if (!page || !page->dirty || !page->writeback)
			break;
		if (!wait)
			break;
		cache_unlock(file);
		cache_wait_progress(ctx, file, seen);
	}
	if (page && page->dirty && !page->writeback) {
		cache_start_writeback(ctx->cache, file, id, ctx->user);
		taken = true;
	}
	cache_unlock(file);
	return taken;
}

static void scan_unlock(void *arg, uint64_t number)
{
	struct cache_io_ctx *ctx = arg;
	struct cache_file *file = ctx->batch.file;

	cache_lock(ctx->cache, file);
	cache_redirty(ctx->cache, file, cache_lookup(file, number));
	cache_unlock(file);
	cache_wake(file);
}

static bool scan_mapped(void *arg, uint64_t number)
{
	return cache_mapped(((struct cache_io_ctx *)arg)->batch.file, number);
}

static int scan_submit(void *arg, uint64_t start, uint64_t nr, bool mapped)
{
	struct cache_io_ctx *ctx = arg;
	struct cache_file *file = ctx->batch.file;

	while (nr) {
		unsigned int n;

		if (ctx->batch.nr && (ctx->batch.start + ctx->batch.nr != start ||
				      ctx->batch.nr == ctx->batch.bio_pages))
			submit_batch(ctx);
		if (!ctx->batch.nr)
			ctx->batch.start = start;
		n = kp_min(nr, (uint64_t)ctx->batch.bio_pages - ctx->batch.nr);
		cache_lock(ctx->cache, file);
		if (!mapped)
			cache_set_mapped(ctx->cache, file, start, n);
		for (unsigned int i = 0; i < n; i++) {
			uint32_t id = cache_lookup(file, start + i);

			ctx->batch.ids[ctx->batch.nr] = id;
			ctx->batch.masks[ctx->batch.nr++] = cache_page(ctx->cache, id)->writeback;
		}
		cache_unlock(file);
		start += n;
		nr -= n;
	}
	return 0;
}

static void scan_end_round(void *arg)
{
	submit_batch(arg);
}

static const struct kp_writeback_ops scan_ops = {
	.next_dirty = scan_next_dirty,
	.lock = scan_lock,
	.unlock = scan_unlock,
	.mapped = scan_mapped,
	.submit = scan_submit,
	.end_round = scan_end_round,
};

static int scan(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		struct kp_writeback_control *wbc)
{
	int ret;

	ctx->batch.file = file;
	ctx->batch.kp_file = kp_file;
	ctx->batch.integrity = wbc->integrity;
	ctx->batch.bio_pages = kp_min(kp_writeback_bio_pages(ctx->variant, &kp_file->limits),
				      (uint32_t)CACHE_BIO_PAGES);
	wbc->blocks_per_page = KP_PAGE_SIZE / file->block_size;
	ret = kp_writeback_scan(ctx->variant, &scan_ops, ctx, wbc);
	submit_batch(ctx);
	/* blk_finish_plug() */
	kp_pipeline_flush(ctx->anchor.pipeline, ctx->anchor.next);
	cache_count(ctx->counters, CACHE_SCANS, 1);
	cache_count(ctx->counters, CACHE_ROUNDS, wbc->rounds);
	cache_count(ctx->counters, CACHE_WRITEBACK_PAGES, wbc->pages);
	cache_count(ctx->counters, CACHE_EXTENTS, wbc->extents);
	cache_count(ctx->counters, CACHE_SINGLE_EXTENTS, wbc->single_page_extents);
	cache_count(ctx->counters, CACHE_NEEDLESS_LOCKS, wbc->needless_locks);
	return ret;
}

uint64_t writeback_background(struct cache_io_ctx *ctx, struct cache_file *file,
			      struct kp_file *kp_file, long nr_to_write)
{
	struct kp_writeback_control wbc = {
		.nr_to_write = nr_to_write,
		.range_cyclic = true,
		.wrap_fault = ctx->wrap_fault,
		.writeback_index = file->writeback_index,
	};

	scan(ctx, file, kp_file, &wbc);
	file->writeback_index = wbc.writeback_index;
	return wbc.pages;
}

/*
 * tag_pages_for_writeback(): pages that become dirty after this are not waited for. *@redirties
 * receives the present count. Return: is there anything to write?
 */
static bool tag_range(struct cache_io_ctx *ctx, struct cache_file *file, uint64_t first,
		      uint64_t last, uint32_t *redirties)
{
	uint64_t number = first;
	bool any = false;

	cache_lock(ctx->cache, file);
	*redirties = file->redirties;
	while (page_index_next(&file->index, number, PAGE_DIRTY, &number) && number <= last) {
		page_index_set(&file->index, number++, PAGE_TOWRITE);
		any = true;
	}
	cache_unlock(file);
	return any;
}

/*
 * filemap_fdatawait_range(): wait for one page after the other, so that the wait ends while
 * others keep writing.
 */
static void wait_range(struct cache_io_ctx *ctx, struct cache_file *file, uint64_t first,
		       uint64_t last)
{
	uint64_t number = first;

	for (;;) {
		uint32_t id, seen;

		cache_lock(ctx->cache, file);
		seen = __atomic_load_n(&file->progress, __ATOMIC_RELAXED);
		id = page_index_next(&file->index, number, PAGE_WRITEBACK, &number);
		cache_unlock(file);
		if (!id || number > last)
			return;
		cache_wait_progress(ctx, file, seen);
	}
}

/*
 * Did a page that we waited for become dirty again without being written? Somebody else had it
 * under writeback when we tagged ours, and then did not write it: a scan that locked it
 * needlessly, or a user that was killed.
 */
static bool was_redirtied(struct cache_io_ctx *ctx, struct cache_file *file, uint64_t first,
			  uint64_t last, uint32_t *redirties)
{
	uint64_t number;
	bool any;

	cache_lock(ctx->cache, file);
	any = file->redirties != *redirties &&
	      page_index_next(&file->index, first, PAGE_TOWRITE, &number) && number <= last;
	*redirties = file->redirties;
	cache_unlock(file);
	return any;
}

/*
 * Is there nothing to write and nothing to wait for? Both counters must be read under the lock:
 * cache_start_writeback() changes them one after the other.
 */
static bool nothing_dirty(struct cache_io_ctx *ctx, struct cache_file *file)
{
	bool nothing;

	cache_lock(ctx->cache, file);
	nothing = !file->nr_dirty && !file->nr_writeback;
	cache_unlock(file);
	return nothing;
}

int writeback_and_wait_range(struct cache_io_ctx *ctx, struct cache_file *file,
			     struct kp_file *kp_file, uint64_t first, uint64_t last)
{
	uint32_t redirties;
	int ret = 0;
	bool more;

	if (nothing_dirty(ctx, file) && !cache_padded(file))
		return 0;
	more = tag_range(ctx, file, first, last, &redirties);
	do {
		struct kp_writeback_control wbc = {
			.integrity = true,
			.nr_to_write = INT64_MAX,
			.first = first,
			.last = last,
		};

		if (more)
			ret = scan(ctx, file, kp_file, &wbc);
		wait_range(ctx, file, first, last);
		more = was_redirtied(ctx, file, first, last, &redirties);
	} while (more && !ret);
	trim_padding(ctx, file, kp_file);
	return ret;
}
