/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "profile/arena.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define ARENA_ALIGN     16
#define ARENA_MIN_CHUNK ((size_t)16 << 10)
#define ARENA_MAX_CHUNK ((size_t)4 << 20)

struct arena_chunk {
	struct arena_chunk *next;
	unsigned char bytes[] __attribute__((aligned(ARENA_ALIGN)));
};

struct arena {
	struct arena_chunk *chunks;
	unsigned char *at; /* free room in the newest ordinary chunk */
	size_t left;
	size_t next_chunk;
	size_t limit, taken;
	int error;
};

struct arena *arena__new(size_t limit_bytes)
{
	struct arena *arena = calloc(1, sizeof(*arena));

	if (!arena)
		return NULL;
	arena->limit = limit_bytes;
	arena->next_chunk = ARENA_MIN_CHUNK;
	return arena;
}

static void *take_chunk(struct arena *arena, size_t size)
{
	size_t bytes = sizeof(struct arena_chunk) + size;
	struct arena_chunk *chunk;

	if (bytes > arena->limit - arena->taken) {
		arena->error = -EFBIG;
		return NULL;
	}
	chunk = malloc(bytes);
	if (!chunk) {
		arena->error = -ENOMEM;
		return NULL;
	}
	arena->taken += bytes;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	return chunk->bytes;
}

void *arena__alloc(struct arena *arena, size_t size)
{
	unsigned char *p;

	if (size > SIZE_MAX / 2) {
		arena->error = -EFBIG;
		return NULL;
	}
	size = size ? (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN;
	/* A large piece gets a chunk to itself, and the room in the current one stays in use. */
	if (size > arena->left && size > arena->next_chunk / 4)
		return take_chunk(arena, size);
	if (size > arena->left) {
		p = take_chunk(arena, arena->next_chunk);
		if (!p)
			return NULL;
		arena->at = p;
		arena->left = arena->next_chunk;
		if (arena->next_chunk < ARENA_MAX_CHUNK)
			arena->next_chunk *= 2;
	}
	p = arena->at;
	arena->at += size;
	arena->left -= size;
	return p;
}

void *arena__array(struct arena *arena, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		bytes = SIZE_MAX;
	return arena__alloc(arena, bytes);
}

int arena__error(const struct arena *arena)
{
	return arena->error;
}

void arena__free(struct arena *arena)
{
	struct arena_chunk *next;

	if (!arena)
		return;
	for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(arena);
}
