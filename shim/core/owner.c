// SPDX-License-Identifier: GPL-2.0-only
/* The owner of a pipeline. See owner.h. */
#include <stdint.h>
#include <unistd.h>

#include "owner.h"

static __thread char this_thread; /* its address names the thread */

const void *kp_this_thread(void)
{
	return &this_thread;
}

void kp_owner_adopt(struct kp_owner *owner)
{
	__atomic_store_n(&owner->thread, &this_thread, __ATOMIC_RELAXED);
}

bool kp_owner_is_me(const struct kp_owner *owner)
{
	return __atomic_load_n(&owner->thread, __ATOMIC_RELAXED) == &this_thread;
}

void kp_owner_wake(const struct kp_owner *owner)
{
	uint64_t one = 1;
	ssize_t ret = write(owner->wake_fd, &one, sizeof(one));

	(void)ret; /* a full eventfd wakes as well */
}
