// SPDX-License-Identifier: GPL-2.0-only
/* Files of a pipeline: the descriptor, the identity that jobs share, the queue limits. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device.h"
#include "file.h"
#include "limits.h"
#include "log.h"
#include "pipeline.h"

/* What the file is, and the number of the device it lies on. */
static int identify(struct kp_file *file, uint64_t *dev)
{
	struct statx st;
	int read_only;

	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st))
		return -errno;
	file->block_device = S_ISBLK(st.stx_mode);
	if (file->block_device) {
		file->key.dev = *dev = makedev(st.stx_rdev_major, st.stx_rdev_minor);
		if (ioctl(file->fd, BLKGETSIZE64, &file->size) ||
		    ioctl(file->fd, BLKROGET, &read_only))
			return -errno;
		/* The kernel would say so with every write only. */
		return file->writable && read_only ? -EROFS : 0;
	}
	file->key.dev = *dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	file->key.ino = st.stx_ino;
	if (st.stx_mask & STATX_BTIME)
		file->key.birth_ns = st.stx_btime.tv_sec * 1000000000ull + st.stx_btime.tv_nsec;
	file->size = st.stx_size;
	return 0;
}

static int open_direct(struct kp_file *file, int flags)
{
	file->fd = open(file->path, flags | O_DIRECT | O_CLOEXEC, 0644);
	if (file->fd >= 0 || errno != EINVAL)
		return file->fd >= 0 ? 0 : -errno;
	file->fd = open(file->path, flags | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	kp_log("%s: not direct, its file system has no O_DIRECT: its page cache is in the figures",
	       file->path);
	return 0;
}

static int open_real(struct kp_file *file, int flags)
{
	uint64_t dev = 0;
	int ret = open_direct(file, flags);

	if (!ret)
		ret = identify(file, &dev);
	if (!ret && kp_limits_read(&file->limits, dev))
		kp_limits_default(&file->limits);
	return ret;
}

/* Does a stage complete writes early? Then it is the one that syncs. */
static bool buffered(const struct kp_pipeline *pl)
{
	for (unsigned int i = 0; i < pl->nr_stages; i++) {
		if (pl->stages[i]->ops->buffers)
			return true;
	}
	return false;
}

/* The null device's file is a name: nothing is looked for. */
static void open_model(struct kp_file *file, uint64_t size)
{
	file->size = size;
	snprintf(file->key.name, sizeof(file->key.name), "%s", file->path);
	kp_limits_default(&file->limits);
}

/* Tell every stage, top down. Those that were told are told of the end, too, on an error. */
static int attach_stages(struct kp_file *file)
{
	struct kp_pipeline *pl = file->pipeline;
	struct kp_device *device = pl->device;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < pl->nr_stages; i++) {
		if (pl->stages[i]->ops->open)
			ret = pl->stages[i]->ops->open(pl->stages[i], file);
	}
	if (!ret && device->ops->open)
		ret = device->ops->open(device, file);
	return ret;
}

static int first_free_index(const struct kp_pipeline *pl)
{
	int index = 0;

	for (const struct kp_file *file = pl->files; file; file = file->next)
		index = kp_max(index, file->index + 1);
	return index;
}

static void free_file(struct kp_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	free(file);
}

int kp_file_open(struct kp_pipeline *pl, const char *path, int flags, uint64_t size,
		 struct kp_file **result)
{
	struct kp_file *file = calloc(1, sizeof(*file) + strlen(path) + 1);
	char why[256];
	int ret = 0;

	if (!file)
		return -ENOMEM;
	strcpy(file->path, path);
	file->fd = -1;
	file->pipeline = pl;
	file->index = first_free_index(pl);
	file->writable = (flags & O_ACCMODE) != O_RDONLY;
	file->dsync = flags & O_DSYNC;
	file->flags = flags;
	if (buffered(pl))
		flags &= ~(O_SYNC | O_DSYNC);
	if (pl->device->ops->caps & KP_BACKEND_NO_FILE)
		open_model(file, size);
	else
		ret = open_real(file, flags);
	if (!ret) {
		ret = kp_limits_override(&file->limits, &pl->limits, why, sizeof(why));
		if (ret)
			kp_log("%s: %s", path, why);
	}
	if (ret) {
		free_file(file);
		return ret;
	}
	file->next = pl->files;
	pl->files = file;
	ret = attach_stages(file);
	if (ret) {
		kp_file_close(file);
		return ret;
	}
	*result = file;
	return 0;
}

int kp_file_close(struct kp_file *file)
{
	struct kp_pipeline *pl = file->pipeline;
	struct kp_file **link = &pl->files;
	int ret = 0;

	kp_pipeline_adopt(pl);
	kp_pipeline_drain(pl);
	for (unsigned int i = 0; i < pl->nr_stages; i++) {
		if (pl->stages[i]->ops->close)
			pl->stages[i]->ops->close(pl->stages[i], file);
	}
	if (pl->device->ops->close)
		pl->device->ops->close(pl->device, file);
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	if (file->fd >= 0 && close(file->fd))
		ret = -errno;
	file->fd = -1;
	free_file(file);
	return ret;
}

void kp_file_invalidate(struct kp_file *file, uint64_t pos, uint64_t len)
{
	struct kp_pipeline *pl = file->pipeline;

	for (unsigned int i = 0; i < pl->nr_stages; i++) {
		if (pl->stages[i]->ops->invalidate)
			pl->stages[i]->ops->invalidate(pl->stages[i], file, pos, len);
	}
}

int kp_file_fd(const struct kp_file *file)
{
	return file->fd;
}

const struct kp_queue_limits *kp_file_limits(const struct kp_file *file)
{
	return &file->limits;
}
