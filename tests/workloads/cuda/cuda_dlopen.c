/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads the runtime only later, then calls it; the last line is truth as JSON.
 * Usage: cuda_dlopen [LIBRARY] [SECONDS before loading, or stdin: wait for a byte] [ROUNDS, 10 ms apart]
 */
#include "cuda_work.h"
#include "runtime_symbols.h"

FRAME void late_kernel(float *x)
{
	(void)x;
}

FRAME void before_dlopen(double deadline)
{
	while (work__now_s() < deadline)
		usleep(20000);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "libcudart.so.12", *when = argc > 2 ? argv[2] : "1";
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 100;
	cudart_LAUNCH *launch;
	cudart_DEVICE_SYNC *sync;
	void *library;

	work__ready();
	if (!work__wait_for(strcmp(when, "stdin") == 0 ? when : "no"))
		return 2;
	before_dlopen(work__now_s() + atof(when));
	library = dlopen(path, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "cuda_dlopen: %s\n", dlerror());
		return 1;
	}
	launch = (cudart_LAUNCH *)dlsym(library, "cudaLaunchKernel");
	sync = (cudart_DEVICE_SYNC *)dlsym(library, "cudaDeviceSynchronize");
	if (!launch || !sync)
		return 1;
	puts("loaded");
	fflush(stdout);
	for (unsigned i = 0; i < rounds; i++) {
		launch((void *)late_kernel, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, NULL, 0, NULL);
		sync();
		usleep(10000);
	}
	return work__truth() ? 0 : 1;
}
