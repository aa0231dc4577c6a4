/* SPDX-License-Identifier: GPL-2.0-only */
/* What replays of the block layer share: the devices of a recording, the memory of its cases. */
#ifndef KP_REPLAY_BLOCK_H
#define KP_REPLAY_BLOCK_H

#include "../lab/vector.h"
#include "replay.h"

#define REPLAY_MAX_DEVICES 16
#define REPLAY_MAX_VECS	   (LAB_MAX_STRETCHES * 8)
/* Addresses of the arena. Areas do not adjoin; nobody looks behind the addresses. */
#define REPLAY_ARENA	     0x100000000ull
#define REPLAY_AREA_DISTANCE (4 * LAB_AREA_SECTORS * (uint64_t)KP_SECTOR_SIZE)

struct replay_device {
	char name[32]; /* empty: the list ends here */
	struct kp_queue_limits limits;
};

/* replay_note_device - take in a line "device NAME lbs=... ...". */
static inline void replay_note_device(struct replay_device *devices, const char *line)
{
	struct replay_device *device = devices;
	unsigned long lbs, pbs, hw, kb, segments, segment_size, chunk, virt, seg;
	struct kp_queue_limits *limits;
	char name[32];

	if (sscanf(line,
		   "device %31s lbs=%lu pbs=%lu max_sectors_kb=%lu max_hw_sectors_kb=%lu "
		   "max_segments=%lu max_segment_size=%lu chunk_sectors=%lu virt_boundary_mask=%lu "
		   "seg_boundary_mask=%lu",
		   name, &lbs, &pbs, &kb, &hw, &segments, &segment_size, &chunk, &virt, &seg) != 10)
		return;
	/* The device of the kernel before has the same place. */
	while (device->name[0] && strcmp(device->name, name))
		device++;
	ck_assert_int_lt(device - devices, REPLAY_MAX_DEVICES - 1);
	snprintf(device->name, sizeof(device->name), "%s", name);
	limits = &device->limits;
	kp_limits_default(limits);
	limits->logical_block_size = lbs;
	limits->physical_block_size = pbs;
	limits->max_segments = segments;
	limits->max_segment_size = kp_min(segment_size, (unsigned long)UINT32_MAX);
	limits->chunk_sectors = chunk;
	limits->virt_boundary_mask = virt;
	limits->seg_boundary_mask = seg;
}

static inline struct kp_queue_limits *replay_limits(struct replay_device *devices, const char *name)
{
	for (struct replay_device *device = devices; device->name[0]; device++) {
		if (!strcmp(device->name, name))
			return &device->limits;
	}
	ck_abort_msg("no limits of device %s", name);
	return NULL;
}

/* Which pages that adjoin become one entry of a bio's vector? */
enum replay_join {
	REPLAY_JOIN_NONE,
	REPLAY_JOIN_BUFFER, /* those of one iovec */
	REPLAY_JOIN_ALL,
};

/*
 * Since 5.1 an entry may be several pages. 7.2 does not join iovecs any more, 6.12 still does;
 * the kernels between were not recorded.
 */
static inline enum replay_join replay_join(const char *kernel)
{
	if (kp_version_compare(kernel, "5.1") < 0)
		return REPLAY_JOIN_NONE;
	return kp_version_compare(kernel, "7.0") < 0 ? REPLAY_JOIN_ALL : REPLAY_JOIN_BUFFER;
}

/**
 * replay_vec - the memory of a case as the entries of a bio's vector.
 * @further: sectors to add to each position.
 *
 * Return: how many entries.
 */
static inline unsigned int replay_vec(const char *text, enum replay_join join, unsigned int further,
				      struct kp_segment *vec)
{
	static struct lab_stretch stretches[LAB_MAX_STRETCHES];
	unsigned int nr = lab_parse_vector(text, stretches), entries = 0;

	ck_assert_uint_gt(nr, 0);
	for (unsigned int i = 0; i < nr; i++) {
		unsigned int start = stretches[i].start + further;
		char *at = (char *)REPLAY_ARENA + start / LAB_AREA_SECTORS * REPLAY_AREA_DISTANCE +
			   start % LAB_AREA_SECTORS * KP_SECTOR_SIZE;
		char *end = at + stretches[i].sectors * KP_SECTOR_SIZE;
		bool joins = join == REPLAY_JOIN_ALL;

		while (at != end) {
			size_t len = KP_PAGE_SIZE - (uintptr_t)at % KP_PAGE_SIZE;
			struct kp_segment *last = entries ? &vec[entries - 1] : NULL;

			len = kp_min(len, (size_t)(end - at));
			if (joins && last && (char *)last->addr + last->len == at)
				last->len += len;
			else
				vec[entries++] = (struct kp_segment){ at, len };
			joins = join != REPLAY_JOIN_NONE;
			at += len;
		}
	}
	return entries;
}

#endif
