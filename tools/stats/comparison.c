// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "comparison.h"

unsigned int comparison_slots(const struct comparison *comparison)
{
	return comparison->nr_variants + 1;
}

unsigned int comparison_slot_variant(const struct comparison *comparison, unsigned int slot)
{
	return slot % comparison->nr_variants;
}

double comparison_error(const struct comparison *comparison, unsigned int rounds)
{
	return judge_error(&comparison->looks, rounds, comparison->max_rounds);
}

/* fio names a job by its section; with group_reporting by the first of the group. */
void comparison_classify(const struct comparison *comparison, struct run_result *run)
{
	for (size_t i = 0; i < run->nr_jobs; i++) {
		struct job_result *result = &run->jobs[i];

		for (size_t j = 0; j < comparison->nr_jobs; j++) {
			const struct comparison_job *job = &comparison->jobs[j];

			if (strcmp(result->name, job->name) || result->group != job->group)
				continue;
			result->counted = job->counted;
			result->phases = job->phases;
			result->after = job->after;
		}
	}
}
