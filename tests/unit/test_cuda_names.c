// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "stakeout/cuda_names.h"

static bool find(const char *symbol, struct cuda_name *out)
{
	return cuda_names__find(symbol, strlen(symbol), out);
}

static void expect(const char *symbol, unsigned type, unsigned number)
{
	struct cuda_name name = { .type = 77, .number = 777 };

	if (!find(symbol, &name))
		fail_msg("%s was not found", symbol);
	assert_int_equal(name.type, type);
	assert_int_equal(name.number, number);
	assert_int_equal(name.per_thread, strstr(symbol, "_pt") != NULL);
}

static void expect_none(const char *symbol)
{
	struct cuda_name name = { .type = 77, .number = 777 };

	if (find(symbol, &name))
		fail_msg("%s was taken for %s", symbol, cuda_names__base(name));
	assert_int_equal(name.type, 77);
	assert_int_equal(name.number, 777);
}

static void expect_variants(const char *base, unsigned type, unsigned number)
{
	static const char *const ends[] = { "", "_ptsz", "_ptds" };
	char symbol[96];

	for (size_t e = 0; e < 3; e++) {
		snprintf(symbol, sizeof(symbol), "%s%s", base, ends[e]);
		expect(symbol, type, number);
		assert_true(strlen(symbol) < CUDA_NAME_MAX_BYTES);
		for (unsigned v = 0; v <= 11; v++) {
			snprintf(symbol, sizeof(symbol), "%s_v%u%s", base, v, ends[e]);
			if (v >= 2 && v <= 9)
				expect(symbol, type, number);
			else
				expect_none(symbol);
			assert_true((v > 9) || strlen(symbol) < CUDA_NAME_MAX_BYTES);
		}
	}
}

static void test_every_name_and_its_variants(void **state)
{
#define X(name, ...) expect_variants(#name, CUDA_NAME_API, SO_CUDA_API_##name);
	SO_CUDA_APIS(X)
#undef X
#define X(name, library, ...) expect_variants(#name, CUDA_NAME_NAMER, SO_CUDA_NAMER_##name);
	SO_CUDA_NAMERS(X)
#undef X
}

static void test_nothing_else(void **state)
{
	static const char *const others[] = {
		"",
		"c",
		"cu",
		"cuda",
		"cudaMallocFoo",
		"cudaMallo",
		"xcudaMalloc",
		"_cudaMalloc",
		"__cudaMalloc",
		"cudaRegisterFunction",
		"_cudaRegisterFunction",
		"__cudaRegisterFunctio",
		"cudamalloc",
		"cudaMalloc_",
		"cudaMalloc_v",
		"cudaMalloc_v1",
		"cudaMalloc_v2x",
		"cudaMalloc_v22",
		"cudaMalloc_V2",
		"cudaMallocv2",
		"cudaMalloc_ptsz_v2",
		"cudaMalloc_ptsz_ptsz",
		"cudaMalloc_v2_v3",
		"cudaMalloc_pts",
		"cudaMalloc_ptxs",
		"_ptsz",
		"_v2",
		"_v2_ptsz",
		"__v2_ptds",
		"cudaMalloc.cold",
		"cudaMalloc@@libcudart.so.12",
		"cuMemAlloc\xff",
		"cudaLaunchKernel_v2_ptsz_and_then_much_more_of_it_behind",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		expect_none(others[i]);
}

static void test_length_counts_not_the_end(void **state)
{
	struct cuda_name name;

	assert_true(cuda_names__find("cudaMallocAsync@@V", strlen("cudaMallocAsync"), &name));
	assert_int_equal(name.number, SO_CUDA_API_cudaMallocAsync);
	assert_true(cuda_names__find("cudaMallocAsync", strlen("cudaMalloc"), &name));
	assert_int_equal(name.number, SO_CUDA_API_cudaMalloc);
	assert_false(cuda_names__find("cudaMallocAsync", strlen("cudaMallocAs"), &name));
}

static void test_words(void **state)
{
	struct cuda_name name;

	assert_string_equal(cuda_names__api(SO_CUDA_API_cudaLaunchKernel), "cudaLaunchKernel");
	assert_string_equal(cuda_names__api(SO_CUDA_API_COUNT - 1), "cuGraphUpload");
	assert_string_equal(cuda_names__api(SO_CUDA_API_COUNT), "unknown");
	assert_int_equal(cuda_names__kind(SO_CUDA_API_cudaStreamWaitEvent), SO_CUDA_WAIT);
	assert_string_equal(cuda_names__kind_word(SO_CUDA_WAIT), "stream-wait");
	assert_string_equal(cuda_names__kind_word(SO_CUDA_KIND_COUNT), "other");
	/* Of what a call of the runtime does the driver's is of the same kind. */
	assert_int_equal(cuda_names__kind(SO_CUDA_API_cudaEventSynchronize), SO_CUDA_SYNC_EVENT);
	assert_int_equal(cuda_names__kind(SO_CUDA_API_cuEventSynchronize), SO_CUDA_SYNC_EVENT);
	assert_string_equal(cuda_names__kind_word(SO_CUDA_SYNC_EVENT), "event-sync");
	assert_string_equal(cuda_names__does(SO_CUDA_API_cudaEventSynchronize), "sync");
	assert_string_equal(cuda_names__does(SO_CUDA_API_cudaMemcpy), "blocking-copy");
	assert_int_equal(so_cuda_kind__action(SO_CUDA_BLOCKING_COPY), SO_CUDA_COPY);
	assert_int_equal(so_cuda_kind__does(SO_CUDA_BLOCKING_COPY), SO_CUDA_BLOCKING_COPY);
	assert_int_equal(so_cuda_kind__action(SO_CUDA_QUERY), SO_CUDA_EVENT);

	assert_true(find("cuMemcpyHtoDAsync_v2_ptsz", &name));
	assert_string_equal(cuda_names__base(name), "cuMemcpyHtoDAsync");
	assert_int_equal(cuda_names__library(name), CUDA_NAME_DRIVER);
	assert_true(find("__cudaRegisterFunction", &name));
	assert_string_equal(cuda_names__base(name), "__cudaRegisterFunction");
	assert_int_equal(cuda_names__library(name), CUDA_NAME_RUNTIME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_name_and_its_variants),
		cmocka_unit_test(test_nothing_else),
		cmocka_unit_test(test_length_counts_not_the_end),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
