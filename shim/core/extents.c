// SPDX-License-Identifier: GPL-2.0-only
/* The extents of a file. See extents.h. */
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "extents.h"

#define NR_EXTENTS 128u /* of one system call */

union extents {
	struct fiemap map; /* its last member is the array of extents */
	char size[sizeof(struct fiemap) + NR_EXTENTS * sizeof(struct fiemap_extent)];
};

static enum kp_extent_state state_of(const struct fiemap_extent *extent)
{
	if (extent->fe_flags & FIEMAP_EXTENT_DELALLOC)
		return KP_EXTENT_DELAYED;
	return extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN ? KP_EXTENT_UNWRITTEN : KP_EXTENT_WRITTEN;
}

int kp_extents_walk(int fd, kp_extent_fn visit, void *arg)
{
	uint64_t from = 0;
	bool last = false;
	int ret = 0;

	while (!last && !ret) {
		union extents extents = { .map = { .fm_start = from,
						   .fm_length = FIEMAP_MAX_OFFSET - from,
						   .fm_flags = FIEMAP_FLAG_SYNC,
						   .fm_extent_count = NR_EXTENTS } };

		if (ioctl(fd, FS_IOC_FIEMAP, &extents))
			return -EOPNOTSUPP;
		last = !extents.map.fm_mapped_extents;
		for (unsigned int i = 0; i < extents.map.fm_mapped_extents && !ret; i++) {
			const struct fiemap_extent *extent = &extents.map.fm_extents[i];

			from = extent->fe_logical + extent->fe_length;
			last = extent->fe_flags & FIEMAP_EXTENT_LAST;
			ret = visit(extent->fe_logical, extent->fe_length, state_of(extent), arg);
		}
	}
	return ret;
}
