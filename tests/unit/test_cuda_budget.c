// SPDX-License-Identifier: GPL-2.0-or-later
/* Targets in steps of 1 ms, watched as the daemon does it. No clock: the results are the same every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_budget.h"

#define MAX_MS 100000

struct target {
	double (*launches)(double ms); /* calls a second, at a time */
	double (*copies)(double ms);   /* NULL: none */
	double (*waits)(double ms);    /* of the copies, that take wait_ns each, the others no time */
	double wait_ns;
	double launch_ns;         /* what a launch takes */
	double phase_ms;          /* added to the time */
	double pair_ns, stack_ns; /* what they cost */
	double cpus;              /* that the target keeps busy */
};

/* A watched target. */
struct run {
	struct cuda_budget *budget;
	struct cuda_budget_cycle cycle;
	struct cuda_budget_plan plan;
	unsigned into_cycle_ms;
	struct cuda_budget_figures figures; /* since the last ones */
	struct cuda_kind_calls calls;       /* counted, since they were last told */
	uint64_t random;
	double carry[6];               /* parts of calls and of stacks */
	double seen, truth, estimated; /* launches; estimated by cycles */
	double cycle_seen;
	unsigned cycle_on_ms;
	uint64_t on_ms;
	unsigned ms;
	unsigned check_ms;
	double cost[MAX_MS], duty[MAX_MS]; /* costs in ms, by ms of time */
	uint32_t launch_stacks[MAX_MS / 1000], wait_stacks[MAX_MS / 1000];
};

static uint64_t next_random(struct run *run)
{
	/* splitmix64: https://prng.di.unimi.it/splitmix64.c (public domain), its constants */
	uint64_t z = run->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Whole ones of a rate per ms. */
static uint64_t whole(double *carry, double n)
{
	double sum = *carry + n, floored = floor(sum);

	*carry = sum - floored;
	return (uint64_t)floored;
}

static void begin_cycle(struct run *run)
{
	if (run->cycle_on_ms)
		run->estimated += run->cycle_seen * run->cycle.factor;
	cuda_budget__cycle(run->budget, next_random(run), &run->cycle);
	run->into_cycle_ms = 0;
	run->cycle_seen = 0;
	run->cycle_on_ms = 0;
}

static bool is_on(const struct run *run)
{
	return run->into_cycle_ms >= run->cycle.off_before_ms &&
	       run->into_cycle_ms < run->cycle.off_before_ms + run->cycle.on_ms;
}

/* The share of calls of that length that have their stack taken: bpf/cuda/cuda.bpf.c, stack_period(). */
static double share_of(const struct run *run, unsigned kind, double ns)
{
	double period = run->plan.stack_period[kind];

	return 1 / (ns > 0 ? fmin(fmax(floor((double)run->plan.stack_time_ns[kind] / ns), 1), period) : period);
}

static void step(struct run *run, const struct target *target)
{
	double at = run->ms + target->phase_ms;
	uint64_t launches = whole(&run->carry[0], target->launches(at) / 1000);
	uint64_t copies = target->copies ? whole(&run->carry[1], target->copies(at) / 1000) : 0;
	uint64_t waits = target->waits ? whole(&run->carry[4], target->waits(at) / 1000) : 0;
	uint64_t launch_stacks, copy_stacks, wait_stacks, stacks;

	run->truth += (double)launches;
	run->figures.elapsed_ns += 1000000;
	run->figures.cpu_ns += (uint64_t)(target->cpus * 1e6);
	run->duty[run->ms] = run->plan.duty;
	if (!is_on(run))
		return;
	launch_stacks =
		whole(&run->carry[2], (double)launches * share_of(run, SO_CUDA_LAUNCH, target->launch_ns));
	copy_stacks = whole(&run->carry[3], (double)copies / run->plan.stack_period[SO_CUDA_COPY]);
	wait_stacks =
		waits ? whole(&run->carry[5], (double)waits * share_of(run, SO_CUDA_COPY, target->wait_ns)) : 0;
	stacks = launch_stacks + copy_stacks + wait_stacks;
	copies += waits;
	run->seen += (double)launches;
	run->cycle_seen += (double)launches;
	run->cycle_on_ms++;
	run->on_ms++;
	run->launch_stacks[run->ms / 1000] += (uint32_t)launch_stacks;
	run->wait_stacks[run->ms / 1000] += (uint32_t)wait_stacks;
	run->calls.ns[SO_CUDA_COPY] +=
		(uint64_t)((double)waits *
			   fmin(target->wait_ns, (double)run->plan.stack_time_ns[SO_CUDA_COPY]));
	run->calls.ns[SO_CUDA_LAUNCH] += (uint64_t)((double)launches * target->launch_ns);
	run->calls.calls[SO_CUDA_LAUNCH] += launches;
	run->calls.calls[SO_CUDA_COPY] += copies;
	run->figures.on_ns += 1000000;
	run->figures.hits += launches + copies;
	run->figures.returns += launches + copies;
	run->figures.stacks += stacks;
	run->figures.stacks_ns += (uint64_t)((double)stacks * target->stack_ns);
	run->cost[run->ms] =
		((double)(launches + copies) * target->pair_ns + (double)stacks * target->stack_ns) * 1e-6;
}

static void look(struct run *run, const struct target *target)
{
	run->figures.pair_ns = target->pair_ns;
	cuda_budget__add(run->budget, &run->figures);
	run->figures = (struct cuda_budget_figures){ 0 };
	if (run->ms % 500 == 499) {
		cuda_budget__add_calls(run->budget, &run->calls);
		run->calls = (struct cuda_kind_calls){ 0 };
	}
	cuda_budget__plan(run->budget, &run->plan);
}

static void watch(struct run *run, const struct target *target, unsigned ms)
{
	for (unsigned end = run->ms + ms; run->ms < end; run->ms++) {
		if (run->into_cycle_ms >= run->cycle.off_before_ms + run->cycle.on_ms + run->cycle.off_after_ms)
			begin_cycle(run);
		step(run, target);
		run->into_cycle_ms++;
		if (run->ms % run->check_ms == run->check_ms - 1)
			look(run, target);
		/* The probes go off at once when there is need. */
		if (is_on(run) && cuda_budget__must_end(run->budget, &run->cycle))
			begin_cycle(run);
	}
}

static struct run *start(double budget_percent, uint64_t seed)
{
	struct run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->random = seed;
	assert_int_equal(cuda_budget__new(budget_percent, &run->budget), 0);
	cuda_budget__plan(run->budget, &run->plan);
	run->check_ms = cuda_budget__check_ms(run->budget);
	begin_cycle(run);
	return run;
}

static void finish(struct run *run)
{
	cuda_budget__free(run->budget);
	free(run);
}

/* The highest cost, in percent, of any 10 s that begin at from_ms or later. */
static double worst(const struct run *run, const struct target *target, unsigned from_ms)
{
	double sum = 0, most = 0;

	for (unsigned ms = from_ms; ms < run->ms; ms++) {
		sum += run->cost[ms];
		if (ms >= from_ms + 10000)
			sum -= run->cost[ms - 10000];
		if (ms >= from_ms + 9999 && sum > most)
			most = sum;
	}
	return 100 * most / (10000 * fmax(target->cpus, 0.01));
}

static double none(double ms)
{
	return 0;
}

static double flat_100000(double ms)
{
	return 100000;
}

static double flat_5000(double ms)
{
	return 5000;
}

static double jump(double ms)
{
	return ms < 20000 ? 1000 : 500000;
}

/* For 20 s. */
static double pulse(double ms)
{
	return ms >= 20000 && ms < 40000 ? 200000 : 500;
}

static double burst_each_second(double ms)
{
	return fmod(ms, 1000) < 100 ? 100000 : 100;
}

static double burst_each_3s(double ms)
{
	return fmod(ms, 3000) < 300 ? 200000 : 0;
}

static double burst_each_20s(double ms)
{
	return fmod(ms, 20000) < 10000 ? 50000 : 0;
}

/* 0.2 % on average, in bursts that would be 10 %. */
static double small_bursts(double ms)
{
	return fmod(ms, 1000) < 20 ? 100000 : 0;
}

static double more_copies(double ms)
{
	return ms < 10000 ? 10 : 3000;
}

static const struct target flat = { .launches = flat_100000, .pair_ns = 1000, .stack_ns = 5000, .cpus = 1 };

static void expect_within(const char *name, const struct target *target, double budget_percent, unsigned ms)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct run *run = start(budget_percent, seed);
		double most;

		watch(run, target, ms);
		most = worst(run, target, 1000);
		if (most > budget_percent)
			fail_msg("%s, seed %d: %.3f %% in 10 s", name, (int)seed, most);
		finish(run);
	}
}

static void test_within_budget(void **state)
{
	static const struct {
		const char *name;
		struct target target;
	} cases[] = {
		{ "flat", { .launches = flat_100000 } },
		{ "jump", { .launches = jump } },
		{ "pulse", { .launches = pulse } },
		{ "each second", { .launches = burst_each_second } },
		{ "each 3 s", { .launches = burst_each_3s } },
		{ "each 20 s", { .launches = burst_each_20s } },
		{ "copies", { .launches = flat_5000, .copies = more_copies } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct target target = cases[i].target;

		target.pair_ns = 1000;
		target.stack_ns = 5000;
		target.cpus = 1;
		expect_within(cases[i].name, &target, 1, 60000);
		target.cpus = 4;
		target.pair_ns = 4000;
		expect_within(cases[i].name, &target, 3, 40000);
	}
}

/* The budget is used, too; and a duty once found stays. */
static void test_flat(void **state)
{
	struct run *run = start(1, 7);
	double sum = 0;

	watch(run, &flat, 60000);
	for (unsigned ms = 2000; ms < run->ms; ms++) {
		sum += run->cost[ms];
		assert_true(run->duty[ms] == run->duty[2000]);
	}
	assert_true(100 * sum / (run->ms - 2000) > 0.65);
	assert_int_equal(run->plan.state, CUDA_BUDGET_DUTY_CYCLE);
	assert_string_equal(cuda_budget__word(run->plan.state), "duty-cycle");
	assert_true(run->plan.duty > 0.05 && run->plan.duty < 0.1);
	/* A duty that is nearly right stays: within FALL_BELOW and RISE_ABOVE of the goal, and below the limit. */
	assert_true(run->plan.overhead_percent > 0.65 && run->plan.overhead_percent < 0.95);
	/* By time, and by cycles, the last of which is not finished. */
	assert_true(fabs(run->seen * run->ms / (double)run->on_ms / run->truth - 1) < 0.001);
	assert_true(fabs(run->estimated / run->truth - 1) < 0.02);
	finish(run);
}

static void test_idle(void **state)
{
	static const struct target idle = { .launches = none, .pair_ns = 1000, .stack_ns = 5000 };
	static const struct target slow = {
		.launches = flat_5000, .pair_ns = 1000, .stack_ns = 5000, .cpus = 1
	};
	struct run *run = start(1, 1);

	watch(run, &idle, 20000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_ALL);
	assert_string_equal(cuda_budget__word(run->plan.state), "all");
	assert_true(run->plan.duty == 1);
	assert_true(run->plan.overhead_percent == 0);
	assert_int_equal(run->plan.stack_period[SO_CUDA_LAUNCH], 1);
	watch(run, &slow, 20000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_ALL);
	assert_true(run->plan.duty == 1);
	assert_in_range(run->plan.stack_period[SO_CUDA_LAUNCH], 25, 30);
	assert_int_equal(run->plan.stack_period[SO_CUDA_SYNC], 1);
	finish(run);
}

static void test_nothing_known(void **state)
{
	struct run *run = start(0, 1);

	assert_int_equal(run->plan.state, CUDA_BUDGET_ALL);
	assert_true(run->plan.duty == 1);
	assert_true(run->plan.overhead_percent == 0);
	assert_int_equal(run->plan.stack_period[SO_CUDA_ALLOC], 1);
	assert_int_equal(run->plan.stack_period[SO_CUDA_LAUNCH], 100);
	cuda_budget__add(run->budget, &(struct cuda_budget_figures){ 0 });
	cuda_budget__add_calls(run->budget, &run->calls);
	cuda_budget__plan(run->budget, &run->plan);
	assert_true(run->plan.duty == 1);
	assert_int_equal(run->check_ms, 20);
	finish(run);
}

/* Bursts that the budget has room for change nothing. */
static void test_small_bursts(void **state)
{
	static const struct target target = {
		.launches = small_bursts, .pair_ns = 1000, .stack_ns = 1000, .cpus = 1
	};
	struct run *run = start(1, 1);

	watch(run, &target, 40000);
	for (unsigned ms = 0; ms < run->ms; ms++)
		assert_true(run->duty[ms] == 1);
	assert_true(run->estimated == run->seen - run->cycle_seen);
	finish(run);
}

/* Launch stacks keep to their rate, and thin out before any call is missed. */
static void test_stacks_first(void **state)
{
	static const struct target cheap = {
		.launches = flat_100000, .pair_ns = 10, .stack_ns = 100, .cpus = 1
	};
	static const struct target dear = {
		.launches = flat_5000, .copies = more_copies, .pair_ns = 100, .stack_ns = 20000, .cpus = 1
	};
	struct run *run = start(1, 1);

	watch(run, &cheap, 20000);
	for (unsigned s = 2; s < 20; s++)
		assert_in_range(run->launch_stacks[s], 160, 201);
	assert_int_equal(run->plan.state, CUDA_BUDGET_ALL);
	finish(run);

	run = start(1, 1);
	watch(run, &dear, 40000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_FEWER_STACKS);
	assert_string_equal(cuda_budget__word(run->plan.state), "fewer-stacks");
	for (unsigned ms = 0; ms < run->ms; ms++)
		assert_true(run->duty[ms] == 1);
	assert_true(run->plan.stack_period[SO_CUDA_COPY] > 5);
	assert_true(run->plan.stack_period[SO_CUDA_LAUNCH] > 25);
	assert_true(worst(run, &dear, 1000) <= 1);
	finish(run);
}

static double few_copies(double ms)
{
	return 40;
}

/* Of kinds that are thinned together the rare one keeps more of its stacks, in a duty cycle as well; and no more than eight times as many. */
static void test_rare_kinds_keep_their_stacks(void **state)
{
	static const struct target few = {
		.launches = flat_5000, .copies = few_copies, .pair_ns = 100, .stack_ns = 60000, .cpus = 1
	};
	static const struct target busy = {
		.launches = flat_100000, .copies = few_copies, .pair_ns = 1000, .stack_ns = 60000, .cpus = 1
	};
	struct run *run = start(1, 1);
	const uint32_t *period = run->plan.stack_period;

	/* 116 stacks a second may be taken; of 200 launches and 40 copies that is 76 and all. */
	watch(run, &few, 20000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_FEWER_STACKS);
	assert_int_equal(period[SO_CUDA_COPY], 1);
	assert_true(period[SO_CUDA_LAUNCH] > 50);
	assert_true(worst(run, &few, 1000) <= 1);
	finish(run);

	run = start(1, 1);
	period = run->plan.stack_period;
	watch(run, &busy, 20000);
	assert_true(run->plan.duty < 1);
	assert_true(period[SO_CUDA_COPY] < period[SO_CUDA_LAUNCH] / 6);
	assert_true(worst(run, &busy, 1000) <= 1);
	finish(run);
}

static double ten(double ms)
{
	return 10;
}

/* From 20 s on all of the time goes to waits. */
static double ten_then_two_hundred(double ms)
{
	return ms < 20000 ? 10 : 200;
}

static double flat_20000(double ms)
{
	return 20000;
}

static const struct target rare_waits = { .launches = none,
					  .copies = flat_20000,
					  .waits = ten,
					  .wait_ns = 5e6,
					  .pair_ns = 100,
					  .stack_ns = 40000,
					  .cpus = 1 };

/*
 * Ten waits of 5 ms a second are 5 % of a target's time, and one in two thousand copies: they keep most of their stacks. When they
 * become all that it does, they cost no more than the budget.
 */
static void test_long_calls_keep_their_stacks(void **state)
{
	struct target busy = rare_waits, rising = rare_waits;
	struct run *run = start(1, 1);
	double seen = 0;

	busy.pair_ns = 3000;
	rising.waits = ten_then_two_hundred;
	watch(run, &rare_waits, 20000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_FEWER_STACKS);
	assert_true(run->plan.stack_period[SO_CUDA_COPY] > 100);
	for (unsigned s = 5; s < 20; s++)
		assert_in_range(run->wait_stacks[s], 8, 10);
	assert_true(worst(run, &rare_waits, 1000) <= 1);
	finish(run);

	/* Of those that a duty cycle sees, a third at least. */
	run = start(1, 1);
	watch(run, &busy, 60000);
	assert_int_equal(run->plan.state, CUDA_BUDGET_DUTY_CYCLE);
	assert_true(run->plan.stack_period[SO_CUDA_COPY] > 20);
	for (unsigned s = 5; s < 60; s++)
		seen += run->wait_stacks[s];
	assert_true(seen > 10 * 55 * run->plan.duty / 3);
	assert_true(worst(run, &busy, 1000) <= 1);
	finish(run);

	run = start(1, 1);
	watch(run, &rising, 60000);
	assert_true(run->plan.stack_time_ns[SO_CUDA_COPY] > 5000000);
	assert_true(run->wait_stacks[59] > 30);
	assert_true(worst(run, &rising, 1000) <= 1);
	finish(run);
}

/* Launches that fill half of a target's time have the stacks that they had, and no more for their time. */
static void test_time_of_stacks_is_bounded(void **state)
{
	static const struct target loop = {
		.launches = flat_100000, .launch_ns = 5000, .pair_ns = 10, .stack_ns = 100, .cpus = 1
	};
	struct run *run = start(1, 1);

	watch(run, &loop, 20000);
	assert_in_range(run->plan.stack_time_ns[SO_CUDA_LAUNCH], 1000000, 10000000);
	for (unsigned s = 4; s < 20; s++)
		assert_in_range(run->launch_stacks[s], 160, 260);
	finish(run);
}

/* The duty falls within 1 s of a rise, and rises slowly when that is over. */
static void test_recovery(void **state)
{
	static const struct target target = { .launches = pulse, .pair_ns = 1000, .stack_ns = 5000, .cpus = 1 };
	struct run *run = start(1, 3);

	watch(run, &target, 90000);
	assert_true(run->duty[19999] == 1);
	assert_true(run->duty[21000] < 0.2);
	assert_true(run->duty[40000] < 0.05);
	for (unsigned ms = 40000; ms + 1000 < run->ms; ms++)
		assert_true(run->duty[ms + 1000] <= 1.3 * run->duty[ms]);
	assert_true(run->duty[80000] == 1);
	assert_int_equal(run->plan.state, CUDA_BUDGET_ALL);
	assert_true(fabs(run->estimated / run->truth - 1) < 0.05);
	finish(run);
}

/* Looked at every 0.5 s only, a jump has cost too much before it is seen; then, it is held down. */
static void test_rare_looks(void **state)
{
	static const struct target target = { .launches = jump, .pair_ns = 1000, .stack_ns = 1000, .cpus = 1 };
	struct run *run = start(1, 3);

	run->check_ms = 500;
	watch(run, &target, 60000);
	assert_true(run->duty[20501] == 0.004);
	assert_true(worst(run, &target, 21000) <= 1);
	finish(run);
}

/*
 * A loop that only calls: while the probes are on, they take nearly all of its time. Of the lowest budgets two or three times on in 10 s
 * may be more; not of a minute.
 */
static void test_nearly_all_of_the_time(void **state)
{
	static const struct target loop = {
		.launches = flat_100000, .pair_ns = 9500, .stack_ns = 5000, .cpus = 1
	};
	static const double budgets[] = { 3, 1, 0.5, 0.2, 0.1 };

	for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct run *run = start(budgets[i], 3);
		double most, sum = 0;

		watch(run, &loop, 60000);
		most = worst(run, &loop, 1000);
		for (unsigned ms = 1000; ms < run->ms; ms++)
			sum += 100 * run->cost[ms] / (run->ms - 1000);
		print_message("budget %g %%: duty %.4f, %.3f %%, at most %.3f %% of 10 s\n", budgets[i],
			      run->plan.duty, sum, most);
		assert_true(sum <= budgets[i]);
		assert_true(most <= fmax(budgets[i], 0.3));
		finish(run);
	}
}

/* Estimates of periodic targets by cycles: their mean over many seeds lies where it must by its own spread. */
static void test_unbiased(void **state)
{
	static const struct {
		const char *name;
		double (*launches)(double ms);
		double period_ms;
	} cases[] = {
		{ "each second", burst_each_second, 1000 },
		{ "each 3 s", burst_each_3s, 3000 },
		{ "each 20 s", burst_each_20s, 20000 },
	};
	enum { SEEDS = 20 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double sum = 0, squares = 0, mean, error;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct target target = {
				.launches = cases[i].launches, .pair_ns = 1000, .stack_ns = 5000, .cpus = 1
			};
			struct run *run = start(1, seed * 1000);
			double estimate;

			target.phase_ms = floor(cases[i].period_ms * (double)seed / SEEDS);
			watch(run, &target, 60000);
			/* Only whole cycles are estimated. */
			estimate = (run->estimated + run->cycle_seen * run->cycle.factor) / run->truth;
			sum += estimate;
			squares += estimate * estimate;
			finish(run);
		}
		mean = sum / SEEDS;
		error = sqrt((squares / SEEDS - mean * mean) / (SEEDS - 1));
		if (error > 0.04 || fabs(mean - 1) > 3 * error + 0.005)
			fail_msg("%s: %.4f +- %.4f", cases[i].name, mean, error);
	}
}

/* A cycle's parts add up to the duty, and meet each moment of a period equally often. */
static void test_cycles(void **state)
{
	static const unsigned periods[] = { 50, 100, 250, 333, 1000 };
	struct run *run = start(1, 5);
	struct cuda_budget_cycle cycle;

	cuda_budget__cycle(run->budget, 0, &cycle);
	assert_int_equal(cycle.off_before_ms + cycle.off_after_ms, 0);
	assert_int_equal(cycle.on_ms, CUDA_BUDGET_STEADY_ON_MS);
	assert_true(cycle.factor == 1 && cycle.duty == 1);
	assert_false(cuda_budget__must_end(run->budget, &cycle));
	watch(run, &flat, 10000);
	assert_true(cuda_budget__must_end(run->budget, &cycle));
	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
		_cleanup_free_ double *met = calloc(10, sizeof(*met));
		double on = 0, time = 0;

		for (unsigned n = 0; n < 60000; n++) {
			unsigned begin, total;

			cuda_budget__cycle(run->budget, next_random(run), &cycle);
			total = cycle.off_before_ms + cycle.on_ms + cycle.off_after_ms;
			assert_true(cycle.on_ms >= CUDA_BUDGET_MIN_ON_MS);
			assert_true(fabs(cycle.factor - (double)total / cycle.on_ms) < 1e-9);
			assert_true(fabs(cycle.duty - run->plan.duty) < 1e-12);
			begin = (unsigned)fmod(time, periods[i]) + cycle.off_before_ms;
			for (unsigned ms = 0; ms < cycle.on_ms; ms++)
				met[(begin + ms) % periods[i] * 10 / periods[i]]++;
			on += cycle.on_ms;
			time += total;
		}
		assert_true(fabs(on / time - run->plan.duty) < 1e-6);
		/* Tenths of the period; those of 333 ms are not all of one length. */
		for (unsigned tenth = 0; tenth < 10; tenth++) {
			unsigned length = ((tenth + 1) * periods[i] + 9) / 10 - (tenth * periods[i] + 9) / 10;

			if (fabs(met[tenth] / on * periods[i] / length - 1) > 0.05)
				fail_msg("tenth %u of %u ms: %.3f", tenth, periods[i], met[tenth] / on);
		}
	}
	assert_false(cuda_budget__must_end(run->budget, &cycle));
	finish(run);
}

/* Figures of a target whose probes cost so much a second while all are on, of which some stay on. */
static void spend(struct run *run, double duty, double cycled_ms, double steady_ms)
{
	const struct cuda_budget_figures figures = {
		.elapsed_ns = 20000000,
		.on_ns = (uint64_t)(20e6 * duty),
		.cpu_ns = 20000000,
		.hits = (uint64_t)(20 * (cycled_ms * duty + steady_ms)),
		.returns = (uint64_t)(20 * (cycled_ms * duty + steady_ms)),
		.steady_ns = (uint64_t)(20e3 * steady_ms),
		.cycled = 1u << SO_CUDA_LAUNCH,
		.pair_ns = 1000,
	};

	cuda_budget__add(run->budget, &figures);
	cuda_budget__plan(run->budget, &run->plan);
}

/*
 * Probes that stay on cost the same at any duty. Taken for cost of the time on, they would seem the dearer the lower the duty is,
 * and it would fall to its least.
 */
static void test_probes_that_stay(void **state)
{
	struct run *run = start(1, 7);

	/* 200 ms a second with all probes on, and 2 ms for those that stay: 5.5 ms of the goal are left for the others. */
	for (unsigned i = 0; i < 50 * 60; i++)
		spend(run, run->plan.duty, 198, 2);
	assert_true(run->plan.duty > 0.02 && run->plan.duty < 0.04);
	assert_true(run->plan.overhead_percent > 0.6 && run->plan.overhead_percent <= 0.95);
	/* They cost more than all: the others still have a third of it, lest they be hardly seen. */
	for (unsigned i = 0; i < 50 * 60; i++)
		spend(run, run->plan.duty, 190, 10);
	assert_true(run->plan.duty > 0.011 && run->plan.duty < 0.02);
	assert_true(run->plan.overhead_percent > 1);
	finish(run);
}

/* Stacks of calls whose probes stay have a share of their own, whatever the duty is; those of the time on what they had. */
static void test_stacks_of_probes_that_stay(void **state)
{
	struct run *run = start(1, 7);
	double taken = 1;

	for (unsigned i = 0; i < 50 * 60; i++) {
		const uint32_t cycled = i < 50 ? 0 : 1u << SO_CUDA_LAUNCH;
		const double duty = run->plan.duty;
		const struct cuda_budget_figures figures = {
			.elapsed_ns = 20000000,
			.on_ns = (uint64_t)(20e6 * duty),
			.cpu_ns = 20000000,
			.hits = (uint64_t)(20 * 200 * duty),
			.returns = (uint64_t)(20 * 200 * duty),
			.pair_ns = 1000,
			/* 100 waits a second, a stack of 60 us for each: 6 ms, four times what may be taken for them. */
			.stacks_ns = (uint64_t)(20e3 * 6 * taken),
			.steady_stacks_ns = (uint64_t)(20e3 * 6 * taken),
			.cycled = cycled,
		};

		cuda_budget__add(run->budget, &figures);
		cuda_budget__plan(run->budget, &run->plan);
		taken = 1.0 / run->plan.stack_period[SO_CUDA_SYNC];
	}
	assert_true(run->plan.stack_period[SO_CUDA_SYNC] >= 4 && run->plan.stack_period[SO_CUDA_SYNC] <= 6);
	assert_true(run->plan.duty > 0.02 && run->plan.duty < 0.05);
	assert_true(run->plan.overhead_percent > 0.6 && run->plan.overhead_percent <= 0.95);
	finish(run);
}

/* Where switching is slow, times on and cycles are as many times longer, and the duty is what it would be. */
static void test_stretched(void **state)
{
	struct run *run = start(1, 7);
	struct cuda_budget_cycle cycle;
	double on = 0, time = 0;

	cuda_budget__stretch(run->budget, 10);
	watch(run, &flat, 10000);
	assert_true(run->plan.duty < 1);
	for (unsigned n = 0; n < 10000; n++) {
		unsigned total;

		cuda_budget__cycle(run->budget, next_random(run), &cycle);
		total = cycle.off_before_ms + cycle.on_ms + cycle.off_after_ms;
		assert_true(cycle.on_ms >= 10 * CUDA_BUDGET_MIN_ON_MS);
		assert_true(total + 1 >= 25 * CUDA_BUDGET_MIN_ON_MS);
		on += cycle.on_ms;
		time += total;
	}
	assert_true(fabs(on / time - run->plan.duty) < 1e-6);
	finish(run);
}

/* All of the time may be taken: probes that cost more than the target itself still see every call. */
static void test_no_limit(void **state)
{
	static const struct target costly = {
		.launches = flat_100000, .pair_ns = 20000, .stack_ns = 50000, .cpus = 1
	};
	struct run *run = start(100, 3);

	watch(run, &costly, 5000);
	assert_true(run->plan.state == CUDA_BUDGET_ALL);
	assert_true(run->plan.duty == 1);
	assert_true(run->seen == run->truth);
	assert_int_equal(run->plan.stack_period[SO_CUDA_SYNC], 1);
	assert_int_equal(run->plan.stack_period[SO_CUDA_COPY], 1);
	finish(run);
}

/* Nested entries and lonely returns have their costs. */
static void test_costs(void **state)
{
	_cleanup_(cuda_budget) struct cuda_budget *budget = NULL;
	struct cuda_budget_plan plan;

	assert_int_equal(cuda_budget__new(50, &budget), 0);
	assert_int_equal(cuda_budget__check_ms(budget), 250);
	cuda_budget__add(budget, &(struct cuda_budget_figures){ .elapsed_ns = 1000000000,
								.on_ns = 1000000000,
								.cpu_ns = 2000000000,
								.hits = 1500,
								.nested = 500,
								.returns = 2000,
								.stacks = 10,
								.stacks_ns = 1000000,
								.pair_ns = 1000,
								.nested_ns = 400 });
	cuda_budget__plan(budget, &plan);
	assert_true(fabs(plan.overhead_percent - 100 * (2000 * 1e-6 + 500 * 0.4e-6 + 1e-3) / 2) < 1e-9);
	/* An idle second: the CPU time is taken to be 10 ms. */
	cuda_budget__add(budget,
			 &(struct cuda_budget_figures){ .elapsed_ns = 1000000000, .on_ns = 1000000000 });
	cuda_budget__plan(budget, &plan);
	assert_true(fabs(plan.overhead_percent - 100 * 3.2e-3 / 2.01) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_flat),
		cmocka_unit_test(test_within_budget),
		cmocka_unit_test(test_small_bursts),
		cmocka_unit_test(test_stacks_first),
		cmocka_unit_test(test_rare_kinds_keep_their_stacks),
		cmocka_unit_test(test_long_calls_keep_their_stacks),
		cmocka_unit_test(test_time_of_stacks_is_bounded),
		cmocka_unit_test(test_recovery),
		cmocka_unit_test(test_rare_looks),
		cmocka_unit_test(test_nearly_all_of_the_time),
		cmocka_unit_test(test_unbiased),
		cmocka_unit_test(test_cycles),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_probes_that_stay),
		cmocka_unit_test(test_stacks_of_probes_that_stay),
		cmocka_unit_test(test_stretched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
