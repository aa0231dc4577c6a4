// SPDX-License-Identifier: GPL-2.0-only
/* The psync device: one blocking system call per request, ended inside submit. */
#include <sys/uio.h>
#include <unistd.h>

#include "../stage.h"

static ssize_t transfer(const struct kp_bio *bio, const struct iovec *iov, unsigned int nr,
			uint64_t pos)
{
	int fd = bio->file->fd;
	ssize_t ret;

	if (bio->op == KP_OP_READ)
		ret = nr == 1 ? pread(fd, iov->iov_base, iov->iov_len, pos)
			      : preadv(fd, iov, nr, pos);
	else
		ret = nr == 1 ? pwrite(fd, iov->iov_base, iov->iov_len, pos)
			      : pwritev(fd, iov, nr, pos);
	return ret < 0 ? -errno : ret;
}

static void psync_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	struct iovec iov[KP_REQUEST_IOV];
	uint64_t bytes, done = 0;
	ssize_t ret;
	int error;

	kp_device_lock(device);
	kp_device_account(device, bio);
	kp_device_unlock(device);
	if (!kp_op_has_data(bio->op)) {
		kp_device_sync(bio);
		return;
	}
	bytes = kp_request_bytes(bio);
	do {
		unsigned int nr = kp_request_iov(device, bio, done, iov);

		ret = transfer(bio, iov, nr, bio->iter.pos + done);
	} while (kp_transfer_more(bio, bytes, &done, ret, &error));
	kp_request_end(bio, done, error);
}

const struct kp_device_ops kp_psync_device = {
	.stage = {
		.name = "psync",
		.size = sizeof(struct kp_device),
		.submit = psync_submit,
	},
	.synchronous = true,
};
