/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether a path may be written: block devices only when asked, never while something uses them. */
#ifndef KPOLICY_TOOLS_SAFETY_H
#define KPOLICY_TOOLS_SAFETY_H

#include <stdbool.h>
#include <sys/types.h>

/* Where the kernel tells about devices; tests point it elsewhere. */
struct safety_roots {
	const char *mountinfo; /* /proc/self/mountinfo */
	const char *swaps;     /* /proc/swaps */
	const char *dev_block; /* /sys/dev/block */
	const char *btrfs;     /* /sys/fs/btrfs: a mount shows only one device of several */
};

extern const struct safety_roots safety_system;

/*
 * Whether block device @dev, one of its partitions or the disk it is a partition of is mounted,
 * swapped to or held (dm, md ...). Returns 1 with *@why set to one line, freed by the caller;
 * 0 when not.
 */
int safety_in_use(dev_t dev, const struct safety_roots *roots, char **why);

/*
 * Whether @path may be written. What does not exist yet and what is no device may.
 *
 * Returns 0; -EBUSY for a block device in use, whatever @destructive says; -EPERM for another
 * device without @destructive; *@why is one line then, freed by the caller.
 */
int safety_check_write(const char *path, bool destructive, const struct safety_roots *roots,
		       char **why);

/*
 * The block device behind @path: its number, and what it is known by whatever its name (WWID, serial
 * number, a loop device's file): "8:16 naa.5000c500". NULL when it is none, or no memory; the caller
 * frees it.
 */
char *safety_device(const char *path);

#endif
