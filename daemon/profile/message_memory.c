// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/message_memory.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGN          16
#define CHUNK_BYTES    ((size_t)1 << 20)
#define KEPT_BYTES     ((size_t)32 << 20) /* between two messages */
#define LIMIT_PER_BYTE 64
#define LIMIT_MIN      ((size_t)16 << 20)

struct chunk {
	struct chunk *next;
	size_t size; /* of bytes[] */
	unsigned char bytes[] __attribute__((aligned(ALIGN)));
};

struct message_memory {
	ProtobufCAllocator allocator;
	struct chunk *used, *unused;
	size_t at;                       /* in the newest used chunk */
	size_t taken_bytes, limit_bytes; /* of used chunks */
	int error;
};

/* A chunk with room for `size`: one that was used before, if the first of them is large enough. */
static struct chunk *take_chunk(struct message_memory *m, size_t size)
{
	struct chunk *chunk = m->unused;

	if (size < CHUNK_BYTES)
		size = CHUNK_BYTES;
	if (m->taken_bytes + size > m->limit_bytes) {
		m->error = -EFBIG;
		return NULL;
	}
	if (chunk && chunk->size >= size) {
		m->unused = chunk->next;
	} else {
		chunk = malloc(sizeof(*chunk) + size);
		if (!chunk) {
			m->error = -ENOMEM;
			return NULL;
		}
		chunk->size = size;
	}
	chunk->next = m->used;
	m->used = chunk;
	m->taken_bytes += chunk->size;
	m->at = 0;
	return chunk;
}

static void *allocate(void *data, size_t size)
{
	struct message_memory *m = data;
	void *piece;

	if (size > m->limit_bytes) {
		m->error = -EFBIG;
		return NULL;
	}
	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if ((!m->used || m->used->size - m->at < size) && !take_chunk(m, size))
		return NULL;
	piece = m->used->bytes + m->at;
	m->at += size;
	return piece;
}

static void release(void *data, void *piece)
{
}

struct message_memory *message_memory__new(void)
{
	struct message_memory *m = calloc(1, sizeof(*m));

	if (m)
		m->allocator = (ProtobufCAllocator){ allocate, release, m };
	return m;
}

ProtobufCAllocator *message_memory__allocator(struct message_memory *m)
{
	return &m->allocator;
}

int message_memory__error(const struct message_memory *m)
{
	return m->error;
}

static void free_chunks(struct chunk **list)
{
	while (*list) {
		struct chunk *next = (*list)->next;

		free(*list);
		*list = next;
	}
}

void message_memory__begin(struct message_memory *m, size_t message_bytes)
{
	size_t kept = 0;

	for (struct chunk *chunk = m->unused; chunk; chunk = chunk->next)
		kept += chunk->size;
	/* Chunks of an odd size would rarely be found again. */
	while (m->used) {
		struct chunk *chunk = m->used;

		m->used = chunk->next;
		if (chunk->size == CHUNK_BYTES && kept + chunk->size <= KEPT_BYTES) {
			chunk->next = m->unused;
			m->unused = chunk;
			kept += chunk->size;
		} else {
			free(chunk);
		}
	}
	m->at = 0;
	m->taken_bytes = 0;
	m->error = 0;
	m->limit_bytes = LIMIT_MIN;
	if (message_bytes > LIMIT_MIN / LIMIT_PER_BYTE)
		m->limit_bytes = message_bytes * LIMIT_PER_BYTE;
}

void message_memory__free(struct message_memory *m)
{
	if (!m)
		return;
	free_chunks(&m->used);
	free_chunks(&m->unused);
	free(m);
}
