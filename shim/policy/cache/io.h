/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The I/O of the page cache, below the stage: bios for pages, reads into pages, direct I/O around
 * the cache, and the waits in which a thread's own completions go on. Every thread that does I/O,
 * a job's or a flusher's, has a context and a pipeline of its own. Only that thread calls these
 * functions.
 */
#ifndef KP_CACHE_IO_H
#define KP_CACHE_IO_H

#include "cache.h"

#define CACHE_BIO_PAGES KP_BIO_MAX_VECS

/* struct cache_batch - pages under writeback by us on their way into bios: [start, start + nr). */
struct cache_batch {
	struct cache_file *file;
	struct kp_file *kp_file;
	bool integrity;	    /* WB_SYNC_ALL */
	uint32_t bio_pages; /* pages that a bio can hold */
	unsigned int nr;
	uint64_t start;
	uint32_t ids[CACHE_BIO_PAGES];
	uint8_t masks[CACHE_BIO_PAGES];
};

/* struct cache_io_ctx - who does I/O for the cache: a job or a flusher. */
struct cache_io_ctx {
	struct kp_stage anchor; /* stands in the page cache's place; bios go to anchor.next */
	struct page_cache *cache;
	const struct kp_variant *variant; /* of writeback */
	uint64_t *counters;
	uint64_t reap_at; /* when to look for dead users again */
	struct kp_bio_set set;
	struct kp_pool ios;
	uint32_t in_flight; /* atomic; our bios */
	uint16_t user;
	bool wrap_fault;
	bool stop; /* atomic; ends a scan that is not for integrity */
	struct cache_batch batch;
};

/* struct cache_read - a read that somebody waits for. */
struct cache_read {
	uint32_t pending; /* atomic; bios in flight */
	int32_t error;
};

/* struct cache_io - what one of our bios is for. Its iterator belongs to the stages below. */
struct cache_io {
	struct cache_io_ctx *ctx;
	struct cache_file *file;
	struct cache_read *read; /* the read that waits for it, or NULL */
	struct kp_bio *original; /* direct I/O: the application's bio */
	uint64_t pos;
	uint64_t size;
};

/* cache_io_init - set up a zeroed context; bios go to @next. Return: 0 or -errno. */
int cache_io_init(struct cache_io_ctx *ctx, struct page_cache *cache, uint16_t user,
		  struct kp_pipeline *pl, struct kp_stage *next, uint64_t *counters);
void cache_io_exit(struct cache_io_ctx *ctx);

/* cache_bio_alloc - a bio at @pos with a cache_io and room for @nr segments. NULL: no memory. */
struct kp_bio *cache_bio_alloc(struct cache_io_ctx *ctx, struct cache_file *file,
			       struct kp_file *kp_file, uint64_t pos, unsigned int nr);

/*
 * cache_bio_add_pages - bytes [@pos, @end) of consecutive pages become the segments of @bio. @ids:
 * the pages, of which the first holds @pos.
 */
void cache_bio_add_pages(struct kp_bio *bio, uint64_t pos, uint64_t end, const uint32_t *ids);

/* cache_bio_submit - hand a bio to the stages below. Its end_io calls cache_bio_free(). */
void cache_bio_submit(struct kp_bio *bio);
void cache_bio_free(struct kp_bio *bio);

/*
 * cache_for_each_page - call @visit for every cached page of an I/O, with the bytes of the page
 * that the I/O covers. With the file's lock.
 */
void cache_for_each_page(struct cache_io *io, void (*visit)(struct cache_io *io, uint32_t id,
							    unsigned int from, unsigned int to));

static inline bool cache_has_in_flight(const struct cache_io_ctx *ctx)
{
	return __atomic_load_n(&ctx->in_flight, __ATOMIC_ACQUIRE);
}

/*
 * cache_wait_progress - wait, at most 100 ms, until a read or writeback of @file ended since
 * file->progress was @seen. Without the file's lock.
 */
void cache_wait_progress(struct cache_io_ctx *ctx, struct cache_file *file, uint32_t seen);

/*
 * cache_wait_balance - wait, at most 100 ms, until any writeback ended since cache->balance was
 * @seen. Wakes the flusher of @bdi.
 */
void cache_wait_balance(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen);

/*
 * cache_wait_memory - cache_wait_balance() after no page was to be had. @waits: counts the waits of
 * one I/O, and starts at 0. Return: false when the run ends and 50 waits were in vain.
 */
bool cache_wait_memory(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen,
		       unsigned int *waits);

static inline uint32_t cache_balance_seen(const struct cache_io_ctx *ctx)
{
	return __atomic_load_n(&ctx->cache->balance, __ATOMIC_SEQ_CST);
}

/* cache_io_drain - wait for all our bios. */
void cache_io_drain(struct cache_io_ctx *ctx);

/*
 * cache_read_pages - read blocks @masks[i] of pages @first + i. The caller has marked them as being
 * read by us. @read: counts the bios in flight and receives the error; NULL when nobody waits.
 */
void cache_read_pages(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		      uint64_t first, unsigned int nr, const uint32_t *ids, const uint8_t *masks,
		      struct cache_read *read);

/* cache_wait_read - wait for the bios of a read of ours. */
void cache_wait_read(struct cache_io_ctx *ctx, struct cache_file *file, struct cache_read *read);

/*
 * cache_direct_io - hand the application's bio to the device. When it ends, the clean pages of its
 * range are dropped.
 */
void cache_direct_io(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_bio *original);

#endif
