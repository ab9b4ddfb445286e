/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens around every call of a stand-in: counting, waiting, failing. The state is the driver's; each image (the
 * driver, each runtime in the process) counts into slots of its own, per thread, without atomic instructions.
 */
#ifndef STANDIN_CORE_H
#define STANDIN_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cuda_api.h"

#define STANDIN_IMAGES  4
#define STANDIN_BUCKETS (64 * 23)
#define STANDIN_KERNELS 512 /* names; launches of further ones count as number 0, "?" */

struct standin_slot {
	uint64_t calls, errors, not_ready, nested;
	uint64_t bytes, bytes_failed;
	uint64_t directions[SO_CUDA_DIRECTION_COUNT];
	uint64_t timed, sum_ns, min_ns, max_ns; /* min_ns: 0 while timed is 0 */
	uint32_t times[STANDIN_BUCKETS];        /* standin_bucket__of() */
};

/* Times in buckets of a 64th of their power of two, 1.6 % at most; those of 2^28 ns and more are in the last one. */
static inline unsigned standin_bucket__of(uint64_t ns)
{
	unsigned power = ns < 64 ? 6 : 63 - (unsigned)__builtin_clzll(ns);

	return power > 27 ? STANDIN_BUCKETS - 1 : (power - 6) * 64 + (unsigned)(ns >> (power - 6));
}

static inline uint64_t standin_bucket__low(unsigned bucket)
{
	return bucket < 64 ? bucket : (uint64_t)(64 + bucket % 64) << (bucket / 64 - 1);
}

struct standin_memory {
	uint64_t allocations, frees, allocated_bytes, freed_bytes;
};

/* What the images of a process share of a thread. */
struct standin_thread {
	uint64_t launches[STANDIN_KERNELS];
	struct standin_memory device, host;
	unsigned depth; /* of calls within calls */
	/* standin_memory.c: places for device memory, freed ones to take first, then from next on to end. */
	uint32_t freed[64], freed_count, next, end;
};

/* One thread in one image. */
struct standin_local {
	struct standin_local *next;
	struct standin_local **home; /* the image's variable that points here */
	struct standin_thread *thread;
	const struct standin_rule *rules; /* SO_CUDA_API_COUNT of them */
	const struct standin_core *core;
	unsigned image;
	struct standin_slot slots[SO_CUDA_API_COUNT];
};

struct standin_rule {
	bool active;       /* any of what follows */
	bool measured;     /* outermost calls are timed */
	unsigned steps;    /* values of wait_ns */
	unsigned every;    /* this call of so many fails; 0: none */
	int code;          /* with this */
	uint64_t *wait_ns; /* cycled */
	uint64_t turns;    /* calls so far; atomic */
};

struct standin_call {
	struct standin_local *local;
	unsigned api;
	bool measured;
	uint64_t start_ns, wait_ns;
};

/* Exported by libcuda.so.1 through standin_core(). */
struct standin_core {
	unsigned (*add_image)(const char *name);
	/* The caller's slots; *home is set to them, and to NULL when the thread ends. */
	struct standin_local *(*enter)(unsigned image, struct standin_local **home);
	int (*before)(struct standin_call *call); /* rules' part of a call; 0, or the code to fail with */
	void (*after)(struct standin_call *call);
	void (*print)(void *file);
};

const struct standin_core *standin_core(void);

/* Written by one thread, read by any. */
static inline void standin_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* 0, or the code that the script makes the call return. */
static inline __attribute__((always_inline)) int standin_begin(struct standin_call *call,
							       struct standin_local *local, unsigned api)
{
	struct standin_slot *slot = &local->slots[api];

	call->local = local;
	call->api = api;
	standin_add(&slot->calls, 1);
	if (local->thread->depth++)
		standin_add(&slot->nested, 1);
	return __builtin_expect(local->rules[api].active, 0) ? local->core->before(call) : 0;
}

static inline __attribute__((always_inline)) int standin_end(struct standin_call *call, int code,
							     uint64_t bytes, enum so_cuda_direction direction)
{
	struct standin_local *local = call->local;
	struct standin_slot *slot = &local->slots[call->api];

	if (__builtin_expect(local->rules[call->api].active, 0))
		local->core->after(call);
	local->thread->depth--;
	if (direction != SO_CUDA_DIRECTION_NO)
		standin_add(&slot->directions[direction], bytes);
	if (__builtin_expect(code, 0)) {
		standin_add(&slot->errors, 1);
		if (code == 600)
			standin_add(&slot->not_ready, 1);
		standin_add(&slot->bytes_failed, bytes);
	} else if (bytes) {
		standin_add(&slot->bytes, bytes);
	}
	return code;
}

/*
 * Exported, and with the prologue of a compiled function of some size: NVIDIA's begin by saving registers. Needs
 * -fno-shrink-wrap, and STANDIN_PROLOGUE as the first statement.
 */
#ifndef STANDIN_VISIBILITY
#define STANDIN_VISIBILITY "default"
#endif
#define STANDIN_ENTRY    __attribute__((visibility(STANDIN_VISIBILITY), noipa))
#define STANDIN_PROLOGUE __asm__ volatile("" ::: "rbx", "r12")

#endif
