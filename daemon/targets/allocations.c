// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/targets/allocations_internal.h"

#define MS      1000000ull
#define TICK_NS (250 * MS)

static int new_probes(struct allocations *a, const struct sampler *sampler, struct alloc_probes **out,
		      struct so_error *err)
{
	_cleanup_(alloc_probes) struct alloc_probes *probes = NULL;
	int ret = alloc_probes__new(sampler, &probes, err);

	if (ret)
		return ret;
	ret = alloc_calibration__run(probes, &a->prices);
	if (ret)
		return so_err(err, -ENOTSUP, "the kernel refused probes on allocators: %s", strerror(-ret));
	*out = TAKE_PTR(probes);
	return 0;
}

int allocations__load(struct allocations *a, const struct sampler *sampler, struct so_error *err)
{
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	struct alloc_probes *probes = NULL;
	int ret = 0;

	pthread_mutex_lock(&loading);
	if (!__atomic_load_n(&a->probes, __ATOMIC_ACQUIRE)) {
		ret = new_probes(a, sampler, &probes, err);
		if (!ret)
			__atomic_store_n(&a->probes, probes, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&loading);
	return ret;
}

void allocations__free(struct allocations *a)
{
	alloc_probes__free(a->probes);
	a->probes = NULL;
}

static void free_files(struct target_allocations *allocations)
{
	for (size_t i = 0; i < allocations->n_files; i++) {
		if (allocations->files[i].fd >= 0)
			close(allocations->files[i].fd);
		free(allocations->files[i].library);
	}
	free(allocations->files);
	allocations->files = NULL;
	allocations->n_files = allocations->files_capacity = 0;
}

void allocations__release(struct target_allocations *allocations)
{
	allocations_remove_all(allocations);
	free_files(allocations);
	free(allocations->processes);
	allocations->processes = NULL;
	allocations->n_processes = allocations->capacity = 0;
	accumulator__release(&allocations->stacks);
	memory_series__release(&allocations->series);
}

/* Targets. */

void allocations__forget(struct allocations *a, struct target *t)
{
	if (t->allocations.maps)
		alloc_probes__forget(a->probes, t->slot);
	t->allocations.maps = false;
}

/* Of those that have ended and are kept, what was seen goes before a further one is refused. */
static struct target *ended_one(const struct allocations *a, const struct target *t)
{
	struct target *other;

	TARGETS_EACH(other, a->targets)
	{
		if (other->allocations.maps && !other->allocations.on &&
		    (!t->caller.uid || other->caller.uid == t->caller.uid))
			return other;
	}
	return NULL;
}

static bool has_share(const struct allocations *a, const struct target *t, unsigned *all)
{
	unsigned users = 0, user = 0;
	const struct target *other;

	*all = 0;
	TARGETS_EACH(other, a->targets)
	{
		if (!other->allocations.maps)
			continue;
		(*all)++;
		users += other->caller.uid != 0;
		user += other->caller.uid == t->caller.uid;
	}
	return *all < ALLOCATIONS_MAX &&
	       (!t->caller.uid || (users < ALLOCATIONS_MAX_USERS && user < ALLOCATIONS_MAX_USER));
}

static int take_share(struct allocations *a, const struct target *t, struct so_error *err)
{
	struct target *other;
	unsigned all;

	while (!has_share(a, t, &all)) {
		other = ended_one(a, t);
		if (!other)
			return so_err(err, -ENOSPC,
				      "the allocations of %u processes are watched already%s, which is the most", all,
				      t->caller.uid ? ", some of them yours" : "");
		allocations__forget(a, other);
	}
	return 0;
}

static void request_scan(void *context, struct process *p)
{
	struct allocations *a = context;

	if (!p->gone)
		scan_queue__request(a->scans, p->tgid);
}

static void switch_off(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;

	allocations_in_progress(allocations);
	allocations_account(a, t);
	alloc_probes__end(a->probes, t->slot);
	allocations_remove_all(allocations);
	allocations->n_processes = 0;
	free_files(allocations);
	allocations->on = false;
	allocations->end_ns = clock__now_ns();
	if (allocations->asked)
		return;
	allocations__forget(a, t);
	allocations__release(allocations);
}

/* Of the target that takes the samples. */
static int update(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;
	bool on = allocations->wanted || allocations->views;
	int ret;

	if (on == allocations->on)
		return 0;
	if (!on) {
		switch_off(a, t);
		return 0;
	}
	ret = alloc_probes__begin(a->probes, t->slot);
	if (ret)
		return ret;
	allocations__release(allocations);
	*allocations = (struct target_allocations){ .asked = allocations->asked,
						    .wanted = allocations->wanted,
						    .views = allocations->views,
						    .on = true,
						    .maps = true,
						    .on_ns = clock__now_ns(),
						    .window_end_ns = UINT64_MAX,
						    .stacks.max_bytes = ALLOCATIONS_STACK_BYTES };
	allocations_begin_windows(a, t);
	/* The libraries of a target that is sampled already. */
	if (t->info.state == TARGET_SAMPLING)
		process_table__each(a->processes, t->slot, request_scan, a);
	return 0;
}

int allocations__begin(struct allocations *a, struct target *t, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = proper->allocations.on ? 0 : take_share(a, t, err);

	if (ret)
		return ret;
	t->allocations.asked = t->allocations.wanted = true;
	proper->allocations.views += t->of != NULL;
	ret = update(a, proper);
	if (ret) {
		t->allocations.asked = t->allocations.wanted = false;
		proper->allocations.views -= t->of != NULL;
		return so_err(err, ret, "the kernel refused maps for allocations: %s", strerror(-ret));
	}
	return 0;
}

void allocations__end(struct allocations *a, struct target *t)
{
	struct target *proper = t->of ?: t;

	if (!t->allocations.wanted)
		return;
	t->allocations.wanted = false;
	proper->allocations.views -= t->of != NULL;
	update(a, proper);
}

/* Collected. */

void allocations__stack(struct allocations *a, const struct so_torch_record *record, const struct stack *stack)
{
	struct target *t = targets__of_slot(a->targets, record->slot);

	/* One of the slot's target before does no harm: no site has it. */
	if (t && t->allocations.on && (!stack || accumulator__add_stack(&t->allocations.stacks, stack)))
		t->allocations.lost++;
}

static void add_point(struct target *t, uint64_t now_ns)
{
	struct memory_point point = { .when_ns = now_ns };
	struct memory_usage usage;

	for (size_t i = 0; i < t->allocations.n_processes; i++) {
		if (memory_usage__read(t->allocations.processes[i].pid, &usage))
			continue;
		point.anonymous += usage.anonymous;
		point.file += usage.file;
		point.shared += usage.shared;
		point.swapped += usage.swapped;
	}
	if (point.anonymous || point.file)
		memory_series__add(&t->allocations.series, &point);
}

static void look(struct allocations *a, struct target *t, uint64_t now_ns)
{
	t->allocations.next_look_ns = now_ns + TICK_NS;
	allocations_look_at_processes(a, t);
	add_point(t, now_ns);
}

uint64_t allocations__tick(struct allocations *a, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	struct target *t;

	if (!a->probes)
		return next;
	TARGETS_EACH(t, a->targets)
	{
		struct target_allocations *allocations = &t->allocations;

		if (!allocations->on || t->info.state != TARGET_SAMPLING)
			continue;
		if (now_ns >= allocations->next_look_ns)
			look(a, t, now_ns);
		if (now_ns >= allocations->window_end_ns)
			allocations_turn_windows(a, t);
		next = allocations->next_look_ns < next ? allocations->next_look_ns : next;
		next = allocations->window_end_ns < next ? allocations->window_end_ns : next;
	}
	return next;
}

/* Taken for an answer. */

/* Why there are no probes, or none yet; "": there are. */
static void say_problem(const struct target_allocations *allocations, char out[256])
{
	uint64_t since_ns = allocations->late_since_ns;

	memcpy(out, allocations->problem, sizeof(allocations->problem));
	if (!allocations->on || (!allocations->late && (!since_ns || clock__now_ns() - since_ns < ALLOCATIONS_LATE_NS)))
		return;
	snprintf(out, sizeof(allocations->problem),
		 "probes are not placed yet: the kernel waits, as for a process that keeps the lock of its memory, and "
		 "maps the same library");
}

static int copy(struct allocations *a, struct target *t, struct allocations_taken *out)
{
	const struct target_allocations *allocations = &t->allocations;
	int ret = alloc_probes__share(a->probes, t->slot, &out->maps);

	ret = ret ?: accumulator__copy(&allocations->stacks, &out->stacks);
	if (ret)
		return ret;
	out->since_ns = allocations->on_ns;
	out->end_ns = allocations->on ? clock__now_ns() : allocations->end_ns;
	out->ended = !allocations->on;
	out->slot = *alloc_probes__slot(a->probes, t->slot);
	out->spent = allocations->spent;
	out->windows = allocations->windows;
	out->seen_ns = allocations->seen_ns;
	out->lost = allocations->lost;
	out->linked = allocations->linked;
	say_problem(allocations, out->problem);
	out->series = memory_series__text(&allocations->series, out->since_ns);
	return out->series ? 0 : -ENOMEM;
}

int allocations__take(struct allocations *a, struct target *t, struct allocations_taken *out, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret;

	*out = (struct allocations_taken){ .maps = ALLOC_MAPS_NONE };
	if (!t->allocations.asked)
		return so_err(err, -ENODATA,
			      "target %u was attached without \"allocations\": its allocations are not watched", t->id);
	if ((t->view && !t->of) || !proper->allocations.maps)
		return so_err(err, -ENODATA, "target %u has ended: what it had in use is known no more", t->id);
	if (proper->allocations.on && proper->info.state == TARGET_SAMPLING) {
		look(a, proper, clock__now_ns());
		allocations_account(a, proper);
	}
	ret = copy(a, proper, out);
	return ret ? so_err(err, ret, "cannot take what is known of its allocations: %s", strerror(-ret)) : 0;
}

int allocations__read(struct allocations_taken *taken)
{
	return alloc_maps__read(&taken->maps, &taken->reading);
}

void allocations__look_who_lives(const struct allocations *a, struct allocations_taken *taken)
{
	const struct alloc_reading *r = &taken->reading;

	for (size_t i = 0; i < r->n_sites; i++) {
		uint32_t tgid = r->site_keys[i].tgid;
		const struct process *p = process_table__find(a->processes, (pid_t)tgid);

		if (!alloc_lives__has(&taken->lives, tgid))
			alloc_lives__add(&taken->lives, tgid, !p || p->gone ? ALLOC_LIVES_ENDED : p->memory_since_ns);
	}
}

void allocations_taken__release(struct allocations_taken *taken)
{
	alloc_maps__close(&taken->maps);
	accumulator__release(&taken->stacks);
	alloc_lives__release(&taken->lives);
	alloc_reading__release(&taken->reading);
	free(taken->series);
}
