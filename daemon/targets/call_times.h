/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The latest CUDA calls of a target that took long, and the launches that these waited for, each with its time. */
#ifndef STAKEOUT_CALL_TIMES_H
#define STAKEOUT_CALL_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/sampler_abi.h"

/* What is shorter is not reported: launches are tens of thousands a second, and take some microseconds. */
#define CALL_TIMES_TELL_NS 50000
#define CALL_TIMES_ROOM    32768

struct call_time {
	uint64_t begin_ns, ns; /* CLOCK_MONOTONIC; ns 0: a launch that was not timed */
	uint64_t bytes;
	uint64_t kernel, stream;   /* as in struct so_call_record */
	uint64_t awaited_begin_ns; /* of a wait: when the launch that it waited for began; 0: not known */
	uint32_t awaited_tid;      /* and which thread made it */
	uint32_t tgid, tid;
	uint16_t api; /* enum so_cuda_api */
	bool has_stream;
	uint32_t missed; /* others before it */
};

/* All zero is an empty one. */
struct call_times {
	struct call_time *ring;
	size_t n, room, next;
	uint64_t gone_ns;    /* those that ended until then may be missing: they were the oldest; 0: none are */
	uint64_t partial_ns; /* the latest moment at which not all calls were timed; 0: always */
};

/* One that finds no memory is missed. */
void call_times__add(struct call_times *c, const struct so_call_record *record);
/* Those that ended later. -ENOMEM. */
int call_times__copy(const struct call_times *c, uint64_t since_ns, struct call_times *to);
size_t call_times__bytes(const struct call_times *c);
void call_times__release(struct call_times *c);

#endif
