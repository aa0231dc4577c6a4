// SPDX-License-Identifier: GPL-2.0-only
/* Requests in flight. See request.h. */
#include "request.h"

int kp_requests_init(struct kp_requests *requests, unsigned int depth)
{
	/* Guarded by the device's lock, not by the pools' own. */
	int ret = kp_pool_init(&requests->requests, sizeof(struct kp_request), depth, false);

	if (ret)
		return ret;
	return kp_pool_init(&requests->iovs, KP_REQUEST_IOV * sizeof(struct iovec), depth, false);
}

void kp_requests_exit(struct kp_requests *requests)
{
	kp_pool_exit(&requests->requests);
	kp_pool_exit(&requests->iovs);
}

struct kp_request *kp_request_new(struct kp_requests *requests, struct kp_bio *bio)
{
	/* There is one for each that can be in flight. */
	struct kp_request *request = kp_pool_get(&requests->requests);

	request->bio = bio;
	request->bytes = kp_request_bytes(bio);
	request->done = 0;
	request->iov = bio->next || bio->nr_vecs > 1 ? kp_pool_get(&requests->iovs) : NULL;
	return request;
}

struct kp_request *kp_handle_request(struct kp_requests *requests, uint64_t handle)
{
	if (handle & 1)
		return (struct kp_request *)(uintptr_t)(handle - 1);
	return kp_request_new(requests, (struct kp_bio *)(uintptr_t)handle);
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
