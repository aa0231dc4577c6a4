/* SPDX-License-Identifier: GPL-2.0-only */
/* An open file of a pipeline. */
#ifndef KP_FILE_H
#define KP_FILE_H

#include "arena.h"
#include "kpolicy.h"
#include "stage.h"

/* struct kp_file_key - what makes two opens the same file, in the whole arena. */
struct kp_file_key {
	uint64_t dev; /* of a block device: its own number, and ino 0 */
	uint64_t ino;
	uint64_t birth_ns;	    /* inode numbers come back after unlink */
	char name[KP_KEY_MAX - 24]; /* the null device knows files by name only */
};

struct kp_file {
	struct kp_pipeline *pipeline;
	struct kp_file *next;
	int fd;
	int index; /* among the pipeline's files; io_uring registers by it */
	bool block_device;
	bool writable;
	bool dsync;    /* opened O_DSYNC or O_SYNC: writes are written through */
	int flags;     /* as given to kp_file_open() */
	uint64_t size; /* when opened */
	struct kp_file_key key;
	struct kp_queue_limits limits;
	void *stage_data[KP_MAX_STAGES];
	void *device_data;
	char path[];
};

#endif
