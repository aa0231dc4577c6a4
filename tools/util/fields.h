/* SPDX-License-Identifier: GPL-2.0-only */
/* Structures described by tables of their fields: to JSON and back, and freed. */
#ifndef KPOLICY_TOOLS_FIELDS_H
#define KPOLICY_TOOLS_FIELDS_H

#include <jansson.h>
#include <stddef.h>

enum field_kind {
	FIELD_TEXT,  /* char *, NULL is null; in JSON a '?' stands for what is not UTF-8 */
	FIELD_BYTES, /* the same, but every byte comes back: %XX in JSON beyond ASCII and for % */
	FIELD_REAL,  /* double */
	FIELD_WHOLE, /* unsigned int */
	FIELD_FLAG,  /* bool */
	FIELD_LINES, /* struct text_list */
	FIELD_ARRAY, /* a pointer to elements and behind it a size_t, their number */
	FIELD_GROUP, /* a structure inside */
};

struct fields;

struct field {
	const char *key; /* in JSON; NULL: the end of the table */
	enum field_kind kind;
	size_t offset;
	const struct fields *of; /* the elements of an array, or the structure inside */
};

struct fields {
	const struct field *field;
	size_t size; /* of the structure */
};

/* A new JSON object with the fields of @from, in the order of the table. */
json_t *fields_pack(const struct fields *fields, const void *from);

/* Fills @to, which is zeroed, from @object. What is missing there stays zero. */
void fields_unpack(const struct fields *fields, const json_t *object, void *to);

/* Frees what the fields of @of point to. */
void fields_free(const struct fields *fields, void *of);

#endif
