/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How large arrays are, and how much a batch copies. */
#ifndef STANDIN_ARRAY_H
#define STANDIN_ARRAY_H

#include "cuda_types.h"

/* depth: of an array of several layers, their number, which smaller levels have as well. */
static inline size_t array__elements(size_t width, size_t height, size_t depth, unsigned levels, unsigned flags)
{
	size_t elements = 0;

	for (unsigned level = 0; level < levels; level++) {
		size_t w = width >> level, h = height >> level, d = flags & 5 ? depth : depth >> level;

		elements += (w ? w : 1) * (h ? h : 1) * (d ? d : 1);
	}
	return elements;
}

/* Of the formats that programs of ours use; 0: not of whole channels. */
static inline size_t array__channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static inline size_t array__element_bytes(const struct cudaChannelFormatDesc *of)
{
	return (size_t)(of->x + of->y + of->z + of->w) / 8;
}

static inline size_t batch__bytes(const size_t *sizes, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += sizes[i];
	return sum;
}

static inline size_t batch__bytes_3d(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ops[i].extent.width * ops[i].extent.height * ops[i].extent.depth;
	return sum;
}

#endif
