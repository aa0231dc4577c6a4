// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block size of a block device against the kernels: the size that it starts with, the blocks
 * that a buffered write reads first, and the bios that fsync() writes.
 */
#include "policy/cache/blocksize.h"
#include "replay_block.h"

#define PAGE	  KP_PAGE_SIZE
#define SECTOR	  KP_SECTOR_SIZE
#define MAX_PAGES 4096

/* The page cache of one case; a bit for each block of a page. */
struct pages {
	const struct kp_variant *variant;
	uint32_t block;
	uint64_t first; /* page */
	uint8_t uptodate[MAX_PAGES], dirty[MAX_PAGES];
	/* The answer, and the last of its rows of bios. */
	char *to;
	size_t size, used;
	char op;
	uint64_t sector, sectors;
	unsigned int number;
};

/* falsified() sets it: bios are written a sector too far. */
static unsigned int too_far;

static void end_row(struct pages *pages)
{
	if (!pages->number)
		return;
	pages->used += snprintf(pages->to + pages->used, pages->size - pages->used, " %c%lu+%lu",
				pages->op, pages->sector, pages->sectors);
	if (pages->number > 1)
		pages->used += snprintf(pages->to + pages->used, pages->size - pages->used, "*%u",
					pages->number);
	pages->number = 0;
}

static void add_bio(struct pages *pages, char op, uint64_t pos, uint64_t len)
{
	uint64_t sector = pos / SECTOR + too_far, sectors = len / SECTOR;

	if (pages->number && pages->op == op && pages->sectors == sectors &&
	    pages->sector + sectors * pages->number == sector) {
		pages->number++;
		return;
	}
	end_row(pages);
	pages->op = op;
	pages->sector = sector;
	pages->sectors = sectors;
	pages->number = 1;
}

static uint8_t blocks_of(const struct pages *pages, uint32_t from, uint32_t to)
{
	uint8_t mask = 0;

	for (uint32_t at = from / pages->block; at * pages->block < to; at++)
		mask |= 1u << at;
	return mask;
}

static void write_page(struct pages *pages, uint64_t page, uint32_t from, uint32_t to)
{
	unsigned int i = page - pages->first;
	uint8_t reads;

	ck_assert_uint_lt(i, MAX_PAGES);
	reads = kp_blocksize_reads(pages->variant, pages->block, from, to, pages->uptodate[i]);
	for (unsigned int b = 0; b < PAGE / pages->block; b++) {
		if (reads & 1u << b)
			add_bio(pages, 'r', page * PAGE + (uint64_t)b * pages->block, pages->block);
	}
	pages->uptodate[i] |= reads | blocks_of(pages, from, to);
	pages->dirty[i] |= blocks_of(pages, from, to);
}

static void sync_pages(struct pages *pages)
{
	for (unsigned int i = 0, nr; i < MAX_PAGES; i += nr) {
		struct kp_blocksize_bio bio = { 0 };

		for (nr = 0; i + nr < MAX_PAGES && pages->dirty[i + nr]; nr++)
			;
		while (nr && kp_blocksize_next_bio(pages->variant, pages->block, pages->dirty + i,
						   nr, &bio))
			add_bio(pages, 'w', (pages->first + i) * PAGE + bio.offset, bio.len);
		nr = kp_max(nr, 1u);
	}
}

static bool answer_write(const struct kp_variant *variant, const char *rest, char *ours,
			 size_t size)
{
	static struct pages pages;
	unsigned long pos, len, first = UINT64_MAX;
	const char *writes;
	unsigned int block;
	int n;

	ck_assert_int_eq(sscanf(rest, "%u %*s%n", &block, &n), 1);
	writes = rest + n;
	/* Blocks larger than a page: the kernels of 6.15 on, not our rows. */
	if (block > PAGE)
		return false;
	for (const char *at = writes; sscanf(at, " %lu+%lu%n", &pos, &len, &n) == 2; at += n)
		first = kp_min(first, pos / PAGE);
	pages = (struct pages){
		.variant = variant, .block = block, .first = first, .to = ours, .size = size
	};
	ours[0] = '\0';
	for (const char *at = writes; sscanf(at, " %lu+%lu%n", &pos, &len, &n) == 2; at += n) {
		uint64_t end = pos + len;

		for (; pos < end; pos = kp_round_down(pos, PAGE) + PAGE)
			write_page(&pages, pos / PAGE, pos % PAGE,
				   kp_min(end - kp_round_down(pos, PAGE), (uint64_t)PAGE));
	}
	end_row(&pages);
	pages.used += snprintf(ours + pages.used, size - pages.used, " |");
	sync_pages(&pages);
	end_row(&pages);
	/* The line of the recording begins behind the blank. */
	memmove(ours, ours + 1, pages.used);
	return true;
}

static bool answer(struct replay *replay, const char *rest, const char *theirs, char *ours,
		   size_t size)
{
	const struct kp_variant *variant = replay_variant(&kp_blocksize_policy, replay->kernel);
	unsigned long sectors;
	unsigned int lbs;

	if (!strcmp(theirs, "none") || !strncmp(theirs, "error", 5))
		return false;
	if (!variant) {
		snprintf(ours, size, "no row");
		return true;
	}
	if (sscanf(rest, "init %lu %u", &sectors, &lbs) == 2) {
		snprintf(ours, size, "%u",
			 kp_blocksize_initial(variant, sectors * SECTOR, lbs, PAGE));
		return true;
	}
	return answer_write(variant, rest + strlen("write "), ours, size);
}

START_TEST(as_recorded)
{
	static struct replay replay = { .group = "blocksize", .answer = answer };

	replay_all(&replay);
}
END_TEST

/* A sector too far shows in every write that we answer rightly. */
START_TEST(off_by_one)
{
	static struct replay replay = { .group = "blocksize", .quiet = true, .answer = answer };

	replay_load(&replay);
	for (char **kernel = replay_kernels("blocksize"); *kernel; kernel++) {
		unsigned int right;

		too_far = 0;
		replay_run(&replay, *kernel);
		right = replay.different;
		too_far = 1;
		replay_run(&replay, *kernel);
		ck_assert_msg(right == replay.compared || replay.different > right + 100,
			      "%s: a sector too far makes %u differences of %u", *kernel,
			      replay.different, right);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay blocksize");
	TCase *tcase = tcase_create("replay blocksize");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, as_recorded);
	tcase_add_test(tcase, off_by_one);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
