// SPDX-License-Identifier: GPL-2.0-only
/*
 * The plug (part of policy P1): a task holds its requests back for a moment, so that bios with
 * contiguous sectors become one request. Stands for struct blk_plug and blk_attempt_plug_merge().
 *
 * The list belongs to the owner's task. Bios that another thread submits bypass it, since the
 * current->plug of that thread is another one or NULL.
 */
#include "plug.h"

struct plug_row {
	struct kp_variant variant;
	unsigned int max_requests; /* BLK_MAX_REQUEST_COUNT */
	bool counts_queue;	   /* only the requests of the bio's own queue are counted */
	bool doubles;		   /* max_requests twice when several queues are plugged */
	uint64_t flush_size;	   /* BLK_PLUG_FLUSH_SIZE; UINT64_MAX: no such rule */
	bool flush_oldest;	   /* the oldest request is compared with it, not the newest */
	/* The requests of a queue that a bio may join, in the order in which they are looked at. */
	bool (*next)(struct kp_plug *plug, const struct kp_file *file, int *at);
	/* Would the virtual boundary be missed between @bio and @follower? @first: of the request. */
	bool (*gap)(const struct kp_bio *first, const struct kp_bio *bio,
		    const struct kp_bio *follower);
};

static bool any_newest_first(struct kp_plug *plug, const struct kp_file *file, int *at);
static bool newest_of_queue(struct kp_plug *plug, const struct kp_file *file, int *at);
static bool oldest_of_queue(struct kp_plug *plug, const struct kp_file *file, int *at);
static bool tail_or_oldest(struct kp_plug *plug, const struct kp_file *file, int *at);
static bool gap_between(const struct kp_bio *first, const struct kp_bio *bio,
			const struct kp_bio *follower);
static bool gap_unless_contiguous(const struct kp_bio *first, const struct kp_bio *bio,
				  const struct kp_bio *follower);

static const struct plug_row rows[] = {
	{
		.variant = {
			.name = "4.9",
			.since = "3.0",
			.until = "4.9",
			.commit = "blk_attempt_plug_merge() of 4.9",
			.summary = "16 requests, any of which a bio may join",
			.omits = "merging in the I/O scheduler; sorting at the flush",
		},
		.max_requests = 16,
		.counts_queue = true,
		.flush_size = UINT64_MAX,
		.next = any_newest_first,
		.gap = gap_between,
	},
	{
		.variant = {
			.name = "4.10",
			.since = "4.10",
			.until = "4.10",
			.commit = "50d24c34403c",
			.summary = "as 4.9; also flushed when the last request has 128 KiB",
			.omits = "merging in the I/O scheduler; sorting at the flush; the limited plug "
				 "of devices with several hardware queues",
		},
		.max_requests = 16,
		.counts_queue = true,
		.flush_size = 128 * 1024,
		.next = any_newest_first,
		.gap = gap_between,
	},
	/* Stable releases stand before the row of their branch. */
	{
		.variant = {
			.name = "5.10.80",
			.since = "5.10.80",
			.until = "5.10.999",
			.commit = "ba0ffdd8ce48 in 5.10.y",
			.summary = "as 4.15 with 32 requests, 64 when several queues are plugged",
			.omits = "merging in the I/O scheduler; sorting at the flush; the limited plug "
				 "of devices with several hardware queues",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.next = any_newest_first,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "5.15.3",
			.since = "5.15.3",
			.until = "5.15.999",
			.commit = "ba0ffdd8ce48 in 5.15.y",
			.summary = "as 4.15 with 32 requests, 64 when several queues are plugged",
			.omits = "merging in the I/O scheduler; sorting at the flush; the limited plug "
				 "of devices with several hardware queues",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.next = any_newest_first,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "4.15",
			.since = "4.11",
			.until = "5.15",
			.commit = "729204ef49ec",
			.summary = "as 4.10; bios that adjoin in memory leave no gap at the virtual boundary",
			.omits = "merging in the I/O scheduler; sorting at the flush; the limited plug "
				 "of devices with several hardware queues",
		},
		.max_requests = 16,
		.counts_queue = true,
		.flush_size = 128 * 1024,
		.next = any_newest_first,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "6.12.35",
			.since = "6.12.35",
			.until = "6.12.999",
			.commit = "961296e89dc3 in 6.12.y",
			.summary = "as 6.16",
			.omits = "merging in the I/O scheduler; the first of 6.12.y to do so is from memory",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.flush_oldest = true,
		.next = tail_or_oldest,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "6.1",
			.since = "5.16",
			.until = "6.12",
			.commit = "ba0ffdd8ce48, d38a9c04c0d5",
			.summary = "32 requests; a bio may join the newest one of its queue only",
			.omits = "merging in the I/O scheduler; 5.16 to 6.12 issue the newest first",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.next = newest_of_queue,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "6.13",
			.since = "6.13",
			.until = "6.15",
			.commit = "e70c301faece",
			.summary = "as 6.1, but the oldest request is the one that is joined and measured",
			.omits = "merging in the I/O scheduler",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.flush_oldest = true,
		.next = oldest_of_queue,
		.gap = gap_unless_contiguous,
	},
	{
		.variant = {
			.name = "6.16",
			.since = "6.16",
			.until = "7.3",
			.commit = "961296e89dc3",
			.summary = "a bio may join the newest request, or else the oldest of its queue",
			.omits = "merging in the I/O scheduler",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.flush_oldest = true,
		.next = tail_or_oldest,
		.gap = gap_unless_contiguous,
	},
};

static const struct plug_row *row_of(const struct kp_variant *variant)
{
	return kp_container_of(variant, struct plug_row, variant);
}

/* ---- segments ------------------------------------------------------------------------------ */

/* How many segments a contiguous piece of memory takes: bvec_split_segs(). */
static uint32_t piece_segments(const struct kp_queue_limits *limits, const char *start,
			       uint64_t len)
{
	uintptr_t mask = limits->seg_boundary_mask;
	uint32_t segments = 0;

	while (len) {
		/* The room minus one, since the mask may cover the whole address space. */
		uint64_t room = mask - ((uintptr_t)start & mask);
		uint64_t piece = kp_min(len, (uint64_t)limits->max_segment_size);

		piece = kp_min(piece - 1, room) + 1;
		start += piece;
		len -= piece;
		segments++;
	}
	return segments;
}

uint32_t kp_plug_segments(const struct kp_queue_limits *limits, const struct kp_bio *bio,
			  bool adjacent)
{
	const char *start = NULL;
	struct kp_segment segment;
	struct kp_iter iter;
	uint32_t segments = 0;
	uint64_t len = 0;

	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		if (adjacent && start && start + len == segment.addr) {
			len += segment.len;
			continue;
		}
		segments += piece_segments(limits, start, len);
		start = segment.addr;
		len = segment.len;
	}
	return segments + piece_segments(limits, start, len);
}

/* ---- the list ------------------------------------------------------------------------------ */

/* Request @i of the list; 0 is the oldest. */
static struct kp_plug_request *request_at(struct kp_plug *plug, unsigned int i)
{
	return &plug->requests[(plug->oldest + i) % KP_PLUG_REQUESTS];
}

/* ---- merging ------------------------------------------------------------------------------- */

/* Are two files on the same device? Each file of the null device is a device of its own. */
static bool same_queue(const struct kp_file *a, const struct kp_file *b)
{
	return a == b || (a->key.dev && a->key.dev == b->key.dev);
}

static const void *memory_end(const struct kp_bio *bio)
{
	struct kp_iter iter = bio->iter;
	struct kp_segment last;

	kp_iter_advance(bio->vec, &iter, iter.size - 1);
	last = kp_iter_segment(bio->vec, &iter);
	return (const char *)last.addr + last.len;
}

static const void *memory_start(const struct kp_bio *bio)
{
	return kp_iter_segment(bio->vec, &bio->iter).addr;
}

/* bio_will_gap() up to 4.10 */
static bool gap_between(const struct kp_bio *first, const struct kp_bio *bio,
			const struct kp_bio *follower)
{
	uint64_t mask = bio->file->limits.virt_boundary_mask;

	(void)first;
	return mask &&
	       (((uintptr_t)memory_end(bio) & mask) || ((uintptr_t)memory_start(follower) & mask));
}

/*
 * bio_will_gap() since 729204ef49ec: bios that adjoin in memory become one segment. A request that
 * begins off the boundary takes nobody: where its merged segments end would be hard to tell.
 */
static bool gap_unless_contiguous(const struct kp_bio *first, const struct kp_bio *bio,
				  const struct kp_bio *follower)
{
	uint64_t mask = bio->file->limits.virt_boundary_mask;

	if ((uintptr_t)memory_start(first) & mask)
		return true;
	return memory_end(bio) != memory_start(follower) && gap_between(first, bio, follower);
}

/* blk_rq_get_max_sectors(), in bytes */
static uint64_t max_bytes(const struct kp_queue_limits *limits, uint64_t pos)
{
	uint64_t max = limits->max_sectors;
	uint64_t chunk = limits->chunk_sectors;

	if (chunk)
		max = kp_min(max, chunk - (pos >> KP_SECTOR_SHIFT) % chunk);
	return max << KP_SECTOR_SHIFT;
}

/* ll_new_hw_segment(): segments add up, since those of two bios are never joined. */
static bool fits(struct kp_plug_request *request, const struct kp_bio *bio, uint64_t pos,
		 uint32_t segments)
{
	const struct kp_queue_limits *limits = &bio->file->limits;

	if (request->bytes + bio->iter.size > max_bytes(limits, pos) ||
	    request->segments + segments > limits->max_segments)
		request->nomerge = true; /* req_set_nomerge(): the request is full */
	return !request->nomerge;
}

static void join(struct kp_plug_request *request, const struct kp_bio *bio, uint32_t segments)
{
	request->bytes += bio->iter.size;
	request->segments += segments;
}

/* blk_attempt_bio_merge() */
static enum kp_plug_merge try_merge(const struct plug_row *row, struct kp_plug_request *request,
				    struct kp_bio *bio, uint32_t segments)
{
	uint64_t pos = bio->iter.pos;

	if (request->nomerge || request->first->file != bio->file || request->first->op != bio->op)
		return KP_PLUG_NO_MERGE;
	if (request->pos + request->bytes == pos) {
		if (row->gap(request->first, request->last, bio) ||
		    !fits(request, bio, request->pos, segments))
			return KP_PLUG_NO_MERGE;
		request->last->next = bio;
		request->last = bio;
		join(request, bio, segments);
		return KP_PLUG_BACK_MERGE;
	}
	if (pos + bio->iter.size == request->pos) {
		if (row->gap(bio, bio, request->first) || !fits(request, bio, pos, segments))
			return KP_PLUG_NO_MERGE;
		bio->next = request->first;
		request->first = bio;
		request->pos = pos;
		join(request, bio, segments);
		return KP_PLUG_FRONT_MERGE;
	}
	return KP_PLUG_NO_MERGE;
}

static bool is_of(struct kp_plug *plug, int at, const struct kp_file *file)
{
	return same_queue(request_at(plug, at)->first->file, file);
}

/* Up to 5.15: all of them. *@at: the one before, the number of requests at first. */
static bool any_newest_first(struct kp_plug *plug, const struct kp_file *file, int *at)
{
	while (--*at >= 0) {
		if (is_of(plug, *at, file))
			return true;
	}
	return false;
}

/* One alone: the second call finds no other. */
static bool newest_of_queue(struct kp_plug *plug, const struct kp_file *file, int *at)
{
	return *at == (int)plug->nr && any_newest_first(plug, file, at);
}

static bool oldest_of_queue(struct kp_plug *plug, const struct kp_file *file, int *at)
{
	if (*at != (int)plug->nr)
		return false;
	for (*at = 0; *at < (int)plug->nr; ++*at) {
		if (is_of(plug, *at, file))
			return true;
	}
	return false;
}

static bool tail_or_oldest(struct kp_plug *plug, const struct kp_file *file, int *at)
{
	if (*at != (int)plug->nr || !plug->nr)
		return false;
	if (is_of(plug, plug->nr - 1, file)) {
		*at = plug->nr - 1;
		return true;
	}
	return oldest_of_queue(plug, file, at);
}

enum kp_plug_merge kp_plug_merge(const struct kp_variant *variant, struct kp_plug *plug,
				 struct kp_bio *bio, uint32_t segments)
{
	const struct plug_row *row = row_of(variant);
	enum kp_plug_merge merge = KP_PLUG_NO_MERGE;
	int at = plug->nr;

	if (bio->flags & KP_BIO_NOMERGE)
		return KP_PLUG_NO_MERGE;
	while (!merge && row->next(plug, bio->file, &at))
		merge = try_merge(row, request_at(plug, at), bio, segments);
	return merge;
}

/* ---- in and out ---------------------------------------------------------------------------- */

/* The requests that a row compares with its limit. */
static unsigned int count_requests(const struct plug_row *row, struct kp_plug *plug,
				   const struct kp_bio *bio)
{
	unsigned int nr = 0;

	if (!plug->nr || !row->counts_queue ||
	    (!plug->several_queues && is_of(plug, plug->nr - 1, bio->file)))
		return plug->nr;
	for (unsigned int i = 0; i < plug->nr; i++)
		nr += is_of(plug, i, bio->file);
	return nr;
}

enum kp_plug_full kp_plug_full(const struct kp_variant *variant, struct kp_plug *plug,
			       const struct kp_bio *bio)
{
	const struct plug_row *row = row_of(variant);
	unsigned int max = row->max_requests;
	unsigned int measured = row->flush_oldest ? 0 : plug->nr - 1;

	if (row->doubles && plug->several_queues)
		max *= 2;
	if (count_requests(row, plug, bio) >= max || plug->nr == KP_PLUG_REQUESTS)
		return KP_PLUG_MANY;
	if (plug->nr && request_at(plug, measured)->bytes >= row->flush_size)
		return KP_PLUG_LARGE;
	return KP_PLUG_HAS_ROOM;
}

void kp_plug_add(struct kp_plug *plug, struct kp_bio *bio, uint32_t segments)
{
	if (!plug->nr)
		plug->several_queues = false;
	else if (!same_queue(request_at(plug, plug->nr - 1)->first->file, bio->file))
		plug->several_queues = true;
	*request_at(plug, plug->nr++) = (struct kp_plug_request){
		.first = bio,
		.last = bio,
		.pos = bio->iter.pos,
		.bytes = bio->iter.size,
		.segments = segments,
		.nomerge = bio->flags & KP_BIO_NOMERGE,
	};
}

struct kp_bio *kp_plug_take(struct kp_plug *plug)
{
	struct kp_bio *first;

	if (!plug->nr)
		return NULL;
	first = request_at(plug, 0)->first;
	plug->oldest++;
	plug->nr--;
	return first;
}

/* ---- the stage ----------------------------------------------------------------------------- */

enum counter {
	BACK_MERGES,
	FRONT_MERGES,
	MANY_UNPLUGS,
	LARGE_UNPLUGS,
};

static const struct kp_counter_desc counters[] = {
	[BACK_MERGES] = { "back_merges", KP_COUNTER_SUM },
	[FRONT_MERGES] = { "front_merges", KP_COUNTER_SUM },
	[MANY_UNPLUGS] = { "unplugs_by_count", KP_COUNTER_SUM },
	[LARGE_UNPLUGS] = { "unplugs_by_size", KP_COUNTER_SUM },
};

struct plug_stage {
	struct kp_stage stage;
	bool adjacent;
	struct kp_plug plug;
};

static struct plug_stage *plug_stage(struct kp_stage *stage)
{
	return kp_container_of(stage, struct plug_stage, stage);
}

/*
 * blk_flush_plug_list(). A request leaves the list before it is submitted, since the device may wait
 * inside the submission, and bios may enter the list meanwhile.
 */
static void plug_flush(struct kp_stage *stage)
{
	struct kp_bio *request;

	if (!kp_pipeline_owned(stage->pipeline))
		return;
	while ((request = kp_plug_take(&plug_stage(stage)->plug)))
		kp_stage_submit(stage->next, request);
}

static void make_room(struct plug_stage *plug, const struct kp_bio *bio)
{
	enum kp_plug_full full = kp_plug_full(plug->stage.variant, &plug->plug, bio);

	if (full == KP_PLUG_HAS_ROOM)
		return;
	kp_count(&plug->stage.counters[full == KP_PLUG_MANY ? MANY_UNPLUGS : LARGE_UNPLUGS], 1);
	plug_flush(&plug->stage);
}

static void plug_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct plug_stage *plug = plug_stage(stage);
	uint32_t segments;

	if (!kp_pipeline_owned(stage->pipeline)) {
		kp_stage_submit(stage->next, bio);
		return;
	}
	if (!kp_op_has_data(bio->op)) {
		/* A task that syncs or discards sleeps until that is done, and a task that sleeps is unplugged. */
		plug_flush(stage);
		kp_stage_submit(stage->next, bio);
		return;
	}
	segments = kp_plug_segments(&bio->file->limits, bio, plug->adjacent);
	switch (kp_plug_merge(stage->variant, &plug->plug, bio, segments)) {
	case KP_PLUG_BACK_MERGE:
		kp_count(&stage->counters[BACK_MERGES], 1);
		break;
	case KP_PLUG_FRONT_MERGE:
		kp_count(&stage->counters[FRONT_MERGES], 1);
		break;
	case KP_PLUG_NO_MERGE:
		make_room(plug, bio);
		kp_plug_add(&plug->plug, bio, segments);
		break;
	}
}

static int plug_init(struct kp_stage *stage, const struct kp_stage_config *config,
		     const struct kp_pipeline_config *pipeline)
{
	const struct kp_plug_options *options = config->options;

	(void)pipeline;
	plug_stage(stage)->adjacent = options && options->adjacent_pages;
	return 0;
}

static const struct kp_stage_ops plug_ops = {
	.name = "plug",
	.size = sizeof(struct plug_stage),
	.counters = counters,
	.nr_counters = sizeof(counters) / sizeof(*counters),
	.init = plug_init,
	.submit = plug_submit,
	.flush = plug_flush,
};

const struct kp_policy kp_plug_policy = {
	.name = "plug",
	.option = "plug",
	.summary = "how bios that follow each other become one request",
	.default_variant = "6.1",
	.ops = &plug_ops,
	.rows = rows,
	.row_size = sizeof(*rows),
	.nr_rows = sizeof(rows) / sizeof(*rows),
};
