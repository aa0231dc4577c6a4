/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations on bios: allocation, chaining, completion, and walks over the segments. */
#ifndef KP_BIO_H
#define KP_BIO_H

#include "kpolicy.h"
#include "pool.h"
#include "util.h"

#define KP_BIO_MAX_VECS 256u /* BIO_MAX_PAGES of the kernels reproduced here */

static inline bool kp_op_has_data(unsigned int op)
{
	return op <= KP_OP_WRITE;
}

enum kp_bio_flags {
	KP_BIO_CHAIN = 1 << 0,	 /* the bio has children, which 'remaining' counts (BIO_CHAIN) */
	KP_BIO_NOMERGE = 1 << 1, /* the plug must not merge it (REQ_NOMERGE) */
	KP_BIO_SYNC = 1 << 2,	 /* the submitter waits in place (is_sync_kiocb, REQ_SYNC) */
	KP_BIO_DSYNC = 1 << 3,	 /* written through: O_DSYNC or O_SYNC */
	KP_BIO_SHARED = 1 << 4,	 /* several threads may end it: 'remaining' is atomic */
};

/* Vectors come in the size classes of the kernel's biovec slabs. */
#define KP_VEC_CLASSES 6
extern const uint16_t kp_vec_class_size[KP_VEC_CLASSES];

/* struct kp_bio_set - the pools of bios and vectors of a stage, as bio_set in the kernel. */
struct kp_bio_set {
	struct kp_pool bios;
	struct kp_pool vecs[KP_VEC_CLASSES];
	struct kp_stage *stage;
	/* Make progress while a pool is empty. Return: -errno when nothing can come back. */
	int (*wait)(struct kp_bio_set *set);
};

/* kp_bio_pools_init - the pools of kp_bio_set_init(). @shared: threads may meet there. */
int kp_bio_pools_init(struct kp_bio_set *set, size_t bios, const size_t vecs[KP_VEC_CLASSES],
		      bool shared);

void kp_bio_set_exit(struct kp_bio_set *set);

/* kp_vec_class - the smallest class that holds @nr_vecs (1 to KP_BIO_MAX_VECS) segments. */
unsigned int kp_vec_class(unsigned int nr_vecs);

/*
 * kp_bio_alloc - a bio without position or data, with a vector of @nr_vecs segments of its own; 0: the
 * bio will share a vector. Waits in place for completions while the pool is empty.
 *
 * Return: NULL when no bio is in flight that could come back to the pool.
 */
struct kp_bio *kp_bio_alloc(struct kp_bio_set *set, unsigned int nr_vecs);

/* kp_bio_free - give @bio back to its pools. Owner; in a shared pipeline any thread. */
void kp_bio_free(struct kp_bio *bio);

/*
 * kp_bio_chain - @parent ends only after @bio has, and gets its error; @bio is freed when it ends.
 * As bio_chain() in the kernel.
 */
void kp_bio_chain(struct kp_bio *bio, struct kp_bio *parent);

/* kp_bio_endio_chain - kp_bio_endio() of a bio that has children, or is one. */
void kp_bio_endio_chain(struct kp_bio *bio);

/*
 * kp_bio_endio - @bio has ended; the caller has set bio->status. A bio with children ends with the
 * last of them. The function climbs to the parents in a loop, as bio_endio() does. Any thread.
 */
static inline void kp_bio_endio(struct kp_bio *bio)
{
	if (kp_likely(!(bio->flags & KP_BIO_CHAIN)))
		bio->end_io(bio);
	else
		kp_bio_endio_chain(bio);
}

/* kp_bio_error - note an error on @bio; the first one stays. Any thread. */
static inline void kp_bio_error(struct kp_bio *bio, int error)
{
	int32_t none = 0;

	__atomic_compare_exchange_n(&bio->status, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* kp_bio_missing - @bytes more at the end of @bio were not transferred. Any thread. */
static inline void kp_bio_missing(struct kp_bio *bio, uint64_t bytes)
{
	__atomic_fetch_add(&bio->resid, bytes, __ATOMIC_RELAXED);
}

/* kp_bio_fail - end @bio with an error. */
static inline void kp_bio_fail(struct kp_bio *bio, int error)
{
	kp_bio_error(bio, error);
	kp_bio_endio(bio);
}

/* kp_iter_segment - the current segment, clipped to what the iterator covers. */
static inline struct kp_segment kp_iter_segment(const struct kp_segment *vec,
						const struct kp_iter *iter)
{
	const struct kp_segment *segment = vec + iter->idx;
	size_t len = segment->len - iter->done;

	return (struct kp_segment){
		.addr = (char *)segment->addr + iter->done,
		.len = kp_min(len, iter->size),
	};
}

/* kp_iter_advance - move @bytes, at most iter->size, on. */
void kp_iter_advance(const struct kp_segment *vec, struct kp_iter *iter, uint64_t bytes);

/* kp_iter_step - move past the segment that kp_iter_segment() returned. */
static inline void kp_iter_step(const struct kp_segment *vec, struct kp_iter *iter, size_t len)
{
	iter->pos += len;
	iter->size -= len;
	iter->done += len;
	if (iter->done == vec[iter->idx].len) {
		iter->idx++;
		iter->done = 0;
	}
}

/* kp_iter_next - kp_iter_step() for a walk that takes whole segments only. */
static inline void kp_iter_next(struct kp_iter *iter, size_t len)
{
	iter->pos += len;
	iter->size -= len;
	iter->idx++;
	iter->done = 0;
}

/* Walk the segments of a bio with a private iterator: bio_for_each_segment(). */
#define kp_for_each_segment(seg, vec, it, start)                                    \
	for ((it) = (start); (it).size && ((seg) = kp_iter_segment(vec, &(it)), 1); \
	     kp_iter_next(&(it), (seg).len))

#endif
