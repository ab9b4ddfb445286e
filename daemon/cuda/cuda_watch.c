// SPDX-License-Identifier: GPL-2.0-or-later
/* Which processes a target has, which libraries of theirs have probes, and what is kept of those that ended. */
#include "daemon/cuda/cuda_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

/*
 * Processes that have ended and made calls. So many are kept apart, or fewer where the figures of all take more than
 * so many bytes; but more while they have ended not longer ago than any window of the history lasts.
 */
#define MANY_ENDED      1024
#define MAX_ENDED_BYTES (32u << 20)
#define FOLD_AFTER_NS   600000000000ull
#define MAX_ENDED       4096
static uint32_t last_number; /* of a library; the engine's lock guards it */

static void release_mapped(struct cuda_mapped *m)
{
	cuda_link__free(m->always);
	cuda_link__free(m->windowed);
	cuda_library__release(&m->library);
	if (m->fd >= 0)
		close(m->fd);
	free(m->path);
}

static void prepare(struct cuda_watch *w)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	control->generation = 0;
	memset(control->off, 0, sizeof(control->off));
	memset(control->counted, 0, sizeof(control->counted));
	memset(control->segment, 0, sizeof(control->segment));
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		control->since_ns[i] = w->begin_ns;
	control->tell_ns = 0;
	cuda_watch_set_stacks(w);
	control->on = SO_CUDA_NAMES;
}

int cuda_watch__new(struct cuda_probes *probes, uint32_t slot, double budget_percent, struct cuda_watch **out)
{
	_cleanup_(cuda_watch) struct cuda_watch *w = calloc(1, sizeof(*w));
	int ret = w ? 0 : -ENOMEM;

	if (ret)
		return ret;
	w->probes = probes;
	w->slot = slot;
	w->budget_percent = budget_percent;
	if (getrandom(&w->random, sizeof(w->random), 0) != sizeof(w->random))
		w->random = clock__now_ns();
	ret = cuda_snapshot__new(&w->total);
	ret = ret ?: cuda_snapshot__new(&w->last);
	ret = ret ?: cuda_snapshot__new(&w->folded);
	ret = ret ?: cuda_snapshot__new(&w->ended_threads);
	ret = ret ?: cuda_snapshot__new(&w->window.calls);
	ret = ret ?: cuda_snapshot__new(&w->fresh);
	ret = ret ?: cuda_probes__clear_slot(probes, slot);
	if (ret)
		return ret;
	w->begin_ns = w->checked_ns = w->decided_ns = w->accounted_ns = w->settled_ns = clock__now_ns();
	w->cpus = w->coldness = 1;
	w->stack_ns = 5000;
	prepare(w);
	*out = TAKE_PTR(w);
	return 0;
}

void cuda_watch__count(struct cuda_watch *w)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	w->begin_ns = w->checked_ns = w->decided_ns = w->accounted_ns = w->settled_ns = clock__now_ns();
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		control->since_ns[i] = w->begin_ns;
	for (size_t i = 0; i < w->n_processes; i++)
		w->processes[i].cpu_ns = cuda_watch_cpu_of(&w->processes[i]);
	control->on = SO_CUDA_ON;
}

void cuda_watch__tell_calls(struct cuda_watch *w, uint64_t ns)
{
	cuda_probes__control(w->probes, w->slot)->tell_ns = ns;
}

void cuda_watch__stop(struct cuda_watch *w)
{
	cuda_probes__control(w->probes, w->slot)->on = SO_CUDA_OFF;
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
		cuda_probes__control(w->probes, w->slot)->on = SO_CUDA_OFF;
	for (size_t i = 0; i < w->n_mapped; i++)
		release_mapped(&w->mapped[i]);
	if (w->probes && w->n_processes)
		cuda_probes__forget(w->probes, takes, w);
	free(w->mapped);
	free(w->processes);
	free(w->ended);
	cuda_lines__release(&w->lines);
	cuda_running__release(&w->running);
	cuda_snapshot__free(w->total);
	cuda_snapshot__free(w->last);
	cuda_snapshot__free(w->folded);
	cuda_snapshot__free(w->ended_threads);
	cuda_snapshot__free(w->window.calls);
	cuda_snapshot__free(w->fresh);
	free(w);
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
	p->cpu_ns = cuda_watch_cpu_of(p);
	return 0;
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
		snprintf(m->problem, sizeof(m->problem), "%.80s: %.170s",
			 strlen(m->path) > 80 ? short_path(m->path) : m->path, m->library.problem);
	m->waits = m->library.n_functions && cuda_probes__are_crowded(w->probes);
	if (m->waits)
		snprintf(m->problem, sizeof(m->problem),
			 "%.80s: not watched until the probes of processes that ended are taken away, "
			 "which this kernel does slowly",
			 m->path);
	cuda_watch_attach_always(w, m);
	if (w->phase == CUDA_WATCH_SETTLING || w->phase == CUDA_WATCH_ON)
		cuda_watch_attach_windowed(w, m);
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
		w->accounted_ns = clock__now_ns();
	w->ended_ns = 0;
	w->mapped[w->n_mapped++] = *mapped;
	w->together |= mapped->library.kind == CUDA_LIBRARY_RUNTIME_STATIC;
	tell_runtimes(w, mapped->pid);
	attach_first(w, &w->mapped[w->n_mapped - 1]);
	return cuda_watch__add_process(w, mapped->pid);
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
	cuda_snapshot__forget(w->window.calls, (uint32_t)pid);
	cuda_snapshot__forget(w->fresh, (uint32_t)pid);
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
		cuda_link__free(TAKE_PTR(m->always));
		cuda_link__free(TAKE_PTR(m->windowed));
		m->gone = any = true;
		if (m->fd >= 0)
			close(m->fd);
		m->fd = -1;
	}
	if (any) {
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

static void attach_waiting(struct cuda_watch *w)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].waits && !w->mapped[i].gone)
			attach_first(w, &w->mapped[i]);
	}
}

uint64_t cuda_watch__tick(struct cuda_watch *w, uint64_t now)
{
	uint64_t next;

	if (now >= cuda_watch_next_check_ns(w)) {
		attach_waiting(w);
		cuda_watch_check(w, now);
		now = clock__now_ns();
	}
	next = cuda_watch_windows_tick(w, now);
	return next < cuda_watch_next_check_ns(w) ? next : cuda_watch_next_check_ns(w);
}
