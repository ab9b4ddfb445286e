/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Of which calls the stack is taken, by what stacks may cost. Each kind is to have its stacks, and calls that take
 * long have a share as if they were one kind more: a wait may be rare among many calls of its kind. What is rare
 * keeps most of its stacks, and what is frequent gives way. No clock, no I/O.
 */
#ifndef STAKEOUT_CUDA_STACK_PLAN_H
#define STAKEOUT_CUDA_STACK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cuda_abi.h"

#define CUDA_STACKS_PER_S 200.0 /* of a kind whose calls are many and alike, and of long calls */

struct cuda_stack_plan {
	uint32_t period[SO_CUDA_KIND_ROOM]; /* for struct so_cuda_control */
	uint64_t time_ns;                   /* for all kinds */
	bool fewer;                         /* than are wanted */
};

/* By kind: rate, timed calls a second; busy, ns of threads in them a second. most: stacks a second; INFINITY: any. */
void cuda_stack_plan__make(const double rate[SO_CUDA_KIND_ROOM], const double busy[SO_CUDA_KIND_ROOM], double most,
			   struct cuda_stack_plan *out);

#endif
