// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group split: "ID DEVICE MAX_KB r|w SECTOR VECTOR", a direct read or write. The answer is
 * "ID MAX_KB BIOS": each bio by its sectors, the pieces of one that was cut joined by '+', a number
 * of equal ones as SECTORS*NUMBER. Then, when the requests are not just these pieces, "= REQUESTS".
 */
#include <sys/uio.h>

#include "record.h"

#define MAX_PIECES 20000

struct piece {
	uint64_t sector, sectors;
	bool cut; /* the bio goes on in the next piece */
};

static struct piece pieces[MAX_PIECES], requests[MAX_PIECES];
static unsigned int nr_pieces, nr_requests;

static void begin(void)
{
	static const char *const events[] = { "block/block_bio_queue", "block/block_split",
					      "block/block_rq_issue", NULL };
	static const char *const names[] = { "nvme512",	  "nvme4k",    "virtio6", "virtio30",
					     "virtio254", "scsi512",   "ide512",  "null512",
					     "null4k",	  "nullzoned", "loop512", "loop4k" };

	arena_init();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct device *device = find_device(names[i]);

		if (device)
			print_limits(device);
		else
			answer("device %s none", names[i]);
	}
	trace_start(events);
}

/* Up to 4.12 the rest of a bio that was cut is queued, and traced, once more. */
static bool is_rest(const struct block_event *block)
{
	const struct piece *last = &pieces[nr_pieces - 1];

	return nr_pieces > 1 && pieces[nr_pieces - 2].cut && block->sector == last->sector &&
	       block->sectors == last->sectors;
}

static void add_event(const struct event *event, const struct block_event *block)
{
	struct piece *last = &pieces[nr_pieces - 1];

	if (nr_pieces == MAX_PIECES || nr_requests == MAX_PIECES)
		fatal("too many pieces");
	if (!strcmp(event->name, "block_rq_issue")) {
		requests[nr_requests++] = (struct piece){ block->sector, block->sectors, false };
	} else if (!strcmp(event->name, "block_bio_queue")) {
		if (!is_rest(block))
			pieces[nr_pieces++] =
				(struct piece){ block->sector, block->sectors, false };
	} else if (nr_pieces && last->sector == block->sector) {
		uint64_t end = last->sector + last->sectors;

		last->sectors = block->sectors - last->sector;
		last->cut = true;
		pieces[nr_pieces++] = (struct piece){ block->sectors, end - block->sectors, false };
	} else {
		fatal("a split of no bio: %s", event->text);
	}
}

static int by_sector(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return (x->sector > y->sector) - (x->sector < y->sector);
}

static size_t print_pieces(char *text, size_t size, const struct piece *piece, unsigned int nr)
{
	size_t used = 0;

	for (unsigned int i = 0, same; i < nr; i += same) {
		for (same = 1; i + same < nr && piece[i + same].sectors == piece[i].sectors &&
			       piece[i + same].cut == piece[i].cut;
		     same++)
			;
		used += snprintf(text + used, size - used, "%lu", piece[i].sectors);
		if (same > 1)
			used += snprintf(text + used, size - used, "*%u", same);
		if (i + same < nr)
			used += snprintf(text + used, size - used, "%s", piece[i].cut ? "+" : " ");
	}
	return used;
}

static bool same_as_requests(void)
{
	if (nr_requests != nr_pieces)
		return false;
	for (unsigned int i = 0; i < nr_pieces; i++) {
		if (pieces[i].sector != requests[i].sector ||
		    pieces[i].sectors != requests[i].sectors)
			return false;
	}
	return true;
}

static void print_answer(const char *id, const struct device *device)
{
	static char text[1 << 15];
	size_t used = print_pieces(text, sizeof(text), pieces, nr_pieces);

	/* 5.16 to 6.12 issue the newest first: the order is the plug's affair. */
	qsort(requests, nr_requests, sizeof(*requests), by_sector);
	if (!same_as_requests()) {
		used += snprintf(text + used, sizeof(text) - used, " = ");
		print_pieces(text + used, sizeof(text) - used, requests, nr_requests);
	}
	answer("%s %lu %s", id, queue_number(device, "max_sectors_kb", 0), text);
}

static void record(const char *id, const char *rest)
{
	static struct lab_stretch stretches[LAB_MAX_STRETCHES];
	static struct iovec iov[LAB_MAX_STRETCHES];
	char name[32], max_kb[16], op, vector[8000];
	struct block_event block;
	struct device *device;
	struct event event;
	uint64_t sector;
	unsigned int nr;
	ssize_t done;

	if (sscanf(rest, "%31s %15s %c %lu %7999s", name, max_kb, &op, &sector, vector) != 5)
		fatal("case %s: %s", id, rest);
	nr = lab_parse_vector(vector, stretches);
	device = find_device(name);
	if (!device) {
		answer("%s none", id);
		return;
	}
	set_max_sectors(device, max_kb);
	for (unsigned int i = 0; i < nr; i++)
		iov[i] = (struct iovec){ arena_at(stretches[i].start),
					 stretches[i].sectors * 512ul };
	trace_drop();
	nr_pieces = nr_requests = 0;
	done = op == 'r' ? preadv(device->fd, iov, nr, sector * 512)
			 : pwritev(device->fd, iov, nr, sector * 512);
	if (done < 0) {
		answer("%s error %d", id, errno);
		return;
	}
	if (!done)
		fatal("case %s is behind the end of %s", id, name);
	while (trace_next(&event)) {
		if (parse_block(&event, &block) && is_on(&block, device) && block.sectors)
			add_event(&event, &block);
	}
	print_answer(id, device);
}

const struct recording split_recording = { "split", begin, record };
