// SPDX-License-Identifier: GPL-2.0-or-later
/* Which calls make graphs, which launch them, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/cuda_graphs.h"
#include "cuda/cuda_json.h"
#include "tests/unit/cuda_answers.h"

/* Texts are the report's, which lives till the next call. */
static struct cuda_graphs graphs_of(const char *answer)
{
	static struct cuda_report *report;
	_cleanup_(cuda_summary) struct cuda_summary *summary = NULL;
	struct cuda_graphs graphs = { 0 };

	cuda_report__free(TAKE_PTR(report));
	if (!answer)
		return graphs;
	report = cuda_read(answer);
	assert_int_equal(cuda_summary__new(report, false, &summary), 0);
	cuda_graphs__of(summary, &graphs);
	return graphs;
}

#define CALL(api, kind, calls) CUDA_CALL(api, kind, "'calls':" calls ",'total_ns':1000")
#define LINE(api, line, calls) \
	"{'event':'capture','api':'" api "','pid':7,'tid':7,'line':'" line "','calls':" calls ",'total_ns':10}"

/* clang-format off */
static const char both[] = CUDA_ANSWER(
	"'calls':["
	CALL("cudaStreamBeginCapture", "capture", "3") ","
	CALL("cuStreamBeginCaptureToGraph", "capture", "2") ","
	CALL("cudaStreamEndCapture", "capture", "5") ","
	CALL("cudaGraphInstantiateWithFlags", "capture", "4") ","
	CALL("cuGraphInstantiate", "capture", "1") ","
	CALL("cudaGraphExecUpdate", "capture", "6") ","
	CALL("cudaGraphLaunch", "launch", "70") ","
	CALL("cuGraphLaunch", "launch", "8") ","
	CALL("cudaLaunchKernel", "launch", "90") "]");
/* clang-format on */

static void runtime_and_driver(void **state)
{
	struct cuda_graphs graphs = graphs_of(both);

	assert_int_equal(graphs.captures, 5);
	assert_int_equal(graphs.instantiations, 5);
	assert_int_equal(graphs.updates, 6);
	assert_int_equal(graphs.replays, 78);
	assert_int_equal(graphs.launches, 90);
	assert_int_equal(graphs.making_ns, 6000);
	assert_null(graphs.line);
	assert_true(cuda_graphs__are_any(&graphs) && !graphs.estimated);
}

static void no_graphs(void **state)
{
	struct cuda_graphs graphs = graphs_of(CUDA_ANSWER("'calls':[" CALL("cudaLaunchKernel", "launch", "9") "]"));

	assert_false(cuda_graphs__are_any(&graphs));
	assert_int_equal(graphs.launches, 9);
}

static void failed_calls(void **state)
{
	struct cuda_graphs graphs = graphs_of(CUDA_ANSWER(
		"'calls':[" CUDA_CALL("cudaGraphLaunch", "launch", "'calls':9,'errors':2,'total_ns':1") "]"));

	assert_int_equal(graphs.replays, 7);
}

/* Where most captures begin, not what takes longest; else where a graph is made by hand. */
static void the_line(void **state)
{
#define WITH(lines) CUDA_ANSWER("'lines':[" lines "]")
#define BY_HAND     LINE("cudaGraphInstantiate", "made (a.py:3)", "50")
	assert_string_equal(graphs_of(WITH(BY_HAND "," LINE("cudaStreamBeginCapture", "few (a.py:1)", "2") "," LINE(
					      "cuStreamBeginCapture", "most (a.py:2)", "3")))
				    .line,
			    "most (a.py:2)");
	assert_string_equal(graphs_of(WITH(BY_HAND)).line, "made (a.py:3)");
	assert_null(graphs_of(WITH(LINE("cudaStreamEndCapture", "end (a.py:4)", "3"))).line);
}

static void in_json(void **state)
{
	_cleanup_(json) json_t *answer = cuda_answer(both);
	struct so_error err = { "" };
	const json_t *graphs;
	long long captures, replays;
	int estimated;

	assert_int_equal(cuda_json__add_summary(answer, &err), 0);
	graphs = json_object_get(json_object_get(answer, "summary"), "graphs");
	assert_int_equal(json_unpack((json_t *)graphs, "{s:I, s:I, s:b}", "captures", &captures, "replays", &replays,
				     "estimated", &estimated),
			 0);
	assert_true(captures == 5 && replays == 78 && !estimated);
	assert_true(json_is_null(json_object_get(graphs, "line")));
}

static int forget(void **state)
{
	graphs_of(NULL);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(runtime_and_driver), cmocka_unit_test(no_graphs), cmocka_unit_test(failed_calls),
		cmocka_unit_test(the_line),           cmocka_unit_test(in_json),
	};

	return cmocka_run_group_tests(tests, NULL, forget);
}
