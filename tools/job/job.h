/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job/ - fio's job language, and what a comparison does to it.
 *
 *	jobfile		a job file as its author wrote it; fio's own reader, oddities included
 *	cmdline		a fio command line, turned into the job file it is equivalent to
 *	subst		what fio replaces in a line before it parses it
 *	fioinfo		which options the fio at hand and its engines have
 *	targets		which paths a job will open
 *	variant		a variant as typed: ENGINE:POLICY,option=value
 *	swap		a private copy of the job file in which the variant's engine does the I/O:
 *			swap_engine exchanges it, swap_override applies --set, swap_refuse says what
 *			must not be run, swap_describe says what the jobs are
 *	safety, written	which devices may be written, asked again before every round
 *
 * State: none. Nothing here prints: an error is one line of text, handed to the caller. fio is run to
 * be asked about its options and for nothing else. The files here include util/ and the shim's tables
 * of policies; tools/run/ and the commands call them.
 */
#ifndef KPOLICY_TOOLS_JOB_H
#define KPOLICY_TOOLS_JOB_H

#include "swap.h"
#include "variant.h"
#include "written.h"

#endif
