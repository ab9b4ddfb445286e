// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a watch tells of a target whose every call is known (cuda_target.h), that it keeps to the budget, and what becomes of the probes
 * whenever processes, libraries and memory come and go.
 */
#include "tests/unit/cuda_watched.h"

/* Percent of a CPU that the probes have taken. */
static double cost_percent(uint64_t ns)
{
	return 100 *
	       ((double)slot.returns * PAIR_NS + (double)(slot.hits - slot.returns) * PAIR_NS / 2 +
		(double)(slot.stepped * target.stepped_ns)) /
	       (double)ns;
}

/* Under the budget all is counted, and nothing is an estimate. */
static void few_calls_are_counted_one_by_one(void **state)
{
	struct cuda_watch *w = watch_target(1000, 100, 1);
	struct cuda_estimates estimates;

	run_watch(w, 5 * SECOND);
	assert_int_equal(calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates), target.made[LAUNCHES].truth);
	assert_int_equal(calls_of(w, SO_CUDA_API_cudaMemcpyAsync, NULL), target.made[COPIES].truth);
	assert_false(w->estimated || cuda_estimates__are_any(&estimates));
	assert_int_equal(slot.hits, target.made[LAUNCHES].truth + target.made[COPIES].truth);
	cuda_watch__free(w);
	assert_null(links);
}

/* Percents of the truth: within what is told, which is little; and of a CPU. Perf events come and go slowly, so they are on for longer and seldom. */
static void many_calls_are_estimated(void **state)
{
	static const struct {
		enum cuda_probe_kind kind;
		bool works, sleeps;
		unsigned threads;
		uint64_t launches;
		double told, cost;
	} of[] = {
		{ CUDA_PROBE_SESSION, false, false, 1, 100000, 2.5, 1.1 },
		{ CUDA_PROBE_SESSION, true, false, 1, 100000, 4, 1.1 },
		{ CUDA_PROBE_SESSION, false, true, 1, 20000, 3, 1.1 },
		{ CUDA_PROBE_SESSION, true, true, 1, 20000, 3, 1.1 },
		{ CUDA_PROBE_SESSION, true, true, 4, 100000, 4, 1.1 },
		{ CUDA_PROBE_MULTI, false, false, 1, 100000, 2.5, 1.1 },
		{ CUDA_PROBE_MULTI, true, false, 1, 100000, 4, 1.1 },
		{ CUDA_PROBE_PERF, false, false, 1, 20000, 10, 1.2 },
		{ CUDA_PROBE_PERF, true, false, 1, 20000, 10, 1.2 },
		{ CUDA_PROBE_PERF, true, true, 1, 20000, 10, 1.2 },
		{ CUDA_PROBE_PERF, true, true, 4, 20000, 10, 1.2 },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct cuda_estimates estimates;
		const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
		struct cuda_watch *w;
		double launches, truth;

		set_up(state);
		probe_kind = of[i].kind;
		target.works = of[i].works;
		target.sleeps = of[i].sleeps;
		target.threads = of[i].threads;
		w = watch_target(of[i].launches, 100, 1);
		run_watch(w, 20 * SECOND);
		truth = (double)target.made[LAUNCHES].truth;
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		print_message(
			"%u %s%s, %u threads: %.0f of %.0f, within %.0f, from %u times on; cost %.2f %%\n",
			of[i].kind, of[i].works ? "works" : "waits", of[i].sleeps ? ", sleeps" : "", threads(),
			launches, truth, told(near), (unsigned)near->times, cost_percent(now - BEGIN));
		assert_true(w->estimated && near->times > 5);
		assert_true(fabs(launches - truth) <= told(near) && told(near) < of[i].told / 100 * truth);
		assert_true(cost_percent(now - BEGIN) < of[i].cost);
		assert_true(cost_percent(now - BEGIN) > 0.5);
		cuda_watch__free(w);
		assert_null(links);
	}
}

/*
 * Entries that are single-stepped, of a thread that works: what a light probe costs, by which it is compared, is mostly the step. In some
 * virtual machines that is so much that comparisons tell nothing.
 */
static void single_stepped_calls_are_estimated(void **state)
{
	static const struct {
		uint64_t stepped_ns;
		double told;
	} of[] = { { 500, 4 }, { 3000, 12 }, { 12000, 60 } };

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct cuda_estimates estimates;
		const struct cuda_estimate *near = &estimates.of[SO_CUDA_LAUNCH];
		double launches, truth, cost;
		struct cuda_watch *w;

		set_up(state);
		target.works = true;
		target.stepped_ns = of[i].stepped_ns;
		w = watch_target(20000, 100, 1);
		run_watch(w, 20 * SECOND);
		truth = (double)target.made[LAUNCHES].truth;
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		cost = cuda_watch_cost_of_call(w);
		print_message("step of %.1f us: %.0f of %.0f, within %.0f, from %u times on; %.0f ns a call; "
			      "cost %.2f %%\n",
			      (double)of[i].stepped_ns / 1e3, launches, truth, told(near),
			      (unsigned)near->times, cost, cost_percent(now - BEGIN));
		assert_true(w->estimated && near->times > 5);
		assert_true(fabs(launches - truth) < 0.03 * truth && fabs(launches - truth) <= told(near));
		assert_true(told(near) < of[i].told / 100 * truth);
		assert_true(cost_percent(now - BEGIN) < 1.1 && cost_percent(now - BEGIN) > 0.5);
		/* Hits of light probes and of those that come and go are not of the calls that count. */
		assert_true(fabs(cost - PAIR_NS - (double)of[i].stepped_ns) < 1);
		cuda_watch__free(w);
		assert_null(links);
	}
}

static void assert_loss(const struct cuda_watch *w, double factor, double error)
{
	struct cuda_loss loss = cuda_watch_loss(w);

	print_message("%.2f +- %.2f\n", loss.factor, loss.error);
	assert_true(fabs(loss.factor - factor) < 0.01 && fabs(loss.error - error) < 0.01);
}

/* What is believed before anything was compared: of two threads that make as many calls, and of what other CPUs are used for. */
static void what_threads_lose_is_believed(void **state)
{
	struct cuda_watch *w = watch(1);

	w->busy_elapsed_ns = 1e9;
	w->busy_cpu_ns = 0.5e9;
	assert_loss(w, 1, 0.5);
	w->callers.all = 1000;
	w->callers.same = 500;
	/* Half of it, or all if they wait for one another. */
	assert_loss(w, 0.5, 0.25);
	w->callers.expected = 50;
	w->callers.times = 2;
	assert_loss(w, 0.5, 0.25);
	w->callers.times = 10;
	assert_loss(w, 1, 0.5);
	w->callers.overlapped = 20;
	assert_loss(w, 0.5, 0.25);
	w->callers.overlapped = 0;
	/* Others of the job keep CPUs busy, and it is no less for that. */
	w->busy_cpu_ns = 4e9;
	assert_loss(w, 1, 0.5);
	w->active.tid = 100;
	w->active.known_ns = 1e9;
	w->active.active_ns = 0.2e9;
	assert_loss(w, 1, 0.25);
	w->busy_cpu_ns = 0.9e9;
	assert_loss(w, 1, 0.15);
	/* What probes cost in cold caches is not known that well. */
	w->coldness = 1;
	assert_loss(w, 1, 0.427);
	cuda_watch__free(w);
}

/* Kinds with few calls stay on, and lose those at most that come while the probes are placed anew. */
static void few_copies_among_many_launches_are_counted(void **state)
{
	struct cuda_watch *w = watch_target(100000, 100, 1);
	struct cuda_estimates estimates;
	uint64_t copies;

	run_watch(w, 10 * SECOND);
	copies = calls_of(w, SO_CUDA_API_cudaMemcpyAsync, &estimates);
	assert_int_equal(w->kinds.cycled, 1u << SO_CUDA_LAUNCH);
	assert_int_equal(estimates.of[SO_CUDA_COPY].times, 0);
	assert_true(estimates.of[SO_CUDA_LAUNCH].times > 5);
	assert_int_equal(copies, target.made[COPIES].truth);
	cuda_watch__free(w);
}

static unsigned cycled_links(const struct cuda_watch *w)
{
	unsigned n = 0;

	for (size_t i = 0; i < w->n_mapped; i++)
		n += w->mapped[i].cycled != NULL;
	return n;
}

/* Launches end for a while, and copies become many: other probes come and go from then on, and what is told is of all the time. */
static void the_kinds_that_come_and_go_may_change(void **state)
{
	struct cuda_watch *w = watch_target(50000, 100, 1);
	struct cuda_estimates estimates;
	uint64_t hits;

	run_watch(w, 8 * SECOND);
	assert_int_equal(w->kinds.cycled, 1u << SO_CUDA_LAUNCH);
	run_until(w, CUDA_WATCH_OFF_AFTER);
	target.made[LAUNCHES].period_ns = 0;
	run_watch(w, 10 * SECOND);
	target.made[COPIES].period_ns = SECOND / 50000;
	hits = slot.hits;
	/* Of the first time off copies are missing: they are not told as counted one by one. */
	while (!(w->kinds.cycled >> SO_CUDA_COPY & 1)) {
		calls_of(w, SO_CUDA_API_cudaMemcpyAsync, &estimates);
		assert_false(cuda_estimate__is_any(&estimates.of[SO_CUDA_COPY]));
		run_watch(w, 100 * US);
	}
	run_watch(w, MS);
	assert_true(!cuda_watch_is_on(w) &&
		    calls_of(w, SO_CUDA_API_cudaMemcpyAsync, &estimates) < target.made[COPIES].truth);
	assert_true(cuda_estimate__is_any(&estimates.of[SO_CUDA_COPY]));
	run_watch(w, 16 * SECOND);
	assert_true((double)(slot.hits - hits) * PAIR_NS < 0.012 * 16e9);
	assert_true(w->kinds.cycled >> SO_CUDA_COPY & 1);
	for (unsigned i = 0; i < 2; i++) {
		const struct made *m = &target.made[i];
		double all = (double)calls_of(w, m->api, &estimates);
		const struct cuda_estimate *near = &estimates.of[cuda_names__kind(m->api)];

		print_message("%.0f of %.0f, within %.0f\n", all, (double)m->truth, told(near));
		assert_true(near->times > 5 && fabs(all - (double)m->truth) < told(near));
		assert_true(told(near) < 0.1 * (double)m->truth);
	}
	run_until(w, CUDA_WATCH_OFF_AFTER);
	assert_int_equal(cycled_links(w), 0);
	assert_true(control.off[SO_CUDA_COPY]);
	cuda_watch__free(w);
	assert_null(links);
}

/* Phase by phase: what is there, what counts, and in what order. */
static void probes_come_and_go_with_the_phases(void **state)
{
	static const bool follows[5][5] = {
		[CUDA_WATCH_OFF_BEFORE] = { [CUDA_WATCH_LIGHT] = true, [CUDA_WATCH_SETTLING] = true },
		[CUDA_WATCH_LIGHT] = { [CUDA_WATCH_SETTLING] = true },
		[CUDA_WATCH_SETTLING] = { [CUDA_WATCH_ON] = true },
		[CUDA_WATCH_ON] = { [CUDA_WATCH_OFF_AFTER] = true, [CUDA_WATCH_OFF_BEFORE] = true },
		[CUDA_WATCH_OFF_AFTER] = { [CUDA_WATCH_OFF_BEFORE] = true },
	};
	struct cuda_watch *w = watch_target(100000, 100, 1);
	enum cuda_watch_phase last = w->phase;
	unsigned seen = 0, lights = 0;
	uint64_t end;

	for (end = now + 10 * SECOND; now < end;) {
		uint64_t next = cuda_watch__tick(w, now), calls = slot.kinds[SO_CUDA_LAUNCH];
		bool off = w->phase == CUDA_WATCH_OFF_BEFORE || w->phase == CUDA_WATCH_OFF_AFTER;

		if (!w->kinds.cycled) {
			/* Before the first time off. */
			assert_int_equal(w->phase, CUDA_WATCH_ON);
			run_to(next > now ? next : now + MS);
			continue;
		}
		assert_true(w->phase == last || follows[last][w->phase]);
		lights += w->phase == CUDA_WATCH_LIGHT && last != w->phase;
		last = w->phase;
		seen |= 1u << w->phase;
		assert_int_equal(cycled_links(w), !off);
		assert_int_equal(control.off[SO_CUDA_LAUNCH], w->phase != CUDA_WATCH_ON);
		assert_int_equal(control.off[SO_CUDA_COPY], 0);
		assert_true(next > now - MS && next <= now + SECOND);
		run_to(next > now ? next : now + MS);
		assert_true(w->phase == CUDA_WATCH_ON || slot.kinds[SO_CUDA_LAUNCH] == calls);
	}
	assert_int_equal(seen, 31);
	assert_true(lights > 2);
	cuda_watch__free(w);
	assert_null(links);
}

static void probes_wait_for_those_that_go(void **state)
{
	struct cuda_watch *w = watch_target(100000, 100, 1);

	run_watch(w, SECOND);
	run_until(w, CUDA_WATCH_OFF_BEFORE);
	going = true;
	run_watch(w, 5 * SECOND);
	assert_int_equal(w->phase, CUDA_WATCH_OFF_BEFORE);
	assert_int_equal(cycled_links(w), 0);
	going = false;
	run_watch(w, 20 * MS);
	assert_int_equal(cycled_links(w), 1);
	cuda_watch__free(w);
}

/* In whichever phase its process ends: what it made stays told, no probe stays, and the next one adds to it. No call is made in between. */
static void a_process_ends_and_another_begins(void **state)
{
	for (unsigned phase = CUDA_WATCH_OFF_BEFORE; phase <= CUDA_WATCH_OFF_AFTER; phase++) {
		struct cuda_estimates estimates;
		uint64_t truth, after;
		struct cuda_watch *w;
		double launches;

		set_up(state);
		w = watch_target(50000, 100, 1);
		run_watch(w, 8 * SECOND);
		run_until(w, phase);
		run_to(now + 200 * US);
		truth = target.made[LAUNCHES].truth;
		target.pid = 0;
		cuda_watch__process_gone(w, 100);
		assert_null(links);
		assert_false(cuda_watch__has_process(w, 100));
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		assert_true(fabs(launches - (double)truth) <= 1.5 * told(&estimates.of[SO_CUDA_LAUNCH]));
		assert_true(told(&estimates.of[SO_CUDA_LAUNCH]) < 0.03 * (double)truth);
		run_watch(w, 30 * SECOND);
		after = calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL);
		assert_int_equal(after, (uint64_t)launches);
		begin(200, 150000, 100);
		add_library(w, 200);
		run_watch(w, 8 * SECOND);
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		truth = target.made[LAUNCHES].truth;
		assert_true(fabs(launches - (double)truth) <= 1.5 * told(&estimates.of[SO_CUDA_LAUNCH]));
		assert_true(told(&estimates.of[SO_CUDA_LAUNCH]) < 0.05 * (double)truth);
		assert_false(w->lost);
		cuda_watch__free(w);
		assert_null(links);
	}
}

/* A pause of the target just when a recording ends, and a time on has begun: a moment without calls would stand for all of the time off. */
static void what_is_cut_short_stands_for_nothing_else(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		struct cuda_estimates estimates;
		struct cuda_watch *w;
		double launches, within;

		set_up(state);
		w = watch_target(50000, 0, 1);
		add_library(w, 300);
		run_watch(w, 5 * SECOND + i * 37 * MS);
		run_until(w, CUDA_WATCH_ON);
		target.made[LAUNCHES].next_ns = now + 3 * MS;
		run_to(now + 200 * US);
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		within = told(&estimates.of[SO_CUDA_LAUNCH]);
		assert_true(within < 0.03 * launches);
		assert_true(fabs(launches - (double)target.made[LAUNCHES].truth) < within);
		/* Or another of its processes, which made none, and is told for good then. */
		cuda_watch__process_gone(w, 300);
		if (i % 2)
			run_watch(w, 2 * SECOND);
		launches = (double)calls_of(w, SO_CUDA_API_cudaLaunchKernel, &estimates);
		within = told(&estimates.of[SO_CUDA_LAUNCH]);
		assert_true(within < 0.03 * launches);
		assert_true(fabs(launches - (double)target.made[LAUNCHES].truth) < within);
		cuda_watch__free(w);
	}
}

/*
 * In whichever phase a recording begins: what was before is told for good, also of the time off in the midst of which it begins, and no
 * later figure takes anything of it back, which the recording would have as well.
 */
static void what_was_before_a_recording_stays(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		enum cuda_watch_phase phase = i % (CUDA_WATCH_OFF_AFTER + 1);
		struct cuda_estimates estimates, of_recording;
		struct cuda_snapshot *snapshot;
		uint64_t truth, before, end;
		struct cuda_watch *w;
		double recorded;

		set_up(state);
		w = watch_target(50000, 0, 1);
		run_watch(w, 5 * SECOND + i * 37 * MS);
		run_until(w, phase);
		run_to(now + i * 300 * US);
		truth = target.made[LAUNCHES].truth;
		assert_int_equal(cuda_watch__cut(w, &snapshot), 0);
		before = calls_in(snapshot, 100);
		cuda_snapshot__free(snapshot);
		estimates = w->estimates;
		assert_true(fabs((double)before - (double)truth) <= 1.5 * told(&estimates.of[SO_CUDA_LAUNCH]));
		for (end = now + 3 * SECOND; now < end;) {
			assert_true(calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) >= before);
			run_watch(w, 7 * MS);
		}
		truth = target.made[LAUNCHES].truth - truth;
		recorded = (double)(calls_of(w, SO_CUDA_API_cudaLaunchKernel, &of_recording) - before);
		of_recording = cuda_estimates__since(&of_recording, &estimates);
		print_message("phase %u: %.0f of %.0f, within %.0f\n", phase, recorded, (double)truth,
			      told(&of_recording.of[SO_CUDA_LAUNCH]));
		assert_true(fabs(recorded - (double)truth) <= 1.5 * told(&of_recording.of[SO_CUDA_LAUNCH]));
		assert_true(told(&of_recording.of[SO_CUDA_LAUNCH]) < 0.05 * (double)truth);
		cuda_watch__free(w);
	}
}

/*
 * A job of months starts processes all the time. Of those that ended longest ago, more than ten minutes, only sums are kept; no call is
 * lost or counted twice by it. A number that comes again is that of the later one, which keeps what it has.
 */
static void processes_that_ended_long_ago_are_folded(void **state)
{
	struct cuda_watch *w = watch(1);
	const uint64_t *truth = &target.made[LAUNCHES].truth;
	uint64_t of_first = 0;

	for (pid_t pid = 1000; pid < 2100; pid++) {
		begin(pid == 1500 ? 1000 : pid, 1000, 0);
		add_library(w, target.pid);
		run_watch(w, 20 * MS);
		of_first += target.pid == 1000 ? target.made[LAUNCHES].seen : 0;
		target.pid = 0;
		cuda_watch__process_gone(w, target.mapped);
		run_watch(w, 580 * MS);
		if (pid < 2000)
			assert_int_equal(w->n_folded, 0);
	}
	assert_true(*truth > 10 * 1100);
	assert_int_equal(calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) + calls_in(w->folded, 0), *truth);
	/* Beyond 1024 that are remembered, one of which is there twice. */
	assert_in_range(w->n_folded, 60, 80);
	assert_int_equal(calls_in(w->total, 1000), of_first);
	assert_int_equal(calls_in(w->total, 1001), 0);
	assert_true(calls_in(w->total, 1500) == 0 && calls_in(w->total, 1501) > 10);
	assert_int_equal(calls_in(w->folded, 1001), 0);
	assert_false(w->lost || w->estimated);
	cuda_watch__free(w);
	assert_null(links);
}

/* Where the kernel refuses at any time, it is said, and nothing is left behind. */
static void probes_may_be_refused(void **state)
{
	for (unsigned at = 1; at < 12; at++) {
		struct cuda_watch *w;

		set_up(state);
		probe_kind = at % 2 ? CUDA_PROBE_SESSION : CUDA_PROBE_MULTI;
		fail_attach_at = at;
		w = watch_target(100000, 100, 1);
		run_watch(w, 5 * SECOND);
		assert_true(attached >= at);
		assert_non_null(strstr(w->mapped[0].problem, "libcudart.so.12: refused"));
		assert_true(calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL) < 2 * target.made[LAUNCHES].truth);
		cuda_watch__free(w);
		assert_null(links);
	}
}

/* Where the maps cannot be read for a while, what they hold is counted later. */
static void maps_may_not_be_readable(void **state)
{
	struct cuda_watch *w = watch_target(1000, 100, 1);
	struct cuda_snapshot *result = NULL;

	run_watch(w, SECOND);
	fail_snapshot_at = 1;
	run_watch(w, SECOND);
	assert_int_equal(cuda_watch__settle(w), -EIO);
	assert_int_equal(cuda_watch__result(w, &result, NULL), -EIO);
	assert_null(result);
	fail_snapshot_at = 0;
	run_watch(w, SECOND);
	assert_int_equal(calls_of(w, SO_CUDA_API_cudaLaunchKernel, NULL), target.made[LAUNCHES].truth);
	cuda_watch__free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(few_calls_are_counted_one_by_one, set_up),
		cmocka_unit_test_setup(many_calls_are_estimated, set_up),
		cmocka_unit_test_setup(single_stepped_calls_are_estimated, set_up),
		cmocka_unit_test_setup(what_threads_lose_is_believed, set_up),
		cmocka_unit_test_setup(few_copies_among_many_launches_are_counted, set_up),
		cmocka_unit_test_setup(the_kinds_that_come_and_go_may_change, set_up),
		cmocka_unit_test_setup(probes_come_and_go_with_the_phases, set_up),
		cmocka_unit_test_setup(probes_wait_for_those_that_go, set_up),
		cmocka_unit_test_setup(a_process_ends_and_another_begins, set_up),
		cmocka_unit_test_setup(what_is_cut_short_stands_for_nothing_else, set_up),
		cmocka_unit_test_setup(what_was_before_a_recording_stays, set_up),
		cmocka_unit_test_setup(processes_that_ended_long_ago_are_folded, set_up),
		cmocka_unit_test_setup(probes_may_be_refused, set_up),
		cmocka_unit_test_setup(maps_may_not_be_readable, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
