/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the arguments of rare calls tell, those of stakeout/cuda_api.h behind SO_CUDA_ARGS_EVENT_STREAM: batches,
 * arrays, what is passed on the stack. Kept out of the path of frequent calls: a function of its own, which reads the
 * registers anew.
 */
#ifndef STAKEOUT_BPF_CUDA_RARE_H
#define STAKEOUT_BPF_CUDA_RARE_H

#include "bpf/cuda/cuda_maps.h"
#include "bpf/cuda/cuda_registers.h"

#define BATCH_WORDS   16 /* sizes that are read at a time */
#define BATCH_READS   64 /* so many times, at most: SO_CUDA_BATCH_COPIES */
#define MIPMAP_LEVELS 17 /* of the largest array there is, and one more */

_Static_assert(BATCH_WORDS *BATCH_READS == SO_CUDA_BATCH_COPIES, "as is told");

/* An array's form: CUDA_ARRAY3D_LAYERED, _CUBEMAP in cuda.h, cudaArrayLayered, cudaArrayCubemap in driver_types.h. */
#define ARRAY_LAYERED 1
#define ARRAY_CUBEMAP 4
#define ARRAY_EMPTY   0xc0 /* _SPARSE, _DEFERRED_MAPPING: its memory is created by itself (cuMemCreate) */

/* What is left of a batch, and what the copies before come to. */
struct batch {
	__u64 at, left, bytes;
};

/* Of one dimension: the next sizes of a list. Not 0: that was all. */
static long read_sizes(__u32 i, struct batch *b)
{
	__u64 words[BATCH_WORDS] = {};

	if (b->left >= BATCH_WORDS) {
		bpf_probe_read_user(words, sizeof(words), (void *)b->at);
		b->left -= BATCH_WORDS;
	} else {
		bpf_probe_read_user(words, (b->left & (BATCH_WORDS - 1)) * sizeof(*words), (void *)b->at);
		b->left = 0;
	}
	b->at += sizeof(words);
#pragma unroll
	for (int k = 0; k < BATCH_WORDS; k++)
		b->bytes += words[k];
	return !b->left;
}

/*
 * Of three: the next of a list of cudaMemcpy3DBatchOp (driver_types.h) or CUDA_MEMCPY3D_BATCH_OP (cuda.h), 112 bytes
 * each, the extent behind two operands of 40. Where one of these is an array, the width is in elements.
 */
static long read_extent(__u32 i, struct batch *b)
{
	__u64 size[3];

	if (b->left) {
		read_words(size, sizeof(size), b->at + 80);
		b->bytes += size[0] * size[1] * size[2];
		b->at += 112;
		b->left--;
	}
	return !b->left;
}

static __always_inline int end_batch(struct so_cuda_call *c, const struct batch *b)
{
	c->bytes = b->bytes;
	if (b->left)
		lose(c->cookie, SO_CUDA_LOSS_BATCH);
	return 0;
}

static __always_inline int read_batch(struct so_cuda_call *c, __u64 sizes, __u64 n)
{
	struct batch b = { .at = sizes, .left = n };

	if (have_loop)
		bpf_loop(BATCH_READS, read_sizes, &b, 0);
	else
		read_sizes(0, &b);
	return end_batch(c, &b);
}

static __always_inline int read_3d_batch(struct so_cuda_call *c, __u64 ops, __u64 n)
{
	struct batch b = { .at = ops, .left = n };

	if (have_loop)
		bpf_loop(SO_CUDA_BATCH_3D_COPIES, read_extent, &b, 0);
	else
		read_extent(0, &b);
	return end_batch(c, &b);
}

/* Of one channel, by CUarray_format in cuda.h; 0: formats whose elements are not whole channels (video, compressed). */
static __always_inline __u32 channel_bytes(__u32 format)
{
	/* CU_AD_FORMAT_UNORM_INT8X1, X2, X4, then those of 16 bits, and the same of SNORM */
	if (format >= 0xc0 && format <= 0xcb)
		return (format - 0xc0) % 6 < 3 ? 1 : 2;
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

/* cudaChannelFormatDesc: the bits of four channels, and cudaChannelFormatKind of driver_types.h; 0 as above. */
static __always_inline __u32 element_bytes(__u64 channels)
{
	__u32 words[5], kind;

	read_words(words, sizeof(words), channels);
	kind = words[4];
	/* Signed, Unsigned, Float, and from UnsignedNormalized8X1 to SignedNormalized16X4 */
	if (kind > 2 && (kind < 5 || kind > 16))
		return 0;
	return (words[0] + words[1] + words[2] + words[3]) / 8;
}

/* What an array is made of: width in elements, height and depth are 0 where it has none. */
struct array {
	__u64 width, height, depth;
	__u32 format, channels, flags, pad; /* so far CUDA_ARRAY3D_DESCRIPTOR */
	__u32 element_bytes, levels;
};

/* Without a branch, each of which would double what a verifier has to look at. */
static __always_inline __u64 or_1(__u64 n)
{
	return n + ((n - 1) >> 63);
}

static __noinline int set_array(struct so_cuda_call *c, const struct array *of)
{
	__u32 volume = of->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP) ? 0 : ~0u; /* else each level has all layers */
	__u64 elements = 0;

	if (!c)
		return 0;
	for (__u32 i = 0; i < MIPMAP_LEVELS; i++) {
		if (i >= of->levels)
			break;
		elements += or_1(of->width >> i) * or_1(of->height >> i) * or_1(of->depth >> (i & volume));
	}
	c->bytes = of->flags & ARRAY_EMPTY ? 0 : elements * of->element_bytes;
	return 0;
}

static __noinline int read_array(struct so_cuda_call *c, struct pt_regs *ctx, __u32 args)
{
	struct array of = { .levels = 1 };
	struct arguments a;

	if (!c)
		return 0;
	read_registers(ctx, &a);
	c->pointer = a.rdi;
	if (args == SO_CUDA_ARGS_CU_ALLOC_ARRAY) { /* CUDA_ARRAY_DESCRIPTOR: without depth and flags */
		read_words(&of.width, 16, a.rsi);
		read_words(&of.format, 8, a.rsi + 16);
	} else if (args > SO_CUDA_ARGS_CU_ALLOC_ARRAY) {
		read_words(&of, offsetof(struct array, pad), a.rsi);
	} else if (args == SO_CUDA_ARGS_ALLOC_ARRAY) {
		of.width = a.rdx;
		of.height = a.rcx;
	} else {
		read_words(&of.width, 24, a.rsp + 8);
	}
	of.element_bytes =
		args >= SO_CUDA_ARGS_CU_ALLOC_ARRAY ? channel_bytes(of.format) * of.channels : element_bytes(a.rsi);
	if (args == SO_CUDA_ARGS_ALLOC_MIPMAP) {
		of.levels = (__u32)a.rdx;
		of.flags = (__u32)a.rcx;
	} else if (args == SO_CUDA_ARGS_CU_ALLOC_MIPMAP) {
		of.levels = (__u32)a.rdx;
	}
	return set_array(c, &of);
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
	bool is_copy;
	__u32 type;

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
		set_copy(c, stack_argument(&a, 0) * stack_argument(&a, 1), direction_of((__u32)stack_argument(&a, 2)));
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
	case SO_CUDA_ARGS_PREFETCH_BATCH:
		c->direction = SO_CUDA_DIRECTION_DEFAULT;
		is_copy = args == SO_CUDA_ARGS_COPY_BATCH;
		return read_batch(c, is_copy ? a.rdx : a.rsi, is_copy ? a.rcx : a.rdx);
	case SO_CUDA_ARGS_COPY_3D_BATCH:
		c->direction = SO_CUDA_DIRECTION_DEFAULT;
		return read_3d_batch(c, a.rsi, a.rdi);
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
	case SO_CUDA_ARGS_CREATE: /* CUmemAllocationProp.location.type: CU_MEM_LOCATION_TYPE_HOST and two of NUMA */
		c->bytes = a.rsi;
		c->pointer = a.rdi;
		read_words(&type, sizeof(type), a.rdx + 8);
		c->host = type >= 2 && type <= 4;
		break;
	case SO_CUDA_ARGS_MAP:
		c->handle_mapped = a.rcx;
		/* fallthrough */
	case SO_CUDA_ARGS_UNMAP:
		c->bytes_mapped = a.rsi;
		/* fallthrough */
	case SO_CUDA_ARGS_RETAIN:
	case SO_CUDA_ARGS_RELEASE:
		c->pointer = a.rdi;
		break;
	default:
		return read_array(c, ctx, args);
	}
	return 0;
}

#endif
