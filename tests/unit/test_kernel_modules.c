/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/kernel_modules.h"

static struct kernel_modules list(const char *text)
{
	char path[] = "/tmp/stakeout-modulesXXXXXX";
	struct kernel_modules modules = { 0 };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(kernel_modules__read(path, &modules), 0);
	unlink(path);
	return modules;
}

static uint64_t hash_of(const char *text)
{
	_cleanup_(kernel_modules) struct kernel_modules modules = list(text);

	return modules.hash;
}

static void test_list(void **state)
{
	_cleanup_(kernel_modules) struct kernel_modules modules =
		list("nvme 57344 3 nvme_core,nvme_auth, Live 0xffffffffc0200000\n"
		     "\n"
		     "short 12\n"
		     "nvidia 56823808 2 - Loading 0xffffffffc1000000 (POE)\n"
		     "hidden 4096 - - Live 0x0000000000000000");
	const struct kernel_module *m;

	assert_int_equal(modules.n, 3);
	m = kernel_modules__find(&modules, "nvidia]", 6);
	assert_non_null(m);
	assert_int_equal(m->address, 0xffffffffc1000000);
	assert_int_equal(m->bytes, 56823808);
	assert_null(kernel_modules__find(&modules, "nvidi", 5));
	assert_null(kernel_modules__find(&modules, "nvidia_uvm", 10));
	assert_int_equal(kernel_modules__find(&modules, "hidden", 6)->address, 0);
}

static void test_hash(void **state)
{
	uint64_t before = hash_of("a 4096 0 - Live 0xffffffffc0200000\n");

	assert_int_not_equal(before, 0);
	assert_int_equal(hash_of("a 4096 7 b,c, Live 0xffffffffc0200000 (O)\n"), before);
	assert_int_not_equal(hash_of("a 8192 0 - Live 0xffffffffc0200000\n"), before);
	assert_int_not_equal(hash_of("a 4096 0 - Live 0xffffffffc0300000\n"), before);
	assert_int_not_equal(hash_of("b 4096 0 - Live 0xffffffffc0200000\n"), before);
	assert_int_not_equal(hash_of(""), before);
	assert_int_not_equal(hash_of(""), 0);
}

static void test_no_list(void **state)
{
	struct kernel_modules modules = { .hash = 7 };

	assert_int_equal(kernel_modules__read("/nonexistent/modules", &modules), -ENOENT);
	assert_int_equal(modules.hash, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
