/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which pages of a file have their blocks on disk, so that writeback need not allocate any. A bit
 * for each page, in pieces of 4 KiB that are made when needed. A piece that is all ones has no
 * memory: its pointer is MAP_ALL. Pieces stay for as long as the file; empty ones give their
 * memory back.
 */
#ifndef KP_CACHE_MAPPED_H
#define KP_CACHE_MAPPED_H

#include "cache.h"

#define MAP_BYTES  4096u
#define MAP_PAGES  (MAP_BYTES * 8u)
#define MAP_PIECES (1u << 20) /* 128 TiB */
#define MAP_ALL	   ((uint8_t *)1)

/* cache_mapped - does page @number have its blocks? Without a lock, too. */
bool cache_mapped(struct cache_file *file, uint64_t number);

/* cache_set_mapped, cache_clear_mapped - for @nr pages from @first on. With the file's lock. */
void cache_set_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t nr);
void cache_clear_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
			uint64_t nr);

/*
 * cache_read_mapped - make the map anew: the written extents of the file that @fd has open. @fd -1:
 * there are none. With the file's lock.
 */
void cache_read_mapped(struct page_cache *cache, struct cache_file *file, int fd);

#endif
