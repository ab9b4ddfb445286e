/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stand-in for libcudart.so.12: one function a symbol, each with the driver's call in it that NVIDIA's makes. */
#include "runtime_state.h"
#include "standin_array.h"

static __thread struct standin_local *self __attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) struct standin_local *enter(void)
{
	return runtime__load() ? runtime_driver.core->enter(runtime_driver.image, &self) : NULL;
}

static __attribute__((noinline, cold)) cudaError_t failed(cudaError_t code)
{
	if (code != cudaErrorNotReady)
		runtime_last_error = code;
	return code;
}

/* One call: `work`, unless the script makes it fail; `bytes` and `direction` are read after it. */
#define CALL(api, bytes, direction, work)                                                                 \
	({                                                                                                \
		struct standin_call call_;                                                                \
		struct standin_local *local_ = __builtin_expect(!self, 0) ? enter() : self;               \
		int code_ = cudaErrorInsufficientDriver;                                                  \
                                                                                                          \
		if (local_) {                                                                             \
			code_ = standin_begin(&call_, local_, SO_CUDA_API_##api);                         \
			if (!code_)                                                                       \
				code_ = (int)(work);                                                      \
			code_ = standin_end(&call_, code_, (bytes), (enum so_cuda_direction)(direction)); \
		}                                                                                         \
		__builtin_expect(code_, 0) ? failed((cudaError_t)code_) : cudaSuccess;                    \
	})

#define NO         SO_CUDA_DIRECTION_NO
#define D(name, e) runtime_driver.name##e
#define DEV(p)     ((CUdeviceptr)(uintptr_t)(p))
#define OUT(p)     ((CUdeviceptr *)(p))

#define ENTRY(symbol, ...) STANDIN_ENTRY cudaError_t symbol(__VA_ARGS__)
#define BODY(api, bytes, direction, work)                 \
	{                                                 \
		STANDIN_PROLOGUE;                         \
		return CALL(api, bytes, direction, work); \
	}

static unsigned direction_of(enum cudaMemcpyKind kind)
{
	return (unsigned)kind < cudaMemcpyDefault ? (unsigned)kind : SO_CUDA_DIRECTION_DEFAULT;
}

static CUmemorytype memory_of(enum cudaMemcpyKind kind, bool source)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
		return CU_MEMORYTYPE_HOST;
	case cudaMemcpyHostToDevice:
		return source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyDeviceToHost:
		return source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

static CUDA_MEMCPY2D copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
			     size_t height, enum cudaMemcpyKind kind)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = memory_of(kind, true),
		.srcHost = src,
		.srcDevice = DEV(src),
		.srcPitch = spitch,
		.dstMemoryType = memory_of(kind, false),
		.dstHost = dst,
		.dstDevice = DEV(dst),
		.dstPitch = dpitch,
		.WidthInBytes = width,
		.Height = height,
	};
}

static CUDA_MEMCPY3D copy_3d(const struct cudaMemcpy3DParms *p)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = memory_of(p->kind, true),
		.srcHost = p->srcPtr.ptr,
		.srcDevice = DEV(p->srcPtr.ptr),
		.srcPitch = p->srcPtr.pitch,
		.srcHeight = p->srcPtr.ysize,
		.dstMemoryType = memory_of(p->kind, false),
		.dstHost = p->dstPtr.ptr,
		.dstDevice = DEV(p->dstPtr.ptr),
		.dstPitch = p->dstPtr.pitch,
		.dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width,
		.Height = p->extent.height,
		.Depth = p->extent.depth,
	};
}

static uint64_t bytes_3d(const struct cudaMemcpy3DParms *p)
{
	return (uint64_t)p->extent.width * p->extent.height * p->extent.depth;
}

/* By the calling thread, which has slots. */
static uint64_t freed_bytes(void)
{
	return self->thread->device.freed_bytes + self->thread->host.freed_bytes;
}

/* An address a device's program has a variable at. */
static void *at(const void *symbol, size_t offset)
{
	return (char *)(uintptr_t)symbol + offset;
}

#define cudart_def_LAUNCH(symbol, api, e)                                                                     \
	ENTRY(symbol, const void *func, dim3 grid, dim3 block, void **args, size_t shared,                    \
	      cudaStream_t stream)                                                                            \
	BODY(api, 0, NO,                                                                                      \
	     D(cuLaunchKernel, e)(runtime__function(func), grid.x, grid.y, grid.z, block.x, block.y, block.z, \
				  (unsigned int)shared, stream, args, NULL))
#define cudart_def_LAUNCH_COOP(symbol, api, e)                                                         \
	ENTRY(symbol, const void *func, dim3 grid, dim3 block, void **args, size_t shared,             \
	      cudaStream_t stream)                                                                     \
	BODY(api, 0, NO,                                                                               \
	     D(cuLaunchCooperativeKernel, e)(runtime__function(func), grid.x, grid.y, grid.z, block.x, \
					     block.y, block.z, (unsigned int)shared, stream, args))
#define cudart_def_LAUNCH_EX(symbol, api, e)                                              \
	ENTRY(symbol, const cudaLaunchConfig_t *config, const void *func, void **args)    \
	BODY(api, 0, NO, ({                                                               \
		     CUlaunchConfig inner = {                                             \
			     .gridDimX = config->gridDim.x,                               \
			     .gridDimY = config->gridDim.y,                               \
			     .gridDimZ = config->gridDim.z,                               \
			     .blockDimX = config->blockDim.x,                             \
			     .blockDimY = config->blockDim.y,                             \
			     .blockDimZ = config->blockDim.z,                             \
			     .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,    \
			     .hStream = config->stream,                                   \
			     .attrs = config->attrs,                                      \
			     .numAttrs = config->numAttrs,                                \
		     };                                                                   \
		     D(cuLaunchKernelEx, e)(&inner, runtime__function(func), args, NULL); \
	     }))
#define cudart_def_GRAPH(symbol, api, e)                         \
	ENTRY(symbol, cudaGraphExec_t exec, cudaStream_t stream) \
	BODY(api, 0, NO, D(cuGraphLaunch, e)(exec, stream))
#define cudart_def_DEVICE_SYNC(symbol, api, e) ENTRY(symbol, void) BODY(api, 0, NO, D(cuCtxSynchronize, e)())
#define cudart_def_STREAM_SYNC(symbol, api, e) \
	ENTRY(symbol, cudaStream_t stream) BODY(api, 0, NO, D(cuStreamSynchronize, e)(stream))
#define cudart_def_STREAM_QUERY(symbol, api, e) \
	ENTRY(symbol, cudaStream_t stream) BODY(api, 0, NO, D(cuStreamQuery, e)(stream))
#define cudart_def_EVENT_SYNC(symbol, api, e) \
	ENTRY(symbol, cudaEvent_t event) BODY(api, 0, NO, D(cuEventSynchronize, e)(event))
#define cudart_def_EVENT_QUERY(symbol, api, e) \
	ENTRY(symbol, cudaEvent_t event) BODY(api, 0, NO, D(cuEventQuery, e)(event))
#define cudart_def_STREAM_WAIT(symbol, api, e)                                    \
	ENTRY(symbol, cudaStream_t stream, cudaEvent_t event, unsigned int flags) \
	BODY(api, 0, NO, D(cuStreamWaitEvent, e)(stream, event, flags))
#define cudart_def_RECORD(symbol, api, e)                     \
	ENTRY(symbol, cudaEvent_t event, cudaStream_t stream) \
	BODY(api, 0, NO, D(cuEventRecord, e)(event, stream))
#define cudart_def_RECORD_FLAGS(symbol, api, e)                                   \
	ENTRY(symbol, cudaEvent_t event, cudaStream_t stream, unsigned int flags) \
	BODY(api, 0, NO, D(cuEventRecordWithFlags, e)(event, stream, flags))

#define BY_KIND(e, to, from)                                                                   \
	(kind == cudaMemcpyHostToDevice     ? D(cuMemcpyHtoD_v2, e)(DEV(to), (from), bytes)    \
	 : kind == cudaMemcpyDeviceToHost   ? D(cuMemcpyDtoH_v2, e)((to), DEV(from), bytes)    \
	 : kind == cudaMemcpyDeviceToDevice ? D(cuMemcpyDtoD_v2, e)(DEV(to), DEV(from), bytes) \
					    : D(cuMemcpy, e)(DEV(to), DEV(from), bytes))
#define BY_KIND_ASYNC(e, to, from)                                                                          \
	(kind == cudaMemcpyHostToDevice     ? D(cuMemcpyHtoDAsync_v2, e)(DEV(to), (from), bytes, stream)    \
	 : kind == cudaMemcpyDeviceToHost   ? D(cuMemcpyDtoHAsync_v2, e)((to), DEV(from), bytes, stream)    \
	 : kind == cudaMemcpyDeviceToDevice ? D(cuMemcpyDtoDAsync_v2, e)(DEV(to), DEV(from), bytes, stream) \
					    : D(cuMemcpyAsync, e)(DEV(to), DEV(from), bytes, stream))
#define cudart_def_COPY(symbol, api, e)                                                   \
	ENTRY(symbol, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) \
	BODY(api, bytes, direction_of(kind), BY_KIND(e, dst, src))
#define cudart_def_COPY_ASYNC(symbol, api, e)                                                                  \
	ENTRY(symbol, void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) \
	BODY(api, bytes, direction_of(kind), BY_KIND_ASYNC(e, dst, src))
#define cudart_def_TO_SYMBOL(symbol, api, e)                                              \
	ENTRY(symbol, const void *variable, const void *src, size_t bytes, size_t offset, \
	      enum cudaMemcpyKind kind)                                                   \
	BODY(api, bytes, direction_of(kind), BY_KIND(e, at(variable, offset), src))
#define cudart_def_TO_SYMBOL_ASYNC(symbol, api, e)                                        \
	ENTRY(symbol, const void *variable, const void *src, size_t bytes, size_t offset, \
	      enum cudaMemcpyKind kind, cudaStream_t stream)                              \
	BODY(api, bytes, direction_of(kind), BY_KIND_ASYNC(e, at(variable, offset), src))
#define cudart_def_FROM_SYMBOL(symbol, api, e)                                                                \
	ENTRY(symbol, void *dst, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind) \
	BODY(api, bytes, direction_of(kind), BY_KIND(e, dst, at(variable, offset)))
#define cudart_def_FROM_SYMBOL_ASYNC(symbol, api, e)                                                          \
	ENTRY(symbol, void *dst, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind, \
	      cudaStream_t stream)                                                                            \
	BODY(api, bytes, direction_of(kind), BY_KIND_ASYNC(e, dst, at(variable, offset)))

#define COPY_2D_BODY(api, ...)                                                                     \
	BODY(api, width *height, direction_of(kind), ({                                            \
		     CUDA_MEMCPY2D inner = copy_2d(dst, dpitch, src, spitch, width, height, kind); \
		     __VA_ARGS__;                                                                  \
	     }))
#define cudart_def_COPY_2D(symbol, api, e)                                                                   \
	ENTRY(symbol, void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, \
	      enum cudaMemcpyKind kind)                                                                      \
	COPY_2D_BODY(api, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_COPY_2D_ASYNC(symbol, api, e)                                                             \
	ENTRY(symbol, void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, \
	      enum cudaMemcpyKind kind, cudaStream_t stream)                                                 \
	COPY_2D_BODY(api, D(cuMemcpy2DAsync_v2, e)(&inner, stream))

#define COPY_3D_BODY(api, ...)                                 \
	BODY(api, bytes_3d(copy), direction_of(copy->kind), ({ \
		     CUDA_MEMCPY3D inner = copy_3d(copy);      \
		     __VA_ARGS__;                              \
	     }))
#define cudart_def_COPY_3D(symbol, api, e) \
	ENTRY(symbol, const struct cudaMemcpy3DParms *copy) COPY_3D_BODY(api, D(cuMemcpy3D_v2, e)(&inner))
#define cudart_def_COPY_3D_ASYNC(symbol, api, e)                                 \
	ENTRY(symbol, const struct cudaMemcpy3DParms *copy, cudaStream_t stream) \
	COPY_3D_BODY(api, D(cuMemcpy3DAsync_v2, e)(&inner, stream))

#define cudart_def_PEER(symbol, api, e)                                           \
	ENTRY(symbol, void *dst, int to, const void *src, int from, size_t bytes) \
	BODY(api, bytes, SO_CUDA_DIRECTION_PEER, D(cuMemcpyPeer, e)(DEV(dst), NULL, DEV(src), NULL, bytes))
#define cudart_def_PEER_ASYNC(symbol, api, e)                                                          \
	ENTRY(symbol, void *dst, int to, const void *src, int from, size_t bytes, cudaStream_t stream) \
	BODY(api, bytes, SO_CUDA_DIRECTION_PEER,                                                       \
	     D(cuMemcpyPeerAsync, e)(DEV(dst), NULL, DEV(src), NULL, bytes, stream))

#define cudart_def_SET(symbol, api, e)                    \
	ENTRY(symbol, void *dst, int value, size_t bytes) \
	BODY(api, bytes, NO, D(cuMemsetD8_v2, e)(DEV(dst), (unsigned char)value, bytes))
#define cudart_def_SET_ASYNC(symbol, api, e)                                   \
	ENTRY(symbol, void *dst, int value, size_t bytes, cudaStream_t stream) \
	BODY(api, bytes, NO, D(cuMemsetD8Async, e)(DEV(dst), (unsigned char)value, bytes, stream))
#define cudart_def_SET_2D(symbol, api, e)                                              \
	ENTRY(symbol, void *dst, size_t pitch, int value, size_t width, size_t height) \
	BODY(api, width *height, NO,                                                   \
	     D(cuMemsetD2D8_v2, e)(DEV(dst), pitch, (unsigned char)value, width, height))
#define cudart_def_SET_2D_ASYNC(symbol, api, e)                                                             \
	ENTRY(symbol, void *dst, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) \
	BODY(api, width *height, NO,                                                                        \
	     D(cuMemsetD2D8Async, e)(DEV(dst), pitch, (unsigned char)value, width, height, stream))

#define cudart_def_ALLOC(symbol, api, e) \
	ENTRY(symbol, void **out, size_t bytes) BODY(api, bytes, NO, D(cuMemAlloc_v2, e)(OUT(out), bytes))
#define cudart_def_ALLOC_ASYNC(symbol, api, e)                       \
	ENTRY(symbol, void **out, size_t bytes, cudaStream_t stream) \
	BODY(api, bytes, NO, D(cuMemAllocAsync, e)(OUT(out), bytes, stream))
#define cudart_def_ALLOC_POOL(symbol, api, e)                                            \
	ENTRY(symbol, void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) \
	BODY(api, bytes, NO, D(cuMemAllocFromPoolAsync, e)(OUT(out), bytes, pool, stream))
#define cudart_def_ALLOC_MANAGED(symbol, api, e)                    \
	ENTRY(symbol, void **out, size_t bytes, unsigned int flags) \
	BODY(api, bytes, NO, D(cuMemAllocManaged, e)(OUT(out), bytes, flags))
#define cudart_def_ALLOC_PITCH(symbol, api, e)                                \
	ENTRY(symbol, void **out, size_t *pitch, size_t width, size_t height) \
	BODY(api, width *height, NO, D(cuMemAllocPitch_v2, e)(OUT(out), pitch, width, height, 16))
#define cudart_def_ALLOC_HOST(symbol, api, e) \
	ENTRY(symbol, void **out, size_t bytes) BODY(api, bytes, NO, D(cuMemHostAlloc, e)(out, bytes, 0))
#define cudart_def_HOST_ALLOC(symbol, api, e)                       \
	ENTRY(symbol, void **out, size_t bytes, unsigned int flags) \
	BODY(api, bytes, NO, D(cuMemHostAlloc, e)(out, bytes, flags))

/* How many bytes a release gives back, only the driver knows. */
#define RELEASE(api, ...)                                   \
	{                                                   \
		STANDIN_PROLOGUE;                           \
		uint64_t bytes = 0;                         \
                                                            \
		return CALL(api, bytes, NO, ({              \
				    CUresult result;        \
                                                            \
				    bytes -= freed_bytes(); \
				    result = __VA_ARGS__;   \
				    bytes += freed_bytes(); \
				    result;                 \
			    }));                            \
	}
#define cudart_def_FREE(symbol, api, e) ENTRY(symbol, void *ptr) RELEASE(api, D(cuMemFree_v2, e)(DEV(ptr)))
#define cudart_def_FREE_ASYNC(symbol, api, e) \
	ENTRY(symbol, void *ptr, cudaStream_t stream) RELEASE(api, D(cuMemFreeAsync, e)(DEV(ptr), stream))
#define cudart_def_FREE_HOST(symbol, api, e) ENTRY(symbol, void *ptr) RELEASE(api, D(cuMemFreeHost, e)(ptr))

#define cudart_def_BEGIN_CAPTURE(symbol, api, e)                            \
	ENTRY(symbol, cudaStream_t stream, enum cudaStreamCaptureMode mode) \
	BODY(api, 0, NO,                                                    \
	     (runtime_capturing = true, D(cuStreamBeginCapture_v2, e)(stream, (CUstreamCaptureMode)mode)))
#define cudart_def_END_CAPTURE(symbol, api, e)               \
	ENTRY(symbol, cudaStream_t stream, cudaGraph_t *out) \
	BODY(api, 0, NO, (runtime_capturing = false, D(cuStreamEndCapture, e)(stream, out)))
#define cudart_def_INSTANTIATE(symbol, api, e)                                           \
	ENTRY(symbol, cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) \
	BODY(api, 0, NO, D(cuGraphInstantiateWithFlags, e)(out, graph, flags))

#define PITCHED(api, dst, src, width, height, ...)                                                      \
	BODY(api, (width) * (height), direction_of(kind), ({                                            \
		     CUDA_MEMCPY2D inner =                                                              \
			     copy_2d((void *)(uintptr_t)(dst), width, src, width, width, height, kind); \
		     __VA_ARGS__;                                                                       \
	     }))
#define cudart_def_TO_ARRAY(symbol, api, e)                                               \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes, \
	      enum cudaMemcpyKind kind)                                                   \
	PITCHED(api, dst, src, bytes, 1, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_TO_ARRAY_ASYNC(symbol, api, e)                                         \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes, \
	      enum cudaMemcpyKind kind, cudaStream_t stream)                              \
	PITCHED(api, dst, src, bytes, 1, D(cuMemcpy2DAsync_v2, e)(&inner, stream))
#define cudart_def_FROM_ARRAY(symbol, api, e)                                             \
	ENTRY(symbol, void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes, \
	      enum cudaMemcpyKind kind)                                                   \
	PITCHED(api, dst, src, bytes, 1, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_FROM_ARRAY_ASYNC(symbol, api, e)                                       \
	ENTRY(symbol, void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes, \
	      enum cudaMemcpyKind kind, cudaStream_t stream)                              \
	PITCHED(api, dst, src, bytes, 1, D(cuMemcpy2DAsync_v2, e)(&inner, stream))
#define cudart_def_ARRAY_ARRAY(symbol, api, e)                                                   \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, cudaArray_const_t src, size_t from_x, \
	      size_t from_y, size_t bytes, enum cudaMemcpyKind kind)                             \
	PITCHED(api, dst, src, bytes, 1, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_TO_ARRAY_2D(symbol, api, e)                                                          \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch, size_t width, \
	      size_t height, enum cudaMemcpyKind kind)                                                  \
	PITCHED(api, dst, src, width, height, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_TO_ARRAY_2D_ASYNC(symbol, api, e)                                                    \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch, size_t width, \
	      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)                             \
	PITCHED(api, dst, src, width, height, D(cuMemcpy2DAsync_v2, e)(&inner, stream))
#define cudart_def_FROM_ARRAY_2D(symbol, api, e)                                                        \
	ENTRY(symbol, void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y, size_t width, \
	      size_t height, enum cudaMemcpyKind kind)                                                  \
	PITCHED(api, dst, src, width, height, D(cuMemcpy2DUnaligned_v2, e)(&inner))
#define cudart_def_FROM_ARRAY_2D_ASYNC(symbol, api, e)                                                  \
	ENTRY(symbol, void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y, size_t width, \
	      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)                             \
	PITCHED(api, dst, src, width, height, D(cuMemcpy2DAsync_v2, e)(&inner, stream))
#define cudart_def_ARRAY_ARRAY_2D(symbol, api, e)                                                \
	ENTRY(symbol, cudaArray_t dst, size_t x, size_t y, cudaArray_const_t src, size_t from_x, \
	      size_t from_y, size_t width, size_t height, enum cudaMemcpyKind kind)              \
	PITCHED(api, dst, src, width, height, D(cuMemcpy2DUnaligned_v2, e)(&inner))

#define EXTENT_BYTES(extent) ((extent).width * (extent).height * (extent).depth)
#define PEER_3D_BODY(api, ...)                                           \
	BODY(api, EXTENT_BYTES(copy->extent), SO_CUDA_DIRECTION_PEER, ({ \
		     CUDA_MEMCPY3D_PEER inner = {                        \
			     .srcDevice = DEV(copy->srcPtr.ptr),         \
			     .dstDevice = DEV(copy->dstPtr.ptr),         \
			     .WidthInBytes = copy->extent.width,         \
			     .Height = copy->extent.height,              \
			     .Depth = copy->extent.depth,                \
		     };                                                  \
		     __VA_ARGS__;                                        \
	     }))
#define cudart_def_PEER_3D(symbol, api, e) \
	ENTRY(symbol, const struct cudaMemcpy3DPeerParms *copy) PEER_3D_BODY(api, D(cuMemcpy3DPeer, e)(&inner))
#define cudart_def_PEER_3D_ASYNC(symbol, api, e)                                     \
	ENTRY(symbol, const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream) \
	PEER_3D_BODY(api, D(cuMemcpy3DPeerAsync, e)(&inner, stream))

#define cudart_def_BATCH(symbol, api, e)                                                                     \
	ENTRY(symbol, void *const *dsts, const void *const *srcs, const size_t *sizes, size_t n,             \
	      struct cudaMemcpyAttributes *attributes, size_t *indices, size_t n_attributes,                 \
	      cudaStream_t stream)                                                                           \
	BODY(api, batch__bytes(sizes, n), SO_CUDA_DIRECTION_DEFAULT,                                         \
	     D(cuMemcpyBatchAsync_v2, e)((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, (size_t *)sizes, n, NULL, \
					 indices, 0, stream))
#define cudart_def_BATCH_3D(symbol, api, e)                                                     \
	ENTRY(symbol, size_t n, struct cudaMemcpy3DBatchOp *ops, unsigned long long flags,      \
	      cudaStream_t stream)                                                              \
	BODY(api, batch__bytes_3d((CUDA_MEMCPY3D_BATCH_OP *)ops, n), SO_CUDA_DIRECTION_DEFAULT, \
	     D(cuMemcpy3DBatchAsync_v2, e)(n, (CUDA_MEMCPY3D_BATCH_OP *)ops, flags, stream))
#define cudart_def_PREFETCH(symbol, api, e)                                                         \
	ENTRY(symbol, const void *ptr, size_t bytes, struct cudaMemLocation to, unsigned int flags, \
	      cudaStream_t stream)                                                                  \
	BODY(api, bytes, SO_CUDA_DIRECTION_DEFAULT,                                                 \
	     D(cuMemPrefetchAsync_v2, e)(DEV(ptr), bytes, (CUmemLocation){ .id = to.id }, flags, stream))
#define cudart_def_PREFETCH_BATCH(symbol, api, e)                                                        \
	ENTRY(symbol, void **ptrs, size_t *sizes, size_t n, struct cudaMemLocation *to, size_t *indices, \
	      size_t n_to, unsigned long long flags, cudaStream_t stream)                                \
	BODY(api, batch__bytes(sizes, n), SO_CUDA_DIRECTION_DEFAULT,                                     \
	     D(cuMemPrefetchBatchAsync, e)((CUdeviceptr *)ptrs, sizes, n, NULL, indices, 0, flags, stream))

#define cudart_def_SET_3D(symbol, api, e)                                                       \
	ENTRY(symbol, struct cudaPitchedPtr dst, int value, struct cudaExtent extent)           \
	BODY(api, EXTENT_BYTES(extent), NO,                                                     \
	     D(cuMemsetD2D8_v2, e)(DEV(dst.ptr), dst.pitch, (unsigned char)value, extent.width, \
				   extent.height * extent.depth))
#define cudart_def_SET_3D_ASYNC(symbol, api, e)                                                            \
	ENTRY(symbol, struct cudaPitchedPtr dst, int value, struct cudaExtent extent, cudaStream_t stream) \
	BODY(api, EXTENT_BYTES(extent), NO,                                                                \
	     D(cuMemsetD2D8Async, e)(DEV(dst.ptr), dst.pitch, (unsigned char)value, extent.width,          \
				     extent.height * extent.depth, stream))

#define cudart_def_REGISTER(symbol, api, e)                        \
	ENTRY(symbol, void *ptr, size_t bytes, unsigned int flags) \
	BODY(api, bytes, NO, D(cuMemHostRegister_v2, e)(ptr, bytes, flags))
#define cudart_def_UNREGISTER(symbol, api, e) \
	ENTRY(symbol, void *ptr) RELEASE(api, D(cuMemHostUnregister, e)(ptr))
#define cudart_def_ALLOC_3D(symbol, api, e)                                                                    \
	ENTRY(symbol, struct cudaPitchedPtr *out, struct cudaExtent extent)                                    \
	BODY(api, EXTENT_BYTES(extent), NO,                                                                    \
	     D(cuMemAllocPitch_v2, e)(OUT(&out->ptr), &out->pitch, extent.width, extent.height * extent.depth, \
				      16))

static CUDA_ARRAY3D_DESCRIPTOR array_of(const struct cudaChannelFormatDesc *of, struct cudaExtent extent,
					unsigned int flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent.width,
		.Height = extent.height,
		.Depth = extent.depth,
		.Format = of->x == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
			  : of->x == 16 ? CU_AD_FORMAT_HALF
					: CU_AD_FORMAT_FLOAT,
		.NumChannels = 1u + !!of->y + !!of->z + !!of->w,
		.Flags = flags,
	};
}

#define ARRAY_BODY(api, extent, levels, flags, ...)                                                   \
	BODY(api,                                                                                     \
	     array__element_bytes(of) *                                                               \
		     array__elements((extent).width, (extent).height, (extent).depth, levels, flags), \
	     NO, ({                                                                                   \
		     CUDA_ARRAY3D_DESCRIPTOR inner = array_of(of, extent, flags);                     \
		     __VA_ARGS__;                                                                     \
	     }))
#define cudart_def_ARRAY(symbol, api, e)                                                                     \
	ENTRY(symbol, cudaArray_t *out, const struct cudaChannelFormatDesc *of, size_t width, size_t height, \
	      unsigned int flags)                                                                            \
	ARRAY_BODY(api, ((struct cudaExtent){ width, height, 0 }), 1, flags,                                 \
		   D(cuArray3DCreate_v2, e)((CUarray *)out, &inner))
#define cudart_def_ARRAY_3D(symbol, api, e)                                                               \
	ENTRY(symbol, cudaArray_t *out, const struct cudaChannelFormatDesc *of, struct cudaExtent extent, \
	      unsigned int flags)                                                                         \
	ARRAY_BODY(api, extent, 1, flags, D(cuArray3DCreate_v2, e)((CUarray *)out, &inner))
#define cudart_def_MIPMAP(symbol, api, e)                                                \
	ENTRY(symbol, cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *of, \
	      struct cudaExtent extent, unsigned int levels, unsigned int flags)         \
	ARRAY_BODY(api, extent, levels, flags,                                           \
		   D(cuMipmappedArrayCreate, e)((CUmipmappedArray *)out, &inner, levels))
#define cudart_def_FREE_ARRAY(symbol, api, e) \
	ENTRY(symbol, cudaArray_t array) RELEASE(api, D(cuArrayDestroy, e)((CUarray)array))
#define cudart_def_FREE_MIPMAP(symbol, api, e)    \
	ENTRY(symbol, cudaMipmappedArray_t array) \
	RELEASE(api, D(cuMipmappedArrayDestroy, e)((CUmipmappedArray)array))

#define cudart_def_LAUNCH_LIST(symbol, api, e)                                             \
	ENTRY(symbol, struct cudaLaunchParams *list, unsigned int n, unsigned int flags)   \
	BODY(api, 0, NO, ({                                                                \
		     CUDA_LAUNCH_PARAMS inner = {                                          \
			     .function = runtime__function(list->func),                    \
			     .gridDimX = list->gridDim.x,                                  \
			     .gridDimY = list->gridDim.y,                                  \
			     .gridDimZ = list->gridDim.z,                                  \
			     .blockDimX = list->blockDim.x,                                \
			     .blockDimY = list->blockDim.y,                                \
			     .blockDimZ = list->blockDim.z,                                \
		     };                                                                    \
		     D(cuLaunchCooperativeKernelMultiDevice, e)(&inner, n ? 1 : 0, flags); \
	     }))

#define cudart_def_CAPTURE_TO(symbol, api, e)                                               \
	ENTRY(symbol, cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes, \
	      const cudaGraphEdgeData *edges, size_t n, enum cudaStreamCaptureMode mode)    \
	BODY(api, 0, NO,                                                                    \
	     (runtime_capturing = true,                                                     \
	      D(cuStreamBeginCaptureToGraph, e)(stream, graph, nodes, NULL, n, (CUstreamCaptureMode)mode)))
#define cudart_def_INSTANTIATE_PARAMS(symbol, api, e)                                              \
	ENTRY(symbol, cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphInstantiateParams *params) \
	BODY(api, 0, NO, D(cuGraphInstantiateWithParams, e)(out, graph, NULL))
#define cudart_def_UPDATE(symbol, api, e)                                                             \
	ENTRY(symbol, cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *result) \
	BODY(api, 0, NO, D(cuGraphExecUpdate_v2, e)(exec, graph, NULL))
#define cudart_def_UPLOAD(symbol, api, e)                        \
	ENTRY(symbol, cudaGraphExec_t exec, cudaStream_t stream) \
	BODY(api, 0, NO, D(cuGraphUpload, e)(exec, stream))

#define X(symbol, api, shape, ending) cudart_##shape symbol;
STANDIN_RUNTIME_SYMBOLS(X)
#undef X
#define X(symbol, api, shape, ending) cudart_def_##shape(symbol, api, ending)
STANDIN_RUNTIME_SYMBOLS(X)
#undef X
