/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The differences between fio releases, and the gate that keeps an engine away from a fio whose
 * headers it was not compiled with. Nothing else in engines/ looks at FIO_IOOPS_VERSION.
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
 * What fio looks up in an engine that has no symbol `ioengine`. *ops is NULL when fio calls; an
 * engine that leaves it so is refused.
 */
void get_ioengine(struct ioengine_ops **ops) __attribute__((visibility("default")));

/*
 * Is the fio that loads us the one whose headers we were compiled with? FIO_IOOPS_VERSION cannot
 * tell: releases share a number and differ in layout. Must be asked before any field of fio's is
 * read. Says in one line, once per process, what does not fit and what to do.
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
 * Engine flags of one job. fio keeps them in td->flags, beside its own; the ops are shared by all
 * jobs that use the engine and stay untouched.
 */
static inline void kp_fio_set_flags(struct thread_data *td, int flags)
{
	td->flags |= (unsigned long long)flags << TD_ENG_FLAG_SHIFT;
}

/*
 * Up to 3.33 at least, the path of an external engine points into memory that fio has freed by the
 * time the workers of io_submit_mode=offload load it again. Give the job a copy of its own; fio
 * releases that mend this free it.
 */
static inline void kp_fio_keep_path(struct thread_data *td)
{
	Dl_info info;

	if (td->o.ioengine_so_path && dladdr((void *)get_ioengine, &info))
		td->o.ioengine_so_path = strdup(info.dli_fname);
}

#endif
