/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program's own place while a uprobe, stakeout's or another tool's, is being handled:
 * - A one-byte breakpoint replaces the probed instruction. Until the kernel's handler runs, the saved address is that
 *   of the next byte.
 * - Most instructions are then single-stepped as copies in a page of the process ([uprobes] in /proc/PID/maps).
 *   Registers are unchanged, except that an instruction with a rip-relative operand has its base address in rsi, rdi or
 *   rbx.
 * - A function with a return probe returns to the start of that page.
 */
#ifndef STAKEOUT_BPF_PROBED_H
#define STAKEOUT_BPF_PROBED_H

#include <stdbool.h>

#include "bpf/return_probes.h"

#define PROBE_PAGE_BYTES        4096
#define PROBE_SLOT_BYTES        128 /* UPROBE_XOL_SLOT_BYTES */
#define PROBE_TRAMPOLINE_PUSHED 24  /* registers that the trampoline saves for a system call, since 6.11 */
#define BREAKPOINT_BYTE         0xcc

/*
 * Replaces an address in that page, and the stack pointer, by the program's own: those at the probed instruction, or
 * those in the caller after a probed return. utask: the task's, not NULL. Returns whether there was something to
 * replace.
 */
static __attribute__((noinline, unused)) bool leave_probe_page(struct task_struct *task, struct uprobe_task *utask,
							       __u64 *pc, __u64 *sp)
{
	__u64 page = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr), copy, at;
	struct return_instance *instance;

	if (!page || *pc - page >= PROBE_PAGE_BYTES)
		return false;
	copy = BPF_CORE_READ(utask, xol_vaddr);
	if (copy && *pc - copy < PROBE_SLOT_BYTES) {
		*pc = BPF_CORE_READ(utask, vaddr) + (*pc - copy);
		return true;
	}
	instance = BPF_CORE_READ(utask, return_instances);
	at = instance ? BPF_CORE_READ(instance, stack) + 8 : 0;
	if (!at || at - *sp > PROBE_TRAMPOLINE_PUSHED)
		return false;
	*pc = BPF_CORE_READ(instance, orig_ret_vaddr);
	*sp = at;
	return true;
}

/*
 * Whether the address that an exception of a probed thread saved follows a breakpoint that has not been handled yet. A
 * handler first sets it back to the breakpoint; a padding byte before a function can look like one, so the byte at the
 * address must be another. A one-byte instruction that has just been emulated looks the same for a moment.
 */
static __always_inline bool is_behind_breakpoint(__u64 pc)
{
	__u8 code[2];

	return !bpf_probe_read_user(code, sizeof(code), (const void *)(pc - 1)) && code[0] == BREAKPOINT_BYTE &&
	       code[1] != BREAKPOINT_BYTE;
}

#endif
