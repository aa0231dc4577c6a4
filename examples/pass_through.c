// SPDX-License-Identifier: GPL-2.0-only
/*
 * libkpolicy without fio: read a file through the split stage and say how its I/Os were cut.
 *
 *	cc -o pass_through pass_through.c $(pkg-config --cflags --libs kpolicy)
 *	./pass_through [FILE [VARIANT]]
 *
 * Reads FILE, or a scratch file of 4 MiB, in I/Os of 1 MiB, eight at a time, each cut into requests
 * of 64 KiB. VARIANT is a row of the split policy, or "none" for no policy at all: the pass-through.
 */
#include <errno.h>
#include <fcntl.h>
#include <kpolicy.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH	8
#define IO_SIZE (1024 * 1024)

/* Direct I/O wants memory, position and length in whole blocks: a page suits every device. */
static void *make_buffer(void)
{
	return aligned_alloc(KP_PAGE_SIZE, IO_SIZE);
}

static int make_scratch_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	char *data = calloc(1, IO_SIZE);
	int ret = fd < 0 || !data ? -1 : 0;

	for (int i = 0; !ret && i < 4; i++)
		ret = write(fd, data, IO_SIZE) == IO_SIZE ? 0 : -1;
	if (fd >= 0)
		close(fd);
	free(data);
	return ret;
}

/* Read all of @file, @size bytes. Return: bytes read, or -errno. */
static int64_t read_all(struct kp_pipeline *pl, struct kp_file *file, uint64_t size,
			struct kp_io *ios, void **buffers)
{
	uint64_t pos = 0;
	int64_t total = 0;
	unsigned int in_flight = 0;
	struct kp_io *idle[DEPTH];
	unsigned int nr_idle = 0;

	for (unsigned int i = 0; i < DEPTH; i++) {
		ios[i].private = buffers[i];
		idle[nr_idle++] = &ios[i];
	}
	while (pos < size || in_flight) {
		int nr;

		/* A batch: each enters the first stage, and all go to the device together. */
		while (pos < size && nr_idle) {
			struct kp_io *io = idle[--nr_idle];

			kp_io_prepare(io, KP_OP_READ, file, pos, io->private, IO_SIZE);
			if (kp_submit(pl, io))
				return -EBUSY; /* cannot be: the pipeline's depth is ours */
			pos += IO_SIZE;
			in_flight++;
		}
		kp_commit(pl);
		/* Wait for one, take all that are there. */
		nr = kp_reap(pl, 1, DEPTH, NULL);
		if (nr < 0)
			return nr;
		for (int i = 0; i < nr; i++) {
			struct kp_io *io = kp_reaped(pl, i);

			if (kp_io_error(io))
				return kp_io_error(io);
			total += IO_SIZE - kp_io_resid(io); /* less across the end of the file */
			idle[nr_idle++] = io;
			in_flight--;
		}
	}
	return total;
}

static int run(const char *path, const char *name)
{
	struct kp_io ios[DEPTH] = { 0 };
	void *buffers[DEPTH];
	struct kp_stage_config stage = { .policy = &kp_split_policy };
	struct kp_pipeline_config config = {
		.device = { .backend = "libaio", .limits.max_sectors_kb = 64 },
		.depth = DEPTH,
		.max_io_size = IO_SIZE,
	};
	struct kp_counter_slot *counters;
	struct kp_pipeline *pl;
	struct kp_file *file;
	uint64_t size;
	int64_t got;
	char why[400];
	int ret;

	ret = kp_policy_find(&kp_split_policy, name, NULL, &stage.variant, why, sizeof(why));
	if (ret) {
		fprintf(stderr, "%s\n", why);
		return ret;
	}
	/* Before any fork(): what jobs share lies here. */
	ret = kp_arena_create(&config.arena, 0);
	if (ret)
		return ret;
	counters = config.slot = kp_counters_slot(config.arena);
	if (stage.variant) { /* NULL for "none" */
		config.stages = &stage;
		config.nr_stages = 1;
	}
	ret = kp_pipeline_create(&pl, &config);
	if (ret)
		return ret;
	ret = kp_file_open(pl, path, O_RDONLY, 0, &file);
	if (ret) {
		fprintf(stderr, "%s: %s\n", path, strerror(-ret));
		kp_pipeline_destroy(pl);
		return ret;
	}
	size = lseek(kp_file_fd(file), 0, SEEK_END);
	for (unsigned int i = 0; i < DEPTH; i++)
		buffers[i] = make_buffer();
	got = read_all(pl, file, size, ios, buffers);
	kp_pipeline_destroy(pl); /* closes the file, too */
	for (unsigned int i = 0; i < DEPTH; i++)
		free(buffers[i]);
	printf("%s: %lld bytes, %llu I/Os, %llu splits, %llu bios, %llu segments copied\n",
	       stage.variant ? stage.variant->name : "none", (long long)got,
	       (unsigned long long)counters->values[KP_IOS],
	       (unsigned long long)counters->values[KP_SPLITS],
	       (unsigned long long)counters->values[KP_BIOS],
	       (unsigned long long)counters->values[KP_VECS_COPIED]);
	kp_arena_destroy(config.arena);
	return got == (int64_t)size ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "pass_through.tmp";
	int ret;

	if (argc < 2 && make_scratch_file(path)) {
		perror(path);
		return 1;
	}
	if (argc > 2) {
		ret = run(path, argv[2]);
	} else {
		ret = run(path, "clone");
		ret = ret ? ret : run(path, "fast");
		ret = ret ? ret : run(path, "none");
	}
	if (argc < 2)
		unlink(path);
	return ret ? 1 : 0;
}
