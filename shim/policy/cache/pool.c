// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of memory of the page cache: free ones, and a clock that reclaims clean ones, as
 * shrink_page_list() does from the tail of the inactive list.
 */
#include <sys/mman.h>

#include "page_cache.h"

/* Whoever died in here left the list half done: make it anew from the pages. */
static void repair_pool(struct page_cache *cache)
{
	uint32_t in_use = 0;

	cache->free = 0;
	for (uint32_t id = cache->nr_pages; id; id--) {
		struct cache_page *page = cache_page(cache, id);

		if (page->file) {
			in_use++;
		} else {
			page->next = cache->free;
			cache->free = id;
		}
	}
	__atomic_store_n(&cache->in_use, in_use, __ATOMIC_RELAXED);
}

static void lock_pool(struct page_cache *cache)
{
	if (kp_robust_lock(&cache->pool_lock))
		repair_pool(cache);
}

/* Pages that there may be: clean and dirty ones. */
static uint64_t max_pages(const struct page_cache *cache)
{
	uint64_t bytes = cache->limits.cache_bytes + cache->limits.dirty_bytes;

	return kp_min(bytes / KP_PAGE_SIZE, (uint64_t)CACHE_CHUNKS * PAGES_PER_CHUNK - 1);
}

/* With pool_lock. */
static struct page_chunk *chunk_of(struct page_cache *cache, uint32_t id)
{
	struct page_chunk **chunk = &cache->chunks[id / PAGES_PER_CHUNK];

	if (!*chunk)
		*chunk = kp_arena_alloc(cache->arena, sizeof(**chunk));
	return *chunk;
}

/* A page that was never used. With pool_lock. */
static uint32_t fresh_page(struct page_cache *cache)
{
	uint32_t id = cache->nr_pages + 1;

	if (!chunk_of(cache, id))
		return 0;
	__atomic_store_n(&cache->nr_pages, id, __ATOMIC_RELEASE);
	return id;
}

void pool_populate(struct page_cache *cache, uint64_t bytes)
{
	uint64_t pages = kp_min(bytes / KP_PAGE_SIZE, max_pages(cache));
	uint32_t chunks = (pages + PAGES_PER_CHUNK - 1) / PAGES_PER_CHUNK;

	for (; cache->prepared < chunks; cache->prepared++) {
		struct page_chunk *chunk;

		lock_pool(cache);
		chunk = chunk_of(cache, cache->prepared * PAGES_PER_CHUNK);
		pthread_mutex_unlock(&cache->pool_lock);
		/* An older kernel has no such advice; the faults come later then. */
		if (!chunk || madvise(chunk, sizeof(*chunk), MADV_POPULATE_WRITE))
			return;
	}
}

/* Drop page @id if it is clean. Nobody has the cache. */
static void drop_clean(struct page_cache *cache, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);
	struct cache_file *file = page->file ? cache->files[page->file - 1] : NULL;

	if (!file)
		return;
	cache_lock(cache, file);
	if (page->file == file->id && !page->dirty && !page->writeback && !page->reading &&
	    page_index_find(&file->index, page->number) == id)
		cache_drop_page(cache, file, id);
	cache_unlock(file);
}

static bool unused_chunk(struct page_cache *cache, uint32_t number)
{
	for (uint32_t i = 0; i < PAGES_PER_CHUNK; i++) {
		if (cache->chunks[number]->pages[i].file)
			return false;
	}
	return true;
}

void cache_shrink(struct page_cache *cache)
{
	uint64_t clean = cache->limits.cache_bytes / KP_PAGE_SIZE;
	uint32_t first = (max_pages(cache) + PAGES_PER_CHUNK) / PAGES_PER_CHUNK;

	for (uint32_t id = cache->nr_pages; id && cache_totals(cache).pages > clean; id--)
		drop_clean(cache, id);
	/* In order, so that the last chunks are not used again. */
	lock_pool(cache);
	repair_pool(cache);
	pthread_mutex_unlock(&cache->pool_lock);
	for (uint32_t i = first; i < CACHE_CHUNKS && cache->chunks[i]; i++) {
		if (unused_chunk(cache, i))
			kp_arena_release(cache->arena, cache->chunks[i]->data,
					 sizeof(cache->chunks[i]->data));
	}
	cache->prepared = kp_min(cache->prepared, first);
}

/* Give a page to @file: the owner last, since it makes the page its. */
static void assign(struct cache_page *page, struct cache_file *file, uint64_t number)
{
	page->uptodate = 0;
	page->dirty = 0;
	page->writeback = 0;
	page->reading = 0;
	page->stale = 0;
	page->referenced = 1;
	page->number = number;
	__atomic_store_n(&page->file, file->id, __ATOMIC_RELEASE);
}

static uint32_t take_free(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	uint32_t id = 0;

	lock_pool(cache);
	if (cache->in_use < max_pages(cache)) {
		id = cache->free;
		if (id)
			cache->free = cache_page(cache, id)->next;
		else
			id = fresh_page(cache);
	}
	if (id) {
		assign(cache_page(cache, id), file, number);
		__atomic_store_n(&cache->in_use, cache->in_use + 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&cache->pool_lock);
	return id;
}

void pool_free_page(struct page_cache *cache, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	page->uptodate = 0;
	page->dirty = 0;
	lock_pool(cache);
	__atomic_store_n(&page->file, 0, __ATOMIC_RELEASE);
	page->next = cache->free;
	cache->free = id;
	__atomic_store_n(&cache->in_use, cache->in_use - 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&cache->pool_lock);
}

/*
 * Take page @id from its file, if it may go, for @number of @file, whose lock is held; the
 * owner's is tried.
 */
static bool evict(struct page_cache *cache, struct cache_file *file, uint64_t number, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);
	uint32_t owner = __atomic_load_n(&page->file, __ATOMIC_ACQUIRE);
	struct cache_file *from = owner ? cache->files[owner - 1] : NULL;
	bool evicted = false;

	if (!from || page->dirty || page->writeback || page->reading)
		return false;
	if (from != file && !cache_trylock(cache, from))
		return false;
	if (page->file == owner && !page->dirty && !page->writeback && !page->reading &&
	    page_index_find(&from->index, page->number) == id) {
		evicted = !page->referenced;
		page->referenced = 0;
		if (evicted) {
			page->uptodate = 0;
			page_index_remove(&from->index, page->number);
			__atomic_store_n(&from->nr_pages, from->nr_pages - 1, __ATOMIC_RELAXED);
			__atomic_fetch_sub(&cache->pages, 1, __ATOMIC_RELAXED);
			assign(page, file, number);
		}
	}
	if (from != file)
		cache_unlock(from);
	return evicted;
}

/* The clock: a page that was used since the hand last passed gets another turn. */
static uint32_t reclaim(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	uint32_t nr = __atomic_load_n(&cache->nr_pages, __ATOMIC_ACQUIRE);

	for (uint64_t tries = 2ull * nr; tries; tries--) {
		uint32_t id = __atomic_fetch_add(&cache->hand, 1, __ATOMIC_RELAXED) % nr + 1;

		if (evict(cache, file, number, id))
			return id;
	}
	return 0;
}

/* Are there as many clean pages as there may be? */
static bool enough_clean(const struct page_cache *cache)
{
	uint64_t in_use = __atomic_load_n(&cache->in_use, __ATOMIC_RELAXED);
	uint64_t limit = cache->limits.cache_bytes / KP_PAGE_SIZE;
	struct cache_totals totals;

	if (in_use < limit)
		return false;
	totals = cache_totals(cache);
	return in_use >= limit + totals.dirty + totals.writeback;
}

uint32_t cache_alloc_page(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	bool full = enough_clean(cache);
	uint32_t id = full ? reclaim(cache, file, number) : take_free(cache, file, number);

	if (!id)
		id = full ? take_free(cache, file, number) : reclaim(cache, file, number);
	return id;
}
