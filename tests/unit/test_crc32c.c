// SPDX-License-Identifier: GPL-2.0-only
/* CRC32C, and the checksum tree. */
#include "policy/checksum/csum_tree.h"
#include "unit.h"

/* ---- CRC32C -------------------------------------------------------------------------------- */

#define GIB   (1024 * MIB)
#define ARENA (1ull << 33)

static const kp_crc32c_fn fns[] = { kp_crc32c_fast, kp_crc32c_generic };
static const char *const fn_names[] = { "fast", "generic" };

/* RFC 3720, B.4 */
START_TEST(rfc3720)
{
	static const unsigned char scsi_read[48] = {
		[0] = 0x01,  [1] = 0xc0,  [16] = 0x14, [22] = 0x04,
		[27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02,
	};
	unsigned char zeroes[32] = { 0 }, ones[32], up[32], down[32];
	const struct {
		const unsigned char *data;
		size_t len;
		uint32_t crc;
	} table[] = {
		{ zeroes, 32, 0x8a9136aa }, { ones, 32, 0x62a8ab43 },	   { up, 32, 0x46dd794e },
		{ down, 32, 0x113fdb5c },   { scsi_read, 48, 0xd9963a56 },
	};
	const unsigned char digits[] = "123456789";

	memset(ones, 0xff, sizeof(ones));
	for (int i = 0; i < 32; i++) {
		up[i] = i;
		down[i] = 31 - i;
	}
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		uint32_t crc = fns[_i](~0u, table[i].data, table[i].len);

		ck_assert_msg(le32toh(kp_csum_final(crc)) == table[i].crc, "%s, vector %zu: %08x",
			      fn_names[_i], i, ~crc);
	}
	ck_assert_uint_eq(~fns[_i](~0u, digits, 9), 0xe3069283);
}
END_TEST

/* One bit at a time, from the polynomial. */
static uint32_t reference(uint32_t crc, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

START_TEST(crc_random)
{
	static unsigned char data[6000];

	for (int round = 0; round < 2000; round++) {
		size_t len = unit_between(0, 300) * (round % 10 ? 1 : 17);
		size_t at = unit_between(0, sizeof(data) - len - 1);
		size_t cut = unit_between(0, len);
		uint32_t crc = unit_random();

		len = kp_min(len, sizeof(data) - at);
		cut = kp_min(cut, len);
		unit_fill(data + at, len);
		ck_assert_uint_eq(fns[_i](crc, data + at, len), reference(crc, data + at, len));
		ck_assert_uint_eq(fns[_i](fns[_i](crc, data + at, cut), data + at + cut, len - cut),
				  reference(crc, data + at, len));
	}
}
END_TEST

/* Sums over vectors cut anywhere are those of the flat data; a last sector is padded. */
START_TEST(sums_of_vectors)
{
	static unsigned char flat[9 * KP_CSUM_SECTOR];
	uint32_t sums[9], some[9];

	unit_fill(flat, sizeof(flat));
	for (int round = 0; round < 300; round++) {
		size_t len = unit_between(1, 8 * KP_CSUM_SECTOR);
		unsigned int nr = (len + KP_CSUM_SECTOR - 1) / KP_CSUM_SECTOR, got;
		struct kp_segment vec[64];
		struct kp_iter iter = { .size = len };
		unsigned int nr_vecs = 0;

		for (size_t at = 0; at < len;) {
			size_t piece = nr_vecs == 63 ? len - at : unit_between(1, len - at);

			/* Every third round whole sectors, as most I/O has. */
			if (round % 3 == 0 && piece > KP_CSUM_SECTOR)
				piece = kp_round_down(piece, KP_CSUM_SECTOR);

			vec[nr_vecs++] = (struct kp_segment){ flat + at, piece };
			at += piece;
		}
		got = kp_csum_vec(fns[_i], vec, &iter, sums, 9);
		ck_assert_uint_eq(got, nr);
		ck_assert_uint_eq(iter.size, 0);
		for (unsigned int i = 0; i < nr; i++) {
			unsigned char sector[KP_CSUM_SECTOR] = { 0 };
			size_t in = kp_min(len - i * KP_CSUM_SECTOR, (size_t)KP_CSUM_SECTOR);

			memcpy(sector, flat + i * KP_CSUM_SECTOR, in);
			ck_assert_uint_eq(le32toh(sums[i]),
					  ~reference(~0u, sector, KP_CSUM_SECTOR));
			ck_assert_uint_eq(kp_csum_data(fns[_i], flat + i * KP_CSUM_SECTOR, in),
					  sums[i]);
		}
		iter = (struct kp_iter){ .size = len };
		got = kp_csum_vec(fns[_i], vec, &iter, some, 2);
		ck_assert_uint_eq(got, kp_min(nr, 2u));
		got += kp_csum_vec(fns[_i], vec, &iter, some + got, 7);
		ck_assert_uint_eq(got, nr);
		ck_assert_mem_eq(some, sums, nr * sizeof(*sums));
		/* One by one, from wherever in a segment. */
		iter = (struct kp_iter){ .size = len };
		for (unsigned int i = 0; i < nr; i++) {
			uint64_t left = len - i * KP_CSUM_SECTOR;

			iter.size = kp_min(left, (uint64_t)KP_CSUM_SECTOR);
			ck_assert_uint_eq(kp_csum_vec(fns[_i], vec, &iter, some, 9), 1);
			ck_assert_uint_eq(*some, sums[i]);
			ck_assert_uint_eq(iter.size, 0);
			ck_assert_uint_eq(iter.pos, kp_min(len, (i + 1ull) * KP_CSUM_SECTOR));
		}
	}
}
END_TEST

/* ---- the tree ------------------------------------------------------------------------------ */

#define SECTORS 70000u /* over several words, pages of bits and, from BASE on, two chunks */
#define BASE	((1u << 24) - 30000u)

static struct kp_arena *arena;
static struct kp_csum_tree *tree;

static void make_tree(void)
{
	ck_assert_int_eq(kp_arena_create(&arena, ARENA), 0);
	tree = kp_arena_alloc(arena, sizeof(*tree));
	tree->arena = arena;
}

START_TEST(tree_random)
{
	static uint32_t model[SECTORS], sums[300], found[300];
	static bool has[SECTORS];
	uint64_t have[5];

	make_tree();
	for (int round = 0; round < 20000; round++) {
		unsigned int nr = unit_between(1, 300);
		unsigned int at = unit_between(0, SECTORS - nr);
		unsigned int expected = 0;

		switch (unit_between(0, 3)) {
		case 0:
			unit_fill(sums, nr * sizeof(*sums));
			ck_assert_int_eq(kp_csum_tree_set(tree, BASE + at, sums, nr), 0);
			memcpy(model + at, sums, nr * sizeof(*sums));
			memset(has + at, true, nr);
			break;
		case 1:
			kp_csum_tree_clear(tree, BASE + at, nr);
			memset(has + at, false, nr);
			break;
		default:
			for (unsigned int i = 0; i < nr; i++)
				expected += has[at + i];
			ck_assert_uint_eq(kp_csum_tree_lookup(tree, BASE + at, found, have, nr),
					  expected);
			for (unsigned int i = 0; i < nr; i++) {
				ck_assert_int_eq(kp_csum_has(have, i), has[at + i]);
				if (has[at + i])
					ck_assert_uint_eq(found[i], model[at + i]);
			}
		}
	}
	/* A walk meets every sum once, in order. */
	for (uint64_t sector = 0, seen = 0;;) {
		unsigned int nr = kp_csum_tree_next(tree, &sector, found, 300);

		while (seen < SECTORS && !has[seen])
			seen++;
		if (!nr) {
			ck_assert_uint_eq(seen, SECTORS);
			break;
		}
		ck_assert_uint_eq(sector, BASE + seen);
		for (unsigned int i = 0; i < nr; i++, seen++) {
			ck_assert(has[seen]);
			ck_assert_uint_eq(found[i], model[seen]);
		}
		sector += nr;
	}
	kp_arena_destroy(arena);
}
END_TEST

START_TEST(tree_ends)
{
	const uint64_t end = 1ull << 40; /* sectors: 4 PiB */
	uint32_t sum = 7, found;
	uint64_t have, sector = 0;

	make_tree();
	ck_assert_int_eq(kp_csum_tree_set(tree, end - 1, &sum, 1), 0);
	ck_assert_int_eq(kp_csum_tree_set(tree, end, &sum, 1), -ENOMEM);
	ck_assert_uint_eq(kp_csum_tree_lookup(tree, end, &found, &have, 1), 0);
	ck_assert_uint_eq(kp_csum_tree_next(tree, &sector, &found, 1), 1);
	ck_assert_uint_eq(sector, end - 1);
	kp_csum_tree_clear(tree, 0, end);
	sector = 0;
	ck_assert_uint_eq(kp_csum_tree_next(tree, &sector, &found, 1), 0);
	kp_arena_destroy(arena);
}
END_TEST

/* Memory that the arena uses. */
static size_t resident(void)
{
	size_t pages = (ARENA) / KP_PAGE_SIZE, used = 0;
	unsigned char *in = unit_memory(pages);

	ck_assert_int_eq(mincore(arena, ARENA, in), 0);
	for (size_t i = 0; i < pages; i++)
		used += in[i] & 1;
	munmap(in, pages);
	return used * KP_PAGE_SIZE;
}

/* 1 TiB, of which 1 GiB is written in one stretch, looked up all over. */
START_TEST(tree_memory)
{
	static uint32_t sums[128];
	uint64_t have[2];
	size_t before, used;

	make_tree();
	before = resident();
	for (unsigned int i = 0; i < GIB / KP_CSUM_SECTOR; i += 128)
		ck_assert_int_eq(kp_csum_tree_set(tree, 123456789 + i, sums, 128), 0);
	for (int i = 0; i < 100000; i++)
		kp_csum_tree_lookup(tree, unit_between(0, (1ull << 28) - 128), sums, have, 128);
	used = resident() - before;
	ck_assert_msg(used > MIB && used < 2 * MIB, "%zu bytes", used);
	kp_arena_destroy(arena);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("crc32c");
	TCase *tcase = tcase_create("crc32c");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, rfc3720, 0, 2);
	tcase_add_loop_test(tcase, crc_random, 0, 2);
	tcase_add_loop_test(tcase, sums_of_vectors, 0, 2);
	tcase_add_test(tcase, tree_random);
	tcase_add_test(tcase, tree_ends);
	tcase_add_test(tcase, tree_memory);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
