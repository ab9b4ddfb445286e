/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/kallsyms.h"

static int load(const char *text, struct kallsyms **out, struct so_error *err)
{
	char path[] = "/tmp/stakeout-kallsymsXXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	r = kallsyms__load(path, out, err);
	unlink(path);
	return r;
}

static const char sample[] = "0000000000000000 A fixed_percpu_data\n"
			     "ffffffff81000000 T _stext\n"
			     "ffffffff81000010 t __pfx_do_it\n"
			     "ffffffff81000020 t local_alias\n"
			     "ffffffff81000020 T __do_it\n"
			     "ffffffff81000020 W weak\n"
			     "ffffffff81000020 T do_it\n"
			     "ffffffff81000030 t $x\n"
			     "ffffffff81000040 D some_data\n"
			     "ffffffff81000050 t .L123\n"
			     "ffffffffc0200100 t second\t[nvme]\n"
			     "ffffffffc0200000 t first\t[nvme]\n"
			     "ffffffffc0300000 t bpf_prog_6deef7357e7b4530_prog\t[bpf]\n"
			     "damaged line\n"
			     "ffffffffc0400000 w last";

static void test_sample(void **state)
{
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;

	assert_int_equal(load(sample, &ks, NULL), 0);
	assert_int_equal(kallsyms__count(ks), 6);
	assert_null(kallsyms__lookup(ks, 0));
	assert_null(kallsyms__lookup(ks, 0xffffffff80ffffff));
	assert_string_equal(kallsyms__lookup(ks, 0xffffffff81000000), "_stext");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffff8100001f), "_stext");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffff81000020), "do_it");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffff81000060), "do_it");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffffc02000ff), "first [nvme]");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffffc0200100), "second [nvme]");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffffc0300005), "bpf_prog_6deef7357e7b4530_prog [bpf]");
	assert_string_equal(kallsyms__lookup(ks, UINT64_MAX), "last");
}

static void test_refusals(void **state)
{
	struct kallsyms *ks = NULL;
	struct so_error err = { "" };

	assert_int_equal(load("0000000000000000 T a\n0000000000000000 t b\t[m]\n", &ks, &err), -EPERM);
	assert_non_null(strstr(err.text, "CAP_SYSLOG"));
	assert_int_equal(load("this is\nanother file\n", &ks, &err), -EINVAL);
	assert_int_equal(kallsyms__load("/nonexistent/kallsyms", &ks, &err), -ENOENT);
	assert_null(ks);
}

static void test_overlong_line(void **state)
{
	_cleanup_free_ char *text = malloc(600001);
	struct kallsyms *ks = NULL;

	assert_non_null(text);
	memset(text, 'f', 600000);
	text[600000] = '\0';
	assert_int_equal(load(text, &ks, NULL), -EINVAL);
	assert_null(ks);
}

static void test_many_across_buffers(void **state)
{
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;
	_cleanup_free_ char *text = malloc(40000 * 48);
	size_t at = 0;

	assert_non_null(text);
	for (unsigned i = 0; i < 40000; i++)
		at += (size_t)sprintf(text + at, "%016" PRIx64 " t function_number_%u\n",
				      UINT64_C(0xffffffff81000000) + 16 * (uint64_t)((i * 7919u) % 40000), i);
	assert_int_equal(load(text, &ks, NULL), 0);
	assert_int_equal(kallsyms__count(ks), 40000);
	for (unsigned i = 0; i < 40000; i += 17) {
		char wanted[48];

		snprintf(wanted, sizeof(wanted), "function_number_%u", i);
		assert_string_equal(kallsyms__lookup(ks, UINT64_C(0xffffffff81000005) +
								 16 * (uint64_t)((i * 7919u) % 40000)),
				    wanted);
	}
	assert_true(kallsyms__bytes(ks) < 40000 * 48);
}

/* Each text symbol of the running kernel is found, at its own address, under one of its names. */
static void test_running_kernel(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;
	unsigned n = 0, same = 0;
	char line[1024];
	int r;

	r = kallsyms__load(NULL, &ks, NULL);
	if (r == -EPERM || r == -ENOENT)
		skip(); /* not allowed to see addresses, or built without the table */
	assert_int_equal(r, 0);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char type, name[512];
		const char *found;
		uint64_t address;

		if (sscanf(line, "%" SCNx64 " %c %511s", &address, &type, name) != 3 || !strchr("tT", type) ||
		    strncmp(name, "__pfx_", 6) == 0)
			continue;
		found = kallsyms__lookup(ks, address);
		assert_non_null(found);
		n++;
		same += strncmp(found, name, strlen(name)) == 0;
	}
	assert_true(n > 1000);
	/* The others are aliases. */
	assert_true(same > n * 9 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),         cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_overlong_line),  cmocka_unit_test(test_many_across_buffers),
		cmocka_unit_test(test_running_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
