/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sums of one file, in the arena, shared by all jobs. Stands for the checksum tree of btrfs.
 *
 * There are four bytes for each sector of 4 KiB, and a bit that tells whether the sector has a sum. A
 * sector that was never written has none, like a hole, and is not verified. A page of sums covers
 * 4 MiB of the file, and uses memory once it is touched. There is no lock: whoever changes sums holds
 * the range of their sectors (ordered_range.h).
 */
#ifndef KP_CSUM_TREE_H
#define KP_CSUM_TREE_H

#include "crc32c.h"

#define KP_CSUM_TREE_CHUNKS (1u << 16) /* of 64 GiB: 4 PiB */

struct csum_chunk;

/* struct kp_csum_tree - in the arena, zeroed except for 'arena', which chunks are allocated from. */
struct kp_csum_tree {
	struct kp_arena *arena;
	struct csum_chunk *chunks[KP_CSUM_TREE_CHUNKS]; /* atomic */
};

/* kp_csum_tree_set - store the sums of @nr sectors from @sector on. Any thread. 0 or -ENOMEM. */
int kp_csum_tree_set(struct kp_csum_tree *tree, uint64_t sector, const uint32_t *sums,
		     unsigned int nr);

/**
 * kp_csum_tree_lookup - read the sums of @nr sectors from @sector on.
 * @sums: receives the sums; the entry of a sector without a sum is undefined.
 * @have: receives a bit for each sector that has a sum; (@nr + 63) / 64 words.
 *
 * Any thread. Return: how many sectors have a sum.
 */
unsigned int kp_csum_tree_lookup(const struct kp_csum_tree *tree, uint64_t sector, uint32_t *sums,
				 uint64_t *have, unsigned int nr);

/* kp_csum_tree_clear - remove the sums of @nr sectors from @sector on. Any thread. */
void kp_csum_tree_clear(struct kp_csum_tree *tree, uint64_t sector, uint64_t nr);

/**
 * kp_csum_tree_next - find the next run of sectors that have sums.
 * @sector: where to start looking; receives the start of the run.
 * @sums: receives the sums, at most @max.
 *
 * Any thread. Return: how many sums the run has; 0 when there is no further run.
 */
unsigned int kp_csum_tree_next(const struct kp_csum_tree *tree, uint64_t *sector, uint32_t *sums,
			       unsigned int max);

/* kp_csum_has - bit @i of what kp_csum_tree_lookup() found. */
static inline bool kp_csum_has(const uint64_t *have, unsigned int i)
{
	return have[i / 64] >> i % 64 & 1;
}

#endif
