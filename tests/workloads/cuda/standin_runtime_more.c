/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stand-in runtime's calls that are neither counted nor scripted. */
#include "runtime_state.h"

__thread cudaError_t runtime_last_error;
bool runtime_capturing;

cudart_LAUNCH cudaLaunchKernel;

STANDIN_ENTRY cudaError_t cudaGetLastError(void)
{
	cudaError_t last = runtime_last_error;

	STANDIN_PROLOGUE;
	runtime_last_error = cudaSuccess;
	return last;
}

STANDIN_ENTRY cudaError_t cudaPeekAtLastError(void)
{
	STANDIN_PROLOGUE;
	return runtime_last_error;
}

STANDIN_ENTRY const char *cudaGetErrorString(cudaError_t error)
{
	STANDIN_PROLOGUE;
	return error ? "error made by the stand-in" : "no error";
}

STANDIN_ENTRY const char *cudaGetErrorName(cudaError_t error)
{
	STANDIN_PROLOGUE;
	return error ? "cudaErrorOfStandin" : "cudaSuccess";
}

#define PASS_ON(work)                                                                                    \
	{                                                                                                \
		STANDIN_PROLOGUE;                                                                        \
		return runtime__load() ? (cudaError_t)runtime_driver.work : cudaErrorInsufficientDriver; \
	}

STANDIN_ENTRY cudaError_t cudaStreamCreate(cudaStream_t *out) PASS_ON(cuStreamCreate((void **)out, 0))

	STANDIN_ENTRY cudaError_t cudaStreamDestroy(cudaStream_t stream) PASS_ON(cuStreamDestroy_v2(stream))

		STANDIN_ENTRY cudaError_t
	cudaEventCreate(cudaEvent_t *out) PASS_ON(cuEventCreate((void **)out, 0))

		STANDIN_ENTRY cudaError_t cudaEventDestroy(cudaEvent_t event) PASS_ON(cuEventDestroy_v2(event))

			STANDIN_ENTRY cudaError_t cudaGraphDestroy(cudaGraph_t graph)
				PASS_ON(cuGraphDestroy(graph))

					STANDIN_ENTRY cudaError_t
	cudaGraphExecDestroy(cudaGraphExec_t exec) PASS_ON(cuGraphExecDestroy(exec))

		STANDIN_ENTRY cudaError_t cudaGetDeviceCount(int *out) PASS_ON(cuDeviceGetCount(out))

			STANDIN_ENTRY cudaError_t
	cudaDriverGetVersion(int *out) PASS_ON(cuDriverGetVersion(out))

		STANDIN_ENTRY cudaError_t cudaSetDevice(int device) PASS_ON(cuDeviceGet(&device, device))

			STANDIN_ENTRY cudaError_t cudaGetDevice(int *out) PASS_ON(cuDeviceGet(out, 0))

				STANDIN_ENTRY cudaError_t cudaRuntimeGetVersion(int *out)
{
	STANDIN_PROLOGUE;
	*out = 12090;
	return cudaSuccess;
}

/* As in CUDA 13: the frame of the caller is gone before cudaLaunchKernel, which returns to the stub. */
STANDIN_ENTRY cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
					     size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
