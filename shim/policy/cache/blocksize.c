// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block size of a block device (policy P1). 5ff9f19231a0 ("block: simplify
 * set_init_blocksize", 5.9) made devices start with their logical block size, and 8dc932d3e8af
 * took it back. Writeback submits a bio for each buffer head, so the block size is the size of
 * its bios.
 */
#include "blocksize.h"

static unsigned int blocks_per_page(uint32_t block_size)
{
	return KP_PAGE_SIZE / block_size;
}

static uint8_t full_mask(uint32_t block_size)
{
	return (uint8_t)((1u << blocks_per_page(block_size)) - 1);
}

static bool is_dirty(const uint8_t *masks, uint32_t block_size, uint64_t block)
{
	unsigned int blocks = blocks_per_page(block_size);

	return masks[block / blocks] >> block % blocks & 1;
}

/* ---- the bio that begins with a block ------------------------------------------------------ */

/* __block_write_full_page() submits a bio for each buffer head. */
static uint64_t one_block(uint32_t block_size, const uint8_t *masks, size_t nr_pages,
			  unsigned int block)
{
	(void)masks;
	(void)nr_pages;
	(void)block;
	return block_size;
}

/* The proposal of 2020-12: the buffer heads of a page that is dirty all over share a bio. */
static uint64_t whole_page(uint32_t block_size, const uint8_t *masks, size_t nr_pages,
			   unsigned int block)
{
	(void)nr_pages;
	return !block && *masks == full_mask(block_size) ? KP_PAGE_SIZE : block_size;
}

/* iomap_add_to_ioend(): dirty blocks that follow each other share a bio while it has room. */
static uint64_t dirty_run(uint32_t block_size, const uint8_t *masks, size_t nr_pages,
			  unsigned int block)
{
	uint64_t end = kp_min(nr_pages, (size_t)KP_BIO_MAX_VECS) * blocks_per_page(block_size);
	uint64_t next = block;

	while (next < end && is_dirty(masks, block_size, next))
		next++;
	return (next - block) * block_size;
}

/* ---- the blocks that a write reads first --------------------------------------------------- */

static bool within(uint32_t edge, uint32_t start, uint32_t end)
{
	return start < edge && edge < end;
}

/* __block_write_begin() reads each buffer head that the write covers in part. */
static uint8_t partial_blocks(uint32_t block_size, uint32_t from, uint32_t to, uint8_t uptodate)
{
	uint8_t reads = 0;

	for (uint32_t start = 0; start < to; start += block_size) {
		uint32_t end = start + block_size;

		if (within(from, start, end) || within(to, start, end))
			reads |= 1u << start / block_size;
	}
	return reads & ~uptodate;
}

/*
 * __iomap_write_begin() reads each run of blocks that are not up to date, if the write covers the
 * run in part.
 */
static uint8_t partial_runs(uint32_t block_size, uint32_t from, uint32_t to, uint8_t uptodate)
{
	uint32_t block = from / block_size;
	uint32_t last = (to + block_size - 1) / block_size;
	uint8_t reads = 0;

	while (block < last) {
		uint32_t end = block;
		uint8_t run = 0;

		for (; end < last && !(uptodate >> end & 1); end++)
			run |= 1u << end;
		if (within(from, block * block_size, end * block_size) ||
		    within(to, block * block_size, end * block_size))
			reads |= run;
		block = kp_max(end, block + 1);
	}
	return reads;
}

/* ---- the table ----------------------------------------------------------------------------- */

/*
 * A kernel version gets the first row that covers it. coalesce covers the versions before and
 * after logical.
 */
const struct kp_blocksize_row kp_blocksize_rows[KP_NR_BLOCKSIZE_ROWS] = {
	{
		.variant = {
			.name = "logical",
			.since = "5.9",
			.until = "5.10.12",
			.commit = "5ff9f19231a0",
			.summary = "the size starts as the logical block; a bio per dirty block",
			.omits = "also in 5.11-rc1 to 5.11-rc6",
		},
		.starts_logical = true,
		.bio_len = one_block,
		.reads = partial_blocks,
	},
	{
		.variant = {
			.name = "coalesce",
			.since = "3.0",
			.until = "7.3",
			.commit = "before 5ff9f19231a0, after 8dc932d3e8af",
			.summary = "the size is the largest that divides the device; a bio per dirty block",
			.omits = "pages and blocks larger than 4 KiB",
		},
		.bio_len = one_block,
		.reads = partial_blocks,
	},
	{
		.variant = {
			.name = "merge_bh",
			.commit = "20201230000815.3448707-1, not merged",
			.summary = "as logical, but a page that is dirty all over is one bio",
		},
		.starts_logical = true,
		.bio_len = whole_page,
		.reads = partial_blocks,
	},
	{
		.variant = {
			.name = "folio",
			.commit = "487c607df790 without CONFIG_BUFFER_HEAD",
			.summary = "as coalesce, but dirty blocks that follow each other are one bio",
			.omits = "large folios",
		},
		.bio_len = dirty_run,
		.reads = partial_runs,
	},
};

static const struct kp_blocksize_row *row_of(const struct kp_variant *variant)
{
	return kp_container_of(variant, struct kp_blocksize_row, variant);
}

uint32_t kp_blocksize_initial(const struct kp_variant *variant, uint64_t size,
			      uint32_t logical_block_size, uint32_t page_size)
{
	uint32_t block_size = logical_block_size;

	if (row_of(variant)->starts_logical)
		return block_size;
	while (block_size < page_size && !(size & block_size))
		block_size *= 2;
	return block_size;
}

bool kp_blocksize_next_bio(const struct kp_variant *variant, uint32_t block_size,
			   const uint8_t *masks, size_t nr_pages, struct kp_blocksize_bio *bio)
{
	unsigned int blocks = blocks_per_page(block_size);
	uint64_t block = (bio->offset + bio->len) / block_size;

	for (; block < nr_pages * blocks; block++) {
		size_t page = block / blocks;

		if (!is_dirty(masks, block_size, block))
			continue;
		bio->offset = block * block_size;
		bio->len = row_of(variant)->bio_len(block_size, masks + page, nr_pages - page,
						    block % blocks);
		return true;
	}
	return false;
}

uint8_t kp_blocksize_reads(const struct kp_variant *variant, uint32_t block_size, uint32_t from,
			   uint32_t to, uint8_t uptodate)
{
	return row_of(variant)->reads(block_size, from, to, uptodate);
}
