/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replays the kernel laboratory's recordings (tests/recordings) through our rows. A group has a
 * file of cases, GROUP.cases, and a file of answers for each kernel, GROUP.VERSION. The test of the
 * group answers each case by the row of that kernel, and the two answers must be the same text.
 *
 * Differences that are known today are listed in GROUP.differences, a line each:
 *
 *	VERSION CASES REASON
 *
 * CASES is "*" or a list such as "3,17-20". What is listed must differ: a row that was corrected is
 * taken off the list.
 */
#ifndef KP_REPLAY_H
#define KP_REPLAY_H

#include <glob.h>

#include "unit.h"

#define REPLAY_FOLDER	  "tests/recordings/"
#define REPLAY_MAX_LINE	  (1 << 16)
#define REPLAY_MAX_CASES  8192
#define REPLAY_MAX_SHOWN  5
#define REPLAY_MAX_LISTED 64

/* struct replay_listed - a line of GROUP.differences. */
struct replay_listed {
	char kernel[32], cases[4096], reason[256];
	bool used;
};

struct replay {
	const char *group;
	char *cases[REPLAY_MAX_CASES]; /* by number: what follows the number */
	struct replay_listed listed[REPLAY_MAX_LISTED];
	unsigned int nr_listed;
	/* Of the kernel that is being replayed. */
	char kernel[32];
	void *context;
	unsigned int compared, different, shown;
	unsigned int first, last; /* a row of cases that differ and are not listed */
	char unlisted[REPLAY_MAX_LINE];
	bool quiet; /* differences are counted, not shown: they are wanted */
	/* Another line of a recording than an answer, such as "device ...". Optional. */
	void (*note)(struct replay *replay, const char *line);
	/*
	 * Our answer to a case, into @ours. @theirs: the kernel's, which may hold what the case
	 * depends on. Return: false when there is nothing to compare: the kernel could not do it.
	 */
	bool (*answer)(struct replay *replay, const char *rest, const char *theirs, char *ours,
		       size_t size);
};

static inline FILE *replay_open(const char *group, const char *suffix)
{
	char path[256];

	snprintf(path, sizeof(path), REPLAY_FOLDER "%s.%s", group, suffix);
	return fopen(path, "re");
}

static inline bool replay_line(FILE *file, char *line)
{
	while (fgets(line, REPLAY_MAX_LINE, file)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] && line[0] != '#')
			return true;
	}
	return false;
}

static inline void replay_load(struct replay *replay)
{
	static char line[REPLAY_MAX_LINE];
	FILE *file = replay_open(replay->group, "cases");

	ck_assert_msg(file, "no cases of %s: run it in the top folder", replay->group);
	while (replay_line(file, line)) {
		char *rest;
		unsigned long id = strtoul(line, &rest, 10);

		ck_assert_uint_lt(id, REPLAY_MAX_CASES);
		replay->cases[id] = strdup(rest + 1);
	}
	fclose(file);
	file = replay_open(replay->group, "differences");
	while (file && replay_line(file, line)) {
		struct replay_listed *listed = &replay->listed[replay->nr_listed++];

		ck_assert_uint_lt(replay->nr_listed, REPLAY_MAX_LISTED);
		ck_assert_msg(sscanf(line, "%31s %4095s %255[^\n]", listed->kernel, listed->cases,
				     listed->reason) == 3,
			      "%s.differences: no reason in '%s'", replay->group, line);
	}
	if (file)
		fclose(file);
}

static inline bool replay_in_list(const char *list, unsigned long id)
{
	if (!strcmp(list, "*"))
		return true;
	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (id >= first && id <= last)
			return true;
		list = end + (*end == ',');
	}
	return false;
}

static inline struct replay_listed *replay_find_listed(struct replay *replay, unsigned long id)
{
	for (unsigned int i = 0; i < replay->nr_listed; i++) {
		struct replay_listed *listed = &replay->listed[i];

		if (!strcmp(listed->kernel, replay->kernel) && replay_in_list(listed->cases, id))
			return listed;
	}
	return NULL;
}

static inline void replay_show(struct replay *replay, unsigned long id, const char *theirs,
			       const char *ours, const char *why)
{
	if (replay->quiet || replay->shown++ >= REPLAY_MAX_SHOWN)
		return;
	printf("%s %s %lu: %s\n  case   %.600s\n  kernel %.600s\n  ours   %.600s\n", replay->group,
	       replay->kernel, id, why, replay->cases[id], theirs, ours);
}

/* Remember a case that differs, as GROUP.differences would list it; 0: write down the last ones. */
static inline void replay_unlisted(struct replay *replay, unsigned int id)
{
	size_t used = strlen(replay->unlisted);

	if (id && id == replay->last + 1) {
		replay->last = id;
		return;
	}
	if (replay->first)
		snprintf(replay->unlisted + used, sizeof(replay->unlisted) - used,
			 replay->first == replay->last ? "%s%u" : "%s%u-%u", used ? "," : "",
			 replay->first, replay->last);
	replay->first = replay->last = id;
}

/* One answer of the kernel. Return: false when it is not ours and nobody expects that. */
static inline bool replay_compare(struct replay *replay, unsigned long id, const char *theirs)
{
	static char ours[REPLAY_MAX_LINE];
	struct replay_listed *listed = replay_find_listed(replay, id);
	bool whole, same;

	ck_assert_msg(replay->cases[id], "%s.%s: no case %lu", replay->group, replay->kernel, id);
	if (!replay->answer(replay, replay->cases[id], theirs, ours, sizeof(ours)))
		return true;
	replay->compared++;
	same = !strcmp(ours, theirs);
	replay->different += !same;
	if (!listed) {
		if (!same) {
			replay_show(replay, id, theirs, ours, "not what the kernel did");
			replay_unlisted(replay, id);
		}
		return same;
	}
	listed->used = listed->used || !same;
	/* A "*" needs not differ in each case. */
	whole = !strcmp(listed->cases, "*");
	if (same && !whole)
		replay_show(replay, id, theirs, ours, "listed as a difference, but there is none");
	return whole || !same;
}

/* replay_run - replay one kernel. Return: cases that are not as expected. */
static inline unsigned int replay_run(struct replay *replay, const char *kernel)
{
	static char line[REPLAY_MAX_LINE];
	FILE *file = replay_open(replay->group, kernel);
	unsigned int unexpected = 0;

	ck_assert_ptr_nonnull(file);
	snprintf(replay->kernel, sizeof(replay->kernel), "%s", kernel);
	replay->compared = replay->different = replay->first = replay->last = replay->shown = 0;
	replay->unlisted[0] = '\0';
	while (replay_line(file, line)) {
		char *rest;
		unsigned long id = strtoul(line, &rest, 10);

		if (rest == line) {
			if (replay->note)
				replay->note(replay, line);
		} else {
			unexpected += !replay_compare(replay, id, rest + 1);
		}
	}
	fclose(file);
	replay_unlisted(replay, 0);
	return unexpected;
}

/* replay_kernels - the kernels that a group was recorded of, then NULL. */
static inline char **replay_kernels(const char *group)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), REPLAY_FOLDER "%s.[0-9]*", group);
	ck_assert_msg(!glob(pattern, 0, NULL, &found), "no recordings of %s", group);
	for (size_t i = 0; i < found.gl_pathc; i++)
		found.gl_pathv[i] += strlen(REPLAY_FOLDER) + strlen(group) + 1;
	return found.gl_pathv;
}

/* replay_variant - the row that a policy has for a kernel; NULL: none. */
static inline const struct kp_variant *replay_variant(const struct kp_policy *policy,
						      const char *kernel)
{
	const struct kp_variant *variant;
	char why[512];

	if (kp_policy_find(policy, NULL, kernel, &variant, why, sizeof(why)))
		return NULL;
	return variant;
}

/* replay_all - every kernel; prints a line for each and fails when one is not as expected. */
static inline void replay_all(struct replay *replay)
{
	unsigned int unexpected = 0;

	replay_load(replay);
	for (char **kernel = replay_kernels(replay->group); *kernel; kernel++) {
		unexpected += replay_run(replay, *kernel);
		printf("%s %s: %u cases, %u differences%s%s\n", replay->group, *kernel,
		       replay->compared, replay->different,
		       replay->unlisted[0] ? ", not listed: " : "", replay->unlisted);
		ck_assert_msg(replay->compared >= 200, "%s %s: only %u cases compared",
			      replay->group, *kernel, replay->compared);
	}
	for (unsigned int i = 0; i < replay->nr_listed; i++) {
		const struct replay_listed *listed = &replay->listed[i];

		if (!listed->used && !strcmp(listed->cases, "*")) {
			printf("%s.differences: %s %s: no difference is left\n", replay->group,
			       listed->kernel, listed->cases);
			unexpected++;
		}
	}
	fflush(stdout);
	ck_assert_msg(!unexpected, "%s: %u answers are not as expected", replay->group, unexpected);
}

#endif
