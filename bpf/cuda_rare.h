/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the arguments of rare calls tell, those of stakeout/cuda_api.h behind SO_CUDA_ARGS_EVENT_STREAM: batches, arrays, what is
 * passed on the stack. Kept out of the path of frequent calls: a function of its own, which reads the registers anew.
 */
#ifndef STAKEOUT_BPF_CUDA_RARE_H
#define STAKEOUT_BPF_CUDA_RARE_H

#include "bpf/cuda_maps.h"
#include "bpf/cuda_registers.h"

#define BATCH_WORDS   16 /* sizes that are read at a time */
#define BATCH_READS   64 /* so many times, at most: SO_CUDA_BATCH_COPIES */
#define MIPMAP_LEVELS 17 /* of the largest array there is, and one more */

_Static_assert(BATCH_WORDS *BATCH_READS == SO_CUDA_BATCH_COPIES, "as is told");

/* An array's form: CUDA_ARRAY3D_LAYERED and _CUBEMAP in cuda.h, cudaArrayLayered and cudaArrayCubemap in driver_types.h. */
#define ARRAY_LAYERED 1
#define ARRAY_CUBEMAP 4

/* Of copies of one dimension, `sizes` being their bytes. */
static __noinline int read_batch(struct so_cuda_call *c, __u64 sizes, __u64 n)
{
	__u64 words[BATCH_WORDS], sum = 0;

	if (!c)
		return 0;
	for (__u32 i = 0; i < BATCH_READS; i++) {
		__u64 left = n - i * BATCH_WORDS;
		void *at = (void *)(sizes + i * sizeof(words));

		if (n <= i * BATCH_WORDS)
			break;
		__builtin_memset(words, 0, sizeof(words));
		if (left >= BATCH_WORDS)
			bpf_probe_read_user(words, sizeof(words), at);
		else
			bpf_probe_read_user(words, (left & (BATCH_WORDS - 1)) * sizeof(*words), at);
#pragma unroll
		for (int k = 0; k < BATCH_WORDS; k++)
			sum += words[k];
	}
	c->bytes = sum;
	if (n > SO_CUDA_BATCH_COPIES)
		lose(c->cookie, SO_CUDA_LOSS_BATCH);
	return 0;
}

/* Of three: cudaMemcpy3DBatchOp in driver_types.h, CUDA_MEMCPY3D_BATCH_OP in cuda.h. Where one is of an array, the width is in elements. */
static __noinline int read_3d_batch(struct so_cuda_call *c, __u64 ops, __u64 n)
{
	__u64 size[3], sum = 0;

	if (!c)
		return 0;
	for (__u32 i = 0; i < SO_CUDA_BATCH_3D_COPIES; i++) {
		if (i >= n)
			break;
		read_words(size, sizeof(size), ops + i * 112 + 80);
		sum += size[0] * size[1] * size[2];
	}
	c->bytes = sum;
	if (n > SO_CUDA_BATCH_3D_COPIES)
		lose(c->cookie, SO_CUDA_LOSS_BATCH);
	return 0;
}

/* Of one channel, by CUarray_format in cuda.h; 0: of formats whose elements are not of whole channels, video's and compressed ones. */
static __always_inline __u32 channel_bytes(__u32 format)
{
	switch (format) {
	case 0x01: /* CU_AD_FORMAT_UNSIGNED_INT8 */
	case 0x08: /* CU_AD_FORMAT_SIGNED_INT8 */
		return 1;
	case 0x02: /* CU_AD_FORMAT_UNSIGNED_INT16 */
	case 0x09: /* CU_AD_FORMAT_SIGNED_INT16 */
	case 0x10: /* CU_AD_FORMAT_HALF */
		return 2;
	case 0x03: /* CU_AD_FORMAT_UNSIGNED_INT32 */
	case 0x0a: /* CU_AD_FORMAT_SIGNED_INT32 */
	case 0x20: /* CU_AD_FORMAT_FLOAT */
		return 4;
	}
	return 0;
}

/* cudaChannelFormatDesc begins with the bits of its four channels. */
static __always_inline __u32 element_bytes(__u64 channels)
{
	__u32 bits[4];

	read_words(bits, sizeof(bits), channels);
	return (bits[0] + bits[1] + bits[2] + bits[3]) / 8;
}

/* size: a width in elements, height and depth, 0 where there is none. */
static __always_inline void set_array(struct so_cuda_call *c, const __u64 *size, __u32 bytes, __u32 levels,
				      __u32 flags)
{
	__u64 width = size[0], height = size[1] ?: 1, depth = size[2] ?: 1, elements = 0;
	bool is_volume = !(flags & (ARRAY_LAYERED | ARRAY_CUBEMAP));

	for (__u32 i = 0; i < MIPMAP_LEVELS; i++) {
		if (i >= levels)
			break;
		elements += width * height * depth;
		width = width / 2 ?: 1;
		height = height / 2 ?: 1;
		if (is_volume)
			depth = depth / 2 ?: 1;
	}
	c->bytes = elements * bytes;
}

static __noinline int read_array(struct so_cuda_call *c, struct pt_regs *ctx, __u32 args)
{
	struct {
		__u64 size[3];
		__u32 format, channels, flags, pad;
	} of = {};
	struct arguments a;

	if (!c)
		return 0;
	read_registers(ctx, &a);
	c->pointer = a.rdi;
	switch (args) {
	case SO_CUDA_ARGS_ALLOC_ARRAY:
		of.size[0] = a.rdx;
		of.size[1] = a.rcx;
		set_array(c, of.size, element_bytes(a.rsi), 1, 0);
		break;
	case SO_CUDA_ARGS_ALLOC_3D_ARRAY:
		read_words(of.size, sizeof(of.size), a.rsp + 8);
		set_array(c, of.size, element_bytes(a.rsi), 1, 0);
		break;
	case SO_CUDA_ARGS_ALLOC_MIPMAP:
		read_words(of.size, sizeof(of.size), a.rsp + 8);
		set_array(c, of.size, element_bytes(a.rsi), (__u32)a.rdx, (__u32)a.rcx);
		break;
	case SO_CUDA_ARGS_CU_ALLOC_ARRAY: /* CUDA_ARRAY_DESCRIPTOR: width, height, format, channels */
		read_words(of.size, 16, a.rsi);
		read_words(&of.format, 8, a.rsi + 16);
		set_array(c, of.size, channel_bytes(of.format) * of.channels, 1, 0);
		break;
	default: /* CUDA_ARRAY3D_DESCRIPTOR: and depth, flags */
		read_words(&of, sizeof(of), a.rsi);
		set_array(c, of.size, channel_bytes(of.format) * of.channels,
			  args == SO_CUDA_ARGS_CU_ALLOC_MIPMAP ? (__u32)a.rdx : 1, of.flags);
	}
	return 0;
}

static __always_inline void set_copy(struct so_cuda_call *c, __u64 bytes, __u32 direction)
{
	c->bytes = bytes;
	c->direction = direction;
}

/* c->direction is that of a copy, or SO_CUDA_DIRECTION_NO. */
static __noinline int read_rare(struct so_cuda_call *c, struct pt_regs *ctx, __u32 args)
{
	struct {
		__u64 function;
		__u32 grid[3], block[3];
	} launch;
	__u64 size[3] = {};
	struct arguments a;

	if (!c)
		return 0;
	read_registers(ctx, &a);
	switch (args) {
	case SO_CUDA_ARGS_LAUNCH_LIST: /* both lists' entries begin so */
		read_words(&launch, sizeof(launch), a.rdi);
		c->kernel = launch.function;
		__builtin_memcpy(c->grid, launch.grid, sizeof(c->grid));
		__builtin_memcpy(c->block, launch.block, sizeof(c->block));
		break;
	case SO_CUDA_ARGS_COPY_ARRAY:
		set_copy(c, a.r8, direction_of((__u32)a.r9));
		break;
	case SO_CUDA_ARGS_COPY_2D_ARRAY:
		set_copy(c, a.r9 * stack_argument(&a, 0), direction_of((__u32)stack_argument(&a, 1)));
		break;
	case SO_CUDA_ARGS_COPY_ARRAY_ARRAY:
		set_copy(c, stack_argument(&a, 0), direction_of((__u32)stack_argument(&a, 1)));
		break;
	case SO_CUDA_ARGS_COPY_2D_ARRAY_ARRAY:
		set_copy(c, stack_argument(&a, 0) * stack_argument(&a, 1),
			 direction_of((__u32)stack_argument(&a, 2)));
		break;
	case SO_CUDA_ARGS_COPY_3D_PEER: /* cudaMemcpy3DPeerParms, driver_types.h: extent behind two sides of 72 bytes */
		read_words(size, sizeof(size), a.rdi + 144);
		set_copy(c, size[0] * size[1] * size[2], SO_CUDA_DIRECTION_PEER);
		break;
	case SO_CUDA_ARGS_CU_COPY_3D_PEER: /* CUDA_MEMCPY3D_PEER ends as CUDA_MEMCPY3D */
		read_words(size, sizeof(size), a.rdi + 176);
		set_copy(c, size[0] * size[1] * size[2], SO_CUDA_DIRECTION_PEER);
		break;
	case SO_CUDA_ARGS_COPY_BATCH:
		c->direction = SO_CUDA_DIRECTION_DEFAULT;
		read_batch(c, a.rdx, a.rcx);
		break;
	case SO_CUDA_ARGS_PREFETCH_BATCH:
		c->direction = SO_CUDA_DIRECTION_DEFAULT;
		read_batch(c, a.rsi, a.rdx);
		break;
	case SO_CUDA_ARGS_COPY_3D_BATCH:
		c->direction = SO_CUDA_DIRECTION_DEFAULT;
		read_3d_batch(c, a.rsi, a.rdi);
		break;
	case SO_CUDA_ARGS_PREFETCH:
		set_copy(c, a.rsi, SO_CUDA_DIRECTION_DEFAULT);
		break;
	case SO_CUDA_ARGS_CU_COPY_ATOH:
		set_copy(c, a.rcx, SO_CUDA_DIRECTION_DTOH);
		break;
	case SO_CUDA_ARGS_CU_COPY_HTOA:
		set_copy(c, a.rcx, SO_CUDA_DIRECTION_HTOD);
		break;
	case SO_CUDA_ARGS_CU_COPY_ATOD:
		set_copy(c, a.rcx, SO_CUDA_DIRECTION_DTOD);
		break;
	case SO_CUDA_ARGS_CU_COPY_ATOA:
		set_copy(c, a.r8, SO_CUDA_DIRECTION_DTOD);
		break;
	case SO_CUDA_ARGS_SET_3D: /* behind the pitched pointer's 32 bytes */
		read_words(size, sizeof(size), a.rsp + 8 + 32);
		c->bytes = size[0] * size[1] * size[2];
		break;
	case SO_CUDA_ARGS_CU_SET_2D_16:
		c->bytes = a.rcx * a.r8 * 2;
		break;
	case SO_CUDA_ARGS_CU_SET_2D_32:
		c->bytes = a.rcx * a.r8 * 4;
		break;
	case SO_CUDA_ARGS_REGISTER:
		c->bytes = a.rsi;
		c->pointer = a.rdi;
		break;
	case SO_CUDA_ARGS_ALLOC_3D: /* a pitched pointer begins with the address */
		read_words(size, sizeof(size), a.rsp + 8);
		c->bytes = size[0] * size[1] * size[2];
		c->pointer = a.rdi;
		break;
	default:
		read_array(c, ctx, args);
	}
	return 0;
}

#endif
