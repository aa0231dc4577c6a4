/* SPDX-License-Identifier: GPL-2.0-only */
/* Buffered reads: read(2) through the page cache, with the readahead of ondemand_readahead(). */
#ifndef KP_CACHE_READ_H
#define KP_CACHE_READ_H

#include "cache_stage.h"

/* cache_read - a read of the application, which ends inside. The owner's thread. */
void cache_read(struct cache_stage *cs, struct open_file *of, struct kp_bio *bio);

#endif
