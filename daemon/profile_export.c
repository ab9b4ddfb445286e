// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/demangle.h"
#include "daemon/perf_map.h"

#define MAX_NAME 4096

/* The symbols of one process's just-in-time compiler; NULL map: it has none. */
struct jit {
	pid_t tgid;
	struct perf_map *map;
};

struct export
{
	const struct profile_source *source;
	struct profile_builder *builder;
	uint64_t kernel_mapping;
	uint64_t *file_mappings;                           /* by file number; 0: not made yet */
	struct u64_table kernel_locations, user_locations; /* frame -> location */
	uint64_t truncations[SO_TRUNC_COUNT];
	struct jit *jits;
	size_t n_jits;
	uint64_t locations[SO_MAX_FRAMES + 1];
};

static const char *const truncation_words[] = {
#define X(name, word, why) [SO_TRUNC_##name] = word,
	SO_TRUNCATIONS(X)
#undef X
};

static uint64_t kernel_location(struct export *x, uint64_t address, bool leaf)
{
	struct profile_frame frame = { .mapping_id = x->kernel_mapping, .address = address };
	uint64_t key = leaf ? address : address - 1; /* a return address may be the next function's first */
	uint64_t id;
	uint32_t at;

	if (u64_table__get(&x->kernel_locations, key, &at))
		return at;
	if (x->source->kernel)
		frame.name = kallsyms__lookup(x->source->kernel, key);
	id = profile_builder__location(x->builder, &frame);
	u64_table__set(&x->kernel_locations, key, id);
	return id;
}

static const struct perf_map *jit_map(struct export *x, pid_t tgid)
{
	struct jit *more;

	for (size_t i = 0; i < x->n_jits; i++) {
		if (x->jits[i].tgid == tgid)
			return x->jits[i].map;
	}
	more = reallocarray(x->jits, x->n_jits + 1, sizeof(*more));
	if (!more)
		return NULL;
	x->jits = more;
	more[x->n_jits] = (struct jit){ .tgid = tgid };
	if (perf_map__read(tgid, &more[x->n_jits].map, NULL) && x->source->own_namespaces)
		perf_map__read_ended(tgid, x->source->uid, &more[x->n_jits].map, NULL);
	return more[x->n_jits++].map;
}

/* mapped: the address lies in executable memory that belongs to no file, as just-in-time compilers make it. */
static uint64_t fileless_location(struct export *x, pid_t tgid, uint64_t address, bool mapped)
{
	const struct perf_map *map = jit_map(x, tgid);
	_cleanup_free_ char *readable = NULL;
	struct profile_frame frame = { .address = address, .name = mapped ? "[jit]" : NULL };
	const char *name = map ? perf_map__lookup(map, address) : NULL;

	if (name) {
		readable = demangle(name);
		frame.name = readable;
		frame.system_name = name;
	}
	return profile_builder__location(x->builder, &frame);
}

static uint64_t file_mapping(struct export *x, uint32_t number, const struct file_entry *file)
{
	struct profile_mapping mapping = { .filename = file->path, .build_id = file->elf.build_id };

	if (!x->file_mappings[number])
		x->file_mappings[number] = profile_builder__mapping(x->builder, &mapping);
	return x->file_mappings[number];
}

static uint64_t file_location(struct export *x, uint64_t address_frame)
{
	uint32_t number = SO_FRAME_FILE(address_frame), at;
	const struct file_entry *file = file_registry__get(x->source->files, number);
	struct profile_frame frame = { .address = SO_FRAME_ADDR(address_frame) };
	_cleanup_free_ char *readable = NULL;
	char raw[MAX_NAME];
	uint64_t start, id;

	if (u64_table__get(&x->user_locations, address_frame, &at))
		return at;
	if (file)
		frame.mapping_id = file_mapping(x, number, file);
	if (!file_registry__symbol(x->source->files, number, frame.address, raw, sizeof(raw), &start)) {
		readable = demangle(raw);
		frame.name = readable;
		frame.system_name = raw;
	}
	id = profile_builder__location(x->builder, &frame);
	u64_table__set(&x->user_locations, address_frame, id);
	return id;
}

static uint64_t truncation_location(struct export *x, unsigned cause)
{
	char name[64];
	struct profile_frame frame = { .name = name };

	if (cause >= SO_TRUNC_COUNT)
		cause = SO_TRUNC_TABLE_LOOKUP;
	if (!x->truncations[cause]) {
		snprintf(name, sizeof(name), "[truncated:%s]", truncation_words[cause]);
		x->truncations[cause] = profile_builder__location(x->builder, &frame);
	}
	return x->truncations[cause];
}

/* Fills x->locations, leaf first; returns how many. */
static size_t stack_locations(struct export *x, const struct stack *stack)
{
	const struct so_stack_record *r = &stack->record;
	size_t n = 0;

	for (unsigned i = 0; i < r->n_kernel; i++)
		x->locations[n++] = kernel_location(x, stack->frames[r->n_user + i], i == 0);
	for (unsigned i = 0; i < r->n_user; i++) {
		uint64_t frame = stack->frames[i];
		/* Only the frame at which a stack was cut for want of a mapping has none. */
		bool mapped = i + 1 < r->n_user ||
			      (r->cause != SO_TRUNC_NO_MAPPING && r->cause != SO_TRUNC_MAPS_PENDING);

		x->locations[n++] = SO_FRAME_FILE(frame)
					    ? file_location(x, frame)
					    : fileless_location(x, r->tgid, SO_FRAME_ADDR(frame), mapped);
	}
	if (r->cause != SO_TRUNC_NONE)
		x->locations[n++] = truncation_location(x, r->cause);
	return n;
}

static int add_counter(struct export *x, const struct counter *c)
{
	size_t n = stack_locations(x, x->source->acc->stacks[c->stack]);
	char comm[sizeof(c->comm) + 1];

	for (size_t i = 0; i < n; i++) {
		if (!x->locations[i])
			return -ENOMEM;
	}
	snprintf(comm, sizeof(comm), "%.16s", c->comm);
	return profile_builder__sample(x->builder, x->locations, n, c->count, c->tgid, c->tid, comm);
}

int profile_export__samples(const struct profile_source *source, struct profile_builder *builder)
{
	struct profile_mapping kernel = { .filename = "[kernel.kallsyms]", .build_id = "" };
	struct export *x = calloc(1, sizeof(*x));
	int ret = 0;

	if (!x)
		return -ENOMEM;
	x->source = source;
	x->builder = builder;
	x->kernel_mapping = profile_builder__mapping(builder, &kernel);
	x->file_mappings = calloc(SO_MAX_FILES + 1, sizeof(*x->file_mappings));
	if (!x->file_mappings)
		ret = -ENOMEM;
	for (size_t i = 0; !ret && i < source->acc->n_counters; i++)
		ret = add_counter(x, &source->acc->counters[i]);
	for (size_t i = 0; i < x->n_jits; i++)
		perf_map__free(x->jits[i].map);
	u64_table__release(&x->kernel_locations);
	u64_table__release(&x->user_locations);
	free(x->jits);
	free(x->file_mappings);
	free(x);
	return ret;
}
