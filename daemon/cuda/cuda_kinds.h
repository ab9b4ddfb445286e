/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many calls of each kind a target makes, and which kinds a duty cycle should switch: those that make most of the cost. The
 * others are few, and stay exact. By kind, because a call nests calls of its own kind in the driver, a blocking copy perhaps those of an
 * asynchronous one.
 */
#ifndef STAKEOUT_CUDA_KINDS_H
#define STAKEOUT_CUDA_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cuda_abi.h"

#define CUDA_KINDS_ALL ((1u << SO_CUDA_KIND_COUNT) - 1)

/* Of the last seconds; what is older weighs less. All zero: nothing is known. */
struct cuda_kinds {
	uint32_t cycled;   /* 1 << enum so_cuda_kind; 0: none */
	uint32_t together; /* if one of these is switched, so are the others; the caller's */
	double calls[SO_CUDA_KIND_COUNT],
		ns[SO_CUDA_KIND_COUNT]; /* ns: what they took, as in struct so_cuda_slot */
	double elapsed_s, on_s;         /* on: in which the cycled kinds counted as well */
};

/* Calls by kind, and what they took, each up to what has a stack of its own in any case (struct so_cuda_slot). */
struct cuda_kind_calls {
	uint64_t calls[SO_CUDA_KIND_COUNT], ns[SO_CUDA_KIND_COUNT];
};

/* What happened in elapsed_ns, of which the probes of the cycled kinds were there for on_ns. */
void cuda_kinds__add(struct cuda_kinds *kinds, const struct cuda_kind_calls *calls, uint64_t elapsed_ns,
		     uint64_t on_ns);
/* Calls in 1000 s if all kinds counted all the time. */
void cuda_kinds__rates(const struct cuda_kinds *kinds, struct cuda_kind_calls *rates);
/*
 * The kinds of which there are most, until what is left is a tenth of the calls at most, and `most` calls a second, of which one that takes
 * 0.1 ms on average, as waits do, counts half. All, where no
 * calls are known. Those that are switched and were not seen, in few times on, stay so. Sets `cycled`, and begins to count anew.
 */
void cuda_kinds__choose(struct cuda_kinds *kinds, double most);
/*
 * Whether others should be chosen: kinds that count all the time make more than a quarter of the calls, or half as many again as
 * `most`, or all kinds were chosen before any call was known, or some of those that go together; or kinds are switched of which there
 * are so few by now that even half as many again may stay.
 */
bool cuda_kinds__are_outgrown(const struct cuda_kinds *kinds, double most);

#endif
