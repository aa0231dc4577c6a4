/* SPDX-License-Identifier: GPL-2.0-only */
/* What the steps of swap_job() share; each step has a file. */
#ifndef KPOLICY_TOOLS_SWAP_INTERNAL_H
#define KPOLICY_TOOLS_SWAP_INTERNAL_H

#include "jobfile.h"
#include "swap.h"
#include "util/util.h"

/* The engine of one section, as the original has it. */
struct section_engine {
	char *name;	     /* fio's default psync when nothing is named */
	const char *backend; /* ours that does the same system calls; NULL: no storage engine */
	const char *own;     /* it is one of ours: its name without path; else NULL */
	int row;	     /* in the table of fio's storage engines, -1: none of them */
	const char *file;    /* where it is named, else the section */
	unsigned int line;
	bool insert; /* nothing names it: the exchange has to be written here */
};

struct override {
	const char *key, *value;
	bool is_fio; /* an option of fio itself, else of an engine */
	bool used;
};

struct swap {
	const struct variant *v;
	const struct swap_options *opt;
	struct jobfile *jf;
	struct section_engine *engines; /* one per section */
	char *so_path;			/* absolute; NULL for native */
	const char *options_of;		/* the engine whose options were loaded last */
	int options_result;
	struct text_list options;
	const struct setting **engine_settings; /* of the variant, for the engine */
	size_t nr_engine_settings;
	struct override *overrides; /* of --set, and of the variant for fio itself */
	size_t nr_overrides;
	struct text_list warnings;
	struct text_list args;
	char **error;
};

/* Whether section @i runs under the variant's engine. */
bool swap_is_swapped(const struct swap *s, size_t i);

/* Adds a warning "FILE:LINE: ..." once. */
void swap_warn(struct swap *s, const char *file, unsigned int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* An option that switches something on: present without value, or with one other than 0. */
bool swap_is_on(const struct jobfile *jf, size_t i, const char *name);

/* Whether fio begins a new group at the job in section @i; the first one needs none. */
bool swap_begins_group(const struct jobfile *jf, size_t i);

/* Whether the engine of section @i is a null device, ours or fio's: it touches no file. */
bool swap_is_null(const struct swap *s, size_t i);

/* Whether the job of section @i writes no file: by its engine, or by --readonly. */
bool swap_writes_nothing(const struct swap *s, size_t i);

/* swap_engine.c: exchanges the engines. */
void swap_find_engines(struct swap *s);
int swap_exchange(struct swap *s);

/* Fills @s->options with those of @engine, which has to last; asks fio only when it changes. */
int swap_load_options(struct swap *s, const char *engine);

/* swap_override.c: --set, --cpus, options of fio itself in a variant, logs. */
int swap_sort_settings(struct swap *s);
int swap_override(struct swap *s);

/* swap_refuse.c: refuses what must not or cannot be run. */
int swap_refuse(struct swap *s);

/* swap_describe.c: fills jobs and files of @result. */
void swap_describe(struct swap *s, struct swap_result *result);

#endif
