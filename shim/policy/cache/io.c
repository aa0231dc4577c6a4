// SPDX-License-Identifier: GPL-2.0-only
/* The I/O of the page cache. See io.h. */
#include <unistd.h>

#include "blocksize.h"
#include "io.h"
#include "mapped.h"
#include "pages.h"
#include "users.h"
#include "wake.h"

/*
 * There are more bios than 128 requests (nr_requests) of 128 segments can hold. So writeback
 * sleeps, and flushes its plug, for want of requests, as in the kernel. Objects that were never
 * used cost no memory.
 */
#define NR_BIOS	      32768u
#define LAST_WAITS    50u /* of one I/O for memory, when the run is to end */
#define REAP_EVERY_NS 500000000u
#define DYING_NS      20000000u /* the interval while a dead user still has I/O in flight */

/* ---- bios ------------------------------------------------------------------------------------ */

void cache_bio_free(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;
	struct cache_io_ctx *ctx = io->ctx;

	kp_pool_put(&ctx->ios, io);
	kp_bio_free(bio);
	__atomic_fetch_sub(&ctx->in_flight, 1, __ATOMIC_RELEASE);
}

void cache_for_each_page(struct cache_io *io, void (*visit)(struct cache_io *io, uint32_t id,
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

struct kp_bio *cache_bio_alloc(struct cache_io_ctx *ctx, struct cache_file *file,
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

void cache_bio_add_pages(struct kp_bio *bio, uint64_t pos, uint64_t end, const uint32_t *ids)
{
	const struct cache_io *io = bio->private;
	uint64_t first = pos / KP_PAGE_SIZE;

	while (pos < end) {
		unsigned int from = pos % KP_PAGE_SIZE;
		unsigned int to = kp_min((uint64_t)KP_PAGE_SIZE, from + (end - pos));
		uint32_t id = ids[pos / KP_PAGE_SIZE - first];

		bio->own_vec[bio->nr_vecs++] = (struct kp_segment){
			cache_data(io->ctx->cache, id) + from,
			to - from,
		};
		bio->iter.size += to - from;
		pos += to - from;
	}
}

void cache_bio_submit(struct kp_bio *bio)
{
	struct cache_io *io = bio->private;

	io->size = bio->iter.size;
	__atomic_fetch_add(&io->ctx->in_flight, 1, __ATOMIC_RELAXED);
	kp_stage_submit(io->ctx->anchor.next, bio);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Look for dead users now and then: others may wait for their pages. */
static void reap_now_and_then(struct cache_io_ctx *ctx)
{
	uint64_t now = kp_now_ns();

	if (now < ctx->reap_at)
		return;
	ctx->reap_at = now + (cache_reap_users(ctx->cache) ? DYING_NS : REAP_EVERY_NS);
}

void cache_wait_progress(struct cache_io_ctx *ctx, struct cache_file *file, uint32_t seen)
{
	struct kp_pipeline *pl = ctx->anchor.pipeline;

	if (cache_has_in_flight(ctx) && kp_pipeline_wait(pl, ctx->anchor.next) > 0)
		return;
	__atomic_fetch_add(&file->waiters, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&file->progress, __ATOMIC_SEQ_CST) == seen)
		kp_futex_wait(&file->progress, seen,
			      cache_has_in_flight(ctx) ? 1000000 : KP_LOOK_AROUND_NS);
	__atomic_fetch_sub(&file->waiters, 1, __ATOMIC_SEQ_CST);
	reap_now_and_then(ctx);
}

void cache_wait_balance(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen)
{
	struct page_cache *cache = ctx->cache;

	__atomic_fetch_add(&cache->throttled, 1, __ATOMIC_SEQ_CST);
	cache_wake_flusher(bdi);
	if (cache_has_in_flight(ctx))
		kp_pipeline_wait(ctx->anchor.pipeline, ctx->anchor.next);
	else
		kp_futex_wait(&cache->balance, seen, KP_LOOK_AROUND_NS);
	__atomic_fetch_sub(&cache->throttled, 1, __ATOMIC_SEQ_CST);
	reap_now_and_then(ctx);
}

bool cache_wait_memory(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen,
		       unsigned int *waits)
{
	cache_wait_balance(ctx, bdi, seen);
	return !kp_pipeline_terminating(ctx->anchor.pipeline) || ++*waits < LAST_WAITS;
}

void cache_wait_read(struct cache_io_ctx *ctx, struct cache_file *file, struct cache_read *read)
{
	kp_pipeline_flush(ctx->anchor.pipeline, ctx->anchor.next);
	while (__atomic_load_n(&read->pending, __ATOMIC_ACQUIRE)) {
		uint32_t seen = __atomic_load_n(&file->progress, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&read->pending, __ATOMIC_ACQUIRE))
			cache_wait_progress(ctx, file, seen);
	}
}

void cache_io_drain(struct cache_io_ctx *ctx)
{
	kp_pipeline_flush(ctx->anchor.pipeline, ctx->anchor.next);
	while (cache_has_in_flight(ctx)) {
		if (kp_pipeline_wait(ctx->anchor.pipeline, ctx->anchor.next) < 0)
			usleep(100); /* a thread of another stage holds our bios */
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The read succeeded. What lies behind the end of the file on disk reads as zeroes. */
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
	cache_for_each_page(io, error ? page_not_read : page_read);
	cache_unlock(file);
	cache_bio_free(bio);
	cache_wake(file);
	if (read) {
		if (error)
			read->error = error;
		__atomic_fetch_sub(&read->pending, 1, __ATOMIC_RELEASE);
	}
}

/* Read bytes [@pos, @pos + @len) of consecutive pages by one bio. */
static void read_piece(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		       uint64_t pos, uint64_t len, const uint32_t *ids, struct cache_read *read)
{
	uint64_t end = pos + len;
	struct cache_io *io;
	struct kp_bio *bio;

	if (file->block_device && end > file->size)
		end = file->size;
	bio = cache_bio_alloc(ctx, file, kp_file, pos,
			      (end - 1) / KP_PAGE_SIZE - pos / KP_PAGE_SIZE + 1);
	if (!bio) {
		struct cache_io failed = { .ctx = ctx, .file = file, .pos = pos, .size = len };

		cache_lock(ctx->cache, file);
		cache_for_each_page(&failed, page_not_read);
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
	cache_bio_add_pages(bio, pos, end, ids);
	cache_count(ctx->counters, CACHE_READ_BYTES, bio->iter.size);
	cache_bio_submit(bio);
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

		/* mpage_readpages(): whole pages share a bio, whatever the block size is. */
		while (i + whole < nr && whole < CACHE_BIO_PAGES && masks[i + whole] == all)
			whole++;
		if (whole) {
			read_piece(ctx, file, kp_file, pos, (uint64_t)whole * KP_PAGE_SIZE, ids + i,
				   read);
			i += whole;
		} else {
			/* The page has some blocks already: each of the others gets a bio. */
			struct kp_blocksize_bio piece = { 0 };

			while (kp_blocksize_next_bio(file->blocks, file->block_size, masks + i, 1,
						     &piece))
				read_piece(ctx, file, kp_file, pos + piece.offset, piece.len,
					   ids + i, read);
			i++;
		}
	}
}

/* ---- direct I/O ------------------------------------------------------------------------------ */

/*
 * Correct a direct read of a file whose i_size differs from its size on disk. Data that was not
 * written back yet reads as zeroes, and padding is not part of the file.
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

/*
 * After a direct write, drop the pages that were read in meanwhile:
 * invalidate_inode_pages2_range().
 */
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
	cache_bio_free(bio);
	kp_bio_endio(original);
}

void cache_direct_io(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_bio *original)
{
	struct kp_bio *bio = cache_bio_alloc(ctx, file, original->file, original->iter.pos, 0);

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
	cache_bio_submit(bio);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

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
