// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checksum policy (P4): the CRC32C sums of a btrfs direct write are computed by the task that
 * submits it, or by workers.
 *
 * eaf25d933e64 (2.6.35) gave the sums of every direct write to workers. 1ae399382512 computes the
 * sums inline when the write is mapped in one piece, because handing a small write over costs more
 * than its sums. On the single profile this applied to large writes too. A patch of 2015 sent writes
 * of 64 KiB and more to the workers again. Since 6.5, sums are computed inline when the checksum is
 * fast or the bio is REQ_SYNC.
 */
#include <stdlib.h>

#include "checksum.h"
#include "file.h"
#include "io.h"

/* ---- the table ----------------------------------------------------------------------------- */

#define OMITS_QUEUES "a job has workers of its own; the position in the file is the logical address"

static const struct checksum_row rows[] = {
	{
		.variant = {
			.name = "always_async",
			.since = "2.6.35",
			.until = "2.6.38",
			.commit = "eaf25d933e64",
			.summary = "workers compute the sums of every direct write",
			.omits = "the worker per device that submitted; " OMITS_QUEUES,
		},
		.async = checksum_async_always,
		.sync_writers = true,
		.bad_fill = 1,
	},
	{
		.variant = {
			.name = "unsplit_inline",
			.since = "2.6.39",
			.until = "6.1",
			.commit = "1ae399382512",
			.summary = "inline when mapped in one piece or on raid5 and raid6, else workers",
			.omits = "up to 5.3 the worker per device that submitted; a stored sum of 0 that "
				 "3.19 takes for any; " OMITS_QUEUES,
		},
		.async = checksum_async_pieces,
		.sync_writers = true,
		.bad_fill = 1,
	},
	{
		.variant = {
			.name = "threshold",
			.commit = "patch of 2015, not merged",
			.summary = "as unsplit_inline, but workers from 64 KiB on in the single profile",
			.omits = "the worker per device that submitted; " OMITS_QUEUES,
		},
		.async = checksum_async_large,
		.sync_writers = true,
		.bad_fill = 1,
	},
	{
		.variant = {
			.name = "fast_inline",
			.since = "6.5",
			.until = "6.14",
			.commit = "da023618076a",
			.summary = "inline when the checksum is fast or the bio REQ_SYNC, as all direct I/O is",
			.omits = "zoned metadata; " OMITS_QUEUES,
		},
		.async = checksum_async_slow,
	},
	{
		.variant = {
			.name = "inline",
			.commit = "no kernel's",
			.summary = "the submitting task computes all sums",
		},
		.async = checksum_async_never,
	},
	{
		.variant = {
			.name = "async",
			.commit = "no kernel's",
			.summary = "workers compute all sums, whatever would cancel it",
		},
		.async = checksum_async_always,
	},
};

bool kp_checksum_async(const struct kp_variant *variant, const struct kp_csum_decision *decision)
{
	return kp_container_of(variant, struct checksum_row, variant)->async(decision);
}

/* ---- the stage ----------------------------------------------------------------------------- */

static const struct kp_counter_desc counters[] = {
	[CSUM_BIOS_INLINE] = { "csum_bios_inline", KP_COUNTER_SUM },
	[CSUM_BIOS_ASYNC] = { "csum_bios_async", KP_COUNTER_SUM },
	[CSUM_SUMS_INLINE] = { "csums_inline", KP_COUNTER_SUM },
	[CSUM_SUMS_ASYNC] = { "csums_async", KP_COUNTER_SUM },
	[CSUM_VERIFIED] = { "csums_verified", KP_COUNTER_SUM },
	[CSUM_MISMATCHES] = { "csum_mismatches", KP_COUNTER_SUM },
	[CSUM_REPAIRED] = { "csums_repaired", KP_COUNTER_SUM },
	[CSUM_RMW_READS] = { "csum_rmw_reads", KP_COUNTER_SUM },
	[CSUM_LOST] = { "csums_lost", KP_COUNTER_SUM },
	[CSUM_RANGE_WAIT] = { "csum_range_wait", KP_COUNTER_TIMES },
};

static const struct kp_checksum_options no_options;

static const struct kp_checksum_options *options_of(const struct kp_stage_config *config)
{
	return config->options ? config->options : &no_options;
}

static bool is_fast(const struct kp_checksum_options *options)
{
	return !options->generic && kp_crc32c_accelerated();
}

/* Can this configuration ever hand a write to the workers? */
static bool ever_async(const struct kp_stage_config *config)
{
	const struct kp_checksum_options *options = options_of(config);
	struct kp_csum_decision decision = {
		.size = UINT64_MAX,
		.whole = true,
		.fast = is_fast(options),
		.req_sync = !options->writeback,
		.profile = options->raid_profile,
		.offload = options->offload_csum,
	};

	if (kp_checksum_async(config->variant, &decision))
		return true;
	decision.whole = false;
	return kp_checksum_async(config->variant, &decision);
}

static unsigned int checksum_needs(const struct kp_stage_config *config)
{
	return ever_async(config) ? KP_NEEDS_SHARED : 0;
}

/* With policy=none, writes would not update the sums of FILE, and would miss the other copies. */
static int check_none(const struct kp_checksum_options *o, char *why, size_t why_size)
{
	if (o->sums) {
		snprintf(why, why_size, "sums=%s: policy=none keeps no sums, drop sums=", o->sums);
		return -EINVAL;
	}
	if (o->mirrors > 1) {
		snprintf(why, why_size,
			 "mirrors=%u: policy=none keeps no copies, drop mirrors=", o->mirrors);
		return -EINVAL;
	}
	return 0;
}

static int check_options(const void *options, const struct kp_variant *variant, char *why,
			 size_t why_size)
{
	const struct kp_checksum_options *o = options;
	static const unsigned int least[] = { 1, 2, 2, 4, 1, 2, 3 };
	unsigned int devices = o->raid_devices ? o->raid_devices : 4;

	if (!variant)
		return check_none(o, why, why_size);
	if (devices < least[o->raid_profile]) {
		snprintf(why, why_size, "raid_devices=%u: the profile needs more, give at least %u",
			 devices, least[o->raid_profile]);
		return -EINVAL;
	}
	if (o->mirrors > KP_CSUM_MAX_MIRRORS) {
		snprintf(why, why_size, "mirrors=%u: too many, give at most %u", o->mirrors,
			 KP_CSUM_MAX_MIRRORS);
		return -EINVAL;
	}
	if (o->read_mirror && o->read_mirror >= o->mirrors) {
		snprintf(why, why_size, "read_mirror=%u: mirrors=%u are counted from 0, give less",
			 o->read_mirror, kp_max(o->mirrors, 1u));
		return -EINVAL;
	}
	if (o->mirror_distance % KP_CSUM_SECTOR) {
		snprintf(why, why_size, "mirror_distance=%llu: give a multiple of %u",
			 o->mirror_distance, KP_CSUM_SECTOR);
		return -EINVAL;
	}
	if (o->workers > KP_WORK_THREADS) {
		snprintf(why, why_size, "workers=%u: too many, give at most %zu", o->workers,
			 KP_WORK_THREADS);
		return -EINVAL;
	}
	return 0;
}

static void set_defaults(struct checksum *cs)
{
	struct kp_checksum_options *o = &cs->options;

	o->mirrors = kp_max(o->mirrors, 1u);
	o->raid_devices = o->raid_devices ? o->raid_devices : 4;
	o->async_threshold = o->async_threshold ? o->async_threshold : KP_CSUM_THRESHOLD;
	o->workers_threshold = o->workers_threshold ? o->workers_threshold : KP_WORK_QUEUE_THRESH;
	cs->crc32c = o->generic ? kp_crc32c_generic : kp_crc32c_fast;
	cs->fast = is_fast(o);
}

static int init_pools(struct checksum *cs, size_t ios)
{
	size_t sectors = cs->max_size / KP_CSUM_SECTOR;
	size_t words = (sectors + 63) / 64;
	size_t pieces = cs->max_size / KP_CSUM_STRIPE + 2;
	size_t vecs[KP_VEC_CLASSES] = { ios, ios, 16, 16, 16, 16 };
	bool shared = cs->stage.pipeline->shared;
	int ret;

	ret = kp_pool_init(&cs->ios,
			   sizeof(struct csum_io) + 2 * words * sizeof(uint64_t) +
				   sectors * sizeof(uint32_t),
			   ios, shared);
	if (!ret)
		ret = kp_pool_init(&cs->edges, 2 * (size_t)KP_CSUM_SECTOR, 2 * ios, shared);
	if (!ret && shared)
		ret = kp_pool_init(&cs->works, 128, ios * pieces + KP_WORK_THREADS, true);
	if (!ret && cs->options.mirrors > 1)
		ret = kp_pool_init(&cs->mirrored, 128, ios * pieces, shared);
	if (!ret)
		ret = kp_bio_set_init(&cs->set, &cs->stage,
				      ios * pieces * (1 + cs->options.mirrors), vecs);
	return ret;
}

static int init_queue(struct checksum *cs, struct kp_work_queue *queue, bool *has)
{
	int ret = kp_work_queue_init(queue, &checksum_work_ops, cs, cs->options.workers,
				     cs->options.workers_threshold);

	*has = !ret;
	if (ret)
		kp_log("checksum: the workers cannot be started: %s", strerror(-ret));
	return ret;
}

static int init_queues(struct checksum *cs)
{
	int ret = init_queue(cs, &cs->high, &cs->has_high);

	if (!ret && cs->options.writeback)
		ret = init_queue(cs, &cs->normal, &cs->has_normal);
	return ret;
}

static int init_owner(struct checksum *cs, struct kp_arena *arena, size_t ios)
{
	int ret = kp_liveness_join(arena, &cs->owner.id);

	if (ret) {
		cs->owner.id = 0;
		return ret;
	}
	cs->owner.pipeline = cs->stage.pipeline;
	cs->owner.stage = &cs->stage;
	cs->owner.lost = checksum_lost;
	cs->owner.wait_ns = &cs->stage.counters[CSUM_RANGE_WAIT];
	cs->ranges = kp_arena_alloc(arena, ios * cs->max_parts * sizeof(*cs->ranges));
	return cs->ranges ? 0 : -ENOMEM;
}

static int checksum_init(struct kp_stage *stage, const struct kp_stage_config *config,
			 const struct kp_pipeline_config *pipeline)
{
	struct checksum *cs = kp_container_of(stage, struct checksum, stage);
	size_t ios = kp_max(pipeline->depth, 128u) + 1;
	int ret;

	cs->row = kp_container_of(config->variant, struct checksum_row, variant);
	cs->options = *options_of(config);
	cs->pending_tail = &cs->pending;
	set_defaults(cs);
	/* Stages above us make bios of up to 1 MiB, whatever the size of the application's I/O. */
	cs->max_size =
		kp_round_up(kp_max(pipeline->max_io_size, (uint64_t)KP_CSUM_BIO), KP_CSUM_SECTOR) +
		2 * KP_CSUM_SECTOR;
	cs->max_parts = cs->max_size / KP_RANGE_GRANULE + 2;
	ret = init_pools(cs, ios);
	if (!ret)
		ret = init_owner(cs, stage->pipeline->arena, ios);
	if (!ret && ever_async(config))
		ret = init_queues(cs);
	return ret;
}

static bool checksum_busy(struct kp_stage *stage)
{
	struct checksum *cs = kp_container_of(stage, struct checksum, stage);

	return (cs->has_high && kp_work_queue_busy(&cs->high)) ||
	       (cs->has_normal && kp_work_queue_busy(&cs->normal));
}

static void checksum_exit(struct kp_stage *stage)
{
	struct checksum *cs = kp_container_of(stage, struct checksum, stage);

	if (cs->has_high)
		kp_work_queue_exit(&cs->high);
	if (cs->has_normal)
		kp_work_queue_exit(&cs->normal);
	if (cs->owner.id)
		kp_liveness_leave(stage->pipeline->arena, cs->owner.id);
	kp_bio_set_exit(&cs->set);
	kp_pool_exit(&cs->ios);
	kp_pool_exit(&cs->edges);
	kp_pool_exit(&cs->works);
	kp_pool_exit(&cs->mirrored);
}

static const struct kp_stage_ops checksum_ops = {
	.name = "checksum",
	.size = sizeof(struct checksum),
	.counters = counters,
	.nr_counters = sizeof(counters) / sizeof(*counters),
	.needs = checksum_needs,
	.init = checksum_init,
	.open = checksum_open,
	.close = checksum_close,
	.submit = checksum_submit,
	.busy = checksum_busy,
	.exit = checksum_exit,
};

const struct kp_policy kp_checksum_policy = {
	.name = "checksum",
	.summary = "who computes the checksums of a write: its task or workers",
	.default_variant = "unsplit_inline",
	.check = check_options,
	.ops = &checksum_ops,
	.rows = rows,
	.row_size = sizeof(*rows),
	.nr_rows = sizeof(rows) / sizeof(*rows),
	.finish = checksum_finish,
};
