// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "environment.h"
#include "util/util.h"

static void set_text(json_t *object, const char *key, const char *text)
{
	if (text && *text)
		json_object_set_new(object, key, json_string(text));
}

static void set_line(json_t *object, const char *key, const char *path)
{
	char *line = read_line(path);

	set_text(object, key, line);
	free(line);
}

/* The first value of a 'key : value' file such as /proc/cpuinfo. */
static char *value_in(const char *path, const char *key)
{
	char *text = read_whole(path, NULL);
	const char *at = text ? strstr(text, key) : NULL;
	char *value = NULL;

	if (at) {
		at += strcspn(at, ":\n");
		at += strspn(at, ": \t");
		value = format("%.*s", (int)strcspn(at, "\n"), at);
	}
	free(text);
	return value;
}

static void collect_machine(json_t *env, const struct session *session)
{
	struct utsname name;
	char *cpu = value_in("/proc/cpuinfo", "model name");
	char *memory = value_in("/proc/meminfo", "MemTotal");

	if (!uname(&name)) {
		char *kernel = format("%s %s %s", name.sysname, name.release, name.machine);

		set_text(env, "kernel", kernel);
		set_text(env, "host", name.nodename);
		free(kernel);
	}
	set_text(env, "fio", session->comparison.fio_version);
	set_text(env, "cpu", cpu);
	json_object_set_new(env, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	set_text(env, "memory", memory);
	set_line(env, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
	set_line(env, "clocksource",
		 "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	free(cpu);
	free(memory);
}

/* ---- file system --------------------------------------------------------------------------- */

/* A line of mountinfo: id parent major:minor root point options ... - type source options */
static bool take_mount(json_t *target, char *line, dev_t dev)
{
	unsigned int major_nr, minor_nr;
	char point[4096], options[1024], type[64], source[1024], super[2048];
	const char *dash = strstr(line, " - ");

	if (!dash || sscanf(line, "%*d %*d %u:%u %*s %4095s %1023s", &major_nr, &minor_nr, point,
			    options) != 4)
		return false;
	if (makedev(major_nr, minor_nr) != dev)
		return false;
	if (sscanf(dash + 3, "%63s %1023s %2047s", type, source, super) != 3)
		return false;
	set_text(target, "file_system", type);
	set_text(target, "mount_point", point);
	char *all = format("%s,%s", options, super);

	set_text(target, "mount_options", all);
	free(all);
	return true;
}

static void collect_mount(json_t *target, dev_t dev)
{
	char *text = read_whole("/proc/self/mountinfo", NULL);
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (take_mount(target, line, dev))
			break;
	free(text);
}

/* ---- device -------------------------------------------------------------------------------- */

static void collect_queue(json_t *target, const char *disk)
{
	static const char *const attributes[] = {
		"scheduler",	 "logical_block_size", "physical_block_size", "max_sectors_kb",
		"max_segments",	 "max_segment_size",   "chunk_sectors",	      "nr_requests",
		"read_ahead_kb", "rotational",	       "write_cache",
	};

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		char *path = format("%s/queue/%s", disk, attributes[i]);

		set_line(target, attributes[i], path);
		free(path);
	}
	char *model = format("%s/device/model", disk);

	set_line(target, "model", model);
	free(model);
}

static void collect_device(json_t *target, dev_t dev)
{
	char *link = format("/sys/dev/block/%u:%u", major(dev), minor(dev));
	char *dir = realpath(link, NULL);

	free(link);
	if (!dir)
		return;
	char *partition = format("%s/partition", dir);

	set_text(target, "device", strrchr(dir, '/') + 1);
	if (!access(partition, F_OK)) /* the queue is the disk's */
		*strrchr(dir, '/') = '\0';
	collect_queue(target, dir);
	free(partition);
	free(dir);
}

/* Files that fio has yet to make are in a directory that is there. */
static bool find_file(const char *path, struct stat *st)
{
	char *at = xstrdup(path);
	bool found = !stat(at, st);

	while (!found && strrchr(at, '/') && strrchr(at, '/') != at) {
		*strrchr(at, '/') = '\0';
		found = !stat(at, st);
	}
	free(at);
	return found || !stat(".", st);
}

static json_t *collect_target(const char *path)
{
	json_t *target = json_object();
	struct stat st;

	set_text(target, "path", path);
	if (!find_file(path, &st))
		return target;
	if (S_ISBLK(st.st_mode)) {
		collect_device(target, st.st_rdev);
	} else {
		collect_mount(target, st.st_dev);
		collect_device(target, st.st_dev);
	}
	return target;
}

/* FNV-1a: another build of an engine is to be noticed, nobody is to be kept from making one. */
static char *hash_of(const char *path)
{
	size_t len;
	char *bytes = read_whole(path, &len);
	uint64_t hash = 0xcbf29ce484222325;

	if (!bytes)
		return NULL;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3;
	free(bytes);
	return format("%016" PRIx64, hash);
}

static void collect_engines(json_t *env, const struct session *session)
{
	json_t *engines = json_object();

	for (size_t i = 0; session->engine_dir && i < session->comparison.nr_variants; i++) {
		if (!session->comparison.variants[i].engine)
			continue;
		char *path = format("%s/%s.so", session->engine_dir,
				    session->comparison.variants[i].engine);
		char *hash = hash_of(path);

		set_text(engines, session->comparison.variants[i].engine, hash);
		free(hash);
		free(path);
	}
	if (json_object_size(engines))
		json_object_set(env, "engines", engines);
	json_decref(engines);
}

json_t *environment_collect(const struct session *session)
{
	json_t *env = json_object(), *targets = json_array();

	collect_machine(env, session);
	collect_engines(env, session);
	for (size_t i = 0; i < session->files.nr; i++)
		json_array_append_new(targets, collect_target(session->files.item[i]));
	if (json_array_size(targets))
		json_object_set(env, "targets", targets);
	json_decref(targets);
	return env;
}

static void add_lines(const json_t *object, const char *head, struct text_list *lines)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		if (json_is_string(value))
			text_list_add(lines, "%s%s: %s", head, key, json_string_value(value));
		else if (json_is_integer(value))
			text_list_add(lines, "%s%s: %lld", head, key,
				      (long long)json_integer_value(value));
	}
}

void environment_lines(const json_t *environment, struct text_list *lines)
{
	const json_t *targets = json_object_get(environment, "targets");

	add_lines(environment, "", lines);
	for (size_t i = 0; i < json_array_size(targets); i++)
		add_lines(json_array_get(targets, i), "target ", lines);
}

/* Not what changes by itself, and weighs nothing. */
static bool may_change(const char *key)
{
	return !strcmp(key, "memory");
}

static char *value_text(const json_t *value)
{
	return json_is_string(value) ? xstrdup(json_string_value(value))
	       : value		     ? json_dumps(value, JSON_ENCODE_ANY)
				     : xstrdup("nothing");
}

static char *differs(const char *what, const json_t *before, const json_t *now)
{
	char *old = value_text(before), *new = value_text(now);
	char *line = format("%s was '%s' and is '%s' now", what, old ? old : "", new ? new : "");

	free(old);
	free(new);
	return line;
}

static char *difference(const char *what, const json_t *before, const json_t *now);

/* Keys that one side has and the other has not are looked at from @before and from @now. */
static char *object_difference(const char *what, const json_t *keys, const json_t *before,
			       const json_t *now)
{
	const char *path = json_string_value(json_object_get(before, "path"));
	char *line = NULL;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)keys, key, value) {
		char *name = format("%s%s%s", path ? path : what, *what ? " " : "", key);

		if (!line && !may_change(key))
			line = difference(name, json_object_get(before, key),
					  json_object_get(now, key));
		free(name);
	}
	return line;
}

static char *difference(const char *what, const json_t *before, const json_t *now)
{
	char *line = NULL;

	if (json_equal(before, now))
		return NULL;
	if (json_is_object(before) && json_is_object(now)) {
		line = object_difference(what, before, before, now);
		return line ? line : object_difference(what, now, before, now);
	}
	if (!json_is_array(before) || json_array_size(before) != json_array_size(now))
		return differs(what, before, now);
	for (size_t i = 0; !line && i < json_array_size(before); i++)
		line = difference(what, json_array_get(before, i), json_array_get(now, i));
	return line;
}

char *environment_difference(const json_t *before, const json_t *now)
{
	return difference("", before, now);
}
