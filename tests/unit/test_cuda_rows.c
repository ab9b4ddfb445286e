// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_rows.h"

CLEANUP_DEFINE(json_t *, json, json_decref)

struct world {
	unsigned kernels_asked;
};

static bool takes(void *data, uint32_t tgid)
{
	return tgid != 99;
}

static const char *comm(void *data, uint32_t tgid, uint32_t tid)
{
	return tid == 1 ? "python3" : tid == 2 ? "odd \xff name" : NULL;
}

static const char *kernel(void *data, uint32_t tgid, uint64_t address)
{
	((struct world *)data)->kernels_asked++;
	return address == 0x1000 ? "void add<float>(float*)" : NULL;
}

static const char *site(void *data, uint32_t tgid, uint64_t stack, json_t **frames)
{
	if (!stack)
		return NULL;
	assert_int_equal(stack, 7);
	*frames = json_pack("[s, s]", "main (a.py:9)", "f (a.py:1)");
	return "f (a.py:1)";
}

static struct cuda_snapshot *new_snapshot(void)
{
	struct cuda_snapshot *snapshot = NULL;

	assert_int_equal(cuda_snapshot__new(&snapshot), 0);
	return snapshot;
}

/* n calls of that time, in an entry of their own. */
static void add(struct cuda_snapshot *snapshot, struct so_cuda_key key, uint64_t ns, unsigned n)
{
	struct so_cuda_calls calls = { .min_ns = ns, .max_ns = ns };
	uint32_t shift;

	key.octave = (uint8_t)latency_octave(ns);
	shift = latency_square_shift(key.octave);
	calls.total_ns = n * ns;
	calls.squares = n * (ns >> shift) * (ns >> shift);
	calls.errors = n / 2;
	calls.bytes = 10 * n;
	calls.blocks = n;
	calls.threads = 32 * n;
	calls.grid[0] = n;
	calls.block[1] = 32;
	calls.stream = ns;
	calls.buckets[latency_bucket(ns, key.octave)] = n;
	assert_int_equal(cuda_snapshot__add_calls(snapshot, &key, &calls), 0);
}

static const json_t *at(const json_t *rows, size_t i, const char *field)
{
	const json_t *value = json_object_get(json_array_get(rows, i), field);

	if (!value)
		fail_msg("row %zu has no %s", i, field);
	return value;
}

static json_int_t number(const json_t *rows, size_t i, const char *field)
{
	assert_true(json_is_integer(at(rows, i, field)));
	return json_integer_value(at(rows, i, field));
}

static void expect_text(const json_t *rows, size_t i, const char *field, const char *wanted)
{
	assert_true(json_is_string(at(rows, i, field)));
	assert_string_equal(json_string_value(at(rows, i, field)), wanted);
}

static void expect_json(const json_t *value, const char *wanted)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	assert_non_null(text);
	assert_string_equal(text, wanted);
}

static void test_calls(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct world told = { 0 };
	struct cuda_rows_world world = { .data = &told, .takes = takes, .comm = comm, .kernel = kernel };
	struct so_cuda_key launch = { .tgid = 1,
				      .tid = 1,
				      .kernel = 0x1000,
				      .library = 3,
				      .api = SO_CUDA_API_cudaLaunchKernel,
				      .direction = SO_CUDA_DIRECTION_NO };
	struct so_cuda_key copy = { .tgid = 1,
				    .tid = 2,
				    .library = 3,
				    .api = SO_CUDA_API_cudaMemcpyAsync,
				    .direction = SO_CUDA_DIRECTION_HTOD };
	struct so_cuda_key unknown = launch, foreign = launch;
	_cleanup_(json) json_t *rows = NULL;
	double squares;

	/* Octaves out of order. */
	add(snapshot, launch, 1000000, 1);
	add(snapshot, launch, 10, 5);
	add(snapshot, launch, 1000, 20);
	add(snapshot, copy, 2000000, 1);
	launch.tid = 3;
	add(snapshot, launch, 500, 1);
	unknown.kernel = 0xffffffff00000000;
	add(snapshot, unknown, 500, 1);
	foreign.tgid = 99;
	add(snapshot, foreign, 500000000, 1);
	/* An entry that is being made. */
	launch.tid = 8;
	add(snapshot, launch, 500, 0);
	rows = cuda_rows__calls(snapshot, &world);
	assert_non_null(rows);
	assert_int_equal(json_array_size(rows), 4);
	assert_int_equal(told.kernels_asked, 2);

	expect_text(rows, 0, "api", "cudaMemcpyAsync");
	expect_text(rows, 0, "kind", "copy");
	expect_text(rows, 0, "direction", "HtoD");
	expect_text(rows, 0, "comm", "odd ? name");
	assert_true(json_is_null(at(rows, 0, "kernel")));
	assert_true(json_is_null(at(rows, 0, "kernel_address")));

	expect_text(rows, 1, "api", "cudaLaunchKernel");
	expect_text(rows, 1, "kind", "launch");
	expect_text(rows, 1, "direction", "");
	expect_text(rows, 1, "comm", "python3");
	expect_text(rows, 1, "kernel", "void add<float>(float*)");
	expect_text(rows, 1, "kernel_address", "0x1000");
	expect_text(rows, 1, "stream", "0x3e8");
	assert_int_equal(number(rows, 1, "library"), 3);
	assert_int_equal(number(rows, 1, "pid"), 1);
	assert_int_equal(number(rows, 1, "tid"), 1);
	assert_int_equal(number(rows, 1, "calls"), 26);
	assert_int_equal(number(rows, 1, "errors"), 12);
	assert_int_equal(number(rows, 1, "total_ns"), 1020050);
	assert_int_equal(number(rows, 1, "min_ns"), 10);
	assert_int_equal(number(rows, 1, "max_ns"), 1000000);
	assert_int_equal(number(rows, 1, "bytes"), 260);
	assert_int_equal(number(rows, 1, "blocks"), 26);
	assert_int_equal(number(rows, 1, "threads"), 32 * 26);
	expect_json(at(rows, 1, "grid"), "[20,0,0]");
	expect_json(at(rows, 1, "block"), "[0,32,0]");
	expect_json(at(rows, 1, "histogram"), "[[10,1,5],[992,16,20],[999424,16384,1]]");
	assert_true(json_is_real(at(rows, 1, "squares_ns2")));
	squares = json_real_value(at(rows, 1, "squares_ns2"));
	assert_true(squares <= 1e12 + 20e6 + 500 && squares > (1e12 + 20e6 + 500) * (1 - 1.0 / 65536));

	/* Equal times: by thread, kernel. */
	assert_int_equal(number(rows, 2, "tid"), 1);
	assert_true(json_is_null(at(rows, 2, "kernel")));
	expect_text(rows, 2, "kernel_address", "0xffffffff00000000");
	assert_int_equal(number(rows, 3, "tid"), 3);
	expect_text(rows, 3, "comm", "");
	expect_text(rows, 3, "kernel", "void add<float>(float*)");
}

/* Numbers that JSON's integers cannot hold, and names outside the tables. */
static void test_limits(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct so_cuda_key key = { .tgid = 1, .api = SO_CUDA_API_COUNT, .direction = 200, .octave = 35 };
	struct so_cuda_calls calls = { .total_ns = UINT64_MAX,
				       .squares = UINT64_MAX,
				       .buckets[31] = UINT64_MAX };
	_cleanup_(json) json_t *rows = NULL, *none = NULL;

	none = cuda_rows__calls(snapshot, &(struct cuda_rows_world){ 0 });
	expect_json(none, "[]");
	assert_int_equal(cuda_snapshot__add_calls(snapshot, &key, &calls), 0);
	rows = cuda_rows__calls(snapshot, &(struct cuda_rows_world){ 0 });
	assert_int_equal(json_array_size(rows), 1);
	expect_text(rows, 0, "api", "unknown");
	expect_text(rows, 0, "kind", "unknown");
	expect_text(rows, 0, "direction", "unknown");
	assert_true(number(rows, 0, "total_ns") == INT64_MAX);
	assert_true(number(rows, 0, "calls") == INT64_MAX);
	assert_true(json_real_value(at(rows, 0, "squares_ns2")) == 0x1p64 * 0x1p44);
}

static void test_errors(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct cuda_rows_world world = { .takes = takes };
	struct so_cuda_error_key key = { .tgid = 1, .library = 2, .api = SO_CUDA_API_cudaMalloc, .code = 35 };
	_cleanup_(json) json_t *rows = NULL;

	cuda_snapshot__add_error(snapshot, &key, 5);
	key.code = 2;
	cuda_snapshot__add_error(snapshot, &key, 5);
	key.code = 3;
	cuda_snapshot__add_error(snapshot, &key, 9);
	key.code = 4;
	cuda_snapshot__add_error(snapshot, &key, 0);
	key.tgid = 99;
	cuda_snapshot__add_error(snapshot, &key, 100);
	rows = cuda_rows__errors(snapshot, &world);
	expect_json(rows, "[{\"api\":\"cudaMalloc\",\"library\":2,\"pid\":1,\"code\":3,\"count\":9},"
			  "{\"api\":\"cudaMalloc\",\"library\":2,\"pid\":1,\"code\":2,\"count\":5},"
			  "{\"api\":\"cudaMalloc\",\"library\":2,\"pid\":1,\"code\":35,\"count\":5}]");
}

static void test_allocations(void **state)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = new_snapshot();
	struct cuda_rows_world world = { .takes = takes, .site = site };
	struct so_cuda_site_key key = { .tgid = 1, .stack = 7 };
	struct so_cuda_site values = {
		.allocations = 2, .frees = 1, .bytes = 64, .current_bytes = -32, .peak_bytes = 64
	};
	_cleanup_(json) json_t *rows = NULL;

	cuda_snapshot__add_site(snapshot, &key, &values);
	key.stack = 0;
	key.host = 1;
	values.bytes = 65;
	cuda_snapshot__add_site(snapshot, &key, &values);
	key.tgid = 99;
	cuda_snapshot__add_site(snapshot, &key, &values);
	rows = cuda_rows__allocations(snapshot, &world);
	expect_json(rows,
		    "[{\"pid\":1,\"line\":null,\"stack\":[],\"host\":true,\"allocations\":2,\"frees\":1,"
		    "\"bytes\":65,"
		    "\"current_bytes\":-32,\"peak_bytes\":64},"
		    "{\"pid\":1,\"line\":\"f (a.py:1)\",\"stack\":[\"main (a.py:9)\",\"f "
		    "(a.py:1)\"],\"host\":false,"
		    "\"allocations\":2,\"frees\":1,\"bytes\":64,\"current_bytes\":-32,\"peak_bytes\":64}]");
}

static void test_lost(void **state)
{
	struct so_cuda_slot slot = { .hits = 5, .lost[SO_CUDA_LOSS_STACK_FULL] = 3 };
	_cleanup_(json) json_t *lost = cuda_rows__lost(&slot);

	assert_int_equal(json_object_size(lost), SO_CUDA_LOSS_COUNT);
	assert_int_equal(json_integer_value(json_object_get(lost, "stack-full")), 3);
	assert_int_equal(json_integer_value(json_object_get(lost, "calls-map-full")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),  cmocka_unit_test(test_limits),
		cmocka_unit_test(test_errors), cmocka_unit_test(test_allocations),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
