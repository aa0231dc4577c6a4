/* SPDX-License-Identifier: GPL-2.0-only */
/* A table of texts and its four ways to be printed. */
#ifndef KPOLICY_TOOLS_TABLE_H
#define KPOLICY_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum cell_mood { MOOD_PLAIN, MOOD_GOOD, MOOD_BAD, MOOD_UNSURE };

struct cell {
	char *text;
	enum cell_mood mood;
};

struct table {
	char *title; /* NULL: none */
	const char **heads;
	size_t columns;
	size_t left; /* so many columns from the left are words, the others figures */
	struct cell *cells;
	size_t nr_cells;
};

/* @heads must outlive the table. */
void table_init(struct table *table, const char *title, const char **heads, size_t columns,
		size_t left);
void table_free(struct table *table);

/* Adds the next cell; takes the text over. */
void table_add(struct table *table, char *text);
void table_add_mood(struct table *table, char *text, enum cell_mood mood);

/* Is @to a terminal that wants colour? */
bool table_colour(FILE *to);

/* @colour: moods become colours of the terminal. */
void table_print_text(const struct table *table, FILE *to, bool colour);
void table_print_markdown(const struct table *table, FILE *to);
void table_print_csv(const struct table *table, FILE *to);
void table_print_html(const struct table *table, FILE *to);

/* Writes text with the characters that mean something in HTML escaped. */
void html_escape(FILE *to, const char *text);

#endif
