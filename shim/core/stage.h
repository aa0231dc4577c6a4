/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface of a stage: what the pipeline calls, and what the stage sees of its place. */
#ifndef KP_CORE_STAGE_H
#define KP_CORE_STAGE_H

#include "kpolicy.h"

#define KP_MAX_STAGES 8

struct kp_stage {
	const struct kp_stage_ops *ops;
	struct kp_stage *next; /* NULL only for the device */
	struct kp_pipeline *pipeline;
	const struct kp_variant *variant;
	uint64_t *counters; /* this stage's own, in the pipeline's slot */
	unsigned int index; /* position in the pipeline; file->stage_data[index] is ours */
	bool initialized;   /* init was called, and exit will be */
};

/* What a stage needs of the pipeline around it; known after init. */
enum kp_stage_needs {
	/* Submission must return before completion, also for synchronous I/O. */
	KP_NEEDS_ASYNC_DEVICE = 1 << 0,
	/* Threads of its own submit or complete. */
	KP_NEEDS_SHARED = 1 << 1,
	/*
	 * When a process has gone, however it ended, its I/O must be over. libaio's is: exit_aio()
	 * waits; that of io_uring is left to a kernel worker (io_ring_exit_work()).
	 */
	KP_NEEDS_OWN_IO = 1 << 2,
};

/**
 * struct kp_stage_ops - a stage.
 *
 * Errors of an I/O travel in its bio's status, never as a return value of submit: whoever has a
 * bio ends it exactly once.
 */
struct kp_stage_ops {
	const char *name;
	/*
	 * Writes complete before the device has them, and the stage carries out O_SYNC and O_DSYNC:
	 * files are opened without.
	 */
	bool buffers;
	size_t size; /* of the stage's struct, which begins with struct kp_stage */
	const struct kp_counter_desc *counters;
	unsigned int nr_counters;

	/* What this configuration needs, before anything exists: enum kp_stage_needs. Optional. */
	unsigned int (*needs)(const struct kp_stage_config *config);
	/* Set up the zeroed private part. 0 or -errno, logged. Optional. */
	int (*init)(struct kp_stage *stage, const struct kp_stage_config *config,
		    const struct kp_pipeline_config *pipeline);
	/* A file is opened or closed: attach what the policy keeps about it. Optional. */
	int (*open)(struct kp_stage *stage, struct kp_file *file);
	void (*close)(struct kp_stage *stage, struct kp_file *file);
	/*
	 * Take a bio: hand it to stage->next, hold it, end it, or cut it into children. Submitted
	 * on the owner's thread, in a shared pipeline by any thread. Required.
	 */
	void (*submit)(struct kp_stage *stage, struct kp_bio *bio);
	/*
	 * End of a batch: hand on everything held. Must not call the next stage's flush, the
	 * pipeline does. Optional: a stage that holds nothing has none.
	 */
	void (*flush)(struct kp_stage *stage);
	/*
	 * Does it hold bios that its own threads will hand on? They count as in flight when the
	 * pipeline is drained. Optional: a stage without threads has none.
	 */
	bool (*busy)(struct kp_stage *stage);
	/*
	 * Drop what is kept of a range and could be read again. What is dirty stays. Optional: a
	 * stage that keeps no data has none.
	 */
	void (*invalidate)(struct kp_stage *stage, struct kp_file *file, uint64_t pos,
			   uint64_t len);
	/*
	 * Free everything. Also called after an init that failed half-way, but not for a stage
	 * whose init was never called. Optional.
	 */
	void (*exit)(struct kp_stage *stage);
};

static inline void kp_stage_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	stage->ops->submit(stage, bio);
}

#endif
