/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CUDA calls of the targets that asked for them: probes on their libraries as found. Engine's lock held unless said. */
#ifndef STAKEOUT_CUDA_TARGETS_H
#define STAKEOUT_CUDA_TARGETS_H

#include <jansson.h>
#include <pthread.h>

#include "daemon/processes/process_table.h"
#include "daemon/profile/accumulator.h"
#include "stakeout/error.h"

#define TARGET_CUDA_STACK_BYTES (64u << 20) /* a target's stacks of CUDA calls; beyond: calls without a line */
#define TARGET_CUDA_STACKS      3           /* cuda_targets__stacks() */

struct cuda_found;
struct cuda_mark;
struct cuda_taken;
struct cuda_targets;
struct cuda_watch;
struct pending_stacks;
struct scan_queue;
struct target;

/* A target's own part: for the files of this header alone. A view has the calls of its target since it began. */
struct target_cuda {
	struct cuda_watch *watch;           /* NULL: not watched, or a view */
	struct cuda_taken *base;            /* of a view: what its target had when it began */
	struct cuda_taken *end;             /* once it has ended */
	struct cuda_mark *mark, *next_mark; /* what the windows have had; with the window that is being built */
	struct accumulator stacks;          /* of calls, without counters */
	unsigned users;                     /* itself, and its views */
	bool wanted;                        /* asked for at attach */
};

struct cuda_targets_parts {
	pthread_mutex_t *lock;   /* the engine's */
	struct target **targets; /* by slot */
	struct sampler *sampler;
	struct file_registry *files;
	struct process_table *processes;
	struct pending_stacks *pending;
	struct scan_queue *scans;
};

static inline size_t target_cuda__bytes(const struct target_cuda *c)
{
	return c->stacks.bytes;
}

/* -ENOMEM. */
int cuda_targets__new(const struct cuda_targets_parts *parts, struct cuda_targets **out);
void cuda_targets__free(struct cuda_targets *c);
/* Loads the probes' programs if need be. Without the lock. */
int cuda_targets__load(struct cuda_targets *c, struct so_error *err);
/* After a drain, so that what the slot's target before left is gone. */
int cuda_targets__begin(struct cuda_targets *c, struct target *t, double budget_percent, struct so_error *err);
/* Its sampling begins: calls count from here on. Those of a target that is sampled already count from its beginning. */
void cuda_targets__count(struct target *t);
/* No call counts from here on, so that the drain that follows has the lines of all that were counted. */
void cuda_targets__stop(struct target *t);
void cuda_targets__end(struct cuda_targets *c, struct target *t);
void cuda_targets__free_target(struct target *t);
/* Whether the process's libraries are to be looked at. */
bool cuda_targets__wants(struct cuda_targets *c, pid_t tgid);
/* Finds CUDA's functions in the files that a process maps: without the lock. */
struct cuda_found *cuda_targets__find(struct cuda_targets *c, const struct process_scan *scan);
void cuda_targets__add(struct cuda_targets *c, pid_t tgid, struct cuda_found *found);
/* After the latter, without the lock. Frees what was found. */
void cuda_targets__load_callers(struct cuda_targets *c, struct cuda_found *found);
void cuda_targets__forked(struct cuda_targets *c, pid_t parent, pid_t child);
/* It has ended, or executes another program; its mappings are still those of before. */
void cuda_targets__process_gone(struct cuda_targets *c, struct target *t, pid_t tgid);
/* Returns when it wants to be called again. */
uint64_t cuda_targets__tick(struct cuda_targets *c, uint64_t now_ns);
void cuda_targets__drain(struct cuda_targets *c);
/* Files were closed: what is known of them by device and inode may be another file's from now on. */
void cuda_targets__forget_files(struct cuda_targets *c);
/* No target is left. */
void cuda_targets__forget_names(struct cuda_targets *c);

bool cuda_targets__watches(const struct target *t);
/* The stacks that a target keeps, i from 0 to TARGET_CUDA_STACKS - 1; NULL: none. Borrowed. */
const struct accumulator *cuda_targets__stacks(const struct target *t, unsigned i);
/* The slowdown by probes in percent, or null. New reference. */
json_t *cuda_targets__overhead(const struct target *t);
/* NVML's word on the GPUs for the time of what was taken; NULL: see `problem`. New reference. Without the lock. */
json_t *cuda_targets__gpu(struct cuda_targets *c, const struct cuda_taken *taken, char *problem);
/* The processes of a target that have CUDA; malloc'ed. -ENODATA: its calls are not timed; -ENOMEM. */
int cuda_targets__pids(const struct target *t, pid_t **out, size_t *n);
/* Mean utilisation since then of the GPUs that they have memory of; negative: not known. Without the lock. */
double cuda_targets__gpu_percent(struct cuda_targets *c, const pid_t *pids, size_t n, uint64_t since_ns);
/* A GPU's utilisation over time, as nvml__series() has it. Without the lock. */
int cuda_targets__gpu_series(struct cuda_targets *c, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out);

#endif
