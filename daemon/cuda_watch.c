// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "stakeout/array.h"

#define MS        1000000ull
#define KINDS_NS  (500 * MS)
#define MAX_LINES (1u << 18)

static uint32_t last_number; /* of a library; the engine's lock guards it */

static void release_mapped(struct cuda_mapped *m)
{
	cuda_link__free(m->steady);
	cuda_link__free(m->cycled);
	cuda_library__release(&m->library);
	if (m->fd >= 0)
		close(m->fd);
	free(m->path);
}

int cuda_watch__new(struct cuda_probes *probes, uint32_t slot, double budget_percent, struct cuda_watch **out)
{
	_cleanup_(cuda_watch) struct cuda_watch *w = calloc(1, sizeof(*w));
	struct cuda_budget_plan plan;
	int ret = w ? 0 : -ENOMEM;

	if (ret)
		return ret;
	w->probes = probes;
	w->slot = slot;
	w->budget_percent = budget_percent;
	if (getrandom(&w->random, sizeof(w->random), 0) != sizeof(w->random))
		w->random = clock__now_ns();
	ret = cuda_budget__new(budget_percent, &w->budget);
	ret = ret ?: cuda_snapshot__new(&w->total);
	ret = ret ?: cuda_snapshot__new(&w->last);
	ret = ret ?: cuda_probes__clear_slot(probes, slot);
	if (ret)
		return ret;
	w->begin_ns = w->checked_ns = w->kinds_ns = w->on_since_ns = clock__now_ns();
	w->accounted_ns = w->segment_ns = w->begin_ns;
	w->line_factor = 1;
	w->phase = 1;
	w->cycle = (struct cuda_budget_cycle){ .on_ms = CUDA_BUDGET_STEADY_ON_MS, .duty = 1, .factor = 1 };
	w->phase_end_ns = w->begin_ns + w->cycle.on_ms * MS;
	cuda_budget__plan(w->budget, &plan);
	memcpy(cuda_probes__control(probes, slot)->stack_period, plan.stack_period, sizeof(plan.stack_period));
	memset(cuda_probes__control(probes, slot)->off, 0, sizeof(cuda_probes__control(probes, slot)->off));
	cuda_probes__control(probes, slot)->on = 1;
	*out = TAKE_PTR(w);
	return 0;
}

void cuda_watch__stop(struct cuda_watch *w)
{
	cuda_probes__control(w->probes, w->slot)->on = 0;
}

void cuda_watch__free(struct cuda_watch *w)
{
	if (!w)
		return;
	if (w->probes)
		cuda_probes__control(w->probes, w->slot)->on = 0;
	for (size_t i = 0; i < w->n_mapped; i++)
		release_mapped(&w->mapped[i]);
	for (size_t i = 0; i < w->n_pids; i++)
		cuda_probes__forget(w->probes, w->pids[i]);
	free(w->mapped);
	free(w->pids);
	free(w->lines);
	u64_table__release(&w->line_by_hash);
	cuda_snapshot__free(w->total);
	cuda_snapshot__free(w->last);
	cuda_snapshot__free(w->last_on);
	cuda_budget__free(w->budget);
	free(w);
}

bool cuda_watch__has_process(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_pids; i++) {
		if (w->pids[i] == pid)
			return true;
	}
	return false;
}

int cuda_watch__add_process(struct cuda_watch *w, pid_t pid)
{
	if (cuda_watch__has_process(w, pid))
		return 0;
	if (ARRAY_RESERVE(w->pids, w->cap_pids, w->n_pids + 1))
		return -ENOMEM;
	w->pids[w->n_pids++] = pid;
	return 0;
}

bool cuda_watch__has_library(const struct cuda_watch *w, pid_t pid, uint64_t dev, uint64_t inode)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		const struct cuda_mapped *m = &w->mapped[i];

		if (!m->gone && m->pid == pid && m->dev == dev && m->inode == inode)
			return true;
	}
	return false;
}

static bool is_on(const struct cuda_watch *w)
{
	return w->phase == 1;
}

static void attach(struct cuda_watch *w, struct cuda_mapped *m, uint32_t kinds, struct cuda_link **link)
{
	struct so_error why = { "" };

	if (*link || m->gone || !m->library.n_functions)
		return;
	if (cuda_probes__attach(w->probes, m->pid, w->slot, m->number, m->fd, &m->library, kinds, link, &why))
		snprintf(m->problem, sizeof(m->problem), "%.150s: %.90s", m->path, why.text);
}

static void attach_steady(struct cuda_watch *w, struct cuda_mapped *m)
{
	attach(w, m, ~w->cycled_kinds, &m->steady);
}

static void attach_cycled(struct cuda_watch *w, struct cuda_mapped *m)
{
	if (w->cycled_kinds)
		attach(w, m, w->cycled_kinds, &m->cycled);
}

/* A static one shares its file's code with the program, whose own calls of the driver count. */
static void tell_runtimes(struct cuda_watch *w, pid_t pid)
{
	struct so_cuda_runtimes runtimes = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < w->n_mapped && n < SO_CUDA_MAX_RUNTIMES; i++) {
		const struct cuda_mapped *m = &w->mapped[i];

		if (m->gone || m->pid != pid || m->library.kind != CUDA_LIBRARY_RUNTIME)
			continue;
		runtimes.low[n] = m->text_low;
		runtimes.high[n++] = m->text_high;
	}
	if (n)
		cuda_probes__set_runtimes(w->probes, pid, &runtimes);
}

int cuda_watch__add_library(struct cuda_watch *w, struct cuda_mapped *mapped)
{
	int ret = ARRAY_RESERVE(w->mapped, w->cap_mapped, w->n_mapped + 1);

	if (!ret && last_number == UINT32_MAX)
		ret = -ENOSPC;
	if (ret) {
		release_mapped(mapped);
		return ret;
	}
	mapped->number = ++last_number;
	if (mapped->library.problem[0])
		snprintf(mapped->problem, sizeof(mapped->problem), "%.80s: %.170s", mapped->path,
			 mapped->library.problem);
	w->mapped[w->n_mapped++] = *mapped;
	tell_runtimes(w, mapped->pid);
	attach_steady(w, &w->mapped[w->n_mapped - 1]);
	if (is_on(w))
		attach_cycled(w, &w->mapped[w->n_mapped - 1]);
	return cuda_watch__add_process(w, mapped->pid);
}

static bool takes(void *context, uint32_t tgid)
{
	return cuda_watch__has_process(context, (pid_t)tgid);
}

static int read_maps(struct cuda_watch *w, struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = NULL;
	int ret = cuda_snapshot__new(&now);

	ret = ret ?: cuda_probes__snapshot(w->probes, w->slot, takes, w, now);
	if (!ret)
		*out = TAKE_PTR(now);
	return ret;
}

/* A cheap generator is enough: it only must not follow the target (splitmix64). */
static uint64_t next_random(struct cuda_watch *w)
{
	uint64_t x = w->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static double start_of(struct cuda_watch *w)
{
	return (double)(next_random(w) >> 11) / 0x1p53;
}

/* CPU time of the processes that live, from their own clocks. */
static uint64_t cpu_time(const struct cuda_watch *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->n_pids; i++) {
		struct timespec t;
		clockid_t clock;

		if (!clock_getcpuclockid(w->pids[i], &clock) && !clock_gettime(clock, &t))
			sum += (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
	}
	return sum;
}

static void begin_segment(struct cuda_watch *w, uint64_t now)
{
	w->segment_ns = now;
	cuda_probes__slot(w->probes, w->slot, &w->segment_slot);
}

/* What the probes have taken from the target since the segment began, one thread's share if it has several. */
static double taken_ns(const struct cuda_watch *w, double threads)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);
	struct so_cuda_slot slot;

	if (cuda_probes__slot(w->probes, w->slot, &slot))
		return 0;
	return ((double)(slot.returns - w->segment_slot.returns) * cost.pair_ns +
		(double)(slot.nested - w->segment_slot.nested) * cost.nested_ns +
		(double)(slot.stacks_ns - w->segment_slot.stacks_ns)) /
	       threads;
}

/*
 * CPUs that the target has kept busy since it is watched: the clock of a process that runs on another CPU lags by some
 * milliseconds, so a segment is too short to look at.
 */
static double cpus_used(const struct cuda_watch *w)
{
	return w->checked_ns > w->cpu_since_ns && w->cpu_since_ns
		       ? (double)w->cpu_ns / (double)(w->checked_ns - w->cpu_since_ns)
		       : 0;
}

/* Host time in calls that wait. */
static double waits_ns(const struct cuda_snapshot *since)
{
	const struct cuda_calls_entry *entries;
	double sum = 0;
	size_t n;

	entries = cuda_snapshot__calls(since, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.api < SO_CUDA_API_COUNT &&
		    cuda_names__kind(entries[i].key.api) == SO_CUDA_SYNC)
			sum += (double)entries[i].calls.total_ns;
	}
	return sum;
}

/*
 * How much of the segment the target had for itself. What the probes take is made up for by time in which it would have
 * slept or waited for the GPU; where there is too little of that, it makes fewer calls than without the probes.
 */
static uint64_t progress_ns(const struct cuda_watch *w, const struct cuda_snapshot *since, uint64_t now)
{
	double on = (double)(now - w->segment_ns), busy = cpus_used(w), threads = busy > 1 ? busy : 1;
	double slack = busy < 1 ? (1 - busy) * on : 0, lost;

	/* What is since the last settling has the time off in it as well. */
	slack += waits_ns(since) / threads * on / (double)(now - w->accounted_ns);
	lost = taken_ns(w, threads) - slack;
	return (uint64_t)(lost <= 0 ? on : lost < on / 2 ? on - lost : on / 2);
}

static bool is_cycled(const struct cuda_watch *w, uint64_t now)
{
	return is_on(w) && now > w->segment_ns && w->segment_ns > w->accounted_ns;
}

/* What came since the last settling, scaled, on top of `into`; *factor: by how much. */
static int add_since(struct cuda_watch *w, const struct cuda_snapshot *maps, uint64_t now,
		     struct cuda_snapshot *into, double *factor)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *since = NULL;
	int ret = cuda_snapshot__subtract(maps, w->last, &since);

	*factor = 1;
	if (!ret && is_cycled(w, now)) {
		double progress = (double)progress_ns(w, since, now);

		*factor = ((double)(w->segment_ns - w->accounted_ns) + progress) / progress;
		ret = cuda_snapshot__scale(since, w->cycled_kinds, *factor, now - w->segment_ns, start_of(w));
	}
	return ret ?: cuda_snapshot__merge(into, since, 0);
}

/* Keeps what the time on that ends has seen of the cycled kinds: the next may be long in coming. */
static int keep_last_on(struct cuda_watch *w, const struct cuda_snapshot *maps, uint64_t now)
{
	struct cuda_snapshot *seen;
	int ret;

	if (!is_on(w) || now <= w->segment_ns)
		return 0;
	ret = cuda_snapshot__subtract(maps, w->last, &seen);
	if (ret)
		return ret;
	ret = cuda_snapshot__scale(seen, ~w->cycled_kinds, 0, 0, 0);
	cuda_snapshot__free(w->last_on);
	w->last_on = seen;
	w->last_on_ns = now - w->segment_ns;
	w->last_progress_ns = w->segment_ns > w->accounted_ns ? progress_ns(w, seen, now) : w->last_on_ns;
	return ret;
}

/* Everything up to now is counted. */
static int settle(struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();
	struct cuda_snapshot *maps;
	int ret = read_maps(w, &maps);
	double factor = 1;

	if (ret)
		return ret;
	ret = add_since(w, maps, now, w->total, &factor);
	ret = ret ?: keep_last_on(w, maps, now);
	cuda_snapshot__free(w->last);
	w->last = maps;
	if (is_on(w)) {
		w->line_factor = factor;
		w->accounted_ns = now;
		begin_segment(w, now);
	}
	return ret;
}

/* The time off since the last time on, by that one. */
static int add_tail(struct cuda_watch *w, uint64_t now, struct cuda_snapshot *into)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *tail = NULL;
	int ret;

	if (is_on(w) || !w->last_on || !w->last_on_ns)
		return 0;
	ret = cuda_snapshot__new(&tail);
	ret = ret ?: cuda_snapshot__merge(tail, w->last_on, 0);
	ret = ret
		      ?: cuda_snapshot__scale(tail, w->cycled_kinds,
					      (double)(now - w->accounted_ns) / (double)w->last_progress_ns,
					      w->last_on_ns, start_of(w));
	return ret ?: cuda_snapshot__merge(into, tail, 0);
}

int cuda_watch__result(struct cuda_watch *w, struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *result = NULL;
	uint64_t now = clock__now_ns();
	double factor;
	int ret = read_maps(w, &maps);

	ret = ret ?: cuda_snapshot__new(&result);
	ret = ret ?: cuda_snapshot__merge(result, w->total, 0);
	ret = ret ?: add_since(w, maps, now, result, &factor);
	ret = ret ?: add_tail(w, now, result);
	if (!ret)
		*out = TAKE_PTR(result);
	return ret;
}

void cuda_watch__process_gone(struct cuda_watch *w, pid_t pid)
{
	struct cuda_snapshot *now;
	bool any = false;

	for (size_t i = 0; i < w->n_mapped; i++) {
		struct cuda_mapped *m = &w->mapped[i];

		if (m->pid != pid || m->gone)
			continue;
		cuda_link__free(TAKE_PTR(m->steady));
		cuda_link__free(TAKE_PTR(m->cycled));
		m->gone = any = true;
	}
	if (!any)
		return;
	settle(w);
	cuda_probes__forget(w->probes, pid);
	if (read_maps(w, &now))
		return;
	cuda_snapshot__free(w->last);
	w->last = now;
}

static uint64_t on_time(const struct cuda_watch *w, uint64_t now)
{
	return w->on_ns + (is_on(w) ? now - w->on_since_ns : 0);
}

static void look_at_kinds(struct cuda_watch *w, uint64_t now, bool at_once)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *since = NULL;
	uint64_t calls[SO_CUDA_KIND_COUNT] = { 0 };
	const struct cuda_calls_entry *entries;
	size_t n;

	if ((!at_once && now - w->kinds_ns < KINDS_NS) || read_maps(w, &maps) ||
	    cuda_snapshot__subtract(maps, w->last, &since))
		return;
	w->kinds_ns = now;
	entries = cuda_snapshot__calls(since, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.api < SO_CUDA_API_COUNT)
			calls[cuda_names__kind(entries[i].key.api)] += entries[i].calls.calls;
	}
	memcpy(w->kind_calls, calls, sizeof(calls));
	cuda_budget__add_calls(w->budget, calls);
}

/* Tells the budget what happened, and the kernel what it decides. */
static void check(struct cuda_watch *w, uint64_t now)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);
	struct cuda_budget_figures f = { .elapsed_ns = now - w->checked_ns,
					 .pair_ns = cost.pair_ns,
					 .nested_ns = cost.nested_ns };
	uint64_t cpu = cpu_time(w), on = on_time(w, now);
	struct cuda_budget_plan plan;
	struct so_cuda_slot slot;

	if (now <= w->checked_ns || cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	f.on_ns = on - w->on_seen_ns;
	/* Less than before when a process has ended. */
	f.cpu_ns = cpu > w->cpu_seen_ns && w->cpu_seen_ns ? cpu - w->cpu_seen_ns : 0;
	f.hits = slot.hits - w->slot_seen.hits;
	f.returns = slot.returns - w->slot_seen.returns;
	f.nested = slot.nested - w->slot_seen.nested;
	f.stacks = slot.stacks - w->slot_seen.stacks;
	f.stacks_ns = slot.stacks_ns - w->slot_seen.stacks_ns;
	w->slot_seen = slot;
	if (!w->cpu_seen_ns)
		w->cpu_since_ns = now;
	w->cpu_seen_ns = cpu;
	w->cpu_ns += f.cpu_ns;
	/* A thread that waits for the GPU spends time as well: the target's time is that of one thread at least. */
	if (f.cpu_ns < f.elapsed_ns)
		f.cpu_ns = f.elapsed_ns;
	w->on_seen_ns = on;
	w->checked_ns = now;
	look_at_kinds(w, now, false);
	cuda_budget__add(w->budget, &f);
	cuda_budget__plan(w->budget, &plan);
	memcpy(cuda_probes__control(w->probes, w->slot)->stack_period, plan.stack_period,
	       sizeof(plan.stack_period));
}

static void set_off(struct cuda_watch *w, bool off)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		control->off[i] = off && w->cycled_kinds >> i & 1;
}

/* Before a duty cycle begins: the kinds of which there are most, until what is left is a tenth at most. */
static void choose_kinds(struct cuda_watch *w)
{
	uint64_t total = 0, taken = 0;

	w->cycled_kinds = 0;
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		total += w->kind_calls[i];
	while (taken * 10 < total * 9) {
		unsigned most = 0;

		for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
			if (w->cycled_kinds >> most & 1 ||
			    (!(w->cycled_kinds >> i & 1) && w->kind_calls[i] > w->kind_calls[most]))
				most = i;
		}
		w->cycled_kinds |= 1u << most;
		taken += w->kind_calls[most];
	}
	/* Not known yet: all. */
	w->chosen_blindly = !total;
	if (!total)
		w->cycled_kinds = (1u << SO_CUDA_KIND_COUNT) - 1;
}

/* Other kinds from now on: the probes are placed anew, those that stay first. */
static void divide(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		cuda_link__free(TAKE_PTR(w->mapped[i].steady));
		attach_steady(w, &w->mapped[i]);
	}
}

static void switch_on(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++)
		attach_cycled(w, &w->mapped[i]);
	/* From here on, when all of them are there. */
	w->on_since_ns = clock__now_ns();
	begin_segment(w, w->on_since_ns);
	set_off(w, false);
}

static void switch_off(struct cuda_watch *w)
{
	bool choose = !w->cycled_kinds || w->chosen_blindly;
	uint64_t now;

	if (choose)
		look_at_kinds(w, clock__now_ns(), true);
	if (!w->cycled_kinds)
		choose_kinds(w);
	set_off(w, true);
	now = clock__now_ns();
	w->on_ns += now - w->on_since_ns;
	w->estimated = true;
	settle(w);
	if (choose) {
		/* Off until their probes are gone; what was seen so far had its factor. */
		if (w->chosen_blindly)
			choose_kinds(w);
		divide(w);
	}
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(TAKE_PTR(w->mapped[i].cycled));
	set_off(w, true);
}

static void set_phase(struct cuda_watch *w, unsigned phase, uint64_t now)
{
	bool was = is_on(w);
	uint32_t ms = phase == 0 ? w->cycle.off_before_ms : phase == 1 ? w->cycle.on_ms : w->cycle.off_after_ms;

	if (was && phase != 1)
		switch_off(w);
	w->phase = phase;
	if (!was && phase == 1)
		switch_on(w);
	/* On for as long as was planned, whatever switching on has taken. */
	w->phase_end_ns = (phase == 1 && !was ? w->on_since_ns : now) + ms * MS;
}

/* A cycle that has no part of the kind is over at once, but for the on part, which each has. */
static void next_phase(struct cuda_watch *w, uint64_t now)
{
	if (w->phase == 0) {
		set_phase(w, 1, now);
		return;
	}
	if (w->phase == 1 && w->cycle.off_after_ms) {
		set_phase(w, 2, now);
		return;
	}
	if (w->phase == 1)
		settle(w);
	cuda_budget__cycle(w->budget, next_random(w), &w->cycle);
	set_phase(w, w->cycle.off_before_ms ? 0 : 1, now);
}

uint64_t cuda_watch__tick(struct cuda_watch *w, uint64_t now)
{
	if (now >= w->check_ns) {
		check(w, now);
		w->check_ns = now + cuda_budget__check_ms(w->budget) * MS;
	}
	if (is_on(w) && w->n_mapped && cuda_budget__must_end(w->budget, &w->cycle)) {
		set_phase(w, 2, now);
		w->phase_end_ns = now;
	}
	if (now >= w->phase_end_ns)
		next_phase(w, now);
	return w->check_ns < w->phase_end_ns ? w->check_ns : w->phase_end_ns;
}

static uint64_t line_hash(const struct so_cuda_line_key *key)
{
	return so_mix(so_mix(key->stack, (uint64_t)key->tgid << 32 | key->tid), key->api);
}

int cuda_watch__add_line(struct cuda_watch *w, const struct so_cuda_line_key *key,
			 const struct so_cuda_line *line)
{
	bool cycled = line->calls && key->api < SO_CUDA_API_COUNT &&
		      w->cycled_kinds >> cuda_names__kind(key->api) & 1;
	double factor = cycled ? w->line_factor : 1;
	uint64_t hash = line_hash(key);
	struct cuda_line *l;
	uint32_t at;

	if (!u64_table__get(&w->line_by_hash, hash, &at)) {
		if (w->n_lines >= MAX_LINES || ARRAY_RESERVE(w->lines, w->cap_lines, w->n_lines + 1) ||
		    u64_table__set(&w->line_by_hash, hash, (uint32_t)w->n_lines)) {
			w->lines_lost += line->calls;
			return -ENOMEM;
		}
		at = (uint32_t)w->n_lines++;
		w->lines[at] = (struct cuda_line){
			.tgid = key->tgid, .tid = key->tid, .api = key->api, .stack = key->stack
		};
	}
	l = &w->lines[at];
	l->calls += (double)line->calls * factor;
	l->total_ns += (double)line->total_ns * factor;
	l->bytes += (double)line->bytes * factor;
	return 0;
}

json_t *cuda_watch__problems(const struct cuda_watch *w)
{
	json_t *all = json_array();

	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].problem[0])
			json_array_append_new(all, json_string_nocheck(w->mapped[i].problem));
	}
	return all;
}

static json_t *periods(const struct cuda_budget_plan *plan)
{
	json_t *all = json_object();

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		json_object_set_new(all, cuda_names__kind_word(i), json_integer(plan->stack_period[i]));
	return all;
}

json_t *cuda_watch__probes(const struct cuda_watch *w)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);
	struct so_cuda_slot slot = w->slot_seen;
	struct cuda_budget_plan plan;
	size_t installed = 0;

	for (size_t i = 0; i < w->n_mapped; i++)
		installed += w->mapped[i].steady || (!w->mapped[i].gone && !w->mapped[i].problem[0])
				     ? w->mapped[i].library.n_functions
				     : 0;
	cuda_probes__slot(w->probes, w->slot, &slot);
	cuda_budget__plan(w->budget, &plan);
	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s, s:f, s:o}", "installed",
			 (json_int_t)installed, "kind", cuda_probes__kind_word(cuda_probes__kind(w->probes)),
			 "floor_ns", (json_int_t)cost.floor_ns, "hits", (json_int_t)slot.hits, "returns",
			 (json_int_t)slot.returns, "nested", (json_int_t)slot.nested, "stacks",
			 (json_int_t)slot.stacks, "cost_ns_per_call", cost.pair_ns, "overhead_percent",
			 plan.overhead_percent, "budget_percent", w->budget_percent, "state",
			 cuda_budget__word(plan.state), "duty", plan.duty, "stack_period", periods(&plan));
}

static json_t *probe(const struct cuda_function *f)
{
	char address[32];

	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)(f->vaddr + f->site.offset));
	return json_pack("{s:s, s:s, s:s, s:I, s:s, s:b, s:s}", "symbol", f->symbol, "api",
			 cuda_names__base(f->name), "address", address, "offset_in_function",
			 (json_int_t)f->site.offset, "instruction", f->site.instruction, "emulated",
			 f->site.emulated, "why", f->site.why);
}

static json_t *library(const struct cuda_mapped *m)
{
	json_t *probes = json_array();
	const char *kind = m->library.kind == CUDA_LIBRARY_DRIVER ? "driver" : "runtime";

	for (size_t i = 0; i < m->library.n_functions; i++)
		json_array_append_new(probes, probe(&m->library.functions[i]));
	return json_pack("{s:I, s:I, s:o, s:s, s:b, s:o}", "id", (json_int_t)m->number, "pid",
			 (json_int_t)m->pid, "path", json_string(m->path) ?: json_string("?"), "kind", kind,
			 "static", m->library.kind == CUDA_LIBRARY_RUNTIME_STATIC, "probes", probes);
}

json_t *cuda_watch__libraries(const struct cuda_watch *w)
{
	json_t *all = json_array();

	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].library.n_functions)
			json_array_append_new(all, library(&w->mapped[i]));
	}
	return all;
}
