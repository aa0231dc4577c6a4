// SPDX-License-Identifier: GPL-2.0-only
/* The rules of the checksum policy. See decision.h. */
#include "decision.h"

static bool is_raid56(enum kp_raid_profile profile)
{
	return profile == KP_RAID_RAID5 || profile == KP_RAID_RAID6;
}

/* __btrfs_map_block() of 3.19 */
uint64_t kp_checksum_piece(enum kp_raid_profile profile, unsigned int devices, uint64_t pos,
			   bool write)
{
	uint64_t stripes = KP_CSUM_STRIPE;

	if (profile == KP_RAID_SINGLE)
		return KP_CSUM_CHUNK - pos % KP_CSUM_CHUNK;
	if (!is_raid56(profile) || !write)
		return KP_CSUM_STRIPE - pos % KP_CSUM_STRIPE;
	stripes *= devices - (profile == KP_RAID_RAID6 ? 2 : 1);
	return stripes - pos % stripes;
}

bool checksum_async_never(const struct kp_csum_decision *d)
{
	(void)d;
	return false;
}

bool checksum_async_always(const struct kp_csum_decision *d)
{
	(void)d;
	return true;
}

/* Up to 6.1, raid5 and raid6 compute inline, since workers would break full stripes up. */
bool checksum_async_pieces(const struct kp_csum_decision *d)
{
	return !d->whole && !is_raid56(d->profile);
}

bool checksum_async_large(const struct kp_csum_decision *d)
{
	if (d->whole && d->profile == KP_RAID_SINGLE)
		return d->size >= d->threshold;
	return checksum_async_pieces(d);
}

/* should_async_write() of 6.12. Its knob overrides the fast checksum, but not REQ_SYNC. */
bool checksum_async_slow(const struct kp_csum_decision *d)
{
	if (d->offload == KP_OFFLOAD_CSUM_OFF)
		return false;
	if (d->offload == KP_OFFLOAD_CSUM_AUTO && d->fast)
		return false;
	return !d->req_sync;
}
