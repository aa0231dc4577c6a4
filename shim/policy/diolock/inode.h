/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all jobs on one file share, as they would its inode: the lock, the size, which blocks are
 * written, and how much direct I/O is in flight. It lies in the arena under the file's identity.
 *
 * Each job that opens the file has a number here: its bit in the lock's word.
 */
#ifndef KP_INODE_H
#define KP_INODE_H

#include "core/liveness.h"
#include "rwsem.h"

/* ---- inodes -------------------------------------------------------------------------------- */

#define KP_INODE_CHUNKS 16384u /* of 2^18 blocks: 16 TiB of 4 KiB */

/* What is counted of I/O in flight. */
enum kp_inode_count {
	KP_INODE_DIO,	    /* i_dio_count: all of it */
	KP_INODE_UNWRITTEN, /* i_unwritten: asynchronous writes into blocks not yet written */
	KP_INODE_NR_COUNTS,
};

struct kp_inode_job {
	_Alignas(64) uint32_t user;		/* atomic; its liveness id, 0: free */
	uint32_t in_flight[KP_INODE_NR_COUNTS]; /* atomic */
};

struct kp_inode {
	/*
	 * Protects who is a job of the inode: jobs[].user, variant, rules, and the loading of the
	 * block map. Robust; any state that a death leaves is made good by the next one. The
	 * locks below nest inside it.
	 */
	pthread_mutex_t lock;
	const struct kp_variant *variant; /* all jobs at a time have the same */
	const struct kp_rwsem_rules *rules;
	uint32_t block_size;
	bool all_written; /* a block device or a model: no map is kept */
	bool told_full;
	uint64_t size;		   /* atomic */
	uint32_t dio_futex;	   /* atomic; bumped when a count went down and somebody waits */
	uint32_t dio_waiters;	   /* atomic flag */
	uint64_t locks_reads;	   /* atomic; a bit per job that punches: EXT4_STATE_DIOREAD_LOCK */
	struct kp_rwsem rwsem;	   /* i_rwsem; i_mutex before 4.7 */
	struct kp_rwsem aio_mutex; /* ext4_aio_mutex() up to 4.8, taken outside i_rwsem */
	struct kp_inode_job jobs[KP_RWSEM_JOBS];
	struct kp_inode_chunk *chunks[KP_INODE_CHUNKS]; /* atomic; NULL: all holes */
};

/**
 * kp_inode_attach - become a job of the inode of @file.
 * @variant, @rules: which policy; the first job decides, the others must have the same.
 * @user: its liveness id.
 * @job: receives the number on this inode.
 *
 * The first job finds out size and blocks anew.
 * Return: 0; -EBUSY other jobs have another policy; -EUSERS no number is left; -ENOMEM; -errno.
 */
int kp_inode_attach(struct kp_file *file, const struct kp_variant *variant,
		    const struct kp_rwsem_rules *rules, uint32_t user, struct kp_inode **inode,
		    unsigned int *job);

/* kp_inode_detach - holding nothing and with nothing in flight. */
void kp_inode_detach(struct kp_inode *inode, unsigned int job);

/* struct kp_inode_lost - what dead jobs had left. */
struct kp_inode_lost {
	unsigned int jobs, places, in_flight;
};

/* kp_inode_recover - release what dead jobs hold. Any thread that holds no wait_lock. */
struct kp_inode_lost kp_inode_recover(struct kp_inode *inode, struct kp_arena *arena);

/* ---- blocks and size ----------------------------------------------------------------------- */

/* From best to worst; a range is as its worst block. */
enum kp_blocks { KP_BLOCKS_WRITTEN, KP_BLOCKS_UNWRITTEN, KP_BLOCKS_HOLE };

/* kp_inode_blocks - what the blocks are that [pos, pos + len) touches. Any thread. */
enum kp_blocks kp_inode_blocks(const struct kp_inode *inode, uint64_t pos, uint64_t len);

/* kp_inode_set_blocks - what they are from now on. Any thread. 0 or -ENOMEM. */
int kp_inode_set_blocks(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len,
			enum kp_blocks blocks);

/* kp_inode_punch - whole blocks of [pos, pos + len) become holes. Any thread. 0 or -ENOMEM. */
int kp_inode_punch(struct kp_inode *inode, struct kp_arena *arena, uint64_t pos, uint64_t len);

static inline uint64_t kp_inode_size(const struct kp_inode *inode)
{
	return __atomic_load_n(&inode->size, __ATOMIC_RELAXED);
}

/* kp_inode_extend - the file reaches to @end at least. Any thread. */
void kp_inode_extend(struct kp_inode *inode, uint64_t end);

/* ---- direct I/O in flight ------------------------------------------------------------------ */

static inline void kp_inode_begin(struct kp_inode *inode, unsigned int job,
				  enum kp_inode_count count)
{
	__atomic_fetch_add(&inode->jobs[job].in_flight[count], 1, __ATOMIC_SEQ_CST);
}

/* kp_inode_end - inode_dio_end(). Any thread. */
void kp_inode_end(struct kp_inode *inode, unsigned int job, enum kp_inode_count count);

/*
 * kp_inode_lock_reads - from now on direct reads that take no lock do; else a wait for direct I/O in
 * flight might never end. kp_inode_resume_reads - no longer. By the job, any thread.
 */
static inline void kp_inode_lock_reads(struct kp_inode *inode, unsigned int job)
{
	__atomic_fetch_or(&inode->locks_reads, 1ull << job, __ATOMIC_SEQ_CST);
}

static inline void kp_inode_resume_reads(struct kp_inode *inode, unsigned int job)
{
	__atomic_fetch_and(&inode->locks_reads, ~(1ull << job), __ATOMIC_SEQ_CST);
}

static inline bool kp_inode_reads_locked(const struct kp_inode *inode)
{
	return __atomic_load_n(&inode->locks_reads, __ATOMIC_SEQ_CST);
}

/* kp_inode_quiet - is nothing of the kind in flight, of any job? Any thread. */
bool kp_inode_quiet(const struct kp_inode *inode, enum kp_inode_count count);

#endif
