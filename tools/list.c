// SPDX-License-Identifier: GPL-2.0-only
/* kpolicy list and kpolicy show: what the policies' own tables say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "kpolicy.h"
#include "print/print.h"
#include "util/util.h"
#include "job/job.h"

static const struct kp_policy *need_policy(const char *name)
{
	const struct kp_policy *policy = variant_policy(name);
	struct text_list names = { 0 };

	if (policy)
		return policy;
	for (const struct kp_policy *const *p = kp_policies; *p; p++)
		text_list_add(&names, "%s", (*p)->name);
	names.item = xrealloc(names.item, names.nr + 1, sizeof(*names.item));
	names.item[names.nr] = NULL;
	const char *near = text_nearest(name, (const char *const *)names.item);

	if (near)
		message("no policy '%s': did you mean '%s'?", name, near);
	else
		message("no policy '%s': 'kpolicy list' names them", name);
	text_list_free(&names);
	return NULL;
}

static char *kernel_range(const struct kp_variant *v)
{
	if (v->since && v->until && !strcmp(v->since, v->until))
		return xstrdup(v->since);
	if (v->since && v->until)
		return format("%s to %s", v->since, v->until);
	if (v->since)
		return format("%s and later", v->since);
	if (v->until)
		return format("up to %s", v->until);
	return xstrdup("no release");
}

static void list_policy(const struct kp_policy *policy, struct table *table)
{
	const struct kp_variant *v;

	for (unsigned int i = 0; (v = kp_policy_variant(policy, i)); i++) {
		bool preset = policy->default_variant && !strcmp(policy->default_variant, v->name);

		table_add(table, format("%s:%s%s", policy->name, v->name, preset ? " *" : ""));
		table_add(table, kernel_range(v));
		table_add(table, xstrdup(v->commit ? v->commit : "-"));
		table_add(table, xstrdup(v->summary));
	}
}

static void print_policy(const struct kp_policy *policy)
{
	static const char *heads[] = { "variant", "kernels", "commit", "what it does" };
	struct table table;
	char *title = format("%s: %s", policy->name, policy->summary);

	table_init(&table, title, heads, ARRAY_SIZE(heads), ARRAY_SIZE(heads));
	list_policy(policy, &table);
	table_print_text(&table, stdout, table_colour(stdout));
	table_free(&table);
	free(title);
}

static int end_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_DONE;
	message("cannot write to standard output");
	return EXIT_CANNOT;
}

int cmd_list(int argc, char **argv)
{
	const struct kp_policy *only = NULL;

	if (argc > 2) {
		message("list takes one policy, or none for all");
		return EXIT_CANNOT;
	}
	if (argc == 2) {
		only = need_policy(argv[1]);
		if (!only)
			return EXIT_CANNOT;
	}
	for (const struct kp_policy *const *p = kp_policies; *p; p++) {
		if (only && *p != only)
			continue;
		print_policy(*p);
		if (!only && p[1])
			putchar('\n');
	}
	if (!only)
		puts("\n*: without policy= or kernel=. POLICY:none switches a policy off; native "
		     "is the "
		     "job file as it is.");
	return end_output();
}

static void show_field(const char *name, const char *value)
{
	printf("%-12s%s\n", name, value ? value : "-");
}

static int show_variant(const struct kp_policy *policy, const struct kp_variant *v)
{
	char *range = kernel_range(v);

	printf("%s:%s\n", policy->name, v->name);
	show_field("does", v->summary);
	show_field("leaves out", v->omits ? v->omits : "nothing that is known");
	show_field("kernels", range);
	show_field("commit", v->commit);
	show_field("policy", policy->summary);
	free(range);
	return end_output();
}

/* An engine has the name of its policy. */
static int show_parsed(const struct variant *variant)
{
	const struct kp_policy *policy = variant->engine ? variant_policy(variant->engine) : NULL;
	const char *name = variant_setting(variant, "policy");
	const char *kernel = variant_setting(variant, "kernel");
	const struct kp_variant *row;
	char why[256];

	if (!variant->engine) {
		puts("native\ndoes        runs the job file as it is, with fio's own engine");
		return end_output();
	}
	if (kp_policy_find(policy, name, kernel, &row, why, sizeof(why))) {
		message("%s", why);
		return EXIT_CANNOT;
	}
	if (!row) {
		printf("%s:none\ndoes        switches the policy off: every I/O goes straight to "
		       "the device\n",
		       policy->name);
		return end_output();
	}
	return show_variant(policy, row);
}

int cmd_show(int argc, char **argv)
{
	struct variant variant;
	char *error = NULL;

	if (argc != 2) {
		message("show takes one variant, such as split:clone");
		return EXIT_CANNOT;
	}
	if (variant_parse(argv[1], &variant, &error)) {
		complain(error);
		return EXIT_CANNOT;
	}
	int code = show_parsed(&variant);

	variant_free(&variant);
	return code;
}
