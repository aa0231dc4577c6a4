// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's trace, read event by event. */
#include "record.h"

static char buffer[1 << 16];
static size_t filled, taken;
static int pipe_fd = -1;

static const char *tracing(const char *name)
{
	static const char *root;
	static char path[256];

	if (!root)
		root = access("/sys/kernel/tracing/trace_pipe", R_OK) ? "/sys/kernel/debug/tracing"
								      : "/sys/kernel/tracing";
	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

void trace_start(const char *const *events)
{
	write_text(tracing("tracing_on"), "0");
	write_text(tracing("events/enable"), "0");
	write_text(tracing("buffer_size_kb"), "16384");
	write_text(tracing("trace_clock"), "global");
	write_text(tracing("options/overwrite"), "0");
	for (; *events; events++) {
		char path[128];

		snprintf(path, sizeof(path), "events/%s/enable", *events);
		/* Some are younger than others; the caller knows which it can do without. */
		write_text(tracing(path), "1");
	}
	write_text(tracing("trace"), "");
	if (pipe_fd < 0)
		pipe_fd = open(tracing("trace_pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (pipe_fd < 0)
		fatal("no trace");
	write_text(tracing("tracing_on"), "1");
}

static bool fill(void)
{
	ssize_t got;

	memmove(buffer, buffer + taken, filled - taken);
	filled -= taken;
	taken = 0;
	got = read(pipe_fd, buffer + filled, sizeof(buffer) - 1 - filled);
	if (got <= 0)
		return false;
	filled += got;
	buffer[filled] = '\0';
	return true;
}

/* "TASK-PID [CPU] FLAGS TIME: NAME: TEXT" */
static bool parse(char *line, struct event *event)
{
	char *name, *colon = strstr(line, ": "), *cpu, *dash;

	cpu = strstr(line, " [");
	if (!colon || !cpu)
		return false;
	*cpu = '\0';
	dash = strrchr(line, '-');
	if (!dash)
		return false;
	event->pid = atoi(dash + 1);
	*dash = '\0';
	snprintf(event->task, sizeof(event->task), "%s", line + strspn(line, " "));
	name = colon + 2;
	colon = strstr(name, ": ");
	if (!colon)
		return false;
	*colon = '\0';
	snprintf(event->name, sizeof(event->name), "%s", name);
	snprintf(event->text, sizeof(event->text), "%s", colon + 2);
	return true;
}

bool trace_next(struct event *event)
{
	for (;;) {
		char *line = buffer + taken;
		char *end = memchr(line, '\n', filled - taken);

		if (!end) {
			if (!fill())
				return false;
			continue;
		}
		*end = '\0';
		taken = end + 1 - buffer;
		if (strstr(line, "LOST") && strstr(line, "EVENTS"))
			fatal("the trace lost events");
		if (parse(line, event))
			return true;
	}
}

void trace_drop(void)
{
	struct event event;

	while (trace_next(&event))
		;
}

bool parse_block(const struct event *event, struct block_event *block)
{
	if (!strncmp(event->name, "block_rq_", 9))
		return sscanf(event->text, "%u,%u %11s %*u (%*[^)]) %lu + %lu", &block->major,
			      &block->minor, block->rwbs, &block->sector, &block->sectors) == 5 ||
		       sscanf(event->text, "%u,%u %11s %*u () %lu + %lu", &block->major,
			      &block->minor, block->rwbs, &block->sector, &block->sectors) == 5;
	if (!strcmp(event->name, "block_split"))
		return sscanf(event->text, "%u,%u %11s %lu / %lu", &block->major, &block->minor,
			      block->rwbs, &block->sector, &block->sectors) == 5;
	if (!strncmp(event->name, "block_bio_", 10))
		return sscanf(event->text, "%u,%u %11s %lu + %lu", &block->major, &block->minor,
			      block->rwbs, &block->sector, &block->sectors) == 5;
	return false;
}
