/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints an analysis. */
#ifndef KPOLICY_TOOLS_REPORT_H
#define KPOLICY_TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "stats/stats.h"
#include "table.h"

enum report_format { REPORT_TEXT, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON };

/* 'text', 'markdown', 'csv', 'json'. False when it is none of them. */
bool report_parse_format(const char *name, enum report_format *format);

/* @to may be a terminal: text is coloured then. Returns 0 or -EIO. */
int report_print(const struct analysis *analysis, enum report_format format, FILE *to);

/* The whole result; a new reference. */
json_t *report_json(const struct analysis *analysis);

/*
 * The parts that the HTML page shows too. The caller frees the tables and lines.
 */
void report_head(const struct analysis *analysis, struct text_list *lines);
void report_verdicts(const struct analysis *analysis, struct table *table);
void report_figures(const struct analysis *analysis, struct table *table);

/* '+1.8 % [+1.0 .. +2.6]' as its two columns are used elsewhere: the interval alone. */
char *report_interval(const struct judge_estimate *estimate);

/* How a verdict is coloured. */
enum cell_mood report_mood(enum verdict verdict);

#endif
