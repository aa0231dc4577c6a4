// SPDX-License-Identifier: GPL-2.0-only
/*
 * The judge of kpolicy compare: worked values, and the coverage of its interval with its own
 * stopping rule on simulated rounds. KP_SIMULATIONS=20000 makes the simulation long and prints its
 * table; time limit: 60.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "stats/judge.h"

#define COVERAGE 0.93 /* promised of the 95 % interval */

/* ---- worked values ------------------------------------------------------------------------- */

START_TEST(t_quantiles)
{
	/* From tables of Student's t, two-sided. */
	static const struct {
		double error, df, t;
	} known[] = {
		{ 0.05, 1, 12.7062 },  { 0.05, 2, 4.3027 },   { 0.05, 5, 2.5706 },
		{ 0.05, 30, 2.0423 },  { 0.05, 1e6, 1.9600 }, { 0.01, 10, 3.1693 },
		{ 0.001, 3, 12.9240 }, { 0.1, 7, 1.8946 },    { 0.5, 4, 0.7407 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		ck_assert_double_eq_tol(judge_t_quantile(known[i].error, known[i].df), known[i].t,
					1e-4 * known[i].t);
}
END_TEST

START_TEST(look_points)
{
	static const unsigned int looks[] = { 6, 8, 12, 16, 24, 32, 48, 64, 96 };
	size_t next = 0;

	for (unsigned int n = JUDGE_MIN_ROUNDS; n < 100; n++) {
		bool listed = next < sizeof(looks) / sizeof(*looks) && looks[next] == n;

		ck_assert_msg(judge_is_look(n, 1000) == listed, "%u", n);
		next += listed;
	}
	ck_assert(judge_is_look(10, 10));
	ck_assert(!judge_is_look(10, 11));
}
END_TEST

static double sum_of(const struct judge_looks *looks)
{
	double sum = 0;

	for (size_t i = 0; i < looks->nr; i++)
		sum += looks->look[i].error;
	return sum;
}

START_TEST(error_is_spent_once)
{
	for (unsigned int most = JUDGE_MIN_ROUNDS; most < 200; most++) {
		struct judge_looks looks = { 0 };

		for (unsigned int n = JUDGE_MIN_ROUNDS; n <= most; n++) {
			double error = judge_error(&looks, n, most);

			if (!judge_is_look(n, most))
				continue;
			ck_assert(error > 0);
			ck_assert(judge_take_look(&looks, n, most));
			/* Who looks again sees the same. */
			ck_assert(!judge_take_look(&looks, n, most));
			ck_assert_double_eq(judge_error(&looks, n, most), error);
		}
		ck_assert_double_eq_tol(sum_of(&looks), JUDGE_ERROR, 1e-12);
		/* Nothing is left for another look, however many rounds are added. */
		ck_assert_double_eq(judge_error(&looks, most + 1, 2 * most), 0);
		ck_assert_double_eq(judge_error(&looks, 2 * most, 2 * most), 0);
		judge_looks_free(&looks);
	}
	/* One look only: all of it. */
	ck_assert_double_eq_tol(judge_error(&(struct judge_looks){ 0 }, 6, 6), JUDGE_ERROR, 1e-12);
}
END_TEST

/* Stopped anywhere, gone on with other --rounds: whatever is printed, the sum holds. */
START_TEST(error_is_spent_once_over_resumptions)
{
	unsigned int seed = 7;

	for (int i = 0; i < 2000; i++) {
		struct judge_looks looks = { 0 };
		unsigned int most = 6 + rand_r(&seed) % 60;

		for (unsigned int n = JUDGE_MIN_ROUNDS; n <= most; n++) {
			bool stopped = rand_r(&seed) % 10 == 0;

			if (stopped || judge_is_look(n, most))
				judge_take_look(&looks, n, most);
			if (stopped)
				most = n + rand_r(&seed) % 60;
		}
		ck_assert_double_le(sum_of(&looks), JUDGE_ERROR + 1e-12);
		for (size_t k = 0; k < looks.nr; k++)
			ck_assert_double_ge(looks.look[k].error, 0);
		judge_looks_free(&looks);
	}
}
END_TEST

START_TEST(stops)
{
	ck_assert(judge_may_stop(6, 32, 0.02, 0.02));
	ck_assert(!judge_may_stop(6, 32, 0.021, 0.02));
	ck_assert(!judge_may_stop(7, 32, 0.001, 0.02)); /* no look */
	ck_assert(judge_may_stop(7, 7, 0.001, 0.02));
	ck_assert(!judge_may_stop(5, 5, 0.001, 0.02)); /* too few */
	ck_assert(!judge_may_stop(6, 32, INFINITY, 0.02) && !judge_may_stop(6, 32, NAN, 0.02));
}
END_TEST

static void add(struct judge *judge, double control, double other, double variant)
{
	ck_assert_int_eq(judge_add(judge, control, other, variant), 0);
}

START_TEST(worked_interval)
{
	/*
	 * Log-ratios -2 1 -1 2 0 3: 10 % of six is one on either side. Kept 0 1 -1 2, mean 0.5; pulled
	 * in -1 1 -1 2 0 2, mean 0.5, squares 1.5^2 + .5^2 + 1.5^2 + 1.5^2 + .5^2 + 1.5^2 = 9.5;
	 * variance of the mean 9.5 / (4 * 3), 3 degrees of freedom. phi: products -.75 -.75 -2.25 -.75
	 * -.75 = -5.25 over 9.5, with bias and caution -5.25 / 9.5 + 3 / 6 + 0.5 / sqrt(6) = 0.1515.
	 */
	static const double ratio[] = { -2, 1, -1, 2, 0, 3 };
	struct judge judge = { 0 };
	struct judge_estimate e;

	for (size_t i = 0; i < 6; i++)
		add(&judge, 1, 1, exp(ratio[i] / 100));
	ck_assert(judge_estimate(&judge, 0.05, &e));
	ck_assert_uint_eq(e.rounds, 6);
	ck_assert_double_eq_tol(e.ratio, exp(0.005), 1e-12);
	double phi = -5.25 / 9.5 + 0.5 + 0.5 / sqrt(6);
	double half = 3.18245 * sqrt(9.5 / 12 * (1 + phi) / (1 - phi)) / 100;

	ck_assert_double_eq_tol(log(e.high), 0.005 + half, 1e-6);
	ck_assert_double_eq_tol(log(e.low), 0.005 - half, 1e-6);
	ck_assert_double_eq_tol(e.widening, sqrt((1 + phi) / (1 - phi)), 1e-12);
	ck_assert_double_eq_tol(e.aa_band, 0, 1e-12);
	judge_free(&judge);
}
END_TEST

START_TEST(dependence_widens)
{
	static const double steady[] = { -3, -3, -3, -3, 3, 3, 3, 3 };
	static const double turning[] = { -3, 3, -3, 3, -3, 3, -3, 3 };
	struct judge a = { 0 }, b = { 0 };
	struct judge_estimate ea, eb;

	for (size_t i = 0; i < 8; i++) {
		add(&a, 1, 1, exp(steady[i] / 100));
		add(&b, 1, 1, exp(turning[i] / 100));
	}
	ck_assert(judge_estimate(&a, 0.05, &ea));
	ck_assert(judge_estimate(&b, 0.05, &eb));
	ck_assert(ea.widening > 2);
	ck_assert_double_eq_tol(eb.widening, 1, 1e-12);
	ck_assert(judge_width(&ea) > 2 * judge_width(&eb));
	judge_free(&a);
	judge_free(&b);
}
END_TEST

START_TEST(mean_of_both_controls)
{
	struct judge judge = { 0 };
	struct judge_estimate e;

	for (int i = 0; i < 6; i++)
		add(&judge, i % 2 ? 100 : 144, i % 2 ? 144 : 100, 240);
	ck_assert(judge_estimate(&judge, 0.05, &e));
	ck_assert_double_eq_tol(e.ratio, 2, 1e-12);
	ck_assert_double_eq_tol(e.low, 2, 1e-12);
	/* Pairs of +-ln 1.44, six of them, and nothing pulled in: t(3) sqrt(6 * 6 x^2 / 12). */
	ck_assert_double_eq_tol(log1p(e.aa_band), 3.18245 * sqrt(3) * log(1.44), 1e-4);
	judge_free(&judge);
}
END_TEST

START_TEST(an_outlier_does_not_decide)
{
	struct judge judge = { 0 };
	struct judge_estimate e;

	for (int i = 0; i < 12; i++)
		add(&judge, 100 + i % 2, 100 - i % 2, i == 5 ? 40 : 110 + i % 3);
	ck_assert(judge_estimate(&judge, judge_error(&(struct judge_looks){ 0 }, 12, 32), &e));
	ck_assert_int_eq(judge_verdict(&e, 0.02, true), VERDICT_FASTER);
	judge_free(&judge);
}
END_TEST

START_TEST(what_is_no_number_is_left_out)
{
	static const double bad[] = { 0, -1, NAN, INFINITY };
	struct judge judge = { 0 };
	struct judge_estimate e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_int_eq(judge_add(&judge, bad[i], 1, 1), -EINVAL);
		ck_assert_int_eq(judge_add(&judge, 1, bad[i], 1), -EINVAL);
		ck_assert_int_eq(judge_add(&judge, 1, 1, bad[i]), -EINVAL);
	}
	ck_assert_uint_eq(judge.rounds, 0);
	for (int i = 0; i < 3; i++) {
		add(&judge, 1, 1, 1);
		ck_assert(!judge_estimate(&judge, 0.05, &e));
	}
	add(&judge, 1, 1, 1);
	ck_assert(judge_estimate(&judge, 0.05, &e));
	ck_assert(!judge_estimate(&judge, 0, &e)); /* no error is left: no interval */
	judge_free(&judge);
}
END_TEST

START_TEST(verdicts)
{
	static const struct {
		double low, high, band, precision;
		enum verdict verdict;
	} known[] = {
		{ 1.05, 1.07, 0.01, 0.02, VERDICT_FASTER },
		{ 0.90, 0.92, 0.01, 0.02, VERDICT_SLOWER },
		{ 0.99, 1.01, 0.005, 0.02, VERDICT_NO_DIFFERENCE },
		/* leaves out 1 and is inside the band: the noise is as large */
		{ 1.01, 1.03, 0.04, 0.02, VERDICT_NO_DIFFERENCE },
		/* beyond the band but below the precision: small and sure */
		{ 1.011, 1.015, 0.01, 0.02, VERDICT_FASTER },
		{ 0.98, 1.04, 0.01, 0.02, VERDICT_UNDECIDED },
		/* half in the band */
		{ 1.02, 1.06, 0.04, 0.02, VERDICT_UNDECIDED },
		/* a band of 20 % is no excuse: 5 % is the most */
		{ 0.94, 1.06, 0.20, 0.02, VERDICT_UNDECIDED },
		{ 0.96, 1.04, 0.20, 0.02, VERDICT_NO_DIFFERENCE },
		/* nor is what lies inside it a difference */
		{ 1.06, 1.15, 0.20, 0.02, VERDICT_UNDECIDED },
		{ 0.90, 0.94, 0.20, 0.02, VERDICT_UNDECIDED },
		{ 1.15, 1.25, 0.20, 0.02, VERDICT_UNDECIDED },
		{ 1.21, 1.25, 0.20, 0.02, VERDICT_FASTER },
		{ 0.80, 0.83, 0.20, 0.02, VERDICT_SLOWER },
		/* unless that was asked for */
		{ 0.94, 1.06, 0.01, 0.10, VERDICT_NO_DIFFERENCE },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct judge_estimate e = { 8,
					    sqrt(known[i].low * known[i].high),
					    known[i].low,
					    known[i].high,
					    known[i].band,
					    1 };

		ck_assert_msg(judge_verdict(&e, known[i].precision, true) == known[i].verdict,
			      "row %zu: %s", i,
			      verdict_name(judge_verdict(&e, known[i].precision, true)));
		/* Less is faster: the words change places, the others stay. */
		enum verdict turned = known[i].verdict == VERDICT_FASTER   ? VERDICT_SLOWER
				      : known[i].verdict == VERDICT_SLOWER ? VERDICT_FASTER
									   : known[i].verdict;

		ck_assert_int_eq(judge_verdict(&e, known[i].precision, false), turned);
		e.rounds = JUDGE_MIN_ROUNDS - 1;
		ck_assert_int_eq(judge_verdict(&e, known[i].precision, true), VERDICT_UNDECIDED);
	}
}
END_TEST

/* ---- simulation ---------------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static double uniform(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return ((state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/*
 * A machine: the logarithm of what the next run measures, without the variant's effect. Some noise
 * goes on from run to run, some from round to round and then only the variant has it.
 */
struct machine {
	double sigma;	    /* standard deviation of a run, as a share */
	unsigned int run;   /* number of the run */
	unsigned int runs;  /* of the longest comparison */
	double slow;	    /* noise that goes on from run to run */
	double round_noise; /* noise of the variant that goes on from round to round */
};

struct scenario {
	const char *name;
	double (*run)(struct machine *m);
	double phi; /* autocorrelation from round to round; then there is no other noise */
};

static double run_normal(struct machine *m)
{
	return m->sigma * normal();
}

/* One run in twenty loses 10 to 40 %. */
static double run_outliers(struct machine *m)
{
	return m->sigma * normal() - (uniform() < 0.05 ? 0.1 + 0.3 * uniform() : 0);
}

static double run_heavy_tails(struct machine *m)
{
	double z = normal(), chi = 0;

	for (int i = 0; i < 3; i++) {
		double x = normal();

		chi += x * x / 3;
	}
	return m->sigma * z / sqrt(chi);
}

static double run_slow_noise(struct machine *m)
{
	m->slow = 0.9 * m->slow + sqrt(1 - 0.81) * normal();
	return m->sigma * (m->slow + 0.3 * normal());
}

static double run_random_walk(struct machine *m)
{
	m->slow += 0.5 * normal();
	return m->sigma * (m->slow + normal());
}

static double run_drift(struct machine *m)
{
	return m->sigma * (normal() + 10.0 * m->run / m->runs);
}

static double run_warming_up(struct machine *m)
{
	return m->sigma * (normal() + 20 * exp(-(double)m->run / 6));
}

static double run_steps(struct machine *m)
{
	if (uniform() < 0.03)
		m->slow = 6 * normal();
	return m->sigma * (normal() + m->slow);
}

static double run_none(struct machine *m)
{
	(void)m;
	return 0;
}

static const struct scenario scenarios[] = {
	{ "normal", run_normal, 0 },
	{ "outliers", run_outliers, 0 },
	{ "heavy tails (t, 3 df)", run_heavy_tails, 0 },
	{ "autocorrelated rounds, 0.3", run_none, 0.3 },
	{ "autocorrelated rounds, 0.5", run_none, 0.5 },
	{ "autocorrelated runs, 0.9", run_slow_noise, 0 },
	{ "random walk", run_random_walk, 0 },
	{ "linear drift", run_drift, 0 },
	{ "warming up", run_warming_up, 0 },
	{ "steps", run_steps, 0 },
};

static double next_run(const struct scenario *s, struct machine *m)
{
	double value = s->run(m);

	m->run++;
	return value;
}

/*
 * The comparison as kpolicy runs it: order, looks, stop. @stop: somebody stops it after so many
 * rounds, reads the result into @seen, and goes on with @then rounds; 0: nobody does.
 */
static void compare_stopped(const struct scenario *s, double sigma, unsigned int max_rounds,
			    double precision, double effect, unsigned int stop, unsigned int then,
			    struct judge_estimate *seen, struct judge_estimate *e)
{
	unsigned int most = then > max_rounds ? then : max_rounds;
	struct machine m = { sigma, 0, 3 * most, normal(), normal() };
	struct judge judge = { 0 };
	struct judge_looks looks = { 0 };

	for (unsigned int round = 1; round <= max_rounds; round++) {
		double first = next_run(s, &m), variant = next_run(s, &m), last = next_run(s, &m);
		bool turned = round % 2 == 0;

		m.round_noise = s->phi * m.round_noise + sqrt(1 - s->phi * s->phi) * normal();
		if (s->phi > 0)
			variant += sigma * sqrt(1.5) * m.round_noise;
		add(&judge, exp(turned ? last : first), exp(turned ? first : last),
		    effect * exp(variant));
		if (round == stop) {
			judge_take_look(&looks, round, max_rounds);
			ck_assert(judge_estimate(&judge, judge_error(&looks, round, max_rounds),
						 seen));
			max_rounds = then;
			continue;
		}
		if (round < JUDGE_MIN_ROUNDS || !judge_is_look(round, max_rounds))
			continue;
		judge_take_look(&looks, round, max_rounds);
		if (!judge_estimate(&judge, judge_error(&looks, round, max_rounds), e))
			continue; /* the stop has spent what this look would have */
		if (judge_may_stop(round, max_rounds, judge_width(e), precision))
			break;
	}
	judge_looks_free(&looks);
	judge_free(&judge);
}

static void compare(const struct scenario *s, double sigma, unsigned int max_rounds,
		    double precision, double effect, struct judge_estimate *e)
{
	compare_stopped(s, sigma, max_rounds, precision, effect, 0, 0, NULL, e);
}

static unsigned int simulations(void)
{
	const char *set = getenv("KP_SIMULATIONS");

	return set ? strtoul(set, NULL, 10) : 0;
}

/* From rounds that stop at the first look to rounds that never get precise enough. */
static const double sigmas[] = { 0.002, 0.004, 0.006, 0.008, 0.01, 0.013, 0.017, 0.025 };
enum { NR_SIGMAS = sizeof(sigmas) / sizeof(*sigmas) };

static void check_coverage(const struct scenario *s, unsigned int max_rounds)
{
	unsigned int runs = simulations() ? simulations() : 250;
	double worst = 1, all = 0;

	for (size_t i = 0; i < NR_SIGMAS; i++) {
		unsigned int held = 0;

		for (unsigned int r = 0; r < runs; r++) {
			struct judge_estimate e;

			compare(s, sigmas[i], max_rounds, 0.02, 1.1, &e);
			held += e.low <= 1.1 && e.high >= 1.1;
		}
		double coverage = (double)held / runs;

		all += coverage / NR_SIGMAS;
		worst = fmin(worst, coverage);
	}
	if (simulations())
		printf("%-28s --rounds %2u: %.1f %%, at the worst noise %.1f %%\n", s->name,
		       max_rounds, all * 100, worst * 100);
	/* Three standard errors of what so few simulations can tell. */
	double slack = 3 * sqrt(COVERAGE * (1 - COVERAGE) / runs);

	ck_assert_msg(all >= COVERAGE, "%s, %u rounds: %.3f", s->name, max_rounds, all);
	ck_assert_msg(worst >= COVERAGE - slack, "%s, %u rounds: %.3f", s->name, max_rounds, worst);
}

START_TEST(coverage)
{
	static const unsigned int rounds[] = { 6, 12, 32, 64 };
	const struct scenario *s = &scenarios[_i];

	for (size_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++)
		if (simulations() || rounds[i] == 32 || rounds[i] == 12)
			check_coverage(s, rounds[i]);
}
END_TEST

/* Stopped, read, and gone on with three times the rounds: both results hold, together. */
START_TEST(coverage_when_resumed)
{
	unsigned int runs = simulations() ? simulations() : 1000, held = 0;

	for (unsigned int r = 0; r < runs; r++) {
		struct judge_estimate seen, e = { .high = INFINITY };
		/* at a look and between two, with the rest of the error left or hardly any */
		unsigned int stop = 6 + r % 10;

		compare_stopped(&scenarios[0], 0.01, 16, 0.001, 1.1, stop, 48, &seen, &e);
		held += seen.low <= 1.1 && seen.high >= 1.1 && e.low <= 1.1 && e.high >= 1.1;
	}
	if (simulations())
		printf("stopped and resumed:           %.1f %%\n", 100.0 * held / runs);
	ck_assert_uint_ge(held, COVERAGE * runs);
}
END_TEST

/* Noise of 1 % per run: what the verdicts are worth. */
START_TEST(verdict_rates)
{
	unsigned int runs = simulations() ? simulations() : 400, wrong = 0, undecided = 0,
		     found = 0;

	for (unsigned int r = 0; r < runs; r++) {
		struct judge_estimate e;

		compare(&scenarios[0], 0.01, 32, 0.02, 1, &e);
		enum verdict v = judge_verdict(&e, 0.02, true);

		wrong += v == VERDICT_FASTER || v == VERDICT_SLOWER;
		undecided += v == VERDICT_UNDECIDED;
		compare(&scenarios[0], 0.01, 32, 0.02, 1.1, &e);
		found += judge_verdict(&e, 0.02, true) == VERDICT_FASTER;
	}
	if (simulations())
		printf("equal: %.2f %% wrong, %.2f %% undecided; 10 %% faster: %.2f %% found\n",
		       100.0 * wrong / runs, 100.0 * undecided / runs, 100.0 * found / runs);
	ck_assert_uint_le(wrong, runs / 100);
	ck_assert_uint_le(undecided, runs / 20);
	ck_assert_uint_ge(found, runs - runs / 100);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("judge");
	TCase *values = tcase_create("values"), *simulated = tcase_create("simulated");

	tcase_add_test(values, t_quantiles);
	tcase_add_test(values, look_points);
	tcase_add_test(values, error_is_spent_once);
	tcase_add_test(values, error_is_spent_once_over_resumptions);
	tcase_add_test(values, stops);
	tcase_add_test(values, worked_interval);
	tcase_add_test(values, dependence_widens);
	tcase_add_test(values, mean_of_both_controls);
	tcase_add_test(values, an_outlier_does_not_decide);
	tcase_add_test(values, what_is_no_number_is_left_out);
	tcase_add_test(values, verdicts);
	tcase_add_loop_test(simulated, coverage, 0, sizeof(scenarios) / sizeof(*scenarios));
	tcase_add_test(simulated, coverage_when_resumed);
	tcase_add_test(simulated, verdict_rates);
	tcase_set_timeout(simulated, simulations() ? 3600 : 60);
	suite_add_tcase(suite, values);
	suite_add_tcase(suite, simulated);

	SRunner *runner = srunner_create(suite);

	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);

	srunner_free(runner);
	return failed ? 1 : 0;
}
