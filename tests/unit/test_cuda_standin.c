/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stand-ins that the tests of CUDA profiling rely on. A stand-in reads its script when it is loaded, so each case
 * runs in a child process that loads it afresh, and whose truth is read back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <glob.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/cuda_api.h"
#include "tests/workloads/cuda/driver_more.h"
#include "tests/workloads/cuda/driver_symbols.h"
#include "tests/workloads/cuda/nvml_types.h"
#include "tests/workloads/cuda/runtime_symbols.h"

CLEANUP_DEFINE(json_t *, json, json_decref)

#define RUNTIME "libcudart.so.12"
#define DRIVER  "libcuda.so.1"

/* In a child: what must hold, or the child fails. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

static struct {
	void *runtime, *driver;
#define X(symbol, api, shape, ending) cudart_##shape *symbol;
	STANDIN_RUNTIME_SYMBOLS(X)
#undef X
#define X(symbol, api, shape) cu_##shape *symbol;
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
#define X(symbol, shape) cu_##shape *symbol;
	STANDIN_DRIVER_MORE(X)
#undef X
	__typeof__(cudaGetLastError) *cudaGetLastError;
	__typeof__(__cudaRegisterFunction) *__cudaRegisterFunction;
	__typeof__(__cudaGetKernel) *__cudaGetKernel;
	__typeof__(__cudaLaunchKernel) *__cudaLaunchKernel;
} cuda;

static const char *variant;

static const char *folder(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0);
	path[n] = '\0';
	for (int i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/workloads/cuda/");
	return path;
}

static void *load(const char *name)
{
	char path[PATH_MAX + 64];
	void *library;

	snprintf(path, sizeof(path), "%s%s/%s", folder(), variant, name);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	return library;
}

static void load_cuda(void)
{
	cuda.driver = load(DRIVER);
	cuda.runtime = load(RUNTIME);
#define FIND(library, symbol) CHECK(*(void **)&cuda.symbol = dlsym(cuda.library, #symbol))
#define X(symbol, ...)        FIND(runtime, symbol);
	STANDIN_RUNTIME_SYMBOLS(X)
	X(cudaGetLastError)
	X(__cudaRegisterFunction)
	X(__cudaGetKernel)
	X(__cudaLaunchKernel)
#undef X
#define X(symbol, ...) FIND(driver, symbol);
	STANDIN_DRIVER_SYMBOLS(X)
	STANDIN_DRIVER_MORE(X)
#undef X
#undef FIND
}

/* The truth of a child that did `work` under the script; NULL where it failed, as its wait status in *status says. */
static json_t *run_child(const char *script, void (*work)(void), int *status)
{
	_cleanup_fclose_ FILE *out = tmpfile();
	json_t *truth = NULL;
	pid_t pid;

	assert_non_null(out);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		void (*print)(FILE *);

		setenv("STANDIN_CUDA", script, 1);
		unsetenv("STANDIN_CUDA_TRUTH");
		load_cuda();
		work();
		CHECK(*(void **)&print = dlsym(cuda.driver, "standin_truth_print"));
		print(out);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, status, 0), pid);
	rewind(out);
	if (*status == 0)
		truth = json_loadf(out, 0, NULL);
	return truth;
}

static json_t *run(const char *script, void (*work)(void))
{
	int status;
	json_t *truth = run_child(script, work, &status);

	assert_int_equal(status, 0);
	assert_non_null(truth);
	return truth;
}

static int64_t number(const json_t *truth, const char *image, const char *api, const char *key)
{
	const json_t *one = json_object_get(json_object_get(json_object_get(truth, "images"), image), api);

	return one ? json_integer_value(json_object_get(one, key)) : 0;
}

static int64_t direction(const json_t *truth, const char *image, const char *api, const char *word)
{
	const json_t *one = json_object_get(json_object_get(json_object_get(truth, "images"), image), api);

	return json_integer_value(json_object_get(json_object_get(one, "directions"), word));
}

static int64_t launches(const json_t *truth, const char *kernel)
{
	return json_integer_value(json_object_get(json_object_get(truth, "kernels"), kernel));
}

static int64_t memory(const json_t *truth, const char *where, const char *key)
{
	return json_integer_value(
		json_object_get(json_object_get(json_object_get(truth, "memory"), where), key));
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void launch(const void *func)
{
	cuda.cudaLaunchKernel(func, (dim3){ 1, 1, 1 }, (dim3){ 32, 1, 1 }, NULL, 0, NULL);
}

static void test_every_api_has_a_symbol(void **state)
{
	bool has[SO_CUDA_API_COUNT] = { 0 };

#define X(symbol, api, ...) has[SO_CUDA_API_##api] = true;
	STANDIN_RUNTIME_SYMBOLS(X)
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++)
		assert_true(has[i]);
}

/* The instruction that a probe is placed on is one that NVIDIA's functions begin with: endbr64, or a push. */
static void check_prologue(const void *function)
{
	static const unsigned char endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const unsigned char *code = function;

	CHECK((memcmp(code, endbr64, sizeof(endbr64)) == 0) == (strcmp(variant, "ibt") == 0));
	if (strcmp(variant, "ibt") == 0)
		code += sizeof(endbr64);
	CHECK((code[0] & 0xf8) == 0x50 || (code[0] == 0x41 && (code[1] & 0xf8) == 0x50));
}

static void check_all_symbols(void)
{
#define X(symbol, ...) check_prologue((void *)cuda.symbol);
	STANDIN_RUNTIME_SYMBOLS(X)
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
#define X(symbol) CHECK(dlsym(cuda.driver, #symbol));
	STANDIN_DRIVER_OLD_SYMBOLS(X)
#undef X
}

static void test_prologues(void **state)
{
	_cleanup_(json) json_t *truth = run("", check_all_symbols);

	assert_int_equal(json_object_size(json_object_get(json_object_get(truth, "images"), DRIVER)), 0);
}

static void wait_in_turn(void)
{
	static const uint64_t expected[] = { 5000, 7000, 120000, 120000 };
	uint64_t sum = 0;

	for (unsigned i = 0; i < 40; i++) {
		uint64_t start = clock_ns(CLOCK_MONOTONIC), ns;

		launch(wait_in_turn);
		ns = clock_ns(CLOCK_MONOTONIC) - start;
		CHECK(ns >= expected[i % 4]);
		sum += ns;
	}
	CHECK(sum >= 10 * (5000 + 7000 + 240000));
}

static void test_latencies_come_in_turn(void **state)
{
	_cleanup_(json) json_t *truth = run("cudaLaunchKernel=5us/7000/120us*2", wait_in_turn);

	assert_int_equal(number(truth, RUNTIME, "cudaLaunchKernel", "timed"), 40);
	assert_true(number(truth, RUNTIME, "cudaLaunchKernel", "min_ns") >= 5000);
	assert_true(number(truth, RUNTIME, "cudaLaunchKernel", "max_ns") >= 120000);
	assert_true(number(truth, RUNTIME, "cudaLaunchKernel", "sum_ns") >= 10 * (5000 + 7000 + 240000));
	assert_int_equal(number(truth, DRIVER, "cuLaunchKernel", "calls"), 40);
	assert_int_equal(number(truth, DRIVER, "cuLaunchKernel", "timed"), 0);
}

static void wait_long(void)
{
	uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool spin = strstr(getenv("STANDIN_CUDA"), "spin");

	CHECK(cuda.cudaStreamSynchronize(NULL) == cudaSuccess);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	CHECK(clock_ns(CLOCK_MONOTONIC) - wall >= 50000000);
	/* Asleep but for the last 0.2 ms; awake as far as the machine lets it. */
	CHECK(spin ? cpu > 2000000 : cpu < 2000000);
}

static void test_long_waits_sleep_unless_told(void **state)
{
	_cleanup_(json) json_t *asleep = run("cudaStreamSynchronize=50ms", wait_long);
	_cleanup_(json) json_t *awake = run("spin,cudaStreamSynchronize=50000us", wait_long);

	assert_true(number(asleep, RUNTIME, "cudaStreamSynchronize", "sum_ns") >= 50000000);
	assert_true(number(awake, RUNTIME, "cudaStreamSynchronize", "sum_ns") >= 50000000);
}

#define THREADS 8
#define ROUNDS  100000

static void *count_much(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	void *p;

	for (unsigned i = 0; i < ROUNDS; i++) {
		launch(count_much);
		CHECK(cuda.cudaMalloc(&p, 100 + id) == cudaSuccess);
		CHECK(cuda.cudaMemcpyAsync(p, p, id, cudaMemcpyDeviceToDevice, NULL) == cudaSuccess);
		CHECK(cuda.cudaFree(p) == cudaSuccess);
	}
	return NULL;
}

static void count_with_threads(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, count_much, (void *)i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void test_counts_are_exact_with_threads(void **state)
{
	static const char *const pairs[][2] = { { "cudaLaunchKernel", "cuLaunchKernel" },
						{ "cudaMalloc", "cuMemAlloc" },
						{ "cudaMemcpyAsync", "cuMemcpyDtoDAsync" },
						{ "cudaFree", "cuMemFree" } };
	const int64_t calls = THREADS * ROUNDS, ids = (int64_t)ROUNDS * THREADS * (THREADS - 1) / 2;
	_cleanup_(json) json_t *truth = run("", count_with_threads);

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(number(truth, RUNTIME, pairs[i][0], "calls"), calls);
		assert_int_equal(number(truth, RUNTIME, pairs[i][0], "nested"), 0);
		assert_int_equal(number(truth, DRIVER, pairs[i][1], "calls"), calls);
		assert_int_equal(number(truth, DRIVER, pairs[i][1], "nested"), calls);
		assert_int_equal(number(truth, RUNTIME, pairs[i][0], "timed"), 0);
	}
	assert_int_equal(number(truth, RUNTIME, "cudaMalloc", "bytes"), 100 * calls + ids);
	assert_int_equal(number(truth, RUNTIME, "cudaFree", "bytes"), 100 * calls + ids);
	assert_int_equal(direction(truth, RUNTIME, "cudaMemcpyAsync", "DtoD"), ids);
	assert_int_equal(launches(truth, "?"), calls);
	assert_int_equal(memory(truth, "device", "allocations"), calls);
	assert_int_equal(memory(truth, "device", "freed_bytes"), memory(truth, "device", "allocated_bytes"));
}

static void measure_both_ways(void)
{
	CUdeviceptr p;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	CHECK(cuda.cudaMalloc((void **)&p, 64) == cudaSuccess);
	CHECK(clock_ns(CLOCK_MONOTONIC) - start >= 300000);
	CHECK(cuda.cuMemAlloc_v2(&p, 64) == CUDA_SUCCESS);
}

static void test_only_outermost_calls_are_timed(void **state)
{
	_cleanup_(json) json_t *truth = run("measure,cuMemAlloc=300us", measure_both_ways);

	assert_int_equal(number(truth, RUNTIME, "cudaMalloc", "timed"), 1);
	assert_true(number(truth, RUNTIME, "cudaMalloc", "sum_ns") >= 300000);
	assert_int_equal(number(truth, DRIVER, "cuMemAlloc", "calls"), 2);
	assert_int_equal(number(truth, DRIVER, "cuMemAlloc", "nested"), 1);
	assert_int_equal(number(truth, DRIVER, "cuMemAlloc", "timed"), 1);
}

static void fail_now_and_then(void)
{
	for (unsigned i = 1, frees = 0; i <= 100; i++) {
		void *const untouched = (void *)1;
		void *p = untouched;
		cudaError_t code = cuda.cudaMalloc(&p, 256);

		CHECK(code == (i % 10 ? cudaSuccess : cudaErrorMemoryAllocation));
		CHECK((p == untouched) == (code != cudaSuccess));
		CHECK(cuda.cudaGetLastError() == code && cuda.cudaGetLastError() == cudaSuccess);
		if (code == cudaSuccess)
			CHECK(cuda.cudaFree(p) == (++frees % 2 ? cudaSuccess : cudaErrorInvalidValue));
		cuda.cudaGetLastError();
		CHECK(cuda.cudaEventQuery(NULL) == cudaErrorNotReady);
	}
}

static void test_failures(void **state)
{
	_cleanup_(json) json_t *truth = run("cudaMalloc!2@10,cuMemFree!1@2,cuEventQ*!600", fail_now_and_then);

	assert_int_equal(number(truth, RUNTIME, "cudaMalloc", "errors"), 10);
	assert_int_equal(number(truth, RUNTIME, "cudaMalloc", "bytes"), 90 * 256);
	assert_int_equal(number(truth, RUNTIME, "cudaMalloc", "bytes_failed"), 10 * 256);
	assert_int_equal(number(truth, DRIVER, "cuMemAlloc", "calls"), 90);
	assert_int_equal(number(truth, RUNTIME, "cudaFree", "errors"), 45);
	assert_int_equal(number(truth, DRIVER, "cuMemFree", "errors"), 45);
	assert_int_equal(number(truth, RUNTIME, "cudaFree", "bytes"), 45 * 256);
	assert_int_equal(memory(truth, "device", "frees"), 45);
	assert_int_equal(number(truth, RUNTIME, "cudaEventQuery", "not_ready"), 100);
	assert_int_equal(number(truth, RUNTIME, "cudaEventQuery", "errors"), 100);
}

static int compare_pointers(const void *a, const void *b)
{
	void *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

static void allocate_many(void)
{
	static void *all[6000];
	char *host;

	for (unsigned i = 0; i < 2000; i++) {
		CHECK(cuda.cudaMalloc(&all[3 * i], i) == cudaSuccess);
		CHECK(cuda.cudaMallocManaged(&all[3 * i + 1], i, 1) == cudaSuccess);
		CHECK(cuda.cudaHostAlloc(&all[3 * i + 2], i, 0) == cudaSuccess);
		memset(all[3 * i + 1], 1, i);
		memset(all[3 * i + 2], 1, i);
	}
	host = all[2];
	qsort(all, 6000, sizeof(*all), compare_pointers);
	for (unsigned i = 1; i < 6000; i++)
		CHECK(all[i] != all[i - 1]);
	CHECK(cuda.cudaFreeHost(host) == cudaSuccess);
	for (unsigned i = 0; i < 6000; i++)
		if (cuda.cudaFree(NULL) == cudaSuccess && all[i] != (void *)host)
			cuda.cudaFree(all[i]);
	CHECK(cuda.cudaMalloc(&all[0], 1) == cudaSuccess);
	CHECK(cuda.cudaFree(all[0]) == cudaSuccess);
	CHECK(cuda.cudaFree(all[0]) == cudaErrorInvalidValue);
}

static void test_addresses(void **state)
{
	_cleanup_(json) json_t *truth = run("", allocate_many);

	assert_int_equal(memory(truth, "device", "allocations"), 2001);
	assert_int_equal(memory(truth, "device", "frees"), 2001);
	assert_int_equal(memory(truth, "host", "allocations"), 4000);
	assert_int_equal(memory(truth, "host", "allocated_bytes"), 2 * 2000 * 1999 / 2);
	assert_int_equal(memory(truth, "host", "freed_bytes"), memory(truth, "host", "allocated_bytes"));
	assert_int_equal(number(truth, RUNTIME, "cudaFree", "errors"), 1);
}

static void launch_by_name(void)
{
	static char stub[16], never[16];
	CUmodule module;
	CUfunction function, again;
	cudaKernel_t kernel;
	const char *name;

	cuda.__cudaRegisterFunction((void **)stub, stub, (char *)"_Z3addPf", "_Z3addPf", -1, NULL, NULL, NULL,
				    NULL, NULL);
	launch(stub);
	CHECK(cuda.__cudaGetKernel(&kernel, stub) == cudaSuccess && (void *)kernel != (void *)stub);
	CHECK(cuda.__cudaGetKernel(&kernel, never) == cudaErrorInvalidDeviceFunction);
	CHECK(cuda.__cudaLaunchKernel(kernel, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0, NULL) ==
	      cudaSuccess);
	CHECK(cuda.cuModuleLoadData(&module, stub) == CUDA_SUCCESS);
	CHECK(cuda.cuModuleGetFunction(&function, module, "triton_0") == CUDA_SUCCESS);
	CHECK(cuda.cuModuleGetFunction(&again, module, "triton_0") == CUDA_SUCCESS && again == function);
	CHECK(cuda.cuModuleGetFunction(&again, module, "triton_1") == CUDA_SUCCESS && again != function);
	CHECK(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
	CHECK(cuda.cuFuncGetName(&name, function) == CUDA_SUCCESS && strcmp(name, "triton_0") == 0);
	launch(never);
}

static void test_kernels_by_name(void **state)
{
	_cleanup_(json) json_t *truth = run("", launch_by_name);

	assert_int_equal(launches(truth, "_Z3addPf"), 2);
	assert_int_equal(launches(truth, "triton_0"), 1);
	assert_int_equal(launches(truth, "triton_1"), 0);
	assert_int_equal(launches(truth, "?"), 1);
	assert_int_equal(number(truth, RUNTIME, "cudaLaunchKernel", "calls"), 3);
}

/* In the child of the fork truth starts at nothing; so the outer child ends, and leaves the inner one's. */
static void go_on_in_a_fork(void)
{
	int status;
	pid_t pid;

	launch(launch);
	pid = fork();
	CHECK(pid >= 0);
	if (pid) {
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		_exit(0);
	}
	launch(launch);
	launch(launch);
}

static void test_a_fork_starts_anew(void **state)
{
	_cleanup_(json) json_t *truth = run("", go_on_in_a_fork);

	assert_int_equal(number(truth, RUNTIME, "cudaLaunchKernel", "calls"), 2);
	assert_int_equal(number(truth, DRIVER, "cuLaunchKernel", "calls"), 2);
}

static void nothing(void)
{
}

static void test_scripts_that_cannot_be_read(void **state)
{
	static const char *const scripts[] = { "cudaMalloc",      "nope=1",         "cudaMalloc=",
					       "cudaMalloc=1x",   "cudaMalloc=1/",  "cudaMalloc=-1",
					       "cudaMalloc=2h",   "cudaMalloc!0",   "cudaMalloc!2@0",
					       "cudaMalloc!2@1x", "cudaMalloc=1*0", "cudaMalloc=9999999s" };

	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		int status;

		assert_null(run_child(scripts[i], nothing, &status));
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 2);
	}
}

/* The last line of a program's output as JSON. */
static json_t *run_program(const char *arguments)
{
	char command[PATH_MAX + 256], line[65536] = "";
	FILE *f;

	snprintf(command, sizeof(command), "LD_LIBRARY_PATH=%s%s %s%s", folder(), variant, folder(), arguments);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		;
	assert_int_equal(pclose(f), 0);
	return json_loads(line, 0, NULL);
}

static void test_truth_at_exit(void **state)
{
	char path[] = "/tmp/test_cuda_standin.XXXXXX", pattern[64];
	_cleanup_(json) json_t *printed = NULL, *written = NULL;
	glob_t found;

	assert_non_null(mkdtemp(path));
	snprintf(pattern, sizeof(pattern), "%s/t.%%p.json", path);
	setenv("STANDIN_CUDA_TRUTH", pattern, 1);
	printed = run_program("cuda_calls -w no -t 2 -g 2 -n 1000 -m launch*2,malloc,host_alloc");
	unsetenv("STANDIN_CUDA_TRUTH");
	snprintf(pattern, sizeof(pattern), "%s/t.*[0-9].json", path);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	written = json_load_file(found.gl_pathv[0], 0, NULL);
	unlink(found.gl_pathv[0]);
	rmdir(path);
	globfree(&found);
	assert_non_null(printed);
	assert_true(json_equal(printed, written));
	assert_int_equal(number(printed, RUNTIME, "cudaLaunchKernel", "calls"), 2 * 2 * 500);
	assert_int_equal(number(printed, RUNTIME, "cudaFreeHost", "bytes"), 2 * 2 * 250 * 512);
}

/* Every symbol is called and counts as its API, with the bytes that cuda_each says. */
static void test_each_symbol(void **state)
{
	_cleanup_(json) json_t *truth = run_program("cuda_each 3 no");
	int64_t calls[SO_CUDA_API_COUNT] = { 0 };
	static const char *const names[] = {
#define X(name, library, kind, args) #name,
		SO_CUDA_APIS(X)
#undef X
	};

	assert_non_null(truth);
#define X(symbol, api, ...) calls[SO_CUDA_API_##api] += 3;
	STANDIN_RUNTIME_SYMBOLS(X)
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++) {
		const char *image = strncmp(names[i], "cuda", 4) == 0 ? RUNTIME : DRIVER;

		assert_int_equal(number(truth, image, names[i], "calls") -
					 number(truth, image, names[i], "nested"),
				 calls[i]);
		assert_int_equal(number(truth, image, names[i], "errors"), 0);
	}
	assert_int_equal(number(truth, RUNTIME, "cudaMemcpy2D", "bytes"),
			 6 * 2 * (1000 + SO_CUDA_API_cudaMemcpy2D));
	assert_int_equal(direction(truth, RUNTIME, "cudaMemcpy3DAsync", "DtoH"),
			 6 * 3 * (1000 + SO_CUDA_API_cudaMemcpy3DAsync));
	assert_int_equal(direction(truth, RUNTIME, "cudaMemcpyPeer", "PtoP"),
			 3 * (1000 + SO_CUDA_API_cudaMemcpyPeer));
	assert_int_equal(direction(truth, RUNTIME, "cudaMemcpyFromSymbolAsync", "unknown"),
			 6 * (1000 + SO_CUDA_API_cudaMemcpyFromSymbolAsync));
	assert_int_equal(number(truth, DRIVER, "cuMemsetD32", "bytes"),
			 6 * 4 * (1000 + SO_CUDA_API_cuMemsetD32));
	assert_int_equal(direction(truth, DRIVER, "cuMemcpy2D", "HtoD"),
			 6 * 2 * (1000 + SO_CUDA_API_cuMemcpy2D));
	assert_int_equal(number(truth, RUNTIME, "cudaMallocPitch", "bytes"),
			 3 * 2 * (1000 + SO_CUDA_API_cudaMallocPitch));
}

static void ask_nvml(void)
{
	void *library = load("libnvidia-ml.so.1");
	nvmlProcessUtilizationSample_t samples[2];
	nvmlProcessInfo_t processes[2];
	nvmlUtilization_t utilization;
	nvmlMemory_t bytes;
	nvmlDevice_t device;
	unsigned count = 0;
	char text[96];

#define CALL(name, ...)                                                     \
	({                                                                  \
		__typeof__(name) *f = (__typeof__(f))dlsym(library, #name); \
                                                                            \
		CHECK(f);                                                   \
		f(__VA_ARGS__);                                             \
	})
	setenv("STANDIN_NVML", "gpu=37,mem=12,used=1000,pid=11/22,proc=35/4,procused=900/100", 1);
	CHECK(CALL(nvmlDeviceGetCount_v2, &count) == NVML_ERROR_UNINITIALIZED);
	CHECK(CALL(nvmlInit_v2) == NVML_SUCCESS);
	CHECK(CALL(nvmlDeviceGetCount_v2, &count) == NVML_SUCCESS && count == 1);
	CHECK(CALL(nvmlDeviceGetHandleByIndex_v2, 1, &device) == NVML_ERROR_INVALID_ARGUMENT);
	CHECK(CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device) == NVML_SUCCESS);
	CHECK(CALL(nvmlSystemGetDriverVersion, text, 4) == NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(CALL(nvmlSystemGetDriverVersion, text, 80) == NVML_SUCCESS && strlen(text) > 4);
	CHECK(CALL(nvmlDeviceGetName, device, text, 96) == NVML_SUCCESS && *text);
	CHECK(CALL(nvmlDeviceGetUUID, device, text, 96) == NVML_SUCCESS && strncmp(text, "GPU-", 4) == 0);
	CHECK(CALL(nvmlDeviceGetUtilizationRates, device, &utilization) == NVML_SUCCESS);
	CHECK(utilization.gpu == 37 && utilization.memory == 12);
	CHECK(CALL(nvmlDeviceGetMemoryInfo, device, &bytes) == NVML_SUCCESS && bytes.used == 1000ull << 20);
	CHECK(bytes.free + bytes.used == bytes.total);
	count = 0;
	CHECK(CALL(nvmlDeviceGetProcessUtilization, device, NULL, &count, 0) == NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(count == 2);
	CHECK(CALL(nvmlDeviceGetProcessUtilization, device, samples, &count, 0) == NVML_SUCCESS);
	CHECK(samples[0].pid == 11 && samples[0].smUtil == 35 && samples[1].pid == 22 &&
	      samples[1].smUtil == 4);
	CHECK(CALL(nvmlDeviceGetProcessUtilization, device, samples, &count, UINT64_MAX) ==
	      NVML_ERROR_NOT_FOUND);
	count = 1;
	CHECK(CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, processes) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(CALL(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, processes) == NVML_SUCCESS);
	CHECK(processes[1].pid == 22 && processes[1].usedGpuMemory == 100ull << 20);
	setenv("STANDIN_NVML", "fail=utilization:15", 1);
	CHECK((int)CALL(nvmlDeviceGetUtilizationRates, device, &utilization) == 15);
	CHECK(CALL(nvmlShutdown) == NVML_SUCCESS);
	setenv("STANDIN_NVML", "fail=init", 1);
	CHECK(CALL(nvmlInit_v2) == NVML_ERROR_DRIVER_NOT_LOADED);
#undef CALL
}

static void test_nvml(void **state)
{
	_cleanup_(json) json_t *truth = run("", ask_nvml);
}

static int run_variant(const char *name)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_api_has_a_symbol),
		cmocka_unit_test(test_prologues),
		cmocka_unit_test(test_latencies_come_in_turn),
		cmocka_unit_test(test_long_waits_sleep_unless_told),
		cmocka_unit_test(test_counts_are_exact_with_threads),
		cmocka_unit_test(test_only_outermost_calls_are_timed),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_kernels_by_name),
		cmocka_unit_test(test_a_fork_starts_anew),
		cmocka_unit_test(test_scripts_that_cannot_be_read),
		cmocka_unit_test(test_truth_at_exit),
		cmocka_unit_test(test_each_symbol),
		cmocka_unit_test(test_nvml),
	};

	variant = name;
	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
	return run_variant("plain") + run_variant("ibt") ? 1 : 0;
}
