// SPDX-License-Identifier: GPL-2.0-only
/*
 * blocksize: the block size that a block device starts with. 5ff9f19231a0 (5.9) made it the
 * logical block, 512 bytes mostly, and buffered writes became a bio of 512 bytes each; 8dc932d3e8af
 * took that back.
 */
#include "cache_options.h"

static const struct fio_option options[] = {
	CACHE_OPTIONS,
	CACHE_OPTION(block_size, FIO_OPT_INT,
		     "Block size in place of the policy's, as BLKBSZSET sets it", .minval = 1),
};

static const struct kp_policy *const policies[] = { &kp_blocksize_policy, &kp_split_policy, NULL };

static int blocksize_plan(const struct kp_engine_options *common, struct kp_plan *plan, char *why,
			  size_t why_size)
{
	const struct cache_engine_options *o = (const struct cache_engine_options *)common;
	int ret = kp_plan_policy(plan, &kp_blocksize_policy, common->policy, common->kernel,
				 &o->cache, why, why_size);

	return ret ? ret : cache_plan_split(common, plan, why, why_size);
}

static const struct kp_engine engine = {
	.name = "blocksize",
	.policies = policies,
	.plug = KP_PLUG_ALWAYS,
	.options = options,
	.nr_options = sizeof(options) / sizeof(*options),
	.options_size = sizeof(struct cache_engine_options),
	.plan = blocksize_plan,
};

KP_ENGINE(engine)
