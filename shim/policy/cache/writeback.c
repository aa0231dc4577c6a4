// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page cache's I/O: writeback of dirty pages and reads into pages, on behalf of a job or of a
 * flusher, each through a pipeline of its own. Stands for ext4_writepages() and write_cache_pages()
 * with filemap_fdatawait() around them; which pages are taken is up to kp_writeback_scan().
 */
#include <unistd.h>

#include "blocksize.h"
#include "page_cache.h"
#include "scan.h"

/*
 * More than 128 requests (nr_requests) of 128 segments: what bounds writeback, and makes it sleep
 * and so flush its plug, are requests as in the kernel. Untouched entries cost no memory.
 */
#define NR_BIOS	      32768u
#define WAIT_NS	      100000000u
#define REAP_EVERY_NS 500000000u
#define DYING_NS      20000000u /* so often when somebody is on its way out */

/* What a bio of ours is about; its iterator belongs to the stages below. */
struct cache_io {
	struct cache_io_ctx *ctx;
	struct cache_file *file;
	struct cache_read *read; /* who waits for it, or NULL */
	struct kp_bio *original; /* of the application, past the cache */
	uint64_t pos;
	uint64_t size;
};

/* ---- bios ---------------------------------------------------------------------------------- */

static void end_bio(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;
	struct cache_io_ctx *ctx = io->ctx;

	kp_pool_put(&ctx->ios, io);
	kp_bio_free(bio);
	__atomic_fetch_sub(&ctx->in_flight, 1, __ATOMIC_RELEASE);
}

/* Call @visit for every page of an I/O, with the blocks that it covers. With the file's lock. */
static void for_each_page(struct cache_io *io, void (*visit)(struct cache_io *io, uint32_t id,
							     unsigned int from, unsigned int to))
{
	uint64_t pos = io->pos, end = io->pos + io->size;

	while (pos < end) {
		unsigned int from = pos % KP_PAGE_SIZE;
		unsigned int to = kp_min((uint64_t)KP_PAGE_SIZE, from + (end - pos));
		uint32_t id = cache_lookup(io->file, pos / KP_PAGE_SIZE);

		if (id)
			visit(io, id, from, to);
		pos += to - from;
	}
}

/* The next bio of ours, with room for @nr segments. NULL: out of memory. */
static struct kp_bio *new_bio(struct cache_io_ctx *ctx, struct cache_file *file,
			      struct kp_file *kp_file, uint64_t pos, unsigned int nr)
{
	struct kp_bio *bio = kp_bio_alloc(&ctx->set, nr);
	struct cache_io *io = bio ? kp_pool_get(&ctx->ios) : NULL;

	if (!io) {
		if (bio)
			kp_bio_free(bio);
		return NULL;
	}
	*io = (struct cache_io){ .ctx = ctx, .file = file, .pos = pos };
	bio->private = io;
	bio->file = kp_file;
	bio->iter = (struct kp_iter){ .pos = pos };
	return bio;
}

static void add_segment(struct kp_bio *bio, void *addr, size_t len)
{
	bio->own_vec[bio->nr_vecs++] = (struct kp_segment){ addr, len };
	bio->iter.size += len;
}

static void submit(struct cache_io_ctx *ctx, struct kp_bio *bio)
{
	struct cache_io *io = bio->private;

	io->size = bio->iter.size;
	__atomic_fetch_add(&ctx->in_flight, 1, __ATOMIC_RELAXED);
	kp_stage_submit(ctx->anchor.next, bio);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Now and then: a job that was killed has pages that others wait for. */
static void reap_now_and_then(struct cache_io_ctx *ctx)
{
	uint64_t now = kp_now_ns();

	if (now < ctx->reap_at)
		return;
	ctx->reap_at = now + (cache_reap_users(ctx->cache) ? DYING_NS : REAP_EVERY_NS);
}

static bool has_in_flight(const struct cache_io_ctx *ctx)
{
	return __atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE);
}

void cache_wait_progress(struct cache_io_ctx *ctx, struct cache_file *file, uint32_t seen)
{
	struct kp_pipeline *pl = ctx->anchor.pipeline;

	if (has_in_flight(ctx) && kp_pipeline_wait(pl, ctx->anchor.next) > 0)
		return;
	__atomic_fetch_add(&file->waiters, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&file->progress, __ATOMIC_SEQ_CST) == seen)
		cache_futex_wait(&file->progress, seen, has_in_flight(ctx) ? 1000000 : WAIT_NS);
	__atomic_fetch_sub(&file->waiters, 1, __ATOMIC_SEQ_CST);
	reap_now_and_then(ctx);
}

void cache_wait_balance(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen)
{
	struct page_cache *cache = ctx->cache;

	__atomic_fetch_add(&cache->throttled, 1, __ATOMIC_SEQ_CST);
	cache_wake_flusher(bdi);
	if (has_in_flight(ctx))
		kp_pipeline_wait(ctx->anchor.pipeline, ctx->anchor.next);
	else
		cache_futex_wait(&cache->balance, seen, WAIT_NS);
	__atomic_fetch_sub(&cache->throttled, 1, __ATOMIC_SEQ_CST);
	reap_now_and_then(ctx);
}

void cache_io_drain(struct cache_io_ctx *ctx)
{
	kp_pipeline_flush(ctx->anchor.pipeline, ctx->anchor.next);
	while (has_in_flight(ctx)) {
		if (kp_pipeline_wait(ctx->anchor.pipeline, ctx->anchor.next) < 0)
			usleep(100); /* a thread of some stage has it */
	}
}

/* ---- writing ------------------------------------------------------------------------------- */

static void page_written(struct cache_io *io, uint32_t id, unsigned int from, unsigned int to)
{
	cache_end_writeback(io->ctx->cache, io->file, id, cache_blocks(io->file, from, to));
}

/* Who waits for the file, or for dirty pages to become fewer, may go on. */
static void wake_after_write(struct cache_io_ctx *ctx, struct cache_file *file)
{
	cache_wake(file);
	__atomic_fetch_add(&ctx->cache->balance, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ctx->cache->throttled, __ATOMIC_SEQ_CST))
		cache_futex_wake(&ctx->cache->balance);
}

/* With the file's lock. */
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
	for_each_page(io, page_written);
	if (error)
		write_failed(io, error);
	if (io->pos + io->size > file->size && !file->is_null)
		__atomic_store_n(&file->padded, true,
				 __ATOMIC_RELAXED); /* until somebody cuts it off */
	cache_unlock(file);
	end_bio(bio);
	wake_after_write(ctx, file);
}

/* Bytes [@pos, @pos + @len) of the pages that were gathered. */
static void write_piece(struct cache_io_ctx *ctx, uint64_t pos, uint64_t len)
{
	struct cache_file *file = ctx->file;
	uint64_t base = ctx->start * KP_PAGE_SIZE;
	uint64_t end = pos + len;
	struct kp_bio *bio;

	if (file->block_device && end > file->size)
		end = file->size; /* a device that ends within a block */
	bio = new_bio(ctx, file, ctx->kp_file, pos,
		      (end - 1) / KP_PAGE_SIZE - pos / KP_PAGE_SIZE + 1);
	if (!bio) {
		struct cache_io io = { .ctx = ctx, .file = file, .pos = pos, .size = len };

		cache_lock(ctx->cache, file);
		for_each_page(&io, page_written);
		write_failed(&io, -ENOMEM);
		cache_unlock(file);
		wake_after_write(ctx, file);
		return;
	}
	bio->op = KP_OP_WRITE;
	bio->end_io = write_end_io;
	while (pos < end) {
		unsigned int from = pos % KP_PAGE_SIZE;
		unsigned int to = kp_min((uint64_t)KP_PAGE_SIZE, from + (end - pos));
		uint32_t id = ctx->ids[(pos - base) / KP_PAGE_SIZE];

		add_segment(bio, cache_data(ctx->cache, id) + from, to - from);
		pos += to - from;
	}
	cache_count(ctx->counters, CACHE_WRITEBACK_BYTES, bio->iter.size);
	submit(ctx, bio);
}

/* Turn the pages that were gathered into bios. */
static void submit_batch(struct cache_io_ctx *ctx)
{
	struct cache_file *file = ctx->file;
	struct kp_blocksize_bio piece = { 0 };
	unsigned int nr = ctx->nr;
	uint64_t end = (ctx->start + nr) * KP_PAGE_SIZE;

	if (!nr)
		return;
	/* For whoever has to cut it off if we die. */
	if (!file->is_null && end > __atomic_load_n(&file->size, __ATOMIC_RELAXED)) {
		cache_lock(ctx->cache, file);
		__atomic_store_n(&file->padded, true, __ATOMIC_RELAXED);
		cache_unlock(file);
	}
	while (kp_blocksize_next_bio(file->blocks, file->block_size, ctx->masks, nr, &piece))
		write_piece(ctx, ctx->start * KP_PAGE_SIZE + piece.offset, piece.len);
	ctx->nr = 0;
}

/*
 * Cut padding off: the last block was written whole, the file ends within it. A sync does, and the
 * late flush: on the way the file may be longer on disk than it is.
 */
static void trim_padding(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file)
{
	if (!cache_padded(file) || file->block_device || kp_file->fd < 0 || !kp_file->writable)
		return;
	cache_lock(ctx->cache, file);
	/* With the lock held, so that i_size does not grow before the file is cut to it. */
	if (cache_padded(file) && !ftruncate(kp_file->fd, file->size))
		__atomic_store_n(&file->padded, false, __ATOMIC_RELAXED);
	cache_unlock(file);
}

/* ---- the scan's view of a file ------------------------------------------------------------- */

static bool scan_next_dirty(void *arg, uint64_t from, uint64_t *number)
{
	struct cache_io_ctx *ctx = arg;
	enum page_mark mark = ctx->integrity ? PAGE_TOWRITE : PAGE_DIRTY;
	uint32_t id;

	/* A variant that goes on as long as there are dirty pages would keep its job for ever. */
	if (!ctx->integrity && __atomic_load_n(&ctx->stop, __ATOMIC_RELAXED))
		return false;
	cache_lock(ctx->cache, ctx->file);
	id = page_index_next(&ctx->file->index, from, mark, number);
	cache_unlock(ctx->file);
	return id;
}

/* A page's dirty blocks are ours once they are under writeback: that is our page lock. */
static bool scan_lock(void *arg, uint64_t number, bool wait)
{
	struct cache_io_ctx *ctx = arg;
	struct cache_file *file = ctx->file;
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
	struct cache_file *file = ctx->file;

	cache_lock(ctx->cache, file);
	cache_redirty(ctx->cache, file, cache_lookup(file, number));
	cache_unlock(file);
	cache_wake(file);
}

static bool scan_mapped(void *arg, uint64_t number)
{
	return cache_mapped(((struct cache_io_ctx *)arg)->file, number);
}

static int scan_submit(void *arg, uint64_t start, uint64_t nr, bool mapped)
{
	struct cache_io_ctx *ctx = arg;
	struct cache_file *file = ctx->file;

	while (nr) {
		unsigned int n;

		if (ctx->nr && (ctx->start + ctx->nr != start || ctx->nr == ctx->bio_pages))
			submit_batch(ctx);
		if (!ctx->nr)
			ctx->start = start;
		n = kp_min(nr, (uint64_t)ctx->bio_pages - ctx->nr);
		cache_lock(ctx->cache, file);
		if (!mapped)
			cache_set_mapped(ctx->cache, file, start, n);
		for (unsigned int i = 0; i < n; i++) {
			uint32_t id = cache_lookup(file, start + i);

			ctx->ids[ctx->nr] = id;
			ctx->masks[ctx->nr++] = cache_page(ctx->cache, id)->writeback;
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

	ctx->file = file;
	ctx->kp_file = kp_file;
	ctx->integrity = wbc->integrity;
	ctx->bio_pages = kp_min(kp_writeback_bio_pages(ctx->variant, &kp_file->limits),
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
 * tag_pages_for_writeback(): what is dirtied from now on is not waited for. *@unclaims: as it is
 * now. Return: is there anything to write?
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

/* filemap_fdatawait_range(): page after page, so that it ends while others go on writing. */
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
 * Did somebody give pages up meanwhile that we count on? They were his when we tagged ours, so that
 * we took them for under way: a scan that locks a page and does not write it, or who was killed.
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

/* Nothing to write, nothing to wait for? Under the lock: a claim goes through a state between. */
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

/* ---- reading ------------------------------------------------------------------------------- */

/* What lies behind the end of the file on disk reads as zeroes. */
static void page_read(struct cache_io *io, uint32_t id, unsigned int from, unsigned int to)
{
	struct cache_page *page = cache_page(io->ctx->cache, id);
	uint8_t mask = cache_blocks(io->file, from, to) & page->reading;

	page->uptodate |= mask & ~page->stale;
	page->stale &= ~mask;
	page->reading &= ~mask;
	if (!page->uptodate && !page->reading)
		cache_drop_page(io->ctx->cache, io->file, id);
}

static void page_not_read(struct cache_io *io, uint32_t id, unsigned int from, unsigned int to)
{
	struct cache_page *page = cache_page(io->ctx->cache, id);

	page->reading &= ~cache_blocks(io->file, from, to);
	page->stale &= page->reading;
	if (!page->uptodate && !page->reading && !page->dirty && !page->writeback)
		cache_drop_page(io->ctx->cache, io->file, id);
}

static void zero_tail(struct kp_bio *bio, uint64_t resid)
{
	for (unsigned int i = bio->nr_vecs; i-- > 0 && resid;) {
		struct kp_segment *segment = &bio->own_vec[i];
		uint64_t len = kp_min(resid, (uint64_t)segment->len);

		memset((char *)segment->addr + segment->len - len, 0, len);
		resid -= len;
	}
}

static void read_end_io(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;
	struct cache_file *file = io->file;
	struct cache_read *read = io->read;
	struct cache_io_ctx *ctx = io->ctx;
	int error = bio->status;

	if (!error)
		zero_tail(bio, bio->resid);
	cache_lock(ctx->cache, file);
	for_each_page(io, error ? page_not_read : page_read);
	cache_unlock(file);
	end_bio(bio);
	cache_wake(file);
	if (read) {
		if (error)
			read->error = error;
		__atomic_fetch_sub(&read->pending, 1, __ATOMIC_RELEASE);
	}
}

/* One bio for bytes [@pos, @pos + @len) of consecutive pages. */
static void read_piece(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		       uint64_t pos, uint64_t len, const uint32_t *ids, struct cache_read *read)
{
	uint64_t end = pos + len, base = kp_round_down(pos, KP_PAGE_SIZE);
	struct cache_io *io;
	struct kp_bio *bio;

	if (file->block_device && end > file->size)
		end = file->size;
	bio = new_bio(ctx, file, kp_file, pos, (end - 1) / KP_PAGE_SIZE - pos / KP_PAGE_SIZE + 1);
	if (!bio) {
		struct cache_io failed = { .ctx = ctx, .file = file, .pos = pos, .size = len };

		cache_lock(ctx->cache, file);
		for_each_page(&failed, page_not_read);
		cache_unlock(file);
		cache_wake(file);
		if (read)
			read->error = -ENOMEM;
		return;
	}
	io = bio->private;
	io->read = read;
	if (read)
		__atomic_fetch_add(&read->pending, 1, __ATOMIC_RELAXED);
	bio->op = KP_OP_READ;
	bio->end_io = read_end_io;
	while (pos < end) {
		unsigned int from = pos % KP_PAGE_SIZE;
		unsigned int to = kp_min((uint64_t)KP_PAGE_SIZE, from + (end - pos));
		uint32_t id = ids[(pos - base) / KP_PAGE_SIZE];

		add_segment(bio, cache_data(ctx->cache, id) + from, to - from);
		pos += to - from;
	}
	cache_count(ctx->counters, CACHE_READ_BYTES, bio->iter.size);
	submit(ctx, bio);
}

static uint8_t all_blocks(const struct cache_file *file)
{
	return (1u << (KP_PAGE_SIZE / file->block_size)) - 1;
}

void cache_read_pages(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		      uint64_t first, unsigned int nr, const uint32_t *ids, const uint8_t *masks,
		      struct cache_read *read)
{
	uint8_t all = all_blocks(file);

	for (unsigned int i = 0; i < nr;) {
		uint64_t pos = (first + i) * KP_PAGE_SIZE;
		unsigned int whole = 0;

		/* mpage_readpages(): whole pages share a bio, whatever the block size. */
		while (i + whole < nr && whole < CACHE_BIO_PAGES && masks[i + whole] == all)
			whole++;
		if (whole) {
			read_piece(ctx, file, kp_file, pos, (uint64_t)whole * KP_PAGE_SIZE, ids + i,
				   read);
			i += whole;
		} else {
			/* A page that has blocks: each by a bio of its own. */
			struct kp_blocksize_bio piece = { 0 };

			while (kp_blocksize_next_bio(file->blocks, file->block_size, masks + i, 1,
						     &piece))
				read_piece(ctx, file, kp_file, pos + piece.offset, piece.len,
					   ids + i, read);
			i++;
		}
	}
}

/* ---- past the cache ------------------------------------------------------------------------ */

/*
 * A direct read of a file that is longer, or shorter, than it is on disk yet: what was not written
 * back reads as zeroes, what is padding is not there.
 */
static void end_at_size(const struct cache_io *io, struct kp_bio *bio)
{
	struct kp_iter iter = io->original->iter;
	uint64_t end = kp_min(io->pos + io->size, kp_max(cache_load(&io->file->size), io->pos));
	uint64_t got = io->pos + io->size - bio->resid;
	struct kp_segment segment;

	bio->resid = io->pos + io->size - end;
	if (got >= end)
		return;
	iter.size = end - io->pos;
	kp_iter_advance(bio->vec, &iter, got - io->pos);
	for (; iter.size; kp_iter_step(bio->vec, &iter, segment.len)) {
		segment = kp_iter_segment(bio->vec, &iter);
		memset(segment.addr, 0, segment.len);
	}
}

/* invalidate_inode_pages2_range() after a direct write: what was read in meanwhile is old. */
static void direct_end_io(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;
	struct cache_file *file = io->file;
	struct cache_io_ctx *ctx = io->ctx;
	struct kp_bio *original = io->original;

	if (original->op == KP_OP_READ) {
		if (!bio->status && !file->block_device && !file->is_null)
			end_at_size(io, bio);
	} else if (io->size) {
		cache_lock(ctx->cache, file);
		cache_invalidate(ctx->cache, file, io->pos / KP_PAGE_SIZE,
				 (io->pos + io->size - 1) / KP_PAGE_SIZE);
		if (original->op == KP_OP_WRITE && !bio->status)
			cache_set_mapped(ctx->cache, file, io->pos / KP_PAGE_SIZE,
					 io->size / KP_PAGE_SIZE);
		cache_unlock(file);
	}
	if (bio->status)
		kp_bio_error(original, bio->status);
	original->resid = bio->resid;
	end_bio(bio);
	kp_bio_endio(original);
}

void cache_direct_io(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_bio *original)
{
	struct kp_bio *bio = new_bio(ctx, file, original->file, original->iter.pos, 0);

	if (!bio) {
		kp_bio_fail(original, -ENOMEM);
		return;
	}
	bio->op = original->op;
	bio->flags = original->flags & ~KP_BIO_CHAIN;
	bio->vec = original->vec;
	bio->nr_vecs = original->nr_vecs;
	bio->iter = original->iter;
	bio->end_io = direct_end_io;
	((struct cache_io *)bio->private)->original = original;
	submit(ctx, bio);
}

/* ---- set-up -------------------------------------------------------------------------------- */

int cache_io_init(struct cache_io_ctx *ctx, struct page_cache *cache, uint16_t user,
		  struct kp_pipeline *pl, struct kp_stage *next, uint64_t *counters)
{
	size_t vecs[KP_VEC_CLASSES];
	int ret;

	for (unsigned int i = 0; i < KP_VEC_CLASSES; i++)
		vecs[i] = NR_BIOS;
	ctx->anchor.pipeline = pl;
	ctx->anchor.next = next;
	ctx->cache = cache;
	ctx->user = user;
	ctx->counters = counters;
	ret = kp_bio_set_init(&ctx->set, &ctx->anchor, NR_BIOS, vecs);
	if (!ret)
		ret = kp_pool_init(&ctx->ios, sizeof(struct cache_io), NR_BIOS, pl->shared);
	return ret;
}

void cache_io_exit(struct cache_io_ctx *ctx)
{
	if (ctx->set.stage)
		kp_bio_set_exit(&ctx->set);
	kp_pool_exit(&ctx->ios);
}
