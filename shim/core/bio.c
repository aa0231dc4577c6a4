// SPDX-License-Identifier: GPL-2.0-only
/* Bios: pools, vectors, chaining, completion. Stands for block/bio.c. */
#include <errno.h>

#include "bio.h"

const uint16_t kp_vec_class_size[KP_VEC_CLASSES] = { 1, 4, 16, 64, 128, 256 };

unsigned int kp_vec_class(unsigned int nr_vecs)
{
	unsigned int class = 0;

	while (kp_vec_class_size[class] < nr_vecs)
		class ++;
	return class;
}

int kp_bio_pools_init(struct kp_bio_set *set, size_t bios, const size_t vecs[KP_VEC_CLASSES],
		      bool shared)
{
	int ret;

	ret = kp_pool_init(&set->bios, sizeof(struct kp_bio), bios, shared);
	for (unsigned int i = 0; !ret && i < KP_VEC_CLASSES; i++)
		ret = kp_pool_init(&set->vecs[i], kp_vec_class_size[i] * sizeof(struct kp_segment),
				   vecs[i], shared);
	if (ret)
		kp_bio_set_exit(set);
	return ret;
}

void kp_bio_set_exit(struct kp_bio_set *set)
{
	kp_pool_exit(&set->bios);
	for (unsigned int i = 0; i < KP_VEC_CLASSES; i++)
		kp_pool_exit(&set->vecs[i]);
}

/* An object of an empty pool: wait for completions that return one. */
static void *pool_wait(struct kp_bio_set *set, struct kp_pool *pool)
{
	void *object;

	while (!(object = kp_pool_get(pool))) {
		int ret = set->wait(set);

		if (ret < 0) /* a request that the kernel refused ends as it is flushed */
			return kp_pool_get(pool);
	}
	return object;
}

static kp_always_inline void *pool_get_wait(struct kp_bio_set *set, struct kp_pool *pool)
{
	void *object = kp_pool_get(pool);

	return object ? object : pool_wait(set, pool);
}

struct kp_bio *kp_bio_alloc(struct kp_bio_set *set, unsigned int nr_vecs)
{
	struct kp_bio *bio = pool_get_wait(set, &set->bios);

	if (!bio)
		return NULL;
	bio->own_vec = NULL;
	if (nr_vecs) {
		bio->own_class = kp_vec_class(nr_vecs);
		bio->own_vec = pool_get_wait(set, &set->vecs[bio->own_class]);
		if (!bio->own_vec) {
			kp_pool_put(&set->bios, bio);
			return NULL;
		}
	}
	bio->set = set;
	bio->vec = bio->own_vec;
	bio->nr_vecs = 0;
	bio->flags = set->bios.shared ? KP_BIO_SHARED : 0;
	bio->status = 0;
	bio->resid = 0;
	bio->parent = NULL;
	bio->next = NULL;
	return bio;
}

void kp_bio_free(struct kp_bio *bio)
{
	struct kp_bio_set *set = bio->set;

	if (bio->own_vec)
		kp_pool_put(&set->vecs[bio->own_class], bio->own_vec);
	kp_pool_put(&set->bios, bio);
}

void kp_iter_advance(const struct kp_segment *vec, struct kp_iter *iter, uint64_t bytes)
{
	iter->pos += bytes;
	iter->size -= bytes;
	bytes += iter->done;
	while (bytes && bytes >= vec[iter->idx].len) {
		bytes -= vec[iter->idx].len;
		iter->idx++;
	}
	iter->done = bytes;
}

/* The end_io of a chained bio. Its address marks such bios. */
static void chain_end_io(struct kp_bio *bio)
{
	kp_bio_endio_chain(bio);
}

void kp_bio_chain(struct kp_bio *bio, struct kp_bio *parent)
{
	bio->parent = parent;
	bio->end_io = chain_end_io;
	if (!(parent->flags & KP_BIO_CHAIN)) {
		/* The first child: nobody else can see the parent yet. */
		parent->remaining = 1;
		parent->flags |= KP_BIO_CHAIN;
	}
	if (parent->flags & KP_BIO_SHARED)
		__atomic_fetch_add(&parent->remaining, 1, __ATOMIC_RELAXED);
	else
		parent->remaining++;
}

/* Has everything that @bio waits for ended? bio_remaining_done(). */
static kp_always_inline bool remaining_done(struct kp_bio *bio)
{
	if (!(bio->flags & KP_BIO_CHAIN))
		return true;
	if (bio->flags & KP_BIO_SHARED) {
		if (__atomic_fetch_sub(&bio->remaining, 1, __ATOMIC_ACQ_REL) != 1)
			return false;
	} else if (--bio->remaining) {
		return false;
	}
	bio->flags &= ~KP_BIO_CHAIN;
	return true;
}

void kp_bio_endio_chain(struct kp_bio *bio)
{
	while (remaining_done(bio)) {
		struct kp_bio *parent = bio->parent;

		if (bio->end_io != chain_end_io) {
			bio->end_io(bio);
			return;
		}
		if (bio->status)
			kp_bio_error(parent, bio->status);
		if (bio->resid)
			kp_bio_missing(parent, bio->resid);
		kp_bio_free(bio);
		bio = parent;
	}
}
