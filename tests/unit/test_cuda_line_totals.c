// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines of made-up stacks, against the calls that they are of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "daemon/cuda/cuda_line_totals.h"
#include "tests/unit/random_unit.h"

enum { COPY, LAUNCH, QUIET, GROUPS };

/* 10 ns and 100 bytes a call. */
static struct cuda_line_share line(uint32_t group, double calls, double seen)
{
	return (struct cuda_line_share){ .group = group,
					 .all = { calls, 10 * calls, 100 * calls },
					 .seen = { seen, 10 * seen, 100 * seen } };
}

static void assert_figures(const struct cuda_line_share *l, double calls, double ns, double bytes)
{
	if (fabs(l->all.calls - calls) > 1e-6 || fabs(l->all.total_ns - ns) > 1e-6 ||
	    fabs(l->all.bytes - bytes) > 1e-6)
		fail_msg("%f calls, %f ns, %f bytes", l->all.calls, l->all.total_ns, l->all.bytes);
}

static void apply(struct cuda_line_share *lines, size_t n, const struct cuda_line_figures counted[GROUPS])
{
	assert_int_equal(cuda_line_totals__apply(lines, n, counted, GROUPS), 0);
}

/*
 * What chance has made of sums becomes what was counted, of each figure and each API; what is known call by call stays.
 */
static void lines_add_up(void **state)
{
	/*
	 * Lines tell of 127 copies, and 244 were made. 80 of 2 stacks vary as 80 x 78 / 2 = 3120, 40 of one as 40 x 39
	 * = 1560.
	 */
	static const struct cuda_line_figures counted[GROUPS] = {
		[COPY] = { 244, 1270, 6000 },
		/* Many have no stack, but none stands for another: they are of lines that are not here. */
		[LAUNCH] = { 13, 130, 0 },
	};
	struct cuda_line_share lines[] = { line(COPY, 80, 2),  line(COPY, 40, 1),  line(COPY, 7, 7),
					   line(LAUNCH, 5, 5), line(LAUNCH, 3, 3), line(GROUPS, 9, 1),
					   line(COPY, 0, 0),   line(QUIET, 9, 1) };

	for (unsigned twice = 0; twice < 2; twice++) {
		apply(lines, sizeof(lines) / sizeof(lines[0]), counted);
		assert_figures(&lines[0], 80 + 78, 800, 8000 - 6700.0 * 2 / 3);
		assert_figures(&lines[1], 40 + 39, 400, 4000 - 6700.0 / 3);
		assert_figures(&lines[2], 7, 70, 700);
		assert_figures(&lines[3], 5, 50, 500);
		assert_figures(&lines[4], 3, 30, 300);
		assert_figures(&lines[5], 9, 90, 900);
		assert_figures(&lines[6], 0, 0, 0);
		assert_figures(&lines[7], 9, 90, 900);
	}
	apply(NULL, 0, counted);
}

/*
 * Stacks were fewer for a moment, and none of its few calls had one: each line's stacks stand for their own calls
 * alone, and a few are missing. They are of any of the lines. Of many that are missing, or of none, nothing is shared
 * out.
 */
static void a_few_calls_without_stacks_are_of_any_line(void **state)
{
	static const struct cuda_line_figures counted[GROUPS] = {
		[COPY] = { 73, 800, 7300 },
		[LAUNCH] = { 1000, 10000, 0 },
	};
	struct cuda_line_share copies[] = { line(COPY, 60, 60), line(COPY, 10, 10) },
			       few[] = { line(COPY, 69, 69) }, many[] = { line(COPY, 68, 68) },
			       launches[] = { line(LAUNCH, 600, 600), line(LAUNCH, 310, 310) },
			       whole[] = { line(COPY, 73, 73) }, ones[10], one[] = { line(COPY, 1, 1) },
			       long_one[] = { line(COPY, 2, 2) };

	/* What comes to less than a half of a call is none. */
	apply(copies, 2, counted);
	assert_figures(&copies[0], 60 * 73 / 70.0, 600 * 800 / 700.0, 6000 * 7300 / 7000.0);
	assert_figures(&copies[1], 10, 100, 1000);
	copies[0] = line(COPY, 60, 60);
	apply(copies, 2, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 77, 1400, 7000 } });
	assert_figures(&copies[0], 66, 1200, 6000);
	assert_figures(&copies[1], 11, 200, 1000);
	apply(few, 1, counted);
	assert_figures(&few[0], 73, 800, 7300);
	apply(many, 1, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 75, 750, 7500 } });
	assert_figures(&many[0], 68, 680, 6800);
	apply(launches, 2, counted);
	assert_figures(&launches[0], 600 * 1000 / 910.0, 6000 * 1000 / 910.0, 60000);
	assert_figures(&launches[1], 310 * 1000 / 910.0, 3100 * 1000 / 910.0, 31000);
	assert_true(copies[0].lacks && few[0].lacks && !many[0].lacks && launches[1].lacks);
	for (unsigned i = 0; i < 10; i++)
		ones[i] = line(COPY, 1, 1);
	apply(ones, 10, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 14, 140, 1400 } });
	assert_figures(&ones[9], 1, 10, 100);
	assert_true(ones[0].lacks && ones[9].lacks);
	apply(one, 1, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 3, 5000, 300 } });
	assert_figures(&one[0], 1, 10, 100);
	apply(long_one, 1, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 3, 5000, 300 } });
	assert_figures(&long_one[0], 3, 80, 300);
	apply(whole, 1, (const struct cuda_line_figures[GROUPS]){ [COPY] = { 73, 700, 7000 } });
	assert_figures(&whole[0], 73, 730, 7300);
	assert_false(whole[0].lacks);
}

/* A line has the calls whose stacks were taken, at least, and does not stand for all that is missing. */
static void there_are_bounds(void **state)
{
	static const struct cuda_line_figures counted[GROUPS] = {
		[COPY] = { 1, 1, 1 }, [LAUNCH] = { 1000000, 60, 0 }
	};
	struct cuda_line_share copies[] = { line(COPY, 80, 2), line(COPY, 40, 2) },
			       launch = line(LAUNCH, 11, 1);

	apply(copies, 2, counted);
	assert_figures(&copies[0], 2, 20, 200);
	assert_figures(&copies[1], 2, 20, 200);
	apply(&launch, 1, counted);
	assert_figures(&launch, 1 + 10 * CUDA_LINE_TOTALS_MOST, 60, 100);
	/* A difference of two moments may come out below the calls that it has. */
	launch = line(LAUNCH, 3, 3.5);
	apply(&launch, 1, counted);
	assert_figures(&launch, 3, 30, 300);
}

/*
 * A thousand stacks tell of a line within 3 %: what is missing beyond 4 times that is another's, of which no stack was
 * taken.
 */
static void a_line_that_was_not_seen(void **state)
{
	static const struct cuda_line_figures counted[GROUPS] = { [COPY] = { 40010, 4000000, 4001000 } };
	struct cuda_line_share lines[] = { line(COPY, 40000, 1000), line(COPY, 3, 3) };

	apply(lines, 2, counted);
	assert_figures(&lines[0], 40007, 400000 + 4 * sqrt(400000.0 * 390000 / 1000), 4000700);
	assert_figures(&lines[1], 3, 30, 300);
}

/* What one line cannot give up the others do. */
static void a_small_line_gives_up_what_it_has(void **state)
{
	/* They vary as 9000 and 3540: of 360 too many, 102 would be the second one's, which has 59. */
	static const struct cuda_line_figures counted[GROUPS] = { [COPY] = { 700, 10600, 106000 } };
	struct cuda_line_share lines[] = { line(COPY, 1000, 100), line(COPY, 60, 1) };

	apply(lines, 2, counted);
	assert_figures(&lines[0], 699, 10000, 100000);
	assert_figures(&lines[1], 1, 600, 6000);
}

/* One stack in PERIOD calls, and in TIME_NS of long ones: bpf/cuda/cuda.bpf.c, stack_period(). */
#define PERIOD  40
#define TIME_NS 10000000

static void call(struct cuda_line_share *l, uint64_t ns)
{
	uint64_t by_time = ns < TIME_NS ? TIME_NS / ns : 1, weight = by_time < PERIOD ? by_time : PERIOD;

	if (unit() * (double)weight >= 1)
		return;
	l->all.calls += (double)weight;
	l->all.total_ns += (double)(ns * weight);
	l->seen.calls++;
	l->seen.total_ns += (double)ns;
}

/*
 * Three lines of one call: 2000 of 1 us, 3000 of 2 us, 20 waits of 5 ms. Nearer than by stacks alone, and right on
 * average.
 */
static void nearer_than_stacks_alone(void **state)
{
	static const struct {
		uint64_t calls, ns;
	} truth[] = { { 2000, 1000 }, { 3000, 2000 }, { 20, 5000000 } };
	enum { LINES = 3, RUNS = 2000 };
	double sum[LINES] = { 0 }, before[LINES] = { 0 }, after[LINES] = { 0 };
	double time_before[LINES] = { 0 }, time[LINES] = { 0 };
	struct cuda_line_figures counted[GROUPS] = { 0 };

	for (unsigned i = 0; i < LINES; i++) {
		counted[COPY].calls += (double)truth[i].calls;
		counted[COPY].total_ns += (double)(truth[i].calls * truth[i].ns);
	}
	for (unsigned run = 0; run < RUNS; run++) {
		struct cuda_line_share lines[LINES] = { line(COPY, 0, 0), line(COPY, 0, 0), line(COPY, 0, 0) };
		double all = 0;

		for (unsigned i = 0; i < LINES; i++) {
			for (uint64_t k = 0; k < truth[i].calls; k++)
				call(&lines[i], truth[i].ns);
			before[i] += pow(lines[i].all.calls / (double)truth[i].calls - 1, 2) / RUNS;
			time_before[i] +=
				pow(lines[i].all.total_ns / (double)(truth[i].calls * truth[i].ns) - 1, 2) /
				RUNS;
		}
		apply(lines, LINES, counted);
		for (unsigned i = 0; i < LINES; i++) {
			double part = lines[i].all.calls / (double)truth[i].calls;

			sum[i] += part / RUNS;
			after[i] += pow(part - 1, 2) / RUNS;
			time[i] += pow(lines[i].all.total_ns / (double)(truth[i].calls * truth[i].ns) - 1, 2) /
				   RUNS;
			all += lines[i].all.calls;
		}
		assert_true(fabs(all - 5020) < 1e-6);
	}
	for (unsigned i = 0; i < LINES; i++) {
		/* Three times what the mean of so many runs is off by. */
		if (fabs(sum[i] - 1) > 3 * sqrt(after[i] / RUNS) + 0.002)
			fail_msg("line %u: %.4f of its calls", i, sum[i]);
	}
	/* One of 50 stacks is off by 14 %, of 75 by 11 %; of ten waits by 22 %. */
	assert_true(sqrt(before[0]) > 0.12 && sqrt(after[0]) < 0.8 * sqrt(before[0]));
	assert_true(sqrt(before[1]) > 0.10 && sqrt(after[1]) < 0.7 * sqrt(before[1]));
	assert_true(sqrt(after[2]) < 1.01 * sqrt(before[2]));
	/* Nearly all of the time is the waits', and what is wrong with their sum is no business of the others. */
	assert_true(sqrt(time_before[2]) > 0.2 && sqrt(time[2]) < 0.02);
	for (unsigned i = 0; i < 2; i++)
		assert_true(sqrt(time[i]) < 1.01 * sqrt(time_before[i]));
}

static void a_part_keeps_its_share(void **state)
{
	assert_true(cuda_line_totals__part(3, 4, 8) == 6 && cuda_line_totals__part(3, 4, 2) == 1.5);
	assert_true(cuda_line_totals__part(5, 4, 8) == 8);
	assert_true(cuda_line_totals__part(3, 0, 8) == 0 && cuda_line_totals__part(-1e-9, 4, 8) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_add_up),
		cmocka_unit_test(a_few_calls_without_stacks_are_of_any_line),
		cmocka_unit_test(there_are_bounds),
		cmocka_unit_test(a_line_that_was_not_seen),
		cmocka_unit_test(a_small_line_gives_up_what_it_has),
		cmocka_unit_test(a_part_keeps_its_share),
		cmocka_unit_test(nearer_than_stacks_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
