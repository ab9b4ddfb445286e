// SPDX-License-Identifier: GPL-2.0-or-later
/* What a watch tells of a target that waits for the GPU between bursts of calls (cuda_target.h). */
#include "tests/unit/cuda_watched.h"

static double launches_in(const struct cuda_snapshot *snapshot)
{
	const struct cuda_calls_entry *entries;
	double calls = 0;
	size_t n;

	entries = cuda_snapshot__calls(snapshot, &n);
	for (size_t i = 0; i < n; i++)
		calls +=
			entries[i].key.api == SO_CUDA_API_cudaLaunchKernel ? (double)entries[i].calls.calls : 0;
	return calls;
}

struct told_of {
	double launches, truth, within, chance; /* chance: a part of within */
};

static struct told_of told_of_bursts(void **state, unsigned burst, uint64_t wait_ns, bool hides,
				     unsigned by_threads)
{
	struct cuda_estimates estimates;
	const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
	struct cuda_watch *w;
	struct told_of of;

	set_up(state);
	target.works = true;
	target.burst = burst;
	target.wait_ns = wait_ns;
	target.hides = hides;
	target.threads = by_threads;
	target.takes_turns = true;
	w = watch_target(50000, 0, 0.5);
	run_watch(w, 20 * SECOND);
	of.truth = (double)target.made[LAUNCHES].truth;
	of.launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
	of.within = told(near);
	of.chance = told(near) - near->bias;
	print_message("%u launches, %u ms%s, %u threads: %.0f of %.0f, within %.0f, of which chance %.0f, from "
		      "%u times on\n",
		      burst, (unsigned)(wait_ns / MS), hides ? " unseen" : "", threads(), of.launches, of.truth,
		      of.within, of.chance, (unsigned)near->times);
	assert_true(near->times > 5);
	cuda_watch__free(w);
	assert_null(links);
	return of;
}

/* Bursts of launches between waits: that one time on meets more of them than another is no error where waits are known. */
static void what_comes_in_bursts_is_estimated(void **state)
{
	static const struct {
		unsigned burst;
		uint64_t wait_ns;
	} of[] = { { 500, 20 * MS }, { 100, 20 * MS }, { 5000, 50 * MS }, { 200, 100 * MS }, { 20, MS } };

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		unsigned by = 1 + i % 2 * 2;
		struct told_of seen = told_of_bursts(state, of[i].burst, of[i].wait_ns, false, by),
			       unseen = told_of_bursts(state, of[i].burst, of[i].wait_ns, true, by);

		assert_true(fabs(seen.launches - seen.truth) <= 0.03 * seen.truth &&
			    fabs(seen.launches - seen.truth) <= seen.within);
		/* Of several threads it takes some bursts to know. */
		assert_true(seen.chance > 0 && seen.chance < (by == 1 ? 0.02 : 0.03) * seen.truth &&
			    seen.chance < unseen.chance / 2);
	}
}

/* Other kinds come and go from now on, waits among them: of the time off that follows it is not known how much was waited. */
static void waits_may_come_and_go_as_well(void **state)
{
	struct cuda_watch *w;
	_cleanup_(cuda_snapshot) struct cuda_snapshot *cut = NULL;
	double launches, truth, before;

	target.works = true;
	target.burst = 100;
	target.wait_ns = 20 * MS;
	w = watch_target(50000, 0, 0.5);
	run_watch(w, 8 * SECOND);
	assert_true(w->kinds.cycled == 1u << SO_CUDA_LAUNCH && w->active.tid);
	target.made[COPIES].period_ns = SECOND / 5000;
	target.made[COPIES].next_ns = now;
	for (unsigned i = 0; i < 200000 && w->kinds.cycled == 1u << SO_CUDA_LAUNCH; i++)
		run_watch(w, 100 * US);
	assert_true(w->kinds.cycled >> SO_CUDA_COPY & 1);
	target.seen_ns = target.waited_ns;
	truth = (double)target.made[LAUNCHES].truth;
	before = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL);
	w->phase_end_ns = now + SECOND;
	run_watch(w, SECOND / 2);
	assert_false(cuda_watch_has_cycled(w));
	truth = (double)target.made[LAUNCHES].truth - truth;
	launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) - before;
	print_message("%.0f of %.0f in a time off\n", launches, truth);
	assert_true(fabs(launches - truth) < 0.3 * truth);
	/* Of copies nothing is known yet: a recording that begins then has this time off as well. */
	launches += before;
	assert_int_equal(cuda_watch__cut(w, &cut), 0);
	assert_true(fabs(launches_in(cut) - before) < 0.03 * truth);
	assert_true(fabs((double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) - launches) < 0.03 * truth);
	cuda_watch__free(w);
}

/* One waits, and another goes on meanwhile, with half of the calls or a twentieth: then waits tell of nothing. */
static void threads_that_do_not_wait_for_one_another_are_estimated(void **state)
{
	static const uint64_t others[] = { 50000, 5000 };

	for (size_t i = 0; i < 2; i++) {
		struct cuda_estimates estimates;
		const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
		double launches, truth;
		struct cuda_watch *w;

		set_up(state);
		target.works = true;
		target.burst = 200;
		target.wait_ns = 5 * MS;
		target.threads = 2;
		w = watch_target(50000, 0, 1);
		target.made[2] = target.made[LAUNCHES];
		target.made[2].api = SO_CUDA_API_cudaLaunchKernelExC;
		target.made[2].period_ns = SECOND / others[i];
		run_watch(w, 20 * SECOND);
		truth = (double)(target.made[LAUNCHES].truth + target.made[2].truth);
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		launches += (double)calls_of(w, SO_CUDA_API_cudaLaunchKernelExC, NULL);
		print_message("%.0f of %.0f, within %.0f, from %u times on\n", launches, truth, told(near),
			      (unsigned)near->times);
		assert_int_equal(w->active.tid, 0);
		assert_true(near->times > 5 && fabs(launches - truth) <= told(near));
		assert_true(told(near) < 0.3 * truth);
		cuda_watch__free(w);
		assert_null(links);
	}
}

/* Single-stepped, so that nearly all of a burst is what the probes take. */
static void bursts_of_little_but_probes_are_estimated(void **state)
{
	static const uint64_t waits[] = { 3 * MS, 300 * US, 30 * MS };

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct cuda_estimates estimates;
		const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
		double launches, truth;
		struct cuda_watch *w;

		set_up(state);
		target.works = true;
		target.stepped_ns = 12000;
		target.burst = 20;
		target.wait_ns = waits[i];
		w = watch_target(500000, 0, 1);
		run_watch(w, 20 * SECOND);
		truth = (double)target.made[LAUNCHES].truth;
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		print_message("%u us: %.0f of %.0f, within %.0f, from %u times on\n", (unsigned)(waits[i] / US),
			      launches, truth, told(near), (unsigned)near->times);
		assert_true(near->times > 5 && fabs(launches - truth) <= told(near) + 0.01 * truth);
		assert_true(fabs(launches - truth) < 0.04 * truth && told(near) < 0.6 * truth);
		cuda_watch__free(w);
		assert_null(links);
	}
}

/* The same, larger and rarer: whether a time on meets one is chance, which is told. */
static void rare_bursts_of_little_but_probes_are_estimated(void **state)
{
	static const uint64_t waits[] = { 20 * MS, 60 * MS, 100 * MS };
	static const double budgets[] = { 1, 2 };

	for (size_t i = 0; i < 6; i++) {
		struct cuda_estimates estimates;
		const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
		double launches, truth;
		struct cuda_watch *w;

		set_up(state);
		target.works = true;
		target.stepped_ns = 12000;
		target.burst = 200;
		target.wait_ns = waits[i % 3];
		w = watch_target(500000, 0, budgets[i / 3]);
		for (unsigned k = 0; k < 4; k++) {
			run_watch(w, 5 * SECOND);
			truth = (double)target.made[LAUNCHES].truth;
			launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
			print_message("%u ms, budget %.0f: %.0f of %.0f, within %.0f, from %u times on\n",
				      (unsigned)(target.wait_ns / MS), budgets[i / 3], launches, truth,
				      told(near), (unsigned)near->times);
			assert_true(near->times > 5 && fabs(launches - truth) <= told(near));
			assert_true(told(near) < 1.2 * truth);
		}
		cuda_watch__free(w);
		assert_null(links);
	}
}

/* Three threads that wait for one another: nobody makes most calls, and one is known by its waits, once there were some. */
static struct cuda_watch *watch_turns(void **state)
{
	set_up(state);
	target.works = true;
	target.burst = 100;
	target.wait_ns = 20 * MS;
	target.threads = 3;
	target.takes_turns = true;
	return watch_target(50000, 0, 0.5);
}

static void begin_others(uint64_t a_second)
{
	target.made[2] = target.made[LAUNCHES];
	target.made[2].api = SO_CUDA_API_cudaLaunchKernelExC;
	target.made[2].seen = target.made[2].truth = 0;
	target.made[2].period_ns = SECOND / a_second;
	target.made[2].next_ns = now;
}

/* What is told of a time off of 2 s that begins now, in which `others` are called for half a second; its launches. */
static void assert_time_off(struct cuda_watch *w, uint64_t others)
{
	double before = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL), launches,
	       truth = (double)target.made[LAUNCHES].truth;

	w->phase_end_ns = now + 4 * SECOND;
	if (others)
		begin_others(others);
	run_watch(w, SECOND / 2);
	if (others)
		target.made[2].period_ns = 0;
	run_watch(w, 3 * SECOND / 2);
	assert_false(cuda_watch_has_cycled(w));
	launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) - before;
	truth = (double)target.made[LAUNCHES].truth - truth;
	print_message("%.0f of %.0f in a time off\n", launches, truth);
	assert_true(fabs(launches - truth) < 0.15 * truth);
}

/* Whose waits are known may change in a time off, before which the last time on was: it stands for as much of it as it did. */
static void whose_waits_are_known_may_change(void **state)
{
	struct cuda_watch *w = watch_turns(state);

	/* A call that was not made before, whose probe is placed anew. */
	run_watch(w, 8 * SECOND);
	run_until(w, CUDA_WATCH_OFF_AFTER);
	assert_true(w->active.tid);
	assert_time_off(w, 4000);
	assert_true(w->active.tid && cuda_api_set__has(&w->cycled, SO_CUDA_API_cudaLaunchKernelExC));
	cuda_watch__free(w);

	/* Another thread makes calls meanwhile, so nobody's waits tell of all. */
	w = watch_turns(state);
	run_watch(w, 8 * SECOND);
	assert_true(w->active.tid);
	begin_others(1000);
	for (unsigned i = 0; i < 3000 && w->active.tid; i++)
		run_watch(w, 10 * MS);
	assert_int_equal(w->active.tid, 0);
	assert_time_off(w, 0);
	cuda_watch__free(w);

	/* And the first moment at which somebody's do. */
	w = watch_turns(state);
	for (unsigned i = 0; i < 20000 && !w->active.tid; i++)
		run_watch(w, MS);
	assert_true(w->active.tid);
	assert_time_off(w, 0);
	cuda_watch__free(w);
	assert_null(links);
}

/* A recording that begins, and a process that ends, in the midst of a burst, or of a wait: time off before it is mostly waited. */
static void bursts_are_cut_anywhere(void **state)
{
	for (unsigned i = 0; i < 25; i++) {
		_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = NULL;
		enum cuda_watch_phase phase = CUDA_WATCH_OFF_BEFORE + i % 5;
		double truth, before, first, all;
		struct cuda_watch *w;

		set_up(state);
		target.works = true;
		target.burst = 300;
		target.wait_ns = 40 * MS;
		w = watch_target(50000, 0, 0.5);
		run_watch(w, 8 * SECOND + i * 37 * MS);
		run_until(w, phase);
		run_to(now + i * 300 * US);
		truth = (double)target.made[LAUNCHES].truth;
		assert_int_equal(cuda_watch__cut(w, &snapshot), 0);
		before = (double)calls_in(snapshot, 100);
		run_watch(w, 8 * SECOND + i * 13 * MS);
		run_until(w, phase);
		all = (double)target.made[LAUNCHES].truth;
		target.pid = 0;
		cuda_watch__process_gone(w, 100);
		first = before;
		before = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) - before;
		print_message("phase %u: %.0f of %.0f, then %.0f of %.0f\n", phase, first, truth, before,
			      all - truth);
		assert_true(fabs(first - truth) < 0.05 * truth &&
			    fabs(before - (all - truth)) < 0.05 * (all - truth));
		cuda_watch__free(w);
		assert_null(links);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_comes_in_bursts_is_estimated, set_up),
		cmocka_unit_test_setup(waits_may_come_and_go_as_well, set_up),
		cmocka_unit_test_setup(threads_that_do_not_wait_for_one_another_are_estimated, set_up),
		cmocka_unit_test_setup(bursts_of_little_but_probes_are_estimated, set_up),
		cmocka_unit_test_setup(rare_bursts_of_little_but_probes_are_estimated, set_up),
		cmocka_unit_test_setup(whose_waits_are_known_may_change, set_up),
		cmocka_unit_test_setup(bursts_are_cut_anywhere, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
