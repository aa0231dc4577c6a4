// SPDX-License-Identifier: GPL-2.0-only
/* Pools of objects of one size. See pool.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "pool.h"

int kp_pool_init(struct kp_pool *pool, size_t object_size, size_t count, bool shared)
{
	size_t size = kp_round_up(object_size, 64);
	void *memory;

	memset(pool, 0, sizeof(*pool));
	if (!count)
		return 0;
	/* Mapped, not allocated: objects that are never used never cost memory. */
	memory = mmap(NULL, size * count, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	pool->memory = memory;
	pool->memory_size = size * count;
	pool->fresh = memory;
	pool->end = pool->fresh + pool->memory_size;
	pool->object_size = size;
	pool->shared = shared;
	pthread_spin_init(&pool->lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

void kp_pool_exit(struct kp_pool *pool)
{
	if (!pool->memory)
		return;
	munmap(pool->memory, pool->memory_size);
	pthread_spin_destroy(&pool->lock);
	pool->memory = NULL;
}
