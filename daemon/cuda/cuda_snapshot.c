// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_snapshot_parts.h"

#include <errno.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/intern.h"

_Static_assert(sizeof(struct so_cuda_error_key) == 16, "keys are hashed and compared as bytes");
_Static_assert(sizeof(struct so_cuda_site_key) == 16, "keys are hashed and compared as bytes");
_Static_assert(offsetof(struct cuda_calls_entry, key) == 0 && offsetof(struct cuda_error_entry, key) == 0 &&
		       offsetof(struct cuda_site_entry, key) == 0 && offsetof(struct cuda_slot_entry, slot) == 0,
	       "an entry begins with its key");
_Static_assert(offsetof(struct so_cuda_key, tgid) == 0 && offsetof(struct so_cuda_error_key, tgid) == 0 &&
		       offsetof(struct so_cuda_site_key, tgid) == 0,
	       "a key begins with its process");

/* Keyed with random bytes of the process: a target chooses the kernels' addresses, and must not make them collide. */
static uint64_t hash_key(const struct cuda_snapshot *snapshot, const void *key, size_t size)
{
	uint64_t hash = snapshot->seed[0] ^ size;

	for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
		uint64_t word = 0;

		memcpy(&word, (const char *)key + at, size - at < sizeof(word) ? size - at : sizeof(word));
		hash = intern__mix(hash ^ word, snapshot->seed[1]);
	}
	return hash;
}

/* NULL: there is none, and *hash is the one to put it under. Keys whose hashes are equal sit under the next values. */
static void *entries__find(const struct entries *entries, const void *key, uint64_t *hash)
{
	uint32_t at;

	for (; u64_table__get(&entries->by_hash, *hash, &at); ++*hash)
		if (!memcmp(entries__at(entries, at), key, entries->key_size))
			return entries__at(entries, at);
	return NULL;
}

/* The entry of the key; a new one is zero but for the key. NULL: no memory. */
void *entries__get(const struct cuda_snapshot *snapshot, struct entries *entries, const void *key)
{
	uint64_t hash = hash_key(snapshot, key, entries->key_size);
	unsigned char *entry = entries__find(entries, key, &hash);
	void *moved;

	if (entry)
		return entry;
	moved = array__reserve(entries->bytes, &entries->capacity, entries->n + 1, entries->size);
	if (!moved)
		return NULL;
	entries->bytes = moved;
	if (u64_table__set(&entries->by_hash, hash, (uint32_t)entries->n))
		return NULL;
	entry = entries__at(entries, entries->n++);
	memset(entry, 0, entries->size);
	memcpy(entry, key, entries->key_size);
	return entry;
}

static void entries__release(struct entries *entries)
{
	free(entries->bytes);
	u64_table__release(&entries->by_hash);
}

int cuda_snapshot__new(struct cuda_snapshot **out)
{
	struct cuda_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, getauxval(3) */

	if (!snapshot)
		return -ENOMEM;
	if (random)
		memcpy(snapshot->seed, random, sizeof(snapshot->seed));
	snapshot->seed[1] |= 1;
	snapshot->calls.size = sizeof(struct cuda_calls_entry);
	snapshot->calls.key_size = sizeof(struct so_cuda_key);
	snapshot->errors.size = sizeof(struct cuda_error_entry);
	snapshot->errors.key_size = sizeof(struct so_cuda_error_key);
	snapshot->sites.size = sizeof(struct cuda_site_entry);
	snapshot->sites.key_size = sizeof(struct so_cuda_site_key);
	snapshot->slots.size = sizeof(struct cuda_slot_entry);
	snapshot->slots.key_size = sizeof(uint32_t);
	*out = snapshot;
	return 0;
}

void cuda_snapshot__free(struct cuda_snapshot *snapshot)
{
	if (!snapshot)
		return;
	entries__release(&snapshot->calls);
	entries__release(&snapshot->errors);
	entries__release(&snapshot->sites);
	entries__release(&snapshot->slots);
	free(snapshot);
}

int cuda_snapshot__add_calls(struct cuda_snapshot *snapshot, const struct so_cuda_key *key,
			     const struct so_cuda_calls *calls)
{
	struct cuda_calls_entry *entry;
	uint64_t sum = 0;

	if (key->octave > SO_CUDA_UNTIMED)
		return -EINVAL;
	entry = entries__get(snapshot, &snapshot->calls, key);
	if (!entry)
		return -ENOMEM;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		sum += calls->buckets[i];
	entry->calls = *calls;
	entry->calls.calls = sum;
	if (entry->calls.errors > sum)
		entry->calls.errors = sum;
	return 0;
}

int cuda_snapshot__add_error(struct cuda_snapshot *snapshot, const struct so_cuda_error_key *key, uint64_t count)
{
	struct cuda_error_entry *entry = entries__get(snapshot, &snapshot->errors, key);

	if (!entry)
		return -ENOMEM;
	entry->count = count;
	return 0;
}

int cuda_snapshot__add_site(struct cuda_snapshot *snapshot, const struct so_cuda_site_key *key,
			    const struct so_cuda_site *site)
{
	struct cuda_site_entry *entry = entries__get(snapshot, &snapshot->sites, key);

	if (!entry)
		return -ENOMEM;
	entry->site = *site;
	return 0;
}

static void add_slot(struct so_cuda_slot *to, const struct so_cuda_slot *from)
{
	for (size_t i = 0; i < CUDA_SLOT_WORDS; i++)
		((__u64 *)to)[i] += ((const __u64 *)from)[i];
}

int cuda_snapshot__add_slot(struct cuda_snapshot *snapshot, uint32_t slot, const struct so_cuda_slot *per_cpu,
			    size_t n_cpus)
{
	struct cuda_slot_entry *entry = entries__get(snapshot, &snapshot->slots, &slot);

	if (!entry)
		return -ENOMEM;
	entry->sum = (struct so_cuda_slot){ 0 };
	for (size_t i = 0; i < n_cpus; i++)
		add_slot(&entry->sum, &per_cpu[i]);
	return 0;
}

static void *find(const struct cuda_snapshot *snapshot, const struct entries *entries, const void *key)
{
	uint64_t hash = hash_key(snapshot, key, entries->key_size);

	return entries__find(entries, key, &hash);
}

/* Each key begins with the process. */
static void entries__forget(const struct cuda_snapshot *snapshot, struct entries *entries, uint32_t tgid)
{
	struct entries kept = { .size = entries->size, .key_size = entries->key_size };

	for (size_t i = 0; i < entries->n; i++) {
		const void *entry = entries__at(entries, i);
		void *copy;

		if (*(const uint32_t *)entry == tgid)
			continue;
		copy = entries__get(snapshot, &kept, entry);
		if (!copy) {
			entries__release(&kept);
			return;
		}
		memcpy(copy, entry, entries->size);
	}
	entries__release(entries);
	*entries = kept;
}

void cuda_snapshot__forget(struct cuda_snapshot *snapshot, uint32_t tgid)
{
	entries__forget(snapshot, &snapshot->calls, tgid);
	entries__forget(snapshot, &snapshot->errors, tgid);
	entries__forget(snapshot, &snapshot->sites, tgid);
}

const struct so_cuda_calls *cuda_snapshot__find_calls(const struct cuda_snapshot *snapshot,
						      const struct so_cuda_key *key)
{
	const struct cuda_calls_entry *entry = find(snapshot, &snapshot->calls, key);

	return entry ? &entry->calls : NULL;
}

const uint64_t *cuda_snapshot__find_error(const struct cuda_snapshot *snapshot, const struct so_cuda_error_key *key)
{
	const struct cuda_error_entry *entry = find(snapshot, &snapshot->errors, key);

	return entry ? &entry->count : NULL;
}

const struct so_cuda_site *cuda_snapshot__find_site(const struct cuda_snapshot *snapshot,
						    const struct so_cuda_site_key *key)
{
	const struct cuda_site_entry *entry = find(snapshot, &snapshot->sites, key);

	return entry ? &entry->site : NULL;
}

const struct so_cuda_slot *cuda_snapshot__find_slot(const struct cuda_snapshot *snapshot, uint32_t slot)
{
	const struct cuda_slot_entry *entry = find(snapshot, &snapshot->slots, &slot);

	return entry ? &entry->sum : NULL;
}

const struct cuda_calls_entry *cuda_snapshot__calls(const struct cuda_snapshot *snapshot, size_t *n)
{
	*n = snapshot->calls.n;
	return (const struct cuda_calls_entry *)snapshot->calls.bytes;
}

const struct cuda_error_entry *cuda_snapshot__errors(const struct cuda_snapshot *snapshot, size_t *n)
{
	*n = snapshot->errors.n;
	return (const struct cuda_error_entry *)snapshot->errors.bytes;
}

const struct cuda_site_entry *cuda_snapshot__sites(const struct cuda_snapshot *snapshot, size_t *n)
{
	*n = snapshot->sites.n;
	return (const struct cuda_site_entry *)snapshot->sites.bytes;
}

void cuda_calls__merge(struct so_cuda_calls *into, const struct so_cuda_calls *from)
{
	if (!into->calls || from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	into->calls += from->calls;
	into->errors += from->errors;
	into->total_ns += from->total_ns;
	into->squares += from->squares;
	into->bytes += from->bytes;
	into->blocks += from->blocks;
	into->threads += from->threads;
	memcpy(into->grid, from->grid, sizeof(into->grid));
	memcpy(into->block, from->block, sizeof(into->block));
	into->stream = from->stream;
	into->caller = from->caller;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

static void merge_site(struct so_cuda_site *into, const struct so_cuda_site *from)
{
	into->allocations += from->allocations;
	into->frees += from->frees;
	into->bytes += from->bytes;
	into->current_bytes = from->current_bytes;
	if (from->peak_bytes > into->peak_bytes)
		into->peak_bytes = from->peak_bytes;
}

/* sums: by call and error alone, as those of process 0. */
static int merge_counts(struct cuda_snapshot *into, const struct cuda_snapshot *from, uint32_t tgid, bool sums)
{
	for (size_t i = 0; i < from->calls.n; i++) {
		const struct cuda_calls_entry *entry = entries__at(&from->calls, i);
		struct so_cuda_key key = entry->key;
		struct cuda_calls_entry *to;

		if ((tgid && key.tgid != tgid) || !entry->calls.calls)
			continue;
		if (sums)
			key.tgid = key.tid = key.library = key.kernel = 0;
		to = entries__get(into, &into->calls, &key);
		if (!to)
			return -ENOMEM;
		cuda_calls__merge(&to->calls, &entry->calls);
	}
	for (size_t i = 0; i < from->errors.n; i++) {
		const struct cuda_error_entry *entry = entries__at(&from->errors, i);
		struct so_cuda_error_key key = entry->key;
		struct cuda_error_entry *to;

		if (tgid && key.tgid != tgid)
			continue;
		if (sums)
			key.tgid = key.library = 0;
		to = entries__get(into, &into->errors, &key);
		if (!to)
			return -ENOMEM;
		to->count += entry->count;
	}
	return 0;
}

int cuda_snapshot__fold(struct cuda_snapshot *from, uint32_t tgid, struct cuda_snapshot *into)
{
	int ret = merge_counts(into, from, tgid, true);

	if (!ret)
		cuda_snapshot__forget(from, tgid);
	return ret;
}

int cuda_snapshot__fold_threads(struct cuda_snapshot *snapshot, const struct u64_table *threads)
{
	struct entries kept = { .size = snapshot->calls.size, .key_size = snapshot->calls.key_size };

	for (size_t i = 0; i < snapshot->calls.n; i++) {
		const struct cuda_calls_entry *entry = entries__at(&snapshot->calls, i);
		struct so_cuda_key key = entry->key;
		struct cuda_calls_entry *to;
		uint32_t value;

		if (u64_table__get(threads, cuda_threads__key(key.tgid, key.tid), &value))
			key.tid = 0;
		to = entries__get(snapshot, &kept, &key);
		if (!to) {
			entries__release(&kept);
			return -ENOMEM;
		}
		cuda_calls__merge(&to->calls, &entry->calls);
	}
	entries__release(&snapshot->calls);
	snapshot->calls = kept;
	return 0;
}

size_t cuda_snapshot__bytes(const struct cuda_snapshot *snapshot)
{
	return snapshot->calls.n * snapshot->calls.size + snapshot->errors.n * snapshot->errors.size +
	       snapshot->sites.n * snapshot->sites.size;
}

int cuda_snapshot__merge(struct cuda_snapshot *into, const struct cuda_snapshot *from, uint32_t tgid)
{
	int ret = merge_counts(into, from, tgid, false);

	if (ret)
		return ret;
	for (size_t i = 0; i < from->sites.n; i++) {
		const struct cuda_site_entry *entry = entries__at(&from->sites, i);
		struct cuda_site_entry *to;

		if (tgid && entry->key.tgid != tgid)
			continue;
		to = entries__get(into, &into->sites, &entry->key);
		if (!to)
			return -ENOMEM;
		merge_site(&to->site, &entry->site);
	}
	for (size_t i = 0; !tgid && i < from->slots.n; i++) {
		const struct cuda_slot_entry *entry = entries__at(&from->slots, i);
		struct cuda_slot_entry *to = entries__get(into, &into->slots, &entry->slot);

		if (!to)
			return -ENOMEM;
		add_slot(&to->sum, &entry->sum);
	}
	return 0;
}

void cuda_snapshot__take_memory(struct cuda_snapshot *estimate, const struct cuda_snapshot *of)
{
	static const struct so_cuda_site none;

	for (size_t i = 0; i < estimate->sites.n; i++) {
		struct cuda_site_entry *entry = entries__at(&estimate->sites, i);
		const struct so_cuda_site *site = cuda_snapshot__find_site(of, &entry->key) ?: &none;

		entry->site.current_bytes = site->current_bytes;
		entry->site.peak_bytes = site->peak_bytes;
	}
}
