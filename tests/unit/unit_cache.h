/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests of the page cache share: a unit with any of the variants. */
#ifndef KP_UNIT_CACHE_H
#define KP_UNIT_CACHE_H

#include "policy/cache/mapped.h"
#include "policy/cache/pages.h"
#include "policy/cache/users.h"
#include "policy/cache/wake.h"
#include "unit.h"

static struct unit unit;
static struct kp_cache_options options;

struct variant_case {
	const struct kp_policy *policy;
	const char *name;
};

static const struct variant_case cases[] = {
	{ &kp_writeback_policy, "overrun" },	  { &kp_writeback_policy, "v1" },
	{ &kp_writeback_policy, "overrun_once" }, { &kp_writeback_policy, "strict" },
	{ &kp_writeback_policy, "6.x" },	  { &kp_blocksize_policy, "logical" },
	{ &kp_blocksize_policy, "coalesce" },	  { &kp_blocksize_policy, "merge_bh" },
	{ &kp_blocksize_policy, "folio" },
};

#define NR_CASES 9 /* 0 to 4 are writeback's */

static inline void add_policy(const struct variant_case *c)
{
	const struct kp_variant *variant;
	char why[256];

	ck_assert_int_eq(kp_policy_find(c->policy, c->name, NULL, &variant, why, sizeof(why)), 0);
	unit_add_stage(&unit, c->policy, variant, &options);
	ck_assert_int_eq(kp_policy_find(&kp_plug_policy, NULL, NULL, &variant, why, sizeof(why)),
			 0);
	unit_add_stage(&unit, &kp_plug_policy, variant, NULL);
}

static inline void set_up_case(const struct variant_case *c, const char *backend)
{
	options = (struct kp_cache_options){
		.dirty_bytes = 128 * KIB,
		.dirty_background_bytes = 32 * KIB,
		.cache_bytes = 256 * KIB,
		.dirty_writeback_centisecs = 500,
		.dirty_expire_centisecs = 3000,
		.read_ahead_kb = 32,
		.nr_to_write = 8,
	};
	unit_init(&unit, backend);
	add_policy(c);
}

static inline struct page_cache *cache(void)
{
	struct page_cache *found;

	ck_assert_int_eq(cache_find(unit.arena, &found), 0);
	return found;
}

static inline uint64_t counter(enum cache_counter which)
{
	return unit.pl->slot->values[kp_counters_at(unit.stages[0].policy) + which];
}

#endif
