// SPDX-License-Identifier: GPL-2.0-only
/*
 * The io_uring device: one io_uring_enter() for a batch, registered files, and registered
 * buffers where the application's memory could be registered.
 */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/pipeline.h"
#include "devices.h"
#include "request.h"

#define REGISTERED_FILES 64u
#define MAX_ENTRIES	 32768u
#define WAKE		 1 /* handle of the poll on wake_fd */

struct uring_device {
	struct kp_device device;
	struct io_uring ring;
	bool ring_made;
	bool files_registered;
	struct iovec buffers; /* registered memory, empty: none */
	struct kp_requests requests;
};

static struct uring_device *uring_device(struct kp_device *device)
{
	return kp_container_of(device, struct uring_device, device);
}

static bool in_registered(const struct uring_device *uring, const void *memory, size_t len)
{
	const char *start = uring->buffers.iov_base;
	const char *from = memory;

	return from >= start && from + len <= start + uring->buffers.iov_len;
}

static kp_always_inline void fill(struct io_uring_sqe *sqe, const struct kp_file *file, int opcode,
				  const void *memory, unsigned int len, uint64_t pos,
				  uint64_t handle)
{
	bool registered = file->device_data;

	io_uring_prep_rw(opcode, sqe, registered ? file->index : file->fd, memory, len, pos);
	if (registered)
		sqe->flags = IOSQE_FIXED_FILE;
	sqe->user_data = handle;
}

/* A read or write of one piece of memory. */
static kp_always_inline void fill_plain(const struct uring_device *uring, struct io_uring_sqe *sqe,
					const struct kp_bio *bio, const void *memory, size_t len,
					uint64_t pos, uint64_t handle)
{
	bool read = bio->op == KP_OP_READ;
	int opcode;

	if (in_registered(uring, memory, len))
		opcode = read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	else
		opcode = read ? IORING_OP_READ : IORING_OP_WRITE;
	fill(sqe, bio->file, opcode, memory, len, pos, handle);
}

/* A bio that is its own request. */
static kp_always_inline void fill_bio(const struct uring_device *uring, struct io_uring_sqe *sqe,
				      const struct kp_bio *bio)
{
	struct kp_segment segment = kp_iter_segment(bio->vec, &bio->iter);

	fill_plain(uring, sqe, bio, segment.addr, segment.len, bio->iter.pos, kp_bio_handle(bio));
}

/* The next entry of the submission queue. With the device locked. */
static struct io_uring_sqe *next_sqe(struct uring_device *uring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

	if (!sqe) { /* full of continuations: make room */
		io_uring_submit(&uring->ring);
		sqe = io_uring_get_sqe(&uring->ring);
	}
	return sqe;
}

/* A read or write, or what is left of it. With the device locked. */
static void hold_request(struct uring_device *uring, struct kp_request *request)
{
	struct io_uring_sqe *sqe = next_sqe(uring);
	struct kp_bio *bio = request->bio;
	uint64_t pos = bio->iter.pos + request->done, handle = kp_request_handle(request);
	struct iovec one = { 0 }, *iov = request->iov ? request->iov : &one;
	unsigned int nr = kp_request_iov(&uring->device, bio, request->done, iov);

	if (nr == 1) {
		fill_plain(uring, sqe, bio, iov->iov_base, iov->iov_len, pos, handle);
	} else {
		assert(request->iov); /* a bio of several segments has them */
		fill(sqe, bio->file, bio->op == KP_OP_READ ? IORING_OP_READV : IORING_OP_WRITEV,
		     iov, nr, pos, handle);
	}
}

static void hold_sync(struct uring_device *uring, struct kp_bio *bio)
{
	struct io_uring_sqe *sqe = next_sqe(uring);

	fill(sqe, bio->file, IORING_OP_FSYNC, NULL, 0, 0,
	     kp_request_handle(kp_request_new(&uring->requests, bio)));
	if (bio->op == KP_OP_FDATASYNC)
		sqe->fsync_flags = IORING_FSYNC_DATASYNC;
}

static kp_noinline void submit_any(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	struct uring_device *uring = uring_device(device);

	if (bio->op == KP_OP_DISCARD || bio->op == KP_OP_SYNC_RANGE) {
		kp_pipeline_flush(stage->pipeline, stage);
		kp_device_sync(bio);
		return;
	}
	kp_request_admit(device, bio);
	if (!kp_op_has_data(bio->op))
		hold_sync(uring, bio);
	else if (kp_request_is_plain(device, bio))
		fill_bio(uring, next_sqe(uring), bio);
	else
		hold_request(uring, kp_request_new(&uring->requests, bio));
	kp_device_started(device, !device->in_flight);
	kp_device_unlock(device);
}

static void uring_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	struct uring_device *uring = uring_device(device);
	struct io_uring_sqe *sqe;

	if (!kp_request_is_simple(device, bio) || !(sqe = io_uring_get_sqe(&uring->ring))) {
		submit_any(stage, bio);
		return;
	}
	kp_count_in_run(device->slot);
	fill_bio(uring, sqe, bio);
	kp_device_add_in_flight(device, 1);
}

static kp_noinline void flush_any(struct uring_device *uring)
{
	bool busy;

	do {
		int ret = 0;

		kp_device_lock(&uring->device);
		busy = io_uring_sq_ready(&uring->ring);
		if (busy) {
			ret = io_uring_submit(&uring->ring);
			busy = io_uring_sq_ready(&uring->ring) &&
			       (ret >= 0 || ret == -EAGAIN || ret == -EBUSY || ret == -EINTR);
		}
		kp_device_unlock(&uring->device);
		if (busy && ret < 0)
			usleep(10); /* the kernel is out of requests */
	} while (busy);
}

static void uring_flush(struct kp_stage *stage)
{
	struct uring_device *uring = uring_device(kp_stage_device(stage));

	if (!uring->device.shared) {
		unsigned int held = io_uring_sq_ready(&uring->ring);

		if (!held || io_uring_submit(&uring->ring) == (int)held)
			return;
	}
	flush_any(uring);
}

static void arm_wake(struct uring_device *uring)
{
	struct io_uring_sqe *sqe;

	kp_device_lock(&uring->device);
	sqe = io_uring_get_sqe(&uring->ring);
	if (sqe) {
		io_uring_prep_poll_add(sqe, uring->device.wake_fd, POLLIN);
		sqe->user_data = WAKE;
		io_uring_submit(&uring->ring);
	}
	kp_device_unlock(&uring->device);
}

static void take_wake(struct uring_device *uring)
{
	uint64_t count;
	ssize_t ret = read(uring->device.wake_fd, &count, sizeof(count));

	(void)ret;
	arm_wake(uring);
}

/* What ended without having done all of it, or is a sync. Return: requests ended, 0 or 1. */
static kp_noinline unsigned int go_on(struct uring_device *uring, uint64_t handle, int result)
{
	struct kp_device *device = &uring->device;
	struct kp_request *request;
	int error = kp_min(result, 0);
	bool more;

	kp_device_lock(device);
	request = kp_handle_request(&uring->requests, handle);
	more = kp_op_has_data(request->bio->op) &&
	       kp_transfer_more(request->bio->op, request->bytes, &request->done, result, &error);
	if (more)
		hold_request(uring, request);
	kp_device_unlock(device);
	if (more) {
		uring_flush(&device->stage);
		return 0;
	}
	kp_request_finish(device, &uring->requests, request, error);
	return 1;
}

/* End what has completed. Return: requests ended; *woken when wake_fd was among them. */
static unsigned int reap_ready(struct uring_device *uring, bool *woken)
{
	struct io_uring_cqe *cqe;
	unsigned int ended = 0;

	/* The peek enters the kernel if completions wait for that. */
	while (!io_uring_peek_cqe(&uring->ring, &cqe)) {
		unsigned int head, nr = 0, whole = 0;

		io_uring_for_each_cqe (&uring->ring, head, cqe) {
			struct kp_bio *bio;

			kp_device_fence(&uring->device);
			nr++;
			bio = kp_handle_whole(cqe->user_data, cqe->res);
			if (kp_likely(bio)) {
				whole++;
				kp_bio_endio(bio);
			} else if (cqe->user_data == WAKE) {
				take_wake(uring);
				*woken = true;
			} else {
				ended += go_on(uring, cqe->user_data, cqe->res);
			}
		}
		io_uring_cq_advance(&uring->ring, nr);
		if (whole)
			kp_device_ended(&uring->device, whole);
		ended += whole;
	}
	return ended;
}

static int uring_reap(struct kp_device *device, unsigned int min, const struct timespec *timeout)
{
	struct uring_device *uring = uring_device(device);
	unsigned int ended;
	bool woken = false;
	int ret = 0;

	ended = reap_ready(uring, &woken);
	while (ended < min && !woken && !ret) {
		/* The poll on wake_fd is one completion. */
		unsigned int wait = device->shared ? 1 : min - ended;
		struct __kernel_timespec limit;
		struct io_uring_cqe *cqe;

		if (timeout)
			limit = (struct __kernel_timespec){ timeout->tv_sec, timeout->tv_nsec };
		ret = timeout ? io_uring_wait_cqes(&uring->ring, &cqe, wait, &limit, NULL)
			      : io_uring_wait_cqe_nr(&uring->ring, &cqe, wait);
		ended += reap_ready(uring, &woken);
	}
	return ret && ret != -ETIME && ret != -EINTR ? ret : (int)ended;
}

static int uring_open(struct kp_device *device, struct kp_file *file)
{
	struct uring_device *uring = uring_device(device);

	if (uring->files_registered && (unsigned int)file->index < REGISTERED_FILES &&
	    io_uring_register_files_update(&uring->ring, file->index, &file->fd, 1) == 1)
		file->device_data = device; /* reached by its index from now on */
	return 0;
}

static void uring_close(struct kp_device *device, struct kp_file *file)
{
	int none = -1;

	if (file->device_data)
		io_uring_register_files_update(&uring_device(device)->ring, file->index, &none, 1);
	file->device_data = NULL;
}

static int uring_buffers(struct kp_device *device, void *start, size_t size)
{
	struct uring_device *uring = uring_device(device);
	struct iovec buffers = { start, size };
	int ret = io_uring_register_buffers(&uring->ring, &buffers, 1);

	if (!ret)
		uring->buffers = buffers;
	return ret;
}

/* A ring that one thread submits to, if this kernel has such rings. */
static int make_ring(struct uring_device *uring, unsigned int entries)
{
	/* With the flag a look at the completions enters the kernel if any wait for that. */
	unsigned int flags =
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER;
	int ret;

	if (uring->device.shared)
		flags = 0; /* a submitter that does something else would hold completions up */
	ret = io_uring_queue_init(entries, &uring->ring, flags);
	if (ret == -EINVAL)
		ret = io_uring_queue_init(entries, &uring->ring, 0);
	uring->ring_made = !ret;
	return ret;
}

/* What a user can do about the error of io_uring_setup(). */
static const char *remedy(int error)
{
	switch (error) {
	case -EMFILE:
	case -ENFILE:
		return "raise 'ulimit -n' or fs.file-max, or give fewer jobs";
	case -ENOMEM:
		return "raise 'ulimit -l', or give a smaller iodepth=";
	default:
		return "see kernel.io_uring_disabled, or give backend=libaio";
	}
}

static int uring_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		      const struct kp_pipeline_config *config)
{
	struct uring_device *uring = uring_device(kp_stage_device(stage));
	unsigned int depth = uring->device.depth = kp_min(uring->device.depth, MAX_ENTRIES - 1);
	int ret;

	(void)stage_config;
	(void)config;
	ret = kp_requests_init(&uring->requests, depth);
	if (!ret)
		ret = make_ring(uring, depth + 1);
	if (ret) {
		kp_log("backend=io_uring: no ring of %u entries: %s; %s", depth, strerror(-ret),
		       remedy(ret));
		return ret;
	}
	uring->files_registered = !io_uring_register_files_sparse(&uring->ring, REGISTERED_FILES);
	if (uring->device.wake_fd >= 0)
		arm_wake(uring);
	return 0;
}

static void uring_exit(struct kp_stage *stage)
{
	struct uring_device *uring = uring_device(kp_stage_device(stage));

	if (uring->ring_made)
		io_uring_queue_exit(&uring->ring);
	kp_requests_exit(&uring->requests);
}

const struct kp_device_ops kp_io_uring_device = {
	.stage = {
		.name = "io_uring",
		.size = sizeof(struct uring_device),
		.init = uring_init,
		.submit = uring_submit,
		.flush = uring_flush,
		.exit = uring_exit,
	},
	.open = uring_open,
	.close = uring_close,
	.reap = uring_reap,
	.buffers = uring_buffers,
};
