/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the samples that are the cost of stakeout's own uprobes: the kernel's handling of a probe (the trap, the single
 * step) and the BPF program that it runs.
 *
 * Kernel frames show that a uprobe is being handled. Whose it is follows from the BPF program, by its name, which also
 * covers probes of another stakeoutd. Samples without a BPF frame are attributed by evidence from others: a program of
 * stakeout's was sampled at the same instruction, or was the only kind sampled at probes of that process.
 */
#ifndef STAKEOUT_PROBE_TIME_H
#define STAKEOUT_PROBE_TIME_H

#include <stdbool.h>

#include "daemon/os/u64_table.h"
#include "daemon/profile/accumulator.h"

/* The role of a kernel function in handling uprobes. Those of a stack are or-ed. */
enum probe_part {
	PROBE_NONE = 0,
	PROBE_HANDLING = 1 << 0,
	PROBE_OWN_PROGRAM = 1 << 1,
	PROBE_OTHER_PROGRAM = 1 << 2,
	PROBE_SYSTEM_CALL =
		1 << 3, /* any system call; return probes make one from instructions of the program that are none */
};

/* name: as /proc/kallsyms has it, with " [module]"; NULL: it has none. */
enum probe_part probe_part_of(const char *name);

/* All zero is none. */
struct probe_evidence {
	struct u64_table places;    /* user frames at which a program of stakeout's was sampled */
	struct u64_table processes; /* by process: whose programs were sampled, enum probe_part */
};

/* parts: of the stack's kernel frames. Out of memory: the evidence is lost. */
void probe_evidence__add(struct probe_evidence *e, const struct stack *stack, unsigned parts);
bool probe_evidence__is_own(const struct probe_evidence *e, const struct stack *stack, unsigned parts);
void probe_evidence__release(struct probe_evidence *e);

#endif
