// SPDX-License-Identifier: GPL-2.0-only
/* Files that appear whole or not at all. See new_file.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "new_file.h"

#define TRIES 100u /* names to try; one of 2^64 is taken only when somebody takes it on purpose */

static int random_name(const char *path, char **name)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	return asprintf(name, "%s.%016llx.tmp", path, (unsigned long long)number) < 0 ? -ENOMEM : 0;
}

/* Create a file of a random name. Return: its descriptor, or -errno. */
static int create_temporary(const char *path, char **name)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		int fd, ret = random_name(path, name);

		if (ret)
			return ret;
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0)
			return fd;
		ret = -errno;
		free(*name);
		*name = NULL;
		if (ret != -EEXIST)
			return ret;
	}
	return -EEXIST;
}

static int begin(struct kp_new_file *file)
{
	int ret, fd = create_temporary(file->path, &file->temporary);

	if (fd < 0 || !file->temporary)
		return fd;
	file->stream = fdopen(fd, "w");
	if (file->stream)
		return 0;
	ret = -errno;
	close(fd);
	unlink(file->temporary);
	free(file->temporary);
	return ret;
}

int kp_new_file_begin(struct kp_new_file *file, const char *path)
{
	int ret;

	file->path = strdup(path);
	if (!file->path)
		return -ENOMEM;
	ret = begin(file);
	if (ret)
		free(file->path);
	return ret;
}

int kp_new_file_end(struct kp_new_file *file, int error, bool durable)
{
	errno = 0;
	if (!error && (ferror(file->stream) || fflush(file->stream) ||
		       (durable && fsync(fileno(file->stream)))))
		error = errno ? -errno : -EIO;
	if (fclose(file->stream) && !error)
		error = -errno;
	if (!error && rename(file->temporary, file->path))
		error = -errno;
	if (error)
		unlink(file->temporary);
	free(file->temporary);
	free(file->path);
	return error;
}
