// SPDX-License-Identifier: GPL-2.0-or-later
/* Each finding on both sides of its threshold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/cuda_findings.h"
#include "tests/unit/cuda_answers.h"

/* What was found in an answer; all of it lives till the next call. */
static const struct cuda_findings *found(const char *answer)
{
	static struct cuda_report *report;
	static struct cuda_summary *summary;
	static struct cuda_findings *findings;

	cuda_findings__free(TAKE_PTR(findings));
	cuda_summary__free(TAKE_PTR(summary));
	cuda_report__free(TAKE_PTR(report));
	if (!answer)
		return NULL;
	report = cuda_read(answer);
	assert_int_equal(cuda_summary__new(report, false, &summary), 0);
	assert_int_equal(cuda_findings__new(report, summary, &findings), 0);
	return findings;
}

/* One alone, with these figures. */
static const struct cuda_finding *only(const char *answer, enum cuda_finding_kind kind, const char *measured)
{
	const struct cuda_findings *findings = found(answer);

	if (findings->n != 1 || findings->list[0].kind != kind)
		fail_msg("%zu findings, the first: %s", findings->n,
			 findings->n ? cuda_findings__word(findings->list[0].kind) : "none");
	assert_string_equal(findings->list[0].measured, measured);
	assert_true(strlen(findings->list[0].advice) > 10);
	return &findings->list[0];
}

static void nothing(const char *answer)
{
	const struct cuda_findings *findings = found(answer);

	if (findings->n)
		fail_msg("found %s: %s", cuda_findings__word(findings->list[0].kind),
			 findings->list[0].measured);
}

#define LINE(event, api, line, members) \
	"{'event':'" event "','api':'" api "','pid':7,'tid':7,'line':'" line "'," members "}"
#define LINES(rows)         CUDA_ANSWER("'lines':[" rows "]")
#define SYNC(ns)            LINE("sync", "cudaStreamSynchronize", "f (a.py:1)", "'calls':100,'total_ns':" ns)
#define COPY(line, members) LINE("copy", "cudaMemcpyAsync", line, members)

/* The recording takes 10 s: one percent is 100 ms. */
static void a_wait(void **state)
{
	const struct cuda_finding *finding =
		only(LINES(SYNC("100000000")), CUDA_FINDING_SYNC,
		     "100 calls to cudaStreamSynchronize, 10.0 a second, took 100 ms, 1.00 ms each");

	assert_string_equal(finding->line, "f (a.py:1)");
	assert_true(fabs(finding->share - 0.01) < 1e-12);
	assert_int_equal(finding->count, 100);
	nothing(LINES(SYNC("99999999")));
}

static void a_hidden_wait(void **state)
{
	static const char words[] = "100 calls to cudaStreamSynchronize, 10.0 a second, took 200 ms, 2.00 ms each; the "
				    "same line makes 100 asynchronous copies of %s each";
	const struct cuda_finding *finding;
	char expected[256];

	snprintf(expected, sizeof(expected), words, "4 B");
	finding =
		only(LINES(SYNC("200000000") "," COPY("f (a.py:1)", "'calls':100,'bytes':400,'total_ns':1000")),
		     CUDA_FINDING_HIDDEN_SYNC, expected);
	assert_non_null(strstr(finding->advice, ".item()"));
	snprintf(expected, sizeof(expected), words, "1.00 MB");
	finding = only(LINES(SYNC("200000000") "," COPY("f (a.py:1)",
							"'calls':100,'bytes':100000000,'total_ns':1000")),
		       CUDA_FINDING_HIDDEN_SYNC, expected);
	assert_null(strstr(finding->advice, ".item()"));
	assert_non_null(strstr(finding->advice, "non_blocking=True"));
	/* Another line's copies, and too few of them. */
	assert_int_equal(found(LINES(SYNC("200000000") "," COPY("g (a.py:2)", "'calls':100,'total_ns':1")))
				 ->list[0]
				 .kind,
			 CUDA_FINDING_SYNC);
	assert_int_equal(
		found(LINES(SYNC("200000000") "," COPY("f (a.py:1)", "'calls':49,'total_ns':1")))->list[0].kind,
		CUDA_FINDING_SYNC);
}

/* With debug information a copy and the wait for it stand in different lines of a native function. */
static void a_hidden_wait_of_native_code(void **state)
{
#define NATIVE(line)  "item (r.cpp:" line " in sim)"
#define NATIVE_SYNC   LINE("sync", "cudaStreamSynchronize", NATIVE("5"), "'calls':100,'total_ns':200000000")
#define COPIED(place) LINES(NATIVE_SYNC "," COPY(place, "'calls':100,'bytes':400,'total_ns':1000"))
	const struct cuda_finding *finding = only(COPIED(NATIVE("4")), CUDA_FINDING_HIDDEN_SYNC,
						  "100 calls to cudaStreamSynchronize, 10.0 a second, took 200 "
						  "ms, 2.00 ms each; the same function "
						  "makes 100 asynchronous copies of 4 B each");

	assert_string_equal(finding->line, NATIVE("5"));
	only(COPIED(NATIVE("5")), CUDA_FINDING_HIDDEN_SYNC,
	     "100 calls to cudaStreamSynchronize, 10.0 a second, took 200 ms, 2.00 ms each; the same line "
	     "makes 100 "
	     "asynchronous copies of 4 B each");
	/* Another function's, and another file's. */
	assert_int_equal(found(COPIED("iter (r.cpp:4 in sim)"))->list[0].kind, CUDA_FINDING_SYNC);
	assert_int_equal(found(COPIED("item (r.h:4 in sim)"))->list[0].kind, CUDA_FINDING_SYNC);
	/* Two lines of a Python function are two lines. */
	assert_int_equal(found(LINES(SYNC("200000000") "," COPY("f (a.py:2)", "'calls':100,'total_ns':1")))
				 ->list[0]
				 .kind,
			 CUDA_FINDING_SYNC);
}

static void copies_that_wait(void **state)
{
	const struct cuda_finding *finding =
		only(LINES(LINE("blocking-copy", "cudaMemcpy", "f",
				"'calls':10,'total_ns':200000000,'bytes':2000000000")),
		     CUDA_FINDING_BLOCKING_COPY,
		     "10 calls to cudaMemcpy, 1.00 a second, took 200 ms, 20.0 ms each; 200 MB each, 10.0 GB a "
		     "second of "
		     "call time");

	assert_non_null(strstr(finding->advice, "pin_memory=True"));
	/* 10 MB take 159 µs at 63 GB/s: a call of 160 µs may have waited for them, one of 158 µs did not. */
	only(LINES(COPY("f", "'calls':1000,'total_ns':160000000,'bytes':10000000000")),
	     CUDA_FINDING_SLOW_ASYNC_COPY,
	     "1000 calls to cudaMemcpyAsync, 100 a second, took 160 ms, 160 µs each; 10.0 MB each, 62.5 GB a "
	     "second of call "
	     "time");
	nothing(LINES(COPY("f", "'calls':1000,'total_ns':158000000,'bytes':10000000000")));
	/* An enqueue's time, however often. */
	nothing(LINES(COPY("f", "'calls':100000,'total_ns':1000000000,'bytes':400000")));
}

/* How few stacks tell of a line is said where its figures rest on them: of two threads together. */
static void few_stacks_are_said(void **state)
{
	static const char all[] =
		"~400 calls to cudaStreamSynchronize, 40.0 a second, took 400 ms, 1.00 ms each%s";
	char expected[256];

#define WAITS(tid, stacks, sampled)                                                                \
	"{'event':'sync','api':'cudaStreamSynchronize','pid':7,'tid':" tid ",'line':'f (a.py:1)'," \
	"'calls':200,'total_ns':200000000,'stacks':" stacks ",'sampled':" sampled "}"
	snprintf(expected, sizeof(expected), all, ", by 29 stacks");
	only(LINES(WAITS("7", "9", "true") "," WAITS("8", "20", "true")), CUDA_FINDING_SYNC, expected);
	snprintf(expected, sizeof(expected), all, "");
	only(LINES(WAITS("7", "10", "true") "," WAITS("8", "20", "true")), CUDA_FINDING_SYNC, expected);
	/* An older daemon does not say. */
	only(LINES(WAITS("7", "0", "true") "," WAITS("8", "0", "true")), CUDA_FINDING_SYNC, expected);
	only(LINES(WAITS("7", "9", "false") "," WAITS("8", "9", "false")), CUDA_FINDING_SYNC, expected + 1);
	only(LINES(WAITS("7", "1", "true")), CUDA_FINDING_SYNC,
	     "~200 calls to cudaStreamSynchronize, 20.0 a second, took 200 ms, 1.00 ms each, by 1 stack");
}

/* Without a single stack of the kind, the calls themselves tell. */
static void no_line_is_known(void **state)
{
	const struct cuda_finding *finding =
		only(CUDA_ANSWER("'calls':[" CUDA_CALL("cudaDeviceSynchronize", "sync",
						       "'calls':5,'total_ns':500000000") "]"),
		     CUDA_FINDING_SYNC,
		     "5 calls to cudaDeviceSynchronize, 0.50 a second, took 500 ms, 100 ms each (no stack "
		     "tells the source "
		     "line)");

	assert_null(finding->line);
	only(CUDA_ANSWER("'calls':[" CUDA_CALL("cudaMemcpy", "blocking-copy",
					       "'calls':1,'bytes':1000,'total_ns':500000000") "]"),
	     CUDA_FINDING_BLOCKING_COPY,
	     "1 call to cudaMemcpy, 0.10 a second, took 500 ms, 500 ms each (no stack tells the source line); "
	     "1.00 kB each, "
	     "2.00 kB a second of call time");
}

#define LAUNCHES(members) \
	CUDA_ANSWER("'calls':[" CUDA_CALL("cudaLaunchKernel", "launch", "'kernel':'k'," members) "]")

static void many_launches(void **state)
{
	/* 10000 a second, 10 % of 10 CPU seconds */
	only(LAUNCHES("'calls':100000,'threads':6400000,'total_ns':1000000000"), CUDA_FINDING_TINY_LAUNCHES,
	     "10000 launches a second, 64 threads each on average; launching took 1.00 s, 10.0 µs each: 10.0 % "
	     "of the CPU "
	     "time");
	nothing(LAUNCHES("'calls':99000,'total_ns':1000000000"));
	nothing(LAUNCHES("'calls':100000,'total_ns':999000000"));
}

static void slow_launches(void **state)
{
	/* One in a thousand */
	only(LAUNCHES("'calls':1000,'total_ns':5000000,'min_ns':4000,'max_ns':200000,"
		      "'histogram':[[3968,64,999],[196608,4096,1]]"),
	     CUDA_FINDING_LAUNCH_OUTLIERS,
	     "1 of 1000 launches (0.1 %) took over 100 µs, 198 µs in all, the longest 200 µs");
	nothing(LAUNCHES("'calls':1001,'total_ns':5000000,'min_ns':4000,'max_ns':200000,"
			 "'histogram':[[3968,64,1000],[196608,4096,1]]"));
	/* Few, but 1 % of the time. */
	assert_int_equal(found(LAUNCHES("'calls':2001,'total_ns':150000000,'min_ns':4000,'max_ns':142606336,"
					"'histogram':[[3968,64,2000],[142606336,4194304,1]]"))
				 ->list[0]
				 .kind,
			 CUDA_FINDING_LAUNCH_OUTLIERS);
	/* A graph's launch may take that long. */
	nothing(CUDA_ANSWER("'calls':[" CUDA_CALL("cudaGraphLaunch", "launch",
						  "'calls':10,'total_ns':2000000,'min_ns':200000,'max_ns':"
						  "200000,'histogram':[[196608,4096,10]]") "]"));
}

/*
 * Managed memory that is asked to be near: no copy from pageable memory, and none that the wait in the same place
 * brings.
 */
static void prefetches(void **state)
{
#define PREFETCH(line, members) LINE("copy", "cudaMemPrefetchAsync", line, members)
	nothing(LINES(PREFETCH("f (a.py:1)", "'calls':1000,'bytes':1000,'total_ns':160000000")));
	only(LINES(SYNC("200000000") "," PREFETCH("f (a.py:1)", "'calls':100,'bytes':400,'total_ns':1000")),
	     CUDA_FINDING_SYNC, "100 calls to cudaStreamSynchronize, 10.0 a second, took 200 ms, 2.00 ms each");
}

/*
 * Memory that is created and mapped piece by piece: a piece is one allocation, though it takes three calls, whose time
 * counts.
 */
static void allocations_in_segments(void **state)
{
#define PIECES(n)                                                                                                                  \
	CUDA_ANSWER("'calls':[" CUDA_CALL("cuMemCreate", "alloc", "'calls':" n ",'total_ns':1000000") "," CUDA_CALL(               \
		"cuMemMap", "alloc",                                                                                               \
		"'calls':" n                                                                                                       \
		",'total_ns':2000000") "," CUDA_CALL("cuMemSetAccess", "alloc",                                                    \
						     "'calls':" n                                                                  \
						     ",'total_ns':3000000") "," CUDA_CALL("cuMemUnmap",                            \
											  "free",                                  \
											  "'calls':" n                             \
											  ",'total_ns':"                           \
											  "4000000") "," CUDA_CALL("cuMemRelease", \
														   "free",         \
														   "'calls':" n    \
														   ",'total_ns':5000000") "]")
	const struct cuda_finding *finding = only(PIECES("100"), CUDA_FINDING_ALLOCATIONS,
						  "100 allocations and 100 frees, 20.0 a second, took 15.0 ms");

	assert_null(strstr(finding->advice, "expandable_segments:True"));
	nothing(PIECES("9"));
}

static void allocations(void **state)
{
	static const char many[] =
		"'calls':[" CUDA_CALL("cudaMalloc", "alloc", "'calls':50,'total_ns':5000000") "," CUDA_CALL(
			"cudaFree", "free", "'calls':50,'total_ns':15000000") "]";
	const struct cuda_finding *finding;
	char answer[2048];

	snprintf(answer, sizeof(answer),
		 CUDA_ANSWER("%s,'allocations':[{'line':'g (b.py:2)','allocations':50}]"), many);
	finding = only(answer, CUDA_FINDING_ALLOCATIONS,
		       "50 allocations and 50 frees, 10.0 a second, took 20.0 ms");
	assert_string_equal(finding->line, "g (b.py:2)");
	/* The line that took most time, rather than the one with most bytes. */
	snprintf(answer, sizeof(answer),
		 CUDA_ANSWER("%s,'lines':[" LINE(
			 "alloc", "cudaMalloc", "g (b.py:2)",
			 "'calls':50,'total_ns':5000000") "," LINE("free", "cudaFree", "h (b.py:9)",
								   "'calls':50,'total_ns':15000000") "]"),
		 many);
	assert_string_equal(found(answer)->list[0].line, "h (b.py:9)");
	nothing(CUDA_ANSWER("'calls':[" CUDA_CALL("cudaMalloc", "alloc", "'calls':99,'total_ns':5000000") "]"));
	/* From a pool; and few, at the beginning. */
	nothing(CUDA_ANSWER(
		"'calls':[" CUDA_CALL("cudaMallocAsync", "alloc", "'calls':9999,'total_ns':5000000") "]"));
	nothing(CUDA_ANSWER(
		"'calls':[" CUDA_CALL("cudaMalloc", "alloc", "'calls':19,'total_ns':900000000") "]"));
}

static void stream_waits(void **state)
{
	only(CUDA_ANSWER("'calls':[" CUDA_CALL(
		     "cudaStreamWaitEvent", "stream-wait",
		     "'calls':1000,'total_ns':1000000") "," CUDA_CALL("cudaLaunchKernel", "launch",
								      "'calls':2000,'total_ns':1000000") "]"),
	     CUDA_FINDING_STREAM_WAITS,
	     "1000 times a stream was made to wait for an event, 100 a second, beside 2000 launches; making "
	     "the calls took "
	     "1.00 ms");
	nothing(CUDA_ANSWER("'calls':[" CUDA_CALL(
		"cudaStreamWaitEvent", "stream-wait",
		"'calls':1000,'total_ns':1000000") "," CUDA_CALL("cudaLaunchKernel", "launch",
								 "'calls':2001,'total_ns':1000000") "]"));
	nothing(CUDA_ANSWER(
		"'calls':[" CUDA_CALL("cudaStreamWaitEvent", "stream-wait", "'calls':999,'total_ns':1") "]"));
}

/* 20 calls, ten a second of the 10 s, and half of a line's. */
static void waits_for_nothing(void **state)
{
#define IDLE_ROW(calls, needless)                           \
	LINE("sync", "cudaStreamSynchronize", "f (a.py:1)", \
	     "'calls':" calls ",'total_ns':900000,'needless':" needless ",'needless_ns':400000")
#define IDLE(calls, needless) LINES(IDLE_ROW(calls, needless))
	const struct cuda_finding *finding = only(
		IDLE("200", "100"), CUDA_FINDING_IDLE_SYNC,
		"100 of 200 calls to cudaStreamSynchronize, 10.0 a second, waited for nothing: they returned within "
		"8.19 µs; they took 400 µs, 4.00 µs each");

	assert_string_equal(finding->line, "f (a.py:1)");
	assert_int_equal(finding->count, 100);
	assert_true(fabs(finding->share - 4e-5) < 1e-12 && finding->total_ns == 400000);
	nothing(IDLE("201", "100"));
	nothing(IDLE("99", "99"));
	nothing("{'duration_s':1.0,'lines':[" LINE("sync", "cudaStreamSynchronize", "f (a.py:1)",
						   "'calls':19,'total_ns':1,'needless':19,'needless_ns':1") "]}");
	only(LINES(LINE("sync", "cudaStreamSynchronize", "f (a.py:1)",
			"'calls':200,'total_ns':900000,'needless':100,'needless_ns':400000,'stacks':3,'sampled':true")),
	     CUDA_FINDING_IDLE_SYNC,
	     "~100 of 200 calls to cudaStreamSynchronize, 10.0 a second, waited for nothing: they returned within 8.19 "
	     "µs; they took 400 µs, 4.00 µs each, by 3 stacks");
}

static void waits_of_copies_that_waited(void **state)
{
#define ITEM(place) IDLE_ROW("100", "100") "," COPY(place, "'calls':100,'bytes':400,'total_ns':1000")

	nothing(LINES(ITEM("f (a.py:1)")));
	assert_int_equal(found(LINES(ITEM("f (a.py:2)")))->list[0].kind, CUDA_FINDING_IDLE_SYNC);
}

/* The lines that take most come first, wherever they are by the time of all their calls. */
static void the_dearest_waits_for_nothing(void **state)
{
#define OF_TIME(line, ns, total) \
	LINE("sync", "cudaStreamSynchronize", line, "'calls':100,'needless':100,'total_ns':" total ",'needless_ns':" ns)
	const struct cuda_findings *findings = found(
		LINES(OF_TIME("a", "1", "9000") "," OF_TIME("b", "6", "8000") "," OF_TIME("c", "5", "7000") "," OF_TIME(
			"d", "4", "6000") "," OF_TIME("e", "3", "5000") "," OF_TIME("f", "2", "4000")));

	assert_int_equal(findings->n, 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(findings->list[i].line, ((const char *[]){ "b", "c", "d", "e", "f" })[i]);
}

/* Two threads' waits at one line are one line's; few of many are said, as none is needed. */
static void waits_again(void **state)
{
#define AGAIN(needless)                                          \
	LINE("stream-wait", "cudaStreamWaitEvent", "f (a.py:1)", \
	     "'calls':500,'total_ns':500000,'needless':" needless ",'needless_ns':50000")
	const struct cuda_finding *finding =
		only(LINES(AGAIN("50") "," AGAIN("50")), CUDA_FINDING_REPEATED_WAITS,
		     "100 of 1000 calls to cudaStreamWaitEvent, 10.0 a second, waited for "
		     "nothing: the stream had waited for the event already, and it was not "
		     "recorded since; they took 100 µs, 1.00 µs each");

	assert_string_equal(finding->line, "f (a.py:1)");
	nothing(LINES(AGAIN("50") "," AGAIN("49")));
}

static void graphs_made_again(void **state)
{
#define MADE(api, calls, ns)   CUDA_CALL(api, "capture", "'calls':" calls ",'total_ns':" ns)
#define MADE_AT(api, line, ns) LINE("capture", api, line, "'calls':9,'total_ns':" ns)
#define CAPTURED(n)                                 \
	MADE("cudaStreamBeginCapture", n, "30000000") \
	"," MADE("cudaGraphInstantiate", n, "170000000")
#define CAPTURED_AT                                              \
	MADE_AT("cudaGraphInstantiate", "g (a.py:2)", "9000")    \
	"," MADE_AT("cudaStreamBeginCapture", "f (a.py:1)", "9")
#define REPLAYED(n) CUDA_CALL("cudaGraphLaunch", "launch", "'calls':" n ",'total_ns':1000")
#define GRAPHS(captures, replays) \
	CUDA_ANSWER("'calls':[" CAPTURED(captures) "," REPLAYED(replays) "],'lines':[" CAPTURED_AT "]")
	const struct cuda_finding *finding =
		only(GRAPHS("50", "499"), CUDA_FINDING_GRAPHS_ANEW,
		     "50 captures and 50 instantiations for 499 replays, 5.00 a second; "
		     "making the graphs took 200 ms, without the launches that were captured");

	assert_string_equal(finding->line, "f (a.py:1)");
	assert_true(fabs(finding->share - 0.02) < 1e-12);
	assert_int_equal(finding->count, 50);
	nothing(GRAPHS("50", "500"));
	nothing(GRAPHS("4", "4"));
	/* A program that captures its shapes at its beginning. */
	nothing(CUDA_ANSWER("'calls':[" CUDA_CALL("cuStreamBeginCapture", "capture", "'calls':50,'total_ns':1") "]"));
}

static void failures(void **state)
{
	only(CUDA_ANSWER("'errors':[{'api':'cudaMalloc','code':2,'count':3},{'api':'cudaMalloc','pid':8,'code':"
			 "2,'count':4}]"),
	     CUDA_FINDING_ERRORS, "7 calls to cudaMalloc returned 2 (cudaErrorMemoryAllocation)");
	only(CUDA_ANSWER("'errors':[{'api':'cuMemAlloc','code':77777,'count':1}]"), CUDA_FINDING_ERRORS,
	     "1 call to cuMemAlloc returned 77777 (a code without a known name)");
	nothing(CUDA_ANSWER("'errors':[{'api':'cudaEventQuery','code':600,'count':3}]"));
}

#define FAILED(n)                                                                                          \
	found(CUDA_ANSWER("'errors':[{'api':'cudaMalloc','code':2,'count':" n "}],'lines':[" SYNC(         \
		"100000000") "],'calls':[" CUDA_CALL("cudaMalloc", "alloc", "'calls':8,'total_ns':300") "]"))

/* Where most calls fail, nothing else is to be mended first. */
static void failures_of_most_calls_come_first(void **state)
{
	assert_int_equal(FAILED("4")->list[0].kind, CUDA_FINDING_ERRORS);
	assert_int_equal(FAILED("3")->list[0].kind, CUDA_FINDING_SYNC);
	assert_int_equal(FAILED("3")->list[1].kind, CUDA_FINDING_ERRORS);
}

static void estimates_and_losses(void **state)
{
	only(CUDA_ANSWER("'estimated':true,'probes':{'budget_percent':1.0}"), CUDA_FINDING_ESTIMATED,
	     "some calls were counted in windows alone, to keep the cost of watching within its budget (1.0 "
	     "%), and scaled to all of the time");
	only(CUDA_ANSWER("'lost':{'calls-map-full':3}"), CUDA_FINDING_LOSSES,
	     "calls-map-full 3: the map of calls was full");
	only(CUDA_ANSWER("'lost':{'novel':3}"), CUDA_FINDING_LOSSES, "novel 3");
}

#define GPU(devices)                                 \
	CUDA_ANSWER("'calls':[" CUDA_CALL(           \
		"cudaMemcpyAsync", "copy",           \
		"'calls':9,'total_ns':6000000") "]," \
						"'gpu':{'driver':'1','devices':[" devices "]}")
#define DEVICE(utilisation, process) \
	"{'samples':9,'utilisation_percent':" utilisation ",'process_memory_bytes':" process "}"

static void an_idle_gpu(void **state)
{
	const struct cuda_finding *finding =
		only(GPU(DEVICE("70.0", "5") "," DEVICE("89.0", "5") "," DEVICE("0.0", "null")),
		     CUDA_FINDING_GPU_IDLE,
		     "utilisation 79.5 % of 2 devices; most of the host's time goes outside CUDA calls, at "
		     "least 99.9 %");

	assert_true(fabs(finding->share - 0.205) < 1e-12);
	nothing(GPU(DEVICE("70.0", "5") "," DEVICE("90.0", "5")));
	/* The only device there is, and devices of which none is known to be used. */
	assert_int_equal(found(GPU(DEVICE("5.0", "null")))->n, 1);
	nothing(GPU(DEVICE("5.0", "null") "," DEVICE("5.0", "null")));
	/* Not measured; and nothing that would use it. */
	nothing(GPU("{'samples':0,'utilisation_percent':5,'process_memory_bytes':5}"));
	nothing(CUDA_ANSWER("'gpu':{'driver':'1','devices':[" DEVICE("5.0", "5") "]}"));
}

/* By share, then failures, then remarks. */
static void the_costly_come_first(void **state)
{
	static const enum cuda_finding_kind expected[] = {
		CUDA_FINDING_GPU_IDLE,      CUDA_FINDING_HIDDEN_SYNC,     CUDA_FINDING_TINY_LAUNCHES,
		CUDA_FINDING_BLOCKING_COPY, CUDA_FINDING_SLOW_ASYNC_COPY, CUDA_FINDING_ALLOCATIONS,
		CUDA_FINDING_STREAM_WAITS,  CUDA_FINDING_LAUNCH_OUTLIERS, CUDA_FINDING_ERRORS,
		CUDA_FINDING_ERRORS,        CUDA_FINDING_LOSSES,
	};
	const struct cuda_findings *findings = found(CUDA_TRAINING);

	assert_int_equal(findings->n, sizeof(expected) / sizeof(expected[0]));
	for (size_t i = 0; i < findings->n; i++)
		assert_int_equal(findings->list[i].kind, expected[i]);
	/* 209 of 120 µs and more, and one of 2.5 ms */
	assert_int_equal(findings->list[7].count, 210);
	assert_true(fabs(findings->list[7].total_ns - (199 * 150e3 + 10 * 120e3 + 2500e3)) < 0.016 * 33.55e6);
}

static void an_empty_answer(void **state)
{
	char *text;
	static const struct cuda_view plain = { .rows = 0 };

	nothing("{}");
	nothing("{'calls':[{'api':'cudaFree','kind':'free','calls':1000000,'total_ns':9000000000000}]}");
	text = cuda_render_text(CUDA_ANSWER("'calls':[" CUDA_CALL("cudaFree", "free", "'calls':1") "]"),
				&plain);
	assert_non_null(strstr(text, "\nFindings: nothing stands out.\n"));
	free(text);
}

/* Lines of one kind, beyond which the table of waits has to do. */
static void not_too_many_lines(void **state)
{
	char text[4096] = "", *at = text;

	at += sprintf(at, "{'duration_s':10,'lines':[");
	for (int i = 0; i < 9; i++)
		at += sprintf(at,
			      "%s" LINE("sync", "cudaDeviceSynchronize", "f (a.py:%d)",
					"'calls':1,'total_ns':500000000"),
			      i ? "," : "", i);
	strcpy(at, "]}");
	assert_int_equal(found(text)->n, 5);
}

static int clean_up(void **state)
{
	found(NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait),
		cmocka_unit_test(a_hidden_wait),
		cmocka_unit_test(a_hidden_wait_of_native_code),
		cmocka_unit_test(copies_that_wait),
		cmocka_unit_test(no_line_is_known),
		cmocka_unit_test(few_stacks_are_said),
		cmocka_unit_test(many_launches),
		cmocka_unit_test(slow_launches),
		cmocka_unit_test(prefetches),
		cmocka_unit_test(allocations_in_segments),
		cmocka_unit_test(allocations),
		cmocka_unit_test(stream_waits),
		cmocka_unit_test(waits_for_nothing),
		cmocka_unit_test(waits_of_copies_that_waited),
		cmocka_unit_test(the_dearest_waits_for_nothing),
		cmocka_unit_test(waits_again),
		cmocka_unit_test(graphs_made_again),
		cmocka_unit_test(failures),
		cmocka_unit_test(failures_of_most_calls_come_first),
		cmocka_unit_test(estimates_and_losses),
		cmocka_unit_test(an_idle_gpu),
		cmocka_unit_test(the_costly_come_first),
		cmocka_unit_test(an_empty_answer),
		cmocka_unit_test(not_too_many_lines),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
