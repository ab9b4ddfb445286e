/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of GPUs that PyTorch's caching allocator gives to targets (.design/gpu-memory.md): probes in each process's
 * libc10, also where that is loaded later, and in what is forked later. With the engine's lock held, but for
 * gpu_memory__load(), gpu_memory__find() and gpu_memory__read().
 */
#ifndef STAKEOUT_GPU_MEMORY_H
#define STAKEOUT_GPU_MEMORY_H

#include "daemon/kernel/torch_probes.h"
#include "daemon/processes/process_table.h"
#include "daemon/processes/scan_queue.h"
#include "daemon/targets/targets.h"

/*
 * Of the target's time, what the stacks of its allocations may take: of one that is kept, and of a look of seconds.
 * Beyond it they are taken of one in so many. Probes without stacks come on top.
 */
#define GPU_MEMORY_STANDING_PERCENT 1
#define GPU_MEMORY_LOOK_PERCENT     3

/* Targets that are watched so at a time; those of all users other than root, and of one. */
#define GPU_MEMORY_MAX       16
#define GPU_MEMORY_MAX_USERS 12
#define GPU_MEMORY_MAX_USER  4

#define GPU_MEMORY_STACK_BYTES (16u << 20) /* of one target */

struct gpu_memory {
	struct torch_probes *probes; /* loaded when first needed */
	struct process_table *processes;
	struct targets *targets;
	struct scan_queue *scans;
};

/* Without the lock. -ENOTSUP, in words. */
int gpu_memory__load(struct gpu_memory *g, const struct sampler *sampler, struct so_error *err);
void gpu_memory__free(struct gpu_memory *g);

/*
 * A target, or a view of one, wants it; before its processes are scanned. -ENOSPC: too many do, in words; -errno: of
 * the kernel.
 */
int gpu_memory__begin(struct gpu_memory *g, struct target *t, struct so_error *err);
/* Before a target ends, and its views with it: these keep what was seen. */
void gpu_memory__keep(struct gpu_memory *g, const struct target *t);
/* It does not any more; what was seen stays, */
void gpu_memory__end(struct gpu_memory *g, struct target *t);
/* until this, before the target loses its slot. */
void gpu_memory__forget(struct gpu_memory *g, struct target *t);
void gpu_memory__release(struct target_gpu_memory *memory);

/* For scanner.c: whether the process is to be looked at; what its files have, without the lock; the probes. */
struct gpu_memory_found;
bool gpu_memory__wants(const struct gpu_memory *g, pid_t tgid);
struct gpu_memory_found *gpu_memory__find(const struct process_scan *scan);
/* tgid 0: it is not wanted any more. Takes `found`, which may be NULL. */
void gpu_memory__add(struct gpu_memory *g, pid_t tgid, struct gpu_memory_found *found);

/* For process_life.c: the process has executed another program. */
void gpu_memory__executed(struct gpu_memory *g, struct target *t, pid_t tgid);

/* For collector.c: a stack that was sent; NULL: it has not come. */
void gpu_memory__stack(struct gpu_memory *g, const struct so_torch_record *record, const struct stack *stack);
/* Returns when it wants to be called again; UINT64_MAX: nothing is watched. */
uint64_t gpu_memory__tick(struct gpu_memory *g, uint64_t now_ns);

/* How often memory was refused to the target, or the target of a view; 0 also where it is not watched so. */
uint64_t gpu_memory__refused(struct gpu_memory *g, const struct target *t);

/* Of a target, or of a view, for work without the lock. */
struct gpu_memory_taken {
	uint64_t since_ns, end_ns; /* of the time that is known */
	bool ended;                /* the target has */
	struct torch_maps maps;
	struct so_torch_slot slot;
	uint64_t cost_ns, time_ns, lost;
	struct accumulator stacks;
	struct u64_table gone;   /* processes of the target that have ended, where it has not */
	struct u64_table copies; /* processes that were forked, by number: whose memory they have a copy of */
	char *series, *shown;    /* memory_series__text(); the second without processes hidden from the target's user */
	bool linked;
	char problem[256];
	struct torch_reading reading; /* empty until gpu_memory__read() */
};
/* As of now. -ENODATA: it is not watched so, in words; -ENOMEM. To be released in any case, also if it failed. */
int gpu_memory__take(struct gpu_memory *g, struct target *t, struct gpu_memory_taken *out, struct so_error *err);
/* Without the lock: all blocks, in milliseconds. */
int gpu_memory__read(struct gpu_memory_taken *taken);
/* With it: which of the processes in the reading have ended. */
void gpu_memory__look_who_lives(const struct gpu_memory *g, struct gpu_memory_taken *taken);
void gpu_memory_taken__release(struct gpu_memory_taken *taken);

#endif
