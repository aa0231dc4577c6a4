// SPDX-License-Identifier: GPL-2.0-only
/*
 * The libaio device: requests are held until flush, which hands them over in one io_submit().
 */
#include <assert.h>
#include <errno.h>
#include <libaio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/pipeline.h"
#include "devices.h"
#include "request.h"

#define WAKE 1 /* handle of the poll on wake_fd */

struct aio_device {
	struct kp_device device;
	io_context_t context;
	struct kp_requests requests;
	/* The first nr_held await io_submit(), which copies them. The others are free. */
	struct iocb **held;
	unsigned int nr_held;
	struct iocb *iocbs; /* those of held */
	struct io_event *events;
};

static struct aio_device *aio_device(struct kp_device *device)
{
	return kp_container_of(device, struct aio_device, device);
}

/* Put an iocb behind those that flush hands over. With the device locked. */
static kp_always_inline void hold(struct aio_device *aio, const struct kp_bio *bio, bool vector,
				  void *memory, size_t len, uint64_t pos, uint64_t handle)
{
	struct iocb *iocb = aio->held[aio->nr_held++];
	bool read = bio->op == KP_OP_READ;

	/* Its other fields stay zero. */
	iocb->data = (void *)(uintptr_t)handle;
	if (vector)
		iocb->aio_lio_opcode = read ? IO_CMD_PREADV : IO_CMD_PWRITEV;
	else
		iocb->aio_lio_opcode = read ? IO_CMD_PREAD : IO_CMD_PWRITE;
	iocb->aio_fildes = bio->file->fd;
	iocb->u.c.buf = memory;
	iocb->u.c.nbytes = len;
	iocb->u.c.offset = (long long)pos;
}

/* Hold a request, or what is left of it. With the device locked. */
static void hold_request(struct aio_device *aio, struct kp_request *request)
{
	struct kp_bio *bio = request->bio;
	uint64_t pos = bio->iter.pos + request->done, handle = kp_request_handle(request);
	struct iovec one = { 0 }, *iov = request->iov ? request->iov : &one;
	unsigned int nr = kp_request_iov(&aio->device, bio, request->done, iov);

	if (nr == 1) {
		hold(aio, bio, false, iov->iov_base, iov->iov_len, pos, handle);
	} else {
		assert(request->iov); /* a bio of several segments has them */
		hold(aio, bio, true, iov, nr, pos, handle);
	}
}

/* A bio that is its own request. */
static kp_always_inline void hold_bio(struct aio_device *aio, const struct kp_bio *bio)
{
	struct kp_segment segment = kp_iter_segment(bio->vec, &bio->iter);

	hold(aio, bio, false, segment.addr, segment.len, bio->iter.pos, kp_bio_handle(bio));
}

static kp_noinline void submit_any(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	struct aio_device *aio = aio_device(device);

	if (!kp_op_has_data(bio->op)) {
		/* The interface has no trim, and its fsync only defers the same call to a thread. */
		kp_pipeline_flush(stage->pipeline, stage);
		kp_device_sync(bio);
		return;
	}
	kp_request_admit(device, bio);
	if (kp_request_is_plain(device, bio))
		hold_bio(aio, bio);
	else
		hold_request(aio, kp_request_new(&aio->requests, bio));
	kp_device_started(device, !device->in_flight);
	kp_device_unlock(device);
}

static void aio_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);

	if (!kp_request_is_simple(device, bio)) {
		submit_any(stage, bio);
		return;
	}
	kp_count_in_run(device->slot);
	hold_bio(aio_device(device), bio);
	kp_device_add_in_flight(device, 1);
}

/* The first @nr held iocbs are free again. With the device locked. */
static void take_held(struct aio_device *aio, unsigned int nr)
{
	aio->nr_held -= nr;
	for (unsigned int i = 0; i < aio->nr_held; i++) {
		struct iocb *free = aio->held[i];

		aio->held[i] = aio->held[i + nr];
		aio->held[i + nr] = free;
	}
}

static void finish(struct aio_device *aio, uint64_t handle, int error)
{
	struct kp_request *request;

	kp_device_lock(&aio->device);
	request = kp_handle_request(&aio->requests, handle);
	kp_device_unlock(&aio->device);
	kp_request_finish(&aio->device, &aio->requests, request, error);
}

static kp_noinline void flush_any(struct aio_device *aio)
{
	bool more;

	do {
		uint64_t refused = 0;
		int ret = 0;

		kp_device_lock(&aio->device);
		if (aio->nr_held)
			ret = io_submit(aio->context, aio->nr_held, aio->held);
		if (ret > 0) {
			take_held(aio, ret);
		} else if (ret < 0 && ret != -EAGAIN && ret != -EINTR) {
			/* The first one alone has failed. */
			refused = (uintptr_t)aio->held[0]->data;
			take_held(aio, 1);
		}
		more = aio->nr_held;
		kp_device_unlock(&aio->device);
		if (refused)
			finish(aio, refused, ret);
		else if (ret == -EAGAIN)
			usleep(10); /* the kernel is out of requests */
	} while (more);
}

static void aio_flush(struct kp_stage *stage)
{
	struct aio_device *aio = aio_device(kp_stage_device(stage));

	if (aio->device.shared || aio->nr_held)
		flush_any(aio);
}

static void arm_wake(struct aio_device *aio)
{
	struct iocb wake, *iocb = &wake;

	io_prep_poll(iocb, aio->device.wake_fd, POLLIN);
	iocb->data = (void *)WAKE;
	io_submit(aio->context, 1, &iocb);
}

static void take_wake(struct aio_device *aio)
{
	uint64_t count;
	ssize_t ret = read(aio->device.wake_fd, &count, sizeof(count));

	(void)ret;
	arm_wake(aio);
}

/* A transfer that did not do all of it. Return: requests ended, 0 or 1. */
static kp_noinline unsigned int go_on(struct aio_device *aio, uint64_t handle, int64_t result)
{
	struct kp_device *device = &aio->device;
	struct kp_request *request;
	bool more;
	int error;

	kp_device_lock(device);
	request = kp_handle_request(&aio->requests, handle);
	more = kp_transfer_more(request->bio->op, request->bytes, &request->done, result, &error);
	if (more)
		hold_request(aio, request);
	kp_device_unlock(device);
	if (more) {
		aio_flush(&device->stage);
		return 0;
	}
	kp_request_finish(device, &aio->requests, request, error);
	return 1;
}

/* End what the first @nr events say. Return: requests ended; *woken when wake_fd was among them. */
static unsigned int complete(struct aio_device *aio, unsigned int nr, bool *woken)
{
	unsigned int ended = 0, whole = 0;

	for (unsigned int i = 0; i < nr; i++) {
		uint64_t handle = (uintptr_t)aio->events[i].data;
		int64_t result = (int64_t)aio->events[i].res;
		struct kp_bio *bio = kp_handle_whole(handle, result);

		if (kp_likely(bio)) {
			whole++;
			kp_bio_endio(bio);
		} else if (handle == WAKE) {
			take_wake(aio);
			*woken = true;
		} else {
			ended += go_on(aio, handle, result);
		}
	}
	if (whole)
		kp_device_ended(&aio->device, whole);
	return ended + whole;
}

static int aio_reap(struct kp_device *device, unsigned int min, const struct timespec *timeout)
{
	struct aio_device *aio = aio_device(device);
	struct timespec limit, *limit_ptr = NULL;
	unsigned int ended = 0;
	bool woken = false;
	int ret;

	if (timeout) {
		limit = *timeout;
		limit_ptr = &limit;
	}
	do {
		unsigned int wait = min > ended ? min - ended : 0;

		if (device->shared) /* the poll on wake_fd is one event */
			wait = kp_min(wait, 1);
		ret = io_getevents(aio->context, wait, device->depth + 1, aio->events, limit_ptr);
		if (ret == -EINTR) {
			ret = 0;
			break;
		}
		kp_device_fence(device);
		ended += complete(aio, kp_max(ret, 0), &woken);
	} while (ended < min && ret > 0 && !woken);
	return ret < 0 ? ret : (int)ended;
}

static int aio_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		    const struct kp_pipeline_config *config)
{
	struct aio_device *aio = aio_device(kp_stage_device(stage));
	unsigned int depth = aio->device.depth;
	int ret;

	(void)stage_config;
	(void)config;
	aio->held = calloc(depth, sizeof(*aio->held));
	aio->iocbs = calloc(depth, sizeof(*aio->iocbs));
	aio->events = calloc(depth + 1, sizeof(*aio->events));
	if (!aio->held || !aio->iocbs || !aio->events)
		return -ENOMEM;
	for (unsigned int i = 0; i < depth; i++)
		aio->held[i] = &aio->iocbs[i];
	ret = kp_requests_init(&aio->requests, depth);
	if (!ret)
		ret = io_setup(depth + 1, &aio->context); /* 0 or -errno */
	if (ret == -EAGAIN)
		kp_log("backend=libaio: %u requests are more than fs.aio-max-nr leaves, raise it",
		       depth);
	else if (ret)
		kp_log("backend=libaio: no context for %u requests: %s; give backend=psync", depth,
		       strerror(-ret));
	if (!ret && aio->device.wake_fd >= 0)
		arm_wake(aio);
	return ret;
}

static void aio_exit(struct kp_stage *stage)
{
	struct aio_device *aio = aio_device(kp_stage_device(stage));

	if (aio->context)
		io_destroy(aio->context);
	kp_requests_exit(&aio->requests);
	free(aio->held);
	free(aio->iocbs);
	free(aio->events);
}

const struct kp_device_ops kp_libaio_device = {
	.stage = {
		.name = "libaio",
		.size = sizeof(struct aio_device),
		.init = aio_init,
		.submit = aio_submit,
		.flush = aio_flush,
		.exit = aio_exit,
	},
	.caps = KP_BACKEND_OWN_IO,
	.reap = aio_reap,
};
