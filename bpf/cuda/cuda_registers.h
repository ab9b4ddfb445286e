/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A function's arguments at its entry, in registers and on the stack: System V psABI x86-64. */
#ifndef STAKEOUT_BPF_CUDA_REGISTERS_H
#define STAKEOUT_BPF_CUDA_REGISTERS_H

#include <stdbool.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "bpf/kernel_types.h"
#include "stakeout/cuda_api.h"

struct arguments {
	__u64 rdi, rsi, rdx, rcx, r8, r9, rsp;
};

#define REGISTER(name) (*(volatile const unsigned long *)&ctx->name)

/* One load each: the verifier takes no pointer into the context that depends on anything, as compilers like to make. */
static __always_inline void read_registers(const struct pt_regs *ctx, struct arguments *a)
{
	a->rdi = REGISTER(rdi);
	a->rsi = REGISTER(rsi);
	a->rdx = REGISTER(rdx);
	a->rcx = REGISTER(rcx);
	a->r8 = REGISTER(r8);
	a->r9 = REGISTER(r9);
	a->rsp = REGISTER(rsp);
}

static __always_inline __u64 stack_argument(const struct arguments *ctx, __u32 i)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)(ctx->rsp + 8 + i * 8));
	return value;
}

static __always_inline void read_words(void *to, __u32 bytes, __u64 address)
{
	if (bpf_probe_read_user(to, bytes, (void *)address))
		__builtin_memset(to, 0, bytes);
}

static __always_inline __u32 direction_of(__u64 kind)
{
	return kind <= SO_CUDA_DIRECTION_DEFAULT ? (__u32)kind : SO_CUDA_DIRECTION_DEFAULT;
}

#endif
