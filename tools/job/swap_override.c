// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fioinfo.h"
#include "swap_internal.h"

/* Options that decide the same thing: setting the first takes the others away too. */
static const struct {
	const char *name;
	const char *others[4];
} families[] = {
	{ "filename", { "directory", "filename_format", "opendir" } },
	{ "directory", { "opendir" } },
	{ "size", { "filesize", "fill_device" } },
	{ "bs", { "bsrange", "bssplit" } },
	{ "bsrange", { "bs", "bssplit" } },
	{ "bssplit", { "bs", "bsrange" } },
	{ "direct", { "buffered" } },
	{ "buffered", { "direct" } },
	{ "rwmixread", { "rwmixwrite" } },
	{ "rwmixwrite", { "rwmixread" } },
	{ "cpus_allowed", { "cpumask" } },
	{ "cpumask", { "cpus_allowed" } },
};

/* Logs that each run would write again. */
static const char *const log_options[] = {
	"write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog", NULL,
};

/* --- what there is to override ---------------------------------------------------------------- */

static void add_override(struct swap *s, const char *key, const char *value, bool is_fio)
{
	s->overrides = grow_array(s->overrides, s->nr_overrides, sizeof(*s->overrides));
	s->overrides[s->nr_overrides++] =
		(struct override){ .key = key, .value = value, .is_fio = is_fio };
}

static int check_setting(struct swap *s, const struct setting *set)
{
	if (!strcmp(set->key, "ioengine"))
		return text_error(s->error, EINVAL,
				  "'ioengine=%s' cannot be set: the variant names "
				  "the engine",
				  set->value);
	if (!strcmp(set->key, "name"))
		return text_error(s->error, EINVAL,
				  "'name=%s' cannot be set: results are matched by "
				  "the jobs' own names",
				  set->value);
	if (!jobfile_can_write(set->value))
		return text_error(s->error, EINVAL,
				  "'%s=%s' cannot be written in a job file, which knows no quoting "
				  "of ; # ${ $ncpus or blanks at the end",
				  set->key, set->value);
	return 0;
}

static int sort_set(struct swap *s, const struct setting *set)
{
	int ret = check_setting(s, set);

	if (ret)
		return ret;
	ret = fioinfo_option(s->opt->fio, set->key);
	if (ret < 0)
		return text_error(s->error, -ret, "cannot ask '%s' about option '%s': %s",
				  s->opt->fio, set->key, strerror(-ret));
	add_override(s, set->key, set->value, ret != FIO_OPTION_NONE);
	return 0;
}

/* Without a fio to ask, a variant's option is its engine's. */
static int sort_variant_setting(struct swap *s, const struct setting *set)
{
	int ret = check_setting(s, set);

	if (ret)
		return ret;
	if (fioinfo_option(s->opt->fio, set->key) > FIO_OPTION_NONE) {
		add_override(s, set->key, set->value, true);
		return 0;
	}
	s->engine_settings =
		grow_array(s->engine_settings, s->nr_engine_settings, sizeof(*s->engine_settings));
	s->engine_settings[s->nr_engine_settings++] = set;
	return 0;
}

int swap_sort_settings(struct swap *s)
{
	int ret = 0;

	for (size_t i = 0; i < s->opt->nr_set && !ret; i++)
		ret = sort_set(s, &s->opt->set[i]);
	for (size_t i = 0; i < s->v->nr_settings && !ret; i++)
		ret = sort_variant_setting(s, &s->v->settings[i]);

	if (!ret && s->opt->cpus)
		add_override(s, "cpus_allowed", s->opt->cpus, true);
	return ret;
}

/* --- carrying it out -------------------------------------------------------------------------- */

/* Whether setting @name makes line @l void. */
static bool is_overridden(const struct jobfile_line *l, const char *name)
{
	if (jobfile_sets(l, name))
		return true;
	name = fioinfo_name(name);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (strcmp(families[i].name, name))
			continue;
		for (const char *const *other = families[i].others; *other; other++)
			if (jobfile_sets(l, *other))
				return true;
	}
	return false;
}

static void remove_overridden(struct jobfile_section *section, const char *name)
{
	for (size_t k = section->nr_lines; k-- > 0;)
		if (is_overridden(&section->lines[k], name))
			jobfile_remove_line(section, k);
}

/* The names of filename line @l that are not absolute, as fio writes lists. */
static char *relative_names(const struct jobfile_line *l)
{
	const char *value = l->value ? l->value : "";
	char *copy = xstrdup(value + strspn(value, " \t\v\f")), *rest = copy, *name;
	struct stream stream;
	FILE *out = stream_open(&stream);

	while ((name = text_next_path(&rest))) {
		if (*name == '/')
			continue;
		if (ftell(out) > 0)
			fputc(':', out);
		for (; *name; name++)
			fprintf(out, "%s%c", *name == ':' ? "\\" : "", *name);
	}
	free(copy);
	return stream_text(&stream);
}

static int replace_names(struct swap *s, struct jobfile_section *section, size_t k,
			 const char *names)
{
	struct jobfile_line *l = &section->lines[k];

	if (!*names) {
		jobfile_remove_line(section, k);
		return 0;
	}
	if (!jobfile_can_write(names))
		return text_error_at(s->error, EINVAL, l->file, l->line,
				     "'%s=%s' cannot be written again without its absolute paths",
				     l->key, l->value);
	jobfile_replace(l, names);
	return 0;
}

/* fio would look for an absolute filename below the directory: those go, item by item. */
static int drop_absolute_names(struct swap *s, struct jobfile_section *section)
{
	int ret = 0;

	for (size_t k = section->nr_lines; k-- > 0 && !ret;) {
		struct jobfile_line *l = &section->lines[k];
		char *names;

		if (!jobfile_sets(l, "filename") || !l->value ||
		    (l->value[strspn(l->value, " \t\v\f")] != '/' && !strstr(l->value, ":/")))
			continue;
		names = relative_names(l);
		ret = replace_names(s, section, k, names);
		free(names);
	}
	return ret;
}

/* Whether the engine that section @i ends up with has the option. */
static bool engine_has(struct swap *s, size_t i, const char *key)
{
	bool swapped = swap_is_swapped(s, i);

	/* one that is not built yet is believed to have what it is given */
	if (swap_load_options(s, swapped ? s->so_path : s->engines[i].name))
		return swapped;
	return text_list_has(&s->options, key);
}

/* A size counts from the offset on. */
static void warn_offset(struct swap *s, size_t i)
{
	static const char *const options[] = { "offset", "offset_increment" };

	for (size_t k = 0; k < ARRAY_SIZE(options); k++) {
		const struct jobfile_line *l = jobfile_effective(s->jf, i, options[k]);

		if (l && swap_is_on(s->jf, i, options[k]))
			swap_warn(s, l->file, l->line,
				  "'%s=%s' stays: files grow to the size that is set and this",
				  l->key, l->value);
	}
}

static int override_section(struct swap *s, size_t i, struct override *o)
{
	struct jobfile_section *section = &s->jf->sections[i];
	bool is_job = jobfile_is_job(section);

	if (!o->is_fio && (!is_job || !engine_has(s, i, o->key)))
		return 0;
	/* what the variant says itself is more particular */
	if (!o->is_fio && swap_is_swapped(s, i) && variant_setting(s->v, o->key)) {
		o->used = true;
		return 0;
	}
	bool is_directory = !strcmp(fioinfo_name(o->key), "directory");
	int ret = 0;

	remove_overridden(section, o->key);
	if (is_directory)
		ret = drop_absolute_names(s, section);
	/* fio puts a filename below the directory when it reads it: a [global] with one needs both */
	if (ret || (!is_job && !(is_directory && jobfile_own(section, "filename"))))
		return ret;
	o->used |= is_job;
	if (is_job && !strcmp(fioinfo_name(o->key), "size"))
		warn_offset(s, i);
	jobfile_append(section, o->key, o->value);
	return 0;
}

/* The first job that a comparison is about, for a message. */
static const struct section_engine *first_engine(const struct swap *s)
{
	size_t first = s->jf->nr_sections;

	for (size_t i = s->jf->nr_sections; i-- > 0;)
		if (jobfile_is_job(&s->jf->sections[i]) &&
		    (first == s->jf->nr_sections || s->engines[i].backend))
			first = i;
	return &s->engines[first];
}

static int check_used(struct swap *s, const struct override *o)
{
	const struct section_engine *e = first_engine(s);

	if (o->used)
		return 0;
	if (!s->v->engine) {
		swap_warn(s, e->file, e->line,
			  "%s has no option '%s', native runs without '%s=%s'; for the same "
			  "device on both sides compare with ENGINE:none",
			  e->name, o->key, o->key, o->value);
		return 0;
	}
	return text_error(s->error, EINVAL, "'%s=%s': neither fio nor %s has an option '%s'",
			  o->key, o->value, s->v->engine, o->key);
}

/* A log of its own name in the run's directory: 'logs/a' becomes RUN_DIR/logs_a. */
static char *log_path(struct swap *s, size_t i, const char *value)
{
	const char *name = *value ? value : s->jf->sections[i].name;
	char *path = format("%s/%s", s->opt->run_dir, name);

	for (char *c = path + strlen(s->opt->run_dir) + 1; *c; c++)
		if (strchr("/;#$ \t", *c))
			*c = '_';
	return path;
}

static void redirect_log(struct swap *s, size_t i, const char *option, const char *value)
{
	char *path = log_path(s, i, value);

	remove_overridden(&s->jf->sections[i], option);
	jobfile_append(&s->jf->sections[i], option, path);
	free(path);
}

/* A log that one job writes and another one replays has moved for both. */
static bool is_written(const struct swap *s, const char *log)
{
	for (size_t i = 0; i < s->jf->nr_sections; i++) {
		const char *value = jobfile_value(s->jf, i, "write_iolog");

		if (jobfile_is_job(&s->jf->sections[i]) && value && !strcmp(value, log))
			return true;
	}
	return false;
}

/* The reads first: they are recognized by the old names. */
static void redirect_replays(struct swap *s)
{
	for (size_t i = 0; i < s->jf->nr_sections; i++) {
		const char *log = jobfile_value(s->jf, i, "read_iolog");

		if (jobfile_is_job(&s->jf->sections[i]) && log && is_written(s, log))
			redirect_log(s, i, "read_iolog", log);
	}
}

static void redirect_logs(struct swap *s, size_t i)
{
	for (const char *const *option = log_options; *option; option++) {
		const char *value = jobfile_value(s->jf, i, *option);

		if (value)
			redirect_log(s, i, *option, value);
	}
}

/* What verify leaves behind has no option of its own but a place on the command line. */
static void redirect_state(struct swap *s)
{
	for (size_t i = 0; i < s->jf->nr_sections; i++)
		if (swap_is_on(s->jf, i, "verify_state_load")) {
			const struct jobfile_line *l =
				jobfile_effective(s->jf, i, "verify_state_load");

			swap_warn(s, l->file, l->line,
				  "verify states are read and written where fio runs, so "
				  "each run finds that of the one before");
			return;
		}
	text_list_add(&s->args, "--aux-path=%s", s->opt->run_dir);
}

static int redirect_all(struct swap *s)
{
	if (!jobfile_can_write(s->opt->run_dir))
		return text_error(s->error, EINVAL,
				  "'%s' cannot be written in a job file; choose another directory",
				  s->opt->run_dir);
	redirect_replays(s);
	for (size_t i = 0; i < s->jf->nr_sections; i++)
		if (jobfile_is_job(&s->jf->sections[i]))
			redirect_logs(s, i);
	redirect_state(s);
	return 0;
}

static bool is_storage(const struct swap *s, size_t i)
{
	return s->engines[i].backend != NULL;
}

/* The jobs from section @i up to the next group; *@mixed: some are storage jobs and some are not. */
static size_t group_end(const struct swap *s, size_t i, bool *mixed)
{
	bool storage = false, other = false, first = true;

	for (; i < s->jf->nr_sections; i++) {
		if (!jobfile_is_job(&s->jf->sections[i]))
			continue;
		if (!first && swap_begins_group(s->jf, i))
			break;
		first = false;
		storage = storage || is_storage(s, i);
		other = other || !is_storage(s, i);
	}
	*mixed = storage && other;
	return i;
}

/*
 * With group_reporting fio gives one result for all jobs of a group: of a mixed one what the storage
 * jobs did could not be told from the rest. kpolicy adds the jobs up itself.
 */
static void report_mixed_apart(struct swap *s)
{
	for (size_t i = 0, end; i < s->jf->nr_sections; i = end) {
		bool mixed;

		end = group_end(s, i, &mixed);
		for (size_t k = i; k < end && mixed; k++)
			if (jobfile_is_job(&s->jf->sections[k]) &&
			    swap_is_on(s->jf, k, "group_reporting"))
				jobfile_append(&s->jf->sections[k], "group_reporting", "0");
	}
}

int swap_override(struct swap *s)
{
	int ret = 0;

	for (size_t k = 0; k < s->nr_overrides && !ret; k++) {
		for (size_t i = 0; i < s->jf->nr_sections && !ret; i++)
			ret = override_section(s, i, &s->overrides[k]);
		if (!ret)
			ret = check_used(s, &s->overrides[k]);
	}
	if (!ret && !s->opt->show_only)
		report_mixed_apart(s);
	return ret || !s->opt->run_dir ? ret : redirect_all(s);
}
