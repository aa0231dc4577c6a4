/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state that all jobs on one file share, as they would share its inode: the lock, the size,
 * which blocks are written, and the direct I/O in flight. It is in the arena, under the file's
 * identity.
 *
 * Each job that opens the file gets a number on this inode, which is also its number in the lock.
 */
#ifndef KP_INODE_H
#define KP_INODE_H

#include "core/file.h"
#include "core/liveness.h"
#include "rwsem.h"

/* ---- inodes -------------------------------------------------------------------------------- */

#define KP_INODE_CHUNKS 16384u /* of 2^18 blocks each: 16 TiB of 4 KiB blocks */

/* The counts of I/O in flight. */
enum kp_inode_count {
	KP_INODE_DIO,	    /* i_dio_count: all direct I/O */
	KP_INODE_UNWRITTEN, /* i_unwritten: asynchronous writes into blocks that are not yet written */
	KP_INODE_NR_COUNTS,
};

struct kp_inode_job {
	_Alignas(64) uint32_t user;		/* atomic; the job's liveness id, 0: free */
	uint32_t in_flight[KP_INODE_NR_COUNTS]; /* atomic */
};

struct kp_inode {
	/*
	 * Protects which jobs the inode has: jobs[].user, nr_jobs, variant, rules, and the loading of
	 * the block map. It is robust; a job that dies inside leaves nothing to repair, since the next
	 * one sets the same fields again. The wait_locks below nest inside.
	 */
	pthread_mutex_t lock;
	const struct kp_variant *variant; /* the same for all jobs at a time */
	const struct kp_rwsem_rules *rules;
	uint32_t block_size;
	uint32_t nr_jobs; /* atomic; numbers that were ever in use */
	bool all_written; /* a block device or a model: there is no block map */
	bool told_full;
	uint64_t size;		   /* atomic */
	uint64_t looked_ns;	   /* atomic; when a waiter last looked for dead jobs */
	uint32_t dio_futex;	   /* atomic; changes when a count went down while a job waited */
	uint32_t dio_waiters;	   /* atomic; flag */
	struct kp_rwsem rwsem;	   /* i_rwsem; i_mutex before 4.7 */
	struct kp_rwsem aio_mutex; /* ext4_aio_mutex() up to 4.8; i_rwsem nests inside */
	uint64_t locks_reads[(KP_RWSEM_JOBS + 63) / 64]; /* atomic; see kp_inode_lock_reads() */
	struct kp_inode_job jobs[KP_RWSEM_JOBS];
	struct kp_inode_chunk *chunks[KP_INODE_CHUNKS]; /* atomic; NULL: all holes */
};

/**
 * kp_inode_attach - become a job of the inode of @file.
 * @variant, @rules: the policy. The first job decides; the others must have the same.
 * @user: the job's liveness id.
 * @inode: receives the inode.
 * @job: receives the job's number on it.
 *
 * The first job reads size and blocks of the file again. The owner's thread.
 * Return: 0; -EBUSY when other jobs have another policy; -EUSERS when all numbers are in use;
 * -ENOMEM; another -errno.
 */
int kp_inode_attach(struct kp_file *file, const struct kp_variant *variant,
		    const struct kp_rwsem_rules *rules, uint32_t user, struct kp_inode **inode,
		    unsigned int *job);

/* kp_inode_detach - give the number back. The job holds no lock and has nothing in flight. */
void kp_inode_detach(struct kp_inode *inode, unsigned int job);

/* struct kp_inode_lost - what dead jobs had left behind. */
struct kp_inode_lost {
	unsigned int jobs, places, in_flight;
};

/* kp_inode_reap_dead - release what dead jobs hold. Any thread that holds no wait_lock. */
struct kp_inode_lost kp_inode_reap_dead(struct kp_inode *inode, struct kp_arena *arena);

/* ---- blocks and size ----------------------------------------------------------------------- */

/* From best to worst. A range counts as its worst block. */
enum kp_blocks { KP_BLOCKS_WRITTEN, KP_BLOCKS_UNWRITTEN, KP_BLOCKS_HOLE };

/* kp_inode_blocks - the state of the blocks that [pos, pos + len) touches. Any thread. */
enum kp_blocks kp_inode_blocks(const struct kp_inode *inode, uint64_t pos, uint64_t len);

/* kp_inode_set_blocks - change the state of these blocks. Any thread. Return: 0 or -ENOMEM. */
int kp_inode_set_blocks(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len,
			enum kp_blocks blocks);

/* kp_inode_punch - turn the whole blocks in [pos, pos + len) into holes. Any thread. 0 or -ENOMEM. */
int kp_inode_punch(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len);

static inline uint64_t kp_inode_size(const struct kp_inode *inode)
{
	return __atomic_load_n(&inode->size, __ATOMIC_RELAXED);
}

/* kp_inode_extend - raise the size to @end, unless it is larger already. Any thread. */
void kp_inode_extend(struct kp_inode *inode, uint64_t end);

/* ---- direct I/O in flight ------------------------------------------------------------------ */

static inline unsigned int kp_inode_nr_jobs(const struct kp_inode *inode)
{
	return __atomic_load_n(&inode->nr_jobs, __ATOMIC_SEQ_CST);
}

/* kp_inode_begin - inode_dio_begin(). Any thread of the job. */
static inline void kp_inode_begin(struct kp_inode *inode, unsigned int job,
				  enum kp_inode_count count)
{
	__atomic_fetch_add(&inode->jobs[job].in_flight[count], 1, __ATOMIC_SEQ_CST);
}

/* kp_inode_end - inode_dio_end(). Any thread of the job. */
void kp_inode_end(struct kp_inode *inode, unsigned int job, enum kp_inode_count count);

/*
 * kp_inode_lock_reads - make direct reads that take no lock take it from now on. Otherwise a wait for
 * direct I/O in flight might never end. EXT4_STATE_DIOREAD_LOCK. Any thread of the job.
 */
static inline void kp_inode_lock_reads(struct kp_inode *inode, unsigned int job)
{
	__atomic_fetch_or(&inode->locks_reads[job / 64], 1ull << job % 64, __ATOMIC_SEQ_CST);
}

/* kp_inode_resume_reads - undo kp_inode_lock_reads() of this job. Any thread of the job. */
static inline void kp_inode_resume_reads(struct kp_inode *inode, unsigned int job)
{
	__atomic_fetch_and(&inode->locks_reads[job / 64], ~(1ull << job % 64), __ATOMIC_SEQ_CST);
}

/* kp_inode_reads_locked - does any job make direct reads take the lock? Any thread. */
static inline bool kp_inode_reads_locked(const struct kp_inode *inode)
{
	for (unsigned int i = 0; i * 64 < kp_inode_nr_jobs(inode); i++) {
		if (__atomic_load_n(&inode->locks_reads[i], __ATOMIC_SEQ_CST))
			return true;
	}
	return false;
}

/* kp_inode_quiet - has no job I/O of this kind in flight? Any thread. */
bool kp_inode_quiet(const struct kp_inode *inode, enum kp_inode_count count);

#endif
