// SPDX-License-Identifier: GPL-2.0-only
/*
 * The plug: limits of a request, which requests a bio may join, when the list is flushed; random
 * bios against a reference; the stage above a device that records what it gets.
 */
#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "policy/plug.h"

#define KIB	 1024ull
#define MIB	 (1024 * KIB)
#define MAX_BIOS 4096

/* Each ck_assert() is a write to the runner: too slow once per bio. */
#define require(condition, ...)                    \
	do {                                       \
		if (!(condition))                  \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

static const char *const names[] = { "4.9", "4.10", "5.10.80", "4.15", "6.1", "6.13", "6.16" };
#define NR_VARIANTS 7
enum { V4_9, V4_10, V5_10_80, V4_15, V6_1, V6_13, V6_16 };

static const struct kp_variant *variant(const char *name)
{
	const struct kp_variant *found;
	char why[256];

	ck_assert_int_eq(kp_policy_find(&kp_plug_policy, name, NULL, &found, why, sizeof(why)), 0);
	return found;
}

/* ---- bios without a pipeline --------------------------------------------------------------- */

struct world {
	struct kp_file files[3]; /* the first two on one device */
	struct kp_plug plug;
	const struct kp_variant *variant;
	struct kp_bio bios[MAX_BIOS];
	struct kp_segment segments[MAX_BIOS];
	unsigned int nr;
	enum kp_plug_merge merge; /* what the last bio met */
	enum kp_plug_full full;
};

static struct world *new_world(const char *name)
{
	struct world *world = calloc(1, sizeof(*world));

	ck_assert_ptr_nonnull(world);
	world->variant = variant(name);
	for (unsigned int i = 0; i < 3; i++) {
		kp_limits_default(&world->files[i].limits);
		world->files[i].key.dev = 1 + i / 2;
		world->files[i].key.ino = i;
	}
	return world;
}

static struct kp_bio *new_bio(struct world *world, uint64_t pos, uint64_t len)
{
	unsigned int i = world->nr++;
	struct kp_bio *bio = &world->bios[i];

	ck_assert_uint_lt(i, MAX_BIOS);
	world->segments[i] = (struct kp_segment){ (void *)(0x10000ul * (i + 1)), len };
	bio->vec = &world->segments[i];
	bio->nr_vecs = 1;
	bio->iter = (struct kp_iter){ .pos = pos, .size = len };
	bio->op = KP_OP_WRITE;
	bio->file = &world->files[0];
	return bio;
}

static void flush(struct world *world)
{
	while (kp_plug_take(&world->plug)) {
	}
}

/* What the stage does with a bio. */
static void submit(struct world *world, struct kp_bio *bio)
{
	uint32_t segments = kp_plug_segments(&bio->file->limits, bio, false);

	world->full = KP_PLUG_HAS_ROOM;
	world->merge = kp_plug_merge(world->variant, &world->plug, bio, segments);
	if (world->merge)
		return;
	world->full = kp_plug_full(world->variant, &world->plug, bio);
	if (world->full)
		flush(world);
	kp_plug_add(&world->plug, bio, segments);
}

static enum kp_plug_merge put(struct world *world, uint64_t pos, uint64_t len)
{
	submit(world, new_bio(world, pos, len));
	return world->merge;
}

/* ---- limits of a request ------------------------------------------------------------------- */

START_TEST(request_sizes)
{
	static const struct {
		uint32_t max_segments, max_sectors_kb;
		uint64_t bio, request;
	} table[] = {
		/* AHCI: 168 segments */
		{ 168, 1280, 512, 84 * KIB },
		{ 168, 1280, 4096, 672 * KIB },
		/* a loop device: 128 */
		{ 128, 1280, 512, 64 * KIB },
		{ 128, 1280, 1024, 128 * KIB },
		{ 128, 1280, 4096, 512 * KIB },
		{ 256, 1280, 4096, 1024 * KIB },
		/* max_sectors first */
		{ 256, 512, 4096, 512 * KIB },
		{ 168, 64, 512, 64 * KIB },
		{ 168, 66, 4096, 64 * KIB },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct world *world = new_world(names[_i]);
		struct kp_queue_limits *limits = &world->files[0].limits;
		unsigned int joined = 0;

		limits->max_segments = table[i].max_segments;
		limits->max_sectors = table[i].max_sectors_kb * 2;
		for (uint64_t pos = 0; pos < 2 * table[i].request; pos += table[i].bio)
			joined += put(world, pos, table[i].bio) == KP_PLUG_BACK_MERGE;
		/* Two requests: all but the first bio of each joined one. */
		ck_assert_uint_eq(joined, 2 * (table[i].request / table[i].bio - 1));
		free(world);
	}
}
END_TEST

/* The segments of two bios add up, even where they would fit into fewer. */
START_TEST(segments_add_up)
{
	static const struct kp_segment vec[3] = { { (void *)0x1000, 512 },
						  { (void *)0x1200, 512 },
						  { (void *)0x1400, 512 } };
	struct world *world = new_world(names[_i]);

	world->files[0].limits.max_segments = 8;
	for (unsigned int i = 0; i < 3; i++) {
		struct kp_bio *bio = new_bio(world, i * 1536, 1536);

		bio->vec = vec;
		bio->nr_vecs = 3;
		submit(world, bio);
		ck_assert_int_eq(world->merge, i == 1 ? KP_PLUG_BACK_MERGE : KP_PLUG_NO_MERGE);
	}
	free(world);
}
END_TEST

START_TEST(chunk_boundary)
{
	struct world *world = new_world(names[_i]);

	world->files[0].limits.chunk_sectors = 32; /* 16 KiB */
	ck_assert_int_eq(put(world, 8192, 4096), KP_PLUG_NO_MERGE);
	ck_assert_int_eq(put(world, 12288, 4096), KP_PLUG_BACK_MERGE);
	ck_assert_int_eq(put(world, 16384, 4096), KP_PLUG_NO_MERGE);
	/* the room in front counts from the new start */
	ck_assert_int_eq(put(world, 36864, 4096), KP_PLUG_NO_MERGE);
	ck_assert_int_eq(put(world, 32768, 4096), KP_PLUG_FRONT_MERGE);
	ck_assert_int_eq(put(world, 28672, 4096), KP_PLUG_NO_MERGE);
	free(world);
}
END_TEST

/* req_set_nomerge(): a request that turned a bio away takes no smaller one either. */
START_TEST(full_is_full)
{
	struct world *world = new_world(names[_i]);

	world->files[0].limits.max_sectors = 32;
	put(world, 0, 12 * KIB);
	ck_assert_int_eq(put(world, 12 * KIB, 8 * KIB), KP_PLUG_NO_MERGE);
	ck_assert_int_eq(put(world, 12 * KIB, 4 * KIB), KP_PLUG_NO_MERGE);
	ck_assert_uint_eq(world->plug.nr, 3);
	free(world);
}
END_TEST

START_TEST(virtual_boundary)
{
	struct world *world = new_world(names[_i]);
	struct kp_bio *bio;

	world->files[0].limits.virt_boundary_mask = 4095;
	put(world, 0, 4096);
	ck_assert_int_eq(put(world, 4096, 4096), KP_PLUG_BACK_MERGE);
	ck_assert_int_eq(put(world, 8192, 512), KP_PLUG_BACK_MERGE);
	/* the request ends within a page now */
	ck_assert_int_eq(put(world, 8704, 512), KP_PLUG_NO_MERGE);
	/* a gap does not make a request full */
	bio = new_bio(world, 9216, 4096);
	ck_assert_int_eq(put(world, 13312, 4096), KP_PLUG_NO_MERGE);
	submit(world, bio);
	ck_assert_int_eq(world->merge, KP_PLUG_FRONT_MERGE);
	/* a bio in front that ends within a page */
	put(world, MIB, 4096);
	ck_assert_int_eq(put(world, MIB - 512, 512), KP_PLUG_NO_MERGE);
	free(world);
}
END_TEST

/* ---- which request ------------------------------------------------------------------------- */

START_TEST(who_may_join)
{
	struct world *world = new_world(names[_i]);
	struct kp_bio *bio;

	put(world, 64 * KIB, 4096);
	ck_assert_int_eq(put(world, 60 * KIB, 4096), KP_PLUG_FRONT_MERGE);
	ck_assert_int_eq(put(world, 68 * KIB, 4096), KP_PLUG_BACK_MERGE);
	ck_assert_int_eq(put(world, 76 * KIB, 4096), KP_PLUG_NO_MERGE);

	bio = new_bio(world, 80 * KIB, 4096);
	bio->op = KP_OP_READ;
	submit(world, bio);
	ck_assert_int_eq(world->merge, KP_PLUG_NO_MERGE);

	bio = new_bio(world, 84 * KIB, 4096);
	bio->op = KP_OP_READ;
	bio->file = &world->files[1];
	submit(world, bio);
	ck_assert_int_eq(world->merge, KP_PLUG_NO_MERGE);
	ck_assert_uint_eq(world->plug.nr, 4);

	/* in the order of the device */
	bio = kp_plug_take(&world->plug);
	ck_assert_uint_eq(bio->iter.pos, 60 * KIB);
	ck_assert_uint_eq(bio->next->iter.pos, 64 * KIB);
	ck_assert_uint_eq(bio->next->next->iter.pos, 68 * KIB);
	ck_assert_ptr_null(bio->next->next->next);
	free(world);
}
END_TEST

/* A front piece of a split bio neither joins a request nor lets another bio join it. */
START_TEST(nomerge)
{
	struct world *world = new_world(names[_i]);
	struct kp_bio *bio = new_bio(world, 4096, 4096);

	put(world, 0, 4096);
	bio->flags = KP_BIO_NOMERGE;
	submit(world, bio);
	ck_assert_int_eq(world->merge, KP_PLUG_NO_MERGE);
	ck_assert_int_eq(put(world, 8192, 4096), KP_PLUG_NO_MERGE);
	/* the rest of the split bio is as any other */
	ck_assert_int_eq(put(world, 12288, 4096), KP_PLUG_BACK_MERGE);
	free(world);
}
END_TEST

START_TEST(older_or_newest)
{
	bool older = _i != V6_1 && _i != V6_16, newest = _i != V6_13;
	struct world *world = new_world(names[_i]);

	put(world, 0, 4096);
	put(world, MIB, 4096);
	ck_assert_int_eq(put(world, MIB + 4096, 4096),
			 newest ? KP_PLUG_BACK_MERGE : KP_PLUG_NO_MERGE);
	ck_assert_int_eq(put(world, 4096, 4096), older ? KP_PLUG_BACK_MERGE : KP_PLUG_NO_MERGE);
	free(world);
}
END_TEST

/* The newest of its queue: files of other devices do not stand in the way. */
START_TEST(several_queues)
{
	struct world *world = new_world(names[_i]);

	for (unsigned int i = 0; i < 10; i++) {
		struct kp_bio *bio = new_bio(world, i * 4096, 4096);

		bio->file = &world->files[2];
		submit(world, bio);
		ck_assert_int_eq(world->merge, i ? KP_PLUG_BACK_MERGE : KP_PLUG_NO_MERGE);
		ck_assert_int_eq(put(world, i * 4096, 4096),
				 i ? KP_PLUG_BACK_MERGE : KP_PLUG_NO_MERGE);
	}
	ck_assert_uint_eq(world->plug.nr, 2);
	free(world);
}
END_TEST

/* ---- flush rules --------------------------------------------------------------------------- */

START_TEST(many_requests)
{
	static const unsigned int limit[NR_VARIANTS] = { 16, 16, 32, 16, 32, 32, 32 };
	struct world *world = new_world(names[_i]);

	for (unsigned int i = 0; i < 3 * limit[_i]; i++) {
		put(world, i * MIB, 4096);
		ck_assert_int_eq(world->full,
				 i && i % limit[_i] == 0 ? KP_PLUG_MANY : KP_PLUG_HAS_ROOM);
		ck_assert_uint_eq(world->plug.nr, i % limit[_i] + 1);
	}
	free(world);
}
END_TEST

START_TEST(many_requests_of_several_queues)
{
	/* With limit 16 each queue's requests are counted for themselves. */
	static const unsigned int limit[NR_VARIANTS] = { 32, 32, 64, 32, 64, 64, 64 };
	struct world *world = new_world(names[_i]);

	for (unsigned int i = 0; i < 3 * limit[_i]; i++) {
		struct kp_bio *bio = new_bio(world, i * MIB, 4096);

		bio->file = &world->files[i % 2 * 2];
		submit(world, bio);
		ck_assert_int_eq(world->full,
				 i && i % limit[_i] == 0 ? KP_PLUG_MANY : KP_PLUG_HAS_ROOM);
	}
	free(world);
}
END_TEST

START_TEST(large_request)
{
	enum kp_plug_full large = _i == V4_9 ? KP_PLUG_HAS_ROOM : KP_PLUG_LARGE;
	struct world *world = new_world(names[_i]);

	put(world, 0, 124 * KIB);
	put(world, MIB, 124 * KIB);
	ck_assert_int_eq(world->full, KP_PLUG_HAS_ROOM);
	ck_assert_int_eq(put(world, MIB + 124 * KIB, 4096), KP_PLUG_BACK_MERGE);
	put(world, 4 * MIB, 124 * KIB);
	ck_assert_int_eq(world->full, large);
	ck_assert_uint_eq(world->plug.nr, large ? 1 : 3);
	/* bios that join do not flush it, however large it becomes */
	ck_assert_int_eq(put(world, 4 * MIB + 124 * KIB, 4096), KP_PLUG_BACK_MERGE);
	ck_assert_int_eq(put(world, 4 * MIB + 128 * KIB, 4096), KP_PLUG_BACK_MERGE);
	put(world, 8 * MIB, 4096);
	ck_assert_int_eq(world->full, large);
	free(world);
}
END_TEST

/* From 6.13 the oldest request is measured. */
START_TEST(large_oldest)
{
	bool newest = _i >= V4_10 && _i <= V6_1, oldest = _i >= V6_13;
	struct world *world = new_world(names[_i]);

	put(world, 0, 4096);
	put(world, MIB, 128 * KIB);
	put(world, 4 * MIB, 4096);
	ck_assert_int_eq(world->full, newest ? KP_PLUG_LARGE : KP_PLUG_HAS_ROOM);
	flush(world);
	put(world, 0, 128 * KIB);
	put(world, MIB, 4096);
	ck_assert_int_eq(world->full, newest || oldest ? KP_PLUG_LARGE : KP_PLUG_HAS_ROOM);
	free(world);
}
END_TEST

/* NVMe: two pages of 512-byte blocks are one request since 4.11; bios that adjoin are no gap. */
START_TEST(contiguous_bios)
{
	bool contiguous = _i >= V5_10_80;
	struct world *world = new_world(names[_i]);
	unsigned int merged = 0;

	world->files[0].limits.virt_boundary_mask = 4095;
	for (unsigned int i = 0; i < 16; i++) {
		struct kp_bio *bio = new_bio(world, i * 512, 512);

		world->segments[world->nr - 1].addr = (char *)0x10000 + i * 512;
		submit(world, bio);
		merged += world->merge == KP_PLUG_BACK_MERGE;
	}
	ck_assert_uint_eq(merged, contiguous ? 15 : 1);
	/* A request that begins off the boundary takes nobody. */
	flush(world);
	submit(world, new_bio(world, MIB, 3584));
	world->segments[world->nr - 1].addr = (char *)0x20000;
	flush(world);
	submit(world, new_bio(world, MIB, 3584));
	world->segments[world->nr - 1].addr = (char *)0x20200;
	submit(world, new_bio(world, MIB + 3584, 4096));
	ck_assert_int_eq(world->merge, contiguous ? KP_PLUG_NO_MERGE : KP_PLUG_BACK_MERGE);
	free(world);
}
END_TEST

/* ---- segments of a bio --------------------------------------------------------------------- */

START_TEST(segments_of_a_bio)
{
	static const struct kp_segment pages[4] = { { (void *)0x10000, 4096 },
						    { (void *)0x11000, 4096 },
						    { (void *)0x20000, 4096 },
						    { (void *)0x21000, 4096 } };
	static const struct kp_segment long_one = { (void *)0x10000, 200 * 1024 };
	struct kp_queue_limits limits;
	struct kp_bio bio = { .vec = pages, .nr_vecs = 4, .iter = { .size = 16384 } };

	kp_limits_default(&limits);
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, false), 4);
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, true), 2);
	limits.max_segment_size = 4096;
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, true), 4);
	/* only what the iterator covers */
	bio.iter = (struct kp_iter){ .size = 4096, .idx = 1, .done = 512 };
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, false), 2);

	limits.max_segment_size = 65536;
	bio = (struct kp_bio){ .vec = &long_one, .nr_vecs = 1, .iter = { .size = 200 * 1024 } };
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, false), 4);
	limits.seg_boundary_mask = 0x7fff; /* 32 KiB */
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, false), 7);
	limits.seg_boundary_mask = UINT64_MAX;
	limits.max_segment_size = UINT32_MAX;
	ck_assert_uint_eq(kp_plug_segments(&limits, &bio, false), 1);
}
END_TEST

/* ---- random bios against a reference ------------------------------------------------------- */

/* Requests as plain ranges, in the order they were made. */
struct range {
	uint64_t start, end;
	uint32_t segments;
	unsigned int file, op;
	bool closed;
};

struct reference {
	struct range list[2 * KP_PLUG_REQUESTS];
	unsigned int nr;
};

static bool reference_merge(struct reference *ref, int name, const struct kp_queue_limits *limits,
			    const struct range *bio)
{
	bool backwards = name != V6_13;

	/* 6.16: the newest, if it is of another device the oldest of ours. */
	if (name == V6_16 && ref->nr)
		backwards = (ref->list[ref->nr - 1].file == 2) == (bio->file == 2);
	for (unsigned int n = 0; n < ref->nr; n++) {
		struct range *request = &ref->list[backwards ? ref->nr - 1 - n : n];
		bool same_device = (request->file == 2) == (bio->file == 2);
		bool back = request->end == bio->start, front = bio->end == request->start;
		uint64_t start = back ? request->start : bio->start;
		uint64_t size = request->end - request->start + bio->end - bio->start;

		if (!same_device)
			continue;
		if (!request->closed && request->file == bio->file && request->op == bio->op &&
		    (back || front)) {
			uint64_t max = limits->max_sectors * 512ull;

			if (limits->chunk_sectors)
				max = kp_min(max, limits->chunk_sectors * 512ull -
							  start % (limits->chunk_sectors * 512ull));
			if (size <= max && request->segments + 1 <= limits->max_segments) {
				request->start = start;
				request->end = start + size;
				request->segments++;
				return true;
			}
			request->closed = true;
		}
		if (name >= V6_1)
			return false;
	}
	return false;
}

static void reference_submit(struct reference *ref, int name, const struct kp_queue_limits *limits,
			     const struct range *bio)
{
	unsigned int max = name == V5_10_80 || name >= V6_1 ? 32 : 16, counted = 0;
	const struct range *measured = &ref->list[name >= V6_13 ? 0 : ref->nr - 1];
	bool two = false;

	if (!bio->closed && reference_merge(ref, name, limits, bio))
		return;
	for (unsigned int i = 0; i < ref->nr; i++) {
		two |= (ref->list[i].file == 2) != (ref->list[0].file == 2);
		counted += max == 32 || (ref->list[i].file == 2) == (bio->file == 2);
	}
	if (max == 32 && two)
		max *= 2;
	if (ref->nr &&
	    (counted >= max || (name != V4_9 && measured->end - measured->start >= 128 * KIB)))
		ref->nr = 0;
	ref->list[ref->nr++] = *bio;
}

static void compare(struct world *world, const struct reference *ref)
{
	struct kp_plug *plug = &world->plug;

	require(plug->nr == ref->nr, "%u requests, wanted %u", plug->nr, ref->nr);
	for (unsigned int i = 0; i < ref->nr; i++) {
		const struct kp_plug_request *request =
			&plug->requests[(plug->oldest + i) % KP_PLUG_REQUESTS];
		const struct range *wanted = &ref->list[i];
		uint64_t at = wanted->start;
		uint32_t segments = 0;

		for (const struct kp_bio *bio = request->first; bio; bio = bio->next) {
			require(bio->iter.pos == at, "request %u: not contiguous", i);
			at += bio->iter.size;
			segments++;
			require(bio->next || bio == request->last, "request %u: wrong end", i);
		}
		require(request->pos == wanted->start && at == wanted->end &&
				request->bytes == wanted->end - wanted->start,
			"request %u: another range", i);
		require(segments == wanted->segments && request->segments == segments,
			"request %u: %u segments, wanted %u", i, request->segments,
			wanted->segments);
	}
}

START_TEST(against_reference)
{
	srand(1);
	for (int round = 0; round < 60; round++) {
		struct world *world = new_world(names[_i]);
		struct reference ref = { .nr = 0 };
		struct kp_queue_limits limits;

		kp_limits_default(&limits);
		limits.max_sectors = 8 + rand() % 600;
		limits.max_segments = 1 + rand() % 60;
		limits.chunk_sectors = rand() % 2 ? 0 : 16 << rand() % 6;
		for (unsigned int i = 0; i < 3; i++)
			world->files[i].limits = limits;
		for (unsigned int i = 0; i < MAX_BIOS; i++) {
			uint64_t len = 512ull << rand() % 4;
			struct range range = {
				.segments = 1,
				.file = rand() % 8 ? 0 : rand() % 3,
				.op = rand() % 20 ? KP_OP_WRITE : KP_OP_READ,
				.closed = rand() % 30 == 0,
			};
			struct kp_bio *bio;

			/* Mostly beside what is there. */
			range.start = rand() % 64 * 4096ull;
			if (ref.nr && rand() % 10) {
				const struct range *near = &ref.list[rand() % ref.nr];

				range.start = near->end;
				if (rand() % 4 == 0 && near->start >= len)
					range.start = near->start - len;
			}
			range.end = range.start + len;
			bio = new_bio(world, range.start, len);
			bio->op = range.op;
			bio->file = &world->files[range.file];
			bio->flags = range.closed ? KP_BIO_NOMERGE : 0;
			submit(world, bio);
			reference_submit(&ref, _i, &limits, &range);
			compare(world, &ref);
		}
		free(world);
	}
}
END_TEST

/* ---- the stage ----------------------------------------------------------------------------- */

struct recorder {
	struct kp_stage stage;
	struct kp_arena *arena;
	struct kp_pipeline *pl;
	struct kp_file *file;
	uint64_t sizes[MAX_BIOS];
	unsigned int nr;
	unsigned int syncs, requests_before_sync;
};

static void recorder_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct recorder *recorder = kp_container_of(stage, struct recorder, stage);
	uint64_t end = bio->iter.pos;

	if (!kp_op_has_data(bio->op)) {
		recorder->syncs++;
		recorder->requests_before_sync = recorder->nr;
	} else {
		recorder->sizes[recorder->nr++] = kp_request_bytes(bio);
	}
	for (const struct kp_bio *b = bio; b; b = b->next) {
		require(b->op == bio->op && b->file == bio->file, "a mixed request");
		require(b->iter.pos == end, "a request with a gap");
		end += b->iter.size;
	}
	kp_stage_submit(stage->next, bio);
}

static const struct kp_stage_ops recorder_ops = { .name = "recorder", .submit = recorder_submit };

/* A pipeline of the plug and a null device, with the recorder between them. */
static struct recorder *new_recorder(const char *name)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));
	struct kp_stage_config stage = { &kp_plug_policy, variant(name), NULL };
	struct kp_pipeline_config config = {
		.stages = &stage,
		.nr_stages = 1,
		.device.backend = "null",
		.device.null.memory_backed = true,
		.device.limits.max_segments = 168,
		.depth = MAX_BIOS,
		.max_io_size = 4096,
	};

	ck_assert_ptr_nonnull(recorder);
	ck_assert_int_eq(kp_arena_create(&recorder->arena, 1ull << 34), 0);
	config.arena = recorder->arena;
	ck_assert_int_eq(kp_pipeline_create(&recorder->pl, &config), 0);
	ck_assert_int_eq(kp_file_open(recorder->pl, "f", 0, 1ull << 30, &recorder->file), 0);
	recorder->stage.ops = &recorder_ops;
	recorder->stage.next = recorder->pl->first->next;
	recorder->pl->first->next = &recorder->stage;
	return recorder;
}

static void free_recorder(struct recorder *recorder)
{
	kp_pipeline_destroy(recorder->pl);
	kp_arena_destroy(recorder->arena);
	free(recorder);
}

static uint64_t counter(const struct recorder *recorder, unsigned int i)
{
	kp_counters_settle(recorder->pl->slot);
	return recorder->pl->slot->values[i];
}

/* Sequential I/Os in one batch. Return: the I/Os, to be freed. */
static struct kp_io *batch(struct recorder *recorder, enum kp_op op, char *data, size_t len,
			   unsigned int nr)
{
	struct kp_io *ios = calloc(nr, sizeof(*ios));

	ck_assert_ptr_nonnull(ios);
	for (unsigned int i = 0; i < nr; i++) {
		kp_io_prepare(&ios[i], op, recorder->file, i * len, data + i * len, len);
		ck_assert_int_eq(kp_submit(recorder->pl, &ios[i]), 0);
	}
	kp_commit(recorder->pl);
	for (unsigned int done = 0; done < nr;) {
		int got = kp_reap(recorder->pl, 1, nr, NULL);

		ck_assert_int_gt(got, 0);
		for (int i = 0; i < got; i++)
			require(!kp_io_error(kp_reaped(recorder->pl, i)), "an I/O failed");
		done += got;
	}
	return ios;
}

START_TEST(stage_requests)
{
	static const struct {
		size_t bio;
		uint64_t request;
	} table[] = { { 512, 84 * KIB }, { 4096, 672 * KIB } };

	for (unsigned int i = 0; i < 2; i++) {
		struct recorder *recorder = new_recorder(names[_i]);
		unsigned int nr = 3 * table[i].request / table[i].bio;
		char *data = calloc(1, 3 * table[i].request);
		char *back = calloc(1, 3 * table[i].request);

		for (size_t j = 0; j < 3 * table[i].request; j++)
			data[j] = (char)rand();
		free(batch(recorder, KP_OP_WRITE, data, table[i].bio, nr));
		ck_assert_uint_eq(recorder->nr, 3);
		for (unsigned int j = 0; j < 3; j++)
			ck_assert_uint_eq(recorder->sizes[j], table[i].request);
		ck_assert_uint_eq(counter(recorder, KP_BIOS), nr);
		ck_assert_uint_eq(counter(recorder, KP_REQUESTS), 3);
		ck_assert_uint_eq(counter(recorder, kp_counters_at(&kp_plug_policy)), nr - 3);

		free(batch(recorder, KP_OP_READ, back, table[i].bio, nr));
		ck_assert_mem_eq(data, back, 3 * table[i].request);
		free(data);
		free(back);
		free_recorder(recorder);
	}
}
END_TEST

/* A sync goes down after what was plugged before it. */
START_TEST(stage_sync)
{
	struct recorder *recorder = new_recorder(names[_i]);
	static char data[8192];
	struct kp_io ios[2] = { 0 }, sync = { 0 };

	for (unsigned int i = 0; i < 2; i++) {
		kp_io_prepare(&ios[i], KP_OP_WRITE, recorder->file, i * MIB, data, 4096);
		kp_submit(recorder->pl, &ios[i]);
	}
	ck_assert_uint_eq(recorder->nr, 0);
	kp_io_prepare(&sync, KP_OP_FLUSH, recorder->file, 0, NULL, 0);
	ck_assert_int_eq(kp_submit_wait(recorder->pl, &sync), 0);
	ck_assert_uint_eq(recorder->syncs, 1);
	ck_assert_uint_eq(recorder->requests_before_sync, 2);
	ck_assert_int_eq(kp_reap(recorder->pl, 2, 2, NULL), 2);
	free_recorder(recorder);
}
END_TEST

static void *submit_foreign(void *arg)
{
	struct recorder *recorder = arg;
	static char data[8192];
	static struct kp_io ios[2];

	for (unsigned int i = 0; i < 2; i++) {
		kp_io_prepare(&ios[i], KP_OP_WRITE, recorder->file, i * 4096, data, 4096);
		kp_submit(recorder->pl, &ios[i]);
	}
	return NULL;
}

/* The plug is the owner's: the bios of another thread neither join it nor flush it. */
START_TEST(stage_other_thread)
{
	struct recorder *recorder = new_recorder(names[_i]);
	static char data[4096];
	struct kp_io io = { 0 };
	pthread_t thread;

	kp_io_prepare(&io, KP_OP_WRITE, recorder->file, 8192, data, 4096);
	kp_submit(recorder->pl, &io);
	pthread_create(&thread, NULL, submit_foreign, recorder);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(recorder->nr, 2);
	kp_commit(recorder->pl);
	ck_assert_uint_eq(recorder->nr, 3);
	ck_assert_int_eq(kp_reap(recorder->pl, 3, 3, NULL), 3);
	free_recorder(recorder);
}
END_TEST

START_TEST(kernels)
{
	static const char *const table[][2] = {
		{ "4.2", "4.9" },	  { "4.9.300", "4.9" },	     { "4.10", "4.10" },
		{ "4.11", "4.15" },	  { "5.10", "4.15" },	     { "5.10.79", "4.15" },
		{ "5.10.80", "5.10.80" }, { "5.10.223", "5.10.80" }, { "5.11", "4.15" },
		{ "5.15", "4.15" },	  { "5.15.2", "4.15" },	     { "5.15.119", "5.15.3" },
		{ "5.16", "6.1" },	  { "6.12", "6.1" },	     { "6.12.117", "6.12.35" },
		{ "6.13", "6.13" },	  { "6.15.1", "6.13" },	     { "6.19", "6.16" },
		{ "7.3", "6.16" },
	};
	const struct kp_variant *found;
	char why[256];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_int_eq(kp_policy_find(&kp_plug_policy, NULL, table[i][0], &found, why,
						sizeof(why)),
				 0);
		ck_assert_str_eq(found->name, table[i][1]);
	}
	ck_assert_int_eq(kp_policy_find(&kp_plug_policy, "none", NULL, &found, why, sizeof(why)),
			 0);
	ck_assert_ptr_null(found);
	ck_assert_int_eq(kp_policy_find(&kp_plug_policy, "5", NULL, &found, why, sizeof(why)),
			 -ENOENT);
	ck_assert_str_eq(
		why, "plug=5: plug has no such variant, give one of: 4.9, 4.10, 5.10.80, 5.15.3, "
		     "4.15, 6.12.35, 6.1, 6.13, 6.16, none");
}
END_TEST

/* Tests of the request that was made last; 6.13 has only its first one joined. */
#define add_newest(tcase, test)                                       \
	do {                                                          \
		tcase_add_loop_test(tcase, test, 0, V6_13);           \
		tcase_add_loop_test(tcase, test, V6_16, NR_VARIANTS); \
	} while (0)

int main(void)
{
	Suite *suite = suite_create("plug");
	TCase *tcase = tcase_create("plug");
	SRunner *runner;
	int failed;

	add_newest(tcase, request_sizes);
	tcase_add_loop_test(tcase, segments_add_up, 0, NR_VARIANTS);
	add_newest(tcase, chunk_boundary);
	tcase_add_loop_test(tcase, full_is_full, 0, NR_VARIANTS);
	add_newest(tcase, virtual_boundary);
	tcase_add_loop_test(tcase, who_may_join, 0, NR_VARIANTS);
	add_newest(tcase, nomerge);
	tcase_add_loop_test(tcase, older_or_newest, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, several_queues, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, many_requests, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, many_requests_of_several_queues, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, large_request, 0, V6_13);
	tcase_add_loop_test(tcase, large_oldest, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, contiguous_bios, 0, NR_VARIANTS);
	tcase_add_test(tcase, segments_of_a_bio);
	tcase_add_loop_test(tcase, against_reference, 0, NR_VARIANTS);
	add_newest(tcase, stage_requests);
	tcase_add_loop_test(tcase, stage_sync, 0, NR_VARIANTS);
	tcase_add_loop_test(tcase, stage_other_thread, 0, NR_VARIANTS);
	tcase_add_test(tcase, kernels);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
