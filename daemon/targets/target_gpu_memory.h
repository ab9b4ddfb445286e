/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of the memory that a target's PyTorch has on GPUs (gpu_memory.h). */
#ifndef STAKEOUT_TARGET_GPU_MEMORY_H
#define STAKEOUT_TARGET_GPU_MEMORY_H

#include "daemon/memory/memory_series.h"
#include "daemon/profile/accumulator.h"

/* A process that was looked at, with the probes in its libc10; link NULL: it has none. */
struct gpu_memory_process {
	pid_t pid;
	unsigned execs; /* programs it had executed then */
	struct torch_link *link;
	bool refused; /* its libc10 is none that can be watched: it is not read again */
};

/* All zero: it was never watched so. */
struct target_gpu_memory {
	bool asked;     /* the target, or this view, was attached so, */
	bool wanted;    /* and has not ended, */
	unsigned views; /* or by so many of its views */
	bool on;        /* so it is watched */
	bool maps;      /* what was seen is in the kernel's maps of its slot */
	uint64_t on_ns, end_ns, next_tick_ns, next_raise_ns;
	/* At the last tick; the last one at the last raise. */
	uint64_t looked_ns, cpu_before, run_before, hits_before, stacks_at_raise;
	uint64_t cost_ns, time_ns;   /* what the probes took of the target's time, of its CPU time or what went by */
	uint64_t lost;               /* stacks that there was no memory for */
	struct accumulator stacks;   /* no counters */
	struct u64_table copies;     /* of processes with devices that were forked: whose memory they have a copy of */
	struct memory_series series; /* anonymous: the least that was allocated since the last tick; file: reserved */
	struct memory_series shown;  /* the same without processes that are hidden from the target's user */
	struct gpu_memory_process *processes;
	size_t n_processes, capacity;
	bool linked;                   /* some process had probes */
	char problem[256];             /* why the last one that might have had some had none; "": none */
	struct gpu_memory_taken *kept; /* of a view whose target has ended: what was known then; NULL: nothing is */
	uint32_t kept_of;              /* that target's id */
};

#endif
