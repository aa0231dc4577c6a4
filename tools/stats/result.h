/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one run of fio measured: read from its JSON, checked, and taken apart into figures.
 */
#ifndef KPOLICY_TOOLS_RESULT_H
#define KPOLICY_TOOLS_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum direction { DIR_READ, DIR_WRITE, DIR_TRIM, NR_DIRECTIONS, DIR_ALL = NR_DIRECTIONS };

/* 'read', 'write', 'trim', 'all' */
extern const char *const direction_names[];

struct latency_bin {
	uint64_t nsec;
	uint64_t count;
};

/* fio's latency histogram, by rising latency. */
struct histogram {
	struct latency_bin *bins;
	size_t nr;
};

struct direction_result {
	uint64_t ios;
	uint64_t bytes;
	double iops;
	double bytes_per_second;
	double seconds;		  /* that the direction ran */
	double mean_nsec;	  /* total latency */
	uint64_t samples;	  /* behind it; 0: not measured */
	struct histogram latency; /* total latency; empty: not measured */
};

struct job_result {
	char *name;
	unsigned int group; /* stonewall group */
	unsigned int index; /* among the jobs of this name in this group */
	int error;	    /* positive errno */
	uint64_t errors;    /* of I/Os, after which it went on (continue_on_error) */
	bool counted; /* its engine does I/O that is compared; set by the caller, true at first */
	bool phases;  /* set by the caller: it read back what it wrote when all was written */
	const char *after; /* set by the caller: the job that it waited for, or NULL; not owned */
	double depth;	   /* mean of what fio kept in flight */
	struct direction_result dir[NR_DIRECTIONS];
};

struct run_result {
	char *fio_version;
	char *text; /* what stood before the JSON: fio's own complaints */
	struct job_result *jobs;
	size_t nr_jobs;
	double cpu_seconds; /* of fio and all its children; set by the caller; NAN: not known */
};

/*
 * Reads the file that fio wrote with --output-format=json+. Returns 0, or -errno with *@error one
 * line for the user (caller frees). @run is empty then.
 */
int result_read(const char *path, struct run_result *run, char **error);
void result_free(struct run_result *run);

/*
 * Did every job run to its end? Both return NULL, or the reason why not, one line, which the caller
 * frees. The first: an error that ended a job, or 'got signal'; @status is fio's exit status, for
 * an error after which a job went on does not end fio with one. The second, for when fio found nothing wrong: a
 * counted job without I/O or without runtime.
 */
char *result_error(const struct run_result *run, int status);
char *result_idle(const struct run_result *run);

enum quantity {
	Q_TIME, /* seconds until the last job was done; what ran one after the other adds up */
	Q_IOPS,
	Q_BANDWIDTH, /* bytes per second */
	Q_MEAN,	     /* total latency in ns, and its percentiles */
	Q_P50,
	Q_P99,
	Q_P99_9,
	Q_CPU, /* CPU time per I/O in ns, of a run whose jobs are all compared and one group */
	NR_QUANTITIES,
};

struct quantity_kind {
	const char *name; /* for people: 'p99.9' */
	const char *unit; /* of the raw value: 'ns' */
	bool more_is_faster;
};

extern const struct quantity_kind quantity_kinds[NR_QUANTITIES];

/* The value of a quantity with its unit, to be freed. NAN is 'not measured'. */
char *format_quantity(enum quantity quantity, double value);

/* Names a figure of a run. */
struct figure {
	unsigned int group;
	const char *job; /* NULL: all counted jobs of the group together */
	unsigned int index;
	enum direction direction;
	enum quantity quantity;
};

/* The figure's value; NAN where fio did not measure it. */
double result_figure(const struct run_result *run, const struct figure *figure);

/* The histogram behind a figure, merged over its jobs and directions; the caller frees the bins. */
struct histogram result_histogram(const struct run_result *run, const struct figure *figure);

/* Adds @from to @to. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* Nearest-rank percentile (0 to 100) in ns; NAN when empty. */
double histogram_percentile(const struct histogram *histogram, double percentile);

/* The mean depth that the counted jobs of a group kept, summed over them; 0 when unknown. */
double result_depth(const struct run_result *run, unsigned int group);

/*
 * The I/Os of the counted jobs of a group that failed and after which the job went on. *@error: the
 * first one's positive errno, of some job that has one.
 */
uint64_t result_errors(const struct run_result *run, unsigned int group, int *error);

/* All bytes that the counted jobs of a group moved. */
uint64_t result_bytes(const struct run_result *run, unsigned int group);

/* The time that the counted jobs of a group took in seconds. */
double result_seconds(const struct run_result *run, unsigned int group);

#endif
