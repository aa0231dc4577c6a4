// SPDX-License-Identifier: GPL-2.0-only
/*
 * checksum: which task computes the CRC32C sums of a btrfs direct write. eaf25d933e64 gave all
 * sums to workers. 1ae399382512 computes the sums of an unsplit write inline. A patch of 2015
 * gave large writes to the workers again. Since 6.5 (da023618076a), a fast checksum is computed
 * inline. The engine keeps the sums, and verifies them on reads.
 */
#include "adaptor.h"

struct checksum_options {
	struct kp_engine_options common;
	char *crc32c;
	char *raid_profile;
	char *offload_csum;
	int sync_writers; /* -1: by kernel= */
	unsigned int req_sync;
	struct kp_checksum_options stage;
};

#define CHECKSUM(FIELD, ...) OPTION(struct checksum_options, FIELD, __VA_ARGS__)

static const struct fio_option options[] = {
	CHECKSUM(crc32c, crc32c, FIO_OPT_STR_STORE,
		 "fast: with the CPU's instructions; generic: by table, as a machine without them",
		 .def = "fast"),
	CHECKSUM(stage.async_threshold, async_threshold, FIO_OPT_STR_VAL,
		 "Bytes from which policy=threshold leaves a write to the workers; default 64k",
		 .minval = 1),
	CHECKSUM(
		sync_writers, sync_writers, FIO_OPT_INT,
		"1: O_SYNC, or an fsync that runs, keeps sums inline in the variants up to 6.1, as "
		"since 3.19; default 1 with kernel=3.19 to 6.1, else 0",
		.def = "-1", .minval = -1, .maxval = 1),
	CHECKSUM(offload_csum, offload_csum, FIO_OPT_STR_STORE,
		 "Knob of policy=fast_inline: auto; 1: though the checksum is fast; 0: never",
		 .def = "auto"),
	CHECKSUM(req_sync, req_sync, FIO_OPT_BOOL,
		 "1: bios are REQ_SYNC, as those of direct I/O; 0: as writeback's; default 1",
		 .def = "1"),
	CHECKSUM(raid_profile, raid_profile, FIO_OPT_STR_STORE,
		 "Decides the piece length: single, raid0, raid1, raid10, dup, raid5 or raid6",
		 .def = "single"),
	CHECKSUM(
		stage.raid_devices, raid_devices, FIO_OPT_INT,
		"Devices of the profile; a full stripe of raid5 and raid6 depends on it; default 4",
		.minval = 1, .maxval = 64),
	CHECKSUM(stage.workers, workers, FIO_OPT_INT,
		 "Workers of a job; default min(online CPUs + 2, 8)", .minval = 1, .maxval = 64),
	CHECKSUM(stage.workers_threshold, workers_threshold, FIO_OPT_INT,
		 "The queue's threshold: from 32 on it starts with one worker; default 16: all run",
		 .minval = 1),
	CHECKSUM(stage.mirrors, mirrors, FIO_OPT_INT,
		 "Copies that are kept; a bad one is repaired; default 1", .minval = 1,
		 .maxval = 8),
	CHECKSUM(stage.mirror_distance, mirror_distance, FIO_OPT_STR_VAL,
		 "Bytes from copy to copy; default the size of the file / mirrors"),
	CHECKSUM(stage.read_mirror, read_mirror, FIO_OPT_INT,
		 "The copy that is read first, from 0; default 0", .maxval = 7),
	CHECKSUM(stage.sums, sums, FIO_OPT_STR_STORE,
		 "File that keeps the sums across runs, or a folder of such files; default none"),
};

static const struct kp_policy *const policies[] = { &kp_checksum_policy, NULL };

/* Return the index of @value in @names, or -1 with one line in @why. */
static int choose(const char *option, const char *value, const char *const *names, char *why,
		  size_t why_size)
{
	size_t used;

	for (int i = 0; names[i]; i++) {
		if (!strcmp(names[i], value))
			return i;
	}
	used = snprintf(why, why_size, "%s=%s: unknown, give one of:", option, value);
	for (int i = 0; names[i] && used < why_size; i++)
		used += snprintf(why + used, why_size - used, " %s", names[i]);
	return -1;
}

static int take_names(struct checksum_options *o, char *why, size_t why_size)
{
	static const char *const crcs[] = { "fast", "generic", NULL };
	static const char *const profiles[] = { "single", "raid0", "raid1", "raid10",
						"dup",	  "raid5", "raid6", NULL };
	static const char *const offloads[] = { "auto", "1", "0", NULL };
	int crc = choose("crc32c", o->crc32c, crcs, why, why_size);
	int profile =
		crc < 0 ? -1 : choose("raid_profile", o->raid_profile, profiles, why, why_size);
	int offload =
		profile < 0 ? -1 : choose("offload_csum", o->offload_csum, offloads, why, why_size);

	if (offload < 0)
		return -EINVAL;
	o->stage.generic = crc;
	o->stage.raid_profile = profile;
	o->stage.offload_csum = offload;
	return 0;
}

/*
 * The source of 3.19 has sync_writers; no older source was read. 6.5 removed it, so its rows
 * ignore the option.
 */
static bool has_sync_writers(const struct checksum_options *o)
{
	const char *kernel = o->common.kernel;

	if (o->sync_writers >= 0)
		return o->sync_writers;
	return kernel && kp_version_compare(kernel, "3.19") >= 0;
}

static int checksum_plan(const struct kp_engine_options *common, struct kp_plan *plan, char *why,
			 size_t why_size)
{
	struct checksum_options *o = (struct checksum_options *)common;
	int ret = take_names(o, why, why_size);

	if (ret)
		return ret;
	o->stage.sync_writers = has_sync_writers(o);
	o->stage.writeback = !o->req_sync;
	return kp_plan_policy(plan, &kp_checksum_policy, common->policy, common->kernel, &o->stage,
			      why, why_size);
}

static const struct kp_engine engine = {
	.name = "checksum",
	.policies = policies,
	.options = options,
	.nr_options = sizeof(options) / sizeof(*options),
	.options_size = sizeof(struct checksum_options),
	.plan = checksum_plan,
};

KP_ENGINE(engine)
