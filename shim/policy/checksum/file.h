/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of the checksum policy: the state that jobs share about one, and sums=FILE. */
#ifndef KP_CHECKSUM_FILE_H
#define KP_CHECKSUM_FILE_H

#include "csum_tree.h"
#include "ordered_range.h"
#include "stage.h"

/* struct checksum_shared - the state of a file that all jobs share, in the arena. */
struct checksum_shared {
	struct kp_csum_tree tree;
	struct kp_range_table ranges;
	int error; /* why the first open could not load the sums; every open fails with it */
	/*
	 * Atomic; fsyncs and O_SYNC writes in progress, by the liveness id of their pipeline, so that
	 * those of a killed job can be recognised. last_sync_writer is the highest id in use.
	 */
	uint32_t sync_writers[KP_LIVENESS_IDS + 1];
	uint32_t last_sync_writer;
	bool told_mismatch; /* atomic; the message is given once per file and run */
	bool told_distance; /* atomic; so is this one */
	bool block_device;
	bool writes; /* a job opened it for writing, after sums=FILE was removed */
	/* Protects 'writes'. Robust: a job that dies inside has not set it. No lock nests inside. */
	pthread_mutex_t lock;
	char sums[256];	 /* path of the file that keeps the sums; empty: none */
	char path[4096]; /* path of the data */
	struct kp_file_key key;
	uint64_t size; /* at the first open */
};

/* struct checksum_file - the stage's data of an open file. */
struct checksum_file {
	struct checksum_shared *shared;
	uint64_t distance; /* from copy to copy, in bytes; UINT64_MAX when there is one copy */
	bool no_data; /* a null device that keeps nothing: sums are computed, but not compared */
};

/* checksum_open, checksum_close - hooks of the stage. Owner. */
int checksum_open(struct kp_stage *stage, struct kp_file *file);
void checksum_close(struct kp_stage *stage, struct kp_file *file);

/* checksum_finish - write the sums of all files that have sums=FILE, after the last pipeline. */
void checksum_finish(struct kp_arena *arena);

#endif
