// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of direct-I/O locks against the kernels: does a second I/O wait for the first, while the
 * first is in its submission and while the device holds it? The rows are asked; that the stage does
 * what its rows say is for test_diolock.
 */
#include "policy/diolock/diolock.h"
#include "replay.h"

#define MAX_KINDS 10

static const struct {
	const char *name;
	enum dio_class class;
	bool unwritten; /* an asynchronous one counts as a write into blocks not yet written */
} kinds[MAX_KINDS] = {
	{ "read", READ, false },
	{ "overwrite", OVERWRITE, false },
	{ "prealloc", PREALLOCATED, true },
	{ "hole", HOLE, true },
	{ "mixed", PREALLOCATED, true },
	{ "extend", EXTENDING, false },
	{ "beyond", BEYOND, false },
	{ "unaligned", UNALIGNED, true },
	{ "unaligned-overwrite", UNALIGNED_OVERWRITE, false },
	{ "punch", PUNCH, false },
};

enum phase { IN_SUBMISSION, IN_DEVICE };

struct actor {
	const char *name;
	struct dio_rule rule;
	bool aio, unwritten;
};

/* falsified() sets one: shared where it is exclusive, and the other way round. */
static bool swap_modes;

static bool covers(const struct kp_variant *variant, const char *kernel)
{
	return variant->since && kp_version_compare(variant->since, kernel) <= 0 &&
	       kp_version_compare(kernel, variant->until) <= 0;
}

static const struct dio_row *row_of(const char *fs, const char *kernel)
{
	const struct kp_variant *variant;

	for (unsigned int i = 0; (variant = kp_policy_variant(&kp_diolock_policy, i)); i++) {
		if (!strncmp(variant->name, fs, strlen(fs)) && covers(variant, kernel))
			return kp_container_of(variant, struct dio_row, variant);
	}
	return NULL;
}

/* Return: false when our rows know no such I/O. */
static bool parse_actor(const char *text, const struct dio_row *row, struct actor *actor)
{
	size_t len = strcspn(text, ":");

	for (unsigned int i = 0; i < MAX_KINDS; i++) {
		if (strlen(kinds[i].name) != len || strncmp(kinds[i].name, text, len))
			continue;
		actor->name = kinds[i].name;
		actor->aio = !strcmp(text + len, ":aio");
		actor->unwritten = kinds[i].unwritten;
		if (row)
			actor->rule = row->rules[kinds[i].class];
		if (swap_modes && actor->rule.mode)
			actor->rule.mode = actor->rule.mode == SHARED ? EXCLUSIVE : SHARED;
		return true;
	}
	return false;
}

/* In which mode an I/O has the lock by then. */
static enum dio_mode held(const struct actor *actor, enum phase phase)
{
	const struct dio_rule *rule = &actor->rule;
	bool over = rule->until == SUBMISSION || (rule->until == CALL && actor->aio);

	if (rule->flags & DROPS || (phase == IN_DEVICE && over))
		return UNLOCKED;
	return rule->flags & DEMOTES ? SHARED : rule->mode;
}

static bool waits(const struct actor *first, const struct actor *second, enum phase phase)
{
	enum dio_mode mode = held(first, phase), wanted = second->rule.mode;
	uint16_t flags = second->rule.flags;

	if (mode == EXCLUSIVE && wanted != UNLOCKED)
		return true;
	if (mode == SHARED && wanted == EXCLUSIVE)
		return true;
	if (phase == IN_SUBMISSION && first->aio && second->aio &&
	    first->rule.flags & flags & AIO_MUTEX)
		return true;
	if (flags & DRAINS || (second->aio && flags & AIO_DRAINS))
		return true;
	return second->aio && flags & (AIO_UNWRITTEN | AIO_UNWRITTEN_AFTER) && first->aio &&
	       first->unwritten;
}

/* One of the two outcomes: what stands in parentheses is the kernel's own affair. */
static size_t add_outcome(char *ours, size_t size, const char *theirs, bool is_waiting)
{
	const char *name = is_waiting ? "waits" : "enters";

	if (strncmp(theirs, "waits", 5) && strncmp(theirs, "enters", 6))
		return snprintf(ours, size, "%s", theirs); /* it could not be held there */
	return snprintf(ours, size, "%s", strncmp(theirs, name, strlen(name)) ? name : theirs);
}

static bool answer(struct replay *replay, const char *rest, const char *theirs, char *ours,
		   size_t size)
{
	char fs[16], one[40], two[40], submission[96], device[96];
	struct actor first = { 0 }, second = { 0 };
	const struct dio_row *row;
	size_t used;

	ck_assert_int_eq(sscanf(rest, "%15s %39s %39s", fs, one, two), 3);
	if (sscanf(theirs, "%95s %95s", submission, device) != 2 ||
	    (!strcmp(submission, "none") && !strcmp(device, "none")))
		return false;
	row = row_of(fs, replay->kernel);
	if (!row && strcmp(fs, "bdev")) {
		snprintf(ours, size, "no row");
		return true;
	}
	if (!parse_actor(one, row, &first) || !parse_actor(two, row, &second))
		return false;
	used = add_outcome(ours, size, submission, waits(&first, &second, IN_SUBMISSION));
	used += snprintf(ours + used, size - used, " ");
	add_outcome(ours + used, size - used, device, waits(&first, &second, IN_DEVICE));
	return true;
}

START_TEST(as_recorded)
{
	static struct replay replay = { .group = "locks", .answer = answer };

	replay_all(&replay);
}
END_TEST

/* A mode that is the other one shows in every recording that we answer rightly. */
START_TEST(other_mode)
{
	static struct replay replay = { .group = "locks", .quiet = true, .answer = answer };

	replay_load(&replay);
	for (char **kernel = replay_kernels("locks"); *kernel; kernel++) {
		unsigned int right;

		swap_modes = false;
		replay_run(&replay, *kernel);
		right = replay.different;
		swap_modes = true;
		replay_run(&replay, *kernel);
		ck_assert_msg(right > replay.compared / 2 || replay.different > right + 50,
			      "%s: other modes make %u differences of %u", *kernel,
			      replay.different, right);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay locks");
	TCase *tcase = tcase_create("replay locks");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, as_recorded);
	tcase_add_test(tcase, other_mode);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
