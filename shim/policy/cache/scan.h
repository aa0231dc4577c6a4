/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The writeback scan (policy P5) as a pure function over a dirty set: which pages of one file are
 * written, in which extents, before nr_to_write is spent. Stands for ext4_writepages() since
 * 4e7ea81db5 (3.11). The page cache gives it its own index, tests a bitmap.
 */
#ifndef KP_WRITEBACK_SCAN_H
#define KP_WRITEBACK_SCAN_H

#include "stage.h"

#define KP_EXTENT_BLOCKS 2048u /* MAX_WRITEPAGES_EXTENT_LEN of ext4 */

/**
 * struct kp_writeback_ops - the dirty set of a file. Pages are numbered by index; @ctx is the
 * caller's. Every hook runs on the thread that called kp_writeback_scan().
 */
struct kp_writeback_ops {
	/*
	 * The first page at or after @from that is tagged dirty now, in *@index. The tag is looked
	 * up live: pages dirtied during the scan count. For integrity the caller may show only
	 * pages that were dirty when the scan began (PAGECACHE_TAG_TOWRITE), so that it ends.
	 * Return: false when there is none. Required.
	 */
	bool (*next_dirty)(void *ctx, uint64_t from, uint64_t *index);
	/*
	 * Lock a page that is to be written. Return: false, with the page not locked, when it is
	 * clean by now, truncated, or under writeback; in integrity mode (@wait) wait for its
	 * writeback first. Required.
	 */
	bool (*lock)(void *ctx, uint64_t index, bool wait);
	/* The scan locked a page and does not write it after all. Required. */
	void (*unlock)(void *ctx, uint64_t index);
	/* Has a locked page its blocks already (no delayed allocation, not unwritten)? Required. */
	bool (*mapped)(void *ctx, uint64_t index);
	/*
	 * Write an extent: pages @start to @start + @nr - 1, all locked. They become clean and
	 * under writeback, and are unlocked. @mapped pages come one by one, as they are met;
	 * pages that needed mapping come as the whole run, @nr * blocks_per_page blocks at most
	 * KP_EXTENT_BLOCKS. What follows the previous call directly within one round belongs into
	 * the same bio while that has room (io_submit of ext4).
	 * Return: 0 or -errno, which ends the scan. Required.
	 */
	int (*submit)(void *ctx, uint64_t start, uint64_t nr, bool mapped);
	/*
	 * A round ended: close and submit the bio that is being built (ext4_io_submit()). Each
	 * round is a transaction of its own. Optional.
	 */
	void (*end_round)(void *ctx);
	/* The plug around all rounds ends (blk_finish_plug()); a scan that wraps has two. Optional. */
	void (*finish_plug)(void *ctx);
};

/**
 * struct kp_writeback_control - writeback_control, and what the scan has to tell.
 *
 * The caller zeroes it and fills in the first part; the same struct may go through several scans,
 * then the counters add up.
 */
struct kp_writeback_control {
	long nr_to_write;	  /* pages still to write; left over, or overspent, on return */
	bool integrity;		  /* WB_SYNC_ALL: no budget; nr_to_write becomes LONG_MAX */
	bool range_cyclic;	  /* from writeback_index to the end, then from 0 up to it */
	bool wrap_fault;	  /* 3.11: the second half runs although nothing is left to spend */
	uint64_t writeback_index; /* range_cyclic: where to begin; on return, where to go on */
	uint64_t first, last;	  /* otherwise: pages of the range, both included */
	uint32_t blocks_per_page; /* for the limit of an extent; 0: 1 */

	uint64_t rounds;	      /* calls of mpage_prepare_extent_to_map() */
	uint64_t pages;		      /* written */
	uint64_t extents;	      /* runs of pages submitted, contiguous within their round */
	uint64_t single_page_extents; /* of which of one page only */
	uint64_t needless_locks;      /* pages locked, looked at and given up again */
};

/** struct kp_writeback_row - a variant; the members after the first belong to the scan. */
struct kp_writeback_row {
	struct kp_variant variant;
	/*
	 * Is the budget spent? @run: pages of the run so far. Each test has its place in the walk,
	 * see writeback_scan.c. NULL: no test there.
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
 * Takes no lock and no memory of its own. Return: 0, or the error of a submit hook.
 */
int kp_writeback_scan(const struct kp_variant *variant, const struct kp_writeback_ops *ops,
		      void *ctx, struct kp_writeback_control *wbc);

/**
 * kp_writeback_bio_pages - pages that one bio of writeback can hold: bio_get_nr_vecs() of 3.11
 * and 3.13 looks at the queue limits, later kernels take 256 and leave the rest to the split.
 */
uint32_t kp_writeback_bio_pages(const struct kp_variant *variant,
				const struct kp_queue_limits *limits);

#endif
