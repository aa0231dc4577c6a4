/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pure parts of the block size of a block device (policy P1): the initial size, the bios that
 * a dirty page becomes, and the blocks that a write must read first. The page cache calls them,
 * and tests compare them with worked values.
 *
 * The blocks of a page are the bits of a mask, block 0 the lowest. There are at most 8, of 512
 * bytes.
 */
#ifndef KP_BLOCKSIZE_H
#define KP_BLOCKSIZE_H

#include "stage.h"

/** struct kp_blocksize_row - a variant. The members after the first belong to blocksize.c. */
struct kp_blocksize_row {
	struct kp_variant variant;
	/* The initial size is the logical block size, whatever the size of the device. */
	bool starts_logical;
	/* The length in bytes of the bio that begins with block @block of page *masks. */
	uint64_t (*bio_len)(uint32_t block_size, const uint8_t *masks, size_t nr_pages,
			    unsigned int block);
	/* The blocks to read among those that [from, to) touches and that are not up to date. */
	uint8_t (*reads)(uint32_t block_size, uint32_t from, uint32_t to, uint8_t uptodate);
};

/** kp_blocksize_rows - the table of kp_blocksize_policy, whose stage is the page cache. */
#define KP_NR_BLOCKSIZE_ROWS 4
extern const struct kp_blocksize_row kp_blocksize_rows[KP_NR_BLOCKSIZE_ROWS];

/**
 * kp_blocksize_initial - the block size at the first open of a block device: set_init_blocksize().
 * @size: of the device, in bytes.
 * @logical_block_size, @page_size: bytes, powers of two.
 *
 * Return: bytes. Any thread.
 */
uint32_t kp_blocksize_initial(const struct kp_variant *variant, uint64_t size,
			      uint32_t logical_block_size, uint32_t page_size);

/** struct kp_blocksize_bio - a bio of writeback, in bytes from the start of the first page. */
struct kp_blocksize_bio {
	uint64_t offset;
	uint64_t len;
};

/**
 * kp_blocksize_next_bio - the next bio of writeback for consecutive dirty pages.
 * @block_size: 512 to KP_PAGE_SIZE, a power of two.
 * @masks: the dirty blocks of each of @nr_pages pages, which are consecutive in the file. Blocks
 *	behind the end of the file must not be dirty.
 * @bio: the previous bio, zeroed for the first; receives the next one.
 *
 * Each dirty block becomes a bio. With merge_bh a page that is all dirty becomes one bio. With
 * folio dirty blocks that follow each other share a bio, across pages too, up to 256 pages. All
 * variants but folio may be called for one page at a time.
 *
 * Return: false when no dirty block is left. Any thread.
 */
bool kp_blocksize_next_bio(const struct kp_variant *variant, uint32_t block_size,
			   const uint8_t *masks, size_t nr_pages, struct kp_blocksize_bio *bio);

/**
 * kp_blocksize_reads - the blocks that a write of bytes [@from, @to) of a page must read first,
 * because it covers them in part and they are not up to date: __block_write_begin().
 * @uptodate: mask of the blocks that are up to date.
 *
 * Return: a mask of at most two blocks. folio reads all blocks between them, too, in one bio, as
 * __iomap_write_begin() does. Any thread.
 */
uint8_t kp_blocksize_reads(const struct kp_variant *variant, uint32_t block_size, uint32_t from,
			   uint32_t to, uint8_t uptodate);

#endif
