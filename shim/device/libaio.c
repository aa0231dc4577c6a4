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
#include "devices.h"
#include "request.h"

struct aio_request {
	struct kp_request request;
	struct iocb iocb;
};

struct aio_device {
	struct kp_device device;
	io_context_t context;
	struct kp_requests requests;
	struct iocb **held;
	unsigned int nr_held;
	struct io_event *events;
	struct aio_request wake; /* the poll on wake_fd */
};

static struct aio_device *aio_device(struct kp_device *device)
{
	return kp_container_of(device, struct aio_device, device);
}

static void prepare(struct aio_device *aio, struct aio_request *aio_request)
{
	struct kp_request *request = &aio_request->request;
	struct iocb *iocb = &aio_request->iocb;
	struct kp_bio *bio = request->bio;
	uint64_t pos = bio->iter.pos + request->done;
	struct iovec one = { 0 }, *iov = request->iov ? request->iov : &one;
	unsigned int nr = kp_request_iov(&aio->device, bio, request->done, iov);
	bool read = bio->op == KP_OP_READ;
	int fd = bio->file->fd;

	if (nr == 1) {
		if (read)
			io_prep_pread(iocb, fd, iov->iov_base, iov->iov_len, pos);
		else
			io_prep_pwrite(iocb, fd, iov->iov_base, iov->iov_len, pos);
	} else {
		assert(request->iov); /* a bio of several segments has them */
		if (read)
			io_prep_preadv(iocb, fd, iov, nr, pos);
		else
			io_prep_pwritev(iocb, fd, iov, nr, pos);
	}
	iocb->data = aio_request;
}

/* Put a request, or what is left of it, behind those that flush hands over. Locked. */
static void hold(struct aio_device *aio, struct aio_request *request)
{
	prepare(aio, request);
	aio->held[aio->nr_held++] = &request->iocb;
}

static void aio_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct kp_device *device = kp_stage_device(stage);
	struct aio_device *aio = aio_device(device);
	struct aio_request *request;

	if (!kp_op_has_data(bio->op)) {
		/* The interface has no trim, and its fsync only defers the same call to a thread. */
		kp_pipeline_flush(stage->pipeline, stage);
		kp_device_sync(bio);
		return;
	}
	request = kp_request_begin(device, &aio->requests, bio);
	hold(aio, request);
	kp_device_started(device, !device->in_flight);
	kp_device_unlock(device);
}

/* The first @nr held requests are held no more. With the device locked. */
static void take_held(struct aio_device *aio, unsigned int nr)
{
	aio->nr_held -= nr;
	if (aio->nr_held)
		memmove(aio->held, aio->held + nr, aio->nr_held * sizeof(*aio->held));
}

/* io_submit() refused the first held request: it alone failed. With the device locked. */
static struct aio_request *take_refused(struct aio_device *aio)
{
	struct aio_request *request = aio->held[0]->data;

	take_held(aio, 1);
	return request;
}

static void aio_flush(struct kp_stage *stage)
{
	struct aio_device *aio = aio_device(kp_stage_device(stage));
	bool more;

	do {
		struct aio_request *refused = NULL;
		int ret = 0;

		kp_device_lock(&aio->device);
		if (aio->nr_held)
			ret = io_submit(aio->context, aio->nr_held, aio->held);
		if (ret > 0)
			take_held(aio, ret);
		else if (ret < 0 && ret != -EAGAIN && ret != -EINTR)
			refused = take_refused(aio);
		more = aio->nr_held;
		kp_device_unlock(&aio->device);
		if (refused)
			kp_request_finish(&aio->device, &aio->requests, &refused->request, ret);
		else if (ret == -EAGAIN)
			usleep(10); /* the kernel is out of requests */
	} while (more);
}

static void arm_wake(struct aio_device *aio)
{
	struct iocb *iocb = &aio->wake.iocb;

	io_prep_poll(iocb, aio->device.wake_fd, POLLIN);
	iocb->data = &aio->wake;
	io_submit(aio->context, 1, &iocb);
}

static void take_wake(struct aio_device *aio)
{
	uint64_t count;
	ssize_t ret = read(aio->device.wake_fd, &count, sizeof(count));

	(void)ret;
	arm_wake(aio);
}

/* One completion. Return: requests ended, 0 or 1. */
static unsigned int complete(struct aio_device *aio, struct aio_request *aio_request, long result)
{
	struct kp_request *request = &aio_request->request;
	int error;

	if (!kp_transfer_more(request->bio->op, request->bytes, &request->done, result, &error)) {
		kp_request_finish(&aio->device, &aio->requests, request, error);
		return 1;
	}
	kp_device_lock(&aio->device);
	hold(aio, aio_request);
	kp_device_unlock(&aio->device);
	aio_flush(&aio->device.stage);
	return 0;
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
		for (int i = 0; i < ret; i++) {
			struct aio_request *request = aio->events[i].data;

			if (request == &aio->wake) {
				take_wake(aio);
				woken = true;
			} else {
				ended += complete(aio, request, (long)aio->events[i].res);
			}
		}
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
	aio->events = calloc(depth + 1, sizeof(*aio->events));
	if (!aio->held || !aio->events)
		return -ENOMEM;
	ret = kp_requests_init(&aio->requests, sizeof(struct aio_request), depth);
	if (!ret)
		ret = io_setup(depth + 1, &aio->context);
	if (ret == -EAGAIN)
		kp_log("backend=libaio: %u requests are more than fs.aio-max-nr leaves, raise it",
		       depth);
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
	.reap = aio_reap,
};
