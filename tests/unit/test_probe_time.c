/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/profile/probe_time.h"

static void test_parts(void **state)
{
	assert_int_equal(probe_part_of(NULL), PROBE_NONE);
	assert_int_equal(probe_part_of("vfs_read"), PROBE_NONE);
	assert_int_equal(probe_part_of("handle_swbp"), PROBE_HANDLING);
	assert_int_equal(probe_part_of("handle_swbp_more"), PROBE_NONE);
	assert_int_equal(probe_part_of("__x64_sys_uretprobe"), PROBE_HANDLING);
	assert_int_equal(probe_part_of("entry_SYSCALL_64_after_hwframe"), PROBE_SYSTEM_CALL);
	assert_int_equal(probe_part_of("bpf_prog_d45e2cf571b76507_cuda_session [bpf]"), PROBE_OWN_PROGRAM);
	assert_int_equal(probe_part_of("bpf_prog_d45e2cf571b76507_on_mark_3"), PROBE_OWN_PROGRAM);
	assert_int_equal(probe_part_of("bpf_prog_d45e2cf571b76507_on_mark_33 [bpf]"), PROBE_OTHER_PROGRAM);
	assert_int_equal(probe_part_of("bpf_prog_d45e2cf571b76507 [bpf]"), PROBE_OTHER_PROGRAM);
}

static struct stack *made(uint32_t tgid, uint64_t leaf)
{
	const struct so_stack_record record = { .tgid = tgid, .n_user = 1 };
	struct stack *stack = stack__new(&record, &leaf, NULL);

	assert_non_null(stack);
	return stack;
}

static bool is_own(const struct probe_evidence *e, uint32_t tgid, uint64_t leaf, unsigned parts)
{
	struct stack *stack = made(tgid, leaf);
	bool own = probe_evidence__is_own(e, stack, parts);

	stack__unref(stack);
	return own;
}

static void add(struct probe_evidence *e, uint32_t tgid, uint64_t leaf, unsigned parts)
{
	struct stack *stack = made(tgid, leaf);

	probe_evidence__add(e, stack, parts);
	stack__unref(stack);
}

#define PLACE SO_FRAME(7, 0x1000)

static void test_own_alone(void **state)
{
	struct probe_evidence e = { 0 };

	assert_true(is_own(&e, 1, PLACE, PROBE_HANDLING | PROBE_OWN_PROGRAM));
	/* What an own program calls may look like another's. */
	assert_true(is_own(&e, 1, PLACE, PROBE_HANDLING | PROBE_OWN_PROGRAM | PROBE_OTHER_PROGRAM));
	assert_false(is_own(&e, 1, PLACE, PROBE_HANDLING));
	add(&e, 1, PLACE, PROBE_HANDLING | PROBE_OWN_PROGRAM);
	assert_true(is_own(&e, 1, PLACE, PROBE_HANDLING));
	assert_true(is_own(&e, 1, SO_FRAME(8, 0x2000), PROBE_HANDLING));
	/* Another process, without evidence of its own; and no handling at all. */
	assert_false(is_own(&e, 2, SO_FRAME(8, 0x2000), PROBE_HANDLING));
	assert_false(is_own(&e, 1, PLACE, PROBE_NONE));
	/* The system call of a return probe has its place; another has none. */
	assert_true(is_own(&e, 1, PLACE, PROBE_SYSTEM_CALL));
	assert_false(is_own(&e, 1, PLACE + 1, PROBE_SYSTEM_CALL));
	probe_evidence__release(&e);
}

static void test_beside_others(void **state)
{
	struct probe_evidence e = { 0 };

	add(&e, 1, PLACE, PROBE_HANDLING | PROBE_OWN_PROGRAM);
	add(&e, 1, SO_FRAME(8, 0x2000), PROBE_HANDLING | PROBE_OTHER_PROGRAM);
	assert_false(is_own(&e, 1, SO_FRAME(8, 0x2000), PROBE_HANDLING | PROBE_OTHER_PROGRAM));
	assert_false(is_own(&e, 1, SO_FRAME(8, 0x2000), PROBE_HANDLING));
	/* At the instruction, and behind it when its copy has been run. */
	assert_true(is_own(&e, 1, PLACE, PROBE_HANDLING));
	assert_true(is_own(&e, 1, PLACE + 15, PROBE_HANDLING));
	assert_false(is_own(&e, 1, PLACE + 16, PROBE_HANDLING));
	assert_false(is_own(&e, 1, PLACE - 1, PROBE_HANDLING));
	probe_evidence__release(&e);
}

/* An address in no file means something in its process alone. */
static void test_places_without_file(void **state)
{
	struct probe_evidence e = { 0 };

	for (uint32_t tgid = 1; tgid <= 2; tgid++)
		add(&e, tgid, SO_FRAME(8, 0x2000), PROBE_HANDLING | PROBE_OTHER_PROGRAM);
	add(&e, 1, SO_FRAME(0, 0x7000), PROBE_HANDLING | PROBE_OWN_PROGRAM);
	assert_true(is_own(&e, 1, SO_FRAME(0, 0x7000), PROBE_HANDLING));
	assert_false(is_own(&e, 2, SO_FRAME(0, 0x7000), PROBE_HANDLING));
	probe_evidence__release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_own_alone),
		cmocka_unit_test(test_beside_others),
		cmocka_unit_test(test_places_without_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
