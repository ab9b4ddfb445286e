// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said of memory on GPUs: of profiles as the daemon makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/gpu_report.h"
#include "daemon/memory/torch_profile.h"
#include "daemon/profile/profile_builder.h"

#define SECONDS 20
#define SPAN_NS (SECONDS * 1000000000ull / TORCH_PROFILE_SPANS)
#define MB      1000000ull

struct made {
	struct profile_builder *b;
	uint64_t leak[2], step[2], none;
};

static uint64_t frame(struct profile_builder *b, const char *name, const char *file, int64_t line)
{
	const struct profile_frame f = { .name = name, .filename = file, .line = line, .start_line = 1 };
	uint64_t location = profile_builder__location(b, &f);

	assert_true(location > 0);
	return location;
}

static struct made begin(void)
{
	struct made m = { .b = profile_builder__new_values(1, SECONDS * 1000000000ull, torch_value_types, TORCH_VALUES,
							   TORCH_IN_USE) };
	uint64_t c10 = profile_builder__mapping(
		m.b, &(struct profile_mapping){ .filename = "/torch/lib/libc10_cuda.so", .build_id = "" });
	const struct profile_frame native = { .name = "c10::cuda::malloc", .mapping_id = c10 };

	m.leak[0] = m.step[0] = profile_builder__location(m.b, &native);
	m.leak[1] = frame(m.b, "cache_result", "/home/u/train.py", 12);
	m.step[1] = frame(m.b, "forward", "/home/u/train.py", 40);
	m.none = frame(m.b, TORCH_NO_STACK, NULL, 0);
	return m;
}

static void add(const struct made *m, const uint64_t *stack, size_t n, int64_t span, const uint64_t *values)
{
	const struct profile_labels labels = {
		.pid = 7, .device = "CUDA 0", .time_ns = span < 0 ? 0 : (int64_t)((uint64_t)span * SPAN_NS) ?: 1
	};

	assert_int_equal(profile_builder__sample_values(m->b, stack, n, values, &labels), 0);
}

static void in_use(const struct made *m, const uint64_t *stack, int64_t span, uint64_t blocks, uint64_t bytes)
{
	add(m, stack, 2, span, (uint64_t[TORCH_VALUES]){ [TORCH_IN_USE_OBJECTS] = blocks, [TORCH_IN_USE] = bytes });
}

static void site(const struct made *m, const uint64_t *stack, size_t n, uint64_t blocks, uint64_t bytes, uint64_t peak,
		 uint64_t refused)
{
	add(m, stack, n, -1,
	    (uint64_t[TORCH_VALUES]){ [TORCH_ALLOCATED_OBJECTS] = blocks,
				      [TORCH_ALLOCATED] = bytes,
				      [TORCH_PEAK] = peak,
				      [TORCH_REFUSED] = refused,
				      [TORCH_IN_USE_THEN] = peak / 2 });
}

/* Grows by so many MB a second; each step takes 5 GB and gives them back, and every fifth reading is between steps. */
static char *series(double mb_per_s)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (unsigned i = 0; i <= 4 * SECONDS; i++)
		fprintf(out, "%s%u:%.0f:8000000:0:0", i ? "," : "", 250 * i,
			(50 + mb_per_s * i / 4 + (i % 3 ? 5000 : 0)) * 1e6 / 1024);
	fclose(out);
	return text;
}

static const char one_device[] =
	"[{\"pid\":7,\"device\":\"CUDA 0\",\"gone\":false,\"allocated_bytes\":100000000,\"reserved_bytes\":400000000,"
	"\"peak_allocated_bytes\":300000000,\"peak_reserved_bytes\":500000000,\"seen_bytes\":90000000,"
	"\"without_stack_bytes\":5000000,\"allocations\":10,\"frees\":5,\"unseen_frees\":1,\"left_out\":0,"
	"\"replaced\":0,\"refused\":2,\"refused_bytes\":900000000,\"refused_allocated_bytes\":200000000,"
	"\"refused_reserved_bytes\":450000000}]";

static int end(struct made *m, const char *devices, const char *readings, const char *linked, struct gpu_report *report,
	       struct so_error *err)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length;

	profile_builder__comment(m->b, "pid", "7");
	profile_builder__comment(m->b, "gpu.devices", devices);
	profile_builder__comment(m->b, "gpu.series", readings);
	profile_builder__comment(m->b, "gpu.linked", linked);
	profile_builder__comment(m->b, "gpu.skipped", "30");
	profile_builder__comment(m->b, "gpu.stacks", "10");
	assert_int_equal(profile_builder__finish(m->b, &bytes, &length), 0);
	profile_builder__free(m->b);
	*report = (struct gpu_report){ .pid = 0 };
	return gpu_report__read(bytes, length, report, err);
}

static char *printed(const struct gpu_report *report)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	gpu_report__print(report, 10, out);
	fclose(out);
	return text;
}

static void lows(void **state)
{
	_cleanup_free_ char *text = NULL, *few = NULL, *none = NULL, *bad = NULL;

	assert_int_equal(gpu_report__lows("0:5:9:0:0,250:3:9:0:0", &few), 0);
	assert_string_equal(few, "0:5:9:0:0,250:3:9:0:0");
	assert_int_equal(gpu_report__lows("", &none), 0);
	assert_string_equal(none, "");
	assert_int_equal(gpu_report__lows("0:5:9:0", &bad), -EINVAL);
	assert_int_equal(gpu_report__lows("0:5:9:0:0;", &bad), -EINVAL);
	assert_int_equal(gpu_report__lows("x", &bad), -EINVAL);
	assert_null(bad);
	{
		_cleanup_free_ char *many = series(0);
		const char *at;
		unsigned n = 1;

		assert_int_equal(gpu_report__lows(many, &text), 0);
		for (at = text; (at = strchr(at, ',')); at++)
			n++;
		assert_int_equal(n, 20);
		/* 5 GB more is not the least of any. */
		assert_null(strstr(text, ":49"));
	}
}

static void a_leak_below_steps_is_named(void **state)
{
	_cleanup_free_ char *readings = series(1), *text = NULL;
	struct gpu_report report;
	struct made m = begin();
	struct so_error err;
	const struct memory_line *line;
	json_t *json;

	for (int64_t span = 0; span < 20; span++)
		in_use(&m, m.leak, span, 10, MB);
	in_use(&m, m.step, 19, 3, 70 * MB);
	site(&m, m.leak, 2, 200, 20 * MB, 20 * MB, 0);
	site(&m, m.step, 2, 4000, 90000 * MB, 5000 * MB, 1800 * MB);
	site(&m, &m.none, 1, 30, 8 * MB, 5 * MB, 0);
	assert_int_equal(end(&m, one_device, readings, "1", &report, &err), 0);
	assert_int_equal(report.growth.own.verdict, GROWTH_STEADY);
	assert_true(fabs(report.growth.own.rate - 1e6) < 0.1e6);
	line = gpu_report__culprit(&report);
	assert_non_null(line);
	assert_string_equal(line->text, "cache_result (train.py:12)");
	assert_true(fabs(line->rate - 1e6) < 1);
	/* What has most in use comes first. */
	assert_int_equal(report.n_by_use, 3);
	assert_string_equal(report.by_use[0].line.text, "forward (train.py:40)");
	assert_true(report.by_use[0].peak == 5e9 && report.by_use[0].allocations == 4000);
	assert_true(report.by_use[0].refused == 1.8e9);
	assert_string_equal(report.by_use[2].line.text, TORCH_NO_STACK);
	text = printed(&report);
	assert_non_null(strstr(text, "100.0 MB allocated, 300.0 cached; 10.0 allocated before\n"));
	assert_non_null(strstr(text, "OUT OF MEMORY 2 times on CUDA 0: the last for 900.0 MB, with 200.0 allocated and "
				     "250.0 cached\n"));
	assert_non_null(strstr(text, "asked for by forward (train.py:40)\n"));
	/* Those that had most, in order. */
	assert_non_null(strstr(text, "    2500.0 MB were in use then by forward (train.py:40)\n"
				     "      10.0 MB were in use then by cache_result (train.py:12)\n"
				     "       2.5 MB were in use then by [no-stack-taken]\n"));
	assert_null(strstr(strstr(text, "[no-stack-taken]\n"), "in use then by"));
	assert_non_null(strstr(text, "stacks were taken of 25.0 % of the allocations, by the budget: 5.0 MB in use"));
	json = gpu_report__json(&report);
	assert_string_equal(json_string_value(json_object_get(json, "verdict")), "growing");
	assert_int_equal(json_array_size(json_object_get(json, "lines")), 3);
	assert_int_equal(json_array_size(json_object_get(json, "devices")), 1);
	json_decref(json);
	gpu_report__clear(&report);
}

static void no_stack_is_no_line(void **state)
{
	_cleanup_free_ char *readings = series(1);
	struct gpu_report report;
	struct made m = begin();
	struct so_error err;

	for (int64_t span = 0; span < 20; span++)
		add(&m, &m.none, 1, span, (uint64_t[TORCH_VALUES]){ [TORCH_IN_USE_OBJECTS] = 10, [TORCH_IN_USE] = MB });
	assert_int_equal(end(&m, one_device, readings, "1", &report, &err), 0);
	assert_int_equal(report.growth.own.verdict, GROWTH_STEADY);
	assert_true(memory_line__keeps(&report.lines->lines[0]));
	assert_null(gpu_report__culprit(&report));
	gpu_report__clear(&report);
}

static void what_was_only_refused_has_its_line(void **state)
{
	_cleanup_free_ char *readings = series(0);
	struct gpu_report report;
	struct made m = begin();
	struct so_error err;

	site(&m, m.leak, 2, 1, MB, MB, 0);
	site(&m, m.step, 2, 0, 0, 0, 900 * MB);
	assert_int_equal(end(&m, one_device, readings, "1", &report, &err), 0);
	assert_int_equal(report.growth.own.verdict, GROWTH_NONE);
	assert_null(gpu_report__culprit(&report));
	assert_int_equal(report.n_by_use, 2);
	assert_string_equal(report.by_use[1].line.text, "forward (train.py:40)");
	assert_true(report.by_use[1].refused == 9e8 && report.by_use[1].line.in_use == 0);
	gpu_report__clear(&report);
}

static void where_there_is_no_pytorch(void **state)
{
	struct gpu_report report;
	struct made m = begin();
	struct so_error err = { .text = "" };

	assert_int_equal(end(&m, "[]", "", "0", &report, &err), -ENOTSUP);
	assert_string_equal(err.text, "process 7: PyTorch is not loaded (no libc10.so is mapped)");
	gpu_report__clear(&report);
	m = begin();
	profile_builder__comment(m.b, "gpu.problem", "libc10.so is of a PyTorch before 1.9");
	assert_int_equal(end(&m, "[]", "", "0", &report, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "before 1.9"));
	gpu_report__clear(&report);
}

static void nothing_yet(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct gpu_report report;
	struct made m = begin();
	struct so_error err;

	assert_int_equal(end(&m, "[]", "", "1", &report, &err), 0);
	text = printed(&report);
	assert_non_null(
		strstr(text, "neither gave out nor took back a block of a GPU's memory, so what it has is not known"));
	gpu_report__clear(&report);
}

static void other_profiles_are_refused(void **state)
{
	_cleanup_(profile_builder) struct profile_builder *cpu = profile_builder__new(1, 2, 3);
	struct gpu_report report = { .pid = 0 };
	_cleanup_free_ uint8_t *bytes = NULL, *heap = NULL;
	struct made m = begin();
	struct so_error err;
	size_t length;

	assert_int_equal(profile_builder__finish(cpu, &bytes, &length), 0);
	assert_int_equal(gpu_report__read(bytes, length, &report, &err), -ENODATA);
	gpu_report__clear(&report);
	report = (struct gpu_report){ .pid = 0 };
	assert_int_equal(profile_builder__finish(m.b, &heap, &length), 0);
	assert_int_equal(gpu_report__read(heap, length, &report, &err), -EINVAL);
	assert_non_null(strstr(err.text, "names no devices"));
	gpu_report__clear(&report);
	profile_builder__free(m.b);
	m = begin();
	assert_int_equal(end(&m, "{}", "", "1", &report, &err), -EINVAL);
	gpu_report__clear(&report);
	m = begin();
	assert_int_equal(end(&m, "[]", "nonsense", "1", &report, &err), -EINVAL);
	gpu_report__clear(&report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lows),
		cmocka_unit_test(a_leak_below_steps_is_named),
		cmocka_unit_test(no_stack_is_no_line),
		cmocka_unit_test(what_was_only_refused_has_its_line),
		cmocka_unit_test(where_there_is_no_pytorch),
		cmocka_unit_test(nothing_yet),
		cmocka_unit_test(other_profiles_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
