/* SPDX-License-Identifier: GPL-2.0-only */
/* The path of an I/O through the checksum stage. */
#ifndef KP_CHECKSUM_IO_H
#define KP_CHECKSUM_IO_H

#include "checksum.h"

/* checksum_submit - hook of the stage. Owner. */
void checksum_submit(struct kp_stage *stage, struct kp_bio *bio);

/* checksum_lost - hook of struct kp_range_owner: drop the sums of [start, end). */
void checksum_lost(struct kp_range_owner *owner, struct kp_file *file, uint64_t start,
		   uint64_t end);

/* What the workers do for each write. */
extern const struct kp_work_ops checksum_work_ops;

#endif
