// SPDX-License-Identifier: GPL-2.0-only
/* The psync device: one blocking system call per request, ended inside submit. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/device.h"
#include "core/pipeline.h"
#include "devices.h"

static ssize_t transfer(const struct kp_bio *bio, const struct iovec *iov, unsigned int nr,
			uint64_t pos)
{
	int fd = bio->file->fd;
	ssize_t ret;

	if (bio->op == KP_OP_READ)
		ret = preadv(fd, iov, nr, pos);
	else
		ret = pwritev(fd, iov, nr, pos);
	return ret < 0 ? -errno : ret;
}

/* One segment: no vector of it. */
static kp_always_inline ssize_t transfer_plain(int fd, void *buffer, size_t len, uint64_t pos,
					       unsigned int op)
{
	ssize_t ret;

	if (op == KP_OP_READ)
		ret = pread(fd, buffer, len, pos);
	else
		ret = pwrite(fd, buffer, len, pos);
	return ret < 0 ? -errno : ret;
}

static ssize_t psync_transfer(struct kp_file *file, void *buffer, size_t len, uint64_t pos,
			      enum kp_op op)
{
	ssize_t ret = transfer_plain(file->fd, buffer, len, pos, op);
	uint64_t done = 0;
	int error;

	if (ret == (ssize_t)len)
		return ret;
	while (kp_transfer_more(op, len, &done, ret, &error))
		ret = transfer_plain(file->fd, (char *)buffer + done, len - done, pos + done, op);
	return error ? error : (ssize_t)done;
}

/* Go on after a system call that gave @ret, until the request is over. */
static __attribute__((noinline)) void go_on(struct kp_device *device, struct kp_bio *bio,
					    ssize_t ret)
{
	struct iovec iov[KP_REQUEST_IOV];
	uint64_t bytes = kp_request_bytes(bio), done = 0;
	int error;

	while (kp_transfer_more(bio->op, bytes, &done, ret, &error)) {
		unsigned int nr = kp_request_iov(device, bio, done, iov);

		ret = transfer(bio, iov, nr, bio->iter.pos + done);
	}
	kp_request_end(bio, done, error);
	kp_device_ended_inside(device);
}

static void psync_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	ssize_t ret = -EINTR; /* not begun */

	if (!kp_op_has_data(bio->op)) {
		kp_device_sync(bio);
		return;
	}
	kp_device_lock(device);
	kp_device_account(device, bio);
	kp_device_unlock(device);
	if (kp_request_is_plain(device, bio)) {
		struct kp_segment segment = kp_iter_segment(bio->vec, &bio->iter);

		ret = transfer_plain(bio->file->fd, segment.addr, segment.len, bio->iter.pos,
				     bio->op);
		if (ret == (ssize_t)bio->iter.size) {
			kp_bio_endio(bio);
			kp_device_ended_inside(device);
			return;
		}
	}
	go_on(device, bio, ret);
}

static int psync_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		      const struct kp_pipeline_config *config)
{
	(void)stage_config;
	(void)config;
	kp_stage_device(stage)->transfer = psync_transfer;
	return 0;
}

const struct kp_device_ops kp_psync_device = {
	.stage = {
		.name = "psync",
		.size = sizeof(struct kp_device),
		.init = psync_init,
		.submit = psync_submit,
	},
	.caps = KP_BACKEND_SYNCHRONOUS | KP_BACKEND_OWN_IO,
};
