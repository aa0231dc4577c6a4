/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks beyond EOF that tell other processes what an open file is in use for.
 *
 * These are OFD locks (fcntl(2)). The kernel drops one with the last reference to its open file,
 * and each I/O in flight holds a reference. So a lock outlives its owner exactly as long as the
 * owner's I/O. Every use has a range of offsets of its own, in the table below.
 *
 * The locks are shared ones: one owner may have several open files. Any thread may call these
 * functions. They never wait.
 */
#ifndef KP_FILE_LOCK_H
#define KP_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define KP_FILE_LOCK_START (1ull << 62) /* no file system has a file of that size */
#define KP_FILE_LOCK_SPAN  65536u	/* offsets of one use */

/* enum kp_file_lock_use - the table: use number N owns the Nth span behind KP_FILE_LOCK_START. */
enum kp_file_lock_use {
	KP_LOCK_RANGE_OWNER, /* offset: the id of the pipeline, see ordered_range.h */
	KP_LOCK_PAGE_CACHE,  /* offset: the token of the page cache that holds pages of the file */
	KP_LOCK_CACHE_USER,  /* offset: the number of the page cache's user */
	KP_NR_LOCK_USES,
};

/* kp_file_lock_offset - where the lock of @use for @id lies in every file. */
static inline uint64_t kp_file_lock_offset(enum kp_file_lock_use use, uint32_t id)
{
	return KP_FILE_LOCK_START + (uint64_t)use * KP_FILE_LOCK_SPAN + id;
}

/**
 * kp_file_lock - hold the lock of @use for @id until @fd's open file is closed for the last time.
 * @fd: open for reading.
 * @id: below KP_FILE_LOCK_SPAN.
 *
 * Return: 0, or -errno where the file system has no such locks.
 */
int kp_file_lock(int fd, enum kp_file_lock_use use, uint32_t id);

/* kp_file_unlock - give the lock back while the open file stays. */
void kp_file_unlock(int fd, enum kp_file_lock_use use, uint32_t id);

/**
 * kp_file_locked - does another open file hold a lock of @use for an id from @first to @last?
 *
 * Return: false also where the file system has no such locks.
 */
bool kp_file_locked(int fd, enum kp_file_lock_use use, uint32_t first, uint32_t last);

#endif
