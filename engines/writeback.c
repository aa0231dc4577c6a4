// SPDX-License-Identifier: GPL-2.0-only
/*
 * writeback: where ext4 ends the writeback of a file. 4e7ea81db5 (3.11) tests nr_to_write after it
 * took a page, so each further round writes one page although the budget is spent. aeac589a74b9
 * (3.13) tests it before.
 */
#include "cache_options.h"

static const struct fio_option options[] = {
	CACHE_OPTIONS,
	CACHE_OPTION(mapped, FIO_OPT_STR_STORE,
		     "Pages that need no allocation: auto (the file's written extents), none, all; "
		     "default auto",
		     .def = "auto"),
	CACHE_OPTION(
		wrap_fault, FIO_OPT_BOOL,
		"The other fault of 3.11, fixed in 3.12: the wrap to page 0 although the budget "
		"is spent; default 0",
		.def = "0"),
};

static const struct kp_policy *const policies[] = { &kp_writeback_policy, &kp_split_policy, NULL };

static int writeback_plan(const struct kp_engine_options *common, struct kp_plan *plan, char *why,
			  size_t why_size)
{
	const struct cache_engine_options *o = (const struct cache_engine_options *)common;
	int ret = kp_plan_policy(plan, &kp_writeback_policy, common->policy, common->kernel,
				 &o->cache, why, why_size);

	return ret ? ret : cache_plan_split(common, plan, why, why_size);
}

static const struct kp_engine engine = {
	.name = "writeback",
	.policies = policies,
	.plug = KP_PLUG_ALWAYS,
	.options = options,
	.nr_options = sizeof(options) / sizeof(*options),
	.options_size = sizeof(struct cache_engine_options),
	.plan = writeback_plan,
};

KP_ENGINE(engine)
