// SPDX-License-Identifier: GPL-2.0-only
/*
 * The path of an I/O through the checksum stage. On the way down it takes its range, is cut where the
 * file system maps it in pieces, and has its sums computed or looked up. At completion its sums are
 * stored or compared, and the range is released. Stands for btrfs_submit_direct_hook() and
 * btrfs_endio_direct_*().
 */
#include "io.h"

#include "file.h"
#include "mirror.h"

#define AGAIN KP_NR_OPS /* op of csum_io.again, which is no bio of an application */

struct csum_work {
	struct kp_work work;
	struct kp_pool *pool; /* not found through 'io', which may have ended before work_free() */
	struct csum_io *io;
	struct kp_bio *bio;
};

static struct checksum *checksum_of(struct kp_stage *stage)
{
	return kp_container_of(stage, struct checksum, stage);
}

static struct checksum_file *file_of(const struct checksum *cs, const struct kp_file *file)
{
	return file->stage_data[cs->stage.index];
}

static uint64_t first_sector(const struct csum_io *io)
{
	return io->iter.pos / KP_CSUM_SECTOR;
}

/* ---- an I/O's own memory ------------------------------------------------------------------- */

/* The pool is looked at after a wait that failed as well: the flush of that wait may have filled it. */
static void *get_wait(struct checksum *cs, struct kp_pool *pool)
{
	void *object;
	int ret = 0;

	while (!(object = kp_pool_get(pool)) && ret >= 0)
		ret = kp_pipeline_wait(cs->stage.pipeline, cs->stage.next);
	return object;
}

/* Set what does not change from I/O to I/O. */
static void set_once(struct checksum *cs, struct csum_io *io)
{
	size_t words = (cs->max_size / KP_CSUM_SECTOR + 63) / 64;
	size_t index = ((char *)io - (char *)cs->ios.memory) / cs->ios.object_size;

	io->parts = cs->ranges + index * cs->max_parts;
	io->have = (uint64_t *)(io + 1);
	io->bad = io->have + words;
	io->sums = (uint32_t *)(io->bad + words);
	io->again.op = AGAIN;
}

static struct csum_io *get_io(struct checksum *cs, struct kp_bio *bio)
{
	struct csum_io *io = get_wait(cs, &cs->ios);

	if (!io)
		return NULL;
	if (!io->parts)
		set_once(cs, io);
	io->cs = cs;
	io->bio = bio;
	io->end_io = bio->end_io;
	io->private = bio->private;
	io->file = file_of(cs, bio->file);
	io->original = bio->iter;
	io->shadow = NULL;
	io->edge = NULL;
	io->nr_parts = 0;
	io->verify = false;
	io->sync_writer = false;
	return io;
}

static void put_io(struct csum_io *io)
{
	struct checksum *cs = io->cs;

	if (io->shadow)
		kp_bio_free(io->shadow);
	if (io->edge)
		kp_pool_put(&cs->edges, io->edge);
	kp_pool_put(&cs->ios, io);
}

/* ---- sync writers -------------------------------------------------------------------------- */

static uint32_t *sync_writers_of(struct csum_io *io)
{
	return &io->file->shared->sync_writers[io->cs->owner.id];
}

/* An O_SYNC write or an fsync begins. While it runs, other writes see it in sync_writers. */
static void begin_sync(struct csum_io *io)
{
	uint32_t *last = &io->file->shared->last_sync_writer;
	uint32_t seen = __atomic_load_n(last, __ATOMIC_RELAXED);

	while (seen < io->cs->owner.id &&
	       !__atomic_compare_exchange_n(last, &seen, io->cs->owner.id, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	io->sync_writer = true;
	__atomic_fetch_add(sync_writers_of(io), 1, __ATOMIC_RELAXED);
}

/* Any thread. */
static void end_sync(struct csum_io *io)
{
	__atomic_fetch_sub(sync_writers_of(io), 1, __ATOMIC_RELAXED);
}

/* Drop the count of a job that was killed. Its id is not handed out again. */
static bool reap_sync_writer(struct checksum *cs, struct checksum_shared *shared, uint32_t id)
{
	uint64_t now = kp_now_ns();

	if (id == cs->owner.id || now - cs->looked < KP_LOOK_AROUND_NS)
		return false;
	cs->looked = now;
	if (!kp_liveness_dead(cs->stage.pipeline->arena, id))
		return false;
	__atomic_store_n(&shared->sync_writers[id], 0, __ATOMIC_RELAXED);
	return true;
}

/* inode->sync_writers */
static bool has_sync_writers(struct checksum *cs, struct checksum_shared *shared)
{
	uint32_t last = __atomic_load_n(&shared->last_sync_writer, __ATOMIC_RELAXED);

	for (uint32_t id = 1; id <= last; id++) {
		if (__atomic_load_n(&shared->sync_writers[id], __ATOMIC_RELAXED) &&
		    !reap_sync_writer(cs, shared, id))
			return true;
	}
	return false;
}

/* ---- completion, on any thread ---------------------------------------------------------------- */

/* Copy the result of the whole sectors to the bio, for the part that the bio covers. */
static void take_result(struct csum_io *io)
{
	struct kp_bio *bio = io->bio, *shadow = io->shadow;
	uint64_t end = io->carried_end - shadow->resid;
	uint64_t moved = 0;

	if (end > io->original.pos)
		moved = kp_min(end - io->original.pos, io->original.size);
	if (shadow->status)
		kp_bio_error(bio, shadow->status);
	bio->resid = io->original.size - moved;
}

static void finish_io(struct csum_io *io)
{
	struct kp_bio *bio = io->bio;

	if (io->shadow)
		take_result(io);
	if (io->sync_writer)
		end_sync(io);
	kp_range_unlock(&io->cs->owner, &io->file->shared->ranges, io->parts, io->nr_parts);
	bio->end_io = io->end_io;
	bio->private = io->private;
	put_io(io);
	kp_bio_endio(bio);
}

/* End an I/O that did not reach the device, so that no sum has changed. */
static void fail_early(struct csum_io *io, int error)
{
	kp_bio_error(io->bio, error);
	finish_io(io);
}

/* Drop the sums of sectors whose contents are unknown now. */
static void lose(struct checksum *cs, struct checksum_file *cf, uint64_t sector, uint64_t nr)
{
	kp_csum_tree_clear(&cf->shared->tree, sector, nr);
	checksum_count(cs, CSUM_LOST, nr);
}

void checksum_lost(struct kp_range_owner *owner, struct kp_file *file, uint64_t start, uint64_t end)
{
	struct checksum *cs = kp_container_of(owner, struct checksum, owner);

	lose(cs, file_of(cs, file), start / KP_CSUM_SECTOR, (end - start) / KP_CSUM_SECTOR);
}

/* btrfs_finish_ordered_io() */
static void write_ended(struct csum_io *io)
{
	int ret;

	if (checksum_carrier(io)->status || checksum_carrier(io)->resid) {
		lose(io->cs, io->file, first_sector(io), io->nr);
		return;
	}
	ret = kp_csum_tree_set(&io->file->shared->tree, first_sector(io), io->sums, io->nr);
	if (ret)
		kp_bio_error(io->bio, ret);
}

/* Compare up to 64 sectors from @first on, to the end of @iter. Return: how many are bad. */
static unsigned int compare(struct csum_io *io, unsigned int first, struct kp_iter *iter)
{
	uint32_t found[64];
	uint64_t have = io->have[first / 64];
	unsigned int nr = kp_csum_vec(io->cs->crc32c, io->vec, iter, found, 64);
	unsigned int verified = 0, bad = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (!(have >> i & 1))
			continue;
		verified++;
		if (found[i] == io->sums[first + i])
			continue;
		bad++;
		io->bad[first / 64] |= 1ull << i;
		checksum_tell(io->bio->file, io->file,
			      io->iter.pos + (uint64_t)(first + i) * KP_CSUM_SECTOR,
			      io->sums[first + i], found[i]);
	}
	checksum_count(io->cs, CSUM_VERIFIED, verified);
	return bad;
}

/* btrfs_check_read_bio() and its ancestors. Return: how many sectors are bad. */
static unsigned int verify(struct csum_io *io)
{
	struct kp_iter iter = io->iter;
	unsigned int bad = 0;

	iter.size -= checksum_carrier(io)->resid;
	for (unsigned int i = 0; iter.size; i += 64) {
		uint64_t step = kp_min(iter.size, 64ull * KP_CSUM_SECTOR);

		if (io->have[i / 64])
			bad += compare(io, i, &iter);
		else
			kp_iter_advance(io->vec, &iter, step);
	}
	if (io->file->no_data)
		return 0;
	if (bad)
		checksum_count(io->cs, CSUM_MISMATCHES, bad);
	return bad;
}

static void read_ended(struct csum_io *io)
{
	struct checksum *cs = io->cs;
	unsigned int bad = 0;

	if (!checksum_carrier(io)->status) {
		bad = io->verify ? verify(io) : 0;
	} else if (cs->options.mirrors > 1) {
		bad = io->nr;
		memset(io->bad, 0xff, (io->nr + 63) / 64 * sizeof(*io->bad));
	}
	if (bad && cs->options.mirrors > 1) {
		/* The owner repairs it: repairing waits for I/O. */
		kp_pipeline_defer(cs->stage.pipeline, &cs->stage, &io->again);
		return;
	}
	if (bad)
		checksum_repair(io);
	finish_io(io);
}

static void io_ended(struct kp_bio *bio)
{
	struct csum_io *io = bio->private;

	switch (io->bio->op) {
	case KP_OP_READ:
		read_ended(io);
		return;
	case KP_OP_WRITE:
		write_ended(io);
		break;
	case KP_OP_DISCARD:
		kp_csum_tree_clear(&io->file->shared->tree, first_sector(io), io->nr);
		break;
	}
	finish_io(io);
}

/* Interpose our end_io. */
static void interpose(struct csum_io *io, struct kp_bio *bio)
{
	bio->end_io = io_ended;
	bio->private = io;
}

/* ---- sums of writes ------------------------------------------------------------------------ */

/* btrfs_csum_one_bio(). Return: how many sums there are. */
static unsigned int compute_sums(struct csum_io *io, const struct kp_bio *bio)
{
	uint64_t at = bio->iter.pos - io->iter.pos;
	uint64_t size = kp_round_up(bio->iter.size, KP_CSUM_SECTOR);
	struct kp_iter iter = io->iter;

	kp_iter_advance(io->vec, &iter, at);
	iter.size = kp_min(iter.size, size);
	return kp_csum_vec(io->cs->crc32c, io->vec, &iter, io->sums + at / KP_CSUM_SECTOR,
			   UINT32_MAX);
}

/* __btrfs_submit_bio_start_direct_io(); run_one_async_start() */
static void work_start(struct kp_work *work)
{
	struct csum_work *w = kp_container_of(work, struct csum_work, work);

	checksum_count(w->io->cs, CSUM_SUMS_ASYNC, compute_sums(w->io, w->bio));
}

static void work_idle(void *arg)
{
	struct checksum *cs = arg;

	kp_pipeline_flush(cs->stage.pipeline, cs->stage.next);
}

/* __btrfs_submit_bio_done(); run_one_async_done() */
static void work_done(struct kp_work *work)
{
	struct csum_work *w = kp_container_of(work, struct csum_work, work);
	struct checksum *cs = w->io->cs;

	checksum_submit_lower(cs, w->bio);
	/* A worker has no plug: flush the stages below us that hold bios back. */
	if (cs->stage.next->next)
		work_idle(cs);
}

static void work_free(struct kp_work *work)
{
	struct csum_work *w = kp_container_of(work, struct csum_work, work);

	kp_pool_put(w->pool, w);
}

const struct kp_work_ops checksum_work_ops = {
	.start = work_start,
	.done = work_done,
	.free = work_free,
	.idle = work_idle,
};

/* btrfs_wq_submit_bio() */
static void queue_work(struct checksum *cs, struct csum_io *io, struct kp_bio *bio, bool req_sync)
{
	struct csum_work *w = get_wait(cs, &cs->works);

	if (!w) {
		kp_bio_fail(bio, -ENOMEM);
		return;
	}
	w->pool = &cs->works;
	w->io = io;
	w->bio = bio;
	kp_count(&cs->stage.counters[CSUM_BIOS_ASYNC], 1);
	kp_work_queue(req_sync || !cs->has_normal ? &cs->high : &cs->normal, &w->work);
}

/* Submit a piece of a write. @size: of the whole write. @whole: it is mapped in one piece. */
static void submit_write(struct csum_io *io, struct kp_bio *bio, bool whole, uint64_t size)
{
	struct checksum *cs = io->cs;
	bool req_sync = !cs->options.writeback || bio->flags & KP_BIO_SYNC;
	struct kp_csum_decision decision = {
		.size = size,
		.whole = whole,
		.fast = cs->fast,
		.req_sync = req_sync,
		.profile = cs->options.raid_profile,
		.offload = cs->options.offload_csum,
		.threshold = cs->options.async_threshold,
	};
	bool async = cs->row->async(&decision);

	if (async && cs->row->sync_writers && cs->options.sync_writers &&
	    has_sync_writers(cs, io->file->shared))
		async = false;
	if (async) {
		queue_work(cs, io, bio, req_sync);
		return;
	}
	kp_count(&cs->stage.counters[CSUM_BIOS_INLINE], 1);
	kp_count(&cs->stage.counters[CSUM_SUMS_INLINE], compute_sums(io, bio));
	checksum_submit_lower(cs, bio);
}

/* ---- pieces -------------------------------------------------------------------------------- */

static void submit_piece(struct csum_io *io, struct kp_bio *bio, bool whole, uint64_t size)
{
	if (bio->op == KP_OP_WRITE)
		submit_write(io, bio, whole, size);
	else
		checksum_submit_lower(io->cs, bio);
}

static uint64_t piece_at(const struct checksum *cs, uint64_t pos, bool write)
{
	return kp_checksum_piece(cs->options.raid_profile, cs->options.raid_devices, pos, write);
}

/*
 * btrfs_submit_direct_hook(): submit the next @size bytes of @top, which are one bio of direct I/O, in
 * the pieces that the file system maps.
 */
static bool submit_cut(struct csum_io *io, struct kp_bio *top, struct kp_iter *iter, uint64_t size)
{
	struct checksum *cs = io->cs;
	bool write = top->op == KP_OP_WRITE;
	bool whole = piece_at(cs, iter->pos, write) >= size;

	for (uint64_t left = size; left;) {
		struct kp_bio *bio = kp_bio_alloc(&cs->set, 0);
		uint64_t len = kp_min(left, piece_at(cs, iter->pos, write));

		if (!bio) {
			kp_bio_error(top, -ENOMEM);
			return false;
		}
		bio->op = top->op;
		bio->flags = top->flags & ~KP_BIO_CHAIN;
		bio->file = top->file;
		bio->vec = top->vec;
		bio->nr_vecs = top->nr_vecs;
		bio->iter = *iter;
		bio->iter.size = len;
		kp_bio_chain(bio, top);
		submit_piece(io, bio, whole, size);
		kp_iter_advance(top->vec, iter, len);
		left -= len;
	}
	return true;
}

static void submit_pieces(struct csum_io *io)
{
	struct kp_bio *top = checksum_carrier(io);
	struct kp_iter iter = top->iter;

	interpose(io, top);
	io->carried_end = iter.pos + iter.size;
	if (iter.size <= KP_CSUM_BIO &&
	    piece_at(io->cs, iter.pos, top->op == KP_OP_WRITE) >= iter.size) {
		submit_piece(io, top, true, iter.size);
		return;
	}
	/* Its own reference is dropped below: it ends when all its pieces have ended. */
	top->flags |= KP_BIO_CHAIN;
	top->remaining = 1;
	while (iter.size && submit_cut(io, top, &iter, kp_min(iter.size, (uint64_t)KP_CSUM_BIO)))
		;
	kp_bio_endio(top);
}

/* ---- I/O that is not made of whole sectors ------------------------------------------------- */

static bool aligned(const struct csum_io *io)
{
	return !((io->original.pos | io->original.size) % KP_CSUM_SECTOR);
}

/* Make a bio of whole sectors: @head bytes of the edge, the I/O's memory, @tail bytes from @at on. */
static int make_shadow(struct csum_io *io, size_t head, const char *at, size_t tail)
{
	struct checksum *cs = io->cs;
	struct kp_bio *bio = io->bio, *shadow;
	unsigned int nr = bio->nr_vecs - bio->iter.idx + 2;
	struct kp_segment segment;
	struct kp_iter iter;

	if (nr > KP_BIO_MAX_VECS)
		return -EINVAL;
	shadow = kp_bio_alloc(&cs->set, nr);
	if (!shadow)
		return -ENOMEM;
	if (head)
		shadow->own_vec[shadow->nr_vecs++] = (struct kp_segment){ io->edge, head };
	kp_for_each_segment (segment, bio->vec, iter, bio->iter)
		shadow->own_vec[shadow->nr_vecs++] = segment;
	if (tail)
		shadow->own_vec[shadow->nr_vecs++] = (struct kp_segment){ (void *)at, tail };
	shadow->op = bio->op;
	shadow->flags = bio->flags & ~KP_BIO_CHAIN;
	shadow->file = bio->file;
	shadow->iter.pos = io->iter.pos;
	shadow->iter.size = io->iter.size;
	shadow->iter.idx = 0;
	shadow->iter.done = 0;
	io->shadow = shadow;
	io->vec = shadow->own_vec;
	io->iter = shadow->iter;
	return 0;
}

static int get_edge(struct csum_io *io)
{
	io->edge = get_wait(io->cs, &io->cs->edges);
	return io->edge ? 0 : -ENOMEM;
}

/* Read the whole sectors that the I/O touches. */
static int widen_read(struct csum_io *io)
{
	uint64_t end = io->original.pos + io->original.size;
	int ret = get_edge(io);

	if (ret)
		return ret;
	return make_shadow(io, io->original.pos % KP_CSUM_SECTOR, io->edge + KP_CSUM_SECTOR,
			   io->iter.pos + io->iter.size - end);
}

/* Read what sector @i of the I/O held before. @got: bytes up to the end of the file. */
static int read_old(struct csum_io *io, unsigned int i, char *data, size_t *got)
{
	struct checksum *cs = io->cs;
	uint64_t sector = first_sector(io) + i;
	uint32_t sum;
	uint64_t have;
	bool check = kp_csum_tree_lookup(&io->file->shared->tree, sector, &sum, &have, 1) &&
		     !io->file->no_data;

	checksum_count(cs, CSUM_RMW_READS, 1);
	return checksum_read_sector(cs, io->bio->file, sector, check ? &sum : NULL, data, got, 0);
}

/*
 * Read, modify, write: the sectors at both ends are read first, as a buffered write does, and then
 * written whole. The file does not become longer than the write makes it.
 */
static int widen_write(struct csum_io *io)
{
	uint64_t block = io->bio->file->limits.logical_block_size;
	uint64_t end = io->original.pos + io->original.size;
	size_t head = io->original.pos % KP_CSUM_SECTOR, tail = end % KP_CSUM_SECTOR;
	int ret = get_edge(io);
	char *last = io->edge;
	uint64_t written = end;
	size_t got = 0;

	if (!ret && head)
		ret = read_old(io, 0, io->edge, &got);
	if (!ret && tail && (io->nr > 1 || !head)) {
		last = io->edge + KP_CSUM_SECTOR;
		ret = read_old(io, io->nr - 1, last, &got);
	}
	if (ret)
		return ret;
	if (tail)
		written = kp_max(end, kp_round_down(end - tail + got, block));
	ret = make_shadow(io, head, last + tail, tail ? KP_CSUM_SECTOR - tail : 0);
	if (!ret)
		io->shadow->iter.size = written - io->iter.pos;
	return ret;
}

/* ---- submission ---------------------------------------------------------------------------- */

static void start_read(struct csum_io *io)
{
	int ret = 0;

	/* All words: sectors after a short read are not compared. */
	memset(io->bad, 0, (io->nr + 63) / 64 * sizeof(*io->bad));
	io->verify = kp_csum_tree_lookup(&io->file->shared->tree, first_sector(io), io->sums,
					 io->have, io->nr);
	if (!aligned(io)) {
		if (io->verify || io->cs->options.mirrors > 1)
			ret = widen_read(io);
		else
			io->iter = io->original;
	}
	if (ret)
		fail_early(io, ret);
	else
		submit_pieces(io);
}

static void start_write(struct csum_io *io)
{
	int ret = 0;

	if (io->cs->options.sync_writers && (io->bio->flags & KP_BIO_DSYNC || io->bio->file->dsync))
		begin_sync(io);
	if (!aligned(io))
		ret = widen_write(io);
	if (ret)
		fail_early(io, ret);
	else
		submit_pieces(io);
}

/* Take the range of the whole sectors that the I/O touches. */
static int take_range(struct csum_io *io)
{
	struct checksum *cs = io->cs;
	struct kp_file *file = io->bio->file;
	uint64_t start = kp_round_down(io->original.pos, KP_CSUM_SECTOR);
	uint64_t end = kp_round_up(io->original.pos + io->original.size, KP_CSUM_SECTOR);
	int ret;

	if (end - start > cs->max_size)
		return -EINVAL;
	if (end > io->file->distance) {
		if (!__atomic_exchange_n(&io->file->shared->told_distance, true, __ATOMIC_RELAXED))
			kp_log("checksum: %s: offset %llu: after the end of the first of %u "
			       "copies, give a size= of at most %llu, or mirror_distance=",
			       file->path, (unsigned long long)io->original.pos,
			       cs->options.mirrors, (unsigned long long)io->file->distance);
		return -EINVAL;
	}
	ret = kp_range_lock(&cs->owner, &io->file->shared->ranges, file, io->parts, start, end,
			    io->bio->op != KP_OP_READ);
	if (ret)
		return ret;
	io->nr_parts = kp_range_parts(start, end);
	io->nr = (end - start) / KP_CSUM_SECTOR;
	io->vec = io->bio->vec;
	io->iter = io->original;
	io->iter.pos = start;
	io->iter.size = end - start;
	return 0;
}

static void submit_data(struct checksum *cs, struct kp_bio *bio)
{
	struct csum_io *io = get_io(cs, bio);
	int ret = io ? take_range(io) : -ENOMEM;

	if (ret) {
		if (io)
			put_io(io);
		kp_bio_fail(bio, ret);
		return;
	}
	if (bio->op == KP_OP_READ) {
		start_read(io);
	} else if (bio->op == KP_OP_WRITE) {
		start_write(io);
	} else {
		interpose(io, bio);
		checksum_submit_lower(cs, bio);
	}
}

/* An fsync counts as a sync writer while it runs. */
static void submit_sync(struct checksum *cs, struct kp_bio *bio)
{
	struct csum_io *io = cs->options.sync_writers ? get_io(cs, bio) : NULL;

	if (io) {
		begin_sync(io);
		interpose(io, bio);
	}
	kp_lower_lock(cs->stage.pipeline);
	kp_stage_submit(cs->stage.next, bio);
	kp_lower_unlock(cs->stage.pipeline);
}

static void enter(struct checksum *cs, struct kp_bio *bio)
{
	if (bio->op <= KP_OP_DISCARD && bio->iter.size)
		submit_data(cs, bio);
	else
		submit_sync(cs, bio);
}

/*
 * While an I/O waits for its range, a completion may submit another one. That one would wait on top
 * of the first for a range that the first holds; instead it waits in a list until the first is
 * through.
 */
void checksum_submit(struct kp_stage *stage, struct kp_bio *bio)
{
	struct checksum *cs = checksum_of(stage);

	if (bio->op == AGAIN) {
		struct csum_io *io = kp_container_of(bio, struct csum_io, again);

		checksum_repair(io);
		finish_io(io);
		return;
	}
	if (cs->entered) {
		bio->next = NULL;
		*cs->pending_tail = bio;
		cs->pending_tail = &bio->next;
		return;
	}
	cs->entered = true;
	enter(cs, bio);
	while ((bio = cs->pending)) {
		cs->pending = bio->next;
		if (!cs->pending)
			cs->pending_tail = &cs->pending;
		bio->next = NULL;
		enter(cs, bio);
	}
	cs->entered = false;
}
