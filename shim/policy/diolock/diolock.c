// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of direct-I/O locks (policy P3), and the classes of I/O.
 *
 * In 4.8 a direct read took i_rwsem exclusive and released it before it waited for the I/O.
 * 16c54688592c ("ext4: Allow parallel DIO reads", 4.9) made it take i_rwsem shared, and hold it until
 * a synchronous read has completed. For each class of I/O, a row says in which mode the lock is
 * taken, how long it is held, and what the I/O waits for. dio.c does what the row says.
 */
#include "diolock.h"

/* clang-format off */
#define NO_LOCK	 { UNLOCKED, SUBMISSION, 0 } /* unless a job punches a hole */
#define S	 { SHARED, CALL, 0 }
#define X	 { EXCLUSIVE, CALL, 0 }
#define X_SUBMIT { EXCLUSIVE, SUBMISSION, 0 }
#define X_WAIT	 { EXCLUSIVE, COMPLETION, AIO_WAITS }
#define X_DROP	 { EXCLUSIVE, SUBMISSION, DROPS }
#define X_ALONE	 { EXCLUSIVE, COMPLETION, AIO_WAITS | DRAINS }
#define X_HELD	 { EXCLUSIVE, COMPLETION, 0 }

#define WRITES_IN_FILE(...)    [OVERWRITE] = __VA_ARGS__, [PREALLOCATED] = __VA_ARGS__, \
			       [HOLE] = __VA_ARGS__
#define WRITES_AT_END(...)     [EXTENDING] = __VA_ARGS__, [BEYOND] = __VA_ARGS__
#define UNALIGNED_IN_FILE(...) [UNALIGNED_OVERWRITE] = __VA_ARGS__, [UNALIGNED] = __VA_ARGS__
#define UNALIGNED_WRITES(...)  UNALIGNED_IN_FILE(__VA_ARGS__), \
			       [UNALIGNED_EXTENDING] = __VA_ARGS__

/* Up to 4.8, ext4_file_write_iter() has a second mutex for unaligned asynchronous writes. */
#define EXT4_48_UNALIGNED                                                   \
	UNALIGNED_IN_FILE({ EXCLUSIVE, CALL, AIO_MUTEX | AIO_UNWRITTEN }), \
	[UNALIGNED_EXTENDING] = { EXCLUSIVE, COMPLETION, AIO_WAITS | AIO_MUTEX | AIO_UNWRITTEN }

/*
 * From 5.2 on, the next asynchronous write waits until the block that this one covers in part is
 * converted.
 */
#define EXT4_49_UNALIGNED                                                             \
	UNALIGNED_IN_FILE({ EXCLUSIVE, CALL, AIO_UNWRITTEN | AIO_UNWRITTEN_AFTER }), \
	[UNALIGNED_EXTENDING] = { EXCLUSIVE, COMPLETION, AIO_WAITS | AIO_UNWRITTEN }

/* An asynchronous write waits for all other direct I/O on the file, and the call waits for it. */
#define EXT4_55_UNALIGNED UNALIGNED_WRITES({ EXCLUSIVE, COMPLETION, AIO_WAITS | AIO_DRAINS })
/* clang-format on */

static const struct dio_row rows[] = {
	{
		.variant = {
			.name = "ext4-4.8",
			.since = "4.3",
			.until = "4.8",
			.commit = "before 16c54688592c",
			.summary = "reads exclusive until submitted, writes exclusive over the call",
			.omits = "the mutex that i_rwsem was before 4.7; journal and mapping",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = X_SUBMIT,
			WRITES_IN_FILE(X),
			WRITES_AT_END(X_WAIT),
			EXT4_48_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-4.8-nolock",
			.since = "4.3",
			.until = "4.8",
			.commit = "before 16c54688592c",
			.summary = "dioread_nolock: reads take no lock, overwrites drop it meanwhile",
			.omits = "as ext4-4.8",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = NO_LOCK,
			[OVERWRITE] = X_DROP,
			[PREALLOCATED] = X,
			[HOLE] = X,
			WRITES_AT_END(X_WAIT),
			EXT4_48_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-4.9",
			.since = "4.9",
			.until = "5.4",
			.commit = "16c54688592c",
			.summary = "reads shared over the call, writes exclusive over the call",
			.omits = "that 4.9 to 5.0 do not wait after an unaligned AIO; journal",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(X),
			WRITES_AT_END(X_WAIT),
			EXT4_49_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-4.9-nolock",
			.since = "4.9",
			.until = "5.4",
			.commit = "16c54688592c",
			.summary = "dioread_nolock: as ext4-4.9, but overwrites drop the lock meanwhile",
			.omits = "as ext4-4.9",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = S,
			[OVERWRITE] = X_DROP,
			[PREALLOCATED] = X,
			[HOLE] = X,
			WRITES_AT_END(X_WAIT),
			EXT4_49_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-5.5",
			.since = "5.5",
			.until = "5.5",
			.commit = "378f32bab371",
			.summary = "as ext4-4.9; an unaligned AIO waits for all others and for itself",
			.omits = "journal and mapping",
		},
		.rwsem = "5.3",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(X),
			WRITES_AT_END(X_WAIT),
			EXT4_55_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-5.5-nolock",
			.since = "5.5",
			.until = "5.5",
			.commit = "378f32bab371",
			.summary = "dioread_nolock: as ext4-5.5, but overwrites downgrade to shared",
			.omits = "journal and mapping",
		},
		.rwsem = "5.3",
		.rules = {
			[READ] = S,
			[OVERWRITE] = { EXCLUSIVE, CALL, DEMOTES },
			[PREALLOCATED] = X,
			[HOLE] = X,
			WRITES_AT_END(X_WAIT),
			EXT4_55_UNALIGNED,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-5.6",
			.since = "5.6",
			.until = "6.2",
			.commit = "bc6385dab125, aa9714d0e397",
			.summary = "reads and overwrites of written blocks shared over the call",
			.omits = "security updates; journal",
		},
		.rwsem = "5.3",
		.rules = {
			[READ] = S,
			[OVERWRITE] = S,
			[PREALLOCATED] = { EXCLUSIVE, CALL, RETAKES },
			[HOLE] = { EXCLUSIVE, CALL, RETAKES },
			WRITES_AT_END(X_WAIT),
			UNALIGNED_WRITES(X_ALONE),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-6.3",
			.since = "6.3",
			.until = "6.4",
			.commit = "240930fb7e6b",
			.summary = "as ext4-5.6; shared also into preallocated blocks",
			.omits = "as ext4-6.12",
		},
		.rwsem = "5.11",
		.rules = {
			[READ] = S,
			[OVERWRITE] = S,
			[PREALLOCATED] = S,
			[HOLE] = { EXCLUSIVE, CALL, RETAKES },
			WRITES_AT_END(X_WAIT),
			UNALIGNED_WRITES(X_ALONE),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-6.12",
			.since = "6.5",
			.until = "7.2",
			.commit = "310ee0902b8d",
			.summary = "shared also into preallocated blocks, and unaligned over written ones",
			.omits = "exclusive over written and preallocated blocks together; security "
				 "updates; atomic writes; journal",
		},
		.rwsem = "5.11",
		.rules = {
			[READ] = S,
			[OVERWRITE] = S,
			[PREALLOCATED] = S,
			[HOLE] = { EXCLUSIVE, CALL, RETAKES },
			WRITES_AT_END(X_WAIT),
			[UNALIGNED_OVERWRITE] = S,
			[UNALIGNED] = { EXCLUSIVE, COMPLETION, AIO_WAITS | DRAINS | RETAKES },
			[UNALIGNED_EXTENDING] = X_ALONE,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "ext4-7.3",
			.since = "7.3",
			.until = "7.3",
			.commit = "63b314a7795e, 07961ebb09c9",
			.summary = "as ext4-6.12; shared into holes too",
			.omits = "unaligned writes that need no zeroing; buffered writes that drain "
				 "direct I/O (15cdefd0c052); atomic writes; journal",
		},
		.rwsem = "5.11",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(S),
			WRITES_AT_END(X_WAIT),
			[UNALIGNED_OVERWRITE] = S,
			[UNALIGNED] = { EXCLUSIVE, COMPLETION, AIO_WAITS | DRAINS | RETAKES },
			[UNALIGNED_EXTENDING] = X_ALONE,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "xfs-4.9",
			.since = "4.9",
			.until = "5.0",
			.commit = "xfs_file_dio_aio_write() of 4.9",
			.summary = "shared; exclusive and demoted beyond EOF; unaligned exclusive, drained",
			.omits = "zeroing beyond EOF, reflink, page cache, layouts",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(S),
			[EXTENDING] = S,
			[BEYOND] = { EXCLUSIVE, CALL, RETAKES | DRAINS | DEMOTES },
			UNALIGNED_WRITES({ EXCLUSIVE, CALL, DRAINS }),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "xfs-5.2",
			.since = "5.1",
			.until = "5.11",
			.commit = "xfs_file_dio_aio_write() of 5.2",
			.summary = "as xfs-4.9; an unaligned AIO is waited for under the lock",
			.omits = "as xfs-4.9",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(S),
			[EXTENDING] = S,
			[BEYOND] = { EXCLUSIVE, CALL, RETAKES | DRAINS | DEMOTES },
			UNALIGNED_WRITES(X_ALONE),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "xfs-6.12",
			.since = "5.12",
			.until = "7.3",
			.commit = "xfs_file_dio_write_unaligned() of 6.12",
			.summary = "as xfs-5.2; unaligned overwrites of written blocks shared",
			.omits = "as xfs-4.9; atomic writes",
		},
		.rwsem = "5.11",
		.eof_block_extends = true,
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(S),
			[EXTENDING] = S,
			[BEYOND] = { EXCLUSIVE, CALL, RETAKES | DRAINS | DEMOTES },
			[UNALIGNED_OVERWRITE] = S,
			[UNALIGNED] = { EXCLUSIVE, COMPLETION, AIO_WAITS | DRAINS | RETAKES },
			[UNALIGNED_EXTENDING] = X_ALONE,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "btrfs-4.9",
			.since = "4.9",
			.until = "5.9",
			.commit = "btrfs_direct_IO() of 4.9",
			.summary = "reads take no lock, writes drop it during the I/O unless extending",
			.omits = "buffered fallback of unaligned writes; extent locks; copy on write",
		},
		.rwsem = "4.9",
		.rules = {
			[READ] = NO_LOCK,
			WRITES_IN_FILE(X_DROP),
			WRITES_AT_END(X_WAIT),
			UNALIGNED_WRITES(X_WAIT),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "btrfs-5.10",
			.since = "5.10",
			.until = "5.10",
			.commit = "btrfs_direct_IO() of 5.10",
			.summary = "as btrfs-4.9, but reads shared over the call",
			.omits = "as btrfs-4.9",
		},
		.rwsem = "5.3",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(X_DROP),
			WRITES_AT_END(X),
			UNALIGNED_WRITES(X_WAIT),
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "btrfs-5.11",
			.since = "5.11",
			.until = "6.19",
			.commit = "e9adabb9712e",
			.summary = "reads and writes within the file shared over the call",
			.omits = "as btrfs-4.9; security updates; the fallback to the page cache of 6.15 on, "
				 "in stable releases too",
		},
		.rwsem = "5.11",
		.rules = {
			[READ] = S,
			WRITES_IN_FILE(S),
			WRITES_AT_END(X),
			UNALIGNED_IN_FILE({ EXCLUSIVE, COMPLETION, AIO_WAITS | RETAKES }),
			[UNALIGNED_EXTENDING] = X_WAIT,
			[PUNCH] = X_ALONE,
		},
	},
	{
		.variant = {
			.name = "exclusive",
			.commit = "no kernel",
			.summary = "one lock around everything until completion: the teaching case",
		},
		.rwsem = "5.11",
		.rules = {
			[READ] = X_HELD,
			WRITES_IN_FILE(X_HELD),
			WRITES_AT_END(X_HELD),
			UNALIGNED_WRITES(X_HELD),
			[PUNCH] = X_HELD,
		},
	},
};

enum dio_class diolock_classify(const struct dio_row *row, const struct kp_inode *inode,
				const struct kp_bio *bio)
{
	uint64_t pos = bio->iter.pos, end = pos + bio->iter.size;
	uint64_t size = kp_inode_size(inode);
	enum kp_blocks blocks;

	if (bio->op == KP_OP_READ)
		return READ;
	if (bio->op == KP_OP_DISCARD)
		return PUNCH;
	if (pos % inode->block_size || end % inode->block_size) {
		if (end > size || (row->eof_block_extends && end == size))
			return UNALIGNED_EXTENDING;
		blocks = kp_inode_blocks(inode, pos, end - pos);
		return blocks == KP_BLOCKS_WRITTEN ? UNALIGNED_OVERWRITE : UNALIGNED;
	}
	if (end > size)
		return pos > size ? BEYOND : EXTENDING;
	blocks = kp_inode_blocks(inode, pos, end - pos);
	return OVERWRITE + blocks;
}

const struct kp_rwsem_rules *diolock_rules(const struct kp_diolock_options *options,
					   const struct dio_row *row)
{
	if (options && options->rwsem)
		return kp_rwsem_find(options->rwsem);
	if (options && options->kernel)
		return kp_rwsem_of_kernel(options->kernel);
	return kp_rwsem_find(row->rwsem);
}

static int check_options(const void *stage_options, const struct kp_variant *variant, char *why,
			 size_t why_size)
{
	const struct kp_diolock_options *options = stage_options;

	if (!options->rwsem)
		return 0;
	if (!variant) {
		snprintf(why, why_size,
			 "rwsem=%s: policy=none takes no lock, drop rwsem=", options->rwsem);
		return -EINVAL;
	}
	if (!kp_rwsem_find(options->rwsem)) {
		snprintf(why, why_size, "rwsem=%s: unknown, give one of: 4.9, 5.3, 5.11",
			 options->rwsem);
		return -EINVAL;
	}
	return 0;
}

const struct kp_policy kp_diolock_policy = {
	.name = "diolock",
	.summary = "how the inode is locked around direct I/O",
	.default_variant = "ext4-4.9",
	.ops = &diolock_ops,
	.check = check_options,
	.rows = rows,
	.row_size = sizeof(*rows),
	.nr_rows = sizeof(rows) / sizeof(*rows),
};
