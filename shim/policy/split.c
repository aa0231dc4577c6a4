// SPDX-License-Identifier: GPL-2.0-only
/*
 * The split stage (policy P2): it cuts bios at the queue limits.
 *
 * Up to 4.2, submitters built bios to the limits, and no bio was cut. 54efd50bfd87 ("block: make
 * generic_make_request handle arbitrarily sized bios", 4.3-rc1) lets submitters build bios of any size
 * and cuts them in the block layer; each cut copies the rest of the vector. Since 52cc6eead909 the
 * pieces share the vector, and only the iterator is copied.
 *
 * An I/O of the application arrives as one segment. In every variant this stage turns it into bios of
 * pages, as direct I/O does, so that all variants pay the same for their vectors.
 */
#include "split.h"

struct split {
	struct kp_stage stage;
	const struct split_row *row;
	bool adjacent;
	bool below_cache;
	struct kp_bio_set set;
};

struct split_row {
	struct kp_variant variant;
	/* Turn an I/O into bios and submit them. */
	void (*submit)(struct split *split, struct kp_bio *io);
	/* Where to cut: kp_split_front(). NULL: bios are built to the limits. */
	int64_t (*front)(const struct split_row *row, const struct kp_queue_limits *limits,
			 const struct kp_bio *bio, bool adjacent);
	/* The most sectors that a request at @pos may have. */
	uint32_t (*max_sectors)(const struct kp_queue_limits *limits, uint64_t pos);
	/* Allocate the bio for the front piece, with a copy of the vector or sharing @bio's. */
	struct kp_bio *(*clone)(struct split *split, struct kp_bio *bio);
	bool nomerge;	      /* the front piece is REQ_NOMERGE */
	bool multi_page;      /* a segment may be several adjacent pages */
	bool rounds_to_block; /* the front piece is a multiple of the logical block size */
};

/* ---- how large may a request be? ----------------------------------------------------------- */

/* queue_max_sectors(), up to 4.3 */
static uint32_t max_sectors_plain(const struct kp_queue_limits *limits, uint64_t pos)
{
	(void)pos;
	return limits->max_sectors;
}

static uint32_t to_chunk_end(const struct kp_queue_limits *limits, uint64_t pos)
{
	uint64_t sector = pos >> KP_SECTOR_SHIFT;

	return limits->chunk_sectors - sector % limits->chunk_sectors;
}

/* get_max_io_size() of 4.9: the chunk overrides max_sectors; rounded down to logical blocks */
static uint32_t max_sectors_chunk(const struct kp_queue_limits *limits, uint64_t pos)
{
	uint32_t block = limits->logical_block_size / KP_SECTOR_SIZE;
	uint32_t max = limits->chunk_sectors ? to_chunk_end(limits, pos) : limits->max_sectors;

	return kp_round_down(max, block);
}

/* The same of 4.14: a chunk does not raise max_sectors. */
static uint32_t max_sectors_or_chunk(const struct kp_queue_limits *limits, uint64_t pos)
{
	uint32_t block = limits->logical_block_size / KP_SECTOR_SIZE;
	uint32_t max = limits->max_sectors;

	if (limits->chunk_sectors)
		max = kp_min(max, to_chunk_end(limits, pos));
	return kp_round_down(max, block);
}

/* get_max_io_size() of 5.4: end on a physical block if the range has one */
static uint32_t max_sectors_physical(const struct kp_queue_limits *limits, uint64_t pos)
{
	uint32_t physical = limits->physical_block_size / KP_SECTOR_SIZE;
	uint32_t logical = limits->logical_block_size / KP_SECTOR_SIZE;
	uint32_t max = limits->max_sectors;
	uint32_t start = (pos >> KP_SECTOR_SHIFT) % physical;
	uint32_t end;

	if (limits->chunk_sectors)
		max = kp_min(max, to_chunk_end(limits, pos));
	end = kp_round_down(start + max, physical);
	return end > start ? end - start : kp_round_down(max, logical);
}

/* ---- where to cut -------------------------------------------------------------------------- */

/* The state of a walk over a vector. */
struct walk {
	const struct kp_queue_limits *limits;
	bool adjacent;
	struct kp_segment previous;
	uint32_t segments;
	size_t segment_size; /* of the last segment, which may be extended */
	uint64_t bytes;
};

/* bvec_gap_to_prev(): a device with a virtual boundary accepts no gap between segments */
static kp_always_inline bool gap(const struct walk *walk, const struct kp_segment *segment)
{
	uint64_t mask = walk->limits->virt_boundary_mask;
	uintptr_t end = (uintptr_t)walk->previous.addr + walk->previous.len;

	return walk->segments && (((uintptr_t)segment->addr & mask) || (end & mask));
}

static bool same_boundary(const struct kp_queue_limits *limits, const void *first, const void *last)
{
	return ((uintptr_t)first | limits->seg_boundary_mask) ==
	       ((uintptr_t)last | limits->seg_boundary_mask);
}

/* Does @segment extend the previous one, as it does in the driver's scatter list? */
static kp_always_inline bool extends(const struct walk *walk, const struct kp_segment *segment)
{
	const char *start = segment->addr;

	return walk->adjacent && walk->segments &&
	       (const char *)walk->previous.addr + walk->previous.len == start &&
	       walk->segment_size + segment->len <= walk->limits->max_segment_size &&
	       same_boundary(walk->limits, walk->previous.addr, start + segment->len - 1);
}

/* Add @segment to the request. Return: false when there would be too many segments. */
static kp_always_inline bool accept(struct walk *walk, const struct kp_segment *segment)
{
	if (extends(walk, segment)) {
		walk->segment_size += segment->len;
	} else {
		if (walk->segments == walk->limits->max_segments)
			return false;
		walk->segments++;
		walk->segment_size = segment->len;
	}
	walk->previous = *segment;
	walk->bytes += segment->len;
	return true;
}

/*
 * blk_bio_segment_split() of 4.3: the cut is between segments. A first segment that is larger than a
 * request is cut too, although that kernel did not expect one.
 */
static int64_t front_between(const struct split_row *row, const struct kp_queue_limits *limits,
			     const struct kp_bio *bio, bool adjacent)
{
	uint64_t max = (uint64_t)row->max_sectors(limits, bio->iter.pos) << KP_SECTOR_SHIFT;
	struct walk walk = { .limits = limits, .adjacent = adjacent };
	struct kp_segment segment;
	struct kp_iter iter;

	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		if (walk.bytes + segment.len > max)
			return walk.bytes ? walk.bytes : max;
		if (gap(&walk, &segment) || !accept(&walk, &segment))
			return walk.bytes;
	}
	return 0;
}

/* blk_bio_segment_split() of 4.9: a segment is cut where the request is full. */
static int64_t front_within(const struct split_row *row, const struct kp_queue_limits *limits,
			    const struct kp_bio *bio, bool adjacent)
{
	uint64_t max = (uint64_t)row->max_sectors(limits, bio->iter.pos) << KP_SECTOR_SHIFT;
	struct walk walk = { .limits = limits, .adjacent = adjacent };
	struct kp_segment segment;
	struct kp_iter iter;

	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		if (gap(&walk, &segment))
			return walk.bytes;
		if (walk.bytes + segment.len > max) {
			bool within = walk.segments < limits->max_segments && walk.bytes < max;

			if (within || walk.bytes)
				return within ? max : walk.bytes;
			/* not even one logical block fits: a first segment is not cut */
		}
		if (!accept(&walk, &segment))
			return walk.bytes;
	}
	return 0;
}

/* bvec_split_segs(): count the device segments of a vector entry. Return: how many bytes fit. */
static uint64_t carve(struct walk *walk, const struct kp_segment *segment, uint64_t max)
{
	const struct kp_queue_limits *limits = walk->limits;
	uint64_t room = kp_min((uint64_t)segment->len, max - walk->bytes);
	uint64_t taken = 0;

	while (taken < room && walk->segments < limits->max_segments) {
		uintptr_t at = (uintptr_t)segment->addr + taken;
		uint64_t to_boundary =
			limits->seg_boundary_mask - (at & limits->seg_boundary_mask) + 1;
		uint64_t piece = kp_min((uint64_t)limits->max_segment_size, to_boundary);

		if (!to_boundary) /* the mask covers the whole address space */
			piece = limits->max_segment_size;
		taken += kp_min(piece, room - taken);
		walk->segments++;
		if (limits->virt_boundary_mask & ((uintptr_t)segment->addr + taken))
			break;
	}
	return taken;
}

/* blk_bio_segment_split() of 5.4, bio_split_rw() of 6.1 */
static int64_t front_carved(const struct split_row *row, const struct kp_queue_limits *limits,
			    const struct kp_bio *bio, bool adjacent)
{
	uint64_t max = (uint64_t)row->max_sectors(limits, bio->iter.pos) << KP_SECTOR_SHIFT;
	struct walk walk = { .limits = limits };
	struct kp_segment segment;
	struct kp_iter iter;

	(void)adjacent; /* adjacent pages are one entry of the vector already */
	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		uint64_t taken;

		if (gap(&walk, &segment))
			break;
		taken = carve(&walk, &segment, max);
		walk.previous = segment;
		walk.bytes += taken;
		if (taken < segment.len)
			break;
	}
	if (walk.bytes == bio->iter.size)
		return 0;
	if (row->rounds_to_block)
		walk.bytes = kp_round_down(walk.bytes, limits->logical_block_size);
	return walk.bytes ? (int64_t)walk.bytes : -EINVAL;
}

int64_t kp_split_front(const struct kp_variant *variant, const struct kp_queue_limits *limits,
		       const struct kp_bio *bio, bool adjacent)
{
	const struct split_row *row = kp_container_of(variant, struct split_row, variant);

	return row->front(row, limits, bio, adjacent);
}

/* ---- cutting ------------------------------------------------------------------------------- */

/* bio_segments() */
static unsigned int count_segments(const struct kp_bio *bio)
{
	struct kp_segment segment;
	struct kp_iter iter;
	unsigned int nr = 0;

	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		nr++;
	}
	return nr;
}

/*
 * bio_clone_bioset() as 54efd50bfd87 used it: count all remaining segments and then copy them one by
 * one, although the front piece needs only some of them.
 */
static struct kp_bio *clone_all(struct split *split, struct kp_bio *bio)
{
	uint64_t *counters = split->stage.pipeline->slot->values;
	struct kp_bio *clone = kp_bio_alloc(&split->set, count_segments(bio));
	struct kp_segment segment;
	struct kp_iter iter;

	if (!clone)
		return NULL;
	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		clone->own_vec[clone->nr_vecs++] = segment;
	}
	clone->iter = (struct kp_iter){ .pos = bio->iter.pos };
	kp_pipeline_count(split->stage.pipeline, &counters[KP_VECS_COPIED], clone->nr_vecs);
	return clone;
}

/* bio_clone_fast(): the vector is shared. */
static struct kp_bio *share_vec(struct split *split, struct kp_bio *bio)
{
	struct kp_bio *front = kp_bio_alloc(&split->set, 0);

	if (!front)
		return NULL;
	front->vec = bio->vec;
	front->nr_vecs = bio->nr_vecs;
	front->iter = bio->iter;
	return front;
}

/* bio_split(): cut the front piece off @bio, which keeps the rest. Return: NULL without memory. */
static struct kp_bio *take_front(struct split *split, struct kp_bio *bio, uint64_t bytes)
{
	struct kp_pipeline *pl = split->stage.pipeline;
	struct kp_bio *front = split->row->clone(split, bio);

	if (!front)
		return NULL;
	front->op = bio->op;
	front->flags = bio->flags & ~KP_BIO_CHAIN;
	if (split->row->nomerge)
		front->flags |= KP_BIO_NOMERGE;
	front->file = bio->file;
	front->iter.size = bytes;
	kp_iter_advance(bio->vec, &bio->iter, bytes);
	kp_pipeline_count(pl, &pl->slot->values[KP_SPLITS], 1);
	return front;
}

/* blk_queue_split() in a loop: submit each front piece before looking at the rest. */
static void submit_cut(struct split *split, struct kp_bio *bio)
{
	const struct kp_queue_limits *limits = &bio->file->limits;
	int64_t bytes;

	while ((bytes = split->row->front(split->row, limits, bio, split->adjacent))) {
		struct kp_bio *front = bytes > 0 ? take_front(split, bio, bytes) : NULL;

		if (!front) {
			kp_bio_fail(bio, bytes > 0 ? -ENOMEM : bytes);
			return;
		}
		kp_bio_chain(front, bio);
		kp_stage_submit(split->stage.next, front);
	}
	kp_stage_submit(split->stage.next, bio);
}

/* ---- building bios ------------------------------------------------------------------------- */

static kp_always_inline size_t to_page_end(const void *addr)
{
	return KP_PAGE_SIZE - (uintptr_t)addr % KP_PAGE_SIZE;
}

/* How many pages a buffer touches; at most as many as a bio can hold. */
static unsigned int count_pages(const struct kp_segment *buffer)
{
	size_t pages = (buffer->len + KP_PAGE_SIZE - to_page_end(buffer->addr) + KP_PAGE_SIZE - 1) /
		       KP_PAGE_SIZE;

	return kp_min(pages, (size_t)KP_BIO_MAX_VECS);
}

/* Allocate a bio like @io that begins at @iter, and chain it to @io. Return: NULL without memory. */
static struct kp_bio *begin_bio(struct split *split, struct kp_bio *io, const struct kp_iter *iter,
				unsigned int nr_vecs)
{
	struct kp_bio *bio = kp_bio_alloc(&split->set, nr_vecs);

	if (!bio) {
		kp_bio_error(io, -ENOMEM);
		return NULL;
	}
	bio->op = io->op;
	bio->flags = io->flags & ~KP_BIO_CHAIN;
	bio->file = io->file;
	bio->iter = (struct kp_iter){ .pos = iter->pos };
	kp_bio_chain(bio, io);
	return bio;
}

/* Add the pages of a buffer, at most @pages, as segments of @bio: bio_iov_iter_get_pages() */
static void add_pages(struct kp_bio *bio, const struct kp_segment *buffer, unsigned int pages)
{
	struct kp_segment *segment = bio->own_vec;
	struct kp_segment *end = segment + pages;
	char *at = buffer->addr;
	size_t left = buffer->len;

	for (; left && segment != end; segment++) {
		segment->addr = at;
		segment->len = kp_min(left, to_page_end(at));
		at += segment->len;
		left -= segment->len;
	}
	bio->nr_vecs = segment - bio->own_vec;
	bio->iter.size = buffer->len - left;
}

/* Add up to @pages pages of a buffer as one segment, since they are adjacent in memory. */
static void add_joined(struct kp_bio *bio, const struct kp_segment *buffer, unsigned int pages)
{
	size_t room = (pages - 1) * (size_t)KP_PAGE_SIZE + to_page_end(buffer->addr);

	bio->own_vec[0] = (struct kp_segment){ buffer->addr, kp_min(buffer->len, room) };
	bio->nr_vecs = 1;
	bio->iter.size = bio->own_vec[0].len;
}

/* Build bios of up to 256 pages, and cut each of them where the limits require it. */
static void submit_large(struct split *split, struct kp_bio *io)
{
	bool join = split->adjacent && split->row->multi_page;
	struct kp_iter iter = io->iter;

	while (iter.size) {
		struct kp_segment buffer = kp_iter_segment(io->vec, &iter);
		unsigned int pages = count_pages(&buffer);
		struct kp_bio *bio = begin_bio(split, io, &iter, join ? 1 : pages);

		if (!bio)
			return;
		if (join)
			add_joined(bio, &buffer, pages);
		else
			add_pages(bio, &buffer, pages);
		kp_iter_step(io->vec, &iter, bio->iter.size);
		submit_cut(split, bio);
	}
}

/* bio_add_page() of 4.2: add the next page unless the bio would then exceed a limit. */
static bool add_within_limits(struct kp_bio *bio, struct walk *walk, struct kp_segment page,
			      uint64_t max)
{
	if (!bio->nr_vecs)
		page.len = kp_min(page.len, max);
	if (walk->bytes + page.len > max || gap(walk, &page) || !accept(walk, &page))
		return false;
	bio->own_vec[bio->nr_vecs++] = page;
	bio->iter.size += page.len;
	return true;
}

/* Add the pages of a buffer, at most @pages in all. Return: false when the bio is full. */
static bool build_from(struct kp_bio *bio, struct walk *walk, const struct kp_segment *buffer,
		       unsigned int pages, uint64_t max)
{
	char *at = buffer->addr;
	char *end = at + buffer->len;

	while (at != end && bio->nr_vecs < pages) {
		size_t len = kp_min((size_t)(end - at), to_page_end(at));

		if (!add_within_limits(bio, walk, (struct kp_segment){ at, len }, max))
			return false;
		at += bio->own_vec[bio->nr_vecs - 1].len;
	}
	return at == end;
}

/* How many pages there are from @start on, in all segments: a stage above may have made several. */
static unsigned int count_pages_left(const struct kp_bio *io, const struct kp_iter *start)
{
	struct kp_segment segment;
	struct kp_iter iter;
	unsigned int pages = 0;

	kp_for_each_segment (segment, io->vec, iter, *start) {
		pages += count_pages(&segment);
		if (pages >= KP_BIO_MAX_VECS)
			break;
	}
	return kp_min(pages, KP_BIO_MAX_VECS);
}

/* dio_new_bio() and bio_add_page() of 4.2: build bios to the limits. */
static void submit_built(struct split *split, struct kp_bio *io)
{
	const struct kp_queue_limits *limits = &io->file->limits;
	unsigned int fit = limits->max_sectors / (KP_PAGE_SIZE / KP_SECTOR_SIZE) + 1;
	struct kp_iter iter = io->iter;

	fit = kp_min(fit, limits->max_segments); /* bio_get_nr_vecs() */
	while (iter.size) {
		uint64_t max = (uint64_t)split->row->max_sectors(limits, iter.pos)
			       << KP_SECTOR_SHIFT;
		struct walk walk = { .limits = limits, .adjacent = split->adjacent };
		unsigned int pages = kp_min(count_pages_left(io, &iter), fit);
		struct kp_bio *bio = begin_bio(split, io, &iter, pages);
		bool more;

		if (!bio)
			return;
		do {
			struct kp_segment buffer = kp_iter_segment(io->vec, &iter);
			uint64_t before = bio->iter.size;

			more = build_from(bio, &walk, &buffer, pages, max);
			kp_iter_step(io->vec, &iter, bio->iter.size - before);
		} while (more && iter.size && bio->nr_vecs < pages);
		kp_stage_submit(split->stage.next, bio);
	}
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct split_row rows[] = {
	{
		.variant = {
			.name = "build",
			.since = "4.2",
			.until = "4.2",
			.commit = "before 54efd50bfd87",
			.summary = "bios are built to the queue limits page by page and never split",
			.omits = "merge_bvec_fn of stacking drivers",
		},
		.submit = submit_built,
		.max_sectors = max_sectors_plain,
	},
	{
		.variant = {
			.name = "clone",
			.since = "4.3-rc1",
			.until = "4.3-rc1",
			.commit = "54efd50bfd87",
			.summary = "large bios are split, each split copies the remaining vector",
			.omits = "discard and write-same splitting",
		},
		.submit = submit_large,
		.front = front_between,
		.max_sectors = max_sectors_plain,
		.clone = clone_all,
	},
	{
		.variant = {
			.name = "fast",
			.since = "4.3",
			.until = "4.4",
			.commit = "52cc6eead909",
			.summary = "large bios are split, the halves share the vector and copy the iterator",
			.omits = "discard and write-same splitting; 4.3 joins no adjacent pages, the "
				 "front piece of 4.4 is not merged",
		},
		.submit = submit_large,
		.front = front_between,
		.max_sectors = max_sectors_plain,
		.clone = share_vec,
	},
	{
		.variant = {
			.name = "4.9",
			.since = "4.5",
			.until = "4.12",
			.commit = "get_max_io_size() of 4.9",
			.summary = "as fast; may split within a page, on a logical block; front is not merged",
			.omits = "discard splitting",
		},
		.submit = submit_large,
		.front = front_within,
		.max_sectors = max_sectors_chunk,
		.clone = share_vec,
		.nomerge = true,
	},
	{
		.variant = {
			.name = "4.14",
			.since = "4.13",
			.until = "5.3",
			.commit = "get_max_io_size() of 4.14",
			.summary = "as 4.9; the smaller of max_sectors and what is left of the chunk",
			.omits = "discard splitting; multi-page segments of 5.1 to 5.3; 4.13 was not read",
		},
		.submit = submit_large,
		.front = front_within,
		.max_sectors = max_sectors_or_chunk,
		.clone = share_vec,
		.nomerge = true,
	},
	{
		.variant = {
			.name = "5.4",
			.since = "5.4",
			.until = "5.19",
			.commit = "get_max_io_size() of 5.4",
			.summary = "as 4.9; splits end on a physical block, long segments are carved",
			.omits = "discard splitting; REQ_NOWAIT",
		},
		.submit = submit_large,
		.front = front_carved,
		.max_sectors = max_sectors_physical,
		.clone = share_vec,
		.nomerge = true,
		.multi_page = true,
	},
	{
		.variant = {
			.name = "6.1",
			.since = "6.0",
			.until = "7.3",
			.commit = "bio_split_rw() of 6.1",
			.summary = "as 5.4; the front is rounded down to the logical block",
			.omits = "discard splitting; REQ_NOWAIT; atomic writes; zone_write_granularity and "
				 "dma_alignment of 6.19",
		},
		.submit = submit_large,
		.front = front_carved,
		.max_sectors = max_sectors_physical,
		.clone = share_vec,
		.nomerge = true,
		.multi_page = true,
		.rounds_to_block = true,
	},
};

/* ---- the stage ----------------------------------------------------------------------------- */

/* Did a stage above us build this bio from pages? */
static bool is_of_pages(const struct split *split, const struct kp_bio *bio)
{
	return bio->nr_vecs > 1 || (split->below_cache && bio->iter.size <= KP_PAGE_SIZE);
}

static void split_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct split *split = kp_container_of(stage, struct split, stage);

	if (!kp_op_has_data(bio->op)) {
		kp_stage_submit(stage->next, bio);
		return;
	}
	if (split->row->front && is_of_pages(split, bio)) {
		submit_cut(split, bio);
		return;
	}
	/* Its own reference is dropped below: the I/O ends when all its bios have ended. */
	bio->flags |= KP_BIO_CHAIN;
	bio->remaining = 1;
	split->row->submit(split, bio);
	kp_bio_endio(bio);
}

/*
 * How many bios an I/O may become. The file's limits are not known yet. When the pool turns out too
 * small, I/Os wait for each other, which is slower but correct.
 */
static size_t bios_per_io(const struct kp_pipeline_config *config)
{
	uint32_t max_sectors_kb = config->device.limits.max_sectors_kb;
	uint64_t fragment = max_sectors_kb ? max_sectors_kb * 1024ull : 128 * 1024;

	return config->max_io_size / kp_min(fragment, (uint64_t)KP_BIO_MAX_VECS * KP_PAGE_SIZE) + 2;
}

static int split_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		      const struct kp_pipeline_config *config)
{
	struct split *split = kp_container_of(stage, struct split, stage);
	const struct kp_split_options *options = stage_config->options;
	size_t bios = kp_min(kp_max(bios_per_io(config) * config->depth, 64), 65536);
	size_t vecs[KP_VEC_CLASSES];

	split->row = kp_container_of(stage_config->variant, struct split_row, variant);
	split->adjacent = options && options->adjacent_pages;
	split->below_cache = options && options->below_cache;
	for (unsigned int i = 0; i < KP_VEC_CLASSES; i++)
		vecs[i] = bios;
	return kp_bio_set_init(&split->set, stage, bios, vecs);
}

static void split_exit(struct kp_stage *stage)
{
	kp_bio_set_exit(&kp_container_of(stage, struct split, stage)->set);
}

static const struct kp_stage_ops split_ops = {
	.name = "split",
	.size = sizeof(struct split),
	.init = split_init,
	.submit = split_submit,
	.exit = split_exit,
};

const struct kp_policy kp_split_policy = {
	.name = "split",
	.summary = "how bios are cut at the queue limits",
	.default_variant = "fast",
	.ops = &split_ops,
	.rows = rows,
	.row_size = sizeof(*rows),
	.nr_rows = sizeof(rows) / sizeof(*rows),
};
