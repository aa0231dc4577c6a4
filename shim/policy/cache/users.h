/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The users of the page cache, which are pipelines: they join, agree on the limits, and leave or
 * are killed. A user that was killed is dead as soon as its thread no longer owns its alive_lock,
 * and counts for nothing from then on. Once its I/O is over, its pages under writeback become
 * dirty again and its reads are given up.
 */
#ifndef KP_CACHE_USERS_H
#define KP_CACHE_USERS_H

#include "cache.h"

/* struct cache_data - the data that a user is going to touch. */
struct cache_data {
	uint64_t bytes; /* 0: unknown */
	uint64_t id;	/* users with the same id touch the same data; 0: nobody else does */
};

/*
 * cache_join - become a user. Populates memory for @data.
 * @limits: what the job asks for.
 *
 * The calling thread becomes the owner of the user's alive_lock.
 * Return: 0; -EINVAL, logged, when a live user has other limits; -EUSERS.
 */
int cache_join(struct page_cache *cache, const struct cache_limits *limits,
	       const struct cache_data *data, uint16_t *user);

/* cache_leave - the user leaves. It uses no file any more. */
void cache_leave(struct page_cache *cache, uint16_t user);

/*
 * cache_reap_users - look for dead users, and reap those whose I/O is over. Any user may call it;
 * twice a second is enough. Return: is there a dead user whose I/O may still be in flight?
 */
bool cache_reap_users(struct page_cache *cache);

/* cache_user_state - as of the latest look. */
enum user_state cache_user_state(const struct page_cache *cache, uint16_t user);

/*
 * cache_agree - 0, or -EINVAL, logged: jobs that share @path ("": the cache) differ in option
 * @name.
 */
int cache_agree(const char *path, const char *name, uint64_t ours, uint64_t theirs);

/* cache_set_use - change how a user without open descriptors uses a file. With the file's lock. */
void cache_set_use(struct cache_file *file, uint16_t user, enum file_use use);

/*
 * cache_touch_file - @user is going to do I/O on @file: should it die, its I/O is waited for.
 * Before the open file gets the user's lock (KP_LOCK_CACHE_USER). Takes the file's lock.
 */
void cache_touch_file(struct page_cache *cache, struct cache_file *file, uint16_t user);

#endif
