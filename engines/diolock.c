// SPDX-License-Identifier: GPL-2.0-only
/*
 * diolock: how the inode is locked around direct I/O. Since 16c54688592c (4.9), ext4's direct
 * reads take i_rwsem shared and hold it until they complete. Since 5.6, overwrites take it shared
 * as well. The lock behaves as the rw_semaphore of its kernel does.
 */
#include "adaptor.h"

struct diolock_options {
	struct kp_engine_options common;
	struct kp_diolock_options stage;
};

static const struct fio_option options[] = {
	OPTION(struct diolock_options, stage.rwsem, rwsem, FIO_OPT_STR_STORE,
	       "The rw_semaphore of kernel 4.9, 5.3 or 5.11; default that of kernel= or of the "
	       "variant"),
};

static const struct kp_policy *const policies[] = { &kp_diolock_policy, NULL };

static int diolock_plan(const struct kp_engine_options *common, struct kp_plan *plan, char *why,
			size_t why_size)
{
	struct diolock_options *o = (struct diolock_options *)common;

	o->stage.kernel = common->kernel;
	return kp_plan_policy(plan, &kp_diolock_policy, common->policy, common->kernel, &o->stage,
			      why, why_size);
}

static const struct kp_engine engine = {
	.name = "diolock",
	.policies = policies,
	.options = options,
	.nr_options = sizeof(options) / sizeof(*options),
	.options_size = sizeof(struct diolock_options),
	.plan = diolock_plan,
};

KP_ENGINE(engine)
