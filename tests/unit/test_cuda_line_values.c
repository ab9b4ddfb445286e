// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "daemon/cuda/cuda_line_values.h"

static void whole_figures_stay_as_they_are(void **state)
{
	struct cuda_line_values all = { 0 };
	uint64_t v[SO_CUDA_WEIGHT_COUNT];

	for (unsigned i = 1; i < 1000; i++) {
		struct cuda_line line = { .calls = i, .total_ns = 1000000007.0 * i, .bytes = i % 3 };

		assert_true(cuda_line_values__next(&all, &line, v));
		assert_int_equal(v[SO_CUDA_WEIGHT_CALLS], i);
		assert_int_equal(v[SO_CUDA_WEIGHT_TIME], 1000000007ull * i);
		assert_int_equal(v[SO_CUDA_WEIGHT_BYTES], i % 3);
	}
}

/* Rounding each line for itself would be off by 0.4 a line: by 4000 in the end. */
static void sums_are_right_within_one(void **state)
{
	static const double factors[] = { 1.4, 1.5, 1.6, 1 + 1.0 / 3, 7.3, 64.01 };

	for (unsigned f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
		struct cuda_line_values all = { 0 };
		uint64_t v[SO_CUDA_WEIGHT_COUNT], sums[SO_CUDA_WEIGHT_COUNT] = { 0 };
		double exact[SO_CUDA_WEIGHT_COUNT] = { 0 };

		for (unsigned i = 0; i < 10000; i++) {
			struct cuda_line line = { .calls = factors[f] * (1 + i % 2),
						  .total_ns = factors[f] * (i * 7919 % 5003),
						  .bytes = i % 5 ? 0 : factors[f] * 4096 };

			assert_true(cuda_line_values__next(&all, &line, v));
			assert_true(fabs((double)v[SO_CUDA_WEIGHT_CALLS] - line.calls) <= 1);
			assert_true(fabs((double)v[SO_CUDA_WEIGHT_TIME] - line.total_ns) <= 1);
			assert_true(fabs((double)v[SO_CUDA_WEIGHT_BYTES] - line.bytes) <= 1);
			for (unsigned w = 0; w < SO_CUDA_WEIGHT_COUNT; w++)
				sums[w] += v[w];
			exact[SO_CUDA_WEIGHT_CALLS] += line.calls;
			exact[SO_CUDA_WEIGHT_TIME] += line.total_ns;
			exact[SO_CUDA_WEIGHT_BYTES] += line.bytes;
		}
		for (unsigned w = 0; w < SO_CUDA_WEIGHT_COUNT; w++)
			assert_true(fabs((double)sums[w] - exact[w]) <= 1);
	}
}

static void what_a_view_has_not_seen_is_left_out(void **state)
{
	struct cuda_line_values all = { 0 };
	struct cuda_line line = { .calls = 2.7 - 2.7, .total_ns = 0.3, .bytes = 0.3 };
	uint64_t v[SO_CUDA_WEIGHT_COUNT];

	assert_false(cuda_line_values__next(&all, &line, v));
	line.calls = -1e-9;
	assert_false(cuda_line_values__next(&all, &line, v));
	line.calls = NAN;
	assert_false(cuda_line_values__next(&all, &line, v));
	for (unsigned i = 0; i < SO_CUDA_WEIGHT_COUNT; i++)
		assert_true(all.owed[i] == 0);
	/* A difference may come out below nothing, or be no number. */
	line = (struct cuda_line){ .calls = 3, .total_ns = -1e-3, .bytes = NAN };
	assert_true(cuda_line_values__next(&all, &line, v));
	assert_int_equal(v[SO_CUDA_WEIGHT_CALLS], 3);
	assert_int_equal(v[SO_CUDA_WEIGHT_TIME], 0);
	assert_int_equal(v[SO_CUDA_WEIGHT_BYTES], 0);
	line.total_ns = 1e300;
	assert_true(cuda_line_values__next(&all, &line, v));
	assert_int_equal(v[SO_CUDA_WEIGHT_TIME], 1ull << 53);
}

static void events_and_weights_have_their_words(void **state)
{
	assert_int_equal(so_cuda_event__find("cuda-launch"), SO_CUDA_EVENT_LAUNCH);
	assert_int_equal(so_cuda_event__find("cuda-set"), SO_CUDA_EVENT_SET);
	assert_int_equal(so_cuda_event__find("cuda"), SO_CUDA_EVENT_COUNT);
	assert_int_equal(so_cuda_event__find(""), SO_CUDA_EVENT_COUNT);
	assert_int_equal(so_cuda_weight__find("bytes"), SO_CUDA_WEIGHT_BYTES);
	assert_int_equal(so_cuda_weight__find("host_time"), SO_CUDA_WEIGHT_COUNT);
	assert_int_equal(so_cuda_events[SO_CUDA_EVENT_ALLOC].weight, SO_CUDA_WEIGHT_BYTES);
	for (unsigned i = 0; i < SO_CUDA_EVENT_COUNT; i++) {
		assert_non_null(strstr(SO_CUDA_EVENT_LIST, so_cuda_events[i].word));
		/* The weight by default is one that the event may be given. */
		assert_true(so_cuda_events[i].has_bytes || so_cuda_events[i].weight != SO_CUDA_WEIGHT_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_figures_stay_as_they_are),
		cmocka_unit_test(sums_are_right_within_one),
		cmocka_unit_test(what_a_view_has_not_seen_is_left_out),
		cmocka_unit_test(events_and_weights_have_their_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
