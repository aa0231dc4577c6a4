// SPDX-License-Identifier: GPL-2.0-only
/* What devices share: requests as system calls see them, and how they end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/device.h"
#include "core/pipeline.h"

void kp_device_account_merged(struct kp_device *device, const struct kp_bio *bio)
{
	uint64_t *values = device->slot->values;
	uint64_t bytes = 0;

	for (; bio; bio = bio->next) {
		kp_count(&values[KP_BIOS], 1);
		kp_count(&values[KP_BIO_SIZES + kp_size_bucket(bio->iter.size)], 1);
		bytes += bio->iter.size;
	}
	kp_count(&values[KP_REQUESTS], 1);
	kp_count(&values[KP_REQUEST_SIZES + kp_size_bucket(bytes)], 1);
}

void kp_device_ended_shared(struct kp_device *device, unsigned int nr)
{
	kp_device_lock(device);
	kp_device_add_in_flight(device, -(int)nr);
	__atomic_fetch_add(&device->progress_seq, 1, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&device->progress);
	kp_device_unlock(device);
	if (__atomic_load_n(&device->owner_sleeps, __ATOMIC_SEQ_CST) &&
	    !kp_owner_is_me(device->owner))
		kp_owner_wake(device->owner);
}

unsigned int kp_request_iov(const struct kp_device *device, const struct kp_bio *bio, uint64_t skip,
			    struct iovec *iov)
{
	uint64_t room = device->transfer_limit ? device->transfer_limit : UINT64_MAX;
	unsigned int nr = 0;

	if (!skip && kp_request_is_plain(device, bio)) {
		struct kp_segment segment = kp_iter_segment(bio->vec, &bio->iter);

		iov->iov_base = segment.addr;
		iov->iov_len = segment.len;
		return 1;
	}
	for (; bio; bio = bio->next) {
		struct kp_iter iter = bio->iter;

		if (skip >= iter.size) {
			skip -= iter.size;
			continue;
		}
		if (skip)
			kp_iter_advance(bio->vec, &iter, skip);
		skip = 0;
		while (iter.size && room) {
			struct kp_segment segment = kp_iter_segment(bio->vec, &iter);

			kp_iter_step(bio->vec, &iter, segment.len);
			segment.len = kp_min(segment.len, room);
			room -= segment.len;
			if (nr &&
			    (char *)iov[nr - 1].iov_base + iov[nr - 1].iov_len == segment.addr) {
				iov[nr - 1].iov_len += segment.len;
				continue;
			}
			if (nr == KP_REQUEST_IOV)
				return nr;
			iov[nr].iov_base = segment.addr;
			iov[nr++].iov_len = segment.len;
		}
	}
	return nr;
}

void kp_request_end(struct kp_bio *bio, uint64_t bytes, int error)
{
	if (!bio->next && !error && bytes >= bio->iter.size) {
		kp_bio_endio(bio);
		return;
	}
	while (bio) {
		struct kp_bio *next = bio->next; /* end_io may free the bio */
		uint64_t size = bio->iter.size;
		uint64_t moved = kp_min(bytes, size);

		bytes -= moved;
		if (moved != size)
			kp_bio_missing(bio, size - moved);
		if (error && (moved != size || !size))
			kp_bio_error(bio, error);
		bio->next = NULL;
		kp_bio_endio(bio);
		bio = next;
	}
}

bool kp_transfer_more(unsigned int op, uint64_t bytes, uint64_t *done, ssize_t result, int *error)
{
	*error = 0;
	if (result == -EINTR)
		return true;
	if (result < 0) {
		/* Direct I/O cannot go on within a block: the file ended there. */
		if (result != -EINVAL || op != KP_OP_READ || !*done)
			*error = result;
		return false;
	}
	*done += result;
	if (!result && op == KP_OP_WRITE)
		*error = -EIO;
	return result && *done != bytes;
}

/* Give the range back, as blkdev_issue_discard() or a punched hole does. */
static int discard(const struct kp_bio *bio)
{
	uint64_t range[2] = { bio->iter.pos, bio->iter.size };
	int ret;

	if (bio->file->block_device)
		ret = ioctl(bio->file->fd, BLKDISCARD, range);
	else
		ret = fallocate(bio->file->fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, range[0],
				range[1]);
	return ret ? -errno : 0;
}

static int sync_range(const struct kp_bio *bio)
{
	unsigned int flags = bio->file->pipeline->device->config.sync_range_flags;

	if (!flags)
		flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			SYNC_FILE_RANGE_WAIT_AFTER;
	return sync_file_range(bio->file->fd, bio->iter.pos, bio->iter.size, flags);
}

static int sync_call(const struct kp_bio *bio)
{
	int fd = bio->file->fd;
	int ret = 0;

	switch (bio->op) {
	case KP_OP_DISCARD:
		return discard(bio);
	case KP_OP_FLUSH:
		ret = fsync(fd);
		break;
	case KP_OP_FDATASYNC:
		ret = fdatasync(fd);
		break;
	case KP_OP_SYNC_RANGE:
		ret = sync_range(bio);
		break;
	}
	return ret ? -errno : 0;
}

void kp_device_sync(struct kp_bio *bio)
{
	struct kp_device *device = bio->file->pipeline->device;
	int error = sync_call(bio);

	kp_request_end(bio, error ? 0 : bio->iter.size, error);
	kp_device_ended_inside(device);
}
