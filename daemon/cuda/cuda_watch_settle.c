// SPDX-License-Identifier: GPL-2.0-or-later
/* From maps to calls: those of windowed units are scaled from on-window to cycle, all others are added as they are. */
#include <math.h>
#include <string.h>

#include "stakeout/cuda_names.h"
#include "daemon/cuda/cuda_watch.h"
#include "daemon/os/clock.h"

/* A window that is cut short is kept if so much of it was. */
#define LEAST_WINDOW 0.5
/*
 * So well is known what the probes took; and where they may have taken more than so much of the time, the rate without
 * them is not known.
 */
#define PRICE_MARGIN  1.25
#define MOST_SLOWDOWN 0.9

static bool takes(void *context, uint32_t tgid)
{
	return cuda_watch__has_process(context, (pid_t)tgid);
}

/* Nothing is called after the last process with a library has ended. */
static uint64_t now_of(const struct cuda_watch *w)
{
	return w->ended_ns ?: clock__now_ns();
}

/* What the maps gained since the last settling, and what they hold. */
static int read_gain(struct cuda_watch *w, struct cuda_snapshot **maps, struct cuda_snapshot **gain)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = NULL;
	int ret = cuda_snapshot__new(&now);

	ret = ret ?: cuda_probes__snapshot(w->probes, w->slot, takes, w, now);
	ret = ret ?: cuda_snapshot__merge(now, w->ended_threads, 0);
	ret = ret ?: cuda_snapshot__subtract(now, w->last, gain);
	if (!ret)
		*maps = TAKE_PTR(now);
	return ret;
}

/* Adds times × of's calls of these units, or what is not calls too. */
static int add_scaled(const struct cuda_snapshot *of, uint32_t units, double times, struct cuda_snapshot *into)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *copy = NULL;
	int ret = cuda_snapshot__new(&copy);

	ret = ret ?: cuda_snapshot__merge(copy, of, 0);
	ret = ret ?: cuda_snapshot__scale(copy, ~units, 0, 0);
	ret = ret ?: cuda_snapshot__scale(copy, units, times, 0.5);
	if (!ret)
		cuda_snapshot__take_memory(copy, into);
	return ret ?: cuda_snapshot__merge(into, copy, 0);
}

/* What was gained goes to `into` but for the windowed units, whose part goes to `window`. */
static int divide_gain(const struct cuda_watch *w, struct cuda_snapshot *gain, struct cuda_snapshot *into,
		       struct cuda_snapshot *window)
{
	int ret = w->windowed ? add_scaled(gain, w->windowed, 1, window) : 0;

	if (w->windowed)
		ret = ret ?: cuda_snapshot__scale(gain, w->windowed, 0, 0);
	return ret ?: cuda_snapshot__merge(into, gain, 0);
}

int cuda_watch__settle(struct cuda_watch *w)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *gain = NULL;
	int ret = read_gain(w, &maps, &gain);

	if (ret)
		return ret;
	cuda_snapshot__free(w->last);
	w->last = TAKE_PTR(maps);
	w->settled_ns = clock__now_ns();
	ret = divide_gain(w, gain, w->total, w->fresh);
	if (ret)
		w->lost = true;
	return ret;
}

static double cpu_of(const struct cuda_watch *w)
{
	double sum = 0;

	for (size_t i = 0; i < w->n_processes; i++)
		sum += (double)cuda_watch_cpu_of(&w->processes[i]);
	return sum;
}

void cuda_watch_mark_window(struct cuda_watch *w)
{
	w->on_cpu_ns = cpu_of(w);
	cuda_running__begin(&w->running, w->last);
	cuda_probes__slot(w->probes, w->slot, &w->on_slot);
}

/* Of the on-window, by the probes that are there for it alone. */
static double slowdown_of(struct cuda_watch *w, double on_ns)
{
	const struct cuda_running_time time = cuda_running__since(&w->running);
	double cpu = cpu_of(w) - w->on_cpu_ns, cost;
	struct so_cuda_slot slot;

	if (!on_ns || cuda_probes__slot(w->probes, w->slot, &slot))
		return 0;
	cuda_slot__subtract(&slot, &w->on_slot);
	cuda_watch_note_rates(w, &slot, w->windowed, on_ns, 0.5);
	cost = cuda_watch_cost_of(w, &slot) - w->ladder.always * on_ns * 1e-9;
	return cuda_running__slowdown(&time, PRICE_MARGIN * cost, cpu, on_ns);
}

int cuda_watch_end_window(struct cuda_watch *w, uint64_t now)
{
	double on_ns = (double)(now - w->on_since_ns), slowdown = slowdown_of(w, on_ns);
	struct cuda_snapshot *next;
	int ret = cuda_watch__settle(w);

	ret = ret ?: cuda_snapshot__new(&next);
	if (ret)
		return ret;
	if (on_ns < LEAST_WINDOW * (double)w->window_ns) {
		cuda_snapshot__free(w->fresh);
	} else {
		cuda_snapshot__free(w->window.calls);
		w->window = (struct cuda_window){ w->fresh, on_ns, slowdown, true };
	}
	w->fresh = next;
	return 0;
}

int cuda_watch_seed(struct cuda_watch *w, uint32_t units, uint64_t now)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *gain = NULL;
	double span = now > w->settled_ns ? (double)(now - w->settled_ns) : 1;
	int ret = units ? read_gain(w, &maps, &gain) : 0;

	if (ret || !units)
		return ret;
	if (!(w->window.on_ns > 0))
		w->window.on_ns = span;
	ret = cuda_snapshot__scale(w->window.calls, units, 0, 0);
	return ret ?: add_scaled(gain, units, w->window.on_ns / span, w->window.calls);
}

/* How the window is scaled to a time, which it lies in if it is its own. */
struct scaling {
	double factor;   /* of its calls: rate × time; */
	double slowdown; /* so much more at most, as a part of what was not seen */
	double unseen;   /* what of the factor is of calls that were not seen */
};

/*
 * What the probes took of the on-window is lost to a target that has work to do, and not to one that would have
 * waited: the rate without them is between the one that was seen and this much more.
 */
static struct scaling scaling_of(const struct cuda_window *window, double time_ns)
{
	double own = window->own ? window->on_ns : 0, unseen = fmax(time_ns - own, 0) / window->on_ns;

	return (struct scaling){
		.factor = (window->own ? 1 : 0) + unseen,
		.slowdown = 1 / (1 - fmin(window->slowdown, MOST_SLOWDOWN)) - 1,
		.unseen = unseen,
	};
}

static void note_estimate(struct so_cuda_estimate *e, double calls, const struct cuda_window *window,
			  const struct scaling *scaling, double time_ns)
{
	double time_s = time_ns * 1e-9, rate, own_s = window->own ? window->on_ns * 1e-9 : 0;

	rate = time_s > own_s ? calls * scaling->unseen / (time_s - own_s) : 0;
	e->windows += window->own;
	e->rates += window->own ? rate : 0;
	e->squares += window->own ? rate * rate : 0;
	e->weight += time_s * (time_s - own_s);
	e->calls += calls * scaling->unseen;
	e->slowdown += calls * scaling->unseen * scaling->slowdown;
	e->blind += calls > 0 && window->slowdown > MOST_SLOWDOWN;
}

/* An API that was not called in this window, and in others is, has a rate of 0 in it. */
static void note_estimates(const struct cuda_watch *w, const struct cuda_window *window, const struct scaling *scaling,
			   double time_ns, struct cuda_estimates *estimates)
{
	double calls[CUDA_ESTIMATES] = { 0 };
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(window->calls, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.api >= SO_CUDA_API_COUNT)
			continue;
		calls[entries[i].key.api] += (double)entries[i].calls.calls;
		calls[CUDA_ESTIMATE_ALL] += (double)entries[i].calls.calls;
	}
	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
		bool noted = i == CUDA_ESTIMATE_ALL ? calls[i] > 0 || estimates->of[i].windows > 0
						    : w->windowed >> cuda_names__unit(i) & 1;

		if (noted)
			note_estimate(&estimates->of[i], calls[i], window, scaling, time_ns);
	}
}

/* The windowed units' calls of the time since accounted_ns, by this window. */
static int add_window(const struct cuda_watch *w, const struct cuda_window *window, uint64_t now,
		      struct cuda_snapshot *into, struct cuda_estimates *estimates)
{
	double time_ns = now > w->accounted_ns ? (double)(now - w->accounted_ns) : 0;
	struct scaling scaling;

	if (!w->windowed || !(window->on_ns > 0) || time_ns <= 0)
		return 0;
	scaling = scaling_of(window, time_ns);
	note_estimates(w, window, &scaling, time_ns, estimates);
	return add_scaled(window->calls, w->windowed, scaling.factor, into);
}

int cuda_watch_account(struct cuda_watch *w, uint64_t now)
{
	int ret = add_window(w, &w->window, now, w->total, &w->estimates);

	if (w->window.own && w->windowed)
		w->factors[w->segment % CUDA_WATCH_SEGMENTS] =
			scaling_of(&w->window, (double)(now - w->accounted_ns)).factor;
	w->window.own = false;
	w->accounted_ns = now;
	return ret;
}

int cuda_watch_pause(struct cuda_watch *w, uint64_t now)
{
	int ret = w->windowed && w->phase == CUDA_WATCH_ON ? cuda_watch_end_window(w, now) : cuda_watch__settle(w);

	ret = ret ?: cuda_watch_account(w, now);
	w->ended_ns = now;
	/* Of the next one nothing is known. */
	w->window.on_ns = 0;
	w->phase = CUDA_WATCH_OFF_BEFORE;
	return ret;
}

/* The window that this moment is in, as far as it goes; false: it is none, or goes too little. */
static bool is_window_so_far(const struct cuda_watch *w, uint64_t now, double *on_ns)
{
	*on_ns = now > w->on_since_ns ? (double)(now - w->on_since_ns) : 0;
	return w->windowed && w->phase == CUDA_WATCH_ON && *on_ns >= LEAST_WINDOW * (double)w->window_ns;
}

int cuda_watch__result(struct cuda_watch *w, struct cuda_snapshot **out, struct cuda_estimates *estimates)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *gain = NULL, *result = NULL, *fresh = NULL;
	struct cuda_estimates near = w->estimates;
	struct cuda_window window = w->window;
	uint64_t now = now_of(w);
	double on_ns;
	int ret = read_gain(w, &maps, &gain);

	ret = ret ?: cuda_snapshot__new(&result);
	ret = ret ?: cuda_snapshot__new(&fresh);
	ret = ret ?: cuda_snapshot__merge(result, w->total, 0);
	ret = ret ?: cuda_snapshot__merge(fresh, w->fresh, 0);
	ret = ret ?: divide_gain(w, gain, result, fresh);
	if (!ret && is_window_so_far(w, now, &on_ns))
		window = (struct cuda_window){ fresh, on_ns, slowdown_of(w, on_ns), true };
	ret = ret ?: add_window(w, &window, now, result, &near);
	if (ret)
		return ret;
	if (estimates)
		*estimates = near;
	*out = TAKE_PTR(result);
	return 0;
}

int cuda_watch__cut(struct cuda_watch *w, struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *copy = NULL;
	uint64_t now = now_of(w);
	bool on = w->windowed && w->phase == CUDA_WATCH_ON;
	int ret = on ? cuda_watch_end_window(w, now) : cuda_watch__settle(w);

	/* The window goes on as another one. */
	if (on) {
		w->on_since_ns = now;
		cuda_watch_mark_window(w);
	}
	ret = ret ?: cuda_watch_account(w, now);
	ret = ret ?: cuda_snapshot__new(&copy);
	ret = ret ?: cuda_snapshot__merge(copy, w->total, 0);
	if (!ret)
		*out = TAKE_PTR(copy);
	return ret;
}
