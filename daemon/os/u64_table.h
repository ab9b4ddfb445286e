/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hash table from 64-bit keys, well mixed already or not, to 32-bit values: open addressing, linear probing. */
#ifndef STAKEOUT_U64_TABLE_H
#define STAKEOUT_U64_TABLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct u64_entry {
	uint64_t key;
	uint32_t value;
	uint32_t used;
};

struct u64_table {
	struct u64_entry *entries;
	size_t capacity; /* 0 or a power of two */
	size_t n;
};

static inline size_t u64_table__place(const struct u64_table *t, uint64_t key)
{
	uint64_t h = key * 0x9e3779b97f4a7c15ull;
	size_t i = (h ^ h >> 32) & (t->capacity - 1);

	while (t->entries[i].used && t->entries[i].key != key)
		i = (i + 1) & (t->capacity - 1);
	return i;
}

static inline bool u64_table__get(const struct u64_table *t, uint64_t key, uint32_t *value)
{
	size_t i;

	if (!t->n)
		return false;
	i = u64_table__place(t, key);
	if (t->entries[i].used)
		*value = t->entries[i].value;
	return t->entries[i].used;
}

static inline int u64_table__grow(struct u64_table *t)
{
	struct u64_table bigger = { .capacity = t->capacity ? t->capacity * 2 : 64 };

	bigger.entries = calloc(bigger.capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return -ENOMEM;
	for (size_t i = 0; i < t->capacity; i++) {
		if (t->entries[i].used)
			bigger.entries[u64_table__place(&bigger, t->entries[i].key)] = t->entries[i];
	}
	bigger.n = t->n;
	free(t->entries);
	*t = bigger;
	return 0;
}

/* Inserts or replaces. -ENOMEM leaves the table as it was. */
static inline int u64_table__set(struct u64_table *t, uint64_t key, uint32_t value)
{
	size_t i;
	int err;

	if ((t->n + 1) * 2 > t->capacity) {
		err = u64_table__grow(t);
		if (err)
			return err;
	}
	i = u64_table__place(t, key);
	t->n += !t->entries[i].used;
	t->entries[i] = (struct u64_entry){ .key = key, .value = value, .used = 1 };
	return 0;
}

/* Into an empty one, which stays empty on failure. -ENOMEM. */
static inline int u64_table__copy(const struct u64_table *from, struct u64_table *to)
{
	struct u64_entry *entries;

	if (!from->capacity)
		return 0;
	entries = malloc(from->capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	memcpy(entries, from->entries, from->capacity * sizeof(*entries));
	*to = *from;
	to->entries = entries;
	return 0;
}

static inline void u64_table__release(struct u64_table *t)
{
	free(t->entries);
	*t = (struct u64_table){ 0 };
}

#endif
