// SPDX-License-Identifier: GPL-2.0-only
/* Requests in flight. See request.h. */
#include "request.h"

int kp_requests_init(struct kp_requests *requests, size_t size, unsigned int depth)
{
	/* Guarded by the device's lock, not by the pools' own. */
	int ret = kp_pool_init(&requests->requests, size, depth, false);

	if (ret)
		return ret;
	return kp_pool_init(&requests->iovs, KP_REQUEST_IOV * sizeof(struct iovec), depth, false);
}

void kp_requests_exit(struct kp_requests *requests)
{
	kp_pool_exit(&requests->requests);
	kp_pool_exit(&requests->iovs);
}

void *kp_request_begin(struct kp_device *device, struct kp_requests *requests, struct kp_bio *bio)
{
	struct kp_request *request;

	kp_device_lock(device);
	while (!(request = kp_pool_get(&requests->requests))) {
		kp_device_unlock(device);
		kp_pipeline_wait(device->stage.pipeline, &device->stage);
		kp_device_lock(device);
	}
	request->bio = bio;
	request->bytes = kp_request_bytes(bio);
	request->done = 0;
	request->iov = bio->next || bio->nr_vecs > 1 ? kp_pool_get(&requests->iovs) : NULL;
	kp_device_account(device, bio);
	return request;
}

void kp_request_finish(struct kp_device *device, struct kp_requests *requests,
		       struct kp_request *request, int error)
{
	struct kp_bio *bio = request->bio;
	uint64_t done = request->done;

	kp_device_lock(device);
	if (request->iov)
		kp_pool_put(&requests->iovs, request->iov);
	kp_pool_put(&requests->requests, request);
	kp_device_unlock(device);
	kp_request_end(bio, done, error);
	kp_device_ended(device, 1);
}
