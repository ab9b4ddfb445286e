// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of the CUDA document, written and read. What is refused: test_cuda_report.c, test_cuda_merge.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stakeout/cuda_document.h"

union any_row {
#define X(KIND, kind, list) struct so_cuda_##kind##_row kind;
	SO_CUDA_ROWS(X)
#undef X
};

static const so_cuda_dim3 three = { 7, 0, UINT32_MAX };

/* Some value for each member; texts and JSON are `text` and `list`. */
static void fill(enum so_cuda_row_kind kind, union any_row *row, const char *text, json_t *list)
{
	memset(row, 0, sizeof(*row));
	for (const struct so_cuda_member *m = so_cuda_rows__of(kind)->members; m->word; m++) {
		char *at = (char *)row + m->offset;

		switch (m->type) {
		case SO_CUDA_TYPE_TEXT:
		case SO_CUDA_TYPE_NAME:
		case SO_CUDA_TYPE_API:
			*(const char **)at = text;
			break;
		case SO_CUDA_TYPE_FLAG:
			*(bool *)at = true;
			break;
		case SO_CUDA_TYPE_CODE:
			*(uint32_t *)at = UINT32_MAX;
			break;
		case SO_CUDA_TYPE_DIM3:
			memcpy(at, three, sizeof(three));
			break;
		case SO_CUDA_TYPE_NUMBER:
		case SO_CUDA_TYPE_SECONDS:
		case SO_CUDA_TYPE_KNOWN:
		case SO_CUDA_TYPE_PERCENT:
		case SO_CUDA_TYPE_STORED_SECONDS:
			*(double *)at = 2.5;
			break;
		case SO_CUDA_TYPE_STACK:
		case SO_CUDA_TYPE_HISTOGRAM:
		case SO_CUDA_TYPE_ROWS:
		case SO_CUDA_TYPE_OBJECT:
			*(json_t **)at = m->type == SO_CUDA_TYPE_OBJECT ? json_object() : json_incref(list);
			break;
		default: /* integers of 64 bits */
			*(uint64_t *)at = 9;
			break;
		}
	}
}

static void what_is_written_is_read(void **state)
{
	_cleanup_(json) json_t *list = json_array();

	for (unsigned kind = 0; kind < SO_CUDA_ROW_KINDS; kind++) {
		const struct so_cuda_rows *rows = so_cuda_rows__of(kind);
		struct json_fields fields = { .what = "a row", .whole = true };
		_cleanup_(json) json_t *json = NULL, *again = NULL;
		union any_row row, read;

		fill(kind, &row, "name", list);
		json = so_cuda_row__write(kind, &row, true);
		assert_non_null(json);
		for (const struct so_cuda_member *m = rows->members; m->word; m++)
			assert_non_null(json_object_get(json, m->word));
		assert_true(so_cuda_row__read(&fields, kind, json, &read));
		for (const struct so_cuda_member *m = rows->members; m->word; m++)
			if (m->type >= SO_CUDA_TYPE_STACK && m->type <= SO_CUDA_TYPE_OBJECT)
				json_incref(*(json_t **)((char *)&read + m->offset));
		again = so_cuda_row__write(kind, &read, true);
		assert_true(json_equal(json, again));
	}
}

static void what_is_absent_is_not_known(void **state)
{
	_cleanup_(json) json_t *nothing = json_object();
	struct json_fields fields = { .what = "a row" };
	struct so_cuda_allocation_row site;
	struct so_cuda_device_row device;
	struct so_cuda_line_row line;

	assert_true(so_cuda_row__read(&fields, SO_CUDA_ROW_ALLOCATION, nothing, &site));
	assert_true(so_cuda_row__read(&fields, SO_CUDA_ROW_DEVICE, nothing, &device));
	assert_true(so_cuda_row__read(&fields, SO_CUDA_ROW_LINE, nothing, &line));
	assert_null(site.line);
	assert_null(site.stack_json);
	assert_true(!site.host && !site.current_bytes);
	assert_string_equal(device.name, "");
	assert_true(isnan(device.utilisation_percent) && isnan(device.memory_used_bytes) && isnan(device.seconds));
	assert_string_equal(line.api, "");
	assert_false(so_cuda_row__read(&fields, SO_CUDA_ROW_CALL, nothing, &(struct so_cuda_call_row){ 0 }));
}

static void some_members_are_only_stored(void **state)
{
	struct so_cuda_line_row line = { .line = "a", .event_word = "sync", .api = "cuCtxSynchronize" };
	_cleanup_(json) json_t *plain = NULL, *stored = NULL;

	line.stack_json = json_array();
	plain = so_cuda_row__write(SO_CUDA_ROW_LINE, &line, false);
	line.stack_json = json_array();
	stored = so_cuda_row__write(SO_CUDA_ROW_LINE, &line, true);
	assert_null(json_object_get(plain, "stacks_ns"));
	assert_non_null(json_object_get(stored, "stacks_ns"));
	assert_int_equal(json_object_size(stored), json_object_size(plain) + 2);
}

static void a_part_that_is_missing_ends_it(void **state)
{
	struct so_cuda_library_row library = { .path = "/lib/libcudart.so", .kind = "runtime" };

	assert_null(so_cuda_row__write(SO_CUDA_ROW_LIBRARY, &library, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(what_is_absent_is_not_known),
		cmocka_unit_test(some_members_are_only_stored),
		cmocka_unit_test(a_part_that_is_missing_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
