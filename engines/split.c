// SPDX-License-Identifier: GPL-2.0-only
/*
 * split: how bios are split at the queue limits. 4.2 built each bio to fit the limits.
 * 54efd50bfd87 (4.3-rc1) split large bios, and copied the remaining vector for each split. Since
 * 52cc6eead909 both halves share the vector.
 */
#include "adaptor.h"

struct split_options {
	struct kp_engine_options common;
	struct kp_split_options stage;
	struct kp_plug_options plug;
};

static const struct fio_option options[] = {
	/* fio stores a boolean into off2 as well. */
	OPTION(struct split_options, stage.adjacent_pages, adjacent_pages, FIO_OPT_BOOL,
	       "Pages that adjoin in the buffer count as one segment, as in a huge page "
	       "(iomem=mmaphuge); default 0: every page is a segment",
	       .off2 = offsetof(struct split_options, plug.adjacent_pages), .def = "0"),
};

static const struct kp_policy *const policies[] = { &kp_split_policy, NULL };

static int split_plan(const struct kp_engine_options *common, struct kp_plan *plan, char *why,
		      size_t why_size)
{
	const struct split_options *o = (const struct split_options *)common;

	plan->plug_options = &o->plug;
	return kp_plan_policy(plan, &kp_split_policy, common->policy, common->kernel, &o->stage,
			      why, why_size);
}

static const struct kp_engine engine = {
	.name = "split",
	.policies = policies,
	.plug = KP_PLUG_KERNEL,
	.options = options,
	.nr_options = sizeof(options) / sizeof(*options),
	.options_size = sizeof(struct split_options),
	.plan = split_plan,
};

KP_ENGINE(engine)
