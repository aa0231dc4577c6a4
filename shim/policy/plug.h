/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pure part of the plug: which bios become one request, and when the list must be flushed. The
 * stage and the unit test use it. The owner of the list calls these functions; there is no lock.
 */
#ifndef KP_PLUG_H
#define KP_PLUG_H

#include "stage.h"

/*
 * Room in a list. Kernels of limit 16 count the requests of each queue for itself, so that theirs has
 * no bound; ours is flushed when it is full.
 */
#define KP_PLUG_REQUESTS 256

/** struct kp_plug_request - contiguous bios that go to the device together, linked by bio->next. */
struct kp_plug_request {
	struct kp_bio *first, *last;
	uint64_t pos, bytes;
	uint32_t segments;
	bool nomerge; /* REQ_NOMERGE: no other bio may join */
};

/** struct kp_plug - struct blk_plug: the requests of one task, in a ring. Empty when zeroed. */
struct kp_plug {
	struct kp_plug_request requests[KP_PLUG_REQUESTS];
	unsigned int oldest, nr;
	bool several_queues; /* files of different devices are in the list */
};

enum kp_plug_merge {
	KP_PLUG_NO_MERGE,
	KP_PLUG_BACK_MERGE,
	KP_PLUG_FRONT_MERGE,
};

/** enum kp_plug_full - why a plug must be flushed before a new request enters it. */
enum kp_plug_full {
	KP_PLUG_HAS_ROOM,
	KP_PLUG_MANY,  /* BLK_MAX_REQUEST_COUNT requests */
	KP_PLUG_LARGE, /* the last one has 128 KiB (BLK_PLUG_FLUSH_SIZE) */
};

/**
 * kp_plug_segments - how many device segments a bio has: nr_phys_segments.
 * @adjacent: entries of the vector that are adjacent in memory form one segment.
 */
uint32_t kp_plug_segments(const struct kp_queue_limits *limits, const struct kp_bio *bio,
			  bool adjacent);

/**
 * kp_plug_merge - try to add @bio to a request of the list; blk_attempt_plug_merge().
 * @variant: a row of kp_plug_policy.
 * @segments: segments of @bio.
 */
enum kp_plug_merge kp_plug_merge(const struct kp_variant *variant, struct kp_plug *plug,
				 struct kp_bio *bio, uint32_t segments);

/** kp_plug_full - must the list be flushed before kp_plug_add() of @bio? */
enum kp_plug_full kp_plug_full(const struct kp_variant *variant, struct kp_plug *plug,
			       const struct kp_bio *bio);

/** kp_plug_add - add @bio as a request of its own. There must be room. */
void kp_plug_add(struct kp_plug *plug, struct kp_bio *bio, uint32_t segments);

/** kp_plug_take - remove the oldest request. Return: its bios; NULL when the list is empty. */
struct kp_bio *kp_plug_take(struct kp_plug *plug);

#endif
