// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/memory answers: how a target's memory grew, and what of it is in use (.design/memory.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/memory/memory_profile.h"
#include "daemon/memory/memory_series.h"
#include "daemon/memory/resident_pages.h"
#include "daemon/os/clock.h"

struct answer {
	struct engine_snapshot snapshot;
	struct memory_taken taken;
	bool *in_use;    /* of each page of `taken` */
	unsigned unread; /* processes whose pages could not be looked up */
	bool ended;      /* the target has: of its pages nothing is known any more */
	uint64_t end_ns;
};

static int add_number(struct profile_builder *b, const char *key, uint64_t value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), "memory.%s", key);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, name, text);
}

static int add_comments(const struct answer *a, struct profile_builder *b)
{
	const struct memory_figures *f = &a->taken.figures;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "page_bytes", (uint64_t)live_pages__weight(f->threshold) },
		{ "stacks", f->stacks },
		{ "randoms", f->randoms },
		{ "lost", f->lost },
		{ "hidden", f->hidden },
		{ "faults", f->faults },
		{ "cost_ns", f->cost_ns },
		{ "time_ns", f->time_ns },
		{ "paused_ns", f->paused_ns },
		{ "unread_processes", a->unread },
		{ "left_out_processes", f->many_processes },
		{ "ended", a->ended },
	};
	char pid[16];
	int ret;

	snprintf(pid, sizeof(pid), "%d", a->snapshot.info.pid);
	ret = profile_builder__comment(b, "pid", pid);
	for (size_t i = 0; !ret && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		ret = add_number(b, numbers[i].key, numbers[i].value);
	ret = ret ?: profile_builder__comment(b, "memory.series", a->taken.series);
	if (!ret && python_facts__any(&a->snapshot.python))
		ret = engine_add_python_comments(&a->snapshot.python, b);
	return ret;
}

static int build(struct engine *e, struct answer *a, uint8_t **out, size_t *length)
{
	const struct engine_snapshot *s = &a->snapshot;
	const struct memory_profile memory = { &a->taken.pages, a->in_use, a->taken.since_ns, a->end_ns };
	struct profile_source source = engine_source(e, s);
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new_values(
		s->begin_wall_ns + (a->taken.since_ns - s->begin_ns), a->end_ns - a->taken.since_ns, memory_value_types,
		MEMORY_VALUES, MEMORY_IN_USE);
	int ret;

	source.since_ns = a->taken.since_ns;
	ret = builder ? memory_profile__samples(&source, &memory, builder) : -ENOMEM;
	ret = ret ?: add_comments(a, builder);
	return ret ?: profile_builder__finish(builder, out, length);
}

/* Those whose numbers may be others' by now have nothing in use. */
static bool is_there(struct engine *e, const struct answer *a, uint32_t tgid)
{
	const struct process *p;
	bool there;

	pthread_mutex_lock(&e->lock);
	p = process_table__find(e->processes, (pid_t)tgid);
	there = p && !p->gone && targets__of_slot(&e->targets, p->kernel.slot) == target__proper(a->snapshot.held);
	pthread_mutex_unlock(&e->lock);
	return there;
}

/* Of one process, whose pages are those from `first` on. */
static int look_at(struct engine *e, struct answer *a, size_t first, size_t n)
{
	const struct live_page *pages = &a->taken.pages.pages[first];
	_cleanup_free_ uint64_t *numbers = calloc(n, sizeof(*numbers));
	int ret;

	if (!numbers)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		numbers[i] = pages[i].page;
	ret = is_there(e, a, pages[0].tgid) ? resident_pages__look((pid_t)pages[0].tgid, numbers, n, &a->in_use[first])
					    : 0;
	if (ret == -ENOMEM)
		return ret;
	a->unread += ret != 0;
	/* Its number may have become another's while it was read. */
	if (!ret && !is_there(e, a, pages[0].tgid))
		memset(&a->in_use[first], 0, n * sizeof(*a->in_use));
	return 0;
}

static int look_at_all(struct engine *e, struct answer *a)
{
	struct live_pages *pages = &a->taken.pages;
	int ret = 0;

	a->in_use = calloc(pages->n + 1, sizeof(*a->in_use));
	if (!a->in_use)
		return -ENOMEM;
	memory_profile__sort(pages);
	for (size_t i = 0, end; !ret && i < pages->n; i = end) {
		for (end = i + 1; end < pages->n && pages->pages[end].tgid == pages->pages[i].tgid;)
			end++;
		ret = look_at(e, a, i, end - i);
	}
	return ret;
}

static int take(struct engine *e, struct answer *a, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = memory_watch__take(&e->memory, a->snapshot.held, &a->taken, err);
	a->ended = a->snapshot.held->info.state == TARGET_ENDED;
	a->end_ns = a->snapshot.held->end_ns ?: clock__now_ns();
	pthread_mutex_unlock(&e->lock);
	return ret;
}

int engine__memory(struct engine *e, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		   struct so_error *err)
{
	struct answer a = { .unread = 0 };
	int ret = engine_take_snapshot(e, id, caller, &a.snapshot, err);

	ret = ret ?: take(e, &a, err);
	if (!ret) {
		ret = look_at_all(e, &a) ?: build(e, &a, out, length);
		if (ret)
			so_err(err, ret, "cannot build the profile: %s", strerror(-ret));
	}
	free(a.in_use);
	memory_taken__release(&a.taken);
	engine_release_snapshot(e, &a.snapshot);
	return ret;
}

struct pids {
	pid_t list[ENGINE_MEMORY_PROCESSES];
	size_t n;
	bool too_many;
};

static void add_pid(void *context, struct process *p)
{
	struct pids *pids = context;

	if (p->gone)
		return;
	if (pids->n == ENGINE_MEMORY_PROCESSES)
		pids->too_many = true;
	else
		pids->list[pids->n++] = p->tgid;
}

static int take_pids(struct engine *e, uint32_t id, struct pids *pids)
{
	const struct target *t;
	int ret = 0;

	pthread_mutex_lock(&e->lock);
	t = targets__find_windowed(&e->targets, id);
	if (t && t->info.state == TARGET_SAMPLING)
		process_table__each(e->processes, t->slot, add_pid, pids);
	ret = !t ? -ENOENT : pids->too_many ? -E2BIG : 0;
	pthread_mutex_unlock(&e->lock);
	return ret;
}

int engine__memory_use(struct engine *e, uint32_t id, struct engine_memory_use *out)
{
	_cleanup_free_ struct pids *pids = calloc(1, sizeof(*pids));
	struct engine_memory_use sum = { 0 };
	size_t read = 0;
	int ret = pids ? take_pids(e, id, pids) : -ENOMEM;

	for (size_t i = 0; !ret && i < pids->n; i++) {
		struct memory_usage usage;

		if (memory_usage__read_resident(pids->list[i], &usage))
			continue;
		read++;
		sum.anonymous += usage.anonymous;
		sum.file += usage.file;
		sum.shared += usage.shared;
		sum.swapped += usage.swapped;
	}
	if (ret || !read)
		return ret ?: -ESRCH;
	*out = sum;
	return 0;
}
