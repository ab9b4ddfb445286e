/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A made-up training loop of 50 calls an iteration: pageable copies of the batch, kernels launched from named host
 * stubs of C++, one kernel of a module through the driver, an allocation in the loop, and one wait that hides in
 * item(). The last line is truth as JSON. Usage: cuda_training [-n ITERATIONS] [-d SECONDS] [-w stdin|usr1|no] An
 * iteration calls: cudaMemcpy 2, cudaMemsetAsync 4, cudaLaunchKernel 37, cuLaunchKernel 1, cudaMalloc 1, cudaFree 1,
 * cudaEventRecord 1, cudaStreamWaitEvent 1, cudaMemcpyAsync 1, cudaStreamSynchronize 1. Without STANDIN_CUDA the calls
 * take times like those of a small model.
 */
extern "C" {
#include "cuda_work.h"
#include "driver_more.h"
#include "driver_symbols.h"
#include "runtime_symbols.h"

#define X(symbol, api, shape, ending) cudart_##shape symbol;
STANDIN_RUNTIME_SYMBOLS(X)
#undef X
}

#define LATENCIES                                                                             \
	"cudaLaunchKernel=4us*9/12us,cuLaunchKernel=2us,cudaMemcpy=30us,cudaMemcpyAsync=8us," \
	"cudaMemsetAsync=3us,cudaStreamSynchronize=3ms,cudaMalloc=150us,cudaFree=80us"

enum { BATCH = 64 * 1024 };

static cudaStream_t stream;
static cudaEvent_t event;
static float *weights = (float *)0x7f0000100000, *batch = (float *)0x7f0000200000;
static float host_batch[BATCH / sizeof(float)], host_labels[256];

/* What nvcc makes of `__global__ void name(float *)`: a host function of that name, which launches its own address. */
#ifdef LAUNCH_BY_HANDLE
#define LAUNCH(function)                                                                     \
	static cudaKernel_t handle;                                                          \
	static bool known = __cudaGetKernel(&handle, (const void *)function) == cudaSuccess; \
                                                                                             \
	if (known)                                                                           \
	__cudaLaunchKernel(handle, grid, block, args, 0, stream)
#else
#define LAUNCH(function) cudaLaunchKernel((const void *)function, grid, block, args, 0, stream)
#endif
#define LAUNCHES(name, gx, bx)                          \
	dim3 grid = { gx, 1, 1 }, block = { bx, 1, 1 }; \
	void *args[] = { &x };                          \
                                                        \
	LAUNCH(name);
#ifdef LAUNCH_BY_HANDLE
/* The host function calls a stub, which has the kernel's mangled name in its own. */
#define KERNEL(name, gx, bx, stub)                                                        \
	void name(float *x);                                                              \
	__attribute__((noinline)) void stub_of_##name(float *x) __asm__(stub);            \
	void stub_of_##name(float *x){ LAUNCHES(name, gx, bx) } FRAME void name(float *x) \
	{                                                                                 \
		stub_of_##name(x);                                                        \
	}
#else
#define KERNEL(name, gx, bx, stub)     \
	FRAME void name(float *x)      \
	{                              \
		LAUNCHES(name, gx, bx) \
	}
#endif

KERNEL(add_kernel, 64, 256, "_Z30__device_stub__Z10add_kernelPfPf")
KERNEL(gemm_kernel, 128, 128, "_Z31__device_stub__Z11gemm_kernelPfPf")
KERNEL(relu_kernel, 32, 256, "_Z31__device_stub__Z11relu_kernelPfPf")
KERNEL(loss_kernel, 1, 32, "_Z31__device_stub__Z11loss_kernelPfPf")
KERNEL(gemm_backward_kernel, 128, 128, "_Z40__device_stub__Z20gemm_backward_kernelPfPf")
KERNEL(adam_kernel, 16, 512, "_Z31__device_stub__Z11adam_kernelPfPf")

/* Call after call, as nvcc has it: stripped files are named by these. */
#define REGISTER(function, name)                                                                         \
	__cudaRegisterFunction(handle, (const char *)function, (char *)name, name, -1, nullptr, nullptr, \
			       nullptr, nullptr, nullptr)

__attribute__((constructor)) static void register_kernels()
{
	void **handle = __cudaRegisterFatBinary(nullptr);

	REGISTER(add_kernel, "_Z10add_kernelPf");
	REGISTER(gemm_kernel, "_Z11gemm_kernelPf");
	REGISTER(relu_kernel, "_Z11relu_kernelPf");
	REGISTER(loss_kernel, "_Z11loss_kernelPf");
	REGISTER(gemm_backward_kernel, "_Z20gemm_backward_kernelPf");
	REGISTER(adam_kernel, "_Z11adam_kernelPf");
	__cudaRegisterFatBinaryEnd(handle);
}

/* One kernel that a compiler at run time made: a module's function, launched through the driver. */
static CUfunction fused;
static cu_LAUNCH *driver_launch;

static bool load_module()
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	auto *load = (cu_MODULE_LOAD *)dlsym(driver, "cuModuleLoadData");
	auto *get = (cu_MODULE_FUNCTION *)dlsym(driver, "cuModuleGetFunction");
	CUmodule module;

	driver_launch = (cu_LAUNCH *)dlsym(driver, "cuLaunchKernel");
	return load && get && driver_launch && load(&module, "image") == CUDA_SUCCESS &&
	       get(&fused, module, "triton_fused_adam_0") == CUDA_SUCCESS;
}

FRAME void load_batch()
{
	cudaMemcpy(batch, host_batch, sizeof(host_batch), cudaMemcpyHostToDevice);
	cudaMemcpy(batch, host_labels, sizeof(host_labels), cudaMemcpyHostToDevice);
}

FRAME void zero_grad()
{
	for (int i = 0; i < 4; i++)
		cudaMemsetAsync(weights + i * 1024, 0, 4096, stream);
}

FRAME void forward()
{
	void *workspace = nullptr;

	if (cudaMalloc(&workspace, 1 << 20) != cudaSuccess)
		cudaGetLastError();
	for (int layer = 0; layer < 4; layer++) {
		gemm_kernel(weights);
		add_kernel(weights);
		relu_kernel(weights);
	}
	loss_kernel(weights);
	cudaFree(workspace);
}

FRAME void backward()
{
	for (int layer = 0; layer < 4; layer++) {
		relu_kernel(weights);
		gemm_backward_kernel(weights);
		gemm_backward_kernel(weights);
		add_kernel(weights);
	}
	cudaEventRecord(event, stream);
	cudaStreamWaitEvent(stream, event, 0);
}

FRAME void optimizer_step()
{
	void *args[] = { &weights };

	for (int i = 0; i < 8; i++)
		adam_kernel(weights);
	driver_launch(fused, 8, 1, 1, 256, 1, 1, 0, stream, args, nullptr);
}

/* The hidden wait: a copy to the host that must have arrived. */
FRAME float item()
{
	float loss = 0;

	cudaMemcpyAsync(&loss, weights, sizeof(loss), cudaMemcpyDeviceToHost, stream);
	cudaStreamSynchronize(stream);
	return loss;
}

FRAME float iteration()
{
	load_batch();
	zero_grad();
	forward();
	backward();
	optimizer_step();
	return item();
}

int main(int argc, char **argv)
{
	const char *wait_for = "stdin";
	unsigned long iterations = 1000, done = 0;
	double seconds = 0, deadline, start;

	for (int option; (option = getopt(argc, argv, "n:d:w:")) != -1;) {
		if (option == 'n')
			iterations = strtoul(optarg, nullptr, 10);
		else if (option == 'd')
			seconds = atof(optarg);
		else if (option == 'w')
			wait_for = optarg;
		else
			return 2;
	}
	setenv("STANDIN_CUDA", LATENCIES, 0);
	if (cudaStreamCreate(&stream) != cudaSuccess || cudaEventCreate(&event) != cudaSuccess ||
	    !load_module())
		return 1;
	work__expect(wait_for);
	work__ready();
	if (!work__wait_for(wait_for))
		return 2;
	start = work__now_s();
	deadline = start + seconds;
	for (; seconds > 0 ? work__now_s() < deadline : done < iterations; done++)
		iteration();
	printf("iterations %lu seconds %.6f\n", done, work__now_s() - start);
	return work__truth() ? 0 : 1;
}
