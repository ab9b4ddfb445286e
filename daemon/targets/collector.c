// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/collector.h"

#include <stdlib.h>

#include "daemon/targets/generations.h"
#include "daemon/targets/steps.h"
#include "daemon/targets/waits.h"
#include "daemon/os/clock.h"

/* More waiting samples than these, which hold copies of stacks, are unwound with what is known. */
#define MAX_WAITING_BYTES (24u << 20)
#define MAX_WAITING       (MAX_WAITING_BYTES / sizeof(struct waiting_sample))
#define MAX_WAITING_NS    2000000000ull
#define UNWIND_AGAIN_NS   10000000ull
#define FRESH_NS          20000000ull

static void free_waiting(struct waiting_sample *w)
{
	python_functions__unref(w->functions);
	free(w);
}

void collector__forget(struct collector *c)
{
	while (c->waiting) {
		struct waiting_sample *w = c->waiting;

		c->waiting = w->next;
		free_waiting(w);
	}
}

/* One that cannot be kept shows later as stack-missing. Python frames are read while their code objects are there. */
static void on_stack(void *context, const struct so_stack_record *record, const uint64_t *frames)
{
	struct collector *c = context;
	struct stack *stack = pending_stacks__add(c->pending, record, frames, c->unwind.pythons->functions);

	if (!stack)
		return;
	if (!pythons__read(c->unwind.pythons, record->tgid, (uint64_t *)stack__python(stack), record->n_python))
		stack->record.flags |= SO_STACK_PYTHON_UNREAD;
	pythons__check(c->unwind.pythons, stack);
}

static void count_mark(struct collector *c, struct target *t, const struct stack_sample *sample, uint32_t at)
{
	unsigned mark = (unsigned)(sample->stack - SO_STEP_STACK);

	if (steps__is_fetch(t, mark, process_table__find(c->life.processes, (pid_t)sample->tgid), at))
		steps__add(t, mark, sample);
}

/*
 * A copy for the current window, with its own hash, if the stack has just-in-time compiled code. NULL: none is needed,
 * or no memory.
 */
static struct stack *dated_stack(struct collector *c, const struct target *t, const struct stack *stack, uint64_t *hash)
{
	uint32_t window = jit_names__window(c->jits, &stack->record, stack->frames, hash);
	struct stack *dated = NULL;

	if (window && !samples__stack(&t->samples, *hash))
		dated = stack__new(&stack->record, stack->frames, stack->functions);
	if (dated) {
		dated->record.hash = *hash;
		dated->record.names = window;
	}
	return dated;
}

static void on_count(void *context, const struct so_count_key *key, const struct so_count *count)
{
	struct collector *c = context;
	struct target *t = targets__of_slot(c->life.targets, count->slot);
	const struct stack *stack;
	struct stack *dated = NULL;
	struct stack_sample sample = { SAMPLE_CPU, key->tgid,    key->tid,    count->comm,
				       key->stack, count->count, key->when_ns };

	if (!t)
		return;
	if (key->stack - SO_STEP_STACK < SO_MARKS) {
		count_mark(c, t, &sample, count->at);
		return;
	}
	stack = pending_stacks__find(c->pending, key->stack);
	if (stack)
		dated = dated_stack(c, t, stack, &sample.stack);
	samples__add(&t->samples, &sample, dated ?: stack);
	stack__unref(dated);
	steps__seen_stack(t, c->life.sampler, (pid_t)key->tgid, (pid_t)key->tid, stack);
	thread_namer__seen(c->namer, t, (pid_t)key->tgid, key->tid, count->comm);
}

static void on_raw(void *context, const struct so_raw_record *record)
{
	struct collector *c = context;
	struct target *t = targets__of_slot(c->life.targets, record->slot);
	struct waiting_sample *w = t ? malloc(sizeof(*w)) : NULL;

	if (!t)
		return;
	if (!w) {
		samples__lose(&t->samples, SO_LOSS_MEMORY, 1);
		return;
	}
	w->next = NULL;
	w->arrived_ns = clock__now_ns();
	w->record = *record;
	if (w->record.n_python > SO_MAX_PYTHON_FRAMES)
		w->record.n_python = SO_MAX_PYTHON_FRAMES;
	w->functions = python_functions__ref(c->unwind.pythons->functions);
	if (!pythons__read(c->unwind.pythons, record->tgid, (uint64_t *)w->record.python_words, w->record.n_python))
		w->record.flags |= SO_STACK_PYTHON_UNREAD;
	*c->waiting_end = w;
	c->waiting_end = &w->next;
	c->n_waiting++;
}

static void on_call(void *context, const struct so_call_record *record)
{
	struct collector *c = context;
	struct target *t = targets__of_slot(c->life.targets, record->slot);

	/* What is left of the slot's target before is none of this one's. */
	if (t && record->begin_ns >= t->begin_ns)
		call_times__add(&t->calls, record);
}

static void on_page(void *context, const struct so_page_record *record)
{
	struct collector *c = context;

	memory_watch__touched(c->memory, record, pending_stacks__find(c->pending, record->stack));
}

static void on_torch(void *context, const struct so_torch_record *record)
{
	struct collector *c = context;

	gpu_memory__stack(c->gpu_memory, record, pending_stacks__find(c->pending, record->stack));
}

static void on_alloc(void *context, const struct so_torch_record *record)
{
	struct collector *c = context;

	allocations__stack(c->allocations, record, pending_stacks__find(c->pending, record->stack));
}

static void on_event(void *context, const struct so_event *event)
{
	struct collector *c = context;

	process_life__event(&c->life, event);
}

const struct sampler_handlers collector_handlers = {
	.stack = on_stack,
	.raw = on_raw,
	.call = on_call,
	.page = on_page,
	.torch = on_torch,
	.alloc = on_alloc,
	.event = on_event,
	.count = on_count,
};

void collector__take_input(struct collector *c)
{
	mapping_watch__take(c->life.mappings);
	sampler__consume_stacks(c->life.sampler);
	if (sampler__take_lost_events(c->life.sampler))
		process_life__look_at_everything(&c->life);
}

static void finish_waiting(struct collector *c, const struct waiting_sample *w, struct process *process)
{
	struct target *t = targets__of_slot(c->life.targets, w->record.slot);
	const struct so_raw_record *r = &w->record;
	struct stack *stack;

	if (!t)
		return;
	if (user_unwind__raw(&c->unwind, process, r, w->functions, &stack)) {
		samples__lose(&t->samples, SO_LOSS_MEMORY, 1);
		return;
	}
	samples__add(&t->samples,
		     &(struct stack_sample){ SAMPLE_CPU, r->tgid, r->tid, r->comm, stack->record.hash, 1,
					     t->info.timed ? w->arrived_ns : 0 },
		     stack);
	thread_namer__seen(c->namer, t, (pid_t)r->tgid, r->tid, r->comm);
	stack__unref(stack);
}

/* Whether it waits on, for mappings that are being read, or are to be. */
static bool waits_on(struct collector *c, const struct waiting_sample *w, const struct process *p)
{
	struct scan_queue *scans = c->life.scans;

	if (w->record.stale && p && p->gone && (p->scanning || p->gone_ns >= c->life.mappings->taken_ns))
		return clock__now_ns() - w->arrived_ns < MAX_WAITING_NS;
	if (!w->record.stale || !p || p->gone || p->last_read_ns > w->arrived_ns || c->n_waiting > MAX_WAITING)
		return false;
	if (!p->scanning && scan_queue__has(scans, p->tgid))
		return true;
	if (clock__now_ns() - w->arrived_ns >= MAX_WAITING_NS)
		return false;
	if (p->scanning)
		return true;
	scan_queue__request(scans, p->tgid);
	return true;
}

/* Learning a function may take milliseconds: empties the ring in between, which holds some thirty such samples. */
void collector__unwind_waiting(struct collector *c)
{
	struct learner *learner = c->unwind.learner;
	uint64_t attempts = learner->attempts;
	struct waiting_sample **at = &c->waiting;

	while (*at) {
		struct waiting_sample *w = *at;
		struct process *p = process_table__find(c->life.processes, w->record.tgid);

		if (waits_on(c, w, p)) {
			at = &w->next;
			continue;
		}
		finish_waiting(c, w, p);
		*at = w->next;
		if (!*at)
			c->waiting_end = at;
		c->n_waiting--;
		free_waiting(w);
		if (learner->attempts != attempts)
			sampler__consume_stacks(c->life.sampler);
		attempts = learner->attempts;
	}
	user_unwind__done();
	learn_notes__publish(c->notes);
}

uint64_t collector__tick(struct collector *c, uint64_t now_ns)
{
	if (c->n_waiting && now_ns >= c->next_unwind_ns) {
		collector__unwind_waiting(c);
		c->next_unwind_ns = clock__now_ns() + UNWIND_AGAIN_NS;
	}
	return c->n_waiting ? c->next_unwind_ns : UINT64_MAX;
}

void collector__hurry_waiting(struct collector *c, uint32_t slot)
{
	for (struct waiting_sample *w = c->waiting; w; w = w->next) {
		if (w->record.slot == slot)
			w->record.stale = 0;
	}
	collector__unwind_waiting(c);
}

/* Processes that ended before the last drain began have no counts in flight any more. */
static void bury(void *context, struct process *p)
{
	struct collector *c = context;

	if (p->gone && p->gone_ns < c->last_drain_ns)
		process_table__remove(c->life.processes, p);
}

int collector__drain(struct collector *c)
{
	uint64_t begin_ns = clock__now_ns();
	struct target *t;
	int ret;

	pythons__turn(c->unwind.pythons);
	mapping_watch__take(c->life.mappings);
	ret = sampler__drain(c->life.sampler, NULL);
	cuda_targets__drain(c->life.cuda);
	waits__tick(c->waits);
	pending_stacks__turn(c->pending);
	TARGETS_EACH(t, c->life.targets)
	samples__next_drain(&t->samples);
	sampler__consume_events(c->life.sampler);
	collector__unwind_waiting(c);
	process_table__each(c->life.processes, SO_MAX_SLOTS, bury, c);
	jit_names__turn(c->jits);
	generations__turn(c->life.targets, c->life.processes, c->generation_bytes);
	targets__share_bytes(c->life.targets);
	c->last_drain_ns = begin_ns;
	c->drains += !ret;
	return ret;
}

int collector__drain_unless_fresh(struct collector *c)
{
	return clock__now_ns() - c->last_drain_ns < FRESH_NS ? 0 : collector__drain(c);
}
