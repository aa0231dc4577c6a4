// SPDX-License-Identifier: GPL-2.0-only
/* What became of a job file, line by line: every line knows which one of the original it was. */
#include <errno.h>
#include <stdlib.h>

#include "jobfile.h"

#define CONTEXT_LINES 3

/* One line of a difference; tag is ' ', '-' or '+'. */
struct difference {
	char tag;
	bool no_newline;
	const char *text;
};

/* Fills @d with originals @from to @to (counted from 1, @to excluded) as removed lines. */
static void flatten_removed(const struct jobfile *jf, size_t from, size_t to, struct difference *d,
			    size_t *nr)
{
	for (; from < to; from++)
		d[(*nr)++] = (struct difference){ '-', jf->no_newline && from == jf->original.nr,
						  jf->original.item[from - 1] };
}

static void flatten_line(const struct jobfile *jf, const struct jobfile_line *l, bool last,
			 struct difference *d, size_t *nr)
{
	bool lacking = jobfile_lacks_newline(jf, l);

	if (l->origin && !l->changed && (last || !lacking)) {
		d[(*nr)++] = (struct difference){ ' ', lacking, l->text };
		return;
	}
	if (l->origin)
		flatten_removed(jf, l->origin, l->origin + 1, d, nr);
	d[(*nr)++] = (struct difference){ '+', false, l->text };
}

/* The whole file as differences; at most one per original and two per present line. */
static size_t flatten(const struct jobfile *jf, struct difference *d)
{
	size_t next = 1, nr = 0;

	for (size_t i = 0; i < jf->nr_sections; i++) {
		const struct jobfile_section *s = &jf->sections[i];

		for (size_t k = 0; k < s->nr_lines; k++) {
			const struct jobfile_line *l = &s->lines[k];
			bool last = i + 1 == jf->nr_sections && k + 1 == s->nr_lines;

			if (l->origin) {
				flatten_removed(jf, next, l->origin, d, &nr);
				next = l->origin + 1;
			}
			flatten_line(jf, l, last, d, &nr);
		}
	}
	flatten_removed(jf, next, jf->original.nr + 1, d, &nr);
	return nr;
}

static void print_tagged(FILE *out, const struct difference *d, size_t from, size_t to, char tag)
{
	for (; from < to; from++)
		if (d[from].tag == tag)
			fprintf(out, "%c%s\n%s", tag, d[from].text,
				d[from].no_newline ? "\\ No newline at end of file\n" : "");
}

/* What changed in one place is shown before, then after. */
static void print_lines(FILE *out, const struct difference *d, size_t from, size_t to)
{
	while (from < to) {
		bool same = d[from].tag == ' ';
		size_t end = from + 1;

		while (end < to && (d[end].tag == ' ') == same)
			end++;
		if (same) {
			print_tagged(out, d, from, end, ' ');
		} else {
			print_tagged(out, d, from, end, '-');
			print_tagged(out, d, from, end, '+');
		}
		from = end;
	}
}

/* Prints @d from @from to @to as one hunk; @old and @new count the lines before it. */
static void print_hunk(FILE *out, const struct difference *d, size_t from, size_t to, size_t old,
		       size_t new)
{
	size_t nr_old = 0, nr_new = 0;

	for (size_t i = from; i < to; i++) {
		nr_old += d[i].tag != '+';
		nr_new += d[i].tag != '-';
	}
	fprintf(out, "@@ -%zu,%zu +%zu,%zu @@\n", old + !!nr_old, nr_old, new + !!nr_new, nr_new);
	print_lines(out, d, from, to);
}

/* The end of the hunk that begins at @from: the context behind its last change. */
static size_t hunk_end(const struct difference *d, size_t nr, size_t from)
{
	size_t end = from, quiet = 0;

	for (size_t i = from; i < nr && quiet <= 2 * CONTEXT_LINES; i++) {
		quiet = d[i].tag == ' ' ? quiet + 1 : 0;
		if (!quiet)
			end = i + 1;
	}
	return end + CONTEXT_LINES < nr ? end + CONTEXT_LINES : nr;
}

static void print_hunks(FILE *out, const struct difference *d, size_t nr)
{
	size_t old = 0, new = 0, printed = 0;

	for (size_t i = 0; i < nr; i++) {
		size_t from, end;

		if (d[i].tag == ' ')
			continue;
		from = i - printed > CONTEXT_LINES ? i - CONTEXT_LINES : printed;
		end = hunk_end(d, nr, i);
		for (; printed < from; printed++) { /* unchanged, not shown */
			old++;
			new ++;
		}
		print_hunk(out, d, from, end, old, new);
		for (; printed < end; printed++) {
			old += d[printed].tag != '+';
			new += d[printed].tag != '-';
		}
		i = end - 1;
	}
}

int jobfile_diff(FILE *out, const struct jobfile *jf, const char *old_name, const char *new_name)
{
	size_t room = jf->original.nr + 1, nr;
	struct difference *d;
	bool same = true;

	for (size_t i = 0; i < jf->nr_sections; i++)
		room += 2 * jf->sections[i].nr_lines;
	d = calloc(room, sizeof(*d));
	if (!d)
		return -ENOMEM;
	nr = flatten(jf, d);
	for (size_t i = 0; i < nr; i++)
		same &= d[i].tag == ' ';
	if (!same) {
		fprintf(out, "--- %s\n+++ %s\n", old_name, new_name);
		print_hunks(out, d, nr);
	}
	free(d);
	return 0;
}
