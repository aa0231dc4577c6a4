// SPDX-License-Identifier: GPL-2.0-only
/* The state that all jobs on one file share. See inode.h. */
#include <limits.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "core/extents.h"
#include "core/futex.h"
#include "core/robust.h"
#include "inode.h"
#include "stage.h"

#define CHUNK_BLOCKS   (1u << 18)
#define CHUNK_WORDS    (CHUNK_BLOCKS / 64)
#define FS_BLOCK_SIZE  4096u /* block size where there is no file system to ask */
#define MAX_BLOCK_SIZE 65536

/* ---- the block map ------------------------------------------------------------------------- */

struct kp_inode_chunk {
	uint64_t written[CHUNK_WORDS]; /* atomic */
	uint64_t allocated[CHUNK_WORDS];
};

/* The part of a range of blocks that is in one word of the map. */
struct piece {
	uint64_t chunk;
	unsigned int word;
	uint64_t mask;
};

/* Cut the first piece off [*first, end); *first moves to its end. */
static struct piece next_piece(uint64_t *first, uint64_t end)
{
	unsigned int bit = *first % 64;
	unsigned int nr = kp_min(end - *first, 64ull - bit);
	struct piece piece = {
		.chunk = *first / CHUNK_BLOCKS,
		.word = *first % CHUNK_BLOCKS / 64,
		.mask = (nr == 64 ? ~0ull : (1ull << nr) - 1) << bit,
	};

	*first += nr;
	return piece;
}

static uint64_t blocks_up_to(const struct kp_inode *inode, uint64_t pos)
{
	return pos / inode->block_size + !!(pos % inode->block_size);
}

static bool covers(const uint64_t *word, uint64_t mask)
{
	return (__atomic_load_n(word, __ATOMIC_RELAXED) & mask) == mask;
}

enum kp_blocks kp_inode_blocks(const struct kp_inode *inode, uint64_t pos, uint64_t len)
{
	uint64_t first = pos / inode->block_size, end = blocks_up_to(inode, pos + len);
	enum kp_blocks worst = KP_BLOCKS_WRITTEN;

	if (inode->all_written)
		return KP_BLOCKS_WRITTEN;
	while (first < end) {
		struct piece piece = next_piece(&first, end);
		const struct kp_inode_chunk *chunk;

		if (piece.chunk >= KP_INODE_CHUNKS)
			return KP_BLOCKS_HOLE;
		chunk = __atomic_load_n(&inode->chunks[piece.chunk], __ATOMIC_ACQUIRE);
		if (!chunk)
			return KP_BLOCKS_HOLE;
		if (covers(&chunk->written[piece.word], piece.mask))
			continue;
		if (!covers(&chunk->allocated[piece.word], piece.mask))
			return KP_BLOCKS_HOLE;
		worst = KP_BLOCKS_UNWRITTEN;
	}
	return worst;
}

static struct kp_inode_chunk *make_chunk(struct kp_inode *inode, struct kp_arena *arena, uint64_t i)
{
	struct kp_inode_chunk *chunk = __atomic_load_n(&inode->chunks[i], __ATOMIC_ACQUIRE);
	struct kp_inode_chunk *fresh;

	if (chunk)
		return chunk;
	fresh = kp_arena_alloc(arena, sizeof(*fresh));
	if (!fresh)
		return NULL;
	/* Another job may have been faster: then our chunk stays unused, and costs no memory. */
	if (__atomic_compare_exchange_n(&inode->chunks[i], &chunk, fresh, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return fresh;
	return chunk;
}

static void set_bits(uint64_t *word, uint64_t mask, bool on)
{
	if (on && !covers(word, mask))
		__atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
	else if (!on && __atomic_load_n(word, __ATOMIC_RELAXED) & mask)
		__atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
}

int kp_inode_set_blocks(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len,
			enum kp_blocks blocks)
{
	uint64_t first = pos / inode->block_size, end = blocks_up_to(inode, pos + len);

	if (inode->all_written)
		return 0;
	while (first < end) {
		struct piece piece = next_piece(&first, end);
		struct kp_inode_chunk *chunk;

		if (piece.chunk >= KP_INODE_CHUNKS)
			return 0; /* the map ends here: these blocks always count as holes */
		chunk = make_chunk(inode, arena, piece.chunk);
		if (!chunk)
			return -ENOMEM;
		set_bits(&chunk->allocated[piece.word], piece.mask, blocks != KP_BLOCKS_HOLE);
		set_bits(&chunk->written[piece.word], piece.mask, blocks == KP_BLOCKS_WRITTEN);
	}
	return 0;
}

int kp_inode_punch(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len)
{
	uint64_t first = kp_round_up(pos, inode->block_size);
	uint64_t end = kp_round_down(pos + len, inode->block_size);

	/* A block at either end that the range covers in part is zeroed there, and stays. */
	return first < end ? kp_inode_set_blocks(inode, arena, first, end - first, KP_BLOCKS_HOLE)
			   : 0;
}

void kp_inode_extend(struct kp_inode *inode, uint64_t end)
{
	uint64_t size = kp_inode_size(inode);

	while (size < end && !__atomic_compare_exchange_n(&inode->size, &size, end, true,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

struct loading {
	struct kp_inode *inode;
	struct kp_arena *arena;
};

static int load_extent(uint64_t pos, uint64_t len, enum kp_extent_state state, void *arg)
{
	struct loading *loading = arg;

	return kp_inode_set_blocks(loading->inode, loading->arena, pos, len,
				   state == KP_EXTENT_UNWRITTEN ? KP_BLOCKS_UNWRITTEN
								: KP_BLOCKS_WRITTEN);
}

/*
 * Read the file's extents from its file system. All blocks count as written where the file system
 * does not tell. Return: 0 or -errno.
 */
static int load_blocks(struct kp_inode *inode, const struct kp_file *file)
{
	struct loading loading = { inode, file->pipeline->arena };
	int ret = kp_extents_walk(file->fd, load_extent, &loading);

	if (ret == -EOPNOTSUPP)
		ret = kp_inode_set_blocks(inode, loading.arena, 0, file->size, KP_BLOCKS_WRITTEN);
	return ret;
}

/*
 * s_blocksize, which direct I/O is aligned to. A size that is larger than any local file system's
 * block is a transfer size, such as that of NFS.
 */
static uint32_t block_size_of(int fd)
{
	int size;

	if (ioctl(fd, FIGETBSZ, &size) || size < (int)KP_SECTOR_SIZE || size > MAX_BLOCK_SIZE)
		return FS_BLOCK_SIZE;
	return size;
}

/* The first job reads the state of the file. */
static int load_inode(struct kp_inode *inode, const struct kp_file *file)
{
	inode->size = file->size;
	inode->block_size = FS_BLOCK_SIZE;
	inode->all_written = file->fd < 0 || file->block_device;
	if (inode->all_written)
		return 0;
	inode->block_size = block_size_of(file->fd);
	for (unsigned int i = 0; i < KP_INODE_CHUNKS; i++) {
		if (inode->chunks[i])
			memset(inode->chunks[i], 0, sizeof(*inode->chunks[i]));
	}
	return load_blocks(inode, file);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static int init_inode(void *object, void *arg)
{
	struct kp_inode *inode = object;
	int ret = kp_robust_init(&inode->lock);

	(void)arg;
	if (!ret)
		ret = kp_rwsem_init(&inode->rwsem);
	if (!ret)
		ret = kp_rwsem_init(&inode->aio_mutex);
	return ret;
}

static uint32_t job_user(const struct kp_inode *inode, unsigned int job)
{
	return __atomic_load_n(&inode->jobs[job].user, __ATOMIC_ACQUIRE);
}

static bool is_dead(const struct kp_inode *inode, unsigned int job, struct kp_arena *arena)
{
	uint32_t user = job_user(inode, job);

	return user && kp_liveness_dead(arena, user);
}

/* The inode is locked, so that no other job gets the number meanwhile. */
static void reap(struct kp_inode *inode, unsigned int job, struct kp_inode_lost *lost)
{
	lost->jobs++;
	lost->places += kp_rwsem_recover(&inode->rwsem, inode->rules, job);
	lost->places += kp_rwsem_recover(&inode->aio_mutex, inode->rules, job);
	for (unsigned int i = 0; i < KP_INODE_NR_COUNTS; i++)
		lost->in_flight +=
			__atomic_exchange_n(&inode->jobs[job].in_flight[i], 0, __ATOMIC_SEQ_CST);
	kp_inode_resume_reads(inode, job);
	kp_futex_signal(&inode->dio_futex, INT_MAX);
	__atomic_store_n(&inode->jobs[job].user, 0, __ATOMIC_RELEASE);
}

static void reap_dead(struct kp_inode *inode, struct kp_arena *arena, struct kp_inode_lost *lost)
{
	for (unsigned int i = 0; i < kp_inode_nr_jobs(inode); i++) {
		if (is_dead(inode, i, arena))
			reap(inode, i, lost);
	}
}

struct kp_inode_lost kp_inode_reap_dead(struct kp_inode *inode, struct kp_arena *arena)
{
	struct kp_inode_lost lost = { 0 };
	bool any = false;

	for (unsigned int i = 0; i < kp_inode_nr_jobs(inode) && !any; i++)
		any = is_dead(inode, i, arena);
	if (!any)
		return lost;
	kp_robust_lock(&inode->lock);
	reap_dead(inode, arena, &lost);
	pthread_mutex_unlock(&inode->lock);
	return lost;
}

static bool is_used(const struct kp_inode *inode)
{
	for (unsigned int i = 0; i < kp_inode_nr_jobs(inode); i++) {
		if (job_user(inode, i))
			return true;
	}
	return false;
}

/* The lowest number that is free. */
static int find_job(struct kp_inode *inode, unsigned int *job)
{
	unsigned int nr_jobs = kp_inode_nr_jobs(inode);

	for (*job = 0; *job < nr_jobs && job_user(inode, *job); (*job)++)
		;
	if (*job == KP_RWSEM_JOBS)
		return -EUSERS;
	if (*job == nr_jobs)
		__atomic_store_n(&inode->nr_jobs, nr_jobs + 1, __ATOMIC_SEQ_CST);
	return 0;
}

static int attach(struct kp_inode *inode, const struct kp_file *file,
		  const struct kp_variant *variant, const struct kp_rwsem_rules *rules)
{
	if (is_used(inode)) {
		kp_inode_extend(inode, file->size);
		return inode->variant == variant && inode->rules == rules ? 0 : -EBUSY;
	}
	inode->variant = variant;
	inode->rules = rules;
	return load_inode(inode, file);
}

int kp_inode_attach(struct kp_file *file, const struct kp_variant *variant,
		    const struct kp_rwsem_rules *rules, uint32_t user, struct kp_inode **result,
		    unsigned int *job)
{
	struct kp_inode_lost lost = { 0 };
	struct kp_inode *inode;
	void *object;
	int ret = kp_arena_object(file->pipeline->arena, "inode", &file->key, sizeof(file->key),
				  sizeof(*inode), init_inode, NULL, &object);

	if (ret)
		return ret;
	*result = inode = object;
	kp_robust_lock(&inode->lock);
	reap_dead(inode, file->pipeline->arena, &lost);
	ret = attach(inode, file, variant, rules);
	if (!ret)
		ret = find_job(inode, job);
	if (!ret)
		__atomic_store_n(&inode->jobs[*job].user, user, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&inode->lock);
	return ret;
}

void kp_inode_detach(struct kp_inode *inode, unsigned int job)
{
	__atomic_store_n(&inode->jobs[job].user, 0, __ATOMIC_RELEASE);
}

/* ---- direct I/O in flight ------------------------------------------------------------------ */

void kp_inode_end(struct kp_inode *inode, unsigned int job, enum kp_inode_count count)
{
	__atomic_fetch_sub(&inode->jobs[job].in_flight[count], 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&inode->dio_waiters, __ATOMIC_SEQ_CST))
		return;
	__atomic_store_n(&inode->dio_waiters, 0, __ATOMIC_SEQ_CST);
	kp_futex_signal(&inode->dio_futex, INT_MAX);
}

bool kp_inode_quiet(const struct kp_inode *inode, enum kp_inode_count count)
{
	for (unsigned int i = 0; i < kp_inode_nr_jobs(inode); i++) {
		if (__atomic_load_n(&inode->jobs[i].in_flight[count], __ATOMIC_SEQ_CST))
			return false;
	}
	return true;
}
