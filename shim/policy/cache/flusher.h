/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flusher of a device: wb_workfn() and what it calls. Every pipeline that has a file of the
 * device open has a thread for it. The thread that holds the device's flusher_lock works, through
 * a pipeline of its own; the others try the lock four times a second.
 */
#ifndef KP_CACHE_FLUSHER_H
#define KP_CACHE_FLUSHER_H

#include "cache.h"

struct flusher;

struct flusher_config {
	struct page_cache *cache;
	struct cache_bdi *bdi;
	uint16_t user;
	const struct kp_variant *variant;
	long nr_to_write;
	bool wrap_fault;
	const struct kp_pipeline_config *pipeline; /* the job's, with the lower stages only */
	unsigned int counters_at;		   /* where the cache's counters begin in a slot */
};

/* flusher_start - start the thread. Return: 0 or -errno. */
int flusher_start(const struct flusher_config *config, struct flusher **flusher);

/*
 * flusher_stop - release the flusher_lock and end the thread. @last: files that nobody else uses:
 * the thread writes them back first. Return: 0 or the first error.
 */
int flusher_stop(struct flusher *flusher, struct cache_file *const *last, unsigned int nr_last);

#endif
