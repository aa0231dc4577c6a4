// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group plug: "ID MAX_KB DEVICE[,DEVICE] BIO...", bios that one io_submit() hands to the kernel in
 * one plug. A BIO is "r|wD:SECTOR+VECTOR", where D counts the devices, or "...xN/STRIDE" for N of
 * them, the sector growing by STRIDE and the memory by 16 sectors from one to the next. The answer
 * is "ID MAX_KB REQUESTS": "D:SECTOR+SECTORS" in the order of sectors, '|' where the list was
 * flushed.
 */
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "record.h"

#define MAX_BIOS 256
#define DEPTH	 512

struct request {
	unsigned int device;
	uint64_t sector, sectors;
	unsigned int flush;
};

static aio_context_t context;

static void begin(void)
{
	static const char *const events[] = { "block/block_plug", "block/block_rq_issue", NULL };
	static const char *const names[] = { "nvme512", "nvme4k", "scsi512", "null512",
					     "nullqueues" };

	arena_init();
	if (syscall(SYS_io_setup, DEPTH, &context))
		fatal("io_setup");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct device *device = find_device(names[i]);

		if (device)
			print_limits(device);
		else
			answer("device %s none", names[i]);
	}
	trace_start(events);
}

static struct iocb iocbs[MAX_BIOS];
static struct iovec iovs[MAX_BIOS * 16];
static unsigned int nr_bios, nr_iovs;

/* One token of the case. Return: false when it is not one. */
static bool add_bios(const char *token, struct device *const *devices)
{
	static struct lab_stretch stretches[LAB_MAX_STRETCHES];
	unsigned int which, count = 1, stride = 0, nr;
	const char *times = strchr(token, 'x');
	char op, vector[400];
	uint64_t sector;

	if (sscanf(token, "%c%u:%lu+%399[0-9+*/,]", &op, &which, &sector, vector) != 4 || which > 1)
		return false;
	if (times)
		sscanf(times, "x%u/%u", &count, &stride);
	nr = lab_parse_vector(vector, stretches);
	for (unsigned int i = 0; i < count; i++) {
		struct iovec *iov = iovs + nr_iovs;

		if (nr_bios == MAX_BIOS || nr_iovs + nr > MAX_BIOS * 16)
			return false;
		for (unsigned int s = 0; s < nr; s++)
			iovs[nr_iovs++] = (struct iovec){ arena_at(stretches[s].start + i * 16),
							  stretches[s].sectors * 512ul };
		iocbs[nr_bios++] = (struct iocb){
			.aio_lio_opcode = op == 'r' ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV,
			.aio_fildes = devices[which]->fd,
			.aio_buf = (uintptr_t)iov,
			.aio_nbytes = nr,
			.aio_offset = (sector + (uint64_t)i * stride) * 512,
		};
	}
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	if (x->flush != y->flush)
		return x->flush < y->flush ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->sector > y->sector) - (x->sector < y->sector);
}

static void submit(const char *id)
{
	struct iocb *list[MAX_BIOS];
	struct io_event done[MAX_BIOS];
	unsigned int reaped = 0;

	for (unsigned int i = 0; i < nr_bios; i++)
		list[i] = &iocbs[i];
	if (syscall(SYS_io_submit, context, nr_bios, list) != nr_bios)
		fatal("case %s: io_submit", id);
	while (reaped < nr_bios) {
		long got = syscall(SYS_io_getevents, context, 1, MAX_BIOS, done, NULL);

		if (got <= 0)
			fatal("case %s: io_getevents", id);
		for (long i = 0; i < got; i++) {
			if (done[i].res < 0)
				fatal("case %s: an error %lld", id, done[i].res);
		}
		reaped += got;
	}
}

static void print_requests(const char *id, struct device *const *devices)
{
	static struct request requests[MAX_BIOS * 4];
	static char text[1 << 15];
	unsigned int nr = 0, flush = 0;
	struct block_event block;
	struct event event;
	size_t used = 0;

	while (trace_next(&event)) {
		if (!strcmp(event.name, "block_plug")) {
			flush++;
			continue;
		}
		if (!parse_block(&event, &block) || nr == MAX_BIOS * 4)
			continue;
		for (unsigned int d = 0; d < 2; d++) {
			if (devices[d] && is_on(&block, devices[d]))
				requests[nr++] =
					(struct request){ d, block.sector, block.sectors, flush };
		}
	}
	qsort(requests, nr, sizeof(*requests), by_place);
	for (unsigned int i = 0; i < nr; i++)
		used += snprintf(text + used, sizeof(text) - used, " %s%u:%lu+%lu",
				 i && requests[i].flush != requests[i - 1].flush ? "| " : "",
				 requests[i].device, requests[i].sector, requests[i].sectors);
	answer("%s %lu%s", id, queue_number(devices[0], "max_sectors_kb", 0), text);
}

static void record(const char *id, const char *rest)
{
	char line[1 << 14], max_kb[16], names[2][32] = { "", "" };
	struct device *devices[2] = { NULL, NULL };
	char *token, *position;
	int len;

	if (sscanf(rest, "%15s %31[^, ]%n", max_kb, names[0], &len) != 2)
		fatal("case %s: %s", id, rest);
	if (rest[len] == ',')
		sscanf(rest + len, ",%31s", names[1]);
	for (unsigned int d = 0; d < 2 && names[d][0]; d++) {
		devices[d] = find_device(names[d]);
		if (!devices[d]) {
			answer("%s none", id);
			return;
		}
		set_max_sectors(devices[d], max_kb);
	}
	nr_bios = nr_iovs = 0;
	snprintf(line, sizeof(line), "%s", rest + len + strcspn(rest + len, " "));
	for (token = strtok_r(line, " ", &position); token;
	     token = strtok_r(NULL, " ", &position)) {
		if (!add_bios(token, devices))
			fatal("case %s: %s", id, token);
	}
	trace_drop();
	submit(id);
	print_requests(id, devices);
}

const struct recording plug_recording = { "plug", begin, record };
