/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of kernels, as the process gives them to the CUDA libraries. Such a call may be nested in a counted one. */
#ifndef STAKEOUT_BPF_CUDA_NAMES_H
#define STAKEOUT_BPF_CUDA_NAMES_H

#include "bpf/cuda/cuda_arguments.h"

static __always_inline __u64 argument(const struct arguments *ctx, __u32 i)
{
	return i == 1 ? ctx->rdi : i == 2 ? ctx->rsi : i == 3 ? ctx->rdx : i == 4 ? ctx->rcx : 0;
}

static __always_inline void tell_name(const struct so_cuda_call *c, __u32 namer, __u64 handle)
{
	struct so_cuda_name *n = bpf_ringbuf_reserve(&cuda_names, sizeof(*n), 0);

	if (!n) {
		lose(c->naming_cookie, SO_CUDA_LOSS_NAMES_FULL);
		return;
	}
	n->tgid = bpf_get_current_pid_tgid() >> 32;
	n->namer = namer;
	n->handle = handle;
	n->other = handle == c->handle ? 0 : c->handle;
	n->name[0] = 0;
	if (c->text)
		bpf_probe_read_user_str(n->name, sizeof(n->name), (void *)c->text);
	bpf_ringbuf_submit(n, 0);
}

/* A name that cannot be reported is read again in the next window, or never: then the kernel is shown as nameless. */
static __noinline int tell_handle(__u64 handle, __u64 other, __u32 namer)
{
	__u64 text = 0;
	struct so_cuda_name *n;

	if (bpf_probe_read_user(&text, sizeof(text), (void *)(handle + SO_CUDA_HANDLE_NAME_AT)))
		text = 0;
	n = bpf_ringbuf_reserve(&cuda_names, sizeof(*n), 0);
	if (!n)
		return 0;
	n->tgid = bpf_get_current_pid_tgid() >> 32;
	n->namer = namer;
	n->handle = handle;
	n->other = other;
	n->name[0] = 0;
	if (!text || bpf_probe_read_user_str(n->name, sizeof(n->name), (void *)text) < 0)
		n->name[0] = 0;
	bpf_ringbuf_submit(n, 0);
	return 0;
}

static __always_inline bool launches_handle(__u32 api)
{
	return calls_info[api].args == SO_CUDA_ARGS_CU_LAUNCH || calls_info[api].args == SO_CUDA_ARGS_CU_LAUNCH_CONFIG;
}

#define PAIRS_A_CPU 8

/* The runtime's launch of a host function makes the driver's of the handle that the function has there. */
static __always_inline void tell_pair(const struct so_cuda_call *c, struct so_cuda_slot *slot,
				      const struct arguments *a, __u32 api)
{
	if (slot->pairs >= PAIRS_A_CPU || !launches_handle(api) || !c->kernel)
		return;
	slot->pairs++;
	tell_handle(calls_info[api].args == SO_CUDA_ARGS_CU_LAUNCH ? a->rdi : a->rsi, c->kernel, SO_CUDA_READ_PAIR);
}

/* Not 0: the return is of no interest. */
static __always_inline int enter_namer(const struct arguments *ctx, struct so_cuda_call *c, __u64 cookie, __u32 namer)
{
	if (namer >= SO_CUDA_NAMER_COUNT)
		return 1;
	c->naming_cookie = cookie;
	c->naming_sp = ctx->rsp;
	c->out = argument(ctx, namers_info[namer].out);
	c->handle = argument(ctx, namers_info[namer].handle);
	c->text = argument(ctx, namers_info[namer].text);
	if (!c->out) {
		tell_name(c, namer, c->handle);
		return 1;
	}
	c->naming = 1;
	return 0;
}

static __always_inline void leave_namer(const struct pt_regs *ctx, struct so_cuda_call *c, __u32 namer)
{
	__u64 handle = 0;

	if (!c->naming || ctx->rsp != c->naming_sp + 8)
		return;
	c->naming = 0;
	if ((__u32)ctx->rax || bpf_probe_read_user(&handle, sizeof(handle), (void *)c->out))
		return;
	tell_name(c, namer, handle);
}

#endif
