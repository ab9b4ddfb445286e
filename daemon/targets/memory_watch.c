// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/memory_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/processes/cpu_wait.h"

#define MS 1000000ull

/* Between two readings of what is resident; with many processes, and of how many at most. */
#define TICK_NS        (250 * MS)
#define TICK_MANY_NS   (1000 * MS)
#define MANY_PROCESSES 8
#define MOST_PROCESSES 256

#define RAISE_NS (1000 * MS)
/* Fewer stacks than these in RAISE_NS: more may be chosen. A quarter of what the kernel side lets through. */
#define FEW_STACKS 45
#define FEW_RANDOM 15

/* After so many the faults of a child that has ended are known to be waited for by nobody. */
#define LOOKS_FOR_CHILDREN 8

/* What may be used up at once, and what is to be there before it goes on. */
#define CREDIT_NS ((int64_t)(100 * MS))

int memory_watch__load(struct memory_watch *m, const struct sampler *sampler, struct so_error *err)
{
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	struct page_sampler *pages = NULL;
	int ret = 0;

	pthread_mutex_lock(&loading);
	if (!__atomic_load_n(&m->pages, __ATOMIC_ACQUIRE)) {
		ret = page_sampler__new(sampler, &pages, err);
		if (!ret)
			__atomic_store_n(&m->pages, pages, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&loading);
	return ret;
}

void memory_watch__free(struct memory_watch *m)
{
	page_sampler__free(m->pages);
	m->pages = NULL;
}

void memory_watch__release(struct target_memory *memory)
{
	live_pages__release(&memory->pages);
	memory_series__release(&memory->series);
}

static int check_share(const struct memory_watch *m, const struct target *t, struct so_error *err)
{
	unsigned all = 0, users = 0, user = 0;
	const struct target *other;

	TARGETS_EACH(other, m->targets)
	{
		if (!other->memory.on)
			continue;
		all++;
		users += other->caller.uid != 0;
		user += other->caller.uid == t->caller.uid;
	}
	if (all >= MEMORY_WATCH_MAX ||
	    (t->caller.uid && (users >= MEMORY_WATCH_MAX_USERS || user >= MEMORY_WATCH_MAX_USER)))
		return so_err(err, -ENOSPC, "the memory of %u processes is watched already%s, which is the most", all,
			      t->caller.uid ? ", some of them yours" : "");
	return 0;
}

/* Of the target that takes the samples. */
static int update(struct memory_watch *m, struct target *t)
{
	struct target_memory *memory = &t->memory;
	bool on = memory->wanted || memory->views;
	int ret;

	if (on == memory->on)
		return 0;
	if (!on) {
		page_sampler__end(m->pages, t->slot);
		memory->on = false;
		if (!memory->asked)
			memory_watch__release(memory);
		return 0;
	}
	ret = page_sampler__begin(m->pages, t->slot);
	if (ret)
		return ret;
	memory_watch__release(memory);
	*memory = (struct target_memory){ .asked = memory->asked,
					  .wanted = memory->wanted,
					  .views = memory->views,
					  .on = true,
					  .on_ns = clock__now_ns(),
					  .credit_ns = CREDIT_NS,
					  .figures.threshold = SO_PAGE_MAX_THRESHOLD };
	return 0;
}

int memory_watch__begin(struct memory_watch *m, struct target *t, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = proper->memory.on ? 0 : check_share(m, t, err);

	if (ret)
		return ret;
	t->memory.asked = t->memory.wanted = true;
	proper->memory.views += t->of != NULL;
	ret = update(m, proper);
	if (ret) {
		t->memory.asked = t->memory.wanted = false;
		proper->memory.views -= t->of != NULL;
		return so_err(err, ret, "the kernel refused the tracepoints of page faults: %s", strerror(-ret));
	}
	if (t->of)
		t->memory.figures = proper->memory.figures;
	return 0;
}

/* Of the target that takes the samples, at this moment. */
static struct memory_figures figures_now(const struct memory_watch *m, const struct target *t)
{
	const struct target_memory *memory = &t->memory;
	struct memory_figures figures = memory->figures;
	struct so_page_slot slot = page_sampler__slot(m->pages, t->slot);

	figures.stacks = slot.stacks;
	figures.randoms = slot.randoms;
	figures.lost += slot.lost;
	figures.hidden = slot.hidden;
	if (memory->paused)
		figures.paused_ns += clock__now_ns() - memory->paused_since_ns;
	return figures;
}

/* The target that it is a view of goes on, or goes: what was known until now is the view's own. */
static void keep_growth(const struct memory_watch *m, struct target *view)
{
	const struct target *proper = view->of;

	view->memory.figures = figures_now(m, proper);
	view->memory.on_ns = proper->memory.on_ns;
	memory_series__release(&view->memory.series);
	memory_series__copy(&proper->memory.series, view->begin_ns, &view->memory.series);
}

void memory_watch__end(struct memory_watch *m, struct target *t)
{
	struct target *proper = t->of ?: t;

	if (!t->memory.wanted)
		return;
	if (t->of)
		keep_growth(m, t);
	t->memory.wanted = false;
	proper->memory.views -= t->of != NULL;
	update(m, proper);
}

/* What the kernel side has lowered is not followed from then on. */
static void follow(struct memory_watch *m, struct target *t)
{
	uint32_t lowest = page_sampler__take_lowest(m->pages, t->slot);

	if (lowest && lowest < t->memory.figures.threshold) {
		live_pages__lower(&t->memory.pages, lowest);
		t->memory.figures.threshold = lowest;
	}
}

static void set_threshold(struct memory_watch *m, struct target *t, uint32_t threshold)
{
	page_sampler__set_threshold(m->pages, t->slot, threshold);
	if (threshold < t->memory.figures.threshold)
		live_pages__lower(&t->memory.pages, threshold);
	t->memory.figures.threshold = threshold;
}

/* What a touch that was chosen at random is scaled to. */
static uint64_t bytes_of(const struct so_page_record *record)
{
	return (uint64_t)(4294967296.0 / (double)record->random * (double)(1ull << (SO_PAGE_SHIFT + record->order)));
}

void memory_watch__touched(struct memory_watch *m, const struct so_page_record *record, const struct stack *stack)
{
	struct target *t = targets__of_slot(m->targets, record->slot);
	struct target_memory *memory = t ? &t->memory : NULL;

	/* What is left of the slot's target before is none of this one's. */
	if (!memory || !memory->on || record->when_ns < memory->on_ns || record->order > SO_PAGE_ORDER_MAX)
		return;
	if (!stack) {
		memory->figures.lost++;
		return;
	}
	if (!memory->paused)
		follow(m, t);
	if (record->random)
		samples__add(&t->samples,
			     &(struct stack_sample){ .kind = SAMPLE_ALLOC,
						     .tgid = record->tgid,
						     .tid = record->tid,
						     .comm = record->comm,
						     .stack = record->stack,
						     .value = bytes_of(record),
						     .when_ns = t->info.timed ? record->when_ns : 0 },
			     stack);
	if (record->threshold)
		live_pages__touch(&memory->pages, page_sampler__salt(m->pages), memory->figures.threshold, record,
				  stack);
	while (live_pages__is_full(&memory->pages) && memory->figures.threshold > SO_PAGE_MIN_THRESHOLD)
		set_threshold(m, t, memory->figures.threshold / 2);
}

struct sum {
	struct memory_usage usage;
	struct cpu_wait wait;
	unsigned processes, left_out;
};

static void add_process(void *context, struct process *p)
{
	struct memory_usage usage;
	struct sum *sum = context;

	if (p->gone)
		return;
	if (sum->processes == MOST_PROCESSES) {
		sum->left_out++;
		return;
	}
	if (memory_usage__read(p->tgid, &usage))
		return;
	sum->processes++;
	sum->usage.anonymous += usage.anonymous;
	sum->usage.file += usage.file;
	sum->usage.shared += usage.shared;
	sum->usage.swapped += usage.swapped;
	sum->usage.faults += usage.faults;
	sum->usage.cpu_ns += usage.cpu_ns;
	cpu_wait__add(&sum->wait, p->tgid);
}

/* Where a process has ended meanwhile, the sums are smaller than before. */
static uint64_t since(uint64_t now, uint64_t *before)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before = now;
	return more;
}

/*
 * Of a sum over processes and the children that they have waited for: what a child had is missing from its end until
 * it is waited for, and for good if nobody of the target waits for it.
 */
static uint64_t since_most(uint64_t now, struct memory_sum *sum)
{
	uint64_t more = now > sum->most ? now - sum->most : 0;

	sum->less = now < sum->most ? sum->less + 1 : 0;
	if (!sum->less || sum->less > LOOKS_FOR_CHILDREN) {
		sum->most = now;
		sum->less = 0;
	}
	return more;
}

static void pause_or_go_on(struct memory_watch *m, struct target *t, uint64_t now_ns)
{
	struct target_memory *memory = &t->memory;
	struct so_page_slot slot = page_sampler__slot(m->pages, t->slot);

	if (!memory->paused && memory->credit_ns < 0) {
		page_sampler__end(m->pages, t->slot);
		memory->paused = true;
		memory->paused_since_ns = now_ns;
	} else if (memory->paused && memory->credit_ns >= CREDIT_NS / 2) {
		/* What the kernel refuses now is tried again. */
		if (page_sampler__go_on(m->pages, t->slot, memory->figures.threshold, slot.random))
			return;
		memory->paused = false;
		memory->figures.paused_ns += now_ns - memory->paused_since_ns;
	}
}

static unsigned budget_percent(const struct target *t)
{
	return t->info.keep && !t->memory.views ? MEMORY_WATCH_STANDING_PERCENT : MEMORY_WATCH_LOOK_PERCENT;
}

/* What went by while the target could have run: on a machine that gives it few of its CPUs it is less than the time. */
static uint64_t own_time(struct target_memory *memory, const struct cpu_wait *wait, uint64_t now_ns)
{
	uint64_t waited_ns = cpu_wait__scale(wait, since(wait->ns, &memory->waited_before));
	uint64_t passed_ns = since(now_ns, &memory->looked_ns);

	return waited_ns < passed_ns ? passed_ns - waited_ns : 0;
}

/* What the faults since the last time have cost, against the budget. */
static void account(struct memory_watch *m, struct target *t, const struct sum *sum, uint64_t now_ns)
{
	struct target_memory *memory = &t->memory;
	struct memory_figures *f = &memory->figures;
	bool first = !memory->looked_ns;
	uint64_t run_ns = since(page_sampler__slot(m->pages, t->slot).run_ns, &memory->run_before);
	uint64_t faults = since_most(sum->usage.faults, &memory->faults_sum);
	uint64_t cpu_ns = since_most(sum->usage.cpu_ns, &memory->cpu_sum);
	uint64_t own_ns = own_time(memory, &sum->wait, now_ns);
	uint64_t time_ns = cpu_ns > own_ns ? cpu_ns : own_ns;

	if (first)
		return;
	faults = memory->paused ? 0 : faults;
	f->faults += faults;
	f->cost_ns += faults * PAGE_SAMPLER_FAULT_NS + run_ns;
	f->time_ns += time_ns;
	memory->credit_ns += (int64_t)(time_ns * budget_percent(t) / 100);
	memory->credit_ns -= (int64_t)(faults * PAGE_SAMPLER_FAULT_NS + run_ns);
	if (memory->credit_ns > CREDIT_NS)
		memory->credit_ns = CREDIT_NS;
}

static bool lives(void *context, uint32_t tgid)
{
	const struct memory_watch *m = context;
	const struct process *p = process_table__find(m->processes, (pid_t)tgid);

	return p && !p->gone;
}

static void raise_thresholds(struct memory_watch *m, struct target *t, uint64_t now_ns)
{
	struct target_memory *memory = &t->memory;
	struct so_page_slot slot = page_sampler__slot(m->pages, t->slot);

	if (memory->paused || now_ns < memory->next_raise_ns)
		return;
	memory->next_raise_ns = now_ns + RAISE_NS;
	/* What a process had when it ended is there no more, and would take the room of what is. */
	live_pages__keep(&memory->pages, lives, m);
	if (since(slot.stacks, &memory->stacks_before) < FEW_STACKS &&
	    memory->figures.threshold < SO_PAGE_MAX_THRESHOLD && memory->pages.n < LIVE_PAGES_MAX / 4)
		set_threshold(m, t, memory->figures.threshold * 2);
	if (since(slot.randoms, &memory->randoms_before) < FEW_RANDOM && slot.random < SO_PAGE_MAX_THRESHOLD)
		page_sampler__set_random(m->pages, t->slot, slot.random * 2);
}

static void look(struct memory_watch *m, struct target *t, uint64_t now_ns)
{
	struct target_memory *memory = &t->memory;
	struct sum sum = { .processes = 0 };

	process_table__each(m->processes, t->slot, add_process, &sum);
	memory->next_tick_ns = now_ns + (sum.processes > MANY_PROCESSES ? TICK_MANY_NS : TICK_NS);
	memory->figures.many_processes |= sum.left_out > 0;
	if (sum.processes)
		memory_series__add(&memory->series, &(struct memory_point){ now_ns, sum.usage.anonymous, sum.usage.file,
									    sum.usage.shared, sum.usage.swapped });
	if (!memory->paused)
		follow(m, t);
	account(m, t, &sum, now_ns);
	pause_or_go_on(m, t, now_ns);
	raise_thresholds(m, t, now_ns);
}

/* Touches whose stacks were not taken, as the pages had been touched often. */
static void note_later_touches(const struct memory_watch *m, struct live_pages *pages)
{
	for (size_t i = 0; i < pages->n; i++) {
		struct live_page *page = &pages->pages[i];
		uint64_t when_ns = page_sampler__touched_ns(m->pages, page->tgid, page->page);

		page->when_ns = when_ns > page->when_ns ? when_ns : page->when_ns;
	}
}

int memory_watch__take(struct memory_watch *m, struct target *t, struct memory_taken *out, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	const struct target_memory *memory = &proper->memory;
	bool ended_view = t->view && !t->of;

	if (!t->memory.asked)
		return so_err(err, -ENODATA, "target %u was attached without \"memory\": its growth is not watched",
			      t->id);
	if (memory->on && proper->info.state == TARGET_SAMPLING)
		look(m, proper, clock__now_ns());
	/* Of a view that has ended the pages are its target's, and go on. */
	if (!ended_view && live_pages__copy(&memory->pages, &out->pages))
		return so_err(err, -ENOMEM, "out of memory");
	note_later_touches(m, &out->pages);
	out->since_ns = t->begin_ns > memory->on_ns ? t->begin_ns : memory->on_ns;
	out->series = memory_series__text(&memory->series, out->since_ns);
	out->figures = ended_view ? memory->figures : figures_now(m, proper);
	return out->series ? 0 : so_err(err, -ENOMEM, "out of memory");
}

struct target_memory_now memory_watch__now(const struct target *t)
{
	const struct target_memory *memory = &target__proper(t)->memory;
	const struct memory_series *series = &memory->series;
	const struct memory_point *last = series->n ? &series->points[series->n - 1] : NULL;

	if (!t->memory.asked || !memory->on || !last)
		return (struct target_memory_now){ .known = false };
	return (struct target_memory_now){ true, last->anonymous, last->file, last->shared, last->swapped };
}

void memory_taken__release(struct memory_taken *taken)
{
	live_pages__release(&taken->pages);
	free(taken->series);
}

uint64_t memory_watch__tick(struct memory_watch *m, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	struct target *t;

	if (!m->pages)
		return next;
	TARGETS_EACH(t, m->targets)
	{
		if (!t->memory.on || t->info.state != TARGET_SAMPLING)
			continue;
		if (now_ns >= t->memory.next_tick_ns)
			look(m, t, now_ns);
		next = t->memory.next_tick_ns < next ? t->memory.next_tick_ns : next;
	}
	return next;
}
