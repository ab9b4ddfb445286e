// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/gpu_memory_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"

#define MS      1000000ull
#define TICK_NS (250 * MS)
#define SPAN_NS (1ull << SO_TORCH_SPAN_SHIFT)

#define RAISE_NS (1000 * MS)
/* Stacks that took less than this part of their budget: twice as many are taken. */
#define RAISE_BELOW 4

int gpu_memory__load(struct gpu_memory *g, const struct sampler *sampler, struct so_error *err)
{
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	struct torch_probes *probes = NULL;
	int ret = 0;

	pthread_mutex_lock(&loading);
	if (!__atomic_load_n(&g->probes, __ATOMIC_ACQUIRE)) {
		ret = torch_probes__new(sampler, &probes, err);
		if (!ret)
			__atomic_store_n(&g->probes, probes, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&loading);
	return ret;
}

void gpu_memory__free(struct gpu_memory *g)
{
	torch_probes__free(g->probes);
	g->probes = NULL;
}

static void free_links(struct target_gpu_memory *memory)
{
	for (size_t i = 0; i < memory->n_processes; i++)
		torch_link__free(memory->processes[i].link);
	memory->n_processes = 0;
}

void gpu_memory__release(struct target_gpu_memory *memory)
{
	free_links(memory);
	free(memory->processes);
	memory->processes = NULL;
	memory->capacity = 0;
	accumulator__release(&memory->stacks);
	memory_series__release(&memory->series);
	memory_series__release(&memory->shown);
	u64_table__release(&memory->copies);
	gpu_memory_drop_kept(memory);
}

/* Targets. */

static void request_scan(void *context, struct process *p)
{
	struct gpu_memory *g = context;

	if (!p->gone)
		scan_queue__request(g->scans, p->tgid);
}

/* Of a target that is kept, while nobody looks. */
static unsigned percent_of(const struct target *t)
{
	return t->info.keep && !t->gpu_memory.views ? GPU_MEMORY_STANDING_PERCENT : GPU_MEMORY_LOOK_PERCENT;
}

/* Of the target that takes the samples. */
static int update(struct gpu_memory *g, struct target *t)
{
	struct target_gpu_memory *memory = &t->gpu_memory;
	bool on = memory->wanted || memory->views;
	int ret;

	if (on == memory->on)
		return 0;
	if (!on) {
		torch_probes__end(g->probes, t->slot);
		free_links(memory);
		memory->on = false;
		memory->end_ns = clock__now_ns();
		if (memory->asked)
			return 0;
		gpu_memory__forget(g, t);
		gpu_memory__release(memory);
		return 0;
	}
	ret = torch_probes__begin(g->probes, t->slot);
	if (ret)
		return ret;
	gpu_memory__release(memory);
	*memory = (struct target_gpu_memory){ .asked = memory->asked,
					      .wanted = memory->wanted,
					      .views = memory->views,
					      .on = true,
					      .maps = true,
					      .on_ns = clock__now_ns(),
					      .stacks.max_bytes = GPU_MEMORY_STACK_BYTES };
	torch_probes__slot(g->probes, t->slot)->budget_ns = SPAN_NS * percent_of(t) / 100;
	/* The libraries of a target that is sampled already. */
	if (t->info.state == TARGET_SAMPLING)
		process_table__each(g->processes, t->slot, request_scan, g);
	return 0;
}

int gpu_memory__begin(struct gpu_memory *g, struct target *t, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = gpu_memory_take_share(g, t, err);

	if (ret)
		return ret;
	t->gpu_memory.asked = t->gpu_memory.wanted = true;
	proper->gpu_memory.views += t->of != NULL;
	ret = update(g, proper);
	if (ret) {
		t->gpu_memory.asked = t->gpu_memory.wanted = false;
		proper->gpu_memory.views -= t->of != NULL;
		return so_err(err, ret, "the kernel refused maps for the memory of GPUs: %s", strerror(-ret));
	}
	return 0;
}

void gpu_memory__end(struct gpu_memory *g, struct target *t)
{
	struct target *proper = t->of ?: t;

	if (!t->gpu_memory.wanted)
		return;
	t->gpu_memory.wanted = false;
	proper->gpu_memory.views -= t->of != NULL;
	update(g, proper);
}

void gpu_memory__executed(struct gpu_memory *g, struct target *t, pid_t tgid)
{
	if (t->gpu_memory.on)
		torch_probes__executed(g->probes, t->slot, tgid);
}

/* Collected. */

void gpu_memory__stack(struct gpu_memory *g, const struct so_torch_record *record, const struct stack *stack)
{
	struct target *t = targets__of_slot(g->targets, record->slot);

	/* One of the slot's target before does no harm: no site has it. */
	if (t && t->gpu_memory.on && (!stack || accumulator__add_stack(&t->gpu_memory.stacks, stack)))
		t->gpu_memory.lost++;
}

/* Where a process has ended meanwhile, the sums are smaller than before. */
static uint64_t since(uint64_t now, uint64_t *before)
{
	uint64_t more = now > *before ? now - *before : 0;

	*before = now;
	return more;
}

static uint64_t cpu_ns(const struct target_gpu_memory *memory)
{
	struct memory_usage usage;
	uint64_t sum = 0;

	for (size_t i = 0; i < memory->n_processes; i++)
		sum += memory_usage__read(memory->processes[i].pid, &usage) ? 0 : usage.cpu_ns;
	return sum;
}

/* What the probes have cost, and so how long stacks may take in a span. */
static void account(struct target *t, struct so_torch_slot *slot, uint64_t now_ns)
{
	struct target_gpu_memory *memory = &t->gpu_memory;
	bool first = !memory->looked_ns;
	uint64_t run_ns = since(slot->run_ns, &memory->run_before);
	uint64_t hits = since(slot->hits, &memory->hits_before);
	uint64_t used_ns = since(cpu_ns(memory), &memory->cpu_before);
	uint64_t passed_ns = since(now_ns, &memory->looked_ns);
	uint64_t time_ns = used_ns > passed_ns ? used_ns : passed_ns;

	if (first)
		return;
	memory->cost_ns += run_ns + hits * TORCH_PROBES_HIT_NS;
	memory->time_ns += time_ns;
	if (passed_ns)
		slot->budget_ns = SPAN_NS * percent_of(t) / 100 * time_ns / passed_ns;
}

static void raise_share(struct target_gpu_memory *memory, struct so_torch_slot *slot, uint64_t now_ns)
{
	uint64_t stacks_ns;

	if (now_ns < memory->next_raise_ns)
		return;
	memory->next_raise_ns = now_ns + RAISE_NS;
	stacks_ns = since(slot->stacks_ns, &memory->stacks_at_raise);
	if (slot->mask && stacks_ns < slot->budget_ns * (RAISE_NS / SPAN_NS) / RAISE_BELOW)
		slot->mask >>= 1;
}

static void add_device(struct memory_point *point, const struct so_torch_device *d, uint64_t epoch)
{
	point->anonymous += d->epoch == epoch ? d->low : d->allocated;
	point->file += d->reserved;
}

/* Once it has ended it cannot be looked up any more. */
static void note_copy(struct gpu_memory *g, struct target *t, uint32_t tgid)
{
	const struct process *p = process_table__find(g->processes, (pid_t)tgid);

	/* Without memory for it, its totals count. There are as many as have devices. */
	if (p && !p->gone)
		u64_table__set(&t->gpu_memory.copies, tgid, (uint32_t)p->copy_of);
}

/*
 * The sum over devices of what was allocated at least since the last time, and of what is reserved; and the same
 * without processes that the target's user may not look into.
 */
static void add_point(struct gpu_memory *g, struct target *t, uint64_t now_ns)
{
	struct so_torch_slot *slot = torch_probes__slot(g->probes, t->slot);
	struct memory_point point = { .when_ns = now_ns }, shown = point;
	struct torch_reading reading;

	if (!torch_probes__read_devices(g->probes, t->slot, &reading) && reading.n_devices) {
		for (size_t i = 0; i < reading.n_devices; i++)
			note_copy(g, t, reading.device_keys[i].tgid);
		for (size_t i = 0; i < reading.n_devices; i++) {
			uint32_t tgid = reading.device_keys[i].tgid, unused;

			/* Of one that has ended nothing is in use; where all have, what they had is reported. */
			if (!gpu_memory_find_process(&t->gpu_memory, (pid_t)tgid) ||
			    torch_reading__is_copy(&reading, i, &t->gpu_memory.copies))
				continue;
			add_device(&point, &reading.devices[i], slot->epoch);
			if (!u64_table__get(&t->hidden, tgid, &unused))
				add_device(&shown, &reading.devices[i], slot->epoch);
		}
		memory_series__add(&t->gpu_memory.series, &point);
		memory_series__add(&t->gpu_memory.shown, &shown);
	}
	torch_reading__release(&reading);
	slot->epoch++;
}

void gpu_memory_look(struct gpu_memory *g, struct target *t, uint64_t now_ns)
{
	struct so_torch_slot *slot = torch_probes__slot(g->probes, t->slot);

	t->gpu_memory.next_tick_ns = now_ns + TICK_NS;
	gpu_memory_look_at_processes(g, t);
	add_point(g, t, now_ns);
	account(t, slot, now_ns);
	raise_share(&t->gpu_memory, slot, now_ns);
}

uint64_t gpu_memory__tick(struct gpu_memory *g, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	struct target *t;

	if (!g->probes)
		return next;
	TARGETS_EACH(t, g->targets)
	{
		if (!t->gpu_memory.on || t->info.state != TARGET_SAMPLING)
			continue;
		if (now_ns >= t->gpu_memory.next_tick_ns)
			gpu_memory_look(g, t, now_ns);
		next = t->gpu_memory.next_tick_ns < next ? t->gpu_memory.next_tick_ns : next;
	}
	return next;
}
