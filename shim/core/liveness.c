// SPDX-License-Identifier: GPL-2.0-only
/* Ids of pipelines, each with a robust mutex that tells whether its owner lives. */
#include <errno.h>

#include "arena.h"
#include "liveness.h"
#include "robust.h"

struct member {
	/*
	 * Held by the owner from join to leave. When it dies the kernel says so to who tries next.
	 * Nothing nests inside.
	 */
	pthread_mutex_t alive;
	bool taken; /* atomic */
	bool dead; /* atomic; found so. The mutex could keep it, but glibc's trylock then locks it */
};

static int init_members(void *object, void *arg)
{
	struct member *members = object;
	int ret = 0;

	(void)arg;
	for (unsigned int i = 0; i < KP_LIVENESS_IDS && !ret; i++)
		ret = kp_robust_init(&members[i].alive);
	return ret;
}

static struct member *members_of(struct kp_arena *arena)
{
	void *object;

	if (kp_arena_object(arena, "liveness", "", 0, KP_LIVENESS_IDS * sizeof(struct member),
			    init_members, NULL, &object))
		return NULL;
	return object;
}

static void release_dead(struct member *member)
{
	__atomic_store_n(&member->dead, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&member->alive);
}

int kp_liveness_join(struct kp_arena *arena, uint32_t *id)
{
	struct member *members = members_of(arena);

	if (!members)
		return -ENOMEM;
	for (uint32_t i = 0; i < KP_LIVENESS_IDS; i++) {
		if (__atomic_load_n(&members[i].taken, __ATOMIC_RELAXED) ||
		    __atomic_exchange_n(&members[i].taken, true, __ATOMIC_ACQUIRE))
			continue;
		/* Somebody may look whether we live, but not for long. */
		if (!kp_robust_lock(&members[i].alive)) {
			*id = i + 1;
			return 0;
		}
		release_dead(&members[i]); /* who looked died looking; this one is lost */
	}
	return -ENOSPC;
}

void kp_liveness_leave(struct kp_arena *arena, uint32_t id)
{
	struct member *member = members_of(arena) + (id - 1);

	pthread_mutex_unlock(&member->alive);
	__atomic_store_n(&member->taken, false, __ATOMIC_RELEASE);
}

bool kp_liveness_dead(struct kp_arena *arena, uint32_t id)
{
	struct member *member = members_of(arena) + (id - 1);
	bool died;

	if (__atomic_load_n(&member->dead, __ATOMIC_RELAXED))
		return true;
	if (!kp_robust_trylock(&member->alive, &died))
		return false;
	if (died)
		release_dead(member);
	else
		pthread_mutex_unlock(&member->alive);
	return died;
}
