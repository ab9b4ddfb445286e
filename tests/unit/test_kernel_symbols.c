/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/kernel_symbols.h"
#include "daemon/symbols/module_places.h"

#define SECOND 1000000000ull
#define NVIDIA 0xffffffffc0200000
#define BPF    0xffffffffc0300000

#define CORE             "ffffffff81000000 T _stext\nffffffff81000800 T _etext\n"
#define NVME_SYMBOLS     "ffffffffc0100000 t nvme_queue\t[nvme]\n"
#define NVME_MODULE(use) "nvme 4096 " use " Live 0xffffffffc0100000\n"
#define NVIDIA_SYMBOLS   "ffffffffc0200000 t rm_ioctl\t[nvidia]\n"
#define NVIDIA_MODULE    "nvidia 8192 0 - Live 0xffffffffc0200000 (POE)\n"

struct world {
	char kallsyms[40], modules[40]; /* paths */
	struct kernel_symbols *symbols;
	struct kallsyms *table;
};

static void write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void set_kernel(struct world *w, const char *kallsyms, const char *modules)
{
	write_text(w->kallsyms, kallsyms);
	write_text(w->modules, modules);
}

static int set_up(void **state)
{
	static struct world w;

	w = (struct world){ "/tmp/stakeout-kallsyms-XXXXXX", "/tmp/stakeout-modules-XXXXXX", NULL, NULL };
	close(mkstemp(w.kallsyms));
	close(mkstemp(w.modules));
	set_kernel(&w, CORE NVME_SYMBOLS, NVME_MODULE("2 -"));
	assert_int_equal(kernel_symbols__new(w.kallsyms, w.modules, &w.symbols), 0);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	kallsyms__unref(w->table);
	kernel_symbols__free(w->symbols);
	unlink(w->kallsyms);
	unlink(w->modules);
	return 0;
}

/* As a profile that is built at that time, of samples since another. */
static const char *name_since(struct world *w, uint64_t address, uint64_t since_ns, uint64_t now_ns)
{
	kallsyms__unref(w->table);
	w->table = kernel_symbols__get(w->symbols, now_ns);
	return kernel_symbols__lookup(w->symbols, &w->table, address, since_ns, now_ns);
}

static const char *name_at(struct world *w, uint64_t address, uint64_t now_ns)
{
	return name_since(w, address, now_ns, now_ns);
}

static void test_module_comes(void **state)
{
	struct world *w = *state;

	assert_string_equal(name_at(w, NVIDIA - 0x100000, 100 * SECOND), "nvme_queue [nvme]");
	assert_null(name_at(w, NVIDIA + 0x1010, 100 * SECOND));
	set_kernel(w, CORE NVME_SYMBOLS NVIDIA_SYMBOLS, NVME_MODULE("2 -") NVIDIA_MODULE);
	assert_null(name_at(w, NVIDIA + 0x1010, 110 * SECOND - 1));
	assert_string_equal(name_at(w, NVIDIA + 0x1010, 110 * SECOND), "rm_ioctl [nvidia]");
	assert_null(name_at(w, NVIDIA + 0x2000, 110 * SECOND));
}

static void test_module_goes(void **state)
{
	struct world *w = *state;
	_cleanup_(kallsyms) struct kallsyms *before = kernel_symbols__get(w->symbols, 100 * SECOND);

	set_kernel(w, CORE, "");
	assert_null(name_at(w, NVIDIA - 0x100000, 110 * SECOND));
	/* Whoever began with the old table has it to the end. */
	assert_string_equal(kallsyms__lookup(before, NVIDIA - 0x100000), "nvme_queue [nvme]");
}

#define BRD         0xffffffffc0200000 /* the same */
#define BRD_SYMBOLS "ffffffffc0200000 t brd_init\t[brd]\nffffffffc0200800 t brd_submit_bio\t[brd]\n"
#define BRD_MODULE  "brd 4096 0 - Live 0xffffffffc0200000\n"

static void test_module_in_anothers_place(void **state)
{
	struct world *w = *state;

	set_kernel(w, CORE NVIDIA_SYMBOLS, NVIDIA_MODULE);
	assert_string_equal(name_since(w, NVIDIA + 0x900, 50 * SECOND, 100 * SECOND), "rm_ioctl [nvidia]");
	set_kernel(w, CORE BRD_SYMBOLS, BRD_MODULE);
	/* By the table of before it would be the other's. */
	assert_null(name_since(w, BRD + 0x900, 50 * SECOND, 105 * SECOND));
	assert_null(name_since(w, BRD + 0x900, 105 * SECOND, 105 * SECOND));
	/* By the new one, but of which of the two the samples are is not known. */
	assert_null(name_since(w, BRD + 0x900, 50 * SECOND, 110 * SECOND));
	assert_null(name_since(w, BRD + 0x900, 104 * SECOND, 110 * SECOND));
	assert_string_equal(name_since(w, BRD + 0x900, 105 * SECOND, 110 * SECOND), "brd_submit_bio [brd]");
	/* The kernel's own and other modules' are what they were. */
	assert_string_equal(name_since(w, 0xffffffff81000010, 50 * SECOND, 110 * SECOND), "_stext");
}

/* Seen without a profile. */
static void test_looks(void **state)
{
	struct world *w = *state;

	set_kernel(w, CORE NVIDIA_SYMBOLS, NVIDIA_MODULE);
	kernel_symbols__look(w->symbols, 100 * SECOND);
	set_kernel(w, CORE BRD_SYMBOLS, BRD_MODULE);
	/* Not twice within a second. */
	kernel_symbols__look(w->symbols, 101 * SECOND - 1);
	kernel_symbols__look(w->symbols, 102 * SECOND);
	assert_null(name_since(w, BRD, 101 * SECOND, 200 * SECOND));
	assert_string_equal(name_since(w, BRD, 102 * SECOND, 200 * SECOND), "brd_init [brd]");
}

/* A module that is unloaded and loaded again may come to lie where it was, or elsewhere. */
static void test_module_comes_back(void **state)
{
	struct world *w = *state;

	assert_string_equal(name_since(w, NVIDIA - 0x100000, 50 * SECOND, 100 * SECOND), "nvme_queue [nvme]");
	set_kernel(w, CORE, "");
	assert_null(name_since(w, NVIDIA - 0x100000, 50 * SECOND, 101 * SECOND));
	set_kernel(w, CORE NVME_SYMBOLS, NVME_MODULE("2 -"));
	assert_string_equal(name_since(w, NVIDIA - 0x100000, 50 * SECOND, 111 * SECOND), "nvme_queue [nvme]");
	set_kernel(w, CORE "ffffffffc0101000 t nvme_queue\t[nvme]\n",
		   "nvme 4096 0 - Live 0xffffffffc0101000\n");
	assert_string_equal(name_since(w, NVIDIA - 0xff000, 50 * SECOND, 130 * SECOND), "nvme_queue [nvme]");
	set_kernel(w, CORE "ffffffffc0100800 t nvme_queue\t[nvme]\n",
		   "nvme 4096 0 - Live 0xffffffffc0100800\n");
	assert_null(name_since(w, NVIDIA - 0xff800, 50 * SECOND, 150 * SECOND));
	assert_string_equal(name_since(w, NVIDIA - 0xff800, 150 * SECOND, 150 * SECOND), "nvme_queue [nvme]");
}

static void test_module_that_is_being_loaded(void **state)
{
	struct world *w = *state;

	set_kernel(w, CORE BRD_SYMBOLS, "brd 16384 1 - Loading 0xffffffffc0200000\n");
	assert_string_equal(name_since(w, BRD + 0x900, 50 * SECOND, 100 * SECOND), "brd_submit_bio [brd]");
	set_kernel(w, CORE BRD_SYMBOLS, BRD_MODULE);
	assert_string_equal(name_since(w, BRD + 0x900, 50 * SECOND, 101 * SECOND), "brd_submit_bio [brd]");
	assert_string_equal(name_since(w, BRD + 0x900, 50 * SECOND, 120 * SECOND), "brd_submit_bio [brd]");
}

/* From Linux 6.4 on, a module's size may reach into its neighbour, which has been there all the time. */
static void test_neighbour_of_a_module_that_goes(void **state)
{
	struct world *w = *state;

	set_kernel(w, CORE NVME_SYMBOLS NVIDIA_SYMBOLS,
		   "nvme 1114112 0 - Live 0xffffffffc0100000\n" NVIDIA_MODULE);
	assert_string_equal(name_since(w, NVIDIA, 50 * SECOND, 100 * SECOND), "rm_ioctl [nvidia]");
	set_kernel(w, CORE NVIDIA_SYMBOLS, NVIDIA_MODULE);
	assert_string_equal(name_since(w, NVIDIA, 50 * SECOND, 105 * SECOND), "rm_ioctl [nvidia]");
	assert_string_equal(name_since(w, NVIDIA, 50 * SECOND, 120 * SECOND), "rm_ioctl [nvidia]");
}

/* What is remembered of modules that have gone is bounded; the longest gone is forgotten. */
static void test_many_modules_go(void **state)
{
	struct world *w = *state;
	char text[100];

	for (unsigned i = 0; i <= MODULE_PLACES_MAX_GONE + 1; i++) {
		snprintf(text, sizeof(text), "m%u 4096 0 - Live 0x%x\n", i, 0xc0000000 + i * 0x1000);
		write_text(w->modules, text);
		kernel_symbols__look(w->symbols, (10 + i) * SECOND);
	}
	set_kernel(w, CORE "00000000c0000000 t first\t[x]\n00000000c0001000 t next\t[x]\n",
		   "x 8192 0 - Live 0xc0000000\n");
	assert_string_equal(name_since(w, 0xc0000010, SECOND, 2000 * SECOND), "first [x]");
	assert_string_equal(name_since(w, 0xc0001010, SECOND, 2000 * SECOND), "next [x]");
	set_kernel(w, CORE "00000000c0003000 t third\t[y]\n", "y 4096 0 - Live 0xc0003000\n");
	assert_null(name_since(w, 0xc0003010, SECOND, 2020 * SECOND));
}

/* Users of a module come and go; the symbols' file, which is another by now, is not read for that. */
static void test_same_modules(void **state)
{
	struct world *w = *state;

	assert_string_equal(name_at(w, NVIDIA - 0x100000, 100 * SECOND), "nvme_queue [nvme]");
	set_kernel(w, CORE, NVME_MODULE("3 nvidia_fs,"));
	assert_string_equal(name_at(w, NVIDIA - 0x100000, 9000 * SECOND), "nvme_queue [nvme]");
}

static void test_programs(void **state)
{
	struct world *w = *state;

	set_kernel(w, CORE "ffffffffc0300000 t bpf_prog_1_old\t[bpf]\n", "");
	assert_string_equal(name_at(w, BPF + 0x1000, 100 * SECOND), "bpf_prog_1_old [bpf]");
	set_kernel(w, CORE "ffffffffc0301000 t bpf_prog_2_new\t[bpf]\n", "");
	assert_string_equal(name_at(w, BPF + 0x1000, 160 * SECOND - 1), "bpf_prog_1_old [bpf]");
	assert_string_equal(name_at(w, BPF + 0x1000, 160 * SECOND), "bpf_prog_2_new [bpf]");
	assert_null(name_at(w, BPF, 160 * SECOND));
}

/* What is nowhere is looked for once a minute, not at each frame. */
static void test_unknown_address(void **state)
{
	struct world *w = *state;

	assert_null(name_at(w, BPF, 100 * SECOND));
	write_text(w->kallsyms, CORE "ffffffffc0300000 t ftrace_trampoline\t[__builtin__ftrace]\n");
	assert_null(name_at(w, BPF, 159 * SECOND));
	assert_string_equal(name_at(w, BPF, 161 * SECOND), "ftrace_trampoline [__builtin__ftrace]");
	write_text(w->kallsyms, CORE);
	assert_string_equal(name_at(w, BPF, 220 * SECOND), "ftrace_trampoline [__builtin__ftrace]");
	assert_null(name_at(w, BPF, 222 * SECOND));
}

static void test_table_of_another_user(void **state)
{
	struct world *w = *state;
	struct kallsyms *mine = kernel_symbols__get(w->symbols, 100 * SECOND);

	set_kernel(w, CORE NVIDIA_SYMBOLS, NVIDIA_MODULE);
	assert_non_null(name_at(w, NVIDIA, 110 * SECOND));
	/* Another had it read anew meanwhile: an address that is in no table's symbols is looked for there. */
	assert_string_equal(kernel_symbols__lookup(w->symbols, &mine, NVIDIA, 0, 110 * SECOND),
			    "rm_ioctl [nvidia]");
	assert_ptr_equal(mine, w->table);
	kallsyms__unref(mine);
}

static void test_unreadable(void **state)
{
	struct world *w = *state;

	set_kernel(w, "0000000000000000 T _stext\n", "");
	assert_null(name_at(w, NVIDIA, 100 * SECOND));
	assert_null(w->table);
	write_text(w->kallsyms, CORE);
	assert_null(name_at(w, 0xffffffff81000000, 109 * SECOND));
	assert_string_equal(name_at(w, 0xffffffff81000000, 110 * SECOND), "_stext");
	/* One that was read once stays where it cannot be read again. */
	set_kernel(w, "0000000000000000 T _stext\n", NVIDIA_MODULE);
	assert_string_equal(name_at(w, 0xffffffff81000000, 200 * SECOND), "_stext");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(module_comes),
		TEST(module_goes),
		TEST(module_in_anothers_place),
		TEST(looks),
		TEST(module_comes_back),
		TEST(module_that_is_being_loaded),
		TEST(neighbour_of_a_module_that_goes),
		TEST(many_modules_go),
		TEST(same_modules),
		TEST(programs),
		TEST(unknown_address),
		TEST(table_of_another_user),
		TEST(unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
