/* SPDX-License-Identifier: GPL-2.0-only */
/* Counting: one slot per pipeline, in the arena. */
#ifndef KP_COUNTERS_H
#define KP_COUNTERS_H

#include "bio.h"
#include "kpolicy.h"
#include "util.h"

enum kp_counter_kind {
	KP_COUNTER_SUM,	  /* added up over the slots */
	KP_COUNTER_MAX,	  /* the largest of the slots */
	KP_COUNTER_SIZES, /* histogram of sizes in bytes by powers of two: KP_SIZE_BUCKETS values */
	KP_COUNTER_TIMES, /* distribution of times: KP_TIME_VALUES values, shown as NAME_p50_ns ... */
};

/* A KP_COUNTER_TIMES is a count, a sum and a maximum, then a quarter of an octave per bucket. */
#define KP_TIME_BUCKETS 160
#define KP_TIME_VALUES	(3 + KP_TIME_BUCKETS)

struct kp_counter_desc {
	const char *name; /* ends in its unit: _ns, _bytes; a plain number otherwise */
	enum kp_counter_kind kind;
};

/*
 * kp_count - add to a counter that only one thread at a time writes. The compiler emits plain
 * instructions, and a process that reads the counter meanwhile sees a whole value.
 */
static inline void kp_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* kp_count_max - raise a maximum that only one thread at a time writes. */
static inline void kp_count_max(uint64_t *counter, uint64_t value)
{
	if (value > __atomic_load_n(counter, __ATOMIC_RELAXED))
		__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* kp_counters_width - values that some counters take up in a slot. */
unsigned int kp_counters_width(const struct kp_counter_desc *counters, unsigned int nr);

/* kp_counters_at - where the counters of @policy begin in a slot, the same in every slot. */
unsigned int kp_counters_at(const struct kp_policy *policy);

/* kp_count_time - add @ns to a KP_COUNTER_TIMES that only one thread at a time writes. */
void kp_count_time(uint64_t *counter, uint64_t ns);

/* kp_size_bucket - the bucket of a size in a KP_COUNTER_SIZES histogram. */
static inline unsigned int kp_size_bucket(uint64_t bytes)
{
	unsigned int bits = 64 - __builtin_clzll((bytes - !!bytes) | (KP_SECTOR_SIZE - 1));

	return kp_min(bits - KP_SECTOR_SHIFT, KP_SIZE_BUCKETS - 1u);
}

/*
 * kp_counters_settle - add the latest runs to the counters that follow from them. To be called
 * before the values of a slot are read. The thread that counts, or any after it.
 */
void kp_counters_settle(struct kp_counter_slot *slot);

/* Settle the run of the last size, and begin one of @bytes each with one. The thread that counts. */
void kp_counters_begin_ios(struct kp_counter_slot *slot, uint64_t bytes);
void kp_counters_begin_requests(struct kp_counter_slot *slot, uint64_t bytes);
void kp_counters_begin_transfers(struct kp_counter_slot *slot, uint64_t bytes);

/*
 * kp_count_io - count an I/O that transferred @bytes; 0 if it failed or has no data.
 * kp_count_request - count a request of one bio of @bytes.
 * kp_count_transfer - count an I/O that was a request as it was, and transferred @bytes.
 *
 * A job mostly does I/Os of one size: then the length of a run is all that changes. One thread at
 * a time.
 */
static inline void kp_count_io(struct kp_counter_slot *slot, uint64_t bytes)
{
	if (kp_likely(slot->ios.bytes == bytes))
		kp_count(&slot->ios.nr, 1);
	else
		kp_counters_begin_ios(slot, bytes);
}

static inline void kp_count_request(struct kp_counter_slot *slot, uint64_t bytes)
{
	if (kp_likely(slot->requests.bytes == bytes))
		kp_count(&slot->requests.nr, 1);
	else
		kp_counters_begin_requests(slot, bytes);
}

static inline void kp_count_transfer(struct kp_counter_slot *slot, uint64_t bytes)
{
	if (kp_likely(slot->transfers.bytes == bytes))
		kp_count(&slot->transfers.nr, 1);
	else
		kp_counters_begin_transfers(slot, bytes);
}

/* kp_request_is_in_run - would a request of @bytes go on with the run? */
static inline bool kp_request_is_in_run(const struct kp_counter_slot *slot, uint64_t bytes)
{
	return slot->requests.bytes == bytes;
}

/* kp_count_in_run - kp_count_request() of a request for which that is so. */
static inline void kp_count_in_run(struct kp_counter_slot *slot)
{
	kp_count(&slot->requests.nr, 1);
}

#endif
