/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mutexes in shared memory that outlive the death of their holder. Whoever takes one next is told,
 * and makes good what the dead left of the data behind it; if that one dies too, the next is told
 * again.
 */
#ifndef KP_ROBUST_H
#define KP_ROBUST_H

#include <pthread.h>
#include <stdbool.h>

/* kp_robust_init - 0 or -errno. */
int kp_robust_init(pthread_mutex_t *lock);

/* kp_robust_lock - Return: true when the last holder died inside. Any thread. */
bool kp_robust_lock(pthread_mutex_t *lock);

/* kp_robust_trylock - false when somebody has it; *died as kp_robust_lock(). Any thread. */
bool kp_robust_trylock(pthread_mutex_t *lock, bool *died);

#endif
