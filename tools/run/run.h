/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * run/ - carries a comparison out.
 *
 *	session		a comparison as it lies on disk: what it is, and the result of every run
 *	environment	the machine, fio, engines and devices that it runs on
 *	fio_run		one run of fio: started, watched, its result read
 *	rounds		the warm-up, then rounds until they say enough
 *
 * State: the session's directory, from which a stopped comparison goes on, and from which everything
 * that is printed can be had again. In memory a session is the image of its session.json, which is
 * written whole after every change that must not be lost. rounds shows its progress on standard
 * error; nothing here writes to standard output. The files here include util/, job/ and stats/; the
 * commands call them, and tools/print/ reads a session.
 */
#ifndef KPOLICY_TOOLS_RUN_H
#define KPOLICY_TOOLS_RUN_H

#include "environment.h"
#include "fio_run.h"
#include "rounds.h"
#include "session.h"

#endif
