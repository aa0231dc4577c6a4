// SPDX-License-Identifier: GPL-2.0-only
/* The index of a file's pages, compared with a plain table. */
#include "policy/cache/index.h"
#include "unit.h"

#define NR_NUMBERS 400u

static struct kp_arena *arena;
static struct page_index *index_;
static uint64_t numbers[NR_NUMBERS]; /* ascending */
static uint32_t ids[NR_NUMBERS];
static bool marks[PAGE_NR_MARKS][NR_NUMBERS];

static void set_up(void)
{
	ck_assert_int_eq(kp_arena_create(&arena, 1ull << 34), 0);
	index_ = kp_arena_alloc(arena, sizeof(*index_));
	ck_assert_ptr_nonnull(index_);
	memset(ids, 0, sizeof(ids));
	memset(marks, 0, sizeof(marks));
}

static void tear_down(void)
{
	kp_arena_destroy(arena);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Choose numbers in clusters, up to the largest that a file of 2^63 bytes can have. */
static void choose_numbers(unsigned int bits)
{
	for (unsigned int i = 0; i < NR_NUMBERS; i++)
		numbers[i] = (unit_random() >> (64 - bits) & ~127ull) + unit_between(0, 127);
	qsort(numbers, NR_NUMBERS, sizeof(*numbers), by_value);
	for (unsigned int i = 1; i < NR_NUMBERS; i++) {
		if (numbers[i] <= numbers[i - 1])
			numbers[i] = numbers[i - 1] + 1;
	}
}

static void check_next(enum page_mark mark)
{
	unsigned int at = unit_between(0, NR_NUMBERS - 1);
	uint64_t from = unit_random() & 1 ? numbers[at] : numbers[at] + 1;
	uint64_t number = 0;
	uint32_t id = page_index_next(index_, from, mark, &number);

	while (at < NR_NUMBERS && (numbers[at] < from || !ids[at] || !marks[mark][at]))
		at++;
	if (at == NR_NUMBERS) {
		ck_assert_uint_eq(id, 0);
		return;
	}
	ck_assert_uint_eq(id, ids[at]);
	ck_assert_uint_eq(number, numbers[at]);
}

static void step(void)
{
	unsigned int at = unit_between(0, NR_NUMBERS - 1);
	enum page_mark mark = unit_between(PAGE_DIRTY, PAGE_NR_MARKS - 1);

	ck_assert_uint_eq(page_index_find(index_, numbers[at]), ids[at]);
	if (!ids[at]) {
		ids[at] = unit_between(1, 1u << 30);
		ck_assert_int_eq(page_index_insert(index_, arena, numbers[at], ids[at]), 0);
		marks[PAGE_PRESENT][at] = true;
	} else if (unit_random() & 1) {
		page_index_remove(index_, numbers[at]);
		ids[at] = 0;
		for (unsigned int i = 0; i < PAGE_NR_MARKS; i++)
			marks[i][at] = false;
	} else if (unit_random() & 1) {
		page_index_set(index_, numbers[at], mark);
		marks[mark][at] = true;
	} else {
		page_index_clear(index_, numbers[at], mark);
		marks[mark][at] = false;
	}
	check_next(unit_between(0, PAGE_NR_MARKS - 1));
}

START_TEST(test_random)
{
	static const unsigned int bits[] = { 7, 12, 20, 28, 40, 51 };

	choose_numbers(bits[_i]);
	for (unsigned int i = 0; i < 40000; i++)
		step();
}
END_TEST

START_TEST(test_nodes_come_back)
{
	uint32_t nodes;

	for (uint64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(page_index_insert(index_, arena, i << 30, 1), 0);
	nodes = index_->nr_nodes;
	for (uint64_t i = 0; i < 1000; i++)
		page_index_remove(index_, i << 30);
	ck_assert_uint_eq(index_->root, 0);
	for (uint64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(page_index_insert(index_, arena, i << 30, 1), 0);
	ck_assert_uint_eq(index_->nr_nodes, nodes);
	page_index_reset(index_);
	ck_assert_uint_eq(page_index_find(index_, 0), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page_index");
	TCase *tests = tcase_create("index");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, test_random, 0, 6);
	tcase_add_test(tests, test_nodes_come_back);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
