/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The diolock policy: how the inode is locked around direct I/O.
 *
 * The stage stands at the top of the pipeline. It classifies each read, write and discard by what it
 * is to the inode, takes i_rwsem as the row of the variant says, submits the bio to the stages below,
 * and releases the lock after submission or at completion. Other operations pass.
 *
 *	diolock.c	the table of variants, the classes of I/O, the options
 *	dio.c		the stage: one direct I/O through its locks
 *	inode.c		the state that all jobs on a file share, in the arena
 *	rwsem.c		the lock as it is used: fast paths and sleeping
 *	rwsem_steps.c	the lock's steps between two accesses to shared memory
 *
 * State: one struct kp_inode per file in the arena, one struct dio_lock per pipeline, one struct
 * dio_file per open file, one struct dio per I/O that has passed the lock.
 *
 * Callers: other folders use kp_diolock_policy and its options (kpolicy.h), and nothing else. The
 * stage's hooks run on the pipeline's owner; end_io runs on any thread of a shared pipeline.
 *
 * Locks, from the outside in: kp_inode.lock (open and reaping the dead) > the wait_lock of one rwsem.
 * As held by I/O: ext4's AIO mutex > i_rwsem. dio_lock.count_lock is a leaf.
 */
#ifndef KP_DIOLOCK_H
#define KP_DIOLOCK_H

#include "inode.h"
#include "stage.h"

enum dio_mode { UNLOCKED, SHARED, EXCLUSIVE };

/* How long the lock is held. */
enum dio_until {
	SUBMISSION, /* until all bios are submitted, also when the I/O is synchronous */
	CALL,	    /* until the system call returns: COMPLETION if synchronous, else SUBMISSION */
	COMPLETION,
};

enum dio_flags {
	AIO_WAITS = 1 << 0,	/* the call waits for asynchronous I/O */
	DRAINS = 1 << 1,	/* inode_dio_wait() under the lock, before submission */
	AIO_DRAINS = 1 << 2,	/* DRAINS for asynchronous I/O only */
	RETAKES = 1 << 3,	/* first taken shared, then released and taken as 'mode' says */
	DEMOTES = 1 << 4,	/* downgraded to shared before submission */
	DROPS = 1 << 5,		/* released for the time of the I/O, and taken again after it */
	AIO_MUTEX = 1 << 6,	/* asynchronous I/O holds ext4_aio_mutex() over the call */
	AIO_UNWRITTEN = 1 << 7, /* asynchronous I/O does ext4_unwritten_wait() before the lock */
	AIO_UNWRITTEN_AFTER = 1 << 8, /* it does so again under the lock, after submission */
};

struct dio_rule {
	uint8_t mode;
	uint8_t until;
	uint16_t flags;
};

/* What an I/O is to the inode. Blocks are those of the file system. */
enum dio_class {
	READ,
	OVERWRITE,	     /* all blocks are written */
	PREALLOCATED,	     /* at least one block unwritten, none missing */
	HOLE,		     /* at least one block missing */
	EXTENDING,	     /* begins at or before the end of the file and ends after it */
	BEYOND,		     /* begins after the end of the file */
	UNALIGNED_OVERWRITE, /* covers a block in part; all blocks are written */
	UNALIGNED,	     /* covers a block in part; not all blocks are written */
	UNALIGNED_EXTENDING,
	PUNCH, /* discard */
	NR_CLASSES,
};

struct dio_row {
	struct kp_variant variant;
	const char *rwsem;	/* the lock's rules in the first kernels of the row */
	bool eof_block_extends; /* an unaligned write that ends at the end of the file extends */
	struct dio_rule rules[NR_CLASSES];
};

/* diolock_classify - the class of an I/O, by size and blocks at this moment. Any thread. */
enum dio_class diolock_classify(const struct dio_row *row, const struct kp_inode *inode,
				const struct kp_bio *bio);

/*
 * diolock_rules - the lock's rules: those of rwsem=, of kernel=, or of the row. Return: NULL when
 * rwsem= names none. Any thread.
 */
const struct kp_rwsem_rules *diolock_rules(const struct kp_diolock_options *options,
					   const struct dio_row *row);

extern const struct kp_stage_ops diolock_ops;

#endif
