// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pipeline: depth, reaping, waits that end; other threads that submit, complete and defer, on
 * every device.
 */
#include "unit.h"

#define BLOCK 4096ull
#define MS    1000000ull

/* ---- a stage with a thread of its own ------------------------------------------------------ */

enum way {
	SUBMITS,   /* the thread hands the bio on */
	COMPLETES, /* the thread ends it, nothing reaches the device */
	DEFERS,	   /* the thread has the owner hand it on */
	NR_WAYS,
	HOLDS = NR_WAYS, /* the stage holds the bio until it is flushed; needs no asynchronous device */
};

struct worker {
	struct kp_stage stage;
	enum way way;
	pthread_t thread;
	pthread_mutex_t lock; /* protects queue and stop */
	pthread_cond_t more;
	struct kp_bio *queue;
	bool stop, running;
	struct kp_stage second; /* where deferred bios come back to */
	unsigned int on_owner;	/* of those */
};

static unsigned int worker_needs(const struct kp_stage_config *config)
{
	bool holds = *(const enum way *)config->options == HOLDS;

	return KP_NEEDS_SHARED | (holds ? 0 : KP_NEEDS_ASYNC_DEVICE);
}

static void submit_below(struct kp_stage *stage, struct kp_bio *bio)
{
	kp_lower_lock(stage->pipeline);
	kp_stage_submit(stage->next, bio);
	kp_lower_unlock(stage->pipeline);
}

static void second_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct worker *worker = kp_container_of(stage, struct worker, second);

	worker->on_owner += kp_pipeline_owned(stage->pipeline);
	bio->private = NULL;
	submit_below(stage, bio);
}

static const struct kp_stage_ops second_ops = { .name = "second", .submit = second_submit };

static void handle(struct worker *worker, struct kp_bio *bio)
{
	struct kp_pipeline *pl = worker->stage.pipeline;

	switch (worker->way) {
	case SUBMITS:
		submit_below(&worker->stage, bio);
		kp_pipeline_flush(pl, worker->stage.next);
		break;
	case COMPLETES:
		kp_bio_endio(bio);
		break;
	default:
		kp_pipeline_defer(pl, &worker->second, bio);
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	pthread_mutex_lock(&worker->lock);
	for (;;) {
		struct kp_bio *bio = worker->queue;

		if (!bio && worker->stop)
			break;
		if (!bio) {
			pthread_cond_wait(&worker->more, &worker->lock);
			continue;
		}
		worker->queue = bio->next;
		bio->next = NULL;
		pthread_mutex_unlock(&worker->lock);
		handle(worker, bio);
		pthread_mutex_lock(&worker->lock);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

static int worker_init(struct kp_stage *stage, const struct kp_stage_config *config,
		       const struct kp_pipeline_config *pipeline)
{
	struct worker *worker = kp_container_of(stage, struct worker, stage);

	(void)pipeline;
	worker->way = *(const enum way *)config->options;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	worker->second = (struct kp_stage){ .ops = &second_ops,
					    .next = stage->next,
					    .pipeline = stage->pipeline,
					    .index = stage->index };
	if (worker->way == HOLDS)
		return 0; /* a thread would take what the owner's flush is to find */
	worker->running = !pthread_create(&worker->thread, NULL, work, worker);
	return worker->running ? 0 : -EAGAIN;
}

static void worker_exit(struct kp_stage *stage)
{
	struct worker *worker = kp_container_of(stage, struct worker, stage);

	if (!worker->running)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->stop = true;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
}

/* Every other bio takes the way over the thread; the rest go straight on. */
static void worker_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct worker *worker = kp_container_of(stage, struct worker, stage);

	if (worker->way == HOLDS) {
		bio->next = worker->queue;
		worker->queue = bio;
		return;
	}
	if (worker->way != COMPLETES && bio->iter.pos / BLOCK % 2) {
		submit_below(stage, bio);
		return;
	}
	pthread_mutex_lock(&worker->lock);
	bio->next = worker->queue;
	worker->queue = bio;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
}

static void worker_flush(struct kp_stage *stage)
{
	struct worker *worker = kp_container_of(stage, struct worker, stage);

	while (worker->way == HOLDS && worker->queue) {
		struct kp_bio *bio = worker->queue;

		worker->queue = bio->next;
		bio->next = NULL;
		submit_below(stage, bio);
	}
}

static const struct kp_stage_ops worker_ops = {
	.name = "worker",
	.size = sizeof(struct worker),
	.needs = worker_needs,
	.init = worker_init,
	.submit = worker_submit,
	.flush = worker_flush,
	.exit = worker_exit,
};

static const struct kp_policy worker_policy = { .name = "worker", .ops = &worker_ops };
static const struct kp_variant worker_variant = { .name = "worker" };

/* ---- depth and reaping --------------------------------------------------------------------- */

struct test {
	struct unit unit;
	struct kp_file *file;
	const char *path;
	char *memory;
	struct kp_io ios[64];
};

static struct test test;

static void begin(const char *backend)
{
	memset(&test, 0, sizeof(test));
	test.path = unit_path("pipeline");
	test.memory = unit_memory(MIB);
	unit_make_file(test.path, test.memory, MIB);
	unit_init(&test.unit, backend);
}

static void start(void)
{
	unit_start(&test.unit);
	test.file = unit_open(&test.unit, test.path, O_RDWR);
}

static void end(void)
{
	unit_exit(&test.unit);
	unlink(test.path);
}

static int submit(unsigned int i)
{
	kp_io_prepare(&test.ios[i], KP_OP_READ, test.file, i * BLOCK, test.memory + i * BLOCK,
		      BLOCK);
	return kp_submit(test.unit.pl, &test.ios[i]);
}

/* At most 'depth', counted until an I/O is handed back; each is handed back once. */
START_TEST(depth_is_kept)
{
	struct kp_pipeline *pl;
	unsigned int seen[8] = { 0 }, out = 0, total = 0;

	begin(unit_backends[_i]);
	test.unit.config.depth = 8;
	start();
	pl = test.unit.pl;
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_int_eq(submit(i), 0);
	ck_assert_int_eq(submit(8), -EBUSY);
	kp_commit(pl);
	ck_assert_int_eq(submit(8), -EBUSY);
	ck_assert_int_eq(kp_reap(pl, 8, 3, NULL), 3); /* never more than max */
	for (unsigned int i = 0; i < 3; i++)
		seen[kp_reaped(pl, i) - test.ios]++;
	ck_assert_int_eq(kp_reap(pl, 5, 64, NULL), 5);
	for (unsigned int i = 0; i < 5; i++)
		seen[kp_reaped(pl, i) - test.ios]++;
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_uint_eq(seen[i], 1);
	ck_assert_int_eq(kp_reap(pl, 0, 64, NULL), 0);
	/* And for a long time. */
	for (unsigned int round = 0; total < 2000; round++) {
		unsigned int nr = unit_between(0, 8 - out);
		unsigned int max = unit_between(0, 8), min = unit_between(0, max);
		int got;

		for (unsigned int i = 0; i < nr; i++)
			ck_assert_int_eq(submit(unit_between(0, 0) + (total + out + i) % 16), 0);
		out += nr;
		if (unit_between(0, 1))
			kp_commit(pl);
		got = kp_reap(pl, min, max, NULL);
		ck_assert_int_ge(got, kp_min(min, out));
		ck_assert_int_le(got, max);
		for (int i = 0; i < got; i++)
			ck_assert_int_eq(kp_io_error(kp_reaped(pl, i)), 0);
		out -= got;
		total += got;
		if (round % 5 == 4) { /* I/O structs are used in turn: none may still be out */
			ck_assert_int_eq(kp_reap(pl, out, 8, NULL), out);
			total += out;
			out = 0;
		}
	}
	ck_assert_uint_ge(unit_counter(&test.unit, KP_IOS), total);
	end();
}
END_TEST

/* To wait for what cannot come ends at once; what was not committed is. */
START_TEST(reap_ends)
{
	begin(unit_backends[_i]);
	start();
	ck_assert_int_eq(kp_reap(test.unit.pl, 5, 5, NULL), 0);
	ck_assert_int_eq(submit(0), 0);
	ck_assert_int_eq(submit(1), 0);
	ck_assert_int_eq(kp_reap(test.unit.pl, 5, 5, NULL), 2);
	end();
}
END_TEST

START_TEST(reap_timeout)
{
	const struct timespec short_wait = { .tv_nsec = 20 * MS };
	uint64_t begun, ns;

	begin("null");
	test.unit.config.device.null.read_nsec = unit_patience(300 * MS);
	start();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(submit(i), 0);
	begun = kp_now_ns();
	ck_assert_int_eq(kp_reap(test.unit.pl, 2, 3, &short_wait), 0);
	ns = kp_now_ns() - begun;
	ck_assert_msg(ns >= 20 * MS && ns < unit_patience(250 * MS), "%lu us", ns / 1000);
	begun = kp_now_ns();
	ck_assert_int_eq(kp_reap(test.unit.pl, 0, 3, NULL), 0);
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(250 * MS));
	ck_assert_int_eq(kp_reap(test.unit.pl, 3, 3, NULL), 3);
	end();
}
END_TEST

/* The time is that of the whole wait, though something ends now and then. */
START_TEST(reap_timeout_as_a_whole)
{
	const struct timespec wait = { .tv_nsec = 100 * MS };
	uint64_t begun, ns;
	int got;

	begin("null");
	test.unit.config.device.null.read_nsec = 40 * MS;
	test.unit.config.device.null.queue_depth = 1;
	start();
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(submit(i), 0);
	begun = kp_now_ns();
	got = kp_reap(test.unit.pl, 16, 16, &wait);
	ns = kp_now_ns() - begun;
	ck_assert_msg(ns >= 100 * MS && ns < 400 * MS, "%lu us", ns / 1000);
	ck_assert_msg(got >= 1 && got < 10, "%d", got);
	ck_assert_int_eq(kp_reap(test.unit.pl, 16 - got, 16, NULL), 16 - got);
	end();
}
END_TEST

START_TEST(submit_wait_among_others)
{
	struct kp_io io;

	begin(unit_backends[_i]);
	start();
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(submit(i), 0);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, 0, test.memory, BLOCK), 0);
	ck_assert(io.bio.flags & KP_BIO_SYNC);
	ck_assert_int_eq(kp_reap(test.unit.pl, 8, 8, NULL), 8);
	end();
}
END_TEST

START_TEST(nothing_to_transfer)
{
	struct kp_io io;

	begin(unit_backends[_i]);
	unit_add_split(&test.unit, _i % 2 ? "fast" : "none");
	start();
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, 0, test.memory, 0), 0);
	kp_io_prepare(&io, KP_OP_WRITE, test.file, 0, test.memory, 0);
	ck_assert_int_eq(kp_submit(test.unit.pl, &io), 0);
	ck_assert_int_eq(kp_reap(test.unit.pl, 1, 1, NULL), 1);
	end();
}
END_TEST

/* Closed with I/O in flight: it ends first. */
START_TEST(close_waits)
{
	begin(unit_backends[_i]);
	test.unit.config.device.null.read_nsec = 20 * MS;
	start();
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(submit(i), 0);
	ck_assert_int_eq(kp_file_close(test.file), 0);
	ck_assert_int_eq(kp_reap(test.unit.pl, 8, 8, NULL), 8);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(kp_io_error(&test.ios[i]), 0);
	end();
}
END_TEST

START_TEST(bad_configurations)
{
	static const struct kp_null_options deep = { .queue_depth = 1000000 };
	struct kp_pipeline_config config;
	struct kp_pipeline *pl;

	begin("null");
	for (int i = 0; i < 6; i++) {
		config = test.unit.config;
		if (i == 0)
			config.device.backend = "floppy";
		if (i == 1)
			config.device.backend = NULL;
		if (i == 2)
			config.depth = 0;
		if (i == 3)
			config.device.limits.max_sectors_kb = 1;
		if (i == 4)
			config.device.null = deep;
		if (i == 5)
			config.device.fault = "sometimes";
		unit_nr_said = 0;
		ck_assert_msg(kp_pipeline_create(&pl, &config) == -EINVAL, "case %d", i);
		ck_assert_msg(unit_nr_said == 1, "case %d: %u lines", i, unit_nr_said);
	}
	end();
}
END_TEST

/* Stages in another order than the kernel's, and a stage that is there twice. */
START_TEST(wrong_order)
{
	static const struct kp_policy *const orders[][3] = {
		{ &kp_split_policy, &kp_diolock_policy },
		{ &kp_plug_policy, &kp_split_policy },
		{ &kp_checksum_policy, &kp_writeback_policy },
		{ &kp_checksum_policy, &kp_blocksize_policy },
		{ &kp_diolock_policy, &kp_split_policy, &kp_checksum_policy },
		{ &kp_writeback_policy, &kp_blocksize_policy },
		{ &kp_split_policy, &kp_split_policy },
		/* These are in order. */
		{ &kp_diolock_policy, &kp_checksum_policy, &kp_split_policy },
		{ &kp_writeback_policy, &kp_split_policy, &kp_plug_policy },
	};
	bool good = _i >= 7;
	int ret;

	begin("libaio");
	for (unsigned int i = 0; i < 3 && orders[_i][i]; i++)
		unit_add_stage(&test.unit, orders[_i][i], kp_policy_variant(orders[_i][i], 0),
			       NULL);
	unit_nr_said = 0;
	ret = kp_pipeline_create(&test.unit.pl, &test.unit.config);
	ck_assert_int_eq(ret, good ? 0 : -EINVAL);
	ck_assert_uint_eq(unit_nr_said, good ? 0 : 1);
	if (!good) {
		test.unit.pl = NULL;
		ck_assert_ptr_nonnull(strstr(unit_said, "give"));
	}
	end();
}
END_TEST

/* The device and each stage refuse options before anything is made, by the same hook as engines. */
START_TEST(bad_options)
{
	static const struct kp_checksum_options mirrors = { .mirrors = 1000 };
	static const struct kp_cache_options mapped = { .mapped = "some" };
	static const struct kp_cache_options dirty = { .dirty_bytes = 100 };
	static const struct kp_diolock_options rwsem = { .rwsem = "5.4" };
	static const struct {
		const struct kp_policy *policy;
		const void *options;
		const char *names;
	} cases[] = {
		{ &kp_checksum_policy, &mirrors, "mirrors=1000" },
		{ &kp_writeback_policy, &mapped, "mapped=some" },
		{ &kp_blocksize_policy, &dirty, "dirty_bytes=100" },
		{ &kp_diolock_policy, &rwsem, "rwsem=5.4" },
		{ NULL, NULL, "null_badblocks=9-3" },
	};
	char why[512];

	begin("null");
	if (cases[_i].policy)
		unit_add_stage(&test.unit, cases[_i].policy, kp_policy_variant(cases[_i].policy, 0),
			       cases[_i].options);
	else
		test.unit.config.device.null.badblocks = "9-3";
	unit_nr_said = 0;
	ck_assert_int_eq(kp_pipeline_create(&test.unit.pl, &test.unit.config), -EINVAL);
	test.unit.pl = NULL;
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_ptr_nonnull(strstr(unit_said, cases[_i].names));
	if (cases[_i].policy)
		ck_assert_int_eq(kp_policy_check(cases[_i].policy, cases[_i].options,
						 kp_policy_variant(cases[_i].policy, 0), why,
						 sizeof(why)),
				 -EINVAL);
	else
		ck_assert_int_eq(kp_device_check(&test.unit.config.device, why, sizeof(why)),
				 -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, cases[_i].names));
	end();
}
END_TEST

/* ---- other threads ------------------------------------------------------------------------- */

/* Loop index: device, way, and whether the split stage stands between. */
START_TEST(shared)
{
	enum { TOTAL = 3000 };
	enum way way = _i / NR_BACKENDS % NR_WAYS;
	bool split = _i / NR_BACKENDS / NR_WAYS;
	struct worker *worker;
	unsigned int submitted = 0, ended = 0;

	begin(unit_backends[_i % NR_BACKENDS]);
	test.unit.config.depth = 16;
	test.unit.config.device.null.read_nsec = 20000;
	test.unit.config.device.limits.max_sectors_kb = 4;
	unit_add_stage(&test.unit, &worker_policy, &worker_variant, &way);
	if (split)
		unit_add_split(&test.unit, "clone");
	start();
	worker = kp_container_of(test.unit.pl->first, struct worker, stage);
	while (ended < TOTAL) {
		int nr;

		for (unsigned int i = 0; i < 16 && submitted < TOTAL && submitted - ended < 16;
		     i++) {
			struct kp_io *io = &test.ios[submitted % 16];

			kp_io_prepare(io, KP_OP_READ, test.file, submitted % 16 * BLOCK,
				      test.memory + submitted % 16 * 4 * BLOCK, 4 * BLOCK);
			ck_assert_int_eq(kp_submit(test.unit.pl, io), 0);
			submitted++;
		}
		kp_commit(test.unit.pl);
		nr = kp_reap(test.unit.pl, submitted - ended, 16, NULL);
		ck_assert_int_eq(nr, submitted - ended);
		for (int i = 0; i < nr; i++)
			ck_assert_int_eq(kp_io_error(kp_reaped(test.unit.pl, i)), 0);
		ended += nr;
	}
	ck_assert_uint_eq(unit_counter(&test.unit, KP_IOS), TOTAL);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BYTES), TOTAL * 4 * BLOCK);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BIOS),
			  way == COMPLETES ? 0 : TOTAL * (split ? 4u : 1u));
	ck_assert_uint_eq(unit_counter(&test.unit, KP_SPLITS),
			  way != COMPLETES && split ? TOTAL * 3u : 0);
	if (way == DEFERS)
		ck_assert_uint_eq(worker->on_owner, TOTAL / 2);
	end();
}
END_TEST

/* Blocked in a reap for several, while the device is slow: what a thread posts is handed out. */
START_TEST(posts_end_a_wait)
{
	const struct timespec limit = { .tv_sec = 20 };
	enum way way = COMPLETES;
	uint64_t begun;

	begin(unit_backends[_i]);
	unit_add_stage(&test.unit, &worker_policy, &worker_variant, &way);
	start();
	begun = kp_now_ns();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(submit(i), 0);
	ck_assert_int_eq(kp_reap(test.unit.pl, 4, 4, &limit), 4);
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(5000 * MS));
	end();
}
END_TEST

/* Waiting in place, sync I/O whose completion another thread posts. */
START_TEST(shared_submit_wait)
{
	enum way way = _i / NR_BACKENDS;
	struct kp_io io;

	begin(unit_backends[_i % NR_BACKENDS]);
	unit_add_stage(&test.unit, &worker_policy, &worker_variant, &way);
	start();
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, i % 4 * BLOCK,
					 test.memory, BLOCK),
				 0);
	end();
}
END_TEST

/*
 * A flush may end what the caller waits for, on a synchronous device at once: no wait sleeps then.
 * Each sleep would take 100 ms, or would not end at all.
 */
START_TEST(flush_ends_a_wait)
{
	enum { TOTAL = 300 };
	enum way way = HOLDS;
	uint64_t begun;
	struct kp_io io;

	begin(unit_backends[_i]);
	unit_add_stage(&test.unit, &worker_policy, &worker_variant, &way);
	start();
	ck_assert_str_eq(test.unit.pl->device->ops->stage.name, unit_backends[_i]);
	begun = kp_now_ns();
	for (int i = 0; i < TOTAL; i++) {
		ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, i % 4 * BLOCK,
					 test.memory, BLOCK),
				 0);
		ck_assert_int_eq(submit(0), 0);
		ck_assert_int_eq(submit(1), 0);
		ck_assert_int_eq(kp_reap(test.unit.pl, 2, 2, NULL), 2);
		ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_FDATASYNC, test.file, 0, NULL, 0),
				 0);
	}
	ck_assert_uint_lt(kp_now_ns() - begun, unit_patience(TOTAL * 50 * MS));
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pipeline");
	TCase *tcase = tcase_create("pipeline");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, depth_is_kept, 0, NR_BACKENDS);
	tcase_add_loop_test(tcase, reap_ends, 0, NR_BACKENDS);
	tcase_add_test(tcase, reap_timeout);
	tcase_add_test(tcase, reap_timeout_as_a_whole);
	tcase_add_loop_test(tcase, submit_wait_among_others, 0, NR_BACKENDS);
	tcase_add_loop_test(tcase, nothing_to_transfer, 0, NR_BACKENDS);
	tcase_add_loop_test(tcase, close_waits, 0, NR_BACKENDS);
	tcase_add_test(tcase, bad_configurations);
	tcase_add_loop_test(tcase, shared, 0, NR_BACKENDS * NR_WAYS * 2);
	tcase_add_loop_test(tcase, posts_end_a_wait, 0, NR_BACKENDS);
	tcase_add_loop_test(tcase, shared_submit_wait, 0, NR_BACKENDS * NR_WAYS);
	tcase_add_loop_test(tcase, wrong_order, 0, 9);
	tcase_add_loop_test(tcase, bad_options, 0, 5);
	tcase_add_loop_test(tcase, flush_ends_a_wait, 0, NR_BACKENDS);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
