/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pure part of the plug: which bios become one request, and when the list is full. The stage
 * and the tests give it bios and take requests out of it.
 */
#ifndef KP_PLUG_H
#define KP_PLUG_H

#include "stage.h"

#define KP_PLUG_REQUESTS 64 /* BLK_MAX_REQUEST_COUNT, twice when several queues are plugged */

/** struct kp_plug_request - bios that go to the device as one: contiguous, linked by bio->next. */
struct kp_plug_request {
	struct kp_bio *first, *last;
	uint64_t pos, bytes;
	uint32_t segments;
	bool nomerge; /* REQ_NOMERGE: no other bio may join */
};

/** struct kp_plug - blk_plug: the requests of one task, in a ring. Zeroed it is empty. */
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
 * kp_plug_segments - device segments of a bio: nr_phys_segments.
 * @adjacent: entries of the vector that adjoin in memory are one segment.
 */
uint32_t kp_plug_segments(const struct kp_queue_limits *limits, const struct kp_bio *bio,
			  bool adjacent);

/**
 * kp_plug_merge - blk_attempt_plug_merge(): join @bio to a request of the list.
 * @variant: a row of kp_plug_policy.
 * @segments: of @bio.
 */
enum kp_plug_merge kp_plug_merge(const struct kp_variant *variant, struct kp_plug *plug,
				 struct kp_bio *bio, uint32_t segments);

/** kp_plug_full - must the list be flushed before kp_plug_add()? */
enum kp_plug_full kp_plug_full(const struct kp_variant *variant, struct kp_plug *plug);

/** kp_plug_add - @bio becomes a request of its own. There must be room. */
void kp_plug_add(struct kp_plug *plug, struct kp_bio *bio, uint32_t segments);

/** kp_plug_take - the oldest request leaves the list. Return: its bios, NULL: the list is empty. */
struct kp_bio *kp_plug_take(struct kp_plug *plug);

#endif
