// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/alloc_profile.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/alloc_functions.h"

const struct profile_value_type alloc_value_types[ALLOC_VALUES] = {
	[ALLOC_ALLOCATED_OBJECTS] = { "alloc_objects", "count" }, [ALLOC_ALLOCATED] = { "alloc_space", "bytes" },
	[ALLOC_IN_USE_OBJECTS] = { "inuse_objects", "count" },    [ALLOC_IN_USE] = { "inuse_space", "bytes" },
	[ALLOC_FREED_OBJECTS] = { "freed_objects", "count" },     [ALLOC_FREED] = { "freed_space", "bytes" },
};

struct writer {
	const struct profile_source *source;
	const struct alloc_profile *profile;
	struct profile_builder *builder;
	struct profile_export *export;
	struct alloc_sums *sums;
	uint64_t *nested;
	uint64_t most; /* of a value: all of them together are to stay below 2^63 */
};

/* The frames of a stack, or one that says why there are none. */
static int locations_of(struct writer *w, uint64_t hash, uint64_t *one, const uint64_t **locations, size_t *n)
{
	const struct accumulator *stacks = w->profile->stacks;
	uint32_t at;

	if (u64_table__get(&stacks->stack_by_hash, hash, &at))
		return profile_export__locations(w->export, stacks->stacks[at], locations, n);
	*one = profile_builder__location(w->builder, &(struct profile_frame){ .name = ALLOC_LOST_STACK });
	*locations = one;
	*n = 1;
	return *one ? 0 : -ENOMEM;
}

/* The name of a location's function, inlined ones left out, and its file. NULL: not known, or not of a file. */
static const char *function_of(const struct writer *w, uint64_t location, const char **mapping)
{
	struct profile_frame frame;
	size_t last = profile_builder__frames(w->builder, location) - 1;

	profile_builder__describe(w->builder, location, last, &frame, mapping);
	if (!**mapping)
		return NULL;
	return frame.system_name && *frame.system_name ? frame.system_name : frame.name;
}

/*
 * The caller is an allocator itself, or was jumped to by one: what it was asked for counts. But two kinds of functions
 * leave to malloc what they ask it for: CPython's, and the C++ library's operator new, which has no probe. Those that
 * other allocators bring have one.
 */
static bool is_nested(const struct writer *w, enum so_alloc_kind kind, const uint64_t *locations, size_t n)
{
	const char *file, *caller_file, *name = n > 1 ? function_of(w, locations[1], &caller_file) : NULL;
	const struct alloc_function *caller = name ? alloc_functions__find(name) : NULL;

	if (!caller)
		return false;
	if (caller->python)
		return kind == SO_ALLOC_PY_OBJECT || kind == SO_ALLOC_PY_MEMORY;
	if (caller->operator_new)
		return kind != SO_ALLOC_MALLOC && function_of(w, locations[0], &file) && !strcmp(file, caller_file);
	return true;
}

static bool is_in(const struct u64_table *table, uint32_t tgid)
{
	uint32_t unused;

	return table && u64_table__get(table, tgid, &unused);
}

static int add(struct writer *w, const struct so_alloc_site_key *key, const uint64_t *locations, size_t n,
	       struct profile_labels *labels, uint64_t *values)
{
	labels->pid = (pid_t)key->tgid;
	labels->process = profile_export__process(w->export, labels->pid);
	for (unsigned i = 0; i < ALLOC_VALUES; i++)
		values[i] = values[i] < w->most ? values[i] : w->most;
	return profile_builder__sample_values(w->builder, locations, n, values, labels);
}

/* With what was seen in windows scaled. */
static double sum_of(const struct writer *w, uint64_t all_the_time, uint64_t in_windows)
{
	return (double)all_the_time + w->profile->scale * (double)in_windows;
}

static uint64_t rounded(double value)
{
	return value < 9e18 ? (uint64_t)(value + 0.5) : (uint64_t)9e18;
}

/* Of one stack in one process. */
struct site_sums {
	double bytes, calls, freed_bytes, freed_calls;
};

static struct site_sums sums_of(const struct writer *w, const struct so_alloc_site *site)
{
	const struct so_alloc_sums *a = &site->sums[SO_ALLOC_ALL_THE_TIME], *b = &site->sums[SO_ALLOC_IN_WINDOWS];

	return (struct site_sums){ sum_of(w, a->bytes, b->bytes), sum_of(w, a->calls, b->calls) / SO_ALLOC_CALLS,
				   sum_of(w, a->freed_bytes, b->freed_bytes),
				   sum_of(w, a->freed_calls, b->freed_calls) / SO_ALLOC_CALLS };
}

/* The middle of an age's octave. */
static int64_t age_ns(unsigned age)
{
	return (int64_t)((1ull << (age + SO_ALLOC_AGE_SHIFT)) * 3 / 2);
}

static int add_freed(struct writer *w, const struct so_alloc_site_key *key, const struct so_alloc_site *site,
		     const uint64_t *locations, size_t n)
{
	const struct site_sums sums = sums_of(w, site);
	double all = 0;
	int ret = 0;

	for (unsigned i = 0; i < SO_ALLOC_AGES; i++)
		all += (double)site->ages[i];
	for (unsigned i = 0; !ret && i < SO_ALLOC_AGES; i++) {
		double share = all > 0 ? (double)site->ages[i] / all : 0;
		uint64_t values[ALLOC_VALUES] = {
			[ALLOC_FREED_OBJECTS] = rounded(share * sums.freed_calls),
			[ALLOC_FREED] = rounded(share * sums.freed_bytes),
		};

		if (site->ages[i])
			ret = add(w, key, locations, n, &(struct profile_labels){ .age_ns = age_ns(i) }, values);
	}
	return ret;
}

/* What of it is in use, by span of time. */
struct in_use {
	double bytes[ALLOC_PROFILE_SPANS], calls[ALLOC_PROFILE_SPANS];
};

static int add_in_use(struct writer *w, const struct so_alloc_site_key *key, const struct in_use *in_use,
		      const uint64_t *locations, size_t n)
{
	uint64_t span_ns = (w->profile->end_ns - w->profile->since_ns) / ALLOC_PROFILE_SPANS;
	int ret = 0;

	for (unsigned i = 0; !ret && i < ALLOC_PROFILE_SPANS; i++) {
		/* 0 is no label. */
		struct profile_labels labels = { .time_ns = (int64_t)(i * span_ns) ?: 1 };
		uint64_t values[ALLOC_VALUES] = {
			[ALLOC_IN_USE_OBJECTS] = rounded(in_use->calls[i]),
			[ALLOC_IN_USE] = rounded(in_use->bytes[i]),
		};

		if (in_use->bytes[i] > 0)
			ret = add(w, key, locations, n, &labels, values);
		w->sums[key->kind].in_use += in_use->bytes[i];
	}
	return ret;
}

static int add_site(struct writer *w, const struct so_alloc_site_key *key, const struct so_alloc_site *site,
		    const struct in_use *in_use)
{
	const struct site_sums sums = sums_of(w, site);
	uint64_t values[ALLOC_VALUES] = {
		[ALLOC_ALLOCATED_OBJECTS] = rounded(sums.calls), [ALLOC_ALLOCATED] = rounded(sums.bytes)
	};
	const uint64_t *locations;
	uint64_t one;
	size_t n;
	int ret = locations_of(w, key->stack, &one, &locations, &n);

	if (ret)
		return ret;
	if (is_nested(w, (enum so_alloc_kind)key->kind, locations, n)) {
		*w->nested += site->chosen;
		return 0;
	}
	w->sums[key->kind].bytes += sums.bytes;
	w->sums[key->kind].calls += sums.calls;
	w->sums[key->kind].freed += sums.freed_bytes;
	w->sums[key->kind].chosen += (double)site->chosen;
	ret = add(w, key, locations, n, &(struct profile_labels){ .pid = 0 }, values);
	ret = ret ?: add_freed(w, key, site, locations, n);
	return ret ?: add_in_use(w, key, in_use, locations, n);
}

static unsigned span_of(const struct alloc_profile *profile, uint64_t when_ns)
{
	uint64_t span_ns = (profile->end_ns - profile->since_ns) / ALLOC_PROFILE_SPANS;
	uint64_t span = span_ns && when_ns > profile->since_ns ? (when_ns - profile->since_ns) / span_ns : 0;

	return span < ALLOC_PROFILE_SPANS ? (unsigned)span : ALLOC_PROFILE_SPANS - 1;
}

static uint64_t number_of(uint64_t stack, uint32_t tgid, uint32_t kind)
{
	return so_mix(so_mix(stack, tgid), kind);
}

/* By site. NULL: no memory. */
static struct in_use *sum_in_use(const struct writer *w, const struct alloc_reading *r)
{
	struct in_use *all = calloc(r->n_sites + 1, sizeof(*all));
	struct u64_table sites = { 0 };
	int ret = all ? 0 : -ENOMEM;
	double scale;
	uint32_t at;

	for (size_t i = 0; !ret && i < r->n_sites; i++)
		ret = u64_table__set(&sites,
				     number_of(r->site_keys[i].stack, r->site_keys[i].tgid, r->site_keys[i].kind),
				     (uint32_t)i);
	for (size_t i = 0; !ret && i < r->n_blocks; i++) {
		const struct so_alloc_block *block = &r->blocks[i];
		uint32_t tgid = r->block_keys[i].tgid;
		unsigned span = span_of(w->profile, block->when_ns);

		if (!alloc_lives__may_use(w->profile->lives, tgid, block->when_ns) ||
		    !u64_table__get(&sites, number_of(block->stack, tgid, block->kind), &at))
			continue;
		scale = block->seen == SO_ALLOC_IN_WINDOWS ? w->profile->scale : 1;
		all[at].bytes[span] += scale * (double)block->bytes;
		all[at].calls[span] += scale * (double)block->calls / SO_ALLOC_CALLS;
	}
	u64_table__release(&sites);
	if (!ret)
		return all;
	free(all);
	return NULL;
}

int alloc_profile__samples(const struct profile_source *source, const struct alloc_profile *profile,
			   struct profile_builder *builder, struct alloc_sums sums[SO_ALLOC_N_KINDS], uint64_t *nested)
{
	const struct alloc_reading *r = profile->reading;
	struct writer w = { source,
			    profile,
			    builder,
			    profile_export__new(source, builder),
			    sums,
			    nested,
			    (uint64_t)INT64_MAX / (64 * (r->n_sites + 1)) };
	struct in_use *in_use = w.export ? sum_in_use(&w, r) : NULL;
	int ret = in_use ? 0 : -ENOMEM;

	memset(sums, 0, SO_ALLOC_N_KINDS * sizeof(*sums));
	*nested = 0;
	for (size_t i = 0; !ret && i < r->n_sites; i++)
		if (!is_in(source->hidden, r->site_keys[i].tgid) && r->site_keys[i].kind < SO_ALLOC_N_KINDS)
			ret = add_site(&w, &r->site_keys[i], &r->sites[i], &in_use[i]);
	ret = ret ?: profile_export__comment(w.export);
	profile_export__free(w.export);
	free(in_use);
	return ret;
}

char *alloc_profile__sums_text(const struct alloc_sums sums[SO_ALLOC_N_KINDS])
{
	json_t *all = json_array();
	char *text;

	for (unsigned i = 0; all && i < SO_ALLOC_N_KINDS; i++) {
		const struct alloc_sums *s = &sums[i];

		if (s->chosen > 0)
			json_array_append_new(all, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "allocator",
							     alloc_functions__kind_word((enum so_alloc_kind)i), "bytes",
							     s->bytes, "calls", s->calls, "freed_bytes", s->freed,
							     "in_use_bytes", s->in_use, "chosen", s->chosen));
	}
	text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(all);
	return text;
}
