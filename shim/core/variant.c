// SPDX-License-Identifier: GPL-2.0-only
/* Finds the variant that a user asked for by its name or by a kernel version. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kpolicy.h"

/* clang-format off */
const struct kp_policy *const kp_policies[] = {
	&kp_diolock_policy,
	&kp_writeback_policy,
	&kp_checksum_policy,
	&kp_blocksize_policy,
	&kp_split_policy,
	&kp_plug_policy,
	NULL,
};
/* clang-format on */

void kp_arena_finish(struct kp_arena *arena)
{
	for (unsigned int i = 0; kp_policies[i]; i++) {
		if (kp_policies[i]->finish)
			kp_policies[i]->finish(arena);
	}
}

const struct kp_variant *kp_policy_variant(const struct kp_policy *policy, unsigned int i)
{
	if (i >= policy->nr_rows)
		return NULL;
	return (const void *)((const char *)policy->rows + i * policy->row_size);
}

int kp_policy_check(const struct kp_policy *policy, const void *options,
		    const struct kp_variant *variant, char *why, size_t why_size)
{
	return options && policy->check ? policy->check(options, variant, why, why_size) : 0;
}

struct version {
	long part[3]; /* -1: not given */
	long rc;      /* RELEASE: the release itself, after every rc */
};

#define RELEASE 10000

static bool parse_version(const char *text, struct version *version)
{
	char *end;

	*version = (struct version){ .part = { -1, -1, -1 }, .rc = RELEASE };
	if (*text == 'v') /* the name of a tag in git */
		text++;
	for (int i = 0; i < 3; i++) {
		if (*text < '0' || *text > '9')
			return false;
		version->part[i] = strtol(text, &end, 10);
		text = end;
		if (*text != '.')
			break;
		text++;
	}
	if (version->part[1] < 0)
		return false;
	if (!strncmp(text, "-rc", 3) && text[3] >= '0' && text[3] <= '9') {
		version->rc = strtol(text + 3, &end, 10);
		text = end;
	}
	/* uname -r appends more to its three numbers: 6.1.0-18-amd64, 6.12.0-rc3+. */
	if (version->part[2] >= 0 && (*text == '-' || *text == '+'))
		return true;
	return !*text;
}

int kp_version_compare(const char *a, const char *b)
{
	struct version va, vb;

	if (!parse_version(a, &va) || !parse_version(b, &vb))
		return strcmp(a, b);
	for (int i = 0; i < 3; i++) {
		if (va.part[i] < 0 || vb.part[i] < 0)
			break; /* 4.9 stands for every 4.9.x */
		if (va.part[i] != vb.part[i])
			return va.part[i] < vb.part[i] ? -1 : 1;
	}
	return (va.rc > vb.rc) - (va.rc < vb.rc);
}

/* "5.10" is 5.10.0 to a row that begins with a later release of that branch. */
static bool is_before_stable(const char *since, const char *kernel)
{
	struct version row, asked;

	return parse_version(since, &row) && parse_version(kernel, &asked) && row.part[2] > 0 &&
	       asked.part[2] < 0 && row.part[0] == asked.part[0] && row.part[1] == asked.part[1];
}

static bool variant_covers(const struct kp_variant *variant, const char *kernel)
{
	return variant->since && !is_before_stable(variant->since, kernel) &&
	       kp_version_compare(variant->since, kernel) <= 0 &&
	       kp_version_compare(kernel, variant->until) <= 0;
}

/* Rows of several file systems have equal ranges: does an earlier row have the range of row @i? */
static bool is_known_range(const struct kp_policy *policy, unsigned int i)
{
	const struct kp_variant *variant = kp_policy_variant(policy, i);

	while (i-- > 0) {
		const struct kp_variant *other = kp_policy_variant(policy, i);

		if (other->since && !strcmp(other->since, variant->since) &&
		    !strcmp(other->until, variant->until))
			return true;
	}
	return false;
}

/* "clone fast build 5.4 none" or "4.2, 4.3-rc1, 4.3 to 4.8", for messages. */
static void list_known(const struct kp_policy *policy, bool kernels, char *list, size_t size)
{
	const struct kp_variant *variant;
	size_t used = 0;

	list[0] = '\0';
	for (unsigned int i = 0; (variant = kp_policy_variant(policy, i)); i++) {
		if (kernels && (!variant->since || is_known_range(policy, i)))
			continue;
		if (!kernels)
			used += snprintf(list + used, size - used, "%s%s", used ? ", " : "",
					 variant->name);
		else if (!strcmp(variant->since, variant->until))
			used += snprintf(list + used, size - used, "%s%s", used ? ", " : "",
					 variant->since);
		else
			used += snprintf(list + used, size - used, "%s%s to %s", used ? ", " : "",
					 variant->since, variant->until);
		if (used >= size)
			return;
	}
	if (!kernels)
		snprintf(list + used, size - used, ", none");
}

static const struct kp_variant *find_name(const struct kp_policy *policy, const char *name)
{
	const struct kp_variant *variant;

	for (const struct kp_alias *alias = policy->aliases; alias && alias->name; alias++) {
		if (!strcmp(alias->name, name))
			name = alias->variant;
	}
	for (unsigned int i = 0; (variant = kp_policy_variant(policy, i)); i++) {
		if (!strcmp(variant->name, name))
			return variant;
	}
	return NULL;
}

static const struct kp_variant *find_kernel(const struct kp_policy *policy, const char *kernel)
{
	const struct kp_variant *variant;

	for (unsigned int i = 0; (variant = kp_policy_variant(policy, i)); i++) {
		if (variant_covers(variant, kernel))
			return variant;
	}
	return NULL;
}

int kp_policy_find(const struct kp_policy *policy, const char *name, const char *kernel,
		   const struct kp_variant **variant, char *why, size_t why_size)
{
	const struct kp_variant *by_name = NULL, *by_kernel = NULL;
	const char *option = policy->option ? policy->option : "policy";
	struct version version;
	char known[400];

	*variant = NULL;
	if (!name && !kernel)
		name = policy->default_variant;
	if (name && strcmp(name, "none")) {
		by_name = find_name(policy, name);
		if (!by_name) {
			list_known(policy, false, known, sizeof(known));
			snprintf(why, why_size, "%s=%s: %s has no such variant, give one of: %s",
				 option, name, policy->name, known);
			return -ENOENT;
		}
	}
	if (kernel) {
		by_kernel = parse_version(kernel, &version) ? find_kernel(policy, kernel) : NULL;
		if (!by_kernel) {
			list_known(policy, true, known, sizeof(known));
			snprintf(why, why_size, "kernel=%s: not known to %s, give one of: %s",
				 kernel, policy->name, known);
			return -ENOENT;
		}
	}
	/* Several rows may match one kernel: one for each file system. */
	if (by_name && by_kernel && variant_covers(by_name, kernel))
		by_kernel = by_name;
	if (name && by_kernel && by_name != by_kernel) {
		snprintf(why, why_size, "%s=%s kernel=%s: that kernel has %s=%s, give only one",
			 option, name, kernel, policy->name, by_kernel->name);
		return -EINVAL;
	}
	*variant = by_kernel ? by_kernel : by_name;
	return 0;
}
