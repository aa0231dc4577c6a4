/* SPDX-License-Identifier: GPL-2.0-only */
/* What the fio at hand knows: its options, and the options of its engines. */
#ifndef KPOLICY_TOOLS_FIOINFO_H
#define KPOLICY_TOOLS_FIOINFO_H

#include <stdbool.h>

#include "util/util.h"

enum fio_option_type {
	FIO_OPTION_NONE,     /* no such option */
	FIO_OPTION_VALUE,    /* takes a value; on a command line the next word if there is no '=' */
	FIO_OPTION_OPTIONAL, /* may stand alone; on a command line a value needs the '=' */
};

/*
 * The name fio gives option @key: aliases are resolved ("readwrite" is "rw"). Returns @key itself
 * when it is no alias.
 */
const char *fioinfo_name(const char *key);

/* How option @key of fio itself is written. Returns the type or -errno when @fio does not run. */
int fioinfo_option(const char *fio, const char *key);

/*
 * Appends the names of the options of @engine (a name, or the path of an external engine) to
 * @names. Falls back on a table when @fio does not run or was built without the engine. Returns 0;
 * -ENOENT when neither knows it.
 */
int fioinfo_engine_options(const char *fio, const char *engine, struct text_list *names);

/* As fioinfo_option(), for option @key of @engine. */
int fioinfo_engine_option(const char *fio, const char *engine, const char *key);

#endif
