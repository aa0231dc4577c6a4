// SPDX-License-Identifier: GPL-2.0-only
/*
 * cases FOLDER SEED: writes FOLDER/GROUP.cases, the cases that every kernel of the laboratory is
 * given. The same seed makes the same cases.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vector.h"

static uint64_t seed;

static uint64_t next_random(void)
{
	/* xorshift64* */
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 2685821657736338717ull;
}

/* From @least to @most, both included. */
static unsigned int between(unsigned int least, unsigned int most)
{
	return least + (next_random() >> 33) % (most - least + 1);
}

#define ONE_OF(...)                                       \
	(((const unsigned int[]){ __VA_ARGS__ })[between( \
		0, sizeof((const unsigned int[]){ __VA_ARGS__ }) / sizeof(unsigned int) - 1)])

static FILE *begin(const char *folder, const char *group, unsigned long the_seed)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.cases", folder, group);
	file = fopen(path, "we");
	if (!file) {
		fprintf(stderr, "cases: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	fprintf(file, "# SPDX-License-Identifier: GPL-2.0-only\n# seed %lu\n", the_seed);
	seed = the_seed * 0x9e3779b97f4a7c15ull;
	for (const char *c = group; *c; c++)
		seed = (seed ^ *c) * 0x100000001b3ull;
	return file;
}

/* ---- split --------------------------------------------------------------------------------- */

/* What a vector of this group looks like; all in sectors. @block: multiple of everything. */
struct shape {
	unsigned int block;
	unsigned int area, at; /* where the next stretch begins */
	unsigned int sectors;  /* so far */
	unsigned int stretches;
	bool first;
};

static void add(FILE *file, struct shape *shape, unsigned int start, unsigned int sectors,
		unsigned int count, unsigned int stride)
{
	fprintf(file, "%s%u+%u", shape->first ? " " : ",", start, sectors);
	if (count > 1)
		fprintf(file, "*%u/%u", count, stride);
	shape->first = false;
	shape->sectors += sectors * count;
	shape->stretches += count;
}

/* One buffer, of pages that adjoin. */
static void one_buffer(FILE *file, struct shape *shape)
{
	unsigned int offset = between(0, 1) ? between(0, 7) * shape->block % 8 : 0;
	unsigned int most = ONE_OF(16, 256, 1024, LAB_AREA_SECTORS - 8);
	unsigned int sectors = between(1, most / shape->block) * shape->block;

	add(file, shape, between(0, LAB_AREAS - 1) * LAB_AREA_SECTORS + offset, sectors, 1, 0);
}

/* Whole pages, no two of which adjoin; the vector of an application's ordinary memory. */
static void scattered_pages(FILE *file, struct shape *shape)
{
	unsigned int areas = between(1, 4);

	for (unsigned int i = 0; i < areas; i++)
		add(file, shape, i * LAB_AREA_SECTORS, 8, between(1, 250), 16);
}

/* Some pages adjoin, some do not. */
static void runs_of_pages(FILE *file, struct shape *shape)
{
	unsigned int runs = between(2, 30), at = 0;

	for (unsigned int i = 0; i < runs; i++) {
		unsigned int pages = between(1, 12);

		add(file, shape, at, pages * 8, 1, 0);
		at += (pages + between(1, 3)) * 8;
		if (at / LAB_AREA_SECTORS != (at + 15 * 8) / LAB_AREA_SECTORS)
			at = (at / LAB_AREA_SECTORS + 1) * LAB_AREA_SECTORS;
	}
}

/* Any length, anywhere. */
static void odd(FILE *file, struct shape *shape)
{
	unsigned int stretches = between(2, 40), at = between(0, 7) * shape->block;

	for (unsigned int i = 0; i < stretches; i++) {
		unsigned int sectors = between(1, 40 / shape->block) * shape->block;

		if (at / LAB_AREA_SECTORS != (at + sectors) / LAB_AREA_SECTORS)
			at = (at / LAB_AREA_SECTORS + 1) * LAB_AREA_SECTORS;
		add(file, shape, at, sectors, 1, 0);
		at += sectors + (between(0, 2) ? between(0, 16 / shape->block) * shape->block : 0);
	}
}

/* Less than a page, the rest of the page, the next one: what a virtual boundary minds. */
static void page_parts(FILE *file, struct shape *shape)
{
	unsigned int pages = between(2, 12);

	for (unsigned int i = 0; i < pages; i++) {
		unsigned int head = between(0, 3) ? 0 : between(0, 7) / shape->block * shape->block;
		unsigned int tail = between(0, 3) ? 8 : between(1, 8) * shape->block;

		tail = tail > 8 ? 8 : tail;
		if (tail > head)
			add(file, shape, i * 16 + head, tail - head, 1, 0);
	}
	if (shape->first)
		add(file, shape, 0, 8, 1, 0);
}

static void split_cases(const char *folder, unsigned long the_seed)
{
	static const struct {
		const char *device;
		unsigned int lbs, max_kb, cases;
	} devices[] = {
		{ "nvme512", 1, 1024, 90 },   { "nvme4k", 8, 256, 40 },
		{ "virtio6", 1, 1280, 60 },   { "virtio30", 1, 1280, 70 },
		{ "virtio254", 8, 1280, 30 }, { "scsi512", 1, 1280, 50 },
		{ "ide512", 1, 512, 30 },     { "null512", 1, 127, 20 },
		{ "null4k", 8, 127, 20 },     { "nullzoned", 1, 127, 60 },
		{ "loop512", 1, 127, 20 },    { "loop4k", 8, 127, 20 },
	};
	static void (*const shapes[])(FILE *, struct shape *) = {
		one_buffer, one_buffer, scattered_pages, runs_of_pages, odd, page_parts
	};
	FILE *file = begin(folder, "split", the_seed);
	unsigned int id = 0;

	fprintf(file, "# ID DEVICE MAX_SECTORS_KB r|w SECTOR VECTOR\n");
	for (unsigned int d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
		for (unsigned int i = 0; i < devices[d].cases; i++) {
			struct shape shape = { .block = devices[d].lbs, .first = true };
			unsigned int kb =
				between(0, 2) ? between(4, devices[d].max_kb) : devices[d].max_kb;

			/* Small limits meet the tests most often. */
			if (!between(0, 2))
				kb = ONE_OF(4, 8, 16, 20, 33, 64, 127);
			/* Many positions near the end of a chunk of 1 MiB. */
			fprintf(file, "%u %s %u %c %u", ++id, devices[d].device, kb,
				between(0, 1) ? 'r' : 'w',
				between(0, 400) * 2048 + between(0, 1) * 2040 +
					(between(0, 7) & ~(shape.block - 1)));
			shapes[between(0, 5)](file, &shape);
			fprintf(file, "\n");
		}
	}
	fclose(file);
}

/* ---- plug ---------------------------------------------------------------------------------- */

#define PLUG_BIOS 110u

/* Bios in a row, apart, or backwards, all of one size. */
static void one_stream(FILE *file, unsigned int block)
{
	unsigned int sectors = ONE_OF(1, 1, 2, 4) * block, n = between(2, PLUG_BIOS);
	unsigned int start = between(0, 1000) * 8;
	char op = between(0, 1) ? 'r' : 'w';

	switch (between(0, 2)) {
	case 0:
		fprintf(file, " %c0:%u+%u+%ux%u/%u", op, start, between(0, 3) * block, sectors, n,
			sectors);
		break;
	case 1:
		fprintf(file, " %c0:%u+0+%ux%u/%u", op, start, sectors, n, sectors + 8);
		break;
	default:
		n = between(2, 40);
		for (unsigned int i = n; i; i--)
			fprintf(file, " %c0:%u+%u+%u", op, start + i * sectors, i * 16, sectors);
	}
}

/* The pieces of a stretch of the device in any order, now and then one left out. */
static void shuffled(FILE *file, unsigned int block)
{
	unsigned int order[40], n = between(3, 40), sectors = ONE_OF(1, 8) * block;
	unsigned int start = between(0, 1000) * 8;

	for (unsigned int i = 0; i < n; i++)
		order[i] = i;
	for (unsigned int i = n; i > 1; i--) {
		unsigned int other = between(0, i - 1), was = order[i - 1];

		order[i - 1] = order[other];
		order[other] = was;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (between(0, 9))
			fprintf(file, " w0:%u+%u+%u", start + order[i] * sectors, order[i] * 80,
				sectors);
	}
	fprintf(file, " w0:%u+4096+%u", start + 5000, sectors);
}

/* Several streams by turns: which request may a bio join, the newest, the oldest, any? */
static void streams_by_turns(FILE *file, unsigned int block, unsigned int devices)
{
	unsigned int streams = between(2, 5), n = between(6, 70), at[5], device[5];

	for (unsigned int s = 0; s < streams; s++) {
		at[s] = s * 40000 + between(0, 100) * 8;
		device[s] = between(0, devices - 1);
	}
	for (unsigned int i = 0; i < n; i++) {
		unsigned int s = between(0, streams - 1), sectors = ONE_OF(1, 1, 2) * block;

		fprintf(file, " w%u:%u+%u+%u", device[s], at[s], i * 32, sectors);
		at[s] += sectors + (between(0, 7) ? 0 : 8);
	}
}

/* Bios of up to 256 KiB between small ones: a request of 128 KiB flushes the list. */
static void with_large(FILE *file, unsigned int block, unsigned int devices)
{
	unsigned int n = between(3, 16), at = between(0, 1000) * 8;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int sectors =
			between(0, 2) ? block * ONE_OF(1, 2) : ONE_OF(128, 248, 256, 264, 512);

		fprintf(file, " w%u:%u+%u+%u", between(0, devices - 1), at, i % 6 * 600, sectors);
		at += sectors + (between(0, 1) ? 0 : 80);
	}
}

/* Many segments each: the sum counts. */
static void scattered_bios(FILE *file, unsigned int block)
{
	unsigned int n = between(3, 25), at = between(0, 1000) * 8;

	(void)block;
	for (unsigned int i = 0; i < n; i++) {
		unsigned int pages = between(1, 9);

		fprintf(file, " w0:%u+%u+8*%u/16", at, i * 160, pages);
		at += pages * 8;
	}
}

/* Ends and begins within pages: what the device's virtual boundary lets join. */
static void cut_pages(FILE *file, unsigned int block)
{
	unsigned int n = between(4, 30), at = between(0, 1000) * 8, memory = between(0, 7) * block;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int sectors = between(1, 8) * block;

		fprintf(file, " w0:%u+%u+%u", at, memory, sectors);
		at += sectors;
		memory += sectors + (between(0, 2) ? 0 : between(1, 9) * block);
	}
}

static void plug_cases(const char *folder, unsigned long the_seed)
{
	static const struct {
		const char *devices;
		unsigned int block, nr, cases;
	} devices[] = {
		{ "nvme512", 1, 1, 80 },	{ "nvme4k", 8, 1, 70 },
		{ "scsi512", 1, 1, 80 },	{ "null512", 1, 1, 40 },
		{ "nullqueues", 1, 1, 30 },	{ "nvme512,nvme4k", 8, 2, 60 },
		{ "nvme4k,scsi512", 8, 2, 60 },
	};
	FILE *file = begin(folder, "plug", the_seed);
	unsigned int id = 0;

	fprintf(file, "# ID MAX_SECTORS_KB DEVICES BIOS\n");
	for (unsigned int d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
		for (unsigned int i = 0; i < devices[d].cases; i++) {
			unsigned int block = devices[d].block;
			fprintf(file, "%u %u %s", ++id, ONE_OF(16, 64, 127, 256, 256),
				devices[d].devices);
			switch (devices[d].nr == 2 ? between(2, 3) : between(0, 5)) {
			case 0:
				one_stream(file, block);
				break;
			case 1:
				shuffled(file, block);
				break;
			case 2:
				streams_by_turns(file, block, devices[d].nr);
				break;
			case 3:
				with_large(file, block, devices[d].nr);
				break;
			case 4:
				scattered_bios(file, block);
				break;
			default:
				cut_pages(file, block);
				break;
			}
			fprintf(file, "\n");
		}
	}
	fclose(file);
}

/* ---- blocksize ----------------------------------------------------------------------------- */

/* Device sizes whose lowest bit is anywhere. */
static void init_cases(FILE *file, unsigned int *id)
{
	for (unsigned int i = 0; i < 60; i++) {
		unsigned int lbs = i % 3 ? 512 : 4096, shift = between(lbs == 4096 ? 3 : 0, 7);

		fprintf(file, "%u init %u %u\n", ++*id, (between(1, 1000) * 2 + 1) << shift, lbs);
	}
}

static void write_cases(FILE *file, unsigned int *id)
{
	for (unsigned int i = 0; i < 200; i++) {
		unsigned int block = ONE_OF(512, 512, 1024, 2048, 4096, 4096);
		unsigned int writes = between(1, 12), at = between(0, 200) * 4096;

		/* Since 6.15 a block may be larger than a page. */
		if (i >= 185)
			block = ONE_OF(8192, 16384, 65536);
		fprintf(file, "%u write %u %s", ++*id, block,
			ONE_OF(0, 1) || block < 4096 ? "virtio30" : "nvme4k");
		switch (between(0, 3)) {
		case 0: /* sequential, in pieces of one size */
			for (unsigned int w = 0, len = ONE_OF(512, 1000, 4096, 10000, 65536);
			     w < writes; w++)
				fprintf(file, " %u+%u", at + w * len, len);
			break;
		case 1: /* below a page, anywhere */
			for (unsigned int w = 0; w < writes; w++)
				fprintf(file, " %u+%u", at + between(0, 127) * 512,
					between(1, 7) * 512);
			break;
		case 2: /* not even sectors; overlapping */
			for (unsigned int w = 0; w < writes; w++)
				fprintf(file, " %u+%u", at + between(0, 20000), between(1, 9000));
			break;
		default: /* with holes */
			for (unsigned int w = 0; w < writes; w++) {
				unsigned int len = between(1, 40) * 512;

				fprintf(file, " %u+%u", at, len);
				at += len + between(0, 30) * 512;
			}
		}
		fprintf(file, "\n");
	}
}

static void blocksize_cases(const char *folder, unsigned long the_seed)
{
	FILE *file = begin(folder, "blocksize", the_seed);
	unsigned int id = 0;

	fprintf(file, "# ID init SECTORS LBS, or ID write BLOCK DEVICE POS+LEN...\n");
	init_cases(file, &id);
	write_cases(file, &id);
	fclose(file);
}

/* ---- locks --------------------------------------------------------------------------------- */

/*
 * Every pair would be some thousand. Each kind of each file system is first and second often enough
 * that a wrong cell of a row shows.
 */
static void locks_cases(const char *folder, unsigned long the_seed)
{
	static const char *const kinds[] = { "read",   "overwrite", "prealloc",
					     "hole",   "mixed",	    "extend",
					     "beyond", "unaligned", "unaligned-overwrite",
					     "punch",  "truncate",  "buffered",
					     "fsync" };
	static const struct {
		const char *fs;
		unsigned int kinds, cases;
	} systems[] = {
		{ "ext4", 9, 150 }, { "xfs", 9, 90 }, { "btrfs", 9, 90 }, { "bdev", 2, 10 }
	};
	FILE *file = begin(folder, "locks", the_seed);
	unsigned int id = 0;

	fprintf(file, "# ID FS FIRST SECOND\n");
	for (unsigned int s = 0; s < sizeof(systems) / sizeof(*systems); s++) {
		for (unsigned int i = 0; i < systems[s].cases; i++) {
			/* By turns, so that each is there. */
			unsigned int first = i % systems[s].kinds;
			unsigned int second = between(0, systems[s].kinds == 2 ? 1 : 13);
			bool aio = between(0, 1) && second < 9;

			/* The last ones have no counterpart in our rows: they are seldom. */
			if (second > 9)
				second = between(0, 2) ? between(0, 9) : between(10, 12);
			fprintf(file, "%u %s %s:%s %s:%s\n", ++id, systems[s].fs, kinds[first],
				between(0, 1) ? "sync" : "aio", kinds[second],
				aio && second < 9 ? "aio" : "sync");
		}
	}
	fclose(file);
}

/* ---- writeback ----------------------------------------------------------------------------- */

static void ranges(FILE *file, unsigned int most, unsigned int longest, bool kinds)
{
	unsigned int at = between(0, 20), nr = between(1, most);

	for (unsigned int i = 0; i < nr; i++) {
		unsigned int pages = between(1, longest);

		fprintf(file, "%s", i ? "," : " ");
		if (kinds)
			fprintf(file, "%c", between(0, 1) ? 'w' : 'u');
		fprintf(file, "%u-%u", at, at + pages - 1);
		at += pages + (between(0, 1) ? between(1, 30) : 0);
	}
}

static void writeback_cases(const char *folder, unsigned long the_seed)
{
	FILE *file = begin(folder, "writeback", the_seed);

	fprintf(file, "# ID fsync|flush LAYOUT DIRTY\n");
	for (unsigned int id = 1; id <= 210; id++) {
		bool flush = id % 3;
		/* A flusher's turn has 1024 pages: the larger sets take several. */
		unsigned int longest = flush ? ONE_OF(10, 200, 400) : 40;

		fprintf(file, "%u %s", id, flush ? "flush" : "fsync");
		if (between(0, 3))
			ranges(file, 12, longest, true);
		else
			fprintf(file, " -");
		ranges(file, longest == 400 ? 10 : 14, longest, false);
		fprintf(file, "\n");
	}
	fclose(file);
}

int main(int argc, char **argv)
{
	unsigned long the_seed;

	if (argc != 3)
		return 1;
	the_seed = strtoul(argv[2], NULL, 10);
	split_cases(argv[1], the_seed);
	plug_cases(argv[1], the_seed);
	blocksize_cases(argv[1], the_seed);
	locks_cases(argv[1], the_seed);
	writeback_cases(argv[1], the_seed);
	printf("cases of seed %lu in %s\n", the_seed, argv[1]);
	return 0;
}
