/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls every symbol of the runtime and of the driver that the stand-ins count, each so many times with arguments of
 * its own, found by name; the last line is truth as JSON. Of an API with number N in the list, a copy, set or
 * allocation has 1000 + N bytes (in two dimensions × 2, in three × 3, per value 2 or 4; in a batch × its copies), a
 * launch has grid (N + 1, 2, 3), block (4, 5, 6). An array has 1000 + N elements of 8 bytes in a row; how many rows,
 * layers and levels is below. Usage: cuda_each [TIMES of each symbol] [stdin|usr1|no] [driver|runtime]
 */
#include "cuda_work.h"
#include "driver_symbols.h"
#include "runtime_symbols.h"
#include "stakeout/cuda_api.h"

#define STREAM ((CUstream)0x51000)
#define EVENT  ((CUevent)0x52000)
#define EXEC   ((CUgraphExec)0x53000)
#define DST    0x7f0000001000
#define SRC    0x7f0000002000

/* What was allocated and not yet released; releases take the last. */
static void *device[4096], *host[4096], *array[4096], *handle[4096], *registered[4096];
static unsigned devices, hosts, arrays, handles, registrations;
static char buffer[65536];

FRAME void each_kernel(float *x)
{
	(void)x;
}

static void keep(void **list, unsigned *count, void *p)
{
	if (p && *count < 4096)
		list[(*count)++] = p;
}

static void *take(void **list, unsigned *count)
{
	return *count ? list[--*count] : NULL;
}

/* Nobody looks there: an address that is not registered yet. */
static void *next_registered(void)
{
	static unsigned n;

	return buffer + n++ % sizeof(buffer);
}

/* The bytes of an API of so many dimensions or values. */
static size_t bytes_of(unsigned api)
{
	return 1000 + api;
}

static CUDA_MEMCPY2D copy_2d(unsigned api)
{
	return (CUDA_MEMCPY2D){ .srcMemoryType = CU_MEMORYTYPE_HOST,
				.srcHost = buffer,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = DST,
				.WidthInBytes = bytes_of(api),
				.Height = 2 };
}

static CUDA_MEMCPY3D copy_3d(unsigned api)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = SRC,
				.dstMemoryType = CU_MEMORYTYPE_HOST,
				.dstHost = buffer,
				.WidthInBytes = bytes_of(api),
				.Height = 3,
				.Depth = 1 };
}

/* In the statements below, f is the function and api its number. */
#define CU_CASE(shape, ...)                                      \
	static void call_cu_##shape(cu_##shape *f, unsigned api) \
	{                                                        \
		__VA_ARGS__;                                     \
	}
#define RT_CASE(shape, ...)                                              \
	static void call_cudart_##shape(cudart_##shape *f, unsigned api) \
	{                                                                \
		__VA_ARGS__;                                             \
	}

CU_CASE(LAUNCH, f((CUfunction)each_kernel, api + 1, 2, 3, 4, 5, 6, 0, STREAM, NULL, NULL))
CU_CASE(LAUNCH_COOP, f((CUfunction)each_kernel, api + 1, 2, 3, 4, 5, 6, 0, STREAM, NULL))
CU_CASE(LAUNCH_EX,
	f(&(CUlaunchConfig){ api + 1, 2, 3, 4, 5, 6, 0, STREAM, NULL, 0 }, (CUfunction)each_kernel, NULL, NULL))
CU_CASE(GRAPH, f(EXEC, STREAM))
CU_CASE(NONE, f())
CU_CASE(CONTEXT, f(NULL))
CU_CASE(STREAM, f(STREAM))
CU_CASE(EVENT, f(EVENT))
CU_CASE(STREAM_WAIT, f(STREAM, EVENT, 0))
CU_CASE(RECORD, f(EVENT, STREAM))
CU_CASE(RECORD_FLAGS, f(EVENT, STREAM, 0))
CU_CASE(COPY, f(DST, SRC, bytes_of(api)))
CU_CASE(COPY_ASYNC, f(DST, SRC, bytes_of(api), STREAM))
CU_CASE(HTOD, f(DST, buffer, bytes_of(api)))
CU_CASE(HTOD_ASYNC, f(DST, buffer, bytes_of(api), STREAM))
CU_CASE(DTOH, f(buffer, SRC, bytes_of(api)))
CU_CASE(DTOH_ASYNC, f(buffer, SRC, bytes_of(api), STREAM))
CU_CASE(DTOD, f(DST, SRC, bytes_of(api)))
CU_CASE(DTOD_ASYNC, f(DST, SRC, bytes_of(api), STREAM))
CU_CASE(PEER, f(DST, NULL, SRC, NULL, bytes_of(api)))
CU_CASE(PEER_ASYNC, f(DST, NULL, SRC, NULL, bytes_of(api), STREAM))
CU_CASE(COPY_2D, CUDA_MEMCPY2D copy = copy_2d(api); f(&copy))
CU_CASE(COPY_2D_ASYNC, CUDA_MEMCPY2D copy = copy_2d(api); f(&copy, STREAM))
CU_CASE(COPY_3D, CUDA_MEMCPY3D copy = copy_3d(api); f(&copy))
CU_CASE(COPY_3D_ASYNC, CUDA_MEMCPY3D copy = copy_3d(api); f(&copy, STREAM))
CU_CASE(SET_8, f(DST, 1, bytes_of(api)))
CU_CASE(SET_8_ASYNC, f(DST, 1, bytes_of(api), STREAM))
CU_CASE(SET_16, f(DST, 1, bytes_of(api)))
CU_CASE(SET_16_ASYNC, f(DST, 1, bytes_of(api), STREAM))
CU_CASE(SET_32, f(DST, 1, bytes_of(api)))
CU_CASE(SET_32_ASYNC, f(DST, 1, bytes_of(api), STREAM))

#define KEEP(list, type, ...) \
	type p = 0;           \
	__VA_ARGS__;          \
	keep(list, &list##s, (void *)(uintptr_t)p)
CU_CASE(ALLOC, KEEP(device, CUdeviceptr, f(&p, bytes_of(api))))
CU_CASE(ALLOC_ASYNC, KEEP(device, CUdeviceptr, f(&p, bytes_of(api), STREAM)))
CU_CASE(ALLOC_POOL, KEEP(device, CUdeviceptr, f(&p, bytes_of(api), NULL, STREAM)))
CU_CASE(ALLOC_MANAGED, KEEP(device, CUdeviceptr, f(&p, bytes_of(api), 1)))
CU_CASE(ALLOC_PITCH, size_t pitch; KEEP(device, CUdeviceptr, f(&p, &pitch, bytes_of(api), 2, 4)))
CU_CASE(ALLOC_HOST, KEEP(host, void *, f(&p, bytes_of(api))))
CU_CASE(HOST_ALLOC, KEEP(host, void *, f(&p, bytes_of(api), 0)))
CU_CASE(FREE, f((CUdeviceptr)(uintptr_t)take(device, &devices)))
CU_CASE(FREE_ASYNC, f((CUdeviceptr)(uintptr_t)take(device, &devices), STREAM))
CU_CASE(FREE_HOST, f(take(host, &hosts)))
CU_CASE(BEGIN_CAPTURE_OLD, f(STREAM))
CU_CASE(BEGIN_CAPTURE, f(STREAM, CU_STREAM_CAPTURE_MODE_GLOBAL))
CU_CASE(END_CAPTURE, CUgraph graph; f(STREAM, &graph))
CU_CASE(INSTANTIATE_OLD, CUgraphExec exec; f(&exec, NULL, NULL, NULL, 0))
CU_CASE(INSTANTIATE, CUgraphExec exec; f(&exec, NULL, 0))

static CUDA_MEMCPY3D_PEER peer_3d(unsigned api)
{
	return (CUDA_MEMCPY3D_PEER){
		.srcDevice = SRC, .dstDevice = DST, .WidthInBytes = bytes_of(api), .Height = 3, .Depth = 1
	};
}

/* Batches of four copies, of 40 (which takes several reads), or of two of three dimensions. */
#define SHORT_BATCH 4
#define LONG_BATCH  40
#define BATCH_3D    2

static void *batch_pointers[LONG_BATCH];
static size_t batch_sizes[LONG_BATCH];

static size_t *sizes_of(unsigned api)
{
	for (unsigned i = 0; i < LONG_BATCH; i++)
		batch_sizes[i] = bytes_of(api);
	return batch_sizes;
}

static CUDA_MEMCPY3D_BATCH_OP *ops_of(unsigned api)
{
	static CUDA_MEMCPY3D_BATCH_OP ops[BATCH_3D];

	for (unsigned i = 0; i < BATCH_3D; i++) {
		ops[i].extent.width = bytes_of(api);
		ops[i].extent.height = 3;
		ops[i].extent.depth = 1;
	}
	return ops;
}

static CUDA_ARRAY3D_DESCRIPTOR array_3d(unsigned api, CUarray_format format, unsigned flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){ .Width = bytes_of(api),
					  .Height = 6,
					  .Depth = 2,
					  .Format = format,
					  .NumChannels = 2,
					  .Flags = flags };
}

/* Where handles are mapped, one behind another. */
#define MAPPED      0x7e0000000000ull
#define MAPPED_STEP 0x10000
static unsigned n_mapped, n_unmapped;

static CUdeviceptr next_mapped(void)
{
	return MAPPED + n_mapped++ * MAPPED_STEP;
}

#define BATCH(n) (CUdeviceptr *)batch_pointers, (CUdeviceptr *)batch_pointers, sizes_of(api), n
#define LOCATION                               \
	(CUmemLocation)                        \
	{                                      \
		CU_MEM_LOCATION_TYPE_DEVICE, 0 \
	}

CU_CASE(LAUNCH_LIST,
	CUDA_LAUNCH_PARAMS one = { (CUfunction)each_kernel, api + 1, 2, 3, 4, 5, 6, 0, STREAM, NULL };
	f(&one, 1, 0))
CU_CASE(ATOA, f(NULL, 8, NULL, 16, bytes_of(api)))
CU_CASE(ATOD, f(DST, NULL, 8, bytes_of(api)))
CU_CASE(DTOA, f(NULL, 8, SRC, bytes_of(api)))
CU_CASE(ATOH, f(buffer, NULL, 8, bytes_of(api)))
CU_CASE(ATOH_ASYNC, f(buffer, NULL, 8, bytes_of(api), STREAM))
CU_CASE(HTOA, f(NULL, 8, buffer, bytes_of(api)))
CU_CASE(HTOA_ASYNC, f(NULL, 8, buffer, bytes_of(api), STREAM))
CU_CASE(PEER_3D, CUDA_MEMCPY3D_PEER copy = peer_3d(api); f(&copy))
CU_CASE(PEER_3D_ASYNC, CUDA_MEMCPY3D_PEER copy = peer_3d(api); f(&copy, STREAM))
CU_CASE(BATCH_OLD, size_t bad; f(BATCH(SHORT_BATCH), NULL, NULL, 0, &bad, STREAM))
CU_CASE(BATCH, f(BATCH(LONG_BATCH), NULL, NULL, 0, STREAM))
CU_CASE(BATCH_3D_OLD, size_t bad; f(BATCH_3D, ops_of(api), &bad, 0, STREAM))
CU_CASE(BATCH_3D, f(BATCH_3D, ops_of(api), 0, STREAM))
CU_CASE(PREFETCH_OLD, f(DST, bytes_of(api), 0, STREAM))
CU_CASE(PREFETCH, f(DST, bytes_of(api), LOCATION, 0, STREAM))
CU_CASE(PREFETCH_BATCH, f((CUdeviceptr *)batch_pointers, sizes_of(api), SHORT_BATCH, NULL, NULL, 0, 0, STREAM))
CU_CASE(SET_2D_8, f(DST, 4096, 1, bytes_of(api), 2))
CU_CASE(SET_2D_8_ASYNC, f(DST, 4096, 1, bytes_of(api), 2, STREAM))
CU_CASE(SET_2D_16, f(DST, 4096, 1, bytes_of(api), 2))
CU_CASE(SET_2D_16_ASYNC, f(DST, 4096, 1, bytes_of(api), 2, STREAM))
CU_CASE(SET_2D_32, f(DST, 4096, 1, bytes_of(api), 2))
CU_CASE(SET_2D_32_ASYNC, f(DST, 4096, 1, bytes_of(api), 2, STREAM))
CU_CASE(REGISTER, void *p = next_registered(); if (!f(p, bytes_of(api), 0)) keep(registered, &registrations, p))
CU_CASE(UNREGISTER, f(take(registered, &registrations)))
CU_CASE(ARRAY, CUDA_ARRAY_DESCRIPTOR of = { bytes_of(api), 3, CU_AD_FORMAT_FLOAT, 2 };
	KEEP(array, CUarray, f(&p, &of)))
CU_CASE(ARRAY_3D, CUDA_ARRAY3D_DESCRIPTOR of = array_3d(api, CU_AD_FORMAT_HALF, 0);
	KEEP(array, CUarray, f(&p, &of)))
CU_CASE(MIPMAP, CUDA_ARRAY3D_DESCRIPTOR of = array_3d(api, CU_AD_FORMAT_UNSIGNED_INT8, 1);
	KEEP(array, CUmipmappedArray, f(&p, &of, 4)))
CU_CASE(FREE_ARRAY, f((CUarray)take(array, &arrays)))
CU_CASE(FREE_MIPMAP, f((CUmipmappedArray)take(array, &arrays)))
CU_CASE(CREATE, KEEP(handle, CUmemGenericAllocationHandle, f(&p, bytes_of(api), NULL, 0)))
CU_CASE(RELEASE, f((CUmemGenericAllocationHandle)(uintptr_t)take(handle, &handles)))
CU_CASE(RESERVE, CUdeviceptr p; f(&p, bytes_of(api), 0, 0, 0))
CU_CASE(MAP,
	f(next_mapped(), bytes_of(api), 0, (CUmemGenericAllocationHandle)(uintptr_t)handle[handles - 1], 0))
CU_CASE(RETAIN_HANDLE, CUmemGenericAllocationHandle of; f(&of, (void *)(uintptr_t)MAPPED);
	keep(handle, &handles, (void *)(uintptr_t)of))
CU_CASE(SET_ACCESS, f(DST, bytes_of(api), NULL, 0))
CU_CASE(UNMAP, f(MAPPED + n_unmapped++ * MAPPED_STEP, bytes_of(api)))
CU_CASE(ADDRESS_FREE, f(DST, bytes_of(api)))
CU_CASE(CAPTURE_TO, f(STREAM, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL))
CU_CASE(INSTANTIATE_PARAMS, CUgraphExec exec; f(&exec, NULL, NULL))
CU_CASE(UPDATE_OLD, f(EXEC, NULL, NULL, NULL))
CU_CASE(UPDATE, f(EXEC, NULL, NULL))

static struct cudaMemcpy3DParms parms_3d(unsigned api)
{
	return (struct cudaMemcpy3DParms){ .extent = { bytes_of(api), 3, 1 }, .kind = cudaMemcpyDeviceToHost };
}

#define P(address) ((void *)(uintptr_t)(address))
RT_CASE(LAUNCH, f((void *)each_kernel, (dim3){ api + 1, 2, 3 }, (dim3){ 4, 5, 6 }, NULL, 0, STREAM))
RT_CASE(LAUNCH_COOP, f((void *)each_kernel, (dim3){ api + 1, 2, 3 }, (dim3){ 4, 5, 6 }, NULL, 0, STREAM))
RT_CASE(LAUNCH_EX, f(&(cudaLaunchConfig_t){ { api + 1, 2, 3 }, { 4, 5, 6 }, 0, STREAM, NULL, 0 },
		     (void *)each_kernel, NULL))
RT_CASE(GRAPH, f(EXEC, STREAM))
RT_CASE(DEVICE_SYNC, f())
RT_CASE(STREAM_SYNC, f(STREAM))
RT_CASE(STREAM_QUERY, f(STREAM))
RT_CASE(EVENT_SYNC, f(EVENT))
RT_CASE(EVENT_QUERY, f(EVENT))
RT_CASE(STREAM_WAIT, f(STREAM, EVENT, 0))
RT_CASE(RECORD, f(EVENT, STREAM))
RT_CASE(RECORD_FLAGS, f(EVENT, STREAM, 0))
RT_CASE(COPY, f(P(DST), buffer, bytes_of(api), cudaMemcpyHostToDevice))
RT_CASE(COPY_ASYNC, f(buffer, P(SRC), bytes_of(api), cudaMemcpyDeviceToHost, STREAM))
RT_CASE(COPY_2D, f(P(DST), 4096, buffer, 4096, bytes_of(api), 2, cudaMemcpyHostToDevice))
RT_CASE(COPY_2D_ASYNC, f(buffer, 4096, P(SRC), 4096, bytes_of(api), 2, cudaMemcpyDeviceToHost, STREAM))
RT_CASE(COPY_3D, struct cudaMemcpy3DParms copy = parms_3d(api); f(&copy))
RT_CASE(COPY_3D_ASYNC, struct cudaMemcpy3DParms copy = parms_3d(api); f(&copy, STREAM))
RT_CASE(PEER, f(P(DST), 0, P(SRC), 1, bytes_of(api)))
RT_CASE(PEER_ASYNC, f(P(DST), 0, P(SRC), 1, bytes_of(api), STREAM))
RT_CASE(TO_SYMBOL, f(P(DST), buffer, bytes_of(api), 8, cudaMemcpyHostToDevice))
RT_CASE(TO_SYMBOL_ASYNC, f(P(DST), P(SRC), bytes_of(api), 8, cudaMemcpyDeviceToDevice, STREAM))
RT_CASE(FROM_SYMBOL, f(buffer, P(SRC), bytes_of(api), 8, cudaMemcpyDeviceToHost))
RT_CASE(FROM_SYMBOL_ASYNC, f(buffer, P(SRC), bytes_of(api), 8, cudaMemcpyDefault, STREAM))
RT_CASE(SET, f(P(DST), 0, bytes_of(api)))
RT_CASE(SET_ASYNC, f(P(DST), 0, bytes_of(api), STREAM))
RT_CASE(SET_2D, f(P(DST), 4096, 0, bytes_of(api), 2))
RT_CASE(SET_2D_ASYNC, f(P(DST), 4096, 0, bytes_of(api), 2, STREAM))
RT_CASE(ALLOC, KEEP(device, void *, f(&p, bytes_of(api))))
RT_CASE(ALLOC_ASYNC, KEEP(device, void *, f(&p, bytes_of(api), STREAM)))
RT_CASE(ALLOC_POOL, KEEP(device, void *, f(&p, bytes_of(api), NULL, STREAM)))
RT_CASE(ALLOC_MANAGED, KEEP(device, void *, f(&p, bytes_of(api), 1)))
RT_CASE(ALLOC_PITCH, size_t pitch; KEEP(device, void *, f(&p, &pitch, bytes_of(api), 2)))
RT_CASE(ALLOC_HOST, KEEP(host, void *, f(&p, bytes_of(api))))
RT_CASE(HOST_ALLOC, KEEP(host, void *, f(&p, bytes_of(api), 0)))
RT_CASE(FREE, f(take(device, &devices)))
RT_CASE(FREE_ASYNC, f(take(device, &devices), STREAM))
RT_CASE(FREE_HOST, f(take(host, &hosts)))
RT_CASE(BEGIN_CAPTURE, f(STREAM, cudaStreamCaptureModeGlobal))
RT_CASE(END_CAPTURE, cudaGraph_t graph; f(STREAM, &graph))
RT_CASE(INSTANTIATE, cudaGraphExec_t exec; f(&exec, NULL, 0))

static const struct cudaChannelFormatDesc two_floats = { 32, 32, 0, 0, cudaChannelFormatKindFloat };

static struct cudaExtent extent_of(unsigned api)
{
	return (struct cudaExtent){ bytes_of(api), 3, 2 };
}

static struct cudaMemcpy3DPeerParms peer_parms(unsigned api)
{
	return (struct cudaMemcpy3DPeerParms){ .extent = { bytes_of(api), 3, 1 } };
}

#define ARRAY_AT NULL, 8, 2
RT_CASE(LAUNCH_LIST,
	struct cudaLaunchParams one = { (void *)each_kernel, { api + 1, 2, 3 }, { 4, 5, 6 }, NULL, 0, STREAM };
	f(&one, 1, 0))
RT_CASE(TO_ARRAY, f(ARRAY_AT, buffer, bytes_of(api), cudaMemcpyHostToDevice))
RT_CASE(TO_ARRAY_ASYNC, f(ARRAY_AT, buffer, bytes_of(api), cudaMemcpyHostToDevice, STREAM))
RT_CASE(FROM_ARRAY, f(buffer, ARRAY_AT, bytes_of(api), cudaMemcpyDeviceToHost))
RT_CASE(FROM_ARRAY_ASYNC, f(buffer, ARRAY_AT, bytes_of(api), cudaMemcpyDeviceToHost, STREAM))
RT_CASE(ARRAY_ARRAY, f(ARRAY_AT, ARRAY_AT, bytes_of(api), cudaMemcpyDeviceToDevice))
RT_CASE(TO_ARRAY_2D, f(ARRAY_AT, buffer, 4096, bytes_of(api), 2, cudaMemcpyHostToDevice))
RT_CASE(TO_ARRAY_2D_ASYNC, f(ARRAY_AT, buffer, 4096, bytes_of(api), 2, cudaMemcpyHostToDevice, STREAM))
RT_CASE(FROM_ARRAY_2D, f(buffer, 4096, ARRAY_AT, bytes_of(api), 2, cudaMemcpyDeviceToHost))
RT_CASE(FROM_ARRAY_2D_ASYNC, f(buffer, 4096, ARRAY_AT, bytes_of(api), 2, cudaMemcpyDeviceToHost, STREAM))
RT_CASE(ARRAY_ARRAY_2D, f(ARRAY_AT, ARRAY_AT, bytes_of(api), 2, cudaMemcpyDeviceToDevice))
RT_CASE(PEER_3D, struct cudaMemcpy3DPeerParms copy = peer_parms(api); f(&copy))
RT_CASE(PEER_3D_ASYNC, struct cudaMemcpy3DPeerParms copy = peer_parms(api); f(&copy, STREAM))
RT_CASE(BATCH, f(batch_pointers, (const void *const *)batch_pointers, sizes_of(api), LONG_BATCH, NULL, NULL, 0,
		 STREAM))
RT_CASE(BATCH_3D, f(BATCH_3D, (struct cudaMemcpy3DBatchOp *)ops_of(api), 0, STREAM))
RT_CASE(PREFETCH, f(P(DST), bytes_of(api), (struct cudaMemLocation){ cudaMemLocationTypeDevice, 0 }, 0, STREAM))
RT_CASE(PREFETCH_BATCH, f(batch_pointers, sizes_of(api), SHORT_BATCH, NULL, NULL, 0, 0, STREAM))
RT_CASE(SET_3D, f((struct cudaPitchedPtr){ P(DST), 4096, 4096, 3 }, 1, extent_of(api)))
RT_CASE(SET_3D_ASYNC, f((struct cudaPitchedPtr){ P(DST), 4096, 4096, 3 }, 1, extent_of(api), STREAM))
RT_CASE(REGISTER, void *p = next_registered(); if (!f(p, bytes_of(api), 0)) keep(registered, &registrations, p))
RT_CASE(UNREGISTER, f(take(registered, &registrations)))
RT_CASE(ALLOC_3D, struct cudaPitchedPtr out = { NULL, 0, 0, 0 }; f(&out, extent_of(api));
	keep(device, &devices, out.ptr))
RT_CASE(ARRAY, KEEP(array, cudaArray_t, f(&p, &two_floats, bytes_of(api), 3, 0)))
RT_CASE(ARRAY_3D, KEEP(array, cudaArray_t, f(&p, &two_floats, extent_of(api), 0)))
RT_CASE(MIPMAP, KEEP(array, cudaMipmappedArray_t, f(&p, &two_floats, extent_of(api), 5, 0)))
RT_CASE(FREE_ARRAY, f((cudaArray_t)take(array, &arrays)))
RT_CASE(FREE_MIPMAP, f((cudaMipmappedArray_t)take(array, &arrays)))
RT_CASE(CAPTURE_TO, f(STREAM, NULL, NULL, NULL, 0, cudaStreamCaptureModeGlobal))
RT_CASE(INSTANTIATE_PARAMS, cudaGraphExec_t exec; f(&exec, NULL, NULL))
RT_CASE(UPDATE, f(EXEC, NULL, NULL))
RT_CASE(UPLOAD, f(EXEC, STREAM))

static void *must_find(void *library, const char *symbol)
{
	void *found = library ? dlsym(library, symbol) : NULL;

	if (!found) {
		fprintf(stderr, "cuda_each: %s\n", dlerror());
		exit(1);
	}
	return found;
}

static void call_runtime(void *library, unsigned times)
{
#define X(symbol, api, shape, ending)        \
	for (unsigned i = 0; i < times; i++) \
		call_cudart_##shape((cudart_##shape *)must_find(library, #symbol), SO_CUDA_API_##api);
	STANDIN_RUNTIME_SYMBOLS(X)
#undef X
}

static void call_driver(void *library, unsigned times)
{
#define X(symbol, api, shape)                \
	for (unsigned i = 0; i < times; i++) \
		call_cu_##shape((cu_##shape *)must_find(library, #symbol), SO_CUDA_API_##api);
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
}

int main(int argc, char **argv)
{
	unsigned times = argc > 1 ? (unsigned)atoi(argv[1]) : 3;
	const char *wait_for = argc > 2 ? argv[2] : "stdin", *which = argc > 3 ? argv[3] : "";
	void *runtime = dlopen("libcudart.so.12", RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);

	must_find(runtime, "cudaMalloc");
	must_find(driver, "cuMemAlloc_v2");
	work__expect(wait_for);
	work__ready();
	if (!work__wait_for(wait_for))
		return 2;
	if (strcmp(which, "driver") != 0)
		call_runtime(runtime, times);
	if (strcmp(which, "runtime") != 0)
		call_driver(driver, times);
	return work__truth() ? 0 : 1;
}
