/* SPDX-License-Identifier: GPL-2.0-only */
/* What the library needs of the arena beyond kpolicy.h. */
#ifndef KP_ARENA_H
#define KP_ARENA_H

#include "kpolicy.h"

#define KP_MAX_SLOTS 8192 /* pipelines in one run: jobs, and their offload workers */

/* kp_arena_slots - all slots handed out so far. */
struct kp_counter_slot *kp_arena_slots(struct kp_arena *arena, unsigned int *nr);

/* kp_arena_each - call @visit for every object of a type; it may find and make others. */
void kp_arena_each(struct kp_arena *arena, const char *type, void (*visit)(void *object, void *arg),
		   void *arg);

/* kp_arena_release - give the memory of a range back; it reads as zeroes afterwards. */
int kp_arena_release(struct kp_arena *arena, void *addr, size_t size);

/*
 * kp_arena_object - find or make the shared object of a name.
 * @type: who owns the object, for example "null"; at most 15 characters.
 * @key: which one; at most KP_KEY_MAX bytes.
 * @init: fills in a new object, called with the registry locked; may be NULL.
 *
 * A process that dies half-way leaves either no object or a whole one.
 * Objects live as long as the arena, which has room for 65536; the log says so once they are used
 * up. Return: 0; -ENOMEM; -ENAMETOOLONG; the error of @init.
 */
#define KP_KEY_MAX 256
int kp_arena_object(struct kp_arena *arena, const char *type, const void *key, size_t key_len,
		    size_t size, int (*init)(void *object, void *arg), void *arg, void **object);

#endif
