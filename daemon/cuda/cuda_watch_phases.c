// SPDX-License-Identifier: GPL-2.0-or-later
/* When the probes of a target are on: the phases of its duty cycle, and which probes come and go with them. */
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/cuda/cuda_watch_parts.h"

#define MS CUDA_WATCH_MS

/* Between two looks whether the probes of the last time on are gone. */
#define GOING_MS 5
/* The gate is held open for so long after it is needed, and waited for so long at most. */
#define GATE_MS          3
#define GATE_PATIENCE_MS 100

void cuda_watch_begin_anew(struct cuda_watch *w, uint32_t kinds, uint64_t at_ns)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		if (kinds >> i & 1)
			control->since_ns[i] = at_ns;
	}
}

void cuda_watch_set_off(struct cuda_watch *w, uint32_t kinds)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		control->off[i] = kinds >> i & 1;
}

static void free_cycled(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(TAKE_PTR(w->mapped[i].cycled));
}

/* Calls of the cycled kinds that the target makes. */
static struct cuda_api_set made(const struct cuda_watch *w, uint32_t kinds)
{
	struct cuda_api_set called = cuda_probes__called(w->probes, w->slot), set = { { 0 } };

	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++) {
		if (cuda_api_set__has(&called, api) && kinds >> cuda_names__kind(api) & 1)
			cuda_api_set__add(&set, api);
	}
	return set;
}

/* Whether calls of the cycled kinds run into probes that stay. They do not count there while their kind is off. */
static bool has_new_calls(const struct cuda_watch *w)
{
	struct cuda_api_set set = made(w, w->kinds.cycled);

	for (unsigned i = 0; i < SO_CUDA_API_WORDS; i++) {
		if (set.words[i] & ~w->cycled.words[i])
			return true;
	}
	return false;
}

/*
 * Other calls from now on: the probes are placed anew, those that stay first. The new ones come before the old ones go, so that
 * no call is missed; the program knows an entry that has two. Perf events are taken over instead, which must be free for that.
 */
static void divide(struct cuda_watch *w)
{
	bool perf = cuda_probes__kind(w->probes) == CUDA_PROBE_PERF;
	uint64_t began_ns = clock__now_ns();

	/* A probe that nothing runs into costs nothing, and placing each takes its time: all others stay. */
	w->cycled = made(w, w->kinds.cycled);
	w->stray_ns = w->stray_elapsed_ns = 0;
	if (perf)
		free_cycled(w);
	for (size_t i = 0; i < w->n_mapped; i++) {
		w->mapped[i].old = TAKE_PTR(w->mapped[i].steady);
		if (perf)
			cuda_link__free(TAKE_PTR(w->mapped[i].old));
		cuda_watch_attach_steady(w, &w->mapped[i]);
	}
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(TAKE_PTR(w->mapped[i].old));
	/* Of those that were under way some have returned meanwhile, by the old probes. */
	cuda_watch_begin_anew(w, ~w->kinds.cycled, began_ns);
	cuda_active__interrupt(&w->active);
	cuda_watch_look_off(w, clock__now_ns());
}

static void switch_on_light(struct cuda_watch *w)
{
	cuda_watch_end_quiet(w, clock__now_ns());
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (cuda_watch_is_light(w, &w->mapped[i]))
			cuda_watch_attach_cycled(w, &w->mapped[i], true);
	}
	cuda_watch_begin_light(w, clock__now_ns());
}

static void switch_on(struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();

	if (w->phase == CUDA_WATCH_LIGHT) {
		cuda_watch_end_light(w, now);
	} else {
		cuda_watch_end_quiet(w, now);
		cuda_watch_begin_hits(w);
	}
	cuda_watch_begin_anew(w, w->kinds.cycled, now);
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_watch_attach_cycled(w, &w->mapped[i], false);
}

static void begin_counting(struct cuda_watch *w)
{
	double lost_ns = cuda_watch_lost_before_ns(w);

	cuda_watch_begin_waits(w, clock__now_ns());
	cuda_watch_begin_segment(w, clock__now_ns());
	w->light.lost_ns = lost_ns;
	/* Nothing comes between the two: a time on is short. */
	w->on_since_ns = w->segment_ns = clock__now_ns();
	cuda_watch_set_off(w, 0);
}

static void switch_off(struct cuda_watch *w)
{
	struct cuda_kinds next = w->kinds;
	bool choose = !w->kinds.cycled || cuda_kinds__are_outgrown(&w->kinds, cuda_watch_most_steady(w)),
	     divides;
	uint64_t now;

	if (choose)
		cuda_kinds__choose(&next, cuda_watch_most_steady(w));
	/* The first choice holds for the time on that ends: it stands for itself alone. */
	if (!w->kinds.cycled)
		w->kinds = next;
	cuda_watch_set_off(w, w->kinds.cycled | next.cycled);
	now = clock__now_ns();
	w->on_ns += now - w->on_since_ns;
	w->estimated = true;
	divides = choose || (cuda_watch_has_strays(w) && has_new_calls(w));
	/* First of all: the target runs into them. */
	if (!divides)
		free_cycled(w);
	cuda_watch_settle_at(w, w->ended_ns ?: now, false);
	if (choose) {
		/* Of other kinds this time has been counted, or not. */
		cuda_watch_end_off(w);
		w->kinds = next;
		cuda_estimate_rates__change(&w->rates, next.cycled);
		memset(&w->callers, 0, sizeof(w->callers));
		w->pace = (struct cuda_pace){ 0 };
		/* What stays from now on is in the total already. */
		if (w->last_on)
			cuda_snapshot__scale(w->last_on, ~next.cycled, 0, 0, 0);
		w->last_seen.kinds &= next.cycled;
		cuda_watch_change_waits(w);
	}
	if (divides)
		divide(w);
	free_cycled(w);
	cuda_watch_set_off(w, w->kinds.cycled);
	cuda_watch_set_segments(w);
}

static uint32_t phase_ms(const struct cuda_watch *w, enum cuda_watch_phase phase)
{
	switch (phase) {
	case CUDA_WATCH_OFF_BEFORE:
		return w->cycle.off_before_ms;
	case CUDA_WATCH_LIGHT:
		return CUDA_WATCH_LIGHT_MS;
	case CUDA_WATCH_SETTLING:
		return CUDA_WATCH_SETTLE_MS;
	case CUDA_WATCH_ON:
		return w->cycle.on_ms;
	case CUDA_WATCH_OFF_AFTER:
		break;
	}
	return w->cycle.off_after_ms;
}

static void set_phase(struct cuda_watch *w, enum cuda_watch_phase phase, uint64_t now)
{
	bool began = phase == CUDA_WATCH_LIGHT || phase == CUDA_WATCH_SETTLING ||
		     (phase == CUDA_WATCH_ON && !cuda_watch_is_on(w));

	if (phase == CUDA_WATCH_OFF_AFTER || phase == CUDA_WATCH_OFF_BEFORE) {
		if (cuda_watch_has_cycled(w))
			switch_off(w);
	} else if (phase == CUDA_WATCH_LIGHT) {
		switch_on_light(w);
	} else if (phase == CUDA_WATCH_SETTLING) {
		switch_on(w);
	} else if (!cuda_watch_is_on(w)) {
		begin_counting(w);
	}
	w->phase = phase;
	w->had_cycled |= cuda_watch_has_cycled(w);
	/* For as long as was planned, whatever switching on has taken. */
	w->phase_end_ns = (began ? clock__now_ns() : now) + phase_ms(w, phase) * MS;
}

static bool are_going(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (!w->mapped[i].gone && cuda_probes__are_going(w->probes, w->mapped[i].pid))
			return true;
	}
	return false;
}

/* Whether probes come or go at the end of the phase: not where an emergency ends it. */
static bool switches(const struct cuda_watch *w)
{
	return w->phase == CUDA_WATCH_OFF_BEFORE || w->phase == CUDA_WATCH_LIGHT ||
	       (w->phase == CUDA_WATCH_ON && w->cycle.duty < 1);
}

/* Of a time on. */
static enum cuda_watch_phase first_phase(struct cuda_watch *w)
{
	return cuda_watch_plan_light(w) ? CUDA_WATCH_LIGHT : CUDA_WATCH_SETTLING;
}

/* A part of a cycle that has no length is over at once, unless probes are being taken away; each has an on part. */
static void next_phase(struct cuda_watch *w, uint64_t now)
{
	switch (w->phase) {
	case CUDA_WATCH_OFF_BEFORE:
		if (are_going(w))
			w->phase_end_ns = now + GOING_MS * MS;
		else
			set_phase(w, first_phase(w), now);
		return;
	case CUDA_WATCH_LIGHT:
		set_phase(w, CUDA_WATCH_SETTLING, now);
		return;
	case CUDA_WATCH_SETTLING:
		set_phase(w, CUDA_WATCH_ON, now);
		return;
	case CUDA_WATCH_ON:
		if (w->cycle.off_after_ms) {
			set_phase(w, CUDA_WATCH_OFF_AFTER, now);
			return;
		}
		break;
	case CUDA_WATCH_OFF_AFTER:
		break;
	}
	if (cuda_watch__is_estimate(w, now))
		cuda_watch__settle(w);
	cuda_budget__cycle(w->budget, cuda_watch_random(w), &w->cycle);
	set_phase(w, cuda_watch_is_on(w) && !w->cycle.off_before_ms ? CUDA_WATCH_ON : CUDA_WATCH_OFF_BEFORE,
		  now);
}

static void open_gate(struct cuda_watch *w, uint64_t now)
{
	struct cuda_gate *gate = cuda_probes__gate(w->probes);

	uint64_t end = w->phase_end_ns;

	/* A time on may be so short that it is to stay open until its end. */
	if (w->phase == CUDA_WATCH_LIGHT)
		end += (CUDA_WATCH_SETTLE_MS + CUDA_BUDGET_MIN_ON_MS) * MS;
	else if (w->phase == CUDA_WATCH_SETTLING)
		end += w->cycle.on_ms * MS;
	else if (!switches(w))
		return;
	if (gate && (w->phase == CUDA_WATCH_LIGHT || now + CUDA_GATE_AHEAD_MS * MS >= end))
		cuda_gate__want(gate, (now > end ? now : end) + GATE_MS * MS);
}

static bool waits_for_gate(struct cuda_watch *w, uint64_t now)
{
	struct cuda_gate *gate = cuda_probes__gate(w->probes);

	return gate && switches(w) && !cuda_gate__is_open(gate) &&
	       now < w->phase_end_ns + GATE_PATIENCE_MS * MS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When the phase is to be looked at again: at its end, and before, to have the gate opened. */
static uint64_t next_of_phase(const struct cuda_watch *w, uint64_t now)
{
	uint64_t ahead = w->phase_end_ns - CUDA_GATE_AHEAD_MS * MS;

	return switches(w) && ahead > now ? ahead : w->phase_end_ns;
}

uint64_t cuda_watch__tick(struct cuda_watch *w, uint64_t now)
{
	if (now >= w->check_ns) {
		cuda_watch_attach_waiting(w);
		cuda_watch_check(w, now);
		/* Calls that it began to make after the last division: not until the next time on, which may be long in coming. */
		if (!cuda_watch_has_cycled(w) && w->kinds.cycled && cuda_watch_has_strays(w) &&
		    has_new_calls(w) && !are_going(w))
			divide(w);
		w->check_ns = now + cuda_budget__check_ms(w->budget) * MS;
	}
	if (cuda_watch_is_on(w) && w->n_mapped && cuda_budget__must_end(w->budget, &w->cycle)) {
		set_phase(w, CUDA_WATCH_OFF_AFTER, now);
		w->phase_end_ns = now;
	}
	open_gate(w, now);
	if (now >= w->phase_end_ns) {
		if (waits_for_gate(w, now))
			return now + MS;
		next_phase(w, now);
		open_gate(w, now);
	}
	return earlier(w->check_ns, next_of_phase(w, now));
}
