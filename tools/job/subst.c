// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "subst.h"
#include "util/util.h"

/* A parse of whole-number arithmetic; depth bounds the recursion. */
struct expression {
	const char *at;
	unsigned int depth;
	bool bad;
};

static long long parse_sum(struct expression *e);

static void skip_blanks(struct expression *e)
{
	while (isspace((unsigned char)*e->at))
		e->at++;
}

static long long parse_atom(struct expression *e)
{
	long long value;
	char *end;

	skip_blanks(e);
	if (*e->at == '(' && e->depth < 32) {
		e->at++;
		e->depth++;
		value = parse_sum(e);
		e->depth--;
		e->bad |= *e->at != ')';
		e->at += *e->at == ')';
	} else {
		value = strtoll(e->at, &end, 10);
		e->bad |= end == e->at;
		e->at = end;
	}
	skip_blanks(e);
	return value;
}

static long long parse_product(struct expression *e)
{
	long long value = parse_atom(e);

	while (!e->bad && (*e->at == '*' || *e->at == '/')) {
		char op = *e->at++;
		long long right = parse_atom(e);

		if (op == '*')
			e->bad |= __builtin_mul_overflow(value, right, &value);
		else if (right > 0)
			value /= right;
		else
			e->bad = true;
	}
	return value;
}

static long long parse_sum(struct expression *e)
{
	long long value = parse_product(e);

	while (!e->bad && (*e->at == '+' || *e->at == '-')) {
		bool plus = *e->at++ == '+';
		long long right = parse_product(e);

		if (plus)
			e->bad |= __builtin_add_overflow(value, right, &value);
		else
			e->bad |= __builtin_sub_overflow(value, right, &value);
	}
	return value;
}

/* Carries out "key=1+2"; anything else comes back unchanged. Takes over @option. */
static char *calculate(char *option)
{
	char *value = strchr(option, '='), *result;
	struct expression e = { .at = value ? value + 1 : "" };
	long long number;

	if (!strpbrk(option, "+-*/") || !value)
		return option;
	number = parse_sum(&e);
	if (e.bad || *e.at)
		return option;
	result = format("%.*s%lld", (int)(value + 1 - option), option, number);
	free(option);
	return result;
}

/* Writes the value of the variable named by the @len characters at @name. */
static void put_variable(FILE *out, const char *name, size_t len)
{
	char *copy = xstrndup(name, len);
	const char *value = getenv(copy);

	free(copy);
	fputs(value ? value : "", out);
}

static char *expand_environment(const char *option)
{
	struct stream stream;
	FILE *out = stream_open(&stream);

	while (*option) {
		const char *end = strncmp(option, "${", 2) ? NULL : strchr(option, '}');

		if (end) {
			put_variable(out, option + 2, end - option - 2);
			option = end + 1;
		} else {
			fputc(*option++, out);
		}
	}
	return stream_text(&stream);
}

static long long page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static long long memory_in_mb(void)
{
	return (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

static long long configured_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

static const struct keyword {
	const char *word;
	long long (*value)(void);
} keywords[] = {
	{ "$pagesize", page_size },
	{ "$mb_memory", memory_in_mb },
	{ "$ncpus", configured_cpus },
};

/* The first keyword in @option, and which one it is. */
static char *find_keyword(char *option, const struct keyword **keyword)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
		char *at = strstr(option, keywords[i].word);

		*keyword = &keywords[i];
		if (at)
			return at;
	}
	return NULL;
}

char *subst_expand(const char *option)
{
	char *text = expand_environment(option), *at, *next;
	const struct keyword *keyword;
	bool replaced = false;

	while ((at = find_keyword(text, &keyword))) {
		next = format("%.*s%lld%s", (int)(at - text), text, keyword->value(),
			      at + strlen(keyword->word));
		free(text);
		text = next;
		replaced = true;
	}
	return replaced ? calculate(text) : text;
}
