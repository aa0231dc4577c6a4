/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The requests of a device that has several in flight at an interface of the kernel: what is
 * remembered of each between submission and its end. A request's vector is there only when it
 * needs one. Everything is guarded by the device's lock.
 */
#ifndef KP_REQUEST_H
#define KP_REQUEST_H

#include <sys/uio.h>

#include "core/device.h"
#include "core/pool.h"

/* struct kp_request - a device's own struct begins with it. */
struct kp_request {
	struct kp_bio *bio; /* its first */
	uint64_t bytes;
	uint64_t done;	   /* of them, by earlier transfers that were short */
	struct iovec *iov; /* KP_REQUEST_IOV of them; NULL: one segment */
};

struct kp_requests {
	struct kp_pool requests;
	struct kp_pool iovs; /* not touched by requests of one segment */
};

/* kp_requests_init - room for @depth structs of @size that begin with a kp_request. 0 or -errno. */
int kp_requests_init(struct kp_requests *requests, size_t size, unsigned int depth);

void kp_requests_exit(struct kp_requests *requests);

/*
 * kp_request_begin - a request for @bio, counted; waits until one is free. Any thread that may
 * submit. Called without the device's lock, returns with it.
 */
void *kp_request_begin(struct kp_device *device, struct kp_requests *requests, struct kp_bio *bio);

/* kp_request_finish - end the bios of a request and give it back. Without the device's lock. */
void kp_request_finish(struct kp_device *device, struct kp_requests *requests,
		       struct kp_request *request, int error);

#endif
