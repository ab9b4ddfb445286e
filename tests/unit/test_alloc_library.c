// SPDX-License-Identifier: GPL-2.0-or-later
/* Which functions of a file allocate, by their symbols, and where they are probed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/alloc_library.h"
#include "daemon/memory/alloc_functions.h"
#include "stakeout/alloc_abi.h"

static int read_file(const char *path, bool whole, struct alloc_library *out)
{
	struct so_error err;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t bytes_left = UINT64_MAX;
	int ret;

	if (fd < 0)
		return -errno;
	ret = alloc_library__read(fd, path, whole, &bytes_left, out, &err);
	close(fd);
	return ret;
}

/* How many of them are of that shape and kind. */
static unsigned count(const struct alloc_library *library, enum so_alloc_shape shape, enum so_alloc_kind kind)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < library->n; i++)
		n += SO_ALLOC_COOKIE_SHAPE(library->cookies[i]) == shape &&
		     SO_ALLOC_COOKIE_KIND(library->cookies[i]) == kind;
	return n;
}

static void functions_are_found_by_name(void **state)
{
	assert_int_equal(alloc_functions__find("malloc")->shape, SO_ALLOC_SIZE);
	assert_int_equal(alloc_functions__find("PyMem_Calloc")->kind, SO_ALLOC_PY_MEMORY);
	assert_int_equal(alloc_functions__find("valloc")->shape, SO_ALLOC_SIZE);
	assert_int_equal(alloc_functions__find("posix_memalign")->shape, SO_ALLOC_TO_PLACE);
	assert_int_equal(alloc_functions__find("je_rallocx")->shape, SO_ALLOC_RESIZE);
	assert_int_equal(alloc_functions__find("tc_free")->kind, SO_ALLOC_TCMALLOC);
	assert_int_equal(alloc_functions__find("mi_zalloc")->kind, SO_ALLOC_MIMALLOC);
	assert_true(alloc_functions__find("_Znwm")->operator_new);
	assert_true(alloc_functions__find("_ZdlPvSt11align_val_tRKSt9nothrow_t")->operator_new);
	assert_null(alloc_functions__find("mallo"));
	assert_null(alloc_functions__find("mallocs"));
	assert_null(alloc_functions__find(""));
}

/* The one of this process. */
static void the_c_library(void **state)
{
	struct alloc_library library;
	Dl_info info;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	assert_int_equal(read_file(info.dli_fname, false, &library), 0);
	assert_int_equal(library.unprobed, 0);
	assert_int_equal(count(&library, SO_ALLOC_SIZE, SO_ALLOC_MALLOC), 2); /* malloc, valloc */
	assert_int_equal(count(&library, SO_ALLOC_ARRAY, SO_ALLOC_MALLOC), 1);
	assert_int_equal(count(&library, SO_ALLOC_RESIZE, SO_ALLOC_MALLOC), 1);
	assert_int_equal(count(&library, SO_ALLOC_FREE, SO_ALLOC_MALLOC), 1);
	assert_int_equal(count(&library, SO_ALLOC_TO_PLACE, SO_ALLOC_MALLOC), 1);
	assert_true(count(&library, SO_ALLOC_ALIGNED, SO_ALLOC_MALLOC) >= 1);
	for (uint32_t i = 0; i < library.n; i++)
		assert_true(library.cookies[i] & SO_ALLOC_BY_MALLOC);
}

/* Its operators call malloc, which counts. */
static void the_cpp_library_has_none(void **state)
{
	const char *path = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6";
	struct alloc_library library;

	if (access(path, R_OK))
		skip();
	assert_int_equal(read_file(path, false, &library), 0);
	assert_int_equal(library.n, 0);
}

static void other_allocators(void **state)
{
	static const struct {
		const char *path;
		enum so_alloc_kind kind;
	} files[] = {
		{ "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", SO_ALLOC_JEMALLOC },
		{ "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", SO_ALLOC_TCMALLOC },
		{ "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2", SO_ALLOC_MIMALLOC },
	};
	struct alloc_library library;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (access(files[i].path, R_OK))
			continue;
		assert_int_equal(read_file(files[i].path, false, &library), 0);
		assert_true(count(&library, SO_ALLOC_SIZE, files[i].kind) >= 3);
		assert_true(count(&library, SO_ALLOC_FREE, files[i].kind) >= 1);
		assert_int_equal(count(&library, SO_ALLOC_SIZE, SO_ALLOC_MALLOC), 0);
	}
}

static void a_program_with_its_own(void **state)
{
	struct alloc_library library;
	char here[3000], path[4096];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

	assert_true(n > 0);
	here[n] = '\0';
	*strrchr(here, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../../workloads/alloc_count-static", here);
	assert_int_equal(read_file(path, false, &library), 0);
	assert_int_equal(library.n, 0);
	assert_int_equal(read_file(path, true, &library), 0);
	assert_true(count(&library, SO_ALLOC_SIZE, SO_ALLOC_MALLOC) >= 1);
	assert_int_equal(count(&library, SO_ALLOC_FREE, SO_ALLOC_MALLOC), 1);
}

static void damaged_files_are_refused(void **state)
{
	char path[] = "/tmp/stakeout-alloc-XXXXXX";
	struct alloc_library library;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\177ELF\2\1\1", 7), 7);
	close(fd);
	assert_true(read_file(path, true, &library) < 0);
	unlink(path);
}

static void no_more_is_read_than_may_be(void **state)
{
	struct alloc_library library;
	uint64_t bytes_left = 1000, before = bytes_left;
	struct so_error err;
	Dl_info info;
	int fd;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(alloc_library__read(fd, info.dli_fname, false, &bytes_left, &library, &err), -EFBIG);
	assert_int_equal(bytes_left, before);
	bytes_left = before = 16 << 20;
	assert_int_equal(alloc_library__read(fd, info.dli_fname, false, &bytes_left, &library, &err), 0);
	assert_in_range(before - bytes_left, 10000, 1 << 20);
	close(fd);
}

/* 1 - e^(-S/R), to 2^-20 of it, for all sizes; the weight has whatever it is. */
static void chances_are_those_of_the_model(void **state)
{
	static const double expected[][2] = {
		/* bytes, chance: by another program's exp() */
		{ 16, 3.0517112479e-05 },
		{ 4096, 7.7820617397e-03 },
		{ 65536, 1.1750309741e-01 },
		{ 524288, 6.3212055883e-01 },
		{ 1048576, 8.6466471676e-01 },
		{ 8388608, 9.9999988746e-01 },
		{ 16777216, 1 },
		{ 1.7592186044416e13, 1 },
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		double chance = (double)so_alloc_chance((uint64_t)expected[i][0], 0) / 4294967296.0;
		double error = chance / expected[i][1] - 1;

		assert_true(error > -2e-5 && error < 2e-5);
	}
	for (uint32_t shift = 0; shift <= SO_ALLOC_MAX_SHIFT; shift++) {
		uint64_t before = 0;

		for (uint64_t bytes = 1; bytes < SO_ALLOC_MAX_BYTES; bytes += bytes / 7 + 1) {
			uint64_t chance = so_alloc_chance(bytes, shift);

			assert_true(chance && chance <= 1ull << 32);
			/* It rises, but for its last bits. */
			assert_true(chance + 64 >= before);
			before = chance;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_found_by_name), cmocka_unit_test(the_c_library),
		cmocka_unit_test(the_cpp_library_has_none),    cmocka_unit_test(other_allocators),
		cmocka_unit_test(a_program_with_its_own),      cmocka_unit_test(damaged_files_are_refused),
		cmocka_unit_test(no_more_is_read_than_may_be), cmocka_unit_test(chances_are_those_of_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
