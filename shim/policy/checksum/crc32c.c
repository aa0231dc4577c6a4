// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC32C of sectors. Stands for btrfs_csum_data() and btrfs_csum_final().
 *
 * The arithmetic is ISA-L's, except on arm64, where the CPU's own instructions do it as they do in the
 * kernel (crc32c_le() of arch/arm64/lib/crc32.S).
 */
#include <isa-l/crc.h>
#include <string.h>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "core/util.h"
#include "crc32c.h"

uint32_t kp_crc32c_generic(uint32_t crc, const void *data, size_t len)
{
	return crc32_iscsi_base((unsigned char *)data, len, crc);
}

#ifdef __aarch64__

#pragma GCC push_options
#pragma GCC target("+crc")
#include <arm_acle.h>

static uint32_t by_instructions(uint32_t crc, const void *data, size_t len)
{
	const unsigned char *at = data;

	for (; len >= 8; at += 8, len -= 8) {
		uint64_t word;

		memcpy(&word, at, 8);
		crc = __crc32cd(crc, htole64(word));
	}
	for (; len; at++, len--)
		crc = __crc32cb(crc, *at);
	return crc;
}

#pragma GCC pop_options

bool kp_crc32c_accelerated(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

uint32_t kp_crc32c_fast(uint32_t crc, const void *data, size_t len)
{
	static int known; /* atomic; 0: not yet, 1: the CPU has no such instructions, 2: it has */
	int has = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (!has) {
		has = kp_crc32c_accelerated() ? 2 : 1;
		__atomic_store_n(&known, has, __ATOMIC_RELAXED);
	}
	return has == 2 ? by_instructions(crc, data, len) : kp_crc32c_generic(crc, data, len);
}

#else

/* ISA-L chooses by the CPU. */
uint32_t kp_crc32c_fast(uint32_t crc, const void *data, size_t len)
{
	return crc32_iscsi((unsigned char *)data, (int)len, crc);
}

bool kp_crc32c_accelerated(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("sse4.2");
#else
	return false;
#endif
}

#endif

static uint32_t pad_sector(kp_crc32c_fn crc32c, uint32_t crc, size_t len)
{
	static const unsigned char zeroes[KP_CSUM_SECTOR];

	return len < KP_CSUM_SECTOR ? crc32c(crc, zeroes, KP_CSUM_SECTOR - len) : crc;
}

uint32_t kp_csum_data(kp_crc32c_fn crc32c, const void *data, size_t len)
{
	return kp_csum_final(pad_sector(crc32c, crc32c(~0u, data, len), len));
}

/* The sum of the next sector of the walk, which spans segments or is not whole. */
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

/* The sums of the whole sectors in the current segment. Moves @iter past them. */
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

/* Not inlined, since kp_csum_vec() would save more registers than a single sector needs. */
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
 * With the CPU's instructions, the sum of a sector takes 60 ns and the walk 5 ns more. An I/O of one
 * sector usually is the rest of a segment, and needs no walk.
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
