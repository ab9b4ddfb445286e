/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A library with functions of the driver that only jump there, as JAX's extension modules have them: libcuda.so.1 is
 * loaded when it is needed.
 */
#include <dlfcn.h>

#include "cuda_types.h"

__attribute__((visibility("hidden"))) void *jump_launch;

__attribute__((constructor)) static void find(void)
{
	jump_launch = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
}

__attribute__((naked, visibility("default"))) CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy,
								      unsigned int gz, unsigned int bx, unsigned int by,
								      unsigned int bz, unsigned int shared,
								      CUstream stream, void **params, void **extra)
{
	__asm__("jmp *jump_launch(%rip)");
}
