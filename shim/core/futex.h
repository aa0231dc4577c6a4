/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sleeping on a word in shared memory, and relaxing the CPU in a spin loop.
 *
 * The futexes are shared ones: the sleeper and the waker may be different processes. Every function
 * may be called by any thread.
 */
#ifndef KP_FUTEX_H
#define KP_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* cpu_relax - tell the CPU that the caller spins. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/**
 * kp_futex_wait - sleep while *@word is @seen.
 * @ns: longest sleep, in nanoseconds.
 *
 * The caller checks its condition again afterwards: a signal ends the sleep too.
 * Return: true when the time has passed.
 */
static inline bool kp_futex_wait(uint32_t *word, uint32_t seen, uint64_t ns)
{
	struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	return syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0) && errno == ETIMEDOUT;
}

/* kp_futex_wake - wake up to @nr threads that sleep on @word. The caller has changed *@word. */
static inline void kp_futex_wake(uint32_t *word, int nr)
{
	syscall(SYS_futex, word, FUTEX_WAKE, nr, NULL, NULL, 0);
}

/* kp_futex_signal - change *@word, then wake up to @nr threads that sleep on it. */
static inline void kp_futex_signal(uint32_t *word, int nr)
{
	__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
	kp_futex_wake(word, nr);
}

#endif
