// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/process_life.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/targets/gpu_memory.h"
#include "daemon/targets/viewers.h"
#include "daemon/os/clock.h"
#include "daemon/os/limits.h"
#include "daemon/os/proc_info.h"

bool process_life__has_room(const struct process_life *l)
{
	bool room = process_table__count(l->processes) < SO_MAX_PROCESSES;

	if (!room)
		limits__hit(LIMIT_PROCESSES, 1);
	return room;
}

static void on_fork(const struct process_life *l, const struct so_event *event)
{
	struct process *parent = process_table__find(l->processes, event->other), *child;
	struct target *t = targets__of_slot(l->targets, event->slot);

	child = process_table__find(l->processes, event->tgid);
	if (!t || (child && !child->gone))
		return;
	if (child)
		process_table__remove(l->processes, child);
	if (!parent || !process_life__has_room(l)) {
		sampler__delete_process(l->sampler, event->tgid);
		return;
	}
	if (process_table__add_child(l->processes, event->tgid, parent, &child))
		return;
	child->memory_since_ns = event->time_ns;
	t->living++;
	t->seen_processes++;
	process_label_table__inherit(&t->labels, child->tgid, parent->tgid);
	viewers__inherit(t, child->tgid, parent->tgid);
	/* What it has mapped is its parent's, but probes are a process's own. */
	if (!child->run || cuda_targets__watches(t))
		scan_queue__request(l->scans, child->tgid);
	cuda_targets__forked(l->cuda, parent->tgid, child->tgid);
}

static void wake(const struct process_life *l)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then the loop wakes anyway. */
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void process_life__gone(const struct process_life *l, struct process *p)
{
	struct target *t = targets__of_slot(l->targets, p->kernel.slot);

	if (p->gone)
		return;
	/* Names are read by mappings, which nobody looks at once it is gone. */
	if (t)
		cuda_targets__process_gone(l->cuda, t, p->tgid);
	p->gone = true;
	p->gone_ns = clock__now_ns();
	sampler__delete_process(l->sampler, p->tgid);
	if (!t)
		return;
	t->living--;
	if (!t->living && t->info.state == TARGET_SAMPLING)
		wake(l);
}

/* The user whose process it was may not look into the program that it executes now. */
static void hide(const struct process_life *l, const struct process *p)
{
	struct target *t = targets__of_slot(l->targets, p->kernel.slot);

	if (t)
		viewers__hide(t, p->tgid);
}

/* Nobody said what it has executed. */
static void check_viewer(const struct process_life *l, const struct process *p)
{
	struct target *t = targets__of_slot(l->targets, p->kernel.slot);

	if (t)
		viewers__check(t, p->tgid);
}

/* when_ns: when it did, or when that was found out; 0: it may have. */
static void process_executed(const struct process_life *l, struct process *p, uint64_t when_ns)
{
	struct target *t = targets__of_slot(l->targets, p->kernel.slot);

	if (t) {
		cuda_targets__process_gone(l->cuda, t, p->tgid);
		gpu_memory__executed(l->gpu_memory, t, p->tgid);
	}
	process_table__exec(l->processes, p);
	p->memory_since_ns = when_ns;
	p->scans = 0;
	scan_queue__request(l->scans, p->tgid);
}

static void check_alive(void *context, struct process *p)
{
	struct proc_info info;

	if (!p->gone && (proc_info__read(p->tgid, &info) == -ESRCH || proc_info__is_zombie(&info)))
		process_life__gone(context, p);
}

void process_life__look(const struct process_life *l)
{
	process_table__each(l->processes, SO_MAX_SLOTS, check_alive, (void *)l);
}

/* The kernel side empties an entry when its process executes another program (on_exec in bpf/sampler.bpf.c). */
static void look_at_process(void *context, struct process *p)
{
	const struct process_life *l = context;
	struct so_process kernel;

	check_alive(context, p);
	check_viewer(l, p);
	if (!p->gone && p->run && p->run->n && !sampler__get_process(l->sampler, p->tgid, &kernel) && !kernel.mappings)
		process_executed(l, p, clock__now_ns());
	else
		scan_queue__request(l->scans, p->tgid);
}

/* A child of a known process of the same target becomes known too. It may have executed another program already. */
static bool adopt(const struct process_life *l, pid_t tgid)
{
	struct so_event event = { .type = SO_EVENT_FORK, .tgid = (uint32_t)tgid };
	struct process *parent, *child;
	struct so_process kernel;
	struct proc_info info;

	if (sampler__get_process(l->sampler, tgid, &kernel) || proc_info__read(tgid, &info) || info.tgid != tgid ||
	    proc_info__is_zombie(&info))
		return false;
	parent = process_table__find(l->processes, info.ppid);
	if (!parent || parent->kernel.slot != kernel.slot)
		return false;
	event.other = (uint32_t)info.ppid;
	event.slot = kernel.slot;
	on_fork(l, &event);
	child = process_table__find(l->processes, tgid);
	if (!child || child->gone)
		return false;
	check_viewer(l, child);
	process_executed(l, child, 0);
	return true;
}

/*
 * Those that the kernel side has and the daemon has not: children of whose beginning it was not told. Some have ended,
 * and their numbers may be strangers' by now: whose child each one is decides, so that one whose parent has ended as
 * well is not followed. If the telling is still under way it finds a process that is known, or makes it known.
 */
static void look_at_strangers(const struct process_life *l, pid_t *tgids, size_t n)
{
	size_t left = 0, before;

	for (size_t i = 0; i < n; i++) {
		const struct process *p = process_table__find(l->processes, tgids[i]);

		if (!p || p->gone)
			tgids[left++] = tgids[i];
	}
	/* A child's parent may be the next one. */
	do {
		before = left;
		left = 0;
		for (size_t i = 0; i < before; i++) {
			if (!adopt(l, tgids[i]))
				tgids[left++] = tgids[i];
		}
	} while (left < before);
	for (size_t i = 0; i < left; i++)
		sampler__delete_process(l->sampler, tgids[i]);
}

void process_life__look_at_everything(const struct process_life *l)
{
	_cleanup_free_ pid_t *tgids = calloc(SO_MAX_PROCESSES, sizeof(*tgids));

	process_table__each(l->processes, SO_MAX_SLOTS, look_at_process, (void *)l);
	if (tgids)
		look_at_strangers(l, tgids, sampler__list_processes(l->sampler, tgids, SO_MAX_PROCESSES));
}

void process_life__event(const struct process_life *l, const struct so_event *event)
{
	struct process *p = process_table__find(l->processes, event->tgid);

	if (event->type == SO_EVENT_FORK) {
		on_fork(l, event);
		return;
	}
	if (!p) {
		/* Of a child whose beginning was not reported. A later process of that number is entered anew. */
		if (event->type == SO_EVENT_EXIT)
			sampler__delete_process(l->sampler, (pid_t)event->tgid);
		return;
	}
	if (event->type == SO_EVENT_EXEC) {
		if (event->other)
			hide(l, p);
		process_executed(l, p, event->time_ns);
	} else if (event->type == SO_EVENT_MAPS) {
		scan_queue__confirm(l->scans, p->tgid, event->generation);
	} else if (event->type == SO_EVENT_EXIT) {
		process_life__gone(l, p);
	}
}
