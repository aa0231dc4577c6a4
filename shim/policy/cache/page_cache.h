/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page cache: one for all jobs, in the arena, coherent between threads and processes.
 *
 * The truth about a page is its struct cache_page. What else there is (the index of a file, its
 * counters, the list of free pages) follows from the pages and is made anew from them by whoever
 * takes a lock whose owner died.
 *
 * Locks, outermost first. All are robust and shared by processes, but for page_cache.lock none is
 * held across I/O or a wait except where it says so:
 *
 *	cache_file.write_lock	i_rwsem of the kernel; held by a writer, also while it is throttled
 *	page_cache.lock		users, limits and the table of files; taken when a job opens a file
 *	cache_file.lock		pages of one file; for a moment
 *	page_cache.pool_lock	the free pages; for a moment
 *
 * Reclaim takes the lock of a second file while it has that of a first, and only tries to.
 */
#ifndef KP_PAGE_CACHE_H
#define KP_PAGE_CACHE_H

#include "core/robust.h"
#include "stage.h"
#include "index.h"

#define CACHE_MAX_USERS 8192u /* pipelines */
#define CACHE_MAX_FILES 4096u
#define PAGES_PER_CHUNK 1024u
#define CACHE_CHUNKS	(1u << 20) /* 4 TiB */

/* One page of memory. Under the lock of the file that has it. */
struct cache_page {
	uint64_t number; /* in the file */
	uint32_t file;	 /* its id, 0: free */
	uint32_t next;	 /* of the free pages; under pool_lock */
	/* Masks of blocks, of the file's block size. */
	uint8_t uptodate;
	uint8_t dirty;
	uint8_t writeback;
	uint8_t reading; /* a device writes into them: PG_locked */
	uint8_t stale;	 /* of those: the device was written meanwhile, what comes in is old */
	uint8_t referenced;
	uint16_t writer; /* user that has it under writeback */
	uint16_t reader;
};

struct page_chunk {
	struct cache_page pages[PAGES_PER_CHUNK];
	char data[PAGES_PER_CHUNK][KP_PAGE_SIZE];
};

enum user_state {
	USER_FREE,
	USER_LIVE,
	USER_DEAD, /* killed; its process may still be on its way out, its I/O under way */
};

/* A pipeline with a page cache. */
struct cache_user {
	/*
	 * The lease: held as long as the user lives. Whoever gets it otherwise finds the user
	 * dead; he looks with page_cache.lock, and holds it for a moment. Any lock nests inside.
	 */
	pthread_mutex_t alive_lock;
	uint32_t state; /* atomic; enum user_state */
	int32_t pid;
};

/* What a device's files share, backing_dev_info in the kernel: the flusher. */
struct cache_bdi {
	/* The role: held by the thread that is the flusher. Any lock nests inside. */
	pthread_mutex_t flusher_lock;
	const struct kp_variant *variant; /* of writeback; under page_cache.lock, as the next two */
	uint32_t nr_to_write;
	bool wrap_fault;
	uint32_t work;	   /* futex: there may be something to do */
	uint32_t sleeping; /* atomic; the flusher waits for work */
};

struct cache_limits {
	uint64_t dirty_bytes;
	uint64_t dirty_background_bytes;
	uint64_t cache_bytes;
	uint32_t dirty_writeback_centisecs;
	uint32_t dirty_expire_centisecs;
};

enum file_use {
	FILE_UNUSED,
	FILE_USED,    /* it has had the file open */
	FILE_LEAVING, /* it writes back what is left, and goes */
};

/* A user's relation to a file. Changed under the file's lock, atomic: looked at without, too. */
struct cache_opens {
	uint32_t opens; /* descriptors */
	int32_t fd;	/* one of them */
	uint32_t used;	/* enum file_use */
};

struct cache_file {
	/* Protects everything below and the file's pages. */
	pthread_mutex_t lock;
	/* Serializes writers. */
	pthread_mutex_t write_lock;
	uint32_t id;
	uint32_t block_size;
	bool block_device;
	bool is_null;
	bool always_mapped;
	bool never_mapped;
	uint64_t size;	   /* i_size, atomic */
	uint64_t nr_pages; /* atomic, as the next two: read without the lock */
	uint64_t nr_dirty;
	uint64_t nr_writeback;
	uint64_t dirtied_ns; /* when it became dirty; 0: clean */
	uint64_t writeback_index;
	uint64_t unopened_ns; /* atomic; since when a flusher cannot open it; 0: it can */
	uint64_t stamp[3];    /* size and times on disk when the last user left */
	/* errseq_t: a number of the latest error, whether anybody was told, and the error. */
	uint32_t error_seq;
	bool error_seen;
	int32_t error;
	uint32_t redirties; /* how often a page was claimed and then not written */
	uint32_t progress;  /* futex: some page's reading or writeback ended */
	uint32_t waiters;   /* atomic */
	bool padded;	    /* atomic; the file on disk may end in padding */
	struct cache_bdi *bdi;
	const struct kp_variant *blocks; /* how pages are cut into bios */
	struct kp_file_key key;
	/*
	 * Which pages have their blocks on disk, a bit each, in pieces of 4 KiB made when needed;
	 * MAP_ALL: all of a piece. They stay, without their memory when nothing is in them.
	 */
	uint8_t **map;
	uint32_t map_used; /* pieces that may be there */
	struct cache_opens *users;
	struct page_index index;
	char path[4096];
};

#define MAP_BYTES  4096u
#define MAP_PAGES  (MAP_BYTES * 8u)
#define MAP_PIECES (1u << 20) /* 128 TiB */
#define MAP_ALL	   ((uint8_t *)1)

struct page_cache {
	struct kp_arena *arena;
	uint16_t token; /* tells it from other caches, see cache_exclude_others() */
	/* Protects limits, users coming and going, and the table of files. */
	pthread_mutex_t lock;
	struct cache_limits limits;
	struct cache_user *users;
	uint32_t nr_users;  /* ids ever used */
	uint32_t nr_files;  /* atomic */
	uint32_t balance;   /* futex: some writeback ended */
	uint32_t throttled; /* atomic; who waits for that */
	/*
	 * Atomic; what the counters of all files add up to. Who is killed between the two leaves it
	 * off by a page; it is counted anew when nobody has the cache.
	 */
	int64_t dirty, writeback, pages;
	struct cache_file *files[CACHE_MAX_FILES];
	/* Protects the free pages: 'free', 'nr_pages', and cache_page.next and .file of them. */
	pthread_mutex_t pool_lock;
	uint32_t free;	   /* list */
	uint32_t nr_pages; /* ids handed out, atomic */
	uint32_t in_use;   /* atomic */
	uint32_t prepared; /* chunks whose memory was touched; under page_cache.lock */
	uint32_t hand;	   /* atomic; of the clock that reclaims */
	struct page_chunk *chunks[CACHE_CHUNKS];
};

static inline struct cache_page *cache_page(struct page_cache *cache, uint32_t id)
{
	return &cache->chunks[id / PAGES_PER_CHUNK]->pages[id % PAGES_PER_CHUNK];
}

static inline char *cache_data(struct page_cache *cache, uint32_t id)
{
	return cache->chunks[id / PAGES_PER_CHUNK]->data[id % PAGES_PER_CHUNK];
}

static inline uint64_t cache_load(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static inline bool cache_padded(const struct cache_file *file)
{
	return __atomic_load_n(&file->padded, __ATOMIC_RELAXED);
}

/* cache_blocks - mask of the blocks that bytes [@from, @to) of a page touch. */
static inline uint8_t cache_blocks(const struct cache_file *file, unsigned int from,
				   unsigned int to)
{
	unsigned int first = from / file->block_size;
	unsigned int end = (to + file->block_size - 1) / file->block_size;

	return (1u << end) - (1u << first);
}

/* ---- page_pool.c: pages of memory ---------------------------------------------------------- */

/*
 * cache_alloc_page - a page for @number of @file, not up to date, not in the index. With the file's
 * lock. Return: its id; 0 when all are dirty or in use, wait for progress then.
 */
uint32_t cache_alloc_page(struct page_cache *cache, struct cache_file *file, uint64_t number);

/*
 * pool_populate - touch the memory for @bytes, as far as the limits allow, so that the first
 * use of a page costs no fault while it is measured.
 */
void pool_populate(struct page_cache *cache, uint64_t bytes);

/* cache_shrink - give back what the limits no longer allow. With page_cache.lock. */
void cache_shrink(struct page_cache *cache);

/* pool_free_page - a page that is not in the index becomes free. With the file's lock. */
void pool_free_page(struct page_cache *cache, uint32_t id);

/* ---- page_cache.c, cache_users.c, cache_files.c -------------------------------------------- */

/* cache_find - the cache of an arena, made if need be. 0 or -errno. */
int cache_find(struct kp_arena *arena, struct page_cache **cache);

/*
 * cache_join - become a user. @limits: what the job asks for. @bytes: what it is going to touch.
 * Return: 0; -EINVAL, logged, when a live user has other limits; -EUSERS.
 */
int cache_join(struct page_cache *cache, struct cache_limits *limits, uint64_t bytes,
	       uint16_t *user);

/* cache_leave - the lease is given up. */
void cache_leave(struct page_cache *cache, uint16_t user);

/*
 * cache_reap_users - requeue what dead users had under writeback, and forget them. Any user may;
 * meant for once in a while. Return: are there dead whose processes have not gone yet?
 */
bool cache_reap_users(struct page_cache *cache);

/* cache_user_state - as of the latest look. */
enum user_state cache_user_state(const struct page_cache *cache, uint16_t user);

/* cache_agree - 0, or -EINVAL, logged: jobs that share @path ("": the cache) differ in @name. */
int cache_agree(const char *path, const char *name, uint64_t ours, uint64_t theirs);

/* cache_recount - totals from the counters of all files. Nobody must have the cache. */
void cache_recount(struct page_cache *cache);

/* cache_lock, cache_unlock - the file's lock; what a dead owner left is repaired. */
void cache_lock(struct page_cache *cache, struct cache_file *file);
bool cache_trylock(struct page_cache *cache, struct cache_file *file);
static inline void cache_unlock(struct cache_file *file)
{
	pthread_mutex_unlock(&file->lock);
}

/* struct cache_open_options - what a user wants of a file. */
struct cache_open_options {
	const struct kp_variant *variant; /* of writeback */
	const struct kp_variant *blocks;
	const char *mapped;  /* "auto", "none" or "all" */
	uint32_t block_size; /* 0: as the policy has it */
	bool device_blocks;  /* the file is treated as a block device: initial size by P1 */
	uint32_t nr_to_write;
	bool wrap_fault;
};

/*
 * cache_exclude_others - mark an open file as being in this cache, until it is closed. 0; -EBUSY when it is in
 * another.
 */
int cache_exclude_others(const struct page_cache *cache, const struct kp_file *kp_file);

/*
 * cache_open - find or make the cached file.
 *
 * Dirty pages of users that were killed are kept. Return: 0; -EAGAIN when others are to be waited
 * for, who are about to write back under other options: *@file, if it is not NULL, needs a flusher
 * then; another -errno, logged.
 */
int cache_open(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
	       const struct cache_open_options *options, struct cache_file **file);

/* cache_stamp - note how the file looks on disk, to tell later whether others changed it. */
void cache_stamp(struct page_cache *cache, struct cache_file *file, const struct kp_file *kp_file);

/* cache_close - a descriptor is closed. @kp_file is still open. */
void cache_close(struct page_cache *cache, uint16_t user, struct kp_file *kp_file,
		 struct cache_file *file);

/* cache_set_use - with the file's lock: how a user without open descriptors stands to it. */
void cache_set_use(struct cache_file *file, uint16_t user, enum file_use use);

/* cache_in_use - is there a live user of the file, who will see to its dirty pages? */
bool cache_in_use(const struct page_cache *cache, const struct cache_file *file);

/*
 * cache_leave_file - the user leaves the file for good. Return: true when it was the last, which
 * writes back what is left and then calls cache_left_file().
 */
void cache_left_file(struct page_cache *cache, uint16_t user, struct cache_file *file);
bool cache_leave_file(struct page_cache *cache, uint16_t user, struct cache_file *file);

/* The rest of these: with the file's lock. */

static inline uint32_t cache_lookup(struct cache_file *file, uint64_t number)
{
	return page_index_find(&file->index, number);
}

/* cache_add_page - as cache_alloc_page(), and into the index. Return: 0: none to be had; wait. */
uint32_t cache_add_page(struct page_cache *cache, struct cache_file *file, uint64_t number);

/* cache_drop_page - remove a page that is neither under writeback nor being read. */
void cache_drop_page(struct page_cache *cache, struct cache_file *file, uint32_t id);

/* cache_set_dirty - blocks become dirty. */
void cache_set_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id, uint8_t mask);

/* cache_clear_dirty - blocks are dirty no more, without having been written. */
void cache_clear_dirty(struct page_cache *cache, struct cache_file *file, uint32_t id,
		       uint8_t mask);

/* cache_start_writeback - the dirty blocks of a page go under writeback by @user. */
void cache_start_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			   uint16_t user);

/* cache_redirty - they are dirty as before. */
void cache_redirty(struct page_cache *cache, struct cache_file *file, uint32_t id);

/* cache_end_writeback - writeback of some blocks ended. */
void cache_end_writeback(struct page_cache *cache, struct cache_file *file, uint32_t id,
			 uint8_t mask);

/* cache_drop_all - drop every page, dirty or not, but those that are busy. */
void cache_drop_all(struct page_cache *cache, struct cache_file *file);

/*
 * cache_invalidate - drop the clean pages among numbers [@first, @last], the clean blocks of others;
 * what is just being read will not be up to date.
 */
void cache_invalidate(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t last);

/* cache_set_error, cache_check_error - errseq_set() and errseq_check_and_advance(). */
void cache_set_error(struct cache_file *file, int error);
uint32_t cache_sample_error(const struct cache_file *file);
int cache_check_error(struct cache_file *file, uint32_t *since);

/* cache_mapped - has page @number its blocks on disk? Without a lock, too. */
bool cache_mapped(struct cache_file *file, uint64_t number);
void cache_set_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t nr);
void cache_clear_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
			uint64_t nr);

/* cache_wake - tell those who wait for a page of @file. Without the lock. */
void cache_wake(struct cache_file *file);

/* cache_totals - dirty pages, those under writeback, and all, of all files. Any time. */
struct cache_totals {
	uint64_t dirty, writeback, pages;
};
struct cache_totals cache_totals(const struct page_cache *cache);

/* cache_futex_wait - sleep while *@word is @value, at most @ns. cache_futex_wake: wake all. */
void cache_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void cache_futex_wake(uint32_t *word);

/* ---- page_writeback.c ---------------------------------------------------------------------- */

#define CACHE_BIO_PAGES KP_BIO_MAX_VECS

/* struct cache_io_ctx - who does the I/O of a cache: a job, or a flusher. */
struct cache_io_ctx {
	struct kp_stage
		anchor; /* stands where the page cache stands, above what I/O goes through */
	struct page_cache *cache;
	const struct kp_variant *variant;
	uint64_t *counters;
	uint64_t reap_at;
	struct kp_bio_set set;
	struct kp_pool ios;
	uint32_t in_flight; /* atomic; bios of ours */
	uint16_t user;
	bool wrap_fault;
	bool stop; /* atomic; a scan that is not for integrity ends */

	/* The scan that is going on. */
	bool integrity;
	struct cache_file *file;
	struct kp_file *kp_file;
	uint32_t bio_pages;
	/* Pages on their way into bios: [start, start + nr), claimed. */
	unsigned int nr;
	uint64_t start;
	uint32_t ids[CACHE_BIO_PAGES];
	uint8_t masks[CACHE_BIO_PAGES];
};

int cache_io_init(struct cache_io_ctx *ctx, struct page_cache *cache, uint16_t user,
		  struct kp_pipeline *pl, struct kp_stage *next, uint64_t *counters);
void cache_io_exit(struct cache_io_ctx *ctx);

/* writeback_background - WB_SYNC_NONE: at most @nr_to_write pages of a file. Return: pages written. */
uint64_t writeback_background(struct cache_io_ctx *ctx, struct cache_file *file,
			      struct kp_file *kp_file, long nr_to_write);

/*
 * writeback_and_wait_range - WB_SYNC_ALL: write pages [@first, @last] and wait for them, by whomever they
 * are written. Return: 0 or what kept them from being submitted; errors of the device are noted
 * on the file.
 */
int writeback_and_wait_range(struct cache_io_ctx *ctx, struct cache_file *file,
			     struct kp_file *kp_file, uint64_t first, uint64_t last);

/* cache_wait_progress - wait a while for progress on @file since *progress was @seen. */
void cache_wait_progress(struct cache_io_ctx *ctx, struct cache_file *file, uint32_t seen);

/* cache_wait_balance - wait a while for writeback of anything since cache->balance was @seen. */
void cache_wait_balance(struct cache_io_ctx *ctx, struct cache_bdi *bdi, uint32_t seen);

/*
 * cache_direct_io - hand an I/O of the application on past the cache; when it has ended, clean
 * pages of its range are dropped.
 */
void cache_direct_io(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_bio *original);

/* cache_io_drain - wait for every bio of ours. */
void cache_io_drain(struct cache_io_ctx *ctx);

/*
 * cache_read_pages - read blocks @masks[i] of pages @first + i into their pages, which the caller
 * has marked as being read by us. @pending: counts the bios that are out. @error: receives what
 * went wrong; both NULL when nobody waits.
 */
struct cache_read {
	uint32_t pending; /* atomic */
	int32_t error;
};
void cache_read_pages(struct cache_io_ctx *ctx, struct cache_file *file, struct kp_file *kp_file,
		      uint64_t first, unsigned int nr, const uint32_t *ids, const uint8_t *masks,
		      struct cache_read *read);

/* ---- flusher.c ----------------------------------------------------------------------------- */

struct flusher;
struct flusher_config {
	struct page_cache *cache;
	struct cache_bdi *bdi;
	uint16_t user;
	const struct kp_variant *variant;
	long nr_to_write;
	bool wrap_fault;
	const struct kp_pipeline_config *pipeline; /* of the stages below */
	unsigned int counters_at;		   /* where in a slot */
};

/* flusher_start - a thread that is the flusher of @bdi whenever nobody else is. 0 or -errno. */
int flusher_start(const struct flusher_config *config, struct flusher **flusher);

/*
 * flusher_stop - give the role up and end the thread. @last: files that nobody else uses: write
 * back what is left. Return: 0 or the first error.
 */
int flusher_stop(struct flusher *flusher, struct cache_file *const *last, unsigned int nr_last);

/* cache_wake_flusher - there is something to do. */
void cache_wake_flusher(struct cache_bdi *bdi);

/* cache_counters - the page cache stage's own. */
enum cache_counter {
	CACHE_HITS,
	CACHE_MISSES,
	CACHE_READ_BYTES,
	CACHE_RMW_READS,
	CACHE_PAGES_DIRTIED,
	CACHE_SCANS,
	CACHE_ROUNDS,
	CACHE_WRITEBACK_PAGES,
	CACHE_WRITEBACK_BYTES,
	CACHE_EXTENTS,
	CACHE_SINGLE_EXTENTS,
	CACHE_NEEDLESS_LOCKS,
	CACHE_SYNCS,
	CACHE_FAILED_BYTES,
	CACHE_LATE_BYTES,
	CACHE_LATE_NS,
	CACHE_DIRTY_WAIT,
	CACHE_NR_COUNTERS = CACHE_DIRTY_WAIT + KP_TIME_VALUES,
};

/* cache_count - a counter that several threads write. */
static inline void cache_count(uint64_t *counters, enum cache_counter counter, uint64_t n)
{
	__atomic_fetch_add(&counters[counter], n, __ATOMIC_RELAXED);
}

#endif
