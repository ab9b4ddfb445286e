// SPDX-License-Identifier: GPL-2.0-or-later
/* What `stakeout cuda` prints: every word of one report, and the figures by themselves. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/cuda_codes.h"
#include "cuda/cuda_summary.h"
#include "cuda/cuda_text.h"
#include "stakeout/utf8.h"
#include "tests/unit/cuda_answers.h"

static const struct cuda_view plain = { .rows = 0 };

/* clang-format off */
static const char training[] =
	"Process 1234 (python3): 285305 CUDA calls in 10.0 s (6.50 CPU s), 13 failed\n"
	"cost: 3.44 % of the target's time (budget 5 %), 780 ns a call; state counted\n"
	"counted, some of them timed: launch\n"
	"source lines: from the stack of one launch in 100, one stream-wait in 50; more of long calls, and all of 15.2 ms or more\n"
	"lost: unfinished 2\n"
	"problem: libcudnn.so.9: 3 calls inlined, not probed\n"
	"not returned yet, so not counted: cudaDeviceSynchronize in thread 1240, for 2.30 s so far\n"
	"GPU 0 NVIDIA H100: utilisation 41.5 % (this process 40.0 %), memory 12.0 GB of 85.0 GB (this process 11.5 GB)\n"
	"the host is the bottleneck, GPU utilisation 41.5 %: most of the host's time goes outside CUDA calls, at least 67.4 %\n"
	"the rest of its time: launch 7.1 %, sync 18.4 %, copy 5.2 %, alloc 1.2 %, other 0.8 %\n"
	"\n"
	"Calls by API (time on the host, from call to return)\n"
	"  Time %  Total Time  Num Calls       Avg       Med       P99       Min       Max    StdDev  Errors  Name\n"
	"  56.4 %   1.84 s        2000    920 µs    919 µs    937 µs    900 µs    940 µs   20.0 µs       0  cudaStreamSynchronize\n"
	"  21.5 %    701 ms     154000   4.55 µs   4.00 µs   8.00 µs   3.00 µs   2.50 ms   8.36 µs       3  cudaLaunchKernel\n"
	"   9.2 %    300 ms        100   3.00 ms   3.00 ms   3.00 ms   3.00 ms   3.00 ms      0 ns       0  cudaMemcpy\n"
	"   6.6 %    216 ms       2500   86.4 µs   8.03 µs    397 µs   8.00 µs    400 µs    157 µs       0  cudaMemcpyAsync\n"
	"   2.4 %   77.0 ms     120000    642 ns    604 ns   1.09 µs    600 ns   1.10 µs    138 ns       0  cudaStreamWaitEvent\n"
	"   1.8 %   60.0 ms        300    200 µs    200 µs    200 µs    200 µs    200 µs      0 ns       0  cudaFree\n"
	"   1.7 %   55.5 ms        300    185 µs    151 µs   1.19 ms    150 µs   1.20 ms    189 µs      10  cudaMalloc (/opt/torch/lib/libcudart.so.12)\n"
	"   0.2 %   7.00 ms       1000   7.00 µs   7.02 µs   7.02 µs   7.00 µs   9.00 µs     63 ns       0  cuLaunchKernel\n"
	"   0.1 %   4.00 ms        100   40.0 µs   40.0 µs   40.0 µs   40.0 µs   40.0 µs      0 ns       0  cudaGraphLaunch\n"
	"   0.1 %   2.50 ms       5000    500 ns    500 ns    500 ns    500 ns    500 ns      0 ns       0  cudaEventQuery\n"
	" < 0.1 %    450 µs          5   90.0 µs   90.0 µs   90.0 µs   90.0 µs   90.0 µs      0 ns       0  cudaMalloc (/opt/ext/lib/libcudart.so.11.0)\n"
	"not counted as errors: 4000 answers \"not ready\" (600) of queries\n"
	"\n"
	"Launches by kernel (time on the host to launch it, not its execution; grid and block of the last launch)\n"
	"  Num Calls       Avg       Med       P99       Max            Grid           Block  Avg Blocks Avg Threads  Name\n"
	"     150000   4.54 µs   4.00 µs   8.00 µs   2.50 ms       (256,1,1)       (128,1,1)        192      24576  vectorized_elementwise_kernel<…>\n"
	"       4000   5.00 µs   5.00 µs   5.00 µs   5.00 µs         (1,1,1)        (32,1,1)          1         32  unknown kernel 0x7f1200002000\n"
	"       1000   7.00 µs   7.02 µs   7.02 µs   9.00 µs         (8,1,1)       (256,1,1)          8       2048  unknown kernel 0x55aa10\n"
	"        100   40.0 µs   40.0 µs   40.0 µs   40.0 µs               -               -          -          -  graph (cudaGraphLaunch)\n"
	"names are shortened: namespaces and parameters, and of long ones template arguments; --json has all of them\n"
	"5000 launches of 2 kernels whose names are not known, because neither a symbol nor a registration seen while watching tells them\n"
	"\n"
	"Waits of the host by source line (share of the recording)\n"
	"   Share  Total Time  Num Calls       Avg   Needless  Name                      Line\n"
	"  18.4 %   1.84 s        2000    920 µs          0  cudaStreamSynchronize     log_loss (train.py:88)\n"
	"          <module> (train.py:140) > main (train.py:120) > … > epoch (loop.py:62) > train_step (train.py:70) > log_loss (train.py:88)\n"
	"   3.0 %    300 ms        100   3.00 ms          -  cudaMemcpy                upload(float const*) (libsim.so)\n"
	"          main > upload(float const*) (libsim.so)\n"
	"   2.0 %    200 ms        500    400 µs          -  cudaMemcpyAsync           load_batch (data.py:17)\n"
	"          <module> (train.py:140) > load_batch (data.py:17)\n"
	"   0.6 %   60.0 ms        300    200 µs          -  cudaFree                  shrink (pool.py:20)\n"
	"          <module> (train.py:140) > shrink (pool.py:20)\n"
	"   0.5 %   55.0 ms       ~300    183 µs          -  cudaMalloc                grow (pool.py:12)\n"
	"          <module> (train.py:140) > grow (pool.py:12)\n"
	"~ scaled up from the stacks of some of the calls\n"
	"\n"
	"Waits of streams by source line (needless: the stream had waited for that event already)\n"
	"Total Time  Num Calls  A Launch   Needless  Name                  Line\n"
	"   77.0 ms    ~120000      0.77         ~0  cudaStreamWaitEvent   prefetch (data.py:40)\n"
	"\n"
	"CUDA graphs: none made; 100 replays, 10.0 a second; 155000 kernel launches outside of replays\n"
	"\n"
	"Copies by direction (bytes a second of the recording, and of the time in the calls)\n"
	"  Num Calls     Bytes  Avg Size Call Time  B/s Rec.  B/s Call  Direction\n"
	"        600   2.40 GB   4.00 MB    500 ms    240 MB   4.80 GB  HtoD\n"
	"       2000   8.00 kB      4 B    16.0 ms    800 B     500 kB  DtoH\n"
	"\n"
	"Memory by source line, since the recording began\n"
	"     Allocs      Frees     Bytes   Current      Peak  Allocs/s  Line\n"
	"        290        300   2.90 GB   -100 MB   40.0 MB      29.0  grow (pool.py:12)\n"
	"          2          0   1.05 MB   1.05 MB   1.05 MB      0.20  stage (data.py:30) (host memory)\n"
	"\n"
	"Findings, by their share of the recording\n"
	" 1.  58.5 %  the GPU is under-used\n"
	"             utilisation 41.5 % of 1 device; most of the host's time goes outside CUDA calls, at least 67.4 %\n"
	"        try: the other findings and the tables say what the host does meanwhile. For its time outside CUDA calls:\n"
	"             stakeout record\n"
	" 2.  18.4 %  hidden synchronisation: log_loss (train.py:88)\n"
	"             2000 calls to cudaStreamSynchronize, 200 a second, took 1.84 s, 920 µs each; the same line makes 2000\n"
	"             asynchronous copies of 4 B each\n"
	"        try: `.item()`, `.tolist()`, `.cpu()`, `float(tensor)`, `if tensor:` read a value and wait until the GPU has\n"
	"             come to it. Keep it on the GPU (torch.where, in-place sums), or read it once in many steps\n"
	" 3.   7.1 %  many small launches: forward (model.py:50)\n"
	"             15500 launches a second, 23797 threads each on average; launching took 708 ms, 4.57 µs each: 10.9 % of the\n"
	"             CPU time\n"
	"        try: fewer, larger kernels: CUDA graphs (torch.cuda.graphs), torch.compile(mode=\"reduce-overhead\"), foreach or\n"
	"             fused optimisers, larger batches, no Python loop over tensors\n"
	" 4.   3.0 %  blocking copy: upload(float const*) (libsim.so)\n"
	"             100 calls to cudaMemcpy, 10.0 a second, took 300 ms, 3.00 ms each; 4.00 MB each, 1.33 GB a second of call\n"
	"             time\n"
	"        try: pageable memory makes a copy wait: pinned memory (pin_memory=True) and an asynchronous copy\n"
	"             (non_blocking=True, cudaMemcpyAsync on a stream of its own), in few large pieces\n"
	" 5.   2.0 %  asynchronous copy that holds the host: load_batch (data.py:17)\n"
	"             500 calls to cudaMemcpyAsync, 50.0 a second, took 200 ms, 400 µs each; 4.00 MB each, 10.0 GB a second of\n"
	"             call time\n"
	"        try: as for 4\n"
	" 6.   1.2 %  memory allocated all the time: shrink (pool.py:20)\n"
	"             305 allocations and 300 frees, 60.5 a second, took 116 ms\n"
	"        try: allocate once, outside the loop, or from a pool (PyTorch's caching allocator, cudaMallocAsync): look for\n"
	"             torch.cuda.empty_cache(), for memory near its limit and for changing shapes (expandable_segments:True).\n"
	"             cudaFree may wait for the whole device\n"
	" 7.   0.8 %  repeated stream waits: prefetch (data.py:40)\n"
	"             120000 times a stream was made to wait for an event, 12000 a second, beside 155100 launches; making the\n"
	"             calls took 77.0 ms\n"
	"        try: work in one stream is in order by itself: keep dependent kernels in one stream, and wait once for an event\n"
	"             behind many kernels (look for wait_stream(), record_stream() and changing streams in a loop)\n"
	" 8.   0.3 %  slow launches\n"
	"             210 of 155000 launches (0.1 %) took over 100 µs, 33.4 ms in all, the longest 2.50 ms\n"
	"        try: a kernel's first launch loads it (warm up, or CUDA_MODULE_LOADING=EAGER); a launch into a full queue waits\n"
	"             for the GPU, which then is the limit; threads that launch at the same time wait for one another\n"
	" 9.       -  failed calls\n"
	"             10 calls to cudaMalloc returned 2 (cudaErrorMemoryAllocation)\n"
	"        try: failures of asynchronous work are returned by later calls: compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1,\n"
	"             names the first one\n"
	"10.       -  failed calls\n"
	"             3 calls to cudaLaunchKernel returned 9 (cudaErrorInvalidConfiguration)\n"
	"        try: as for 9\n"
	"11.       -  not everything was counted\n"
	"             unfinished 2: calls that were never seen to return\n"
	"        try: the figures are too low by these: a few were under way when probes were placed anew (--budget 100 has\n"
	"             none), many are left by longjmp(), or by threads that end in them\n";
/* clang-format on */

static void a_whole_report(void **state)
{
	const struct cuda_view view = { .stacks = true, .width = 120 };
	char *text = cuda_render_text(CUDA_TRAINING, &view);

	assert_string_equal(text, training);
	free(text);
}

/* clang-format off */
static const char probes[] =
	"Process 1234: 2 probes in 2 libraries: 1 emulated, 1 single-stepped (slower); mechanism multi\n"
	"problem: libcudnn.so.9: 3 calls inlined, not probed\n"
	"\n"
	"/opt/torch/lib/libcudart.so.12 (runtime, process 1234): 2 probes\n"
	"  Symbol            Offset  Address         Instruction    Kind            Why there\n"
	"  cudaMalloc            +4  0x4c1d4         push rbp       emulated        first instruction that the kernel emulates\n"
	"  cudaFree_v2_ptsz      +0  0x4d200         sub rsp, 0x48  single-stepped  function entry: nothing better follows (counts as cudaFree)\n"
	"\n"
	"/opt/ext/lib/libcudart.so.11.0 (runtime, process 1234): 0 probes\n";
/* clang-format on */

static void the_probes(void **state)
{
	const struct cuda_view view = { .probes = true };
	char *text = cuda_render_text(CUDA_TRAINING, &view);

	assert_string_equal(text, probes);
	free(text);
}

static json_t *summary_of(const char *answer_text, bool python_only)
{
	const struct cuda_view view = { .json = true, .python_only = python_only };
	char *text = cuda_render_text(answer_text, &view);
	json_t *all = json_loads(text, 0, NULL), *summary = json_incref(json_object_get(all, "summary"));

	assert_non_null(summary);
	/* What the daemon said is there, too. */
	assert_non_null(json_object_get(all, "pid"));
	json_decref(all);
	free(text);
	return summary;
}

/* The element of a list whose member has this text. */
static const json_t *find(const json_t *summary, const char *list, const char *key, const char *text)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(summary, list), i, row) {
		const char *value = json_string_value(json_object_get(row, key));

		if (value && !strcmp(value, text))
			return row;
	}
	fail_msg("no %s in %s", text, list);
	return NULL;
}

static double get(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		fail_msg("no number %s", key);
	return json_number_value(value);
}

static void assert_near(const json_t *object, const char *key, double expected, double relative)
{
	double value = get(object, key);

	if (fabs(value - expected) > relative * fabs(expected))
		fail_msg("%s: %.12g instead of %.12g", key, value, expected);
}

/* From the latencies of which the fixture is made. */
static void figures_by_api(void **state)
{
	json_t *summary = summary_of(CUDA_TRAINING, false);
	const json_t *launch = find(summary, "by_api", "api", "cudaLaunchKernel");
	const json_t *sync = find(summary, "by_api", "api", "cudaStreamSynchronize");
	const json_t *query = find(summary, "by_api", "api", "cudaEventQuery");
	/* ns */
	double total = 20000 * 3e3 + 50000 * 4e3 + 28000 * 6e3 + 1800 * 8e3 + 199 * 150e3 + 2500e3 + /* main */
		       30000 * 3.5e3 + 19990 * 5e3 + 10 * 120e3 + /* autograd */
		       4000 * 5e3;                                /* unknown */
	double all = total + 999 * 7e3 + 9e3 + 100 * 40e3 + 1000 * 900e3 + 1000 * 940e3 + 2000 * 8e3 +
		     500 * 400e3 + 100 * 3e6 + 290 * 150e3 + 10 * 1200e3 + 5 * 90e3 + 300 * 200e3 +
		     110000 * 600 + 10000 * 1100 + 5000 * 500;

	assert_near(launch, "calls", 154000, 0);
	assert_near(launch, "errors", 3, 0);
	assert_near(launch, "total_ns", total, 0);
	assert_near(launch, "avg_ns", total / 154000, 1e-12);
	/* Sorted: 20000 of 3, 30000 of 3.5, 50000 of 4 µs: ranks 76999 and 77000 are among the latter. */
	assert_near(launch, "median_ns", 4000, 0.016);
	/* 1540 from the end: 210 slow ones before it, then 1800 of 8 µs. */
	assert_near(launch, "p99_ns", 8000, 0.016);
	assert_near(launch, "min_ns", 3000, 0);
	assert_near(launch, "max_ns", 2500000, 0);
	assert_near(launch, "time_share", total / all, 1e-12);
	assert_near(sync, "stddev_ns", 20000 * sqrt(2000 / 1999.0),
		    1e-9); /* 20 µs from the mean, all of them */
	assert_near(sync, "median_ns", 920000, 0.016);
	assert_near(query, "errors", 4000, 0);
	assert_near(query, "not_ready", 4000, 0);
	assert_near(summary, "total_ns", all, 0);
	assert_near(summary, "calls", 154000 + 1000 + 100 + 2000 + 2500 + 100 + 305 + 300 + 120000 + 5000, 0);
	assert_near(summary, "failed", 10 + 3, 0);
	assert_near(summary, "not_ready", 4000, 0);
	json_decref(summary);
}

static void libraries_are_apart(void **state)
{
	json_t *summary = summary_of(CUDA_TRAINING, false);
	const json_t *torch = NULL, *other = NULL, *row;
	size_t i;

	json_array_foreach (json_object_get(summary, "by_api"), i, row) {
		if (strcmp(json_string_value(json_object_get(row, "api")), "cudaMalloc"))
			continue;
		if (get(row, "calls") == 300)
			torch = row;
		else
			other = row;
	}
	assert_string_equal(json_string_value(json_object_get(torch, "library")),
			    "/opt/torch/lib/libcudart.so.12");
	assert_string_equal(json_string_value(json_object_get(other, "library")),
			    "/opt/ext/lib/libcudart.so.11.0");
	assert_near(torch, "p99_ns", 1200000, 0.016); /* 10 of 300 */
	assert_near(other, "avg_ns", 90000, 0);
	json_decref(summary);
}

static void figures_by_kernel(void **state)
{
	json_t *summary = summary_of(CUDA_TRAINING, false);
	const json_t *rows = json_object_get(summary, "by_kernel"), *add = json_array_get(rows, 0);
	const json_t *unknown = find(summary, "by_kernel", "unknown_address", "0x55aa10");

	assert_int_equal(json_array_size(rows), 4);
	assert_near(add, "calls", 150000, 0);
	assert_near(add, "avg_blocks", (100000 * 256.0 + 50000 * 64) / 150000, 1e-12);
	assert_near(add, "avg_threads", (100000 * 256.0 + 50000 * 64) * 128 / 150000, 1e-12);
	/* Of the thread that launched it more often. */
	assert_int_equal(json_integer_value(json_array_get(json_object_get(add, "grid"), 0)), 256);
	assert_true(json_is_null(json_object_get(unknown, "kernel")));
	assert_near(unknown, "avg_threads", 2048, 0);
	assert_true(json_is_true(json_object_get(json_array_get(rows, 3), "graph")));
	assert_near(summary, "unknown_kernels", 2, 0);
	assert_near(summary, "unknown_launches", 5000, 0);
	json_decref(summary);
}

static void waits_copies_and_memory(void **state)
{
	json_t *summary = summary_of(CUDA_TRAINING, false);
	const json_t *item = find(summary, "waits", "line", "log_loss (train.py:88)");
	const json_t *up = find(summary, "copies", "direction", "HtoD"),
		     *host = json_object_get(summary, "host");
	const json_t *grow = find(summary, "allocations", "line", "grow (pool.py:12)");

	/* Two stacks of one line; its copies took 8 µs each and did not wait. */
	assert_int_equal(json_array_size(json_object_get(summary, "waits")), 5);
	assert_near(item, "calls", 2000, 0);
	assert_near(item, "avg_ns", 920000, 0);
	assert_near(item, "share", 1.84 / 10, 1e-12);
	assert_int_equal(json_array_size(json_object_get(item, "stack")), 8);
	assert_near(up, "calls", 600, 0);
	assert_near(up, "avg_bytes", 2.4e9 / 600, 0);
	assert_near(up, "bytes_per_s", 2.4e9 / 10, 1e-12);
	assert_near(up, "bytes_per_call_s", 2.4e9 / 0.5, 1e-12);
	assert_near(grow, "current_bytes", -1e8, 0);
	assert_near(grow, "allocations_per_s", 29, 1e-12);
	assert_near(host, "gpu_utilisation", 0.415, 1e-12);
	assert_near(host, "outside_ns", 10e9 - get(summary, "total_ns"), 1e-12);
	assert_near(host, "alloc_ns", 55.5e6 + 0.45e6 + 60e6, 1e-12);
	assert_string_equal(json_string_value(json_object_get(host, "leading")), "outside");
	assert_true(json_is_true(json_object_get(host, "bottleneck")));
	json_decref(summary);
}

/* Calls of several processes; the time outside CUDA is each one's own. */
static void processes_are_added_up(void **state)
{
	json_t *summary = summary_of(
		CUDA_ANSWER(
			"'calls':[{'api':'cudaMalloc','kind':'alloc','pid':7,'calls':1,'total_ns':4000000000},"
			"{'api':'cudaMalloc','kind':'alloc','pid':7,'tid':8,'calls':1,'total_ns':3000000000},"
			"{'api':'cudaMalloc','kind':'alloc','pid':9,'calls':1,'total_ns':12000000000}]"),
		false);
	const json_t *host = json_object_get(summary, "host");

	assert_near(host, "outside_ns", 3e9 + 0, 0);
	assert_near(host, "whole_ns", 20e9, 0);
	assert_int_equal(json_array_size(json_object_get(summary, "by_api")), 1);
	assert_near(json_array_get(json_object_get(summary, "by_api"), 0), "total_ns", 19e9, 0);
	json_decref(summary);
}

static void assert_contains(const char *answer, const struct cuda_view *view, const char *expected)
{
	char *text = cuda_render_text(answer, view);

	if (!strstr(text, expected))
		fail_msg("'%s' is not in:\n%s", expected, text);
	free(text);
}

static void assert_lacks(const char *answer, const struct cuda_view *view, const char *unexpected)
{
	char *text = cuda_render_text(answer, view);

	if (strstr(text, unexpected))
		fail_msg("'%s' is in:\n%s", unexpected, text);
	free(text);
}

static void without_cuda(void **state)
{
	static const char answer[] =
		CUDA_ANSWER("'available':false,'calls':[],'problems':['cannot read maps']");

	assert_contains(answer, &plain, "Process 7 (sim): CUDA is not loaded in this process.\n");
	assert_contains(answer, &plain, "problem: cannot read maps\n");
	assert_lacks(answer, &plain, "Findings");
	json_decref(summary_of(answer, false));
}

static void without_calls(void **state)
{
	char *text = cuda_render_text(CUDA_ANSWER("'gpu_problem':'libnvidia-ml.so.1 is not there'"), &plain);

	assert_string_equal(
		text, "Process 7 (sim): 0 CUDA calls in 10.0 s (10.00 CPU s), 0 failed\n"
		      "cost: not measured\n"
		      "GPU: not measured: libnvidia-ml.so.1 is not there\n"
		      "No CUDA call returned meanwhile: the process computed on the CPU, waited, or is in a "
		      "long call.\n");
	free(text);
	/* Without its length, nothing is divided by it. */
	assert_contains("{'pid':1,'calls':[{'api':'cudaFree','kind':'free','calls':2,'total_ns':600}],"
			"'allocations':[{'line':'a','frees':2}]}",
			&plain, "in a time not measured");
}

static void estimates_are_marked(void **state)
{
	static const char answer[] =
		CUDA_ANSWER("'estimated':true,'probes':{'budget_percent':1.0,'state':'windowed','rungs':{"
			    "'free':'windowed','driver free':'not-watched','event':'windowed'}},"
			    "'calls':[" CUDA_CALL("cudaFree", "free", "'calls':400,'total_ns':4000") "]");

	assert_contains(answer, &plain, ": ~400 CUDA calls");
	assert_contains(answer, &plain,
			"; state windowed\n"
			"in windows alone: free, event\n"
			"not watched, for want of budget: driver free\n");
	assert_contains(
		answer, &plain,
		"counts with ~ are estimates, of 0 windows; all calls: uncertain (95 %)\n"
		"too few windows to know how near they are\n");
}

#define SUMS(windows, squares, weight, slowdown)                                               \
	"{'windows':" windows ",'calls':380,'rates':20,'squares':" squares ",'weight':" weight \
	",'slowdown':" slowdown "}"
#define INTERVAL(windows, squares, weight, slowdown)                                                           \
	CUDA_ANSWER(                                                                                           \
		"'estimated':true,'estimate':{'windows':" windows ",'calls':380,'rates':20,'squares':" squares \
		",'weight':" weight ",'slowdown':" slowdown                                                    \
		",'by_api':{'cudaFree':" SUMS(windows, squares, weight, slowdown) "}},'calls':[" CUDA_CALL(    \
			"cudaFree", "free", "'calls':400,'total_ns':4000") "]")

static void it_is_said_how_near_estimates_are(void **state)
{
	/* 2.26 standard errors for 9 degrees of freedom, of (49 - 400 / 10) / 9 x 16, and 3, of 400. */
	assert_contains(INTERVAL("10", "49", "16", "3"), &plain,
			"counts with ~ are estimates, of 10 windows; all calls: within 3 % (95 %)\n"
			"by API: cudaFree within 3 %\n");
	assert_contains(INTERVAL("2", "201", "160000", "0"), &plain, "all calls: uncertain (95 %)\n");
	assert_contains(INTERVAL("1", "49", "16", "3"), &plain,
			"all calls: uncertain (95 %)\ntoo few windows to know how near they are\n");
	assert_contains(INTERVAL("10", "49", "16", "3,'blind':1"), &plain,
			"all calls: uncertain (95 %)\n"
			"they are lower bounds: the probes took most of the time in windows\n");
}

/* Of what was not called nothing is thinned. */
static void periods_of_kinds_that_were_called(void **state)
{
	const char *answer = CUDA_ANSWER(
		"'probes':{'stack_period':{'launch':4,'set':5,'device-sync':1,'blocking-copy':6}},'calls':"
		"[" CUDA_CALL("cudaLaunchKernel", "launch", "'calls':30,'total_ns':300") "," CUDA_CALL(
			"cudaMemcpy", "blocking-copy", "'calls':3,'total_ns':30") "]");

	assert_contains(answer, &plain,
			"source lines: from the stack of one launch in 4, one blocking-copy in 6\n");
}

static void addresses_without_source_lines(void **state)
{
	assert_contains(CUDA_ANSWER("'lines_missing':7,'calls':[" CUDA_CALL("cudaFree", "free",
									    "'calls':4,'total_ns':40") "]"),
			&plain,
			"source lines: 7 addresses of native code are without, for want of time to read their "
			"debug information\n");
}

#define APIS(of_apis)                                                                                          \
	CUDA_ANSWER("'estimated':true,'estimate':{'windows':10,'calls':380,'rates':20,'squares':49,'weight':"  \
		    "16,'slowdown':3,'by_api':{" of_apis                                                       \
		    "}},'calls':[" CUDA_CALL("cudaFree", "free", "'calls':400,'total_ns':4000") "," CUDA_CALL( \
			    "cudaLaunchKernel",                                                                \
			    "launch", "'calls':30,'total_ns':300") "," CUDA_CALL("cudaMemcpyAsync", "copy",    \
										 "'direction':'HtoD','calls':" \
										 "500,"                        \
										 "'total_ns':400,'bytes':"     \
										 "1600") "," CUDA_CALL("cudaM" \
												       "emcp"  \
												       "y",    \
												       "block" \
												       "ing-"  \
												       "copy", \
												       "'dire" \
												       "ction" \
												       "':'"   \
												       "DtoH'" \
												       ",'"    \
												       "calls" \
												       "':20," \
												       "'tota" \
												       "l_ns'" \
												       ":200," \
												       "'byte" \
												       "s':"   \
												       "80") "]")

/* Which rows are estimates, and how near by API. */
static void estimated_apis_are_told_apart(void **state)
{
	const char *both = APIS(
		"'cudaLaunchKernel':" SUMS("10", "49", "0.1", "0") ",'cudaFree':" SUMS("10", "49", "16", "3"));
	const char *copies = APIS("'cudaMemcpyAsync':" SUMS("10", "49", "16", "3"));

	assert_contains(both, &plain, "by API: cudaFree within 3 %, cudaLaunchKernel within 2 %\n");
	assert_contains(both, &plain, "       ~400 ");
	assert_contains(both, &plain, "        ~30 ");
	assert_contains(both, &plain, "         20 ");
	/* Blocking copies are exact beside others that are not. */
	assert_contains(copies, &plain, "       ~500   1.60 kB ");
	assert_contains(copies, &plain, "         20     80 B ");
	/* Who does not say APIs may have scaled any. */
	assert_contains(CUDA_ANSWER("'estimated':true,'calls':[" CUDA_CALL("cudaFree", "free",
									   "'calls':400,'total_ns':4000") "]"),
			&plain, "       ~400 ");
}

static void python_alone(void **state)
{
	const struct cuda_view view = { .python_only = true, .stacks = true };

	assert_contains(CUDA_TRAINING, &view, "cudaMemcpy                [native]\n");
	assert_lacks(CUDA_TRAINING, &view, "upload(");
	assert_true(cuda_places__is_python("f (a.py:1)"));
	assert_false(cuda_places__is_python("f (libx.so)"));
	assert_false(cuda_places__is_python("f (a.py:)"));
	assert_false(cuda_places__is_python("12)"));
	assert_false(cuda_places__is_python(""));
}

static void rows_are_limited(void **state)
{
	const struct cuda_view two = { .rows = 2 }, three = { .rows = 3 };

	assert_contains(CUDA_TRAINING, &two, "\nand 9 more APIs\nnot counted");
	assert_contains(CUDA_TRAINING, &three, "\nand 1 more kernel\n");
	assert_contains(CUDA_TRAINING, &two, "\nand 3 more lines\n");
}

/* Whatever a name holds, and wherever it is shown. */
static void nothing_steers_the_terminal(void **state)
{
#define BAD "\\u001b]0;x\\u0007\\u009b31m\\u007f\\r\\n"
	static const char answer[] =
		"{'pid':7,'comm':'" BAD "','duration_s':1,'problems':['" BAD "'],'lost':{'" BAD "':1},"
		"'probes':{'state':'" BAD "','kind':'" BAD "'},'gpu_problem':'" BAD "',"
		"'libraries':[{'id':1,'path':'" BAD "1','kind':'" BAD "','probes':[{'symbol':'" BAD
		"','api':'a',"
		"'instruction':'" BAD "','why':'" BAD "'}]},{'id':2,'path':'" BAD "2'}],"
		"'calls':[{'api':'cudaMemcpy','kind':'copy','library':1,'direction':'" BAD
		"','calls':1,'comm':'" BAD "'},"
		"{'api':'cudaMemcpy','kind':'copy','library':2,'calls':1},"
		"{'api':'cudaLaunchKernel','kind':'launch','kernel':'" BAD "','calls':1}],"
		"'lines':[{'event':'sync','api':'cudaDeviceSynchronize','line':'" BAD "','stack':['" BAD
		"'],'calls':1,"
		"'total_ns':900000000}],'allocations':[{'line':'" BAD "','allocations':1}],"
		"'" BAD "':['" BAD "'],'gpu':{'driver':'1','devices':[{'index':0,'name':'" BAD "'}]}}";
#undef BAD
	static const struct cuda_view views[] = { { .stacks = true, .width = 40 },
						  { .probes = true },
						  { .json = true } };

	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		char *text = cuda_render_text(answer, &views[i]);
		size_t sequence;

		for (const char *c = text; *c; c += sequence) {
			sequence = utf8__sequence(c, strlen(c));
			assert_true(sequence > 0);
			assert_true((unsigned char)*c >= ' ' || *c == '\n');
			assert_false((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] < 0xa0);
			assert_true(views[i].json || *c != 0x7f);
		}
		free(text);
	}
}

static void an_answer_that_is_none(void **state)
{
	json_t *answer = cuda_answer("{'calls':7}");
	struct so_error err = { "" };
	FILE *out = tmpfile();

	assert_int_equal(cuda_report__render(answer, &plain, out, &err), -EPROTO);
	assert_non_null(strstr(err.text, "calls: a list is expected"));
	assert_int_equal(ftell(out), 0);
	fclose(out);
	json_decref(answer);
}

static void a_full_disk_is_said(void **state)
{
	static const struct cuda_view as_json = { .json = true };
	json_t *answer = cuda_answer(CUDA_TRAINING);

	for (int i = 0; i < 2; i++) {
		struct so_error err = { "" };
		FILE *out = fopen("/dev/full", "w");

		assert_non_null(out);
		assert_int_equal(cuda_report__render(answer, i ? &as_json : &plain, out, &err), -EIO);
		assert_string_equal(err.text, "cannot write: No space left on device");
		fclose(out);
	}
	/* The answer stays as it was. */
	assert_null(json_object_get(answer, "summary"));
	json_decref(answer);
}

static void assert_formatted(void (*format)(double, char[CUDA_TEXT_BYTES]), double value, const char *expected)
{
	char text[CUDA_TEXT_BYTES];

	format(value, text);
	assert_string_equal(text, expected);
}

static void units(void **state)
{
	assert_formatted(cuda_text__time, 0, "0 ns");
	assert_formatted(cuda_text__time, 999.4, "999 ns");
	assert_formatted(cuda_text__time, 999.5, "1.00 µs");
	assert_formatted(cuda_text__time, 9994, "9.99 µs");
	assert_formatted(cuda_text__time, 9995, "10.0 µs");
	assert_formatted(cuda_text__time, 99949, "99.9 µs");
	assert_formatted(cuda_text__time, 99950, "100 µs");
	assert_formatted(cuda_text__time, 999500, "1.00 ms");
	assert_formatted(cuda_text__time, 1.5e9, "1.50 s");
	assert_formatted(cuda_text__time, 86400e9, "86400 s");
	assert_formatted(cuda_text__time, NAN, "-");
	assert_formatted(cuda_text__time, -1, "-");
	assert_formatted(cuda_text__time, INFINITY, "-");
	assert_formatted(cuda_text__bytes, 4, "4 B");
	assert_formatted(cuda_text__bytes, 1048576, "1.05 MB");
	assert_formatted(cuda_text__bytes, 85e9, "85.0 GB");
	assert_formatted(cuda_text__share, 0.1234, "12.3 %");
	assert_formatted(cuda_text__share, 0.0004, "< 0.1 %");
	assert_formatted(cuda_text__share, 0, "0.0 %");
	assert_formatted(cuda_text__share, 1.5, "150.0 %");
	assert_formatted(cuda_text__rate, 12500, "12500");
	assert_formatted(cuda_text__rate, 0.2, "0.20");
	assert_formatted(cuda_text__rate, NAN, "-");
}

static void names_of_codes(void **state)
{
	assert_string_equal(cuda_codes__name("cudaMalloc", 1), "cudaErrorInvalidValue");
	assert_string_equal(cuda_codes__name("cudaMalloc", 2), "cudaErrorMemoryAllocation");
	assert_string_equal(cuda_codes__name("cuMemAlloc", 2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(cuda_codes__name("cuLaunchKernel", 719), "CUDA_ERROR_LAUNCH_FAILED");
	assert_string_equal(cuda_codes__name("cudaLaunchKernel", 719), "cudaErrorLaunchFailure");
	assert_null(cuda_codes__name("cuLaunchKernel", 9)); /* the runtime's alone */
	assert_null(cuda_codes__name("cudaMalloc", 123456));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_report),
		cmocka_unit_test(the_probes),
		cmocka_unit_test(figures_by_api),
		cmocka_unit_test(libraries_are_apart),
		cmocka_unit_test(figures_by_kernel),
		cmocka_unit_test(waits_copies_and_memory),
		cmocka_unit_test(processes_are_added_up),
		cmocka_unit_test(without_cuda),
		cmocka_unit_test(without_calls),
		cmocka_unit_test(estimates_are_marked),
		cmocka_unit_test(it_is_said_how_near_estimates_are),
		cmocka_unit_test(periods_of_kinds_that_were_called),
		cmocka_unit_test(addresses_without_source_lines),
		cmocka_unit_test(estimated_apis_are_told_apart),
		cmocka_unit_test(python_alone),
		cmocka_unit_test(rows_are_limited),
		cmocka_unit_test(nothing_steers_the_terminal),
		cmocka_unit_test(an_answer_that_is_none),
		cmocka_unit_test(a_full_disk_is_said),
		cmocka_unit_test(units),
		cmocka_unit_test(names_of_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
