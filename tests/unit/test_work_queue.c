// SPDX-License-Identifier: GPL-2.0-only
/* The ordered work queue: parallel starts, strict order, thresholding. */
#include "policy/checksum/work_queue.h"
#include "unit.h"

struct item {
	struct kp_work work;
	unsigned int number;
	unsigned int delay_us;
};

static struct kp_work_queue queue;
static unsigned int next_done; /* the number that has to be done next */
static unsigned int inside;    /* done hooks that run; atomic */
static unsigned int starting, most_starting, nr_started, nr_freed, nr_idle;
static unsigned int out_of_order, overlapping, done_early;

#define FOREVER 1000000 /* of a delay: until 'released' */
static bool released;

static void start(struct kp_work *work)
{
	struct item *item = kp_container_of(work, struct item, work);
	unsigned int now = __atomic_add_fetch(&starting, 1, __ATOMIC_SEQ_CST);
	unsigned int most = __atomic_load_n(&most_starting, __ATOMIC_SEQ_CST);

	while (now > most && !__atomic_compare_exchange_n(&most_starting, &most, now, false,
							  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	if (item->delay_us == FOREVER)
		unit_until(__atomic_load_n(&released, __ATOMIC_SEQ_CST));
	else if (item->delay_us)
		usleep(item->delay_us);
	__atomic_add_fetch(&nr_started, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&starting, 1, __ATOMIC_SEQ_CST);
}

static void done(struct kp_work *work)
{
	struct item *item = kp_container_of(work, struct item, work);

	if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST))
		overlapping++;
	if (item->number != next_done)
		out_of_order++;
	if (__atomic_load_n(&nr_started, __ATOMIC_SEQ_CST) < item->number + 1)
		done_early++;
	next_done = item->number + 1;
	if (item->number % 7 == 0 && item->delay_us != FOREVER)
		usleep(item->delay_us / 2);
	__atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
}

static void free_item(struct kp_work *work)
{
	__atomic_add_fetch(&nr_freed, 1, __ATOMIC_SEQ_CST);
	free(kp_container_of(work, struct item, work));
}

static void idle(void *arg)
{
	ck_assert_ptr_eq(arg, &queue);
	__atomic_add_fetch(&nr_idle, 1, __ATOMIC_SEQ_CST);
}

static const struct kp_work_ops ops = {
	.start = start,
	.done = done,
	.free = free_item,
	.idle = idle,
};

static void put(unsigned int number, unsigned int delay_us)
{
	struct item *item = malloc(sizeof(*item));

	item->number = number;
	item->delay_us = delay_us;
	kp_work_queue(&queue, &item->work);
}

/* Loop index: workers - 1; from 8 on with a threshold. */
START_TEST(order)
{
	enum { TOTAL = 3000 };
	unsigned int workers = _i % 8 + 1, threshold = _i < 8 ? KP_WORK_QUEUE_THRESH : 32;

	ck_assert_int_eq(kp_work_queue_init(&queue, &ops, &queue, workers, threshold), 0);
	if (_i % 3)
		queue.cpus = 8;
	for (unsigned int i = 0; i < TOTAL; i++) {
		/* Mostly quick, now and then slow: then others overtake. */
		put(i, unit_between(0, 9) ? 0 : unit_between(1, 150));
		if (unit_between(0, 99) == 0)
			usleep(unit_between(1, 300));
	}
	if (_i % 2) {
		while (kp_work_queue_busy(&queue))
			usleep(100);
		ck_assert_uint_eq(nr_freed, TOTAL);
	}
	kp_work_queue_exit(&queue);
	ck_assert_uint_eq(next_done, TOTAL);
	ck_assert_uint_eq(nr_freed, TOTAL);
	ck_assert_uint_eq(out_of_order, 0);
	ck_assert_uint_eq(overlapping, 0);
	ck_assert_uint_ge(nr_idle, 1);
	ck_assert_uint_le(most_starting, kp_min(workers, queue.cpus));
}
END_TEST

/* The first is slow: all others start beside it, none is done before it. */
START_TEST(head_holds_up)
{
	ck_assert_int_eq(kp_work_queue_init(&queue, &ops, &queue, 4, KP_WORK_QUEUE_THRESH), 0);
	queue.cpus = 4;
	put(0, FOREVER);
	for (unsigned int i = 1; i < 100; i++)
		put(i, 100);
	ck_assert(unit_until(__atomic_load_n(&nr_started, __ATOMIC_SEQ_CST) == 99));
	ck_assert_uint_eq(__atomic_load_n(&nr_freed, __ATOMIC_SEQ_CST), 0);
	__atomic_store_n(&released, true, __ATOMIC_SEQ_CST);
	kp_work_queue_exit(&queue);
	ck_assert_uint_eq(next_done, 100);
	ck_assert_uint_eq(out_of_order, 0);
}
END_TEST

START_TEST(defaults)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	ck_assert_uint_eq(kp_work_default_workers(), kp_min(cpus + 2, 8));
	ck_assert_int_eq(kp_work_queue_init(&queue, &ops, &queue, KP_WORK_THREADS + 1, 16),
			 -EINVAL);
	ck_assert_int_eq(kp_work_queue_init(&queue, &ops, &queue, 0, 16), 0);
	ck_assert_uint_eq(queue.nr_threads, kp_work_default_workers());
	kp_work_queue_exit(&queue);
}
END_TEST

/* ---- thresholding -------------------------------------------------------------------------- */

START_TEST(threshold_off)
{
	struct kp_work_thresh thresh;

	kp_work_thresh_init(&thresh, 8, 31);
	ck_assert_uint_eq(thresh.current, 8);
	for (unsigned int i = 0; i < 1000; i++)
		kp_work_thresh_exec(&thresh, i);
	ck_assert_uint_eq(thresh.current, 8);
}
END_TEST

/* thresh 32: looks at the queue except each 8th time; above 32 one more, below 16 one less. */
START_TEST(threshold_trace)
{
	static const struct {
		unsigned int pending, current;
	} table[] = {
		{ 32, 1 },
		{ 33, 2 },
		{ 33, 3 },
		{ 33, 4 },
		{ 33, 4 /* of 4 */ },
		{ 16, 4 },
		{ 15, 3 },
		{ 33, 3 /* the 8th */ },
		{ 33, 4 },
		{ 0, 3 },
		{ 0, 2 },
		{ 0, 1 },
		{ 0, 1 },
		{ 20, 1 },
		{ 40, 2 },
		{ 0, 2 /* the 16th */ },
		{ 0, 1 },
	};
	struct kp_work_thresh thresh;

	kp_work_thresh_init(&thresh, 4, 32);
	ck_assert_uint_eq(thresh.current, 1);
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		kp_work_thresh_exec(&thresh, table[i].pending);
		ck_assert_msg(thresh.current == table[i].current, "step %zu: %u", i,
			      thresh.current);
	}
}
END_TEST

/* thresh_exec_hook() as the specification puts it. */
START_TEST(threshold_random)
{
	for (int round = 0; round < 100; round++) {
		unsigned int t = unit_between(32, 200), max = unit_between(1, 9);
		unsigned int count = 0, current = 1;
		struct kp_work_thresh thresh;

		kp_work_thresh_init(&thresh, max, t);
		for (int i = 0; i < 1000; i++) {
			unsigned int pending = unit_between(0, 2 * t);
			int wanted = current;

			if (++count % (t / 4)) {
				wanted += pending > t;
				wanted -= pending < t / 2;
				current = kp_min(kp_max(wanted, 1), (int)max);
			}
			kp_work_thresh_exec(&thresh, pending);
			ck_assert_uint_eq(thresh.current, current);
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("work_queue");
	TCase *tcase = tcase_create("work_queue");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, order, 0, 16);
	tcase_add_test(tcase, head_holds_up);
	tcase_add_test(tcase, defaults);
	tcase_add_test(tcase, threshold_off);
	tcase_add_test(tcase, threshold_trace);
	tcase_add_test(tcase, threshold_random);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
