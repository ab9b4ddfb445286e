/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What bpf/threads.bpf.c writes for each thread. */
#ifndef STAKEOUT_THREADS_ABI_H
#define STAKEOUT_THREADS_ABI_H

#include "stakeout/abi.h"

struct so_thread {
	__u32 tid;
	__u32 state;    /* task_struct.__state: 0 runnable, 1 interruptible, 2 uninterruptible, ... (linux/sched.h) */
	__u32 on_cpu;   /* it runs right now: its registers are those of its last entry into the kernel */
	__u32 user;     /* pc and regs are there */
	__u64 switches; /* context switches so far: unchanged means that it has not run */
	char comm[16];
	__u64 fsbase;
	__u64 pc;
	__s64 syscall; /* that it is in; -1: none, as in a page fault */
	__u64 regs[SO_NREGS];
	__u32 n_kernel;
	__u32 pad;
	__u64 kernel[SO_MAX_KERNEL_FRAMES];
	struct so_return_probe returns[SO_MAX_RETURN_PROBES];
};

#endif
