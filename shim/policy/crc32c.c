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

/* The next sector of the walk, or what is left of it. */
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

unsigned int kp_csum_vec(kp_crc32c_fn crc32c, const struct kp_segment *vec, struct kp_iter *iter,
			 uint32_t *sums, unsigned int max)
{
	unsigned int nr = 0;

	while (iter->size && nr < max)
		sums[nr++] = next_sector(crc32c, vec, iter);
	return nr;
}
