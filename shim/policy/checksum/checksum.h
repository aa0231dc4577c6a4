/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inside the checksum policy: who decides (checksum.c), the path of an I/O (checksum_io.c), copies
 * (checksum_mirror.c), sums across runs (checksum_file.c).
 */
#ifndef KP_CHECKSUM_H
#define KP_CHECKSUM_H

#include "core/liveness.h"
#include "stage.h"
#include "crc32c.h"
#include "csum_tree.h"
#include "ordered_range.h"
#include "work_queue.h"

#define KP_CSUM_STRIPE	    65536u	 /* BTRFS_STRIPE_LEN */
#define KP_CSUM_CHUNK	    (1ull << 30) /* a data chunk of the single profile */
#define KP_CSUM_THRESHOLD   65536u
#define KP_CSUM_BIO	    (KP_BIO_MAX_VECS * KP_PAGE_SIZE) /* largest bio of direct I/O */
#define KP_CSUM_MAX_MIRRORS 8u

/* ---- the decision -------------------------------------------------------------------------- */

/* struct kp_csum_decision - what the rules look at. */
struct kp_csum_decision {
	uint64_t size; /* of the bio that the application's I/O became */
	bool whole;    /* it was mapped in one piece */
	bool fast;     /* BTRFS_FS_CSUM_IMPL_FAST */
	bool req_sync;
	enum kp_raid_profile profile;
	enum kp_offload_csum offload;
	uint64_t threshold;
};

/**
 * kp_checksum_async - do the workers compute the sums of a write?
 * @variant: a row of kp_checksum_policy.
 *
 * Without regard to sync_writers, which cancels it. Pure, any thread.
 */
bool kp_checksum_async(const struct kp_variant *variant, const struct kp_csum_decision *decision);

/**
 * kp_checksum_piece - bytes from @pos on that the file system maps in one piece.
 * @devices: of the profile; raid5 and raid6 write whole stripes of them.
 *
 * Pure, any thread.
 */
uint64_t kp_checksum_piece(enum kp_raid_profile profile, unsigned int devices, uint64_t pos,
			   bool write);

struct checksum_row {
	struct kp_variant variant;
	bool (*async)(const struct kp_csum_decision *decision);
	bool sync_writers; /* may be cancelled by them */
	uint8_t bad_fill;  /* a sector that failed reads as this */
};

/* ---- the stage ----------------------------------------------------------------------------- */

enum checksum_counter {
	CSUM_BIOS_INLINE, /* writes, or pieces of them, whose sums the submitter computed */
	CSUM_BIOS_ASYNC,  /* and the workers */
	CSUM_SUMS_INLINE,
	CSUM_SUMS_ASYNC,
	CSUM_VERIFIED,	 /* sectors read and compared */
	CSUM_MISMATCHES, /* of which did not match */
	CSUM_REPAIRED,	 /* bad copies written anew from a good one */
	CSUM_RMW_READS,	 /* sectors read since a write covered them in part */
	CSUM_LOST,	 /* sums given up: a job died, or a write failed, while writing there */
	CSUM_RANGE_WAIT, /* KP_COUNTER_TIMES: an I/O waited for one that overlapped */
};

/* struct checksum_shared - one file, in the arena, for all jobs. */
struct checksum_shared {
	struct kp_csum_tree tree;
	struct kp_range_table ranges;
	int error; /* of the first open, for all: the sums could not be loaded */
	/*
	 * Atomic; fsyncs and O_SYNC writes in progress, by kp_liveness_join() id so that those of a
	 * job that was killed can be told. None behind last_sync_writer.
	 */
	uint32_t sync_writers[KP_LIVENESS_IDS + 1];
	uint32_t last_sync_writer;
	bool told_mismatch; /* atomic; said once per file and run */
	bool told_no_data;
	bool told_distance;
	bool block_device;
	bool writes; /* somebody opened it for writing, and the old sums are gone for good */
	/* Protects 'writes'. Robust: who dies inside has not set it. Nothing nests inside. */
	pthread_mutex_t lock;
	char sums[256];	 /* sums=FILE, made out for this file; empty: none */
	char path[4096]; /* the file itself */
	struct kp_file_key key;
	uint64_t size; /* when first opened */
};

/* struct checksum_file - one file of one pipeline. */
struct checksum_file {
	struct checksum_shared *shared;
	uint64_t distance; /* between copies; UINT64_MAX without */
	bool no_data;	   /* a null device that keeps nothing: sums are computed, not judged */
};

struct checksum {
	struct kp_stage stage;
	const struct checksum_row *row;
	struct kp_checksum_options options;
	kp_crc32c_fn crc32c;
	bool fast;
	uint64_t max_size;	/* bytes of the largest I/O, rounded out to sectors */
	unsigned int max_parts; /* struct kp_range of one I/O */
	struct kp_range_owner owner;
	uint64_t looked;	 /* when it was last asked whether a sync writer lives */
	struct kp_range *ranges; /* in the arena; max_parts for each of 'ios' */
	struct kp_pool ios;	 /* struct csum_io */
	struct kp_pool edges;	 /* two sectors, for I/O that is not aligned to them */
	struct kp_pool works;
	struct kp_pool mirrored;
	struct kp_bio_set set;
	/* Two queues, as in the kernel: what is REQ_SYNC never waits behind what is not. */
	struct kp_work_queue normal, high;
	bool has_normal, has_high;
	/* An I/O is on its way in; others that arrive meanwhile wait here, in order. */
	bool entered;
	struct kp_bio *pending, **pending_tail;
};

/*
 * struct csum_io - an I/O in flight. Pools hand objects out with their old contents, but for the
 * first word: what does not change with the I/O is set once.
 */
struct csum_io {
	struct checksum *cs;
	struct kp_bio *bio; /* the application's, or that of a stage above */
	void (*end_io)(struct kp_bio *bio);
	void *private;
	struct checksum_file *file;
	struct kp_iter original; /* of 'bio', before anybody moved it */
	/* Whole sectors, and the memory that they are read to or written from. */
	const struct kp_segment *vec;
	struct kp_iter iter;
	struct kp_bio *shadow; /* carries them when 'bio' is not aligned, else NULL */
	uint64_t carried_end;  /* where what was handed on ends */
	char *edge;
	unsigned int nr_parts;
	unsigned int nr; /* sectors */
	bool verify;
	bool sync_writer; /* counted in file->shared->sync_writers */
	/* Set once. */
	struct kp_range *parts;
	uint64_t *have, *bad;
	uint32_t *sums;
	struct kp_bio again; /* stands for it in kp_pipeline_defer() */
};

/* checksum_count - add to a counter from whatever thread. */
static inline void checksum_count(struct checksum *cs, enum checksum_counter which, uint64_t n)
{
	kp_pipeline_count(cs->stage.pipeline, &cs->stage.counters[which], n);
}

/* checksum_io.c */
void checksum_submit(struct kp_stage *stage, struct kp_bio *bio);
void checksum_finish_io(struct csum_io *io);
void checksum_lost(struct kp_range_owner *owner, struct kp_file *file, uint64_t start,
		   uint64_t end);
extern const struct kp_work_ops checksum_work_ops;

/* checksum_mirror.c */

/* checksum_submit_below - hand a read, or every copy of a write, to the next stage. */
void checksum_submit_below(struct checksum *cs, struct kp_bio *bio);

/**
 * checksum_read_sector - read one sector in place, from the first copy that is good, and write
 * the bad ones anew. The caller holds the range.
 * @sum: what it must have, NULL when it has none.
 * @data: a whole sector; behind the end of the file it is zeroes.
 * @got: receives the bytes that there were.
 * @bad: a bit for each copy that is known to be bad.
 *
 * Owner. Return: 0; -EIO no copy is good; the device's error.
 */
int checksum_read_sector(struct checksum *cs, struct kp_file *file, uint64_t sector,
			 const uint32_t *sum, char *data, size_t *got, unsigned int bad);

/* checksum_tell - say once per file that a sector does not match. Any thread. */
void checksum_tell(struct kp_file *file, struct checksum_file *cf, uint64_t pos, uint32_t expected,
		   uint32_t found);

/* checksum_repair - sectors in io->bad did not match; end the I/O after trying the copies. */
void checksum_repair(struct csum_io *io);

/* checksum_file.c */
int checksum_open(struct kp_stage *stage, struct kp_file *file);
void checksum_close(struct kp_stage *stage, struct kp_file *file);
void checksum_finish(struct kp_arena *arena);

#endif
