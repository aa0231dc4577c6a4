// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group blocksize. "ID init SECTORS LBS": a block device of SECTORS with a logical block of LBS
 * bytes is opened; the answer is its block size. "ID write BLOCK DEVICE POS+LEN...": buffered writes
 * in blocks of BLOCK bytes, then fsync(). The answer is the bios, "r|wSECTOR+SECTORS", those of
 * blocks that follow each other and have one size as SECTOR+SECTORS*NUMBER; reads come before '|'.
 */
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "record.h"

#define MAX_BIOS 20000

struct run {
	char op;
	uint64_t sector, sectors;
	unsigned int number;
};

static void begin(void)
{
	static const char *const events[] = { "block/block_bio_queue", NULL };

	trace_start(events);
}

static int run_program(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command);
}

/* A dm device of this size is new: nobody has set its block size. */
static void record_init(const char *id, const char *rest)
{
	unsigned long sectors;
	unsigned int lbs;
	struct device *below;
	int size = 0, fd;

	if (sscanf(rest, "%lu %u", &sectors, &lbs) != 2)
		fatal("case %s: %s", id, rest);
	below = find_device(lbs == 4096 ? "virtio254" : "virtio30");
	if (!below || run_program("dmsetup create lab --table '0 %lu linear %s 0' >/dev/null 2>&1",
				  sectors, below->path)) {
		answer("%s none", id);
		return;
	}
	run_program("dmsetup mknodes lab >/dev/null 2>&1");
	fd = open("/dev/mapper/lab", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKBSZGET, &size))
		fatal("case %s: no block size", id);
	close(fd);
	run_program("dmsetup remove lab >/dev/null 2>&1");
	answer("%s %d", id, size);
}

static void add(struct run *runs, unsigned int *nr, const struct block_event *block)
{
	char op = strchr(block->rwbs, 'R') ? 'r' : 'w';
	struct run *last = *nr ? &runs[*nr - 1] : NULL;

	if (last && last->op == op && last->sectors == block->sectors &&
	    last->sector + last->sectors * last->number == block->sector) {
		last->number++;
		return;
	}
	if (*nr == MAX_BIOS)
		fatal("too many bios");
	runs[(*nr)++] = (struct run){ op, block->sector, block->sectors, 1 };
}

static size_t print_runs(char *text, size_t size, const struct run *runs, unsigned int nr)
{
	size_t used = 0;

	for (unsigned int i = 0; i < nr; i++) {
		used += snprintf(text + used, size - used, " %c%lu+%lu", runs[i].op, runs[i].sector,
				 runs[i].sectors);
		if (runs[i].number > 1)
			used += snprintf(text + used, size - used, "*%u", runs[i].number);
	}
	return used;
}

static unsigned int collect(const struct device *device, struct run *runs)
{
	struct block_event block;
	struct event event;
	unsigned int nr = 0;

	while (trace_next(&event)) {
		if (parse_block(&event, &block) && is_on(&block, device) && block.sectors)
			add(runs, &nr, &block);
	}
	return nr;
}

static void record_write(const char *id, const char *rest)
{
	static char data[1 << 20], text[1 << 15];
	static struct run runs[MAX_BIOS];
	unsigned int block;
	unsigned long pos, len;
	struct device *device;
	char name[32];
	size_t used;
	int fd, n;

	if (sscanf(rest, "%u %31s%n", &block, name, &n) != 2)
		fatal("case %s: %s", id, rest);
	device = find_device(name);
	if (!device) {
		answer("%s none", id);
		return;
	}
	fd = open(device->path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fatal("case %s: %s", id, device->path);
	if (ioctl(fd, BLKBSZSET, &block)) {
		answer("%s error %d", id, errno);
		close(fd);
		return;
	}
	/* No page of the case before. */
	ioctl(fd, BLKFLSBUF, 0);
	trace_drop();
	for (rest += n; sscanf(rest, " %lu+%lu%n", &pos, &len, &n) == 2; rest += n) {
		if (pwrite(fd, data, len, pos) != (ssize_t)len)
			fatal("case %s: write", id);
	}
	used = print_runs(text, sizeof(text), runs, collect(device, runs));
	if (fsync(fd))
		fatal("case %s: fsync", id);
	used += snprintf(text + used, sizeof(text) - used, " |");
	print_runs(text + used, sizeof(text) - used, runs, collect(device, runs));
	answer("%s%s", id, text);
	close(fd);
}

static void record(const char *id, const char *rest)
{
	if (!strncmp(rest, "init ", 5))
		record_init(id, rest + 5);
	else if (!strncmp(rest, "write ", 6))
		record_write(id, rest + 6);
	else
		fatal("case %s: %s", id, rest);
}

const struct recording blocksize_recording = { "blocksize", begin, record };
