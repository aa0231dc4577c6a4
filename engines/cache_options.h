/* SPDX-License-Identifier: GPL-2.0-only */
/* The engines of the buffered policies share these options of the page cache. */
#ifndef KP_CACHE_OPTIONS_H
#define KP_CACHE_OPTIONS_H

#include "adaptor.h"

/* struct cache_engine_options - the option struct of an engine with a page cache. */
struct cache_engine_options {
	struct kp_engine_options common;
	struct kp_cache_options cache;
};

#define CACHE_OPTION(NAME, ...) OPTION(struct cache_engine_options, cache.NAME, NAME, __VA_ARGS__)

#define CACHE_OPTIONS                                                                             \
	CACHE_OPTION(dirty_bytes, FIO_OPT_STR_VAL,                                                \
		     "Dirty pages at which writers wait, as the sysctl; default 20 % of memory, " \
		     "at most 256 MiB"),                                                          \
		CACHE_OPTION(dirty_background_bytes, FIO_OPT_STR_VAL,                             \
			     "Dirty pages above which the flusher works; default, and "           \
			     "at most, half of dirty_bytes"),                                     \
		CACHE_OPTION(                                                                     \
			dirty_writeback_centisecs, FIO_OPT_INT,                                   \
			"Time between the flusher's looks for old pages; 0: none; default 500",   \
			.def = "500"),                                                            \
		CACHE_OPTION(dirty_expire_centisecs, FIO_OPT_INT,                                 \
			     "Age at which the flusher writes a file back; default 3000",         \
			     .def = "3000"),                                                      \
		CACHE_OPTION(cache_bytes, FIO_OPT_STR_VAL,                                        \
			     "Clean pages kept at most; default 25 % of memory, at most 1 GiB"),  \
		CACHE_OPTION(read_ahead_kb, FIO_OPT_INT,                                          \
			     "Readahead at most, as in sysfs; 0: none; default 128",              \
			     .def = "128"),                                                       \
		CACHE_OPTION(nr_to_write, FIO_OPT_INT,                                            \
			     "Pages that the flusher writes of a file in a turn; default 1024",   \
			     .def = "1024", .minval = 1)

/*
 * cache_plan_split - add the split stage, which is the block layer below the page cache. It splits
 * bios of up to 256 pages at the queue limits, as the kernel of kernel= did, or else as 6.1 does.
 * Variants of writeback that build their bios to the limits give it nothing to split.
 */
static inline int cache_plan_split(const struct kp_engine_options *common, struct kp_plan *plan,
				   char *why, size_t why_size)
{
	static const struct kp_split_options options = { .below_cache = true };
	int ret = -ENOENT;

	if (!plan->nr_stages)
		return 0;
	if (common->kernel)
		ret = kp_plan_policy(plan, &kp_split_policy, NULL, common->kernel, &options, why,
				     why_size);
	if (ret == -ENOENT)
		ret = kp_plan_policy(plan, &kp_split_policy, "6.1", NULL, &options, why, why_size);
	return ret;
}

#endif
