/* SPDX-License-Identifier: GPL-2.0-only */
/* Figures as people read and write them. All texts are for the caller to free. */
#ifndef KPOLICY_TOOLS_UNITS_H
#define KPOLICY_TOOLS_UNITS_H

#include <stdbool.h>

char *format_number(double value);  /* four digits: 12230, 3.142 */
char *format_nsec(double nsec);	    /* 22.1 us */
char *format_bytes(double bytes);   /* 64 KiB */
char *format_seconds(double value); /* 1:05 */
char *format_span(double least,
		  double most);	    /* '24 s to 2:06 min', or one when they are the same */
char *format_percent(double ratio); /* of a ratio: 1.018 is +1.8 % */

/* '4k', '1m', '16' as fio reads them, with powers of 1024. False when it is no number. */
bool parse_scaled(const char *text, double *value);

/* '90', '90s', '5m', '2h' in seconds. */
bool parse_duration(const char *text, double *seconds);

/* '2' or '2%' as 0.02. */
bool parse_percent(const char *text, double *share);

#endif
