// SPDX-License-Identifier: GPL-2.0-only
/*
 * The writeback scan: the worked traces of the specification, every variant, and random sets of
 * dirty pages, compared with a reference that decides page by page.
 */
#include <check.h>
#include <limits.h>
#include <stdlib.h>

#include "policy/cache/scan.h"

#define NR_PAGES 5000

/* Each ck_assert() writes to the runner, which is too slow once per page. */
#define require(condition)                        \
	do {                                      \
		if (!(condition))                 \
			ck_abort_msg(#condition); \
	} while (0)

/* ---- a dirty set over arrays --------------------------------------------------------------- */

struct extent {
	uint64_t start, nr;
};

struct set {
	bool dirty[NR_PAGES];
	bool mapped[NR_PAGES];
	bool writeback[NR_PAGES]; /* under writeback before the scan began */
	bool locked[NR_PAGES];
	bool integrity;
	/* A writer dirties this page next, one page in each round, up to the last. */
	uint64_t writer, writer_last;
	struct extent extents[NR_PAGES];
	unsigned int nr_extents;
	bool open;	      /* mapped pages of one round may still extend the last extent */
	unsigned int fail_at; /* the submission that fails, counted from 1 */
	unsigned int submissions, plugs;
};

static bool next_dirty(void *ctx, uint64_t from, uint64_t *index)
{
	struct set *set = ctx;

	for (; from < NR_PAGES; from++) {
		if (set->dirty[from]) {
			*index = from;
			return true;
		}
	}
	return false;
}

static bool lock(void *ctx, uint64_t index, bool wait)
{
	struct set *set = ctx;

	require(!set->locked[index]);
	require(wait == set->integrity);
	if (set->writeback[index] && !wait)
		return false;
	set->writeback[index] = false;
	set->locked[index] = true;
	return true;
}

static void unlock(void *ctx, uint64_t index)
{
	struct set *set = ctx;

	require(set->locked[index]);
	set->locked[index] = false;
}

static bool mapped(void *ctx, uint64_t index)
{
	struct set *set = ctx;

	require(set->locked[index]);
	return set->mapped[index];
}

static int submit(void *ctx, uint64_t start, uint64_t nr, bool is_mapped)
{
	struct set *set = ctx;
	struct extent *last = set->extents + set->nr_extents - 1;

	if (is_mapped)
		require(nr == 1);
	for (uint64_t page = start; page < start + nr; page++) {
		require(set->locked[page] && set->dirty[page]);
		require(set->mapped[page] == is_mapped);
		set->locked[page] = set->dirty[page] = false;
	}
	if (is_mapped && set->open && last->start + last->nr == start)
		last->nr++;
	else
		set->extents[set->nr_extents++] = (struct extent){ start, nr };
	set->open = is_mapped;
	return ++set->submissions == set->fail_at ? -EIO : 0;
}

static void end_round(void *ctx)
{
	struct set *set = ctx;

	set->open = false;
	if (set->writer && set->writer <= set->writer_last)
		set->dirty[set->writer++] = true;
}

static void finish_plug(void *ctx)
{
	((struct set *)ctx)->plugs++;
}

static const struct kp_writeback_ops ops = {
	.next_dirty = next_dirty,
	.lock = lock,
	.unlock = unlock,
	.mapped = mapped,
	.submit = submit,
	.end_round = end_round,
	.finish_plug = finish_plug,
};

static const struct kp_variant *variant(const char *name)
{
	for (unsigned int i = 0; i < KP_NR_WRITEBACK_ROWS; i++) {
		if (!strcmp(kp_writeback_rows[i].variant.name, name))
			return &kp_writeback_rows[i].variant;
	}
	ck_abort_msg("no variant %s", name);
	return NULL;
}

static void check_unlocked(const struct set *set)
{
	for (unsigned int i = 0; i < NR_PAGES; i++)
		require(!set->locked[i]);
}

/* Write the extents of a set as text, such as "0+4 5+1". */
static const char *extents_text(const struct set *set)
{
	static char text[1 << 16];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < set->nr_extents; i++)
		used += snprintf(text + used, sizeof(text) - used, "%s%llu+%llu", i ? " " : "",
				 (unsigned long long)set->extents[i].start,
				 (unsigned long long)set->extents[i].nr);
	return text;
}

/* ---- the worked traces --------------------------------------------------------------------- */

struct trace {
	const char *what;
	const char *dirty;     /* pages that are dirty, such as "0-9" or "0,1,3-6" */
	const char *is_mapped; /* pages that are mapped, in the same form */
	uint64_t writer, writer_last;
	long nr;
	const char *variants;
	const char *extents;
	long left;
	uint64_t needless;
};

#define SINGLES_4_9 " 4+1 5+1 6+1 7+1 8+1 9+1"

static const struct trace traces[] = {
	/* the table of the specification */
	{ "table", "0-9", "", 0, 0, 4, "overrun", "0+4" SINGLES_4_9, -6, 0 },
	{ "table", "0-9", "", 0, 0, 4, "v1", "0+4", 0, 2 },
	{ "table", "0-9", "", 0, 0, 4, "overrun_once strict", "0+4", 0, 0 },
	/* The first pass of 6.x has no transaction: it looks at page 0 and leaves it. */
	{ "table", "0-9", "", 0, 0, 4, "6.x", "0+4", 0, 1 },
	{ "writer adds a page per round", "0-9", "", 10, 14, 4, "overrun",
	  "0+4" SINGLES_4_9 " 10+1 11+1 12+1 13+1 14+1", -11, 0 },
	{ "writer adds a page per round", "0-9", "", 10, 14, 4, "v1", "0+4", 0, 2 },
	{ "writer adds a page per round", "0-9", "", 10, 14, 4, "overrun_once strict", "0+4", 0,
	  0 },
	{ "writer adds a page per round", "0-9", "", 10, 14, 4, "6.x", "0+4", 0, 1 },
	{ "gaps", "0,1,3-6", "", 0, 0, 4, "overrun", "0+2 3+2 5+1 6+1", -2, 0 },
	{ "gaps", "0,1,3-6", "", 0, 0, 4, "v1", "0+2 3+2", 0, 2 },
	{ "gaps", "0,1,3-6", "", 0, 0, 4, "overrun_once strict", "0+2 3+2", 0, 0 },
	{ "gaps", "0,1,3-6", "", 0, 0, 4, "6.x", "0+2 3+2", 0, 1 },
	{ "mapped, then delayed", "0-9", "0-2", 0, 0, 4, "overrun", "0+3 3+1" SINGLES_4_9, -6, 0 },
	{ "mapped, then delayed", "0-9", "0-2", 0, 0, 4, "v1", "0+3 3+1", 0, 2 },
	{ "mapped, then delayed", "0-9", "0-2", 0, 0, 4, "overrun_once strict", "0+3 3+1", 0, 0 },
	{ "mapped, then delayed", "0-9", "0-2", 0, 0, 4, "6.x", "0+3 3+1", 0, 1 },
	{ "all mapped", "0-9", "0-9", 0, 0, 4, "overrun overrun_once strict 6.x", "0+4", 0, 0 },
	{ "all mapped", "0-9", "0-9", 0, 0, 4, "v1", "0+4", 0, 1 },
	{ "nothing to spend", "0-9", "", 0, 0, 0, "overrun", "0+1 1+1 2+1 3+1" SINGLES_4_9, -10,
	  0 },
	{ "nothing to spend", "0-9", "", 0, 0, 0, "v1", "", 0, 1 },
	{ "nothing to spend", "0-9", "", 0, 0, 0, "overrun_once", "0+1", -1, 0 },
	{ "nothing to spend", "0-9", "", 0, 0, 0, "strict 6.x", "", 0, 0 },
	/* more pages than there are */
	{ "budget to spare", "2-5,8", "", 0, 0, 100, "overrun v1 overrun_once strict", "2+4 8+1",
	  95, 0 },
	{ "nothing dirty", "", "", 0, 0, 4, "overrun v1 overrun_once strict 6.x", "", 4, 0 },
};

static void mark(bool *pages, const char *list)
{
	char *end;

	while (*list) {
		uint64_t first = strtoull(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		for (; first <= last; first++)
			pages[first] = true;
		list = end + (*end == ',');
	}
}

static void check_trace(const struct trace *trace, const char *name)
{
	struct kp_writeback_control wbc = { .nr_to_write = trace->nr, .last = UINT64_MAX };
	struct set *set = calloc(1, sizeof(*set));

	ck_assert_ptr_nonnull(set);
	mark(set->dirty, trace->dirty);
	mark(set->mapped, trace->is_mapped);
	set->writer = trace->writer;
	set->writer_last = trace->writer_last;
	ck_assert_int_eq(kp_writeback_scan(variant(name), &ops, set, &wbc), 0);
	ck_assert_msg(!strcmp(extents_text(set), trace->extents), "%s, %s: extents %s, wanted %s",
		      trace->what, name, extents_text(set), trace->extents);
	ck_assert_msg(wbc.nr_to_write == trace->left, "%s, %s: left %ld, wanted %ld", trace->what,
		      name, wbc.nr_to_write, trace->left);
	ck_assert_msg(wbc.needless_locks == trace->needless,
		      "%s, %s: %llu needless locks, wanted %llu", trace->what, name,
		      (unsigned long long)wbc.needless_locks, (unsigned long long)trace->needless);
	ck_assert_uint_eq(wbc.extents, set->nr_extents);
	ck_assert_uint_eq(wbc.pages, trace->nr - wbc.nr_to_write);
	check_unlocked(set);
	free(set);
}

START_TEST(worked_traces)
{
	const struct trace *trace = &traces[_i];
	char names[64], *rest = names, *name;

	snprintf(names, sizeof(names), "%s", trace->variants);
	while ((name = strsep(&rest, " ")))
		check_trace(trace, name);
}
END_TEST

START_TEST(single_pages)
{
	struct kp_writeback_control wbc = { .nr_to_write = 4, .last = UINT64_MAX };
	struct set *set = calloc(1, sizeof(*set));

	mark(set->dirty, "0-9");
	kp_writeback_scan(variant("overrun"), &ops, set, &wbc);
	ck_assert_uint_eq(wbc.extents, 7);
	ck_assert_uint_eq(wbc.single_page_extents, 6);
	ck_assert_uint_eq(wbc.rounds, 8);
	free(set);
}
END_TEST

/* ---- one rule at a time, over every variant ------------------------------------------------ */

static struct set *new_set(const char *dirty, const char *is_mapped)
{
	struct set *set = calloc(1, sizeof(*set));

	ck_assert_ptr_nonnull(set);
	mark(set->dirty, dirty);
	mark(set->mapped, is_mapped);
	return set;
}

static void expect(const struct kp_writeback_row *row, struct set *set, const char *extents)
{
	ck_assert_msg(!strcmp(extents_text(set), extents), "%s: extents %s, wanted %s",
		      row->variant.name, extents_text(set), extents);
	check_unlocked(set);
	free(set);
}

START_TEST(extent_limit)
{
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = { .nr_to_write = 10000, .last = UINT64_MAX };
	struct set *set = new_set("0-4999", "");

	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	expect(row, set, "0+2048 2048+2048 4096+904");

	set = new_set("0-599", "");
	wbc.blocks_per_page = 8;
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	expect(row, set, "0+256 256+256 512+88");
}
END_TEST

/* WB_SYNC_ALL has no budget, waits for pages under writeback, and keeps to the range. */
START_TEST(integrity)
{
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = {
		.nr_to_write = 1, .integrity = true, .first = 3, .last = 3000
	};
	struct set *set = new_set("0-4999", "100-199");

	set->integrity = true;
	mark(set->writeback, "10-20,150");
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	ck_assert_int_eq(wbc.nr_to_write, LONG_MAX - 2998);
	expect(row, set, "3+97 100+100 200+2048 2248+753");
}
END_TEST

START_TEST(under_writeback)
{
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = { .nr_to_write = 100, .last = UINT64_MAX };
	struct set *set = new_set("0-9", "");

	mark(set->writeback, "0,4-5");
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	ck_assert(set->dirty[0] && set->dirty[4] && set->dirty[5]);
	expect(row, set, "1+3 6+4");
}
END_TEST

START_TEST(cyclic)
{
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = { .nr_to_write = 8,
					    .range_cyclic = true,
					    .writeback_index = 5 };
	struct set *set = new_set("0-9", "0-9");

	/* The scan writes 5 pages up to the end, then 3 of the 5 before the start. */
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	ck_assert_int_eq(wbc.nr_to_write, 0);
	ck_assert_uint_eq(wbc.writeback_index, 3);
	ck_assert_uint_eq(set->plugs, 2);
	expect(row, set, "5+5 0+3");

	/*
	 * The second half ends before the page where the first began, even if that is dirty
	 * again.
	 */
	wbc.nr_to_write = 20;
	wbc.writeback_index = 5;
	set = new_set("0-9", "0-9");
	set->writer = set->writer_last = 5;
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	ck_assert_uint_eq(wbc.writeback_index, 5);
	expect(row, set, "5+5 0+5");
}
END_TEST

/* 3.11 wrapped with no budget left; 9c12a831d73d stopped that. */
START_TEST(wrap_fault)
{
	static const char *const wrapped[KP_NR_WRITEBACK_ROWS] = {
		"5+5 0+1 1+1 2+1 3+1 4+1", "5+5", "5+5 0+1", "5+5", "5+5",
	};
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = { .nr_to_write = 5,
					    .range_cyclic = true,
					    .writeback_index = 5 };
	struct set *set = new_set("0-9", "");

	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	ck_assert_uint_eq(wbc.writeback_index, 10);
	expect(row, set, "5+5");

	wbc.nr_to_write = 5;
	wbc.writeback_index = 5;
	wbc.wrap_fault = true;
	set = new_set("0-9", "");
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), 0);
	expect(row, set, wrapped[_i]);
}
END_TEST

START_TEST(submit_error)
{
	const struct kp_writeback_row *row = &kp_writeback_rows[_i];
	struct kp_writeback_control wbc = { .nr_to_write = 100, .last = UINT64_MAX };
	struct set *set = new_set("0-3,10-12,20", "11");

	set->fail_at = 2;
	ck_assert_int_eq(kp_writeback_scan(&row->variant, &ops, set, &wbc), -EIO);
	expect(row, set, "0+4 10+1");
}
END_TEST

START_TEST(bio_pages)
{
	struct kp_queue_limits limits = { .max_sectors = 1280 * 2, .max_segments = 128 };

	ck_assert_uint_eq(kp_writeback_bio_pages(variant("overrun"), &limits), 128);
	ck_assert_uint_eq(kp_writeback_bio_pages(variant("6.x"), &limits), 256);
	limits.max_sectors = 33;
	ck_assert_uint_eq(kp_writeback_bio_pages(variant("strict"), &limits), 4);
	limits.max_sectors = 4;
	ck_assert_uint_eq(kp_writeback_bio_pages(variant("overrun_once"), &limits), 1);
}
END_TEST

START_TEST(kernels)
{
	static const struct kp_policy policy = {
		.name = "writeback",
		.default_variant = "6.x",
		.rows = kp_writeback_rows,
		.row_size = sizeof(*kp_writeback_rows),
		.nr_rows = KP_NR_WRITEBACK_ROWS,
	};
	static const char *const table[][2] = {
		{ "3.11", "overrun" },	{ "3.12.5", "overrun" }, { "3.13", "strict" },
		{ "5.10.7", "strict" }, { "6.3", "strict" },	 { "6.4", "6.x" },
		{ "6.19", "6.x" },
	};
	const struct kp_variant *found;
	char why[256];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_int_eq(
			kp_policy_find(&policy, NULL, table[i][0], &found, why, sizeof(why)), 0);
		ck_assert_str_eq(found->name, table[i][1]);
	}
}
END_TEST

/* ---- random sets against a reference ------------------------------------------------------- */

/*
 * The reference is the pseudo code of the specification over the whole array, with the test of
 * every variant spelled out. It makes no rounds of its own.
 */
enum { OVERRUN, V1, JAN, STRICT, SIX };

struct reference {
	struct set *set;
	int variant;
	long nr;
	uint64_t at; /* first_page */
	uint64_t needless;
	bool end;
};

static void reference_write(struct reference *ref, uint64_t start, uint64_t nr, bool grow)
{
	struct set *set = ref->set;
	struct extent *last = set->extents + set->nr_extents - 1;

	for (uint64_t i = start; i < start + nr; i++)
		set->dirty[i] = false;
	if (grow)
		last->nr += nr;
	else
		set->extents[set->nr_extents++] = (struct extent){ start, nr };
	ref->nr -= (long)nr;
	ref->at = start + nr;
}

/* One round. Return: the pages of the run. */
static uint64_t reference_round(struct reference *ref, bool may_map)
{
	struct set *set = ref->set;
	uint64_t start = 0, run = 0;
	bool grow = false;
	long left = ref->nr;
	uint64_t i = ref->at;

	ref->end = true;
	for (; i < NR_PAGES; i++) {
		bool is_mapped = set->mapped[i];

		if (!set->dirty[i]) {
			grow = false;
			continue;
		}
		ref->end = false;
		if ((ref->variant == STRICT && left <= 0) ||
		    (ref->variant == SIX && ref->nr - (long)run <= 0))
			break;
		if (run && start + run != i)
			break;
		if (set->writeback[i]) {
			grow = false;
			ref->end = true;
			continue;
		}
		if ((ref->variant == V1 && (long)run >= ref->nr) || (run && is_mapped) ||
		    run == KP_EXTENT_BLOCKS || (!may_map && !is_mapped)) {
			ref->needless++;
			break;
		}
		if (is_mapped) {
			reference_write(ref, i, 1, grow);
			grow = true;
		} else {
			start = run++ ? start : i;
		}
		left--;
		if ((ref->variant == OVERRUN || ref->variant == JAN) && (long)run >= ref->nr)
			break;
		ref->end = true;
	}
	if (run)
		reference_write(ref, start, run, false);
	end_round(set);
	return run;
}

static void reference_scan(struct reference *ref)
{
	if (ref->variant == SIX) {
		reference_round(ref, false);
		while (!ref->end && ref->nr > 0)
			reference_round(ref, true);
		return;
	}
	while (reference_round(ref, true)) {
		if (ref->variant == JAN && ref->nr <= 0)
			break;
	}
}

static void random_set(struct set *set, unsigned int pages)
{
	unsigned int dirty = rand() % 100, is_mapped = rand() % 3 ? 0 : rand() % 100;
	bool is_dirty = false, has_blocks = false;

	/* Runs are likelier than in noise: most pages are as the page before. */
	for (unsigned int i = 0; i < pages; i++) {
		if (rand() % 4 == 0)
			is_dirty = (unsigned int)rand() % 100 < dirty;
		if (rand() % 8 == 0)
			has_blocks = (unsigned int)rand() % 100 < is_mapped;
		set->dirty[i] = is_dirty;
		set->mapped[i] = has_blocks;
		set->writeback[i] = rand() % 40 == 0;
	}
	if (rand() % 2) {
		set->writer = pages;
		set->writer_last = pages + rand() % 20;
	}
}

START_TEST(against_reference)
{
	struct set *set = malloc(sizeof(*set)), *copy = malloc(sizeof(*copy));

	srand(1);
	for (int i = 0; i < 600; i++) {
		unsigned int pages = i % 50 ? 1 + rand() % 60 : NR_PAGES - 50;
		long nr = rand() % (pages + 10);
		struct kp_writeback_control wbc = { .nr_to_write = nr, .last = UINT64_MAX };
		struct reference ref = { .set = copy, .variant = _i, .nr = nr };

		memset(set, 0, sizeof(*set));
		random_set(set, pages);
		*copy = *set;
		ck_assert_int_eq(kp_writeback_scan(&kp_writeback_rows[_i].variant, &ops, set, &wbc),
				 0);
		reference_scan(&ref);
		ck_assert_uint_eq(set->nr_extents, copy->nr_extents);
		ck_assert_mem_eq(set->extents, copy->extents,
				 set->nr_extents * sizeof(*set->extents));
		ck_assert_mem_eq(set->dirty, copy->dirty, sizeof(set->dirty));
		ck_assert_int_eq(wbc.nr_to_write, ref.nr);
		ck_assert_uint_eq(wbc.needless_locks, ref.needless);
		check_unlocked(set);
	}
	free(set);
	free(copy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("writeback_scan");
	TCase *tcase = tcase_create("scan");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tcase, worked_traces, 0, sizeof(traces) / sizeof(*traces));
	tcase_add_test(tcase, single_pages);
	tcase_add_loop_test(tcase, extent_limit, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_loop_test(tcase, integrity, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_loop_test(tcase, under_writeback, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_loop_test(tcase, cyclic, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_loop_test(tcase, wrap_fault, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_loop_test(tcase, submit_error, 0, KP_NR_WRITEBACK_ROWS);
	tcase_add_test(tcase, bio_pages);
	tcase_add_test(tcase, kernels);
	tcase_add_loop_test(tcase, against_reference, 0, KP_NR_WRITEBACK_ROWS);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
