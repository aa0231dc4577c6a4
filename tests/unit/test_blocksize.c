// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block size: initial sizes for all device sizes and logical blocks, the bios of every dirty
 * mask and the reads of every write. Each is compared with a reference that looks at bytes.
 */
#include <check.h>
#include <stdlib.h>

#include "policy/cache/blocksize.h"

#define PAGE KP_PAGE_SIZE

/* Each ck_assert() writes to the runner, which is too slow where every case is tried. */
#define require(condition, ...)                    \
	do {                                       \
		if (!(condition))                  \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

static const uint32_t block_sizes[] = { 512, 1024, 2048, 4096 };
#define NR_BLOCK_SIZES 4

static const struct kp_variant *variant(const char *name)
{
	for (unsigned int i = 0; i < KP_NR_BLOCKSIZE_ROWS; i++) {
		if (!strcmp(kp_blocksize_rows[i].variant.name, name))
			return &kp_blocksize_rows[i].variant;
	}
	ck_abort_msg("no variant %s", name);
	return NULL;
}

/* ---- the initial size ---------------------------------------------------------------------- */

START_TEST(initial_worked)
{
	static const struct {
		uint64_t size;
		uint32_t logical_block_size, coalesce;
	} table[] = {
		{ 1ull << 40, 512, 4096 },    { 0, 512, 4096 }, /* an empty loop device */
		{ 4096, 512, 4096 },	      { 2048, 512, 2048 },
		{ 4096 + 2048, 512, 2048 },   { 4096 + 1024, 512, 1024 },
		{ 4097 * 512, 512, 512 }, /* an odd number of sectors */
		{ 4097 * 1024, 1024, 1024 },  { 4097 * 4096ull, 4096, 4096 },
		{ 2000398934016, 512, 4096 }, /* a disk of 2 TB */
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		uint32_t lbs = table[i].logical_block_size;
		uint64_t size = table[i].size;

		ck_assert_uint_eq(kp_blocksize_initial(variant("coalesce"), size, lbs, PAGE),
				  table[i].coalesce);
		ck_assert_uint_eq(kp_blocksize_initial(variant("folio"), size, lbs, PAGE),
				  table[i].coalesce);
		ck_assert_uint_eq(kp_blocksize_initial(variant("logical"), size, lbs, PAGE), lbs);
		ck_assert_uint_eq(kp_blocksize_initial(variant("merge_bh"), size, lbs, PAGE), lbs);
	}
}
END_TEST

/*
 * The largest power of two up to the page, and at least the logical block, that divides the size.
 */
static uint32_t largest_divisor(uint64_t size, uint32_t logical_block_size, uint32_t page_size)
{
	uint32_t best = logical_block_size;

	for (uint32_t b = logical_block_size; b <= page_size; b *= 2) {
		if (size % b == 0)
			best = b;
	}
	return best;
}

START_TEST(initial_all_sizes)
{
	static const uint32_t page_sizes[] = { 4096, 16384, 65536 };
	static const uint64_t bases[] = { 0, 1ull << 31, 1ull << 40 };

	for (uint32_t lbs = 512; lbs <= 4096; lbs *= 2) {
		for (uint64_t i = 1; i <= 3 * 3000; i++) {
			uint64_t size = bases[i % 3] + i / 3 * lbs;

			for (unsigned int p = 0; p < 3; p++) {
				uint32_t got = kp_blocksize_initial(variant("coalesce"), size, lbs,
								    page_sizes[p]);

				require(got == largest_divisor(size, lbs, page_sizes[p]),
					"size %llu logical block %u page %u: %u",
					(unsigned long long)size, lbs, page_sizes[p], got);
				got = kp_blocksize_initial(variant("logical"), size, lbs,
							   page_sizes[p]);
				require(got == lbs, "logical: %u for %u", got, lbs);
			}
		}
	}
}
END_TEST

/* ---- bios ---------------------------------------------------------------------------------- */

#define MAX_PAGES 600
#define MAX_BIOS  (MAX_PAGES * 8)

struct bios {
	struct kp_blocksize_bio list[MAX_BIOS];
	unsigned int nr;
};

static struct bios got, wanted;

static void collect(const char *name, uint32_t block_size, const uint8_t *masks, size_t nr_pages)
{
	struct kp_blocksize_bio bio = { 0 };

	got.nr = 0;
	while (kp_blocksize_next_bio(variant(name), block_size, masks, nr_pages, &bio)) {
		require(got.nr < MAX_BIOS, "%s: bios without end", name);
		got.list[got.nr++] = bio;
	}
}

static bool dirty_block(const uint8_t *masks, uint32_t block_size, uint64_t offset)
{
	return masks[offset / PAGE] >> offset % PAGE / block_size & 1;
}

static void want(uint64_t offset, uint64_t len)
{
	wanted.list[wanted.nr++] = (struct kp_blocksize_bio){ offset, len };
}

/*
 * Build bios in a walk over blocks: a block joins the bio before it where the variant allows
 * that.
 */
static void reference(const char *name, uint32_t block_size, const uint8_t *masks, size_t nr_pages)
{
	uint64_t first_page = 0; /* blocks of the last bio */

	wanted.nr = 0;
	for (uint64_t at = 0; at < nr_pages * PAGE; at += block_size) {
		struct kp_blocksize_bio *last = wanted.list + wanted.nr - 1;
		bool follows = wanted.nr && last->offset + last->len == at;
		uint8_t all = block_size == 512 ? 0xff : (1 << PAGE / block_size) - 1;

		if (!dirty_block(masks, block_size, at))
			continue;
		if (!strcmp(name, "folio"))
			follows = follows && at / PAGE - first_page < 256;
		else if (!strcmp(name, "merge_bh"))
			follows = follows && masks[at / PAGE] == all && at % PAGE;
		else
			follows = false;
		if (follows) {
			last->len += block_size;
		} else {
			want(at, block_size);
			first_page = at / PAGE;
		}
	}
}

static void compare(const char *name, uint32_t block_size, const uint8_t *masks, size_t nr_pages)
{
	collect(name, block_size, masks, nr_pages);
	reference(name, block_size, masks, nr_pages);
	require(got.nr == wanted.nr, "%s, blocks of %u, mask %#x: %u bios, wanted %u", name,
		block_size, masks[0], got.nr, wanted.nr);
	for (unsigned int i = 0; i < got.nr; i++)
		require(got.list[i].offset == wanted.list[i].offset &&
				got.list[i].len == wanted.list[i].len,
			"%s, blocks of %u, mask %#x: bio %u is %llu+%llu, wanted %llu+%llu", name,
			block_size, masks[0], i, (unsigned long long)got.list[i].offset,
			(unsigned long long)got.list[i].len,
			(unsigned long long)wanted.list[i].offset,
			(unsigned long long)wanted.list[i].len);
}

START_TEST(bios_of_a_full_page)
{
	static const struct {
		const char *name;
		unsigned int bios[NR_BLOCK_SIZES]; /* by block size */
	} table[] = {
		{ "logical", { 8, 4, 2, 1 } },
		{ "coalesce", { 8, 4, 2, 1 } },
		{ "merge_bh", { 1, 1, 1, 1 } },
		{ "folio", { 1, 1, 1, 1 } },
	};

	for (unsigned int v = 0; v < 4; v++) {
		for (unsigned int i = 0; i < NR_BLOCK_SIZES; i++) {
			uint8_t mask =
				block_sizes[i] == 512 ? 0xff : (1 << PAGE / block_sizes[i]) - 1;

			collect(table[v].name, block_sizes[i], &mask, 1);
			ck_assert_uint_eq(got.nr, table[v].bios[i]);
		}
	}
}
END_TEST

START_TEST(bios_of_every_mask)
{
	const char *name = kp_blocksize_rows[_i].variant.name;

	for (unsigned int i = 0; i < NR_BLOCK_SIZES; i++) {
		unsigned int masks = 1u << PAGE / block_sizes[i];

		for (unsigned int mask = 0; mask < masks; mask++) {
			uint8_t page = mask;

			compare(name, block_sizes[i], &page, 1);
		}
	}
}
END_TEST

START_TEST(bios_across_pages)
{
	const char *name = kp_blocksize_rows[_i].variant.name;
	static uint8_t masks[MAX_PAGES];

	srand(1);
	for (int round = 0; round < 400; round++) {
		uint32_t block_size = block_sizes[rand() % NR_BLOCK_SIZES];
		size_t nr_pages = round % 20 ? 1 + rand() % 12 : MAX_PAGES;
		int full = rand() % 3 * 50;

		for (size_t i = 0; i < nr_pages; i++) {
			bool all = rand() % 100 < full || (nr_pages == MAX_PAGES && round);

			masks[i] = all ? 0xff : rand();
			masks[i] &= 0xff >> (8 - PAGE / block_size);
		}
		compare(name, block_size, masks, nr_pages);
	}
}
END_TEST

/* A bio has at most 256 segments, each within a page. */
START_TEST(longest_bio)
{
	static uint8_t masks[MAX_PAGES];

	memset(masks, 1, sizeof(masks));
	collect("folio", 4096, masks, MAX_PAGES);
	ck_assert_uint_eq(got.nr, 3);
	ck_assert_uint_eq(got.list[0].len, 1 << 20);
	ck_assert_uint_eq(got.list[2].len, 88 * PAGE);
}
END_TEST

/* ---- reads before writes ------------------------------------------------------------------- */

/*
 * Buffer heads: a block is read if the write covers some of its bytes but not all, and it is
 * stale.
 */
static uint8_t reads_by_block(uint32_t block_size, uint32_t from, uint32_t to, uint8_t uptodate)
{
	uint8_t reads = 0;

	for (uint32_t block = 0; block < PAGE / block_size; block++) {
		uint32_t written = 0;

		for (uint32_t byte = block * block_size; byte < (block + 1) * block_size; byte++)
			written += byte >= from && byte < to;
		if (written && written < block_size && !(uptodate >> block & 1))
			reads |= 1u << block;
	}
	return reads;
}

/*
 * iomap: a run of stale blocks that the write touches is read whole if the write leaves out a
 * part of it.
 */
static uint8_t reads_by_run(uint32_t block_size, uint32_t from, uint32_t to, uint8_t uptodate)
{
	uint8_t partly = reads_by_block(block_size, from, to, uptodate);
	uint8_t reads = partly;

	/* From a block that is read, go on to the stale neighbours that the write touches. */
	for (int i = 0; i < 8; i++) {
		for (uint32_t block = 0; block < PAGE / block_size; block++) {
			bool touched = (block + 1) * block_size > from && block * block_size < to;
			bool beside =
				(block && reads >> (block - 1) & 1) || reads >> (block + 1) & 1;

			if (touched && beside && !(uptodate >> block & 1))
				reads |= 1u << block;
		}
	}
	return reads;
}

static unsigned int runs_in(uint8_t mask)
{
	return __builtin_popcount(mask & ~(mask << 1));
}

static const uint32_t edges[] = {
	0,    1,    511,  512,	513,  1000, 1023, 1024, 1025, 1536, 2047, 2048,
	2049, 2560, 3000, 3071, 3072, 3073, 3583, 3584, 3585, 4000, 4095, 4096,
};
#define NR_EDGES (sizeof(edges) / sizeof(*edges))

static void check_reads(const char *name, uint32_t block_size, uint32_t from, uint32_t to)
{
	for (unsigned int uptodate = 0; uptodate < 1u << PAGE / block_size; uptodate++) {
		uint8_t reads = kp_blocksize_reads(variant(name), block_size, from, to, uptodate);
		uint8_t expected = strcmp(name, "folio")
					   ? reads_by_block(block_size, from, to, uptodate)
					   : reads_by_run(block_size, from, to, uptodate);

		require(reads == expected,
			"%s, blocks of %u, [%u, %u), up to date %#x: reads %#x, wanted %#x", name,
			block_size, from, to, uptodate, reads, expected);
		require(runs_in(reads) <= 2, "%s: more than two reads", name);
		if (strcmp(name, "folio"))
			require(__builtin_popcount(reads) <= 2, "%s: more than two blocks", name);
	}
}

START_TEST(reads_of_every_write)
{
	const char *name = kp_blocksize_rows[_i].variant.name;

	for (unsigned int i = 0; i < NR_BLOCK_SIZES; i++) {
		for (size_t from = 0; from < NR_EDGES; from++) {
			for (size_t to = from + 1; to < NR_EDGES; to += 1 + (i == 0))
				check_reads(name, block_sizes[i], edges[from], edges[to]);
		}
	}
}
END_TEST

START_TEST(reads_worked)
{
	const struct kp_variant *bh = variant("coalesce"), *folio = variant("folio");

	/*
	 * The small block wins here: an aligned write of 512 bytes reads nothing, with large
	 * blocks 4 KiB.
	 */
	ck_assert_uint_eq(kp_blocksize_reads(bh, 512, 512, 1024, 0), 0);
	ck_assert_uint_eq(kp_blocksize_reads(bh, 4096, 512, 1024, 0), 1);
	ck_assert_uint_eq(kp_blocksize_reads(bh, 4096, 512, 1024, 1), 0);
	ck_assert_uint_eq(kp_blocksize_reads(bh, 4096, 0, 4096, 0), 0);
	/* both ends of the write */
	ck_assert_uint_eq(kp_blocksize_reads(bh, 512, 100, 2000, 0), 0x09);
	ck_assert_uint_eq(kp_blocksize_reads(bh, 512, 100, 2000, 0x01), 0x08);
	ck_assert_uint_eq(kp_blocksize_reads(folio, 512, 100, 2000, 0), 0x0f);
	ck_assert_uint_eq(kp_blocksize_reads(folio, 512, 100, 2000, 0x02), 0x0d);
	ck_assert_uint_eq(kp_blocksize_reads(folio, 512, 512, 2048, 0), 0);
}
END_TEST

START_TEST(kernels)
{
	static const struct kp_policy policy = {
		.name = "blocksize",
		.default_variant = "coalesce",
		.rows = kp_blocksize_rows,
		.row_size = sizeof(*kp_blocksize_rows),
		.nr_rows = KP_NR_BLOCKSIZE_ROWS,
	};
	static const char *const table[][2] = {
		{ "4.9", "coalesce" },	   { "5.8", "coalesce" },    { "5.9", "logical" },
		{ "5.10", "logical" },	   { "5.10.10", "logical" }, { "5.10.12", "logical" },
		{ "5.10.13", "coalesce" }, { "5.11", "coalesce" },   { "7.3", "coalesce" },
	};
	const struct kp_variant *found;
	char why[256];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_int_eq(
			kp_policy_find(&policy, NULL, table[i][0], &found, why, sizeof(why)), 0);
		ck_assert_str_eq(found->name, table[i][1]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("blocksize");
	TCase *tcase = tcase_create("blocksize");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, initial_worked);
	tcase_add_test(tcase, initial_all_sizes);
	tcase_add_test(tcase, bios_of_a_full_page);
	tcase_add_loop_test(tcase, bios_of_every_mask, 0, KP_NR_BLOCKSIZE_ROWS);
	tcase_add_loop_test(tcase, bios_across_pages, 0, KP_NR_BLOCKSIZE_ROWS);
	tcase_add_test(tcase, longest_bio);
	tcase_add_loop_test(tcase, reads_of_every_write, 0, KP_NR_BLOCKSIZE_ROWS);
	tcase_add_test(tcase, reads_worked);
	tcase_add_test(tcase, kernels);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
