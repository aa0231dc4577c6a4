// SPDX-License-Identifier: GPL-2.0-only
/*
 * The users of the page cache: they come, agree on the limits, go or are killed. What a dead one was
 * busy with is taken up again by whoever finds its lease without an owner.
 */
#include <dirent.h>
#include <unistd.h>

#include "page_cache.h"

#define DYING_MS 500 /* a process that was killed gets so long to go */

/* Threads that a process still has, 0: it is no more. */
static unsigned int count_threads(pid_t pid)
{
	unsigned int nr = 0;
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		nr += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return nr;
}

static bool is_zombie(pid_t pid)
{
	char path[64], text[512], *state;
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = '\0';
	state = strrchr(text, ')');
	return !state || strlen(state) < 3 || strchr("ZX", state[2]);
}

/*
 * Has a process gone, and with it every I/O that it submitted? The kernel waits for them when the
 * last of its threads lets go of its memory; the first may be a zombie long before.
 */
static bool process_gone(pid_t pid)
{
	return is_zombie(pid) && count_threads(pid) <= 1;
}

/* What a dead user had under writeback is dirty again, what it was reading is not there. */
static void requeue(struct page_cache *cache, struct cache_file *file, uint16_t user)
{
	uint32_t nr = __atomic_load_n(&cache->nr_pages, __ATOMIC_ACQUIRE);
	uint64_t number = 0;
	uint32_t id;

	cache_lock(cache, file);
	while ((id = page_index_next(&file->index, number, PAGE_WRITEBACK, &number))) {
		if (cache_page(cache, id)->writer == user)
			cache_unclaim(cache, file, id);
		number++;
	}
	for (id = 1; id <= nr; id++) {
		struct cache_page *page = cache_page(cache, id);

		if (page->file != file->id || !page->reading || page->reader != user)
			continue;
		page->reading = 0;
		if (!page->uptodate)
			cache_drop(cache, file, id);
	}
	memset(&file->users[user], 0, sizeof(file->users[user]));
	cache_unlock(file);
	cache_wake(file);
	flusher_wake(file->bdi);
}

static void reap_user(struct page_cache *cache, uint16_t number)
{
	struct cache_user *user = &cache->users[number];
	uint32_t nr_files = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);

	/* Its writes must be over before they may be made again. */
	for (unsigned int i = 0; !process_gone(user->pid); i++) {
		if (i == DYING_MS)
			return; /* the next who looks */
		usleep(1000);
	}
	for (uint32_t i = 0; i < nr_files; i++)
		requeue(cache, cache->files[i], number);
	__atomic_store_n(&user->state, USER_FREE, __ATOMIC_RELEASE);
}

void cache_reap_users(struct page_cache *cache)
{
	uint32_t nr = __atomic_load_n(&cache->nr_users, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		struct cache_user *user = &cache->users[i];
		int ret;

		if (__atomic_load_n(&user->state, __ATOMIC_ACQUIRE) != USER_LIVE)
			continue;
		ret = pthread_mutex_trylock(&user->lease);
		if (ret == EOWNERDEAD)
			pthread_mutex_consistent(&user->lease);
		else if (ret)
			continue;
		if (user->state == USER_LIVE)
			reap_user(cache, i);
		pthread_mutex_unlock(&user->lease);
	}
}

bool cache_user_alive(const struct page_cache *cache, uint16_t number)
{
	return __atomic_load_n(&cache->users[number].state, __ATOMIC_ACQUIRE) == USER_LIVE;
}

static bool any_user(struct page_cache *cache)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (cache_user_alive(cache, i))
			return true;
	}
	return false;
}

static int agree(const char *name, uint64_t ours, uint64_t theirs)
{
	if (ours == theirs)
		return 0;
	kp_log("%s=%llu: another job has %llu, give all the same", name, (unsigned long long)ours,
	       (unsigned long long)theirs);
	return -EINVAL;
}

/* As the sysctls, the limits hold for everybody. */
static int agree_limits(const struct cache_limits *ours, const struct cache_limits *theirs)
{
	int ret = agree("dirty_bytes", ours->dirty_bytes, theirs->dirty_bytes);

	if (!ret)
		ret = agree("dirty_background_bytes", ours->dirty_background_bytes,
			    theirs->dirty_background_bytes);
	if (!ret)
		ret = agree("cache_bytes", ours->cache_bytes, theirs->cache_bytes);
	if (!ret)
		ret = agree("dirty_writeback_centisecs", ours->dirty_writeback_centisecs,
			    theirs->dirty_writeback_centisecs);
	if (!ret)
		ret = agree("dirty_expire_centisecs", ours->dirty_expire_centisecs,
			    theirs->dirty_expire_centisecs);
	return ret;
}

/* A free place in the table of users. With page_cache.lock. */
static int take_user(struct page_cache *cache, uint16_t *number)
{
	for (uint32_t i = 0; i < CACHE_MAX_USERS; i++) {
		struct cache_user *user = &cache->users[i];
		int ret;

		if (i < cache->nr_users && user->state != USER_FREE)
			continue;
		if (i == cache->nr_users) {
			ret = cache_mutex_init(&user->lease);
			if (ret)
				return ret;
		}
		ret = pthread_mutex_trylock(&user->lease);
		if (ret == EOWNERDEAD)
			pthread_mutex_consistent(&user->lease);
		else if (ret)
			continue; /* somebody is about to bury it */
		user->pid = getpid();
		__atomic_store_n(&user->state, USER_LIVE, __ATOMIC_RELEASE);
		if (i == cache->nr_users)
			__atomic_store_n(&cache->nr_users, i + 1, __ATOMIC_RELEASE);
		*number = i;
		return 0;
	}
	return -EUSERS;
}

int cache_join(struct page_cache *cache, struct cache_limits *limits, uint64_t bytes,
	       uint16_t *user)
{
	int ret = 0;

	cache_reap_users(cache);
	cache_lock_plain(&cache->lock);
	if (any_user(cache))
		ret = agree_limits(limits, &cache->limits);
	else
		cache->limits = *limits;
	if (!ret)
		cache_pages_prepare(cache, bytes);
	if (!ret)
		ret = take_user(cache, user);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

void cache_leave(struct page_cache *cache, uint16_t number)
{
	struct cache_user *user = &cache->users[number];

	__atomic_store_n(&user->state, USER_FREE, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&user->lease);
}
