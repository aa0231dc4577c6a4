// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "safety.h"
#include "util/util.h"
#include "written.h"

void written_add(struct written *written, const char *path)
{
	for (size_t i = 0; i < written->nr; i++)
		if (!strcmp(written->targets[i].path, path))
			return;
	written->targets = grow_array(written->targets, written->nr, sizeof(*written->targets));
	written->targets[written->nr++] =
		(struct written_target){ xstrdup(path), safety_device(path) };
}

static const struct fields target_fields = {
	(const struct field[]){
		{ "path", FIELD_BYTES, offsetof(struct written_target, path), NULL },
		{ "device", FIELD_BYTES, offsetof(struct written_target, device), NULL },
		{ 0 },
	},
	sizeof(struct written_target),
};

const struct fields written_fields = {
	(const struct field[]){
		{ "targets", FIELD_ARRAY, offsetof(struct written, targets), &target_fields },
		{ "unknown", FIELD_FLAG, offsetof(struct written, unknown), NULL },
		{ 0 },
	},
	sizeof(struct written),
};

static char *other_device(const struct written_target *target)
{
	char *now = safety_device(target->path), *why = NULL;

	if (now && !target->device)
		why = format("%s is block device %s now and was none when the comparison was "
			     "prepared: begin a new one",
			     target->path, now);
	else if (target->device && (!now || strcmp(now, target->device)))
		why = format("%s was device %s when the comparison was prepared and is %s now: "
			     "begin a new one",
			     target->path, target->device, now ? now : "none");
	free(now);
	return why;
}

char *written_refused(const struct written *written, bool destructive)
{
	char *why = NULL;

	if (written->unknown && !destructive)
		return xstrdup("the job may write to a block device that cannot be told from here; "
			       "if it may, say --destructive");
	for (size_t i = 0; !why && i < written->nr; i++) {
		why = other_device(&written->targets[i]);
		if (!why &&
		    safety_check_write(written->targets[i].path, destructive, &safety_system,
				       &why) &&
		    !why)
			why = xstrdup("out of memory");
	}
	return why;
}
