// SPDX-License-Identifier: GPL-2.0-only
/* The memory of the page cache. See page_pool.h. */
#include <sys/mman.h>
#include <unistd.h>

#include "page_pool.h"

/* The owner of the lock died and left the list half changed: make the list anew from the pages. */
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

/* The limit counts clean and dirty pages. */
uint64_t pool_max_pages(const struct page_cache *cache)
{
	uint64_t bytes = cache->limits.cache_bytes + cache->limits.dirty_bytes;

	return kp_min(bytes / KP_PAGE_SIZE, (uint64_t)CACHE_CHUNKS * PAGES_PER_CHUNK - 1);
}

/* The chunk that holds page @id; the first caller makes it. With pool_lock. */
static struct page_chunk *chunk_of(struct page_cache *cache, uint32_t id)
{
	struct page_chunk **chunk = &cache->chunks[id / PAGES_PER_CHUNK];

	if (!*chunk)
		*chunk = kp_arena_alloc(cache->arena, sizeof(**chunk));
	return *chunk;
}

/* Hand out an id that was never used. With pool_lock. */
static uint32_t fresh_page(struct page_cache *cache)
{
	uint32_t id = cache->nr_pages + 1;

	if (!chunk_of(cache, id))
		return 0;
	__atomic_store_n(&cache->nr_pages, id, __ATOMIC_RELEASE);
	return id;
}

/* ---- populating ---------------------------------------------------------------------------- */

/*
 * How many chunks this process has mapped. Two threads that meet here do the same work twice,
 * which does no harm.
 */
static struct {
	struct page_cache *cache;
	pid_t pid; /* a forked child starts without page table entries */
	uint32_t chunks;
} mapped;

/* Allocate and map a chunk's memory, without changing what is in it. Return: 0 or -errno. */
static int populate_chunk(struct page_chunk *chunk)
{
	char *memory = (char *)chunk;

	if (!madvise(memory, sizeof(*chunk), MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	/*
	 * Kernels before 5.14. Another process may be writing to these pages, so the write is
	 * atomic.
	 */
	for (size_t i = 0; i < sizeof(*chunk); i += KP_PAGE_SIZE)
		__atomic_fetch_or(memory + i, 0, __ATOMIC_RELAXED);
	return 0;
}

static uint32_t mapped_chunks(const struct page_cache *cache)
{
	return mapped.cache == cache && mapped.pid == getpid() ? mapped.chunks : 0;
}

void pool_map(struct page_cache *cache)
{
	uint32_t wanted = __atomic_load_n(&cache->populate, __ATOMIC_ACQUIRE);

	for (uint32_t i = mapped_chunks(cache); i < wanted; i++) {
		if (populate_chunk(cache->chunks[i]))
			return;
		mapped.cache = cache;
		mapped.pid = getpid();
		mapped.chunks = i + 1;
	}
}

void pool_want(struct page_cache *cache, uint64_t pages)
{
	uint32_t chunks = kp_min(pages, pool_max_pages(cache)) / PAGES_PER_CHUNK + 1;
	uint32_t i = cache->populate;

	lock_pool(cache);
	while (i < chunks && chunk_of(cache, i * PAGES_PER_CHUNK))
		i++;
	pthread_mutex_unlock(&cache->pool_lock);
	__atomic_store_n(&cache->populate, i, __ATOMIC_RELEASE);
}

/* ---- pages --------------------------------------------------------------------------------- */

/* The owner is stored last: from then on the page belongs to the file. */
void pool_assign_page(struct cache_page *page, struct cache_file *file, uint64_t number)
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

uint32_t pool_alloc_page(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	uint32_t id = 0;

	lock_pool(cache);
	if (cache->in_use < pool_max_pages(cache)) {
		id = cache->free;
		if (id)
			cache->free = cache_page(cache, id)->next;
		else
			id = fresh_page(cache);
	}
	if (id) {
		pool_assign_page(cache_page(cache, id), file, number);
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

static bool unused_chunk(struct page_cache *cache, uint32_t number)
{
	for (uint32_t i = 0; i < PAGES_PER_CHUNK; i++) {
		if (cache->chunks[number]->pages[i].file)
			return false;
	}
	return true;
}

void pool_trim(struct page_cache *cache)
{
	uint32_t first = (pool_max_pages(cache) + PAGES_PER_CHUNK) / PAGES_PER_CHUNK;

	/* Repairing sorts the list of free pages, so that the last chunks are not used again. */
	lock_pool(cache);
	repair_pool(cache);
	pthread_mutex_unlock(&cache->pool_lock);
	for (uint32_t i = first; i < CACHE_CHUNKS && cache->chunks[i]; i++) {
		if (unused_chunk(cache, i))
			kp_arena_release(cache->arena, cache->chunks[i]->data,
					 sizeof(cache->chunks[i]->data));
	}
	cache->populate = kp_min(cache->populate, first);
	mapped.chunks = kp_min(mapped.chunks, first);
}
