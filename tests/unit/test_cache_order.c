// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffered I/Os of one job that overlap while in flight (time limit: 120). In the kernel a task's
 * buffered write is done when the call returns, so that its next read or write sees it: no I/O may
 * overtake one that was submitted before it, whatever waits for pages, memory or the device.
 */
#include "unit_cache.h"

#define SIZE  (512 * KIB) /* twice the cache */
#define HOT   (32 * KIB)  /* where half of the I/Os meet */
#define DEPTH 32
#define STEPS 1500

static unsigned char model[SIZE], image[SIZE];

/* An I/O in flight, and for a read what it has to see: the file as it was when it was submitted. */
static struct slot {
	struct kp_io io;
	bool busy;
	uint64_t pos, len;
	unsigned char *data, *wanted;
} slots[DEPTH];

static struct slot *free_slot(void)
{
	for (unsigned int i = 0; i < DEPTH; i++) {
		if (!slots[i].busy)
			return &slots[i];
	}
	return NULL;
}

static void submit_one(struct kp_file *file)
{
	struct slot *slot = free_slot();
	bool read = unit_between(0, 2) == 0;

	slot->pos = unit_between(0, (unit_between(0, 1) ? HOT : SIZE) - 1);
	slot->len = unit_between(1, 3 * KP_PAGE_SIZE);
	slot->len = kp_min(slot->len, SIZE - slot->pos);
	if (read) {
		memset(slot->data, 0xee, slot->len);
		memcpy(slot->wanted, model + slot->pos, slot->len);
	} else {
		unit_fill(slot->data, slot->len);
		memcpy(model + slot->pos, slot->data, slot->len);
	}
	kp_io_prepare(&slot->io, read ? KP_OP_READ : KP_OP_WRITE, file, slot->pos, slot->data,
		      slot->len);
	slot->io.private = slot;
	slot->busy = true;
	ck_assert_int_eq(kp_submit(unit.pl, &slot->io), 0);
}

static void reap_some(unsigned int min)
{
	int nr = kp_reap(unit.pl, min, DEPTH, NULL);

	ck_assert_int_ge(nr, (int)min);
	for (int i = 0; i < nr; i++) {
		struct slot *slot = kp_reaped(unit.pl, i)->private;

		ck_assert_int_eq(kp_io_error(&slot->io), 0);
		ck_assert_uint_eq(kp_io_resid(&slot->io), 0);
		if (slot->io.bio.op == KP_OP_READ)
			ck_assert_msg(!memcmp(slot->data, slot->wanted, slot->len),
				      "a read of %llu at %llu saw what came later, or not what "
				      "came before",
				      (unsigned long long)slot->len, (unsigned long long)slot->pos);
		slot->busy = false;
	}
}

static unsigned int in_flight(void)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < DEPTH; i++)
		nr += slots[i].busy;
	return nr;
}

/* What else happens to a job's pages meanwhile. */
static void disturb(struct kp_file *file)
{
	struct kp_io io;

	switch (unit_between(0, 40)) {
	case 0:
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_FDATASYNC, file, 0, NULL, 0), 0);
		break;
	case 1:
		kp_file_invalidate(file, 0, SIZE);
		break;
	case 2:
		kp_commit(unit.pl);
		break;
	}
}

START_TEST(test_order)
{
	const struct variant_case *c = &cases[_i % NR_CASES];
	const char *path = unit_path("order");
	struct kp_file *file;

	unit_seed = _i + 1;
	set_up_case(c, unit_real_backends[_i % NR_REAL_BACKENDS]);
	/* Every few pages somebody has to write back or reclaim. */
	options.dirty_bytes = 32 * KIB;
	options.dirty_background_bytes = 8 * KIB;
	options.cache_bytes = 256 * KIB;
	for (unsigned int i = 0; i < DEPTH; i++) {
		slots[i].data = unit_memory(4 * KP_PAGE_SIZE);
		slots[i].wanted = unit_memory(4 * KP_PAGE_SIZE);
	}
	unit_fill(model, SIZE);
	unit_make_file(path, model, SIZE);
	unit_start(&unit);
	file = unit_open(&unit, path, O_RDWR);
	for (unsigned int i = 0; i < STEPS; i++) {
		submit_one(file);
		disturb(file);
		if (in_flight() == DEPTH || unit_between(0, 7) == 0)
			reap_some(in_flight() == DEPTH ? unit_between(1, DEPTH) : 0);
	}
	reap_some(in_flight());
	ck_assert_uint_eq(in_flight(), 0);
	ck_assert_int_eq(kp_file_close(file), 0);
	ck_assert_int_eq(kp_pipeline_destroy(unit.pl), 0);
	unit_read_file(path, image, SIZE, 0);
	ck_assert_mem_eq(image, model, SIZE);
	kp_arena_destroy(unit.arena);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cache_order");
	TCase *tests = tcase_create("cache_order");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, test_order, 0, 3 * NR_CASES);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
