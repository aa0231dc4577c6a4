/* SPDX-License-Identifier: GPL-2.0-only */
/* CRC32C sums of sectors, as btrfs stores them. */
#ifndef KP_CRC32C_H
#define KP_CRC32C_H

#include <endian.h>

#include "stage.h"

#define KP_CSUM_SECTOR 4096u /* fs_info->sectorsize: bytes that one sum covers */

/* kp_crc32c_fn - continue @crc (Castagnoli, reflected, neither end inverted) over @len bytes. */
typedef uint32_t (*kp_crc32c_fn)(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_fast - use the CPU's instructions if it has any. Any thread. */
uint32_t kp_crc32c_fast(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_generic - use a table, as the kernel's crc32c-generic driver does. Any thread. */
uint32_t kp_crc32c_generic(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_accelerated - does the CPU have instructions that kp_crc32c_fast() uses? Any thread. */
bool kp_crc32c_accelerated(void);

/* kp_csum_final - the form in which a sum is stored: inverted, little-endian. */
static inline uint32_t kp_csum_final(uint32_t crc)
{
	return htole32(~crc);
}

/* kp_csum_data - the sum, as stored, of @len bytes padded with zeroes to a sector. Any thread. */
uint32_t kp_csum_data(kp_crc32c_fn crc32c, const void *data, size_t len);

/**
 * kp_csum_vec - the sums, as stored, of the next sectors of a walk over a vector.
 * @iter: is at the start of a sector, and moves past the sectors. When it ends within a sector, the
 * rest of that sector counts as zeroes.
 * @sums: receives one sum per sector, at most @max.
 *
 * Any thread. Return: how many sums there are.
 */
unsigned int kp_csum_vec(kp_crc32c_fn crc32c, const struct kp_segment *vec, struct kp_iter *iter,
			 uint32_t *sums, unsigned int max);

#endif
