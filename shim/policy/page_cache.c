// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page cache: users, files, and the state of pages. See page_cache.h for who locks what.
 * Stands for mm/filemap.c and mm/page-writeback.c, as far as a cache needs them.
 */
#include <dirent.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "blocksize.h"
#include "page_cache.h"

static void store(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

/* ---- locks and waiting --------------------------------------------------------------------- */

int cache_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int ret;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	ret = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -ret;
}

void cache_lock_plain(pthread_mutex_t *mutex)
{
	if (pthread_mutex_lock(mutex) == EOWNERDEAD)
		pthread_mutex_consistent(mutex);
}

/* Put a page of a file whose index was lost back where it belongs. */
static void restore_page(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	/* A write that was not finished: what it had not yet copied never was. */
	page->dirty &= page->uptodate;
	if ((!page->uptodate && !page->reading) ||
	    page_index_insert(&file->index, cache->arena, page->number, id)) {
		cache_page_put(cache, id);
		return;
	}
	file->nr_pages++;
	if (page->dirty) {
		file->nr_dirty++;
		page_index_set(&file->index, page->number, PAGE_DIRTY);
		page_index_set(&file->index, page->number, PAGE_TOWRITE);
	}
	if (page->writeback) {
		file->nr_writeback++;
		page_index_set(&file->index, page->number, PAGE_WRITEBACK);
	}
}

/* The owner of the lock died: make the index and the counters anew from the pages. */
static void repair_file(struct page_cache *cache, struct cache_file *file)
{
	uint32_t nr = __atomic_load_n(&cache->nr_pages, __ATOMIC_ACQUIRE);

	page_index_reset(&file->index);
	file->nr_pages = 0;
	file->nr_dirty = 0;
	file->nr_writeback = 0;
	for (uint32_t id = 1; id <= nr; id++) {
		if (__atomic_load_n(&cache_page(cache, id)->file, __ATOMIC_ACQUIRE) == file->id)
			restore_page(cache, file, id);
	}
	if (file->nr_dirty && !file->dirtied_ns)
		file->dirtied_ns = kp_now_ns();
}

static bool locked(struct page_cache *cache, struct cache_file *file, int result)
{
	if (result == EOWNERDEAD) {
		repair_file(cache, file);
		pthread_mutex_consistent(&file->lock);
		return true;
	}
	return !result;
}

void cache_lock(struct page_cache *cache, struct cache_file *file)
{
	locked(cache, file, pthread_mutex_lock(&file->lock));
}

bool cache_trylock(struct page_cache *cache, struct cache_file *file)
{
	return locked(cache, file, pthread_mutex_trylock(&file->lock));
}

void cache_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

void cache_futex_wake(uint32_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void cache_wake(struct cache_file *file)
{
	__atomic_fetch_add(&file->progress, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&file->waiters, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &file->progress, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- the cache ----------------------------------------------------------------------------- */

static int init_cache(void *object, void *arg)
{
	struct page_cache *cache = object;
	int ret;

	cache->arena = arg;
	cache->users = kp_arena_alloc(arg, CACHE_MAX_USERS * sizeof(*cache->users));
	if (!cache->users)
		return -ENOMEM;
	ret = cache_mutex_init(&cache->lock);
	return ret ? ret : cache_mutex_init(&cache->pool_lock);
}

int cache_find(struct kp_arena *arena, struct page_cache **cache)
{
	void *object;
	int ret = kp_arena_object(arena, "page_cache", "", 1, sizeof(**cache), init_cache, arena,
				  &object);

	if (!ret)
		*cache = object;
	return ret;
}

struct cache_totals cache_totals(const struct page_cache *cache)
{
	uint32_t nr = __atomic_load_n(&cache->nr_files, __ATOMIC_ACQUIRE);
	struct cache_totals totals = { 0 };

	for (uint32_t i = 0; i < nr; i++) {
		const struct cache_file *file = cache->files[i];

		totals.dirty += cache_load(&file->nr_dirty);
		totals.writeback += cache_load(&file->nr_writeback);
		totals.pages += cache_load(&file->nr_pages);
	}
	return totals;
}

/* ---- users --------------------------------------------------------------------------------- */

/* Has the process gone as far as its I/O is concerned? A zombie's is over, io_submit()'s too. */
static bool process_gone(pid_t pid)
{
	char path[64], text[512], *state;
	ssize_t len;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[kp_max(len, 0)] = '\0';
	state = strrchr(text, ')');
	return !state || strlen(state) < 3 || strchr("ZX", state[2]);
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
	if (!process_gone(user->pid))
		return;
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

static bool user_alive(struct page_cache *cache, uint16_t number)
{
	return __atomic_load_n(&cache->users[number].state, __ATOMIC_ACQUIRE) == USER_LIVE;
}

static bool any_user(struct page_cache *cache)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (user_alive(cache, i))
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

int cache_join(struct page_cache *cache, struct cache_limits *limits, uint16_t *user)
{
	int ret = 0;

	cache_reap_users(cache);
	cache_lock_plain(&cache->lock);
	if (any_user(cache))
		ret = agree_limits(limits, &cache->limits);
	else
		cache->limits = *limits;
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

/* ---- mapped ranges ------------------------------------------------------------------------- */

bool cache_mapped(struct cache_file *file, uint64_t number)
{
	uint8_t *piece;

	if (file->always_mapped || file->never_mapped)
		return file->always_mapped;
	if (number / MAP_PAGES >= MAP_PIECES)
		return false;
	piece = __atomic_load_n(&file->map[number / MAP_PAGES], __ATOMIC_ACQUIRE);
	if (!piece || piece == MAP_ALL)
		return piece == MAP_ALL;
	number %= MAP_PAGES;
	return piece[number / 8] >> number % 8 & 1;
}

/* The piece for @number, which will be changed. NULL: no memory, or all is as it shall be. */
static uint8_t *map_piece(struct page_cache *cache, struct cache_file *file, uint64_t number,
			  bool set)
{
	uint8_t **slot = &file->map[number / MAP_PAGES];
	uint8_t *piece = *slot;

	if (piece != NULL && piece != MAP_ALL)
		return piece;
	if (set == (piece == MAP_ALL))
		return NULL;
	piece = kp_arena_alloc(cache->arena, MAP_BYTES);
	if (piece && *slot == MAP_ALL)
		memset(piece, 0xff, MAP_BYTES);
	if (piece)
		__atomic_store_n(slot, piece, __ATOMIC_RELEASE);
	return piece;
}

static void change_map(struct page_cache *cache, struct cache_file *file, uint64_t first,
		       uint64_t nr, bool set)
{
	while (nr && first / MAP_PAGES < MAP_PIECES) {
		uint64_t at = first % MAP_PAGES;
		uint64_t here = kp_min(nr, MAP_PAGES - at);

		file->map_used = kp_max(file->map_used, (uint32_t)(first / MAP_PAGES) + 1);
		if (here == MAP_PAGES && !file->map[first / MAP_PAGES] && set) {
			file->map[first / MAP_PAGES] = MAP_ALL;
		} else {
			uint8_t *piece = map_piece(cache, file, first, set);

			for (uint64_t i = at; piece && i < at + here; i++) {
				if (set)
					piece[i / 8] |= 1u << i % 8;
				else
					piece[i / 8] &= ~(1u << i % 8);
			}
		}
		first += here;
		nr -= here;
	}
}

void cache_set_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t nr)
{
	if (!file->always_mapped && !file->never_mapped)
		change_map(cache, file, first, nr, true);
}

void cache_clear_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
			uint64_t nr)
{
	if (!file->always_mapped && !file->never_mapped)
		change_map(cache, file, first, nr, false);
}

static void clear_map(struct cache_file *file)
{
	for (uint32_t i = 0; i < file->map_used; i++) {
		if (file->map[i] == MAP_ALL)
			file->map[i] = NULL;
		else if (file->map[i])
			memset(file->map[i], 0, MAP_BYTES);
	}
}

#define NR_EXTENTS 128

/* The written extents of a file. A file system that cannot tell has none. */
static void read_extents(struct page_cache *cache, struct cache_file *file, int fd)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extents[NR_EXTENTS];
	} f;
	uint64_t from = 0;
	bool last = false;

	while (!last) {
		memset(&f.map, 0, sizeof(f.map));
		f.map.fm_start = from;
		f.map.fm_length = FIEMAP_MAX_OFFSET - from;
		f.map.fm_flags = FIEMAP_FLAG_SYNC;
		f.map.fm_extent_count = NR_EXTENTS;
		if (ioctl(fd, FS_IOC_FIEMAP, &f.map) || !f.map.fm_mapped_extents)
			return;
		for (unsigned int i = 0; i < f.map.fm_mapped_extents; i++) {
			const struct fiemap_extent *extent = &f.extents[i];
			uint64_t first = kp_round_up(extent->fe_logical, KP_PAGE_SIZE);

			from = extent->fe_logical + extent->fe_length;
			last = extent->fe_flags & FIEMAP_EXTENT_LAST;
			if (!(extent->fe_flags &
			      (FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC)) &&
			    from > first)
				cache_set_mapped(cache, file, first / KP_PAGE_SIZE,
						 (from - first) / KP_PAGE_SIZE);
		}
	}
}

/* ---- files --------------------------------------------------------------------------------- */

struct new_file {
	struct page_cache *cache;
	const struct kp_file *kp_file;
	struct cache_bdi *bdi;
};

static int init_bdi(void *object, void *arg)
{
	struct cache_bdi *bdi = object;

	(void)arg;
	return cache_mutex_init(&bdi->role);
}

/* A device of its own, for the null device each name is one. */
static int find_bdi(struct page_cache *cache, const struct kp_file *kp_file, struct cache_bdi **bdi)
{
	struct kp_file_key key = kp_file->key;
	void *object;
	int ret;

	key.ino = 0;
	key.birth_ns = 0;
	ret = kp_arena_object(cache->arena, "cache_bdi", &key, sizeof(key), sizeof(**bdi), init_bdi,
			      NULL, &object);
	if (!ret)
		*bdi = object;
	return ret;
}

static int init_file(void *object, void *arg)
{
	struct cache_file *file = object;
	const struct new_file *new = arg;
	struct page_cache *cache = new->cache;
	int ret = cache_mutex_init(&file->lock);

	if (!ret)
		ret = cache_mutex_init(&file->write_lock);
	if (ret)
		return ret;
	if (cache->nr_files == CACHE_MAX_FILES)
		return -ENFILE;
	file->key = new->kp_file->key;
	file->bdi = new->bdi;
	file->block_device = new->kp_file->block_device;
	file->is_null = new->kp_file->fd < 0;
	file->map = kp_arena_alloc(cache->arena, MAP_PIECES * sizeof(*file->map));
	file->users = kp_arena_alloc(cache->arena, CACHE_MAX_USERS * sizeof(*file->users));
	if (!file->map || !file->users)
		return -ENOMEM;
	file->id = cache->nr_files + 1;
	cache->files[cache->nr_files] = file;
	__atomic_store_n(&cache->nr_files, file->id, __ATOMIC_RELEASE);
	return 0;
}

/* How the file looks on disk: to see later whether somebody else changed it. */
static void read_stamp(const struct kp_file *kp_file, uint64_t stamp[3])
{
	struct stat st;

	memset(stamp, 0, 3 * sizeof(*stamp));
	if (kp_file->fd < 0 || kp_file->block_device || fstat(kp_file->fd, &st))
		return;
	stamp[0] = st.st_size;
	stamp[1] = st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec;
	stamp[2] = st.st_ctim.tv_sec * 1000000000ull + st.st_ctim.tv_nsec;
}

void cache_drop_all(struct page_cache *cache, struct cache_file *file)
{
	uint64_t number = 0;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number))) {
		struct cache_page *page = cache_page(cache, id);

		cache_clean(cache, file, id, page->dirty);
		if (!page->writeback && !page->reading)
			cache_drop(cache, file, id);
		number++;
	}
}

static bool has_users(struct page_cache *cache, struct cache_file *file, uint16_t except)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (i != except && file->users[i].used && user_alive(cache, i))
			return true;
	}
	return false;
}

static uint32_t choose_block_size(const struct kp_file *kp_file,
				  const struct cache_open_options *options)
{
	uint32_t logical = kp_file->limits.logical_block_size;
	struct stat st;

	if (options->block_size)
		return options->block_size;
	if (options->device_blocks)
		return kp_blocksize_initial(options->blocks, kp_file->size, logical, KP_PAGE_SIZE);
	/* A file system has its own; ext4's is a page unless mkfs was told otherwise. */
	if (kp_file->fd >= 0 && !kp_file->block_device && !fstat(kp_file->fd, &st) &&
	    st.st_blksize >= (long)KP_SECTOR_SIZE && st.st_blksize < (long)KP_PAGE_SIZE)
		return kp_max((uint32_t)st.st_blksize, logical);
	return KP_PAGE_SIZE;
}

static int check_block_size(const struct kp_file *kp_file, uint32_t block_size)
{
	uint32_t logical = kp_file->limits.logical_block_size;

	if (block_size < logical) {
		kp_log("%s: block_size=%u: below the device's logical block size, give at least %u",
		       kp_file->path, block_size, logical);
		return -EINVAL;
	}
	if (block_size > KP_PAGE_SIZE || block_size & (block_size - 1)) {
		kp_log("%s: block_size=%u: not possible, give a power of two from %u to %u",
		       kp_file->path, block_size, logical, KP_PAGE_SIZE);
		return -EINVAL;
	}
	return 0;
}

/* The first user of the file after a while. With its lock. */
static void begin_file(struct page_cache *cache, struct cache_file *file,
		       const struct kp_file *kp_file, const struct cache_open_options *options,
		       uint32_t block_size)
{
	uint64_t stamp[3];

	read_stamp(kp_file, stamp);
	/* Whoever changed the file meanwhile did it behind our back. */
	if (memcmp(stamp, file->stamp, sizeof(stamp)) || block_size != file->block_size ||
	    file->block_device)
		cache_drop_all(cache, file);
	snprintf(file->path, sizeof(file->path), "%s", kp_file->path);
	file->block_size = block_size;
	file->blocks = options->blocks;
	if (file->is_null)
		file->size = kp_max(file->size, kp_file->size);
	else
		file->size = kp_file->size;
	file->always_mapped = !strcmp(options->mapped, "all") ||
			      (!strcmp(options->mapped, "auto") && file->block_device);
	file->never_mapped = !strcmp(options->mapped, "none");
	clear_map(file);
	if (!file->always_mapped && !file->never_mapped && kp_file->fd >= 0)
		read_extents(cache, file, kp_file->fd);
}

/* Jobs that share a file must mean the same by it. With its lock. */
static int join_file(struct page_cache *cache, uint16_t user, struct cache_file *file,
		     struct kp_file *kp_file, const struct cache_open_options *options)
{
	uint32_t block_size = choose_block_size(kp_file, options);
	int ret = check_block_size(kp_file, block_size);

	if (ret)
		return ret;
	if (!has_users(cache, file, user) && !file->users[user].used) {
		begin_file(cache, file, kp_file, options, block_size);
	} else if (options->blocks != file->blocks ||
		   (options->block_size && options->block_size != file->block_size)) {
		kp_log("%s: another job has it with block size %u and policy=%s, give both the "
		       "same",
		       kp_file->path, file->block_size, file->blocks->name);
		return -EINVAL;
	}
	file->users[user].used = 1;
	file->users[user].opens++;
	file->users[user].fd = kp_file->fd;
	return 0;
}

/* One flusher serves a device: it has one policy. With page_cache.lock. */
static int join_bdi(struct page_cache *cache, uint16_t user, struct cache_bdi *bdi,
		    const struct kp_file *kp_file, const struct kp_variant *variant)
{
	bool used = false;

	for (uint32_t i = 0; i < cache->nr_files; i++) {
		if (cache->files[i]->bdi == bdi && has_users(cache, cache->files[i], user))
			used = true;
	}
	if (used && bdi->variant != variant) {
		kp_log("%s: policy=%s: another job on the same device has %s, separate them by "
		       "stonewall",
		       kp_file->path, variant->name, bdi->variant->name);
		return -EINVAL;
	}
	bdi->variant = variant;
	return 0;
}

int cache_open(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
	       const struct cache_open_options *options, struct cache_file **file)
{
	struct new_file new = { .cache = cache, .kp_file = kp_file };
	void *object;
	int ret;

	cache_reap_users(cache);
	cache_lock_plain(&cache->lock);
	ret = find_bdi(cache, kp_file, &new.bdi);
	if (!ret)
		ret = join_bdi(cache, user, new.bdi, kp_file, options->variant);
	if (!ret)
		ret = kp_arena_object(cache->arena, "cache_file", &kp_file->key,
				      sizeof(kp_file->key), sizeof(**file), init_file, &new,
				      &object);
	if (!ret) {
		*file = object;
		cache_lock(cache, *file);
		ret = join_file(cache, user, *file, kp_file, options);
		cache_unlock(*file);
	}
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

static bool has_opens(struct page_cache *cache, const struct cache_file *file)
{
	for (uint32_t i = 0; i < cache->nr_users; i++) {
		if (file->users[i].opens && user_alive(cache, i))
			return true;
	}
	return false;
}

void cache_close(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
		 struct cache_file *file)
{
	struct stat st;

	cache_lock(cache, file);
	file->users[user].opens--;
	/* The last close of an unlinked file is its end. */
	if (kp_file->fd >= 0 && !has_opens(cache, file) && !fstat(kp_file->fd, &st) && !st.st_nlink)
		cache_drop_all(cache, file);
	cache_unlock(file);
}

bool cache_forget(struct page_cache *cache, uint16_t user, struct cache_file *file)
{
	bool last;

	cache_reap_users(cache);
	cache_lock(cache, file);
	memset(&file->users[user], 0, sizeof(file->users[user]));
	last = !has_users(cache, file, user);
	cache_unlock(file);
	return last;
}

/* ---- the state of pages -------------------------------------------------------------------- */

uint32_t cache_add(struct page_cache *cache, struct cache_file *file, uint64_t number)
{
	uint32_t id = cache_page_get(cache, file, number);

	if (!id)
		return 0;
	if (page_index_insert(&file->index, cache->arena, number, id)) {
		cache_page_put(cache, id);
		return 0;
	}
	store(&file->nr_pages, file->nr_pages + 1);
	return id;
}

void cache_drop(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	cache_clean(cache, file, id, page->dirty);
	page->uptodate = 0;
	page_index_remove(&file->index, page->number);
	store(&file->nr_pages, file->nr_pages - 1);
	cache_page_put(cache, id);
}

void cache_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);
	bool was = page->dirty;

	(void)cache;
	page->dirty |= mask;
	if (was)
		return;
	page_index_set(&file->index, page->number, PAGE_DIRTY);
	store(&file->nr_dirty, file->nr_dirty + 1);
	if (!file->dirtied_ns)
		file->dirtied_ns = kp_now_ns();
}

void cache_clean(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);

	if (!page->dirty)
		return;
	page->dirty &= ~mask;
	if (page->dirty)
		return;
	page_index_clear(&file->index, page->number, PAGE_DIRTY);
	page_index_clear(&file->index, page->number, PAGE_TOWRITE);
	store(&file->nr_dirty, file->nr_dirty - 1);
	if (!file->nr_dirty)
		file->dirtied_ns = 0;
}

void cache_claim(struct page_cache *cache, struct cache_file *file, uint32_t id, uint16_t user)
{
	struct cache_page *page = cache_page(cache, id);

	page->writer = user;
	page->writeback = page->dirty; /* first: who dies here leaves it in both */
	cache_clean(cache, file, id, page->dirty);
	page_index_set(&file->index, page->number, PAGE_WRITEBACK);
	store(&file->nr_writeback, file->nr_writeback + 1);
}

void cache_written(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask)
{
	struct cache_page *page = cache_page(cache, id);

	(void)cache;
	if (!page->writeback)
		return;
	page->writeback &= ~mask;
	if (page->writeback)
		return;
	page_index_clear(&file->index, page->number, PAGE_WRITEBACK);
	store(&file->nr_writeback, file->nr_writeback - 1);
}

void cache_unclaim(struct page_cache *cache, struct cache_file *file, uint32_t id)
{
	struct cache_page *page = cache_page(cache, id);

	cache_dirty(cache, file, id, page->writeback);
	/* A sync that began meanwhile counts on whoever had the page. */
	page_index_set(&file->index, page->number, PAGE_TOWRITE);
	cache_written(cache, file, id, page->writeback);
}

void cache_invalidate(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t last)
{
	uint64_t number = first;
	uint32_t id;

	while ((id = page_index_next(&file->index, number, PAGE_PRESENT, &number)) &&
	       number <= last) {
		struct cache_page *page = cache_page(cache, id);

		if (!page->dirty && !page->writeback && !page->reading)
			cache_drop(cache, file, id);
		number++;
	}
}

/* ---- errors, as errseq_t ------------------------------------------------------------------- */

void cache_set_error(struct cache_file *file, int error)
{
	/* mapping_set_error(): only ENOSPC keeps its name */
	file->error = error == -ENOSPC ? -ENOSPC : -EIO;
	if (file->error_seen || !file->error_seq) {
		file->error_seq++;
		file->error_seen = false;
	}
}

uint32_t cache_sample_error(const struct cache_file *file)
{
	/* An error nobody was told of yet is reported to those who open later, too. */
	return file->error_seq && !file->error_seen ? file->error_seq - 1 : file->error_seq;
}

int cache_check_error(struct cache_file *file, uint32_t *since)
{
	if (*since == file->error_seq)
		return 0;
	*since = file->error_seq;
	file->error_seen = true;
	return file->error;
}
