// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "util.h"

struct array {
	void *elements;
	size_t nr;
};

/* ---- text ---------------------------------------------------------------------------------- */

static json_t *pack_text(const char *text)
{
	char *valid = text ? xstrdup(text) : NULL;
	json_t *value;

	if (valid)
		make_utf8(valid);
	value = valid ? json_string(valid) : json_null();
	free(valid);
	return value;
}

static json_t *pack_bytes(const char *bytes)
{
	char *packed, *to;
	json_t *value;

	if (!bytes)
		return json_null();
	packed = to = xcalloc(3 * strlen(bytes) + 1, 1);
	for (; *bytes; bytes++) {
		unsigned char c = *bytes;

		if (c >= 0x80 || c == '%')
			to += sprintf(to, "%%%02X", c);
		else
			*to++ = c;
	}
	value = json_string(packed);
	free(packed);
	return value;
}

static char *unpack_text(const json_t *value)
{
	return json_is_string(value) ? xstrdup(json_string_value(value)) : NULL;
}

/* In place: what is packed is never shorter. */
static char *unpack_bytes(const json_t *value)
{
	char *bytes = unpack_text(value), *to = bytes;
	unsigned int byte;

	for (const char *from = bytes; from && *from;) {
		if (*from == '%' && sscanf(from + 1, "%2X", &byte) == 1 && from[2]) {
			*to++ = byte;
			from += 3;
		} else {
			*to++ = *from++;
		}
	}
	if (to)
		*to = '\0';
	return bytes;
}

static json_t *pack_lines(const struct text_list *lines)
{
	json_t *array = json_array();

	for (size_t i = 0; i < lines->nr; i++)
		json_array_append_new(array, pack_text(lines->item[i]));
	return array;
}

static void unpack_lines(const json_t *array, struct text_list *lines)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *line = json_string_value(json_array_get(array, i));

		text_list_add(lines, "%s", line ? line : "");
	}
}

/* ---- structures ---------------------------------------------------------------------------- */

static json_t *pack_array(const struct fields *of, const struct array *array)
{
	json_t *all = json_array();

	for (size_t i = 0; i < array->nr; i++)
		json_array_append_new(
			all, fields_pack(of, (const char *)array->elements + i * of->size));
	return all;
}

static void unpack_array(const struct fields *of, const json_t *all, struct array *array)
{
	for (array->nr = 0; array->nr < json_array_size(all); array->nr++) {
		array->elements = grow_array(array->elements, array->nr, of->size);
		char *element = (char *)array->elements + array->nr * of->size;

		memset(element, 0, of->size);
		fields_unpack(of, json_array_get(all, array->nr), element);
	}
}

static json_t *pack(const struct field *field, const void *from)
{
	switch (field->kind) {
	case FIELD_TEXT:
		return pack_text(*(char *const *)from);
	case FIELD_BYTES:
		return pack_bytes(*(char *const *)from);
	case FIELD_REAL:
		return json_real(*(const double *)from);
	case FIELD_WHOLE:
		return json_integer(*(const unsigned int *)from);
	case FIELD_FLAG:
		return json_boolean(*(const bool *)from);
	case FIELD_LINES:
		return pack_lines(from);
	case FIELD_ARRAY:
		return pack_array(field->of, from);
	case FIELD_GROUP:
		return fields_pack(field->of, from);
	}
	return NULL;
}

static void unpack(const struct field *field, const json_t *value, void *to)
{
	switch (field->kind) {
	case FIELD_TEXT:
		*(char **)to = unpack_text(value);
		break;
	case FIELD_BYTES:
		*(char **)to = unpack_bytes(value);
		break;
	case FIELD_REAL:
		*(double *)to = json_number_value(value);
		break;
	case FIELD_WHOLE:
		*(unsigned int *)to = json_integer_value(value);
		break;
	case FIELD_FLAG:
		*(bool *)to = json_is_true(value);
		break;
	case FIELD_LINES:
		unpack_lines(value, to);
		break;
	case FIELD_ARRAY:
		unpack_array(field->of, value, to);
		break;
	case FIELD_GROUP:
		fields_unpack(field->of, value, to);
		break;
	}
}

json_t *fields_pack(const struct fields *fields, const void *from)
{
	json_t *object = json_object();

	for (const struct field *f = fields->field; f->key; f++)
		json_object_set_new(object, f->key, pack(f, (const char *)from + f->offset));
	return object;
}

void fields_unpack(const struct fields *fields, const json_t *object, void *to)
{
	for (const struct field *f = fields->field; f->key; f++)
		unpack(f, json_object_get(object, f->key), (char *)to + f->offset);
}

void fields_free(const struct fields *fields, void *of)
{
	for (const struct field *f = fields->field; f->key; f++) {
		void *at = (char *)of + f->offset;
		struct array *array = at;

		if (f->kind == FIELD_TEXT || f->kind == FIELD_BYTES) {
			free(*(char **)at);
		} else if (f->kind == FIELD_LINES) {
			text_list_free(at);
		} else if (f->kind == FIELD_GROUP) {
			fields_free(f->of, at);
		} else if (f->kind == FIELD_ARRAY) {
			for (size_t i = 0; i < array->nr; i++)
				fields_free(f->of, (char *)array->elements + i * f->of->size);
			free(array->elements);
		}
	}
}
