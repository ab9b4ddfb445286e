// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One pass over the threads. The memory of those that wait is caught without the engine's lock, then it is asked
 * whether they have run meanwhile, and only then their stacks are unwound and counted, a few at a time under the lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/memory_lock.h"
#include "daemon/profile/file_names.h"
#include "daemon/targets/waited_file.h"
#include "daemon/targets/waits_internal.h"
#include "stakeout/array.h"

/* Stacks that one pass catches, some 0.1 ms each: of more threads that have all run, these are chosen at random. */
#define MAX_CAUGHT 128
/* Beyond this what is left is put off. */
#define MAX_PASS_NS 100000000ull
/* Page faults and paths whose file is found. */
#define MAX_FAULTS 8
/* A bit of task_struct.__state (include/linux/sched.h). */
#define TASK_UNINTERRUPTIBLE 2
/* Stacks that are unwound before others may have the lock. */
#define UNWIND_AT_ONCE 4

/* One thread that was found waiting. */
struct found {
	const struct so_look_record *record;
	size_t request; /* index of its */
	bool caught, moved, waits_for_file;
	char path[WAITED_FILE_BYTES];
};

struct pass {
	struct waits *waits;
	uint64_t began_ns;
	uint8_t *bytes; /* records */
	size_t length;
	size_t n_stacks, first; /* records with a stack; of these MAX_CAUGHT from here on are chosen, in a circle */
	struct found *found;    /* [n_found], by process and thread */
	struct thread_catch_request *requests;
	struct thread_memory *memory; /* of each of found */
	size_t n_found, n_faults, moved;
	uint64_t read_ns;
};

static bool has_stack(const struct so_look_record *r)
{
	return r->bytes == sizeof(*r) && r->thread.user;
}

static struct process *process_of(const struct pass *p, const struct so_look_record *r)
{
	return process_table__find(p->waits->parts.processes, (pid_t)r->tgid);
}

/* With the lock. */
static void count(struct pass *p, struct target *t, const struct so_look_record *r, struct stack *stack)
{
	waiting_threads__found(p->waits->threads, t, r, stack);
	thread_namer__seen(p->waits->parts.namer, t, (pid_t)r->tgid, r->thread.tid, r->thread.comm);
}

/* With the lock. Its time is counted; its stack is wanted at the next look, even if it does not run until then. */
static void put_off(struct pass *p, const struct so_look_record *r)
{
	struct target *t = waits__target_of(p->waits, process_of(p, r));

	thread_looks__forget(p->waits->looks, r->thread.tid);
	if (t)
		count(p, t, r, NULL);
}

static bool is_chosen(const struct pass *p, size_t i)
{
	return (i + p->n_stacks - p->first) % p->n_stacks < MAX_CAUGHT;
}

/* With the lock. */
static void ask_for(struct pass *p, const struct so_look_record *r)
{
	struct process *process = process_of(p, r);

	if (!waits__target_of(p->waits, process)) {
		thread_looks__forget(p->waits->looks, r->thread.tid);
		return;
	}
	user_unwind__request(process, &r->thread, &p->requests[p->n_found]);
	p->found[p->n_found] = (struct found){ .record = r, .request = p->n_found };
	p->n_found++;
}

/* With the lock. Of threads that run, stand where they stood, or have no user stack, the time is all. */
static void sort_records(struct pass *p, bool catches)
{
	const struct so_look_record *r;
	size_t at = 0, i = 0;

	while ((r = thread_looks__next(p->bytes, p->length, &at))) {
		struct target *t;

		if (has_stack(r) && catches && is_chosen(p, i++)) {
			ask_for(p, r);
			continue;
		}
		t = waits__target_of(p->waits, process_of(p, r));
		if (has_stack(r) || !t)
			put_off(p, r);
		else
			count(p, t, r, NULL);
	}
}

static int choose_threads(struct pass *p, bool catches)
{
	const struct so_look_record *r;
	size_t at = 0, room;

	while ((r = thread_looks__next(p->bytes, p->length, &at)))
		p->n_stacks += has_stack(r);
	room = !catches ? 0 : p->n_stacks < MAX_CAUGHT ? p->n_stacks : MAX_CAUGHT;
	if (room) {
		p->first = (size_t)random() % p->n_stacks;
		p->found = calloc(room, sizeof(*p->found));
		p->requests = calloc(room, sizeof(*p->requests));
		p->memory = malloc(room * sizeof(*p->memory));
		catches = p->found && p->requests && p->memory;
	}
	pthread_mutex_lock(p->waits->parts.lock);
	/* Mappings that changed are to be read first: scans take longer than a look. */
	mapping_watch__take(p->waits->parts.mappings);
	sort_records(p, room && catches);
	pthread_mutex_unlock(p->waits->parts.lock);
	return room && !catches ? -ENOMEM : 0;
}

static int compare(const void *a, const void *b)
{
	const struct so_look_record *x = ((const struct found *)a)->record, *y = ((const struct found *)b)->record;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return x->thread.tid < y->thread.tid ? -1 : x->thread.tid > y->thread.tid;
}

/* How many of those from `first` on are of one process, MEMORY_LOCK_CATCH at most. */
static size_t batch(const struct pass *p, size_t first)
{
	size_t n = 1;

	while (n < MEMORY_LOCK_CATCH && first + n < p->n_found &&
	       p->found[first + n].record->tgid == p->found[first].record->tgid)
		n++;
	return n;
}

static void catch_batch(struct pass *p, size_t first, size_t n)
{
	struct thread_catch_request requests[MEMORY_LOCK_CATCH];
	size_t caught;

	if (clock__now_ns() - p->began_ns > MAX_PASS_NS)
		return;
	for (size_t i = 0; i < n; i++)
		requests[i] = p->requests[p->found[first + i].request];
	caught = memory_lock__catch(requests, &p->memory[first], n);
	for (size_t i = 0; i < caught; i++)
		p->found[first + i].caught = true;
}

/* By reading, without the lock; whether that may be shown is asked afterwards. */
static void find_file(struct pass *p, struct found *f)
{
	const struct so_look_record *r = f->record;

	if (f->caught && (!waited_file__is_dear(&r->thread) || p->n_faults++ < MAX_FAULTS))
		f->waits_for_file = waited_file__path((pid_t)r->tgid, &r->thread, f->path);
}

/* Whether each still is where it was found: it has not run since. Those that do not come again have ended. */
static void check_again(struct pass *p)
{
	uint64_t began_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID);
	_cleanup_free_ uint8_t *bytes = NULL;
	const struct so_look_record *r;
	size_t length = 0, at = 0;

	for (size_t i = 0; i < p->n_found; i++)
		p->found[i].moved = true;
	if (thread_looks__read(p->waits->looks, SO_LOOK_AGAIN, &bytes, &length))
		return;
	while ((r = thread_looks__next(bytes, length, &at))) {
		struct found key = { .record = r },
			     *f = bsearch(&key, p->found, p->n_found, sizeof(*p->found), compare);

		if (f && r->thread.switches == f->record->thread.switches && !r->thread.on_cpu)
			f->moved = false;
	}
	p->read_ns += clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
}

/* Where its code is in mappings that are being read, a later look will do better. */
static bool is_premature(const struct waits *w, const struct process *p, const struct stack *stack)
{
	return (stack->record.cause == SO_TRUNC_NO_MAPPING || stack->record.cause == SO_TRUNC_MAPS_PENDING) &&
	       (p->scanning || scan_queue__has(w->parts.scans, p->tgid));
}

/* In a page fault, or another sleep that no signal ends: its memory may not be readable as long as that lasts. */
static bool sleeps_deeply(const struct so_look_record *r)
{
	return r->thread.state & TASK_UNINTERRUPTIBLE;
}

/* With the lock. NULL: not now. */
static struct stack *unwind(struct pass *p, struct target *t, const struct found *f, const struct thread_memory *memory)
{
	struct waits *w = p->waits;
	struct process *process = process_of(p, f->record);
	struct stack *stack = NULL;
	uint32_t file = 0;

	if (f->moved || (!f->caught && !sleeps_deeply(f->record)) || !process__is_readable(process))
		return NULL;
	if (f->waits_for_file)
		file = file_names__number(w->parts.files, f->path, t->caller.uid);
	if (user_unwind__caught(w->parts.unwind, process, &f->record->thread, f->caught ? memory : NULL, file, &stack))
		return NULL;
	if (is_premature(w, process, stack)) {
		stack__unref(stack);
		return NULL;
	}
	return stack;
}

/* With the lock. */
static void take(struct pass *p, const struct found *f, const struct thread_memory *memory)
{
	struct target *t = waits__target_of(p->waits, process_of(p, f->record));
	struct stack *stack = t ? unwind(p, t, f, memory) : NULL;

	if (stack)
		count(p, t, f->record, stack);
	else
		put_off(p, f->record);
	stack__unref(stack);
	p->moved += f->moved;
}

static void take_all(struct pass *p)
{
	for (size_t i = 0; i < p->n_found; i += UNWIND_AT_ONCE) {
		pthread_mutex_lock(p->waits->parts.lock);
		for (size_t k = i; k < i + UNWIND_AT_ONCE && k < p->n_found; k++)
			take(p, &p->found[k], &p->memory[k]);
		pthread_mutex_unlock(p->waits->parts.lock);
	}
}

static void catch_all(struct pass *p)
{
	qsort(p->found, p->n_found, sizeof(*p->found), compare);
	for (size_t i = 0, n; i < p->n_found; i += n) {
		n = batch(p, i);
		catch_batch(p, i, n);
	}
	for (size_t i = 0; i < p->n_found; i++)
		find_file(p, &p->found[i]);
	check_again(p);
	take_all(p);
}

static void release(struct pass *p)
{
	free(p->bytes);
	free(p->found);
	free(p->requests);
	free(p->memory);
}

void waits__look_once(struct waits *w, bool catches, struct look_outcome *out)
{
	uint64_t began_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID);
	struct pass p = { .waits = w, .began_ns = clock__now_ns() };

	out->error = thread_looks__read(w->looks, SO_LOOK_CHANGED, &p.bytes, &p.length);
	p.read_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (!out->error && !choose_threads(&p, catches) && p.n_found)
		catch_all(&p);
	release(&p);
	out->moved = p.moved;
	out->read_ns += p.read_ns;
}
