// SPDX-License-Identifier: GPL-2.0-only
/* Pages for a file, within the limits. See reclaim.h. */
#include "page_pool.h"
#include "pages.h"
#include "reclaim.h"

/*
 * Take page @id from the file that has it and give it to @file as page @number, unless the page
 * is in use. The caller holds the lock of @file; the lock of the other file is only tried.
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
			cache_remove_page(cache, from, id);
			pool_assign_page(page, file, number);
		}
	}
	if (from != file)
		cache_unlock(from);
	return evicted;
}

/* The clock algorithm: a page that was used since the hand last passed stays for another turn. */
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

/* Does the cache hold as many clean pages as the limit allows? */
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

static uint32_t alloc_page(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	bool full = enough_clean(cache);
	uint32_t id = full ? reclaim(cache, file, number) : pool_alloc_page(cache, file, number);

	if (!id)
		id = full ? pool_alloc_page(cache, file, number) : reclaim(cache, file, number);
	return id;
}

uint32_t cache_add_page(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	uint32_t id = alloc_page(cache, file, number);

	if (!id || !cache_insert_page(cache, file, id))
		return id;
	pool_free_page(cache, id);
	return 0;
}

/* Drop page @id if it is clean. The cache has no users. */
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

void cache_shrink(struct page_cache *cache)
{
	uint64_t clean = cache->limits.cache_bytes / KP_PAGE_SIZE;

	for (uint32_t id = cache->nr_pages; id && cache_totals(cache).pages > clean; id--)
		drop_clean(cache, id);
	pool_trim(cache);
}
