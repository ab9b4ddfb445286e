/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that make CUDA calls, so many or for so long, at a rate or flat out; the last line is truth as JSON.
 * Usage: cuda_calls [-t THREADS] [-n ROUNDS of each thread] [-d SECONDS] [-r ROUNDS a second, of each thread] [-m MIX]
 *                   [-g GENERATIONS of threads, one after another] [-p GENERATIONS] [-w stdin|usr1|no] [-s] [-b]
 * MIX: names of the table below with commas between them, *N behind a name: N times. A thread makes one of them a
 * round, in turn. -p: after so many, print "paused" and wait for a byte on stdin. -w: for what to wait before the first
 * call; -s: wait for a line on stdin before the end. -b: threads make the mix by turns.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "cuda_work.h"
#include "driver_symbols.h"
#include "runtime_symbols.h"

#define X(symbol, api, shape, ending) cudart_##shape symbol;
STANDIN_RUNTIME_SYMBOLS(X)
#undef X

#define MAX_MIX 1024

struct worker {
	pthread_t thread;
	cudaStream_t stream;
	cudaEvent_t event;
	cudaGraphExec_t graph;
	void *device;
	char host[4096];
	uint64_t rounds;
	sem_t turn;
	struct worker *next; /* whose turn comes then; NULL: they care for no turns */
	bool is_first;
};

/* A kernel's host function, which the runtime knows by its address. */
FRAME void scale_kernel(float *x)
{
	(void)x;
}

/* Behind a function's last call, so that it is no jump, and has the function's line. */
#define STAY() __asm__ volatile("")

static void launch(struct worker *w)
{
	cudaLaunchKernel((void *)scale_kernel, (dim3){ 3, 2, 1 }, (dim3){ 32, 4, 2 }, NULL, 0, w->stream);
}

static void launch_ex(struct worker *w)
{
	cudaLaunchConfig_t config = { .gridDim = { 5, 1, 1 }, .blockDim = { 64, 1, 1 }, .stream = w->stream };

	cudaLaunchKernelExC(&config, (void *)scale_kernel, NULL);
}

static cu_LAUNCH *driver_function;

static void find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	driver_function = driver ? (cu_LAUNCH *)dlsym(driver, "cuLaunchKernel") : NULL;
	if (!driver_function) {
		fprintf(stderr, "cuda_calls: %s\n", dlerror());
		exit(1);
	}
}

/* As programs do that compile kernels themselves: no runtime is between. */
static void driver_launch(struct worker *w)
{
	static pthread_once_t found = PTHREAD_ONCE_INIT;

	pthread_once(&found, find_driver);
	driver_function((CUfunction)scale_kernel, 3, 2, 1, 32, 4, 2, 0, (CUstream)w->stream, NULL, NULL);
}

static void alloc_free(struct worker *w)
{
	void *p = NULL;

	if (cudaMalloc(&p, 4096) == cudaSuccess)
		cudaFree(p);
}

static void alloc_free_async(struct worker *w)
{
	void *p = NULL;

	if (cudaMallocAsync(&p, 1 << 20, w->stream) == cudaSuccess)
		cudaFreeAsync(p, w->stream);
}

static void alloc_free_host(struct worker *w)
{
	void *p = NULL;

	if (cudaHostAlloc(&p, 512, 0) == cudaSuccess)
		cudaFreeHost(p);
}

static void htod(struct worker *w)
{
	cudaMemcpy(w->device, w->host, sizeof(w->host), cudaMemcpyHostToDevice);
}

/* Further up the stack than the calls of others. */
static void deep_htod(struct worker *w)
{
	volatile char frame[1024] = { 0 };

	htod(w);
	(void)frame[0];
}

static void dtoh(struct worker *w)
{
	cudaMemcpyAsync(w->host, w->device, 64, cudaMemcpyDeviceToHost, w->stream);
}

static void dtod(struct worker *w)
{
	cudaMemcpyAsync(w->device, w->device, 128, cudaMemcpyDeviceToDevice, w->stream);
}

static void copy_default(struct worker *w)
{
	cudaMemcpyAsync(w->device, w->host, 256, cudaMemcpyDefault, w->stream);
}

static void set(struct worker *w)
{
	cudaMemsetAsync(w->device, 0, 1000, w->stream);
}

static void stream_sync(struct worker *w)
{
	cudaStreamSynchronize(w->stream);
	STAY();
}

static void first_sync(struct worker *w)
{
	if (w->is_first)
		stream_sync(w);
}

static void device_sync(struct worker *w)
{
	cudaDeviceSynchronize();
}

static void event_sync(struct worker *w)
{
	cudaEventSynchronize(w->event);
}

static void event_record(struct worker *w)
{
	cudaEventRecord(w->event, w->stream);
}

static void event_query(struct worker *w)
{
	cudaEventQuery(w->event);
}

static void stream_query(struct worker *w)
{
	cudaStreamQuery(w->stream);
}

static void stream_wait(struct worker *w)
{
	cudaStreamWaitEvent(w->stream, w->event, 0);
	STAY();
}

static void graph_capture(struct worker *w)
{
	cudaGraph_t graph = NULL;

	if (w->graph)
		cudaGraphExecDestroy(w->graph);
	w->graph = NULL;
	cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeGlobal);
	launch(w);
	cudaStreamEndCapture(w->stream, &graph);
	cudaGraphInstantiate(&w->graph, graph, 0);
	cudaGraphDestroy(graph);
}

static void graph_launch(struct worker *w)
{
	cudaGraphLaunch(w->graph, w->stream);
}

/* No call: some 10 us of computing, however long that takes. */
static void work(struct worker *w)
{
	volatile uint64_t state = w->rounds;

	for (unsigned i = 0; i < 6000; i++)
		state = state * 6364136223846793005ull + 1442695040888963407ull;
}

static const struct {
	const char *name;
	void (*run)(struct worker *w);
} table[] = {
	{ "launch", launch },
	{ "launch_ex", launch_ex },
	{ "driver_launch", driver_launch },
	{ "malloc", alloc_free }, /* with its release, as the next two */
	{ "malloc_async", alloc_free_async },
	{ "host_alloc", alloc_free_host },
	{ "htod", htod },
	{ "deep_htod", deep_htod },
	{ "dtoh", dtoh },
	{ "dtod", dtod },
	{ "default", copy_default },
	{ "memset", set },
	{ "stream_sync", stream_sync },
	{ "first_sync", first_sync }, /* of the first thread alone */
	{ "device_sync", device_sync },
	{ "event_sync", event_sync },
	{ "event_record", event_record },
	{ "event_query", event_query },
	{ "stream_query", stream_query },
	{ "stream_wait", stream_wait },
	{ "graph_capture", graph_capture }, /* of one launch */
	{ "graph_launch", graph_launch },
	{ "work", work },
};

static void (*mix[MAX_MIX])(struct worker *w);
static unsigned mix_count;
static uint64_t rounds = 1000;
static double seconds, rate;
/* One for all threads: with one each, a thread could wait for its turn from one that has ended just before. */
static double deadline;
static pthread_barrier_t begin;

static void read_mix(char *text)
{
	for (char *word; (word = strsep(&text, ","));) {
		char *name = strsep(&word, "*");
		unsigned times = word ? (unsigned)atoi(word) : 1, i = 0;

		while (i < sizeof(table) / sizeof(*table) && strcmp(table[i].name, name) != 0)
			i++;
		if (i == sizeof(table) / sizeof(*table) || !times || times > MAX_MIX - mix_count) {
			fprintf(stderr, "cuda_calls: %s: no such call, or too often\n", name);
			exit(2);
		}
		while (times--)
			mix[mix_count++] = table[i].run;
	}
}

/* A sleep may take this long, whatever it is for: what is nearer is waited for by looking at the clock. */
#define SHORTEST_SLEEP_NS 200000

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

/* Waits for the next round. Who is late makes rounds without a wait until it has caught up. */
static void pace(struct timespec *next)
{
	uint64_t ns = ns_of(next) + (uint64_t)(1e9 / rate);
	struct timespec now;

	next->tv_sec = (time_t)(ns / 1000000000);
	next->tv_nsec = (long)(ns % 1000000000);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (ns > ns_of(&now) + SHORTEST_SLEEP_NS)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) == EINTR)
			;
	while (ns_of(&now) < ns)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;
	struct timespec next;

	pthread_barrier_wait(&begin);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (uint64_t i = 0; seconds > 0 ? work__now_s() < deadline : i < rounds; i++) {
		if (w->next && i % mix_count == 0)
			sem_wait(&w->turn);
		mix[i % mix_count](w);
		w->rounds++;
		if (w->next && (i + 1) % mix_count == 0)
			sem_post(&w->next->turn);
		if (rate > 0)
			pace(&next);
	}
	/* In the midst of its turn, or before one that it does not take: whoever waits for it goes on. */
	if (w->next)
		sem_post(&w->next->turn);
	return NULL;
}

static uint64_t run_generation(struct worker *workers, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sem_init(&workers[i].turn, 0, i == 0);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&workers[i].thread, NULL, thread_main, &workers[i])) {
			fprintf(stderr, "cuda_calls: only %u of %u threads could be made\n", i, n);
			exit(1);
		}
	deadline = work__now_s() + seconds;
	pthread_barrier_wait(&begin);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		sum += workers[i].rounds;
		workers[i].rounds = 0;
	}
	return sum;
}

static uint64_t run_generations(struct worker *workers, unsigned threads, unsigned n, unsigned pause)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		if (pause && i && i % pause == 0) {
			printf("paused\n");
			fflush(stdout);
			work__wait_for("stdin");
		}
		sum += run_generation(workers, threads);
	}
	return sum;
}

int main(int argc, char **argv)
{
	const char *wait_for = "stdin";
	unsigned threads = 1, generations = 1, pause = 0;
	bool stay = false, by_turns = false;
	struct worker *workers;
	uint64_t sum;
	double start;

	for (int option; (option = getopt(argc, argv, "t:n:d:r:m:g:p:w:sb")) != -1;) {
		switch (option) {
		case 't':
			threads = (unsigned)atoi(optarg);
			break;
		case 'n':
			rounds = strtoull(optarg, NULL, 10);
			break;
		case 'd':
			seconds = atof(optarg);
			break;
		case 'r':
			rate = atof(optarg);
			break;
		case 'm':
			read_mix(optarg);
			break;
		case 'g':
			generations = (unsigned)atoi(optarg);
			break;
		case 'p':
			pause = (unsigned)atoi(optarg);
			break;
		case 'w':
			wait_for = optarg;
			break;
		case 's':
			stay = true;
			break;
		case 'b':
			by_turns = true;
			break;
		default:
			return 2;
		}
	}
	if (!mix_count)
		mix[mix_count++] = launch;
	workers = calloc(threads, sizeof(*workers));
	if (!workers || !threads || pthread_barrier_init(&begin, NULL, threads + 1))
		return 2;
	for (unsigned i = 0; i < threads; i++) {
		cudaStreamCreate(&workers[i].stream);
		cudaEventCreate(&workers[i].event);
		workers[i].device = (void *)0x10000; /* not an allocation: none is made that was not asked for */
		workers[i].is_first = i == 0;
		workers[i].next = by_turns ? &workers[(i + 1) % threads] : NULL;
	}
	work__expect(wait_for);
	work__ready();
	if (!work__wait_for(wait_for))
		return 2;
	start = work__now_s();
	sum = run_generations(workers, threads, generations, pause);
	printf("rounds %llu seconds %.6f\n", (unsigned long long)sum, work__now_s() - start);
	free(workers);
	if (!work__truth())
		return 1;
	if (stay)
		work__wait_for("stdin");
	return 0;
}
