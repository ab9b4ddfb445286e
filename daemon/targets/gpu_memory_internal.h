/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of gpu_memory.h have in common. With the engine's lock. */
#ifndef STAKEOUT_GPU_MEMORY_INTERNAL_H
#define STAKEOUT_GPU_MEMORY_INTERNAL_H

#include "daemon/targets/gpu_memory.h"

/* gpu_memory_processes.c. NULL: it is not known. */
struct gpu_memory_process *gpu_memory_find_process(const struct target_gpu_memory *memory, pid_t pid);
/* Asks for scans of those that may have a libc10 by now; takes the probes of those away that have ended. */
void gpu_memory_look_at_processes(struct gpu_memory *g, struct target *t);

/* gpu_memory_shares.c. -ENOSPC, in words. May forget what is kept of another one that has ended. */
int gpu_memory_take_share(struct gpu_memory *g, const struct target *t, struct so_error *err);

/*
 * gpu_memory_copy.c: what is known of the target that takes the samples, and the same of what a view has kept. -ENOMEM,
 * -errno; *out is to be released in any case.
 */
int gpu_memory_copy(struct gpu_memory *g, const struct target *t, struct gpu_memory_taken *out);
int gpu_memory_copy_kept(const struct gpu_memory_taken *kept, struct gpu_memory_taken *out);
/* What a view has kept goes. */
void gpu_memory_drop_kept(struct target_gpu_memory *memory);

/* gpu_memory.c: a reading of the devices and of what it costs, as at each tick. Of a target that is watched. */
void gpu_memory_look(struct gpu_memory *g, struct target *t, uint64_t now_ns);

#endif
