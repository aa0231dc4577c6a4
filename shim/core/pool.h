/* SPDX-License-Identifier: GPL-2.0-only */
/* Pools of objects of one size. */
#ifndef KP_POOL_H
#define KP_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "util.h"

/*
 * struct kp_pool - objects of one size, sized once, handed out last-in first-out so that the
 * memory touched does not grow with the run.
 */
struct kp_pool {
	void *free;	   /* list through the objects' first word */
	char *fresh, *end; /* memory never handed out yet */
	size_t object_size;
	void *memory;
	size_t memory_size;
	bool shared;
	/* Protects 'free' and 'fresh' of a shared pool. Nothing nests inside it. */
	pthread_spinlock_t lock;
};

int kp_pool_init(struct kp_pool *pool, size_t object_size, size_t count, bool shared);
void kp_pool_exit(struct kp_pool *pool);

static inline void *kp_pool_get_unlocked(struct kp_pool *pool)
{
	void *object = pool->free;

	if (object) {
		pool->free = *(void **)object;
	} else if (pool->fresh != pool->end) {
		object = pool->fresh;
		pool->fresh += pool->object_size;
	}
	return object;
}

/* kp_pool_get - an object with old contents, or NULL when all are out. Any thread if shared. */
static inline void *kp_pool_get(struct kp_pool *pool)
{
	void *object;

	if (!pool->shared)
		return kp_pool_get_unlocked(pool);
	pthread_spin_lock(&pool->lock);
	object = kp_pool_get_unlocked(pool);
	pthread_spin_unlock(&pool->lock);
	return object;
}

static inline void kp_pool_put(struct kp_pool *pool, void *object)
{
	if (!pool->shared) {
		*(void **)object = pool->free;
		pool->free = object;
		return;
	}
	pthread_spin_lock(&pool->lock);
	*(void **)object = pool->free;
	pool->free = object;
	pthread_spin_unlock(&pool->lock);
}

#endif
