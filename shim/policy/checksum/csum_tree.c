// SPDX-License-Identifier: GPL-2.0-only
/*
 * A directory of chunks, each of which has the sums of 64 GiB of the file. A chunk is address space
 * that uses no memory until it is touched.
 *
 * Even a read of the arena allocates a page. Therefore a byte for each page of bits tells whether that
 * page was ever written, and only such pages are read.
 */
#include "csum_tree.h"

#define CHUNK_SECTORS (1u << 24) /* 64 GiB of the file */
#define MAX_CHUNKS    KP_CSUM_TREE_CHUNKS
#define PAGE_BITS     (KP_PAGE_SIZE * 8)

struct csum_chunk {
	uint8_t touched[CHUNK_SECTORS / PAGE_BITS]; /* atomic; by page of bits */
	uint8_t pad[KP_PAGE_SIZE - CHUNK_SECTORS / PAGE_BITS];
	uint64_t bits[CHUNK_SECTORS / 64]; /* atomic; the sector has a sum */
	uint32_t sums[CHUNK_SECTORS];
};

static struct csum_chunk *chunk_at(const struct kp_csum_tree *tree, uint64_t sector)
{
	uint64_t i = sector / CHUNK_SECTORS;

	return i < MAX_CHUNKS ? __atomic_load_n(&tree->chunks[i], __ATOMIC_ACQUIRE) : NULL;
}

static struct csum_chunk *make_chunk(struct kp_csum_tree *tree, uint64_t sector)
{
	struct csum_chunk *chunk = chunk_at(tree, sector), *fresh;

	if (chunk || sector / CHUNK_SECTORS >= MAX_CHUNKS)
		return chunk;
	fresh = kp_arena_alloc(tree->arena, sizeof(*fresh));
	if (!fresh)
		return NULL;
	/* Another job may have been faster: then our chunk stays unused, and costs no memory. */
	if (__atomic_compare_exchange_n(&tree->chunks[sector / CHUNK_SECTORS], &chunk, fresh, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return fresh;
	return chunk;
}

/* struct span - the part of a range of sectors that is in one word of bits. */
struct span {
	unsigned int word, first, nr;
	uint64_t mask;
};

static struct span next_span(uint64_t sector, uint64_t nr)
{
	unsigned int at = sector % CHUNK_SECTORS;
	struct span span = { .word = at / 64, .first = at };

	span.nr = kp_min(64 - at % 64, nr);
	span.mask = (span.nr < 64 ? (1ull << span.nr) - 1 : ~0ull) << at % 64;
	return span;
}

static bool touched(const struct csum_chunk *chunk, const struct span *span)
{
	return __atomic_load_n(&chunk->touched[span->first / PAGE_BITS], __ATOMIC_ACQUIRE);
}

static void mark_touched(struct csum_chunk *chunk, const struct span *span)
{
	if (!touched(chunk, span))
		__atomic_store_n(&chunk->touched[span->first / PAGE_BITS], 1, __ATOMIC_RELEASE);
}

int kp_csum_tree_set(struct kp_csum_tree *tree, uint64_t sector, const uint32_t *sums,
		     unsigned int nr)
{
	while (nr) {
		struct csum_chunk *chunk = make_chunk(tree, sector);
		struct span span = next_span(sector, nr);
		uint64_t *bits;

		if (!chunk)
			return -ENOMEM;
		memcpy(&chunk->sums[span.first], sums, span.nr * sizeof(*sums));
		mark_touched(chunk, &span);
		bits = &chunk->bits[span.word];
		/* Other jobs may write sectors of the same word. */
		if ((__atomic_load_n(bits, __ATOMIC_RELAXED) & span.mask) != span.mask)
			__atomic_fetch_or(bits, span.mask, __ATOMIC_RELEASE);
		sector += span.nr;
		sums += span.nr;
		nr -= span.nr;
	}
	return 0;
}

/* The bits of a span, shifted down to bit 0. */
static uint64_t span_bits(const struct csum_chunk *chunk, const struct span *span)
{
	if (!chunk || !touched(chunk, span))
		return 0;
	return (__atomic_load_n(&chunk->bits[span->word], __ATOMIC_ACQUIRE) & span->mask) >>
	       span->first % 64;
}

unsigned int kp_csum_tree_lookup(const struct kp_csum_tree *tree, uint64_t sector, uint32_t *sums,
				 uint64_t *have, unsigned int nr)
{
	unsigned int found = 0;

	memset(have, 0, (nr + 63) / 64 * sizeof(*have));
	for (unsigned int i = 0; i < nr;) {
		const struct csum_chunk *chunk = chunk_at(tree, sector + i);
		struct span span = next_span(sector + i, nr - i);
		uint64_t bits = span_bits(chunk, &span);

		if (bits) {
			memcpy(sums + i, &chunk->sums[span.first], span.nr * sizeof(*sums));
			have[i / 64] |= bits << i % 64;
			if (i % 64 && i % 64 + span.nr > 64)
				have[i / 64 + 1] |= bits >> (64 - i % 64);
			found += __builtin_popcountll(bits);
		}
		i += span.nr;
	}
	return found;
}

void kp_csum_tree_clear(struct kp_csum_tree *tree, uint64_t sector, uint64_t nr)
{
	while (nr) {
		struct csum_chunk *chunk = chunk_at(tree, sector);
		struct span span = next_span(sector, nr);
		uint64_t step = span.nr;

		if (!chunk)
			step = CHUNK_SECTORS - sector % CHUNK_SECTORS;
		else if (!touched(chunk, &span))
			step = PAGE_BITS - span.first % PAGE_BITS;
		else
			__atomic_fetch_and(&chunk->bits[span.word], ~span.mask, __ATOMIC_RELEASE);
		step = kp_min(step, nr);
		sector += step;
		nr -= step;
	}
}

/* The first sector from @sector on that has a sum; MAX_CHUNKS * CHUNK_SECTORS if there is none. */
static uint64_t first_set(const struct kp_csum_tree *tree, uint64_t sector)
{
	uint64_t end = (uint64_t)MAX_CHUNKS * CHUNK_SECTORS;

	while (sector < end) {
		const struct csum_chunk *chunk = chunk_at(tree, sector);
		struct span span = next_span(sector, 64);
		uint64_t bits = span_bits(chunk, &span);

		if (bits)
			return sector + __builtin_ctzll(bits);
		if (!chunk)
			sector = kp_round_down(sector, CHUNK_SECTORS) + CHUNK_SECTORS;
		else if (!touched(chunk, &span))
			sector = kp_round_down(sector, PAGE_BITS) + PAGE_BITS;
		else
			sector += span.nr;
	}
	return end;
}

unsigned int kp_csum_tree_next(const struct kp_csum_tree *tree, uint64_t *sector, uint32_t *sums,
			       unsigned int max)
{
	unsigned int nr = 0;
	uint64_t have;

	*sector = first_set(tree, *sector);
	while (nr < max && kp_csum_tree_lookup(tree, *sector + nr, sums + nr, &have, 1))
		nr++;
	return nr;
}
