/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder: does the I/Os of a file of cases in the running kernel and prints what the kernel
 * made of each. It is the only program in the laboratory's initramfs beside busybox.
 */
#ifndef LAB_RECORD_H
#define LAB_RECORD_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "vector.h"

/* ---- answers ------------------------------------------------------------------------------- */

extern const char *group; /* whose cases these are */

/* answer - print "GROUP text" to the host. One line. */
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fatal - the recorder itself cannot go on: say why on the console and exit. */
void fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- files --------------------------------------------------------------------------------- */

/* read_text - the first line of a file, without its newline. Return: false when there is none. */
bool read_text(const char *path, char *text, size_t size);

/* read_number - the same as a number; @otherwise when there is none. */
uint64_t read_number(const char *path, uint64_t otherwise);

/* write_text - Return: 0 or -errno. */
int write_text(const char *path, const char *text);

/* value_of - the text behind "KEY=" in a line of words, in a static buffer; NULL: not there. */
const char *value_of(const char *line, const char *key);

/* ---- devices ------------------------------------------------------------------------------- */

/* struct device - a block device under test. */
struct device {
	char name[32]; /* in the cases */
	char disk[32]; /* in /sys/block */
	char path[64]; /* in /dev */
	unsigned int major, minor;
	uint64_t sectors;
	uint64_t seg_boundary_mask; /* not in sysfs */
	int fd;			    /* O_DIRECT, -1: closed */
};

/* find_device - by the name of the cases; NULL: this kernel or machine has none. */
struct device *find_device(const char *name);

/* load_devices - from the host's list; makes those that the kernel itself provides. */
void load_devices(const char *list);

/* add_device - a disk of /sys/block that exists now. Return: NULL when it does not. */
struct device *add_device(const char *name, const char *disk);

/* queue_number, set_queue - a file of the queue's folder in sysfs. */
uint64_t queue_number(const struct device *device, const char *name, uint64_t otherwise);
int set_queue(const struct device *device, const char *name, const char *value);

/* set_max_sectors - in KiB; what the device cannot do leaves it at what it says that it can. */
void set_max_sectors(const struct device *device, const char *kb);

/* print_limits - an answer that says which limits the device has. */
void print_limits(const struct device *device);

/* ---- memory -------------------------------------------------------------------------------- */

/* arena_init - huge pages that do not adjoin, one for each area of lab/vector.h. */
void arena_init(void);
void *arena_at(unsigned int sector);

/* ---- trace --------------------------------------------------------------------------------- */

/* struct event - a line of the trace. */
struct event {
	char name[40];
	int pid;
	char task[32];
	char text[400]; /* behind "NAME: " */
};

/* trace_start - enable these events, "SYSTEM/NAME", and no other; NULL ends the list. */
void trace_start(const char *const *events);

/* trace_next - the next event, in order. Return: false when there is none by now. */
bool trace_next(struct event *event);

/* trace_drop - forget what was traced so far. */
void trace_drop(void);

/* struct block_event - block_bio_queue, block_split, block_rq_issue ... of a device. */
struct block_event {
	unsigned int major, minor;
	char rwbs[12];
	uint64_t sector;
	uint64_t sectors; /* block_split: the new sector */
};

/* parse_block - Return: false when it is another kind of line. */
bool parse_block(const struct event *event, struct block_event *block);

static inline bool is_on(const struct block_event *block, const struct device *device)
{
	return block->major == device->major && block->minor == device->minor;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* struct recording - one group of cases. */
struct recording {
	const char *name;
	void (*begin)(void);
	void (*record)(const char *id, const char *rest);
};

extern const struct recording split_recording;
extern const struct recording plug_recording;
extern const struct recording blocksize_recording;
extern const struct recording locks_recording;
extern const struct recording writeback_recording;

#endif
