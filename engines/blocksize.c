// SPDX-License-Identifier: GPL-2.0-only
/*
 * blocksize: the initial block size of a block device. 5ff9f19231a0 (5.9) set it to the logical
 * block size, mostly 512 bytes, and buffered writes were submitted as bios of 512 bytes.
 * 8dc932d3e8af reverted that.
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
