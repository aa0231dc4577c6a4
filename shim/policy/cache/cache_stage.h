/* SPDX-License-Identifier: GPL-2.0-only */
/* The page cache stage of one pipeline, and what it keeps of an open file. */
#ifndef KP_CACHE_STAGE_H
#define KP_CACHE_STAGE_H

#include "files.h"
#include "io.h"

#define CACHE_MAX_WINDOW   1024u /* largest readahead, pages */
#define CACHE_MAX_FLUSHERS 64u	 /* devices that one pipeline can have files on */

struct cache_stage {
	struct kp_stage stage;
	struct page_cache *cache;
	bool joined;
	uint16_t user;
	struct cache_io_ctx ctx;
	struct kp_cache_options options;
	struct cache_open_options open_options;
	struct kp_pipeline_config pipeline;
	struct kp_stage_config lower[KP_MAX_STAGES];
	unsigned int counters_at;
	struct flusher *flushers[CACHE_MAX_FLUSHERS];
	struct cache_bdi *bdis[CACHE_MAX_FLUSHERS];
	unsigned int nr_flushers;
	struct cache_file **files; /* all files that this pipeline has used */
	unsigned int nr_files;
	unsigned int nr_kept; /* closed files of which a descriptor is kept */
	unsigned int max_kept;
	uint64_t release_at; /* when to check which of them are still needed */
	uint32_t window;     /* largest readahead of this pipeline, pages */
	uint32_t ids[CACHE_MAX_WINDOW];
	uint8_t masks[CACHE_MAX_WINDOW];
};

/* An open file: what struct file keeps in file_ra_state and f_wb_err. */
struct open_file {
	struct cache_file *file;
	uint32_t error_since;
	uint64_t previous; /* the page that was read last */
	uint64_t ra_start;
	uint32_t ra_size;
	uint32_t ra_async; /* the next window is read when so many pages are left */
};

static inline struct cache_stage *cache_stage(struct kp_stage *stage)
{
	return kp_container_of(stage, struct cache_stage, stage);
}

static inline struct open_file *open_file(struct cache_stage *cs, const struct kp_file *file)
{
	return file->stage_data[cs->stage.index];
}

/* cache_done_end_io - an end_io that sets the bool in bio->private, for kp_pipeline_wait_for(). */
static inline void cache_done_end_io(struct kp_bio *bio)
{
	__atomic_store_n((bool *)bio->private, true, __ATOMIC_RELEASE);
}

#endif
