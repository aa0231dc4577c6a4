// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmdline.h"
#include "swap_internal.h"
#include "util/spawn.h"

static int read_input(struct swap *s, const struct swap_input *in)
{
	if (in->path)
		return jobfile_read(s->jf, in->path, s->error);
	return cmdline_read(in->argv, s->opt->fio, s->jf, &s->args, &s->warnings, s->error);
}

static int check_has_job(struct swap *s, const struct swap_input *in)
{
	for (size_t i = 0; i < s->jf->nr_sections; i++)
		if (jobfile_is_job(&s->jf->sections[i]))
			return 0;
	return text_error(s->error, EINVAL, "%s: defines no job",
			  in->path ? in->path : "command line");
}

/* fio takes a path into a job file that is read from elsewhere, so it has to be absolute. */
static int find_engine(struct swap *s)
{
	char *dir = realpath(s->opt->engine_dir, NULL);

	s->so_path = format("%s/%s.so", dir ? dir : s->opt->engine_dir, s->v->engine);
	free(dir);
	if (!jobfile_can_write(s->so_path))
		return text_error(s->error, EINVAL,
				  "'%s' cannot be written in a job file; move the engines",
				  s->so_path);
	if (!s->opt->show_only && access(s->so_path, R_OK))
		return text_error(s->error, errno,
				  "engine '%s': %s; build it, or say where the "
				  "engines are",
				  s->so_path, strerror(errno));
	return 0;
}

static int rewrite(struct swap *s)
{
	int ret;

	swap_find_engines(s);
	ret = swap_sort_settings(s);
	if (!ret && s->v->engine) {
		ret = find_engine(s);
		if (!ret)
			ret = swap_exchange(s);
	}
	if (!ret)
		ret = swap_override(s);
	return ret ? ret : swap_refuse(s);
}

static void free_swap(struct swap *s)
{
	for (size_t i = 0; s->engines && i < s->jf->nr_sections; i++)
		free(s->engines[i].name);
	free(s->engines);
	free(s->so_path);
	free(s->engine_settings);
	free(s->overrides);
	text_list_free(&s->options);
}

/* The lists and the model pass to the result, which frees them. */
static void hand_over(struct swap *s, struct swap_result *result)
{
	result->jobfile = s->jf;
	result->warnings = s->warnings.item;
	result->nr_warnings = s->warnings.nr;
	result->args = s->args.item;
	result->nr_args = s->args.nr;
}

int swap_job(const struct swap_input *in, const struct variant *v, const struct swap_options *opt,
	     struct swap_result *result, char **error)
{
	struct swap s = { .v = v, .opt = opt, .error = error };
	int ret;

	*error = NULL;
	*result = (struct swap_result){ 0 };
	s.jf = xcalloc(1, sizeof(*s.jf));
	ret = read_input(&s, in);
	if (!ret)
		ret = check_has_job(&s, in);
	if (!ret)
		ret = rewrite(&s);
	if (!ret) {
		result->text = jobfile_text(s.jf);
		swap_describe(&s, result);
	}
	free_swap(&s);
	hand_over(&s, result);
	if (ret)
		swap_result_free(result);
	return ret;
}

/* A descriptor, which a program that is started inherits, to a file that holds @text; -1: failed. */
static int memory_file(const char *text)
{
	int fd = memfd_create("job file", 0);
	size_t len = strlen(text);

	if (fd >= 0 && write(fd, text, len) == (ssize_t)len && !lseek(fd, 0, SEEK_SET))
		return fd;
	close(fd);
	return -1;
}

int swap_show(FILE *out, const struct swap_input *in, const struct swap_result *result)
{
	const char *name = in->path ? in->path : "command line";
	int old = memory_file(result->jobfile->text), new = memory_file(result->text);
	char *labels = format("--label=%s", name);
	char *old_path = format("/dev/fd/%d", old), *new_path = format("/dev/fd/%d", new);
	const char *const argv[] = { "diff", "-u", labels, labels, old_path, new_path, NULL };
	char *text = NULL;
	int ret = old < 0 || new < 0 ? -EIO : spawn_read(argv, &text);

	if (ret == 1) /* they differ */
		fputs(text, out);
	free(text);
	free(new_path);
	free(old_path);
	free(labels);
	close(old);
	close(new);
	return ret < 0 ? ret : ferror(out) || ret > 1 ? -EIO : 0;
}

static void free_strings(char **strings, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(strings[i]);
	free(strings);
}

void swap_result_free(struct swap_result *result)
{
	for (size_t i = 0; i < result->nr_jobs; i++) {
		free(result->jobs[i].name);
		free(result->jobs[i].old_engine);
		free(result->jobs[i].after);
		free(result->jobs[i].ratio_one);
	}
	free(result->jobs);
	free(result->text);
	free_strings(result->warnings, result->nr_warnings);
	free_strings(result->files, result->nr_files);
	free_strings(result->written, result->nr_written);
	free_strings(result->args, result->nr_args);
	if (result->jobfile)
		jobfile_free(result->jobfile);
	free(result->jobfile);
	*result = (struct swap_result){ 0 };
}
