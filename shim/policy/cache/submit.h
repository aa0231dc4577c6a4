/* SPDX-License-Identifier: GPL-2.0-only */
/* The entry of the page cache stage. */
#ifndef KP_CACHE_SUBMIT_H
#define KP_CACHE_SUBMIT_H

#include "cache_stage.h"

/* cache_submit - the stage's submit hook: an I/O of the application. The owner's thread. */
void cache_submit(struct kp_stage *stage, struct kp_bio *bio);

#endif
