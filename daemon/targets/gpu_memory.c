// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/gpu_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/torch_library.h"
#include "daemon/os/clock.h"
#include "daemon/os/exec_pages.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define MS      1000000ull
#define TICK_NS (250 * MS)
#define SPAN_NS (1ull << SO_TORCH_SPAN_SHIFT)

#define RAISE_NS (1000 * MS)
/* Stacks that took less than this part of their budget: twice as many are taken. */
#define RAISE_BELOW 4

/* Processes of a target that have probes, or whose CPU time is read. */
#define MOST_PROCESSES 256

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
}

/* Targets. */

void gpu_memory__forget(struct gpu_memory *g, struct target *t)
{
	if (t->gpu_memory.maps)
		torch_probes__forget(g->probes, t->slot);
	t->gpu_memory.maps = false;
}

/* Of those that have ended and are kept, what was seen goes before a further one is refused. */
static struct target *ended_one(const struct gpu_memory *g, const struct target *t)
{
	struct target *other;

	TARGETS_EACH(other, g->targets)
	{
		if (other->gpu_memory.maps && !other->gpu_memory.on &&
		    (!t->caller.uid || other->caller.uid == t->caller.uid))
			return other;
	}
	return NULL;
}

static bool has_share(const struct gpu_memory *g, const struct target *t, unsigned *all)
{
	unsigned users = 0, user = 0;
	const struct target *other;

	*all = 0;
	TARGETS_EACH(other, g->targets)
	{
		if (!other->gpu_memory.maps)
			continue;
		(*all)++;
		users += other->caller.uid != 0;
		user += other->caller.uid == t->caller.uid;
	}
	return *all < GPU_MEMORY_MAX &&
	       (!t->caller.uid || (users < GPU_MEMORY_MAX_USERS && user < GPU_MEMORY_MAX_USER));
}

static int take_share(struct gpu_memory *g, const struct target *t, struct so_error *err)
{
	struct target *other;
	unsigned all;

	while (!has_share(g, t, &all)) {
		other = ended_one(g, t);
		if (!other)
			return so_err(err, -ENOSPC,
				      "the GPU memory of %u processes is watched already%s, which is the most", all,
				      t->caller.uid ? ", some of them yours" : "");
		gpu_memory__forget(g, other);
	}
	return 0;
}

static void request_scan(void *context, struct process *p)
{
	struct gpu_memory *g = context;

	if (!p->gone)
		scan_queue__request(g->scans, p->tgid, 0);
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
	torch_probes__slot(g->probes, t->slot)->budget_ns = SPAN_NS * GPU_MEMORY_PERCENT / 100;
	/* The libraries of a target that is sampled already. */
	if (t->info.state == TARGET_SAMPLING)
		process_table__each(g->processes, t->slot, request_scan, g);
	return 0;
}

int gpu_memory__begin(struct gpu_memory *g, struct target *t, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = proper->gpu_memory.on ? 0 : take_share(g, t, err);

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

/* Processes. */

struct gpu_memory_found {
	int fd; /* of the library; -1: it cannot be opened, now */
	struct torch_library library;
	char problem[256]; /* "": none */
};

static struct target *watching_target(const struct gpu_memory *g, const struct process *p)
{
	struct target *t = p && !p->gone ? targets__of_slot(g->targets, p->kernel.slot) : NULL;

	return t && t->gpu_memory.on ? t : NULL;
}

static struct gpu_memory_process *find_process(const struct target_gpu_memory *memory, pid_t pid)
{
	for (size_t i = 0; i < memory->n_processes; i++)
		if (memory->processes[i].pid == pid)
			return &memory->processes[i];
	return NULL;
}

/* Once it has probes its mappings may change as they like. */
bool gpu_memory__wants(const struct gpu_memory *g, pid_t tgid)
{
	const struct process *p = process_table__find(g->processes, tgid);
	const struct target *t = watching_target(g, p);
	const struct gpu_memory_process *known = t ? find_process(&t->gpu_memory, tgid) : NULL;

	return t && !(known && (known->link || known->refused) && known->execs == p->execs);
}

static void look_into(const struct process_scan *scan, const struct proc_map *map, struct gpu_memory_found *found)
{
	struct so_error err = { .text = "" };
	char path[128];

	snprintf(path, sizeof(path), "%.120s", short_path(map->path));
	found->fd = proc_maps__open_file(scan->reader, map);
	if (found->fd < 0) {
		snprintf(found->problem, sizeof(found->problem), "%s cannot be opened: %s", path, strerror(-found->fd));
		return;
	}
	if (torch_library__read(found->fd, &found->library, &err))
		snprintf(found->problem, sizeof(found->problem), "%s: %.120s", path, err.text);
	else if (found->library.kind == TORCH_LIBRARY_OLD)
		snprintf(found->problem, sizeof(found->problem),
			 "%s is of a PyTorch before 1.9, which does not report how much is allocated", path);
	else if (found->library.kind != TORCH_LIBRARY_KNOWN)
		snprintf(found->problem, sizeof(found->problem),
			 "%s does not report memory in a form that is known: PyTorch 1.9 to 2.10 do", path);
}

struct gpu_memory_found *gpu_memory__find(const struct process_scan *scan)
{
	struct gpu_memory_found *found;

	for (size_t i = 0; i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];

		if (!map->inode || !map->executable || !torch_library__may_be(map->path))
			continue;
		found = calloc(1, sizeof(*found));
		if (!found)
			return NULL;
		found->fd = -1;
		look_into(scan, map, found);
		return found;
	}
	return NULL;
}

static void place(struct gpu_memory *g, struct target *t, struct gpu_memory_process *at,
		  const struct gpu_memory_found *found)
{
	const struct torch_places places = { found->library.memory, found->library.refused };
	struct target_gpu_memory *memory = &t->gpu_memory;
	int ret;

	memcpy(memory->problem, found->problem, sizeof(memory->problem));
	at->refused = found->problem[0] && found->fd >= 0;
	if (found->problem[0] || at->link)
		return;
	ret = torch_probes__attach(g->probes, at->pid, found->fd, &places, &at->link);
	memory->linked |= !ret;
	if (ret)
		snprintf(memory->problem, sizeof(memory->problem), "the kernel refused the probes in process %d: %s",
			 at->pid, strerror(-ret));
}

/* NULL: there is no room. */
static struct gpu_memory_process *note_process(struct target_gpu_memory *memory, const struct process *p)
{
	struct gpu_memory_process *at = find_process(memory, p->tgid);

	if (!at) {
		if (memory->n_processes == MOST_PROCESSES ||
		    ARRAY_RESERVE(memory->processes, memory->capacity, memory->n_processes + 1))
			return NULL;
		at = &memory->processes[memory->n_processes++];
		*at = (struct gpu_memory_process){ .pid = p->tgid };
	} else if (at->execs != p->execs) {
		torch_link__free(TAKE_PTR(at->link));
		at->refused = false;
	}
	at->execs = p->execs;
	return at;
}

void gpu_memory__add(struct gpu_memory *g, pid_t tgid, struct gpu_memory_found *found)
{
	const struct process *p = tgid ? process_table__find(g->processes, tgid) : NULL;
	struct target *t = watching_target(g, p);
	struct gpu_memory_process *at = t && found ? note_process(&t->gpu_memory, p) : NULL;

	if (at)
		place(g, t, at, found);
	if (found && found->fd >= 0)
		close(found->fd);
	free(found);
}

/* Collected. */

void gpu_memory__stack(struct gpu_memory *g, const struct so_torch_record *record, const struct stack *stack)
{
	struct target *t = targets__of_slot(g->targets, record->slot);

	/* One of the slot's target before does no harm: no site has it. */
	if (t && t->gpu_memory.on && (!stack || accumulator__add_stack(&t->gpu_memory.stacks, stack)))
		t->gpu_memory.lost++;
}

/*
 * One that was forked since, has executed another program, or has mapped a library is looked at. A sample tells of that as
 * well; a process that waits for the GPU has few, or none.
 */
static void look_at_process(void *context, struct process *p)
{
	struct gpu_memory *g = context;
	struct target *t = watching_target(g, p);
	struct gpu_memory_process *known = t ? find_process(&t->gpu_memory, p->tgid) : NULL;
	uint64_t pages;

	if (!t || (known && (known->link || known->refused) && known->execs == p->execs))
		return;
	pages = exec_pages__read(p->tgid);
	if (!known || known->execs != p->execs || (pages && pages != p->kernel.exec_pages)) {
		if (note_process(&t->gpu_memory, p))
			scan_queue__request(g->scans, p->tgid, pages);
	}
}

/* Of those that have ended the probes go. */
static void drop_ended(struct gpu_memory *g, struct target *t)
{
	struct target_gpu_memory *memory = &t->gpu_memory;

	for (size_t i = memory->n_processes; i-- > 0;) {
		if (watching_target(g, process_table__find(g->processes, memory->processes[i].pid)) == t)
			continue;
		torch_link__free(memory->processes[i].link);
		memory->processes[i] = memory->processes[--memory->n_processes];
	}
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
static void account(struct target_gpu_memory *memory, struct so_torch_slot *slot, uint64_t now_ns)
{
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
		slot->budget_ns = SPAN_NS * GPU_MEMORY_PERCENT / 100 * time_ns / passed_ns;
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

/* The sum over devices of what was allocated at least since the last time, and of what is reserved. */
static void add_point(struct gpu_memory *g, struct target *t, uint64_t now_ns)
{
	struct so_torch_slot *slot = torch_probes__slot(g->probes, t->slot);
	struct memory_point point = { .when_ns = now_ns };
	struct torch_reading reading;

	if (!torch_probes__read_devices(g->probes, t->slot, &reading) && reading.n_devices) {
		for (size_t i = 0; i < reading.n_devices; i++) {
			const struct so_torch_device *d = &reading.devices[i];

			/* Of one that has ended nothing is in use; where all have, what they had is told. */
			if (!find_process(&t->gpu_memory, (pid_t)reading.device_keys[i].tgid))
				continue;
			point.anonymous += d->epoch == slot->epoch ? d->low : d->allocated;
			point.file += d->reserved;
		}
		memory_series__add(&t->gpu_memory.series, &point);
	}
	torch_reading__release(&reading);
	slot->epoch++;
}

static void look(struct gpu_memory *g, struct target *t, uint64_t now_ns)
{
	struct so_torch_slot *slot = torch_probes__slot(g->probes, t->slot);

	t->gpu_memory.next_tick_ns = now_ns + TICK_NS;
	process_table__each(g->processes, t->slot, look_at_process, g);
	drop_ended(g, t);
	add_point(g, t, now_ns);
	account(&t->gpu_memory, slot, now_ns);
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
			look(g, t, now_ns);
		next = t->gpu_memory.next_tick_ns < next ? t->gpu_memory.next_tick_ns : next;
	}
	return next;
}

/* Taken. */

uint64_t gpu_memory__refused(struct gpu_memory *g, const struct target *t)
{
	const struct target *proper = target__proper(t);

	return proper->gpu_memory.maps ? torch_probes__slot(g->probes, proper->slot)->refused : 0;
}

static int copy(struct gpu_memory *g, const struct target *t, struct gpu_memory_taken *out)
{
	const struct target_gpu_memory *memory = &t->gpu_memory;
	int ret = torch_probes__share(g->probes, t->slot, &out->maps);

	ret = ret ?: accumulator__copy(&memory->stacks, &out->stacks);
	if (ret)
		return ret;
	out->since_ns = memory->on_ns;
	out->end_ns = memory->on ? clock__now_ns() : memory->end_ns;
	out->ended = !memory->on;
	out->slot = *torch_probes__slot(g->probes, t->slot);
	out->cost_ns = memory->cost_ns;
	out->time_ns = memory->time_ns;
	out->lost = memory->lost;
	out->linked = memory->linked;
	memcpy(out->problem, memory->problem, sizeof(out->problem));
	out->series = memory_series__text(&memory->series, out->since_ns);
	return out->series ? 0 : -ENOMEM;
}

int gpu_memory__take(struct gpu_memory *g, struct target *t, struct gpu_memory_taken *out, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret;

	*out = (struct gpu_memory_taken){ .maps = TORCH_MAPS_NONE };
	if (!t->gpu_memory.asked)
		return so_err(err, -ENODATA,
			      "target %u was attached without \"gpu_memory\": its memory on GPUs is not watched",
			      t->id);
	if ((t->view && !t->of) || !proper->gpu_memory.maps)
		return so_err(err, -ENODATA, "target %u has ended: what it had in use is known no more", t->id);
	if (proper->gpu_memory.on && proper->info.state == TARGET_SAMPLING)
		look(g, proper, clock__now_ns());
	ret = copy(g, proper, out);
	return ret ? so_err(err, ret, "cannot take what is known of its memory: %s", strerror(-ret)) : 0;
}

int gpu_memory__read(struct gpu_memory_taken *taken)
{
	return torch_maps__read(&taken->maps, &taken->reading);
}

void gpu_memory__look_who_lives(const struct gpu_memory *g, struct gpu_memory_taken *taken)
{
	const struct torch_reading *r = &taken->reading;

	for (size_t i = 0; !taken->ended && i < r->n_devices; i++) {
		const struct process *p = process_table__find(g->processes, (pid_t)r->device_keys[i].tgid);

		if (!p || p->gone)
			u64_table__set(&taken->gone, r->device_keys[i].tgid, 1);
	}
}

void gpu_memory_taken__release(struct gpu_memory_taken *taken)
{
	torch_maps__close(&taken->maps);
	accumulator__release(&taken->stacks);
	u64_table__release(&taken->gone);
	torch_reading__release(&taken->reading);
	free(taken->series);
}
