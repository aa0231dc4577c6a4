// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

#define TRIM	   0.1	/* share of the rounds left out on either side */
#define MAX_PHI	   0.9	/* beyond it no number of rounds that anybody waits for would do */
#define BIAS	   3.0	/* of n times the first autocorrelation where it is 0.5: 1 + 4 * 0.5 */
#define CAUTION	   0.5	/* standard errors by which phi is taken higher */
#define NO_ERROR   1e-9 /* what rounding leaves of an error that is spent */
#define MIN_SAMPLE 4u	/* trimmed by one on either side, two are left */

int judge_add(struct judge *judge, double control, double other_control, double variant)
{
	/* !(x > 0) also catches what was not measured, NAN */
	if (!(control > 0) || !(other_control > 0) || !(variant > 0) || isinf(control) ||
	    isinf(other_control) || isinf(variant))
		return -EINVAL;
	if (judge->rounds == judge->room) {
		unsigned int room = judge->room ? 2 * judge->room : 32;
		double *ratio = realloc(judge->log_ratio, room * sizeof(*ratio));

		if (!ratio)
			return -ENOMEM;
		judge->log_ratio = ratio;
		double *pair = realloc(judge->log_pair, room * sizeof(*pair));

		if (!pair)
			return -ENOMEM;
		judge->log_pair = pair;
		judge->room = room;
	}
	judge->log_ratio[judge->rounds] = log(variant) - (log(control) + log(other_control)) / 2;
	judge->log_pair[judge->rounds] = log(control) - log(other_control);
	judge->rounds++;
	return 0;
}

void judge_free(struct judge *judge)
{
	free(judge->log_ratio);
	free(judge->log_pair);
	memset(judge, 0, sizeof(*judge));
}

/* ---- looks --------------------------------------------------------------------------------- */

bool judge_is_look(unsigned int rounds, unsigned int max_rounds)
{
	if (rounds == max_rounds)
		return true;
	/* 2^k and 3 * 2^k: each look has a third to a half more rounds than the one before */
	while (rounds > JUDGE_MIN_ROUNDS + 2 && rounds % 2 == 0)
		rounds /= 2;
	return rounds == JUDGE_MIN_ROUNDS || rounds == JUDGE_MIN_ROUNDS + 2;
}

static double error_spent(unsigned int rounds, unsigned int max_rounds)
{
	double share = rounds < max_rounds ? (double)rounds / max_rounds : 1;

	return JUDGE_ERROR * share * share;
}

static const struct judge_look *find_look(const struct judge_looks *looks, unsigned int rounds)
{
	for (size_t i = 0; i < looks->nr; i++)
		if (looks->look[i].rounds == rounds)
			return &looks->look[i];
	return NULL;
}

double judge_error(const struct judge_looks *looks, unsigned int rounds, unsigned int max_rounds)
{
	const struct judge_look *taken = find_look(looks, rounds);
	double left = error_spent(rounds, max_rounds);

	if (taken)
		return taken->error;
	for (size_t i = 0; i < looks->nr; i++)
		left -= looks->look[i].error;
	return left > NO_ERROR ? left : 0;
}

bool judge_take_look(struct judge_looks *looks, unsigned int rounds, unsigned int max_rounds)
{
	if (find_look(looks, rounds))
		return false;
	struct judge_look *grown = realloc(looks->look, (looks->nr + 1) * sizeof(*grown));

	if (!grown)
		return false;
	looks->look = grown;
	grown[looks->nr] = (struct judge_look){ rounds, judge_error(looks, rounds, max_rounds) };
	looks->nr++;
	return true;
}

void judge_looks_free(struct judge_looks *looks)
{
	free(looks->look);
	memset(looks, 0, sizeof(*looks));
}

bool judge_may_stop(unsigned int rounds, unsigned int max_rounds, double width, double precision)
{
	return rounds >= JUDGE_MIN_ROUNDS && judge_is_look(rounds, max_rounds) &&
	       width <= precision;
}

/* ---- Student's t --------------------------------------------------------------------------- */

/* The regularized incomplete beta function by its continued fraction (Lentz's method). */
static double incomplete_beta(double a, double b, double x)
{
	if (x <= 0 || x >= 1)
		return x >= 1;
	if (x > (a + 1) / (a + b + 2)) /* the fraction converges fast on the other side */
		return 1 - incomplete_beta(b, a, 1 - x);

	double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
	double value = 1, c = 1, d = 0;

	for (int i = 0; i < 300; i++) {
		int m = i / 2;
		double term = 1;

		if (i && i % 2 == 0)
			term = m * (b - m) * x / ((a + i - 1) * (a + i));
		else if (i)
			term = -(a + m) * (a + b + m) * x / ((a + i - 1) * (a + i));
		d = 1 / fmax(1 + term * d, 1e-30);
		c = fmax(1 + term / c, 1e-30);
		value *= c * d;
		if (fabs(1 - c * d) < 1e-12)
			break;
	}
	return front * (value - 1);
}

double judge_t_quantile(double error, double df)
{
	double low = 0, high = 1;

	/* P(|T| > t) falls in t: double until it is below, then halve the bracket. */
	while (incomplete_beta(df / 2, 0.5, df / (df + high * high)) > error && high < 1e12)
		high *= 2;
	for (int i = 0; i < 60; i++) {
		double t = (low + high) / 2;

		if (incomplete_beta(df / 2, 0.5, df / (df + t * t)) > error)
			low = t;
		else
			high = t;
	}
	return high;
}

/* ---- estimates ----------------------------------------------------------------------------- */

struct trimmed {
	double mean;
	double variance; /* of the mean, for independent rounds */
	double kept;	 /* rounds in the mean */
	double phi;	 /* first autocorrelation of the rounds with the outer ones pulled in */
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* @scratch has room for @n values. */
static struct trimmed trim(const double *value, unsigned int n, double *scratch)
{
	unsigned int cut = n * TRIM + 0.5 > 1 ? n * TRIM + 0.5 : 1;
	struct trimmed t = { .kept = n - 2 * cut };
	double mean = 0, squares = 0, products = 0, last = 0;

	memcpy(scratch, value, n * sizeof(*value));
	qsort(scratch, n, sizeof(*scratch), compare_doubles);
	for (unsigned int i = cut; i < n - cut; i++)
		t.mean += scratch[i] / t.kept;

	double low = scratch[cut], high = scratch[n - cut - 1];

	for (unsigned int i = 0; i < n; i++)
		mean += clamp(value[i], low, high) / n;
	for (unsigned int i = 0; i < n; i++) {
		double x = clamp(value[i], low, high) - mean;

		squares += x * x;
		if (i)
			products += x * last;
		last = x;
	}
	if (t.kept > 1)
		t.variance = squares / (t.kept * (t.kept - 1));
	if (squares > 0)
		t.phi = products / squares;
	return t;
}

bool judge_estimate(const struct judge *judge, double error, struct judge_estimate *estimate)
{
	unsigned int n = judge->rounds;

	if (n < MIN_SAMPLE || !(error > 0))
		return false;
	double *scratch = malloc(n * sizeof(*scratch));

	if (!scratch)
		return false;
	struct trimmed ratio = trim(judge->log_ratio, n, scratch);
	struct trimmed pair = trim(judge->log_pair, n, scratch);

	free(scratch);
	double phi = clamp(ratio.phi + BIAS / n + CAUTION / sqrt(n), 0, MAX_PHI);
	double inflation = (1 + phi) / (1 - phi);
	double half = judge_t_quantile(error, ratio.kept - 1) * sqrt(ratio.variance * inflation);
	/* One pair of equal runs stays inside it 95 times in 100. */
	double band = judge_t_quantile(JUDGE_ERROR, pair.kept - 1) * sqrt(pair.variance * n);

	*estimate = (struct judge_estimate){
		.rounds = n,
		.ratio = exp(ratio.mean),
		.low = exp(ratio.mean - half),
		.high = exp(ratio.mean + half),
		.aa_band = expm1(band),
		.widening = sqrt(inflation),
	};
	return true;
}

double judge_width(const struct judge_estimate *estimate)
{
	return (estimate->high - estimate->low) / estimate->ratio;
}

enum verdict judge_verdict(const struct judge_estimate *estimate, double precision,
			   bool more_is_faster)
{
	/* All of the band for a difference: it must not come of noise, however large that is. */
	double band = log1p(estimate->aa_band);
	/* But a noisy machine is no reason to call more than 5 % nothing. */
	double margin = log1p(fmax(fmin(estimate->aa_band, JUDGE_AA_CAP), precision));
	double low = log(estimate->low), high = log(estimate->high);

	if (estimate->rounds < JUDGE_MIN_ROUNDS)
		return VERDICT_UNDECIDED;
	if (low > 0 && low > band)
		return more_is_faster ? VERDICT_FASTER : VERDICT_SLOWER;
	if (high < 0 && high < -band)
		return more_is_faster ? VERDICT_SLOWER : VERDICT_FASTER;
	if (low >= -margin && high <= margin)
		return VERDICT_NO_DIFFERENCE;
	return VERDICT_UNDECIDED;
}

const char *verdict_name(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_FASTER:
		return "faster";
	case VERDICT_SLOWER:
		return "slower";
	case VERDICT_NO_DIFFERENCE:
		return "no difference";
	case VERDICT_UNDECIDED:
		break;
	}
	return "undecided";
}
