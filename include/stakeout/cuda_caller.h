/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who calls CUDA, among native frames: not what nvcc and CUDA's headers put between the caller and the library, which is in the
 * caller's own file. A kernel is launched by a host function of its own name, which calls "__device_stub__" with its
 * mangled name behind, which calls the library, by "__cudaLaunchKernel_helper" in nvcc 13; templates of cuda_runtime.h
 * (cudaMalloc<float>) call the function of the same name. As seen in code of nvcc 11 to 13 with debug information.
 */
#ifndef STAKEOUT_CUDA_CALLER_H
#define STAKEOUT_CUDA_CALLER_H

#include <stdbool.h>
#include <string.h>

#include "stakeout/short_path.h"

/* The frame around it is a kernel's host function. */
static inline bool cuda_caller__is_stub(const char *function)
{
	return strstr(function, "__device_stub__");
}

/* function: for people or as the linker knows it; file: of its source, "" when unknown. */
static inline bool cuda_caller__is_cuda(const char *function, const char *file)
{
	const char *base = short_path(file);

	return cuda_caller__is_stub(function) || !strcmp(function, "__cudaLaunchKernel_helper") ||
	       !strcmp(base, "cuda_runtime.h") || !strcmp(base, "cuda_runtime_api.h");
}

#endif
