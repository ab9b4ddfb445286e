/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interning: equal keys get the same number, counted from 0 without gaps. A key is a run of bytes of any length,
 * copied into one growing block (aligned to 8 bytes, so that a struct or an array of integers can be one; its
 * padding must then be zeroed). O(1) a look-up, amortised; memory in proportion to the distinct keys.
 *
 * The hash is keyed with the process's random bytes: names come from foreign files, and whoever wrote them cannot
 * choose them to collide.
 */
#ifndef STAKEOUT_INTERN_H
#define STAKEOUT_INTERN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "stakeout/array.h"

struct intern_key {
	size_t offset; /* in bytes[] */
	size_t length;
};

struct intern_slot {
	uint32_t hash;
	uint32_t number_plus_1; /* 0: free */
};

/* All zero is an empty one. */
struct intern {
	unsigned char *bytes;
	size_t bytes_used, bytes_capacity;
	struct intern_key *keys;
	size_t n_keys, keys_capacity;
	struct intern_slot *slots; /* linear probing; a power of two, filled to three quarters at most */
	size_t n_slots;
	uint64_t seed[2];
};

#define INTERN_MAX_KEYS (UINT32_MAX - 1)

static inline uint64_t intern__mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t intern__hash(const struct intern *table, const void *key, size_t length)
{
	const unsigned char *p = key;
	uint64_t hash = table->seed[0] ^ length, word;

	for (; length >= sizeof(word); length -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = intern__mix(hash ^ word, table->seed[1]);
	}
	word = 0;
	if (length)
		memcpy(&word, p, length);
	hash = intern__mix(hash ^ word, table->seed[1]);
	return (uint32_t)(hash ^ hash >> 32);
}

static inline size_t intern__align(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static inline int intern__grow_slots(struct intern *table)
{
	size_t n = table->n_slots ? table->n_slots * 2 : 64;
	struct intern_slot *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->n_slots; i++) {
		size_t at = table->slots[i].hash & (n - 1);

		if (!table->slots[i].number_plus_1)
			continue;
		while (slots[at].number_plus_1)
			at = (at + 1) & (n - 1);
		slots[at] = table->slots[i];
	}
	free(table->slots);
	table->slots = slots;
	table->n_slots = n;
	return 0;
}

static inline int intern__reserve(struct intern *table, size_t length)
{
	size_t need;

	if (!table->seed[1]) {
		const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, getauxval(3) */

		if (random)
			memcpy(table->seed, random, sizeof(table->seed));
		table->seed[1] |= 1;
	}
	if (table->n_keys >= INTERN_MAX_KEYS || length > SIZE_MAX / 2)
		return -ENOMEM;
	if (__builtin_add_overflow(table->bytes_used, intern__align(length), &need))
		return -ENOMEM;
	if (ARRAY_RESERVE(table->bytes, table->bytes_capacity, need) ||
	    ARRAY_RESERVE(table->keys, table->keys_capacity, table->n_keys + 1))
		return -ENOMEM;
	return table->n_keys >= table->n_slots / 4 * 3 ? intern__grow_slots(table) : 0;
}

/* The slot that has the key, or a free one in which it would go. There must be slots. */
static inline size_t intern__slot(const struct intern *table, const void *key, size_t length, uint32_t hash)
{
	size_t at = hash & (table->n_slots - 1);

	for (; table->slots[at].number_plus_1; at = (at + 1) & (table->n_slots - 1)) {
		const struct intern_key *known = &table->keys[table->slots[at].number_plus_1 - 1];

		if (table->slots[at].hash == hash && known->length == length &&
		    !memcmp(table->bytes + known->offset, key, length))
			break;
	}
	return at;
}

/* Whether the key is there, and its number. */
static inline bool intern__find(const struct intern *table, const void *key, size_t length, uint32_t *number)
{
	size_t at;

	if (!table->n_slots)
		return false;
	at = intern__slot(table, key, length, intern__hash(table, key, length));
	*number = table->slots[at].number_plus_1 - 1;
	return table->slots[at].number_plus_1;
}

/* *number: the key's. 1: new, 0: known; -ENOMEM: the table is unchanged. `key` must not lie in the table itself. */
static inline int intern__add(struct intern *table, const void *key, size_t length, uint32_t *number)
{
	int r = intern__reserve(table, length);
	uint32_t hash;
	size_t at;

	if (r < 0)
		return r;
	hash = intern__hash(table, key, length);
	at = intern__slot(table, key, length, hash);
	if (table->slots[at].number_plus_1) {
		*number = table->slots[at].number_plus_1 - 1;
		return 0;
	}
	memcpy(table->bytes + table->bytes_used, key, length);
	table->keys[table->n_keys] = (struct intern_key){ table->bytes_used, length };
	table->bytes_used += intern__align(length);
	table->slots[at] = (struct intern_slot){ hash, (uint32_t)++table->n_keys };
	*number = (uint32_t)(table->n_keys - 1);
	return 1;
}

/* The key of a number; valid until the next intern__add(). */
static inline const void *intern__key(const struct intern *table, size_t number)
{
	return table->bytes + table->keys[number].offset;
}

static inline size_t intern__length(const struct intern *table, size_t number)
{
	return table->keys[number].length;
}

/* Frees the contents; the table is an empty one afterwards. */
static inline void intern__clear(struct intern *table)
{
	free(table->bytes);
	free(table->keys);
	free(table->slots);
	memset(table, 0, sizeof(*table));
}

#endif
