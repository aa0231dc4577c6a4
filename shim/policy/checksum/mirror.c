// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of the data at fixed distances, and the repair of sectors that do not match. Stands for the
 * mirrors of DUP and RAID1, and for the repair of a read in fs/btrfs/inode.c.
 */
#include "mirror.h"

#include "file.h"

/* ---- writing every copy -------------------------------------------------------------------- */

/* struct csum_mirrored - a write whose copies are in flight. */
struct csum_mirrored {
	struct checksum *cs;
	struct kp_bio *bio;
	uint32_t remaining; /* atomic */
	uint32_t good;	    /* atomic flag; a copy was written */
	int32_t error;	    /* atomic; of a copy that was not written */
};

/* A write succeeds when one copy was written: btrfs_end_bio() with max_errors. */
static void copy_ended(struct kp_bio *copy)
{
	struct csum_mirrored *m = copy->private;
	int error = copy->status ? copy->status : copy->resid ? -EIO : 0;
	struct kp_bio *bio = m->bio;

	kp_bio_free(copy);
	if (error)
		__atomic_store_n(&m->error, error, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&m->good, 1, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&m->remaining, 1, __ATOMIC_ACQ_REL))
		return;
	error = m->good ? 0 : m->error;
	kp_pool_put(&m->cs->mirrored, m);
	if (error) {
		bio->resid = bio->iter.size;
		kp_bio_error(bio, error);
	}
	kp_bio_endio(bio);
}

static struct kp_bio *make_copy(struct csum_mirrored *m, uint64_t offset)
{
	struct kp_bio *copy = kp_bio_alloc(&m->cs->set, 0);

	if (!copy)
		return NULL;
	copy->op = m->bio->op;
	copy->flags = m->bio->flags & ~KP_BIO_CHAIN;
	copy->file = m->bio->file;
	copy->vec = m->bio->vec;
	copy->nr_vecs = m->bio->nr_vecs;
	copy->iter = m->bio->iter;
	copy->iter.pos += offset;
	copy->private = m;
	copy->end_io = copy_ended;
	return copy;
}

static void submit_copies(struct checksum *cs, struct kp_bio *bio, uint64_t distance)
{
	struct csum_mirrored *m = kp_pool_get(&cs->mirrored);
	unsigned int mirrors = cs->options.mirrors;

	if (!m) {
		kp_bio_fail(bio, -ENOMEM);
		return;
	}
	*m = (struct csum_mirrored){ .cs = cs, .bio = bio, .remaining = mirrors };
	for (unsigned int i = 0; i < mirrors; i++) {
		struct kp_bio *copy = make_copy(m, i * distance);

		if (copy) {
			kp_stage_submit(cs->stage.next, copy);
			continue;
		}
		/* The copies that are not made end here. */
		__atomic_store_n(&m->error, -ENOMEM, __ATOMIC_RELAXED);
		if (!__atomic_sub_fetch(&m->remaining, mirrors - i, __ATOMIC_ACQ_REL)) {
			kp_pool_put(&cs->mirrored, m);
			kp_bio_fail(bio, -ENOMEM);
		}
		return;
	}
}

void checksum_submit_lower(struct checksum *cs, struct kp_bio *bio)
{
	const struct checksum_file *cf = bio->file->stage_data[cs->stage.index];

	kp_lower_lock(cs->stage.pipeline);
	if (cs->options.mirrors == 1) {
		kp_stage_submit(cs->stage.next, bio);
	} else if (bio->op == KP_OP_READ) {
		bio->iter.pos += cs->options.read_mirror * cf->distance;
		kp_stage_submit(cs->stage.next, bio);
	} else {
		submit_copies(cs, bio, cf->distance);
	}
	kp_lower_unlock(cs->stage.pipeline);
}

/* ---- one sector, waited for ---------------------------------------------------------------- */

static void sector_ended(struct kp_bio *bio)
{
	__atomic_store_n((bool *)bio->private, true, __ATOMIC_RELEASE);
}

/* Read or write @len bytes and wait. @moved: receives how many bytes were transferred. */
static int do_sector(struct checksum *cs, struct kp_file *file, enum kp_op op, uint64_t pos,
		     char *data, size_t len, size_t *moved)
{
	struct kp_bio *bio = kp_bio_alloc(&cs->set, 1);
	struct kp_pipeline *pl = cs->stage.pipeline;
	bool done = false;
	int ret;

	*moved = 0;
	if (!bio)
		return -ENOMEM;
	bio->own_vec[0] = (struct kp_segment){ data, len };
	bio->nr_vecs = 1;
	bio->iter = (struct kp_iter){ .pos = pos, .size = len };
	bio->op = op;
	bio->file = file;
	bio->end_io = sector_ended;
	bio->private = &done;
	kp_lower_lock(pl);
	kp_stage_submit(cs->stage.next, bio);
	kp_lower_unlock(pl);
	kp_pipeline_wait_for(pl, cs->stage.next, &done);
	ret = bio->status;
	*moved = len - bio->resid;
	kp_bio_free(bio);
	return ret;
}

/* A good copy was found: write the bad ones again, up to the end of the file. */
static void repair_copies(struct checksum *cs, struct kp_file *file, uint64_t pos, char *data,
			  size_t got, unsigned int bad)
{
	const struct checksum_file *cf = file->stage_data[cs->stage.index];
	size_t len = kp_round_down(got, file->limits.logical_block_size);
	size_t moved;

	if (!file->writable)
		return;
	for (unsigned int i = 0; i < cs->options.mirrors && len; i++) {
		if (bad >> i & 1 &&
		    !do_sector(cs, file, KP_OP_WRITE, pos + i * cf->distance, data, len, &moved))
			checksum_count(cs, CSUM_REPAIRED, 1);
	}
}

int checksum_read_sector(struct checksum *cs, struct kp_file *file, uint64_t sector,
			 const uint32_t *sum, char *data, size_t *got, unsigned int bad)
{
	struct checksum_file *cf = file->stage_data[cs->stage.index];
	uint64_t pos = sector * KP_CSUM_SECTOR;
	int ret = -EIO;

	for (unsigned int i = 0; i < cs->options.mirrors; i++) {
		unsigned int mirror = (cs->options.read_mirror + i) % cs->options.mirrors;
		uint32_t found;

		if (bad >> mirror & 1)
			continue;
		ret = do_sector(cs, file, KP_OP_READ,
				cs->options.mirrors > 1 ? pos + mirror * cf->distance : pos, data,
				KP_CSUM_SECTOR, got);
		memset(data + *got, 0, KP_CSUM_SECTOR - *got);
		if (!ret && sum) {
			found = kp_csum_data(cs->crc32c, data, KP_CSUM_SECTOR);
			if (found != *sum) {
				checksum_count(cs, CSUM_MISMATCHES, 1);
				checksum_tell(file, cf, pos, *sum, found);
				ret = -EIO;
			}
		}
		if (!ret) {
			repair_copies(cs, file, pos, data, *got, bad);
			return 0;
		}
		bad |= 1u << mirror;
	}
	return ret;
}

void checksum_tell(struct kp_file *file, struct checksum_file *cf, uint64_t pos, uint32_t expected,
		   uint32_t found)
{
	if (cf->no_data || __atomic_exchange_n(&cf->shared->told_mismatch, true, __ATOMIC_RELAXED))
		return;
	kp_log("checksum: %s: csum failed at offset %llu: expected 0x%08x, found 0x%08x; the data "
	       "is corrupt, csum_mismatches counts further ones",
	       file->path, (unsigned long long)pos, le32toh(expected), le32toh(found));
}

/* ---- an I/O with bad sectors --------------------------------------------------------------- */

/* Copy @data to sector @i of the reader's memory. @data NULL: fill it with @value. */
static void fill_sector(struct csum_io *io, unsigned int i, const char *data, int value)
{
	struct kp_iter iter = io->iter;
	size_t at = 0;

	kp_iter_advance(io->vec, &iter, (uint64_t)i * KP_CSUM_SECTOR);
	iter.size = kp_min(iter.size, (uint64_t)KP_CSUM_SECTOR);
	while (iter.size) {
		struct kp_segment segment = kp_iter_segment(io->vec, &iter);

		if (data)
			memcpy(segment.addr, data + at, segment.len);
		else
			memset(segment.addr, value, segment.len);
		at += segment.len;
		kp_iter_step(io->vec, &iter, segment.len);
	}
}

/* btrfs_repair_one_sector(). @end: lowered to the end of the data when the file ends here. */
static int repair_sector(struct csum_io *io, unsigned int i, char *data, uint64_t *end)
{
	struct checksum *cs = io->cs;
	uint64_t sector = io->iter.pos / KP_CSUM_SECTOR + i;
	bool check = kp_csum_has(io->have, i) && !io->file->no_data;
	size_t got;
	int ret = checksum_read_sector(cs, io->bio->file, sector, check ? &io->sums[i] : NULL, data,
				       &got, 1u << cs->options.read_mirror);

	if (!ret && got < KP_CSUM_SECTOR)
		*end = kp_min(*end, (uint64_t)i * KP_CSUM_SECTOR + got);
	return ret;
}

void checksum_repair(struct csum_io *io)
{
	struct kp_bio *carrier = checksum_carrier(io);
	struct checksum *cs = io->cs;
	bool unread = carrier->status;
	uint64_t end = io->iter.size;
	char *data = NULL;
	int error = 0;

	if (cs->options.mirrors > 1)
		data = kp_pool_get(&cs->edges);
	for (unsigned int i = 0; i < io->nr; i++) {
		int ret = -EIO;

		if (!kp_csum_has(io->bad, i))
			continue;
		if (data)
			ret = repair_sector(io, i, data, &end);
		fill_sector(io, i, ret ? NULL : data, cs->row->bad_fill);
		if (ret)
			error = ret;
	}
	if (data)
		kp_pool_put(&cs->edges, data);
	if (unread) {
		carrier->status = error;
		carrier->resid = error ? carrier->resid : io->iter.size - end;
	} else if (error) {
		kp_bio_error(carrier, error);
	}
}
