/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writeback of a file's dirty pages: ext4_writepages(), with write_cache_pages() and
 * filemap_fdatawait() around it. kp_writeback_scan() decides which pages are written; bios are
 * built by the file's block size policy. Called by the thread that the context belongs to.
 */
#ifndef KP_CACHE_WRITEBACK_H
#define KP_CACHE_WRITEBACK_H

#include "io.h"

/*
 * writeback_background - WB_SYNC_NONE: write at most @nr_to_write pages, and do not wait. Return:
 * pages written.
 */
uint64_t writeback_background(struct cache_io_ctx *ctx, struct cache_file *file,
			      struct kp_file *kp_file, long nr_to_write);

/*
 * writeback_and_wait_range - WB_SYNC_ALL: write pages [@first, @last], and wait for all of them,
 * also for those that others write. Return: 0, or the error that kept pages from being submitted;
 * errors of the device are noted on the file.
 */
int writeback_and_wait_range(struct cache_io_ctx *ctx, struct cache_file *file,
			     struct kp_file *kp_file, uint64_t first, uint64_t last);

#endif
