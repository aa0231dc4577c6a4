// SPDX-License-Identifier: GPL-2.0-only
/*
 * The split policy against references that share no code with it: they ask, from scratch and for
 * every possible length, 'may this be one request?', and take the longest one.
 */
#include "policy/split.h"
#include "unit.h"

#define MAX_REQUESTS 8192
#define PAGE	     KP_PAGE_SIZE
#define SECTOR	     KP_SECTOR_SIZE

struct request {
	uint64_t pos, size;
	bool nomerge;
};

struct requests {
	struct request list[MAX_REQUESTS];
	unsigned int nr;
};

/* ---- a device that writes down what it gets ------------------------------------------------ */

struct recorder {
	struct kp_stage stage;
	struct requests seen;
	const char *buffer; /* of the one I/O in flight */
	uint64_t pos, size;
	struct kp_bio *held; /* ended later, the newest first */
	bool hold;
	/* Of the largest request seen. */
	unsigned int max_segments;
};

static struct recorder recorder;

static void record(struct kp_stage *stage, struct kp_bio *bio)
{
	struct request *request = &recorder.seen.list[recorder.seen.nr++];
	struct kp_segment segment;
	struct kp_iter iter;
	unsigned int segments = 0;

	(void)stage;
	ck_assert_uint_le(recorder.seen.nr, MAX_REQUESTS);
	ck_assert_ptr_null(bio->next);
	*request =
		(struct request){ bio->iter.pos, bio->iter.size, !!(bio->flags & KP_BIO_NOMERGE) };
	/* Every byte comes from where its position says. */
	kp_for_each_segment (segment, bio->vec, iter, bio->iter) {
		ck_assert_uint_gt(segment.len, 0);
		ck_assert_ptr_eq(segment.addr, recorder.buffer + (iter.pos - recorder.pos));
		segments++;
	}
	recorder.max_segments = kp_max(recorder.max_segments, segments);
	if (!recorder.hold) {
		kp_bio_endio(bio);
		return;
	}
	bio->next = recorder.held;
	recorder.held = bio;
}

static const struct kp_stage_ops recorder_ops = { .name = "recorder", .submit = record };

static void end_held(void)
{
	while (recorder.held) {
		struct kp_bio *bio = recorder.held;

		recorder.held = bio->next;
		bio->next = NULL;
		kp_bio_endio(bio);
	}
}

static void begin(struct unit *unit, const char *variant, uint64_t max_io_size, bool adjacent)
{
	unit_init(unit, "null");
	unit->split.adjacent_pages = adjacent;
	unit_add_split(unit, variant);
	unit->config.depth = 64;
	unit->config.max_io_size = max_io_size;
	unit->config.device.limits.max_sectors_kb = 4; /* pools for the smallest fragments */
	unit_start(unit);
	memset(&recorder, 0, sizeof(recorder));
	recorder.stage.ops = &recorder_ops;
	recorder.stage.pipeline = unit->pl;
	recorder.stage.index = unit->pl->first->index + 1;
	unit->pl->first->next = &recorder.stage;
}

/* Push one I/O through the stage; what came out is in recorder.seen. */
static void push(struct unit *unit, struct kp_file *file, uint64_t pos, char *buffer, size_t size)
{
	struct kp_io io;

	recorder.seen.nr = 0;
	recorder.max_segments = 0;
	recorder.buffer = buffer;
	recorder.pos = pos;
	recorder.size = size;
	kp_io_prepare(&io, KP_OP_READ, file, pos, buffer, size);
	ck_assert_int_eq(kp_submit(unit->pl, &io), 0);
	if (recorder.hold) {
		ck_assert_int_eq(kp_reap(unit->pl, 0, 1, NULL), 0);
		end_held();
	}
	ck_assert_int_eq(kp_reap(unit->pl, 0, 1, NULL), 1);
	ck_assert_int_eq(kp_io_error(&io), 0);
}

/* ---- the references ------------------------------------------------------------------------ */

/* What a reference knows of an I/O: vector entries, as pages or as joined pages. */
struct entries {
	struct kp_segment list[1024];
	unsigned int nr;
};

struct question {
	const struct kp_queue_limits *limits;
	bool adjacent;
	uint64_t pos;
	const struct kp_segment *entries;
	unsigned int nr;
};

static void cut_pages(struct entries *entries, char *buffer, size_t size, bool join)
{
	entries->nr = 0;
	for (size_t at = 0; at < size;) {
		size_t len = PAGE - (uintptr_t)(buffer + at) % PAGE;

		len = kp_min(len, size - at);
		if (join && entries->nr)
			entries->list[0].len += len;
		else
			entries->list[entries->nr++] = (struct kp_segment){ buffer + at, len };
		at += len;
	}
}

static bool same_window(const struct kp_queue_limits *limits, uintptr_t first, uintptr_t last)
{
	return (first & ~limits->seg_boundary_mask) == (last & ~limits->seg_boundary_mask);
}

/* Device segments of whole entries, as blk_recount_segments() of 4.3 counts them. */
static unsigned int count_device_segments(const struct question *q, unsigned int nr)
{
	unsigned int segments = 0;
	size_t size = 0;

	for (unsigned int i = 0; i < nr; i++) {
		const struct kp_segment *entry = &q->entries[i];
		const struct kp_segment *before = entry - 1;
		bool joins = i && q->adjacent &&
			     (char *)before->addr + before->len == entry->addr &&
			     size + entry->len <= q->limits->max_segment_size &&
			     same_window(q->limits, (uintptr_t)before->addr,
					 (uintptr_t)entry->addr + entry->len - 1);

		if (!joins) {
			segments++;
			size = 0;
		}
		size += entry->len;
	}
	return segments;
}

static bool has_gap(const struct question *q, unsigned int nr)
{
	uint64_t mask = q->limits->virt_boundary_mask;

	for (unsigned int i = 1; i < nr; i++) {
		const struct kp_segment *before = &q->entries[i - 1];

		if (((uintptr_t)before->addr + before->len) & mask ||
		    (uintptr_t)q->entries[i].addr & mask)
			return true;
	}
	return false;
}

static uint64_t bytes_of(const struct question *q, unsigned int nr)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < nr; i++)
		bytes += q->entries[i].len;
	return bytes;
}

static bool fits(const struct question *q, unsigned int nr, uint64_t max)
{
	return bytes_of(q, nr) <= max && !has_gap(q, nr) &&
	       count_device_segments(q, nr) <= q->limits->max_segments;
}

/* 4.2 and 4.3: whole entries only; an entry that is larger than a request is cut at the limit. */
static uint64_t reference_4_3(const struct question *q)
{
	uint64_t max = (uint64_t)q->limits->max_sectors * SECTOR;
	unsigned int nr = 0;

	while (nr < q->nr && fits(q, nr + 1, max))
		nr++;
	return nr ? bytes_of(q, nr) : max;
}

/* 4.9: a chunk in the place of max_sectors, and a cut within an entry where the request is full. */
static uint64_t reference_4_9(const struct question *q)
{
	uint64_t sector = q->pos / SECTOR, max = q->limits->max_sectors;
	unsigned int nr = 0;

	if (q->limits->chunk_sectors) {
		max = 1;
		while ((sector + max) % q->limits->chunk_sectors)
			max++;
	}
	while (max * SECTOR % q->limits->logical_block_size)
		max--;
	max *= SECTOR;
	while (nr < q->nr && fits(q, nr + 1, max))
		nr++;
	if (nr < q->nr && !has_gap(q, nr + 1) && bytes_of(q, nr + 1) > max &&
	    bytes_of(q, nr) < max && count_device_segments(q, nr) < q->limits->max_segments)
		return max;
	/* Not even one logical block: the kernel lets the first entry through. */
	return nr ? bytes_of(q, nr) : q->entries[0].len;
}

/* 4.14: the same with the smaller of the two */
static uint64_t reference_4_14(const struct question *q)
{
	uint64_t sector = q->pos / SECTOR, max = 0;
	struct kp_queue_limits limits = *q->limits;
	struct question small = *q;

	while (max < limits.max_sectors &&
	       !(max && limits.chunk_sectors && (sector + max) % limits.chunk_sectors == 0))
		max++;
	limits.max_sectors = max;
	limits.chunk_sectors = 0;
	small.limits = &limits;
	return reference_4_9(&small);
}

/* 5.4: how many sectors, by trying them all */
static uint64_t sectors_5_4(const struct question *q)
{
	uint64_t sector = q->pos / SECTOR, best = 0;
	uint64_t physical = q->limits->physical_block_size / SECTOR;
	uint64_t logical = q->limits->logical_block_size / SECTOR;
	uint64_t most;

	for (most = 0; most < q->limits->max_sectors; most++) {
		if (most && q->limits->chunk_sectors &&
		    (sector + most) % q->limits->chunk_sectors == 0)
			break;
	}
	for (uint64_t n = 1; n <= most; n++) {
		if ((sector + n) % physical == 0)
			best = n;
	}
	for (uint64_t n = 1; !best && n <= most; n++) {
		if (n % logical == 0 && n + logical > most)
			best = n;
	}
	return best;
}

/* 5.4: sector by sector; a device segment ends where it is full, at a boundary or with its entry. */
static uint64_t reference_5_4(const struct question *q)
{
	const struct kp_queue_limits *limits = q->limits;
	uint64_t max = sectors_5_4(q) * SECTOR, taken = 0;
	unsigned int segments = 0;

	for (unsigned int i = 0; i < q->nr; i++) {
		uintptr_t addr = (uintptr_t)q->entries[i].addr;
		size_t in_segment = 0;

		if (has_gap(q, i + 1))
			return taken;
		for (size_t at = 0; at < q->entries[i].len; at += SECTOR) {
			bool full = in_segment == limits->max_segment_size ||
				    (in_segment && !same_window(limits, addr + at - 1, addr + at));

			if (taken == max)
				return taken;
			if (full && (addr + at) & limits->virt_boundary_mask)
				return taken;
			if (!at || full) {
				if (segments == limits->max_segments)
					return taken;
				segments++;
				in_segment = 0;
			}
			in_segment += SECTOR;
			taken += SECTOR;
		}
	}
	return taken;
}

struct reference {
	const char *variant;
	uint64_t (*front)(const struct question *q);
	bool builds, multi_page, nomerge, rounds;
};

static const struct reference references[] = {
	{ "build", reference_4_3, .builds = true },
	{ "clone", .front = reference_4_3 },
	{ "fast", .front = reference_4_3 },
	{ "4.9", reference_4_9, .nomerge = true },
	{ "4.14", reference_4_14, .nomerge = true },
	{ "5.4", reference_5_4, .nomerge = true, .multi_page = true },
	{ "6.1", reference_5_4, .nomerge = true, .multi_page = true, .rounds = true },
};

#define NR_REFERENCES (sizeof(references) / sizeof(*references))

/* Drop @bytes at the front. */
static void consume(struct question *q, struct entries *entries, uint64_t bytes)
{
	q->pos += bytes;
	while (bytes) {
		struct kp_segment *first = &entries->list[entries->nr - q->nr];
		size_t len = kp_min(bytes, first->len);

		first->addr = (char *)first->addr + len;
		first->len -= len;
		bytes -= len;
		if (!first->len)
			q->nr--;
	}
	q->entries = &entries->list[entries->nr - q->nr];
}

/* What should come out of an I/O, and how many vector entries are copied on the way. */
static uint64_t expect(const struct reference *reference, const struct kp_queue_limits *limits,
		       bool adjacent, uint64_t pos, char *buffer, size_t size,
		       struct requests *requests)
{
	uint64_t copies = 0;

	requests->nr = 0;
	while (size) {
		/* One bio: at most 256 pages. */
		static struct entries entries;
		size_t room = 256 * PAGE - (uintptr_t)buffer % PAGE;
		size_t bio_size = kp_min(size, room);
		struct question q = { .limits = limits, .adjacent = adjacent, .pos = pos };

		cut_pages(&entries, buffer, reference->builds ? size : bio_size,
			  adjacent && reference->multi_page);
		q.entries = entries.list;
		q.nr = entries.nr;
		if (reference->builds) {
			/* bio_get_nr_vecs() of 4.2 */
			unsigned int fit =
				kp_min(limits->max_sectors / 8 + 1, limits->max_segments);

			q.nr = kp_min(q.nr, kp_min(fit, 256u));
			bio_size = reference->front(&q);
			requests->list[requests->nr++] = (struct request){ pos, bio_size, false };
		}
		while (!reference->builds && q.nr) {
			uint64_t left = pos + bio_size - q.pos;
			uint64_t front = reference->front(&q);
			bool last = front == left;

			if (reference->rounds && !last)
				front -= front % limits->logical_block_size;
			ck_assert_msg(front, "no front: pos=%lu addr=%p len=%zu nr=%u max=%lu",
				      q.pos, q.entries[0].addr, q.entries[0].len, q.nr,
				      sectors_5_4(&q));
			if (!last)
				copies += q.nr;
			requests->list[requests->nr++] =
				(struct request){ q.pos, front, reference->nomerge && !last };
			consume(&q, &entries, front);
		}
		pos += bio_size;
		buffer += bio_size;
		size -= bio_size;
	}
	return copies;
}

static void compare(const struct requests *got, const struct requests *wanted, const char *what)
{
	for (unsigned int i = 0; i < kp_min(got->nr, wanted->nr); i++) {
		const struct request *g = &got->list[i], *w = &wanted->list[i];

		ck_assert_msg(g->pos == w->pos && g->size == w->size && g->nomerge == w->nomerge,
			      "%s: request %u is %lu+%lu%s, wanted %lu+%lu%s", what, i, g->pos,
			      g->size, g->nomerge ? " nomerge" : "", w->pos, w->size,
			      w->nomerge ? " nomerge" : "");
	}
	ck_assert_msg(got->nr == wanted->nr, "%s: %u requests, wanted %u", what, got->nr,
		      wanted->nr);
}

/* ---- random comparison --------------------------------------------------------------------- */

static uint32_t one_of(const uint32_t *values, unsigned int nr)
{
	return values[unit_between(0, nr - 1)];
}

#define ONE_OF(...)                               \
	one_of((const uint32_t[]){ __VA_ARGS__ }, \
	       sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void random_limits(struct kp_queue_limits *limits)
{
	uint32_t block;

	kp_limits_default(limits);
	limits->logical_block_size = ONE_OF(512, 512, 512, 1024, 4096);
	limits->physical_block_size = limits->logical_block_size
				      << unit_between(0, unit_between(0, 1) ? 6 : 0);
	block = limits->logical_block_size / SECTOR;
	limits->max_sectors = unit_between(8, unit_between(0, 1) ? 64 : 600);
	limits->max_sectors = kp_max(limits->max_sectors, block);
	limits->max_segments = ONE_OF(1, 2, 3, 7, 33, 128, 256);
	limits->max_segment_size = ONE_OF(4096, 4608, 12288, 65536);
	/* A device whose segments hold no whole blocks would have them cut within a block. */
	limits->max_segment_size =
		kp_round_down(limits->max_segment_size, limits->logical_block_size);
	limits->chunk_sectors = ONE_OF(0, 0, 8, 24, 64, 256, 1000);
	limits->seg_boundary_mask = ONE_OF(0xffff, 0xfff, 0xffffffff, 0xffffffff);
	limits->virt_boundary_mask = ONE_OF(0, 0, 0, 511, 4095);
}

static void check_within_limits(const struct kp_queue_limits *limits, const char *variant)
{
	bool chunk_replaces = !strcmp(variant, "4.9");
	bool knows_chunk = chunk_replaces || !strcmp(variant, "4.14") || variant[0] == '5' ||
			   variant[0] == '6';

	for (unsigned int i = 0; i < recorder.seen.nr; i++) {
		const struct request *request = &recorder.seen.list[i];
		uint64_t start = request->pos / SECTOR;
		uint64_t last = start + request->size / SECTOR - 1;
		uint32_t chunk = knows_chunk ? limits->chunk_sectors : 0;

		if (!chunk || !chunk_replaces)
			ck_assert_uint_le(request->size / SECTOR, limits->max_sectors);
		if (chunk)
			ck_assert_uint_eq(start / chunk, last / chunk);
	}
}

/* No byte lost, none twice; record() has looked at where each comes from. */
static void check_whole(const char *what)
{
	uint64_t at = recorder.pos;

	for (unsigned int i = 0; i < recorder.seen.nr; i++) {
		ck_assert_msg(recorder.seen.list[i].pos == at, "%s: a hole before %u", what, i);
		at += recorder.seen.list[i].size;
	}
	ck_assert_msg(at == recorder.pos + recorder.size, "%s: not all of it", what);
}

/* Requests that are not the last of a bio of 256 pages. */
static unsigned int count_splits(const struct requests *requests, uint64_t pos, uintptr_t buffer)
{
	uint64_t first = 256 * PAGE - buffer % PAGE;
	unsigned int splits = 0;

	for (unsigned int i = 0; i + 1 < requests->nr; i++) {
		uint64_t end = requests->list[i].pos + requests->list[i].size - pos;

		splits += end < first || (end - first) % (256 * PAGE);
	}
	return splits;
}

/* Loop index: a reference, twice, without and with adjacent pages. */
START_TEST(against_reference)
{
	enum { ROUNDS = 1200, LARGEST = 600 * 4096 };
	const struct reference *reference = &references[_i / 2];
	char *memory = unit_memory(LARGEST + PAGE);
	static struct requests wanted;
	bool adjacent = _i % 2;
	struct unit unit;
	struct kp_file *file;

	unit_seed = 4711 + _i;
	begin(&unit, reference->variant, LARGEST, adjacent);
	file = unit_open(&unit, "model", O_RDWR);
	recorder.hold = true;
	for (int round = 0; round < ROUNDS; round++) {
		struct kp_queue_limits *limits = &file->limits;
		uint64_t copied = unit_counter(&unit, KP_VECS_COPIED);
		uint64_t splits = unit_counter(&unit, KP_SPLITS);
		uint64_t pos, copies, size, offset = 0;
		char what[300];

		random_limits(limits);
		/* Direct I/O of these kernels wants position, length and memory in logical blocks. */
		size = unit_between(1, unit_between(0, 9) ? 300 : LARGEST / SECTOR) * SECTOR;
		size = kp_min(kp_round_up(size, limits->logical_block_size), LARGEST);
		pos = unit_between(0, 100000) * limits->logical_block_size;
		if (unit_between(0, 1))
			offset = unit_between(0, PAGE / limits->logical_block_size - 1) *
				 limits->logical_block_size;
		snprintf(
			what, sizeof(what),
			"%s, round %d: pos=%lu offset=%lu size=%lu lbs=%u pbs=%u max_sectors=%u "
			"max_segments=%u max_segment_size=%u chunk=%u seg=%lx virt=%lx adjacent=%d",
			reference->variant, round, pos, offset, size, limits->logical_block_size,
			limits->physical_block_size, limits->max_sectors, limits->max_segments,
			limits->max_segment_size, limits->chunk_sectors, limits->seg_boundary_mask,
			limits->virt_boundary_mask, adjacent);
		copies = expect(reference, limits, adjacent, pos, memory + offset, size, &wanted);
		push(&unit, file, pos, memory + offset, size);
		compare(&recorder.seen, &wanted, what);
		check_whole(what);
		check_within_limits(limits, reference->variant);
		copied = unit_counter(&unit, KP_VECS_COPIED) - copied;
		splits = unit_counter(&unit, KP_SPLITS) - splits;
		ck_assert_msg(copied == (strcmp(reference->variant, "clone") ? 0 : copies),
			      "%s: %lu copied, wanted %lu", what, copied, copies);
		ck_assert_msg(splits == count_splits(&wanted, pos, (uintptr_t)memory + offset) ||
				      reference->builds,
			      "%s: %lu splits", what, splits);
		if (reference->builds)
			ck_assert_uint_eq(splits, 0);
	}
	unit_exit(&unit);
}
END_TEST

/* ---- worked values ------------------------------------------------------------------------- */

/* Push one I/O with the given limits; the requests are in recorder.seen. */
struct worked {
	struct unit unit;
	struct kp_file *file;
	char *memory;
};

static void worked_begin(struct worked *worked, const char *variant)
{
	begin(&worked->unit, variant, 2 * MIB, false);
	worked->file = unit_open(&worked->unit, "model", O_RDWR);
	worked->file->limits.max_sectors = 2560;
	worked->memory = unit_memory(2 * MIB + PAGE);
}

static void check_sizes(const char *variant, const uint64_t *sizes, unsigned int nr)
{
	for (unsigned int i = 0; i < nr && i < recorder.seen.nr; i++)
		ck_assert_msg(recorder.seen.list[i].size == sizes[i],
			      "%s: request %u is %lu bytes, wanted %lu", variant, i,
			      recorder.seen.list[i].size, sizes[i]);
	ck_assert_msg(recorder.seen.nr == nr, "%s: %u requests, wanted %u", variant,
		      recorder.seen.nr, nr);
}

#define SIZES(variant, ...)                                     \
	check_sizes(variant, (const uint64_t[]){ __VA_ARGS__ }, \
		    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* Seed 5: 1 MiB in requests of 16 KiB. */
START_TEST(seed_case)
{
	const struct reference *reference = &references[_i];
	struct worked worked;

	worked_begin(&worked, reference->variant);
	worked.file->limits.max_sectors = 32;
	push(&worked.unit, worked.file, 0, worked.memory, MIB);
	ck_assert_uint_eq(recorder.seen.nr, 64);
	ck_assert_uint_eq(unit_counter(&worked.unit, KP_SPLITS), reference->builds ? 0 : 63);
	ck_assert_uint_eq(unit_counter(&worked.unit, KP_VECS_COPIED),
			  strcmp(reference->variant, "clone") ? 0 : 8316);
	unit_exit(&worked.unit);
}
END_TEST

/* 33 sectors: whole pages up to 4.3, a cut within a page from 4.9 on. */
START_TEST(odd_max_sectors)
{
	const struct reference *reference = &references[_i];
	const char *variant = reference->variant;
	struct worked worked;

	worked_begin(&worked, variant);
	worked.file->limits.max_sectors = 33;
	push(&worked.unit, worked.file, 0, worked.memory, 48 * KIB);
	if (!reference->nomerge)
		SIZES(variant, 16384, 16384, 16384);
	else
		SIZES(variant, 33 * 512, 33 * 512, 30 * 512);
	unit_exit(&worked.unit);
}
END_TEST

/* Physical 4 KiB over logical 512: 5.4 and later end on a physical block. */
START_TEST(physical_block)
{
	const struct reference *reference = &references[_i];
	const char *variant = reference->variant;
	struct worked worked;

	worked_begin(&worked, variant);
	worked.file->limits.max_sectors = 36; /* 4.5 physical blocks */
	worked.file->limits.physical_block_size = 4096;
	push(&worked.unit, worked.file, 512, worked.memory, 40 * KIB);
	if (!reference->nomerge)
		SIZES(variant, 16384, 16384, 8192);
	else if (!reference->multi_page)
		SIZES(variant, 36 * 512, 36 * 512, 8 * 512);
	else
		SIZES(variant, 31 * 512, 32 * 512, 17 * 512);
	/* No physical block ends within reach: whole logical blocks. */
	worked.file->limits.max_sectors = 9;
	worked.file->limits.physical_block_size = 16384;
	push(&worked.unit, worked.file, 512, worked.memory, 8 * KIB);
	if (reference->multi_page)
		SIZES(variant, 9 * 512, 7 * 512);
	unit_exit(&worked.unit);
}
END_TEST

/* A chunk of 64 KiB: unknown up to 4.3, in the place of max_sectors in 4.9, the smaller later. */
START_TEST(chunk)
{
	const struct reference *reference = &references[_i];
	const char *variant = reference->variant;
	struct worked worked;

	worked_begin(&worked, variant);
	worked.file->limits.max_sectors = 64;
	worked.file->limits.chunk_sectors = 128;
	push(&worked.unit, worked.file, 60 * KIB, worked.memory, 100 * KIB);
	if (!reference->nomerge)
		SIZES(variant, 32 * KIB, 32 * KIB, 32 * KIB, 4 * KIB);
	else if (!strcmp(variant, "4.9"))
		SIZES(variant, 4 * KIB, 64 * KIB, 32 * KIB);
	else
		SIZES(variant, 4 * KIB, 32 * KIB, 32 * KIB, 32 * KIB);
	unit_exit(&worked.unit);
}
END_TEST

START_TEST(max_segments)
{
	const char *variant = references[_i].variant;
	struct worked worked;

	worked_begin(&worked, variant);
	worked.file->limits.max_segments = 3;
	push(&worked.unit, worked.file, 0, worked.memory, 28 * KIB);
	SIZES(variant, 12 * KIB, 12 * KIB, 4 * KIB);
	ck_assert_uint_eq(recorder.max_segments, 3);
	unit_exit(&worked.unit);
}
END_TEST

/* A device that takes no gaps, and a buffer that begins within a page. */
START_TEST(virt_boundary)
{
	const char *variant = references[_i].variant;
	struct worked worked;

	worked_begin(&worked, variant);
	worked.file->limits.virt_boundary_mask = 4095;
	push(&worked.unit, worked.file, 0, worked.memory + 512, 16 * KIB);
	SIZES(variant, 16 * KIB); /* pages that adjoin: no gap inside */
	unit_exit(&worked.unit);
}
END_TEST

/* A vector with real gaps, straight into the pure function. */
START_TEST(virt_boundary_gaps)
{
	struct worked worked;
	char *memory;
	const struct kp_variant *variant;

	worked_begin(&worked, "fast");
	memory = worked.memory;
	worked.file->limits.virt_boundary_mask = 4095;
	for (unsigned int i = 1; i < NR_REFERENCES; i++) {
		const struct kp_segment vec[] = {
			{ memory, 4096 },
			{ memory + 8192, 4096 },
			{ memory + 16384, 512 }, /* ends within a page */
			{ memory + 20480, 4096 },
		};
		struct kp_bio bio = { .vec = vec, .nr_vecs = 4, .iter.size = 12800 };

		variant = kp_policy_variant(&kp_split_policy, i);
		ck_assert_str_eq(variant->name, references[i].variant);
		ck_assert_int_eq(kp_split_front(variant, &worked.file->limits, &bio, false), 8704);
	}
	unit_exit(&worked.unit);
}
END_TEST

/* More than 256 pages are several bios, each cut for itself. */
START_TEST(large_io)
{
	const struct reference *reference = &references[_i];
	struct worked worked;

	worked_begin(&worked, reference->variant);
	worked.file->limits.max_sectors = 100000;
	worked.file->limits.max_segments = 1000;
	push(&worked.unit, worked.file, 0, worked.memory + 512, 2 * MIB - 4096);
	SIZES(reference->variant, MIB - 512, MIB - 4096 + 512);
	ck_assert_uint_eq(unit_counter(&worked.unit, KP_SPLITS), 0);
	unit_exit(&worked.unit);
}
END_TEST

/* A bio that has pages already, as a page cache makes them, stays one bio. */
START_TEST(vector_of_pages)
{
	const struct reference *reference = &references[_i];
	struct kp_segment vec[256];
	struct worked worked;
	struct kp_io io;

	worked_begin(&worked, reference->variant);
	for (int i = 0; i < 256; i++) /* far from each other, in reverse */
		vec[i] = (struct kp_segment){ worked.memory + (255 - i) * 8192, 4096 };
	worked.file->limits.max_sectors = 512;
	worked.file->limits.max_segments = 256;
	kp_io_prepare(&io, KP_OP_READ, worked.file, 0, NULL, MIB);
	io.bio.vec = vec;
	io.bio.nr_vecs = 256;
	worked.unit.pl->first->next = worked.unit.pl->stages[1];
	ck_assert_int_eq(kp_submit_wait(worked.unit.pl, &io), 0);
	ck_assert_uint_eq(unit_counter(&worked.unit, KP_BIOS), 4);
	ck_assert_uint_eq(unit_counter(&worked.unit, KP_SPLITS), reference->builds ? 0 : 3);
	unit_exit(&worked.unit);
}
END_TEST

/* ---- data and errors through the whole pipeline -------------------------------------------- */

/* Contents survive, whatever the limits, segments of any size and position. */
START_TEST(contents)
{
	enum { SIZE = 1024 * 1024 };
	char *data = unit_memory(SIZE + PAGE), *back = unit_memory(SIZE + PAGE);
	struct unit unit;
	struct kp_file *file;
	struct kp_io io;

	unit_init(&unit, "null");
	unit_add_split(&unit, references[_i].variant);
	unit_start(&unit);
	file = unit_open(&unit, "model", O_RDWR);
	for (int round = 0; round < 200; round++) {
		uint64_t pos = unit_between(0, 1000) * 4096, size = unit_between(1, 250) * 4096;

		random_limits(&file->limits);
		file->limits.chunk_sectors = kp_round_down(file->limits.chunk_sectors, 8);
		unit_fill(data, 64);
		for (uint64_t at = 0; at < size; at += 4096) {
			uint64_t mark = unit_random();

			memcpy(data + at, &mark, sizeof(mark));
			memcpy(data + at + 4088, &mark, sizeof(mark));
		}
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_WRITE, file, pos, data, size), 0);
		memset(back, 0x55, size);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, pos, back, size), 0);
		ck_assert_mem_eq(back, data, size);
	}
	unit_exit(&unit);
}
END_TEST

/* One bad sector, in whichever fragment: the I/O that has it fails, no other. */
START_TEST(bad_sector_in_any_fragment)
{
	const char *variant = references[_i].variant;
	char *data = unit_memory(64 * KIB);
	char bad[32];

	for (unsigned int sector = 128; sector < 256; sector += 4) {
		struct unit unit;
		struct kp_file *file;
		struct kp_io io;

		snprintf(bad, sizeof(bad), "%u", sector);
		unit_init(&unit, "null");
		unit_add_split(&unit, variant);
		unit.config.device.limits.max_sectors_kb = 4;
		unit.config.device.null.badblocks = bad;
		unit.config.device.null.read_nsec = sector % 8 ? 0 : 1000;
		unit_start(&unit);
		file = unit_open(&unit, "model", O_RDWR);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, 0, data, 64 * KIB), 0);
		ck_assert_msg(unit_io(&unit, &io, KP_OP_READ, file, 64 * KIB, data, 64 * KIB) ==
				      -EIO,
			      "%s: bad sector %u not seen", variant, sector);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, file, 128 * KIB, data, 64 * KIB),
				 0);
		unit_exit(&unit);
	}
}
END_TEST

/* Not even a logical block fits: an error, no endless loop. */
START_TEST(nothing_fits)
{
	const struct reference *reference = &references[_i];
	struct unit unit;
	struct kp_file *file;
	struct kp_io io;
	int ret;

	unit_init(&unit, "null");
	unit_add_split(&unit, reference->variant);
	unit_start(&unit);
	file = unit_open(&unit, "model", O_RDWR);
	file->limits.logical_block_size = file->limits.physical_block_size = 4096;
	file->limits.max_sectors = 7;
	ret = unit_io(&unit, &io, KP_OP_READ, file, 0, unit_memory(64 * KIB), 64 * KIB);
	ck_assert_int_eq(ret, reference->multi_page ? -EINVAL : 0);
	unit_exit(&unit);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("split");
	TCase *tcase = tcase_create("split");
	const int nr = NR_REFERENCES;

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, against_reference, 0, 2 * nr);
	tcase_add_loop_test(tcase, seed_case, 0, nr);
	tcase_add_loop_test(tcase, odd_max_sectors, 0, nr);
	tcase_add_loop_test(tcase, physical_block, 0, nr);
	tcase_add_loop_test(tcase, chunk, 0, nr);
	tcase_add_loop_test(tcase, max_segments, 0, nr);
	tcase_add_loop_test(tcase, virt_boundary, 0, nr);
	tcase_add_test(tcase, virt_boundary_gaps);
	tcase_add_loop_test(tcase, large_io, 0, nr);
	tcase_add_loop_test(tcase, vector_of_pages, 0, nr);
	tcase_add_loop_test(tcase, contents, 0, nr);
	tcase_add_loop_test(tcase, bad_sector_in_any_fragment, 0, nr);
	tcase_add_loop_test(tcase, nothing_fits, 0, nr);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
