/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A thread's user registers, x86-64: where the kernel keeps them, and their order in stakeout's own records. */
#ifndef STAKEOUT_BPF_REGISTERS_H
#define STAKEOUT_BPF_REGISTERS_H

#include "bpf/kernel_types.h"
#include "stakeout/abi.h"

#define CODE_SEGMENT_USER64 0x33   /* __USER_CS, arch/x86/include/asm/segment.h */
#define CODE_SEGMENT_RPL    3      /* 0: interrupted in the kernel */
#define NO_SYSTEM_CALL      (~0ul) /* pt_regs.orig_rax after exceptions and interrupts */
#define KERNEL_STACK_BYTES  16384  /* THREAD_SIZE of x86-64, used only where bpf_task_pt_regs (5.15) is missing */

/* to: SO_NREGS words */
static __always_inline void copy_regs(__u64 *to, const struct pt_regs *regs)
{
	to[SO_REG_RAX] = regs->rax;
	to[SO_REG_RDX] = regs->rdx;
	to[SO_REG_RCX] = regs->rcx;
	to[SO_REG_RBX] = regs->rbx;
	to[SO_REG_RSI] = regs->rsi;
	to[SO_REG_RDI] = regs->rdi;
	to[SO_REG_RBP] = regs->rbp;
	to[SO_REG_RSP] = regs->rsp;
	to[SO_REG_R8] = regs->r8;
	to[SO_REG_R9] = regs->r9;
	to[SO_REG_R10] = regs->r10;
	to[SO_REG_R11] = regs->r11;
	to[SO_REG_R12] = regs->r12;
	to[SO_REG_R13] = regs->r13;
	to[SO_REG_R14] = regs->r14;
	to[SO_REG_R15] = regs->r15;
}

#endif
