/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What bpf/looks.bpf.c writes for each thread at a look, and how it is told which threads. */
#ifndef STAKEOUT_LOOKS_ABI_H
#define STAKEOUT_LOOKS_ABI_H

#include "stakeout/threads_abi.h"

/* Threads of all watched processes together. Those beyond are written out at each look, and have no stacks. */
#define SO_MAX_LOOKED_THREADS 65536

enum so_look_mode {
	SO_LOOK_CHANGED, /* threads that have run since the last look, or are about to */
	SO_LOOK_AGAIN,   /* those that were written out by the look before, without registers and kernel stack */
};

/* Value by thread: what the last look found. */
struct so_looked {
	__u64 switches;
	__u64 started_ns; /* so that a number that is used again is another thread */
	__u64 at_ns;      /* CLOCK_MONOTONIC: the last look */
	__u32 look;       /* the last one that wrote it out */
	__u32 state;
	__u32 on_cpu;
	__u32 epoch; /* of its process's watch */
};

/* One thread. A short record ends before `thread.fsbase`. */
struct so_look_record {
	__u32 bytes; /* of this record */
	__u32 tgid;
	__u64 at_ns;      /* CLOCK_MONOTONIC */
	__u64 before_ns;  /* the look before this one, at which it was as it was written out last; 0: there was none */
	__u64 started_ns; /* since boot */
	__u64 run_ns;     /* on a CPU, since it began (task_struct.se.sum_exec_runtime: up to a tick late) */
	__u64 delay_ns;   /* runnable, but not on a CPU (sched_info.run_delay) */
	__u64 same;       /* it has not run since the look before */
	struct so_thread thread;
};

#define SO_LOOK_SHORT_BYTES offsetof(struct so_look_record, thread.fsbase)

#endif
