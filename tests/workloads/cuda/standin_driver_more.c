/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stand-in driver's calls that are neither counted nor scripted. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver_more.h"
#include "driver_symbols.h"
#include "standin_state.h"

#define DRIVER_VERSION 12090

#define X(symbol, shape) cu_##shape symbol;
STANDIN_DRIVER_MORE(X)
#undef X

void *driver__handle(void)
{
	static uintptr_t last = 0x10000;

	return (void *)__atomic_add_fetch(&last, 64, __ATOMIC_RELAXED);
}

/* Sets *out, where there is one and the value is not 0. */
#define GIVE(out, value, otherwise)                                                       \
	({                                                                                \
		__typeof__(*(out)) value_ = (value);                                      \
                                                                                          \
		STANDIN_PROLOGUE;                                                         \
		if ((out) && value_)                                                      \
			*(out) = value_;                                                  \
		!(out) ? CUDA_ERROR_INVALID_VALUE : !value_ ? (otherwise) : CUDA_SUCCESS; \
	})

STANDIN_ENTRY CUresult cuInit(unsigned int flags)
{
	STANDIN_PROLOGUE;
	return CUDA_SUCCESS;
}

STANDIN_ENTRY CUresult cuDriverGetVersion(int *out)
{
	return GIVE(out, DRIVER_VERSION, CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuDeviceGetCount(int *out)
{
	return GIVE(out, 1, CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
	STANDIN_PROLOGUE;
	if (!out || ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 0;
	return CUDA_SUCCESS;
}

STANDIN_ENTRY CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	return GIVE(out, (CUcontext)0x1000, CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuCtxGetCurrent(CUcontext *out)
{
	return GIVE(out, (CUcontext)0x1000, CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuCtxSetCurrent(CUcontext context)
{
	STANDIN_PROLOGUE;
	return CUDA_SUCCESS;
}

#define ADD(symbol)                                                   \
	STANDIN_ENTRY CUresult symbol(void **out, unsigned int flags) \
	{                                                             \
		return GIVE(out, driver__handle(), CUDA_SUCCESS);     \
	}
#define DROP(symbol)                                \
	STANDIN_ENTRY CUresult symbol(void *handle) \
	{                                           \
		STANDIN_PROLOGUE;                   \
		return CUDA_SUCCESS;                \
	}
ADD(cuStreamCreate)
DROP(cuStreamDestroy_v2)
ADD(cuEventCreate)
DROP(cuEventDestroy_v2)
DROP(cuGraphDestroy)
DROP(cuGraphExecDestroy)

STANDIN_ENTRY CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
	return GIVE(out, driver__handle(), CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	return GIVE(out, name ? kernels__function(module, name) : NULL, CUDA_ERROR_NOT_FOUND);
}

STANDIN_ENTRY CUresult cuLibraryLoadData(CUlibrary *out, const void *code, void *jit_options, void **jit_values,
					 unsigned int jit_count, void *options, void **values,
					 unsigned int count)
{
	return GIVE(out, driver__handle(), CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
	return GIVE(out, name ? kernels__kernel(library, name) : NULL, CUDA_ERROR_NOT_FOUND);
}

STANDIN_ENTRY CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
	return GIVE(out, kernels__of_kernel(kernel), CUDA_ERROR_NOT_FOUND);
}

static const char *name_of(const void *handle)
{
	unsigned i = kernels__index((CUfunction)handle);

	return i ? kernels__name(i) : NULL;
}

STANDIN_ENTRY CUresult cuFuncGetName(const char **out, CUfunction function)
{
	return GIVE(out, name_of(function), CUDA_ERROR_NOT_FOUND);
}

STANDIN_ENTRY CUresult cuKernelGetName(const char **out, CUkernel kernel)
{
	return GIVE(out, name_of(kernel), CUDA_ERROR_NOT_FOUND);
}

STANDIN_ENTRY CUresult cuGetErrorName(CUresult error, const char **out)
{
	return GIVE(out, error ? "CUDA_ERROR_OF_STANDIN" : "CUDA_SUCCESS", CUDA_SUCCESS);
}

STANDIN_ENTRY CUresult cuGetErrorString(CUresult error, const char **out)
{
	return GIVE(out, error ? "error made by the stand-in" : "no error", CUDA_SUCCESS);
}

static bool is_exported(void *self, const char *name, const char *ending, void **out)
{
	char symbol[128];

	if (snprintf(symbol, sizeof(symbol), "%s%s", name, ending) >= (int)sizeof(symbol))
		return false;
	*out = dlsym(self, symbol);
	return *out != NULL;
}

/*
 * The newest form of the base name that was asked for; flag 2: the one for per-thread default streams, where there is
 * one.
 */
STANDIN_ENTRY CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version,
					   unsigned long long flags, int *status)
{
	static const char *const endings[2][4] = { { "_v2", "" },
						   { "_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds" } };
	static void *self;
	void *found = NULL;

	STANDIN_PROLOGUE;
	if (!self)
		self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!symbol || !out || !self)
		return CUDA_ERROR_INVALID_VALUE;
	for (int per_thread = flags & 2 ? 1 : 0; per_thread >= 0 && !found; per_thread--)
		for (int i = 0; i < 4 && endings[per_thread][i] && !found; i++)
			is_exported(self, symbol, endings[per_thread][i], &found);
	if (status)
		*status = found ? 0 : 1;
	if (!found)
		return CUDA_ERROR_NOT_FOUND;
	*out = found;
	return CUDA_SUCCESS;
}
