/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads NVIDIA's own runtime and calls it, whatever it returns: without a GPU each call fails (35: no driver, 100: no
 * device). Usage: cuda_real [ROUNDS, 1 ms apart] [stdin|usr1|no] [LIBRARY] Looks for the library where the dynamic
 * linker knows it, then below /usr/local/cuda*. None: status 77. The last line:
 * {"library":PATH,"calls":{API:N},"errors":N} of API's calls, nested ones not counted.
 */
#include <glob.h>

#include "cuda_work.h"
#include "runtime_symbols.h"

FRAME void real_kernel(float *x)
{
	(void)x;
}

/* The path of the first libcudart in the linker's cache. */
static bool in_cache(char *out, size_t size)
{
	FILE *f = popen("PATH=$PATH:/sbin:/usr/sbin ldconfig -p", "r");
	char line[4096];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *arrow = strstr(line, " => ");

		found = arrow && strstr(line, "libcudart.so.") && strlen(arrow + 4) < size;
		if (found) {
			strcpy(out, arrow + 4);
			out[strcspn(out, "\n")] = '\0';
		}
	}
	if (f)
		pclose(f);
	return found;
}

static bool in_folders(char *out, size_t size)
{
	glob_t g;
	bool found =
		glob("/usr/local/cuda*/lib*/libcudart.so.*", 0, NULL, &g) == 0 && strlen(g.gl_pathv[0]) < size;

	if (found)
		strcpy(out, g.gl_pathv[0]);
	globfree(&g);
	return found;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000, errors = 0;
	const char *wait_for = argc > 2 ? argv[2] : "stdin";
	char path[4096] = "";
	cudart_LAUNCH *launch;
	cudart_ALLOC *alloc;
	cudart_COPY *copy;
	void *library, *p = NULL;

	if (argc > 3)
		snprintf(path, sizeof(path), "%s", argv[3]);
	else if (!in_cache(path, sizeof(path)) && !in_folders(path, sizeof(path)))
		return 77;
	library = dlopen(path, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "cuda_real: %s\n", dlerror());
		return 77;
	}
	launch = (cudart_LAUNCH *)dlsym(library, "cudaLaunchKernel");
	alloc = (cudart_ALLOC *)dlsym(library, "cudaMalloc");
	copy = (cudart_COPY *)dlsym(library, "cudaMemcpy");
	if (!launch || !alloc || !copy)
		return 1;
	work__expect(wait_for);
	work__ready();
	if (!work__wait_for(wait_for))
		return 2;
	for (unsigned i = 0; i < rounds; i++) {
		errors += alloc(&p, 4096) != cudaSuccess;
		errors += copy(p, path, 64, cudaMemcpyHostToDevice) != cudaSuccess;
		errors += launch((void *)real_kernel, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, NULL, 0, NULL) !=
			  cudaSuccess;
		usleep(1000);
	}
	printf("{\"library\":\"%s\",\"calls\":{\"cudaMalloc\":%u,\"cudaMemcpy\":%u,\"cudaLaunchKernel\":%u},"
	       "\"errors\":%u}\n",
	       path, rounds, rounds, rounds, errors);
	return fflush(stdout) == 0 ? 0 : 1;
}
