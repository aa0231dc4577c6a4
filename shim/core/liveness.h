/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who is alive? A pipeline that leaves traces of itself in the arena joins with an id that goes
 * with them; whoever stumbles over a trace asks whether its maker still lives. The answer comes
 * from a robust mutex that the owner's thread holds while it lives, so that a process that was
 * killed is never mistaken for another that got its number.
 */
#ifndef KP_LIVENESS_H
#define KP_LIVENESS_H

#include "kpolicy.h"

#define KP_LIVENESS_IDS 8192u

/**
 * kp_liveness_join - an id for the calling thread, from 1 to KP_LIVENESS_IDS.
 * @id: receives it.
 *
 * Return: 0; -ENOMEM; -ENOSPC when all are taken: those of the dead are not handed out again.
 */
int kp_liveness_join(struct kp_arena *arena, uint32_t *id);

/* kp_liveness_leave - give @id back, by the thread that joined; none of its traces is left. */
void kp_liveness_leave(struct kp_arena *arena, uint32_t id);

/* kp_liveness_dead - did the thread that had @id end without leaving? Any thread. */
bool kp_liveness_dead(struct kp_arena *arena, uint32_t id);

#endif
