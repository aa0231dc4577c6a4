// SPDX-License-Identifier: GPL-2.0-only
/* The lock of a file and the states of its pages. See pages.h. */
#include <sys/random.h>

#include "page_pool.h"
#include "pages.h"

static void store(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

/* Change a counter of a file, and the total of all files with it. With the file's lock. */
static void add(uint64_t *of_file, int64_t *of_all, int64_t nr)
{
	store(of_file, *of_file + nr);
	__atomic_fetch_add(of_all, nr, __ATOMIC_RELAXED);
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* The file's index was lost. Insert this page again, or free it if its contents are not known. */
static void restore_page(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	/* A writer died within its copy. Blocks that it had not copied yet were never written. */
	page->dirty &= page->uptodate;
	if ((!page->uptodate && !page->reading) || cache_insert_page(cache, file, id)) {
		pool_free_page(cache, id);
		return;
	}
	if (page->dirty) {
		add(&file->nr_dirty, &cache->dirty, 1);
		page_index_set(&file->index, page->number, PAGE_DIRTY);
		page_index_set(&file->index, page->number, PAGE_TOWRITE);
	}
	if (page->writeback) {
		add(&file->nr_writeback, &cache->writeback, 1);
		page_index_set(&file->index, page->number, PAGE_WRITEBACK);
	}
}

/* The owner of the lock died: make the index and the counters anew from the pages. */
static void repair_file(struct page_cache *cache, struct cache_file *file)
{
	uint32_t nr = __atomic_load_n(&cache->nr_pages, __ATOMIC_ACQUIRE);

	page_index_reset(&file->index);
	add(&file->nr_pages, &cache->pages, -(int64_t)file->nr_pages);
	add(&file->nr_dirty, &cache->dirty, -(int64_t)file->nr_dirty);
	add(&file->nr_writeback, &cache->writeback, -(int64_t)file->nr_writeback);
	for (uint32_t id = 1; id <= nr; id++) {
		if (__atomic_load_n(&cache_page(cache, id)->file, __ATOMIC_ACQUIRE) == file->id)
			restore_page(cache, file, id);
	}
	file->redirties++; /* threads that wait for pages must look again */
	if (file->nr_dirty && !file->dirtied_ns)
		store(&file->dirtied_ns, kp_now_ns());
}

void cache_lock(struct page_cache *cache, struct cache_file *file)
{
	if (kp_robust_lock(&file->lock))
		repair_file(cache, file);
}

bool cache_trylock(struct page_cache *cache, struct cache_file *file)
{
	bool died;

	if (!kp_robust_trylock(&file->lock, &died))
		return false;
	if (died)
		repair_file(cache, file);
	return true;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static int init_cache(void *object, void *arg)
{
	struct page_cache *cache = object;
	int ret;

	cache->arena = arg;
	if (getrandom(&cache->token, sizeof(cache->token), 0) < 0)
		return -errno;
	cache->users = kp_arena_alloc(arg, CACHE_MAX_USERS * sizeof(*cache->users));
	if (!cache->users)
		return -ENOMEM;
	ret = kp_robust_init(&cache->lock);
	return ret ? ret : kp_robust_init(&cache->pool_lock);
}

int cache_find(struct kp_arena *arena, struct page_cache **cache)
{
	void *object;
	int ret = kp_arena_object(arena, "page_cache", "", 1, sizeof(**cache), init_cache, arena,
				  &object);

	if (!ret)
		*cache = object;
	return ret;
}

static uint64_t total(const int64_t *value)
{
	int64_t now = __atomic_load_n(value, __ATOMIC_RELAXED);

	return now > 0 ? now : 0;
}

struct cache_totals cache_totals(const struct page_cache *cache)
{
	return (struct cache_totals){
		.dirty = total(&cache->dirty),
		.writeback = total(&cache->writeback),
		.pages = total(&cache->pages),
	};
}

void cache_recount(struct page_cache *cache)
{
	cache->dirty = cache->writeback = cache->pages = 0;
	for (uint32_t i = 0; i < cache->nr_files; i++) {
		const struct cache_file *file = cache->files[i];

		cache->dirty += cache_load(&file->nr_dirty);
		cache->writeback += cache_load(&file->nr_writeback);
		cache->pages += cache_load(&file->nr_pages);
	}
}

/* ---- the states of a page -------------------------------------------------------------------- */

int cache_insert_page(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	if (page_index_insert(&file->index, cache->arena, cache_page(cache, id)->number, id))
		return -ENOMEM;
	add(&file->nr_pages, &cache->pages, 1);
	return 0;
}

void cache_remove_page(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	page->uptodate = 0;
	page_index_remove(&file->index, page->number);
	add(&file->nr_pages, &cache->pages, -1);
}

void cache_drop_page(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	cache_clear_dirty(cache, file, id, cache_page(cache, id)->dirty);
	cache_remove_page(cache, file, id);
	pool_free_page(cache, id);
}

void cache_drop_all(struct page_cache *cache, struct cache_file *file)
{
	uint64_t number = 0;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number))) {
		struct cache_page *page = cache_page(cache, id);

		cache_clear_dirty(cache, file, id, page->dirty);
		if (!page->writeback && !page->reading)
			cache_drop_page(cache, file, id);
		number++;
	}
}

void cache_set_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);
	bool was = page->dirty;

	page->dirty |= mask;
	if (was)
		return;
	page_index_set(&file->index, page->number, PAGE_DIRTY);
	add(&file->nr_dirty, &cache->dirty, 1);
	if (!file->dirtied_ns)
		store(&file->dirtied_ns, kp_now_ns());
}

void cache_clear_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);

	if (!page->dirty)
		return;
	page->dirty &= ~mask;
	if (page->dirty)
		return;
	page_index_clear(&file->index, page->number, PAGE_DIRTY);
	page_index_clear(&file->index, page->number, PAGE_TOWRITE);
	add(&file->nr_dirty, &cache->dirty, -1);
	if (!file->nr_dirty)
		store(&file->dirtied_ns, 0);
}

void cache_start_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			   uint16_t user)
{
	struct cache_page *page = cache_page(cache, id);

	page->writer = user;
	/* This comes first: if we die here, the blocks are in both masks. */
	page->writeback = page->dirty;
	page_index_set(&file->index, page->number, PAGE_WRITEBACK);
	add(&file->nr_writeback, &cache->writeback, 1);
	cache_clear_dirty(cache, file, id, page->dirty);
}

void cache_end_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			 uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);

	if (!page->writeback)
		return;
	page->writeback &= ~mask;
	if (page->writeback)
		return;
	page_index_clear(&file->index, page->number, PAGE_WRITEBACK);
	add(&file->nr_writeback, &cache->writeback, -1);
}

void cache_redirty(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	cache_set_dirty(cache, file, id, page->writeback);
	/*
	 * A sync that began meanwhile waits for our writeback: writeback_and_wait_range() looks
	 * at this.
	 */
	file->redirties++;
	page_index_set(&file->index, page->number, PAGE_TOWRITE);
	cache_end_writeback(cache, file, id, page->writeback);
}

void cache_invalidate(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t last)
{
	uint64_t number = first;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number)) &&
	       number <= last) {
		struct cache_page *page = cache_page(cache, id);

		page->uptodate &= page->dirty | page->writeback;
		page->stale = page->reading;
		if (!page->uptodate && !page->reading)
			cache_drop_page(cache, file, id);
		number++;
	}
}

/* ---- errors ---------------------------------------------------------------------------------- */

void cache_set_error(struct cache_file *file, int error)
{
	/*
	 * mapping_set_error() keeps ENOSPC apart. Buffer heads of a block device report EIO for
	 * all errors.
	 */
	file->error = error == -ENOSPC && !file->block_device ? -ENOSPC : -EIO;
	if (file->error_seen || !file->error_seq) {
		file->error_seq++;
		file->error_seen = false;
	}
}

uint32_t cache_sample_error(const struct cache_file *file)
{
	/* An error that nobody has seen yet is reported to later openers, too. */
	return file->error_seq && !file->error_seen ? file->error_seq - 1 : file->error_seq;
}

int cache_check_error(struct cache_file *file, uint32_t *since)
{
	if (*since == file->error_seq)
		return 0;
	*since = file->error_seq;
	file->error_seen = true;
	return file->error;
}
