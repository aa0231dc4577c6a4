// SPDX-License-Identifier: GPL-2.0-only
/*
 * The writeback scan (policy P5): ext4_writepages() since 4e7ea81db5 ("ext4: restructure
 * writeback path", 3.11), with the test of its budget in each of the places where it has stood
 * since.
 *
 * A round collects a run of pages that need mapping, maps it and submits it. It submits pages
 * that are mapped already as it meets them, as long as the run is empty.
 */
#include <limits.h>

#include "scan.h"

struct scan {
	const struct kp_writeback_row *row;
	const struct kp_writeback_ops *ops;
	void *ctx;
	struct kp_writeback_control *wbc;
	uint64_t first_page; /* where the next round begins */
	uint64_t last_page;
	uint64_t run_start, run; /* the pages that wait for their mapping */
	uint64_t mapped;	 /* mapped pages that were just submitted one after the other */
	uint64_t extent_pages;	 /* the most that a run may have */
	bool at_end;		 /* the last walk reached the end of the dirty pages */
};

/* ---- the budget tests, each in its place --------------------------------------------------- */

/* 3.11: next_page - first_page >= nr_to_write, when the run contains the page already */
static bool spent_after_add(long nr_to_write, uint64_t run)
{
	return (long)run >= nr_to_write;
}

/* The first patch: next_page - first_page > nr_to_write, when the page is counted and locked. */
static bool spent_after_lock(long nr_to_write, uint64_t run)
{
	return (long)run + 1 > nr_to_write;
}

/* aeac589a74b9: the budget at entry minus the pages accepted since then */
static bool spent_left(long nr_to_write, long left, uint64_t run)
{
	(void)nr_to_write;
	(void)run;
	return left <= 0;
}

/* 6.4: the same, without a copy of the budget */
static bool spent_run(long nr_to_write, long left, uint64_t run)
{
	(void)left;
	return nr_to_write <= (long)run;
}

const struct kp_writeback_row kp_writeback_rows[KP_NR_WRITEBACK_ROWS] = {
	{
		.variant = {
			.name = "overrun",
			.since = "3.11",
			.until = "3.12",
			.commit = "4e7ea81db5",
			.summary = "the budget is tested after a page was added: each round takes one",
			.omits = "journal credits; data=journal",
		},
		.after_add = spent_after_add,
		.bio_by_limits = true,
	},
	{
		.variant = {
			.name = "v1",
			.commit = "first patch of the report",
			.summary = "the budget is tested before a page is added, but after it was locked",
			.omits = "journal credits; data=journal",
		},
		.after_lock = spent_after_lock,
		.bio_by_limits = true,
	},
	{
		.variant = {
			.name = "overrun_once",
			.commit = "alternative of the review",
			.summary = "as overrun, but an extent that spends the budget is the last one",
			.omits = "journal credits; data=journal",
		},
		.after_add = spent_after_add,
		.done_when_spent = true,
		.bio_by_limits = true,
	},
	{
		.variant = {
			.name = "strict",
			.since = "3.13",
			.until = "6.3",
			.commit = "aeac589a74b9",
			.summary = "the budget is tested before a page is looked at: never overspent",
			.omits = "journal credits; data=journal; bios of 256 pages since 4.3; the pass "
				 "over mapped pages since 4.11",
		},
		.before_lock = spent_left,
		.bio_by_limits = true,
	},
	{
		.variant = {
			.name = "6.x",
			.since = "6.4",
			.until = "6.19",
			.commit = "ext4_do_writepages() of 6.4",
			.summary = "as strict, after a pass over mapped pages; rounds end with the budget",
			.omits = "journal credits; data=journal; large folios",
		},
		.before_lock = spent_run,
		.mapped_pass_first = true,
	},
};

uint32_t kp_writeback_bio_pages(const struct kp_variant *variant,
				const struct kp_queue_limits *limits)
{
	const struct kp_writeback_row *row =
		kp_container_of(variant, struct kp_writeback_row, variant);
	uint32_t pages = limits->max_sectors / (KP_PAGE_SIZE / KP_SECTOR_SIZE);

	if (!row->bio_by_limits)
		return KP_BIO_MAX_VECS;
	pages = kp_min(pages, limits->max_segments);
	return kp_max(kp_min(pages, KP_BIO_MAX_VECS), 1u);
}

/* ---- submitting ---------------------------------------------------------------------------- */

static void count_extent(struct kp_writeback_control *wbc, uint64_t pages)
{
	if (!pages)
		return;
	wbc->extents++;
	wbc->single_page_extents += pages == 1;
}

/* The mapped pages that were submitted one after the other make up one extent. */
static void end_mapped(struct scan *scan)
{
	count_extent(scan->wbc, scan->mapped);
	scan->mapped = 0;
}

/* mpage_submit_page() for a page that has its blocks */
static int submit_mapped(struct scan *scan, uint64_t page)
{
	if (page != scan->first_page)
		end_mapped(scan);
	scan->wbc->nr_to_write--;
	scan->wbc->pages++;
	scan->mapped++;
	scan->first_page = page + 1;
	return scan->ops->submit(scan->ctx, page, 1, true);
}

/* mpage_map_and_submit_extent() */
static int submit_run(struct scan *scan)
{
	scan->wbc->nr_to_write -= (long)scan->run;
	scan->wbc->pages += scan->run;
	scan->first_page = scan->run_start + scan->run;
	count_extent(scan->wbc, scan->run);
	return scan->ops->submit(scan->ctx, scan->run_start, scan->run, false);
}

/* mpage_release_unused_pages() */
static void release_unused_page(struct scan *scan, uint64_t page)
{
	scan->wbc->needless_locks++;
	scan->ops->unlock(scan->ctx, page);
}

/* ---- walking ------------------------------------------------------------------------------- */

static bool spent_before_lock(const struct scan *scan, long left)
{
	const struct kp_writeback_control *wbc = scan->wbc;

	return !wbc->integrity && scan->row->before_lock &&
	       scan->row->before_lock(wbc->nr_to_write, left, scan->run);
}

static bool spent(const struct scan *scan, bool (*test)(long nr_to_write, uint64_t run))
{
	return !scan->wbc->integrity && test && test(scan->wbc->nr_to_write, scan->run);
}

/*
 * mpage_prepare_extent_to_map(): submit mapped pages, or collect a run of pages that need
 * mapping. @may_map: there is a transaction; without one the walk stops at the first page that
 * needs mapping.
 */
static int walk(struct scan *scan, bool may_map)
{
	const struct kp_writeback_ops *ops = scan->ops;
	long left = scan->wbc->nr_to_write;
	uint64_t from = scan->first_page;
	uint64_t page;
	int ret;

	scan->run = 0;
	scan->at_end = false;
	for (; from <= scan->last_page; from = page + 1) {
		if (!ops->next_dirty(scan->ctx, from, &page) || page > scan->last_page)
			break;
		if (spent_before_lock(scan, left))
			return 0;
		if (scan->run && page != scan->run_start + scan->run)
			return 0;
		if (!ops->lock(scan->ctx, page, scan->wbc->integrity))
			continue;
		if (spent(scan, scan->row->after_lock)) {
			release_unused_page(scan, page);
			return 0;
		}
		if (!ops->mapped(scan->ctx, page)) {
			if (!may_map || scan->run == scan->extent_pages) {
				release_unused_page(scan, page);
				return 0;
			}
			if (!scan->run)
				scan->run_start = page;
			scan->run++;
		} else if (scan->run) {
			release_unused_page(scan, page);
			return 0;
		} else {
			ret = submit_mapped(scan, page);
			if (ret)
				return ret;
		}
		left--;
		if (spent(scan, scan->row->after_add))
			return 0;
		if (page == UINT64_MAX)
			break;
	}
	scan->at_end = true;
	return 0;
}

static int do_round(struct scan *scan, bool may_map)
{
	int ret;

	scan->wbc->rounds++;
	ret = walk(scan, may_map);
	end_mapped(scan);
	if (!ret && scan->run)
		ret = submit_run(scan);
	if (scan->ops->end_round)
		scan->ops->end_round(scan->ctx);
	return ret;
}

/* ext4_writepages() up to 6.3: rounds go on until one finds nothing to map. */
static int until_empty(struct scan *scan)
{
	const struct kp_writeback_control *wbc = scan->wbc;
	int ret = 0;

	while (!ret && scan->first_page <= scan->last_page) {
		ret = do_round(scan, true);
		if (!scan->run)
			break;
		if (scan->row->done_when_spent && wbc->nr_to_write <= 0)
			break;
	}
	return ret;
}

/* ext4_do_writepages(): rounds go on until the end is reached or the budget is spent. */
static int until_end(struct scan *scan)
{
	int ret = do_round(scan, false);

	while (!ret && !scan->at_end && scan->wbc->nr_to_write > 0)
		ret = do_round(scan, true);
	return ret;
}

static int scan_range(struct scan *scan, uint64_t first, uint64_t last)
{
	int ret;

	scan->first_page = first;
	scan->last_page = last;
	ret = scan->row->mapped_pass_first ? until_end(scan) : until_empty(scan);
	if (scan->ops->finish_plug)
		scan->ops->finish_plug(scan->ctx);
	return ret;
}

int kp_writeback_scan(const struct kp_variant *variant, const struct kp_writeback_ops *ops,
		      void *ctx, struct kp_writeback_control *wbc)
{
	uint32_t blocks_per_page = wbc->blocks_per_page ? wbc->blocks_per_page : 1;
	struct scan scan = {
		.row = kp_container_of(variant, struct kp_writeback_row, variant),
		.ops = ops,
		.ctx = ctx,
		.wbc = wbc,
		.extent_pages = kp_max(KP_EXTENT_BLOCKS / blocks_per_page, 1u),
	};
	uint64_t begin = wbc->range_cyclic ? wbc->writeback_index : wbc->first;
	bool whole = !wbc->range_cyclic && !wbc->first && wbc->last == UINT64_MAX;
	int ret;

	if (wbc->integrity)
		wbc->nr_to_write = LONG_MAX;
	ret = scan_range(&scan, begin, wbc->range_cyclic ? UINT64_MAX : wbc->last);
	if (!ret && wbc->range_cyclic && begin && (wbc->nr_to_write > 0 || wbc->wrap_fault))
		ret = scan_range(&scan, 0, begin - 1);
	if (wbc->range_cyclic || (whole && wbc->nr_to_write > 0))
		wbc->writeback_index = scan.first_page;
	return ret;
}
