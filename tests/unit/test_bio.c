// SPDX-License-Identifier: GPL-2.0-only
/* Bios: the iterator against a walk byte by byte, chains, pools that run dry. */
#include "unit.h"

#define MAX_SEGMENTS 16

/* A vector over one array of bytes, each byte known by its address. */
struct vector {
	struct kp_segment segments[MAX_SEGMENTS];
	unsigned int nr;
	uint64_t size;
	char *bytes[MAX_SEGMENTS * 64]; /* the address of every byte */
};

static char memory[MAX_SEGMENTS * 128];

static void random_vector(struct vector *vector)
{
	vector->nr = unit_between(1, MAX_SEGMENTS);
	vector->size = 0;
	for (unsigned int i = 0; i < vector->nr; i++) {
		size_t len = unit_between(1, 64);

		vector->segments[i] = (struct kp_segment){ memory + i * 128, len };
		for (size_t j = 0; j < len; j++)
			vector->bytes[vector->size++] = memory + i * 128 + j;
	}
}

/* The segments from @iter on name the bytes @from to @to, in order. */
static void check_segments(const struct vector *vector, const struct kp_iter *start, uint64_t from,
			   uint64_t to)
{
	struct kp_segment segment;
	struct kp_iter iter;

	kp_for_each_segment (segment, vector->segments, iter, *start) {
		ck_assert_uint_gt(segment.len, 0);
		for (size_t i = 0; i < segment.len; i++)
			ck_assert_ptr_eq((char *)segment.addr + i, vector->bytes[from++]);
		ck_assert_uint_le(from, to);
	}
	ck_assert_uint_eq(from, to);
}

START_TEST(iterator)
{
	for (int round = 0; round < 1000; round++) {
		struct vector vector;
		struct kp_iter iter = { .pos = unit_between(0, 1 << 20) };
		uint64_t start = iter.pos, at = 0;

		random_vector(&vector);
		iter.size = vector.size;
		while (at < vector.size) {
			uint64_t size = unit_between(1, vector.size - at);
			struct kp_iter piece = iter;

			piece.size = size;
			check_segments(&vector, &piece, at, at + size);
			check_segments(&vector, &iter, at, vector.size);
			kp_iter_advance(vector.segments, &iter, size);
			at += size;
			ck_assert_uint_eq(iter.pos, start + at);
			ck_assert_uint_eq(iter.size, vector.size - at);
		}
	}
}
END_TEST

START_TEST(advance_at_boundaries)
{
	char a[8], b[8];
	const struct kp_segment vec[] = { { a, 8 }, { b, 8 } };
	struct kp_iter iter = { .pos = 100, .size = 16 };

	kp_iter_advance(vec, &iter, 0);
	ck_assert_uint_eq(iter.idx, 0);
	kp_iter_advance(vec, &iter, 8);
	ck_assert_uint_eq(iter.idx, 1);
	ck_assert_uint_eq(iter.done, 0);
	ck_assert_ptr_eq(kp_iter_segment(vec, &iter).addr, b);
	kp_iter_advance(vec, &iter, 3);
	ck_assert_ptr_eq(kp_iter_segment(vec, &iter).addr, b + 3);
	ck_assert_uint_eq(kp_iter_segment(vec, &iter).len, 5);
	kp_iter_advance(vec, &iter, 5);
	ck_assert_uint_eq(iter.size, 0);
	ck_assert_uint_eq(iter.pos, 116);
}
END_TEST

START_TEST(vector_classes)
{
	static const unsigned int table[][2] = { { 1, 1 },     { 2, 4 },    { 4, 4 },
						 { 5, 16 },    { 16, 16 },  { 17, 64 },
						 { 64, 64 },   { 65, 128 }, { 128, 128 },
						 { 129, 256 }, { 256, 256 } };

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		ck_assert_uint_eq(kp_vec_class_size[kp_vec_class(table[i][0])], table[i][1]);
}
END_TEST

/* ---- chains -------------------------------------------------------------------------------- */

struct chain {
	struct unit unit;
	struct kp_stage stage;
	struct kp_bio_set set;
	struct kp_bio top;
	unsigned int ended;
};

static void top_end_io(struct kp_bio *bio)
{
	struct chain *chain = bio->private;

	chain->ended++;
}

static void chain_begin(struct chain *chain, size_t bios)
{
	const size_t vecs[KP_VEC_CLASSES] = { 2, 2, 2, 2, 2, 2 };

	memset(chain, 0, sizeof(*chain));
	unit_init(&chain->unit, "null");
	unit_start(&chain->unit);
	chain->stage.pipeline = chain->unit.pl;
	chain->stage.next = chain->unit.pl->first;
	ck_assert_int_eq(kp_bio_set_init(&chain->set, &chain->stage, bios, vecs), 0);
	chain->top.end_io = top_end_io;
	chain->top.private = chain;
	chain->ended = 0;
}

static void chain_end(struct chain *chain)
{
	kp_bio_set_exit(&chain->set);
	unit_exit(&chain->unit);
}

/* A tree of bios, each with a chance to fail or fall short; ended in random order. */
START_TEST(chain_random_trees)
{
	enum { NODES = 40 };
	struct chain chain;

	chain_begin(&chain, NODES);
	for (int round = 0; round < 2000; round++) {
		struct kp_bio *nodes[NODES + 1] = { &chain.top };
		unsigned int nr = unit_between(1, NODES), order[NODES + 1];
		uint64_t resid = 0;
		int error = 0;

		chain.top.flags = 0;
		chain.top.status = 0;
		chain.top.resid = 0;
		chain.ended = 0;
		for (unsigned int i = 1; i <= nr; i++) {
			nodes[i] = kp_bio_alloc(&chain.set, 0);
			ck_assert_ptr_nonnull(nodes[i]);
			kp_bio_chain(nodes[i], nodes[unit_between(0, i - 1)]);
		}
		for (unsigned int i = 0; i <= nr; i++) {
			unsigned int j = unit_between(0, i);

			order[i] = i; /* what j may be too */
			order[i] = order[j];
			order[j] = i;
		}
		for (unsigned int i = 0; i <= nr; i++) {
			struct kp_bio *bio = nodes[order[i]];

			ck_assert_uint_eq(chain.ended, 0);
			/* What a device does: it knows of its own bytes only. */
			if (unit_between(0, 3) == 0) {
				uint64_t missing = unit_between(1, 100);

				bio->iter.size = 100;
				bio->next = NULL;
				resid += missing;
				kp_request_end(bio, 100 - missing, 0);
			} else if (unit_between(0, 9) == 0) {
				error = -EIO;
				kp_bio_fail(bio, -EIO);
			} else {
				kp_bio_endio(bio);
			}
		}
		ck_assert_uint_eq(chain.ended, 1);
		ck_assert_uint_eq(chain.top.resid, resid);
		ck_assert_int_eq(chain.top.status, error);
	}
	chain_end(&chain);
}
END_TEST

START_TEST(first_error_wins)
{
	struct chain chain;
	struct kp_bio *a, *b;

	chain_begin(&chain, 4);
	a = kp_bio_alloc(&chain.set, 0);
	b = kp_bio_alloc(&chain.set, 0);
	kp_bio_chain(a, &chain.top);
	kp_bio_chain(b, &chain.top);
	kp_bio_fail(b, -ENOSPC);
	kp_bio_fail(a, -EIO);
	ck_assert_uint_eq(chain.ended, 0);
	kp_bio_endio(&chain.top);
	ck_assert_uint_eq(chain.ended, 1);
	ck_assert_int_eq(chain.top.status, -ENOSPC);
	chain_end(&chain);
}
END_TEST

/* A request's own end must not wipe out what its bios' children reported before. */
START_TEST(request_end_keeps_what_children_said)
{
	struct chain chain;
	struct kp_bio *child;

	chain_begin(&chain, 4);
	child = kp_bio_alloc(&chain.set, 0);
	kp_bio_chain(child, &chain.top);
	child->iter.size = 4096;
	kp_request_end(child, 0, -EIO);
	chain.top.iter.size = 4096;
	kp_request_end(&chain.top, 0, 0);
	ck_assert_uint_eq(chain.ended, 1);
	ck_assert_int_eq(chain.top.status, -EIO);
	ck_assert_uint_eq(chain.top.resid, 8192);
	chain_end(&chain);
}
END_TEST

START_TEST(freed_bios_come_back)
{
	struct chain chain;

	chain_begin(&chain, 2);
	for (int round = 0; round < 100; round++) {
		struct kp_bio *a = kp_bio_alloc(&chain.set, 200);
		struct kp_bio *b = kp_bio_alloc(&chain.set, 0);

		ck_assert_ptr_nonnull(a);
		ck_assert_ptr_nonnull(b);
		ck_assert_ptr_ne(a, b);
		ck_assert_ptr_nonnull(a->own_vec);
		ck_assert_ptr_null(b->own_vec);
		ck_assert_int_eq(b->status, 0);
		/* Nothing is in flight that could return one. */
		ck_assert_ptr_null(kp_bio_alloc(&chain.set, 0));
		b->status = -EIO;
		b->resid = 7;
		kp_bio_free(a);
		kp_bio_free(b);
	}
	chain_end(&chain);
}
END_TEST

/* Objects are used again before untouched ones are: memory does not grow with the run. */
START_TEST(pool_stays_in_few_pages)
{
	struct kp_pool pool;
	void *first;

	ck_assert_int_eq(kp_pool_init(&pool, 1000, 1000, false), 0);
	first = kp_pool_get(&pool);
	for (int i = 0; i < 10000; i++) {
		kp_pool_put(&pool, first);
		ck_assert_ptr_eq(kp_pool_get(&pool), first);
	}
	kp_pool_exit(&pool);
}
END_TEST

/* ---- pools that run dry -------------------------------------------------------------------- */

/*
 * I/Os that need many more bios than the stage was told to expect: it waits for its own
 * completions, in place, on every device.
 */
START_TEST(dry_pool_waits)
{
	enum { SIZE = 1024 * 1024, NR = 3 };
	const char *backend = unit_backends[_i];
	const char *path = unit_path("bio");
	char *data = unit_memory(SIZE), *back = unit_memory((size_t)SIZE * NR);
	struct kp_io ios[NR];
	struct unit unit;
	struct kp_file *file;

	unit_fill(data, SIZE);
	unit_make_file(path, data, SIZE);
	unit_init(&unit, backend);
	unit_add_split(&unit, "clone");
	unit.config.max_io_size = 4096;
	unit.config.depth = NR;
	unit.config.device.limits.max_sectors_kb = 4;
	unit.config.device.null.read_nsec = 1000;
	unit.config.device.null.write_nsec = 1000;
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	if (!strcmp(backend, "null"))
		ck_assert_int_eq(unit_io(&unit, &ios[0], KP_OP_WRITE, file, 0, data, SIZE), 0);
	for (int i = 0; i < NR; i++) {
		kp_io_prepare(&ios[i], KP_OP_READ, file, 0, back + (size_t)i * SIZE, SIZE);
		ck_assert_int_eq(kp_submit(unit.pl, &ios[i]), 0);
	}
	kp_commit(unit.pl);
	ck_assert_int_eq(kp_reap(unit.pl, NR, NR, NULL), NR);
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(kp_io_error(&ios[i]), 0);
		ck_assert_uint_eq(kp_io_resid(&ios[i]), 0);
		ck_assert_mem_eq(back + (size_t)i * SIZE, data, SIZE);
	}
	unit_exit(&unit);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bio");
	TCase *tcase = tcase_create("bio");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, iterator);
	tcase_add_test(tcase, advance_at_boundaries);
	tcase_add_test(tcase, vector_classes);
	tcase_add_test(tcase, chain_random_trees);
	tcase_add_test(tcase, first_error_wins);
	tcase_add_test(tcase, request_end_keeps_what_children_said);
	tcase_add_test(tcase, freed_bios_come_back);
	tcase_add_test(tcase, pool_stays_in_few_pages);
	tcase_add_loop_test(tcase, dry_pool_waits, 0, NR_BACKENDS);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
