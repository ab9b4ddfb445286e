/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of allocators that the processes of targets make (.design/allocations.md): probes on malloc and its like in
 * each of their files, also where these are loaded later, and in what is forked later. With the engine's lock held, but
 * for allocations__load(), allocations__find() and allocations__read().
 */
#ifndef STAKEOUT_ALLOCATIONS_H
#define STAKEOUT_ALLOCATIONS_H

#include "daemon/kernel/alloc_calibration.h"
#include "daemon/memory/alloc_lives.h"
#include "daemon/processes/process_table.h"
#include "daemon/processes/scan_queue.h"
#include "daemon/targets/targets.h"

/* Of the target's time, what its probes may take. Beyond it they are there in windows only. */
#define ALLOCATIONS_PERCENT 3

/* Targets that are watched so at a time; those of all users other than root, and of one. */
#define ALLOCATIONS_MAX       16
#define ALLOCATIONS_MAX_USERS 12
#define ALLOCATIONS_MAX_USER  4

#define ALLOCATIONS_STACK_BYTES (16u << 20) /* of one target */

struct allocations {
	struct alloc_probes *probes; /* loaded when first needed */
	struct alloc_prices prices;  /* of a hit of theirs */
	struct process_table *processes;
	struct targets *targets;
	struct scan_queue *scans;
};

/* Without the lock. -ENOTSUP, in words. */
int allocations__load(struct allocations *a, const struct sampler *sampler, struct so_error *err);
void allocations__free(struct allocations *a);

/*
 * A target, or a view of one, wants it; before its processes are scanned. -ENOSPC: too many do, in words; -errno: of
 * the kernel.
 */
int allocations__begin(struct allocations *a, struct target *t, struct so_error *err);
/* It does not any more; what was seen stays, */
void allocations__end(struct allocations *a, struct target *t);
/* until this, before the target loses its slot. */
void allocations__forget(struct allocations *a, struct target *t);
void allocations__release(struct target_allocations *allocations);

/*
 * For scanner.c: what is to be found in the process, NULL: nothing; then, without the lock, finds it in its files; then
 * places the probes. The last one takes it in any case; tgid 0: it is not wanted any more.
 */
struct allocations_found;
struct allocations_found *allocations__wants(const struct allocations *a, pid_t tgid);
void allocations__find(struct allocations_found *found, const struct process_scan *scan);
void allocations__add(struct allocations *a, pid_t tgid, struct allocations_found *found);

/* For collector.c: a stack that was sent; NULL: it has not come. */
void allocations__stack(struct allocations *a, const struct so_torch_record *record, const struct stack *stack);
/* Returns when it wants to be called again; UINT64_MAX: nothing is watched. */
uint64_t allocations__tick(struct allocations *a, uint64_t now_ns);

/* Of a target, or of a view, for work without the lock. */
struct allocations_taken {
	uint64_t since_ns, end_ns; /* of the time that is known */
	bool ended;                /* the target has */
	struct alloc_maps maps;
	struct so_alloc_slot slot;
	struct allocations_spent spent;
	struct allocations_windows windows;
	uint64_t seen_ns, lost;
	struct accumulator stacks;
	struct alloc_lives lives; /* empty until allocations__look_who_lives() */
	char *series;             /* memory_series__text() */
	bool linked;
	char problem[256];
	struct alloc_reading reading; /* empty until allocations__read() */
};
/* As of now. -ENODATA: it is not watched so, in words; -ENOMEM. To be released in any case, also if it failed. */
int allocations__take(struct allocations *a, struct target *t, struct allocations_taken *out, struct so_error *err);
/* Without the lock: all blocks, in milliseconds. */
int allocations__read(struct allocations_taken *taken);
/* With it: since when the processes in the reading have their memory. */
void allocations__look_who_lives(const struct allocations *a, struct allocations_taken *taken);
void allocations_taken__release(struct allocations_taken *taken);

#endif
