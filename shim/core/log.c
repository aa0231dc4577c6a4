// SPDX-License-Identifier: GPL-2.0-only
/* Messages to the user: one line each, never on standard output. */
#include <stdarg.h>

#include "kpolicy.h"
#include "log.h"

static void log_stderr(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static void (*log_line)(const char *line) = log_stderr;

void kp_set_log(void (*log)(const char *line))
{
	log_line = log ? log : log_stderr;
}

void kp_log(const char *format, ...)
{
	char line[1024];
	int prefix = snprintf(line, sizeof(line), "kpolicy: ");
	va_list args;

	va_start(args, format);
	vsnprintf(line + prefix, sizeof(line) - prefix, format, args);
	va_end(args);
	log_line(line);
}
