/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events of CUDA calls whose stacks a profile can be made of, and the values that each sample of it has. */
#ifndef STAKEOUT_CUDA_EVENT_H
#define STAKEOUT_CUDA_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "stakeout/cuda_api.h"

/* X(what the calls do: so_cuda_kind__action(), word, weight by default, 1: its calls have bytes) */
#define SO_CUDA_EVENTS(X)                  \
	X(LAUNCH, "cuda-launch", CALLS, 0) \
	X(SYNC, "cuda-sync", TIME, 0)      \
	X(COPY, "cuda-copy", TIME, 1)      \
	X(ALLOC, "cuda-alloc", BYTES, 1)   \
	X(FREE, "cuda-free", CALLS, 0)     \
	X(SET, "cuda-set", TIME, 1)

enum so_cuda_event {
#define X(action, word, weight, has_bytes) SO_CUDA_EVENT_##action,
	SO_CUDA_EVENTS(X)
#undef X
		SO_CUDA_EVENT_COUNT,
};

/* X(enumerator, word of --weight, type and unit in the profile); the order is that of a sample's values */
#define SO_CUDA_WEIGHTS(X)                          \
	X(CALLS, "calls", "calls", "count")         \
	X(TIME, "time", "host_time", "nanoseconds") \
	X(BYTES, "bytes", "bytes", "bytes")

enum so_cuda_weight {
#define X(name, word, type, unit) SO_CUDA_WEIGHT_##name,
	SO_CUDA_WEIGHTS(X)
#undef X
		SO_CUDA_WEIGHT_COUNT,
};

struct so_cuda_event_info {
	const char *word;
	enum so_cuda_kind action;
	enum so_cuda_weight weight; /* by default */
	bool has_bytes;
};

static const struct so_cuda_event_info so_cuda_events[SO_CUDA_EVENT_COUNT] = {
#define X(action, word, weight, has_bytes) { word, SO_CUDA_##action, SO_CUDA_WEIGHT_##weight, has_bytes },
	SO_CUDA_EVENTS(X)
#undef X
};

struct so_cuda_weight_info {
	const char *word, *type, *unit;
};

static const struct so_cuda_weight_info so_cuda_weights[SO_CUDA_WEIGHT_COUNT] = {
#define X(name, word, type, unit) { word, type, unit },
	SO_CUDA_WEIGHTS(X)
#undef X
};

/* SO_CUDA_EVENT_COUNT: no such word. */
static inline enum so_cuda_event so_cuda_event__find(const char *word)
{
	unsigned i = 0;

	while (i < SO_CUDA_EVENT_COUNT && strcmp(word, so_cuda_events[i].word) != 0)
		i++;
	return (enum so_cuda_event)i;
}

/* SO_CUDA_WEIGHT_COUNT: no such word. */
static inline enum so_cuda_weight so_cuda_weight__find(const char *word)
{
	unsigned i = 0;

	while (i < SO_CUDA_WEIGHT_COUNT && strcmp(word, so_cuda_weights[i].word) != 0)
		i++;
	return (enum so_cuda_weight)i;
}

/* The words of all events, for a message. */
#define SO_CUDA_EVENT_LIST "cuda-launch, cuda-sync, cuda-copy, cuda-alloc, cuda-free, cuda-set"

#endif
