/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page cache: the stage of the policies writeback (P5) and blocksize (P1), and the door of this
 * folder. One cache serves all jobs of a run. It is coherent between threads and processes.
 *
 * State. Everything below lies in the arena: the pages and their data, the index of each file, the
 * table of files and the table of users (pipelines). A struct cache_page is the truth about its
 * page. Indexes, counters and the list of free pages follow from the pages: whoever takes a lock
 * whose owner died makes them anew.
 *
 * Callers. The pipeline calls the stage's hooks (stage.c) on the job's thread. Each job has a
 * flusher thread per device, with a pipeline of its own. Nobody else calls into this folder, but
 * for the pure parts, blocksize.h and scan.h.
 *
 * Layers. Each file may call those to its left only:
 *
 *	index  blocksize  scan  wake  locate  page_pool | pages  mapped | reclaim  users  files |
 *	io  writeback  flusher | read  write  submit  stage
 *
 * Locks, outermost first. All are robust and process-shared. None is held across I/O or a wait,
 * except write_lock and flusher_lock:
 *
 *	cache_bdi.flusher_lock	held by the flusher of a device for as long as it is the flusher
 *	cache_file.write_lock	i_rwsem: one writer at a time; held while the writer is throttled
 *	page_cache.lock		limits, users, the table of files; taken when a job opens a file
 *	cache_file.lock		the pages, the index and the counters of one file
 *	page_cache.pool_lock	the free pages
 *
 * Reclaim holds the lock of one file and only tries to take the lock of another.
 *
 * States of a block. A page keeps a mask of blocks for each; cache_file.lock protects all of them:
 *
 *	state		entered by			left by
 *	clean		cache_end_writeback(),		cache_set_dirty(): a writer;
 *	(uptodate)	the end of a read		reclaim, cache_invalidate()
 *	dirty		cache_set_dirty(): a writer;	cache_start_writeback(): flusher, sync;
 *			cache_redirty()			cache_clear_dirty(): discard, unlink
 *	writeback	cache_start_writeback()		cache_end_writeback(): the user 'writer';
 *							cache_redirty(): scan, reap_dead()
 *	reading		the begin of a read		the end of the read: the user 'reader';
 *	(PG_locked)					reap_dead()
 *
 * A block may be dirty and under writeback at once: a writer changed it while it was written. A
 * page with a block that is dirty, under writeback or reading keeps its memory.
 */
#ifndef KP_CACHE_H
#define KP_CACHE_H

#include "core/robust.h"
#include "index.h"
#include "stage.h"

#define CACHE_MAX_USERS 8192u /* pipelines */
#define CACHE_MAX_FILES 16384u
#define PAGES_PER_CHUNK 1024u
#define CACHE_CHUNKS	(1u << 20) /* 4 TiB */

/* struct cache_page - one page of memory. The lock of its file protects it. */
struct cache_page {
	uint64_t number; /* in the file */
	uint32_t file;	 /* id of the file; 0: the page is free */
	uint32_t next;	 /* of the free pages; pool_lock protects it */
	/* Masks of blocks, in the file's block size. */
	uint8_t uptodate;
	uint8_t dirty;
	uint8_t writeback;
	uint8_t reading; /* a device writes into these blocks: PG_locked */
	uint8_t stale;	 /* blocks being read whose data on the device changed since */
	uint8_t referenced;
	uint16_t writer; /* the user that submits the writeback */
	uint16_t reader; /* the user that submits the read */
};

struct page_chunk {
	struct cache_page pages[PAGES_PER_CHUNK];
	char data[PAGES_PER_CHUNK][KP_PAGE_SIZE];
};

enum user_state {
	USER_FREE,
	USER_LIVE,
	USER_DEAD, /* killed; its I/O may still be in flight */
};

/* struct cache_user - a pipeline with a page cache. */
struct cache_user {
	/*
	 * The user's thread holds it as long as the user lives. The kernel gives it to whoever
	 * tries to take it after that thread died. page_cache.lock serializes those tries, which
	 * hold it for a moment only. Nothing nests inside a try; any lock nests inside for the
	 * user.
	 */
	pthread_mutex_t alive_lock;
	uint32_t state; /* atomic; enum user_state */
	int32_t pid;
	uint64_t data_id;    /* kp_pipeline_config.data_id */
	uint64_t data_pages; /* that this user adds to those of the users before it */
};

/* struct cache_bdi - a device that has cached files, as backing_dev_info in the kernel. */
struct cache_bdi {
	/* Held by the thread that is the flusher of the device. Any lock nests inside. */
	pthread_mutex_t flusher_lock;
	/* page_cache.lock protects these three, which all users of the device agree on. */
	const struct kp_variant *variant; /* of writeback */
	uint32_t nr_to_write;
	bool wrap_fault;
	uint32_t work;	   /* futex: changes when the flusher may have something to do */
	uint32_t sleeping; /* atomic; the flusher waits for work */
};

/* struct cache_limits - the sysctls, which hold for all users. */
struct cache_limits {
	uint64_t dirty_bytes;
	uint64_t dirty_background_bytes;
	uint64_t cache_bytes;
	uint32_t dirty_writeback_centisecs;
	uint32_t dirty_expire_centisecs;
};

enum file_use {
	FILE_UNUSED,
	FILE_USED,    /* the user opened the file, and is there to write its pages back */
	FILE_LEAVING, /* the user writes back what is left, then leaves */
};

/* struct cache_opens - a user's relation to a file. cache_file.lock protects changes; atomic. */
struct cache_opens {
	uint32_t opens; /* descriptors of the application */
	int32_t fd;	/* one of them, or the one that is kept */
	uint32_t kept;	/* the application has closed all, and the cache keeps one: cache_close() */
	uint32_t used;	/* enum file_use */
	uint32_t touched; /* the user may have I/O in flight on the file */
};

struct cache_file {
	/* Protects the members below and the pages of the file. */
	pthread_mutex_t lock;
	/* i_rwsem: serializes writers. 'lock' and page_cache.pool_lock nest inside. */
	pthread_mutex_t write_lock;
	uint32_t id;
	uint32_t block_size;
	bool block_device;
	bool is_null;
	bool always_mapped;
	bool never_mapped;
	uint64_t size;	   /* i_size, atomic */
	uint64_t nr_pages; /* these three are atomic: some readers do without the lock */
	uint64_t nr_dirty;
	uint64_t nr_writeback;
	uint64_t dirtied_ns; /* when the file became dirty; 0: it is clean */
	uint64_t writeback_index;
	uint64_t unopened_ns; /* atomic; when a flusher first failed to open it; 0: it did not */
	uint64_t stamp[3];    /* size and times on disk when the last user left */
	/* errseq_t: a number for the latest error, whether anybody has seen it, and the error. */
	uint32_t error_seq;
	bool error_seen;
	int32_t error;
	uint32_t redirties;   /* counts pages that went from writeback back to dirty */
	uint32_t progress;    /* futex: changes when the read or writeback of a page ends */
	uint32_t waiters;     /* atomic; threads that sleep on 'progress' */
	uint32_t descriptors; /* atomic; counts changes of what users have open */
	bool padded;	      /* atomic; the file on disk may end in padding */
	struct cache_bdi *bdi;
	const struct kp_variant *blocks; /* how pages are cut into bios */
	struct kp_file_key key;
	/* Which pages have their blocks on disk: see mapped.h. */
	uint8_t **map;
	uint32_t map_used; /* pieces of the map that may be in use */
	struct cache_opens *users;
	struct page_index index;
	char path[4096];
};

struct page_cache {
	struct kp_arena *arena;
	uint16_t token; /* tells this cache from those of other runs, see cache_exclude_others() */
	/* Protects the limits, users that come and go, and the table of files. */
	pthread_mutex_t lock;
	struct cache_limits limits;
	struct cache_user *users;
	uint32_t nr_users;  /* ids ever used */
	uint32_t nr_files;  /* atomic */
	uint32_t balance;   /* futex: changes when any writeback ends */
	uint32_t throttled; /* atomic; threads that wait for that */
	/*
	 * Atomic; the sums of the counters of all files. A user that is killed between the two
	 * updates leaves the sum off by one page. It is counted again when the cache has no users.
	 */
	int64_t dirty, writeback, pages;
	struct cache_file *files[CACHE_MAX_FILES];
	/* Protects 'free', 'nr_pages', and the members next and file of free pages. */
	pthread_mutex_t pool_lock;
	uint32_t free;	     /* list */
	uint32_t nr_pages;   /* ids handed out, atomic */
	uint32_t in_use;     /* atomic */
	uint32_t populate;   /* atomic; chunks to populate; page_cache.lock protects changes */
	uint64_t kept_pages; /* in use when the first of the present users joined */
	uint32_t hand;	     /* atomic; where the clock of reclaim stands */
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

static inline uint64_t cache_file_size(const struct cache_file *file)
{
	return cache_load(&file->size);
}

static inline bool cache_padded(const struct cache_file *file)
{
	return __atomic_load_n(&file->padded, __ATOMIC_RELAXED);
}

/* cache_blocks - a mask of the blocks that bytes [@from, @to) of a page touch. */
static inline uint8_t cache_blocks(const struct cache_file *file, unsigned int from,
				   unsigned int to)
{
	unsigned int first = from / file->block_size;
	unsigned int end = (to + file->block_size - 1) / file->block_size;

	return (1u << end) - (1u << first);
}

/* enum cache_counter - the counters of the page cache stage. */
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

/* cache_count - add to a counter that several threads write. */
static inline void cache_count(uint64_t *counters, enum cache_counter counter, uint64_t n)
{
	__atomic_fetch_add(&counters[counter], n, __ATOMIC_RELAXED);
}

#endif
