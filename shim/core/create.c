// SPDX-License-Identifier: GPL-2.0-only
/*
 * Making and unmaking a pipeline: the checks of its configuration, its stages in the kernel's order,
 * and the device below them. The only file of core/ that knows devices by name, and the policies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "counters.h"
#include "device.h"
#include "device/devices.h"
#include "log.h"
#include "pipeline.h"

#define NR_REQUESTS 128u /* BLKDEV_MAX_RQ, the kernel's nr_requests */

static unsigned int stage_needs(const struct kp_stage_config *config)
{
	const struct kp_stage_ops *ops = config->policy->ops;

	return ops->needs ? ops->needs(config) : 0;
}

static unsigned int pipeline_needs(const struct kp_pipeline_config *config)
{
	unsigned int needs = 0;

	for (unsigned int i = 0; i < config->nr_stages; i++)
		needs |= stage_needs(&config->stages[i]);
	return needs;
}

/* Are there stages that threads of a stage above them enter? Then they need their lock. */
static void guard_lower(struct kp_pipeline *pl, const struct kp_pipeline_config *config)
{
	for (unsigned int i = 0; i < config->nr_stages && !pl->threaded; i++) {
		if (stage_needs(&config->stages[i]) & KP_NEEDS_SHARED &&
		    pl->stages[i]->next != &pl->device->stage)
			pl->threaded = pl->stages[i];
	}
}

static struct kp_stage *add_stage(struct kp_pipeline *pl, const struct kp_stage_ops *ops)
{
	struct kp_stage *stage;

	if (pl->nr_stages == KP_MAX_STAGES)
		return NULL;
	stage = calloc(1, ops->size);
	if (!stage)
		return NULL;
	stage->ops = ops;
	stage->pipeline = pl;
	stage->index = pl->nr_stages;
	if (pl->nr_stages)
		pl->stages[pl->nr_stages - 1]->next = stage;
	else
		pl->first = stage;
	pl->stages[pl->nr_stages++] = stage;
	return stage;
}

static int add_device(struct kp_pipeline *pl, const struct kp_device_config *config,
		      unsigned int needs, unsigned int nr_requests)
{
	const struct kp_device_ops *ops = kp_device_choose(config->backend, needs);
	struct kp_stage *stage = add_stage(pl, &ops->stage);

	if (!stage)
		return -ENOMEM;
	pl->device = kp_stage_device(stage);
	pl->device->ops = ops;
	pl->device->config = *config;
	pl->device->slot = pl->slot;
	if (needs & KP_NEEDS_ASYNC_DEVICE)
		pl->device->config.null.synchronous = false;
	pl->device->depth = nr_requests;
	pl->device->owner = &pl->owner;
	pl->device->wake_fd = pl->owner.wake_fd;
	pl->device->shared = pl->shared;
	pthread_mutex_init(&pl->device->lock, NULL);
	pthread_cond_init(&pl->device->progress, NULL);
	return 0;
}

static int add_stages(struct kp_pipeline *pl, const struct kp_pipeline_config *config,
		      unsigned int needs)
{
	int ret;

	needs |= pipeline_needs(config);
	pl->shared = needs & KP_NEEDS_SHARED;
	if (pl->shared) {
		pl->owner.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (pl->owner.wake_fd < 0)
			return -errno;
	}
	for (unsigned int i = 0; i < config->nr_stages; i++) {
		const struct kp_stage_config *stage_config = &config->stages[i];
		struct kp_stage *stage = add_stage(pl, stage_config->policy->ops);

		if (!stage)
			return -ENOMEM;
		stage->variant = stage_config->variant;
		stage->counters = pl->slot->values + kp_counters_at(stage_config->policy);
	}
	if (config->device.fault && !add_stage(pl, &kp_fault_stage))
		return -ENOMEM;
	/* A pass-through needs a request per I/O; policies cut I/Os, up to the kernel's default. */
	ret = add_device(pl, &config->device, needs,
			 config->nr_stages ? kp_max(config->depth, NR_REQUESTS) : config->depth);
	if (!ret)
		guard_lower(pl, config);
	/* The device first: what stands above may ask it. */
	for (unsigned int i = pl->nr_stages; !ret && i > 0; i--) {
		struct kp_stage *stage = pl->stages[i - 1];
		bool policy = i - 1 < config->nr_stages;

		stage->initialized = true;
		if (stage->ops->init)
			ret = stage->ops->init(stage, policy ? &config->stages[i - 1] : NULL,
					       config);
	}
	if (!ret && pl->nr_stages == 1 && !pl->shared)
		pl->transfer = pl->device->transfer;
	pl->complete = !ret;
	return ret;
}

static int init_done_ring(struct kp_pipeline *pl, unsigned int depth)
{
	unsigned int size = 1;

	/* As many again as may be in flight: the last ones handed out stay until the next reap. */
	while (size < 2 * (depth + 1))
		size *= 2;
	pl->done = calloc(size, sizeof(*pl->done));
	pl->done_mask = size - 1;
	return pl->done ? 0 : -ENOMEM;
}

/*
 * Where a policy stands among kp_policies, by its stage: the policies of one stage stand where the
 * first of them does. -1: it is none of them, but a test's.
 */
static int position(const struct kp_policy *policy)
{
	for (int i = 0; kp_policies[i]; i++) {
		if (kp_policies[i]->ops == policy->ops)
			return i;
	}
	return -1;
}

/* Do the stages stand in the kernel's order, and each of them once? */
static int check_order(const struct kp_pipeline_config *config, char *why, size_t why_size)
{
	const struct kp_policy *upper = NULL;

	for (unsigned int i = 0; i < config->nr_stages; i++) {
		const struct kp_policy *policy = config->stages[i].policy;

		if (position(policy) < 0)
			continue;
		if (upper && position(upper) == position(policy)) {
			snprintf(why, why_size, "%s and %s: a pipeline has one %s, give only one",
				 upper->name, policy->name, policy->ops->name);
			return -EINVAL;
		}
		if (upper && position(upper) > position(policy)) {
			snprintf(why, why_size,
				 "%s above %s: the kernel has them the other way round, "
				 "give %s first",
				 upper->name, policy->name, policy->name);
			return -EINVAL;
		}
		upper = policy;
	}
	return 0;
}

/* Everything that can be wrong with a configuration, before anything exists. */
static int check_config(const struct kp_pipeline_config *config)
{
	char why[512];
	int ret = kp_device_check(&config->device, why, sizeof(why));

	if (!ret)
		ret = check_order(config, why, sizeof(why));
	for (unsigned int i = 0; !ret && i < config->nr_stages; i++) {
		const struct kp_stage_config *stage = &config->stages[i];

		ret = kp_policy_check(stage->policy, stage->options, stage->variant, why,
				      sizeof(why));
	}
	if (!ret && !config->depth) {
		snprintf(why, sizeof(why), "depth=0: no I/O can be in flight, give at least 1");
		ret = -EINVAL;
	}
	if (ret)
		kp_log("%s", why);
	return ret;
}

int kp_pipeline_create(struct kp_pipeline **result, const struct kp_pipeline_config *config)
{
	return kp_pipeline_create_with(result, config, 0);
}

int kp_pipeline_create_with(struct kp_pipeline **result, const struct kp_pipeline_config *config,
			    unsigned int needs)
{
	struct kp_pipeline *pl;
	int ret = check_config(config);

	if (ret)
		return ret;
	pl = calloc(1, sizeof(*pl));
	if (!pl)
		return -ENOMEM;
	pl->owner.wake_fd = -1;
	pthread_mutex_init(&pl->lower, NULL);
	kp_owner_adopt(&pl->owner);
	pl->arena = config->arena;
	pl->terminate = config->terminate;
	pl->limits = config->device.limits;
	pl->depth = config->depth;
	pl->slot = config->slot;
	if (!pl->slot)
		pl->slot = pl->own_slot = calloc(1, sizeof(*pl->own_slot));
	ret = pl->slot ? init_done_ring(pl, pl->depth) : -ENOMEM;
	if (!ret)
		ret = add_stages(pl, config, needs);
	if (ret) {
		kp_pipeline_destroy(pl);
		return ret;
	}
	*result = pl;
	return 0;
}

void kp_pipeline_buffers(struct kp_pipeline *pl, void *start, size_t size)
{
	if (pl->device->ops->buffers)
		pl->device->ops->buffers(pl->device, start, size);
}

int kp_pipeline_destroy(struct kp_pipeline *pl)
{
	int ret;

	kp_pipeline_adopt(pl);
	/* A pipeline that could not be made has had no I/O, and its device may have no interface. */
	if (pl->complete)
		kp_pipeline_drain(pl);
	while (pl->files)
		kp_file_close(pl->files);
	for (unsigned int i = 0; i < pl->nr_stages; i++) {
		struct kp_stage *stage = pl->stages[i];

		if (stage->initialized && stage->ops->exit)
			stage->ops->exit(stage);
		if (pl->device && stage == &pl->device->stage) {
			pthread_mutex_destroy(&pl->device->lock);
			pthread_cond_destroy(&pl->device->progress);
		}
		free(stage);
	}
	if (pl->owner.wake_fd >= 0)
		close(pl->owner.wake_fd);
	pthread_mutex_destroy(&pl->lower);
	ret = pl->error;
	if (pl->slot)
		kp_counters_settle(pl->slot);
	free(pl->own_slot);
	free(pl->done);
	free(pl);
	return ret;
}
