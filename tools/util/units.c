// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "units.h"
#include "util.h"

char *format_number(double value)
{
	double size = fabs(value);

	if (size >= 1000 || value == 0)
		return format("%.0f", value);
	int digits = size >= 100 ? 1 : size >= 10 ? 2 : 3;

	return size < 0.001 ? format("%.2g", value) : format("%.*f", digits, value);
}

/* A number below 1000 with its unit: three digits. */
static char *scaled(double value, const char *unit)
{
	return format("%.*f %s",
		      value >= 99.95 || value == 0 ? 0
		      : value >= 9.995		   ? 1
						   : 2,
		      value, unit);
}

char *format_nsec(double nsec)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	size_t i = 0;

	while (nsec >= 999.5 && i + 1 < ARRAY_SIZE(units)) {
		nsec /= 1000;
		i++;
	}
	return scaled(nsec, units[i]);
}

char *format_bytes(double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	while (bytes >= 1024 && i + 1 < ARRAY_SIZE(units)) {
		bytes /= 1024;
		i++;
	}
	return scaled(bytes, units[i]);
}

char *format_seconds(double value)
{
	long seconds = lround(value);

	if (seconds < 60)
		return format("%ld s", seconds);
	if (seconds < 3600)
		return format("%ld:%02ld min", seconds / 60, seconds % 60);
	return format("%ld:%02ld h", seconds / 3600, seconds / 60 % 60);
}

char *format_span(double least, double most)
{
	char *from = format_seconds(least), *to = format_seconds(most);
	char *span = strcmp(from, to) ? format("%s to %s", from, to) : xstrdup(from);

	free(from);
	free(to);
	return span;
}

char *format_percent(double ratio)
{
	double percent = (ratio - 1) * 100;

	return format("%+.*f %%", fabs(percent) >= 99.95 ? 0 : 1, percent);
}

bool parse_scaled(const char *text, double *value)
{
	static const char units[] = "kmgt";
	char *end;

	*value = strtod(text, &end);
	if (end == text || !isfinite(*value))
		return false;
	const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;

	if (unit) {
		*value *= pow(1024, unit - units + 1);
		end++;
		if (!strcasecmp(end, "ib") || !strcasecmp(end, "b"))
			end += strlen(end);
	}
	return !*end;
}

bool parse_duration(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	if (end == text || !(*seconds > 0))
		return false;
	if (*end == 'm')
		*seconds *= 60;
	else if (*end == 'h')
		*seconds *= 3600;
	else if (*end && *end != 's')
		return false;
	return !*end || !end[1];
}

bool parse_percent(const char *text, double *share)
{
	char *end;

	*share = strtod(text, &end) / 100;
	return end != text && (!*end || !strcmp(end, "%")) && *share > 0;
}
