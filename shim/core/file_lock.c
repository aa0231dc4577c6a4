// SPDX-License-Identifier: GPL-2.0-only
/* Locks beyond EOF that tell what an open file is in use for. See file_lock.h. */
#include <errno.h>
#include <fcntl.h>

#include "file_lock.h"

static struct flock make_lock(short type, enum kp_file_lock_use use, uint32_t first, uint32_t last)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)kp_file_lock_offset(use, first),
		.l_len = (off_t)last - first + 1,
	};
}

int kp_file_lock(int fd, enum kp_file_lock_use use, uint32_t id)
{
	struct flock lock = make_lock(F_RDLCK, use, id, id);

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

void kp_file_unlock(int fd, enum kp_file_lock_use use, uint32_t id)
{
	struct flock lock = make_lock(F_UNLCK, use, id, id);

	fcntl(fd, F_OFD_SETLK, &lock);
}

bool kp_file_locked(int fd, enum kp_file_lock_use use, uint32_t first, uint32_t last)
{
	struct flock lock = make_lock(F_WRLCK, use, first, last);

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}
