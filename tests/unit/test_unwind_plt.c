/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linkage tables that a linker left without unwind information, against the same files linked with the information that
 * GNU's linker writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/unwind/eh_frame.h"
#include "daemon/unwind/unwind_table.h"

static char directory[] = "/tmp/stakeout-plt-XXXXXX";

static void run(const char *command)
{
	char line[1024];

	snprintf(line, sizeof(line), "cd %s && %s", directory, command);
	if (system(line) != 0)
		fail_msg("%s", line);
}

static int open_file(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Where the return address is, above rsp. */
static int distance(const struct so_unwind_rule *rule, uint64_t pc)
{
	assert_int_equal(rule->cfa_reg, SO_REG_RSP);
	assert_int_equal(rule->ra, SO_RA(SO_RA_CFA8, 0));
	if (rule->cfa_kind == SO_CFA_PLT)
		return rule->cfa_off + ((int)(pc & 15) >= rule->cfa_off2 ? 8 : 0);
	assert_int_equal(rule->cfa_kind, SO_CFA_REG);
	return rule->cfa_off;
}

/* pushed: whether entries push; else all of it is at one distance. Returns the bytes of all tables. */
static uint64_t compare(const char *options, bool pushed)
{
	_cleanup_(unwind_table) struct unwind_table *ours = NULL, *theirs = NULL;
	_cleanup_(eh_frame) struct eh_frame eh = { 0 };
	char command[512];
	uint64_t bytes = 0;
	bool more = false;
	int with, without;

	snprintf(command, sizeof(command), "gcc -O1 -fPIC -shared %s -o with lib.c", options);
	run(command);
	snprintf(command, sizeof(command),
		 "gcc -O1 -fPIC -shared %s -Wl,--no-ld-generated-unwind-info -o without lib.c", options);
	run(command);
	with = open_file("with");
	without = open_file("without");
	assert_int_equal(eh_frame__read(without, &eh, NULL), 0);
	assert_int_equal(unwind_table__compile(with, &theirs, NULL), 0);
	assert_int_equal(unwind_table__compile(without, &ours, NULL), 0);
	assert_true(unwind_table__sound(ours));
	for (size_t i = 0; i < eh.n_plts; i++) {
		const struct eh_frame_plt *plt = &eh.plts[i];

		for (uint64_t pc = plt->start; pc < plt->end; pc++) {
			const struct so_unwind_rule *a = unwind_table__lookup(ours, pc),
						    *b = unwind_table__lookup(theirs, pc);

			assert_non_null(a);
			assert_non_null(b);
			/* Only where an instruction begins: GNU's threshold is a byte late or early in some forms. */
			if ((pc & 15) == 0)
				assert_int_equal(distance(a, pc), distance(b, pc));
			if ((pc & 15) == 11)
				assert_int_equal(distance(a, pc), distance(b, pc));
			more |= distance(a, pc) > 8;
		}
		bytes += plt->end - plt->start;
	}
	assert_int_equal(more, pushed);
	close(with);
	close(without);
	return bytes;
}

static void test_forms(void **state)
{
	assert_true(compare("-fcf-protection=none -Wl,-z,lazy", true) >= 5 * 16);
	assert_true(compare("-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy", true) >= 9 * 16);
}

/* Not a table of that form, or one that the file has an entry for: nothing is added. */
static void test_elsewhere(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	int fd;

	run("printf '.section .plt.fake,\"ax\",@progbits\\n.balign 16\\nfake: .fill 64, 1, 0x90\\n' > fake.s "
	    "&& "
	    "gcc -O1 -fPIC -shared -fcf-protection=none -o fake fake.s lib.c && "
	    "nm fake | sed -n 's/^\\([0-9a-f]*\\) t fake$/\\1/p' > at");
	fd = open_file("fake");
	assert_int_equal(unwind_table__compile(fd, &t, NULL), 0);
	close(fd);
	{
		char path[256], text[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "%s/at", directory);
		f = fopen(path, "r");
		assert_non_null(f);
		assert_non_null(fgets(text, sizeof(text), f));
		fclose(f);
		assert_null(unwind_table__lookup(t, strtoull(text, NULL, 16) + 32));
	}
}

static int set_up(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	run("printf '#include <stdio.h>\\n#include <stdlib.h>\\n"
	    "int f(int x) { puts(\"a\"); abs(x); return rand() + putchar(x) + atoi(\"1\"); }\\n' > lib.c");
	return 0;
}

static int tear_down(void **state)
{
	run("rm -rf with without fake fake.s at lib.c");
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_elsewhere),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
