// SPDX-License-Identifier: GPL-2.0-only
/* The arena: shared over fork, the registry of objects, a process that dies inside it. */
#include <signal.h>
#include <sys/wait.h>

#include "unit.h"

static struct kp_arena *arena;

static void make_arena(void)
{
	ck_assert_int_eq(kp_arena_create(&arena, 0), 0);
}

static void drop_arena(void)
{
	kp_arena_destroy(arena);
}

/* Run @child in another process. Return: its wait status. */
static int in_child(void (*child)(void *arg), void *arg)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		child(arg);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

struct thing {
	uint64_t value;
	char more[100000];
};

static int init_thing(void *object, void *arg)
{
	struct thing *thing = object;

	for (size_t i = 0; i < sizeof(*thing); i++)
		ck_assert_int_eq(((char *)object)[i], 0);
	thing->value = *(uint64_t *)arg;
	return 0;
}

static struct thing *thing(const char *key, uint64_t value)
{
	void *object = NULL;

	ck_assert_int_eq(kp_arena_object(arena, "thing", key, strlen(key), sizeof(struct thing),
					 init_thing, &value, &object),
			 0);
	return object;
}

static void write_shared(void *arg)
{
	*(uint64_t *)arg = 42;
	thing("made by the child", 7)->more[5] = 1;
}

START_TEST(shared_over_fork)
{
	uint64_t *shared = kp_arena_alloc(arena, 100 * 1000);

	ck_assert_ptr_nonnull(shared);
	ck_assert_uint_eq((uintptr_t)shared % KP_PAGE_SIZE, 0);
	ck_assert_int_eq(in_child(write_shared, shared), 0);
	ck_assert_uint_eq(*shared, 42);
	/* Not made again: the child's is there, at the same address. */
	ck_assert_uint_eq(thing("made by the child", 8)->value, 7);
	ck_assert_int_eq(thing("made by the child", 8)->more[5], 1);
}
END_TEST

START_TEST(alloc_is_disjoint)
{
	char *last = NULL;

	for (int i = 0; i < 1000; i++) {
		size_t size = unit_between(1, 20000);
		char *memory = kp_arena_alloc(arena, size);

		ck_assert_ptr_nonnull(memory);
		ck_assert(!last || memory >= last);
		memory[0] = memory[size - 1] = 1;
		last = memory + size;
	}
	ck_assert_ptr_null(kp_arena_alloc(arena, SIZE_MAX));
	ck_assert_ptr_null(kp_arena_alloc(arena, SIZE_MAX - 5000));
	ck_assert_ptr_null(kp_arena_alloc(arena, 1ull << 62));
	ck_assert_ptr_nonnull(kp_arena_alloc(arena, 1));
}
END_TEST

START_TEST(too_small)
{
	static const size_t sizes[] = { 1, 100, 4096, 5000, 100000, SIZE_MAX, SIZE_MAX - 4000 };
	struct kp_arena *small;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		ck_assert_int_eq(kp_arena_create(&small, sizes[i]), -ENOMEM);
}
END_TEST

START_TEST(released_memory_is_zero)
{
	size_t size = 16 * MIB;
	char *memory = kp_arena_alloc(arena, size);
	unsigned char resident[4];

	memset(memory, 1, size);
	ck_assert_int_eq(kp_arena_release(arena, memory + 4096, 8192), 0);
	ck_assert_int_eq(mincore(memory, 4 * 4096, resident), 0);
	for (int i = 0; i < 4 * 4096; i++)
		ck_assert_int_eq(memory[i], i < 4096 || i >= 12288);
	ck_assert_int_eq(memory[size - 1], 1);
}
END_TEST

START_TEST(objects)
{
	char key[KP_KEY_MAX + 1];
	struct thing *a = thing("a", 1), *b = thing("b", 2), *ab = thing("ab", 3);
	void *other;

	ck_assert_ptr_ne(a, b);
	ck_assert_ptr_ne(a, ab);
	ck_assert_ptr_eq(thing("a", 9), a);
	ck_assert_uint_eq(a->value, 1);
	/* Another type, the same key: another object. */
	ck_assert_int_eq(kp_arena_object(arena, "other", "a", 1, 8, NULL, NULL, &other), 0);
	ck_assert_ptr_ne(other, a);
	memset(key, 'k', sizeof(key));
	ck_assert_int_eq(kp_arena_object(arena, "t", key, KP_KEY_MAX, 8, NULL, NULL, &other), 0);
	ck_assert_int_eq(kp_arena_object(arena, "t", key, KP_KEY_MAX + 1, 8, NULL, NULL, &other),
			 -ENAMETOOLONG);
	ck_assert_int_eq(
		kp_arena_object(arena, "a type of many letters", "a", 1, 8, NULL, NULL, &other),
		-ENAMETOOLONG);
	/* Binary keys, one the beginning of another. */
	ck_assert_int_eq(kp_arena_object(arena, "t", "\0\0", 2, 8, NULL, NULL, &other), 0);
	*(uint64_t *)other = 5;
	ck_assert_int_eq(kp_arena_object(arena, "t", "\0\0\0", 3, 8, NULL, NULL, &other), 0);
	ck_assert_uint_eq(*(uint64_t *)other, 0);
}
END_TEST

static int refuse(void *object, void *arg)
{
	(void)object, (void)arg;
	return -EPERM;
}

START_TEST(failed_init_leaves_nothing)
{
	void *object = NULL;

	ck_assert_int_eq(kp_arena_object(arena, "thing", "x", 1, sizeof(struct thing), refuse, NULL,
					 &object),
			 -EPERM);
	ck_assert_uint_eq(thing("x", 11)->value, 11);
}
END_TEST

/* Object number @i; what it is found by has many shapes. */
static int numbered(unsigned int i, void **object)
{
	char type[8];

	snprintf(type, sizeof(type), "t%u", i % 3);
	return kp_arena_object(arena, type, &i, 2 + i % 3, 8, NULL, NULL, object);
}

START_TEST(registry_full)
{
	void *object, *again;
	int ret = 0;
	unsigned int i;

	kp_set_log(unit_log);
	unit_nr_said = 0;
	for (i = 0; !ret && i < 100000; i++)
		ret = kp_arena_object(arena, "t", &i, sizeof(i), 8, NULL, NULL, &object);
	ck_assert_int_eq(ret, -ENOMEM);
	ck_assert_uint_eq(i, 65537);
	ck_assert_int_eq(kp_arena_object(arena, "t", &i, sizeof(i), 8, NULL, NULL, &object),
			 -ENOMEM);
	ck_assert_uint_eq(unit_nr_said, 1);
	ck_assert_ptr_nonnull(strstr(unit_said, "more than 65536 shared objects"));
	ck_assert_ptr_nonnull(strstr(unit_said, "nrfiles="));
	i = 17;
	ck_assert_int_eq(kp_arena_object(arena, "t", &i, sizeof(i), 8, NULL, NULL, &object), 0);
	ck_assert_int_eq(kp_arena_object(arena, "t", &i, sizeof(i), 8, NULL, NULL, &again), 0);
	ck_assert_ptr_eq(object, again);
}
END_TEST

static int die(void *object, void *arg)
{
	((struct thing *)object)->value = 666;
	(void)arg;
	raise(SIGKILL);
	return 0;
}

static void die_inside(void *arg)
{
	void *object;

	kp_arena_object(arena, "thing", arg, strlen(arg), sizeof(struct thing), die, NULL, &object);
}

/* Killed with the registry locked: the next one gets a whole object, and so on. */
START_TEST(killed_inside_init)
{
	char key[] = "victim";

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(WTERMSIG(in_child(die_inside, key)), SIGKILL);
	ck_assert_uint_eq(thing(key, 12)->value, 12);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(WTERMSIG(in_child(die_inside, key + i + 1)), SIGKILL);
	ck_assert_uint_eq(thing(key, 13)->value, 12);
	ck_assert_uint_eq(thing("ictim", 14)->value, 14);
}
END_TEST

/* All that was there is found again after a death, at the same place. */
START_TEST(whole_after_a_death)
{
	static void *made[3000];
	char key[] = "victim";
	void *object;

	for (unsigned int i = 0; i < 3000; i++)
		ck_assert_int_eq(numbered(i, &made[i]), 0);
	ck_assert_int_eq(WTERMSIG(in_child(die_inside, key)), SIGKILL);
	for (unsigned int i = 0; i < 3000; i++) {
		ck_assert_int_eq(numbered(i, &object), 0);
		ck_assert_ptr_eq(object, made[i]);
	}
}
END_TEST

/* Many processes ask for the same new objects at once: each is made once. */
START_TEST(made_once)
{
	enum { PROCESSES = 8, KEYS = 50 };
	uint64_t *made = kp_arena_alloc(arena, KEYS * sizeof(*made));
	pid_t pids[PROCESSES];

	for (int p = 0; p < PROCESSES; p++) {
		pids[p] = fork();
		if (pids[p])
			continue;
		for (uint64_t k = 0; k < KEYS; k++) {
			void *object;

			kp_arena_object(arena, "once", &k, sizeof(k), 8, NULL, NULL, &object);
			if (__atomic_fetch_add((uint64_t *)object, 1, __ATOMIC_RELAXED) == 0)
				__atomic_fetch_add(&made[k], 1, __ATOMIC_RELAXED);
		}
		_exit(0);
	}
	for (int p = 0; p < PROCESSES; p++) {
		int status;

		ck_assert_int_eq(waitpid(pids[p], &status, 0), pids[p]);
		ck_assert_int_eq(status, 0);
	}
	for (int k = 0; k < KEYS; k++)
		ck_assert_uint_eq(made[k], 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("arena");
	TCase *tcase = tcase_create("arena");

	tcase_set_timeout(tcase, 30);
	tcase_add_checked_fixture(tcase, make_arena, drop_arena);
	tcase_add_test(tcase, shared_over_fork);
	tcase_add_test(tcase, alloc_is_disjoint);
	tcase_add_test(tcase, too_small);
	tcase_add_test(tcase, released_memory_is_zero);
	tcase_add_test(tcase, objects);
	tcase_add_test(tcase, failed_init_leaves_nothing);
	tcase_add_test(tcase, registry_full);
	tcase_add_test(tcase, killed_inside_init);
	tcase_add_test(tcase, whole_after_a_death);
	tcase_add_test(tcase, made_once);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
