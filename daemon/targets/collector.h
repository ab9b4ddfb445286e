/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that comes up from the kernel: stacks, counts, samples to unwind here, and what processes do. Whoever is
 * to answer something collects first. With the engine's lock held.
 */
#ifndef STAKEOUT_COLLECTOR_H
#define STAKEOUT_COLLECTOR_H

#include "daemon/targets/allocations.h"
#include "daemon/targets/gpu_memory.h"
#include "daemon/targets/memory_watch.h"
#include "daemon/targets/pending_stacks.h"
#include "daemon/targets/process_life.h"
#include "daemon/targets/thread_namer.h"
#include "daemon/targets/user_unwind.h"

/* A sample that waits for its process's mappings to be read. */
struct waiting_sample {
	struct waiting_sample *next;
	uint64_t arrived_ns;
	struct python_functions *functions; /* those of its Python frames, which have been read; a reference */
	struct so_raw_record record;
};

struct collector {
	struct process_life life;
	struct user_unwind unwind;
	struct pending_stacks *pending;
	struct learn_notes *notes;
	struct thread_namer *namer;
	struct jit_names *jits;
	struct waits *waits;
	struct memory_watch *memory;
	struct gpu_memory *gpu_memory;
	struct allocations *allocations;
	size_t generation_bytes; /* generations.h */
	struct waiting_sample *waiting, **waiting_end;
	size_t n_waiting;
	uint64_t next_unwind_ns;
	uint64_t last_drain_ns;
	uint64_t drains; /* that succeeded */
};

/* What the sampler is to call, with the collector as context. */
extern const struct sampler_handlers collector_handlers;

/* The samples that wait. */
void collector__forget(struct collector *c);

/* What waits in the kernel's rings. */
void collector__take_input(struct collector *c);
/* Ends a window of the kernel's maps: all that was sampled until now is counted. 0, or the error of reading them. */
int collector__drain(struct collector *c);
/* For figures that may be 20 ms old: one answer about all targets drains once. */
int collector__drain_unless_fresh(struct collector *c);
/* Unwinds the samples whose process has been looked at since they were taken, or will not be any more. */
void collector__unwind_waiting(struct collector *c);
/* The same at times. Returns when it wants to be called again; UINT64_MAX: nothing waits. */
uint64_t collector__tick(struct collector *c, uint64_t now_ns);
/* Samples of a target that still wait for mappings get what is known now. */
void collector__hurry_waiting(struct collector *c, uint32_t slot);

#endif
