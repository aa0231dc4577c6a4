/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the author of a stage or a device needs beyond kpolicy.h: the headers of core/ in one. Not
 * installed.
 *
 * Who may call what: unless a hook says otherwise it runs on the owner's thread. A pipeline whose
 * stages have threads of their own is 'shared': its pools and its device then take their lock.
 */
#ifndef KP_STAGE_H
#define KP_STAGE_H

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/arena.h"
#include "core/bio.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/file.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/pipeline.h"
#include "core/pool.h"
#include "core/stage.h"
#include "core/util.h"
#include "kpolicy.h"

#endif
