/* SPDX-License-Identifier: GPL-2.0-only */
/* Queue limits: where a file's come from. */
#ifndef KP_LIMITS_H
#define KP_LIMITS_H

#include "kpolicy.h"

/* kp_limits_default - the block layer's defaults (blk_set_default_limits, 4.3 to 5.11). */
void kp_limits_default(struct kp_queue_limits *limits);

/*
 * kp_limits_read - read the limits of a block device from sysfs.
 * @dev: device number of a disk, or of a partition, which has the limits of its disk.
 *
 * Return: 0; -ENODEV when @dev has no queue in sysfs (a network or btrfs file system). Any thread.
 */
int kp_limits_read(struct kp_queue_limits *limits, uint64_t dev);

/*
 * kp_limits_check_options - is what the user asked for possible at all?
 * @why: receives one line that names option, value and remedy.
 *
 * Return: 0 or -EINVAL. Any thread.
 */
int kp_limits_check_options(const struct kp_limit_options *options, char *why, size_t why_size);

/*
 * kp_limits_override - lay the user's limits over the device's.
 *
 * Return: 0; -EINVAL with @why when the result contradicts itself. Any thread.
 */
int kp_limits_override(struct kp_queue_limits *limits, const struct kp_limit_options *options,
		       char *why, size_t why_size);

#endif
