// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/profile?event=EVENT answers: the stacks of CUDA calls (.design/cuda.md). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/cuda/cuda_line_values.h"
#include "daemon/cuda/cuda_rows.h"
#include "daemon/targets/cuda_window.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/profile/profile_export.h"
#include "stakeout/array.h"

struct event_profile {
	const struct so_cuda_event_info *event;
	const struct target *target;
	const struct cuda_taken *taken;
	struct profile_builder *builder;
	struct profile_export *export;
	struct process_label_table labels; /* a copy */
	struct thread_names thread_names;  /* a copy */
	struct u64_table leaves;           /* process and API: location of the API's pseudo frame */
	uint64_t *locations;               /* room for a stack and its leaf */
	size_t locations_capacity;
	uint32_t called; /* kinds: 1 << enum so_cuda_kind */
};

static bool is_cuda_file(const struct event_profile *p, const char *mapping)
{
	const json_t *library;
	size_t i;

	json_array_foreach (p->taken->libraries, i, library) {
		if (!strcmp(mapping, json_string_value(json_object_get(library, "path")) ?: ""))
			return true;
	}
	return false;
}

/* Whether the frames that are CUDA's own, the innermost ones, have the API's among them. */
static bool has_api_frame(const struct event_profile *p, const uint64_t *locations, size_t n, uint32_t api)
{
	for (size_t i = 0; i < n; i++) {
		struct profile_frame f;
		struct cuda_name name;
		const char *mapping;

		/* The function itself, should others be inlined there. */
		profile_builder__describe(p->builder, locations[i],
					  profile_builder__frames(p->builder, locations[i]) - 1, &f, &mapping);
		if (!is_cuda_file(p, mapping))
			return false;
		if (cuda_names__find(f.system_name, strlen(f.system_name), &name) && name.type == CUDA_NAME_API &&
		    name.number == api)
			return true;
	}
	return false;
}

static bool has_probe(const json_t *library, const char *api)
{
	const json_t *probe;
	size_t i;

	json_array_foreach (json_object_get(library, "probes"), i, probe) {
		if (!strcmp(api, json_string_value(json_object_get(probe, "api")) ?: ""))
			return true;
	}
	return false;
}

/* The file of the process that has the API; NULL: none is known, or which of several is not. */
static const char *api_file(const struct event_profile *p, const struct cuda_line *line)
{
	const char *api = cuda_names__api(line->api), *found = NULL;
	const json_t *library;
	size_t i;

	json_array_foreach (p->taken->libraries, i, library) {
		if (json_integer_value(json_object_get(library, "pid")) != line->tgid || !has_probe(library, api))
			continue;
		if (found)
			return NULL;
		found = json_string_value(json_object_get(library, "path"));
	}
	return found;
}

/* The API's pseudo frame; 0: out of memory. */
static uint64_t leaf_of(struct event_profile *p, const struct cuda_line *line)
{
	struct profile_frame frame = { .name = cuda_names__api(line->api) };
	uint64_t key = (uint64_t)line->tgid << 32 | line->api, location;
	struct profile_mapping mapping = { .build_id = "" };
	uint32_t at;

	if (u64_table__get(&p->leaves, key, &at))
		return at;
	mapping.filename = api_file(p, line);
	if (mapping.filename)
		frame.mapping_id = profile_builder__mapping(p->builder, &mapping);
	location = profile_builder__location(p->builder, &frame);
	if (location <= UINT32_MAX)
		u64_table__set(&p->leaves, key, (uint32_t)location);
	return location;
}

/* The line's stack, leaf first, into p->locations. A stack that is not known is the API alone. */
static int find_locations(struct event_profile *p, const struct cuda_line *line, size_t *n)
{
	const struct accumulator *stacks = &p->taken->stacks;
	const uint64_t *found = NULL;
	size_t n_found = 0, n_leaf = 0;
	uint32_t at;
	int ret = 0;

	if (u64_table__get(&stacks->stack_by_hash, line->stack, &at))
		ret = profile_export__locations(p->export, stacks->stacks[at], &found, &n_found);
	ret = ret ?: ARRAY_RESERVE(p->locations, p->locations_capacity, n_found + 1);
	if (ret)
		return ret;
	if (!has_api_frame(p, found, n_found, line->api)) {
		p->locations[n_leaf++] = leaf_of(p, line);
		if (!p->locations[0])
			return -ENOMEM;
	}
	if (n_found)
		memcpy(p->locations + n_leaf, found, n_found * sizeof(*found));
	*n = n_leaf + n_found;
	return 0;
}

static bool takes(const struct event_profile *p, uint32_t api)
{
	return api < SO_CUDA_API_COUNT && so_cuda_kind__action(cuda_names__kind(api)) == p->event->action;
}

static int add_lines(struct event_profile *p)
{
	_cleanup_free_ struct cuda_line *lines = NULL;
	struct cuda_line_values all = { 0 };
	uint64_t values[SO_CUDA_WEIGHT_COUNT];
	uint32_t named_tgid = 0, named_tid = 0; /* the thread that comm is of */
	char comm[32] = "";
	int ret = cuda_taken__lines(p->taken, false, &lines);

	for (size_t i = 0; !ret && i < p->taken->n_lines; i++) {
		const struct cuda_line *line = &lines[i];
		const struct profile_labels labels = { .pid = (pid_t)line->tgid,
						       .process = profile_export__process(p->export, (pid_t)line->tgid),
						       .tid = (pid_t)line->tid,
						       .comm = comm,
						       .thread = thread_names__get(&p->thread_names, (pid_t)line->tgid,
										   line->tid),
						       .api = cuda_names__api(line->api) };
		size_t n;

		if (!takes(p, line->api) || !cuda_line_values__next(&all, line, values))
			continue;
		if (line->tgid != named_tgid || line->tid != named_tid)
			cuda_taken__comm(p->target, line->tgid, line->tid, comm, sizeof(comm));
		named_tgid = line->tgid;
		named_tid = line->tid;
		ret = find_locations(p, line, &n);
		ret = ret ?: profile_builder__sample_values(p->builder, p->locations, n, values, &labels);
	}
	return ret;
}

/* Comments. */

static int add_number(struct profile_builder *b, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, key, text);
}

/* The intervals of the event's APIs together: all of them may be too few or too many. */
static int add_interval(const struct event_profile *p, uint64_t calls)
{
	double interval = 0;
	bool estimated = false;
	char text[32];
	int ret;

	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++) {
		const struct so_cuda_estimate *of = &p->taken->moment.estimates.of[api];

		if (!takes(p, api) || !(of->calls > 0))
			continue;
		estimated = true;
		interval += so_cuda_interval(of);
	}
	ret = profile_builder__comment(p->builder, "cuda.estimated", estimated ? "1" : "0");
	if (!estimated || isnan(interval) || !calls)
		return ret;
	snprintf(text, sizeof(text), "%.4f", interval / (double)calls);
	return ret ?: profile_builder__comment(p->builder, "cuda.calls_error", text);
}

/* All calls of the event, counted whether their stacks were taken or not. */
static int add_counted(struct event_profile *p)
{
	uint64_t calls = 0, ns = 0, bytes = 0;
	const struct cuda_calls_entry *all;
	size_t n;
	int ret;

	all = cuda_snapshot__calls(p->taken->reported, &n);
	for (size_t i = 0; i < n; i++) {
		if (!takes(p, all[i].key.api))
			continue;
		p->called |= 1u << cuda_names__kind(all[i].key.api);
		calls += all[i].calls.calls;
		ns += all[i].calls.total_ns;
		bytes += all[i].calls.bytes;
	}
	ret = add_number(p->builder, "cuda.calls", calls);
	ret = ret ?: add_number(p->builder, "cuda.time_ns", ns);
	if (p->event->has_bytes)
		ret = ret ?: add_number(p->builder, "cuda.bytes", bytes);
	return ret ?: add_interval(p, calls);
}

/* The longest of its kinds that were called. */
static uint64_t period_of(const struct event_profile *p, const json_t *periods)
{
	json_int_t longest = 0, period;

	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++) {
		if (so_cuda_kind__action(kind) != p->event->action || (p->called && !(p->called >> kind & 1)))
			continue;
		period = json_integer_value(json_object_get(periods, cuda_names__kind_word(kind)));
		longest = period > longest ? period : longest;
	}
	return (uint64_t)longest;
}

static int add_probes(const struct event_profile *p)
{
	const json_t *probes = p->taken->probes, *problem;
	const json_t *periods = json_object_get(probes, "stack_period");
	char text[32];
	size_t i;
	int ret = add_number(p->builder, "cuda.stack_period", period_of(p, periods));

	ret = ret
		      ?: profile_builder__comment(p->builder, "cuda.state",
						  json_string_value(json_object_get(probes, "state")) ?: "?");
	snprintf(text, sizeof(text), "%.3f", json_number_value(json_object_get(probes, "overhead_percent")));
	ret = ret ?: profile_builder__comment(p->builder, "cuda.overhead_percent", text);
	ret = ret ?: add_number(p->builder, "cuda.libraries", json_array_size(p->taken->libraries));
	json_array_foreach (p->taken->problems, i, problem)
		ret = ret ?: profile_builder__comment(p->builder, "cuda.problem", json_string_value(problem) ?: "?");
	return ret;
}

static int add_losses(const struct event_profile *p)
{
	json_t *lost = cuda_rows__lost(&p->taken->moment.slot), *value;
	const char *word;
	char key[64];
	int ret = lost ? 0 : -ENOMEM;

	json_object_foreach (lost, word, value) {
		snprintf(key, sizeof(key), "lost.%s", word);
		if (!ret && json_integer_value(value))
			ret = add_number(p->builder, key, (uint64_t)json_integer_value(value));
	}
	json_decref(lost);
	if (!ret && p->taken->moment.lines_lost)
		ret = add_number(p->builder, "lost.lines-lost", p->taken->moment.lines_lost);
	return ret;
}

static int add_comments(struct event_profile *p)
{
	int ret = add_number(p->builder, "pid", (uint64_t)p->target->info.pid);

	ret = ret ?: profile_builder__comment(p->builder, "event", p->event->word);
	ret = ret ?: add_counted(p);
	ret = ret ?: add_probes(p);
	return ret ?: add_losses(p);
}

static int build(struct engine *e, struct event_profile *p, uint8_t **out, size_t *length)
{
	static const struct profile_value_type types[SO_CUDA_WEIGHT_COUNT] = {
#define X(name, word, type, unit) { type, unit },
		SO_CUDA_WEIGHTS(X)
#undef X
	};
	const struct profile_source source = { .acc = &p->taken->stacks,
					       .labels = &p->labels,
					       .files = e->files,
					       .main_file = (p->target->of ?: p->target)->main_file,
					       .own_namespaces = p->target->own_namespaces,
					       .uid = p->target->info.uid };
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new_values(
		p->target->begin_wall_ns, p->taken->moment.at_ns - p->taken->moment.begin_ns, types,
		SO_CUDA_WEIGHT_COUNT, p->event->weight);
	int ret = -ENOMEM;

	p->builder = builder;
	p->export = builder ? profile_export__new(&source, builder) : NULL;
	if (p->export) {
		ret = add_lines(p);
		ret = ret ?: add_comments(p);
		ret = ret ?: profile_export__comment(p->export);
		ret = ret ?: profile_builder__finish(builder, out, length);
		profile_export__free(p->export);
	}
	u64_table__release(&p->leaves);
	free(p->locations);
	return ret;
}

int engine__cuda_profile(struct engine *e, uint32_t id, enum so_cuda_event event, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	struct event_profile p = { .event = &so_cuda_events[event] };
	struct cuda_taken *taken = NULL;
	struct target *held = NULL;
	bool own = false;
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = engine_cuda_taken(e, id, true, &taken, &own, &held, err);
	if (!ret) {
		process_label_table__copy(engine_labels(held), &p.labels);
		thread_names__copy(&target__proper(held)->thread_names, &p.thread_names);
	}
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return ret;
	p.taken = taken;
	p.target = held;
	ret = build(e, &p, out, length);
	process_label_table__release(&p.labels);
	thread_names__release(&p.thread_names);
	if (own)
		cuda_taken__free(taken);
	pthread_mutex_lock(&e->lock);
	engine_unhold(e, held);
	pthread_mutex_unlock(&e->lock);
	return ret ? so_err(err, ret, "cannot build the profile: %s", strerror(-ret)) : 0;
}
