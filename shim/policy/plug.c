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
	bool doubles;		   /* twice as many when several queues are plugged */
	uint64_t flush_size; /* BLK_PLUG_FLUSH_SIZE; UINT64_MAX: the kernel has no such rule */
	bool newest_only;    /* a bio may only join the newest request of its queue */
};

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
		.flush_size = UINT64_MAX,
	},
	{
		.variant = {
			.name = "4.15",
			.since = "4.10",
			.until = "5.15",
			.commit = "50d24c34403c",
			.summary = "as 4.9; also flushed when the last request has 128 KiB",
			.omits = "merging in the I/O scheduler; sorting at the flush; the limited plug "
				 "of devices with several hardware queues",
		},
		.max_requests = 16,
		.flush_size = 128 * 1024,
	},
	{
		.variant = {
			.name = "6.1",
			.since = "5.16",
			.until = "6.19",
			.commit = "ba0ffdd8ce48, d38a9c04c0d5",
			.summary = "32 requests; a bio may join the newest one of its queue only",
			.omits = "merging in the I/O scheduler; 5.16 to 6.12 issue the newest first",
		},
		.max_requests = 32,
		.doubles = true,
		.flush_size = 128 * 1024,
		.newest_only = true,
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

/* bio_will_gap(): is there a gap at the virtual boundary between two bios? */
static bool gap_between(const struct kp_bio *bio, const struct kp_bio *follower)
{
	uint64_t mask = bio->file->limits.virt_boundary_mask;
	const void *start;

	if (!mask)
		return false;
	start = kp_iter_segment(follower->vec, &follower->iter).addr;
	return ((uintptr_t)memory_end(bio) & mask) || ((uintptr_t)start & mask);
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
static enum kp_plug_merge try_merge(struct kp_plug_request *request, struct kp_bio *bio,
				    uint32_t segments)
{
	uint64_t pos = bio->iter.pos;

	if (request->nomerge || request->first->file != bio->file || request->first->op != bio->op)
		return KP_PLUG_NO_MERGE;
	if (request->pos + request->bytes == pos) {
		if (gap_between(request->last, bio) || !fits(request, bio, request->pos, segments))
			return KP_PLUG_NO_MERGE;
		request->last->next = bio;
		request->last = bio;
		join(request, bio, segments);
		return KP_PLUG_BACK_MERGE;
	}
	if (pos + bio->iter.size == request->pos) {
		if (gap_between(bio, request->first) || !fits(request, bio, pos, segments))
			return KP_PLUG_NO_MERGE;
		bio->next = request->first;
		request->first = bio;
		request->pos = pos;
		join(request, bio, segments);
		return KP_PLUG_FRONT_MERGE;
	}
	return KP_PLUG_NO_MERGE;
}

enum kp_plug_merge kp_plug_merge(const struct kp_variant *variant, struct kp_plug *plug,
				 struct kp_bio *bio, uint32_t segments)
{
	if (bio->flags & KP_BIO_NOMERGE)
		return KP_PLUG_NO_MERGE;
	for (unsigned int i = plug->nr; i > 0; i--) {
		struct kp_plug_request *request = request_at(plug, i - 1);
		enum kp_plug_merge merge;

		if (!same_queue(request->first->file, bio->file))
			continue;
		merge = try_merge(request, bio, segments);
		if (merge || row_of(variant)->newest_only)
			return merge;
	}
	return KP_PLUG_NO_MERGE;
}

/* ---- in and out ---------------------------------------------------------------------------- */

enum kp_plug_full kp_plug_full(const struct kp_variant *variant, struct kp_plug *plug)
{
	const struct plug_row *row = row_of(variant);
	unsigned int max = row->max_requests;

	if (row->doubles && plug->several_queues)
		max *= 2;
	if (plug->nr >= max)
		return KP_PLUG_MANY;
	if (plug->nr && request_at(plug, plug->nr - 1)->bytes >= row->flush_size)
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

static void make_room(struct plug_stage *plug)
{
	enum kp_plug_full full = kp_plug_full(plug->stage.variant, &plug->plug);

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
		make_room(plug);
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
