// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/profile_wall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/wait_state.h"
#include "stakeout/array.h"

/* What a thread ran, by the kernel and by the samples. */
struct ran {
	uint64_t ns, samples;
};

struct wall {
	const struct profile_source *source;
	struct profile_builder *builder;
	struct profile_export *export;
	uint64_t period_ns;
	unsigned looks_hz;
	struct u64_table by_thread; /* index of `ran` */
	struct ran *ran;
	size_t n, capacity;
};

static uint64_t thread_key(const struct counter *c)
{
	return (uint64_t)c->tgid << 32 | c->tid;
}

static int sum_up(struct wall *w, const struct counter *c)
{
	uint32_t at;

	if (!u64_table__get(&w->by_thread, thread_key(c), &at)) {
		if (ARRAY_RESERVE(w->ran, w->capacity, w->n + 1) ||
		    u64_table__set(&w->by_thread, thread_key(c), (uint32_t)w->n))
			return -ENOMEM;
		at = (uint32_t)w->n++;
		w->ran[at] = (struct ran){ 0 };
	}
	if (c->kind == SAMPLE_RUN)
		w->ran[at].ns += c->count;
	else if (c->kind == SAMPLE_CPU)
		w->ran[at].samples += c->count;
	return 0;
}

static const struct ran *ran_of(const struct wall *w, const struct counter *c)
{
	uint32_t at = 0;

	u64_table__get(&w->by_thread, thread_key(c), &at);
	return &w->ran[at];
}

/* A thread that ended before it was looked at has no sum of the kernel's. */
static uint64_t wall_of_samples(const struct wall *w, const struct counter *c)
{
	const struct ran *r = ran_of(w, c);

	if (!r->ns)
		return c->count * w->period_ns;
	return (uint64_t)((double)r->ns * (double)c->count / (double)r->samples);
}

static uint64_t looks_of(const struct wall *w, uint64_t ns)
{
	uint64_t looks = (uint64_t)((double)ns * w->looks_hz / 1e9 + 0.5);

	return looks ?: 1;
}

static int add_nowhere(struct wall *w, const char *name, uint64_t ns, const struct profile_labels *labels)
{
	struct profile_frame frame = { .name = name };
	uint64_t location = profile_builder__location(w->builder, &frame);

	if (!location)
		return -ENOMEM;
	return profile_builder__sample_values(w->builder, &location, 1, (uint64_t[]){ 0, 0, ns }, labels);
}

static int add_run(struct wall *w, const struct counter *c, struct profile_labels *labels)
{
	labels->state = "running";
	return ran_of(w, c)->samples ? 0 : add_nowhere(w, "[not sampled]", c->count, labels);
}

static int add_stack(struct wall *w, const struct counter *c, struct profile_labels *labels)
{
	struct stack *stack = w->source->acc->stacks[c->stack];
	uint64_t values[] = { looks_of(w, c->count), 0, c->count };
	const uint64_t *locations;
	size_t n;
	int ret = profile_export__locations(w->export, stack, &locations, &n);

	if (ret)
		return ret;
	labels->gil = profile_export__gil(stack);
	if (c->kind == SAMPLE_CPU) {
		labels->state = "running";
		values[0] = c->count;
		values[1] = c->count * w->period_ns;
		values[2] = wall_of_samples(w, c);
	} else {
		labels->state = c->kind == SAMPLE_RUNNABLE ? "runnable" : wait_state__of(w->builder, locations, n);
	}
	if (!n)
		return add_nowhere(w, "[not seen]", c->count, labels);
	if (w->source->no_kernel)
		n = profile_export__drop_kernel(w->export, stack, n);
	if (!n)
		return add_nowhere(w, "[kernel]", c->count, labels);
	return profile_builder__sample_values(w->builder, locations, n, values, labels);
}

static int add(struct wall *w, const struct counter *c)
{
	char comm[sizeof(c->comm) + 1];
	struct profile_labels labels = { .pid = c->tgid, .tid = c->tid, .comm = comm };

	snprintf(comm, sizeof(comm), "%.16s", c->comm);
	labels.thread = thread_names__get(w->source->thread_names, (pid_t)c->tgid, c->tid);
	labels.process = profile_export__process(w->export, c->tgid);
	labels.time_ns = profile_export__time(w->source, c);
	return c->kind == SAMPLE_RUN ? add_run(w, c, &labels) : add_stack(w, c, &labels);
}

static bool is_hidden(const struct wall *w, const struct counter *c)
{
	uint32_t unused;

	return w->source->hidden && u64_table__get(w->source->hidden, c->tgid, &unused);
}

static int add_all(struct wall *w)
{
	const struct accumulator *acc = w->source->acc;
	int ret = 0;

	for (size_t i = 0; !ret && i < acc->n_counters; i++)
		ret = sum_up(w, &acc->counters[i]);
	for (size_t i = 0; !ret && i < acc->n_counters; i++)
		ret = is_hidden(w, &acc->counters[i]) || acc->counters[i].kind >= SAMPLE_ALLOC
			      ? 0
			      : add(w, &acc->counters[i]);
	return ret ?: profile_export__comment(w->export);
}

int profile_wall__samples(const struct profile_source *source, uint64_t period_ns, unsigned looks_hz,
			  struct profile_builder *builder)
{
	struct wall w = { .source = source, .builder = builder, .period_ns = period_ns, .looks_hz = looks_hz };
	int ret;

	w.export = profile_export__new(source, builder);
	if (w.export)
		profile_export__look_for_probes(w.export);
	ret = w.export ? add_all(&w) : -ENOMEM;
	profile_export__free(w.export);
	u64_table__release(&w.by_thread);
	free(w.ran);
	return ret;
}
