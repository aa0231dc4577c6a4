/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a cached file can be opened. Its path may lead elsewhere by now, or nowhere: the file was
 * renamed, a link was removed, a symlink was changed. The descriptors of its users still lead to
 * it.
 */
#ifndef KP_CACHE_LOCATE_H
#define KP_CACHE_LOCATE_H

#include "cache.h"

/* struct cache_location - a path that leads to a file. */
struct cache_location {
	char path[4096];
};

/*
 * cache_locate_file - find a path that leads to @file now: its own, or that of a user's
 * descriptor in /proc. Any thread, with or without the file's lock.
 *
 * Return: 0; -ENOENT when there is none; another -errno when there may be one.
 */
int cache_locate_file(const struct page_cache *cache, const struct cache_file *file,
		      struct cache_location *location);

/*
 * cache_descriptors_changed - the descriptors of a user changed: who looks for the file meanwhile
 * looks again. With the file's lock, after the new state is stored and before a descriptor is
 * closed.
 */
void cache_descriptors_changed(struct cache_file *file);

/* cache_has_descriptor - does the user have a descriptor, open or kept? Without a lock, too. */
static inline bool cache_has_descriptor(const struct cache_opens *opens)
{
	return __atomic_load_n(&opens->opens, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&opens->kept, __ATOMIC_RELAXED);
}

#endif
