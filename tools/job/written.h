/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the jobs of a session write. It is checked before every round: between two rounds, and much
 * more between a comparison and its resumption, a device can be mounted, or its name can pass to
 * another one.
 */
#ifndef KPOLICY_TOOLS_WRITTEN_H
#define KPOLICY_TOOLS_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "util/fields.h"

struct written_target {
	char *path;
	char *device; /* number and identity of the block device; NULL: it was none, or not there */
};

struct written {
	struct written_target *targets;
	size_t nr;
	bool unknown; /* what a replayed log writes cannot be told */
};

/* Adds a path once, with the device that it is now. */
void written_add(struct written *written, const char *path);

/* The fields of struct written, to store it as JSON and to free it. */
extern const struct fields written_fields;

/*
 * May all of it be written now? NULL, or one line why not, which the caller frees: a device is in
 * use, is another one, or there is one and not @destructive.
 */
char *written_refused(const struct written *written, bool destructive);

#endif
