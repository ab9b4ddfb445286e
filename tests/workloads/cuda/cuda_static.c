/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linked with the static runtime; with "shared" also loads the shared one, so that two runtimes are in the process, and
 * makes twice as many calls through that. The last line is truth as JSON, whose images are "static" and
 * "libcudart.so.12". Usage: cuda_static [ROUNDS] [shared|alone] [stdin|usr1|no]
 */
#include "cuda_work.h"
#include "runtime_symbols.h"

#define X(symbol, api, shape, ending) cudart_##shape symbol;
STANDIN_RUNTIME_SYMBOLS(X)
#undef X

/* So that the program has all of the runtime in it, as one that was linked by nvcc. */
static void *const whole[] = {
#define X(symbol, api, shape, ending) (void *)symbol,
	STANDIN_RUNTIME_SYMBOLS(X)
#undef X
};

FRAME void static_kernel(float *x)
{
	(void)x;
}

FRAME void round_of(cudart_LAUNCH *launch, cudart_ALLOC *alloc, cudart_FREE *release, cudart_STREAM_SYNC *sync)
{
	void *p = NULL;

	launch((void *)static_kernel, (dim3){ 7, 1, 1 }, (dim3){ 128, 1, 1 }, NULL, 0, NULL);
	if (alloc(&p, 2048) == cudaSuccess)
		release(p);
	sync(NULL);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	bool two = argc > 2 && strcmp(argv[2], "shared") == 0;
	const char *wait_for = argc > 3 ? argv[3] : "stdin";
	void *library = two ? dlopen("libcudart.so.12", RTLD_NOW) : NULL;
	cudart_LAUNCH *launch = NULL;
	cudart_ALLOC *alloc = NULL;
	cudart_FREE *release = NULL;
	cudart_STREAM_SYNC *sync = NULL;

	__asm__ volatile("" ::"r"(whole));
	if (library) {
		launch = (cudart_LAUNCH *)dlsym(library, "cudaLaunchKernel");
		alloc = (cudart_ALLOC *)dlsym(library, "cudaMalloc");
		release = (cudart_FREE *)dlsym(library, "cudaFree");
		sync = (cudart_STREAM_SYNC *)dlsym(library, "cudaStreamSynchronize");
	}
	if (two && (!launch || !alloc || !release || !sync)) {
		fprintf(stderr, "cuda_static: %s\n", dlerror());
		return 1;
	}
	work__expect(wait_for);
	work__ready();
	if (!work__wait_for(wait_for))
		return 2;
	for (unsigned i = 0; i < rounds; i++) {
		round_of(cudaLaunchKernel, cudaMalloc, cudaFree, cudaStreamSynchronize);
		for (unsigned k = 0; two && k < 2; k++)
			round_of(launch, alloc, release, sync);
	}
	return work__truth() ? 0 : 1;
}
