// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/torch_profile.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

const struct profile_value_type torch_value_types[TORCH_VALUES] = {
	[TORCH_ALLOCATED_OBJECTS] = { "alloc_objects", "count" },
	[TORCH_ALLOCATED] = { "alloc_space", "bytes" },
	[TORCH_IN_USE_OBJECTS] = { "inuse_objects", "count" },
	[TORCH_IN_USE] = { "inuse_space", "bytes" },
	[TORCH_PEAK] = { "peak_space", "bytes" },
	[TORCH_REFUSED] = { "refused_space", "bytes" },
	[TORCH_IN_USE_THEN] = { "refused_inuse_space", "bytes" },
};

void torch_profile__device(uint32_t device, char text[16])
{
	const char *type = SO_TORCH_DEVICE_TYPE(device) == SO_TORCH_HIP ? "HIP" : "CUDA";

	if (SO_TORCH_DEVICE_INDEX(device) == 255)
		snprintf(text, 16, "%s", type);
	else
		snprintf(text, 16, "%s %u", type, SO_TORCH_DEVICE_INDEX(device));
}

static bool is_in(const struct u64_table *processes, uint32_t tgid)
{
	uint32_t unused;

	return processes && u64_table__get(processes, tgid, &unused);
}

static bool has_gone(const struct torch_profile *torch, uint32_t tgid)
{
	return is_in(torch->gone, tgid);
}

static bool is_hidden(const struct torch_profile *torch, uint32_t tgid)
{
	return is_in(torch->hidden, tgid);
}

static int compare(const void *a, const void *b)
{
	const struct torch_group *x = a, *y = b;

	if (x->key.stack != y->key.stack)
		return x->key.stack < y->key.stack ? -1 : 1;
	if (x->key.tgid != y->key.tgid)
		return x->key.tgid < y->key.tgid ? -1 : 1;
	if (x->key.device != y->key.device)
		return x->key.device < y->key.device ? -1 : 1;
	return (x->span > y->span) - (x->span < y->span);
}

static unsigned span_of(const struct torch_profile *torch, uint64_t when_ns)
{
	uint64_t span_ns = (torch->end_ns - torch->since_ns) / TORCH_PROFILE_SPANS;
	uint64_t span = span_ns && when_ns > torch->since_ns ? (when_ns - torch->since_ns) / span_ns : 0;

	return span < TORCH_PROFILE_SPANS ? (unsigned)span : TORCH_PROFILE_SPANS - 1;
}

/* Devices of a reading by process and number. */
static uint64_t device_key(uint32_t tgid, uint32_t device)
{
	return (uint64_t)tgid << 32 | device;
}

static int index_devices(const struct torch_reading *r, struct u64_table *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < r->n_devices; i++)
		ret = u64_table__set(out, device_key(r->device_keys[i].tgid, r->device_keys[i].device), (uint32_t)i);
	return ret;
}

/* Not so: its process has executed another program since. */
static bool is_current(const struct torch_reading *r, const struct u64_table *devices, uint32_t tgid, uint32_t device,
		       uint64_t when_ns)
{
	uint32_t at;

	return u64_table__get(devices, device_key(tgid, device), &at) && when_ns >= r->devices[at].since_ns;
}

struct torch_group *torch_profile__groups(const struct torch_profile *torch, size_t *n)
{
	const struct torch_reading *r = torch->reading;
	_cleanup_free_ struct torch_group *groups = calloc(r->n_blocks + 1, sizeof(*groups));
	struct u64_table devices = { 0 };
	size_t found = 0, kept = 0;
	int ret = groups ? index_devices(r, &devices) : -ENOMEM;

	for (size_t i = 0; !ret && i < r->n_blocks; i++) {
		const struct so_torch_block_key *key = &r->block_keys[i];

		if (!has_gone(torch, key->tgid) &&
		    is_current(r, &devices, key->tgid, key->device, r->blocks[i].when_ns))
			groups[found++] = (struct torch_group){ .key = { r->blocks[i].stack, key->tgid, key->device },
								.span = span_of(torch, r->blocks[i].when_ns),
								.blocks = 1,
								.bytes = r->blocks[i].bytes };
	}
	u64_table__release(&devices);
	if (ret)
		return NULL;
	qsort(groups, found, sizeof(*groups), compare);
	for (size_t i = 0; i < found; i++) {
		if (kept && !compare(&groups[kept - 1], &groups[i])) {
			groups[kept - 1].blocks++;
			groups[kept - 1].bytes += groups[i].bytes;
		} else {
			groups[kept++] = groups[i];
		}
	}
	*n = kept;
	return TAKE_PTR(groups);
}

struct writer {
	const struct profile_source *source;
	const struct torch_profile *torch;
	struct profile_builder *builder;
	struct profile_export *export;
	struct u64_table devices; /* index_devices() */
	uint64_t most;            /* of a value: all of them together are to stay below 2^63 */
};

/* The frames of a stack, or one that says why there are none. */
static int locations_of(struct writer *w, uint64_t hash, uint64_t *one, const uint64_t **locations, size_t *n)
{
	const struct accumulator *stacks = w->torch->stacks;
	const char *name = hash ? TORCH_LOST_STACK : TORCH_NO_STACK;
	uint32_t at;

	if (hash && u64_table__get(&stacks->stack_by_hash, hash, &at))
		return profile_export__locations(w->export, stacks->stacks[at], locations, n);
	*one = profile_builder__location(w->builder, &(struct profile_frame){ .name = name });
	*locations = one;
	*n = 1;
	return *one ? 0 : -ENOMEM;
}

static int add(struct writer *w, const struct so_torch_site_key *key, int64_t time_ns, uint64_t *values)
{
	char device[16];
	struct profile_labels labels = { .pid = (pid_t)key->tgid, .device = device, .time_ns = time_ns };
	const uint64_t *locations;
	uint64_t one;
	size_t n;
	int ret = locations_of(w, key->stack, &one, &locations, &n);

	if (ret)
		return ret;
	for (unsigned i = 0; i < TORCH_VALUES; i++)
		values[i] = values[i] < w->most ? values[i] : w->most;
	torch_profile__device(key->device, device);
	labels.process = profile_export__process(w->export, labels.pid);
	return profile_builder__sample_values(w->builder, locations, n, values, &labels);
}

/* since_ns: as its device's; less: of the program that the process executed before. */
static int add_site(struct writer *w, const struct so_torch_site_key *key, const struct so_torch_site *site,
		    uint64_t since_ns)
{
	uint64_t values[TORCH_VALUES] = { [TORCH_ALLOCATED_OBJECTS] = site->allocations,
					  [TORCH_ALLOCATED] = site->bytes,
					  [TORCH_PEAK] = site->peak,
					  [TORCH_REFUSED] = site->refused_bytes,
					  [TORCH_IN_USE_THEN] = site->live_then };

	/* That program was refused no memory. */
	if (!is_current(w->torch->reading, &w->devices, key->tgid, key->device, since_ns))
		values[TORCH_IN_USE_THEN] = 0;
	return is_hidden(w->torch, key->tgid) ? 0 : add(w, key, 0, values);
}

static int add_sites(struct writer *w)
{
	const struct torch_reading *r = w->torch->reading;
	int ret = 0;

	for (size_t i = 0; !ret && i < r->n_sites; i++)
		ret = add_site(w, &r->site_keys[i], &r->sites[i], r->sites[i].since_ns);
	for (size_t i = 0; !ret && i < r->n_devices; i++) {
		const struct so_torch_site_key key = { 0, r->device_keys[i].tgid, r->device_keys[i].device };

		ret = add_site(w, &key, &r->devices[i].rest, r->devices[i].since_ns);
	}
	return ret;
}

static int add_in_use(struct writer *w)
{
	uint64_t span_ns = (w->torch->end_ns - w->torch->since_ns) / TORCH_PROFILE_SPANS;
	size_t n;
	struct torch_group *groups = torch_profile__groups(w->torch, &n);
	int ret = groups ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++) {
		uint64_t values[TORCH_VALUES] = {
			[TORCH_IN_USE_OBJECTS] = groups[i].blocks, [TORCH_IN_USE] = groups[i].bytes
		};

		/* 0 is no label. */
		if (!is_hidden(w->torch, groups[i].key.tgid))
			ret = add(w, &groups[i].key, (int64_t)(groups[i].span * span_ns) ?: 1, values);
	}
	free(groups);
	return ret;
}

int torch_profile__samples(const struct profile_source *source, const struct torch_profile *torch,
			   struct profile_builder *builder)
{
	const struct torch_reading *r = torch->reading;
	struct writer w = { .source = source,
			    .torch = torch,
			    .builder = builder,
			    .export = profile_export__new(source, builder),
			    .most = (uint64_t)INT64_MAX / (r->n_sites + r->n_devices + r->n_blocks + 1) };
	int ret = w.export ? index_devices(r, &w.devices) : -ENOMEM;

	ret = ret ?: add_sites(&w);
	ret = ret ?: add_in_use(&w);
	u64_table__release(&w.devices);
	ret = ret ?: profile_export__comment(w.export);
	profile_export__free(w.export);
	return ret;
}

static json_t *device_json(const struct torch_profile *torch, const struct so_torch_device_key *key,
			   const struct so_torch_device *d)
{
	bool gone = has_gone(torch, key->tgid);
	char name[16];

	torch_profile__device(key->device, name);
	return json_pack("{s:I, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "pid", (json_int_t)key->tgid, "device", name, "gone", (int)gone, "allocated_bytes",
			 (json_int_t)d->allocated, "reserved_bytes", (json_int_t)d->reserved, "peak_allocated_bytes",
			 (json_int_t)d->peak_allocated, "peak_reserved_bytes", (json_int_t)d->peak_reserved,
			 "seen_bytes", (json_int_t)d->live, "without_stack_bytes", (json_int_t)d->rest.live,
			 "allocations", (json_int_t)d->allocations, "frees", (json_int_t)d->frees, "unseen_frees",
			 (json_int_t)d->unseen_frees, "left_out", (json_int_t)d->left_out, "replaced",
			 (json_int_t)d->replaced, "refused", (json_int_t)d->refused, "refused_bytes",
			 (json_int_t)d->refused_bytes, "refused_allocated_bytes", (json_int_t)d->refused_allocated,
			 "refused_reserved_bytes", (json_int_t)d->refused_reserved);
}

static int compare_devices(const void *a, const void *b)
{
	const struct so_torch_device_key *x = *(const struct so_torch_device_key *const *)a;
	const struct so_torch_device_key *y = *(const struct so_torch_device_key *const *)b;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

/* Those that are shown, sorted. NULL: no memory. */
static const struct so_torch_device_key **sort_devices(const struct torch_profile *torch, size_t *n)
{
	const struct torch_reading *r = torch->reading;
	const struct so_torch_device_key **sorted = calloc(r->n_devices + 1, sizeof(const void *));

	*n = 0;
	for (size_t i = 0; sorted && i < r->n_devices; i++)
		if (!is_hidden(torch, r->device_keys[i].tgid) && !torch_reading__is_copy(r, i, torch->copies))
			sorted[(*n)++] = &r->device_keys[i];
	if (sorted)
		qsort(sorted, *n, sizeof(*sorted), compare_devices);
	return sorted;
}

unsigned torch_profile__hidden(const struct torch_profile *torch)
{
	const struct torch_reading *r = torch->reading;
	struct u64_table found = { 0 };
	unsigned n;

	for (size_t i = 0; i < r->n_devices; i++)
		if (is_hidden(torch, r->device_keys[i].tgid))
			u64_table__set(&found, r->device_keys[i].tgid, 1);
	n = (unsigned)found.n;
	u64_table__release(&found);
	return n;
}

char *torch_profile__devices(const struct torch_profile *torch)
{
	const struct torch_reading *r = torch->reading;
	size_t n;
	const struct so_torch_device_key **sorted = sort_devices(torch, &n);
	json_t *all = json_array();
	char *text = NULL;

	for (size_t i = 0; sorted && all && i < n; i++)
		if (json_array_append_new(all, device_json(torch, sorted[i], &r->devices[sorted[i] - r->device_keys])))
			break;
	if (sorted && json_array_size(all) == n)
		text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	free(sorted);
	return text;
}
