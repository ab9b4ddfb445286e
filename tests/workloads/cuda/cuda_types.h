/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The types and layouts of CUDA's interfaces that the stand-ins and their callers need, declared anew so that no
 * toolkit is needed. Source: the reference manuals of the driver and the runtime, CUDA 12 and 13. Sizes are asserted;
 * with STANDIN_REAL_HEADERS the toolkit's own headers take their place (make cuda-signatures).
 */
#ifndef STANDIN_CUDA_TYPES_H
#define STANDIN_CUDA_TYPES_H

#include <stddef.h>

#ifdef __cplusplus
#define _Static_assert static_assert
#endif

#ifdef STANDIN_REAL_HEADERS
#include <cuda.h>
#include <cuda_runtime_api.h>
#undef cuStreamBeginCapture /* names that cuda.h gives to later ones */
#undef cuGraphInstantiate
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
#undef cuMemPrefetchAsync
#undef cuGraphExecUpdate
#else

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel, *cudaKernel_t;
typedef struct CUstream_st *CUstream, *cudaStream_t;
typedef struct CUevent_st *CUevent, *cudaEvent_t;
typedef struct CUgraph_st *CUgraph, *cudaGraph_t;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec, *cudaGraphExec_t;
typedef struct CUmemPoolHandle_st *CUmemoryPool, *cudaMemPool_t;
typedef struct CUarray_st *CUarray;
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUgraphNode_st *cudaGraphNode_t;

/* Never looked into. */
typedef struct CUmemAllocationProp_st CUmemAllocationProp;
typedef struct CUmemAccessDesc_st CUmemAccessDesc;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct CUgraphExecUpdateResultInfo_st CUgraphExecUpdateResultInfo;
typedef enum CUgraphExecUpdateResult_enum { CU_GRAPH_EXEC_UPDATE_SUCCESS = 0 } CUgraphExecUpdateResult;
struct cudaMemcpyAttributes;
typedef struct cudaGraphEdgeData_st cudaGraphEdgeData;
typedef struct cudaGraphInstantiateParams_st cudaGraphInstantiateParams;
typedef struct cudaGraphExecUpdateResultInfo_st cudaGraphExecUpdateResultInfo;

/* The two libraries agree on the numbers of these errors. */
typedef enum cudaError_enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_NOT_SUPPORTED = 801,
} CUresult;

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorNotReady = 600,
} cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4,
};

typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

typedef enum CUstreamCaptureMode_enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0 } CUstreamCaptureMode;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0 };

typedef struct dim3 {
	unsigned int x, y, z;
} dim3;

typedef struct uint3 {
	unsigned int x, y, z;
} uint3;

typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct cudaLaunchConfig_st {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	void *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

struct cudaPos {
	size_t x, y, z;
};

struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
};

struct cudaExtent {
	size_t width, height, depth;
};

typedef struct CUDA_MEMCPY3D_PEER_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	CUcontext srcContext;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	CUcontext dstContext;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

typedef enum CUarray_format_enum {
	CU_AD_FORMAT_UNSIGNED_INT8 = 0x01,
	CU_AD_FORMAT_HALF = 0x10,
	CU_AD_FORMAT_FLOAT = 0x20,
	CU_AD_FORMAT_NV12 = 0xb0,
} CUarray_format;

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
	size_t Width, Height;
	CUarray_format Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
	size_t Width, Height, Depth;
	CUarray_format Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct CUDA_LAUNCH_PARAMS_st {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef enum CUmemLocationType_enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 } CUmemLocationType;
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation;

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id;
};

/* What is copied in a batch: two sides, of 40 bytes each. */
typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
	unsigned long long src[5], dst[5];
	struct {
		size_t width, height, depth;
	} extent;
	int srcAccessOrder;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;

struct cudaMemcpy3DBatchOp {
	unsigned long long src[5], dst[5];
	struct cudaExtent extent;
	int srcAccessOrder;
	unsigned int flags;
};

enum cudaChannelFormatKind { cudaChannelFormatKindFloat = 2 };

struct cudaChannelFormatDesc {
	int x, y, z, w;
	enum cudaChannelFormatKind f;
};

struct cudaMemcpy3DPeerParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	int srcDevice;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	int dstDevice;
	struct cudaExtent extent;
};

struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};

#endif /* STANDIN_REAL_HEADERS */

#if !defined(STANDIN_REAL_HEADERS) || CUDART_VERSION >= 13000
struct cudaLaunchParams {
	void *func;
	dim3 gridDim, blockDim;
	void **args;
	size_t sharedMem;
	cudaStream_t stream;
};
#endif

_Static_assert(sizeof(dim3) == 12, "passed in two registers");
_Static_assert(sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, hStream) == 32, "layout");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56 && offsetof(cudaLaunchConfig_t, stream) == 32, "layout");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128 && offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112, "layout");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200 && offsetof(CUDA_MEMCPY3D, WidthInBytes) == 176, "layout");
_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == 200 && offsetof(CUDA_MEMCPY3D_PEER, WidthInBytes) == 176,
	       "layout");
_Static_assert(sizeof(struct cudaMemcpy3DPeerParms) == 168 &&
		       offsetof(struct cudaMemcpy3DPeerParms, extent) == 144,
	       "layout");
_Static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR) == 24 && offsetof(CUDA_ARRAY_DESCRIPTOR, Format) == 16, "layout");
_Static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40 && offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) == 32,
	       "layout");
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112 && offsetof(CUDA_MEMCPY3D_BATCH_OP, extent) == 80,
	       "layout");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == 112 && offsetof(struct cudaMemcpy3DBatchOp, extent) == 80,
	       "layout");
_Static_assert(sizeof(CUDA_LAUNCH_PARAMS) == 56 && offsetof(CUDA_LAUNCH_PARAMS, blockDimX) == 20, "layout");
_Static_assert(sizeof(struct cudaLaunchParams) == 56 && offsetof(struct cudaLaunchParams, blockDim) == 20,
	       "layout");
_Static_assert(offsetof(struct cudaChannelFormatDesc, f) == 16, "layout");
_Static_assert(sizeof(struct cudaMemcpy3DParms) == 160 && offsetof(struct cudaMemcpy3DParms, kind) == 152,
	       "layout");

#endif
