// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group writeback: "ID fsync|flush LAYOUT DIRTY", page ranges FIRST-LAST joined by commas. LAYOUT has
 * 'w' before those that are written and 'u' before those that are only allocated; the rest is a
 * hole. The pages of DIRTY are written through the page cache, and then fsync() or the flusher
 * writes them back. The answer is a part for each call of ext4_writepages():
 * "nr=BUDGET sync=MODE cyclic=0|1 index=BEGIN: PAGE+PAGES... > WRITTEN INDEX".
 */
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "record.h"

#define PAGE	  4096u
#define MAX_PAGES 8192
#define MAX_CALLS 64
#define FLUSHER	  "/proc/sys/vm/dirty_writeback_centisecs"
#define EXPIRE	  "/proc/sys/vm/dirty_expire_centisecs"

struct call {
	long nr, written, index_after;
	int sync, cyclic;
	unsigned long index;
	unsigned int first_run, nr_runs;
};

struct run {
	uint64_t sector; /* of the device, until the file's extents are known */
	unsigned long page, pages;
};

static struct call calls[MAX_CALLS];
static struct run runs[MAX_PAGES * 2];
static unsigned int nr_calls, nr_runs, total;
static struct device *disk;
static char page_data[PAGE];

static void begin(void)
{
	static const char *const events[] = { "block/block_bio_queue", "ext4/ext4_writepages",
					      "ext4/ext4_writepages_result", NULL };

	disk = add_device("ram", "ram0");
	if (!disk)
		fatal("no ram0");
	close(disk->fd);
	if (system("mkfs.ext4 -q -F -b 4096 -O ^metadata_csum_seed -E "
		   "lazy_itable_init=0,lazy_journal_init=0 /dev/ram0 >/dev/console 2>&1") ||
	    mount("/dev/ram0", "/mnt", "ext4", 0, "commit=300"))
		fatal("no ext4");
	/* A budget of 1024 pages: half of an eighth of the limit is less. */
	write_text("/proc/sys/vm/dirty_background_bytes", "15728640");
	write_text("/proc/sys/vm/dirty_bytes", "16777216");
	write_text(FLUSHER, "0");
	write_text(EXPIRE, "360000");
	trace_start(events);
}

/* Call @each for every range of a list; Return: pages. */
static unsigned int for_ranges(const char *list,
			       void (*each)(int fd, char kind, unsigned long first,
					    unsigned long pages),
			       int fd)
{
	unsigned int pages = 0;

	while (*list) {
		char kind = *list >= 'a' ? *list++ : 'd', *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		each(fd, kind, first, last - first + 1);
		pages += last - first + 1;
		list = end + (*end == ',');
	}
	return pages;
}

static void prepare(int fd, char kind, unsigned long first, unsigned long pages)
{
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, first * PAGE, pages * PAGE))
		fatal("fallocate");
	for (unsigned long i = 0; kind == 'w' && i < pages; i++) {
		if (pwrite(fd, page_data, PAGE, (first + i) * PAGE) != PAGE)
			fatal("write");
	}
}

static void dirty(int fd, char kind, unsigned long first, unsigned long pages)
{
	(void)kind;
	for (unsigned long i = 0; i < pages; i++) {
		if (pwrite(fd, page_data, PAGE, (first + i) * PAGE) != PAGE)
			fatal("write");
	}
}

static void take_event(const struct event *event)
{
	struct block_event block;
	struct call *call = nr_calls ? &calls[nr_calls - 1] : NULL;
	const char *text = event->text;

	if (!strcmp(event->name, "ext4_writepages")) {
		if (nr_calls == MAX_CALLS)
			fatal("too many calls");
		call = &calls[nr_calls++];
		*call = (struct call){ .first_run = nr_runs };
		text = strstr(text, "nr_to_write ");
		if (!text || sscanf(text, "nr_to_write %ld", &call->nr) != 1)
			fatal("event: %s", event->text);
		sscanf(strstr(text, "sync_mode "), "sync_mode %d", &call->sync);
		sscanf(strstr(text, "range_cyclic "), "range_cyclic %d", &call->cyclic);
		sscanf(strstr(text, "writeback_index "), "writeback_index %lu", &call->index);
	} else if (!strcmp(event->name, "ext4_writepages_result") && call) {
		sscanf(strstr(text, "pages_written "), "pages_written %ld", &call->written);
		sscanf(strstr(text, "writeback_index "), "writeback_index %ld", &call->index_after);
	} else if (call && parse_block(event, &block) && is_on(&block, disk) && block.sectors &&
		   strchr(block.rwbs, 'W') && !strchr(block.rwbs, 'M') && nr_runs < MAX_PAGES * 2) {
		runs[nr_runs++] = (struct run){ block.sector, 0, block.sectors / 8 };
		call->nr_runs++;
		total += block.sectors / 8;
	}
}

static void take_events(void)
{
	struct event event;

	while (trace_next(&event))
		take_event(&event);
}

/* Where in the file the bios were. */
static void find_pages(int fd)
{
	static union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + MAX_PAGES * sizeof(struct fiemap_extent)];
	} u;

	memset(&u.map, 0, sizeof(u.map));
	u.map.fm_length = UINT64_MAX;
	u.map.fm_extent_count = MAX_PAGES;
	if (ioctl(fd, FS_IOC_FIEMAP, &u.map))
		fatal("fiemap");
	for (unsigned int r = 0; r < nr_runs; r++) {
		runs[r].page = UINT64_MAX;
		for (unsigned int e = 0; e < u.map.fm_mapped_extents; e++) {
			const struct fiemap_extent *extent = &u.map.fm_extents[e];
			uint64_t at = runs[r].sector * 512;

			if (at >= extent->fe_physical &&
			    at < extent->fe_physical + extent->fe_length)
				runs[r].page =
					(extent->fe_logical + at - extent->fe_physical) / PAGE;
		}
	}
}

static void print_calls(const char *id)
{
	static char text[1 << 15];
	size_t used = 0;

	for (unsigned int c = 0; c < nr_calls; c++) {
		const struct call *call = &calls[c];
		unsigned int end = call->first_run + call->nr_runs;

		used += snprintf(text + used, sizeof(text) - used,
				 "%snr=%ld sync=%d cyclic=%d index=%lu:", c ? " | " : "",
				 call->sync ? -1 : call->nr, call->sync, call->cyclic, call->index);
		/* Bios of pages that follow each other are one run, whatever room a bio has. */
		for (unsigned int r = call->first_run, n; r < end; r += n) {
			unsigned long pages = runs[r].pages;

			n = 1;
			if (runs[r].page == UINT64_MAX) /* the journal's */
				continue;
			for (; r + n < end && runs[r + n].page == runs[r].page + pages; n++)
				pages += runs[r + n].pages;
			used += snprintf(text + used, sizeof(text) - used, " %lu+%lu", runs[r].page,
					 pages);
		}
		used += snprintf(text + used, sizeof(text) - used, " > %ld %ld", call->written,
				 call->index_after);
	}
	answer("%s %s", id, text);
}

static void record(const char *id, const char *rest)
{
	static char layout[8192], dirty_pages[8192];
	unsigned int wanted;
	char method[16];
	int fd;

	if (sscanf(rest, "%15s %8191s %8191s", method, layout, dirty_pages) != 3)
		fatal("case %s: %s", id, rest);
	unlink("/mnt/file");
	sync();
	fd = open("/mnt/file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		fatal("open");
	if (strcmp(layout, "-"))
		for_ranges(layout, prepare, fd);
	/* No page of the preparation is left to look at. */
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	wanted = for_ranges(dirty_pages, dirty, fd);
	trace_drop();
	nr_calls = nr_runs = total = 0;
	if (!strcmp(method, "fsync")) {
		fsync(fd);
		take_events();
	} else {
		write_text(EXPIRE, "1");
		write_text(FLUSHER, "1");
		for (unsigned int look = 0; look < 1000 && total < wanted; look++) {
			usleep(5000);
			take_events();
		}
		write_text(FLUSHER, "0");
		write_text(EXPIRE, "360000");
		usleep(50000);
		take_events();
	}
	find_pages(fd);
	print_calls(id);
	close(fd);
}

const struct recording writeback_recording = { "writeback", begin, record };
