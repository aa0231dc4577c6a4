/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The owner of a pipeline: the thread that submits and reaps, and how other threads end its sleep.
 */
#ifndef KP_OWNER_H
#define KP_OWNER_H

#include <stdbool.h>

struct kp_owner {
	const void *thread; /* atomic; kp_this_thread() of the owner */
	int wake_fd;	    /* an eventfd that the owner sleeps on; -1: nobody else posts */
};

/* kp_this_thread - an address that stands for the calling thread. Any thread. */
const void *kp_this_thread(void);

/* kp_owner_adopt - the caller becomes the owner. */
void kp_owner_adopt(struct kp_owner *owner);

/* kp_owner_is_me - is the caller the owner? Any thread. */
bool kp_owner_is_me(const struct kp_owner *owner);

/* kp_owner_wake - end a sleep of the owner. Any thread of its process, when there is an eventfd. */
void kp_owner_wake(const struct kp_owner *owner);

#endif
