// SPDX-License-Identifier: GPL-2.0-only
/* Ids of pipelines, each with a robust mutex that tells whether its owner lives. */
#include "liveness.h"

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
	pthread_mutexattr_t attr;
	int ret = 0;

	(void)arg;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	for (unsigned int i = 0; i < KP_LIVENESS_IDS && !ret; i++)
		ret = pthread_mutex_init(&members[i].alive, &attr);
	pthread_mutexattr_destroy(&attr);
	return -ret;
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
	pthread_mutex_consistent(&member->alive);
	pthread_mutex_unlock(&member->alive);
}

int kp_liveness_join(struct kp_arena *arena, uint32_t *id)
{
	struct member *members = members_of(arena);

	if (!members)
		return -ENOMEM;
	for (uint32_t i = 0; i < KP_LIVENESS_IDS; i++) {
		int ret;

		if (__atomic_load_n(&members[i].taken, __ATOMIC_RELAXED) ||
		    __atomic_exchange_n(&members[i].taken, true, __ATOMIC_ACQUIRE))
			continue;
		/* Somebody may look whether we live, but not for long. */
		ret = pthread_mutex_lock(&members[i].alive);
		if (!ret) {
			*id = i + 1;
			return 0;
		}
		if (ret == EOWNERDEAD) /* who looked died looking; this one is lost */
			release_dead(&members[i]);
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
	int ret;

	if (__atomic_load_n(&member->dead, __ATOMIC_RELAXED))
		return true;
	ret = pthread_mutex_trylock(&member->alive);
	if (ret == EOWNERDEAD)
		release_dead(member);
	else if (!ret)
		pthread_mutex_unlock(&member->alive);
	return ret == EOWNERDEAD;
}
