/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel types with the fields used. preserve_access_index: offsets come from the running kernel's BTF (CO-RE). */
#ifndef STAKEOUT_BPF_KERNEL_TYPES_H
#define STAKEOUT_BPF_KERNEL_TYPES_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

/* The page where copies of probed instructions are run; functions that a return probe waits for return to its begin. */
struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	unsigned long flags;       /* before 6.18 */
	unsigned long start_stack; /* where the main thread's stack began: argc and what lies above it */
	struct uprobes_state uprobes_state;
};

/* A function that a return probe waits for: the kernel keeps the address that it replaced on the stack. */
struct return_instance {
	unsigned long stack; /* the stack pointer where the function began: where the address lies */
	unsigned long orig_ret_vaddr;
	struct return_instance *next; /* an outer one */
};

struct uprobe_task {
	struct return_instance *return_instances; /* the innermost one */
	unsigned long vaddr;                      /* of the instruction whose copy is run, and where that copy lies: */
	unsigned long xol_vaddr;
};

/* Since 6.18. */
struct mm_struct___bitmap {
	struct {
		unsigned long __mm_flags[1];
	} flags;
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

/* Since 6.3; before, two words of 32 bits in the same order (little-endian). */
typedef struct {
	__u64 val;
} kernel_cap_t;

struct user_namespace {
	int level; /* 0: the first one */
};

struct cred {
	kuid_t uid, suid, euid;
	kgid_t gid, sgid, egid;
	kernel_cap_t cap_permitted;
	struct user_namespace *user_ns;
};

struct signal_struct {
	atomic_t live; /* threads of the group that have not begun to exit */
};

struct thread_struct {
	unsigned long fsbase;
};

struct sched_entity {
	__u64 sum_exec_runtime; /* ns on a CPU */
};

struct sched_info {
	unsigned long long run_delay; /* ns runnable, but not on a CPU; there with CONFIG_SCHED_INFO */
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	int on_cpu;
	unsigned long nvcsw, nivcsw;    /* context switches, voluntary and not */
	unsigned long min_flt, maj_flt; /* page faults that have ended */
	char comm[16];
	void *stack;
	struct mm_struct *mm;
	const struct cred *real_cred; /* that others see and check */
	struct signal_struct *signal;
	struct uprobe_task *utask;
	__u64 start_time; /* ns since boot */
	struct sched_entity se;
	struct sched_info sched_info;
	struct thread_struct thread;
};

#pragma clang attribute pop

/* Saved user registers, x86-64 (arch/x86/include/asm/ptrace.h: part of the kernel's ABI to perf and ptrace). */
struct pt_regs {
	unsigned long r15, r14, r13, r12, rbp, rbx;
	unsigned long r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	unsigned long orig_rax, rip, cs, flags, rsp, ss;
};

/* Context of a perf_event program (include/uapi/linux/bpf_perf_event.h). */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#endif
