/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sums of one file, in the arena, shared by all jobs. Stands for the checksum tree of btrfs.
 *
 * Four bytes per sector of 4 KiB, and a bit that says whether the sector has a sum at all: one
 * that was never written has none, like a hole, and is not verified. Memory is used by the page,
 * that is by 4 MiB of the file, as it is touched. No lock: who writes sums holds the range that
 * they are of (ordered_range.h).
 */
#ifndef KP_CSUM_TREE_H
#define KP_CSUM_TREE_H

#include "crc32c.h"

#define KP_CSUM_TREE_CHUNKS (1u << 16) /* of 64 GiB: 4 PiB */

struct csum_chunk;

/* struct kp_csum_tree - in the arena, zeroed but for 'arena', where it gets its chunks. */
struct kp_csum_tree {
	struct kp_arena *arena;
	struct csum_chunk *chunks[KP_CSUM_TREE_CHUNKS]; /* atomic */
};

/* kp_csum_tree_set - enter @nr sums from @sector on. Return: 0 or -ENOMEM. Any thread. */
int kp_csum_tree_set(struct kp_csum_tree *tree, uint64_t sector, const uint32_t *sums,
		     unsigned int nr);

/**
 * kp_csum_tree_lookup - read the sums of @nr sectors from @sector on.
 * @sums: receives the sums; the value of a sector without one is undefined.
 * @have: a bit for each sector that has one; (@nr + 63) / 64 words.
 *
 * Return: how many have one. Any thread.
 */
unsigned int kp_csum_tree_lookup(const struct kp_csum_tree *tree, uint64_t sector, uint32_t *sums,
				 uint64_t *have, unsigned int nr);

/* kp_csum_tree_clear - @nr sectors from @sector on have no sum any more. Any thread. */
void kp_csum_tree_clear(struct kp_csum_tree *tree, uint64_t sector, uint64_t nr);

/**
 * kp_csum_tree_next - the next run of sectors with sums.
 * @sector: where to begin; receives where the run begins.
 * @sums: receives the sums, at most @max.
 *
 * Return: sums in the run, 0 at the end. Any thread.
 */
unsigned int kp_csum_tree_next(const struct kp_csum_tree *tree, uint64_t *sector, uint32_t *sums,
			       unsigned int max);

static inline bool kp_csum_has(const uint64_t *have, unsigned int i)
{
	return have[i / 64] >> i % 64 & 1;
}

#endif
