/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stand-in for libcuda.so.1: one function a symbol. */
#include "driver_symbols.h"
#include "standin.h"
#include "standin_array.h"
#include "standin_state.h"

static __thread struct standin_local *self __attribute__((tls_model("initial-exec")));

/*
 * One call: `work`, unless the script makes the call fail; `bytes` and `direction` are read after it. In `work`,
 * `thread` is the caller.
 */
#define CALL(api, bytes, direction, work)                                                    \
	({                                                                                   \
		struct standin_call call_;                                                   \
		struct standin_local *local_ =                                               \
			__builtin_expect(!self, 0) ? standin_core()->enter(0, &self) : self; \
		struct standin_thread *thread __attribute__((unused)) = local_->thread;      \
		int code_ = standin_begin(&call_, local_, SO_CUDA_API_##api);                \
                                                                                             \
		if (!code_)                                                                  \
			code_ = (int)(work);                                                 \
		(CUresult) standin_end(&call_, code_, (bytes), (direction));                 \
	})

#define ENTRY(symbol, ...) STANDIN_ENTRY CUresult symbol(__VA_ARGS__)

static enum so_cuda_direction direction_of(CUmemorytype from, CUmemorytype to)
{
	if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
		return SO_CUDA_DIRECTION_DEFAULT;
	if (from == CU_MEMORYTYPE_HOST)
		return to == CU_MEMORYTYPE_HOST ? SO_CUDA_DIRECTION_HTOH : SO_CUDA_DIRECTION_HTOD;
	return to == CU_MEMORYTYPE_HOST ? SO_CUDA_DIRECTION_DTOH : SO_CUDA_DIRECTION_DTOD;
}

static CUresult launched(struct standin_thread *thread, CUfunction f)
{
	standin_add(&thread->launches[kernels__index(f)], 1);
	return CUDA_SUCCESS;
}

static CUresult new_device(struct standin_thread *thread, CUdeviceptr *out, size_t bytes)
{
	CUdeviceptr p = out ? memory__device_alloc(thread, bytes) : 0;

	if (!p)
		return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*out = p;
	return CUDA_SUCCESS;
}

static CUresult new_host(struct standin_thread *thread, void **out, size_t bytes)
{
	void *p = out ? memory__host_alloc(thread, bytes) : NULL;

	if (!p)
		return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*out = p;
	return CUDA_SUCCESS;
}

static CUresult new_managed(struct standin_thread *thread, CUdeviceptr *out, size_t bytes)
{
	void *p;
	CUresult code = out ? new_host(thread, &p, bytes) : CUDA_ERROR_INVALID_VALUE;

	if (code == CUDA_SUCCESS)
		*out = (CUdeviceptr)(uintptr_t)p;
	return code;
}

static CUresult new_pitched(struct standin_thread *thread, CUdeviceptr *out, size_t *pitch, size_t width,
			    size_t height)
{
	CUresult code = pitch ? new_device(thread, out, width * height) : CUDA_ERROR_INVALID_VALUE;

	if (code == CUDA_SUCCESS)
		*pitch = (width + 511) / 512 * 512;
	return code;
}

static CUresult freed(bool found)
{
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define OUT(pointer) ((pointer) ? (*(pointer) = driver__handle(), CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)

/* The body of a call that does nothing, and of one that does `work`. */
#define PLAIN(api, bytes, direction)                                                  \
	{                                                                             \
		STANDIN_PROLOGUE;                                                     \
		return CALL(api, bytes, SO_CUDA_DIRECTION_##direction, CUDA_SUCCESS); \
	}
#define BODY(api, bytes, work)                                         \
	{                                                              \
		STANDIN_PROLOGUE;                                      \
		return CALL(api, bytes, SO_CUDA_DIRECTION_NO, (work)); \
	}

#define cu_def_LAUNCH(symbol, api)                                                                      \
	ENTRY(symbol, CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, \
	      unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,    \
	      void **extra)                                                                             \
	BODY(api, 0, launched(thread, f))
#define cu_def_LAUNCH_COOP(symbol, api)                                                                 \
	ENTRY(symbol, CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, \
	      unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params)    \
	BODY(api, 0, launched(thread, f))
#define cu_def_LAUNCH_EX(symbol, api)                                                          \
	ENTRY(symbol, const CUlaunchConfig *config, CUfunction f, void **params, void **extra) \
	BODY(api, 0, launched(thread, f))
#define cu_def_GRAPH(symbol, api)   ENTRY(symbol, CUgraphExec exec, CUstream stream) PLAIN(api, 0, NO)
#define cu_def_NONE(symbol, api)    ENTRY(symbol, void) PLAIN(api, 0, NO)
#define cu_def_CONTEXT(symbol, api) ENTRY(symbol, CUcontext context) PLAIN(api, 0, NO)
#define cu_def_STREAM(symbol, api)  ENTRY(symbol, CUstream stream) PLAIN(api, 0, NO)
#define cu_def_EVENT(symbol, api)   ENTRY(symbol, CUevent event) PLAIN(api, 0, NO)
#define cu_def_STREAM_WAIT(symbol, api) \
	ENTRY(symbol, CUstream stream, CUevent event, unsigned int flags) PLAIN(api, 0, NO)
#define cu_def_RECORD(symbol, api) ENTRY(symbol, CUevent event, CUstream stream) PLAIN(api, 0, NO)
#define cu_def_RECORD_FLAGS(symbol, api) \
	ENTRY(symbol, CUevent event, CUstream stream, unsigned int flags) PLAIN(api, 0, NO)

#define cu_def_COPY(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, CUdeviceptr src, size_t bytes) PLAIN(api, bytes, DEFAULT)
#define cu_def_COPY_ASYNC(symbol, api)                                                 \
	ENTRY(symbol, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	PLAIN(api, bytes, DEFAULT)
#define cu_def_HTOD(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, const void *src, size_t bytes) PLAIN(api, bytes, HTOD)
#define cu_def_HTOD_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) PLAIN(api, bytes, HTOD)
#define cu_def_DTOH(symbol, api) ENTRY(symbol, void *dst, CUdeviceptr src, size_t bytes) PLAIN(api, bytes, DTOH)
#define cu_def_DTOH_ASYNC(symbol, api) \
	ENTRY(symbol, void *dst, CUdeviceptr src, size_t bytes, CUstream stream) PLAIN(api, bytes, DTOH)
#define cu_def_DTOD(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, CUdeviceptr src, size_t bytes) PLAIN(api, bytes, DTOD)
#define cu_def_DTOD_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) PLAIN(api, bytes, DTOD)
#define cu_def_PEER(symbol, api)                                                                    \
	ENTRY(symbol, CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes) \
	PLAIN(api, bytes, PEER)
#define cu_def_PEER_ASYNC(symbol, api)                                                              \
	ENTRY(symbol, CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, \
	      CUstream stream)                                                                      \
	PLAIN(api, bytes, PEER)

#define COPY_BODY(api, bytes_copied)                                                                       \
	{                                                                                                  \
		STANDIN_PROLOGUE;                                                                          \
		enum so_cuda_direction direction = direction_of(copy->srcMemoryType, copy->dstMemoryType); \
                                                                                                           \
		return CALL(api, bytes_copied, direction, CUDA_SUCCESS);                                   \
	}
#define cu_def_COPY_2D(symbol, api) \
	ENTRY(symbol, const CUDA_MEMCPY2D *copy) COPY_BODY(api, copy->WidthInBytes * copy->Height)
#define cu_def_COPY_2D_ASYNC(symbol, api)                         \
	ENTRY(symbol, const CUDA_MEMCPY2D *copy, CUstream stream) \
	COPY_BODY(api, copy->WidthInBytes * copy->Height)
#define cu_def_COPY_3D(symbol, api)              \
	ENTRY(symbol, const CUDA_MEMCPY3D *copy) \
	COPY_BODY(api, copy->WidthInBytes * copy->Height * copy->Depth)
#define cu_def_COPY_3D_ASYNC(symbol, api)                         \
	ENTRY(symbol, const CUDA_MEMCPY3D *copy, CUstream stream) \
	COPY_BODY(api, copy->WidthInBytes * copy->Height * copy->Depth)

#define cu_def_SET_8(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned char value, size_t n) PLAIN(api, n, NO)
#define cu_def_SET_8_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) PLAIN(api, n, NO)
#define cu_def_SET_16(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned short value, size_t n) PLAIN(api, n * 2, NO)
#define cu_def_SET_16_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned short value, size_t n, CUstream stream) PLAIN(api, n * 2, NO)
#define cu_def_SET_32(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned int value, size_t n) PLAIN(api, n * 4, NO)
#define cu_def_SET_32_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, unsigned int value, size_t n, CUstream stream) PLAIN(api, n * 4, NO)

#define cu_def_ALLOC(symbol, api) \
	ENTRY(symbol, CUdeviceptr *out, size_t bytes) BODY(api, bytes, new_device(thread, out, bytes))
#define cu_def_ALLOC_ASYNC(symbol, api)                                \
	ENTRY(symbol, CUdeviceptr *out, size_t bytes, CUstream stream) \
	BODY(api, bytes, new_device(thread, out, bytes))
#define cu_def_ALLOC_POOL(symbol, api)                                                    \
	ENTRY(symbol, CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) \
	BODY(api, bytes, new_device(thread, out, bytes))
#define cu_def_ALLOC_MANAGED(symbol, api)                                 \
	ENTRY(symbol, CUdeviceptr *out, size_t bytes, unsigned int flags) \
	BODY(api, bytes, new_managed(thread, out, bytes))
#define cu_def_ALLOC_PITCH(symbol, api)                                                                   \
	ENTRY(symbol, CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element) \
	BODY(api, width *height, new_pitched(thread, out, pitch, width, height))
#define cu_def_ALLOC_HOST(symbol, api) \
	ENTRY(symbol, void **out, size_t bytes) BODY(api, bytes, new_host(thread, out, bytes))
#define cu_def_HOST_ALLOC(symbol, api)                              \
	ENTRY(symbol, void **out, size_t bytes, unsigned int flags) \
	BODY(api, bytes, new_host(thread, out, bytes))

#define FREE_BODY(api, release)                                                                     \
	{                                                                                           \
		STANDIN_PROLOGUE;                                                                   \
		size_t bytes = 0;                                                                   \
                                                                                                    \
		return CALL(api, bytes, SO_CUDA_DIRECTION_NO, ptr ? freed(release) : CUDA_SUCCESS); \
	}
#define cu_def_FREE(symbol, api) \
	ENTRY(symbol, CUdeviceptr ptr) FREE_BODY(api, memory__device_free(thread, ptr, &bytes))
#define cu_def_FREE_ASYNC(symbol, api) \
	ENTRY(symbol, CUdeviceptr ptr, CUstream stream) FREE_BODY(api, memory__device_free(thread, ptr, &bytes))
#define cu_def_FREE_HOST(symbol, api) \
	ENTRY(symbol, void *ptr) FREE_BODY(api, memory__host_free(thread, ptr, &bytes))

#define cu_def_BEGIN_CAPTURE_OLD(symbol, api) cu_def_STREAM(symbol, api)
#define cu_def_BEGIN_CAPTURE(symbol, api) \
	ENTRY(symbol, CUstream stream, CUstreamCaptureMode mode) PLAIN(api, 0, NO)
#define cu_def_END_CAPTURE(symbol, api) ENTRY(symbol, CUstream stream, CUgraph *out) BODY(api, 0, OUT(out))
#define cu_def_INSTANTIATE_OLD(symbol, api)                                                          \
	ENTRY(symbol, CUgraphExec *out, CUgraph graph, CUgraphNode *at, char *log, size_t log_bytes) \
	BODY(api, 0, OUT(out))
#define cu_def_INSTANTIATE(symbol, api) \
	ENTRY(symbol, CUgraphExec *out, CUgraph graph, unsigned long long flags) BODY(api, 0, OUT(out))

#define cu_def_LAUNCH_LIST(symbol, api)                                             \
	ENTRY(symbol, CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags) \
	BODY(api, 0, n ? launched(thread, list->function) : CUDA_ERROR_INVALID_VALUE)
#define cu_def_ATOA(symbol, api) \
	ENTRY(symbol, CUarray dst, size_t to, CUarray src, size_t from, size_t bytes) PLAIN(api, bytes, DTOD)
#define cu_def_ATOD(symbol, api) \
	ENTRY(symbol, CUdeviceptr dst, CUarray src, size_t from, size_t bytes) PLAIN(api, bytes, DTOD)
#define cu_def_DTOA(symbol, api) \
	ENTRY(symbol, CUarray dst, size_t to, CUdeviceptr src, size_t bytes) PLAIN(api, bytes, DTOD)
#define cu_def_ATOH(symbol, api) \
	ENTRY(symbol, void *dst, CUarray src, size_t from, size_t bytes) PLAIN(api, bytes, DTOH)
#define cu_def_ATOH_ASYNC(symbol, api)                                                    \
	ENTRY(symbol, void *dst, CUarray src, size_t from, size_t bytes, CUstream stream) \
	PLAIN(api, bytes, DTOH)
#define cu_def_HTOA(symbol, api) \
	ENTRY(symbol, CUarray dst, size_t to, const void *src, size_t bytes) PLAIN(api, bytes, HTOD)
#define cu_def_HTOA_ASYNC(symbol, api)                                                        \
	ENTRY(symbol, CUarray dst, size_t to, const void *src, size_t bytes, CUstream stream) \
	PLAIN(api, bytes, HTOD)
#define cu_def_PEER_3D(symbol, api)                   \
	ENTRY(symbol, const CUDA_MEMCPY3D_PEER *copy) \
	PLAIN(api, copy->WidthInBytes * copy->Height * copy->Depth, PEER)
#define cu_def_PEER_3D_ASYNC(symbol, api)                              \
	ENTRY(symbol, const CUDA_MEMCPY3D_PEER *copy, CUstream stream) \
	PLAIN(api, copy->WidthInBytes * copy->Height * copy->Depth, PEER)
#define cu_def_BATCH_OLD(symbol, api)                                                            \
	ENTRY(symbol, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,             \
	      CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes, size_t *bad, \
	      CUstream stream)                                                                   \
	PLAIN(api, batch__bytes(sizes, n), DEFAULT)
#define cu_def_BATCH(symbol, api)                                                                    \
	ENTRY(symbol, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,                 \
	      CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes, CUstream stream) \
	PLAIN(api, batch__bytes(sizes, n), DEFAULT)
#define cu_def_BATCH_3D_OLD(symbol, api)                                                            \
	ENTRY(symbol, size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *bad, unsigned long long flags, \
	      CUstream stream)                                                                      \
	PLAIN(api, batch__bytes_3d(ops, n), DEFAULT)
#define cu_def_BATCH_3D(symbol, api)                                                                    \
	ENTRY(symbol, size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream) \
	PLAIN(api, batch__bytes_3d(ops, n), DEFAULT)
#define cu_def_PREFETCH_OLD(symbol, api) \
	ENTRY(symbol, CUdeviceptr ptr, size_t bytes, CUdevice to, CUstream stream) PLAIN(api, bytes, DEFAULT)
#define cu_def_PREFETCH(symbol, api)                                                                        \
	ENTRY(symbol, CUdeviceptr ptr, size_t bytes, CUmemLocation to, unsigned int flags, CUstream stream) \
	PLAIN(api, bytes, DEFAULT)
#define cu_def_PREFETCH_BATCH(symbol, api)                                                            \
	ENTRY(symbol, CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to, size_t *indices, \
	      size_t n_to, unsigned long long flags, CUstream stream)                                 \
	PLAIN(api, batch__bytes(sizes, n), DEFAULT)

#define SET_2D(symbol, api, type)                                                             \
	ENTRY(symbol, CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height) \
	PLAIN(api, width *height * sizeof(type), NO)
#define SET_2D_ASYNC(symbol, api, type)                                                                        \
	ENTRY(symbol, CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream) \
	PLAIN(api, width *height * sizeof(type), NO)
#define cu_def_SET_2D_8(symbol, api)        SET_2D(symbol, api, unsigned char)
#define cu_def_SET_2D_8_ASYNC(symbol, api)  SET_2D_ASYNC(symbol, api, unsigned char)
#define cu_def_SET_2D_16(symbol, api)       SET_2D(symbol, api, unsigned short)
#define cu_def_SET_2D_16_ASYNC(symbol, api) SET_2D_ASYNC(symbol, api, unsigned short)
#define cu_def_SET_2D_32(symbol, api)       SET_2D(symbol, api, unsigned int)
#define cu_def_SET_2D_32_ASYNC(symbol, api) SET_2D_ASYNC(symbol, api, unsigned int)

#define cu_def_REGISTER(symbol, api)                               \
	ENTRY(symbol, void *ptr, size_t bytes, unsigned int flags) \
	BODY(api, bytes, freed(memory__host_register(thread, ptr, bytes)))
#define cu_def_UNREGISTER(symbol, api) \
	ENTRY(symbol, void *ptr) FREE_BODY(api, memory__host_unregister(thread, ptr, &bytes))

/* An array's handle is an address of its own. */
#define ARRAY_BODY(api, ...)                                                                                  \
	{                                                                                                     \
		STANDIN_PROLOGUE;                                                                             \
		size_t bytes = array__channel_bytes(of->Format) * of->NumChannels * (__VA_ARGS__);            \
                                                                                                              \
		return CALL(api, bytes, SO_CUDA_DIRECTION_NO, new_device(thread, (CUdeviceptr *)out, bytes)); \
	}
#define cu_def_ARRAY(symbol, api)                                    \
	ENTRY(symbol, CUarray *out, const CUDA_ARRAY_DESCRIPTOR *of) \
	ARRAY_BODY(api, array__elements(of->Width, of->Height, 1, 1, 0))
#define cu_def_ARRAY_3D(symbol, api)                                   \
	ENTRY(symbol, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *of) \
	ARRAY_BODY(api, array__elements(of->Width, of->Height, of->Depth, 1, of->Flags))
#define cu_def_MIPMAP(symbol, api)                                                                   \
	ENTRY(symbol, CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int levels) \
	ARRAY_BODY(api, array__elements(of->Width, of->Height, of->Depth, levels, of->Flags))
#define cu_def_FREE_ARRAY(symbol, api) \
	ENTRY(symbol, CUarray ptr)     \
	FREE_BODY(api, memory__device_free(thread, (CUdeviceptr)(uintptr_t)ptr, &bytes))
#define cu_def_FREE_MIPMAP(symbol, api)     \
	ENTRY(symbol, CUmipmappedArray ptr) \
	FREE_BODY(api, memory__device_free(thread, (CUdeviceptr)(uintptr_t)ptr, &bytes))

static CUresult new_handle(struct standin_thread *thread, CUmemGenericAllocationHandle *out, size_t bytes)
{
	CUmemGenericAllocationHandle handle = out ? memory__create(thread, bytes) : 0;

	if (!handle)
		return out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*out = handle;
	return CUDA_SUCCESS;
}

#define cu_def_CREATE(symbol, api)                                                                    \
	ENTRY(symbol, CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *of, \
	      unsigned long long flags)                                                               \
	BODY(api, bytes, new_handle(thread, out, bytes))
#define cu_def_RETAIN_HANDLE(symbol, api)                           \
	ENTRY(symbol, CUmemGenericAllocationHandle *out, void *ptr) \
	BODY(api, 0, out ? freed(memory__retain(ptr, out)) : CUDA_ERROR_INVALID_VALUE)
#define cu_def_RELEASE(symbol, api) \
	ENTRY(symbol, CUmemGenericAllocationHandle handle) BODY(api, 0, freed(memory__release(thread, handle)))
#define cu_def_RESERVE(symbol, api)                                                        \
	ENTRY(symbol, CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr where, \
	      unsigned long long flags)                                                    \
	BODY(api, 0,                                                                       \
	     out ? (*out = (CUdeviceptr)(uintptr_t)driver__handle(), CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)
#define cu_def_MAP(symbol, api)                                                                          \
	ENTRY(symbol, CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
	      unsigned long long flags)                                                                  \
	BODY(api, 0, freed(memory__map(ptr, bytes, handle)))
#define cu_def_SET_ACCESS(symbol, api) \
	ENTRY(symbol, CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *of, size_t n) PLAIN(api, 0, NO)
#define cu_def_UNMAP(symbol, api) \
	ENTRY(symbol, CUdeviceptr ptr, size_t bytes) BODY(api, 0, freed(memory__unmap(thread, ptr, bytes)))
#define cu_def_ADDRESS_FREE(symbol, api) ENTRY(symbol, CUdeviceptr ptr, size_t bytes) PLAIN(api, 0, NO)

#define cu_def_CAPTURE_TO(symbol, api)                                                                        \
	ENTRY(symbol, CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, \
	      size_t n, CUstreamCaptureMode mode)                                                             \
	PLAIN(api, 0, NO)
#define cu_def_INSTANTIATE_PARAMS(symbol, api)                                                \
	ENTRY(symbol, CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) \
	BODY(api, 0, OUT(out))
#define cu_def_UPDATE_OLD(symbol, api)                                                                   \
	ENTRY(symbol, CUgraphExec exec, CUgraph graph, CUgraphNode *at, CUgraphExecUpdateResult *result) \
	PLAIN(api, 0, NO)
#define cu_def_UPDATE(symbol, api) \
	ENTRY(symbol, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result) PLAIN(api, 0, NO)

#define X(symbol, api, shape) cu_##shape symbol;
STANDIN_DRIVER_SYMBOLS(X)
#undef X
#define X(symbol, api, shape) cu_def_##shape(symbol, api)
STANDIN_DRIVER_SYMBOLS(X)
#undef X

#define X(symbol)                                          \
	ENTRY(symbol, void)                                \
	{                                                  \
		STANDIN_PROLOGUE;                          \
		return (CUresult)CUDA_ERROR_NOT_SUPPORTED; \
	}
STANDIN_DRIVER_OLD_SYMBOLS(X)
#undef X
