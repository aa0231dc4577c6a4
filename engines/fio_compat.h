/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This header hides the differences between fio releases. Its gate refuses a fio whose version is
 * not that of the headers which the engine was compiled with.
 */
#ifndef KP_FIO_COMPAT_H
#define KP_FIO_COMPAT_H

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fio.h"

/*
 * fio calls this function of an engine that has no symbol `ioengine`. *ops is NULL before the
 * call. fio refuses the engine if *ops is NULL after the call.
 */
void get_ioengine(struct ioengine_ops **ops) __attribute__((visibility("default")));

/*
 * Is the fio that loads this engine the one whose headers the engine was compiled with?
 * FIO_IOOPS_VERSION does not tell: releases with the same number differ in the layout of their
 * structs. Call this before anything reads a struct of fio. If the versions differ, it prints one
 * line with the remedy, once per process.
 */
static inline bool kp_fio_gate(const char *engine)
{
	static bool told;
	char path[PATH_MAX] = "fio";
	ssize_t len;

	if (!strcmp(fio_version_string, KP_FIO_VERSION))
		return true;
	if (told)
		return false;
	told = true;

	len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (len > 0)
		path[len] = '\0';
	fprintf(stderr,
		"kpolicy: engine %s was built for %s, this is %s: rebuild it with "
		"'./configure --fio=%s && make' (if that fio is no package, add --fio-src=DIR)\n",
		engine, KP_FIO_VERSION, fio_version_string, path);
	return false;
}

/*
 * Set engine flags of one job. fio keeps them in td->flags, beside its own flags. All jobs of the
 * engine share the ops, so the flags of the ops must not change.
 */
static inline void kp_fio_set_flags(struct thread_data *td, int flags)
{
	td->flags |= (unsigned long long)flags << TD_ENG_FLAG_SHIFT;
}

/*
 * In fio 3.33 and before, the path of an external engine points into memory that fio frees before
 * the workers of io_submit_mode=offload load the engine again. Give the job a copy of the path. A
 * fio release without this bug frees the copy.
 */
static inline void kp_fio_keep_path(struct thread_data *td)
{
	Dl_info info;

	if (td->o.ioengine_so_path && dladdr((void *)get_ioengine, &info))
		td->o.ioengine_so_path = strdup(info.dli_fname);
}

#endif
