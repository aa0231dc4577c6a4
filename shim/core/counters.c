// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters: each pipeline has one slot. The slots of a job are added up, and so are the jobs. The
 * sums are printed as JSON and as text.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "counters.h"
#include "new_file.h"
#include "stage.h"

static const struct kp_counter_desc core_counters[] = {
#define COUNTER_DESC(ID, NAME, KIND) { NAME, KP_COUNTER_##KIND },
	KP_CORE_COUNTERS(COUNTER_DESC)
#undef COUNTER_DESC
};

static unsigned int counter_width(const struct kp_counter_desc *desc)
{
	switch (desc->kind) {
	case KP_COUNTER_SIZES:
		return KP_SIZE_BUCKETS;
	case KP_COUNTER_TIMES:
		return KP_TIME_VALUES;
	default:
		return 1;
	}
}

unsigned int kp_counters_width(const struct kp_counter_desc *counters, unsigned int nr)
{
	unsigned int width = 0;

	for (unsigned int i = 0; i < nr; i++)
		width += counter_width(&counters[i]);
	return width;
}

unsigned int kp_counters_at(const struct kp_policy *policy)
{
	unsigned int at = KP_NR_CORE_COUNTERS;

	for (unsigned int i = 0; kp_policies[i] && kp_policies[i]->ops != policy->ops; i++)
		at += kp_counters_width(kp_policies[i]->ops->counters,
					kp_policies[i]->ops->nr_counters);
	return at;
}

/* ---- distributions of times ---------------------------------------------------------------- */

enum { TIME_COUNT, TIME_SUM, TIME_MAX, TIME_BUCKETS };

/* Four buckets per octave. 0 to 7 ns have one each; the others are at most 25 % wide. */
static unsigned int time_bucket(uint64_t ns)
{
	unsigned int octave;

	if (ns < 8)
		return ns;
	octave = 63 - __builtin_clzll(ns);
	return kp_min(8 + (octave - 3) * 4 + ((ns >> (octave - 2)) & 3), KP_TIME_BUCKETS - 1u);
}

/* Returns the middle of a bucket. */
static uint64_t bucket_time(unsigned int bucket)
{
	unsigned int octave = 3 + (bucket - 8) / 4;

	if (bucket < 8)
		return bucket;
	return (1ull << octave) + ((bucket - 8) % 4 * 2 + 1) * (1ull << (octave - 3));
}

void kp_count_time(uint64_t *counter, uint64_t ns)
{
	kp_count(&counter[TIME_COUNT], 1);
	kp_count(&counter[TIME_SUM], ns);
	kp_count_max(&counter[TIME_MAX], ns);
	kp_count(&counter[TIME_BUCKETS + time_bucket(ns)], 1);
}

static uint64_t time_percentile(const uint64_t *counter, unsigned int percent)
{
	uint64_t rank = (counter[TIME_COUNT] * percent + 99) / 100, seen = 0;

	for (unsigned int i = 0; i < KP_TIME_BUCKETS; i++) {
		seen += counter[TIME_BUCKETS + i];
		if (seen && seen >= rank)
			return kp_min(bucket_time(i), counter[TIME_MAX]);
	}
	return 0;
}

/* ---- runs of one size ---------------------------------------------------------------------- */

static void add_ios(struct kp_counter_slot *slot, const struct kp_counter_run *run)
{
	kp_count(&slot->values[KP_IOS], run->nr);
	kp_count(&slot->values[KP_BYTES], run->nr * run->bytes);
}

static void add_requests(struct kp_counter_slot *slot, const struct kp_counter_run *run)
{
	unsigned int bucket = kp_size_bucket(run->bytes);

	kp_count(&slot->values[KP_BIOS], run->nr);
	kp_count(&slot->values[KP_REQUESTS], run->nr);
	kp_count(&slot->values[KP_BIO_SIZES + bucket], run->nr);
	kp_count(&slot->values[KP_REQUEST_SIZES + bucket], run->nr);
}

static void begin(struct kp_counter_run *run, uint64_t bytes, uint64_t nr)
{
	__atomic_store_n(&run->nr, nr, __ATOMIC_RELAXED);
	__atomic_store_n(&run->bytes, bytes, __ATOMIC_RELAXED);
}

void kp_counters_begin_ios(struct kp_counter_slot *slot, uint64_t bytes)
{
	add_ios(slot, &slot->ios);
	begin(&slot->ios, bytes, 1);
}

void kp_counters_begin_requests(struct kp_counter_slot *slot, uint64_t bytes)
{
	add_requests(slot, &slot->requests);
	begin(&slot->requests, bytes, 1);
}

void kp_counters_begin_transfers(struct kp_counter_slot *slot, uint64_t bytes)
{
	add_ios(slot, &slot->transfers);
	add_requests(slot, &slot->transfers);
	begin(&slot->transfers, bytes, 1);
}

void kp_counters_settle(struct kp_counter_slot *slot)
{
	add_ios(slot, &slot->ios);
	add_requests(slot, &slot->requests);
	add_ios(slot, &slot->transfers);
	add_requests(slot, &slot->transfers);
	begin(&slot->ios, 0, 0);
	begin(&slot->requests, 0, 0);
	begin(&slot->transfers, 0, 0);
}

/* ---- walks over counters ------------------------------------------------------------------- */

typedef void (*visit_counter)(const struct kp_counter_desc *desc, unsigned int at, void *arg);

static void visit_counters(const struct kp_counter_desc *desc, unsigned int nr, unsigned int at,
			   visit_counter visit, void *arg)
{
	for (; nr; nr--, desc++) {
		visit(desc, at, arg);
		at += counter_width(desc);
	}
}

/* Call @visit for the counters of the core and of @policies, with the index of the first value. */
static void for_each_counter(const struct kp_policy *const *policies, visit_counter visit,
			     void *arg)
{
	visit_counters(core_counters, sizeof(core_counters) / sizeof(*core_counters), 0, visit,
		       arg);
	for (unsigned int i = 0; policies[i]; i++) {
		const struct kp_stage_ops *ops = policies[i]->ops;
		unsigned int earlier = 0;

		/* Policies that share a stage share its counters. */
		while (policies[earlier]->ops != ops)
			earlier++;
		if (earlier < i)
			continue;
		visit_counters(ops->counters, ops->nr_counters, kp_counters_at(policies[i]), visit,
			       arg);
	}
}

struct fold {
	uint64_t *into;
	const uint64_t *from;
};

static void fold_counter(const struct kp_counter_desc *desc, unsigned int at, void *arg)
{
	struct fold *fold = arg;

	for (unsigned int i = 0; i < counter_width(desc); i++) {
		uint64_t value = __atomic_load_n(&fold->from[at + i], __ATOMIC_RELAXED);
		uint64_t *into = &fold->into[at + i];

		if (desc->kind == KP_COUNTER_MAX ||
		    (desc->kind == KP_COUNTER_TIMES && i == TIME_MAX))
			*into = kp_max(*into, value);
		else
			*into += value;
	}
}

/* The figures that are printed for a distribution of times. */
struct time_figure {
	const char *suffix;
	uint64_t value;
};

#define NR_TIME_FIGURES 5

static void time_figures(const uint64_t *counter, struct time_figure figures[NR_TIME_FIGURES])
{
	uint64_t count = counter[TIME_COUNT];

	figures[0] = (struct time_figure){ "count", count };
	figures[1] = (struct time_figure){ "mean_ns", count ? counter[TIME_SUM] / count : 0 };
	figures[2] = (struct time_figure){ "p50_ns", time_percentile(counter, 50) };
	figures[3] = (struct time_figure){ "p99_ns", time_percentile(counter, 99) };
	figures[4] = (struct time_figure){ "max_ns", counter[TIME_MAX] };
}

/* "512", "4096" ...: the upper end of a bucket. The last bucket has no upper end. */
static const char *bucket_name(unsigned int bucket, char *name, size_t size)
{
	if (bucket == KP_SIZE_BUCKETS - 1)
		return "more";
	snprintf(name, size, "%llu", 512ull << bucket);
	return name;
}

static void json_sizes(const struct kp_counter_desc *desc, const uint64_t *values, json_t *object)
{
	json_t *sizes = json_object();
	char name[24];

	for (unsigned int i = 0; i < KP_SIZE_BUCKETS; i++) {
		if (values[i])
			json_object_set_new(sizes, bucket_name(i, name, sizeof(name)),
					    json_integer(values[i]));
	}
	json_object_set_new(object, desc->name, sizes);
}

static void json_times(const struct kp_counter_desc *desc, const uint64_t *values, json_t *object)
{
	struct time_figure figures[NR_TIME_FIGURES];
	char name[64];

	time_figures(values, figures);
	for (unsigned int i = 0; i < NR_TIME_FIGURES; i++) {
		snprintf(name, sizeof(name), "%s_%s", desc->name, figures[i].suffix);
		json_object_set_new(object, name, json_integer(figures[i].value));
	}
}

struct emit_json {
	const uint64_t *values;
	json_t *object;
};

static void emit_json(const struct kp_counter_desc *desc, unsigned int at, void *arg)
{
	struct emit_json *emit = arg;

	if (desc->kind == KP_COUNTER_SIZES)
		json_sizes(desc, emit->values + at, emit->object);
	else if (desc->kind == KP_COUNTER_TIMES)
		json_times(desc, emit->values + at, emit->object);
	else
		json_object_set_new(emit->object, desc->name, json_integer(emit->values[at]));
}

struct emit_text {
	const uint64_t *values;
	FILE *to;
	bool begun;
};

/* Print the next item of a line of the form 'name=value, name=value'. */
static void item(struct emit_text *emit, const char *name)
{
	fprintf(emit->to, "%s%s", emit->begun ? ", " : "    ", name);
	emit->begun = true;
}

static void text_sizes(const struct kp_counter_desc *desc, const uint64_t *values,
		       struct emit_text *emit)
{
	char separator = '=';
	char name[24];

	for (unsigned int i = 0; i < KP_SIZE_BUCKETS; i++) {
		if (!values[i])
			continue;
		if (separator == '=')
			item(emit, desc->name);
		fprintf(emit->to, "%c%s:%llu", separator, bucket_name(i, name, sizeof(name)),
			(unsigned long long)values[i]);
		separator = ' ';
	}
}

static void text_times(const struct kp_counter_desc *desc, const uint64_t *values,
		       struct emit_text *emit)
{
	struct time_figure figures[NR_TIME_FIGURES];

	if (!values[TIME_COUNT])
		return;
	time_figures(values, figures);
	for (unsigned int i = 0; i < NR_TIME_FIGURES; i++) {
		item(emit, desc->name);
		fprintf(emit->to, "_%s=%llu", figures[i].suffix,
			(unsigned long long)figures[i].value);
	}
}

static void emit_text(const struct kp_counter_desc *desc, unsigned int at, void *arg)
{
	struct emit_text *emit = arg;

	if (desc->kind == KP_COUNTER_SIZES) {
		text_sizes(desc, emit->values + at, emit);
	} else if (desc->kind == KP_COUNTER_TIMES) {
		text_times(desc, emit->values + at, emit);
	} else if (emit->values[at]) {
		item(emit, desc->name);
		fprintf(emit->to, "=%llu", (unsigned long long)emit->values[at]);
	}
}

/* A job: its first slot, and the sums over all its slots. */
struct job {
	const struct kp_counter_slot *slot;
	uint64_t values[KP_MAX_COUNTERS];
};

struct jobs {
	struct job *list;
	unsigned int nr;
	uint64_t total[KP_MAX_COUNTERS];
};

static struct job *find_job(struct jobs *jobs, const struct kp_counter_slot *slot)
{
	for (unsigned int i = 0; i < jobs->nr; i++) {
		const struct kp_counter_slot *first = jobs->list[i].slot;

		if (first->job_number == slot->job_number && !strcmp(first->policy, slot->policy))
			return &jobs->list[i];
	}
	return NULL;
}

static int collect_jobs(struct kp_arena *arena, const struct kp_policy *const *policies,
			const char *output, struct jobs *jobs)
{
	unsigned int nr_slots;
	const struct kp_counter_slot *slots = kp_arena_slots(arena, &nr_slots);

	memset(jobs, 0, sizeof(*jobs));
	jobs->list = calloc(nr_slots + 1, sizeof(*jobs->list));
	if (!jobs->list)
		return -ENOMEM;
	for (unsigned int i = 0; i < nr_slots; i++) {
		struct kp_counter_slot settled = slots[i]; /* a job that was killed has not */
		struct fold fold = { .from = settled.values };
		struct job *job;

		if (!slots[i].engine[0] || (output && strcmp(output, slots[i].output)))
			continue;
		job = find_job(jobs, &slots[i]);
		if (!job) {
			job = &jobs->list[jobs->nr++];
			job->slot = &slots[i];
		}
		kp_counters_settle(&settled);
		fold.into = job->values;
		for_each_counter(policies, fold_counter, &fold);
		fold.into = jobs->total;
		for_each_counter(policies, fold_counter, &fold);
	}
	return 0;
}

static json_t *values_json(const struct kp_policy *const *policies, const uint64_t *values,
			   json_t *object)
{
	struct emit_json emit = { .values = values, .object = object };

	for_each_counter(policies, emit_json, &emit);
	return object;
}

/* JSON must be UTF-8. The name of a job may be any bytes, and may be cut inside a character. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	char copy[256];

	if (json)
		return json;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *at = copy; *at; at++) {
		if (*at & 0x80)
			*at = '?';
	}
	return json_string(copy);
}

static json_t *jobs_json(const struct kp_policy *const *policies, const struct jobs *jobs,
			 const char *generator)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < jobs->nr; i++) {
		const struct kp_counter_slot *slot = jobs->list[i].slot;
		json_t *job = json_pack("{s:o, s:s, s:s, s:o, s:s}", "name", text_json(slot->job),
					"engine", slot->engine, "policy", slot->policy, "kernel",
					text_json(slot->kernel), "backend", slot->backend);

		json_array_append_new(list, values_json(policies, jobs->list[i].values, job));
	}
	return json_pack("{s:s, s:o, s:o}", "fio", generator, "jobs", list, "total",
			 values_json(policies, jobs->total, json_object()));
}

static int dump(const json_t *json, FILE *file)
{
	errno = 0;
	if (json_dumpf(json, file, JSON_INDENT(2)) || fputc('\n', file) == EOF || fflush(file))
		return errno ? -errno : -EIO;
	return 0;
}

/* Write to a file that exists already, such as a pipe. */
static int write_into(const json_t *json, const char *path)
{
	FILE *file = fopen(path, "we");
	int ret;

	if (!file)
		return -errno;
	ret = dump(json, file);
	if (fclose(file) && !ret)
		ret = -errno;
	return ret;
}

static int write_new(const json_t *json, const char *path)
{
	struct kp_new_file file;
	int ret = kp_new_file_begin(&file, path);

	return ret ? ret : kp_new_file_end(&file, dump(json, file.stream), false);
}

static int write_whole(const json_t *json, const char *output)
{
	struct stat st;
	char *target;
	int ret;

	if (stat(output, &st))
		return write_new(json, output);
	if (!S_ISREG(st.st_mode)) /* a pipe, /dev/null: nothing to put in its place */
		return write_into(json, output);
	target = realpath(output, NULL); /* a link stays one */
	if (!target)
		return -errno;
	ret = write_new(json, target);
	free(target);
	return ret;
}

int kp_counters_write(struct kp_arena *arena, const struct kp_policy *const *policies,
		      const char *output, const char *generator)
{
	struct jobs jobs;
	json_t *json;
	int ret = collect_jobs(arena, policies, output, &jobs);

	if (ret)
		return ret;
	json = jobs_json(policies, &jobs, generator);
	ret = json ? write_whole(json, output) : -ENOMEM;
	json_decref(json);
	free(jobs.list);
	return ret;
}

static bool same_policy(const struct kp_counter_slot *a, const struct kp_counter_slot *b)
{
	return !strcmp(a->policy, b->policy) && !strcmp(a->backend, b->backend);
}

/* Jobs with the same policy and backend share a paragraph: the paragraphs are compared. */
static void print_policy(const struct kp_policy *const *policies, const struct jobs *jobs,
			 unsigned int first, FILE *to)
{
	const struct kp_counter_slot *slot = jobs->list[first].slot;
	uint64_t sum[KP_MAX_COUNTERS] = { 0 };
	struct emit_text emit = { .values = sum, .to = to };
	unsigned int nr = 0;

	for (unsigned int i = first; i < jobs->nr; i++) {
		struct fold fold = { .into = sum, .from = jobs->list[i].values };

		if (!same_policy(jobs->list[i].slot, slot))
			continue;
		for_each_counter(policies, fold_counter, &fold);
		nr++;
	}
	fprintf(to, "\nkpolicy %s:%s%s%s, %s, %u job%s\n", slot->engine, slot->policy,
		slot->kernel[0] ? ", kernel " : "", slot->kernel, slot->backend, nr,
		nr == 1 ? "" : "s");
	for_each_counter(policies, emit_text, &emit);
	fprintf(to, "%s\n", emit.begun ? "" : "    nothing counted");
}

void kp_counters_print(struct kp_arena *arena, const struct kp_policy *const *policies, FILE *to)
{
	struct jobs jobs;

	if (collect_jobs(arena, policies, NULL, &jobs))
		return;
	for (unsigned int i = 0; i < jobs.nr; i++) {
		unsigned int earlier = 0;

		while (!same_policy(jobs.list[earlier].slot, jobs.list[i].slot))
			earlier++;
		if (earlier == i)
			print_policy(policies, &jobs, i, to);
	}
	free(jobs.list);
}

int kp_counters_outputs(struct kp_arena *arena, int (*visit)(const char *output, void *arg),
			void *arg)
{
	unsigned int nr_slots;
	const struct kp_counter_slot *slots = kp_arena_slots(arena, &nr_slots);
	int ret = 0;

	for (unsigned int i = 0; i < nr_slots && !ret; i++) {
		unsigned int earlier = 0;

		while (strcmp(slots[earlier].output, slots[i].output))
			earlier++;
		if (earlier == i && slots[i].output[0])
			ret = visit(slots[i].output, arg);
	}
	return ret;
}
