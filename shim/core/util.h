/* SPDX-License-Identifier: GPL-2.0-only */
/* Small helpers without state: arithmetic, the enclosing struct of a member, the clock. */
#ifndef KP_UTIL_H
#define KP_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define KP_SECTOR_SHIFT 9
#define KP_SECTOR_SIZE	512u

#define kp_min(a, b)		   ((a) < (b) ? (a) : (b))
#define kp_max(a, b)		   ((a) > (b) ? (a) : (b))
#define kp_round_down(x, multiple) ((x) - (x) % (multiple))
#define kp_round_up(x, multiple)   kp_round_down((x) + (multiple)-1, multiple)

#define kp_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* For the inner loops of a walk over a vector, whose state then stays in registers. */
#define kp_always_inline inline __attribute__((always_inline))

/* kp_likely - the path that an I/O takes when nothing special happens. */
#define kp_likely(x) __builtin_expect(!!(x), 1)

/* What is done seldom stays out of the functions that run for each I/O, and out of their frames. */
#define kp_noinline __attribute__((noinline))

/*
 * How long a wait lasts at most before the waiter looks around: whether the run is to end, and
 * whether whoever it waits for still lives.
 */
#define KP_LOOK_AROUND_NS 100000000u

/* kp_now_ns - CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t kp_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
