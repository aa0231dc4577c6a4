/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The writeback scan (policy P5) as a pure function over a set of dirty pages: it chooses which
 * pages of a file are written, and in which extents, before nr_to_write is spent. It stands for
 * ext4_writepages() since 4e7ea81db5 (3.11). The page cache runs it over its index, the tests run
 * it over a bitmap.
 */
#ifndef KP_WRITEBACK_SCAN_H
#define KP_WRITEBACK_SCAN_H

#include "stage.h"

#define KP_EXTENT_BLOCKS 2048u /* MAX_WRITEPAGES_EXTENT_LEN of ext4 */

/**
 * struct kp_writeback_ops - the dirty pages of a file.
 *
 * Pages are numbered by index. @ctx is the caller's. Every hook runs on the thread that called
 * kp_writeback_scan().
 */
struct kp_writeback_ops {
	/*
	 * Find the first page at or after @from that is dirty now, and store it in *@index. Pages
	 * dirtied during the scan count. For integrity the caller may restrict this to pages that
	 * were dirty when the scan began (PAGECACHE_TAG_TOWRITE), so that the scan ends. Return:
	 * false when there is none. Required.
	 */
	bool (*next_dirty)(void *ctx, uint64_t from, uint64_t *index);
	/*
	 * Lock a page to write it. With @wait (integrity mode) wait for its writeback first.
	 * Return: false, and the page is not locked, when it is clean by now, truncated, or under
	 * writeback. Required.
	 */
	bool (*lock)(void *ctx, uint64_t index, bool wait);
	/* Unlock a page that the scan does not write after all. Required. */
	void (*unlock)(void *ctx, uint64_t index);
	/* Does a locked page have its blocks, neither delayed nor unwritten? Required. */
	bool (*mapped)(void *ctx, uint64_t index);
	/*
	 * Write an extent: pages @start to @start + @nr - 1, all locked. They become clean and
	 * under writeback, and are unlocked. Pages that are @mapped come one by one, as the scan
	 * meets them. Pages that needed mapping come as a whole run of at most KP_EXTENT_BLOCKS
	 * blocks. A page that directly follows the previous call of the same round goes into the
	 * same bio while there is room (io_submit of ext4). Return: 0, or -errno, which ends the
	 * scan. Required.
	 */
	int (*submit)(void *ctx, uint64_t start, uint64_t nr, bool mapped);
	/*
	 * A round ended: submit the bio that is being built (ext4_io_submit()). Each round is a
	 * transaction of its own. Optional.
	 */
	void (*end_round)(void *ctx);
	/*
	 * The plug around all rounds ends (blk_finish_plug()). A scan that wraps has two plugs.
	 * Optional.
	 */
	void (*finish_plug)(void *ctx);
};

/**
 * struct kp_writeback_control - writeback_control, and the counters of the scan.
 *
 * The caller zeroes it and fills in the first part. The counters add up over several scans with
 * the same struct.
 */
struct kp_writeback_control {
	long nr_to_write;	  /* pages still to write; what is left, or overspent, on return */
	bool integrity;		  /* WB_SYNC_ALL: no budget; nr_to_write becomes LONG_MAX */
	bool range_cyclic;	  /* scan from writeback_index to the end, then from 0 up to it */
	bool wrap_fault;	  /* 3.11: scan the second half although nothing is left to spend */
	uint64_t writeback_index; /* range_cyclic: where to begin; on return, where to continue */
	uint64_t first, last;	  /* without range_cyclic: the range of pages, both included */
	uint32_t blocks_per_page; /* to limit an extent; 0 means 1 */

	uint64_t rounds;	      /* calls of mpage_prepare_extent_to_map() */
	uint64_t pages;		      /* pages written */
	uint64_t extents;	      /* runs of pages submitted, contiguous within their round */
	uint64_t single_page_extents; /* the extents of these that have one page only */
	uint64_t needless_locks;      /* pages that were locked, looked at and unlocked again */
};

/** struct kp_writeback_row - a variant. The members after the first belong to the scan. */
struct kp_writeback_row {
	struct kp_variant variant;
	/*
	 * Is the budget spent? @run: pages of the run so far. The walk in scan.c calls each test
	 * in its place. NULL: there is no test in that place.
	 */
	bool (*before_lock)(long nr_to_write, long left, uint64_t run);
	bool (*after_lock)(long nr_to_write, uint64_t run);
	bool (*after_add)(long nr_to_write, uint64_t run);
	bool done_when_spent;	/* an extent that spends the budget is the last one */
	bool mapped_pass_first; /* a first pass writes pages that need no mapping */
	bool bio_by_limits;	/* a bio is built to the queue limits, not to 256 pages */
};

/** kp_writeback_rows - the table of kp_writeback_policy, whose stage is the page cache. */
#define KP_NR_WRITEBACK_ROWS 5
extern const struct kp_writeback_row kp_writeback_rows[KP_NR_WRITEBACK_ROWS];

/**
 * kp_writeback_scan - one call of ext4_writepages().
 * @variant: a row of kp_writeback_rows.
 *
 * The scan takes no lock and allocates no memory. Any thread. Return: 0, or the error of a submit
 * hook.
 */
int kp_writeback_scan(const struct kp_variant *variant, const struct kp_writeback_ops *ops,
		      void *ctx, struct kp_writeback_control *wbc);

/**
 * kp_writeback_bio_pages - pages that one bio of writeback can hold. bio_get_nr_vecs() of 3.11
 * and 3.13 goes by the queue limits; later kernels take 256 pages and leave the rest to the
 * split.
 */
uint32_t kp_writeback_bio_pages(const struct kp_variant *variant,
				const struct kp_queue_limits *limits);

#endif
