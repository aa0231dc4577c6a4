// SPDX-License-Identifier: GPL-2.0-only
/* Variants by name and by kernel version. */
#include "unit.h"

START_TEST(compare_versions)
{
	static const struct {
		const char *a, *b;
		int order;
	} table[] = {
		{ "4.2", "4.3", -1 },	      { "4.9", "4.10", -1 },
		{ "4.19", "5.0", -1 },	      { "4.3-rc1", "4.3", -1 },
		{ "4.3-rc1", "4.3-rc2", -1 }, { "4.3-rc2", "4.3-rc10", -1 },
		{ "4.2", "4.3-rc1", -1 },     { "4.9", "4.9", 0 },
		{ "4.9", "4.9.337", 0 },      { "5.10.7", "5.10", 0 },
		{ "5.10.7", "5.10.8", -1 },   { "5.10.9", "5.10.10", -1 },
		{ "6.1", "6.19", -1 },	      { "4.3-rc7", "4.3.1", -1 },
		{ "10.0", "9.99", 1 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_msg(kp_version_compare(table[i].a, table[i].b) == table[i].order,
			      "%s and %s", table[i].a, table[i].b);
		ck_assert_msg(kp_version_compare(table[i].b, table[i].a) == -table[i].order,
			      "%s and %s", table[i].b, table[i].a);
	}
}
END_TEST

static int find(const char *name, const char *kernel, const char **found, char why[512])
{
	const struct kp_variant *variant;
	int ret = kp_policy_find(&kp_split_policy, name, kernel, &variant, why, 512);

	*found = variant ? variant->name : NULL;
	return ret;
}

START_TEST(find_variants)
{
	static const struct {
		const char *name, *kernel, *found;
	} table[] = {
		{ "clone", NULL, "clone" },   { "5.4", NULL, "5.4" },
		{ "none", NULL, NULL },	      { NULL, NULL, "fast" },
		{ NULL, "4.2", "build" },     { NULL, "4.2.8", "build" },
		{ NULL, "4.3-rc1", "clone" }, { NULL, "4.3", "fast" },
		{ NULL, "4.3.6", "fast" },    { NULL, "4.4", "fast" },
		{ NULL, "4.8", "4.9" },	      { NULL, "4.8.17", "4.9" },
		{ NULL, "4.9", "4.9" },	      { NULL, "4.19.0", "4.14" },
		{ NULL, "5.3", "4.14" },      { NULL, "5.4", "5.4" },
		{ NULL, "5.10.7", "5.4" },    { NULL, "6.0", "6.1" },
		{ NULL, "6.1", "6.1" },	      { NULL, "6.19", "6.1" },
		{ "fast", "4.4", "fast" },    { NULL, "7.3.4", "6.1" },
	};
	const char *found;
	char why[512];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_int_eq(find(table[i].name, table[i].kernel, &found, why), 0);
		if (table[i].found)
			ck_assert_str_eq(found, table[i].found);
		else
			ck_assert_ptr_null(found);
	}
}
END_TEST

/* What is not known: one line that names the option, its value and everything that is known. */
START_TEST(unknown)
{
	static const char *const kernels[] = {
		"3.10",	  "4.1",      "7.4",	  "99.1",    "4",	"",	   "4.",  "4.3.",
		"4.3-rc", "4.3-rc-1", "4.3-rc1x", "4.3-foo", "4.3.2.1", "linux-5", "v",	  "-4.3",
		"vv4.3",  "4.3.0x",   "4.3.0~1",  "V4.3",    " 4.3",	"4.3 ",	   "4. 3"
	};
	static const char *const names[] = { "", "Fast", "fas", "fastt", "None" };
	const char *found;
	char why[512];

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		ck_assert_msg(find(NULL, kernels[i], &found, why) == -ENOENT, "kernel=%s",
			      kernels[i]);
		ck_assert_ptr_null(found);
		ck_assert_ptr_nonnull(strstr(why, "kernel="));
		ck_assert_ptr_nonnull(strstr(why, kernels[i]));
		ck_assert_ptr_nonnull(strstr(why, "4.2, 4.3-rc1, 4.3 to 4.4, 4.5 to 4.12"));
		ck_assert_ptr_null(strchr(why, '\n'));
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		ck_assert_msg(find(names[i], NULL, &found, why) == -ENOENT, "policy=%s", names[i]);
		for (const struct kp_policy *const *policy = kp_policies; *policy; policy++) {
			if (*policy != &kp_split_policy)
				continue;
			for (unsigned int j = 0; kp_policy_variant(*policy, j); j++)
				ck_assert_ptr_nonnull(
					strstr(why, kp_policy_variant(*policy, j)->name));
		}
		ck_assert_ptr_nonnull(strstr(why, "none"));
	}
	ck_assert_int_eq(find("clone", "5.4", &found, why), -EINVAL);
	ck_assert_ptr_null(found);
	ck_assert_ptr_nonnull(strstr(why, "clone"));
	ck_assert_ptr_nonnull(strstr(why, "5.4"));
}
END_TEST

/* What people have at hand: the name of a tag, and what uname -r says. */
START_TEST(kernels_at_hand)
{
	static const struct {
		const char *kernel, *found;
	} table[] = {
		{ "v5.10", "5.4" },
		{ "v4.3-rc1", "clone" },
		{ "5.10.0-amd64", "5.4" },
		{ "6.1.0-18-amd64", "6.1" },
		{ "6.8.0-45-generic", "6.1" },
		{ "4.3.0-rc1+", "clone" },
		{ "4.3.0-rc1-00012-g1234", "clone" },
		{ "4.3.0+", "fast" },
		{ "5.3.18-150300.59.93-default", "4.14" },
	};
	const char *found;
	char why[512];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ck_assert_msg(!find(NULL, table[i].kernel, &found, why), "%s: %s", table[i].kernel,
			      why);
		ck_assert_str_eq(found, table[i].found);
	}
}
END_TEST

/* A former name means the row that has another one now, and is not listed. */
START_TEST(aliases)
{
	const struct kp_variant *by_alias, *by_name;
	unsigned int nr = 0;
	char why[512];

	for (const struct kp_policy *const *policy = kp_policies; *policy; policy++) {
		const struct kp_alias *alias = (*policy)->aliases;

		for (; alias && alias->name; alias++, nr++) {
			ck_assert_int_eq(kp_policy_find(*policy, alias->name, NULL, &by_alias, why,
							sizeof(why)),
					 0);
			ck_assert_int_eq(kp_policy_find(*policy, alias->variant, NULL, &by_name,
							why, sizeof(why)),
					 0);
			ck_assert_ptr_eq(by_alias, by_name);
			ck_assert_str_ne(by_name->name, alias->name);
		}
	}
	ck_assert_uint_gt(nr, 0);
}
END_TEST

/* Each range of kernels is named once, whatever number of rows has it. */
START_TEST(ranges_once)
{
	const struct kp_variant *found;
	char why[512], range[64];

	for (const struct kp_policy *const *policy = kp_policies; *policy; policy++) {
		const struct kp_variant *v;

		ck_assert_int_ne(kp_policy_find(*policy, NULL, "1.0", &found, why, sizeof(why)), 0);
		for (unsigned int i = 0; (v = kp_policy_variant(*policy, i)); i++) {
			if (!v->since || !strcmp(v->since, v->until))
				continue;
			snprintf(range, sizeof(range), " %s to %s", v->since, v->until);
			const char *at = strstr(why, range);

			ck_assert_msg(at, "%s: no '%s' in: %s", (*policy)->name, range, why);
			ck_assert_msg(!strstr(at + 1, range), "%s: twice '%s' in: %s",
				      (*policy)->name, range, why);
		}
	}
}
END_TEST

/* Facts that hold for the table of every policy. */
START_TEST(every_table)
{
	for (const struct kp_policy *const *policy = kp_policies; *policy; policy++) {
		const struct kp_variant *variant, *found;
		char why[512];

		ck_assert_int_eq(kp_policy_find(*policy, NULL, NULL, &found, why, sizeof(why)), 0);
		for (unsigned int i = 0; (variant = kp_policy_variant(*policy, i)); i++) {
			ck_assert_str_ne(variant->name, "none");
			ck_assert_str_ne(variant->summary, "");
			ck_assert_str_ne(variant->commit, "");
			ck_assert_int_eq(!variant->since, !variant->until);
			ck_assert_int_eq(kp_policy_find(*policy, variant->name, NULL, &found, why,
							sizeof(why)),
					 0);
			ck_assert_msg(found == variant, "%s: %s is there twice", (*policy)->name,
				      variant->name);
			if (!variant->since)
				continue;
			ck_assert_int_le(kp_version_compare(variant->since, variant->until), 0);
			ck_assert_int_eq(kp_policy_find(*policy, NULL, variant->since, &found, why,
							sizeof(why)),
					 0);
			/* Rows of several file systems, or of a mount option, may share a kernel. */
			ck_assert_msg(found == variant || *policy == &kp_diolock_policy,
				      "%s: kernel %s has two rows, %s and %s", (*policy)->name,
				      variant->since, found->name, variant->name);
		}
	}
}
END_TEST

/* A short buffer for the message: cut, not overrun. */
START_TEST(short_message)
{
	const struct kp_variant *variant;
	char why[20] = "";

	memset(why, 'x', sizeof(why));
	kp_policy_find(&kp_split_policy, "no-such-thing", NULL, &variant, why, 10);
	ck_assert_uint_eq(strlen(why), 9);
	ck_assert_int_eq(why[10], 'x');
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("variant");
	TCase *tcase = tcase_create("variant");

	tcase_add_test(tcase, compare_versions);
	tcase_add_test(tcase, find_variants);
	tcase_add_test(tcase, unknown);
	tcase_add_test(tcase, kernels_at_hand);
	tcase_add_test(tcase, aliases);
	tcase_add_test(tcase, ranges_once);
	tcase_add_test(tcase, every_table);
	tcase_add_test(tcase, short_message);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
