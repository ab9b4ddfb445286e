/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What PyTorch asks the runtime besides the calls that are timed: the device, functions, pointers, pools, captures. With the
 * stand-in runtime's own sources (tests/workloads/cuda) this is a libcudart.so.12 that PyTorch 2.6 runs on, without a GPU.
 * Layouts: the CUDA runtime's reference manual, version 12.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_state.h"

#define OK(signature)                        \
	STANDIN_ENTRY cudaError_t signature; \
	STANDIN_ENTRY cudaError_t signature  \
	{                                    \
		STANDIN_PROLOGUE;            \
		return cudaSuccess;          \
	}
#define GIVES(signature, ...)                \
	STANDIN_ENTRY cudaError_t signature; \
	STANDIN_ENTRY cudaError_t signature  \
	{                                    \
		STANDIN_PROLOGUE;            \
		__VA_ARGS__;                 \
		return cudaSuccess;          \
	}

#define DEVICE_BYTES (80ull << 30)

/* The device: as an H100 answers where PyTorch chooses by it. */

struct device_properties {
	char name[256];
	char uuid[16], luid[8];
	unsigned luid_mask;
	size_t global_bytes, shared_per_block;
	int regs_per_block, warp_size;
	size_t mem_pitch;
	int max_threads_per_block, max_threads_dim[3], max_grid[3], clock_khz;
	size_t const_bytes;
	int major, minor;
	size_t texture_alignment, texture_pitch_alignment;
	int device_overlap, multiprocessors, kernel_timeout, integrated, can_map_host, compute_mode;
	int textures[26], surfaces[14];
	size_t surface_alignment;
	int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing,
		memory_clock_khz, memory_bus_bits, l2_bytes, persisting_l2_bytes,
		max_threads_per_multiprocessor, stream_priorities, global_l1, local_l1;
	size_t shared_per_multiprocessor;
	int regs_per_multiprocessor, managed_memory, multi_gpu_board, multi_gpu_group, host_atomics,
		single_to_double, pageable_access, concurrent_managed, preemption, host_pointer_for_registered,
		cooperative_launch, cooperative_multi_device;
	size_t shared_per_block_optin;
	char rest[1032 - 720];
};
_Static_assert(offsetof(struct device_properties, global_bytes) == 288, "layout");
_Static_assert(offsetof(struct device_properties, major) == 360, "layout");
_Static_assert(offsetof(struct device_properties, multiprocessors) == 388, "layout");
_Static_assert(offsetof(struct device_properties, max_threads_per_multiprocessor) == 624, "layout");

GIVES(cudaGetDeviceProperties_v2(struct device_properties *out, int device), {
	memset(out, 0, 1032);
	strcpy(out->name, "stand-in without a GPU");
	out->global_bytes = DEVICE_BYTES;
	out->shared_per_block = 48 << 10;
	out->shared_per_block_optin = 227 << 10;
	out->shared_per_multiprocessor = 228 << 10;
	out->regs_per_block = out->regs_per_multiprocessor = 65536;
	out->warp_size = 32;
	out->max_threads_per_block = 1024;
	out->max_threads_dim[0] = out->max_threads_dim[1] = 1024;
	out->max_threads_dim[2] = 64;
	out->max_grid[0] = INT32_MAX;
	out->max_grid[1] = out->max_grid[2] = 65535;
	out->const_bytes = 64 << 10;
	out->major = 9;
	out->multiprocessors = 132;
	out->unified_addressing = 1;
	out->l2_bytes = 50 << 20;
	out->max_threads_per_multiprocessor = 2048;
	out->texture_alignment = 512;
})

/* enum cudaDeviceAttr */
GIVES(cudaDeviceGetAttribute(int *out, int attribute, int device), {
	switch (attribute) {
	case 16: /* multiprocessors */
		*out = 132;
		break;
	case 39: /* threads of one */
		*out = 2048;
		break;
	case 1: /* threads of a block */
		*out = 1024;
		break;
	case 10: /* threads of a warp */
		*out = 32;
		break;
	case 75: /* capability, major */
		*out = 9;
		break;
	case 97: /* shared bytes of a block that asks for them */
		*out = 227 << 10;
		break;
	default:
		*out = 0;
	}
})

OK(cudaDeviceEnablePeerAccess(int device, unsigned flags))
GIVES(cudaDeviceCanAccessPeer(int *out, int from, int to), *out = 0)
GIVES(cudaDeviceGetStreamPriorityRange(int *least, int *greatest), *least = 0; *greatest = -5)
GIVES(cudaMemGetInfo(size_t *left, size_t *all), *left = DEVICE_BYTES / 2; *all = DEVICE_BYTES)
OK(cudaProfilerStart(void))
OK(cudaProfilerStop(void))

/* Streams and events. */

cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaEventCreate(cudaEvent_t *out);

STANDIN_ENTRY cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority);
STANDIN_ENTRY cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
	STANDIN_PROLOGUE;
	return cudaStreamCreate(out);
}

STANDIN_ENTRY cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
STANDIN_ENTRY cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	STANDIN_PROLOGUE;
	return cudaEventCreate(out);
}

GIVES(cudaStreamGetPriority(cudaStream_t stream, int *out), *out = 0)
GIVES(cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end), *ms = 1)
GIVES(cudaIpcGetEventHandle(void *out, cudaEvent_t event), memset(out, 0, 64))
GIVES(cudaIpcGetMemHandle(void *out, void *ptr), memset(out, 0, 64))
OK(cudaIpcOpenEventHandle(cudaEvent_t *out, ...))
OK(cudaIpcOpenMemHandle(void **out, ...))
OK(cudaIpcCloseMemHandle(void *ptr))
OK(cudaLaunchHostFunc(cudaStream_t stream, void (*call)(void *), void *data))

/* Captures: while there is one, every stream says so. */

GIVES(cudaStreamIsCapturing(cudaStream_t stream, int *out), *out = runtime_capturing)
GIVES(cudaStreamGetCaptureInfo_v2(cudaStream_t stream, int *status, unsigned long long *id, cudaGraph_t *graph,
				  const void **dependencies, size_t *n),
      *status = runtime_capturing;
      if (id) *id = 1; if (graph) *graph = (cudaGraph_t)0x9000; if (dependencies) *dependencies = NULL;
      if (n) *n = 0)
GIVES(cudaThreadExchangeStreamCaptureMode(int *mode), {
	static __thread int now;
	int before = now;

	now = *mode;
	*mode = before;
})
GIVES(cudaGraphGetNodes(cudaGraph_t graph, void *nodes, size_t *n), *n = 8)
OK(cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags))

/* Functions. */

struct function_attributes {
	size_t shared, constant, local;
	int max_threads, regs, ptx_version, binary_version, cache_ca, max_dynamic_shared, carveout;
};

GIVES(cudaFuncGetAttributes(struct function_attributes *out, const void *function), {
	memset(out, 0, sizeof(*out));
	out->max_threads = 1024;
	out->regs = 32;
	out->ptx_version = out->binary_version = 90;
	out->max_dynamic_shared = 48 << 10;
})
OK(cudaFuncSetAttribute(const void *function, int attribute, int value))
GIVES(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, const void *function, int threads,
							     size_t shared, unsigned flags),
      *out = threads ? 2048 / threads : 1)

/* What <<<…>>> leaves for the stub. */
static __thread struct configuration {
	dim3 grid, block;
	size_t shared;
	void *stream;
} configurations[4];
static __thread unsigned depth;

STANDIN_ENTRY unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
STANDIN_ENTRY unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	STANDIN_PROLOGUE;
	if (depth == sizeof(configurations) / sizeof(configurations[0]))
		abort();
	configurations[depth++] = (struct configuration){ grid, block, shared, stream };
	return 0;
}

STANDIN_ENTRY cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream);
STANDIN_ENTRY cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream)
{
	STANDIN_PROLOGUE;
	if (!depth)
		abort();
	*grid = configurations[--depth].grid;
	*block = configurations[depth].block;
	*shared = configurations[depth].shared;
	*stream = configurations[depth].stream;
	return cudaSuccess;
}

OK(__cudaRegisterVar(void **handle, ...))

/* Memory. */

struct pointer_attributes {
	int type, device; /* 0: not registered, 1: host, 2: device */
	void *device_pointer, *host_pointer;
};

/* PyTorch asks this of host memory alone. */
GIVES(cudaPointerGetAttributes(struct pointer_attributes *out, const void *ptr), {
	memset(out, 0, sizeof(*out));
	out->host_pointer = (void *)ptr;
})
GIVES(cudaHostGetDevicePointer(void **out, void *host, unsigned flags), *out = host)
GIVES(cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device), *out = (cudaMemPool_t)0x7000)
GIVES(cudaMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *out), *(uint64_t *)out = 0)
OK(cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value))
OK(cudaMemPoolSetAccess(cudaMemPool_t pool, const void *map, size_t n))
OK(cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes))
GIVES(cudaDeviceGetPCIBusId(char *out, int bytes, int device), strncpy(out, "0000:01:00.0", (size_t)bytes))
