// SPDX-License-Identifier: GPL-2.0-only
/* Queue limits: what sysfs says of the devices that are there, and the user's over them. */
#include <dirent.h>
#include <sys/sysmacros.h>

#include "unit.h"

static long sysfs_number(const char *path)
{
	FILE *file = fopen(path, "re");
	char text[64] = "";
	long value = -1;

	if (!file)
		return -1;
	if (fgets(text, sizeof(text), file))
		value = strtol(text, NULL, 10);
	fclose(file);
	return value;
}

static uint64_t device_number(const char *folder)
{
	char path[512], text[64] = "";
	unsigned int major = 0, minor = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/dev", folder);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
	fclose(file);
	ck_assert_int_eq(sscanf(text, "%u:%u", &major, &minor), 2);
	return makedev(major, minor);
}

static long queue_number(const char *disk, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", disk, name);
	return sysfs_number(path);
}

static void check_disk(const struct kp_queue_limits *limits, const char *disk)
{
	ck_assert_int_eq(limits->logical_block_size, queue_number(disk, "logical_block_size"));
	ck_assert_int_eq(limits->physical_block_size, queue_number(disk, "physical_block_size"));
	ck_assert_int_eq(limits->max_sectors, 2 * queue_number(disk, "max_sectors_kb"));
	ck_assert_int_eq(limits->max_segments, queue_number(disk, "max_segments"));
	ck_assert_int_eq(limits->max_segment_size, queue_number(disk, "max_segment_size"));
	ck_assert_int_eq(limits->chunk_sectors, queue_number(disk, "chunk_sectors"));
}

/* Every disk of this machine, and every partition, which has the limits of its disk. */
START_TEST(real_devices)
{
	DIR *folder = opendir("/sys/block");
	unsigned int disks = 0, partitions = 0;
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct kp_queue_limits limits;
		struct dirent *inner;
		char path[512];
		DIR *disk;

		if (entry->d_name[0] == '.' || queue_number(entry->d_name, "max_segments") <= 0)
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s", entry->d_name);
		ck_assert_int_eq(kp_limits_read(&limits, device_number(path)), 0);
		check_disk(&limits, entry->d_name);
		disks++;
		disk = opendir(path);
		while (disk && (inner = readdir(disk))) {
			char part[800];

			snprintf(part, sizeof(part), "%s/%s/partition", path, inner->d_name);
			if (sysfs_number(part) < 0)
				continue;
			snprintf(part, sizeof(part), "%s/%s", path, inner->d_name);
			ck_assert_int_eq(kp_limits_read(&limits, device_number(part)), 0);
			check_disk(&limits, entry->d_name);
			partitions++;
		}
		if (disk)
			closedir(disk);
	}
	if (folder)
		closedir(folder);
	printf("limits of %u disks and %u partitions\n", disks, partitions);
}
END_TEST

/* A loop device with blocks of 4 KiB and a partition table, where root can make one. */
START_TEST(loop_partition)
{
	const char *image = unit_path("limits");
	struct kp_queue_limits limits;
	char command[2048], disk[32] = "", part[128];
	uint64_t dev;
	FILE *pipe;
	struct stat st;

	if (geteuid() || system("command -v losetup sfdisk >/dev/null")) {
		printf("loop_partition: not run, no root, losetup or sfdisk\n");
		return;
	}
	snprintf(command, sizeof(command),
		 "truncate -s 16M %s && losetup --find --show -P --sector-size 4096 %s", image,
		 image);
	pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	if (!fgets(disk, sizeof(disk), pipe) || strncmp(disk, "/dev/loop", 9)) {
		pclose(pipe);
		unlink(image);
		printf("loop_partition: not run, no loop device\n");
		return;
	}
	pclose(pipe);
	disk[strcspn(disk, "\n")] = '\0';
	/* Where nobody makes device nodes the number is in sysfs all the same. */
	snprintf(command, sizeof(command),
		 "echo '16,256' | sfdisk -q %s >/dev/null 2>&1; partx -u %s >/dev/null 2>&1", disk,
		 disk);
	ck_assert_int_ge(system(command), 0);
	snprintf(part, sizeof(part), "/sys/block/%s/%sp1", disk + 5, disk + 5);
	if (stat(part, &st)) {
		printf("loop_partition: no partition of %s appeared\n", disk);
	} else {
		dev = device_number(part);
		ck_assert_int_eq(kp_limits_read(&limits, dev), 0);
		ck_assert_uint_eq(limits.logical_block_size, 4096);
		check_disk(&limits, disk + 5);
	}
	snprintf(command, sizeof(command), "losetup -d %s", disk);
	ck_assert_int_eq(system(command), 0);
	unlink(image);
}
END_TEST

START_TEST(no_queue)
{
	struct kp_queue_limits limits, defaults;

	ck_assert_int_eq(kp_limits_read(&limits, makedev(0, 4000)), -ENODEV);
	kp_limits_default(&defaults);
	ck_assert_mem_eq(&limits, &defaults, sizeof(limits));
	ck_assert_uint_eq(defaults.max_sectors, 2560);
	ck_assert_uint_eq(defaults.max_segments, 128);
	ck_assert_uint_eq(defaults.max_segment_size, 65536);
	ck_assert_uint_eq(defaults.seg_boundary_mask, 0xffffffff);
}
END_TEST

START_TEST(overrides)
{
	const struct kp_limit_options all = { 4096, 8192, 64, 5, 12288, 256 };
	const struct kp_limit_options none = { 0 };
	const struct kp_limit_options block = { .logical_block_size = 4096 };
	struct kp_queue_limits limits, before;
	char why[256];

	kp_limits_default(&limits);
	before = limits;
	ck_assert_int_eq(kp_limits_override(&limits, &none, why, sizeof(why)), 0);
	ck_assert_mem_eq(&limits, &before, sizeof(limits));
	ck_assert_int_eq(kp_limits_override(&limits, &all, why, sizeof(why)), 0);
	ck_assert_uint_eq(limits.logical_block_size, 4096);
	ck_assert_uint_eq(limits.physical_block_size, 8192);
	ck_assert_uint_eq(limits.max_sectors, 128);
	ck_assert_uint_eq(limits.max_segments, 5);
	ck_assert_uint_eq(limits.max_segment_size, 12288);
	ck_assert_uint_eq(limits.chunk_sectors, 256);
	kp_limits_default(&limits);
	/* The physical block follows the logical one up. */
	ck_assert_int_eq(kp_limits_override(&limits, &block, why, sizeof(why)), 0);
	ck_assert_uint_eq(limits.physical_block_size, 4096);
}
END_TEST

/* Each names the option and its value in one line. */
START_TEST(bad_values)
{
	static const struct {
		struct kp_limit_options options;
		const char *says;
	} table[] = {
		{ { .logical_block_size = 1 }, "logical_block_size=1:" },
		{ { .logical_block_size = 256 }, "logical_block_size=256:" },
		{ { .logical_block_size = 513 }, "logical_block_size=513:" },
		{ { .logical_block_size = 1536 }, "logical_block_size=1536:" },
		{ { .physical_block_size = 100 }, "physical_block_size=100:" },
		{ { .physical_block_size = 6144 }, "physical_block_size=6144:" },
		{ { .logical_block_size = 4096, .physical_block_size = 512 },
		  "physical_block_size=512:" },
		{ { .max_sectors_kb = 1 }, "max_sectors_kb=1:" },
		{ { .max_sectors_kb = 3 }, "max_sectors_kb=3:" },
		{ { .max_sectors_kb = UINT32_MAX }, "max_sectors_kb=4294967295:" },
		{ { .max_sectors_kb = 1u << 31 }, "max_sectors_kb=2147483648:" },
		{ { .logical_block_size = 65536, .max_sectors_kb = 4 }, "max_sectors_kb=4:" },
		{ { .max_segment_size = 1 }, "max_segment_size=1:" },
		{ { .max_segment_size = 2048 }, "max_segment_size=2048:" },
		{ { .max_segment_size = 4097 }, "max_segment_size=4097:" },
		{ { .logical_block_size = 4096, .max_segment_size = 4608 },
		  "max_segment_size=4608:" },
		{ { .logical_block_size = 4096, .chunk_sectors = 9 }, "chunk_sectors=9:" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct kp_queue_limits limits;
		char why[256] = "";

		kp_limits_default(&limits);
		ck_assert_msg(kp_limits_override(&limits, &table[i].options, why, sizeof(why)) ==
				      -EINVAL,
			      "%s accepted", table[i].says);
		ck_assert_msg(strstr(why, table[i].says) == why, "'%s' says '%s'", table[i].says,
			      why);
		ck_assert_ptr_null(strchr(why, '\n'));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("limits");
	TCase *tcase = tcase_create("limits");

	tcase_set_timeout(tcase, 30);
	tcase_add_test(tcase, real_devices);
	tcase_add_test(tcase, loop_partition);
	tcase_add_test(tcase, no_queue);
	tcase_add_test(tcase, overrides);
	tcase_add_test(tcase, bad_values);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
