/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Buffered writes and syncs: write(2) and fsync(2) through the page cache. A write waits for the
 * writer before it (i_rwsem), for pages that are being read, and at the dirty limit. All run on
 * the owner's thread.
 */
#ifndef KP_CACHE_WRITE_H
#define KP_CACHE_WRITE_H

#include "cache_stage.h"

/* cache_write - a write of the application, which ends inside. */
void cache_write(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio);

/*
 * cache_sync_range - write the dirty pages of a range back and wait. @len: bytes; 0: up to the end.
 * Return: 0 or -errno, errors of earlier writeback included.
 */
int cache_sync_range(struct cache_stage *cs, struct open_file *of, struct kp_file *kp_file,
		     uint64_t pos, uint64_t len);

/* cache_write_sync - generic_write_sync(): sync a write if the file has O_SYNC or O_DSYNC. */
int cache_write_sync(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio);

/* cache_lock_inode - take the file's write_lock. Our own completions go on meanwhile. */
void cache_lock_inode(struct cache_stage *cs, struct cache_file *file);

#endif
