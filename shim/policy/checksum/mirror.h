/* SPDX-License-Identifier: GPL-2.0-only */
/* Copies of the data at fixed distances, and sectors that do not match their sums. */
#ifndef KP_CHECKSUM_MIRROR_H
#define KP_CHECKSUM_MIRROR_H

#include "checksum.h"

/* checksum_submit_lower - hand a read, or every copy of a write, to the next stage. Any thread. */
void checksum_submit_lower(struct checksum *cs, struct kp_bio *bio);

/**
 * checksum_read_sector - read one sector and wait for it. Take the first copy that is good, and write
 * the bad ones again. The caller holds the range.
 * @sum: the sum that the sector must have; NULL when it has none.
 * @data: receives the sector; behind the end of the file it is zeroes.
 * @got: receives how many bytes the device had.
 * @bad: a bit for each copy that is known to be bad.
 *
 * Owner. Return: 0; -EIO when no copy is good; the device's error.
 */
int checksum_read_sector(struct checksum *cs, struct kp_file *file, uint64_t sector,
			 const uint32_t *sum, char *data, size_t *got, unsigned int bad);

/* checksum_tell - log that a sector does not match, once per file and run. Any thread. */
void checksum_tell(struct kp_file *file, struct checksum_file *cf, uint64_t pos, uint32_t expected,
		   uint32_t found);

/*
 * checksum_repair - the sectors in io->bad did not match: read them from the other copies, and set
 * the result of the I/O. Owner where there are copies, otherwise any thread.
 */
void checksum_repair(struct csum_io *io);

#endif
