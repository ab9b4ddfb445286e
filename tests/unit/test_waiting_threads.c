// SPDX-License-Identifier: GPL-2.0-or-later
/* The time of threads that are looked at: whatever they do, the parts of each add up to its wall time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/targets/waiting_threads.h"
#include "tests/unit/random_unit.h"

#define MS    1000000ull
#define BEGIN (1000 * MS) /* of the target */
#define TID   77

struct world {
	struct targets targets;
	struct target target;
	struct waiting_threads *all;
	struct stack *stacks[2];
};

static struct stack *make_stack(uint64_t hash)
{
	const struct so_stack_record record = { .type = SO_RECORD_STACK, .hash = hash };

	return stack__new(&record, NULL, NULL);
}

static void begin(struct world *w)
{
	*w = (struct world){ .target = { .info = { .state = TARGET_SAMPLING, .wall = true }, .wall_since_ns = BEGIN } };
	assert_int_equal(targets__add(&w->targets, &w->target), 0);
	assert_int_equal(waiting_threads__new(&w->all), 0);
	for (unsigned i = 0; i < 2; i++)
		w->stacks[i] = make_stack(100 + i);
}

static void end(struct world *w)
{
	waiting_threads__free(w->all);
	accumulator__release(&w->target.samples.acc);
	for (unsigned i = 0; i < 2; i++)
		stack__unref(w->stacks[i]);
}

static uint64_t given(const struct world *w, enum sample_kind kind)
{
	const struct accumulator *acc = &w->target.samples.acc;
	uint64_t ns = 0;

	for (size_t i = 0; i < acc->n_counters; i++)
		ns += acc->counters[i].kind == kind ? acc->counters[i].count : 0;
	return ns;
}

static uint64_t given_to(const struct world *w, enum sample_kind kind, const struct stack *stack)
{
	const struct accumulator *acc = &w->target.samples.acc;
	uint64_t ns = 0;

	for (size_t i = 0; i < acc->n_counters; i++)
		if (acc->counters[i].kind == kind && acc->stacks[acc->counters[i].stack] == stack)
			ns += acc->counters[i].count;
	return ns;
}

static uint64_t given_all(const struct world *w)
{
	return given(w, SAMPLE_RUN) + given(w, SAMPLE_WAIT) + given(w, SAMPLE_RUNNABLE);
}

static struct so_look_record record(uint64_t at_ns, enum waiting_state state, uint64_t run_ns, uint64_t delay_ns)
{
	return (struct so_look_record){
		.tgid = 7,
		.at_ns = at_ns,
		.run_ns = run_ns,
		.delay_ns = delay_ns,
		.thread = { .tid = TID, .state = state == WAITING_WAITS, .on_cpu = state == WAITING_RUNS, .comm = "t" },
	};
}

static void found(struct world *w, struct so_look_record r, struct stack *stack)
{
	waiting_threads__found(w->all, &w->target, &r, stack);
}

struct visit {
	struct world *world;
	uint64_t at_ns;
	unsigned n;
};

static void end_one(void *context, struct target *t, struct waiting_thread *thread)
{
	struct visit *v = context;

	v->n++;
	waiting_threads__end(v->world->all, t, thread, v->at_ns);
}

static void went_on(void *context, struct target *t, struct waiting_thread *thread)
{
	struct visit *v = context;

	v->n++;
	waiting_thread__went_on(t, thread, v->at_ns);
}

static unsigned each(struct world *w, void (*visit)(void *, struct target *, struct waiting_thread *), uint64_t at_ns)
{
	struct visit v = { w, at_ns, 0 };

	waiting_threads__each(w->all, &w->targets, visit, &v);
	return v.n;
}

/* Blocked since before the target began: all of its time is there, from the target's beginning on. */
static void a_thread_that_only_waits(void **state)
{
	struct so_look_record again;
	struct world w;

	begin(&w);
	found(&w, record(BEGIN + 40 * MS, WAITING_WAITS, 500 * MS, 3 * MS), w.stacks[0]);
	assert_int_equal(given(&w, SAMPLE_WAIT), 40 * MS);
	again = record(BEGIN + 90 * MS, WAITING_WAITS, 500 * MS, 3 * MS);
	again.same = 1;
	found(&w, again, NULL);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[0]), 90 * MS);
	assert_int_equal(each(&w, went_on, BEGIN + 100 * MS), 1);
	assert_int_equal(each(&w, end_one, BEGIN + 120 * MS), 1);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[0]), 120 * MS);
	assert_int_equal(given_all(&w), 120 * MS);
	waiting_threads__sweep(w.all, &w.targets);
	assert_int_equal(each(&w, end_one, 0), 0);
	end(&w);
}

/* Waiting goes to where the thread is found next; running and being runnable are the kernel's sums. */
static void the_parts_by_the_kernels_sums(void **state)
{
	struct so_look_record r;
	struct world w;

	begin(&w);
	found(&w, record(BEGIN, WAITING_WAITS, 0, 0), w.stacks[0]);
	r = record(BEGIN + 50 * MS, WAITING_WAITS, 20 * MS, 5 * MS);
	r.before_ns = BEGIN;
	found(&w, r, w.stacks[1]);
	assert_int_equal(given(&w, SAMPLE_RUN), 20 * MS);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[1]), 25 * MS);
	/* Where it was runnable was not seen yet: it is owed. */
	assert_int_equal(given(&w, SAMPLE_RUNNABLE), 0);
	/* Until the look before it waited where it was. */
	r = record(BEGIN + 100 * MS, WAITING_WAITS, 30 * MS, 5 * MS);
	r.before_ns = BEGIN + 80 * MS;
	found(&w, r, w.stacks[0]);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[1]), 55 * MS);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[0]), 10 * MS);
	/* Now it is. */
	found(&w, record(BEGIN + 110 * MS, WAITING_RUNNABLE, 30 * MS, 5 * MS), w.stacks[1]);
	found(&w, record(BEGIN + 120 * MS, WAITING_RUNS, 35 * MS, 15 * MS), NULL);
	assert_int_equal(given_to(&w, SAMPLE_RUNNABLE, w.stacks[1]), 15 * MS);
	each(&w, end_one, BEGIN + 120 * MS);
	assert_int_equal(given(&w, SAMPLE_RUN), 35 * MS);
	assert_int_equal(given_all(&w), 120 * MS);
	end(&w);
}

static void a_number_that_is_used_again(void **state)
{
	struct so_look_record r = record(BEGIN + 100 * MS, WAITING_WAITS, 10 * MS, 0);
	struct world w;

	begin(&w);
	/* Younger than the target: from its own beginning. */
	r.started_ns = BEGIN + 30 * MS;
	found(&w, r, w.stacks[0]);
	assert_int_equal(given(&w, SAMPLE_WAIT), 60 * MS);
	assert_int_equal(given(&w, SAMPLE_RUN), 10 * MS);
	r = record(BEGIN + 200 * MS, WAITING_WAITS, 5 * MS, 0);
	r.started_ns = BEGIN + 150 * MS;
	found(&w, r, w.stacks[1]);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[1]), 45 * MS);
	assert_int_equal(given(&w, SAMPLE_RUN), 15 * MS);
	assert_int_equal(given_to(&w, SAMPLE_WAIT, w.stacks[0]), 60 * MS);
	assert_int_equal(each(&w, end_one, BEGIN + 200 * MS), 1);
	end(&w);
}

static void the_bound(void **state)
{
	struct so_look_record r = record(BEGIN, WAITING_WAITS, 0, 0);
	struct world w;

	begin(&w);
	w.target.caller.uid = 1000;
	for (uint32_t i = 0; i < SO_MAX_LOOKED_THREADS / 4 + 2; i++) {
		r.thread.tid = 1 + i;
		found(&w, r, w.stacks[0]);
	}
	assert_int_equal(each(&w, end_one, BEGIN), SO_MAX_LOOKED_THREADS / 4);
	waiting_threads__sweep(w.all, &w.targets);
	found(&w, r, w.stacks[0]);
	assert_int_equal(each(&w, end_one, BEGIN), 1);
	end(&w);
}

/* A thread that does this and that, looked at as bpf/looks.bpf.c does. */
struct model {
	struct world *world;
	enum waiting_state state;
	uint64_t now_ns, until_ns, runnable_since_ns;
	uint64_t run_ns, delay_ns, switches;
	uint64_t seen_switches, seen_at_ns, looks; /* by the look before */
	enum waiting_state seen_state;
};

static void change(struct model *m)
{
	enum waiting_state old = m->state;

	m->state = old == WAITING_WAITS      ? WAITING_RUNNABLE
		   : old == WAITING_RUNNABLE ? WAITING_RUNS
		   : unit() < 0.7            ? WAITING_WAITS
					     : WAITING_RUNNABLE;
	if (old == WAITING_RUNNABLE)
		m->delay_ns += m->now_ns - m->runnable_since_ns;
	if (m->state == WAITING_RUNNABLE)
		m->runnable_since_ns = m->now_ns;
	m->switches += old == WAITING_RUNS;
	m->until_ns = m->now_ns + (uint64_t)(unit() * unit() * 100 * MS) + 1;
}

static void pass(struct model *m, uint64_t ns)
{
	uint64_t end_ns = m->now_ns + ns;

	while (m->now_ns < end_ns) {
		uint64_t next_ns = m->until_ns < end_ns ? m->until_ns : end_ns;

		if (m->state == WAITING_RUNS)
			m->run_ns += next_ns - m->now_ns;
		m->now_ns = next_ns;
		if (m->now_ns == m->until_ns)
			change(m);
	}
}

static void look(struct model *m)
{
	bool same = m->looks && m->switches == m->seen_switches && m->state != WAITING_RUNS &&
		    m->seen_state != WAITING_RUNS;
	uint64_t late_ns = m->state == WAITING_RUNS ? (uint64_t)(unit() * 4 * MS) : 0;
	struct so_look_record r;

	if (!same || m->state != m->seen_state) {
		r = record(m->now_ns, m->state, m->run_ns - (late_ns < m->run_ns ? late_ns : m->run_ns), m->delay_ns);
		r.before_ns = m->looks ? m->seen_at_ns : 0;
		r.same = same;
		r.thread.switches = m->switches;
		found(m->world, r, same || m->state == WAITING_RUNS ? NULL : m->world->stacks[unit() < 0.5]);
		m->seen_switches = m->switches;
		m->seen_state = m->state;
	}
	m->seen_at_ns = m->now_ns;
	m->looks++;
}

static void whatever_it_does_the_parts_are_the_whole(void **state)
{
	for (unsigned i = 0; i < 2000; i++) {
		struct world w;
		struct model m = { .world = &w, .state = WAITING_WAITS, .now_ns = BEGIN, .until_ns = BEGIN + 1 };
		unsigned looks = (unsigned)(unit() * 60);

		begin(&w);
		pass(&m, (uint64_t)(unit() * 500 * MS));
		w.target.wall_since_ns = m.now_ns;
		for (unsigned j = 0; j <= looks; j++) {
			look(&m);
			assert_in_range(given_all(&w), 0, m.now_ns - w.target.wall_since_ns);
			pass(&m, (uint64_t)(unit() * 75 * MS));
			if (unit() < 0.2)
				each(&w, went_on, m.now_ns);
			assert_in_range(given_all(&w), 0, m.now_ns - w.target.wall_since_ns);
		}
		assert_int_equal(each(&w, end_one, m.now_ns), 1);
		assert_int_equal(given_all(&w), m.now_ns - w.target.wall_since_ns);
		end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_only_waits),
		cmocka_unit_test(the_parts_by_the_kernels_sums),
		cmocka_unit_test(a_number_that_is_used_again),
		cmocka_unit_test(the_bound),
		cmocka_unit_test(whatever_it_does_the_parts_are_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
