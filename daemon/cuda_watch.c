// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda_watch_parts.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "stakeout/array.h"

#define MS 1000000ull
/*
 * Processes that have ended and made calls. So many are kept apart, or fewer where the figures of all take more than so many bytes;
 * but more while they have ended not longer ago than any window of the history lasts.
 */
#define MANY_ENDED      1024
#define MAX_ENDED_BYTES (32u << 20)
#define FOLD_AFTER_NS   600000000000ull
#define MAX_ENDED       4096
/* Between two looks whether the probes of the last time on are gone. */
#define GOING_MS 5
/* The gate is held open for so long after it is needed, and waited for so long at most. */
#define GATE_MS          3
#define GATE_PATIENCE_MS 100

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

/* Calls of these kinds that were entered before this time are not seen to return. */
static void begin_anew(struct cuda_watch *w, uint32_t kinds, uint64_t at_ns)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		if (kinds >> i & 1)
			control->since_ns[i] = at_ns;
	}
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
	if (!ret && cuda_probes__kind(probes) == CUDA_PROBE_PERF)
		cuda_budget__stretch(w->budget, CUDA_PROBES_PERF_STRETCH);
	ret = ret ?: cuda_snapshot__new(&w->total);
	ret = ret ?: cuda_snapshot__new(&w->last);
	ret = ret ?: cuda_snapshot__new(&w->folded);
	ret = ret ?: cuda_snapshot__new(&w->ended_threads);
	ret = ret ?: cuda_probes__clear_slot(probes, slot);
	if (ret)
		return ret;
	w->begin_ns = w->checked_ns = w->on_since_ns = clock__now_ns();
	w->accounted_ns = w->segment_ns = w->begin_ns;
	w->phase = CUDA_WATCH_ON;
	w->cycle = (struct cuda_budget_cycle){ .on_ms = CUDA_BUDGET_STEADY_ON_MS, .duty = 1, .factor = 1 };
	w->phase_end_ns = w->begin_ns + w->cycle.on_ms * MS;
	cuda_budget__plan(w->budget, &plan);
	memcpy(cuda_probes__control(probes, slot)->stack_period, plan.stack_period, sizeof(plan.stack_period));
	memset(cuda_probes__control(probes, slot)->off, 0, sizeof(cuda_probes__control(probes, slot)->off));
	cuda_watch_set_segments(w);
	begin_anew(w, CUDA_KINDS_ALL, w->begin_ns);
	cuda_probes__control(probes, slot)->on = 1;
	*out = TAKE_PTR(w);
	return 0;
}

void cuda_watch__stop(struct cuda_watch *w)
{
	cuda_probes__control(w->probes, w->slot)->on = 0;
}

static bool takes(void *context, uint32_t tgid)
{
	return cuda_watch__has_process(context, (pid_t)tgid);
}

void cuda_watch__free(struct cuda_watch *w)
{
	if (!w)
		return;
	if (w->probes)
		cuda_probes__control(w->probes, w->slot)->on = 0;
	for (size_t i = 0; i < w->n_mapped; i++)
		release_mapped(&w->mapped[i]);
	if (w->probes && w->n_processes)
		cuda_probes__forget(w->probes, takes, w);
	free(w->mapped);
	free(w->processes);
	free(w->ended);
	cuda_lines__release(&w->lines);
	cuda_snapshot__free(w->total);
	cuda_snapshot__free(w->last);
	cuda_snapshot__free(w->last_on);
	cuda_snapshot__free(w->folded);
	cuda_snapshot__free(w->ended_threads);
	cuda_budget__free(w->budget);
	free(w);
}

bool cuda_watch__has_process(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_processes; i++) {
		if (w->processes[i].pid == pid)
			return true;
	}
	return false;
}

int cuda_watch__pids(const struct cuda_watch *w, pid_t **out, size_t *n)
{
	pid_t *pids = calloc(w->n_processes + w->n_ended + 1, sizeof(*pids));

	if (!pids)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_processes; i++)
		pids[i] = w->processes[i].pid;
	for (size_t i = 0; i < w->n_ended; i++)
		pids[w->n_processes + i] = w->ended[i].pid;
	*out = pids;
	*n = w->n_processes + w->n_ended;
	return 0;
}

/* 0: it has ended. */
static uint64_t cpu_of(const struct cuda_process *p)
{
	struct timespec t;

	return p->has_clock && !clock_gettime(p->clock, &t)
		       ? (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec
		       : 0;
}

/* CPU time that the processes have used since the last look, or since they were added, by their own clocks. */
static uint64_t cpu_since_last(struct cuda_watch *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->n_processes; i++) {
		struct cuda_process *p = &w->processes[i];
		uint64_t now = cpu_of(p);

		if (!now)
			continue;
		sum += p->cpu_ns && now > p->cpu_ns ? now - p->cpu_ns : 0;
		p->cpu_ns = now;
	}
	return sum;
}

int cuda_watch__add_process(struct cuda_watch *w, pid_t pid)
{
	struct cuda_process *p;

	if (cuda_watch__has_process(w, pid))
		return 0;
	if (ARRAY_RESERVE(w->processes, w->cap_processes, w->n_processes + 1))
		return -ENOMEM;
	p = &w->processes[w->n_processes++];
	*p = (struct cuda_process){ .pid = pid };
	p->has_clock = !clock_getcpuclockid(pid, &p->clock);
	p->cpu_ns = cpu_of(p);
	return 0;
}

bool cuda_watch__has_libraries(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].pid == pid && !w->mapped[i].gone)
			return true;
	}
	return false;
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

/* light: as in struct cuda_choice. A link that is light, and not to be, gets what it lacks. */
static void attach(struct cuda_watch *w, struct cuda_mapped *m, bool steady, bool light,
		   struct cuda_link **link)
{
	struct cuda_choice choice = { .apis = w->cycled, .others = steady, .light = light };
	struct so_error why = { "" };

	if ((*link && (light || !cuda_link__is_light(*link))) || m->gone || m->waits || !m->library.n_functions)
		return;
	if (cuda_probes__attach(w->probes, m->pid, w->slot, m->number, m->fd, &m->library, &choice, link,
				&why)) {
		snprintf(m->problem, sizeof(m->problem), "%.150s: %.90s", m->path, why.text);
		/* Entries alone count nothing. */
		cuda_link__free(TAKE_PTR(*link));
	}
}

static void attach_steady(struct cuda_watch *w, struct cuda_mapped *m)
{
	attach(w, m, true, false, &m->steady);
}

/* The probes of the cycled kinds are there. */
static bool has_cycled(const struct cuda_watch *w)
{
	return w->phase == CUDA_WATCH_LIGHT || w->phase == CUDA_WATCH_SETTLING || w->phase == CUDA_WATCH_ON;
}

static void attach_cycled(struct cuda_watch *w, struct cuda_mapped *m, bool light)
{
	if (w->kinds.cycled)
		attach(w, m, false, light, &m->cycled);
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

static void attach_first(struct cuda_watch *w, struct cuda_mapped *m)
{
	m->problem[0] = '\0';
	if (m->library.problem[0])
		snprintf(m->problem, sizeof(m->problem), "%.80s: %.170s", m->path, m->library.problem);
	m->waits = m->library.n_functions && cuda_probes__are_crowded(w->probes);
	if (m->waits)
		snprintf(m->problem, sizeof(m->problem),
			 "%.80s: not watched until the probes of processes that ended are taken away, "
			 "which this kernel does slowly",
			 m->path);
	attach_steady(w, m);
	/* In the midst of light probes it waits for the others. */
	if (has_cycled(w) && w->phase != CUDA_WATCH_LIGHT)
		attach_cycled(w, m, false);
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
	if (w->ended_ns)
		cuda_watch_resume(w);
	cuda_watch_drop_light(w);
	w->mapped[w->n_mapped++] = *mapped;
	tell_runtimes(w, mapped->pid);
	attach_first(w, &w->mapped[w->n_mapped - 1]);
	return cuda_watch__add_process(w, mapped->pid);
}

/* A cheap generator is enough: it only must not follow the target (splitmix64). */
uint64_t cuda_watch_random(struct cuda_watch *w)
{
	uint64_t x = w->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static bool has_calls(const struct cuda_watch *w, pid_t pid)
{
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(w->total, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.tgid == (uint32_t)pid)
			return true;
	}
	return false;
}

/* The libraries of a process that is gone without having called them: a job may start such ones for months. */
static void drop_libraries(struct cuda_watch *w, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n_mapped; i++) {
		struct cuda_mapped *m = &w->mapped[i];

		if (m->pid == pid && m->gone)
			release_mapped(m);
		else
			w->mapped[kept++] = *m;
	}
	w->n_mapped = kept;
}

static void drop_process(struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_processes; i++) {
		if (w->processes[i].pid == pid) {
			w->processes[i] = w->processes[--w->n_processes];
			return;
		}
	}
}

static bool is_again(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_ended; i++) {
		if (w->ended[i].pid == pid)
			return true;
	}
	return cuda_watch__has_process(w, pid);
}

/* Of the one that ended first only sums are kept. Where its number is that of a later one, theirs are one and stay. */
static void fold_first(struct cuda_watch *w)
{
	pid_t pid = w->ended[0].pid;

	memmove(w->ended, w->ended + 1, --w->n_ended * sizeof(*w->ended));
	if (is_again(w, pid))
		return;
	if (cuda_snapshot__fold(w->total, (uint32_t)pid, w->folded)) {
		w->lost = true;
		return;
	}
	if (w->last_on)
		cuda_snapshot__forget(w->last_on, (uint32_t)pid);
	drop_libraries(w, pid);
	w->n_folded++;
}

static bool is_foldable(const struct cuda_watch *w, uint64_t now)
{
	if (!w->n_ended || w->n_ended >= MAX_ENDED)
		return w->n_ended > 0;
	return now - w->ended[0].at_ns > FOLD_AFTER_NS &&
	       (w->n_ended >= MANY_ENDED || cuda_snapshot__bytes(w->total) > MAX_ENDED_BYTES);
}

/* A target may be watched for months, and start processes all the time. */
static void remember_ended(struct cuda_watch *w, pid_t pid, uint64_t now)
{
	while (is_foldable(w, now))
		fold_first(w);
	if (!ARRAY_RESERVE(w->ended, w->cap_ended, w->n_ended + 1))
		w->ended[w->n_ended++] = (struct cuda_ended){ pid, now };
}

static bool is_process(void *context, uint32_t tgid)
{
	return *(const pid_t *)context == (pid_t)tgid;
}

void cuda_watch__process_gone(struct cuda_watch *w, pid_t pid)
{
	bool any = false, last = true;
	uint64_t now = clock__now_ns();

	for (size_t i = 0; i < w->n_mapped; i++) {
		struct cuda_mapped *m = &w->mapped[i];

		if (m->pid != pid || m->gone) {
			last &= m->gone;
			continue;
		}
		cuda_link__free(TAKE_PTR(m->steady));
		cuda_link__free(TAKE_PTR(m->cycled));
		m->gone = any = true;
		if (m->fd >= 0)
			close(m->fd);
		m->fd = -1;
	}
	if (any) {
		/* While the probes count it is compared up to here. */
		if (!cuda_watch_is_on(w))
			cuda_watch_drop_light(w);
		if (last ? cuda_watch_pause(w, now) : cuda_watch__settle(w))
			w->lost = true;
		cuda_probes__forget(w->probes, is_process, &pid);
		/* The number may be another process's soon. */
		cuda_snapshot__forget(w->last, (uint32_t)pid);
		cuda_snapshot__forget(w->ended_threads, (uint32_t)pid);
		if (has_calls(w, pid))
			remember_ended(w, pid, now);
		else
			drop_libraries(w, pid);
	}
	drop_process(w, pid);
}

static uint64_t on_time(const struct cuda_watch *w, uint64_t now)
{
	return w->on_ns + (cuda_watch_is_on(w) ? now - w->on_since_ns : 0);
}

#define COSTS_KEPT 20000 /* calls; those before them weigh half */

/* What the probes of a call have cost on average, those of calls that it nested included; lately. 0: none was seen. */
static double cost_of_call(const struct cuda_watch *w)
{
	return w->cost_calls > 0 ? w->cost_ns / w->cost_calls : 0;
}

static void note_costs(struct cuda_watch *w, double calls, const struct cuda_budget_figures *f)
{
	double keep = w->cost_calls > COSTS_KEPT ? 0.5 : 1;

	w->cost_calls = w->cost_calls * keep + calls;
	w->cost_ns = w->cost_ns * keep + calls * f->pair_ns + (double)f->nested * f->nested_ns +
		     (double)f->stepped * f->stepped_ns;
}

/* Calls a second whose probes may stay on in a duty cycle. */
static double most_steady(const struct cuda_watch *w)
{
	double cost = cost_of_call(w), goal = CUDA_BUDGET_GOAL * w->budget_percent / 100;
	double ns_a_second = CUDA_BUDGET_STEADY_SHARE * goal * fmax(cuda_watch_busy(w), 1) * 1e9;

	return cost > 0 ? ns_a_second / cost : INFINITY;
}

/* What calls of the kinds that count all the time have cost; 0 while that is all kinds. */
static uint64_t look_at_kinds(struct cuda_watch *w, const struct so_cuda_slot *slot,
			      const struct cuda_budget_figures *f)
{
	uint64_t calls[SO_CUDA_KIND_COUNT], all = 0, steady = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		calls[i] = gained(slot->kinds[i], w->slot_seen.kinds[i]);
		all += calls[i];
		steady += w->kinds.cycled && !(w->kinds.cycled >> i & 1) ? calls[i] : 0;
	}
	note_costs(w, (double)all, f);
	cuda_kinds__add(&w->kinds, calls, f->elapsed_ns, f->on_ns);
	/* Right after a choice nothing is known of the kinds that are off. */
	if (!w->kinds.cycled || w->kinds.on_s > 0) {
		cuda_kinds__rates(&w->kinds, calls);
		cuda_budget__add_calls(w->budget, calls);
	}
	return (uint64_t)((double)steady * cost_of_call(w));
}

#define STRAY_KEPT_NS 2e9 /* what is older weighs half */
#define STRAY_SHARE   0.1 /* of the budget */

/* While the cycled kinds are off: hits that calls which count do not explain. */
static void note_stray(struct cuda_watch *w, const struct cuda_budget_figures *f)
{
	double keep = w->stray_elapsed_ns > STRAY_KEPT_NS ? 0.5 : 1;
	uint64_t alone = f->nested + f->light;
	double entries = f->hits > alone ? (double)(f->hits - alone) : 0;
	double cost = entries * f->pair_ns + (double)f->light * f->light_ns + (double)f->nested * f->nested_ns -
		      (double)f->steady_ns;

	w->stray_ns = w->stray_ns * keep + fmax(cost, 0);
	w->stray_elapsed_ns = w->stray_elapsed_ns * keep + (double)f->elapsed_ns;
}

/* That they cost so much that it is worth while to place the probes anew. */
static bool has_strays(const struct cuda_watch *w)
{
	double elapsed = fmax(w->stray_elapsed_ns, 1e8);

	return w->stray_ns > STRAY_SHARE * w->budget_percent / 100 * elapsed * fmax(cuda_watch_busy(w), 1);
}

#define LEAST_TIMED 20
#define TIMED_KEPT  20000 /* entries; those before them weigh half */

static void note_times(struct cuda_watch *w, uint64_t entries, uint64_t entries_ns)
{
	double keep = w->timed > TIMED_KEPT ? 0.5 : 1;

	w->timed = w->timed * keep + (double)entries;
	w->timed_ns = w->timed_ns * keep + (double)entries_ns;
}

struct cuda_probe_cost cuda_watch_cost_of(const struct cuda_watch *w, uint64_t entries, uint64_t entries_ns)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);
	double timed = w->timed, timed_ns = w->timed_ns;

	/* Calls that count all the time find the caches colder than those of a time on do. */
	if (entries >= LEAST_TIMED) {
		timed = (double)entries;
		timed_ns = (double)entries_ns;
	}
	return timed >= LEAST_TIMED ? cuda_probe_cost__at(&cost, timed_ns / timed) : cost;
}

struct cuda_probe_cost cuda_watch_cost(const struct cuda_watch *w)
{
	return cuda_watch_cost_of(w, 0, 0);
}

/* What is older weighs half: a step of a training lasts less than this, and a program may begin to work at any time. */
#define BUSY_KEPT_NS 5e8

static void note_busy(struct cuda_watch *w, uint64_t cpu_ns, uint64_t elapsed_ns)
{
	double keep = w->busy_elapsed_ns > BUSY_KEPT_NS ? 0.5 : 1;

	w->busy_cpu_ns = w->busy_cpu_ns * keep + (double)cpu_ns;
	w->busy_elapsed_ns = w->busy_elapsed_ns * keep + (double)elapsed_ns;
}

/* Tells the budget what happened, and the kernel what it decides. */
static void check(struct cuda_watch *w, uint64_t now)
{
	struct cuda_budget_figures f = { .elapsed_ns = now - w->checked_ns };
	struct cuda_probe_cost cost;
	uint64_t on = on_time(w, now);
	uint64_t entries, entries_ns, steady_ns;
	struct cuda_budget_plan plan;
	struct so_cuda_slot slot;

	if (now <= w->checked_ns || cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	entries = gained(slot.entries, w->slot_seen.entries);
	entries_ns = gained(slot.entries_ns, w->slot_seen.entries_ns);
	note_times(w, entries, entries_ns);
	cost = cuda_watch_cost_of(w, entries, entries_ns);
	f.pair_ns = cost.pair_ns;
	f.light_ns = cost.light_ns;
	f.nested_ns = cost.nested_ns;
	f.stepped_ns = cost.stepped_ns;
	f.on_ns = on - w->on_seen_ns;
	f.cpu_ns = cpu_since_last(w);
	f.hits = gained(slot.hits, w->slot_seen.hits);
	f.returns = gained(slot.returns, w->slot_seen.returns);
	f.nested = gained(slot.nested, w->slot_seen.nested);
	f.stepped = gained(slot.stepped, w->slot_seen.stepped);
	if (cuda_probes__kind(w->probes) != CUDA_PROBE_PERF && f.hits > f.nested + f.returns)
		f.light = f.hits - f.nested - f.returns;
	f.stacks = gained(slot.stacks, w->slot_seen.stacks);
	f.stacks_ns = gained(slot.stacks_ns, w->slot_seen.stacks_ns);
	steady_ns = look_at_kinds(w, &slot, &f);
	/* With all probes on all the time none is apart from the others. */
	if (w->kinds.cycled && w->cycle.duty < 1) {
		f.cycled = w->kinds.cycled;
		f.steady_ns = steady_ns;
		f.steady_stacks_ns = gained(slot.steady_stacks_ns, w->slot_seen.steady_stacks_ns);
	}
	if (f.cycled && !w->had_cycled)
		note_stray(w, &f);
	w->had_cycled = has_cycled(w);
	w->slot_seen = slot;
	note_busy(w, f.cpu_ns, f.elapsed_ns);
	w->cpu_ns += f.cpu_ns;
	/* A thread that waits for the GPU spends time as well: the target's time is that of one thread at least. */
	if (f.cpu_ns < f.elapsed_ns)
		f.cpu_ns = f.elapsed_ns;
	w->on_seen_ns = on;
	w->checked_ns = now;
	cuda_budget__add(w->budget, &f);
	cuda_budget__plan(w->budget, &plan);
	memcpy(cuda_probes__control(w->probes, w->slot)->stack_period, plan.stack_period,
	       sizeof(plan.stack_period));
}

/* kinds: 1 << enum so_cuda_kind */
static void set_off(struct cuda_watch *w, uint32_t kinds)
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
		attach_steady(w, &w->mapped[i]);
	}
	for (size_t i = 0; i < w->n_mapped; i++)
		cuda_link__free(TAKE_PTR(w->mapped[i].old));
	/* Of those that were under way some have returned meanwhile, by the old probes. */
	begin_anew(w, ~w->kinds.cycled, began_ns);
}

static void switch_on_light(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (cuda_watch_is_light(w, &w->mapped[i]))
			attach_cycled(w, &w->mapped[i], true);
	}
	cuda_watch_begin_light(w, clock__now_ns());
}

static void switch_on(struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();

	if (w->phase == CUDA_WATCH_LIGHT)
		cuda_watch_end_light(w, now);
	begin_anew(w, w->kinds.cycled, now);
	for (size_t i = 0; i < w->n_mapped; i++)
		attach_cycled(w, &w->mapped[i], false);
}

static void begin_counting(struct cuda_watch *w)
{
	double lost_ns = cuda_watch_light_lost_ns(w);

	cuda_watch_begin_segment(w, clock__now_ns());
	w->light.lost_ns = lost_ns;
	/* Nothing comes between the two: a time on is short. */
	w->on_since_ns = w->segment_ns = clock__now_ns();
	set_off(w, 0);
}

static void switch_off(struct cuda_watch *w)
{
	struct cuda_kinds next = w->kinds;
	bool choose = !w->kinds.cycled || cuda_kinds__are_outgrown(&w->kinds, most_steady(w)), divides;
	uint64_t now;

	if (choose)
		cuda_kinds__choose(&next, most_steady(w));
	/* The first choice holds for the time on that ends: it stands for itself alone. */
	if (!w->kinds.cycled)
		w->kinds = next;
	set_off(w, w->kinds.cycled | next.cycled);
	now = clock__now_ns();
	w->on_ns += now - w->on_since_ns;
	w->estimated = true;
	divides = choose || (has_strays(w) && has_new_calls(w));
	/* First of all: the target runs into them. */
	if (!divides)
		free_cycled(w);
	cuda_watch_settle_at(w, w->ended_ns ?: now);
	if (choose) {
		w->kinds = next;
		w->rates = (struct cuda_estimate_rates){ 0 };
		/* What stays from now on is in the total already. */
		if (w->last_on)
			cuda_snapshot__scale(w->last_on, ~next.cycled, 0, 0, 0);
	}
	if (divides)
		divide(w);
	free_cycled(w);
	set_off(w, w->kinds.cycled);
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
		if (has_cycled(w))
			switch_off(w);
	} else if (phase == CUDA_WATCH_LIGHT) {
		switch_on_light(w);
	} else if (phase == CUDA_WATCH_SETTLING) {
		switch_on(w);
	} else if (!cuda_watch_is_on(w)) {
		begin_counting(w);
	}
	w->phase = phase;
	w->had_cycled |= has_cycled(w);
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

static void attach_waiting(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].waits && !w->mapped[i].gone)
			attach_first(w, &w->mapped[i]);
	}
}

uint64_t cuda_watch__tick(struct cuda_watch *w, uint64_t now)
{
	if (now >= w->check_ns) {
		attach_waiting(w);
		check(w, now);
		/* Calls that it began to make after the last division: not until the next time on, which may be long in coming. */
		if (!has_cycled(w) && w->kinds.cycled && has_strays(w) && has_new_calls(w) && !are_going(w))
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

int cuda_watch__add_line(struct cuda_watch *w, const struct so_cuda_line_key *key,
			 const struct so_cuda_line *line)
{
	return cuda_lines__add(&w->lines, key, line, cuda_watch_line_factor(w, key->segment), clock__now_ns());
}
