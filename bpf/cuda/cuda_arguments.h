/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a CUDA call's arguments tell (stakeout/cuda_api.h). A stream on the stack: once in STREAM_INTERVAL launches, and
 * always where calls are reported by themselves.
 */
#ifndef STAKEOUT_BPF_CUDA_ARGUMENTS_H
#define STAKEOUT_BPF_CUDA_ARGUMENTS_H

#include "bpf/cuda/cuda_maps.h"
#include "bpf/cuda/cuda_rare.h"
#include "bpf/cuda/cuda_registers.h"

#define STREAM_INTERVAL 64

static __always_inline void set_stream(struct so_cuda_call *c, __u64 stream)
{
	c->stream = stream;
	c->has_stream = 1;
}

static __always_inline void set_dimensions(struct so_cuda_call *c, __u64 xy, __u64 z, __u64 block_xy, __u64 block_z)
{
	c->grid[0] = (__u32)xy;
	c->grid[1] = (__u32)(xy >> 32);
	c->grid[2] = (__u32)z;
	c->block[0] = (__u32)block_xy;
	c->block[1] = (__u32)(block_xy >> 32);
	c->block[2] = (__u32)block_z;
}

/* cudaLaunchConfig_t and CUlaunchConfig begin alike: grid and block, shared memory, and at 32 the stream. */
static __noinline int read_launch_config(struct so_cuda_call *c, __u64 config)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared, stream;
	} words;

	if (!c)
		return 0;
	read_words(&words, sizeof(words), config);
	__builtin_memcpy(c->grid, words.grid, sizeof(c->grid));
	__builtin_memcpy(c->block, words.block, sizeof(c->block));
	set_stream(c, words.stream);
	return 0;
}

static __always_inline void read_launch(struct so_cuda_call *c, const struct arguments *ctx, __u64 cookie, __u32 args)
{
	bool with_stream = c->seen++ % STREAM_INTERVAL == 0 || is_told(cookie);

	if (args == SO_CUDA_ARGS_LAUNCH) {
		c->kernel = ctx->rdi;
		set_dimensions(c, ctx->rsi, ctx->rdx, ctx->rcx, ctx->r8);
		if (with_stream)
			set_stream(c, stack_argument(ctx, 1));
	} else if (args == SO_CUDA_ARGS_CU_LAUNCH) {
		c->kernel = ctx->rdi;
		set_dimensions(c, (__u32)ctx->rsi | ctx->rdx << 32, ctx->rcx, (__u32)ctx->r8 | ctx->r9 << 32, 1);
		c->block[2] = (__u32)stack_argument(ctx, 0);
		if (with_stream)
			set_stream(c, stack_argument(ctx, 2));
	} else {
		c->kernel = ctx->rsi;
		read_launch_config(c, ctx->rdi);
	}
}

/* By the memory types of the driver's descriptors: host 1, device 2, array 3, unified 4. */
static __always_inline __u32 direction_between(__u32 from, __u32 to)
{
	if (from == 4 || to == 4 || from < 1 || from > 4 || to < 1 || to > 4)
		return SO_CUDA_DIRECTION_DEFAULT;
	if (from == 1)
		return to == 1 ? SO_CUDA_DIRECTION_HTOH : SO_CUDA_DIRECTION_HTOD;
	return to == 1 ? SO_CUDA_DIRECTION_DTOH : SO_CUDA_DIRECTION_DTOD;
}

/* Offsets: cudaMemcpy3DParms in driver_types.h; CUDA_MEMCPY2D, CUDA_MEMCPY3D in cuda.h. */
static __noinline int read_copy_descriptor(struct so_cuda_call *c, __u64 at, __u32 args)
{
	__u64 size[3] = { 0, 1, 1 };
	__u32 from = 0, to = 0;

	if (!c)
		return 0;
	if (args == SO_CUDA_ARGS_COPY_3D) {
		read_words(size, sizeof(size), at + 128);
		read_words(&from, sizeof(from), at + 152);
		c->direction = direction_of(from);
	} else if (args == SO_CUDA_ARGS_CU_COPY_2D) {
		read_words(size, 16, at + 112);
		read_words(&from, sizeof(from), at + 16);
		read_words(&to, sizeof(to), at + 72);
		c->direction = direction_between(from, to);
	} else {
		read_words(size, sizeof(size), at + 176);
		read_words(&from, sizeof(from), at + 32);
		read_words(&to, sizeof(to), at + 120);
		c->direction = direction_between(from, to);
	}
	c->bytes = size[0] * size[1] * size[2];
	return 0;
}

/* is_async: it has a stream. */
static __always_inline void read_copy(struct so_cuda_call *c, const struct arguments *ctx, __u32 args, bool is_async)
{
	__u64 stream = 0;

	switch (args) {
	case SO_CUDA_ARGS_COPY:
		c->bytes = ctx->rdx;
		c->direction = direction_of((__u32)ctx->rcx);
		stream = ctx->r8;
		break;
	case SO_CUDA_ARGS_COPY_2D:
		c->bytes = ctx->r8 * ctx->r9;
		c->direction = direction_of((__u32)stack_argument(ctx, 0));
		is_async = false; /* it would take another read */
		break;
	case SO_CUDA_ARGS_COPY_PEER:
	case SO_CUDA_ARGS_CU_COPY_PEER:
		c->bytes = ctx->r8;
		c->direction = SO_CUDA_DIRECTION_PEER;
		stream = ctx->r9;
		break;
	case SO_CUDA_ARGS_COPY_SYMBOL:
		c->bytes = ctx->rdx;
		c->direction = direction_of((__u32)ctx->r8);
		stream = ctx->r9;
		break;
	case SO_CUDA_ARGS_CU_COPY:
	case SO_CUDA_ARGS_CU_COPY_HTOD:
	case SO_CUDA_ARGS_CU_COPY_DTOH:
	case SO_CUDA_ARGS_CU_COPY_DTOD:
		c->bytes = ctx->rdx;
		c->direction = args == SO_CUDA_ARGS_CU_COPY_HTOD   ? SO_CUDA_DIRECTION_HTOD
			       : args == SO_CUDA_ARGS_CU_COPY_DTOH ? SO_CUDA_DIRECTION_DTOH
			       : args == SO_CUDA_ARGS_CU_COPY_DTOD ? SO_CUDA_DIRECTION_DTOD
								   : SO_CUDA_DIRECTION_DEFAULT;
		stream = ctx->rcx;
		break;
	default:
		read_copy_descriptor(c, ctx->rdi, args);
		stream = ctx->rsi;
	}
	if (is_async)
		set_stream(c, stream);
}

static __always_inline void read_memory(struct so_cuda_call *c, const struct arguments *ctx, __u32 args)
{
	switch (args) {
	case SO_CUDA_ARGS_SET:
		c->bytes = ctx->rdx;
		break;
	case SO_CUDA_ARGS_SET_16:
		c->bytes = ctx->rdx * 2;
		break;
	case SO_CUDA_ARGS_SET_32:
		c->bytes = ctx->rdx * 4;
		break;
	case SO_CUDA_ARGS_SET_2D:
		c->bytes = ctx->rcx * ctx->r8;
		break;
	case SO_CUDA_ARGS_ALLOC_PITCH:
		c->bytes = ctx->rdx * ctx->rcx;
		c->pointer = ctx->rdi;
		break;
	case SO_CUDA_ARGS_ALLOC:
		c->bytes = ctx->rsi;
		c->pointer = ctx->rdi;
		break;
	case SO_CUDA_ARGS_FREE:
		c->pointer = ctx->rdi;
		break;
	}
}

static __always_inline void read_arguments(struct so_cuda_call *c, struct pt_regs *registers,
					   const struct arguments *ctx, __u64 cookie, __u32 api)
{
	__u32 args = calls_info[api].args;

	c->kernel = 0;
	c->bytes = 0;
	c->pointer = 0;
	c->direction = SO_CUDA_DIRECTION_NO;
	c->has_stream = 0;
	if (args >= SO_CUDA_ARGS_LAUNCH && args <= SO_CUDA_ARGS_CU_LAUNCH_CONFIG)
		read_launch(c, ctx, cookie, args);
	else if (args >= SO_CUDA_ARGS_COPY && args <= SO_CUDA_ARGS_CU_COPY_3D)
		read_copy(c, ctx, args, calls_info[api].has_stream);
	else if (args == SO_CUDA_ARGS_STREAM)
		set_stream(c, ctx->rdi);
	else if (args == SO_CUDA_ARGS_GRAPH || args == SO_CUDA_ARGS_EVENT_STREAM)
		set_stream(c, ctx->rsi);
	else if (args > SO_CUDA_ARGS_EVENT_STREAM)
		read_rare(c, registers, args);
	else
		read_memory(c, ctx, args);
}

#endif
