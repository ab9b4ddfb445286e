/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runtime's calls by the symbols that it exports, each with the API that it counts as, the shape of its arguments,
 * and what stands behind the names of the driver's calls in it. Source: the export table and headers of CUDA 12 and 13.
 */
#ifndef STANDIN_RUNTIME_SYMBOLS_H
#define STANDIN_RUNTIME_SYMBOLS_H

#include "cuda_types.h"

typedef cudaError_t cudart_LAUNCH(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
				  cudaStream_t stream);
typedef cudart_LAUNCH cudart_LAUNCH_COOP;
typedef cudaError_t cudart_LAUNCH_EX(const cudaLaunchConfig_t *config, const void *func, void **args);
typedef cudaError_t cudart_GRAPH(cudaGraphExec_t exec, cudaStream_t stream);
typedef cudaError_t cudart_DEVICE_SYNC(void);
typedef cudaError_t cudart_STREAM_SYNC(cudaStream_t stream);
typedef cudaError_t cudart_STREAM_QUERY(cudaStream_t stream);
typedef cudaError_t cudart_EVENT_SYNC(cudaEvent_t event);
typedef cudaError_t cudart_EVENT_QUERY(cudaEvent_t event);
typedef cudaError_t cudart_STREAM_WAIT(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
typedef cudaError_t cudart_RECORD(cudaEvent_t event, cudaStream_t stream);
typedef cudaError_t cudart_RECORD_FLAGS(cudaEvent_t event, cudaStream_t stream, unsigned int flags);
typedef cudaError_t cudart_COPY(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
typedef cudaError_t cudart_COPY_ASYNC(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				      cudaStream_t stream);
typedef cudaError_t cudart_COPY_2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
				   size_t height, enum cudaMemcpyKind kind);
typedef cudaError_t cudart_COPY_2D_ASYNC(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
					 size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
typedef cudaError_t cudart_COPY_3D(const struct cudaMemcpy3DParms *copy);
typedef cudaError_t cudart_COPY_3D_ASYNC(const struct cudaMemcpy3DParms *copy, cudaStream_t stream);
typedef cudaError_t cudart_PEER(void *dst, int to, const void *src, int from, size_t bytes);
typedef cudaError_t cudart_PEER_ASYNC(void *dst, int to, const void *src, int from, size_t bytes,
				      cudaStream_t stream);
typedef cudaError_t cudart_TO_SYMBOL(const void *symbol, const void *src, size_t bytes, size_t offset,
				     enum cudaMemcpyKind kind);
typedef cudaError_t cudart_TO_SYMBOL_ASYNC(const void *symbol, const void *src, size_t bytes, size_t offset,
					   enum cudaMemcpyKind kind, cudaStream_t stream);
typedef cudaError_t cudart_FROM_SYMBOL(void *dst, const void *symbol, size_t bytes, size_t offset,
				       enum cudaMemcpyKind kind);
typedef cudaError_t cudart_FROM_SYMBOL_ASYNC(void *dst, const void *symbol, size_t bytes, size_t offset,
					     enum cudaMemcpyKind kind, cudaStream_t stream);
typedef cudaError_t cudart_SET(void *dst, int value, size_t bytes);
typedef cudaError_t cudart_SET_ASYNC(void *dst, int value, size_t bytes, cudaStream_t stream);
typedef cudaError_t cudart_SET_2D(void *dst, size_t pitch, int value, size_t width, size_t height);
typedef cudaError_t cudart_SET_2D_ASYNC(void *dst, size_t pitch, int value, size_t width, size_t height,
					cudaStream_t stream);
typedef cudaError_t cudart_ALLOC(void **out, size_t bytes);
typedef cudaError_t cudart_ALLOC_ASYNC(void **out, size_t bytes, cudaStream_t stream);
typedef cudaError_t cudart_ALLOC_POOL(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
typedef cudaError_t cudart_ALLOC_MANAGED(void **out, size_t bytes, unsigned int flags);
typedef cudaError_t cudart_ALLOC_PITCH(void **out, size_t *pitch, size_t width, size_t height);
typedef cudaError_t cudart_ALLOC_HOST(void **out, size_t bytes);
typedef cudaError_t cudart_HOST_ALLOC(void **out, size_t bytes, unsigned int flags);
typedef cudaError_t cudart_FREE(void *ptr);
typedef cudaError_t cudart_FREE_ASYNC(void *ptr, cudaStream_t stream);
typedef cudaError_t cudart_FREE_HOST(void *ptr);
typedef cudaError_t cudart_BEGIN_CAPTURE(cudaStream_t stream, enum cudaStreamCaptureMode mode);
typedef cudaError_t cudart_END_CAPTURE(cudaStream_t stream, cudaGraph_t *out);
typedef cudaError_t cudart_INSTANTIATE(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
struct cudaLaunchParams; /* gone in CUDA 13 */
typedef cudaError_t cudart_LAUNCH_LIST(struct cudaLaunchParams *list, unsigned int n, unsigned int flags);
typedef cudaError_t cudart_TO_ARRAY(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
				    enum cudaMemcpyKind kind);
typedef cudaError_t cudart_TO_ARRAY_ASYNC(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
					  enum cudaMemcpyKind kind, cudaStream_t stream);
typedef cudaError_t cudart_FROM_ARRAY(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
				      enum cudaMemcpyKind kind);
typedef cudaError_t cudart_FROM_ARRAY_ASYNC(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
					    enum cudaMemcpyKind kind, cudaStream_t stream);
typedef cudaError_t cudart_ARRAY_ARRAY(cudaArray_t dst, size_t x, size_t y, cudaArray_const_t src,
				       size_t from_x, size_t from_y, size_t bytes, enum cudaMemcpyKind kind);
typedef cudaError_t cudart_TO_ARRAY_2D(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
				       size_t width, size_t height, enum cudaMemcpyKind kind);
typedef cudaError_t cudart_TO_ARRAY_2D_ASYNC(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
					     size_t width, size_t height, enum cudaMemcpyKind kind,
					     cudaStream_t stream);
typedef cudaError_t cudart_FROM_ARRAY_2D(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
					 size_t width, size_t height, enum cudaMemcpyKind kind);
typedef cudaError_t cudart_FROM_ARRAY_2D_ASYNC(void *dst, size_t pitch, cudaArray_const_t src, size_t x,
					       size_t y, size_t width, size_t height, enum cudaMemcpyKind kind,
					       cudaStream_t stream);
typedef cudaError_t cudart_ARRAY_ARRAY_2D(cudaArray_t dst, size_t x, size_t y, cudaArray_const_t src,
					  size_t from_x, size_t from_y, size_t width, size_t height,
					  enum cudaMemcpyKind kind);
typedef cudaError_t cudart_PEER_3D(const struct cudaMemcpy3DPeerParms *copy);
typedef cudaError_t cudart_PEER_3D_ASYNC(const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream);
typedef cudaError_t cudart_BATCH(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t n,
				 struct cudaMemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
				 cudaStream_t stream);
typedef cudaError_t cudart_BATCH_3D(size_t n, struct cudaMemcpy3DBatchOp *ops, unsigned long long flags,
				    cudaStream_t stream);
typedef cudaError_t cudart_PREFETCH(const void *ptr, size_t bytes, struct cudaMemLocation to,
				    unsigned int flags, cudaStream_t stream);
typedef cudaError_t cudart_PREFETCH_BATCH(void **ptrs, size_t *sizes, size_t n, struct cudaMemLocation *to,
					  size_t *indices, size_t n_to, unsigned long long flags,
					  cudaStream_t stream);
typedef cudaError_t cudart_SET_3D(struct cudaPitchedPtr dst, int value, struct cudaExtent extent);
typedef cudaError_t cudart_SET_3D_ASYNC(struct cudaPitchedPtr dst, int value, struct cudaExtent extent,
					cudaStream_t stream);
typedef cudaError_t cudart_REGISTER(void *ptr, size_t bytes, unsigned int flags);
typedef cudaError_t cudart_UNREGISTER(void *ptr);
typedef cudaError_t cudart_ALLOC_3D(struct cudaPitchedPtr *out, struct cudaExtent extent);
typedef cudaError_t cudart_ARRAY(cudaArray_t *out, const struct cudaChannelFormatDesc *of, size_t width,
				 size_t height, unsigned int flags);
typedef cudaError_t cudart_ARRAY_3D(cudaArray_t *out, const struct cudaChannelFormatDesc *of,
				    struct cudaExtent extent, unsigned int flags);
typedef cudaError_t cudart_MIPMAP(cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *of,
				  struct cudaExtent extent, unsigned int levels, unsigned int flags);
typedef cudaError_t cudart_FREE_ARRAY(cudaArray_t array);
typedef cudaError_t cudart_FREE_MIPMAP(cudaMipmappedArray_t array);
typedef cudaError_t cudart_CAPTURE_TO(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
				      const cudaGraphEdgeData *edges, size_t n,
				      enum cudaStreamCaptureMode mode);
typedef cudaError_t cudart_INSTANTIATE_PARAMS(cudaGraphExec_t *out, cudaGraph_t graph,
					      cudaGraphInstantiateParams *params);
typedef cudaError_t cudart_UPDATE(cudaGraphExec_t exec, cudaGraph_t graph,
				  cudaGraphExecUpdateResultInfo *result);
typedef cudart_GRAPH cudart_UPLOAD;

/* X(symbol, API, shape, ending of the driver's names) */
#define STANDIN_RUNTIME_SYMBOLS(X)                                                                        \
	X(cudaLaunchKernel, cudaLaunchKernel, LAUNCH, )                                                   \
	X(cudaLaunchKernel_ptsz, cudaLaunchKernel, LAUNCH, _ptsz)                                         \
	X(cudaLaunchKernelExC, cudaLaunchKernelExC, LAUNCH_EX, )                                          \
	X(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC, LAUNCH_EX, _ptsz)                                \
	X(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel, LAUNCH_COOP, )                        \
	X(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel, LAUNCH_COOP, _ptsz)              \
	X(cudaGraphLaunch, cudaGraphLaunch, GRAPH, )                                                      \
	X(cudaGraphLaunch_ptsz, cudaGraphLaunch, GRAPH, _ptsz)                                            \
	X(cudaDeviceSynchronize, cudaDeviceSynchronize, DEVICE_SYNC, )                                    \
	X(cudaThreadSynchronize, cudaThreadSynchronize, DEVICE_SYNC, )                                    \
	X(cudaStreamSynchronize, cudaStreamSynchronize, STREAM_SYNC, )                                    \
	X(cudaStreamSynchronize_ptsz, cudaStreamSynchronize, STREAM_SYNC, _ptsz)                          \
	X(cudaEventSynchronize, cudaEventSynchronize, EVENT_SYNC, )                                       \
	X(cudaStreamWaitEvent, cudaStreamWaitEvent, STREAM_WAIT, )                                        \
	X(cudaStreamWaitEvent_ptsz, cudaStreamWaitEvent, STREAM_WAIT, _ptsz)                              \
	X(cudaEventRecord, cudaEventRecord, RECORD, )                                                     \
	X(cudaEventRecord_ptsz, cudaEventRecord, RECORD, _ptsz)                                           \
	X(cudaEventRecordWithFlags, cudaEventRecordWithFlags, RECORD_FLAGS, )                             \
	X(cudaEventRecordWithFlags_ptsz, cudaEventRecordWithFlags, RECORD_FLAGS, _ptsz)                   \
	X(cudaEventQuery, cudaEventQuery, EVENT_QUERY, )                                                  \
	X(cudaStreamQuery, cudaStreamQuery, STREAM_QUERY, )                                               \
	X(cudaStreamQuery_ptsz, cudaStreamQuery, STREAM_QUERY, _ptsz)                                     \
	X(cudaMemcpy, cudaMemcpy, COPY, )                                                                 \
	X(cudaMemcpy_ptds, cudaMemcpy, COPY, _ptds)                                                       \
	X(cudaMemcpyAsync, cudaMemcpyAsync, COPY_ASYNC, )                                                 \
	X(cudaMemcpyAsync_ptsz, cudaMemcpyAsync, COPY_ASYNC, _ptsz)                                       \
	X(cudaMemcpy2D, cudaMemcpy2D, COPY_2D, )                                                          \
	X(cudaMemcpy2D_ptds, cudaMemcpy2D, COPY_2D, _ptds)                                                \
	X(cudaMemcpy2DAsync, cudaMemcpy2DAsync, COPY_2D_ASYNC, )                                          \
	X(cudaMemcpy2DAsync_ptsz, cudaMemcpy2DAsync, COPY_2D_ASYNC, _ptsz)                                \
	X(cudaMemcpy3D, cudaMemcpy3D, COPY_3D, )                                                          \
	X(cudaMemcpy3D_ptds, cudaMemcpy3D, COPY_3D, _ptds)                                                \
	X(cudaMemcpy3DAsync, cudaMemcpy3DAsync, COPY_3D_ASYNC, )                                          \
	X(cudaMemcpy3DAsync_ptsz, cudaMemcpy3DAsync, COPY_3D_ASYNC, _ptsz)                                \
	X(cudaMemcpyPeer, cudaMemcpyPeer, PEER, )                                                         \
	X(cudaMemcpyPeerAsync, cudaMemcpyPeerAsync, PEER_ASYNC, )                                         \
	X(cudaMemcpyToSymbol, cudaMemcpyToSymbol, TO_SYMBOL, )                                            \
	X(cudaMemcpyToSymbol_ptds, cudaMemcpyToSymbol, TO_SYMBOL, _ptds)                                  \
	X(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync, TO_SYMBOL_ASYNC, )                            \
	X(cudaMemcpyToSymbolAsync_ptsz, cudaMemcpyToSymbolAsync, TO_SYMBOL_ASYNC, _ptsz)                  \
	X(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol, FROM_SYMBOL, )                                      \
	X(cudaMemcpyFromSymbol_ptds, cudaMemcpyFromSymbol, FROM_SYMBOL, _ptds)                            \
	X(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync, FROM_SYMBOL_ASYNC, )                      \
	X(cudaMemcpyFromSymbolAsync_ptsz, cudaMemcpyFromSymbolAsync, FROM_SYMBOL_ASYNC, _ptsz)            \
	X(cudaMemset, cudaMemset, SET, )                                                                  \
	X(cudaMemset_ptds, cudaMemset, SET, _ptds)                                                        \
	X(cudaMemsetAsync, cudaMemsetAsync, SET_ASYNC, )                                                  \
	X(cudaMemsetAsync_ptsz, cudaMemsetAsync, SET_ASYNC, _ptsz)                                        \
	X(cudaMemset2D, cudaMemset2D, SET_2D, )                                                           \
	X(cudaMemset2D_ptds, cudaMemset2D, SET_2D, _ptds)                                                 \
	X(cudaMemset2DAsync, cudaMemset2DAsync, SET_2D_ASYNC, )                                           \
	X(cudaMemset2DAsync_ptsz, cudaMemset2DAsync, SET_2D_ASYNC, _ptsz)                                 \
	X(cudaMalloc, cudaMalloc, ALLOC, )                                                                \
	X(cudaMallocAsync, cudaMallocAsync, ALLOC_ASYNC, )                                                \
	X(cudaMallocAsync_ptsz, cudaMallocAsync, ALLOC_ASYNC, _ptsz)                                      \
	X(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync, ALLOC_POOL, )                                 \
	X(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync, ALLOC_POOL, _ptsz)                       \
	X(cudaMallocManaged, cudaMallocManaged, ALLOC_MANAGED, )                                          \
	X(cudaMallocPitch, cudaMallocPitch, ALLOC_PITCH, )                                                \
	X(cudaMallocHost, cudaMallocHost, ALLOC_HOST, )                                                   \
	X(cudaHostAlloc, cudaHostAlloc, HOST_ALLOC, )                                                     \
	X(cudaFree, cudaFree, FREE, )                                                                     \
	X(cudaFreeAsync, cudaFreeAsync, FREE_ASYNC, )                                                     \
	X(cudaFreeAsync_ptsz, cudaFreeAsync, FREE_ASYNC, _ptsz)                                           \
	X(cudaFreeHost, cudaFreeHost, FREE_HOST, )                                                        \
	X(cudaStreamBeginCapture, cudaStreamBeginCapture, BEGIN_CAPTURE, )                                \
	X(cudaStreamBeginCapture_ptsz, cudaStreamBeginCapture, BEGIN_CAPTURE, _ptsz)                      \
	X(cudaStreamEndCapture, cudaStreamEndCapture, END_CAPTURE, )                                      \
	X(cudaStreamEndCapture_ptsz, cudaStreamEndCapture, END_CAPTURE, _ptsz)                            \
	X(cudaGraphInstantiate, cudaGraphInstantiate, INSTANTIATE, )                                      \
	X(cudaGraphInstantiateWithFlags, cudaGraphInstantiateWithFlags, INSTANTIATE, )                    \
	X(cudaLaunchCooperativeKernelMultiDevice, cudaLaunchCooperativeKernelMultiDevice, LAUNCH_LIST, )  \
	X(cudaMemcpyToArray, cudaMemcpyToArray, TO_ARRAY, )                                               \
	X(cudaMemcpyToArray_ptds, cudaMemcpyToArray, TO_ARRAY, _ptds)                                     \
	X(cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync, TO_ARRAY_ASYNC, )                               \
	X(cudaMemcpyToArrayAsync_ptsz, cudaMemcpyToArrayAsync, TO_ARRAY_ASYNC, _ptsz)                     \
	X(cudaMemcpy2DToArray, cudaMemcpy2DToArray, TO_ARRAY_2D, )                                        \
	X(cudaMemcpy2DToArray_ptds, cudaMemcpy2DToArray, TO_ARRAY_2D, _ptds)                              \
	X(cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync, TO_ARRAY_2D_ASYNC, )                        \
	X(cudaMemcpy2DToArrayAsync_ptsz, cudaMemcpy2DToArrayAsync, TO_ARRAY_2D_ASYNC, _ptsz)              \
	X(cudaMemcpyFromArray, cudaMemcpyFromArray, FROM_ARRAY, )                                         \
	X(cudaMemcpyFromArray_ptds, cudaMemcpyFromArray, FROM_ARRAY, _ptds)                               \
	X(cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync, FROM_ARRAY_ASYNC, )                         \
	X(cudaMemcpyFromArrayAsync_ptsz, cudaMemcpyFromArrayAsync, FROM_ARRAY_ASYNC, _ptsz)               \
	X(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray, FROM_ARRAY_2D, )                                  \
	X(cudaMemcpy2DFromArray_ptds, cudaMemcpy2DFromArray, FROM_ARRAY_2D, _ptds)                        \
	X(cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync, FROM_ARRAY_2D_ASYNC, )                  \
	X(cudaMemcpy2DFromArrayAsync_ptsz, cudaMemcpy2DFromArrayAsync, FROM_ARRAY_2D_ASYNC, _ptsz)        \
	X(cudaMemcpyArrayToArray, cudaMemcpyArrayToArray, ARRAY_ARRAY, )                                  \
	X(cudaMemcpyArrayToArray_ptds, cudaMemcpyArrayToArray, ARRAY_ARRAY, _ptds)                        \
	X(cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray, ARRAY_ARRAY_2D, )                           \
	X(cudaMemcpy2DArrayToArray_ptds, cudaMemcpy2DArrayToArray, ARRAY_ARRAY_2D, _ptds)                 \
	X(cudaMemcpy3DPeer, cudaMemcpy3DPeer, PEER_3D, )                                                  \
	X(cudaMemcpy3DPeer_ptds, cudaMemcpy3DPeer, PEER_3D, _ptds)                                        \
	X(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync, PEER_3D_ASYNC, )                                  \
	X(cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeerAsync, PEER_3D_ASYNC, _ptsz)                        \
	X(cudaMemcpyBatchAsync, cudaMemcpyBatchAsync, BATCH, )                                            \
	X(cudaMemcpyBatchAsync_ptsz, cudaMemcpyBatchAsync, BATCH, _ptsz)                                  \
	X(cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync, BATCH_3D, )                                     \
	X(cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DBatchAsync, BATCH_3D, _ptsz)                           \
	X(cudaMemPrefetchAsync, cudaMemPrefetchAsync, PREFETCH, )                                         \
	X(cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync, PREFETCH, _ptsz)                               \
	X(cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync, PREFETCH_BATCH, )                         \
	X(cudaMemPrefetchBatchAsync_ptsz, cudaMemPrefetchBatchAsync, PREFETCH_BATCH, _ptsz)               \
	X(cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync, PREFETCH_BATCH, )     \
	X(cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardAndPrefetchBatchAsync, PREFETCH_BATCH,  \
	  _ptsz)                                                                                          \
	X(cudaMemset3D, cudaMemset3D, SET_3D, )                                                           \
	X(cudaMemset3D_ptds, cudaMemset3D, SET_3D, _ptds)                                                 \
	X(cudaMemset3DAsync, cudaMemset3DAsync, SET_3D_ASYNC, )                                           \
	X(cudaMemset3DAsync_ptsz, cudaMemset3DAsync, SET_3D_ASYNC, _ptsz)                                 \
	X(cudaHostRegister, cudaHostRegister, REGISTER, )                                                 \
	X(cudaHostUnregister, cudaHostUnregister, UNREGISTER, )                                           \
	X(cudaMalloc3D, cudaMalloc3D, ALLOC_3D, )                                                         \
	X(cudaMallocArray, cudaMallocArray, ARRAY, )                                                      \
	X(cudaFreeArray, cudaFreeArray, FREE_ARRAY, )                                                     \
	X(cudaMalloc3DArray, cudaMalloc3DArray, ARRAY_3D, )                                               \
	X(cudaMallocMipmappedArray, cudaMallocMipmappedArray, MIPMAP, )                                   \
	X(cudaFreeMipmappedArray, cudaFreeMipmappedArray, FREE_MIPMAP, )                                  \
	X(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph, CAPTURE_TO, )                     \
	X(cudaStreamBeginCaptureToGraph_ptsz, cudaStreamBeginCaptureToGraph, CAPTURE_TO, _ptsz)           \
	X(cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams, INSTANTIATE_PARAMS, )           \
	X(cudaGraphInstantiateWithParams_ptsz, cudaGraphInstantiateWithParams, INSTANTIATE_PARAMS, _ptsz) \
	X(cudaGraphExecUpdate, cudaGraphExecUpdate, UPDATE, )                                             \
	X(cudaGraphUpload, cudaGraphUpload, UPLOAD, )                                                     \
	X(cudaGraphUpload_ptsz, cudaGraphUpload, UPLOAD, _ptsz)

/* The others that programs of ours call. */
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGetDeviceCount(int *out);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *out);
cudaError_t cudaRuntimeGetVersion(int *out);
cudaError_t cudaDriverGetVersion(int *out);

/* What nvcc's host code calls: at start, and from CUDA 13 on in each kernel's host stub (crt/device_functions.h). */
void **__cudaRegisterFatBinary(void *fat_cubin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
			    const char *device_name, int thread_limit, uint3 *tid, uint3 *bid, dim3 *block,
			    dim3 *grid, int *warp_size);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host_function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
			       cudaStream_t stream);

#endif
