/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files of the page cache: who uses them, and what their users must agree on. Any thread may
 * call these functions; they take the locks they need.
 */
#ifndef KP_CACHE_FILES_H
#define KP_CACHE_FILES_H

#include "cache.h"

/* struct cache_open_options - what a user wants of a file. */
struct cache_open_options {
	const struct kp_variant *variant; /* of writeback */
	const struct kp_variant *blocks;
	const char *mapped;  /* "auto", "none" or "all" */
	uint32_t block_size; /* 0: the policy chooses */
	bool device_blocks;  /* the file is treated as a block device: initial size by P1 */
	uint32_t nr_to_write;
	bool wrap_fault;
};

/*
 * cache_exclude_others - mark an open file as cached here, until it is closed. Return: 0; -EBUSY
 * when another page cache has it, then it is not marked.
 */
int cache_exclude_others(const struct page_cache *cache, const struct kp_file *kp_file);

/*
 * cache_open - find or make the cached file. Dirty pages that killed users left are kept.
 *
 * Return: 0; -EAGAIN when users with other options are still writing the file back: try again, and
 * run a flusher for *@file meanwhile if that is not NULL; -EBUSY, not logged, when another page
 * cache has the file; another -errno, logged.
 */
int cache_open(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
	       const struct cache_open_options *options, struct cache_file **file);

/*
 * cache_close - a descriptor is going to be closed. @kp_file is still open.
 * @another: another open file of the user's for the same cached file, or NULL.
 * @keep: keep a descriptor if there is anything to write back, so that writeback finds the file
 *	whatever happens to its name.
 *
 * Return: was a descriptor kept?
 */
bool cache_close(struct page_cache *cache, uint16_t user, const struct kp_file *kp_file,
		 struct cache_file *file, const struct kp_file *another, bool keep);

/*
 * cache_release_kept - close the user's kept descriptor if nothing is left to write back. Return:
 * false when it is still needed.
 */
bool cache_release_kept(struct page_cache *cache, uint16_t user, struct cache_file *file);

/* cache_is_gone - has the file @fd no name any more, and no user it open? Its data may go then. */
bool cache_is_gone(const struct page_cache *cache, const struct cache_file *file, int fd);

/*
 * cache_leave_file - the user leaves the file for good. Return: true when no user is left that
 * could write it back: the caller must, before it calls cache_left_file().
 */
bool cache_leave_file(struct page_cache *cache, uint16_t user, struct cache_file *file);
void cache_left_file(struct page_cache *cache, uint16_t user, struct cache_file *file);

/* cache_in_use - is there a live user that will write the file's dirty pages back? */
bool cache_in_use(const struct page_cache *cache, const struct cache_file *file);

/* cache_stamp - note how the file looks on disk: a later open sees whether others changed it. */
void cache_stamp(struct page_cache *cache, struct cache_file *file, const struct kp_file *kp_file);

#endif
