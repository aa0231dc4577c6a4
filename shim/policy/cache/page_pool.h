/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of the page cache: pages by id, in chunks that are made when they are first needed,
 * and a list of those that are free. pool_lock protects it.
 */
#ifndef KP_CACHE_PAGE_POOL_H
#define KP_CACHE_PAGE_POOL_H

#include "cache.h"

/* pool_max_pages - how many pages the limits allow, clean and dirty ones together. */
uint64_t pool_max_pages(const struct page_cache *cache);

/*
 * pool_alloc_page - give a free page to @file, as its page @number. It is not up to date and not in
 * the index. With the file's lock. Return: its id; 0 when the limits allow no more, or there is no
 * memory.
 */
uint32_t pool_alloc_page(struct page_cache *cache, struct cache_file *file, uint64_t number);

/*
 * pool_assign_page - make @page, which nobody else can reach, page @number of @file. With the
 * file's lock.
 */
void pool_assign_page(struct cache_page *page, struct cache_file *file, uint64_t number);

/* pool_free_page - free a page that is not in the index. With the lock of the file that has it. */
void pool_free_page(struct page_cache *cache, uint32_t id);

/*
 * pool_want - the first @pages pages, as far as the limits allow, are going to be used: pool_map()
 * populates them from now on. With page_cache.lock; takes a moment.
 */
void pool_want(struct page_cache *cache, uint64_t pages);

/*
 * pool_map - allocate the memory that is wanted, where nobody has yet, and map it into the calling
 * process, so that a job takes no page fault while it is measured. Without a lock, since it takes
 * long, and outside of the I/O path.
 */
void pool_map(struct page_cache *cache);

/*
 * pool_trim - give back the memory of chunks that the limits no longer allow and no file uses. With
 * page_cache.lock, when the cache has no users.
 */
void pool_trim(struct page_cache *cache);

#endif
