// SPDX-License-Identifier: GPL-2.0-or-later
/* Everything that comes up from the kernel: stacks, counts, samples to unwind here, and what processes do. */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/os/limits.h"
#include "daemon/os/proc_info.h"

/* More waiting samples than these, which hold copies of stacks, are unwound with what is known. */
#define MAX_WAITING_BYTES (24u << 20)
#define MAX_WAITING       (MAX_WAITING_BYTES / sizeof(struct waiting_sample))
/* A process that keeps changing its mappings is looked at this often. */
#define SCAN_INTERVAL_NS 50000000ull
#define QUICK_SCANS      8

static struct target *target_of_slot(struct engine *e, uint32_t slot)
{
	return slot < SO_MAX_SLOTS ? e->targets[slot] : NULL;
}

/* Python frames are read at once, while their code objects are most likely to be there. */
static int pending_add(struct engine *e, struct pending *pending, const struct so_stack_record *record,
		       const uint64_t *frames)
{
	struct stack **more, *stack;
	uint32_t at;

	if (u64_table__get(&pending->by_hash, record->hash, &at))
		return 0;
	if (pending->n == pending->capacity) {
		size_t capacity = pending->capacity ? pending->capacity * 2 : 256;

		more = reallocarray(pending->stacks, capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		pending->stacks = more;
		pending->capacity = capacity;
	}
	stack = stack__new(record, frames, e->python_functions);
	if (!stack)
		return -ENOMEM;
	if (!engine_read_python(e, record->tgid, (uint64_t *)stack__python(stack), record->n_python))
		stack->record.flags |= SO_STACK_PYTHON_UNREAD;
	if (u64_table__set(&pending->by_hash, record->hash, pending->n)) {
		stack__unref(stack);
		return -ENOMEM;
	}
	pending->stacks[pending->n++] = stack;
	return 0;
}

static const struct stack *pending_find(const struct pending *pending, uint64_t hash)
{
	uint32_t at;

	return u64_table__get(&pending->by_hash, hash, &at) ? pending->stacks[at] : NULL;
}

void engine_release_pending(struct pending *pending)
{
	for (size_t i = 0; i < pending->n; i++)
		stack__unref(pending->stacks[i]);
	free(pending->stacks);
	u64_table__release(&pending->by_hash);
	*pending = (struct pending){ 0 };
}

/* A stack that cannot be kept shows when its counts arrive: they are then lost as stack-missing. */
static void on_stack(void *context, const struct so_stack_record *record, const uint64_t *frames)
{
	struct engine *e = context;

	pending_add(e, &e->pending[0], record, frames);
}

static void add_samples(struct target *t, uint32_t tgid, uint32_t tid, const char comm[16], uint64_t hash,
			const struct stack *stack, uint64_t count)
{
	int ret = 0;

	if (!accumulator__has_stack(&t->acc, hash)) {
		if (!stack) {
			t->lost[SO_LOSS_STACK_MISSING] += count;
			return;
		}
		ret = accumulator__add_stack(&t->acc, stack);
	}
	ret = ret ?: accumulator__add(&t->acc, tgid, tid, comm, hash, count);
	if (ret) {
		t->lost[SO_LOSS_MEMORY] += count;
		limits__hit(LIMIT_SAMPLE_BYTES, count);
	}
}

bool engine_keep_stack(struct engine *e, struct target *t, uint64_t hash)
{
	const struct stack *stack = pending_find(&e->pending[0], hash);

	if (accumulator__has_stack(&t->cuda.stacks, hash))
		return true;
	if (!stack)
		stack = pending_find(&e->pending[1], hash);
	return stack && !accumulator__add_stack(&t->cuda.stacks, stack);
}

static void on_count(void *context, const struct so_count_key *key, const struct so_count *count)
{
	struct engine *e = context;
	struct target *t = target_of_slot(e, count->slot);
	const struct stack *stack;

	if (!t)
		return;
	stack = pending_find(&e->pending[0], key->stack);
	if (!stack)
		stack = pending_find(&e->pending[1], key->stack);
	add_samples(t, key->tgid, key->tid, count->comm, key->stack, stack, count->count);
}

static void on_raw(void *context, const struct so_raw_record *record)
{
	struct engine *e = context;
	struct waiting_sample *w = malloc(sizeof(*w));
	struct target *t = target_of_slot(e, record->slot);

	if (!t) {
		free(w);
		return;
	}
	if (!w) {
		t->lost[SO_LOSS_MEMORY]++;
		return;
	}
	w->next = NULL;
	w->arrived_ns = clock__now_ns();
	w->record = *record;
	if (w->record.n_python > SO_MAX_PYTHON_FRAMES)
		w->record.n_python = SO_MAX_PYTHON_FRAMES;
	w->functions = python_functions__ref(e->python_functions);
	if (!engine_read_python(e, record->tgid, (uint64_t *)w->record.python_words, w->record.n_python))
		w->record.flags |= SO_STACK_PYTHON_UNREAD;
	*e->waiting_end = w;
	e->waiting_end = &w->next;
	e->n_waiting++;
}

void engine_free_waiting(struct waiting_sample *w)
{
	python_functions__unref(w->functions);
	free(w);
}

static void finish_waiting(struct engine *e, const struct waiting_sample *w, struct process *process)
{
	struct target *t = target_of_slot(e, w->record.slot);
	struct stack *stack;

	if (!t)
		return;
	if (user_unwind(e, process, &w->record, w->functions, &stack)) {
		t->lost[SO_LOSS_MEMORY]++;
		return;
	}
	add_samples(t, w->record.tgid, w->record.tid, w->record.comm, stack->record.hash, stack, 1);
	stack__unref(stack);
}

static bool scan_pending(const struct engine *e, pid_t tgid)
{
	for (const struct scan_request *s = e->scans; s; s = s->next) {
		if (s->tgid == tgid)
			return true;
	}
	return false;
}

/*
 * Unwinds the samples whose process has been looked at since they were taken, or will not be any more. To learn a function's
 * rules may take milliseconds each time, so the ring is emptied in between: it holds some thirty samples of this kind, or one and a half for each CPU.
 */
void engine_unwind_waiting(struct engine *e)
{
	struct waiting_sample **at = &e->waiting;
	uint64_t attempts = e->learn_attempts;

	while (*at) {
		struct waiting_sample *w = *at;
		struct process *p = process_table__find(e->processes, w->record.tgid);
		bool looked_at = !w->record.stale || !p || p->gone || p->last_scan_ns > w->arrived_ns;

		if (!looked_at && e->n_waiting <= MAX_WAITING && scan_pending(e, w->record.tgid)) {
			at = &w->next;
			continue;
		}
		if (!looked_at && e->n_waiting <= MAX_WAITING && !e->stopping &&
		    clock__now_ns() - w->arrived_ns < 2000000000ull) {
			engine_request_scan(e, w->record.tgid, 0);
			at = &w->next;
			continue;
		}
		finish_waiting(e, w, p);
		*at = w->next;
		if (!*at)
			e->waiting_end = at;
		e->n_waiting--;
		engine_free_waiting(w);
		if (e->learn_attempts != attempts)
			sampler__consume_stacks(e->sampler);
		attempts = e->learn_attempts;
	}
	engine_publish_learned(e);
}

/* Samples of a target that still wait for mappings get what is known now. */
void engine_hurry_waiting(struct engine *e, uint32_t slot)
{
	for (struct waiting_sample *w = e->waiting; w; w = w->next) {
		if (w->record.slot == slot)
			w->record.stale = 0;
	}
	engine_unwind_waiting(e);
}

/* Adds a request, or brings one forward that is there. Quick ones first, so that a new image is known at once. */
void engine_request_scan(struct engine *e, pid_t tgid, uint64_t reported_pages)
{
	struct process *p = process_table__find(e->processes, tgid);
	struct scan_request **at = &e->scans, *s;
	uint64_t now = clock__now_ns();

	if (!p || p->gone)
		return;
	for (s = e->scans; s; s = s->next) {
		if (s->tgid == tgid) {
			s->reported_pages = reported_pages;
			return;
		}
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return;
	s->tgid = tgid;
	s->reported_pages = reported_pages;
	s->not_before_ns = p->scans < QUICK_SCANS ? now : p->last_scan_ns + SCAN_INTERVAL_NS;
	if (s->not_before_ns < p->not_before_ns)
		s->not_before_ns = p->not_before_ns;
	while (*at && (*at)->not_before_ns <= s->not_before_ns)
		at = &(*at)->next;
	s->next = *at;
	*at = s;
	pthread_cond_signal(&e->scan_wanted);
}

static void on_fork(struct engine *e, const struct so_event *event)
{
	struct process *parent = process_table__find(e->processes, event->other), *child;
	struct target *t = target_of_slot(e, event->slot);

	child = process_table__find(e->processes, event->tgid);
	if (!t || (child && !child->gone))
		return;
	if (child)
		process_table__remove(e->processes, child);
	if (!parent || !engine_has_room_for_process(e)) {
		sampler__delete_process(e->sampler, event->tgid);
		return;
	}
	if (process_table__add_child(e->processes, event->tgid, parent, &child))
		return;
	t->living++;
	t->seen_processes++;
	process_label_table__inherit(&t->labels, child->tgid, parent->tgid);
	/* What it has mapped is its parent's, but probes are a process's own. */
	if (!child->run || cuda_targets__watches(t))
		engine_request_scan(e, child->tgid, 0);
	cuda_targets__forked(e->cuda, parent->tgid, child->tgid);
}

void engine_process_gone(struct engine *e, struct process *p)
{
	struct target *t = target_of_slot(e, p->kernel.slot);

	if (p->gone)
		return;
	/* Names are read by mappings, which nobody looks at once it is gone. */
	if (t)
		cuda_targets__process_gone(e->cuda, t, p->tgid);
	p->gone = true;
	p->gone_ns = clock__now_ns();
	sampler__delete_process(e->sampler, p->tgid);
	if (!t)
		return;
	t->living--;
	if (!t->living && t->info.state == TARGET_SAMPLING)
		engine_wake(e);
}

static void process_executed(struct engine *e, struct process *p)
{
	struct target *t = target_of_slot(e, p->kernel.slot);

	if (t)
		cuda_targets__process_gone(e->cuda, t, p->tgid);
	process_table__exec(e->processes, p);
	p->scans = 0;
	engine_request_scan(e, p->tgid, 0);
}

/* The kernel side empties an entry when its process executes another program (on_exec in bpf/sampler.bpf.c). */
static void look_at_process(void *context, struct process *p)
{
	struct engine *e = context;
	struct so_process kernel;

	engine_check_alive(e, p);
	if (!p->gone && p->run && p->run->n && !sampler__get_process(e->sampler, p->tgid, &kernel) &&
	    !kernel.mappings)
		process_executed(e, p);
	else
		engine_request_scan(e, p->tgid, 0);
}

/* A child of a known process of the same target becomes known too. It may have executed another program already. */
static bool adopt(struct engine *e, pid_t tgid)
{
	struct so_event event = { .type = SO_EVENT_FORK, .tgid = (uint32_t)tgid };
	struct process *parent, *child;
	struct so_process kernel;
	struct proc_info info;

	if (sampler__get_process(e->sampler, tgid, &kernel) || proc_info__read(tgid, &info) ||
	    info.tgid != tgid || proc_info__is_zombie(&info))
		return false;
	parent = process_table__find(e->processes, info.ppid);
	if (!parent || parent->kernel.slot != kernel.slot)
		return false;
	event.other = (uint32_t)info.ppid;
	event.slot = kernel.slot;
	on_fork(e, &event);
	child = process_table__find(e->processes, tgid);
	if (!child || child->gone)
		return false;
	process_executed(e, child);
	return true;
}

/*
 * Those that the kernel side has and the daemon has not: children of whose beginning it was not told. Some have ended, and
 * their numbers may be strangers' by now: whose child each one is decides, so that one whose parent has ended as well is not
 * followed. If the telling is still under way it finds a process that is known, or makes it known.
 */
static void look_at_strangers(struct engine *e, pid_t *tgids, size_t n)
{
	size_t left = 0, before;

	for (size_t i = 0; i < n; i++) {
		const struct process *p = process_table__find(e->processes, tgids[i]);

		if (!p || p->gone)
			tgids[left++] = tgids[i];
	}
	/* A child's parent may be the next one. */
	do {
		before = left;
		left = 0;
		for (size_t i = 0; i < before; i++) {
			if (!adopt(e, tgids[i]))
				tgids[left++] = tgids[i];
		}
	} while (left < before);
	for (size_t i = 0; i < left; i++)
		sampler__delete_process(e->sampler, tgids[i]);
}

void engine_look_at_everything(struct engine *e)
{
	_cleanup_free_ pid_t *tgids = calloc(SO_MAX_PROCESSES, sizeof(*tgids));

	process_table__each(e->processes, SO_MAX_SLOTS, look_at_process, e);
	if (tgids)
		look_at_strangers(e, tgids, sampler__list_processes(e->sampler, tgids, SO_MAX_PROCESSES));
}

static void on_event(void *context, const struct so_event *event)
{
	struct engine *e = context;
	struct process *p = process_table__find(e->processes, event->tgid);

	if (event->type == SO_EVENT_FORK) {
		on_fork(e, event);
		return;
	}
	if (!p) {
		/* Of a child whose beginning was not told. A later process of that number is entered again when its is. */
		if (event->type == SO_EVENT_EXIT)
			sampler__delete_process(e->sampler, (pid_t)event->tgid);
		return;
	}
	if (event->type == SO_EVENT_EXEC) {
		process_executed(e, p);
	} else if (event->type == SO_EVENT_MAPS) {
		engine_request_scan(e, p->tgid, event->other);
	} else if (event->type == SO_EVENT_EXIT) {
		engine_process_gone(e, p);
	}
}

const struct sampler_handlers engine_handlers = {
	.stack = on_stack,
	.raw = on_raw,
	.event = on_event,
	.count = on_count,
};

/* Processes that ended before the last drain began have no counts in flight any more. */
static void bury(void *context, struct process *p)
{
	struct engine *e = context;

	if (p->gone && p->gone_ns < e->last_drain_ns)
		process_table__remove(e->processes, p);
}

int engine_drain(struct engine *e)
{
	uint64_t begin = clock__now_ns();
	int ret;

	python_functions__turn(&e->python_functions);
	limits__set(LIMIT_PYTHON_NAMES, python_functions__all_bytes());
	sampler__consume_events(e->sampler);
	ret = sampler__drain(e->sampler, NULL);
	cuda_targets__drain(e->cuda);
	engine_release_pending(&e->pending[1]);
	e->pending[1] = e->pending[0];
	e->pending[0] = (struct pending){ 0 };
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i])
			e->targets[i]->acc.window++;
	}
	sampler__consume_events(e->sampler);
	engine_unwind_waiting(e);
	process_table__each(e->processes, SO_MAX_SLOTS, bury, e);
	engine_turn_generations(e);
	engine_share_sample_bytes(e);
	e->last_drain_ns = begin;
	e->drains += !ret;
	return ret;
}

#define FRESH_NS 20000000ull

int engine_drain_unless_fresh(struct engine *e)
{
	return clock__now_ns() - e->last_drain_ns < FRESH_NS ? 0 : engine_drain(e);
}

uint64_t engine_target_lost(struct engine *e, struct target *t, struct so_slot *out)
{
	struct so_slot slot = t->kernel;
	uint64_t sum = 0;

	if (t->of && t->info.state != TARGET_ENDED) {
		engine_target_lost(e, t->of, &slot);
		slot.taken -= t->base.taken;
		slot.run_ns -= t->base.run_ns;
		for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
			slot.lost[i] -= t->base.lost[i];
	} else if (t->info.state != TARGET_ENDED) {
		sampler__read_slot(e->sampler, t->slot, &slot);
	}
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++) {
		slot.lost[i] += t->lost[i];
		sum += slot.lost[i];
	}
	if (out)
		*out = slot;
	return sum;
}
