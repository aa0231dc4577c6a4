// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plot.h"
#include "util/spawn.h"

#define WIDTH	      900
#define RATIO_ROW     34 /* pixels per interval */
#define RATIO_FRAME   140
#define LATENCY_PANEL 380
#define NINES_STEP    0.05
#define LONGEST_LABEL 48 /* characters */
#define LONGEST_TITLE 100
#define LABEL_WIDTH   0.85 /* of a letter to gnuplot's unit of margins */
#define CLIPPED	      10   /* times the ratios: an interval beyond says no more */

/* ---- gnuplot ------------------------------------------------------------------------------- */

const char *plot_colour(unsigned int i)
{
	static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73",
					       "#cc79a7", "#e69f00", "#56b4e9" };

	return colours[i % ARRAY_SIZE(colours)];
}

void plot_quote(FILE *script, const char *text)
{
	fputc('\'', script);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', script);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, script);
	}
	fputc('\'', script);
}

static const char *terminal_for(const char *path)
{
	const char *dot = strrchr(path, '.');

	if (dot && !strcmp(dot, ".svg"))
		return "svg noenhanced font 'sans-serif,13' background '#ffffff'";
	if (dot && !strcmp(dot, ".png"))
		return "pngcairo noenhanced font 'sans,10.5'";
	return NULL;
}

/* gnuplot would say it less clearly. */
static bool can_write(const char *path)
{
	FILE *to = fopen(path, "w");

	if (!to) {
		message("%s: %s", path, strerror(errno));
		return false;
	}
	fclose(to);
	return true;
}

static bool write_script(const struct plot *plot, const char *path, const char *terminal,
			 const char *output)
{
	FILE *script = fopen(path, "w");

	if (!script) {
		message("%s: %s", path, strerror(errno));
		return false;
	}
	fprintf(script, "set terminal %s size %u,%u\nset output ", terminal, plot->width,
		plot->height);
	plot_quote(script, output);
	fputs("\nset encoding utf8\nset border lc '#606060'\nset grid lc '#e4e4e4' lt 1\n", script);
	plot->draw(script, plot->arg);
	fputs("set output\n", script);
	bool bad = ferror(script);

	if (fclose(script) || bad) {
		message("%s: %s", path, strerror(errno));
		return false;
	}
	return true;
}

static bool run_gnuplot(const char *script, const char *errors)
{
	const char *const argv[] = { "gnuplot", script, NULL };
	int fd = open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct spawn_end end;
	int ret = spawn(argv, -1, fd, NULL, &end);

	close(fd);
	if (ret == -ENOENT) {
		message("no picture: gnuplot is not there: install gnuplot-nox, or leave --plot "
			"and --html");
	} else if (ret) {
		message("no picture: gnuplot: %s", strerror(-ret));
	} else if (end.status) {
		char *text = read_whole(errors, NULL);
		const char *why = text ? text + strspn(text, " \n") : "";

		message("no picture: gnuplot failed: %.*s", (int)strcspn(why, "\n"), why);
		free(text);
	}
	return !ret && !end.status;
}

bool plot_draw(const struct plot *plot, const char *path)
{
	const char *terminal = terminal_for(path);

	if (!terminal) {
		message("--plot %s: the name must end in .svg or .png", path);
		return false;
	}
	char *script = temporary_path("plot-XXXXXX");
	int fd = mkstemp(script);

	if (fd < 0) {
		message("%s: %s", script, strerror(errno));
		free(script);
		return false;
	}
	close(fd);
	char *errors = format("%s.err", script);
	char *partial = format("%s.partial", path);
	bool done = can_write(partial) && write_script(plot, script, terminal, partial) &&
		    run_gnuplot(script, errors);

	if (done && rename(partial, path)) {
		message("%s: %s", path, strerror(errno));
		done = false;
	}
	if (!done)
		unlink(partial);
	unlink(errors);
	unlink(script);
	free(script);
	free(partial);
	free(errors);
	return done;
}

/* ---- labels -------------------------------------------------------------------------------- */

/* Is @setting, of @len characters, one of the comma-separated ones behind the name in @text? */
static bool has_setting(const char *text, const char *setting, size_t len)
{
	for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ','))
		if (!strncmp(at + 1, setting, len) && (!at[len + 1] || at[len + 1] == ','))
			return true;
	return false;
}

static bool all_have(const struct analysis *a, const char *setting, size_t len)
{
	for (size_t v = 0; v < a->comparison->nr_variants; v++)
		if (!has_setting(a->comparison->variants[v].text, setting, len))
			return false;
	return true;
}

/* The settings behind a variant's name: those that all have, or the others. ',a=1,b=2' or ''. */
static char *settings(const struct analysis *a, size_t variant, bool common)
{
	const char *at = strchr(a->comparison->variants[variant].text, ',');
	char *text = xstrdup("");

	while (at) {
		size_t len = strcspn(at + 1, ",");

		if (all_have(a, at + 1, len) == common) {
			char *longer = format("%s,%.*s", text, (int)len, at + 1);

			free(text);
			text = longer;
		}
		at = strchr(at + 1, ',');
	}
	return text;
}

/* At most @most characters, the rest as three dots. Takes @text. */
static char *shorten(char *text, size_t most)
{
	size_t characters = 0;

	for (char *at = text; *at; at++) {
		if ((*at & 0xc0) != 0x80 && ++characters == most && strlen(at) > 3) {
			*at = '\0';
			char *cut = format("%s...", text);

			free(text);
			return cut;
		}
	}
	return text;
}

/* A variant without what all variants say, which stands in the title. */
static char *label_of(const struct analysis *a, size_t variant)
{
	const char *text = a->comparison->variants[variant].text;
	char *own = settings(a, variant, false);
	char *label = format("%.*s%s", (int)strcspn(text, ","), text, own);

	free(own);
	return shorten(label, LONGEST_LABEL);
}

/* ---- the ratios ---------------------------------------------------------------------------- */

static double ratio_panel_pixels(const struct analysis *a)
{
	return RATIO_FRAME + (double)RATIO_ROW * a->nr_deciding;
}

static void draw_band(FILE *s, const struct analysis *a)
{
	double band = 0;

	for (unsigned int group = 0; group < a->nr_groups; group++) {
		double b = analysis_aa_band(a, group);

		if (b > band)
			band = b;
	}
	fprintf(s,
		"set object 1 rect from %g, graph 0 to %g, graph 1 behind fc '#e8e8e8' fs solid "
		"noborder\n",
		1 / (1 + band), 1 + band);
	fputs("set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc '#606060' lw 1.5\n", s);
}

static void ratio_range(FILE *s, const struct analysis *a)
{
	double low = 1 / (1 + JUDGE_AA_CAP / 2), high = 1 + JUDGE_AA_CAP / 2;

	for (size_t i = 0; i < a->nr_deciding; i++) {
		const struct judge_estimate *e = &a->deciding[i].estimate;

		if (!a->deciding[i].judged)
			continue;
		low = fmin(low, fmax(e->low, e->ratio / CLIPPED));
		high = fmax(high, fmin(e->high, e->ratio * CLIPPED));
	}
	double margin = pow(high / low, 0.06);

	fprintf(s, "set xrange [%g:%g]\n", low / margin, high * margin);
	if (high / low > 3) /* 0.5 and 2 are the same distance from 1 */
		fputs("set logscale x\nset xtics (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, "
		      "20, "
		      "50, 100)\n",
		      s);
}

/* Some groups are judged by time and some by IOPS: then each says which. */
static bool mixed_quantities(const struct analysis *a)
{
	for (size_t i = 1; i < a->nr_deciding; i++)
		if (a->deciding[i].figure->quantity != a->deciding[0].figure->quantity)
			return true;
	return false;
}

static char *ratio_tick(const struct analysis *a, const struct compared *c)
{
	char *label = label_of(a, c->variant), *tick;

	if (a->nr_groups < 2)
		return label;
	tick = format("%s%s: %s", analysis_group_name(a, c->figure->group),
		      mixed_quantities(a) && c->figure->quantity == Q_TIME ? " (time)" : "", label);
	free(label);
	return shorten(tick, LONGEST_LABEL);
}

/* In gnuplot's characters, which are wider than most letters: the longest label. */
static unsigned int left_margin(const struct analysis *a)
{
	size_t longest = 9;

	for (size_t i = 0; i < a->nr_deciding; i++) {
		char *tick = ratio_tick(a, &a->deciding[i]);

		longest = strlen(tick) > longest ? strlen(tick) : longest;
		free(tick);
	}
	return longest * LABEL_WIDTH + 3;
}

static void ratio_ticks(FILE *s, const struct analysis *a)
{
	fputs("set ytics (", s);
	for (size_t i = 0; i < a->nr_deciding; i++) {
		char *label = ratio_tick(a, &a->deciding[i]);

		fputs(i ? ", " : "", s);
		plot_quote(s, label);
		fprintf(s, " %zu", i);
		free(label);
	}
	fprintf(s, ")\nset yrange [%zu.5:-0.5]\n", a->nr_deciding ? a->nr_deciding - 1 : 0);
}

static void ratio_data(FILE *s, const struct analysis *a)
{
	fputs("$ratios << EOD\n", s);
	for (size_t i = 0; i < a->nr_deciding; i++) {
		const struct judge_estimate *e = &a->deciding[i].estimate;

		if (a->deciding[i].judged)
			fprintf(s, "%g %zu %g %g %s\n", e->ratio, i, e->low, e->high,
				plot_colour(a->deciding[i].variant));
	}
	fputs("EOD\n", s);
}

/* 'IOPS', or 'time' where the work is fixed: then less is faster, which has to be said. */
static const char *ratio_label(const struct analysis *a)
{
	if (mixed_quantities(a))
		return "ratio of IOPS or time (less time is faster), 95 % interval; grey: equal "
		       "runs differ as much";
	if (a->nr_deciding && a->deciding[0].figure->quantity == Q_TIME)
		return "ratio of time (less is faster), 95 % interval; grey: equal runs differ as "
		       "much";
	return "ratio of IOPS (more is faster), 95 % interval; grey: equal runs differ as much";
}

/* Over the whole width, for the labels leave the panel half of it. */
static void put_title(FILE *s, const struct analysis *a)
{
	char *control = label_of(a, 0), *common = settings(a, 0, true);
	char *title = shorten(xstrdup(a->comparison->title), LONGEST_TITLE / 2);
	char *line = shorten(format("%s against %s", title, control), LONGEST_TITLE);
	char *all = shorten(format("all with %s", *common ? common + 1 : ""), LONGEST_TITLE);

	fputs("set label 1 ", s);
	plot_quote(s, line);
	fputs(" at screen 0.5, screen 1 center offset 0, -1.2\n", s);
	if (*common) {
		fputs("set label 2 ", s);
		plot_quote(s, all);
		fputs(" at screen 0.5, screen 1 center offset 0, -2.4 tc '#606060'\n", s);
	}
	free(all);
	free(line);
	free(title);
	free(common);
	free(control);
}

static void draw_ratios(FILE *s, const struct analysis *a)
{
	ratio_data(s, a);
	put_title(s, a);
	draw_band(s, a);
	ratio_range(s, a);
	ratio_ticks(s, a);
	fputs("set xlabel ", s);
	plot_quote(s, ratio_label(a));
	fputs("\nset ylabel\nunset key\nset tmargin 4\nset rmargin 4\n", s);
	fputs("plot $ratios using 1:2:3:4:(hexcolour(strcol(5))) with xerrorbars pt 7 ps 1 lw 2.5 "
	      "lc rgb variable\n",
	      s);
	fputs("unset object 1\nunset arrow 1\nunset label\nunset logscale x\nset xtics auto\n"
	      "set ytics auto\nset tmargin 4\n",
	      s);
}

/* ---- latency ------------------------------------------------------------------------------- */

static uint64_t samples_of(const struct histogram *h)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < h->nr; i++)
		sum += h->bins[i].count;
	return sum;
}

static bool has_latency(const struct analysis *a, unsigned int group)
{
	for (size_t v = 0; v < a->comparison->nr_variants; v++)
		if (a->latency[v * a->nr_groups + group].nr)
			return true;
	return false;
}

/* Up to the percentile that ten samples lie beyond. */
static void latency_data(FILE *s, const struct analysis *a, unsigned int group, size_t variant)
{
	const struct histogram *h = &a->latency[variant * a->nr_groups + group];
	double most = log10(fmax(samples_of(h), 100) / 10.0);

	fprintf(s, "$latency%zu << EOD\n", variant);
	for (double nines = 0.02; h->nr && nines <= most; nines += NINES_STEP)
		fprintf(s, "%g %g\n", nines,
			histogram_percentile(h, (1 - pow(10, -nines)) * 100) / 1000);
	fputs("EOD\n", s);
}

static void draw_latency(FILE *s, const struct analysis *a, unsigned int group)
{
	size_t nr = a->comparison->nr_variants;
	bool first = true;

	for (size_t v = 0; v < nr; v++)
		latency_data(s, a, group, v);
	fputs("set xtics ('0' 0, '50' 0.30103, '90' 1, '99' 2, '99.9' 3, '99.99' 4, '99.999' 5, "
	      "'99.9999' 6)\nset xrange [0:*]\nset yrange [*:*]\nset logscale y\n"
	      "set xlabel 'percentile of all I/Os'\nunset title\n"
	      "set key above left horizontal Left reverse width 2\nset ylabel ",
	      s);
	/* The legend has the place of a title. */
	char *name = a->nr_groups > 1
			     ? format("%s: total latency, us", analysis_group_name(a, group))
			     : xstrdup("total latency, us");

	plot_quote(s, name);
	free(name);
	fputs("\nplot ", s);
	for (size_t v = 0; v < nr; v++) {
		if (!a->latency[v * a->nr_groups + group].nr)
			continue;
		fprintf(s, "%s$latency%zu using 1:2 with lines lw 2.5 lc rgb '%s' title ",
			first ? "" : ", ", v, plot_colour(v));
		char *label = label_of(a, v);

		plot_quote(s, label);
		free(label);
		first = false;
	}
	fputs("\nunset logscale y\nset xtics auto\n", s);
}

/* ---- together ------------------------------------------------------------------------------ */

static unsigned int latency_panels(const struct analysis *a)
{
	unsigned int nr = 0;

	for (unsigned int group = 0; group < a->nr_groups; group++)
		nr += has_latency(a, group);
	return nr;
}

static double height_of(const struct analysis *a)
{
	return ratio_panel_pixels(a) + latency_panels(a) * (double)LATENCY_PANEL;
}

static void draw_analysis(FILE *s, const void *arg)
{
	const struct analysis *a = arg;
	double height = height_of(a), ratios = ratio_panel_pixels(a) / height;
	double panel = LATENCY_PANEL / height, bottom = 1 - ratios;

	fprintf(s, "hexcolour(s) = int('0x'.s[2:7])\nset multiplot\nset lmargin %u\n",
		left_margin(a));
	fprintf(s, "set size 1, %g\nset origin 0, %g\n", ratios, bottom);
	draw_ratios(s, a);
	fputs("set lmargin 11\n", s);
	for (unsigned int group = 0; group < a->nr_groups; group++) {
		if (!has_latency(a, group))
			continue;
		bottom -= panel;
		fprintf(s, "set size 1, %g\nset origin 0, %g\n", panel, bottom);
		draw_latency(s, a, group);
	}
	fputs("unset multiplot\n", s);
}

bool plot_write(const struct analysis *analysis, const char *path)
{
	const struct plot plot = { draw_analysis, analysis, WIDTH, height_of(analysis) };

	return plot_draw(&plot, path);
}

char *plot_svg(const struct analysis *analysis)
{
	char *path = temporary_path("plot-XXXXXX.svg");
	int fd = mkstemps(path, 4);

	if (fd < 0) {
		message("%s: %s", path, strerror(errno));
		free(path);
		return NULL;
	}
	close(fd);
	char *text = plot_write(analysis, path) ? read_whole(path, NULL) : NULL;
	char *svg = text ? strstr(text, "<svg") : NULL;

	svg = svg ? xstrdup(svg) : NULL;
	free(text);
	unlink(path);
	free(path);
	return svg;
}
