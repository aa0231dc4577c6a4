/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The statistics of a comparison, free of I/O: rounds go in one at a time, a ratio with its
 * interval and a verdict come out.
 *
 * A round has two runs of the control and one of the variant. What is judged is the logarithm of
 * variant over the (geometric) mean of the two controls; what the two controls differ by is the
 * A/A noise, measured in the same rounds.
 *
 * Rounds are looked at more than once and the comparison ends when the interval is narrow enough.
 * That would make an ordinary interval too narrow, so the error of 5 % is spent over the looks: 0.05
 * (n / max_rounds)^2 of it up to round n (the power family of Kim and DeMets, Biometrika 74, 1987).
 * Each look gets what has not been spent yet; their sum bounds the error whatever makes the
 * comparison stop. What was spent is kept with the comparison: whoever looks, goes on and changes
 * max_rounds has only the rest left.
 *
 * The interval at a look is that of the trimmed mean (Yuen, Biometrika 61, 1974): the lowest and
 * highest tenth of the rounds, at least one each, are left out of the mean and pulled in for the
 * variance, so that a run that met somebody else's work does not decide. Rounds that resemble their
 * predecessor carry less than a round's worth of knowledge: the variance is widened by
 * (1 + phi) / (1 - phi). phi is the first autocorrelation, corrected for the bias of -(1 + 4 phi) / n
 * that it has at phi = 0.5 and taken half a standard error, 0.5 / sqrt(n), higher, because few rounds
 * cannot show it.
 */
#ifndef KPOLICY_TOOLS_JUDGE_H
#define KPOLICY_TOOLS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#define JUDGE_MIN_ROUNDS 6u
#define JUDGE_ERROR	 0.05 /* 95 % intervals */
#define JUDGE_AA_CAP	 0.05 /* noise above this never widens 'no difference' further */

/* A look at the rounds that has been taken, and the error that its intervals have. */
struct judge_look {
	unsigned int rounds;
	double error;
};

/* In the order in which they were taken. Zeroed memory is none. */
struct judge_looks {
	struct judge_look *look;
	size_t nr;
};

/* The rounds of one figure of one variant. Zeroed memory is an empty one. */
struct judge {
	double *log_ratio; /* ln(variant / mean of the controls) */
	double *log_pair;  /* ln(control / other control) */
	unsigned int rounds;
	unsigned int room;
};

/* All ratios, not logarithms: 1.02 is 2 % more than the control. */
struct judge_estimate {
	unsigned int rounds;
	double ratio;
	double low, high; /* the interval */
	double aa_band;	  /* half-width, 0.01 for 1 %; not capped */
	double widening;  /* factor on the width for rounds that depend on each other, >= 1 */
};

enum verdict { VERDICT_UNDECIDED, VERDICT_FASTER, VERDICT_SLOWER, VERDICT_NO_DIFFERENCE };

/*
 * Adds a round. Returns 0; -EINVAL when a value is not a positive number: the round is left out;
 * -ENOMEM.
 */
int judge_add(struct judge *judge, double control, double other_control, double variant);
void judge_free(struct judge *judge);

/* Is this number of rounds one at which the comparison may end? 6, 8, 12, 16, 24, 32 ... */
bool judge_is_look(unsigned int rounds, unsigned int max_rounds);

/*
 * The error that an interval after @rounds rounds may have: that of this look if it has been taken,
 * else what is spent up to here and was not spent at the looks before. 0: nothing is left.
 */
double judge_error(const struct judge_looks *looks, unsigned int rounds, unsigned int max_rounds);

/*
 * Takes the look after @rounds rounds: from now on its error is spent. Returns true when it was not
 * taken before. False without memory too, the look not taken.
 */
bool judge_take_look(struct judge_looks *looks, unsigned int rounds, unsigned int max_rounds);
void judge_looks_free(struct judge_looks *looks);

/*
 * May a comparison end now, because its widest interval, @width of its ratio, is narrow enough? The
 * look has to be taken before.
 */
bool judge_may_stop(unsigned int rounds, unsigned int max_rounds, double width, double precision);

/*
 * The estimate from the rounds so far with an interval of the given @error (0.05: 95 %). For one of
 * m figures shown together pass error / m. Returns false, and leaves @estimate alone, with less
 * than 4 rounds or no error left.
 */
bool judge_estimate(const struct judge *judge, double error, struct judge_estimate *estimate);

/* The full width of the interval as a share of the ratio: 0.02 for 2 %. */
double judge_width(const struct judge_estimate *estimate);

/*
 * @precision: full width of the interval that is aimed at, 0.02 for 2 %.
 * @more_is_faster: false for a figure that counts time.
 */
enum verdict judge_verdict(const struct judge_estimate *estimate, double precision,
			   bool more_is_faster);

/* 'faster', 'no difference' ... */
const char *verdict_name(enum verdict verdict);

/* Quantile of Student's t: what |t| exceeds with probability @error; @df need not be whole. */
double judge_t_quantile(double error, double df);

#endif
