// SPDX-License-Identifier: GPL-2.0-only
/*
 * The null device: a model of null_blk, with its vocabulary. It touches no file.
 *
 * A request that costs nothing ends inside submit without a look at the clock. Otherwise it gets
 * a deadline: it waits for the device's dispatcher (submit_nsec each), for one of queue_depth
 * servers, for its turn on the pipe (mbps), and then takes its latency. Dispatcher, servers and
 * pipe are words in the arena that say when each is free next, so that all jobs share them.
 * Nothing is held while waiting: a job that is killed leaves only a moment of the model's time
 * used up.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/device.h"
#include "core/futex.h"
#include "core/log.h"
#include "core/pipeline.h"
#include "devices.h"

#define QUEUE_DEPTH	64u /* null_blk's hw_queue_depth */
#define MAX_QUEUE_DEPTH 4096u
#define SPIN_NS		25000u /* sleep up to here, then spin: timers are that late */

#define CHUNK_SIZE (1ull << 26) /* contents grow by this much address space */
#define MAX_CHUNKS (1u << 18)	/* 16 TiB */

/*
 * struct null_time - when each part of the device is free next, in nanoseconds of CLOCK_MONOTONIC.
 * One null device for all jobs, whatever their files are called. Everything is atomic.
 */
struct null_time {
	uint64_t dispatcher_free;
	uint64_t pipe_free;
	uint64_t server_free[MAX_QUEUE_DEPTH];
};

/* struct null_contents - the data of one file. A NULL chunk reads as zeroes. Atomic. */
struct null_contents {
	char *chunks[MAX_CHUNKS];
};

struct null_request {
	uint64_t deadline;
	struct kp_bio *bio;
	int error;
};

struct bad_range {
	uint64_t start, end; /* bytes */
};

struct null_device {
	struct kp_device device;
	const struct kp_null_options *options;
	bool timed; /* anything in the options takes time */
	bool plain; /* nothing to do for a request but to end it */
	unsigned int queue_depth;
	struct null_time *time; /* when timed */
	struct bad_range *bad;
	unsigned int nr_bad;
	/* Requests in flight, a heap ordered by deadline. The device's lock protects it. */
	struct null_request *heap;
	uint64_t *deadlines; /* room for theirs, for who looks for a later one than the first */
};

static struct null_device *null_device(struct kp_device *device)
{
	return kp_container_of(device, struct null_device, device);
}

/* ---- contents ------------------------------------------------------------------------------ */

/* Returns the memory of byte @pos, allocated if @make is set. NULL: the range reads as zeroes. */
static char *contents(struct null_device *null, struct null_contents *file, uint64_t pos, bool make)
{
	char **slot = &file->chunks[pos / CHUNK_SIZE];
	char *chunk = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	char *fresh;

	if (!chunk && make) {
		fresh = kp_arena_alloc(null->device.stage.pipeline->arena, CHUNK_SIZE);
		if (!fresh)
			return NULL;
		/* Two jobs may race here. The loser's allocation is never touched and costs no memory. */
		if (__atomic_compare_exchange_n(slot, &chunk, fresh, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			chunk = fresh;
	}
	return chunk ? chunk + pos % CHUNK_SIZE : NULL;
}

static int copy_piece(struct null_device *null, struct null_contents *file, unsigned int op,
		      uint64_t pos, void *data, size_t len)
{
	char *memory = contents(null, file, pos, op == KP_OP_WRITE);

	if (op == KP_OP_READ) {
		if (memory)
			memcpy(data, memory, len);
		else
			memset(data, 0, len);
	} else if (memory) {
		memcpy(memory, data, len);
	} else {
		return -ENOSPC;
	}
	return 0;
}

/* Give whole pages back to the system and zero the rest. */
static void discard_piece(struct null_device *null, char *memory, size_t len)
{
	char *first = (char *)kp_round_up((uintptr_t)memory, KP_PAGE_SIZE);
	char *last = (char *)kp_round_down((uintptr_t)memory + len, KP_PAGE_SIZE);

	if (first >= last ||
	    kp_arena_release(null->device.stage.pipeline->arena, first, last - first)) {
		memset(memory, 0, len);
		return;
	}
	memset(memory, 0, first - memory);
	memset(last, 0, memory + len - last);
}

/* Copy the data of a bio. A segment may cross a border between chunks. */
static int move_data(struct null_device *null, struct kp_bio *bio)
{
	struct null_contents *file = bio->file->device_data;
	struct kp_segment segment;
	struct kp_iter iter = bio->iter;
	int ret = 0;

	if (iter.pos + iter.size > CHUNK_SIZE * MAX_CHUNKS)
		return -ENOSPC;

	while (iter.size && !ret) {
		size_t len = CHUNK_SIZE - iter.pos % CHUNK_SIZE;

		if (bio->op == KP_OP_DISCARD) {
			char *memory = contents(null, file, iter.pos, false);

			len = kp_min(len, iter.size);
			if (memory)
				discard_piece(null, memory, len);
			iter.pos += len;
			iter.size -= len;
			continue;
		}
		segment = kp_iter_segment(bio->vec, &iter);
		len = kp_min(len, segment.len);
		ret = copy_piece(null, file, bio->op, iter.pos, segment.addr, len);
		kp_iter_step(bio->vec, &iter, len);
	}
	return ret;
}

static bool is_bad(const struct null_device *null, const struct kp_bio *bio)
{
	for (unsigned int i = 0; i < null->nr_bad; i++) {
		if (bio->iter.pos < null->bad[i].end &&
		    bio->iter.pos + bio->iter.size > null->bad[i].start)
			return true;
	}
	return false;
}

/* Execute a request apart from its latency. One bad sector fails all of it, as in null_blk. */
static int execute(struct null_device *null, struct kp_bio *request)
{
	bool moves = null->options->memory_backed && request->op <= KP_OP_DISCARD;
	struct kp_bio *bio;
	int ret = 0;

	for (bio = request; bio && null->nr_bad; bio = bio->next) {
		if (is_bad(null, bio))
			return -EIO;
	}
	for (bio = request; bio && moves && !ret; bio = bio->next)
		ret = move_data(null, bio);
	return ret;
}

static void end_request(const struct null_request *request)
{
	kp_request_end(request->bio, request->error ? 0 : UINT64_MAX, request->error);
}

/* ---- time ---------------------------------------------------------------------------------- */

/* Reserve @busy_ns of a serial part of the device. Return: the time at which the turn ends. */
static uint64_t claim(uint64_t *free_at, uint64_t from, uint64_t busy_ns)
{
	uint64_t seen = __atomic_load_n(free_at, __ATOMIC_RELAXED);
	uint64_t end;

	do {
		end = kp_max(seen, from) + busy_ns;
	} while (!__atomic_compare_exchange_n(free_at, &seen, end, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return end;
}

/* Returns the server that is free first. */
static uint64_t *pick_server(const struct null_device *null, uint64_t from)
{
	struct null_time *time = null->time;
	uint64_t *best = &time->server_free[0];
	uint64_t best_free = UINT64_MAX;

	for (unsigned int i = 0; i < null->queue_depth && best_free > from; i++) {
		uint64_t free_at = __atomic_load_n(&time->server_free[i], __ATOMIC_RELAXED);

		if (free_at < best_free) {
			best_free = free_at;
			best = &time->server_free[i];
		}
	}
	return best;
}

static uint64_t deadline_of(struct null_device *null, const struct kp_bio *bio)
{
	const struct kp_null_options *options = null->options;
	uint64_t latency = bio->op == KP_OP_READ ? options->read_nsec : options->write_nsec;
	uint64_t at = kp_now_ns();
	uint64_t busy = latency;
	uint64_t *server;

	if (bio->op > KP_OP_DISCARD)
		return at; /* no volatile cache: nothing to flush */
	if (options->submit_nsec)
		at = claim(&null->time->dispatcher_free, at, options->submit_nsec);
	if (!latency && !options->mbps)
		return at;
	server = pick_server(null, at);
	if (options->mbps && bio->op != KP_OP_DISCARD) {
		uint64_t start = kp_max(at, __atomic_load_n(server, __ATOMIC_RELAXED));
		uint64_t transfer = kp_request_bytes(bio) * 1000 / options->mbps;

		busy += claim(&null->time->pipe_free, start, transfer) - start;
	}
	return claim(server, at, busy);
}

/*
 * Wait until @until, at most KP_LOOK_AROUND_NS. A wake-up ends the owner's wait early. With @spin
 * the wait ends on time and uses a CPU. Without it the wait ends as late as timers fire.
 */
static void wait_until(const struct null_device *null, uint64_t until, bool spin)
{
	struct pollfd poll_fd = { .fd = null->device.wake_fd, .events = POLLIN };
	bool listens = poll_fd.fd >= 0 && kp_pipeline_owned(null->device.stage.pipeline);
	uint64_t sleep_until = spin ? until - SPIN_NS : until;
	uint64_t now = kp_now_ns();
	struct timespec sleep;
	uint64_t count;

	if (sleep_until > now) {
		uint64_t ns = kp_min(sleep_until - now, KP_LOOK_AROUND_NS);

		sleep = (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
		if (ppoll(&poll_fd, listens, &sleep, NULL) > 0 &&
		    read(poll_fd.fd, &count, sizeof(count)) > 0)
			return;
		if (kp_now_ns() + SPIN_NS < sleep_until)
			return; /* a signal, or time to look around: no spinning that long */
	}
	while (spin && kp_now_ns() < until)
		cpu_relax();
}

/* ---- the heap of deadlines ----------------------------------------------------------------- */

static void heap_push(struct null_device *null, struct null_request request)
{
	unsigned int i = null->device.in_flight;

	for (; i && null->heap[(i - 1) / 2].deadline > request.deadline; i = (i - 1) / 2)
		null->heap[i] = null->heap[(i - 1) / 2];
	null->heap[i] = request;
	kp_device_started(&null->device, i == 0);
}

static struct null_request heap_pop(struct null_device *null)
{
	struct null_request first = null->heap[0];
	unsigned int nr = null->device.in_flight - 1;
	struct null_request last = null->heap[nr];
	unsigned int i = 0;

	kp_device_add_in_flight(&null->device, -1);
	for (;;) {
		unsigned int child = 2 * i + 1;

		if (child + 1 < nr && null->heap[child + 1].deadline < null->heap[child].deadline)
			child++;
		if (child >= nr || null->heap[child].deadline >= last.deadline)
			break;
		null->heap[i] = null->heap[child];
		i = child;
	}
	null->heap[i] = last;
	return first;
}

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t old = *a;

	*a = *b;
	*b = old;
}

/* Returns the @n-th smallest of @nr deadlines, counted from 0, by Hoare's quickselect. */
static uint64_t select_nth(uint64_t *values, unsigned int nr, unsigned int n)
{
	int low = 0, high = (int)nr - 1;

	while (low < high) {
		uint64_t pivot = values[(low + high) / 2];
		int i = low, j = high;

		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i <= j)
				swap(&values[i++], &values[j--]);
		}
		if ((int)n <= j)
			high = j;
		else if ((int)n >= i)
			low = i;
		else
			break;
	}
	return values[n];
}

/*
 * Returns the time at which @n more requests, or all in flight, will have ended. 0: nothing is in
 * flight. The caller holds the device's lock. A thread that waits for any request passes 1, so that
 * it does not sleep until the last one.
 */
static uint64_t deadline_of_nth(struct null_device *null, unsigned int n)
{
	unsigned int nr = null->device.in_flight;

	if (!nr)
		return 0;
	if (n <= 1 || null->device.waiting)
		return null->heap[0].deadline;
	for (unsigned int i = 0; i < nr; i++)
		null->deadlines[i] = null->heap[i].deadline;
	return select_nth(null->deadlines, nr, kp_min(n, nr) - 1);
}

/* ---- device hooks -------------------------------------------------------------------------- */

/* The submit path of a device without latency, bandwidth or contents. */
static ssize_t null_transfer(struct kp_file *file, void *buffer, size_t len, uint64_t pos,
			     enum kp_op op)
{
	(void)file;
	(void)buffer;
	(void)pos;
	(void)op;
	return (ssize_t)len;
}

static kp_noinline void submit_any(struct null_device *null, struct kp_bio *bio)
{
	struct kp_device *device = &null->device;
	struct kp_stage *stage = &device->stage;
	struct null_request request = { .bio = bio };

	kp_device_lock(device);
	while (null->timed && device->in_flight == device->depth) {
		kp_device_unlock(device);
		kp_pipeline_wait(stage->pipeline, stage);
		kp_device_lock(device);
	}
	kp_device_account(device, bio);
	request.error = execute(null, bio);
	if (!null->timed) {
		kp_device_unlock(device);
		end_request(&request);
		kp_device_ended_inside(device);
		return;
	}
	request.deadline = deadline_of(null, bio);
	if (!null->options->synchronous)
		heap_push(null, request);
	kp_device_unlock(device);
	if (null->options->synchronous) {
		while (kp_now_ns() < request.deadline)
			wait_until(null, request.deadline, true);
		end_request(&request);
		kp_device_ended_inside(device);
	}
}

static void null_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct null_device *null = null_device(kp_stage_device(stage));

	if (null->plain && !bio->next) {
		kp_device_account(&null->device, bio);
		kp_bio_endio(bio);
		return;
	}
	submit_any(null, bio);
}

#define BATCH 16u /* requests that leave the heap at a time */

/*
 * End the requests that are due. Return: how many ended. *next receives the time at which @wanted
 * more will have ended, 0 when nothing is in flight.
 */
static unsigned int end_due(struct null_device *null, unsigned int wanted, uint64_t *next)
{
	struct null_request due[BATCH];
	uint64_t now = kp_now_ns();
	unsigned int ended = 0, nr;

	do {
		nr = 0;
		kp_device_lock(&null->device);
		while (nr < BATCH && null->device.in_flight && null->heap[0].deadline <= now)
			due[nr++] = heap_pop(null);
		ended += nr;
		*next = nr < BATCH ? deadline_of_nth(null, wanted - kp_min(wanted, ended)) : 0;
		kp_device_unlock(&null->device);
		for (unsigned int i = 0; i < nr; i++)
			end_request(&due[i]);
		if (nr)
			kp_device_ended(&null->device, 0);
	} while (nr == BATCH);
	return ended;
}

/*
 * Like io_getevents(min_nr): sleep once, until the last wanted request is due, then end all that
 * are due. A wait that spins takes a CPU, so it must not spin while threads of a stage have work.
 */
static int null_reap(struct kp_device *device, unsigned int min, const struct timespec *timeout)
{
	struct null_device *null = null_device(device);
	uint64_t next, give_up = UINT64_MAX;
	unsigned int ended = end_due(null, min, &next);

	if (timeout && ended < min)
		give_up = kp_now_ns() + timeout->tv_sec * 1000000000ull + timeout->tv_nsec;
	while (ended < min && next) {
		bool spin = !device->shared || !kp_pipeline_busy(device->stage.pipeline);
		uint64_t until = kp_min(next, give_up);

		wait_until(null, until, spin);
		ended += end_due(null, min - ended, &next);
		/* The wait ended early: another thread or a signal woke it, or it is time to look around. */
		if (ended < min && next && kp_now_ns() < until)
			break;
		if (kp_now_ns() >= give_up)
			break;
	}
	return ended;
}

static int null_open(struct kp_device *device, struct kp_file *file)
{
	struct null_device *null = null_device(device);

	if (!null->options->memory_backed)
		return 0;
	if (file->size > CHUNK_SIZE * MAX_CHUNKS)
		return -EFBIG;
	if (strlen(file->path) >= sizeof(file->key.name))
		return -ENAMETOOLONG;
	return kp_arena_object(device->stage.pipeline->arena, "null", &file->key, sizeof(file->key),
			       sizeof(struct null_contents), NULL, NULL, &file->device_data);
}

/* Parse digits only: strtoull() would also accept a sign and blanks. */
static bool parse_sector(const char **text, uint64_t *sector)
{
	char *end;

	*sector = 0;
	if (**text < '0' || **text > '9')
		return false;
	*sector = strtoull(*text, &end, 10);
	*text = end;
	return *sector <= UINT64_MAX / KP_SECTOR_SIZE - 1;
}

/* Parse the next range of "16-23,1024-1031": sectors, both ends included. */
static bool parse_range(const char **text, struct bad_range *range)
{
	uint64_t first, last;
	bool good = parse_sector(text, &first);

	last = first;
	if (good && **text == '-') {
		(*text)++;
		good = parse_sector(text, &last);
	}
	if (!good || last < first || (**text && **text != ','))
		return false;
	*range = (struct bad_range){ first * KP_SECTOR_SIZE, (last + 1) * KP_SECTOR_SIZE };
	return true;
}

/* null_check() has validated the ranges. */
static int add_badblocks(struct null_device *null, const char *text)
{
	do {
		struct bad_range *bad = realloc(null->bad, (null->nr_bad + 1) * sizeof(*bad));

		if (!bad)
			return -ENOMEM;
		null->bad = bad;
		parse_range(&text, &bad[null->nr_bad++]);
	} while (*text++ == ',');
	return 0;
}

static int null_check(const struct kp_device_config *config, char *why, size_t why_size)
{
	const struct kp_null_options *options = &config->null;
	const char *text = options->badblocks;
	struct bad_range range;

	if (options->queue_depth > MAX_QUEUE_DEPTH) {
		snprintf(why, why_size, "null_queue_depth=%u: too deep, give at most %u",
			 options->queue_depth, MAX_QUEUE_DEPTH);
		return -EINVAL;
	}
	while (text) {
		if (!parse_range(&text, &range)) {
			snprintf(why, why_size,
				 "null_badblocks=%s: not ranges of sectors, give START-END[,...]",
				 options->badblocks);
			return -EINVAL;
		}
		text = *text ? text + 1 : NULL;
	}
	return 0;
}

static int null_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		     const struct kp_pipeline_config *config)
{
	struct kp_device *device = kp_stage_device(stage);
	struct null_device *null = null_device(device);
	const struct kp_null_options *options = &device->config.null;

	(void)stage_config;
	null->options = options;
	null->timed =
		options->read_nsec || options->write_nsec || options->submit_nsec || options->mbps;
	null->queue_depth = options->queue_depth ? options->queue_depth : QUEUE_DEPTH;
	null->heap = calloc(device->depth, sizeof(*null->heap));
	null->deadlines = calloc(device->depth, sizeof(*null->deadlines));
	if (!null->heap || !null->deadlines)
		return -ENOMEM;
	if (null->timed) {
		void *shared_time;
		int ret = kp_arena_object(config->arena, "null-time", "", 0,
					  sizeof(struct null_time), NULL, NULL, &shared_time);

		if (ret)
			return ret;
		null->time = shared_time;
		prctl(PR_SET_TIMERSLACK, 1); /* the default lets sleeps end 50 us late */
	}
	null->plain =
		!null->timed && !options->memory_backed && !options->badblocks && !device->shared;
	if (null->plain)
		device->transfer = null_transfer;
	return options->badblocks ? add_badblocks(null, options->badblocks) : 0;
}

static void null_exit(struct kp_stage *stage)
{
	struct null_device *null = null_device(kp_stage_device(stage));

	free(null->heap);
	free(null->deadlines);
	free(null->bad);
}

const struct kp_device_ops kp_null_device = {
	.stage = {
		.name = "null",
		.size = sizeof(struct null_device),
		.init = null_init,
		.submit = null_submit,
		.exit = null_exit,
	},
	.caps = KP_BACKEND_NO_FILE | KP_BACKEND_OWN_IO,
	.check = null_check,
	.open = null_open,
	.reap = null_reap,
};
