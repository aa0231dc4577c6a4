/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The requests of a device that has several in flight at an interface of the kernel, and what is
 * remembered of each between submission and its end. Of most there is nothing to remember: one bio
 * of one segment, which the kernel transfers in one go. Such a bio is its own request. Others, and
 * what is left of a short transfer, have a struct kp_request; a vector only if they need one.
 *
 * The kernel carries a word with each, and gives it back: a handle. Everything here is guarded by
 * the device's lock.
 */
#ifndef KP_REQUEST_H
#define KP_REQUEST_H

#include <sys/uio.h>

#include "core/device.h"
#include "core/pipeline.h"
#include "core/pool.h"

struct kp_request {
	struct kp_bio *bio; /* its first */
	uint64_t bytes;
	uint64_t done;	   /* of them, by earlier transfers that were short */
	struct iovec *iov; /* KP_REQUEST_IOV of them; NULL: one segment */
};

struct kp_requests {
	struct kp_pool requests; /* not touched by bios that are their own request */
	struct kp_pool iovs;	 /* not touched by requests of one segment */
};

/* kp_requests_init - room for @depth requests. 0 or -errno. */
int kp_requests_init(struct kp_requests *requests, unsigned int depth);

void kp_requests_exit(struct kp_requests *requests);

/*
 * kp_request_admit - lock the device, wait until it has room for one request more, and count the
 * request of @bio. Any thread that may submit. Called without the device's lock, returns with it.
 */
static inline void kp_request_admit(struct kp_device *device, struct kp_bio *bio)
{
	kp_device_lock(device);
	while (__builtin_expect(device->in_flight == device->depth, false)) {
		kp_device_unlock(device);
		kp_pipeline_wait(device->stage.pipeline, &device->stage);
		kp_device_lock(device);
	}
	kp_device_account(device, bio);
}

/*
 * kp_request_is_simple - need nothing happen but that the kernel is handed @bio? Then neither a lock
 * nor a wait nor a struct kp_request is necessary: see kp_request_admit() for the others.
 */
static inline bool kp_request_is_simple(const struct kp_device *device, const struct kp_bio *bio)
{
	return kp_op_has_data(bio->op) && kp_request_is_plain(device, bio) && !device->shared &&
	       device->in_flight != device->depth &&
	       kp_request_is_in_run(device->slot, bio->iter.size);
}

/* kp_request_new - a request for @bio, which was admitted. */
struct kp_request *kp_request_new(struct kp_requests *requests, struct kp_bio *bio);

/* A handle is the address of a bio, or that of a request with the lowest bit set. 1 is free. */
static inline uint64_t kp_bio_handle(const struct kp_bio *bio)
{
	return (uintptr_t)bio;
}

static inline uint64_t kp_request_handle(const struct kp_request *request)
{
	return (uintptr_t)request | 1;
}

/*
 * kp_handle_whole - the bio of @handle if the kernel's answer @result ends it without further ado,
 * else NULL: then see kp_handle_request().
 */
static inline struct kp_bio *kp_handle_whole(uint64_t handle, int64_t result)
{
	struct kp_bio *bio = (struct kp_bio *)(uintptr_t)handle;

	return !(handle & 1) && result == (int64_t)bio->iter.size ? bio : NULL;
}

/* kp_handle_request - the request of @handle; now also for a bio that was its own. */
struct kp_request *kp_handle_request(struct kp_requests *requests, uint64_t handle);

/* kp_request_finish - end the bios of a request and give it back. Without the device's lock. */
void kp_request_finish(struct kp_device *device, struct kp_requests *requests,
		       struct kp_request *request, int error);

#endif
