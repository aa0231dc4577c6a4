/* SPDX-License-Identifier: GPL-2.0-only */
/* The rules of the checksum policy: who computes the sums of a write, and where a write is cut. */
#ifndef KP_CHECKSUM_DECISION_H
#define KP_CHECKSUM_DECISION_H

#include "stage.h"

#define KP_CSUM_STRIPE 65536u	    /* BTRFS_STRIPE_LEN */
#define KP_CSUM_CHUNK  (1ull << 30) /* a data chunk of the single profile */

/* struct kp_csum_decision - the facts that a rule looks at. */
struct kp_csum_decision {
	uint64_t size; /* of the application's I/O, in bytes */
	bool whole;    /* the file system maps it in one piece */
	bool fast;     /* BTRFS_FS_CSUM_IMPL_FAST */
	bool req_sync;
	enum kp_raid_profile profile;
	enum kp_offload_csum offload;
	uint64_t threshold;
};

/**
 * kp_checksum_piece - how many bytes from @pos on the file system maps in one piece.
 * @devices: number of devices; raid5 and raid6 write stripes that span all of them.
 *
 * __btrfs_map_block() of 3.19. Pure, any thread.
 */
uint64_t kp_checksum_piece(enum kp_raid_profile profile, unsigned int devices, uint64_t pos,
			   bool write);

/* The rules. Each of them is pure. */

/* checksum_async_always, checksum_async_never - whatever the write is. */
bool checksum_async_always(const struct kp_csum_decision *d);
bool checksum_async_never(const struct kp_csum_decision *d);

/* checksum_async_pieces - unless it is mapped in one piece; btrfs_submit_direct_hook() of 3.19. */
bool checksum_async_pieces(const struct kp_csum_decision *d);

/* checksum_async_large - from a size on in the single profile; otherwise as async_pieces. */
bool checksum_async_large(const struct kp_csum_decision *d);

/* checksum_async_slow - when the checksum is slow and the bio is not REQ_SYNC; 6.12. */
bool checksum_async_slow(const struct kp_csum_decision *d);

#endif
