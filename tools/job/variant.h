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

#include "kpolicy.h"

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
	VARIANT_BOTH,	  /* as the job says: native */
};

/*
 * Parses @text into @v.
 *
 * Returns 0, or -EINVAL: there is no such engine, policy or kernel, or @text is not of the form above.
 * @v is empty then, and *@error is one line without newline, to be freed by the caller.
 */
int variant_parse(const char *text, struct variant *v, char **error);

/* Frees what variant_parse() put into @v and leaves it empty. */
void variant_free(struct variant *v);

/* The last value given for @key, or NULL. */
const char *variant_setting(const struct variant *v, const char *key);

/* What the variant's engine acts on. */
enum variant_path variant_path(const struct variant *v);

/* The policy of this name, which its engine has too, or NULL. */
const struct kp_policy *variant_policy(const char *name);

/* The engines' names, NULL-terminated, in the order of the documentation. */
extern const char *const variant_engines[];

#endif
