/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The door of core/: what the author of a stage or a device needs beyond kpolicy.h. Not installed.
 *
 * core/ carries bios through the stages of a pipeline and knows no policy. bio.h has the bio and its
 * pools, stage.h and device.h have the interfaces of a stage and of a device, and pipeline.h has
 * what both may ask of the pipeline around them. file.h is an open file, counters.h the counters,
 * arena.h the memory that jobs share. create.c makes a pipeline out of policies and a device.
 *
 * State: a pipeline belongs to one thread, its owner. Only the owner submits, reaps and destroys,
 * and a hook runs on the owner's thread unless its comment says otherwise. A pipeline whose stages
 * have threads of their own is 'shared': its pools and its device take their locks then. What
 * several jobs share lies in the arena, under robust mutexes.
 *
 * Locks, from the outside in: a stage's own lock; the pipeline's 'lower', which protects the stages
 * below one that has threads; the device's lock; a pool's spinlock. The arena's registry lock is
 * taken while a stage is set up or a file is opened, and only an object's init nests inside it.
 *
 * Stages and devices may include any header of core/. Engines and tools use kpolicy.h alone.
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
