// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arena is one anonymous shared mapping. It is made before fio forks its jobs, so that jobs
 * share the state of a policy whether they are processes or threads. It has no name and leaves no
 * file behind.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "kpolicy.h"
#include "log.h"
#include "robust.h"
#include "util.h"

#define ARENA_LARGEST  (4ull << 40)
#define ARENA_SMALLEST (1ull << 34)
#define ARENA_OBJECTS  65536u
#define ARENA_BUCKETS  65536u

struct arena_object {
	uint32_t next; /* in its bucket: index + 1; 0: the last */
	char type[16];
	size_t key_len;
	unsigned char key[KP_KEY_MAX];
	void *object;
};

struct kp_arena {
	size_t size;
	size_t next; /* atomic; first byte not handed out */
	/*
	 * Protects the registry: objects[] up to nr_objects, and the hash over them. The mutex is
	 * robust: when its owner died, an object counts if nr_objects includes it, and the next
	 * owner rebuilds the hash. Only locks that the init hook of a new object takes nest inside.
	 */
	pthread_mutex_t lock;
	unsigned int nr_objects; /* atomic */
	bool told_full;
	unsigned int nr_slots; /* atomic */
	struct arena_object *objects;
	uint32_t *buckets; /* index + 1 of the newest object; 0: none */
	struct kp_counter_slot *slots;
};

static void *reserve(size_t size)
{
	void *start = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

int kp_arena_create(struct kp_arena **result, size_t size)
{
	struct kp_arena *arena;
	int ret;

	if (size > SIZE_MAX - KP_PAGE_SIZE)
		return -ENOMEM;
	if (size) {
		size = kp_round_up(size, KP_PAGE_SIZE);
		arena = reserve(size);
	} else {
		/* The address space may be limited (ulimit -v). */
		for (size = ARENA_LARGEST; !(arena = reserve(size)); size /= 2) {
			if (size == ARENA_SMALLEST)
				return -ENOMEM;
		}
	}
	if (!arena)
		return -ENOMEM;
	arena->size = size;
	arena->next = kp_round_up(sizeof(*arena), KP_PAGE_SIZE);
	ret = kp_robust_init(&arena->lock);
	arena->objects = kp_arena_alloc(arena, ARENA_OBJECTS * sizeof(*arena->objects));
	arena->buckets = kp_arena_alloc(arena, ARENA_BUCKETS * sizeof(*arena->buckets));
	arena->slots = kp_arena_alloc(arena, KP_MAX_SLOTS * sizeof(*arena->slots));
	if (!ret && (!arena->objects || !arena->buckets || !arena->slots))
		ret = -ENOMEM;
	if (ret) {
		munmap(arena, size);
		return ret;
	}
	*result = arena;
	return 0;
}

void kp_arena_destroy(struct kp_arena *arena)
{
	munmap(arena, arena->size);
}

void *kp_arena_alloc(struct kp_arena *arena, size_t size)
{
	size_t start = __atomic_load_n(&arena->next, __ATOMIC_RELAXED);

	do {
		if (size > arena->size - start)
			return NULL;
		size = kp_round_up(size, KP_PAGE_SIZE); /* as the size of the arena is */
	} while (!__atomic_compare_exchange_n(&arena->next, &start, start + size, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return (char *)arena + start;
}

int kp_arena_release(struct kp_arena *arena, void *addr, size_t size)
{
	(void)arena;
	return madvise(addr, size, MADV_REMOVE) ? -errno : 0;
}

static uint32_t *bucket_of(struct kp_arena *arena, const char *type, const void *key,
			   size_t key_len)
{
	const unsigned char *byte = key;
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *type; type++)
		hash = (hash ^ (unsigned char)*type) * 0x100000001b3ull;
	while (key_len--)
		hash = (hash ^ *byte++) * 0x100000001b3ull;
	return &arena->buckets[(hash ^ hash >> 32) % ARENA_BUCKETS];
}

/* Enter object @i into the hash. */
static void hash_object(struct kp_arena *arena, unsigned int i)
{
	struct arena_object *object = &arena->objects[i];
	uint32_t *bucket = bucket_of(arena, object->type, object->key, object->key_len);

	object->next = *bucket;
	*bucket = i + 1;
}

static void lock_registry(struct kp_arena *arena)
{
	if (!kp_robust_lock(&arena->lock))
		return;
	memset(arena->buckets, 0, ARENA_BUCKETS * sizeof(*arena->buckets));
	for (unsigned int i = 0; i < arena->nr_objects; i++)
		hash_object(arena, i);
}

static struct arena_object *find_object(struct kp_arena *arena, const char *type, const void *key,
					size_t key_len)
{
	uint32_t i = *bucket_of(arena, type, key, key_len);

	while (i) {
		struct arena_object *object = &arena->objects[i - 1];

		if (object->key_len == key_len && !strcmp(object->type, type) &&
		    !memcmp(object->key, key, key_len))
			return object;
		i = object->next;
	}
	return NULL;
}

static int registry_is_full(struct kp_arena *arena)
{
	if (!arena->told_full)
		kp_log("more than %u shared objects, of which a file takes up to three for the "
		       "whole run: use fewer files (nrfiles=, numjobs=, no unlink_each_loop=)",
		       ARENA_OBJECTS);
	arena->told_full = true;
	return -ENOMEM;
}

static int make_object(struct kp_arena *arena, const char *type, const void *key, size_t key_len,
		       size_t size, int (*init)(void *object, void *arg), void *arg, void **result)
{
	unsigned int i = arena->nr_objects;
	struct arena_object *object = &arena->objects[i];
	int ret;

	if (i == ARENA_OBJECTS)
		return registry_is_full(arena);
	object->object = kp_arena_alloc(arena, size);
	if (!object->object)
		return -ENOMEM;
	ret = init ? init(object->object, arg) : 0;
	if (ret)
		return ret;
	snprintf(object->type, sizeof(object->type), "%s", type);
	memcpy(object->key, key, key_len);
	object->key_len = key_len;
	__atomic_store_n(&arena->nr_objects, i + 1, __ATOMIC_RELEASE);
	hash_object(arena, i);
	*result = object->object;
	return 0;
}

int kp_arena_object(struct kp_arena *arena, const char *type, const void *key, size_t key_len,
		    size_t size, int (*init)(void *object, void *arg), void *arg, void **result)
{
	struct arena_object *object;
	int ret = 0;

	if (key_len > KP_KEY_MAX || strlen(type) >= sizeof(object->type))
		return -ENAMETOOLONG;
	lock_registry(arena);
	object = find_object(arena, type, key, key_len);
	if (object)
		*result = object->object;
	else
		ret = make_object(arena, type, key, key_len, size, init, arg, result);
	pthread_mutex_unlock(&arena->lock);
	return ret;
}

void kp_arena_each(struct kp_arena *arena, const char *type, void (*visit)(void *object, void *arg),
		   void *arg)
{
	unsigned int nr = __atomic_load_n(&arena->nr_objects, __ATOMIC_ACQUIRE);

	for (unsigned int i = 0; i < nr; i++) {
		if (!strcmp(arena->objects[i].type, type))
			visit(arena->objects[i].object, arg);
	}
}

struct kp_counter_slot *kp_counters_slot(struct kp_arena *arena)
{
	unsigned int i = __atomic_fetch_add(&arena->nr_slots, 1, __ATOMIC_RELAXED);

	return i < KP_MAX_SLOTS ? &arena->slots[i] : NULL;
}

struct kp_counter_slot *kp_arena_slots(struct kp_arena *arena, unsigned int *nr)
{
	unsigned int used = __atomic_load_n(&arena->nr_slots, __ATOMIC_ACQUIRE);

	*nr = kp_min(used, (unsigned int)KP_MAX_SLOTS);
	return arena->slots;
}
