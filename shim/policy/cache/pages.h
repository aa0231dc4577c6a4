/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lock of a file and the states of its pages: what mm/filemap.c and mm/page-writeback.c do to a
 * struct page. Any thread of any process may call these functions. Where the comment of a function
 * does not say otherwise the caller holds the file's lock.
 */
#ifndef KP_CACHE_PAGES_H
#define KP_CACHE_PAGES_H

#include "cache.h"

/* cache_find - the cache of an arena; the first caller makes it. Return: 0 or -errno. */
int cache_find(struct kp_arena *arena, struct page_cache **cache);

/*
 * cache_lock, cache_trylock, cache_unlock - take and release the file's lock. When its owner died
 * the one who takes it next makes the index and the counters anew.
 */
void cache_lock(struct page_cache *cache, struct cache_file *file);
bool cache_trylock(struct page_cache *cache, struct cache_file *file);
static inline void cache_unlock(struct cache_file *file)
{
	pthread_mutex_unlock(&file->lock);
}

static inline uint32_t cache_lookup(struct cache_file *file, uint64_t number)
{
	return page_index_find(&file->index, number);
}

/* cache_insert_page - put page @id into the index and count it. Return: 0 or -ENOMEM. */
int cache_insert_page(struct page_cache *cache, struct cache_file *file, uint32_t id);

/*
 * cache_remove_page - take a page that is clean and not busy out of the index; its memory is the
 * caller's.
 */
void cache_remove_page(struct page_cache *cache, struct cache_file *file, uint32_t id);

/* cache_drop_page - remove a page that is neither under writeback nor being read, and free it. */
void cache_drop_page(struct page_cache *cache, struct cache_file *file, uint32_t id);

/* cache_drop_all - drop all pages, dirty ones too, except those that are busy. */
void cache_drop_all(struct page_cache *cache, struct cache_file *file);

/*
 * cache_invalidate - drop the clean pages among numbers [@first, @last], and the clean blocks of
 * the other pages. Blocks that are being read will not be up to date when the read ends.
 */
void cache_invalidate(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t last);

/* cache_set_dirty - the blocks of @mask become dirty. */
void cache_set_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask);

/* cache_clear_dirty - the blocks of @mask are no longer dirty, though nobody wrote them. */
void cache_clear_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id,
		       uint8_t mask);

/* cache_start_writeback - @user begins to write the dirty blocks of a page. */
void cache_start_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			   uint16_t user);

/* cache_redirty - the blocks under writeback were not written: they are dirty again. */
void cache_redirty(struct page_cache *cache, struct cache_file *file, uint32_t id);

/* cache_end_writeback - the writeback of the blocks of @mask has ended. */
void cache_end_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			 uint8_t mask);

/* cache_set_error - note an error of writeback, as errseq_set(). */
void cache_set_error(struct cache_file *file, int error);

/* cache_sample_error - where an opener starts to look for errors, as errseq_sample(). */
uint32_t cache_sample_error(const struct cache_file *file);

/* cache_check_error - errseq_check_and_advance(). Return: 0 or -errno. */
int cache_check_error(struct cache_file *file, uint32_t *since);

/* struct cache_totals - dirty pages, pages under writeback, and all pages, of all files. */
struct cache_totals {
	uint64_t dirty, writeback, pages;
};

/* cache_totals - at any time, without a lock. */
struct cache_totals cache_totals(const struct page_cache *cache);

/* cache_recount - count the totals again. With page_cache.lock, when the cache has no users. */
void cache_recount(struct page_cache *cache);

#endif
