// SPDX-License-Identifier: GPL-2.0-only
/* The files of the page cache. See files.h. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocksize.h"
#include "core/file_lock.h"
#include "files.h"
#include "locate.h"
#include "mapped.h"
#include "pages.h"
#include "users.h"

struct new_file {
	struct page_cache *cache;
	const struct kp_file *kp_file;
	struct cache_bdi *bdi;
};

static int init_bdi(void *object, void *arg)
{
	struct cache_bdi *bdi = object;

	(void)arg;
	return kp_robust_init(&bdi->flusher_lock);
}

/* Find the device that the file lies on. All files of the null device lie on one. */
static int find_bdi(struct page_cache *cache, const struct kp_file *kp_file, struct cache_bdi **bdi)
{
	struct kp_file_key key = kp_file->key;
	void *object;
	int ret;

	key.ino = 0;
	key.birth_ns = 0;
	memset(key.name, 0, sizeof(key.name));
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
	int ret = kp_robust_init(&file->lock);

	if (!ret)
		ret = kp_robust_init(&file->write_lock);
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

/* Note how the file looks on disk, to see later whether somebody else has changed it. */
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

void cache_stamp(struct page_cache *cache, struct cache_file *file, const struct kp_file *kp_file)
{
	cache_lock(cache, file);
	read_stamp(kp_file, file->stamp);
	cache_unlock(file);
}

struct file_users {
	bool using;
	bool reaching; /* and one of them can open the file whatever its name */
	bool leaving;
	bool dead; /* a user was killed and may still have I/O in flight */
};

/* How the users other than @except use the file. */
static struct file_users find_users(const struct page_cache *cache, const struct cache_file *file,
				    uint32_t except)
{
	uint32_t nr = __atomic_load_n(&cache->nr_users, __ATOMIC_ACQUIRE);
	struct file_users users = { 0 };

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t use = __atomic_load_n(&file->users[i].used, __ATOMIC_RELAXED);
		enum user_state state = cache_user_state(cache, i);

		if (i == except || use == FILE_UNUSED)
			continue;
		users.using |= state == USER_LIVE && use == FILE_USED;
		users.reaching |= state == USER_LIVE && use == FILE_USED &&
				  (file->is_null || cache_has_descriptor(&file->users[i]));
		users.leaving |= state == USER_LIVE && use == FILE_LEAVING;
		users.dead |= state == USER_DEAD;
	}
	return users;
}

static void store(uint32_t *value, uint32_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

bool cache_in_use(const struct page_cache *cache, const struct cache_file *file)
{
	struct file_users users = find_users(cache, file, UINT32_MAX);

	return users.using || users.leaving;
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
	/*
	 * A file system has a block size of its own. ext4's is a page unless mkfs was told
	 * otherwise.
	 */
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
		kp_log("%s: block_size=%u: impossible, give a power of two from %u to %u",
		       kp_file->path, block_size, logical, KP_PAGE_SIZE);
		return -EINVAL;
	}
	return 0;
}

static bool always_mapped(const struct cache_file *file, const char *mapped)
{
	return !strcmp(mapped, "all") || (!strcmp(mapped, "auto") && file->block_device);
}

static bool has_writes(const struct cache_file *file)
{
	return file->nr_dirty || file->nr_writeback;
}

/*
 * The size of a file that nobody else has open. @on_disk: its size now, which others may have
 * changed since it was opened. Users that were killed may have left a larger i_size, with dirty
 * pages behind the end on disk.
 */
static uint64_t true_size(const struct cache_file *file, const struct kp_file *kp_file,
			  uint64_t on_disk)
{
	if (cache_padded(file))
		return file->size;
	if (file->is_null || file->block_device)
		on_disk = kp_file->size;
	if (file->is_null || has_writes(file))
		return kp_max(file->size, on_disk);
	return on_disk;
}

/*
 * Set the file up for its first user after a while. Dirty pages that killed users left stay, to
 * be written back as in the kernel. With the file's lock.
 */
static void restart_file(struct page_cache *cache, struct cache_file *file,
			 const struct kp_file *kp_file, const struct cache_open_options *options,
			 uint32_t block_size)
{
	uint64_t stamp[3];

	read_stamp(kp_file, stamp);
	/* Somebody changed the file while nobody had it open here: clean pages may be wrong. */
	if (memcmp(stamp, file->stamp, sizeof(stamp)) || block_size != file->block_size ||
	    file->block_device)
		cache_invalidate(cache, file, 0, UINT64_MAX);
	snprintf(file->path, sizeof(file->path), "%s", kp_file->path);
	file->block_size = block_size;
	file->blocks = options->blocks;
	file->writeback_index = 0;
	file->size = true_size(file, kp_file, stamp[0]);
	file->always_mapped = always_mapped(file, options->mapped);
	file->never_mapped = !strcmp(options->mapped, "none");
	cache_read_mapped(cache, file, kp_file->fd);
}

/* Jobs that share a file must agree on its options. */
static int agree_file(const struct cache_file *file, const struct kp_file *kp_file,
		      const struct cache_open_options *options)
{
	if (options->blocks != file->blocks ||
	    (options->block_size && options->block_size != file->block_size)) {
		kp_log("%s: another job has it with block size %u and policy=%s, give both the "
		       "same",
		       kp_file->path, file->block_size, file->blocks->name);
		return -EINVAL;
	}
	if (always_mapped(file, options->mapped) != file->always_mapped ||
	    !strcmp(options->mapped, "none") != file->never_mapped) {
		kp_log("%s: mapped=%s: another job has it with another value, give both the same",
		       kp_file->path, options->mapped);
		return -EINVAL;
	}
	return 0;
}

/*
 * Can the file be set up again? It cannot while a user with another block size may still write to
 * it, or while masks of dirty blocks refer to another block size.
 */
static bool can_restart(const struct cache_file *file, struct file_users others,
			const struct cache_open_options *options, uint32_t block_size)
{
	if (!others.leaving && !others.dead && !has_writes(file))
		return true;
	return options->blocks == file->blocks && block_size == file->block_size;
}

/*
 * Writeback finds the file by @fd from now on. The descriptor that was kept is closed. With the
 * file's lock.
 */
static void set_descriptor(struct cache_file *file, uint16_t user, int fd, bool kept)
{
	struct cache_opens *opens = &file->users[user];
	int old = opens->kept ? opens->fd : -1;

	__atomic_store_n(&opens->fd, fd, __ATOMIC_RELAXED);
	store(&opens->kept, kept);
	cache_descriptors_changed(file);
	if (old >= 0)
		close(old);
}

/* Become a user of the file. With the file's lock. */
static int join_file(struct page_cache *cache, uint16_t user, struct cache_file *file,
		     struct kp_file *kp_file, const struct cache_open_options *options)
{
	uint32_t block_size = choose_block_size(kp_file, options);
	struct file_users others = find_users(cache, file, user);
	int ret = check_block_size(kp_file, block_size);

	if (ret)
		return ret;
	if (others.using || file->users[user].used) {
		ret = agree_file(file, kp_file, options);
		if (ret)
			return ret;
	} else if (!can_restart(file, others, options, block_size)) {
		return -EAGAIN;
	} else if (!others.leaving) {
		restart_file(cache, file, kp_file, options, block_size);
	}
	store(&file->users[user].touched, 1);
	store(&file->users[user].opens, file->users[user].opens + 1);
	store(&file->users[user].used, FILE_USED);
	set_descriptor(file, user, kp_file->fd, false);
	return 0;
}

/*
 * Become a user of the device. One flusher serves it, so its users must agree on the policy. With
 * page_cache.lock. Return: -EAGAIN when users with another policy are just leaving.
 */
static int join_bdi(struct page_cache *cache, uint16_t user, struct cache_bdi *bdi,
		    const struct kp_file *kp_file, const struct cache_open_options *options)
{
	struct file_users others = { 0 };
	int ret = 0;

	for (uint32_t i = 0; i < cache->nr_files && !others.using; i++) {
		struct file_users of_file;

		if (cache->files[i]->bdi != bdi)
			continue;
		of_file = find_users(cache, cache->files[i], user);
		others.using |= of_file.using;
		others.leaving |= of_file.leaving;
	}
	if ((others.using || others.leaving) && bdi->variant != options->variant) {
		if (!others.using)
			return -EAGAIN;
		kp_log("%s: policy=%s: another job on the same device has %s, separate them by "
		       "stonewall",
		       kp_file->path, options->variant->name, bdi->variant->name);
		return -EINVAL;
	}
	if (others.using)
		ret = cache_agree(kp_file->path, "nr_to_write", options->nr_to_write,
				  bdi->nr_to_write);
	if (others.using && !ret)
		ret = cache_agree(kp_file->path, "wrap_fault", options->wrap_fault,
				  bdi->wrap_fault);
	if (ret)
		return ret;
	bdi->variant = options->variant;
	bdi->nr_to_write = options->nr_to_write;
	bdi->wrap_fault = options->wrap_fault;
	return 0;
}

static bool held_by_others(const struct page_cache *cache, int fd)
{
	uint32_t own = cache->token, last = KP_FILE_LOCK_SPAN - 1;

	return (own && kp_file_locked(fd, KP_LOCK_PAGE_CACHE, 0, own - 1)) ||
	       (own < last && kp_file_locked(fd, KP_LOCK_PAGE_CACHE, own + 1, last));
}

int cache_exclude_others(const struct page_cache *cache, const struct kp_file *kp_file)
{
	int fd = kp_file->fd;

	if (fd < 0)
		return 0;
	/*
	 * Look before taking the lock: even for a moment it would keep the other cache's flusher
	 * from opening the file.
	 */
	if (held_by_others(cache, fd))
		return -EBUSY;
	/* On a file system without locks nobody can tell. */
	if (kp_file_lock(fd, KP_LOCK_PAGE_CACHE, cache->token))
		return 0;
	if (!held_by_others(cache, fd))
		return 0;
	kp_file_unlock(fd, KP_LOCK_PAGE_CACHE, cache->token);
	return -EBUSY;
}

int cache_open(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
	       const struct cache_open_options *options, struct cache_file **file)
{
	struct new_file new = { .cache = cache, .kp_file = kp_file };
	void *object;
	int ret;

	*file = NULL;
	ret = cache_exclude_others(cache, kp_file);
	if (ret)
		return ret;
	cache_reap_users(cache);
	kp_robust_lock(&cache->lock);
	ret = find_bdi(cache, kp_file, &new.bdi);
	if (!ret)
		ret = join_bdi(cache, user, new.bdi, kp_file, options);
	if (!ret)
		ret = kp_arena_object(cache->arena, "cache_file", &kp_file->key,
				      sizeof(kp_file->key), sizeof(**file), init_file, &new,
				      &object);
	if (!ret) {
		*file = object;
		if (kp_file->fd >= 0)
			kp_file_lock(kp_file->fd, KP_LOCK_CACHE_USER, user);
		cache_lock(cache, *file);
		ret = join_file(cache, user, *file, kp_file, options);
		cache_unlock(*file);
	}
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

static bool has_opens(const struct page_cache *cache, const struct cache_file *file)
{
	uint32_t nr = __atomic_load_n(&cache->nr_users, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < nr; i++) {
		if (__atomic_load_n(&file->users[i].opens, __ATOMIC_RELAXED) &&
		    cache_user_state(cache, i) != USER_FREE)
			return true;
	}
	return false;
}

bool cache_is_gone(const struct page_cache *cache, const struct cache_file *file, int fd)
{
	struct stat st;

	return fd >= 0 && !has_opens(cache, file) && !fstat(fd, &st) && !st.st_nlink;
}

bool cache_close(struct page_cache *cache, uint16_t user, const struct kp_file *kp_file,
		 struct cache_file *file, const struct kp_file *another, bool keep)
{
	struct cache_opens *opens = &file->users[user];
	int fd = -1;

	cache_lock(cache, file);
	store(&opens->opens, opens->opens - 1);
	read_stamp(kp_file, file->stamp);
	if (another) {
		set_descriptor(file, user, another->fd, false);
	} else if (cache_is_gone(cache, file, kp_file->fd)) {
		cache_drop_all(cache, file);
	} else if (keep && kp_file->fd >= 0 && (has_writes(file) || cache_padded(file))) {
		fd = fcntl(kp_file->fd, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			set_descriptor(file, user, fd, true);
	}
	cache_descriptors_changed(file);
	cache_unlock(file);
	return fd >= 0;
}

bool cache_release_kept(struct page_cache *cache, uint16_t user, struct cache_file *file)
{
	struct cache_opens *opens = &file->users[user];

	if (!__atomic_load_n(&opens->kept, __ATOMIC_RELAXED))
		return true;
	cache_lock(cache, file);
	if (opens->kept && cache_is_gone(cache, file, opens->fd))
		cache_drop_all(cache, file);
	if (opens->kept && !has_writes(file) && !cache_padded(file))
		set_descriptor(file, user, -1, false);
	cache_unlock(file);
	return !opens->kept;
}

bool cache_leave_file(struct page_cache *cache, uint16_t user, struct cache_file *file)
{
	struct file_users others;

	cache_reap_users(cache); /* a dead user will not write the file back */
	cache_lock(cache, file);
	others = find_users(cache, file, user);
	cache_set_use(file, user, others.reaching ? FILE_UNUSED : FILE_LEAVING);
	cache_unlock(file);
	return !others.reaching;
}

void cache_left_file(struct page_cache *cache, uint16_t user, struct cache_file *file)
{
	cache_lock(cache, file);
	cache_set_use(file, user, FILE_UNUSED);
	set_descriptor(file, user, -1, false);
	cache_unlock(file);
}
