/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A variant as typed on kpolicy's command line:
 *
 *	ENGINE:POLICY[,option=value...]
 *	ENGINE:option=value[,option=value...]	kernel=VERSION, fs=NAME ...
 *	native					the job file as it stands
 */
#ifndef KPOLICY_TOOLS_VARIANT_H
#define KPOLICY_TOOLS_VARIANT_H

#include <stddef.h>

struct setting {
	char *key;
	char *value;
};

struct variant {
	char *text;		  /* as typed: the label in reports */
	char *engine;		  /* NULL for native */
	struct setting *settings; /* policy= and kernel= included, in the order typed */
	size_t nr_settings;
};

/* What an engine's policy acts on; it decides which job is like which. */
enum variant_path {
	VARIANT_DIRECT,	  /* direct I/O only: split, diolock, checksum */
	VARIANT_BUFFERED, /* the page cache: blocksize, writeback */
	VARIANT_BOTH,	  /* stack follows the job; so does native */
};

/*
 * Names the policies of @engine: a NULL-terminated array, or NULL when they are not known. The
 * array belongs to the callee and must stay valid.
 */
typedef const char *const *variant_policies_fn(const char *engine);

/*
 * Lets variant_parse() check policy names. Without it any name is taken. Call it before the first
 * variant_parse(), from the main thread.
 */
void variant_set_policies(variant_policies_fn *policies);

/*
 * Parses @text into @v.
 *
 * Returns 0, or -EINVAL (no such engine or policy, not of the form above). On failure
 * @v is empty and *@error is one line without newline, to be freed by the caller (NULL when there
 * was no memory for it).
 */
int variant_parse(const char *text, struct variant *v, char **error);

/* Frees what variant_parse() put into @v and leaves it empty. */
void variant_free(struct variant *v);

/* The last value given for @key, or NULL. */
const char *variant_setting(const struct variant *v, const char *key);

/* What the variant's engine acts on. */
enum variant_path variant_path(const struct variant *v);

/* The engines' names, NULL-terminated, in the order of the documentation. */
extern const char *const variant_engines[];

#endif
