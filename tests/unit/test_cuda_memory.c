// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said of memory by CUDA call: of answers as the daemon makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/memory/cuda_memory.h"
#include "tests/unit/cuda_answers.h"

#define WHY "process 7: PyTorch is not loaded"
#define SITES                                                                                                   \
	"'allocations':[{'pid':7,'line':'grow (pool.py:12)','stack':[],'host':false,'allocations':3,'frees':1," \
	"'bytes':7500000,'current_bytes':5000000,'peak_bytes':5500000},"                                        \
	"{'pid':7,'line':'stage (data.py:30)','stack':[],'host':true,'allocations':2,'frees':0,"                \
	"'bytes':1000000,'current_bytes':1000000,'peak_bytes':1000000}]"
#define CALLS                                                                                                        \
	"'libraries':[{'id':1,'pid':7,'path':'/l/libcudart.so','kind':'runtime','static':false,'probes':[]}],"       \
	"'calls':["                                                                                                  \
	"{'api':'cudaMalloc','kind':'alloc','library':1,'pid':7,'tid':7,'comm':'a','kernel':null,"                   \
	"'direction':'','calls':4,'errors':1,'total_ns':4,'min_ns':1,'max_ns':1,'squares_ns2':4.0,'bytes':7500000}," \
	"{'api':'cudaFree','kind':'free','library':1,'pid':7,'tid':7,'comm':'a','kernel':null,"                      \
	"'direction':'','calls':3,'errors':0,'total_ns':3,'min_ns':1,'max_ns':1,'squares_ns2':3.0,'bytes':0},"       \
	"{'api':'cudaDeviceSynchronize','kind':'device-sync','library':1,'pid':7,'tid':7,'comm':'a',"                \
	"'kernel':null,'direction':'','calls':3,'errors':0,'total_ns':3,'min_ns':1,'max_ns':1,"                      \
	"'squares_ns2':3.0,'bytes':0}]"

static void read_answer(const char *text, struct cuda_memory *out)
{
	struct so_error err = { .text = "" };
	json_t *answer = cuda_answer(text);

	if (cuda_memory__read(answer, out, &err))
		fail_msg("%s", err.text);
	json_decref(answer);
}

static char *printed(const struct cuda_memory *m, unsigned top)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	cuda_memory__print(m, WHY, top, out);
	fclose(out);
	return text;
}

static void each_call_was_seen(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct cuda_memory m;
	json_t *json;

	read_answer(CUDA_ANSWER("'estimated':false,'lost':{'sites-map-full':2}," CALLS "," SITES), &m);
	assert_true(cuda_memory__any(&m));
	text = printed(&m, 1);
	assert_string_equal(text,
			    WHY "\n"
				"by CUDA call, 10.0 s: 7.5 MB allocated, 5.0 of it in use, by line; what was there "
				"before is not known\n"
				"2 calls gave back what was allocated before, or nothing\n"
				"lost: sites-map-full 2\n"
				"     calls     failed  allocated  call\n"
				"         4          1        7.5  cudaMalloc\n"
				"         3          0             cudaFree\n"
				"    in use    peak <=  allocated  allocations given back  line\n"
				"       5.0        5.5        7.5            3          1  grow (pool.py:12)\n"
				"           and 1 more lines\n"
				"MB\n");
	json = cuda_memory__json(&m, WHY);
	assert_true(json_is_true(json_object_get(json, "exact")));
	assert_int_equal(json_integer_value(json_object_get(json, "in_use_bytes")), 5000000);
	assert_int_equal(json_array_size(json_object_get(json, "calls")), 2);
	assert_int_equal(json_array_size(json_object_get(json, "lines")), 2);
	json_decref(json);
	cuda_memory__clear(&m);
}

static void not_each_call_was_seen(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct cuda_memory m;
	json_t *json;

	read_answer(CUDA_ANSWER("'estimated':true," CALLS "," SITES), &m);
	text = printed(&m, 10);
	assert_non_null(
		strstr(text, "about 7.5 MB allocated; not each call was seen, so what is in use is not known\n"));
	assert_non_null(strstr(text, "         -          -        7.5            3          1  grow (pool.py:12)\n"));
	assert_non_null(strstr(text, "stage (data.py:30) (host memory)\n"));
	json = cuda_memory__json(&m, WHY);
	assert_true(json_is_false(json_object_get(json, "exact")));
	assert_true(json_is_null(json_object_get(json, "in_use_bytes")));
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(json, "lines"), 0), "in_use_bytes")));
	json_decref(json);
	cuda_memory__clear(&m);
}

static void nothing(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct so_error err = { .text = "" };
	json_t *answer = json_array();
	struct cuda_memory m;

	read_answer(CUDA_ANSWER("'estimated':false"), &m);
	assert_false(cuda_memory__any(&m));
	text = printed(&m, 10);
	assert_non_null(strstr(text, "no call allocated or released memory\n"));
	cuda_memory__clear(&m);
	assert_int_equal(cuda_memory__read(answer, &m, &err), -EPROTO);
	cuda_memory__clear(&m);
	json_decref(answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_was_seen),
		cmocka_unit_test(not_each_call_was_seen),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
