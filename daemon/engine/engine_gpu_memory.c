// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/gpu-memory answers: what a target's PyTorch has on GPUs (.design/gpu-memory.md). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/memory/torch_profile.h"

struct answer {
	struct engine_snapshot snapshot;
	struct gpu_memory_taken taken;
};

static struct torch_profile torch_of(const struct answer *a)
{
	return (struct torch_profile){ .reading = &a->taken.reading,
				       .stacks = &a->taken.stacks,
				       .gone = &a->taken.gone,
				       .copies = &a->taken.copies,
				       .hidden = &a->snapshot.hidden,
				       .since_ns = a->taken.since_ns,
				       .end_ns = a->taken.end_ns };
}

static int add_comment(struct profile_builder *b, const char *key, const char *value)
{
	char name[64];

	snprintf(name, sizeof(name), "gpu.%s", key);
	return profile_builder__comment(b, name, value);
}

static int add_numbers(const struct answer *a, const struct torch_profile *torch, struct profile_builder *b)
{
	const struct gpu_memory_taken *t = &a->taken;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "stacks", t->slot.stacks },
		{ "skipped", t->slot.skipped },
		{ "lost", t->slot.lost + t->lost },
		{ "hidden", t->slot.hidden },
		{ "strange", t->slot.strange },
		{ "full", t->slot.full },
		{ "hits", t->slot.hits },
		{ "one_in", t->slot.mask + 1ull },
		{ "cost_ns", t->cost_ns },
		{ "time_ns", t->time_ns },
		{ "linked", t->linked },
		{ "ended", t->ended },
		{ "hidden_processes", torch_profile__hidden(torch) },
	};
	char text[32];
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(text, sizeof(text), "%" PRIu64, numbers[i].value);
		ret = add_comment(b, numbers[i].key, text);
	}
	return ret;
}

static int add_comments(const struct answer *a, struct profile_builder *b)
{
	const struct torch_profile torch = torch_of(a);
	_cleanup_free_ char *devices = torch_profile__devices(&torch);
	char pid[16];
	int ret = devices ? 0 : -ENOMEM;

	snprintf(pid, sizeof(pid), "%d", a->snapshot.info.pid);
	ret = ret ?: profile_builder__comment(b, "pid", pid);
	ret = ret ?: add_numbers(a, &torch, b);
	ret = ret ?: add_comment(b, "devices", devices);
	/* With hidden processes, their sum would say what these have. */
	ret = ret ?: add_comment(b, "series", a->snapshot.hidden.n ? a->taken.shown : a->taken.series);
	if (!ret && a->taken.problem[0])
		ret = add_comment(b, "problem", a->taken.problem);
	if (!ret && python_facts__any(&a->snapshot.python))
		ret = engine_add_python_comments(&a->snapshot.python, b);
	return ret;
}

static int build(struct engine *e, struct answer *a, uint8_t **out, size_t *length)
{
	const struct engine_snapshot *s = &a->snapshot;
	const struct torch_profile torch = torch_of(a);
	struct profile_source source = engine_source(e, s);
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new_values(
		s->begin_wall_ns + (a->taken.since_ns - s->begin_ns), a->taken.end_ns - a->taken.since_ns,
		torch_value_types, TORCH_VALUES, TORCH_IN_USE);
	int ret;

	source.since_ns = a->taken.since_ns;
	ret = builder ? torch_profile__samples(&source, &torch, builder) : -ENOMEM;
	ret = ret ?: add_comments(a, builder);
	return ret ?: profile_builder__finish(builder, out, length);
}

/* One may have become hidden while its blocks were read. */
static int look_again(struct engine *e, struct answer *a, struct caller caller, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&e->lock);
	gpu_memory__look_who_lives(&e->gpu_memory, &a->taken);
	u64_table__release(&a->snapshot.hidden);
	ret = viewers__hidden_from(a->snapshot.held, caller, &a->snapshot.hidden);
	pthread_mutex_unlock(&e->lock);
	if (ret == -EPERM)
		return so_err(err, ret, "target %u is shown to root alone", a->snapshot.info.id);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

static int take(struct engine *e, struct answer *a, struct caller caller, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = gpu_memory__take(&e->gpu_memory, a->snapshot.held, &a->taken, err);
	pthread_mutex_unlock(&e->lock);
	ret = ret ?: gpu_memory__read(&a->taken);
	return ret ?: look_again(e, a, caller, err);
}

int engine__gpu_memory(struct engine *e, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		       struct so_error *err)
{
	struct answer a = { .taken = { .maps = TORCH_MAPS_NONE } };
	int ret = engine_take_snapshot(e, id, caller, &a.snapshot, err);

	ret = ret ?: take(e, &a, caller, err);
	if (!ret) {
		ret = build(e, &a, out, length);
		if (ret)
			so_err(err, ret, "cannot build the profile: %s", strerror(-ret));
	}
	gpu_memory_taken__release(&a.taken);
	engine_release_snapshot(e, &a.snapshot);
	return ret;
}
