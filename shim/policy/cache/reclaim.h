/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages for a file, within the limits: free ones, or clean ones that a clock takes from their
 * files, as shrink_page_list() does from the tail of the inactive list.
 */
#ifndef KP_CACHE_RECLAIM_H
#define KP_CACHE_RECLAIM_H

#include "cache.h"

/*
 * cache_add_page - get a page for @number of @file and put it into the index. It is not up to date.
 * With the file's lock. Return: its id; 0 when all pages are dirty or busy: wait for progress then.
 */
uint32_t cache_add_page(struct page_cache *cache, struct cache_file *file, uint64_t number);

/*
 * cache_shrink - drop clean pages and give back memory that the limits no longer allow. With
 * page_cache.lock, when the cache has no users.
 */
void cache_shrink(struct page_cache *cache);

#endif
