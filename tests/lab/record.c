// SPDX-License-Identifier: GPL-2.0-only
/*
 * record CASES DISKS: CASES is named after its group and has a case a line; DISKS says which disk
 * has which size. Answers go to standard output, a line each, as they are found: the kernel may
 * stop at any case.
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "record.h"

const char *group;

static const struct recording *const recordings[] = {
	&split_recording, &plug_recording,	&blocksize_recording,
	&locks_recording, &writeback_recording,
};

static void put_line(const char *line, size_t len)
{
	while (len) {
		ssize_t done = write(STDOUT_FILENO, line, len);

		if (done <= 0)
			exit(1);
		line += done;
		len -= done;
	}
}

void answer(const char *format, ...)
{
	static char line[1 << 16];
	int len = snprintf(line, sizeof(line), "%s ", group);
	va_list args;

	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - len, format, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		fatal("an answer of %d bytes", len);
	line[len++] = '\n';
	put_line(line, len);
}

void fatal(const char *format, ...)
{
	static char text[1024], line[1200];
	int error = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_line(line, snprintf(line, sizeof(line), "fatal %s: %s: %s\n", group ? group : "?", text,
				strerror(error)));
	exit(1);
}

bool read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool found;

	if (!file)
		return false;
	found = fgets(text, size, file) != NULL;
	fclose(file);
	if (found)
		text[strcspn(text, "\n")] = '\0';
	return found;
}

uint64_t read_number(const char *path, uint64_t otherwise)
{
	char text[64];

	return read_text(path, text, sizeof(text)) ? strtoull(text, NULL, 0) : otherwise;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

const char *value_of(const char *line, const char *key)
{
	static char value[8192];
	size_t len = strlen(key);

	for (; *line; line += strcspn(line, " "), line += strspn(line, " ")) {
		if (!strncmp(line, key, len) && line[len] == '=') {
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + len + 1, " "),
				 line + len + 1);
			return value;
		}
	}
	return NULL;
}

/* One CPU, so that the trace has one order and the plug one task. */
static void pin(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static const struct recording *find_recording(void)
{
	for (size_t i = 0; i < sizeof(recordings) / sizeof(*recordings); i++) {
		if (!strcmp(recordings[i]->name, group))
			return recordings[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static char line[1 << 14], text[128];
	const struct recording *recording;
	struct utsname name;
	FILE *cases;

	if (argc != 3)
		return 1;
	group = strrchr(argv[1], '/') + 1;
	recording = find_recording();
	if (!recording)
		fatal("no such group");
	cases = fopen(argv[1], "re");
	if (!cases)
		fatal("%s", argv[1]);
	uname(&name);
	put_line(text, snprintf(text, sizeof(text), "kernel %s\nbegin %s\n", name.release, group));
	pin();
	load_devices(argv[2]);
	recording->begin();
	while (fgets(line, sizeof(line), cases)) {
		char id[32];
		int len;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%31[^# ] %n", id, &len) != 1)
			continue;
		answer("begin %s", id);
		recording->record(id, line + len);
	}
	put_line(text, snprintf(text, sizeof(text), "end %s\n", group));
	return 0;
}
