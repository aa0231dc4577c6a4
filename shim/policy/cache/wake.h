/* SPDX-License-Identifier: GPL-2.0-only */
/* Who sleeps in the page cache, and who wakes them. The sleepers' side is in io.h and flusher.c. */
#ifndef KP_CACHE_WAKE_H
#define KP_CACHE_WAKE_H

#include "cache.h"
#include "core/futex.h"

/*
 * cache_wake - wake the threads that wait for a page of @file: a read or a writeback has ended.
 * Without the file's lock.
 */
static inline void cache_wake(struct cache_file *file)
{
	__atomic_fetch_add(&file->progress, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&file->waiters, __ATOMIC_SEQ_CST))
		kp_futex_wake(&file->progress, INT32_MAX);
}

/* cache_wake_throttled - wake the writers at the dirty limit: there are fewer dirty pages now. */
static inline void cache_wake_throttled(struct page_cache *cache)
{
	__atomic_fetch_add(&cache->balance, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&cache->throttled, __ATOMIC_SEQ_CST))
		kp_futex_wake(&cache->balance, INT32_MAX);
}

/* cache_wake_flusher - the flusher of @bdi has something to do. */
static inline void cache_wake_flusher(struct cache_bdi *bdi)
{
	__atomic_fetch_add(&bdi->work, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&bdi->sleeping, __ATOMIC_SEQ_CST))
		kp_futex_wake(&bdi->work, INT32_MAX);
}

#endif
