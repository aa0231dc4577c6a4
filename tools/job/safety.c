// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "safety.h"
#include "util/util.h"

#define MEM_MAJOR 1 /* /dev/null, /dev/zero, /dev/full ... */

const struct safety_roots safety_system = {
	.mountinfo = "/proc/self/mountinfo",
	.swaps = "/proc/swaps",
	.dev_block = "/sys/dev/block",
	.btrfs = "/sys/fs/btrfs",
};

/* Reads "major:minor" from file @dir/@name/dev. */
static bool read_dev(const char *dir, const char *name, dev_t *dev)
{
	unsigned int major, minor;
	char path[PATH_MAX];
	bool ok;
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s/dev", dir, name);
	in = fopen(path, "re");
	if (!in)
		return false;
	ok = fscanf(in, "%u:%u", &major, &minor) == 2;
	fclose(in);
	if (ok)
		*dev = makedev(major, minor);
	return ok;
}

static bool is_node(const char *path, dev_t dev)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == dev;
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* /sys's directory of @dev below @roots. */
static void sys_dir(char path[PATH_MAX], const struct safety_roots *roots, dev_t dev)
{
	snprintf(path, PATH_MAX, "%s/%u:%u", roots->dev_block, major(dev), minor(dev));
}

/*
 * Calls @fn on each line of the file at @path with the words of it that @words says, until it
 * returns other than 0.
 */
static int each_line(const char *path, int (*fn)(char *line, dev_t dev, char **why), dev_t dev,
		     char **why)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	if (!in)
		return 0;
	while (!ret && getline(&line, &size, in) >= 0)
		ret = fn(line, dev, why);
	free(line);
	fclose(in);
	return ret;
}

/* "id parent major:minor root mountpoint options ... - type source options" */
static int mount_line(char *line, dev_t dev, char **why)
{
	char where[PATH_MAX], source[PATH_MAX] = "";
	unsigned int major, minor;
	char *rest = strstr(line, " - ");

	if (sscanf(line, "%*u %*u %u:%u %*s %4095s", &major, &minor, where) != 3)
		return 0;
	if (rest)
		sscanf(rest, " - %*s %4095s", source);
	/* file systems with device numbers of their own name the device as their source */
	if (makedev(major, minor) != dev && !is_node(source, dev))
		return 0;
	*why = format("mounted on %s", where);
	return 1;
}

static int swap_line(char *line, dev_t dev, char **why)
{
	char path[PATH_MAX];

	if (sscanf(line, "%4095s", path) != 1 || !is_node(path, dev))
		return 0;
	*why = xstrdup("used for swap");
	return 1;
}

static int check_holders(dev_t dev, const struct safety_roots *roots, char **why)
{
	char path[PATH_MAX], holders[PATH_MAX + 16];
	struct dirent *entry;
	int ret = 0;
	DIR *dir;

	sys_dir(path, roots, dev);
	snprintf(holders, sizeof(holders), "%s/holders", path);
	dir = opendir(holders);
	if (!dir)
		return 0;
	while (!ret && (entry = readdir(dir))) {
		if (is_dots(entry->d_name))
			continue;
		*why = format("held by %s", entry->d_name);
		ret = 1;
	}
	closedir(dir);
	return ret;
}

/* One mounted btrfs, at @path: its devices stand in a directory. */
static int check_btrfs_devices(const char *path, dev_t dev, char **why)
{
	char devices[PATH_MAX + 16];
	struct dirent *entry;
	dev_t member;
	int ret = 0;
	DIR *dir;

	snprintf(devices, sizeof(devices), "%s/devices", path);
	dir = opendir(devices);
	if (!dir)
		return 0;
	while (!ret && (entry = readdir(dir))) {
		if (!read_dev(devices, entry->d_name, &member) || member != dev)
			continue;
		*why = xstrdup("part of a mounted btrfs");
		ret = 1;
	}
	closedir(dir);
	return ret;
}

static int check_btrfs(dev_t dev, const struct safety_roots *roots, char **why)
{
	DIR *dir = opendir(roots->btrfs);
	struct dirent *entry;
	char path[PATH_MAX];
	int ret = 0;

	if (!dir)
		return 0;
	while (!ret && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", roots->btrfs, entry->d_name);
		ret = is_dots(entry->d_name) ? 0 : check_btrfs_devices(path, dev, why);
	}
	closedir(dir);
	return ret;
}

static int check_one(dev_t dev, const struct safety_roots *roots, char **why)
{
	int ret = each_line(roots->mountinfo, mount_line, dev, why);

	if (!ret)
		ret = each_line(roots->swaps, swap_line, dev, why);
	if (!ret)
		ret = check_holders(dev, roots, why);
	if (!ret)
		ret = check_btrfs(dev, roots, why);
	return ret;
}

/* Says of which relative of the device *@why speaks. */
static int check_relative(dev_t dev, const char *what, const char *name,
			  const struct safety_roots *roots, char **why)
{
	char *reason = NULL;
	int ret = check_one(dev, roots, &reason);

	if (ret)
		*why = format("%s %s is %s", what, name, reason);
	free(reason);
	return ret;
}

static int check_partitions(const char *sys, const struct safety_roots *roots, char **why)
{
	DIR *dir = opendir(sys);
	struct dirent *entry;
	char path[PATH_MAX + 288];
	dev_t dev;
	int ret = 0;

	if (!dir)
		return 0;
	while (!ret && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s/partition", sys, entry->d_name);
		if (!is_dots(entry->d_name) && !access(path, F_OK) &&
		    read_dev(sys, entry->d_name, &dev))
			ret = check_relative(dev, "its partition", entry->d_name, roots, why);
	}
	closedir(dir);
	return ret;
}

/* /sys/dev/block/M:m is a link into the directory of the disk. */
static int check_disk(const char *sys, const struct safety_roots *roots, char **why)
{
	char path[PATH_MAX + 16], *real, *slash;
	dev_t dev;
	int ret = 0;

	snprintf(path, sizeof(path), "%s/partition", sys);
	if (access(path, F_OK))
		return 0;
	real = realpath(sys, NULL);
	if (!real)
		return 0;
	slash = strrchr(real, '/');
	*slash = '\0';
	if (read_dev(real, ".", &dev))
		ret = check_relative(dev, "its disk", strrchr(real, '/') + 1, roots, why);
	free(real);
	return ret;
}

int safety_in_use(dev_t dev, const struct safety_roots *roots, char **why)
{
	char sys[PATH_MAX];
	int ret;

	*why = NULL;
	sys_dir(sys, roots, dev);
	ret = check_one(dev, roots, why);
	if (!ret)
		ret = check_partitions(sys, roots, why);
	if (!ret)
		ret = check_disk(sys, roots, why);
	return ret;
}

/* The kernel's own word, which knows other mount namespaces too: nobody else may hold it. */
static bool is_claimed(const char *path)
{
	int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

static int check_block(const char *path, dev_t dev, bool destructive,
		       const struct safety_roots *roots, char **why)
{
	char *reason;
	int ret = safety_in_use(dev, roots, &reason);

	if (ret) {
		ret = text_error(why, EBUSY, "%s is in use, it will not be written: %s", path,
				 reason);
		free(reason);
		return ret;
	}
	if (is_claimed(path))
		return text_error(why, EBUSY,
				  "%s is in use, it will not be written: the kernel has it open "
				  "exclusively",
				  path);
	if (!destructive)
		return text_error(why, EPERM,
				  "%s is a block device and the job writes it; if its data may be "
				  "lost, say --destructive",
				  path);
	return 0;
}

int safety_check_write(const char *path, bool destructive, const struct safety_roots *roots,
		       char **why)
{
	struct stat st;

	*why = NULL;
	if (stat(path, &st))
		return 0;
	if (S_ISBLK(st.st_mode))
		return check_block(path, st.st_rdev, destructive, roots, why);
	if (S_ISCHR(st.st_mode) && major(st.st_rdev) != MEM_MAJOR && !destructive)
		return text_error(why, EPERM,
				  "%s is a character device and the job writes it; say "
				  "--destructive if it may",
				  path);
	return 0;
}

/* What a disk is known by; the first that sysfs has. */
static const char *const identities[] = {
	"wwid", "device/wwid", "device/serial", "serial", "loop/backing_file", "dm/uuid", NULL,
};

/* The first line of @name in @dir, or NULL. */
static char *read_attribute(const char *dir, const char *name)
{
	char path[2 * PATH_MAX], *line = NULL;
	size_t size = 0;
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	in = fopen(path, "re");
	if (!in)
		return NULL;
	if (getline(&line, &size, in) > 0)
		line[strcspn(line, "\n")] = '\0';
	fclose(in);
	if (line && *line)
		return line;
	free(line);
	return NULL;
}

char *safety_device(const char *path)
{
	char sys[PATH_MAX], partition[PATH_MAX + 16], disk[PATH_MAX + 16];
	char *identity = NULL;
	struct stat st;

	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return NULL;
	sys_dir(sys, &safety_system, st.st_rdev);
	snprintf(partition, sizeof(partition), "%s/partition", sys);
	/* a partition is known by its disk and its number */
	snprintf(disk, sizeof(disk), "%s%s", sys, access(partition, F_OK) ? "" : "/..");
	for (const char *const *name = identities; *name && !identity; name++)
		identity = read_attribute(disk, *name);
	char *text = format("%u:%u%s%s", major(st.st_rdev), minor(st.st_rdev), identity ? " " : "",
			    identity ? identity : "");
	free(identity);
	return text;
}
