// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
#include "util/util.h"

static const char *const mood_colours[] = { "", "\033[32m", "\033[31m", "\033[33m" };
static const char *const mood_classes[] = { "", "good", "bad", "unsure" };

void table_init(struct table *table, const char *title, const char **heads, size_t columns,
		size_t left)
{
	*table = (struct table){
		.title = title ? xstrdup(title) : NULL,
		.heads = heads,
		.columns = columns,
		.left = left,
	};
}

void table_free(struct table *table)
{
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table->title);
	*table = (struct table){ 0 };
}

/* Row by row; the loop declares @at, the cell, and @column. */
#define for_each_cell(table, at, column)                                    \
	for (size_t i_ = 0, column = 0; i_ < (table)->nr_cells;             \
	     i_++, column = column + 1 < (table)->columns ? column + 1 : 0) \
		for (const struct cell *at = &(table)->cells[i_]; at; at = NULL)

void table_add_mood(struct table *table, char *text, enum cell_mood mood)
{
	table->cells = xrealloc(table->cells, table->nr_cells + 1, sizeof(*table->cells));
	table->cells[table->nr_cells++] = (struct cell){ text, mood };
}

void table_add(struct table *table, char *text)
{
	table_add_mood(table, text, MOOD_PLAIN);
}

/* Columns that a text takes on a terminal: bytes that do not continue a UTF-8 character. */
static size_t display_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static size_t column_width(const struct table *table, size_t column)
{
	size_t width = display_width(table->heads[column]);

	for (size_t i = column; i < table->nr_cells; i += table->columns) {
		size_t w = display_width(table->cells[i].text);

		if (w > width)
			width = w;
	}
	return width;
}

static void print_padded(const struct table *table, FILE *to, size_t column, const char *text,
			 const char *colour)
{
	int space = column_width(table, column) - display_width(text);
	bool words = column < table->left;
	bool last = column + 1 == table->columns;

	fprintf(to, "%s%*s%s%s%s", column ? "  " : "", words ? 0 : space, "", colour, text,
		*colour ? "\033[0m" : "");
	if (words && !last)
		fprintf(to, "%*s", space, "");
}

bool table_colour(FILE *to)
{
	const char *term = getenv("TERM");

	return isatty(fileno(to)) && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
}

void table_print_text(const struct table *table, FILE *to, bool colour)
{
	if (table->title)
		fprintf(to, "%s\n", table->title);
	for (size_t c = 0; c < table->columns; c++)
		print_padded(table, to, c, table->heads[c], "");
	fputc('\n', to);
	for_each_cell(table, cell, column)
	{
		print_padded(table, to, column, cell->text, colour ? mood_colours[cell->mood] : "");
		if (column + 1 == table->columns)
			fputc('\n', to);
	}
}

static void markdown_cell(FILE *to, const char *text)
{
	fputs(" ", to);
	for (; *text; text++)
		fprintf(to, *text == '|' ? "\\%c" : "%c", *text);
	fputs(" |", to);
}

void table_print_markdown(const struct table *table, FILE *to)
{
	if (table->title)
		fprintf(to, "**%s**\n\n", table->title);
	fputc('|', to);
	for (size_t c = 0; c < table->columns; c++)
		markdown_cell(to, table->heads[c]);
	fputs("\n|", to);
	for (size_t c = 0; c < table->columns; c++)
		fputs(c < table->left ? "---|" : "---:|", to);
	fputc('\n', to);
	for_each_cell(table, cell, column)
	{
		if (!column)
			fputc('|', to);
		markdown_cell(to, cell->text);
		if (column + 1 == table->columns)
			fputc('\n', to);
	}
}

/* RFC 4180: quoted where it must be, quotes doubled. */
static void csv_cell(FILE *to, const char *text, bool last)
{
	if (strpbrk(text, ",\"\n\r")) {
		fputc('"', to);
		for (; *text; text++)
			fprintf(to, *text == '"' ? "\"%c" : "%c", *text);
		fputc('"', to);
	} else {
		fputs(text, to);
	}
	fputc(last ? '\n' : ',', to);
}

void table_print_csv(const struct table *table, FILE *to)
{
	for (size_t c = 0; c < table->columns; c++)
		csv_cell(to, table->heads[c], c + 1 == table->columns);
	for_each_cell(table, cell, column) csv_cell(to, cell->text, column + 1 == table->columns);
}

void html_escape(FILE *to, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			fputc(*text, to);
		}
	}
}

void table_print_html(const struct table *table, FILE *to)
{
	if (table->title) {
		fputs("<h2>", to);
		html_escape(to, table->title);
		fputs("</h2>\n", to);
	}
	fputs("<table>\n<tr>", to);
	for (size_t c = 0; c < table->columns; c++) {
		fprintf(to, "<th%s>", c < table->left ? " class=\"word\"" : "");
		html_escape(to, table->heads[c]);
		fputs("</th>", to);
	}
	fputs("</tr>\n", to);
	for_each_cell(table, cell, column)
	{
		fprintf(to, "%s<td class=\"%s %s\">", column ? "" : "<tr>",
			column < table->left ? "word" : "", mood_classes[cell->mood]);
		html_escape(to, cell->text);
		fprintf(to, "</td>%s", column + 1 == table->columns ? "</tr>\n" : "");
	}
	fputs("</table>\n", to);
}
