// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checksum policy: its decisions, and whole I/Os through the stage on real files: corruption,
 * torn writes, copies, I/O that is not aligned, sums across runs.
 */
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "policy/checksum/checksum.h"
#include "policy/checksum/file.h"
#include "unit.h"

/* ---- decisions ----------------------------------------------------------------------------- */

static const struct kp_variant *variant_of(const char *name)
{
	const struct kp_variant *variant;
	char why[256];

	ck_assert_int_eq(
		kp_policy_find(&kp_checksum_policy, name, NULL, &variant, why, sizeof(why)), 0);
	return variant;
}

START_TEST(kernels)
{
	static const struct {
		const char *kernel, *name;
	} table[] = {
		{ "2.6.35", "always_async" },
		{ "2.6.38", "always_async" },
		{ "2.6.39", "unsplit_inline" },
		{ "3.0", "unsplit_inline" },
		{ "3.19", "unsplit_inline" },
		{ "5.10.7", "unsplit_inline" },
		{ "6.1", "unsplit_inline" },
		{ "6.5", "fast_inline" },
		{ "6.12", "fast_inline" },
		{ "6.14", "fast_inline" },
		{ "2.6.34", NULL },
		{ "6.2", NULL },
		{ "6.19", NULL },
	};
	const struct kp_variant *variant;
	char why[512];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		int ret = kp_policy_find(&kp_checksum_policy, NULL, table[i].kernel, &variant, why,
					 sizeof(why));

		ck_assert_msg(ret == (table[i].name ? 0 : -ENOENT), "%s", table[i].kernel);
		if (!ret)
			ck_assert_str_eq(variant->name, table[i].name);
	}
}
END_TEST

static const char *const profiles[] = { "single", "raid0", "raid1", "raid10",
					"dup",	  "raid5", "raid6" };

/* Bytes from @pos on that are mapped in one piece, written and read, with 4 devices. */
START_TEST(pieces)
{
	static const struct {
		enum kp_raid_profile profile;
		uint64_t pos, write, read;
	} table[] = {
		{ KP_RAID_SINGLE, 0, 1024 * MIB, 1024 * MIB },
		{ KP_RAID_SINGLE, 1024 * MIB - 4096, 4096, 4096 },
		{ KP_RAID_SINGLE, 1024 * MIB, 1024 * MIB, 1024 * MIB },
		{ KP_RAID_RAID0, 0, 64 * KIB, 64 * KIB },
		{ KP_RAID_RAID0, 60 * KIB, 4 * KIB, 4 * KIB },
		{ KP_RAID_RAID1, 64 * KIB, 64 * KIB, 64 * KIB },
		{ KP_RAID_RAID10, 100 * KIB, 28 * KIB, 28 * KIB },
		{ KP_RAID_DUP, 4 * KIB, 60 * KIB, 60 * KIB },
		{ KP_RAID_RAID5, 0, 192 * KIB, 64 * KIB },
		{ KP_RAID_RAID5, 100 * KIB, 92 * KIB, 28 * KIB },
		{ KP_RAID_RAID5, 192 * KIB, 192 * KIB, 64 * KIB },
		{ KP_RAID_RAID6, 0, 128 * KIB, 64 * KIB },
		{ KP_RAID_RAID6, 124 * KIB, 4 * KIB, 4 * KIB },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_msg(kp_checksum_piece(table[i].profile, 4, table[i].pos, true) ==
				      table[i].write,
			      "write %zu", i);
		ck_assert_msg(kp_checksum_piece(table[i].profile, 4, table[i].pos, false) ==
				      table[i].read,
			      "read %zu", i);
	}
}
END_TEST

/*
 * Who computes, by variant, profile and size around each boundary, as the specification has it:
 * i inline, a workers. One letter for each size.
 */
static const uint64_t sizes[] = {
	4 * KIB,   60 * KIB,  64 * KIB - 4096, 64 * KIB,  68 * KIB, 128 * KIB,
	132 * KIB, 192 * KIB, 196 * KIB,       512 * KIB, MIB,
};

#define NR_SIZES (sizeof(sizes) / sizeof(*sizes))

struct expected {
	const char *variant;
	const char *by_profile[7]; /* as enum kp_raid_profile */
};

static const struct expected slow_crc[] = {
	{ "always_async",
	  { "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa",
	    "aaaaaaaaaaa", "aaaaaaaaaaa" } },
	{ "unsplit_inline",
	  { "iiiiiiiiiii", "iiiiaaaaaaa", "iiiiaaaaaaa", "iiiiaaaaaaa", "iiiiaaaaaaa",
	    "iiiiiiiiiii", "iiiiiiiiiii" } },
	{ "threshold",
	  { "iiiaaaaaaaa", "iiiiaaaaaaa", "iiiiaaaaaaa", "iiiiaaaaaaa", "iiiiaaaaaaa",
	    "iiiiiiiiiii", "iiiiiiiiiii" } },
	{ "fast_inline",
	  { "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii",
	    "iiiiiiiiiii", "iiiiiiiiiii" } },
	{ "inline",
	  { "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii", "iiiiiiiiiii",
	    "iiiiiiiiiii", "iiiiiiiiiii" } },
	{ "async",
	  { "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa", "aaaaaaaaaaa",
	    "aaaaaaaaaaa", "aaaaaaaaaaa" } },
};

START_TEST(decisions)
{
	const struct expected *expected = &slow_crc[_i];
	const struct kp_variant *variant = variant_of(expected->variant);

	for (int profile = 0; profile < 7; profile++) {
		for (size_t i = 0; i < NR_SIZES; i++) {
			struct kp_csum_decision d = {
				.size = sizes[i],
				.whole = kp_checksum_piece(profile, 4, 0, true) >= sizes[i],
				.req_sync = true,
				.profile = profile,
				.threshold = 64 * KIB,
			};
			bool async = kp_checksum_async(variant, &d);

			ck_assert_msg(async == (expected->by_profile[profile][i] == 'a'),
				      "%s, %s, %llu KiB: %s", variant->name, profiles[profile],
				      (unsigned long long)(sizes[i] / KIB),
				      async ? "async" : "inline");
		}
	}
}
END_TEST

/* should_async_write() of 6.12 */
START_TEST(fast_inline)
{
	static const struct {
		bool fast, req_sync;
		enum kp_offload_csum offload;
		bool async;
	} table[] = {
		{ true, true, KP_OFFLOAD_CSUM_AUTO, false },
		{ true, false, KP_OFFLOAD_CSUM_AUTO, false },
		{ false, true, KP_OFFLOAD_CSUM_AUTO, false },
		{ false, false, KP_OFFLOAD_CSUM_AUTO, true },
		{ true, true, KP_OFFLOAD_CSUM_ON, false }, /* direct I/O is REQ_SYNC */
		{ true, false, KP_OFFLOAD_CSUM_ON, true },
		{ false, false, KP_OFFLOAD_CSUM_ON, true },
		{ true, false, KP_OFFLOAD_CSUM_OFF, false },
		{ false, false, KP_OFFLOAD_CSUM_OFF, false },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct kp_csum_decision d = {
			.size = MIB,
			.whole = true,
			.fast = table[i].fast,
			.req_sync = table[i].req_sync,
			.offload = table[i].offload,
		};

		ck_assert_msg(kp_checksum_async(variant_of("fast_inline"), &d) == table[i].async,
			      "case %zu", i);
	}
}
END_TEST

/* The threshold moves, in the single profile alone. */
START_TEST(threshold_moves)
{
	for (uint64_t threshold = 4 * KIB; threshold <= MIB; threshold *= 2) {
		for (size_t i = 0; i < NR_SIZES; i++) {
			struct kp_csum_decision d = { .size = sizes[i],
						      .whole = true,
						      .threshold = threshold };

			ck_assert(kp_checksum_async(variant_of("threshold"), &d) ==
				  (sizes[i] >= threshold));
			d.profile = KP_RAID_RAID1;
			ck_assert(!kp_checksum_async(variant_of("threshold"), &d));
		}
	}
}
END_TEST

/* ---- whole I/Os ---------------------------------------------------------------------------- */

#define FILE_SIZE (8 * MIB)

struct test {
	struct unit unit;
	struct kp_checksum_options options;
	struct kp_file *file;
	char path[512];
	char *memory; /* FILE_SIZE, and the model of the file behind it */
	char *model;
};

static struct test test;

static const char *const ways[] = { "inline", "async", "unsplit_inline" };

#define NR_WAYS 3

/* The loop index counts ways, then devices; not every pair unless KP_LONG is set: see main(). */
static const char *way_of(int i)
{
	return ways[i % NR_WAYS];
}

static const char *real_of(int i)
{
	return unit_real_backends[(i + i / NR_WAYS) % NR_REAL_BACKENDS];
}

static const char *any_of(int i)
{
	return unit_backends[(i + i / NR_WAYS) % NR_BACKENDS];
}

static void begin(const char *backend, const char *variant)
{
	memset(&test, 0, sizeof(test));
	snprintf(test.path, sizeof(test.path), "%s", unit_path("checksum"));
	test.memory = unit_memory(2 * FILE_SIZE);
	test.model = test.memory + FILE_SIZE;
	unit_make_file(test.path, test.memory, FILE_SIZE);
	unit_init(&test.unit, backend);
	test.options.raid_profile = KP_RAID_RAID0;
	unit_add_stage(&test.unit, &kp_checksum_policy, variant_of(variant), &test.options);
}

static void start(void)
{
	unit_start(&test.unit);
	test.file = unit_open(&test.unit, test.path, O_RDWR);
}

static void end(void)
{
	unit_exit(&test.unit);
	unlink(test.path);
}

static uint64_t counter(enum checksum_counter which)
{
	return test.unit.pl->slot->values[kp_counters_at(&kp_checksum_policy) + which];
}

static int do_io(enum kp_op op, uint64_t pos, void *data, size_t len, size_t *resid)
{
	struct kp_io io;
	int ret = unit_io(&test.unit, &io, op, test.file, pos, data, len);

	if (resid)
		*resid = io.bio.resid;
	return ret;
}

/* 1 to @most times @unit, no more than @left. */
static size_t some(unsigned int most, size_t unit, size_t left)
{
	size_t len = unit_between(1, most) * unit;

	return kp_min(len, left);
}

/* Write all of the file at random sizes, so that every sector has a sum. */
static void fill_file(void)
{
	unit_fill(test.model, FILE_SIZE);
	for (uint64_t pos = 0; pos < FILE_SIZE;) {
		size_t len = some(64, 4096, FILE_SIZE - pos);

		ck_assert_int_eq(do_io(KP_OP_WRITE, pos, test.model + pos, len, NULL), 0);
		pos += len;
	}
}

/* Behind our back, as a device that goes bad. @flip: bits to change, else the new contents. */
static void damage(uint64_t pos, const char *data, size_t len, bool flip)
{
	static char *sector;
	static int fd = -1;
	uint64_t start = kp_round_down(pos, 4096);

	if (fd < 0) {
		fd = open(test.path, O_RDWR | O_DIRECT);
		sector = unit_memory(4096);
		ck_assert_int_ge(fd, 0);
	}
	ck_assert_int_eq(pread(fd, sector, 4096, start), 4096);
	for (size_t i = 0; i < len; i++)
		sector[pos - start + i] = data[i] ^ (flip ? sector[pos - start + i] : 0);
	ck_assert_int_eq(pwrite(fd, sector, 4096, start), 4096);
}

static void scribble(uint64_t pos, const void *data, size_t len)
{
	damage(pos, data, len, false);
}

static void flip_bit(uint64_t bit)
{
	char flip = 1 << bit % 8;

	damage(bit / 8, &flip, 1, true);
}

static bool file_is_model(void)
{
	char *data = unit_memory(FILE_SIZE);
	bool same;

	unit_read_file(test.path, data, FILE_SIZE, 0);
	same = !memcmp(data, test.model, FILE_SIZE);
	munmap(data, FILE_SIZE);
	return same;
}

/* Read sector by sector. Return: how many were found bad; *wrong: a good one reported, or missed. */
static unsigned int read_sectors(const bool *bad, unsigned int *wrong)
{
	unsigned int found = 0;

	*wrong = 0;
	for (uint64_t i = 0; i < FILE_SIZE / 4096; i++) {
		int ret = do_io(KP_OP_READ, i * 4096, test.memory, 4096, NULL);

		ck_assert(ret == 0 || ret == -EIO);
		found += ret == -EIO;
		*wrong += bad[i] != (ret == -EIO);
		if (!ret && memcmp(test.memory, test.model + i * 4096, 4096))
			(*wrong)++;
	}
	return found;
}

/* 1,000 bits flipped: each is found at its sector, and only there. */
START_TEST(flipped_bits)
{
	static bool bad[FILE_SIZE / 4096];
	unsigned int nr_bad = 0, wrong;

	begin(real_of(_i), way_of(_i));
	start();
	fill_file();
	for (int i = 0; i < 1000;) {
		uint64_t sector = unit_between(0, FILE_SIZE / 4096 - 1);

		if (bad[sector]) /* one flip each: a second could undo the first */
			continue;
		bad[sector] = true;
		flip_bit(sector * 32768 + unit_between(0, 32767));
		nr_bad++;
		i++;
	}
	unit_nr_said = 0;
	ck_assert_uint_eq(read_sectors(bad, &wrong), nr_bad);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_eq(counter(CSUM_MISMATCHES), nr_bad);
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_ptr_nonnull(strstr(unit_said, "csum failed at offset"));
	/* Larger reads fail when they meet one, and not otherwise. */
	for (uint64_t pos = 0; pos < FILE_SIZE; pos += 32 * KIB) {
		bool any = false;

		for (int i = 0; i < 8; i++)
			any |= bad[pos / 4096 + i];
		ck_assert_int_eq(do_io(KP_OP_READ, pos, test.memory, 32 * KIB, NULL),
				 any ? -EIO : 0);
	}
	/* A new write makes it good. */
	fill_file();
	memset(bad, 0, sizeof(bad));
	ck_assert_uint_eq(read_sectors(bad, &wrong), 0);
	ck_assert_uint_eq(wrong, 0);
	end();
}
END_TEST

/* The message names the place and both sums. */
START_TEST(message)
{
	char wanted[64];

	begin("libaio", "inline");
	start();
	memset(test.model, 0, 4096);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 40960, test.model, 4096, NULL), 0);
	scribble(40960 + 100, "x", 1);
	memset(test.model + 100, 'x', 1);
	ck_assert_int_eq(do_io(KP_OP_READ, 32768, test.memory, 16384, NULL), -EIO);
	/* The sum of 4 KiB of zeroes, as btrfs-progs and the kernel have it. */
	snprintf(wanted, sizeof(wanted), "offset 40960: expected 0x98f94189, found 0x%08x",
		 le32toh(kp_csum_data(kp_crc32c_generic, test.model, 4096)));
	ck_assert_msg(strstr(unit_said, wanted), "%s", unit_said);
	ck_assert_int_eq(test.memory[8192], 0); /* the kernel's fill of a bad sector */
	ck_assert_int_eq(test.memory[8192 + 100], 0);
	end();
}
END_TEST

/* The first half of a sector is of the new write, the second of the old one. */
START_TEST(torn_writes)
{
	static bool bad[FILE_SIZE / 4096];
	unsigned int wrong;
	char half[2048];

	begin(real_of(_i), way_of(_i));
	start();
	fill_file();
	for (unsigned int i = 0; i < 200; i++) {
		unsigned int sector = unit_between(0, FILE_SIZE / 4096 - 1);

		unit_fill(half, sizeof(half));
		scribble(sector * 4096ull + i % 2 * 2048, half, sizeof(half));
		bad[sector] = true;
	}
	read_sectors(bad, &wrong);
	ck_assert_uint_eq(wrong, 0);
	end();
}
END_TEST

/*
 * Two or three copies; bits flipped in one copy of a sector, sometimes
 * in two. Whatever is read first, the data is good, and all copies are equal afterwards.
 */
START_TEST(mirrors)
{
	unsigned int copies = 2 + _i % 2;
	uint64_t distance = FILE_SIZE / copies / 4096 * 4096;
	unsigned int repaired = 0;

	begin(real_of(_i), way_of(_i));
	test.options.mirrors = copies;
	test.options.read_mirror = _i % copies;
	start();
	unit_fill(test.model, distance);
	for (unsigned int i = 1; i < copies; i++)
		memcpy(test.model + i * distance, test.model, distance);
	for (uint64_t pos = 0; pos < distance; pos += 128 * KIB)
		ck_assert_int_eq(do_io(KP_OP_WRITE, pos, test.model + pos,
				       kp_min(128 * KIB, distance - pos), NULL),
				 0);
	memset(test.model + copies * distance, 0, FILE_SIZE - copies * distance);
	ck_assert(file_is_model());
	for (int i = 0; i < 300; i++) {
		uint64_t sector = unit_between(0, distance / 4096 - 1);

		/* In the copy that is read first, else nobody would notice. */
		flip_bit((sector * 4096 + test.options.read_mirror * distance) * 8 +
			 unit_between(0, 32767));
		if (copies == 3 && i % 3 == 0)
			flip_bit((sector * 4096 +
				  (test.options.read_mirror + 1) % copies * distance) *
					 8 +
				 unit_between(0, 32767));
	}
	/* Aligned and not. */
	for (uint64_t pos = 0; pos < distance;) {
		size_t len = some(200, 512, distance - pos);

		ck_assert_int_eq(do_io(KP_OP_READ, pos, test.memory, len, NULL), 0);
		ck_assert_mem_eq(test.memory, test.model + pos, len);
		pos += len;
	}
	repaired = counter(CSUM_REPAIRED);
	ck_assert_uint_ge(repaired, 200);
	ck_assert(file_is_model());
	/* Nothing is left to repair; behind the first copy is no place of ours. */
	for (uint64_t pos = 0; pos < distance; pos += 4096)
		ck_assert_int_eq(do_io(KP_OP_READ, pos, test.memory, 4096, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_REPAIRED), repaired);
	ck_assert_int_eq(do_io(KP_OP_READ, distance, test.memory, 4096, NULL), -EINVAL);
	ck_assert_ptr_nonnull(strstr(unit_said, "after the end of the first of"));
	end();
}
END_TEST

/* All copies bad: the I/O fails, that one alone. */
START_TEST(mirrors_all_bad)
{
	begin("libaio", "inline");
	test.options.mirrors = 2;
	start();
	for (uint64_t pos = 0; pos < 16 * 4096; pos += 4096)
		ck_assert_int_eq(do_io(KP_OP_WRITE, pos, test.model, 4096, NULL), 0);
	flip_bit(3 * 32768);
	flip_bit((3 * 4096 + FILE_SIZE / 2) * 8 + 5);
	for (uint64_t i = 0; i < 16; i++)
		ck_assert_int_eq(do_io(KP_OP_READ, i * 4096, test.memory, 4096, NULL),
				 i == 3 ? -EIO : 0);
	end();
}
END_TEST

/*
 * Reads and writes of any multiple of 512 at any, against a model;
 * the file grows, and its last sector is whole only now and then.
 */
START_TEST(unaligned)
{
	uint64_t size = FILE_SIZE / 4 + 512;

	begin(any_of(_i), way_of(_i));
	ck_assert_int_eq(truncate(test.path, size), 0);
	start();
	for (int round = 0; round < 2500; round++) {
		uint64_t pos = unit_between(0, FILE_SIZE / 2 / 512) * 512;
		size_t len = unit_between(1, round % 8 ? 20 : 400) * 512;
		size_t resid, there;

		if (unit_between(0, 1)) {
			unit_fill(test.memory, len);
			ck_assert_int_eq(do_io(KP_OP_WRITE, pos, test.memory, len, &resid), 0);
			ck_assert_uint_eq(resid, 0);
			memcpy(test.model + pos, test.memory, len);
			size = kp_max(size, pos + len);
			continue;
		}
		ck_assert_int_eq(do_io(KP_OP_READ, pos, test.memory, len, &resid), 0);
		there = pos < size ? kp_min(len, size - pos) : 0;
		if (strcmp(any_of(_i), "null"))
			ck_assert_uint_eq(len - resid, there);
		ck_assert_mem_eq(test.memory, test.model + pos, there);
	}
	ck_assert_uint_eq(counter(CSUM_MISMATCHES), 0);
	ck_assert_uint_gt(counter(CSUM_RMW_READS), 100);
	if (strcmp(any_of(_i), "null")) {
		struct stat st;

		ck_assert_int_eq(stat(test.path, &st), 0);
		ck_assert_uint_eq(st.st_size, size); /* whole sectors do not make it longer */
	}
	end();
}
END_TEST

/* A sector whose old contents are bad cannot be written in part. */
START_TEST(unaligned_onto_bad)
{
	begin("libaio", "inline");
	start();
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.model, 8192, NULL), 0);
	flip_bit(9);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 512, test.memory, 512, NULL), -EIO);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 4096, test.memory, 512, NULL), 0);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.memory, 4096, NULL), 0);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, 8192, NULL), 0);
	end();
}
END_TEST

/* Behind the end of a short read nothing is judged, whatever the I/O before found there. */
START_TEST(bad_before_short)
{
	const uint64_t len = 128 * 4096;

	begin("libaio", "inline");
	start();
	fill_file();
	for (uint64_t i = 0; i < 128; i++)
		flip_bit(i * 32768);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, len, NULL), -EIO);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.model, len, NULL), 0);
	flip_bit(3 * 32768);
	ck_assert_int_eq(truncate(test.path, 25 * 4096), 0);
	memset(test.memory, 'x', len);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, len, NULL), -EIO);
	for (uint64_t i = 32 * 4096; i < len; i++)
		ck_assert_int_eq(test.memory[i], 'x');
	end();
}
END_TEST

/* Sectors that were never written, and discarded ones, have no sum and are not verified. */
START_TEST(no_sums)
{
	begin("libaio", "inline");
	start();
	flip_bit(77);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, MIB, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_VERIFIED), 0);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.memory, MIB, NULL), 0);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, MIB, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_VERIFIED), 256);
	ck_assert_int_eq(do_io(KP_OP_DISCARD, 4096, NULL, 8192, NULL), 0);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, MIB, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_VERIFIED), 256 + 254);
	end();
}
END_TEST

/* A write that fails leaves sectors without sums, not with wrong ones. */
START_TEST(failed_writes)
{
	unsigned int failed = 0;

	begin("libaio", ways[_i]);
	test.unit.config.device.fault = "error:5";
	start();
	for (int round = 0; round < 400; round++) {
		uint64_t pos = unit_between(0, 255) * 4096;
		size_t len = unit_between(1, 64) * 4096;
		int ret;

		unit_fill(test.memory, len);
		ret = do_io(round % 2 ? KP_OP_READ : KP_OP_WRITE, pos, test.memory, len, NULL);
		ck_assert(ret == 0 || ret == -EIO);
		failed += ret == -EIO;
	}
	ck_assert_uint_gt(failed, 50);
	ck_assert_uint_eq(counter(CSUM_MISMATCHES), 0);
	end();
}
END_TEST

/* A device that corrupts writes is found out. */
START_TEST(corrupting_device)
{
	unsigned int bad = 0;

	begin("libaio", ways[_i]);
	test.unit.config.device.fault = "corrupt"; /* every 7th write */
	start();
	for (uint64_t i = 0; i < 700; i++)
		ck_assert_int_eq(do_io(KP_OP_WRITE, i * 4096, test.memory, 4096, NULL), 0);
	for (uint64_t i = 0; i < 700; i++)
		bad += do_io(KP_OP_READ, i * 4096, test.memory, 4096, NULL) == -EIO;
	ck_assert_uint_eq(bad, 100);
	end();
}
END_TEST

/* ---- many in flight ------------------------------------------------------------------------ */

#define DEPTH 32

/* What a range of the file holds is named in each of its sectors: no read may see a mix. */
static void deep(bool split)
{
	static struct kp_io ios[DEPTH];
	unsigned int total = split ? 600 : 2000, ended = 0, submitted = 0;

	if (split) {
		/* Stages below, which are written for one thread, and small requests. */
		test.unit.config.device.limits.max_sectors_kb = 8;
		unit_add_split(&test.unit, "fast");
	}
	start();
	while (ended < total) {
		int nr;

		while (submitted < total && submitted - ended < DEPTH) {
			struct kp_io *io = &ios[submitted % DEPTH];
			char *data = test.memory + submitted % DEPTH * 256 * KIB;
			size_t len = unit_between(1, 500) * 512;
			uint64_t pos = unit_between(0, (MIB - len) / 512) * 512;
			bool write = unit_between(0, 1);

			if (write)
				memset(data, submitted, len);
			kp_io_prepare(io, write ? KP_OP_WRITE : KP_OP_READ, test.file, pos, data,
				      len);
			ck_assert_int_eq(kp_submit(test.unit.pl, io), 0);
			submitted++;
		}
		kp_commit(test.unit.pl);
		/* In order, since the memory is: wait for all. */
		nr = kp_reap(test.unit.pl, submitted - ended, DEPTH, NULL);
		ck_assert_int_eq(nr, submitted - ended);
		for (int i = 0; i < nr; i++)
			ck_assert_int_eq(kp_io_error(kp_reaped(test.unit.pl, i)), 0);
		ended += nr;
	}
	ck_assert_uint_eq(counter(CSUM_MISMATCHES), 0);
	for (uint64_t pos = 0; pos < MIB; pos += 4096)
		ck_assert_int_eq(do_io(KP_OP_READ, pos, test.memory, 4096, NULL), 0);
	ck_assert_uint_gt(counter(CSUM_VERIFIED), 256);
	end();
}

START_TEST(deep_queue)
{
	begin(any_of(_i), way_of(_i));
	test.unit.config.device.null.write_nsec = 5000;
	deep(false);
}
END_TEST

START_TEST(deep_queue_split)
{
	begin(any_of(_i), way_of(_i));
	test.unit.config.device.null.write_nsec = 5000;
	deep(true);
}
END_TEST

#define MANY 128

/*
 * Workers that wait for a place in the device while the owner waits for many I/Os to end: it must
 * not sleep until all are over that are in the device.
 */
START_TEST(more_pieces_than_places)
{
	static struct kp_io ios[MANY];
	uint64_t begun;

	begin("null", "async");
	test.unit.config.depth = MANY;
	test.unit.config.device.null = (struct kp_null_options){ .mbps = 200 };
	start();
	begun = kp_now_ns();
	for (int i = 0; i < MANY; i++) {
		kp_io_prepare(&ios[i], KP_OP_WRITE, test.file, i * 128 * KIB, test.memory,
			      128 * KIB);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	kp_commit(test.unit.pl);
	ck_assert_int_eq(kp_reap(test.unit.pl, MANY, MANY, NULL), MANY);
	/* 16 MiB at 200 MB/s take 84 ms. */
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(400 * 1000000ull));
	ck_assert_uint_eq(counter(CSUM_BIOS_ASYNC), 2 * MANY);
	end();
}
END_TEST

/* ---- sums across runs ---------------------------------------------------------------------- */

static char sums_path[sizeof(test.path) + 8];

static void begin_sums(const char *way)
{
	begin("libaio", way);
	if (!sums_path[0])
		snprintf(sums_path, sizeof(sums_path), "%s.sums", test.path);
	test.options.sums = sums_path;
}

/* Another run on the same file. */
static void next_run(int flags)
{
	if (test.unit.pl)
		kp_pipeline_destroy(test.unit.pl);
	kp_arena_finish(test.unit.arena);
	kp_arena_destroy(test.unit.arena);
	test.unit.pl = NULL;
	ck_assert_int_eq(kp_arena_create(&test.unit.arena, 1ull << 34), 0);
	test.unit.config.arena = test.unit.arena;
	unit_start(&test.unit);
	ck_assert_int_eq(kp_file_open(test.unit.pl, test.path, flags, 0, &test.file), 0);
}

/* The same, but it must be refused. */
static void refused_run(const char *why)
{
	kp_pipeline_destroy(test.unit.pl);
	kp_arena_destroy(test.unit.arena);
	test.unit.pl = NULL;
	ck_assert_int_eq(kp_arena_create(&test.unit.arena, 1ull << 34), 0);
	test.unit.config.arena = test.unit.arena;
	unit_start(&test.unit);
	unit_nr_said = 0;
	ck_assert_int_eq(kp_file_open(test.unit.pl, test.path, O_RDONLY, 0, &test.file), -EINVAL);
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_msg(strstr(unit_said, why), "%s", unit_said);
}

START_TEST(sums_file)
{
	begin_sums("inline");
	start();
	fill_file();
	flip_bit(5 * 32768);
	next_run(O_RDONLY);
	ck_assert_int_eq(access(sums_path, F_OK), 0); /* only a writer takes it away */
	for (uint64_t i = 0; i < FILE_SIZE / 4096; i++)
		ck_assert_int_eq(do_io(KP_OP_READ, i * 4096, test.memory, 4096, NULL),
				 i == 5 ? -EIO : 0);
	ck_assert_uint_eq(counter(CSUM_VERIFIED), FILE_SIZE / 4096);
	next_run(O_RDWR);
	ck_assert_int_ne(access(sums_path, F_OK), 0);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 5 * 4096, test.model + 5 * 4096, 4096, NULL), 0);
	next_run(O_RDONLY);
	ck_assert_int_eq(do_io(KP_OP_READ, 0, test.memory, MIB, NULL), 0);
	ck_assert_mem_eq(test.memory, test.model, MIB);
	unlink(sums_path);
	end();
}
END_TEST

/* ---- what survives a power cut ------------------------------------------------------------- */

static struct {
	char text[4096]; /* "unlink NAME;", "rename NAME;", "fsync NAME;": in their order */
	bool slow;	 /* unlink takes its time */
	bool unlinking, unlinked;
} calls;

static void record(const char *call, const char *path)
{
	size_t used = strlen(calls.text);
	const char *base = strrchr(path, '/') + 1;
	const char *suffix = strstr(base, ".tmp");
	int len = strlen(base);

	/* A temporary name ends in a random number of 16 digits, which is left out here. */
	if (suffix && suffix - base > 16)
		len = suffix - base - 17;
	snprintf(calls.text + used, sizeof(calls.text) - used, "%s %.*s%s;", call, len, base,
		 len < (int)strlen(base) ? suffix : "");
}

/* In place of libc's. */
int unlink(const char *path)
{
	long ret;

	record("unlink", path);
	__atomic_store_n(&calls.unlinking, true, __ATOMIC_SEQ_CST);
	if (calls.slow)
		usleep(200000);
	ret = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
	__atomic_store_n(&calls.unlinked, true, __ATOMIC_SEQ_CST);
	return ret;
}

int rename(const char *from, const char *to)
{
	record("rename", to);
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int fsync(int fd)
{
	char link[64], path[512] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0)
		record("fsync", path);
	return syscall(SYS_fsync, fd);
}

static const char *base_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

static void expect_calls(const char *format, ...)
{
	char expected[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(expected, sizeof(expected), format, args);
	va_end(args);
	ck_assert_str_eq(calls.text, expected);
	calls.text[0] = '\0';
}

/*
 * Before the first write the old sums are gone from the disk; the new ones get there after the data
 * that they are of.
 */
START_TEST(sums_order)
{
	char folder[512];

	begin_sums("inline");
	snprintf(folder, sizeof(folder), "%s", test.path);
	*strrchr(folder, '/') = '\0';
	start();
	fill_file();
	calls.text[0] = '\0';
	kp_pipeline_destroy(test.unit.pl);
	test.unit.pl = NULL;
	kp_arena_finish(test.unit.arena);
	expect_calls("fsync %s;fsync %s.tmp;rename %s;fsync %s;", base_of(test.path),
		     base_of(sums_path), base_of(sums_path), base_of(folder));
	next_run(O_RDONLY);
	calls.text[0] = '\0';
	next_run(O_RDWR); /* the reader has changed nothing */
	expect_calls("unlink %s;fsync %s;", base_of(sums_path), base_of(folder));
	unlink(sums_path);
	end();
}
END_TEST

static void *open_for_writing(void *arg)
{
	struct kp_pipeline *pl;
	struct kp_file *file;

	(void)arg;
	ck_assert_int_eq(kp_pipeline_create(&pl, &test.unit.config), 0);
	ck_assert_int_eq(kp_file_open(pl, test.path, O_RDWR, 0, &file), 0);
	kp_pipeline_destroy(pl);
	return NULL;
}

/* Nor does the second job write before the first has removed them. */
START_TEST(sums_order_of_two_jobs)
{
	pthread_t thread;

	begin_sums("inline");
	start();
	fill_file();
	next_run(O_RDONLY);
	calls.slow = true;
	calls.unlinking = calls.unlinked = false;
	ck_assert_int_eq(pthread_create(&thread, NULL, open_for_writing, NULL), 0);
	while (!__atomic_load_n(&calls.unlinking, __ATOMIC_SEQ_CST))
		usleep(1000);
	open_for_writing(NULL);
	ck_assert(__atomic_load_n(&calls.unlinked, __ATOMIC_SEQ_CST));
	calls.slow = false;
	pthread_join(thread, NULL);
	end();
}
END_TEST

/* Each of several jobs is refused, and one line says why. */
START_TEST(sums_refused_once)
{
	begin_sums("inline");
	unit_make_file(sums_path, "bad", 3);
	unit_start(&test.unit);
	unit_nr_said = 0;
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(kp_file_open(test.unit.pl, test.path, O_RDWR, 0, &test.file),
				 -EINVAL);
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_msg(strstr(unit_said, "cut off"), "%s", unit_said);
	ck_assert_int_eq(access(sums_path, F_OK), 0);
	unlink(sums_path);
	end();
}
END_TEST

static void change_sums(off_t at, int value)
{
	int fd = open(sums_path, O_RDWR);
	unsigned char byte;

	ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
	byte ^= value;
	ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

START_TEST(sums_refused)
{
	struct stat st;

	begin_sums("inline");
	start();
	fill_file();
	next_run(O_RDONLY);
	ck_assert_int_eq(stat(sums_path, &st), 0);
	/* Any byte that is not what it was. */
	for (int i = 0; i < 40; i++) {
		off_t at = i < 8 ? i : (off_t)unit_between(8, st.st_size - 1);

		change_sums(at, 0x10);
		refused_run("sums=");
		change_sums(at, 0x10);
	}
	next_run(O_RDONLY);
	/* Cut off. */
	ck_assert_int_eq(truncate(sums_path, st.st_size - 1), 0);
	refused_run("cut off");
	ck_assert_int_eq(truncate(sums_path, 100), 0);
	refused_run("cut off");
	end();
	unlink(sums_path);
}
END_TEST

START_TEST(sums_of_others)
{
	begin_sums("inline");
	start();
	fill_file();
	next_run(O_RDONLY);
	ck_assert_int_eq(truncate(test.path, FILE_SIZE - 4096), 0);
	refused_run("belongs to another size");
	ck_assert_int_eq(truncate(test.path, FILE_SIZE), 0);
	next_run(O_RDONLY);
	unlink(test.path);
	unit_make_file(test.path, test.model, FILE_SIZE);
	refused_run("belongs to another file");
	end();
	unlink(sums_path);
}
END_TEST

/* ---- options ------------------------------------------------------------------------------- */

START_TEST(bad_options)
{
	static const struct {
		struct kp_checksum_options options;
		const char *why;
	} table[] = {
		{ { .mirrors = 9 }, "mirrors=9" },
		{ { .mirrors = 2, .read_mirror = 2 }, "read_mirror=2" },
		{ { .read_mirror = 1 }, "read_mirror=1" },
		{ { .mirrors = 2, .mirror_distance = 1000 }, "mirror_distance=1000" },
		{ { .raid_profile = KP_RAID_RAID6, .raid_devices = 2 }, "raid_devices=2" },
		{ { .workers = 65 }, "workers=65" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct kp_pipeline *pl;

		begin("libaio", "async");
		test.options = table[i].options;
		unit_nr_said = 0;
		ck_assert_int_eq(kp_pipeline_create(&pl, &test.unit.config), -EINVAL);
		ck_assert_uint_eq(unit_nr_said, 1);
		ck_assert_msg(strstr(unit_said, table[i].why), "%s", unit_said);
		end();
	}
}
END_TEST

/* O_SYNC, or an fsync that runs, keeps the older rules inline. */
START_TEST(sync_writers)
{
	static const struct {
		const char *variant;
		bool option, dsync, async;
	} table[] = {
		{ "always_async", false, true, true }, { "always_async", true, false, true },
		{ "always_async", true, true, false }, { "unsplit_inline", true, true, false },
		{ "threshold", true, true, false },    { "async", true, true, true },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		begin("libaio", table[i].variant);
		test.options.sync_writers = table[i].option;
		unit_start(&test.unit);
		test.file =
			unit_open(&test.unit, test.path, O_RDWR | (table[i].dsync ? O_SYNC : 0));
		ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.memory, 128 * KIB, NULL), 0);
		ck_assert_int_eq(do_io(KP_OP_FLUSH, 0, NULL, 0, NULL), 0);
		ck_assert_msg((counter(CSUM_BIOS_ASYNC) == 2) == table[i].async, "case %zu", i);
		ck_assert_msg((counter(CSUM_BIOS_INLINE) == 2) == !table[i].async, "case %zu", i);
		end();
	}
}
END_TEST

/* A job that is killed in the middle of a sync write is not one for ever. */
START_TEST(killed_sync_writer)
{
	int fds[2], status;
	char byte;
	pid_t pid;

	begin("null", "always_async");
	test.options.sync_writers = true;
	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		struct kp_io io;

		test.unit.config.device.null.write_nsec = 1000000000u;
		unit_start(&test.unit);
		test.file = unit_open(&test.unit, test.path, O_RDWR | O_SYNC);
		kp_io_prepare(&io, KP_OP_WRITE, test.file, MIB, test.memory, 4096);
		if (kp_submit(test.unit.pl, &io) || write(fds[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(fds[0], &byte, 1), 1);
	start();
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.memory, 4096, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_BIOS_INLINE), 1);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	usleep(150000);
	ck_assert_int_eq(do_io(KP_OP_WRITE, 0, test.memory, 4096, NULL), 0);
	ck_assert_uint_eq(counter(CSUM_BIOS_INLINE), 1);
	ck_assert_uint_eq(counter(CSUM_BIOS_ASYNC), 1);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("checksum");
	TCase *tcase = tcase_create("checksum");
	bool all = getenv("KP_LONG"); /* every way on every device */
	int real = all ? NR_WAYS * NR_REAL_BACKENDS : 3;
	int any = all ? NR_WAYS * NR_BACKENDS : 4;

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, kernels);
	tcase_add_test(tcase, pieces);
	tcase_add_loop_test(tcase, decisions, 0, sizeof(slow_crc) / sizeof(*slow_crc));
	tcase_add_test(tcase, fast_inline);
	tcase_add_test(tcase, threshold_moves);
	tcase_add_loop_test(tcase, flipped_bits, 0, real);
	tcase_add_test(tcase, message);
	tcase_add_loop_test(tcase, torn_writes, 0, real);
	tcase_add_loop_test(tcase, mirrors, 0, real);
	tcase_add_test(tcase, mirrors_all_bad);
	tcase_add_loop_test(tcase, unaligned, 0, any);
	tcase_add_test(tcase, unaligned_onto_bad);
	tcase_add_test(tcase, bad_before_short);
	tcase_add_test(tcase, no_sums);
	tcase_add_loop_test(tcase, failed_writes, 0, NR_WAYS);
	tcase_add_loop_test(tcase, corrupting_device, 0, NR_WAYS);
	tcase_add_loop_test(tcase, deep_queue, 0, any);
	tcase_add_loop_test(tcase, deep_queue_split, 0, any);
	tcase_add_test(tcase, more_pieces_than_places);
	tcase_add_test(tcase, sums_file);
	tcase_add_test(tcase, sums_refused);
	tcase_add_test(tcase, sums_of_others);
	tcase_add_test(tcase, sums_order);
	tcase_add_test(tcase, sums_order_of_two_jobs);
	tcase_add_test(tcase, sums_refused_once);
	tcase_add_test(tcase, bad_options);
	tcase_add_test(tcase, sync_writers);
	tcase_add_test(tcase, killed_sync_writer);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
