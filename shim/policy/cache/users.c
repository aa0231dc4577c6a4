// SPDX-License-Identifier: GPL-2.0-only
/* The users of the page cache. See users.h. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "core/file_lock.h"
#include "locate.h"
#include "page_pool.h"
#include "pages.h"
#include "reclaim.h"
#include "users.h"
#include "wake.h"

static uint32_t state_of(const struct cache_user *user)
{
	return __atomic_load_n(&user->state, __ATOMIC_ACQUIRE);
}

/* Find users that have died. With page_cache.lock, so that only one thread looks at a time. */
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

void cache_touch_file(struct page_cache *cache, struct cache_file *file, uint16_t user)
{
	if (__atomic_load_n(&file->users[user].touched, __ATOMIC_RELAXED))
		return;
	cache_lock(cache, file);
	__atomic_store_n(&file->users[user].touched, 1, __ATOMIC_RELAXED);
	cache_unlock(file);
}

/* ---- dead users ---------------------------------------------------------------------------- */

/*
 * Has all I/O of a dead user on the file ended? The user's open files hold the lock, and the
 * kernel keeps an open file as long as I/O refers to it.
 */
static bool io_is_over(const struct page_cache *cache, const struct cache_file *file, uint16_t dead)
{
	struct cache_location location = { 0 };
	bool over;
	int ret, fd;

	if (file->is_null)
		return true; /* the null device is memory of the dead process */
	ret = cache_locate_file(cache, file, &location);
	fd = ret ? -1 : open(location.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		/*
		 * Errors of too little memory or too few descriptors pass: look again. Otherwise
		 * the user's death has to do.
		 */
		return ret || (errno != EMFILE && errno != ENFILE && errno != ENOMEM);
	over = !kp_file_locked(fd, KP_LOCK_CACHE_USER, dead, dead);
	close(fd);
	return over;
}

/* The pages that @user had under writeback become dirty again. With the file's lock. */
static void redirty_writeback(struct page_cache *cache, struct cache_file *file, uint16_t user)
{
	uint64_t number = 0;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_WRITEBACK, &number))) {
		if (cache_page(cache, id)->writer == user)
			cache_redirty(cache, file, id);
		number++;
	}
}

/* The blocks that @user was reading do not become up to date. With the file's lock. */
static void end_reads(struct page_cache *cache, struct cache_file *file, uint16_t user)
{
	uint64_t number = 0;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number))) {
		struct cache_page *page = cache_page(cache, id);

		if (page->reading && page->reader == user) {
			page->reading = 0;
			page->stale = 0;
			if (!page->uptodate)
				cache_drop_page(cache, file, id);
		}
		number++;
	}
}

static void reap_file(struct page_cache *cache, struct cache_file *file, uint16_t dead)
{
	struct cache_opens *opens = &file->users[dead];

	cache_lock(cache, file);
	end_reads(cache, file, dead);
	redirty_writeback(cache, file, dead);
	cache_set_use(file, dead, FILE_UNUSED);
	__atomic_store_n(&opens->kept, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&opens->touched, 0, __ATOMIC_RELAXED);
	cache_descriptors_changed(file);
	cache_unlock(file);
	cache_wake(file);
	cache_wake_flusher(file->bdi);
}

/*
 * Reap a dead user's files whose I/O is over. With page_cache.lock. Return: false when some I/O
 * may still be in flight.
 */
static bool reap_dead(struct page_cache *cache, uint16_t dead)
{
	uint32_t nr_files = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);
	struct cache_user *user = &cache->users[dead];
	bool over = true;

	for (uint32_t i = 0; i < nr_files; i++) {
		struct cache_file *file = cache->files[i];

		if (!__atomic_load_n(&file->users[dead].touched, __ATOMIC_RELAXED))
			continue;
		if (io_is_over(cache, file, dead))
			reap_file(cache, file, dead);
		else
			over = false;
	}
	/*
	 * A pipeline may outlive the thread that made it (io_submit_mode=offload), and still use
	 * its number. If another process has the pid by now, the number stays unused, which does
	 * no harm.
	 */
	if (over && kill(user->pid, 0) && errno == ESRCH)
		__atomic_store_n(&user->state, USER_FREE, __ATOMIC_RELEASE);
	return over;
}

/*
 * Reap all dead users. With page_cache.lock. Return: is there a dead user whose I/O may still be
 * in flight?
 */
static bool reap_users(struct page_cache *cache)
{
	bool dying = false;

	notice_dead(cache);
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (state_of(&cache->users[i]) == USER_DEAD)
			dying |= !reap_dead(cache, i);
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

/* The limits hold for all users, as the sysctls do. */
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

/* Take a free place in the table of users. With page_cache.lock. */
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
			continue; /* the user that had it is still leaving */
		user->pid = getpid();
		__atomic_store_n(&user->state, USER_LIVE, __ATOMIC_RELEASE);
		if (i == cache->nr_users)
			__atomic_store_n(&cache->nr_users, i + 1, __ATOMIC_RELEASE);
		*number = i;
		return 0;
	}
	return -EUSERS;
}

/*
 * The pages that the data of a new user adds to that of the present ones. Users with the same
 * data_id touch the same data. With page_cache.lock.
 */
static uint64_t added_pages(const struct page_cache *cache, uint64_t data_id, uint64_t pages)
{
	uint64_t known = 0;

	for (uint32_t i = 0; i < cache->nr_users && data_id; i++) {
		if (state_of(&cache->users[i]) == USER_LIVE && cache->users[i].data_id == data_id)
			known += cache->users[i].data_pages;
	}
	return pages - kp_min(pages, known);
}

/*
 * Ask for room for the data of all users, beside the pages that files held before they joined.
 * With page_cache.lock.
 */
static void want_pages(struct page_cache *cache)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (state_of(&cache->users[i]) == USER_LIVE)
			pages += kp_min(cache->users[i].data_pages, UINT32_MAX);
	}
	if (pages)
		pool_want(cache, cache->kept_pages + pages);
}

int cache_join(struct page_cache *cache, const struct cache_limits *limits,
	       const struct cache_data *data, uint16_t *number)
{
	uint64_t pages = (data->bytes + KP_PAGE_SIZE - 1) / KP_PAGE_SIZE;
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
		cache->kept_pages = __atomic_load_n(&cache->in_use, __ATOMIC_RELAXED);
	}
	pages = added_pages(cache, data->id, pages);
	if (!ret)
		ret = take_user(cache, number);
	if (!ret) {
		cache->users[*number].data_id = data->id;
		cache->users[*number].data_pages = pages;
		want_pages(cache);
	}
	pthread_mutex_unlock(&cache->lock);
	if (!ret)
		pool_map(cache);
	return ret;
}

void cache_leave(struct page_cache *cache, uint16_t number)
{
	struct cache_user *user = &cache->users[number];
	uint32_t nr_files = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);

	/* All its I/O has ended. The next user of this number starts afresh. */
	for (uint32_t i = 0; i < nr_files; i++)
		__atomic_store_n(&cache->files[i]->users[number].touched, 0, __ATOMIC_RELAXED);
	/*
	 * If the owner's thread has ended, this unlock fails, and take_user() gets EOWNERDEAD
	 * instead.
	 */
	__atomic_store_n(&user->state, USER_FREE, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&user->alive_lock);
}
