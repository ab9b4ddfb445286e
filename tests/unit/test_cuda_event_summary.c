// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "client/cuda/cuda_event_summary.h"
#include "daemon/profile/profile_builder.h"

struct comment {
	const char *key, *value;
};

static const struct profile_value_type types[SO_CUDA_WEIGHT_COUNT] = {
#define X(name, word, type, unit) { type, unit },
	SO_CUDA_WEIGHTS(X)
#undef X
};

static struct profile_builder *builder_with(const struct comment *comments)
{
	struct profile_builder *b = profile_builder__new_values(0, 0, types, SO_CUDA_WEIGHT_COUNT, 0);

	assert_non_null(b);
	for (; comments->key; comments++)
		assert_int_equal(profile_builder__comment(b, comments->key, comments->value), 0);
	return b;
}

/* A call in `line` of step.py, by way of a native frame; line 0: of a native program. */
static void add(struct profile_builder *b, int64_t line, uint64_t calls, uint64_t ns, uint64_t bytes)
{
	const uint64_t cuda = profile_builder__mapping(
		b, &(struct profile_mapping){ .filename = "/usr/lib/libcudart.so.12", .build_id = "" });
	const uint64_t torch = profile_builder__mapping(
		b, &(struct profile_mapping){ .filename = "/opt/libtorch.so", .build_id = "" });
	const struct profile_frame frames[] = {
		{ .mapping_id = cuda, .name = "cudaMemcpy" },
		{ .mapping_id = cuda, .name = "inner" },
		{ .mapping_id = torch, .name = "at::copy_" },
		{ .name = "step", .filename = "/app/step.py", .line = line, .start_line = 1 },
	};
	const uint64_t values[] = { calls, ns, bytes };
	const struct profile_labels labels = { .pid = 1, .tid = 1, .comm = "t", .api = "cudaMemcpy" };
	uint64_t stack[4];

	for (size_t i = 0; i < 4; i++)
		stack[i] = profile_builder__location(b, &frames[i]);
	assert_int_equal(profile_builder__sample_values(b, stack, line ? 4 : 3, values, &labels), 0);
}

/* What is said; malloc'ed. Frees the builder. */
static char *said(struct profile_builder *b, enum so_cuda_event event, enum so_cuda_weight weight)
{
	size_t length, size;
	uint8_t *bytes;
	char *text;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	assert_int_equal(cuda_event_summary__print(bytes, length, &so_cuda_events[event], weight, out), 0);
	fclose(out);
	free(bytes);
	profile_builder__free(b);
	return text;
}

static void assert_said(struct profile_builder *b, enum so_cuda_event event, enum so_cuda_weight weight,
			const char *expected)
{
	char *text = said(b, event, weight);

	assert_string_equal(text, expected);
	free(text);
}

static void lines_have_the_weight_asked_for(void **state)
{
	static const struct comment comments[] = { { "cuda.estimated", "0" },    { "cuda.calls", "10" },
						   { "cuda.time_ns", "4000" },   { "cuda.bytes", "2048" },
						   { "cuda.stack_period", "1" }, { NULL, NULL } };
	struct profile_builder *b = builder_with(comments);

	add(b, 7, 1, 3000, 0);
	add(b, 8, 9, 1000, 2048);
	assert_said(b, SO_CUDA_EVENT_COPY, SO_CUDA_WEIGHT_TIME,
		    "cuda-copy: 10 calls, 4.00 µs on the host, 2.05 kB in all\n"
		    "in the stacks: 10 calls (each had its stack taken when the recording ended)\n"
		    "  share        time  line\n"
		    " 75.0 %     3.00 µs  step (step.py:7)\n"
		    " 25.0 %     1.00 µs  step (step.py:8)\n");
	b = builder_with(comments);
	add(b, 7, 1, 3000, 0);
	add(b, 8, 9, 1000, 2048);
	assert_said(b, SO_CUDA_EVENT_COPY, SO_CUDA_WEIGHT_BYTES,
		    "cuda-copy: 10 calls, 4.00 µs on the host, 2.05 kB in all\n"
		    "in the stacks: 10 calls (each had its stack taken when the recording ended)\n"
		    "  share       bytes  line\n"
		    "100.0 %     2.05 kB  step (step.py:8)\n");
}

static void estimates_and_losses_are_said(void **state)
{
	static const struct comment comments[] = {
		{ "cuda.estimated", "1" },
		{ "cuda.calls", "1200" },
		{ "cuda.stack_period", "16" },
		{ "lost.stack-busy", "3" },
		{ "lost.unfinished", "1" },
		{ "cuda.time_ns", "1e5" },
		{ NULL, NULL },
	};
	struct profile_builder *b = builder_with(comments);

	add(b, 0, 1184, 1, 0);
	/* A figure that is no whole number is left out. */
	assert_said(
		b, SO_CUDA_EVENT_LAUNCH, SO_CUDA_WEIGHT_CALLS,
		"cuda-launch: ~1200 calls\n"
		"estimates: the calls were counted in windows alone, and scaled to all of the time; how near "
		"is not known; record for longer\n"
		"in the stacks: 1184 calls (one in 16, and more of long ones, had its stack taken when the "
		"recording ended; scaled "
		"up)\n"
		"lost: stack-busy=3, unfinished=1\n"
		"  share       calls  line\n"
		"100.0 %        1184  at::copy_ (libtorch.so)\n");
}

static void it_is_said_how_near_estimates_are(void **state)
{
	static const struct {
		const char *error, *words;
	} of[] = {
		{ "0.0312", "; the number of calls is right within 3 % (95 %)\n" },
		{ "0.0058", "; the number of calls is right within 0.6 % (95 %)\n" },
		{ "0.0000", "; the number of calls is right within 0.1 % (95 %)\n" },
		{ "1.2000", "; too uncertain to be of use; record for longer\n" },
		{ "-1", "; how near is not known; record for longer\n" },
		{ "nan", "; how near is not known; record for longer\n" },
		{ "0.1x", "; how near is not known; record for longer\n" },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		const struct comment comments[] = { { "cuda.estimated", "1" },
						    { "cuda.calls", "1200" },
						    { "cuda.calls_error", of[i].error },
						    { NULL, NULL } };
		struct profile_builder *b = builder_with(comments);
		char *text;

		add(b, 0, 1184, 1, 0);
		text = said(b, SO_CUDA_EVENT_LAUNCH, SO_CUDA_WEIGHT_CALLS);
		assert_non_null(strstr(text, of[i].words));
		free(text);
	}
}

static void missing_lines_are_said(void **state)
{
	static const struct comment comments[] = { { "cuda.calls", "1" },
						   { "lines-missing", "3" },
						   { NULL, NULL } };
	struct profile_builder *b = builder_with(comments);
	char *text;

	add(b, 0, 1, 1, 0);
	text = said(b, SO_CUDA_EVENT_LAUNCH, SO_CUDA_WEIGHT_CALLS);
	assert_non_null(
		strstr(text, "\nsource lines: 3 addresses of native code are without, for want of time to read "
			     "their debug information\n"));
	free(text);
}

/* With debug information the line of a native caller is told, not one of what nvcc puts between it and the library. */
static void native_callers_have_lines(void **state)
{
	static const struct comment comments[] = { { "cuda.calls", "18" }, { NULL, NULL } };
	static const struct profile_frame stacks[5][6] = {
		{ { .name = "cudaLaunchKernel" },
		  { .mapping_id = 1,
		    .name = "__cudaLaunchKernel_helper",
		    .filename = "/c/device_functions.h",
		    .line = 9 },
		  { .mapping_id = 1,
		    .name = "__device_stub__Z4axpyPff",
		    .filename = "/t/k.cudafe1.stub.c",
		    .line = 1 },
		  { .mapping_id = 1, .name = "axpy", .filename = "/s/k.cu", .line = 4 },
		  { .mapping_id = 1, .name = "step", .filename = "/s/k.cu", .line = 20 } },
		{ { .name = "cudaMalloc" },
		  { .mapping_id = 1, .name = "cudaMalloc<float>", .filename = "/c/cuda_runtime.h", .line = 8 },
		  { .mapping_id = 1, .name = "Buffer::Buffer", .filename = "/s/k.cu", .line = 7 },
		  { .mapping_id = 1, .name = "step", .filename = "/s/k.cu", .line = 21 } },
		/* Cut short: better the kernel's function than nothing. */
		{ { .name = "cudaLaunchKernel" },
		  { .mapping_id = 1,
		    .name = "__device_stub__Z4cut1Pff",
		    .filename = "/t/k.cudafe1.stub.c",
		    .line = 1 },
		  { .mapping_id = 1, .name = "cut1", .filename = "/s/k.cu", .line = 5 } },
		/* The kernel's host function ended in a jump to the stub. */
		{ { .name = "cudaLaunchKernel" },
		  { .mapping_id = 1, .name = "__device_stub__Z11fill_kernelPf", .filename = "", .line = 0 },
		  { .mapping_id = 1, .name = "ns::f", .filename = "/s/k.cu", .line = 31 },
		  { .mapping_id = 1, .name = "main", .filename = "/s/k.cu", .line = 40 } },
		/* A template's stub is two functions. */
		{ { .name = "cudaLaunchKernel" },
		  { .mapping_id = 1, .name = "__device_stub__Z5scaleIfEvPT_", .filename = "", .line = 0 },
		  { .mapping_id = 1, .name = "__wrapper__device_stub_scale<float>", .filename = "", .line = 0 },
		  { .mapping_id = 1,
		    .name = "(anonymous namespace)::scale<float>",
		    .filename = "/s/k.cu",
		    .line = 6 },
		  { .mapping_id = 1, .name = "step", .filename = "/s/k.cu", .line = 22 } },
	};
	static const size_t depths[] = { 5, 4, 3, 4, 5 };
	static const uint64_t calls[] = { 7, 5, 3, 2, 1 };
	struct profile_builder *b = builder_with(comments);
	const struct profile_labels labels = { .pid = 1, .tid = 1, .comm = "t", .api = "any" };
	uint64_t stack[6];
	char *text;

	assert_int_equal(profile_builder__mapping(b, &(struct profile_mapping){ .filename = "/opt/sim" }), 1);
	for (size_t i = 0; i < 5; i++) {
		const uint64_t values[] = { calls[i], 1, 0 };

		for (size_t j = 0; j < depths[i]; j++)
			stack[j] = profile_builder__location(b, &stacks[i][j]);
		assert_int_equal(profile_builder__sample_values(b, stack, depths[i], values, &labels), 0);
	}
	text = said(b, SO_CUDA_EVENT_LAUNCH, SO_CUDA_WEIGHT_CALLS);
	assert_non_null(strstr(text, " 38.9 %           7  step (k.cu:20 in sim)\n"
				     " 27.8 %           5  Buffer::Buffer (k.cu:7 in sim)\n"
				     " 16.7 %           3  cut1 (k.cu:5 in sim)\n"
				     " 11.1 %           2  ns::f (k.cu:31 in sim)\n"
				     "  5.6 %           1  step (k.cu:22 in sim)\n"));
	free(text);
}

static void no_more_than_five_lines(void **state)
{
	static const struct comment comments[] = { { "cuda.calls", "28" }, { NULL, NULL } };
	struct profile_builder *b = builder_with(comments);
	char *text;

	for (int64_t i = 1; i <= 7; i++)
		add(b, i, (uint64_t)i, 0, 0);
	text = said(b, SO_CUDA_EVENT_FREE, SO_CUDA_WEIGHT_CALLS);
	assert_non_null(strstr(text, "step.py:7)\n"));
	assert_non_null(strstr(text, "step.py:3)\nand 2 more lines\n"));
	assert_null(strstr(text, "step.py:2)"));
	free(text);
}

static void nothing_called(void **state)
{
	static const struct comment comments[] = { { "cuda.estimated", "0" },
						   { "cuda.calls", "0" },
						   { "cuda.time_ns", "0" },
						   { "cuda.libraries", "1" },
						   { NULL, NULL } };

	assert_said(builder_with(comments), SO_CUDA_EVENT_SYNC, SO_CUDA_WEIGHT_TIME,
		    "cuda-sync: 0 calls, 0 ns on the host\n"
		    "nothing was called: the profile is empty\n");
}

static int check(const struct comment *comments, struct so_error *err)
{
	_cleanup_(profile_builder) struct profile_builder *b = builder_with(comments);
	_cleanup_(profile) struct profile *profile = NULL;
	size_t length;
	uint8_t *bytes;

	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	assert_int_equal(profile__read_value(bytes, length, "calls", &profile, NULL), 0);
	free(bytes);
	return cuda_event_summary__check(profile, 42, "train", err);
}

static void without_cuda_there_is_no_profile(void **state)
{
	struct so_error err = { "" };

	assert_int_equal(check((const struct comment[]){ { "cuda.libraries", "2" }, { NULL, NULL } }, &err), 0);
	/* Another tool's file, or another version's. */
	assert_int_equal(check((const struct comment[]){ { NULL, NULL } }, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(check((const struct comment[]){ { "cuda.libraries", "0" }, { NULL, NULL } }, &err),
			 -ENODATA);
	assert_string_equal(err.text, "CUDA is not loaded in process 42 (train): there are no calls to record");
	assert_int_equal(check((const struct comment[]){ { "cuda.libraries", "0" },
							 { "cuda.problem", "no\nsymbols" },
							 { NULL, NULL } },
			       &err),
			 -ENODATA);
	assert_string_equal(err.text, "the CUDA calls of process 42 (train) cannot be recorded: no?symbols");
}

static void what_is_no_profile_is_refused(void **state)
{
	assert_int_equal(cuda_event_summary__print((const uint8_t *)"x", 1, &so_cuda_events[0],
						   SO_CUDA_WEIGHT_CALLS, stderr),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_have_the_weight_asked_for),
		cmocka_unit_test(estimates_and_losses_are_said),
		cmocka_unit_test(it_is_said_how_near_estimates_are),
		cmocka_unit_test(native_callers_have_lines),
		cmocka_unit_test(missing_lines_are_said),
		cmocka_unit_test(no_more_than_five_lines),
		cmocka_unit_test(nothing_called),
		cmocka_unit_test(without_cuda_there_is_no_profile),
		cmocka_unit_test(what_is_no_profile_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
