// SPDX-License-Identifier: GPL-2.0-only
/* Queue limits: the kernel's defaults, those of a device from sysfs, and the user's overrides. */
#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "limits.h"
#include "util.h"

void kp_limits_default(struct kp_queue_limits *limits)
{
	*limits = (struct kp_queue_limits){
		.logical_block_size = KP_SECTOR_SIZE,
		.physical_block_size = KP_SECTOR_SIZE,
		.max_sectors = 1280 * 1024 / KP_SECTOR_SIZE, /* BLK_DEF_MAX_SECTORS */
		.max_segments = 128,			     /* BLK_MAX_SEGMENTS */
		.max_segment_size = 64 * 1024,		     /* BLK_MAX_SEGMENT_SIZE */
		.seg_boundary_mask = 0xffffffff,	     /* BLK_SEG_BOUNDARY_MASK */
	};
}

/* Reads one number from a queue directory. Returns false when there is no such file. */
static bool read_number(const char *queue, const char *name, uint64_t *value)
{
	char path[512], text[32];
	FILE *file;
	bool found;

	snprintf(path, sizeof(path), "%s/%s", queue, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	found = fgets(text, sizeof(text), file) != NULL;
	if (found)
		*value = strtoull(text, NULL, 10);
	fclose(file);
	return found;
}

int kp_limits_read(struct kp_queue_limits *limits, uint64_t dev)
{
	/* The directory of a partition has no queue. It lies inside the directory of its disk. */
	static const char *const places[] = { "queue", "../queue" };
	char queue[256];
	uint64_t value;

	kp_limits_default(limits);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(queue, sizeof(queue), "/sys/dev/block/%u:%u/%s", major(dev), minor(dev),
			 places[i]);
		if (!read_number(queue, "logical_block_size", &value))
			continue;
		limits->logical_block_size = value;
		if (read_number(queue, "physical_block_size", &value))
			limits->physical_block_size = value;
		if (read_number(queue, "max_sectors_kb", &value))
			limits->max_sectors = value * 2;
		if (read_number(queue, "max_segments", &value) && value)
			limits->max_segments = value;
		if (read_number(queue, "max_segment_size", &value) && value)
			limits->max_segment_size = kp_min(value, UINT32_MAX);
		if (read_number(queue, "chunk_sectors", &value))
			limits->chunk_sectors = value;
		if (read_number(queue, "virt_boundary_mask", &value))
			limits->virt_boundary_mask = value;
		return 0;
	}
	return -ENODEV;
}

#define MAX_SECTORS_KB (UINT32_MAX / 1024) /* a request's bytes fit into 32 bits */

static bool power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

int kp_limits_check_options(const struct kp_limit_options *options, char *why, size_t why_size)
{
	const struct {
		const char *name;
		uint32_t value;
		uint32_t least;
		bool power_of_two;
		const char *remedy;
	} checks[] = {
		{ "logical_block_size", options->logical_block_size, KP_SECTOR_SIZE, true,
		  "a power of two from 512 on" },
		{ "physical_block_size", options->physical_block_size, KP_SECTOR_SIZE, true,
		  "a power of two from 512 on" },
		{ "max_sectors_kb", options->max_sectors_kb, KP_PAGE_SIZE / 1024, false,
		  "at least a page, 4" },
		{ "max_segments", options->max_segments, 1, false, "at least 1" },
		{ "max_segment_size", options->max_segment_size, KP_PAGE_SIZE, false,
		  "at least a page, 4096" },
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		if (!checks[i].value)
			continue;
		if (checks[i].value >= checks[i].least &&
		    (!checks[i].power_of_two || power_of_two(checks[i].value)))
			continue;
		snprintf(why, why_size, "%s=%u: not possible, give %s", checks[i].name,
			 checks[i].value, checks[i].remedy);
		return -EINVAL;
	}
	if (options->max_sectors_kb > MAX_SECTORS_KB) {
		snprintf(why, why_size, "max_sectors_kb=%u: not possible, give at most %u",
			 options->max_sectors_kb, MAX_SECTORS_KB);
		return -EINVAL;
	}
	if (options->max_segment_size % KP_SECTOR_SIZE) {
		snprintf(why, why_size, "max_segment_size=%u: not possible, give a multiple of 512",
			 options->max_segment_size);
		return -EINVAL;
	}
	return 0;
}

/* A request consists of whole logical blocks, so its limits must be multiples of the block size. */
static int check_blocks(struct kp_queue_limits *limits, const struct kp_limit_options *options,
			char *why, size_t why_size)
{
	uint32_t block = limits->logical_block_size;

	if (limits->chunk_sectors * (uint64_t)KP_SECTOR_SIZE % block) {
		snprintf(why, why_size,
			 "chunk_sectors=%u: not whole logical blocks, give a multiple of %u",
			 limits->chunk_sectors, block / KP_SECTOR_SIZE);
		return -EINVAL;
	}
	if (options->max_segment_size % block) {
		snprintf(why, why_size,
			 "max_segment_size=%u: not whole logical blocks, give a multiple of %u",
			 options->max_segment_size, block);
		return -EINVAL;
	}
	/* The device's own limit may be UINT32_MAX. */
	limits->max_segment_size = kp_round_down(limits->max_segment_size, block);
	return 0;
}

int kp_limits_override(struct kp_queue_limits *limits, const struct kp_limit_options *options,
		       char *why, size_t why_size)
{
	int ret = kp_limits_check_options(options, why, why_size);

	if (ret)
		return ret;
	if (options->logical_block_size)
		limits->logical_block_size = options->logical_block_size;
	if (options->physical_block_size)
		limits->physical_block_size = options->physical_block_size;
	else if (limits->physical_block_size < limits->logical_block_size)
		limits->physical_block_size = limits->logical_block_size;
	if (options->max_sectors_kb)
		limits->max_sectors = options->max_sectors_kb * 2;
	if (options->max_segments)
		limits->max_segments = options->max_segments;
	if (options->max_segment_size)
		limits->max_segment_size = options->max_segment_size;
	if (options->chunk_sectors)
		limits->chunk_sectors = options->chunk_sectors;

	if (limits->physical_block_size < limits->logical_block_size) {
		snprintf(why, why_size,
			 "physical_block_size=%u: below the logical block size %u, raise it",
			 limits->physical_block_size, limits->logical_block_size);
		return -EINVAL;
	}
	if (limits->max_sectors < limits->logical_block_size / KP_SECTOR_SIZE) {
		snprintf(why, why_size,
			 "max_sectors_kb=%u: below the logical block size %u, raise it",
			 limits->max_sectors / 2, limits->logical_block_size);
		return -EINVAL;
	}
	return check_blocks(limits, options, why, why_size);
}
