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

#include "daemon/symbols/kallsyms.c"

static void write_file(char path[], const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* modules: the text of /proc/modules. */
static int load_with(const char *text, const char *modules, struct kallsyms **out, struct so_error *err)
{
	char path[] = "/tmp/stakeout-kallsymsXXXXXX", list_path[] = "/tmp/stakeout-modulesXXXXXX";
	_cleanup_(kernel_modules) struct kernel_modules list = { 0 };
	int r;

	write_file(path, text);
	write_file(list_path, modules);
	assert_int_equal(kernel_modules__read(list_path, &list), 0);
	r = kallsyms__load(path, &list, out, err);
	unlink(path);
	unlink(list_path);
	return r;
}

static int load(const char *text, struct kallsyms **out, struct so_error *err)
{
	return load_with(text, "", out, err);
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
	assert_int_equal(ks->n_symbols, 6);
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
	const struct kernel_modules none = { 0 };
	struct kallsyms *ks = NULL;
	struct so_error err = { "" };

	assert_int_equal(load("0000000000000000 T a\n0000000000000000 t b\t[m]\n", &ks, &err), -EPERM);
	assert_non_null(strstr(err.text, "CAP_SYSLOG"));
	assert_int_equal(load("this is\nanother file\n", &ks, &err), -EINVAL);
	assert_int_equal(kallsyms__load("/nonexistent/kallsyms", &none, &ks, &err), -ENOENT);
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
	assert_int_equal(ks->n_symbols, 40000);
	for (unsigned i = 0; i < 40000; i += 17) {
		char wanted[48];

		snprintf(wanted, sizeof(wanted), "function_number_%u", i);
		assert_string_equal(kallsyms__lookup(ks, UINT64_C(0xffffffff81000005) +
								 16 * (uint64_t)((i * 7919u) % 40000)),
				    wanted);
	}
	assert_true(sizeof(*ks) + ks->room * sizeof(*ks->entries) + ks->names_room < 40000 * 48);
}

static const char bounded[] = "ffffffff81000000 T _stext\n"
			      "ffffffff81000100 T core\n"
			      "ffffffff81000800 T _etext\n"
			      "ffffffff82000000 T behind\n"
			      "ffffffff83000000 T _sinittext\n"
			      "ffffffff83000010 t start_it\n"
			      "ffffffff83009000 T _einittext\n"
			      "ffffffffc0100000 t early\t[nvme]\n"
			      "ffffffffc0100100 t late\t[nvme]\n"
			      "ffffffffc0103000 t one\t[nvidia]\n"
			      "ffffffffc0108000 t at_start\t[nvme]\n"
			      "ffffffffc0200000 t unlisted\t[nvidia_uvm]\n"
			      "ffffffffc0300000 t bpf_prog_6deef7357e7b4530_prog\t[bpf]\n"
			      "ffffffffc0500000 t ftrace_trampoline\t[__builtin__ftrace]\n";

/* nvme's size is that of all its parts, as of 6.4: more than there is before the next module's text. */
static const char bounded_modules[] = "nvme 16384 4 nvme_core, Live 0xffffffffc0100000\n"
				      "nvidia 8192 2 nvidia_uvm,nvidia_modeset, Live 0xffffffffc0103000 (PO)\n"
				      "damaged line\n";

static void test_ends(void **state)
{
	static const struct {
		uint64_t address;
		const char *name; /* NULL: none */
	} wanted[] = {
		{ 0xffffffff810007ff, "core" },
		{ 0xffffffff81000800, NULL },
		{ 0xffffffff82000fff, "behind" },
		{ 0xffffffff82001000, NULL },
		{ 0xffffffff83008fff, "start_it" },
		{ 0xffffffff83009000, NULL },
		{ 0xffffffffc0100000 - 1, NULL },
		{ 0xffffffffc0102fff, "late [nvme]" },
		{ 0xffffffffc0103000, "one [nvidia]" },
		{ 0xffffffffc0104fff, "one [nvidia]" },
		{ 0xffffffffc0105000, NULL },
		{ 0xffffffffc0108fff, "at_start [nvme]" },
		{ 0xffffffffc0109000, NULL },
		{ 0xffffffffc02fffff, "unlisted [nvidia_uvm]" },
		{ 0xffffffffc03fffff, "bpf_prog_6deef7357e7b4530_prog [bpf]" },
		{ 0xffffffffc0400000, NULL },
		{ 0xffffffffc0500fff, "ftrace_trampoline [__builtin__ftrace]" },
		{ 0xffffffffc0501000, NULL },
		{ UINT64_MAX, NULL },
	};
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;

	assert_int_equal(load_with(bounded, bounded_modules, &ks, NULL), 0);
	assert_int_equal(ks->n_symbols, 12);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const char *name = kallsyms__lookup(ks, wanted[i].address);

		if (wanted[i].name ? !name || strcmp(name, wanted[i].name) : !!name)
			fail_msg("%" PRIx64 " is in %s, not in %s", wanted[i].address, name ?: "nothing",
				 wanted[i].name ?: "nothing");
	}
}

/* As /proc/modules has it for those who may not see addresses: nothing is known of where modules end. */
static void test_hidden_modules(void **state)
{
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;

	assert_int_equal(load_with(bounded, "nvme 16384 4 - Live 0x0000000000000000\n", &ks, NULL), 0);
	assert_string_equal(kallsyms__lookup(ks, 0xffffffffc0107fff), "one [nvidia]");
	assert_string_equal(kallsyms__lookup(ks, 0xffffffffc01fffff), "at_start [nvme]");
}

static void test_references(void **state)
{
	struct kallsyms *ks;

	assert_null(kallsyms__ref(NULL));
	kallsyms__unref(NULL);
	assert_int_equal(load(sample, &ks, NULL), 0);
	assert_ptr_equal(kallsyms__ref(ks), ks);
	kallsyms__unref(ks);
	assert_string_equal(kallsyms__lookup(ks, 0xffffffff81000020), "do_it");
	kallsyms__unref(ks);
}

/* Each text symbol of the running kernel is found, at its own address, under one of its names. */
static void test_running_kernel(void **state)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	_cleanup_(kallsyms) struct kallsyms *ks = NULL;
	const struct kernel_modules none = { 0 };
	unsigned n = 0, same = 0;
	char line[1024];
	int r;

	r = kallsyms__load(NULL, &none, &ks, NULL);
	if (r == -EPERM || r == -ENOENT)
		skip(); /* not allowed to see addresses, or built without the table */
	assert_int_equal(r, 0);
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char type, name[512];
		const char *found;
		uint64_t address;

		if (sscanf(line, "%" SCNx64 " %c %511s", &address, &type, name) != 3 || !strchr("tT", type) ||
		    strncmp(name, "__pfx_", 6) == 0 || !strcmp(name, "_etext") || !strcmp(name, "_einittext"))
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
		cmocka_unit_test(test_sample),        cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_overlong_line), cmocka_unit_test(test_many_across_buffers),
		cmocka_unit_test(test_ends),          cmocka_unit_test(test_hidden_modules),
		cmocka_unit_test(test_references),    cmocka_unit_test(test_running_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
