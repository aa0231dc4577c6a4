/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface of a device, and what devices share: requests as system calls see them. */
#ifndef KP_DEVICE_H
#define KP_DEVICE_H

#include <pthread.h>
#include <sys/types.h>

#include "bio.h"
#include "counters.h"
#include "file.h"
#include "owner.h"
#include "stage.h"

struct iovec;

/*
 * kp_transfer_fn - a read or write of one piece of memory, as pread(2) and pwrite(2), that goes on
 * after a short system call. Return: bytes transferred, fewer than @len when the file ended, or
 * -errno. Owner.
 */
typedef ssize_t (*kp_transfer_fn)(struct kp_file *file, void *buffer, size_t len, uint64_t pos,
				  enum kp_op op);

/* struct kp_device - the bottom stage; a device's own struct begins with it. */
struct kp_device {
	struct kp_stage stage;
	const struct kp_device_ops *ops;
	struct kp_device_config config;
	unsigned int depth; /* requests in flight at most */
	unsigned int
		in_flight; /* atomic; requests that entered and have not ended. Written locked */
	const struct kp_owner *owner; /* of the pipeline */
	/*
	 * An eventfd that ends a wait in reap; other threads write it. -1: no other thread posts.
	 */
	int wake_fd;
	struct kp_counter_slot *slot; /* where bios and requests are counted */
	uint64_t transfer_limit;      /* bytes that one system call may move; for tests */
	/*
	 * How the device carries out an I/O that no stage has to see, without a bio and without
	 * counting. Set by the device's init when it can; NULL: every I/O needs a bio.
	 */
	kp_transfer_fn transfer;
	bool shared;
	/*
	 * When shared: protects request slots, held requests and in_flight; taken around submit,
	 * flush and the return of slots, never while waiting for completions. Nests inside a
	 * stage's own lock; nothing nests inside it.
	 */
	pthread_mutex_t lock;
	/* With lock: requests ended. Threads other than the owner wait for it. */
	pthread_cond_t progress;
	unsigned int progress_seq; /* atomic; of a shared device: changes when requests end */
	unsigned int owner_seen;   /* the progress_seq that the owner saw last */
	bool owner_sleeps;	   /* atomic; the owner must be woken when requests end */
	unsigned int waiting;	   /* threads that wait for progress: each request may be the one */
};

/**
 * struct kp_device_ops - a device.
 *
 * Its stage's submit takes a request: one bio, or several linked by bio->next that are contiguous
 * on the device, of one operation and one file. A synchronous device ends it there; another may
 * hold it until flush, which hands everything held to the kernel in as few system calls as it
 * can. A device without a free slot waits in place with kp_pipeline_wait().
 */
struct kp_device_ops {
	struct kp_stage_ops stage;
	unsigned int caps; /* enum kp_backend_caps */
	/* Are the options of the device possible? 0 or -EINVAL, one line in @why. Optional. */
	int (*check)(const struct kp_device_config *config, char *why, size_t why_size);
	/* Open what the kernel needs for a file, such as a registered descriptor. Optional. */
	int (*open)(struct kp_device *device, struct kp_file *file);
	void (*close)(struct kp_device *device, struct kp_file *file);
	/*
	 * End at least @min requests (0: those that are ready), waiting up to @timeout (NULL: no
	 * limit) or until somebody writes wake_fd. Return: requests ended, or -errno. Required
	 * unless synchronous.
	 */
	int (*reap)(struct kp_device *device, unsigned int min, const struct timespec *timeout);
	/* Memory that I/Os will come from, to be registered with the kernel. Optional. */
	int (*buffers)(struct kp_device *device, void *start, size_t size);
};

/* kp_device_keeps_data - does a read return what was written? */
static inline bool kp_device_keeps_data(const struct kp_device *device)
{
	return !(device->ops->caps & KP_BACKEND_NO_FILE) || device->config.null.memory_backed;
}

static inline struct kp_device *kp_stage_device(struct kp_stage *stage)
{
	return kp_container_of(stage, struct kp_device, stage);
}

static inline void kp_device_lock(struct kp_device *device)
{
	if (device->shared)
		pthread_mutex_lock(&device->lock);
}

static inline void kp_device_unlock(struct kp_device *device)
{
	if (device->shared)
		pthread_mutex_unlock(&device->lock);
}

/*
 * kp_device_fence - make what the submitter wrote visible to the thread that got the completion. The
 * kernel has ordered the two already, but the language does not know that.
 */
static inline void kp_device_fence(struct kp_device *device)
{
	if (device->shared) {
		pthread_mutex_lock(&device->lock);
		pthread_mutex_unlock(&device->lock);
	}
}

/* kp_request_bytes - length of a request. */
static inline uint64_t kp_request_bytes(const struct kp_bio *bio)
{
	uint64_t bytes = 0;

	for (; bio; bio = bio->next)
		bytes += bio->iter.size;
	return bytes;
}

void kp_device_account_merged(struct kp_device *device, const struct kp_bio *bio);

/* kp_device_account - count a request and its bios, with the device locked. */
static inline void kp_device_account(struct kp_device *device, const struct kp_bio *bio)
{
	if (!kp_op_has_data(bio->op))
		return;
	if (bio->next)
		kp_device_account_merged(device, bio);
	else
		kp_count_request(device->slot, bio->iter.size);
}

/*
 * kp_request_iov - fill @iov with the memory of a request from byte @skip on; pieces that adjoin
 * become one.
 *
 * Return: the entries of @iov in use, KP_REQUEST_IOV at most. A request that needs more, or that is
 * larger than the device's transfer limit, goes on afterwards as after a short transfer.
 */
#define KP_REQUEST_IOV 256
unsigned int kp_request_iov(const struct kp_device *device, const struct kp_bio *bio, uint64_t skip,
			    struct iovec *iov);

/* kp_request_is_plain - is @bio one segment, as an I/O that no stage has changed? */
static inline bool kp_request_is_plain(const struct kp_device *device, const struct kp_bio *bio)
{
	return bio->nr_vecs == 1 && !bio->next && !device->transfer_limit;
}

/*
 * kp_request_end - end every bio of a request.
 * @bytes: how many bytes were transferred. Data missing at the end becomes the bios' resid.
 * @error: 0 or -errno, for the bios that lie behind @bytes.
 *
 * Children of a bio may have set its status and resid already; those stay.
 */
void kp_request_end(struct kp_bio *bio, uint64_t bytes, int error);

static inline void kp_device_add_in_flight(struct kp_device *device, int nr)
{
	__atomic_store_n(&device->in_flight, device->in_flight + nr, __ATOMIC_RELAXED);
}

/*
 * kp_device_started - count a request that entered the device, with the device locked. @news: an
 * owner that sleeps must wake up because of it.
 */
static inline void kp_device_started(struct kp_device *device, bool news)
{
	kp_device_add_in_flight(device, 1);
	if (device->shared && news && !kp_owner_is_me(device->owner))
		kp_owner_wake(device->owner);
}

/* kp_device_ended_shared - kp_device_ended() of a shared device. */
void kp_device_ended_shared(struct kp_device *device, unsigned int nr);

/*
 * kp_device_ended - count @nr requests that left the device, after their slots and bios have become
 * free, and wake the threads that wait for those. Any thread.
 */
static inline void kp_device_ended(struct kp_device *device, unsigned int nr)
{
	if (kp_likely(!device->shared))
		kp_device_add_in_flight(device, -(int)nr);
	else
		kp_device_ended_shared(device, nr);
}

/*
 * kp_device_ended_inside - a request ended inside submit and never was in flight. Any thread that
 * may submit.
 */
static inline void kp_device_ended_inside(struct kp_device *device)
{
	if (device->shared)
		kp_device_ended_shared(device, 0);
}

/*
 * kp_transfer_more - what to do after the kernel moved @result bytes at @done of @bytes.
 *
 * Return: true to go on with the rest. Otherwise the request is over and *error is set: a read
 * that met the end of the file is no error, a write that moved nothing is -EIO.
 */
bool kp_transfer_more(unsigned int op, uint64_t bytes, uint64_t *done, ssize_t result, int *error);

/* kp_device_sync - do a flush, sync or discard by one system call and end it. Any thread. */
void kp_device_sync(struct kp_bio *bio);

#endif
