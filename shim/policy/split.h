/* SPDX-License-Identifier: GPL-2.0-only */
/* The pure part of the split policy. The stage and the unit test use it. */
#ifndef KP_SPLIT_H
#define KP_SPLIT_H

#include "stage.h"

/**
 * kp_split_front - where a variant cuts a bio.
 * @variant: a row of kp_split_policy that splits (not "build").
 * @adjacent: segments that are adjacent in memory count as physically adjacent.
 *
 * Any thread. Return: bytes of the front piece; 0 when the bio needs no split; -EINVAL when not even
 * one logical block fits, as in 6.19.
 */
int64_t kp_split_front(const struct kp_variant *variant, const struct kp_queue_limits *limits,
		       const struct kp_bio *bio, bool adjacent);

#endif
