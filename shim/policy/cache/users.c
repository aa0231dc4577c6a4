// SPDX-License-Identifier: GPL-2.0-only
/*
 * The users of the page cache: they come, agree on the limits, go or are killed. Who is killed is
 * dead as soon as its lease has no owner, and counts for nothing from then on; what it was busy with
 * is taken up again when its process has gone, too.
 */
#include <dirent.h>
#include <unistd.h>

#include "page_pool.h"
#include "pages.h"
#include "reclaim.h"
#include "users.h"
#include "wake.h"

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
		return errno == ENOENT || errno == ESRCH;
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = '\0';
	state = strrchr(text, ')');
	return !state || strlen(state) < 3 || strchr("ZX", state[2]);
}

/*
 * Has a process gone, and with it every I/O that it submitted? The kernel waits for them when the
 * last of its threads lets go of its memory (exit_aio()); the first may be a zombie long before.
 * io_uring leaves that to a worker of the kernel's: KP_NEEDS_OWN_IO keeps it away.
 */
static bool process_gone(pid_t pid)
{
	return pid != getpid() && is_zombie(pid) && count_threads(pid) <= 1;
}

static uint32_t state_of(const struct cache_user *user)
{
	return __atomic_load_n(&user->state, __ATOMIC_ACQUIRE);
}

/* Look for users that are dead by now. With page_cache.lock, so that nobody else looks. */
static void notice_dead(struct page_cache *cache)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		struct cache_user *user = &cache->users[i];
		bool died;

		if (state_of(user) != USER_LIVE || !kp_robust_trylock(&user->alive_lock, &died))
			continue;
		if (state_of(user) == USER_LIVE)
			__atomic_store_n(&user->state, USER_DEAD, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&user->alive_lock);
	}
}

void cache_set_use(struct cache_file *file, uint16_t user, enum file_use use)
{
	__atomic_store_n(&file->users[user].opens, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&file->users[user].used, use, __ATOMIC_RELAXED);
}

/* What it had under writeback is dirty again. */
static void redirty_writeback(struct page_cache *cache, struct cache_file *file, uint16_t user)
{
	uint64_t number = 0;
	uint32_t id;

	cache_lock(cache, file);
	while ((id = page_index_next(&file->index, number, PAGE_WRITEBACK, &number))) {
		if (cache_page(cache, id)->writer == user)
			cache_redirty(cache, file, id);
		number++;
	}
	cache_set_use(file, user, FILE_UNUSED);
	cache_unlock(file);
}

static void end_read(struct page_cache *cache, struct cache_file *file, uint32_t id, uint16_t user)
{
	struct cache_page *page = cache_page(cache, id);

	cache_lock(cache, file);
	if (page->file == file->id && page->reading && page->reader == user) {
		page->reading = 0;
		page->stale = 0;
		if (!page->uptodate)
			cache_drop_page(cache, file, id);
	}
	cache_unlock(file);
}

/* What it was reading is not there. */
static void end_reads(struct page_cache *cache, uint16_t user)
{
	uint32_t nr = __atomic_load_n(&cache->nr_pages, __ATOMIC_ACQUIRE);

	for (uint32_t id = 1; id <= nr; id++) {
		uint32_t owner = __atomic_load_n(&cache_page(cache, id)->file, __ATOMIC_ACQUIRE);

		if (owner)
			end_read(cache, cache->files[owner - 1], id, user);
	}
}

/* With page_cache.lock. */
static void reap_dead(struct page_cache *cache, uint16_t number)
{
	uint32_t nr_files = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);

	end_reads(cache, number);
	for (uint32_t i = 0; i < nr_files; i++) {
		redirty_writeback(cache, cache->files[i], number);
		cache_wake(cache->files[i]);
		cache_wake_flusher(cache->files[i]->bdi);
	}
	__atomic_store_n(&cache->users[number].state, USER_FREE, __ATOMIC_RELEASE);
}

/* With page_cache.lock. Return: are there dead whose processes have not gone yet? */
static bool reap_users(struct page_cache *cache)
{
	bool dying = false;

	notice_dead(cache);
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		struct cache_user *user = &cache->users[i];

		if (state_of(user) != USER_DEAD)
			continue;
		if (process_gone(user->pid))
			reap_dead(cache, i);
		else
			dying = true;
	}
	return dying;
}

bool cache_reap_users(struct page_cache *cache)
{
	bool dying;

	kp_robust_lock(&cache->lock);
	dying = reap_users(cache);
	pthread_mutex_unlock(&cache->lock);
	return dying;
}

enum user_state cache_user_state(const struct page_cache *cache, uint16_t number)
{
	return state_of(&cache->users[number]);
}

static bool any_user(struct page_cache *cache, enum user_state state)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (state_of(&cache->users[i]) == state)
			return true;
	}
	return false;
}

int cache_agree(const char *path, const char *name, uint64_t ours, uint64_t theirs)
{
	if (ours == theirs)
		return 0;
	kp_log("%s%s%s=%llu: another job has %llu, give all the same", path, *path ? ": " : "",
	       name, (unsigned long long)ours, (unsigned long long)theirs);
	return -EINVAL;
}

/* As the sysctls, the limits hold for everybody. */
static int agree_limits(const struct cache_limits *ours, const struct cache_limits *theirs)
{
	int ret = cache_agree("", "dirty_bytes", ours->dirty_bytes, theirs->dirty_bytes);

	if (!ret)
		ret = cache_agree("", "dirty_background_bytes", ours->dirty_background_bytes,
				  theirs->dirty_background_bytes);
	if (!ret)
		ret = cache_agree("", "cache_bytes", ours->cache_bytes, theirs->cache_bytes);
	if (!ret)
		ret = cache_agree("", "dirty_writeback_centisecs", ours->dirty_writeback_centisecs,
				  theirs->dirty_writeback_centisecs);
	if (!ret)
		ret = cache_agree("", "dirty_expire_centisecs", ours->dirty_expire_centisecs,
				  theirs->dirty_expire_centisecs);
	return ret;
}

/* A free place in the table of users. With page_cache.lock. */
static int take_user(struct page_cache *cache, uint16_t *number)
{
	for (uint32_t i = 0; i < CACHE_MAX_USERS; i++) {
		struct cache_user *user = &cache->users[i];
		bool died;
		int ret;

		if (i < cache->nr_users && state_of(user) != USER_FREE)
			continue;
		if (i == cache->nr_users) {
			ret = kp_robust_init(&user->alive_lock);
			if (ret)
				return ret;
		}
		if (!kp_robust_trylock(&user->alive_lock, &died))
			continue; /* it is just leaving */
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

	kp_robust_lock(&cache->lock);
	reap_users(cache);
	if (any_user(cache, USER_LIVE)) {
		ret = agree_limits(limits, &cache->limits);
	} else {
		cache->limits = *limits;
		if (!any_user(cache, USER_DEAD)) {
			cache_recount(cache);
			cache_shrink(cache);
		}
	}
	if (!ret)
		pool_populate(cache, bytes);
	if (!ret)
		ret = take_user(cache, user);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

void cache_leave(struct page_cache *cache, uint16_t number)
{
	struct cache_user *user = &cache->users[number];

	/* The lease of a thread that is no more stays without an owner: take_user() repairs it. */
	__atomic_store_n(&user->state, USER_FREE, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&user->alive_lock);
}
