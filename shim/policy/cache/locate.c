// SPDX-License-Identifier: GPL-2.0-only
/* Where a cached file can be opened. See locate.h. */
#include <sys/stat.h>

#include "locate.h"

static bool is_file(const struct cache_file *file, const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return file->block_device && st->st_rdev == file->key.dev;
	return st->st_dev == file->key.dev && st->st_ino == file->key.ino;
}

/* Does @path lead to the file? Return: 0; -ENOENT: to nothing, or to something else; -errno. */
static int check_path(const struct cache_file *file, const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return errno == ENOTDIR ? -ENOENT : -errno;
	return is_file(file, &st) ? 0 : -ENOENT;
}

static int look(const struct page_cache *cache, const struct cache_file *file,
		struct cache_location *location)
{
	uint32_t nr = __atomic_load_n(&cache->nr_users, __ATOMIC_ACQUIRE);
	int ret;

	snprintf(location->path, sizeof(location->path), "%s", file->path);
	ret = check_path(file, location->path);
	for (uint32_t i = 0; i < nr && ret; i++) {
		const struct cache_opens *opens = &file->users[i];
		int other;

		if (!cache_has_descriptor(opens))
			continue;
		snprintf(location->path, sizeof(location->path), "/proc/%d/fd/%d",
			 cache->users[i].pid, __atomic_load_n(&opens->fd, __ATOMIC_RELAXED));
		other = check_path(file, location->path);
		if (other != -ENOENT)
			ret = other;
	}
	return ret;
}

int cache_locate_file(const struct page_cache *cache, const struct cache_file *file,
		      struct cache_location *location)
{
	uint32_t seen;
	int ret;

	do {
		seen = __atomic_load_n(&file->descriptors, __ATOMIC_ACQUIRE);
		ret = look(cache, file, location);
	} while (ret == -ENOENT && __atomic_load_n(&file->descriptors, __ATOMIC_ACQUIRE) != seen);
	return ret;
}

void cache_descriptors_changed(struct cache_file *file)
{
	__atomic_fetch_add(&file->descriptors, 1, __ATOMIC_RELEASE);
}
