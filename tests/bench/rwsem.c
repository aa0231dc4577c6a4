// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock beside glibc's pthread_rwlock: nanoseconds of an uncontended take and release, with the
 * counters as they are shipped, and throughput of contending processes for some section lengths.
 * Before that, what the system needs from a futex wake until the sleeper runs: a lock that is held
 * more briefly than that is decided by it, unless waiters watch first (KP_RWSEM_WATCH_NS).
 * Built and run by tests/bench/diolock.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/futex.h"
#include "policy/diolock/rwsem.h"

#define PAIRS	 200000u
#define ROUNDS	 60
#define RUN_NS	 300000000u
#define MAX_JOBS 8
#define PINGS	 20000u

struct shared {
	struct kp_rwsem sem;
	_Alignas(64) pthread_rwlock_t rwlock;
	_Alignas(64) uint64_t done[MAX_JOBS][8];
	_Alignas(64) uint32_t start;
	_Alignas(64) uint32_t ping;
	_Alignas(64) uint32_t pong;
};

static struct shared *shared;

/* A lock under test: glibc's, or ours with one of its rules. */
struct lock {
	const char *name;
	const struct kp_rwsem_rules *rules; /* NULL: glibc */
};

struct user {
	struct kp_rwsem_user rwsem;
	uint64_t taken[2];
	uint64_t holds[KP_TIME_VALUES];
	unsigned int nr_holds;
};

static void fill_user(struct user *user, const struct lock *lock, unsigned int job)
{
	memset(user, 0, sizeof(*user));
	user->rwsem = (struct kp_rwsem_user){
		.sem = &shared->sem,
		.rules = lock->rules,
		.job = job,
		.taken = { &user->taken[0], &user->taken[1] },
	};
}

static void new_locks(void)
{
	pthread_rwlockattr_t attr;

	memset(shared, 0, sizeof(*shared));
	kp_rwsem_init(&shared->sem);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&shared->rwlock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

/* As the stage does it: one hold in 64 is timed. */
static inline uint64_t ours_take(struct user *user, enum kp_rwsem_mode mode)
{
	kp_rwsem_down(&user->rwsem, mode);
	return user->nr_holds++ % 64 ? 0 : kp_now_ns();
}

static inline void ours_release(struct user *user, enum kp_rwsem_mode mode, uint64_t since)
{
	if (since)
		kp_count_time(user->holds, kp_now_ns() - since);
	kp_rwsem_up(&user->rwsem, mode);
}

static inline void pair(struct user *user, const struct lock *lock, enum kp_rwsem_mode mode,
			uint64_t section_ns)
{
	uint64_t since = 0;

	if (lock->rules)
		since = ours_take(user, mode);
	else if (mode == KP_RWSEM_READ)
		pthread_rwlock_rdlock(&shared->rwlock);
	else
		pthread_rwlock_wrlock(&shared->rwlock);
	if (section_ns) {
		uint64_t end = kp_now_ns() + section_ns;

		while (kp_now_ns() < end)
			;
	}
	if (lock->rules)
		ours_release(user, mode, since);
	else
		pthread_rwlock_unlock(&shared->rwlock);
}

static double uncontended(const struct lock *lock, enum kp_rwsem_mode mode)
{
	struct user user;
	uint64_t start;

	new_locks();
	fill_user(&user, lock, 0);
	start = kp_now_ns();
	for (unsigned int i = 0; i < PAIRS; i++)
		pair(&user, lock, mode, 0);
	return (double)(kp_now_ns() - start) / PAIRS;
}

/* The locks in turn, many times, the fastest round of each: the others on the machine differ. */
static void print_uncontended(const struct lock *locks, unsigned int nr)
{
	double best[4][2] = { { 1e9, 1e9 }, { 1e9, 1e9 }, { 1e9, 1e9 }, { 1e9, 1e9 } };

	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < nr * 2; i++) {
			double ns = uncontended(&locks[i / 2], i % 2);

			best[i / 2][i % 2] = kp_min(best[i / 2][i % 2], ns);
		}
	}
	printf("uncontended, ns a pair        read   write\n");
	for (unsigned int i = 0; i < nr; i++)
		printf("  %-24s %7.1f %7.1f\n", locks[i].name, best[i][KP_RWSEM_READ],
		       best[i][KP_RWSEM_WRITE]);
}

static void contend(const struct lock *lock, unsigned int job, unsigned int percent_reads,
		    uint64_t section_ns)
{
	uint64_t random = job * 7919 + 1, end;
	struct user user;

	fill_user(&user, lock, job);
	while (!__atomic_load_n(&shared->start, __ATOMIC_ACQUIRE))
		;
	end = kp_now_ns() + RUN_NS;
	while (kp_now_ns() < end) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		pair(&user, lock,
		     (random >> 33) % 100 < percent_reads ? KP_RWSEM_READ : KP_RWSEM_WRITE,
		     section_ns);
		shared->done[job][0]++;
	}
}

/* Thousand pairs a second of all jobs together. */
static double contended(const struct lock *lock, unsigned int jobs, unsigned int percent_reads,
			uint64_t section_ns)
{
	uint64_t done = 0;

	new_locks();
	for (unsigned int i = 0; i < jobs; i++) {
		if (!fork()) {
			contend(lock, i, percent_reads, section_ns);
			_exit(0);
		}
	}
	__atomic_store_n(&shared->start, 1, __ATOMIC_RELEASE);
	while (wait(NULL) > 0)
		;
	for (unsigned int i = 0; i < jobs; i++)
		done += shared->done[i][0];
	return done * 1e6 / RUN_NS;
}

static void answer(uint32_t *asked, uint32_t *answered)
{
	for (uint32_t i = 0; i < PINGS; i++) {
		while (__atomic_load_n(asked, __ATOMIC_ACQUIRE) == i)
			kp_futex_wait(asked, i, 1000000000);
		kp_futex_signal(answered, 1);
	}
}

/* Nanoseconds from a wake until the sleeper runs, of two processes that wake each other. */
static double wake_cost(void)
{
	uint64_t start;

	memset(shared, 0, sizeof(*shared));
	if (!fork()) {
		answer(&shared->ping, &shared->pong);
		_exit(0);
	}
	start = kp_now_ns();
	kp_futex_signal(&shared->ping, 1);
	for (uint32_t i = 0; i < PINGS - 1; i++) {
		while (__atomic_load_n(&shared->pong, __ATOMIC_ACQUIRE) == i)
			kp_futex_wait(&shared->pong, i, 1000000000);
		kp_futex_signal(&shared->ping, 1);
	}
	while (__atomic_load_n(&shared->pong, __ATOMIC_ACQUIRE) != PINGS)
		kp_futex_wait(&shared->pong, PINGS - 1, 1000000000);
	start = kp_now_ns() - start;
	wait(NULL);
	return (double)start / PINGS / 2;
}

int main(void)
{
	static const uint64_t sections[] = { 0, 1000, 10000 };
	static const unsigned int reads[] = { 100, 90, 50, 0 };
	struct lock locks[] = {
		{ "glibc", NULL },
		{ "4.9", &kp_rwsem_rules[0] },
		{ "5.3", &kp_rwsem_rules[1] },
		{ "5.11", &kp_rwsem_rules[2] },
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	printf("futex wake until the sleeper runs: %.0f ns\n", wake_cost());
	print_uncontended(locks, 4);
	printf("8 processes, 1000 pairs/s   glibc     4.9     5.3    5.11\n");
	fflush(stdout);
	for (int s = 0; s < 3; s++) {
		for (int r = 0; r < 4; r++) {
			printf("  %3u%% reads, %2llu us    ", reads[r],
			       (unsigned long long)sections[s] / 1000);
			fflush(stdout);
			for (int i = 0; i < 4; i++) {
				printf(" %7.0f", contended(&locks[i], 8, reads[r], sections[s]));
				fflush(stdout);
			}
			printf("\n");
			fflush(stdout);
		}
	}
	return 0;
}
