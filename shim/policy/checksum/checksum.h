/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The checksum policy: does the task that submits a write compute its CRC32C sums, or do workers?
 *
 * The stage stands for btrfs: it keeps a sum for every sector of 4 KiB that was written, computes the
 * sums of writes, and compares those of reads. It may keep several copies of the data (mirrors=), and
 * its sums in a file across runs (sums=).
 *
 *	stage.c		the table of variants, the options, set-up of the stage
 *	decision.c	the rules: who computes the sums, where the file system cuts a write
 *	io.c		the path of an I/O
 *	mirror.c	copies of the data, and sectors that do not match
 *	file.c		the state that jobs share about a file, and sums=FILE
 *	work_queue.c	btrfs's ordered work queue
 *	ordered_range.c	ranges with I/O in flight: ordered extents and the extent lock
 *	csum_tree.c	the sums of a file; crc32c.c computes them
 *
 * State: one struct checksum_shared per file in the arena, one struct checksum per pipeline, one
 * struct checksum_file per open file, one struct csum_io per I/O in flight.
 *
 * Callers: other folders use kp_checksum_policy and its options (kpolicy.h), and nothing else. I/O
 * enters on the owner's thread; sums and completion run on any thread.
 *
 * Locks: an I/O holds its range of the file from submission to completion; ranges are taken in the
 * order of the file. A bucket's lock, the work queue's lock and checksum_shared.lock are leaves: none
 * nests in another.
 */
#ifndef KP_CHECKSUM_H
#define KP_CHECKSUM_H

#include "core/liveness.h"
#include "stage.h"
#include "crc32c.h"
#include "csum_tree.h"
#include "decision.h"
#include "ordered_range.h"
#include "work_queue.h"

#define KP_CSUM_THRESHOLD   65536u
#define KP_CSUM_BIO	    (KP_BIO_MAX_VECS * KP_PAGE_SIZE) /* largest bio of direct I/O */
#define KP_CSUM_MAX_MIRRORS 8u

/* struct checksum_row - a variant. */
struct checksum_row {
	struct kp_variant variant;
	bool (*async)(const struct kp_csum_decision *decision);
	bool sync_writers; /* writers that sync cancel async: sync_writers= */
	uint8_t bad_fill;  /* the bytes that a reader gets of a bad sector */
};

/**
 * kp_checksum_async - do the workers compute the sums of a write?
 * @variant: a row of kp_checksum_policy.
 *
 * The result does not consider sync_writers=, which may cancel it. Pure, any thread.
 */
bool kp_checksum_async(const struct kp_variant *variant, const struct kp_csum_decision *decision);

/* ---- the stage ----------------------------------------------------------------------------- */

enum checksum_counter {
	CSUM_BIOS_INLINE, /* bios of writes whose sums the submitting task computed */
	CSUM_BIOS_ASYNC,  /* bios of writes whose sums the workers computed */
	CSUM_SUMS_INLINE,
	CSUM_SUMS_ASYNC,
	CSUM_VERIFIED,	 /* sectors read and compared */
	CSUM_MISMATCHES, /* sectors read whose sums did not match */
	CSUM_REPAIRED,	 /* bad copies that were written again from a good one */
	CSUM_RMW_READS,	 /* sectors read because a write covered them in part */
	CSUM_LOST,	 /* sums dropped because a write failed, or its job died */
	CSUM_RANGE_WAIT, /* KP_COUNTER_TIMES: waits for I/O that overlaps */
};

struct checksum_file;

/* struct checksum - the stage of one pipeline. */
struct checksum {
	struct kp_stage stage;
	const struct checksum_row *row;
	struct kp_checksum_options options;
	kp_crc32c_fn crc32c;
	bool fast;
	uint64_t max_size;	/* bytes of the largest I/O, rounded up to sectors at both ends */
	unsigned int max_parts; /* most struct kp_range that an I/O takes */
	struct kp_range_owner owner;
	uint64_t looked;	 /* when we last checked whether a sync writer is alive */
	struct kp_range *ranges; /* in the arena; max_parts for each of 'ios' */
	struct kp_pool ios;	 /* struct csum_io */
	struct kp_pool edges;	 /* two sectors each, for I/O that is not aligned to sectors */
	struct kp_pool works;	 /* struct csum_work */
	struct kp_pool mirrored; /* struct csum_mirrored */
	struct kp_bio_set set;
	/* Two queues, as in the kernel: a REQ_SYNC bio never waits behind one that is not. */
	struct kp_work_queue normal, high;
	bool has_normal, has_high;
	/* An I/O is in checksum_submit(). Those that arrive meanwhile wait in this list. */
	bool entered;
	struct kp_bio *pending, **pending_tail;
};

/*
 * struct csum_io - an I/O in flight. A pool hands objects out with their old contents, except for the
 * first word, so that the last members are set only once.
 */
struct csum_io {
	struct checksum *cs;
	struct kp_bio *bio; /* of the application, or of a stage above us */
	void (*end_io)(struct kp_bio *bio);
	void *private;
	struct checksum_file *file;
	struct kp_iter original; /* bio->iter as it came in */
	/* The whole sectors of the I/O, and the memory that they are read into or written from. */
	const struct kp_segment *vec;
	struct kp_iter iter;
	struct kp_bio *shadow; /* a bio of whole sectors when 'bio' is not aligned, else NULL */
	uint64_t carried_end;  /* end of the range that was handed to the next stage */
	char *edge;	       /* the two sectors of 'edges' */
	unsigned int nr_parts;
	unsigned int nr; /* sectors */
	bool verify;
	bool sync_writer; /* counted in file->shared->sync_writers */
	/* Set once. */
	struct kp_range *parts;
	uint64_t *have, *bad;
	uint32_t *sums;
	struct kp_bio again; /* stands for this I/O in kp_pipeline_defer() */
};

/* checksum_carrier - the bio that goes down: the shadow, or the bio itself. */
static inline struct kp_bio *checksum_carrier(const struct csum_io *io)
{
	return io->shadow ? io->shadow : io->bio;
}

/* checksum_count - add to a counter. Any thread. */
static inline void checksum_count(struct checksum *cs, enum checksum_counter which, uint64_t n)
{
	kp_pipeline_count(cs->stage.pipeline, &cs->stage.counters[which], n);
}

#endif
