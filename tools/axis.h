/* SPDX-License-Identifier: GPL-2.0-only */
/* The values that a sweep goes over. */
#ifndef KPOLICY_TOOLS_AXIS_H
#define KPOLICY_TOOLS_AXIS_H

#include <stdbool.h>
#include <stddef.h>

struct axis_value {
	char *text; /* as fio reads it */
	double number;
};

struct axis {
	char *key;
	struct axis_value *values;
	size_t nr;
	bool bytes; /* the values are sizes: 4k, not 4096 */
};

/*
 * Reads 'KEY=4k,8k,64k', 'KEY=4k:1m*2' or a mixture, in rising order. False, with a message, when it
 * is not two values or more.
 */
bool axis_read(struct axis *axis, const char *over);
void axis_free(struct axis *axis);

#endif
