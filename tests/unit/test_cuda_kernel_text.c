/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of kernels, as PyTorch, nvcc's lambdas and Triton have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_kernel_text.h"
#include "stakeout/cleanup.h"

#define DIRECT_COPY                                                                              \
	"__nv_hdl_wrapper_t<false, true, false, __nv_dl_tag<void (*)(at::TensorIteratorBase&), " \
	"&at::native::direct_copy_kernel_cuda, 15u>, float (float)>"

static const struct {
	const char *name;
	unsigned columns;
	const char *text;
} table[] = {
	{ "add(float*)", 140, "add" },
	{ "add", 140, "add" },
	{ "triton_poi_fused_add_0", 4, "triton_poi_fused_add_0" },
	{ "void scale<float>(float*, float)", 140, "scale<float>" },
	{ "void at::native::(anonymous namespace)::norm<float, 4u>(int, float const*)", 140,
	  "at::native::norm<float, 4>" },
	{ "void k<std::array<char*, 3ul> >((anonymous namespace)::x<int>)", 140, "k<array<char*, 3>>" },
	{ "void at::native::elementwise<128, " DIRECT_COPY " >(int, " DIRECT_COPY " const)", 140,
	  "at::native::elementwise<128, {lambda in direct_copy_kernel_cuda}>" },
	{ "void f<" DIRECT_COPY ">(int)", 140, "f<{lambda in direct_copy_kernel_cuda}>" },
	{ "void f<__nv_hdl_wrapper_t<false, __nv_dl_tag<void (*)(), &(void a::impl<" DIRECT_COPY
	  ">(int)), 1u>, void (int)> >(int)",
	  140, "f<{lambda in direct_copy_kernel_cuda}>" },
	{ "void r<128, Op<float, wrap<float, " DIRECT_COPY " > > >(int)", 50,
	  "r<128, Op<{lambda in direct_copy_kernel_cuda}>>" },
	{ "void r<128, Op<float, int, A<char>, B<double, C<int> > > >(int)", 30, "r<128, Op<…>>" },
	{ "void r<128, Op<float, int, A<char>, B<double, C<int> > > >(int)", 40,
	  "r<128, Op<float, int, A<…>, B<…>>>" },
	{ "void r<128, Op<float, int, A<char>, B<double, C<int> > > >(int)", 0,
	  "r<128, Op<float, int, A<char>, B<double, C<int>>>>" },
	{ "void r<128, Op<float> >(int)", 6, "r<…>" },
	{ "void a::b::(anonymous namespace)::fill<a::c>(int)", 16, "a::b::fill<c>" },
	{ "void a::b::(anonymous namespace)::fill<a::c>(int)", 12, "fill<c>" },
	{ "a<b<c>", 1, "a<b<c>" },
	{ "void ", 140, "void " },
	{ "", 140, "" },
	{ "()", 140, "()" },
	{ ")", 140, ")" },
	{ "__nv_dl_tag<&", 1, "__nv_dl_tag<&" },
	{ "f<__nv_dl_tag<&a>>", 140, "f<__nv_dl_tag<&a>>" },
	{ "f<v2u, 3ul, 12u>", 140, "f<v2u, 3, 12>" },
};

static void test_table(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		bool shortened;
		_cleanup_free_ char *text = cuda_kernel_text__of(table[i].name, table[i].columns, &shortened);

		assert_non_null(text);
		assert_string_equal(text, table[i].text);
		assert_int_equal(shortened, strcmp(text, table[i].name) != 0);
	}
}

/* Whatever it is, it ends, and is not longer than before. */
static void test_anything(void **state)
{
	static const char *const pieces[] = { "<",
					      ">",
					      "(",
					      ")",
					      "&a,",
					      "::",
					      "__nv_dl_tag<",
					      "__nv_hdl_wrapper_t<",
					      " ",
					      "1u",
					      "…",
					      "b",
					      "(anonymous namespace)::",
					      "void " };
	uint32_t random = 1;

	for (int i = 0; i < 20000; i++) {
		char name[400] = "";
		bool shortened;

		for (int k = 0; k < 14; k++) {
			random = random * 1664525 + 1013904223;
			strcat(name, pieces[(random >> 16) % (sizeof(pieces) / sizeof(pieces[0]))]);
		}
		{
			_cleanup_free_ char *text = cuda_kernel_text__of(name, random >> 28, &shortened);

			assert_non_null(text);
			assert_true(strlen(text) <= strlen(name));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
