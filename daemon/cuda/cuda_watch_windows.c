// SPDX-License-Identifier: GPL-2.0-or-later
/* On-windows and off-windows: when the probes of the windowed units are there. */
#include <math.h>

#include "daemon/cuda/cuda_watch.h"
#include "daemon/os/clock.h"

#define MS 1000000ull
/* An on-window, if the budget leaves two seconds between two of them; PERF_TIMES as long with slow probes. */
#define LEAST_WINDOW_NS 40e6
#define MOST_WINDOW_NS  125e6
#define PERF_TIMES      4
#define CYCLE_NS        0.5e9 /* an estimate is as good as its windows are many */
#define MOST_CYCLE_NS   30e9
#define MOST_SHARE      0.5 /* of a cycle */
/* To place probes stops the target for a moment, which it may compensate by calls in quick succession. */
#define SETTLE_NS (5 * MS)
/* What the probes cost that are being placed and taken away, and count nothing: as so much more of the window. */
#define PLACING_NS 20e6
/* Between two looks whether the probes of the last window are gone. */
#define GOING_NS (5 * MS)

/* 64 random bits. A cheap generator is enough: it only must not follow the target (splitmix64). */
static uint64_t random_bits(struct cuda_watch *w)
{
	uint64_t x = w->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A cycle's length is chosen before its calls come: the sum is right on average. Overspending makes cycles longer. */
static void begin_cycle(struct cuda_watch *w, uint64_t now)
{
	double allowed = cuda_watch_allowed(w), left = fmax(allowed - w->ladder.always, allowed / 10);
	double share = w->ladder.windowed > 0 ? fmin(left / w->ladder.windowed, MOST_SHARE) : MOST_SHARE;
	double window = fmin(fmax(share * CYCLE_NS, LEAST_WINDOW_NS), MOST_WINDOW_NS), cycle, before;

	if (cuda_probes__kind(w->probes) == CUDA_PROBE_PERF)
		window *= PERF_TIMES;
	cycle = (window + PLACING_NS) / share;
	if (w->debt_ns > 0)
		cycle += w->debt_ns / allowed * 1e9 / 2;
	cycle = fmin(cycle, MOST_CYCLE_NS);
	before = (double)(random_bits(w) >> 11) * 0x1p-53 * (cycle - window - (double)SETTLE_NS);
	w->window_ns = (uint64_t)window;
	w->phase = CUDA_WATCH_OFF_BEFORE;
	w->phase_end_ns = now + (uint64_t)before;
	w->cycle_end_ns = now + (uint64_t)cycle;
}

static void set_off(struct cuda_watch *w, uint32_t units)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		control->off[i] = units >> i & 1;
}

static void take_away(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(TAKE_PTR(w->mapped[i].windowed));
}

static void begin_counting(struct cuda_watch *w, uint64_t now)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	w->segment++;
	w->factors[w->segment % CUDA_WATCH_SEGMENTS] =
		(double)(w->cycle_end_ns - w->accounted_ns) / (double)w->window_ns;
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		if (!(w->windowed >> i & 1))
			continue;
		control->segment[i] = w->segment;
		control->since_ns[i] = now;
	}
	cuda_watch_mark_window(w);
	w->on_since_ns = clock__now_ns();
	set_off(w, w->unwatched);
	w->phase_end_ns = w->on_since_ns + w->window_ns;
}

static void end_counting(struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();

	set_off(w, w->windowed | w->unwatched);
	/* First of all: the target runs into them. */
	take_away(w);
	if (cuda_watch_end_window(w, now))
		w->lost = true;
}

static bool are_going(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (!w->mapped[i].gone && cuda_probes__are_going(w->probes, w->mapped[i].pid))
			return true;
	}
	return false;
}

static void next_phase(struct cuda_watch *w, uint64_t now)
{
	switch (w->phase) {
	case CUDA_WATCH_OFF_BEFORE:
		if (are_going(w)) {
			w->phase_end_ns = now + GOING_NS;
			return;
		}
		for (size_t i = 0; i < w->n_mapped; i++)
			cuda_watch_attach_windowed(w, &w->mapped[i]);
		w->phase_end_ns = clock__now_ns() + SETTLE_NS;
		break;
	case CUDA_WATCH_SETTLING:
		begin_counting(w, now);
		break;
	case CUDA_WATCH_ON:
		end_counting(w);
		w->phase_end_ns = w->cycle_end_ns;
		break;
	case CUDA_WATCH_OFF_AFTER:
		if (cuda_watch_account(w, now))
			w->lost = true;
		begin_cycle(w, now);
		return;
	}
	w->phase++;
}

uint64_t cuda_watch_windows_tick(struct cuda_watch *w, uint64_t now)
{
	if (!w->windowed || w->ended_ns)
		return UINT64_MAX;
	if (now >= w->phase_end_ns)
		next_phase(w, now);
	return w->phase_end_ns;
}

/* New probes come before old ones go, so that no call is missed. Perf events must be free: they are taken over. */
void cuda_watch_divide(struct cuda_watch *w, uint32_t windowed, uint32_t unwatched)
{
	bool perf = cuda_probes__kind(w->probes) == CUDA_PROBE_PERF;
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);
	struct cuda_link *old[w->n_mapped + 1];
	uint64_t now = clock__now_ns();
	int ret;

	if (w->windowed && w->phase == CUDA_WATCH_ON)
		end_counting(w);
	take_away(w);
	ret = cuda_watch_account(w, now);
	ret = ret ?: cuda_watch_seed(w, windowed & ~w->windowed, now);
	if (ret || cuda_watch__settle(w))
		w->lost = true;
	w->windowed = windowed;
	w->unwatched = unwatched;
	w->generation = perf ? 0 : (w->generation + 1) & 0xf;
	for (size_t i = 0; i < w->n_mapped; i++) {
		old[i] = TAKE_PTR(w->mapped[i].always);
		if (perf)
			cuda_link__free(TAKE_PTR(old[i]));
		cuda_watch_attach_always(w, &w->mapped[i]);
	}
	now = clock__now_ns();
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		control->since_ns[i] = now;
		if (!(windowed >> i & 1))
			control->segment[i] = 0;
	}
	control->generation = w->generation;
	set_off(w, windowed | unwatched);
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(old[i]);
	w->accounted_ns = clock__now_ns();
	begin_cycle(w, w->accounted_ns);
}
