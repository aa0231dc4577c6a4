// SPDX-License-Identifier: GPL-2.0-only
/*
 * The writeback scan against the kernels: which pages each call of ext4_writepages() wrote, in which
 * order, and where it left off. A call's budget and its begin are the kernel's own; what it does
 * with them is ours to say.
 */
#include <limits.h>

#include "policy/cache/scan.h"
#include "replay.h"

#define MAX_PAGES 8192

struct file {
	bool dirty[MAX_PAGES], mapped[MAX_PAGES], towrite[MAX_PAGES];
	bool integrity;
	/* The answer of one call. */
	char *to;
	size_t size, used;
	uint64_t start, pages;
};

/* falsified() sets it: a budget that is off by so much. */
static long less_budget;

static bool next_dirty(void *ctx, uint64_t from, uint64_t *index)
{
	struct file *file = ctx;

	for (; from < MAX_PAGES; from++) {
		if (file->integrity ? file->towrite[from] : file->dirty[from]) {
			*index = from;
			return true;
		}
	}
	return false;
}

static bool lock(void *ctx, uint64_t index, bool wait)
{
	struct file *file = ctx;

	(void)wait;
	return file->dirty[index];
}

static void unlock(void *ctx, uint64_t index)
{
	(void)ctx;
	(void)index;
}

static bool mapped(void *ctx, uint64_t index)
{
	return ((struct file *)ctx)->mapped[index];
}

static void end_run(struct file *file)
{
	if (file->pages)
		file->used += snprintf(file->to + file->used, file->size - file->used, " %lu+%lu",
				       file->start, file->pages);
	file->pages = 0;
}

static int submit(void *ctx, uint64_t start, uint64_t nr, bool is_mapped)
{
	struct file *file = ctx;

	(void)is_mapped;
	if (!file->pages || file->start + file->pages != start) {
		end_run(file);
		file->start = start;
	}
	file->pages += nr;
	for (uint64_t page = start; page < start + nr; page++) {
		file->dirty[page] = file->towrite[page] = false;
		file->mapped[page] = true;
	}
	return 0;
}

static const struct kp_writeback_ops ops = {
	.next_dirty = next_dirty,
	.lock = lock,
	.unlock = unlock,
	.mapped = mapped,
	.submit = submit,
};

static void mark(const char *list, bool *pages, char only)
{
	if (!strcmp(list, "-"))
		return;
	while (*list) {
		char kind = *list >= 'a' ? *list++ : 0, *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		ck_assert_uint_lt(last, MAX_PAGES);
		for (; kind == only && first <= last; first++)
			pages[first] = true;
		list = end + (*end == ',');
	}
}

/* One call, of which @theirs says how it began. Return: what follows it. */
static const char *replay_call(const struct kp_variant *variant, struct file *file,
			       const char *theirs)
{
	struct kp_writeback_control wbc = { .last = UINT64_MAX };
	unsigned long index;
	long nr, before;
	int sync, cyclic;

	ck_assert_int_eq(
		sscanf(theirs, "nr=%ld sync=%d cyclic=%d index=%lu", &nr, &sync, &cyclic, &index),
		4);
	wbc.nr_to_write = before = nr < 0 ? LONG_MAX : nr - less_budget;
	wbc.integrity = file->integrity = sync;
	wbc.range_cyclic = cyclic;
	wbc.writeback_index = index;
	if (sync)
		memcpy(file->towrite, file->dirty, sizeof(file->dirty));
	file->used += snprintf(file->to + file->used, file->size - file->used,
			       "nr=%ld sync=%d cyclic=%d index=%lu:", nr, sync, cyclic, index);
	kp_writeback_scan(variant, &ops, file, &wbc);
	end_run(file);
	file->used += snprintf(file->to + file->used, file->size - file->used, " > %ld %lu",
			       before - wbc.nr_to_write, wbc.writeback_index);
	return strstr(theirs, " | ");
}

static bool answer(struct replay *replay, const char *rest, const char *theirs, char *ours,
		   size_t size)
{
	const struct kp_variant *variant = replay_variant(&kp_writeback_policy, replay->kernel);
	static char layout[8192], dirty[8192];
	static struct file file;

	if (!variant) {
		snprintf(ours, size, "no row");
		return true;
	}
	ck_assert_int_eq(sscanf(rest, "%*s %8191s %8191s", layout, dirty), 2);
	file = (struct file){ .to = ours, .size = size };
	mark(layout, file.mapped, 'w');
	mark(dirty, file.dirty, 0);
	ours[0] = '\0';
	while (*theirs) {
		theirs = replay_call(variant, &file, theirs);
		if (!theirs)
			break;
		file.used += snprintf(ours + file.used, size - file.used, " | ");
		theirs += 3;
	}
	return true;
}

START_TEST(as_recorded)
{
	static struct replay replay = { .group = "writeback", .answer = answer };

	replay_all(&replay);
}
END_TEST

/* A budget that is off by a page shows in every recording that we answer rightly. */
START_TEST(off_by_one)
{
	static struct replay replay = { .group = "writeback", .quiet = true, .answer = answer };

	replay_load(&replay);
	for (char **kernel = replay_kernels("writeback"); *kernel; kernel++) {
		unsigned int right;

		less_budget = 0;
		replay_run(&replay, *kernel);
		right = replay.different;
		less_budget = 1;
		replay_run(&replay, *kernel);
		ck_assert_msg(right > replay.compared / 2 || replay.different > right + 20,
			      "%s: a page less makes %u differences of %u", *kernel,
			      replay.different, right);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay writeback");
	TCase *tcase = tcase_create("replay writeback");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, as_recorded);
	tcase_add_test(tcase, off_by_one);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
