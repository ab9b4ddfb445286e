// SPDX-License-Identifier: GPL-2.0-or-later
/* Times on of targets of which it is known what they do with the time that probes take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/cuda/cuda_progress.h"
#include "tests/unit/random_unit.h"

#define SLICE_NS   524288.0
#define LIGHT      10
#define FULL       20
#define LIGHT_NS   1300.0
#define ALL_NS     4000.0
#define RECORDINGS 300

struct target {
	double own_ns;  /* from call to call, without probes */
	double dearer;  /* × what the probes are told to cost */
	bool waits;     /* until it is time for the next call */
	double noise;   /* of a slice: at most so much quicker or slower */
	unsigned phase; /* so many slices with calls, and half as many without; 0: there are none */
};

/* Hits of a slice whose probes cost cost_ns a call. */
static __u64 hits(const struct target *t, double cost_ns, unsigned at)
{
	double period = t->waits ? fmax(t->own_ns, cost_ns * t->dearer) : t->own_ns + cost_ns * t->dearer;

	if (t->phase && at % (t->phase + t->phase / 2) >= t->phase)
		return 0;
	return (__u64)(SLICE_NS / period * (1 + t->noise * (2 * unit() - 1)) + unit());
}

static bool compare(const struct target *t, struct cuda_kept *kept)
{
	__u64 all[LIGHT + FULL];
	struct cuda_slices slices = { all, 0, LIGHT, LIGHT, LIGHT + FULL, 0, 0 };
	unsigned begin = (unsigned)(unit() * 1000);

	for (unsigned i = 0; i < LIGHT + FULL; i++)
		all[i] = hits(t, i < LIGHT ? LIGHT_NS : ALL_NS, begin + i);
	return cuda_progress__compare(&slices, LIGHT_NS, ALL_NS, kept);
}

static const struct cuda_loss prior = { 1, CUDA_PROGRESS_PRIOR_ERROR, 0 };

static struct cuda_progress watched(const struct target *t, unsigned times)
{
	double taken = ALL_NS / (t->waits ? t->own_ns : t->own_ns + ALL_NS * t->dearer);
	struct cuda_progress progress = { 0 };
	struct cuda_kept kept;

	for (unsigned i = 0; i < times; i++) {
		cuda_progress__age(&progress);
		if (compare(t, &kept))
			cuda_progress__add(&progress, &kept, taken);
	}
	return progress;
}

static struct cuda_loss after(const struct target *t, unsigned times)
{
	struct cuda_progress progress = watched(t, times);

	return cuda_progress__loss(&progress, &prior);
}

/* The share of recordings in which the factor is within twice its error, and both on average. */
static double within(const struct target *t, unsigned times, double truth, double *factor, double *error)
{
	unsigned n = 0;

	*factor = *error = 0;
	for (unsigned i = 0; i < RECORDINGS; i++) {
		struct cuda_loss loss = after(t, times);

		n += fabs(loss.factor - truth) <= 2 * loss.error;
		*factor += loss.factor / RECORDINGS;
		*error += loss.error / RECORDINGS;
	}
	return (double)n / RECORDINGS;
}

#define STEP_CALLS 40
#define STEP_NS    1e6

/* Steps of calls in quick succession and a sleep: for so long, or until it is time for the next step. Two threads do so. */
static bool compare_steps(bool waits, struct cuda_kept *kept)
{
	__u64 all[LIGHT + FULL] = { 0 };
	struct cuda_slices slices = { all, 0, LIGHT, LIGHT, LIGHT + FULL, 0, 0 };

	for (unsigned thread = 0; thread < 2; thread++) {
		double step = -STEP_NS * unit();

		while (step < (LIGHT + FULL) * SLICE_NS) {
			double at = step;

			for (unsigned i = 0; i < STEP_CALLS; i++) {
				if (at >= 0 && at < (LIGHT + FULL) * SLICE_NS)
					all[(unsigned)(at / SLICE_NS)]++;
				at += at < LIGHT * SLICE_NS ? LIGHT_NS : ALL_NS;
			}
			step = waits ? step + STEP_NS : at + STEP_NS * (0.95 + 0.1 * unit());
		}
	}
	return cuda_progress__compare(&slices, LIGHT_NS, ALL_NS, kept);
}

/* Each comparison is of few steps; that many of them agree tells more than each says. */
static void steps_may_be_as_short_as_slices(void **state)
{
	double taken = STEP_CALLS * ALL_NS / (STEP_NS + STEP_CALLS * ALL_NS);

	for (unsigned waits = 0; waits < 2; waits++) {
		double factor = 0, error = 0, truth = waits ? 0 : 0.5;
		unsigned n = 0;

		for (unsigned i = 0; i < RECORDINGS; i++) {
			struct cuda_progress progress = { 0 };
			struct cuda_loss loss;
			struct cuda_kept kept;

			for (unsigned time = 0; time < 50; time++) {
				cuda_progress__age(&progress);
				if (compare_steps(waits, &kept))
					cuda_progress__add(&progress, &kept, 2 * taken);
			}
			loss = cuda_progress__loss(&progress, &prior);
			n += fabs(loss.factor - truth) <= 2 * loss.error;
			factor += loss.factor / RECORDINGS;
			error += loss.error / RECORDINGS;
		}
		print_message("%s: loss %.2f, told within %.2f, %.2f of them so\n", waits ? "waits" : "works",
			      factor, 2 * error, (double)n / RECORDINGS);
		assert_true(fabs(factor - truth) < 0.2 && 2 * error < 0.35 && n > 0.85 * RECORDINGS);
	}
}

static void nothing_is_known_at_first(void **state)
{
	struct cuda_progress none = { 0 };
	struct cuda_loss loss = cuda_progress__loss(&none, &prior);

	assert_true(loss.factor == 1 && loss.error == CUDA_PROGRESS_PRIOR_ERROR);
	cuda_progress__age(&none);
	assert_true(cuda_progress__loss(&none, &prior).factor == 1);
}

static void who_waits_loses_nothing(void **state)
{
	struct target t = { .own_ns = 10000, .dearer = 1, .waits = true, .noise = 0.05 };
	struct cuda_loss loss = after(&t, 1);

	/* One time on is enough to tell. */
	assert_true(loss.factor < 0.2 && loss.error < 0.25);
	loss = after(&t, 20);
	assert_true(loss.factor < 0.1 && loss.error < 0.1);
}

static void who_works_loses_all(void **state)
{
	struct target t = { .own_ns = 10000, .dearer = 1, .noise = 0.1 };
	double factor, error;

	assert_true(within(&t, 20, 1, &factor, &error) > 0.9);
	assert_true(fabs(factor - 1) < 0.05 && error < 0.15);
	/* A loop that does nothing but call. */
	t.own_ns = 300;
	assert_true(within(&t, 20, 1, &factor, &error) > 0.9);
	assert_true(fabs(factor - 1) < 0.1 && error < 0.3);
}

static void probes_may_be_dearer_than_calibrated(void **state)
{
	struct target t = { .own_ns = 10000, .dearer = 1.35, .noise = 0.1 };
	double factor, error;

	/* Pulled towards what was calibrated, and within what is told. */
	assert_true(within(&t, 20, 1.35, &factor, &error) > 0.9);
	assert_true(factor > 1.2 && factor < 1.4);
}

static void phases_make_it_less_sure(void **state)
{
	struct target even = { .own_ns = 30000, .dearer = 1, .noise = 0.1 }, phases = even;
	double factor, even_error, error, used = 0;

	/* 42 ms of calls in 63: most times on lie within, those at its ends are left out or count little. */
	phases.phase = 80;
	for (unsigned i = 0; i < RECORDINGS; i++)
		used += watched(&phases, 20).n / RECORDINGS;
	assert_true(used > 4 && used < 14);
	within(&even, 20, 1, &factor, &even_error);
	assert_true(within(&phases, 20, 1, &factor, &error) > 0.85);
	assert_true(fabs(factor - 1) < 0.15 && error > 1.2 * even_error && error < 0.4);
	/* Where no time on is without such an end nothing is told, rather than something wrong. */
	phases.phase = 12;
	assert_true(within(&phases, 20, 1, &factor, &error) > 0.95);
}

/* Without comparisons it becomes less sure little by little. */
static void what_was_compared_once_is_kept(void **state)
{
	struct target waits = { .own_ns = 10000, .dearer = 1, .waits = true, .noise = 0.05 };
	struct cuda_progress progress = watched(&waits, 1);
	struct cuda_loss before = cuda_progress__loss(&progress, &prior), now;

	cuda_progress__age(&progress);
	now = cuda_progress__loss(&progress, &prior);
	assert_true(now.error > before.error && now.error < before.error + 0.02);
	assert_true(now.factor < before.factor + 0.02);
	for (unsigned i = 0; i < 300; i++)
		cuda_progress__age(&progress);
	now = cuda_progress__loss(&progress, &prior);
	assert_true(now.factor > 0.9 && now.error > 0.9 * CUDA_PROGRESS_PRIOR_ERROR);
}

static void what_no_loss_explains_is_left_out(void **state)
{
	struct target t = { .own_ns = 10000, .dearer = 1, .noise = 0.05 };
	double taken = ALL_NS / (t.own_ns + ALL_NS);
	struct cuda_progress progress = { 0 };
	struct cuda_kept kept;
	struct cuda_loss loss;

	assert_true(compare(&t, &kept));
	cuda_progress__add(&progress, &kept, taken);
	kept.share = -0.5;
	cuda_progress__add(&progress, &kept, taken);
	kept.share = 2;
	cuda_progress__add(&progress, &kept, taken);
	/* As well as what tells nothing. */
	kept = (struct cuda_kept){ 1, 0.9 };
	cuda_progress__add(&progress, &kept, taken);
	assert_true(progress.n == 1);
	/* Eight threads seem to make the calls, and lose as much as one that makes them all: they wait for a lock. */
	kept = (struct cuda_kept){ 1 - taken, 0.02 };
	progress = (struct cuda_progress){ 0 };
	for (unsigned i = 0; i < 20; i++)
		cuda_progress__add(&progress, &kept, taken);
	loss = cuda_progress__loss(&progress, &(struct cuda_loss){ 0.125, 0.44, 0 });
	assert_true(fabs(loss.factor - 1) < 0.05 && loss.error >= loss.chance && loss.error > 0.05);
}

static void what_is_old_counts_less(void **state)
{
	struct target works = { .own_ns = 10000, .dearer = 1, .noise = 0.05 }, waits = works;
	struct cuda_progress progress = { 0 };
	struct cuda_kept kept;

	waits.waits = true;
	for (unsigned i = 0; i < 300; i++) {
		cuda_progress__age(&progress);
		assert_true(compare(i < 100 ? &works : &waits, &kept));
		cuda_progress__add(&progress, &kept, 0.3);
	}
	assert_true(cuda_progress__loss(&progress, &prior).factor < 0.1);
}

/* Where the target waits in between: how quickly calls follow one another in bursts, or, of short ones, in the time that is left. */
static void bursts_are_compared(void **state)
{
	static const __u64 bursts[20] = { 0, 0,  20, 50, 50, 50, 50, 50, 30, 0,
					  0, 35, 40, 40, 40, 40, 40, 10, 0,  0 },
			   crumbs[20] = {
				   24, 0, 26, 0, 25, 0, 24, 0, 26, 0, 0, 19, 0, 21, 0, 20, 0, 19, 0, 21
			   };
	struct cuda_slices slices = { bursts, 0, 10, 10, 20, 0.35, 0.35 };
	struct cuda_kept kept;

	assert_true(cuda_progress__compare(&slices, 1000, 4000, &kept));
	assert_true(fabs(kept.share - (0.8 - 0.2 / 3)) < 1e-9 && kept.error < 0.06);
	slices = (struct cuda_slices){ crumbs, 0, 10, 10, 20, 0.5, 0.5 };
	assert_true(cuda_progress__compare(&slices, 1000, 4000, &kept));
	assert_true(fabs(kept.share - (0.8 - 0.2 / 3)) < 1e-9);
	/* Half of the second time was waited, which is why it has half of the hits. */
	slices = (struct cuda_slices){ crumbs, 0, 10, 11, 20, 0.5, 0.75 };
	assert_true(cuda_progress__compare(&slices, 1000, 4000, &kept));
	assert_true(kept.share > 1.3);
	slices = (struct cuda_slices){ bursts, 0, 10, 17, 20, 0.35, 0.9 };
	assert_false(cuda_progress__compare(&slices, 1000, 4000, &kept));
}

static void there_may_be_nothing_to_compare(void **state)
{
	static const __u64 many[20] = { 50, 50, 50, 50, 50, 50, 50, 50, 50, 50,
					40, 40, 40, 40, 40, 40, 40, 40, 40, 40 };
	static const __u64 none[20];
	struct cuda_slices slices = { many, 0, 10, 10, 20, 0, 0 };
	struct cuda_kept kept;

	assert_true(cuda_progress__compare(&slices, 1000, 4000, &kept));
	assert_true(fabs(kept.share - (0.8 - 0.2 / 3)) < 1e-9);
	assert_false(cuda_progress__compare(&slices, 1000, 1200, &kept));
	assert_false(cuda_progress__compare(&slices, 0, 4000, &kept));
	slices.light_to = 3;
	assert_false(cuda_progress__compare(&slices, 1000, 4000, &kept));
	slices = (struct cuda_slices){ many, 0, 10, 19, 20, 0, 0 };
	assert_false(cuda_progress__compare(&slices, 1000, 4000, &kept));
	/* A time on that ended before it began, by the clock of slices. */
	slices = (struct cuda_slices){ many, 5, 4, 20, 19, 0, 0 };
	assert_false(cuda_progress__compare(&slices, 1000, 4000, &kept));
	slices = (struct cuda_slices){ none, 0, 10, 10, 20, 0, 0 };
	assert_false(cuda_progress__compare(&slices, 1000, 4000, &kept));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(steps_may_be_as_short_as_slices),
		cmocka_unit_test(who_waits_loses_nothing),
		cmocka_unit_test(who_works_loses_all),
		cmocka_unit_test(probes_may_be_dearer_than_calibrated),
		cmocka_unit_test(phases_make_it_less_sure),
		cmocka_unit_test(what_was_compared_once_is_kept),
		cmocka_unit_test(what_no_loss_explains_is_left_out),
		cmocka_unit_test(what_is_old_counts_less),
		cmocka_unit_test(bursts_are_compared),
		cmocka_unit_test(there_may_be_nothing_to_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
