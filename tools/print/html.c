// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"
#include "html.h"
#include "plot.h"
#include "report.h"

static const char style[] =
	"body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:66em;margin:2em auto;"
	"padding:0 1em}"
	"h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.1em;margin-top:2em}"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
	"th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}"
	"th.word,td.word{text-align:left;white-space:normal;word-break:break-word;overflow-wrap:"
	"anywhere}"
	"td{vertical-align:top}th{color:#555;font-weight:600}"
	"td.good{color:#006b3c;font-weight:600}td.bad{color:#b00020;font-weight:600}"
	"td.unsure{color:#8a5a00;font-weight:600}"
	"svg{width:100%;height:auto}.wide{overflow-x:auto}"
	"pre{background:#f5f5f5;padding:.8em;overflow-x:auto;font-size:.85em}";

struct page {
	const struct analysis *analysis;
	const struct session *session;
	const char *svg; /* NULL: no picture */
};

static void put_list(FILE *to, const char *head, const struct text_list *lines)
{
	if (!lines->nr)
		return;
	fprintf(to, "<h2>%s</h2>\n<ul>\n", head);
	for (size_t i = 0; i < lines->nr; i++) {
		fputs("<li>", to);
		html_escape(to, lines->item[i]);
		fputs("</li>\n", to);
	}
	fputs("</ul>\n", to);
}

static void put_table(FILE *to, struct table *table)
{
	if (table->nr_cells) {
		fputs("<div class=\"wide\">\n", to);
		table_print_html(table, to);
		fputs("</div>\n", to);
	}
	table_free(table);
}

static void put_environment(FILE *to, const struct session *session)
{
	char *path = format("%s/environment.json", session->dir);
	json_t *environment = json_load_file(path, 0, NULL);
	struct text_list lines = { 0 };

	environment_lines(environment, &lines);
	put_list(to, "Machine", &lines);
	text_list_free(&lines);
	json_decref(environment);
	free(path);
}

static void put_jobs(FILE *to, const struct session *session)
{
	fputs("<h2>Job files as run</h2>\n", to);
	for (size_t i = 0; i < session->comparison.nr_variants; i++) {
		char *path = session_job_path(session, i);
		char *text = read_whole(path, NULL);

		if (text) {
			fputs("<details><summary>", to);
			html_escape(to, session->comparison.variants[i].text);
			fputs("</summary><pre>", to);
			html_escape(to, text);
			fputs("</pre></details>\n", to);
		}
		free(text);
		free(path);
	}
}

static void put_head(FILE *to, const struct analysis *a)
{
	struct text_list head = { 0 };

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>kpolicy: ",
	      to);
	html_escape(to, a->comparison->title);
	fprintf(to, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
	html_escape(to, a->comparison->title);
	fputs("</h1>\n", to);
	report_head(a, &head);
	for (size_t i = 0; i < head.nr; i++) {
		fputs("<p>", to);
		html_escape(to, head.item[i]);
		fputs("</p>\n", to);
	}
	text_list_free(&head);
}

static int put_page(FILE *to, const void *arg)
{
	const struct page *page = arg;
	const struct analysis *a = page->analysis;
	struct table table;

	put_head(to, a);
	report_verdicts(a, &table);
	put_table(to, &table);
	if (page->svg)
		fputs(page->svg, to);
	put_list(to, "Why", &a->explanations);
	put_list(to, "Mind", &a->warnings);
	put_list(to, "Failed runs, not counted", &a->comparison->failures);
	report_figures(a, &table);
	put_table(to, &table);
	put_environment(to, page->session);
	put_jobs(to, page->session);
	fputs("</body>\n</html>\n", to);
	return ferror(to) ? -EIO : 0;
}

bool html_write(const struct analysis *analysis, const struct session *session, const char *path)
{
	struct page page = { .analysis = analysis, .session = session };
	char *svg = plot_svg(analysis);

	page.svg = svg;
	int ret = write_whole(path, put_page, &page);

	if (ret)
		message("%s: %s", path, strerror(-ret));
	free(svg);
	return !ret && page.svg;
}
