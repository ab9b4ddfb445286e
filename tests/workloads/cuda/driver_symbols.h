/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's calls by the symbols that libcuda.so.1 exports, each with the API that it counts as and the shape of its
 * arguments. One list makes the stand-in's functions, the runtime's table of them, and the calls of cuda_each.
 * Source: the export table and headers of CUDA 12 and 13.
 */
#ifndef STANDIN_DRIVER_SYMBOLS_H
#define STANDIN_DRIVER_SYMBOLS_H

#include "cuda_types.h"

typedef CUresult cu_LAUNCH(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
			   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
			   void **params, void **extra);
typedef CUresult cu_LAUNCH_COOP(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
				unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
				CUstream stream, void **params);
typedef CUresult cu_LAUNCH_EX(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
typedef CUresult cu_GRAPH(CUgraphExec exec, CUstream stream);
typedef CUresult cu_NONE(void);
typedef CUresult cu_CONTEXT(CUcontext context);
typedef CUresult cu_STREAM(CUstream stream);
typedef CUresult cu_EVENT(CUevent event);
typedef CUresult cu_STREAM_WAIT(CUstream stream, CUevent event, unsigned int flags);
typedef CUresult cu_RECORD(CUevent event, CUstream stream);
typedef CUresult cu_RECORD_FLAGS(CUevent event, CUstream stream, unsigned int flags);
typedef CUresult cu_COPY(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
typedef CUresult cu_COPY_ASYNC(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
typedef CUresult cu_HTOD(CUdeviceptr dst, const void *src, size_t bytes);
typedef CUresult cu_HTOD_ASYNC(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream);
typedef CUresult cu_DTOH(void *dst, CUdeviceptr src, size_t bytes);
typedef CUresult cu_DTOH_ASYNC(void *dst, CUdeviceptr src, size_t bytes, CUstream stream);
typedef cu_COPY cu_DTOD;
typedef cu_COPY_ASYNC cu_DTOD_ASYNC;
typedef CUresult cu_PEER(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes);
typedef CUresult cu_PEER_ASYNC(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
			       CUstream stream);
typedef CUresult cu_COPY_2D(const CUDA_MEMCPY2D *copy);
typedef CUresult cu_COPY_2D_ASYNC(const CUDA_MEMCPY2D *copy, CUstream stream);
typedef CUresult cu_COPY_3D(const CUDA_MEMCPY3D *copy);
typedef CUresult cu_COPY_3D_ASYNC(const CUDA_MEMCPY3D *copy, CUstream stream);
typedef CUresult cu_SET_8(CUdeviceptr dst, unsigned char value, size_t n);
typedef CUresult cu_SET_8_ASYNC(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream);
typedef CUresult cu_SET_16(CUdeviceptr dst, unsigned short value, size_t n);
typedef CUresult cu_SET_16_ASYNC(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream);
typedef CUresult cu_SET_32(CUdeviceptr dst, unsigned int value, size_t n);
typedef CUresult cu_SET_32_ASYNC(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream);
typedef CUresult cu_ALLOC(CUdeviceptr *out, size_t bytes);
typedef CUresult cu_ALLOC_ASYNC(CUdeviceptr *out, size_t bytes, CUstream stream);
typedef CUresult cu_ALLOC_POOL(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);
typedef CUresult cu_ALLOC_MANAGED(CUdeviceptr *out, size_t bytes, unsigned int flags);
typedef CUresult cu_ALLOC_PITCH(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
				unsigned int element);
typedef CUresult cu_ALLOC_HOST(void **out, size_t bytes);
typedef CUresult cu_HOST_ALLOC(void **out, size_t bytes, unsigned int flags);
typedef CUresult cu_FREE(CUdeviceptr ptr);
typedef CUresult cu_FREE_ASYNC(CUdeviceptr ptr, CUstream stream);
typedef CUresult cu_FREE_HOST(void *ptr);
typedef cu_STREAM cu_BEGIN_CAPTURE_OLD;
typedef CUresult cu_BEGIN_CAPTURE(CUstream stream, CUstreamCaptureMode mode);
typedef CUresult cu_END_CAPTURE(CUstream stream, CUgraph *out);
typedef CUresult cu_INSTANTIATE_OLD(CUgraphExec *out, CUgraph graph, CUgraphNode *at, char *log,
				    size_t log_bytes);
typedef CUresult cu_INSTANTIATE(CUgraphExec *out, CUgraph graph, unsigned long long flags);
typedef CUresult cu_LAUNCH_LIST(CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags);
typedef CUresult cu_ATOA(CUarray dst, size_t to, CUarray src, size_t from, size_t bytes);
typedef CUresult cu_ATOD(CUdeviceptr dst, CUarray src, size_t from, size_t bytes);
typedef CUresult cu_DTOA(CUarray dst, size_t to, CUdeviceptr src, size_t bytes);
typedef CUresult cu_ATOH(void *dst, CUarray src, size_t from, size_t bytes);
typedef CUresult cu_ATOH_ASYNC(void *dst, CUarray src, size_t from, size_t bytes, CUstream stream);
typedef CUresult cu_HTOA(CUarray dst, size_t to, const void *src, size_t bytes);
typedef CUresult cu_HTOA_ASYNC(CUarray dst, size_t to, const void *src, size_t bytes, CUstream stream);
typedef CUresult cu_PEER_3D(const CUDA_MEMCPY3D_PEER *copy);
typedef CUresult cu_PEER_3D_ASYNC(const CUDA_MEMCPY3D_PEER *copy, CUstream stream);
typedef CUresult cu_BATCH_OLD(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
			      CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
			      size_t *failed, CUstream stream);
typedef CUresult cu_BATCH(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n,
			  CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
			  CUstream stream);
typedef CUresult cu_BATCH_3D_OLD(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
				 unsigned long long flags, CUstream stream);
typedef CUresult cu_BATCH_3D(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream);
typedef CUresult cu_PREFETCH_OLD(CUdeviceptr ptr, size_t bytes, CUdevice to, CUstream stream);
typedef CUresult cu_PREFETCH(CUdeviceptr ptr, size_t bytes, CUmemLocation to, unsigned int flags,
			     CUstream stream);
typedef CUresult cu_PREFETCH_BATCH(CUdeviceptr *ptrs, size_t *sizes, size_t n, CUmemLocation *to,
				   size_t *indices, size_t n_to, unsigned long long flags, CUstream stream);
typedef CUresult cu_SET_2D_8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height);
typedef CUresult cu_SET_2D_8_ASYNC(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
				   size_t height, CUstream stream);
typedef CUresult cu_SET_2D_16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height);
typedef CUresult cu_SET_2D_16_ASYNC(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
				    size_t height, CUstream stream);
typedef CUresult cu_SET_2D_32(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height);
typedef CUresult cu_SET_2D_32_ASYNC(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
				    size_t height, CUstream stream);
typedef CUresult cu_REGISTER(void *ptr, size_t bytes, unsigned int flags);
typedef CUresult cu_UNREGISTER(void *ptr);
typedef CUresult cu_ARRAY(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *of);
typedef CUresult cu_ARRAY_3D(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *of);
typedef CUresult cu_MIPMAP(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int levels);
typedef CUresult cu_FREE_ARRAY(CUarray array);
typedef CUresult cu_FREE_MIPMAP(CUmipmappedArray array);
typedef CUresult cu_CREATE(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *of,
			   unsigned long long flags);
typedef CUresult cu_RETAIN_HANDLE(CUmemGenericAllocationHandle *out, void *ptr);
typedef CUresult cu_RELEASE(CUmemGenericAllocationHandle handle);
typedef CUresult cu_RESERVE(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at,
			    unsigned long long flags);
typedef CUresult cu_MAP(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			unsigned long long flags);
typedef CUresult cu_SET_ACCESS(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *of, size_t n);
typedef CUresult cu_UNMAP(CUdeviceptr ptr, size_t bytes);
typedef CUresult cu_ADDRESS_FREE(CUdeviceptr ptr, size_t bytes);
typedef CUresult cu_CAPTURE_TO(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
			       const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode);
typedef CUresult cu_INSTANTIATE_PARAMS(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params);
typedef CUresult cu_UPDATE_OLD(CUgraphExec exec, CUgraph graph, CUgraphNode *at,
			       CUgraphExecUpdateResult *result);
typedef CUresult cu_UPDATE(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result);

/* X(symbol, API, shape) */
#define STANDIN_DRIVER_SYMBOLS(X)                                                                    \
	X(cuLaunchKernel, cuLaunchKernel, LAUNCH)                                                    \
	X(cuLaunchKernel_ptsz, cuLaunchKernel, LAUNCH)                                               \
	X(cuLaunchKernelEx, cuLaunchKernelEx, LAUNCH_EX)                                             \
	X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, LAUNCH_EX)                                        \
	X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, LAUNCH_COOP)                         \
	X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, LAUNCH_COOP)                    \
	X(cuGraphLaunch, cuGraphLaunch, GRAPH)                                                       \
	X(cuGraphLaunch_ptsz, cuGraphLaunch, GRAPH)                                                  \
	X(cuCtxSynchronize, cuCtxSynchronize, NONE)                                                  \
	X(cuCtxSynchronize_v2, cuCtxSynchronize, CONTEXT)                                            \
	X(cuStreamSynchronize, cuStreamSynchronize, STREAM)                                          \
	X(cuStreamSynchronize_ptsz, cuStreamSynchronize, STREAM)                                     \
	X(cuEventSynchronize, cuEventSynchronize, EVENT)                                             \
	X(cuStreamWaitEvent, cuStreamWaitEvent, STREAM_WAIT)                                         \
	X(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, STREAM_WAIT)                                    \
	X(cuEventRecord, cuEventRecord, RECORD)                                                      \
	X(cuEventRecord_ptsz, cuEventRecord, RECORD)                                                 \
	X(cuEventRecordWithFlags, cuEventRecordWithFlags, RECORD_FLAGS)                              \
	X(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, RECORD_FLAGS)                         \
	X(cuEventQuery, cuEventQuery, EVENT)                                                         \
	X(cuStreamQuery, cuStreamQuery, STREAM)                                                      \
	X(cuStreamQuery_ptsz, cuStreamQuery, STREAM)                                                 \
	X(cuMemcpy, cuMemcpy, COPY)                                                                  \
	X(cuMemcpy_ptds, cuMemcpy, COPY)                                                             \
	X(cuMemcpyAsync, cuMemcpyAsync, COPY_ASYNC)                                                  \
	X(cuMemcpyAsync_ptsz, cuMemcpyAsync, COPY_ASYNC)                                             \
	X(cuMemcpyHtoD_v2, cuMemcpyHtoD, HTOD)                                                       \
	X(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, HTOD)                                                  \
	X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, HTOD_ASYNC)                                       \
	X(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, HTOD_ASYNC)                                  \
	X(cuMemcpyDtoH_v2, cuMemcpyDtoH, DTOH)                                                       \
	X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, DTOH)                                                  \
	X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, DTOH_ASYNC)                                       \
	X(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync, DTOH_ASYNC)                                  \
	X(cuMemcpyDtoD_v2, cuMemcpyDtoD, DTOD)                                                       \
	X(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD, DTOD)                                                  \
	X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, DTOD_ASYNC)                                       \
	X(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, DTOD_ASYNC)                                  \
	X(cuMemcpyPeer, cuMemcpyPeer, PEER)                                                          \
	X(cuMemcpyPeer_ptds, cuMemcpyPeer, PEER)                                                     \
	X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, PEER_ASYNC)                                          \
	X(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync, PEER_ASYNC)                                     \
	X(cuMemcpy2D_v2, cuMemcpy2D, COPY_2D)                                                        \
	X(cuMemcpy2D_v2_ptds, cuMemcpy2D, COPY_2D)                                                   \
	X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, COPY_2D)                                      \
	X(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned, COPY_2D)                                 \
	X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, COPY_2D_ASYNC)                                        \
	X(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, COPY_2D_ASYNC)                                   \
	X(cuMemcpy3D_v2, cuMemcpy3D, COPY_3D)                                                        \
	X(cuMemcpy3D_v2_ptds, cuMemcpy3D, COPY_3D)                                                   \
	X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, COPY_3D_ASYNC)                                        \
	X(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, COPY_3D_ASYNC)                                   \
	X(cuMemsetD8_v2, cuMemsetD8, SET_8)                                                          \
	X(cuMemsetD8_v2_ptds, cuMemsetD8, SET_8)                                                     \
	X(cuMemsetD8Async, cuMemsetD8Async, SET_8_ASYNC)                                             \
	X(cuMemsetD8Async_ptsz, cuMemsetD8Async, SET_8_ASYNC)                                        \
	X(cuMemsetD16_v2, cuMemsetD16, SET_16)                                                       \
	X(cuMemsetD16_v2_ptds, cuMemsetD16, SET_16)                                                  \
	X(cuMemsetD16Async, cuMemsetD16Async, SET_16_ASYNC)                                          \
	X(cuMemsetD16Async_ptsz, cuMemsetD16Async, SET_16_ASYNC)                                     \
	X(cuMemsetD32_v2, cuMemsetD32, SET_32)                                                       \
	X(cuMemsetD32_v2_ptds, cuMemsetD32, SET_32)                                                  \
	X(cuMemsetD32Async, cuMemsetD32Async, SET_32_ASYNC)                                          \
	X(cuMemsetD32Async_ptsz, cuMemsetD32Async, SET_32_ASYNC)                                     \
	X(cuMemAlloc_v2, cuMemAlloc, ALLOC)                                                          \
	X(cuMemAllocAsync, cuMemAllocAsync, ALLOC_ASYNC)                                             \
	X(cuMemAllocAsync_ptsz, cuMemAllocAsync, ALLOC_ASYNC)                                        \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, ALLOC_POOL)                              \
	X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, ALLOC_POOL)                         \
	X(cuMemAllocManaged, cuMemAllocManaged, ALLOC_MANAGED)                                       \
	X(cuMemAllocPitch_v2, cuMemAllocPitch, ALLOC_PITCH)                                          \
	X(cuMemAllocHost_v2, cuMemAllocHost, ALLOC_HOST)                                             \
	X(cuMemHostAlloc, cuMemHostAlloc, HOST_ALLOC)                                                \
	X(cuMemFree_v2, cuMemFree, FREE)                                                             \
	X(cuMemFreeAsync, cuMemFreeAsync, FREE_ASYNC)                                                \
	X(cuMemFreeAsync_ptsz, cuMemFreeAsync, FREE_ASYNC)                                           \
	X(cuMemFreeHost, cuMemFreeHost, FREE_HOST)                                                   \
	X(cuStreamBeginCapture, cuStreamBeginCapture, BEGIN_CAPTURE_OLD)                             \
	X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, BEGIN_CAPTURE_OLD)                        \
	X(cuStreamBeginCapture_v2, cuStreamBeginCapture, BEGIN_CAPTURE)                              \
	X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, BEGIN_CAPTURE)                         \
	X(cuStreamEndCapture, cuStreamEndCapture, END_CAPTURE)                                       \
	X(cuStreamEndCapture_ptsz, cuStreamEndCapture, END_CAPTURE)                                  \
	X(cuGraphInstantiate, cuGraphInstantiate, INSTANTIATE_OLD)                                   \
	X(cuGraphInstantiate_v2, cuGraphInstantiate, INSTANTIATE_OLD)                                \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, INSTANTIATE)                     \
	X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, LAUNCH_LIST)   \
	X(cuMemcpyAtoA_v2, cuMemcpyAtoA, ATOA)                                                       \
	X(cuMemcpyAtoA_v2_ptds, cuMemcpyAtoA, ATOA)                                                  \
	X(cuMemcpyAtoD_v2, cuMemcpyAtoD, ATOD)                                                       \
	X(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD, ATOD)                                                  \
	X(cuMemcpyDtoA_v2, cuMemcpyDtoA, DTOA)                                                       \
	X(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA, DTOA)                                                  \
	X(cuMemcpyAtoH_v2, cuMemcpyAtoH, ATOH)                                                       \
	X(cuMemcpyAtoH_v2_ptds, cuMemcpyAtoH, ATOH)                                                  \
	X(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, ATOH_ASYNC)                                       \
	X(cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyAtoHAsync, ATOH_ASYNC)                                  \
	X(cuMemcpyHtoA_v2, cuMemcpyHtoA, HTOA)                                                       \
	X(cuMemcpyHtoA_v2_ptds, cuMemcpyHtoA, HTOA)                                                  \
	X(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, HTOA_ASYNC)                                       \
	X(cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyHtoAAsync, HTOA_ASYNC)                                  \
	X(cuMemcpy3DPeer, cuMemcpy3DPeer, PEER_3D)                                                   \
	X(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer, PEER_3D)                                              \
	X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, PEER_3D_ASYNC)                                   \
	X(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync, PEER_3D_ASYNC)                              \
	X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, BATCH_OLD)                                         \
	X(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync, BATCH_OLD)                                    \
	X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, BATCH)                                          \
	X(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync, BATCH)                                     \
	X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, BATCH_3D_OLD)                                  \
	X(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync, BATCH_3D_OLD)                             \
	X(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, BATCH_3D)                                   \
	X(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync, BATCH_3D)                              \
	X(cuMemPrefetchAsync, cuMemPrefetchAsync, PREFETCH_OLD)                                      \
	X(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync, PREFETCH_OLD)                                 \
	X(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, PREFETCH)                                       \
	X(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync, PREFETCH)                                  \
	X(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync, PREFETCH_BATCH)                          \
	X(cuMemPrefetchBatchAsync_ptsz, cuMemPrefetchBatchAsync, PREFETCH_BATCH)                     \
	X(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync, PREFETCH_BATCH)      \
	X(cuMemDiscardAndPrefetchBatchAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync, PREFETCH_BATCH) \
	X(cuMemsetD2D8_v2, cuMemsetD2D8, SET_2D_8)                                                   \
	X(cuMemsetD2D8_v2_ptds, cuMemsetD2D8, SET_2D_8)                                              \
	X(cuMemsetD2D8Async, cuMemsetD2D8Async, SET_2D_8_ASYNC)                                      \
	X(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, SET_2D_8_ASYNC)                                 \
	X(cuMemsetD2D16_v2, cuMemsetD2D16, SET_2D_16)                                                \
	X(cuMemsetD2D16_v2_ptds, cuMemsetD2D16, SET_2D_16)                                           \
	X(cuMemsetD2D16Async, cuMemsetD2D16Async, SET_2D_16_ASYNC)                                   \
	X(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, SET_2D_16_ASYNC)                              \
	X(cuMemsetD2D32_v2, cuMemsetD2D32, SET_2D_32)                                                \
	X(cuMemsetD2D32_v2_ptds, cuMemsetD2D32, SET_2D_32)                                           \
	X(cuMemsetD2D32Async, cuMemsetD2D32Async, SET_2D_32_ASYNC)                                   \
	X(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, SET_2D_32_ASYNC)                              \
	X(cuMemHostRegister_v2, cuMemHostRegister, REGISTER)                                         \
	X(cuMemHostUnregister, cuMemHostUnregister, UNREGISTER)                                      \
	X(cuArrayCreate_v2, cuArrayCreate, ARRAY)                                                    \
	X(cuArrayDestroy, cuArrayDestroy, FREE_ARRAY)                                                \
	X(cuArray3DCreate_v2, cuArray3DCreate, ARRAY_3D)                                             \
	X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, MIPMAP)                                    \
	X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, FREE_MIPMAP)                             \
	X(cuMemCreate, cuMemCreate, CREATE)                                                          \
	X(cuMemAddressReserve, cuMemAddressReserve, RESERVE)                                         \
	X(cuMemMap, cuMemMap, MAP)                                                                   \
	X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, RETAIN_HANDLE)                   \
	X(cuMemSetAccess, cuMemSetAccess, SET_ACCESS)                                                \
	X(cuMemUnmap, cuMemUnmap, UNMAP)                                                             \
	X(cuMemRelease, cuMemRelease, RELEASE)                                                       \
	X(cuMemAddressFree, cuMemAddressFree, ADDRESS_FREE)                                          \
	X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, CAPTURE_TO)                      \
	X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, CAPTURE_TO)                 \
	X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, INSTANTIATE_PARAMS)            \
	X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, INSTANTIATE_PARAMS)       \
	X(cuGraphExecUpdate, cuGraphExecUpdate, UPDATE_OLD)                                          \
	X(cuGraphExecUpdate_v2, cuGraphExecUpdate, UPDATE)                                           \
	X(cuGraphUpload, cuGraphUpload, GRAPH)                                                       \
	X(cuGraphUpload_ptsz, cuGraphUpload, GRAPH)

/* Exported beside their _v2, as addresses of 32 bits had it; nothing calls them any more. X(symbol) */
#define STANDIN_DRIVER_OLD_SYMBOLS(X) \
	X(cuMemcpyHtoD)               \
	X(cuMemcpyHtoDAsync)          \
	X(cuMemcpyDtoH)               \
	X(cuMemcpyDtoHAsync)          \
	X(cuMemcpyDtoD)               \
	X(cuMemcpyDtoDAsync)          \
	X(cuMemcpy2D)                 \
	X(cuMemcpy2DUnaligned)        \
	X(cuMemcpy2DAsync)            \
	X(cuMemcpy3D)                 \
	X(cuMemcpy3DAsync)            \
	X(cuMemsetD8)                 \
	X(cuMemsetD16)                \
	X(cuMemsetD32)                \
	X(cuMemAlloc)                 \
	X(cuMemAllocPitch)            \
	X(cuMemAllocHost)             \
	X(cuMemFree)                  \
	X(cuMemcpyAtoA)               \
	X(cuMemcpyAtoD)               \
	X(cuMemcpyDtoA)               \
	X(cuMemcpyAtoH)               \
	X(cuMemcpyAtoHAsync)          \
	X(cuMemcpyHtoA)               \
	X(cuMemcpyHtoAAsync)          \
	X(cuMemsetD2D8)               \
	X(cuMemsetD2D16)              \
	X(cuMemsetD2D32)              \
	X(cuMemHostRegister)          \
	X(cuArrayCreate)              \
	X(cuArray3DCreate)

#endif
