/* SPDX-License-Identifier: GPL-2.0-only */
/* What the library needs of the arena beyond kpolicy.h. */
#ifndef KP_ARENA_H
#define KP_ARENA_H

struct kp_arena;
struct kp_counter_slot;

#define KP_MAX_SLOTS 8192 /* pipelines in one run: jobs, and their offload workers */

/* kp_arena_slots - all slots handed out so far. */
struct kp_counter_slot *kp_arena_slots(struct kp_arena *arena, unsigned int *nr);

/* kp_arena_each - call @visit for every object of a type; it may find and make others. */
void kp_arena_each(struct kp_arena *arena, const char *type, void (*visit)(void *object, void *arg),
		   void *arg);

#endif
