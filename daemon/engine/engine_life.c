// SPDX-License-Identifier: GPL-2.0-or-later
/* The lives of targets once they are there: their clock events, their end, who holds them, what is forgotten later. */
#include <string.h>
#include <unistd.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_info.h"
#include "daemon/profile/file_names.h"

void engine_wake(struct engine *e)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then the loop wakes anyway. */
	if (write(e->wake_fd, &one, sizeof(one)) < 0)
		return;
}

struct cpus_of_rate {
	unsigned rate_hz;
	cpu_set_t cpus;
};

static void add_cpus(void *context, struct process *p)
{
	struct cpus_of_rate *c = context;

	if (!p->gone && p->kernel.rate_hz == c->rate_hz)
		proc_info__add_cpus(p->tgid, &c->cpus);
}

static void add_all_cpus(void *context, struct process *p)
{
	if (!p->gone)
		proc_info__add_cpus(p->tgid, context);
}

void engine_watch_mappings(struct engine *e)
{
	struct target *t;
	cpu_set_t cpus;

	sampler__event_cpus(e->sampler, &cpus);
	TARGETS_EACH(t, &e->targets)
	{
		if (t->info.state == TARGET_ATTACHING)
			process_table__each(e->processes, t->slot, add_all_cpus, &cpus);
	}
	mapping_watch__set_cpus(&e->mappings, &cpus);
}

/* Opens and closes clock events so that they match where the targets' threads may run. */
int engine_update_events(struct engine *e, struct so_error *err)
{
	struct target *t;
	int ret = 0;

	TARGETS_EACH(t, &e->targets)
	{
		struct cpus_of_rate c;

		if (t->info.state != TARGET_SAMPLING)
			continue;
		c.rate_hz = t->info.rate_hz;
		CPU_ZERO(&c.cpus);
		process_table__each(e->processes, SO_MAX_SLOTS, add_cpus, &c);
		if (CPU_COUNT(&c.cpus))
			ret = ret ?: sampler__set_events(e->sampler, t->info.rate_hz, &c.cpus, err);
	}
	engine_watch_mappings(e);
	e->last_cpu_check_ns = clock__now_ns();
	return ret;
}

static void deactivate(void *context, struct process *p)
{
	struct engine *e = context;

	process_table__set_flags(e->processes, p, p->kernel.flags & ~(SO_PROCESS_ACTIVE | SO_PROCESS_FOLLOW));
}

static void forget_process(void *context, struct process *p)
{
	struct engine *e = context;

	process_table__remove(e->processes, p);
}

/* No sample begins after deactivation. Those under way count in the window that is drained or the one after it. */
static void drain_at_end(struct engine *e, struct target *t)
{
	struct so_slot slot;
	uint64_t lost;

	collector__drain(&e->collector);
	collector__hurry_waiting(&e->collector, t->slot);
	lost = samples__lost(&t->samples, &slot);
	if (slot.taken == samples__count(&t->samples) + lost)
		return;
	collector__drain(&e->collector);
	collector__hurry_waiting(&e->collector, t->slot);
}

void engine_update_wall(struct engine *e, struct target *t)
{
	bool wanted = t->own_wall || t->wall_views;

	if (wanted == t->info.wall)
		return;
	if (!wanted)
		waits__end(e->waits, t);
	t->info.wall = wanted;
	t->wall_since_ns = clock__now_ns();
	t->looks = 0;
	t->looked_ns = 0;
	t->wall_refused = false;
	if (wanted)
		pthread_cond_signal(&e->looks_wanted);
}

static void set_timed(void *context, struct process *p)
{
	struct engine *e = context;
	const struct target *t = targets__of_slot(&e->targets, p->kernel.slot);
	uint32_t flags = p->kernel.flags & ~(uint32_t)SO_PROCESS_TIMED;

	if (!p->gone && t)
		process_table__set_flags(e->processes, p, flags | (t->info.timed ? SO_PROCESS_TIMED : 0));
}

void engine_update_timed(struct engine *e, struct target *t)
{
	bool wanted = t->own_timed || t->timed_views;

	if (wanted == t->info.timed)
		return;
	t->info.timed = wanted;
	process_table__each(e->processes, t->slot, set_timed, e);
	/* Children forked meanwhile are copies of what was. */
	sampler__consume_events(e->sampler);
	process_table__each(e->processes, t->slot, set_timed, e);
}

static void end_view(struct engine *e, struct target *view)
{
	collector__drain(&e->collector);
	steps__end(view);
	memory_watch__end(&e->memory, view);
	gpu_memory__end(&e->gpu_memory, view);
	allocations__end(&e->allocations, view);
	if (view->info.timed && !--view->of->timed_views)
		engine_update_timed(e, view->of);
	view->wall_hz = view->info.wall ? waits__hz(view->of) : 0;
	if (view->info.wall && !--view->of->wall_views)
		engine_update_wall(e, view->of);
	cuda_targets__end(e->cuda, view);
	collector__hurry_waiting(&e->collector, view->of->slot);
	view->end_ns = clock__now_ns();
	views__end(&view->samples);
	targets__stacks_moved(&e->targets);
	view->info.state = TARGET_ENDED;
	if (call_times__copy(&view->of->calls, view->begin_ns, &view->calls))
		view->calls.gone_ns = view->end_ns;
	process_label_table__copy(&view->of->labels, &view->labels);
	thread_names__copy(&view->of->thread_names, &view->thread_names);
	viewers__keep(view);
	view->main_file = view->of->main_file;
	view->of = NULL;
}

void engine_end_target(struct engine *e, struct target *t, enum target_end end)
{
	struct target *view;
	cpu_set_t none;

	if (t->info.state == TARGET_ENDED)
		return;
	if (t->of) {
		end_view(e, t);
		t->info.end = end;
		return;
	}
	if (t->gpu_memory.views) {
		/* With the stacks of its last allocations. */
		collector__drain(&e->collector);
		gpu_memory__keep(&e->gpu_memory, t);
	}
	TARGETS_EACH(view, &e->targets)
	{
		if (view->of == t)
			engine_end_target(e, view, end);
	}
	process_table__each(e->processes, t->slot, deactivate, e);
	t->end_ns = clock__now_ns();
	sampler__consume_events(e->sampler);
	process_table__each(e->processes, t->slot, deactivate, e);
	cuda_targets__stop(t);
	steps__end(t);
	waits__end(e->waits, t);
	drain_at_end(e, t);
	memory_watch__end(&e->memory, t);
	gpu_memory__end(&e->gpu_memory, t);
	allocations__end(&e->allocations, t);
	cuda_targets__end(e->cuda, t);
	samples__end(&t->samples);
	t->info.state = TARGET_ENDED;
	t->info.end = end;
	process_table__each(e->processes, t->slot, forget_process, e);
	if (!targets__use_rate(&e->targets, t->info.rate_hz)) {
		CPU_ZERO(&none);
		sampler__set_events(e->sampler, t->info.rate_hz, &none, NULL);
		engine_watch_mappings(e);
	}
}

void engine_forget_if_idle(struct engine *e)
{
	if (targets__next(&e->targets, NULL) || e->scans.busy || e->scanner.under_way ||
	    process_table__count(e->processes))
		return;
	learn_ahead__forget(&e->ahead);
	cuda_targets__forget_names(e->cuda);
	/* They hold numbers of files. */
	pending_stacks__forget(&e->pending);
	pythons__forget(&e->pythons);
	/* In this order: the registry puts the vdso's table into the pool anew. */
	table_pool__reset(e->pool);
	file_registry__reset(e->files);
	file_names__reset(e->waited_files);
	file_life__forgotten(&e->file_life);
}

void engine_drop_target(struct engine *e, struct target *t)
{
	process_table__each(e->processes, t->slot, forget_process, e);
	memory_watch__end(&e->memory, t);
	gpu_memory__end(&e->gpu_memory, t);
	allocations__end(&e->allocations, t);
	gpu_memory__forget(&e->gpu_memory, t);
	allocations__forget(&e->allocations, t);
	targets__remove(&e->targets, t);
	engine_watch_mappings(e);
	engine_free_target(t);
	engine_forget_if_idle(e);
}

/* The history of those that are forgotten, where one is kept, stays. */
void engine_forget_ended(struct engine *e)
{
	while (targets__bytes(&e->targets) > ENGINE_ALL_SAMPLES_BYTES / 2) {
		struct target *oldest = targets__oldest_kept(&e->targets);

		if (!oldest)
			return;
		log__info("target %u (%s), which has ended, is forgotten: memory for samples is short", oldest->id,
			  oldest->info.comm);
		engine_drop_target(e, oldest);
	}
}

void engine_unhold(struct engine *e, struct target *t)
{
	--t->users;
	if (!target__readers(t))
		t->reads_old = false;
	if (!t->users && t->doomed)
		engine_drop_target(e, t);
}

void engine_free_target(struct target *t)
{
	steps__end(t);
	free(t->slow.pending);
	samples__release(&t->samples);
	json_decref(t->programs_before);
	target_python__release(&t->python);
	process_label_table__release(&t->labels);
	thread_names__release(&t->thread_names);
	u64_table__release(&t->hidden);
	cuda_targets__free_target(t);
	call_times__release(&t->calls);
	memory_watch__release(&t->memory);
	gpu_memory__release(&t->gpu_memory);
	allocations__release(&t->allocations);
	free(t);
}

uint64_t engine_cpu_ns(struct engine *e)
{
	uint64_t reader_ns = e->source_lines ? source_lines__stats(e->source_lines).cpu_ns : 0;

	return clock__read_ns(CLOCK_PROCESS_CPUTIME_ID) + reader_ns;
}
