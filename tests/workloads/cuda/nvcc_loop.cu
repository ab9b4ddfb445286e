// SPDX-License-Identifier: GPL-2.0-or-later
// NVIDIA's static runtime, as nvcc links it, called in a loop whatever it returns: without a GPU every call fails.
// Usage: nvcc_loop [ROUNDS, 1 ms apart] [stdin|no]. The last line: {"calls":{API:N},"errors":N}
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <unistd.h>

__global__ void scale_kernel(float *x, float by)
{
	x[threadIdx.x] *= by;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000, errors = 0;
	float host[16] = {}, *device = nullptr;
	char byte;

	puts("ready");
	fflush(stdout);
	if (argc <= 2 || strcmp(argv[2], "no") != 0)
		while (read(STDIN_FILENO, &byte, 1) < 0)
			;
	for (unsigned i = 0; i < rounds; i++) {
		errors += cudaMalloc(&device, sizeof(host)) != cudaSuccess;
		errors += cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice) != cudaSuccess;
		scale_kernel<<<dim3(2, 3, 4), dim3(8, 2, 1)>>>(device, 2.0f);
		errors += cudaGetLastError() != cudaSuccess;
		errors += cudaDeviceSynchronize() != cudaSuccess;
		if (device)
			cudaFree(device);
		usleep(1000);
	}
	printf("{\"calls\":{\"cudaMalloc\":%u,\"cudaMemcpy\":%u,\"cudaDeviceSynchronize\":%u},\"errors\":%u}\n", rounds,
	       rounds, rounds, errors);
	return fflush(stdout) == 0 ? 0 : 1;
}
