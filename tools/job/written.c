// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "safety.h"
#include "util.h"
#include "written.h"

static void add(struct written *written, char *path, char *device)
{
	written->targets = xrealloc(written->targets, written->nr + 1, sizeof(*written->targets));
	written->targets[written->nr++] = (struct written_target){ path, device };
}

void written_add(struct written *written, const char *path)
{
	for (size_t i = 0; i < written->nr; i++)
		if (!strcmp(written->targets[i].path, path))
			return;
	add(written, xstrdup(path), safety_device(path));
}

void written_free(struct written *written)
{
	for (size_t i = 0; i < written->nr; i++) {
		free(written->targets[i].path);
		free(written->targets[i].device);
	}
	free(written->targets);
	*written = (struct written){ 0 };
}

/* A path of any bytes in JSON, which is UTF-8: %XX for those beyond ASCII. It has to come back whole. */
static json_t *pack_path(const char *path)
{
	char *packed = xcalloc(3 * strlen(path) + 1, 1), *to = packed;
	json_t *value;

	for (; *path; path++) {
		unsigned char c = *path;

		if (c >= 0x80 || c == '%')
			to += sprintf(to, "%%%02X", c);
		else
			*to++ = c;
	}
	value = json_string(packed);
	free(packed);
	return value;
}

static char *unpack_path(const char *packed)
{
	char *path = xcalloc(strlen(packed) + 1, 1), *to = path;
	unsigned int byte;

	while (*packed) {
		if (*packed == '%' && sscanf(packed + 1, "%2X", &byte) == 1 && packed[2]) {
			*to++ = byte;
			packed += 3;
		} else {
			*to++ = *packed++;
		}
	}
	return path;
}

json_t *written_pack(const struct written *written)
{
	json_t *targets = json_array();

	for (size_t i = 0; i < written->nr; i++) {
		const struct written_target *t = &written->targets[i];

		json_array_append_new(targets,
				      json_pack("{s:o, s:o}", "path", pack_path(t->path), "device",
						t->device ? pack_path(t->device) : json_null()));
	}
	return json_pack("{s:o, s:b}", "targets", targets, "unknown", (int)written->unknown);
}

void written_unpack(const json_t *value, struct written *written)
{
	const json_t *targets = json_object_get(value, "targets");

	written->unknown = json_is_true(json_object_get(value, "unknown"));
	for (size_t i = 0; i < json_array_size(targets); i++) {
		const json_t *target = json_array_get(targets, i);
		const char *path = json_string_value(json_object_get(target, "path"));
		const char *device = json_string_value(json_object_get(target, "device"));

		if (path)
			add(written, unpack_path(path), device ? unpack_path(device) : NULL);
	}
}

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
