// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kpolicy.h"
#include "util/util.h"
#include "variant.h"

#define FORM "ENGINE:POLICY[,option=value...], ENGINE:kernel=VERSION or native"

const char *const variant_engines[] = {
	"blocksize", "diolock", "checksum", "writeback", "split", NULL,
};

/* In the order of variant_engines. */
static const enum variant_path engine_path[] = {
	VARIANT_BUFFERED, VARIANT_DIRECT, VARIANT_DIRECT, VARIANT_BUFFERED, VARIANT_DIRECT,
};

void variant_free(struct variant *v)
{
	for (size_t i = 0; i < v->nr_settings; i++) {
		free(v->settings[i].key);
		free(v->settings[i].value);
	}
	free(v->settings);
	free(v->engine);
	free(v->text);
	*v = (struct variant){ 0 };
}

const char *variant_setting(const struct variant *v, const char *key)
{
	for (size_t i = v->nr_settings; i-- > 0;)
		if (!strcmp(v->settings[i].key, key))
			return v->settings[i].value;
	return NULL;
}

static int engine_index(const char *name)
{
	for (int i = 0; variant_engines[i]; i++)
		if (!strcmp(variant_engines[i], name))
			return i;
	return -1;
}

enum variant_path variant_path(const struct variant *v)
{
	return v->engine ? engine_path[engine_index(v->engine)] : VARIANT_BOTH;
}

static void add_setting(struct variant *v, const char *key, size_t key_len, const char *value)
{
	v->settings = grow_array(v->settings, v->nr_settings, sizeof(*v->settings));
	v->settings[v->nr_settings++] =
		(struct setting){ .key = xstrndup(key, key_len), .value = xstrdup(value) };
}

/* One item of the comma list; only the first may be a bare policy name. */
static int parse_item(struct variant *v, const char *item, char **error)
{
	const char *equals = strchr(item, '=');

	if (!equals && *item && !v->nr_settings) {
		add_setting(v, "policy", strlen("policy"), item);
		return 0;
	}
	if (!equals || equals == item || !equals[1])
		return text_error(error, EINVAL,
				  "variant '%s': '%s' is not of the form option=value", v->text,
				  item);
	add_setting(v, item, equals - item, equals + 1);
	return 0;
}

static int parse_items(struct variant *v, const char *list, char **error)
{
	char *copy = xstrdup(list), *rest = copy, *item;
	int ret = 0;

	while (!ret && (item = strsep(&rest, ",")))
		ret = parse_item(v, item, error);
	free(copy);
	return ret;
}

const struct kp_policy *variant_policy(const char *name)
{
	for (const struct kp_policy *const *policy = kp_policies; *policy; policy++)
		if (!strcmp((*policy)->name, name))
			return *policy;
	return NULL;
}

static const char *nearest_variant(const struct kp_policy *policy, const char *name)
{
	const char **names = xcalloc(policy->nr_rows + 2, sizeof(*names)), *nearest;

	for (unsigned int i = 0; i < policy->nr_rows; i++)
		names[i] = kp_policy_variant(policy, i)->name;
	names[policy->nr_rows] = "none";
	nearest = text_nearest(name, names);
	free(names);
	return nearest;
}

/* Policy and kernel must be known, and be one and the same: an engine would refuse them. */
static int check_policy(const struct variant *v, char **error)
{
	const struct kp_policy *policy = variant_policy(v->engine);
	const char *name = variant_setting(v, "policy"), *nearest;
	const struct kp_variant *row;
	char why[512];

	if (name && kp_policy_find(policy, name, NULL, &row, why, sizeof(why))) {
		nearest = nearest_variant(policy, name);
		if (nearest)
			return text_error(error, EINVAL,
					  "variant '%s': %s has no policy '%s'; did you mean '%s'?",
					  v->text, v->engine, name, nearest);
		return text_error(error, EINVAL,
				  "variant '%s': %s has no policy '%s'; 'kpolicy list %s' names "
				  "them",
				  v->text, v->engine, name, v->engine);
	}
	if (kp_policy_find(policy, name, variant_setting(v, "kernel"), &row, why, sizeof(why)))
		return text_error(error, EINVAL, "variant '%s': %s", v->text, why);
	return 0;
}

static int check_engine(const struct variant *v, char **error)
{
	static const char *const native[] = { "native", NULL };
	const char *nearest;

	if (engine_index(v->engine) >= 0)
		return 0;
	nearest = text_nearest(v->engine, variant_engines);
	if (!nearest)
		nearest = text_nearest(v->engine, native);
	if (nearest)
		return text_error(error, EINVAL, "variant '%s': no engine '%s'; did you mean '%s'?",
				  v->text, v->engine, nearest);
	return text_error(error, EINVAL,
			  "variant '%s': no engine '%s'; there are blocksize, diolock, checksum, "
			  "writeback, split and native",
			  v->text, v->engine);
}

static int parse(struct variant *v, const char *text, char **error)
{
	const char *colon = strchrnul(text, ':');
	int ret;

	v->text = xstrdup(text);
	if (!strcmp(text, "native"))
		return 0;
	v->engine = xstrndup(text, colon - text);
	ret = check_engine(v, error);
	if (ret)
		return ret;
	if (!*colon || !colon[1])
		return text_error(error, EINVAL, "variant '%s' names no policy; write " FORM, text);
	ret = parse_items(v, colon + 1, error);
	return ret ? ret : check_policy(v, error);
}

int variant_parse(const char *text, struct variant *v, char **error)
{
	int ret;

	*error = NULL;
	*v = (struct variant){ 0 };
	ret = parse(v, text, error);
	if (ret)
		variant_free(v);
	return ret;
}
