// SPDX-License-Identifier: GPL-2.0-only
/* The devices of the cases, and memory for their I/O. */
#include <dirent.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "record.h"

#define MAX_DEVICES 32
#define NULLB	    "/sys/kernel/config/nullb/"

static struct device devices[MAX_DEVICES];
static unsigned int nr_devices;

struct device *find_device(const char *name)
{
	for (unsigned int i = 0; i < nr_devices; i++) {
		if (!strcmp(devices[i].name, name))
			return &devices[i];
	}
	return NULL;
}

uint64_t queue_number(const struct device *device, const char *name, uint64_t otherwise)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", device->disk, name);
	return read_number(path, otherwise);
}

int set_queue(const struct device *device, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/%s", device->disk, name);
	return write_text(path, value);
}

void set_max_sectors(const struct device *device, const char *kb)
{
	char now[32];

	if (!set_queue(device, "max_sectors_kb", kb))
		return;
	/* null_blk's 255 sectors are shown as 127 KiB. */
	snprintf(now, sizeof(now), "%lu", queue_number(device, "max_sectors_kb", 0));
	set_queue(device, "max_sectors_kb", now);
}

struct device *add_device(const char *name, const char *disk)
{
	struct device *device = &devices[nr_devices];
	char path[128], text[64];

	snprintf(path, sizeof(path), "/sys/block/%s/dev", disk);
	if (nr_devices == MAX_DEVICES || !read_text(path, text, sizeof(text)) ||
	    sscanf(text, "%u:%u", &device->major, &device->minor) != 2)
		return NULL;
	snprintf(device->name, sizeof(device->name), "%s", name);
	snprintf(device->disk, sizeof(device->disk), "%s", disk);
	snprintf(device->path, sizeof(device->path), "/dev/%s", disk);
	snprintf(path, sizeof(path), "/sys/block/%s/size", disk);
	device->sectors = read_number(path, 0);
	device->seg_boundary_mask = 0xffffffff;
	device->fd = open(device->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (device->fd < 0)
		return NULL;
	/* Merges happen in the plug, or not at all. */
	set_queue(device, "scheduler", "none");
	set_queue(device, "wbt_lat_usec", "0");
	set_queue(device, "iostats", "1");
	nr_devices++;
	return device;
}

/* A disk of the host is the one that has its size. */
static void find_disk(const char *name, uint64_t sectors, uint64_t seg_boundary_mask)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char path[300];
		struct device *device;

		snprintf(path, sizeof(path), "/sys/block/%s/size", entry->d_name);
		if (read_number(path, 0) != sectors)
			continue;
		device = add_device(name, entry->d_name);
		if (device)
			device->seg_boundary_mask = seg_boundary_mask;
	}
	if (dir)
		closedir(dir);
}

/* null_blk by configfs, with "NAME=VALUE" attributes; one that this kernel lacks fails. */
static void make_nullb(const char *name, const char *const *attributes)
{
	char folder[128], path[192], disk[32];

	snprintf(folder, sizeof(folder), NULLB "%s", name);
	if (mkdir(folder, 0700))
		return;
	for (; *attributes; attributes++) {
		const char *equal = strchr(*attributes, '=');

		snprintf(path, sizeof(path), "%s/%.*s", folder, (int)(equal - *attributes),
			 *attributes);
		if (write_text(path, equal + 1))
			return;
	}
	snprintf(path, sizeof(path), "%s/power", folder);
	if (write_text(path, "1"))
		return;
	snprintf(path, sizeof(path), "%s/index", folder);
	snprintf(disk, sizeof(disk), "nullb%u", (unsigned int)read_number(path, 0));
	/* Newer kernels name the disk as the folder. */
	if (!add_device(name, disk))
		add_device(name, name);
}

/* A loop device over a file in memory that has no blocks. */
static void make_loop(const char *name, unsigned int block)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	char path[64], disk[32];
	int fd, file;

	if (control >= 0)
		close(control);
	if (number < 0)
		return;
	snprintf(path, sizeof(path), "/tmp/%s", name);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, 1 << 30))
		return;
	snprintf(disk, sizeof(disk), "loop%d", number);
	snprintf(path, sizeof(path), "/dev/%s", disk);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && !ioctl(fd, LOOP_SET_FD, file)) {
		if (block == 512 || !ioctl(fd, LOOP_SET_BLOCK_SIZE, block))
			add_device(name, disk);
	}
	close(file);
}

void load_devices(const char *list)
{
	static const char *const plain[] = { "size=1100",	"queue_mode=2",	 "irqmode=0",
					     "submit_queues=1", "blocksize=512", NULL };
	static const char *const large[] = { "size=1101",	"queue_mode=2",	  "irqmode=0",
					     "submit_queues=1", "blocksize=4096", NULL };
	static const char *const zoned[] = { "size=1104",	  "queue_mode=2",
					     "irqmode=0",	  "submit_queues=1",
					     "blocksize=512",	  "memory_backed=0",
					     "zoned=1",		  "zone_size=1",
					     "zone_nr_conv=1100", NULL };
	static const char *const queues[] = { "size=1102",	 "queue_mode=2",  "irqmode=0",
					      "submit_queues=2", "blocksize=512", NULL };
	FILE *file = fopen(list, "re");
	unsigned long sectors, mask;
	char name[32];

	while (file && fscanf(file, "%31s %lu %lx", name, &sectors, &mask) == 3)
		find_disk(name, sectors, mask);
	if (file)
		fclose(file);
	make_nullb("null512", plain);
	make_nullb("null4k", large);
	make_nullb("nullzoned", zoned);
	make_nullb("nullqueues", queues);
	make_loop("loop512", 512);
	make_loop("loop4k", 4096);
}

void print_limits(const struct device *device)
{
	bool is_nvme = !strncmp(device->disk, "nvme", 4);

	answer("device %s lbs=%lu pbs=%lu max_sectors_kb=%lu max_hw_sectors_kb=%lu "
	       "max_segments=%lu "
	       "max_segment_size=%lu chunk_sectors=%lu virt_boundary_mask=%lu "
	       "seg_boundary_mask=%lu",
	       device->name, queue_number(device, "logical_block_size", 512),
	       queue_number(device, "physical_block_size", 512),
	       queue_number(device, "max_sectors_kb", 0),
	       queue_number(device, "max_hw_sectors_kb", 0),
	       queue_number(device, "max_segments", 0), queue_number(device, "max_segment_size", 0),
	       queue_number(device, "chunk_sectors", 0),
	       /* The file is younger than NVMe's virtual boundary. */
	       queue_number(device, "virt_boundary_mask", is_nvme ? 4095 : 0),
	       device->seg_boundary_mask);
}

/* ---- memory -------------------------------------------------------------------------------- */

#define AREA_BYTES (LAB_AREA_SECTORS * 512ul)
#define NR_HUGE	   (4 * LAB_AREAS)

static char *areas[LAB_AREAS];

static uint64_t physical(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)addr / 4096 * 8) != 8)
		fatal("pagemap");
	close(fd);
	return (entry & ((1ull << 55) - 1)) * 4096;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = physical(*(char *const *)a), y = physical(*(char *const *)b);

	return (x > y) - (x < y);
}

void arena_init(void)
{
	char *pages[NR_HUGE], *memory, text[16];
	unsigned int nr = 0;
	uint64_t last = 0;

	snprintf(text, sizeof(text), "%u", NR_HUGE);
	write_text("/proc/sys/vm/nr_hugepages", text);
	memory = mmap(NULL, NR_HUGE * AREA_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fatal("huge pages");
	for (unsigned int i = 0; i < NR_HUGE; i++)
		pages[i] = memory + i * AREA_BYTES;
	qsort(pages, NR_HUGE, sizeof(*pages), by_address);
	for (unsigned int i = 0; i < NR_HUGE && nr < LAB_AREAS; i++) {
		if (nr && physical(pages[i]) == last + AREA_BYTES)
			continue;
		last = physical(pages[i]);
		areas[nr++] = pages[i];
	}
	if (nr < LAB_AREAS)
		fatal("%u huge pages that do not adjoin", nr);
}

void *arena_at(unsigned int sector)
{
	return areas[sector / LAB_AREA_SECTORS] + sector % LAB_AREA_SECTORS * 512;
}
