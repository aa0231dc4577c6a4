// SPDX-License-Identifier: GPL-2.0-only
/* CRC32C of sectors. The arithmetic is ISA-L's. Stands for btrfs_csum_data() and _final(). */
#include <isa-l/crc.h>

#include "crc32c.h"

uint32_t kp_crc32c_fast(uint32_t crc, const void *data, size_t len)
{
	return crc32_iscsi((unsigned char *)data, (int)len, crc);
}

uint32_t kp_crc32c_generic(uint32_t crc, const void *data, size_t len)
{
	return crc32_iscsi_base((unsigned char *)data, len, crc);
}

bool kp_crc32c_accelerated(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("sse4.2");
#else
	return false;
#endif
}

static uint32_t pad_sector(kp_crc32c_fn crc32c, uint32_t crc, size_t len)
{
	static const unsigned char zeroes[KP_CSUM_SECTOR];

	return len < KP_CSUM_SECTOR ? crc32c(crc, zeroes, KP_CSUM_SECTOR - len) : crc;
}

uint32_t kp_csum_data(kp_crc32c_fn crc32c, const void *data, size_t len)
{
	return kp_csum_final(pad_sector(crc32c, crc32c(~0u, data, len), len));
}

/* The next sector of the walk, which lies in several segments or is not whole. */
static uint32_t next_sector(kp_crc32c_fn crc32c, const struct kp_segment *vec, struct kp_iter *iter)
{
	size_t left = kp_min(iter->size, (uint64_t)KP_CSUM_SECTOR);
	size_t len = left;
	uint32_t crc = ~0u;

	while (left) {
		struct kp_segment segment = kp_iter_segment(vec, iter);

		segment.len = kp_min(segment.len, left);
		crc = crc32c(crc, segment.addr, segment.len);
		kp_iter_step(vec, iter, segment.len);
		left -= segment.len;
	}
	return kp_csum_final(pad_sector(crc32c, crc, len));
}

/* The whole sectors that the current segment has; moves on. */
static unsigned int whole_sectors(kp_crc32c_fn crc32c, const struct kp_segment *vec,
				  struct kp_iter *iter, uint32_t *sums, unsigned int max)
{
	struct kp_segment segment = kp_iter_segment(vec, iter);
	unsigned int nr = kp_min(segment.len / KP_CSUM_SECTOR, (size_t)max);
	const char *data = segment.addr;

	if (nr)
		kp_iter_step(vec, iter, (size_t)nr * KP_CSUM_SECTOR);
	for (unsigned int i = 0; i < nr; i++, data += KP_CSUM_SECTOR)
		sums[i] = kp_csum_final(crc32c(~0u, data, KP_CSUM_SECTOR));
	return nr;
}

/* Not inlined: kp_csum_vec() would save registers for it that a single sector has no use for. */
static __attribute__((noinline)) unsigned int walk(kp_crc32c_fn crc32c,
						   const struct kp_segment *vec,
						   struct kp_iter *iter, uint32_t *sums,
						   unsigned int max)
{
	unsigned int nr = 0;

	while (iter->size && nr < max) {
		unsigned int whole = whole_sectors(crc32c, vec, iter, sums + nr, max - nr);

		nr += whole;
		if (!whole)
			sums[nr++] = next_sector(crc32c, vec, iter);
	}
	return nr;
}

/*
 * With the CPU's instructions a sum takes 60 ns, and the walk 5 more, 8 %, whether it is of one
 * sector or of many. What an I/O of one sector leaves to be summed is the rest of a segment.
 */
unsigned int kp_csum_vec(kp_crc32c_fn crc32c, const struct kp_segment *vec, struct kp_iter *iter,
			 uint32_t *sums, unsigned int max)
{
	const struct kp_segment *segment = vec + iter->idx;
	const char *data;

	if (iter->size != KP_CSUM_SECTOR || segment->len - iter->done != KP_CSUM_SECTOR || !max)
		return walk(crc32c, vec, iter, sums, max);
	data = (const char *)segment->addr + iter->done;
	kp_iter_next(iter, KP_CSUM_SECTOR);
	*sums = kp_csum_final(crc32c(~0u, data, KP_CSUM_SECTOR));
	return 1;
}
