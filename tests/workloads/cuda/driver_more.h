/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's calls that are neither counted nor scripted. Source: the headers of CUDA 12 and 13.
 */
#ifndef STANDIN_DRIVER_MORE_H
#define STANDIN_DRIVER_MORE_H

#include "cuda_types.h"

typedef CUresult cu_ADD(void **out, unsigned int flags);
typedef CUresult cu_DROP(void *handle);
typedef CUresult cu_MODULE_LOAD(CUmodule *out, const void *image);
typedef CUresult cu_MODULE_FUNCTION(CUfunction *out, CUmodule module, const char *name);
typedef CUresult cu_LIBRARY_LOAD(CUlibrary *out, const void *code, void *jit_options, void **jit_values,
				 unsigned int jit_count, void *options, void **values, unsigned int count);
typedef CUresult cu_LIBRARY_KERNEL(CUkernel *out, CUlibrary library, const char *name);
typedef CUresult cu_KERNEL_FUNCTION(CUfunction *out, CUkernel kernel);
typedef CUresult cu_FUNCTION_NAME(const char **out, CUfunction function);
typedef CUresult cu_KERNEL_NAME(const char **out, CUkernel kernel);
typedef CUresult cu_INIT(unsigned int flags);
typedef CUresult cu_NUMBER(int *out);
typedef CUresult cu_DEVICE(CUdevice *out, int ordinal);
typedef CUresult cu_CONTEXT_OUT(CUcontext *out);
typedef CUresult cu_CONTEXT_IN(CUcontext context);
typedef CUresult cu_RETAIN(CUcontext *out, CUdevice device);
typedef CUresult cu_TEXT(CUresult error, const char **out);
typedef CUresult cu_PROC(const char *symbol, void **out, int version, unsigned long long flags, int *status);

/* X(symbol, shape); ADD and DROP take and give handles of any kind. */
#define STANDIN_DRIVER_MORE(X)                  \
	X(cuInit, INIT)                         \
	X(cuDriverGetVersion, NUMBER)           \
	X(cuDeviceGetCount, NUMBER)             \
	X(cuDeviceGet, DEVICE)                  \
	X(cuDevicePrimaryCtxRetain, RETAIN)     \
	X(cuCtxGetCurrent, CONTEXT_OUT)         \
	X(cuCtxSetCurrent, CONTEXT_IN)          \
	X(cuStreamCreate, ADD)                  \
	X(cuStreamDestroy_v2, DROP)             \
	X(cuEventCreate, ADD)                   \
	X(cuEventDestroy_v2, DROP)              \
	X(cuGraphDestroy, DROP)                 \
	X(cuGraphExecDestroy, DROP)             \
	X(cuModuleLoadData, MODULE_LOAD)        \
	X(cuModuleGetFunction, MODULE_FUNCTION) \
	X(cuLibraryLoadData, LIBRARY_LOAD)      \
	X(cuLibraryGetKernel, LIBRARY_KERNEL)   \
	X(cuKernelGetFunction, KERNEL_FUNCTION) \
	X(cuFuncGetName, FUNCTION_NAME)         \
	X(cuKernelGetName, KERNEL_NAME)         \
	X(cuGetErrorName, TEXT)                 \
	X(cuGetErrorString, TEXT)               \
	X(cuGetProcAddress_v2, PROC)

#endif
