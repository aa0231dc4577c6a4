/* SPDX-License-Identifier: GPL-2.0-only */
/* The extents of a file, as its file system has them on the disk. */
#ifndef KP_EXTENTS_H
#define KP_EXTENTS_H

#include <stdint.h>

enum kp_extent_state {
	KP_EXTENT_WRITTEN,
	KP_EXTENT_UNWRITTEN, /* allocated, and reads as zeroes until it is written */
	KP_EXTENT_DELAYED,   /* not allocated yet: its data are in the kernel's page cache */
};

/* kp_extent_fn - what is done with @len bytes from @pos on. A value other than 0 ends the walk. */
typedef int (*kp_extent_fn)(uint64_t pos, uint64_t len, enum kp_extent_state state, void *arg);

/*
 * kp_extents_walk - write the file's dirty pages back, then visit its extents in order (FIEMAP).
 *
 * Return: 0; what @visit returned; -EOPNOTSUPP when the file system does not tell, perhaps after
 * some visits. Any thread.
 */
int kp_extents_walk(int fd, kp_extent_fn visit, void *arg);

#endif
