/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the table of direct-I/O locks and the stage that carries it out share: what an I/O is to an
 * inode, and what a row says of it.
 */
#ifndef KP_DIOLOCK_H
#define KP_DIOLOCK_H

#include "inode.h"

enum dio_mode { UNLOCKED, SHARED, EXCLUSIVE };

enum dio_until {
	SUBMISSION, /* released once all bios are submitted, also when the I/O is synchronous */
	CALL,	    /* held over the system call: to completion if synchronous, else SUBMISSION */
	COMPLETION,
};

enum dio_flags {
	AIO_WAITS = 1 << 0,	      /* asynchronous I/O is waited for in the call */
	DRAINS = 1 << 1,	      /* inode_dio_wait() under the lock, before submission */
	AIO_DRAINS = 1 << 2,	      /* the same for asynchronous I/O only */
	RETAKES = 1 << 3,	      /* shared at first, which is found wanting and given up */
	DEMOTES = 1 << 4,	      /* downgraded to shared before submission */
	DROPS = 1 << 5,		      /* released during the I/O and retaken after it */
	AIO_MUTEX = 1 << 6,	      /* asynchronous: ext4_aio_mutex() around everything */
	AIO_UNWRITTEN = 1 << 7,	      /* asynchronous: ext4_unwritten_wait() first */
	AIO_UNWRITTEN_AFTER = 1 << 8, /* and again under the lock after submission */
};

struct dio_rule {
	uint8_t mode;
	uint8_t until;
	uint16_t flags;
};

/* What an I/O is to an inode. Blocks are those of the file system. */
enum dio_class {
	READ,
	OVERWRITE,	     /* of written blocks */
	PREALLOCATED,	     /* at least one block unwritten, none missing */
	HOLE,		     /* at least one block missing */
	EXTENDING,	     /* begins at or before the end of the file and ends behind it */
	BEYOND,		     /* begins behind the end of the file */
	UNALIGNED_OVERWRITE, /* cuts a block; all are written */
	UNALIGNED,
	UNALIGNED_EXTENDING,
	PUNCH, /* discard */
	NR_CLASSES,
};

struct dio_row {
	struct kp_variant variant;
	const char *rwsem;	/* the lock of the first kernels of the row */
	bool eof_block_extends; /* an unaligned write that ends at the end of the file extends */
	struct dio_rule rules[NR_CLASSES];
};

/* diolock_classify - which class an I/O is, as far as size and blocks can tell at this moment. */
enum dio_class diolock_classify(const struct dio_row *row, const struct kp_inode *inode,
				const struct kp_bio *bio);

/* diolock_rules - the lock's own rules: of an option, or those of the row. NULL: no such rules. */
const struct kp_rwsem_rules *diolock_rules(const struct kp_diolock_options *options,
					   const struct dio_row *row);

extern const struct kp_stage_ops diolock_ops;

#endif
