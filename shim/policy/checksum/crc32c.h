/* SPDX-License-Identifier: GPL-2.0-only */
/* CRC32C as btrfs keeps it, by ISA-L. */
#ifndef KP_CRC32C_H
#define KP_CRC32C_H

#include <endian.h>

#include "stage.h"

#define KP_CSUM_SECTOR 4096u /* fs_info->sectorsize: bytes that one sum covers */

/* kp_crc32c_fn - continue @crc (Castagnoli, reflected, neither end inverted) over @len bytes. */
typedef uint32_t (*kp_crc32c_fn)(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_fast - with the CPU's instructions where it has them. Any thread. */
uint32_t kp_crc32c_fast(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_generic - by table, as the kernel's crc32c-generic driver does. Any thread. */
uint32_t kp_crc32c_generic(uint32_t crc, const void *data, size_t len);

/* kp_crc32c_accelerated - does kp_crc32c_fast() have instructions to use here? Any thread. */
bool kp_crc32c_accelerated(void);

/* kp_csum_final - the sum to store: inverted, little-endian. */
static inline uint32_t kp_csum_final(uint32_t crc)
{
	return htole32(~crc);
}

/* kp_csum_data - the stored sum of @len bytes, padded with zeroes to a whole sector. */
uint32_t kp_csum_data(kp_crc32c_fn crc32c, const void *data, size_t len);

/**
 * kp_csum_vec - the stored sums of the next sectors of a walk over a vector.
 * @iter: stands on the begin of a sector; moved on. A last sector of which it covers only a part
 * counts as padded with zeroes.
 * @sums: receives one sum per sector, @max at most.
 *
 * Return: sums written. Any thread.
 */
unsigned int kp_csum_vec(kp_crc32c_fn crc32c, const struct kp_segment *vec, struct kp_iter *iter,
			 uint32_t *sums, unsigned int max);

#endif
