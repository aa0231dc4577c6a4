/* SPDX-License-Identifier: GPL-2.0-only */
/* The pure part of the split policy, for the stage and for tests. */
#ifndef KP_SPLIT_H
#define KP_SPLIT_H

#include "stage.h"

/**
 * kp_split_front - where a variant cuts a bio.
 * @variant: a row of kp_split_policy that splits (not "build").
 * @adjacent: segments that adjoin in memory count as physically adjacent.
 *
 * Return: bytes of the front piece, 0 when the bio needs no split, -EINVAL when not even one
 * logical block fits (6.19 fails such a bio). Any thread.
 */
int64_t kp_split_front(const struct kp_variant *variant, const struct kp_queue_limits *limits,
		       const struct kp_bio *bio, bool adjacent);

#endif
