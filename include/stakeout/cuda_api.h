/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CUDA calls that stakeout times, runtime and driver, and how each one's arguments tell what it works on.
 * Signatures: cuda_runtime_api.h and cuda.h of the CUDA toolkit 12 and 13, as the toolkit's reference manual gives
 * them.
 *
 * Names are the base names: an ELF file may export a call as NAME, NAME_v2 … NAME_v9, and each of these with _ptsz or
 * _ptds (the per-thread default stream) behind it.
 *
 * What copies, sets, allocates, releases, launches, waits or captures is here, but for values that streams wait for
 * or write (cuStreamWaitValue32) and for pools that are trimmed. Calls that only make, ask for or change something
 * that the host has (streams, devices, attributes, modules) are not.
 */
#ifndef STAKEOUT_CUDA_API_H
#define STAKEOUT_CUDA_API_H

/*
 * Kinds of calls: what is on one rung of the budget's ladder, and what gets its stacks together. What does the same
 * is of several kinds where few calls that matter are often among many that do not: a wait for the device among those
 * for events, say. What a call of the runtime makes of the driver's calls is of its own kind.
 *
 * X(enumerator, word, what it does: the first of the kinds that do it, the word for that in tables)
 */
#define SO_CUDA_KINDS(X)                                                                                 \
	X(LAUNCH, "launch", LAUNCH, "launch") /* of a kernel */                                          \
	X(GRAPH_LAUNCH, "graph-launch", LAUNCH, "launch")                                                \
	X(SYNC, "device-sync", SYNC, "sync") /* the host waits */                                        \
	X(SYNC_STREAM, "stream-sync", SYNC, "sync")                                                      \
	X(SYNC_EVENT, "event-sync", SYNC, "sync")                                                        \
	X(COPY, "copy", COPY, "copy")                                     /* asynchronous */             \
	X(BLOCKING_COPY, "blocking-copy", BLOCKING_COPY, "blocking-copy") /* the others */               \
	X(SET, "set", SET, "set")                                                                        \
	X(ALLOC, "alloc", ALLOC, "alloc")                                                                \
	X(ASYNC_ALLOC, "async-alloc", ALLOC, "alloc") /* from a pool, in a stream's order */             \
	X(FREE, "free", FREE, "free")                                                                    \
	X(ASYNC_FREE, "async-free", FREE, "free")                                                        \
	X(WAIT, "stream-wait", WAIT, "stream-wait") /* a stream waits for an event; the host does not */ \
	X(EVENT, "event", EVENT, "event")           /* is recorded */                                    \
	X(QUERY, "query", EVENT, "event")           /* of an event or a stream */                        \
	X(CAPTURE, "capture", CAPTURE, "capture")   /* stream capture, graph instantiation */

enum so_cuda_kind {
#define X(name, word, does, does_word) SO_CUDA_##name,
	SO_CUDA_KINDS(X)
#undef X
		SO_CUDA_KIND_COUNT,
};

enum {
#define X(name, word, does, does_word) SO_CUDA_DOES_##name = SO_CUDA_##does,
	SO_CUDA_KINDS(X)
#undef X
};

/* What calls of a kind do, for tables: the first of the kinds that do it. */
static inline enum so_cuda_kind so_cuda_kind__does(enum so_cuda_kind kind)
{
	static const unsigned char does[] = {
#define X(name, word, does, does_word) SO_CUDA_##does,
		SO_CUDA_KINDS(X)
#undef X
	};

	return kind < SO_CUDA_KIND_COUNT ? does[kind] : kind;
}

/* The same for events: of all copies COPY. */
static inline enum so_cuda_kind so_cuda_kind__action(enum so_cuda_kind kind)
{
	return kind == SO_CUDA_BLOCKING_COPY ? SO_CUDA_COPY : so_cuda_kind__does(kind);
}

/* How the arguments are read. Registers: System V psABI x86-64, rdi rsi rdx rcx r8 r9, then the stack from rsp + 8. */
enum so_cuda_args {
	SO_CUDA_ARGS_NONE,
	SO_CUDA_ARGS_LAUNCH, /* (func, dim3 grid, dim3 block, args, shared, stream); a dim3 takes two registers */
	SO_CUDA_ARGS_LAUNCH_CONFIG,    /* (const cudaLaunchConfig_t *, func, args) */
	SO_CUDA_ARGS_CU_LAUNCH,        /* (f, gx, gy, gz, bx, by, bz, shared, stream, params[, extra]) */
	SO_CUDA_ARGS_CU_LAUNCH_CONFIG, /* (const CUlaunchConfig *, f, params, extra) */
	SO_CUDA_ARGS_GRAPH,            /* (graph, stream) */
	SO_CUDA_ARGS_COPY,             /* (dst, src, bytes, kind[, stream]) */
	SO_CUDA_ARGS_COPY_2D,          /* (dst, dpitch, src, spitch, width, height, kind[, stream]) */
	SO_CUDA_ARGS_COPY_3D,          /* (const cudaMemcpy3DParms *[, stream]) */
	SO_CUDA_ARGS_COPY_PEER,        /* (dst, device, src, device, bytes[, stream]) */
	SO_CUDA_ARGS_COPY_SYMBOL,      /* (symbol or dst, src or symbol, bytes, offset, kind[, stream]) */
	SO_CUDA_ARGS_CU_COPY,          /* (dst, src, bytes[, stream]); direction unknown */
	SO_CUDA_ARGS_CU_COPY_HTOD,
	SO_CUDA_ARGS_CU_COPY_DTOH,
	SO_CUDA_ARGS_CU_COPY_DTOD,
	SO_CUDA_ARGS_CU_COPY_PEER, /* (dst, context, src, context, bytes[, stream]) */
	SO_CUDA_ARGS_CU_COPY_2D,   /* (const CUDA_MEMCPY2D *[, stream]) */
	SO_CUDA_ARGS_CU_COPY_3D,   /* (const CUDA_MEMCPY3D *[, stream]) */
	SO_CUDA_ARGS_SET,          /* (dst, value, bytes[, stream]); the driver's D8 form too */
	SO_CUDA_ARGS_SET_16,       /* (dst, value, number of 2-byte values[, stream]) */
	SO_CUDA_ARGS_SET_32,
	SO_CUDA_ARGS_SET_2D,       /* (dst, pitch, value, width, height[, stream]) */
	SO_CUDA_ARGS_ALLOC,        /* (void **out, bytes[, …]) */
	SO_CUDA_ARGS_ALLOC_PITCH,  /* (void **out, size_t *pitch, width, height[, …]) */
	SO_CUDA_ARGS_FREE,         /* (ptr[, stream]) */
	SO_CUDA_ARGS_STREAM,       /* (stream[, …]) */
	SO_CUDA_ARGS_EVENT,        /* (event) */
	SO_CUDA_ARGS_EVENT_STREAM, /* (event, stream[, ...]) */

	/* Of calls that are rare: what follows is read by its own function (bpf/cuda/cuda_rare.h), and no stream. */
	SO_CUDA_ARGS_LAUNCH_LIST,         /* (cudaLaunchParams or CUDA_LAUNCH_PARAMS[], number, flags) */
	SO_CUDA_ARGS_COPY_ARRAY,          /* (4 that say where, bytes, kind[, stream]) */
	SO_CUDA_ARGS_COPY_2D_ARRAY,       /* (5 that say where, width, height, kind[, stream]) */
	SO_CUDA_ARGS_COPY_ARRAY_ARRAY,    /* (6 that say where, bytes, kind) */
	SO_CUDA_ARGS_COPY_2D_ARRAY_ARRAY, /* (6 that say where, width, height, kind) */
	SO_CUDA_ARGS_COPY_3D_PEER,        /* (const cudaMemcpy3DPeerParms *[, stream]) */
	SO_CUDA_ARGS_COPY_BATCH,          /* (to[], from[], bytes[], number, …) */
	SO_CUDA_ARGS_COPY_3D_BATCH,       /* (number, cudaMemcpy3DBatchOp or CUDA_MEMCPY3D_BATCH_OP[], …) */
	SO_CUDA_ARGS_PREFETCH,            /* (ptr, bytes, …); where to is said in two ways, by version */
	SO_CUDA_ARGS_PREFETCH_BATCH,      /* (ptrs[], bytes[], number, …) */
	SO_CUDA_ARGS_CU_COPY_ATOH,        /* (dst, array, offset, bytes[, stream]) */
	SO_CUDA_ARGS_CU_COPY_HTOA,        /* (array, offset, src, bytes[, stream]) */
	SO_CUDA_ARGS_CU_COPY_ATOD,        /* the same between device memory and an array, either way */
	SO_CUDA_ARGS_CU_COPY_ATOA,        /* (array, offset, array, offset, bytes) */
	SO_CUDA_ARGS_CU_COPY_3D_PEER,     /* (const CUDA_MEMCPY3D_PEER *[, stream]) */
	SO_CUDA_ARGS_SET_3D,              /* (cudaPitchedPtr, value, cudaExtent[, stream]): both on the stack */
	SO_CUDA_ARGS_CU_SET_2D_16,        /* (dst, pitch, value, width, height[, stream]) */
	SO_CUDA_ARGS_CU_SET_2D_32,
	SO_CUDA_ARGS_REGISTER,          /* (ptr, bytes, flags): memory that was there before */
	SO_CUDA_ARGS_ALLOC_3D,          /* (cudaPitchedPtr *out, cudaExtent): on the stack */
	SO_CUDA_ARGS_ALLOC_ARRAY,       /* (out, const cudaChannelFormatDesc *, width, height, flags) */
	SO_CUDA_ARGS_ALLOC_3D_ARRAY,    /* (out, const cudaChannelFormatDesc *, cudaExtent, flags) */
	SO_CUDA_ARGS_ALLOC_MIPMAP,      /* (out, const cudaChannelFormatDesc *, cudaExtent, levels, flags) */
	SO_CUDA_ARGS_CU_ALLOC_ARRAY,    /* (out, const CUDA_ARRAY_DESCRIPTOR *) */
	SO_CUDA_ARGS_CU_ALLOC_3D_ARRAY, /* (out, const CUDA_ARRAY3D_DESCRIPTOR *) */
	SO_CUDA_ARGS_CU_ALLOC_MIPMAP,   /* (out, const CUDA_ARRAY3D_DESCRIPTOR *, levels) */

	/* Of memory without an address, whose handles are counted (bpf/cuda/cuda_handles.h). */
	SO_CUDA_ARGS_CREATE,  /* (handle *out, bytes, const CUmemAllocationProp *, flags) */
	SO_CUDA_ARGS_RETAIN,  /* (handle *out, ptr) */
	SO_CUDA_ARGS_RELEASE, /* (handle) */
	SO_CUDA_ARGS_MAP,     /* (ptr, bytes, offset, handle, flags) */
	SO_CUDA_ARGS_UNMAP,   /* (ptr, bytes) */
};

/* Which library has a call. */
enum so_cuda_of { SO_CUDA_OF_RUNTIME, SO_CUDA_OF_DRIVER };

/* X(name, library, kind, args): library RUNTIME or DRIVER */
#define SO_CUDA_APIS(X)                                                          \
	X(cudaLaunchKernel, RUNTIME, LAUNCH, LAUNCH)                             \
	X(cudaLaunchKernelExC, RUNTIME, LAUNCH, LAUNCH_CONFIG)                   \
	X(cudaLaunchCooperativeKernel, RUNTIME, LAUNCH, LAUNCH)                  \
	X(cudaLaunchCooperativeKernelMultiDevice, RUNTIME, LAUNCH, LAUNCH_LIST)  \
	X(cudaGraphLaunch, RUNTIME, GRAPH_LAUNCH, GRAPH)                         \
	X(cudaDeviceSynchronize, RUNTIME, SYNC, NONE)                            \
	X(cudaThreadSynchronize, RUNTIME, SYNC, NONE)                            \
	X(cudaStreamSynchronize, RUNTIME, SYNC_STREAM, STREAM)                   \
	X(cudaEventSynchronize, RUNTIME, SYNC_EVENT, EVENT)                      \
	X(cudaStreamWaitEvent, RUNTIME, WAIT, STREAM)                            \
	X(cudaEventRecord, RUNTIME, EVENT, EVENT_STREAM)                         \
	X(cudaEventRecordWithFlags, RUNTIME, EVENT, EVENT_STREAM)                \
	X(cudaEventQuery, RUNTIME, QUERY, EVENT)                                 \
	X(cudaStreamQuery, RUNTIME, QUERY, STREAM)                               \
	X(cudaMemcpy, RUNTIME, BLOCKING_COPY, COPY)                              \
	X(cudaMemcpyAsync, RUNTIME, COPY, COPY)                                  \
	X(cudaMemcpy2D, RUNTIME, BLOCKING_COPY, COPY_2D)                         \
	X(cudaMemcpy2DAsync, RUNTIME, COPY, COPY_2D)                             \
	X(cudaMemcpy3D, RUNTIME, BLOCKING_COPY, COPY_3D)                         \
	X(cudaMemcpy3DAsync, RUNTIME, COPY, COPY_3D)                             \
	X(cudaMemcpyPeer, RUNTIME, BLOCKING_COPY, COPY_PEER)                     \
	X(cudaMemcpyPeerAsync, RUNTIME, COPY, COPY_PEER)                         \
	X(cudaMemcpyToSymbol, RUNTIME, BLOCKING_COPY, COPY_SYMBOL)               \
	X(cudaMemcpyToSymbolAsync, RUNTIME, COPY, COPY_SYMBOL)                   \
	X(cudaMemcpyFromSymbol, RUNTIME, BLOCKING_COPY, COPY_SYMBOL)             \
	X(cudaMemcpyFromSymbolAsync, RUNTIME, COPY, COPY_SYMBOL)                 \
	X(cudaMemcpyToArray, RUNTIME, BLOCKING_COPY, COPY_ARRAY)                 \
	X(cudaMemcpyToArrayAsync, RUNTIME, COPY, COPY_ARRAY)                     \
	X(cudaMemcpyFromArray, RUNTIME, BLOCKING_COPY, COPY_ARRAY)               \
	X(cudaMemcpyFromArrayAsync, RUNTIME, COPY, COPY_ARRAY)                   \
	X(cudaMemcpyArrayToArray, RUNTIME, BLOCKING_COPY, COPY_ARRAY_ARRAY)      \
	X(cudaMemcpy2DToArray, RUNTIME, BLOCKING_COPY, COPY_2D_ARRAY)            \
	X(cudaMemcpy2DToArrayAsync, RUNTIME, COPY, COPY_2D_ARRAY)                \
	X(cudaMemcpy2DFromArray, RUNTIME, BLOCKING_COPY, COPY_2D_ARRAY)          \
	X(cudaMemcpy2DFromArrayAsync, RUNTIME, COPY, COPY_2D_ARRAY)              \
	X(cudaMemcpy2DArrayToArray, RUNTIME, BLOCKING_COPY, COPY_2D_ARRAY_ARRAY) \
	X(cudaMemcpy3DPeer, RUNTIME, BLOCKING_COPY, COPY_3D_PEER)                \
	X(cudaMemcpy3DPeerAsync, RUNTIME, COPY, COPY_3D_PEER)                    \
	X(cudaMemcpyBatchAsync, RUNTIME, COPY, COPY_BATCH)                       \
	X(cudaMemcpy3DBatchAsync, RUNTIME, COPY, COPY_3D_BATCH)                  \
	X(cudaMemPrefetchAsync, RUNTIME, COPY, PREFETCH)                         \
	X(cudaMemPrefetchBatchAsync, RUNTIME, COPY, PREFETCH_BATCH)              \
	X(cudaMemDiscardAndPrefetchBatchAsync, RUNTIME, COPY, PREFETCH_BATCH)    \
	X(cudaMemset, RUNTIME, SET, SET)                                         \
	X(cudaMemsetAsync, RUNTIME, SET, SET)                                    \
	X(cudaMemset2D, RUNTIME, SET, SET_2D)                                    \
	X(cudaMemset2DAsync, RUNTIME, SET, SET_2D)                               \
	X(cudaMemset3D, RUNTIME, SET, SET_3D)                                    \
	X(cudaMemset3DAsync, RUNTIME, SET, SET_3D)                               \
	X(cudaMalloc, RUNTIME, ALLOC, ALLOC)                                     \
	X(cudaMallocAsync, RUNTIME, ASYNC_ALLOC, ALLOC)                          \
	X(cudaMallocFromPoolAsync, RUNTIME, ASYNC_ALLOC, ALLOC)                  \
	X(cudaMallocManaged, RUNTIME, ALLOC, ALLOC)                              \
	X(cudaMallocPitch, RUNTIME, ALLOC, ALLOC_PITCH)                          \
	X(cudaMallocHost, RUNTIME, ALLOC, ALLOC)                                 \
	X(cudaHostAlloc, RUNTIME, ALLOC, ALLOC)                                  \
	X(cudaHostRegister, RUNTIME, ALLOC, REGISTER)                            \
	X(cudaMalloc3D, RUNTIME, ALLOC, ALLOC_3D)                                \
	X(cudaMallocArray, RUNTIME, ALLOC, ALLOC_ARRAY)                          \
	X(cudaMalloc3DArray, RUNTIME, ALLOC, ALLOC_3D_ARRAY)                     \
	X(cudaMallocMipmappedArray, RUNTIME, ALLOC, ALLOC_MIPMAP)                \
	X(cudaFree, RUNTIME, FREE, FREE)                                         \
	X(cudaFreeAsync, RUNTIME, ASYNC_FREE, FREE)                              \
	X(cudaFreeHost, RUNTIME, FREE, FREE)                                     \
	X(cudaHostUnregister, RUNTIME, FREE, FREE)                               \
	X(cudaFreeArray, RUNTIME, FREE, FREE)                                    \
	X(cudaFreeMipmappedArray, RUNTIME, FREE, FREE)                           \
	X(cudaStreamBeginCapture, RUNTIME, CAPTURE, STREAM)                      \
	X(cudaStreamBeginCaptureToGraph, RUNTIME, CAPTURE, STREAM)               \
	X(cudaStreamEndCapture, RUNTIME, CAPTURE, STREAM)                        \
	X(cudaGraphInstantiate, RUNTIME, CAPTURE, NONE)                          \
	X(cudaGraphInstantiateWithFlags, RUNTIME, CAPTURE, NONE)                 \
	X(cudaGraphInstantiateWithParams, RUNTIME, CAPTURE, NONE)                \
	X(cudaGraphExecUpdate, RUNTIME, CAPTURE, NONE)                           \
	X(cudaGraphUpload, RUNTIME, CAPTURE, GRAPH)                              \
	X(cuLaunchKernel, DRIVER, LAUNCH, CU_LAUNCH)                             \
	X(cuLaunchKernelEx, DRIVER, LAUNCH, CU_LAUNCH_CONFIG)                    \
	X(cuLaunchCooperativeKernel, DRIVER, LAUNCH, CU_LAUNCH)                  \
	X(cuLaunchCooperativeKernelMultiDevice, DRIVER, LAUNCH, LAUNCH_LIST)     \
	X(cuGraphLaunch, DRIVER, GRAPH_LAUNCH, GRAPH)                            \
	X(cuCtxSynchronize, DRIVER, SYNC, NONE)                                  \
	X(cuStreamSynchronize, DRIVER, SYNC_STREAM, STREAM)                      \
	X(cuEventSynchronize, DRIVER, SYNC_EVENT, EVENT)                         \
	X(cuStreamWaitEvent, DRIVER, WAIT, STREAM)                               \
	X(cuEventRecord, DRIVER, EVENT, EVENT_STREAM)                            \
	X(cuEventRecordWithFlags, DRIVER, EVENT, EVENT_STREAM)                   \
	X(cuEventQuery, DRIVER, QUERY, EVENT)                                    \
	X(cuStreamQuery, DRIVER, QUERY, STREAM)                                  \
	X(cuMemcpy, DRIVER, BLOCKING_COPY, CU_COPY)                              \
	X(cuMemcpyAsync, DRIVER, COPY, CU_COPY)                                  \
	X(cuMemcpyHtoD, DRIVER, BLOCKING_COPY, CU_COPY_HTOD)                     \
	X(cuMemcpyHtoDAsync, DRIVER, COPY, CU_COPY_HTOD)                         \
	X(cuMemcpyDtoH, DRIVER, BLOCKING_COPY, CU_COPY_DTOH)                     \
	X(cuMemcpyDtoHAsync, DRIVER, COPY, CU_COPY_DTOH)                         \
	X(cuMemcpyDtoD, DRIVER, BLOCKING_COPY, CU_COPY_DTOD)                     \
	X(cuMemcpyDtoDAsync, DRIVER, COPY, CU_COPY_DTOD)                         \
	X(cuMemcpyPeer, DRIVER, BLOCKING_COPY, CU_COPY_PEER)                     \
	X(cuMemcpyPeerAsync, DRIVER, COPY, CU_COPY_PEER)                         \
	X(cuMemcpy2D, DRIVER, BLOCKING_COPY, CU_COPY_2D)                         \
	X(cuMemcpy2DUnaligned, DRIVER, BLOCKING_COPY, CU_COPY_2D)                \
	X(cuMemcpy2DAsync, DRIVER, COPY, CU_COPY_2D)                             \
	X(cuMemcpy3D, DRIVER, BLOCKING_COPY, CU_COPY_3D)                         \
	X(cuMemcpy3DAsync, DRIVER, COPY, CU_COPY_3D)                             \
	X(cuMemcpyAtoH, DRIVER, BLOCKING_COPY, CU_COPY_ATOH)                     \
	X(cuMemcpyAtoHAsync, DRIVER, COPY, CU_COPY_ATOH)                         \
	X(cuMemcpyHtoA, DRIVER, BLOCKING_COPY, CU_COPY_HTOA)                     \
	X(cuMemcpyHtoAAsync, DRIVER, COPY, CU_COPY_HTOA)                         \
	X(cuMemcpyAtoD, DRIVER, BLOCKING_COPY, CU_COPY_ATOD)                     \
	X(cuMemcpyDtoA, DRIVER, BLOCKING_COPY, CU_COPY_ATOD)                     \
	X(cuMemcpyAtoA, DRIVER, BLOCKING_COPY, CU_COPY_ATOA)                     \
	X(cuMemcpy3DPeer, DRIVER, BLOCKING_COPY, CU_COPY_3D_PEER)                \
	X(cuMemcpy3DPeerAsync, DRIVER, COPY, CU_COPY_3D_PEER)                    \
	X(cuMemcpyBatchAsync, DRIVER, COPY, COPY_BATCH)                          \
	X(cuMemcpy3DBatchAsync, DRIVER, COPY, COPY_3D_BATCH)                     \
	X(cuMemPrefetchAsync, DRIVER, COPY, PREFETCH)                            \
	X(cuMemPrefetchBatchAsync, DRIVER, COPY, PREFETCH_BATCH)                 \
	X(cuMemDiscardAndPrefetchBatchAsync, DRIVER, COPY, PREFETCH_BATCH)       \
	X(cuMemsetD8, DRIVER, SET, SET)                                          \
	X(cuMemsetD8Async, DRIVER, SET, SET)                                     \
	X(cuMemsetD16, DRIVER, SET, SET_16)                                      \
	X(cuMemsetD16Async, DRIVER, SET, SET_16)                                 \
	X(cuMemsetD32, DRIVER, SET, SET_32)                                      \
	X(cuMemsetD32Async, DRIVER, SET, SET_32)                                 \
	X(cuMemsetD2D8, DRIVER, SET, SET_2D)                                     \
	X(cuMemsetD2D8Async, DRIVER, SET, SET_2D)                                \
	X(cuMemsetD2D16, DRIVER, SET, CU_SET_2D_16)                              \
	X(cuMemsetD2D16Async, DRIVER, SET, CU_SET_2D_16)                         \
	X(cuMemsetD2D32, DRIVER, SET, CU_SET_2D_32)                              \
	X(cuMemsetD2D32Async, DRIVER, SET, CU_SET_2D_32)                         \
	X(cuMemAlloc, DRIVER, ALLOC, ALLOC)                                      \
	X(cuMemAllocAsync, DRIVER, ASYNC_ALLOC, ALLOC)                           \
	X(cuMemAllocFromPoolAsync, DRIVER, ASYNC_ALLOC, ALLOC)                   \
	X(cuMemAllocManaged, DRIVER, ALLOC, ALLOC)                               \
	X(cuMemAllocPitch, DRIVER, ALLOC, ALLOC_PITCH)                           \
	X(cuMemAllocHost, DRIVER, ALLOC, ALLOC)                                  \
	X(cuMemHostAlloc, DRIVER, ALLOC, ALLOC)                                  \
	X(cuMemHostRegister, DRIVER, ALLOC, REGISTER)                            \
	X(cuArrayCreate, DRIVER, ALLOC, CU_ALLOC_ARRAY)                          \
	X(cuArray3DCreate, DRIVER, ALLOC, CU_ALLOC_3D_ARRAY)                     \
	X(cuMipmappedArrayCreate, DRIVER, ALLOC, CU_ALLOC_MIPMAP)                \
	X(cuMemCreate, DRIVER, ALLOC, CREATE)                                    \
	X(cuMemRetainAllocationHandle, DRIVER, ALLOC, RETAIN)                    \
	X(cuMemAddressReserve, DRIVER, ALLOC, NONE)                              \
	X(cuMemMap, DRIVER, ALLOC, MAP)                                          \
	X(cuMemSetAccess, DRIVER, ALLOC, NONE)                                   \
	X(cuMemFree, DRIVER, FREE, FREE)                                         \
	X(cuMemFreeAsync, DRIVER, ASYNC_FREE, FREE)                              \
	X(cuMemFreeHost, DRIVER, FREE, FREE)                                     \
	X(cuMemHostUnregister, DRIVER, FREE, FREE)                               \
	X(cuArrayDestroy, DRIVER, FREE, FREE)                                    \
	X(cuMipmappedArrayDestroy, DRIVER, FREE, FREE)                           \
	X(cuMemRelease, DRIVER, FREE, RELEASE)                                   \
	X(cuMemUnmap, DRIVER, FREE, UNMAP)                                       \
	X(cuMemAddressFree, DRIVER, FREE, NONE)                                  \
	X(cuStreamBeginCapture, DRIVER, CAPTURE, STREAM)                         \
	X(cuStreamBeginCaptureToGraph, DRIVER, CAPTURE, STREAM)                  \
	X(cuStreamEndCapture, DRIVER, CAPTURE, STREAM)                           \
	X(cuGraphInstantiate, DRIVER, CAPTURE, NONE)                             \
	X(cuGraphInstantiateWithFlags, DRIVER, CAPTURE, NONE)                    \
	X(cuGraphInstantiateWithParams, DRIVER, CAPTURE, NONE)                   \
	X(cuGraphExecUpdate, DRIVER, CAPTURE, NONE)                              \
	X(cuGraphUpload, DRIVER, CAPTURE, GRAPH)

enum so_cuda_api {
#define X(name, library, kind, args) SO_CUDA_API_##name,
	SO_CUDA_APIS(X)
#undef X
		SO_CUDA_API_COUNT,
};

/*
 * Calls that are not counted but tell a kernel's name: X(name, library, out, handle or alias, name). Which argument is
 * where: 1 is rdi. __cudaRegisterFunction (the binary's own start-up code) has the host stub's address and the mangled
 * name, the others write a handle to *out; __cudaGetKernel (CUDA 13) and cuKernelGetFunction make one of another.
 */
#define SO_CUDA_NAMERS(X)                                                                                   \
	X(__cudaRegisterFunction, RUNTIME, 0, 2, 4) /* (fat binary, stub, char *, const char *name, ...) */ \
	X(__cudaGetKernel, RUNTIME, 1, 2, 0)        /* (cudaKernel_t *out, stub) */                         \
	X(cuModuleGetFunction, DRIVER, 1, 0, 3)     /* (CUfunction *out, module, const char *name) */       \
	X(cuLibraryGetKernel, DRIVER, 1, 0, 3)      /* (CUkernel *out, library, const char *name) */        \
	X(cuKernelGetFunction, DRIVER, 1, 2, 0)     /* (CUfunction *out, CUkernel) */

enum so_cuda_namer {
#define X(name, library, out, handle, text) SO_CUDA_NAMER_##name,
	SO_CUDA_NAMERS(X)
#undef X
		SO_CUDA_NAMER_COUNT,
};

/* Directions of a copy: the numbers of enum cudaMemcpyKind. X(enumerator, word) */
#define SO_CUDA_DIRECTIONS(X)                                                    \
	X(HTOH, "HtoH")                                                          \
	X(HTOD, "HtoD")                                                          \
	X(DTOH, "DtoH")                                                          \
	X(DTOD, "DtoD")                                                          \
	X(DEFAULT, "unknown") /* by the pointers, which only the driver knows */ \
	X(PEER, "PtoP")                                                          \
	X(NO, "") /* no copy */

enum so_cuda_direction {
#define X(name, word) SO_CUDA_DIRECTION_##name,
	SO_CUDA_DIRECTIONS(X)
#undef X
		SO_CUDA_DIRECTION_COUNT,
};

#endif
