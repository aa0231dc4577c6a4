// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stage for tests. It stands above the device and corrupts or fails I/O.
 *
 *	corrupt    one bit of every 7th write is flipped on its way; the I/O succeeds
 *	error:N    every Nth read or write fails with EIO and does not reach the device
 *	short:N    no system call of the device moves more than N bytes
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bio.h"
#include "core/device.h"
#include "core/log.h"
#include "core/pipeline.h"
#include "devices.h"

#define CORRUPT_EVERY 7

struct fault {
	struct kp_stage stage;
	struct kp_bio_set set;
	unsigned long error_every;
	bool corrupt;
	unsigned long nr; /* reads and writes seen */
	unsigned long writes;
};

struct fault_kind {
	bool corrupt;
	unsigned long error_every, transfer_limit;
};

static bool parse_fault(const char *text, struct fault_kind *kind)
{
	char rest;

	*kind = (struct fault_kind){ 0 };
	if (!strcmp(text, "corrupt"))
		kind->corrupt = true;
	else if (sscanf(text, "error:%lu%c", &kind->error_every, &rest) != 1 &&
		 sscanf(text, "short:%lu%c", &kind->transfer_limit, &rest) != 1)
		return false;
	return kind->corrupt || kind->error_every ||
	       (kind->transfer_limit && !(kind->transfer_limit % KP_SECTOR_SIZE));
}

int kp_fault_check(const char *text, char *why, size_t why_size)
{
	struct fault_kind kind;

	if (parse_fault(text, &kind))
		return 0;
	snprintf(why, why_size,
		 "fault=%s: unknown, give corrupt, error:N or short:BYTES (a multiple of 512)",
		 text);
	return -EINVAL;
}

static void corrupt_end_io(struct kp_bio *bio)
{
	struct kp_bio *original = bio->private;

	if (bio->status)
		kp_bio_error(original, bio->status);
	if (bio->resid)
		kp_bio_missing(original, bio->resid);
	free(bio->own_vec[0].addr);
	kp_bio_free(bio);
	kp_bio_endio(original);
}

/* Write a copy with one bit flipped. The caller's buffer is not modified. */
static void submit_corrupt(struct fault *fault, struct kp_bio *original)
{
	struct kp_bio *bio = kp_bio_alloc(&fault->set, 1);
	char *copy = aligned_alloc(KP_PAGE_SIZE, kp_round_up(original->iter.size, KP_PAGE_SIZE));
	struct kp_segment segment;
	struct kp_iter iter;
	size_t at = 0;

	if (!bio || !copy) {
		free(copy);
		if (bio)
			kp_bio_free(bio);
		kp_bio_fail(original, -ENOMEM);
		return;
	}
	kp_for_each_segment (segment, original->vec, iter, original->iter) {
		memcpy(copy + at, segment.addr, segment.len);
		at += segment.len;
	}
	copy[at / 2] ^= 1;
	bio->own_vec[0] = (struct kp_segment){ copy, at };
	bio->nr_vecs = 1;
	bio->iter = (struct kp_iter){ .pos = original->iter.pos, .size = at };
	bio->op = original->op;
	bio->file = original->file;
	bio->private = original;
	bio->end_io = corrupt_end_io;
	kp_stage_submit(fault->stage.next, bio);
}

/* Must this I/O fail? */
static bool hit(struct fault *fault, unsigned int op)
{
	return fault->error_every && kp_op_has_data(op) && ++fault->nr % fault->error_every == 0;
}

static void fault_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct fault *fault = kp_container_of(stage, struct fault, stage);

	while (bio) {
		struct kp_bio *next = bio->next;

		bio->next = NULL;
		if (hit(fault, bio->op))
			kp_bio_fail(bio, -EIO);
		else if (fault->corrupt && bio->op == KP_OP_WRITE &&
			 fault->writes++ % CORRUPT_EVERY == 0)
			submit_corrupt(fault, bio);
		else
			kp_stage_submit(stage->next, bio);
		bio = next;
	}
}

static int fault_init(struct kp_stage *stage, const struct kp_stage_config *stage_config,
		      const struct kp_pipeline_config *config)
{
	static const size_t vecs[KP_VEC_CLASSES] = { 1024 };
	struct fault *fault = kp_container_of(stage, struct fault, stage);
	struct fault_kind kind;

	(void)stage_config;
	if (!parse_fault(config->device.fault, &kind))
		return -EINVAL;
	fault->corrupt = kind.corrupt;
	fault->error_every = kind.error_every;
	stage->pipeline->device->transfer_limit = kind.transfer_limit;
	return kp_bio_set_init(&fault->set, stage, 1024, vecs);
}

static void fault_exit(struct kp_stage *stage)
{
	kp_bio_set_exit(&kp_container_of(stage, struct fault, stage)->set);
}

const struct kp_stage_ops kp_fault_stage = {
	.name = "fault",
	.size = sizeof(struct fault),
	.init = fault_init,
	.submit = fault_submit,
	.exit = fault_exit,
};
