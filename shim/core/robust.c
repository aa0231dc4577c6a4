// SPDX-License-Identifier: GPL-2.0-only
/* Mutexes that outlive the death of their holder. See robust.h. */
#include <errno.h>

#include "robust.h"

int kp_robust_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;
	int ret;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	ret = pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return -ret;
}

/* Usable again at once: should we die before all is made good, the next one hears of us. */
static bool died_inside(pthread_mutex_t *lock, int ret)
{
	if (ret != EOWNERDEAD)
		return false;
	pthread_mutex_consistent(lock);
	return true;
}

bool kp_robust_lock(pthread_mutex_t *lock)
{
	return died_inside(lock, pthread_mutex_lock(lock));
}

bool kp_robust_trylock(pthread_mutex_t *lock, bool *died)
{
	int ret = pthread_mutex_trylock(lock);

	*died = died_inside(lock, ret);
	return !ret || *died;
}
