// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/waiting_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/limits.h"
#include "daemon/os/user_shares.h"
#include "stakeout/array.h"

/* The kernel's sums of a thread on a CPU are of its last tick. */
#define LATE_NS 20000000ull

struct waiting_threads {
	struct waiting_thread *list;
	size_t n, capacity;
	struct u64_table by_tid;
	struct user_shares shares; /* of the list */
	struct stack *nowhere;     /* without frames: for time whose stack is not known */
};

int waiting_threads__new(struct waiting_threads **out)
{
	const struct so_stack_record none = { .type = SO_RECORD_STACK, .hash = so_mix(0, 1) };
	const uint64_t no_frames = 0;
	struct waiting_threads *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->shares = user_shares__of(SO_MAX_LOOKED_THREADS);
	all->nowhere = stack__new(&none, &no_frames, NULL);
	if (!all->nowhere) {
		free(all);
		return -ENOMEM;
	}
	*out = all;
	return 0;
}

static void forget_stacks(struct waiting_thread *thread)
{
	stack__unref(TAKE_PTR(thread->waits));
	stack__unref(TAKE_PTR(thread->runnable));
}

void waiting_threads__free(struct waiting_threads *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		forget_stacks(&all->list[i]);
	user_shares__reset(&all->shares);
	free(all->list);
	u64_table__release(&all->by_tid);
	stack__unref(all->nowhere);
	free(all);
}

/* until_ns: it did so up to then. */
static void give(struct target *t, const struct waiting_thread *thread, enum sample_kind kind, uint64_t ns,
		 const struct stack *stack, uint64_t until_ns)
{
	samples__add(&t->samples,
		     &(struct stack_sample){ kind, thread->tgid, thread->tid, thread->comm, stack->record.hash, ns,
					     t->info.timed && until_ns > ns ? until_ns - ns : 0 },
		     stack);
}

/*
 * What is owed to a stack, once there is something; never more than all that is owed, lest a part that got too much
 * makes the whole more than the thread's time.
 */
static void pay(struct target *t, struct waiting_thread *thread, enum sample_kind kind, int64_t *ns,
		const struct stack *stack)
{
	int64_t all_ns = thread->wait_ns + thread->runnable_ns + thread->ran_ns, paid_ns = *ns < all_ns ? *ns : all_ns;

	if (paid_ns <= 0 || !stack)
		return;
	give(t, thread, kind, (uint64_t)paid_ns, stack, thread->at_ns);
	*ns -= paid_ns;
}

/* The one that the target's samples have of it, so that it is held once. */
static void set(struct target *t, struct stack **place, struct stack *stack)
{
	struct stack *same = samples__stack(&t->samples, stack->record.hash);

	stack = stack__ref(same ?: stack);
	stack__unref(*place);
	*place = stack;
}

static struct waiting_thread *find(const struct waiting_threads *all, const struct so_look_record *r)
{
	uint32_t at;

	if (!u64_table__get(&all->by_tid, r->thread.tid, &at))
		return NULL;
	return &all->list[at];
}

/*
 * A thread that began after the last whole look is counted from its beginning; another one from that look, or from when
 * its target began.
 */
static void begin(struct waiting_thread *thread, const struct target *t, const struct so_look_record *r)
{
	uint64_t since_ns = t->looked_ns ?: t->wall_since_ns;
	bool young = r->started_ns > since_ns;

	*thread = (struct waiting_thread){ .tid = r->thread.tid,
					   .tgid = r->tgid,
					   .slot = t->slot,
					   .uid = t->caller.uid,
					   .started_ns = r->started_ns,
					   .at_ns = young ? r->started_ns : since_ns,
					   .run_ns = young ? 0 : r->run_ns,
					   .delay_ns = young ? 0 : r->delay_ns };
	/* The sums of when the target began are not known: it did then what it does now. */
	if (!young && r->thread.on_cpu && r->at_ns > thread->at_ns) {
		uint64_t before_ns = r->at_ns - thread->at_ns;

		thread->run_ns -= before_ns < thread->run_ns ? before_ns : thread->run_ns;
	}
}

static struct waiting_thread *add(struct waiting_threads *all, struct target *t, const struct so_look_record *r)
{
	struct waiting_thread *thread;

	if (all->n >= SO_MAX_LOOKED_THREADS || !user_shares__take(&all->shares, t->caller.uid, 1)) {
		limits__hit(LIMIT_LOOKED_THREADS, 1);
		t->wall_refused = true;
		return NULL;
	}
	if (ARRAY_RESERVE(all->list, all->capacity, all->n + 1) ||
	    u64_table__set(&all->by_tid, r->thread.tid, (uint32_t)all->n)) {
		user_shares__give(&all->shares, t->caller.uid, 1);
		return NULL;
	}
	thread = &all->list[all->n++];
	begin(thread, t, r);
	limits__set(LIMIT_LOOKED_THREADS, all->n);
	return thread;
}

/*
 * How long a thread has been runnable is not in the sums until it runs: until then that time passes for waiting, and is
 * taken back then. So waiting is given to a stack only when the thread is found to wait again.
 */
static void count(struct waiting_thread *thread, const struct so_look_record *r)
{
	/* A thread that executes a program takes its leader's number and start, but keeps its own sums. */
	if (r->run_ns < thread->run_ns || r->run_ns - thread->run_ns > r->at_ns - thread->at_ns + LATE_NS) {
		thread->run_ns = r->run_ns;
		thread->delay_ns = r->delay_ns;
	}
	int64_t ns = (int64_t)(r->at_ns - thread->at_ns), ran = (int64_t)(r->run_ns - thread->run_ns),
		delay = (int64_t)(r->delay_ns - thread->delay_ns);

	thread->ran_ns += ran;
	thread->runnable_ns += delay;
	thread->wait_ns += ns - ran - delay;
	thread->at_ns = r->at_ns;
	thread->run_ns = r->run_ns;
	thread->delay_ns = r->delay_ns;
}

/* What the sums said late was counted for waiting, or for being runnable, before. */
static void balance(struct waiting_thread *thread)
{
	int64_t ns;

	if (thread->wait_ns < 0 && thread->runnable_ns > 0) {
		ns = -thread->wait_ns < thread->runnable_ns ? -thread->wait_ns : thread->runnable_ns;
		thread->wait_ns += ns;
		thread->runnable_ns -= ns;
	} else if (thread->runnable_ns < 0 && thread->wait_ns > 0) {
		ns = -thread->runnable_ns < thread->wait_ns ? -thread->runnable_ns : thread->wait_ns;
		thread->runnable_ns += ns;
		thread->wait_ns -= ns;
	}
}

static enum waiting_state state_of(const struct so_look_record *r)
{
	if (r->thread.on_cpu)
		return WAITING_RUNS;
	return r->thread.state ? WAITING_WAITS : WAITING_RUNNABLE;
}

/* Its number is another thread's now, or its process another target's. */
static void replace(struct waiting_threads *all, struct waiting_thread *thread, struct target *t,
		    const struct so_look_record *r)
{
	if (thread->slot == t->slot && !thread->ended)
		waiting_threads__end(all, t, thread, thread->at_ns);
	forget_stacks(thread);
	user_shares__give(&all->shares, thread->uid, 1);
	begin(thread, t, r);
	if (!user_shares__take(&all->shares, thread->uid, 1))
		thread->uid = 0;
}

static struct waiting_thread *find_or_add(struct waiting_threads *all, struct target *t, const struct so_look_record *r)
{
	struct waiting_thread *thread = find(all, r);

	if (!thread)
		return add(all, t, r);
	if (thread->started_ns != r->started_ns || thread->slot != t->slot || thread->ended)
		replace(all, thread, t, r);
	return thread;
}

void waiting_threads__found(struct waiting_threads *all, struct target *t, const struct so_look_record *r,
			    struct stack *stack)
{
	struct waiting_thread *thread = find_or_add(all, t, r);

	if (!thread)
		return;
	memcpy(thread->comm, r->thread.comm, sizeof(thread->comm));
	/* Until the look before this one it did not run. */
	waiting_thread__went_on(t, thread, r->before_ns);
	count(thread, r);
	thread->switches = r->thread.switches;
	thread->seen_ns = r->at_ns;
	balance(thread);
	thread->state = state_of(r);
	if (thread->state == WAITING_WAITS && stack)
		set(t, &thread->waits, stack);
	if (thread->state == WAITING_RUNNABLE && (stack || thread->waits))
		set(t, &thread->runnable, stack ?: thread->waits);
	if (thread->state == WAITING_WAITS && (stack || r->same))
		pay(t, thread, SAMPLE_WAIT, &thread->wait_ns, thread->waits);
	pay(t, thread, SAMPLE_RUN, &thread->ran_ns, all->nowhere);
	pay(t, thread, SAMPLE_RUNNABLE, &thread->runnable_ns, thread->runnable);
}

void waiting_thread__went_on(struct target *t, struct waiting_thread *thread, uint64_t until_ns)
{
	uint64_t ns = until_ns - thread->at_ns;

	if (until_ns <= thread->at_ns)
		return;
	if (thread->state == WAITING_WAITS && thread->waits) {
		give(t, thread, SAMPLE_WAIT, ns, thread->waits, until_ns);
	} else if (thread->state == WAITING_RUNNABLE) {
		/* The kernel adds it to its sum when the thread gets its CPU. */
		thread->delay_ns += ns;
		thread->runnable_ns += (int64_t)ns;
		pay(t, thread, SAMPLE_RUNNABLE, &thread->runnable_ns, thread->runnable);
	} else {
		return;
	}
	thread->at_ns = until_ns;
}

/* What is left is given to where it was seen last, or nowhere. */
void waiting_threads__end(struct waiting_threads *all, struct target *t, struct waiting_thread *thread,
			  uint64_t until_ns)
{
	int64_t ns = (int64_t)(until_ns - thread->at_ns);

	if (ns > 0 && thread->state == WAITING_WAITS)
		thread->wait_ns += ns;
	else if (ns > 0 && thread->state == WAITING_RUNS)
		thread->ran_ns += ns;
	else if (ns > 0)
		thread->runnable_ns += ns;
	balance(thread);
	pay(t, thread, SAMPLE_WAIT, &thread->wait_ns, thread->waits ?: all->nowhere);
	pay(t, thread, SAMPLE_RUN, &thread->ran_ns, all->nowhere);
	pay(t, thread, SAMPLE_RUNNABLE, &thread->runnable_ns, thread->runnable ?: all->nowhere);
	thread->ended = true;
}

void waiting_threads__each(struct waiting_threads *all, const struct targets *targets,
			   void (*visit)(void *context, struct target *t, struct waiting_thread *thread), void *context)
{
	for (size_t i = 0; i < all->n; i++) {
		struct target *t = targets__of_slot(targets, all->list[i].slot);

		if (t && t->info.state == TARGET_SAMPLING && t->info.wall)
			visit(context, t, &all->list[i]);
	}
}

void waiting_threads__sweep(struct waiting_threads *all, const struct targets *targets)
{
	struct u64_table by_tid = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct waiting_thread *thread = &all->list[i];
		const struct target *t = targets__of_slot(targets, thread->slot);

		if (!thread->ended && t && t->info.state == TARGET_SAMPLING && t->info.wall) {
			all->list[n++] = *thread;
			continue;
		}
		forget_stacks(thread);
		user_shares__give(&all->shares, thread->uid, 1);
	}
	if (n == all->n)
		return;
	all->n = n;
	limits__set(LIMIT_LOOKED_THREADS, n);
	u64_table__release(&all->by_tid);
	/* One that has no place in the table for want of memory is added anew when it is found next. */
	for (size_t i = 0; i < n; i++)
		if (u64_table__set(&by_tid, all->list[i].tid, (uint32_t)i))
			break;
	all->by_tid = by_tid;
}
