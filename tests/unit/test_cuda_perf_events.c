/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events on functions of this program. A function has a breakpoint as long as one of its events is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/cuda_perf_events.h"
#include "stakeout/cuda_abi.h"

#define FUNCTIONS  5
#define PUSH_RBP   0x55
#define BREAKPOINT 0xcc

/* FUNCTIONS times: push %rbp; pop %rbp; ret; and nops up to 16 bytes. */
extern const volatile uint8_t probed_functions[FUNCTIONS][16];
__asm__(".text\n"
	".p2align 12\n"
	".globl probed_functions\n"
	"probed_functions:\n"
	".rept 5\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	"	.p2align 4\n"
	".endr\n");

static int program = -1, heat = -1;
static uint64_t offsets[FUNCTIONS], cookies[FUNCTIONS];

/* Where the code is in this program's file. */
static void find_offsets(void)
{
	unsigned long low, high, offset, at = (unsigned long)probed_functions;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%lx-%lx %*s %lx", &low, &high, &offset) == 3 && at >= low && at < high;
	fclose(f);
	assert_true(found);
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		offsets[i] = at - low + offset + sizeof(probed_functions[0]) * i;
		cookies[i] = SO_CUDA_COOKIE(i, 0, 1);
	}
}

static int set_up(void **state)
{
	const struct bpf_insn nothing[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
					    { .code = BPF_JMP | BPF_EXIT } };

	find_offsets();
	program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "nothing", "GPL", nothing, 2, NULL);
	heat = bpf_map_create(BPF_MAP_TYPE_HASH, "heat", sizeof(uint64_t), sizeof(uint64_t), 64, NULL);
	return 0;
}

static struct cuda_perf_events *new_events(void)
{
	struct cuda_perf_events *events = NULL;

	if (program < 0 || heat < 0 || access("/sys/bus/event_source/devices/uprobe/type", R_OK)) {
		print_message("needs the right to load BPF programs, and uprobe events\n");
		skip();
	}
	assert_int_equal(cuda_perf_events__new(program, program, heat, &events), 0);
	return events;
}

static struct cuda_perf_set *attach(struct cuda_perf_events *events)
{
	struct cuda_perf_set *set = NULL;

	assert_int_equal(
		cuda_perf_events__attach(events, getpid(), "/proc/self/exe", offsets, cookies, FUNCTIONS, &set),
		0);
	return set;
}

static unsigned probed(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		assert_true(probed_functions[i][0] == PUSH_RBP || probed_functions[i][0] == BREAKPOINT);
		n += probed_functions[i][0] == BREAKPOINT;
	}
	return n;
}

static void set_heat(unsigned function, uint64_t hits)
{
	assert_int_equal(bpf_map_update_elem(heat, &cookies[function], &hits, BPF_ANY), 0);
}

/* Until so many functions are probed; a close takes the kernel about 0.1 s. */
static void await_probed(unsigned n)
{
	for (unsigned tries = 0; probed() > n && tries < 3000; tries++)
		usleep(5000);
	assert_int_equal(probed(), n);
}

static bool is_probed(unsigned function)
{
	return probed_functions[function][0] == BREAKPOINT;
}

/* Until the first is not probed any more. Both of the others must not go before it; they are looked at first. */
static void await_before(unsigned first, unsigned second, unsigned third)
{
	bool others_gone = false, gone = false;

	for (unsigned tries = 0; !gone && tries < 3000; tries++) {
		others_gone = !is_probed(second) && !is_probed(third);
		gone = !is_probed(first);
		assert_true(gone || !others_gone);
		usleep(5000);
	}
	assert_true(gone);
}

static void test_hottest_go_first(void **state)
{
	_cleanup_(cuda_perf_events) struct cuda_perf_events *events = new_events();
	struct cuda_perf_set *set = attach(events);

	assert_int_equal(probed(), FUNCTIONS);
	assert_int_equal(cuda_perf_events__pending(events), 0);
	set_heat(1, 5);
	set_heat(3, 1000);
	cuda_perf_set__free(set);
	assert_true(cuda_perf_events__pending(events) > FUNCTIONS);
	await_before(3, 1, 1);
	/* What is hit now goes before what was hit; one event more may be on its way. */
	set_heat(4, 1);
	await_before(4, 0, 2);
	await_before(1, 0, 2);
	await_probed(0);
}

/* What is not closed yet is the new set's: nothing is opened twice, nothing closed behind its back. */
static void test_taken_over(void **state)
{
	_cleanup_(cuda_perf_events) struct cuda_perf_events *events = new_events();

	for (int i = 0; i < 3; i++) {
		struct cuda_perf_set *set = attach(events);

		assert_int_equal(probed(), FUNCTIONS);
		assert_int_equal(cuda_perf_events__pending(events), 0);
		usleep(300000);
		assert_int_equal(probed(), FUNCTIONS);
		cuda_perf_set__free(set);
		usleep(i * 200000);
	}
	await_probed(0);
}

static void test_refused(void **state)
{
	_cleanup_(cuda_perf_events) struct cuda_perf_events *events = new_events();
	struct cuda_perf_set *set = NULL;

	assert_int_equal(cuda_perf_events__attach(events, getpid(), "/proc/self/no-such-file", offsets, cookies,
						  FUNCTIONS, &set),
			 -ENOENT);
	assert_null(set);
	assert_int_equal(cuda_perf_events__attach(events, 0x7fffffff, "/proc/self/exe", offsets, cookies,
						  FUNCTIONS, &set),
			 -ESRCH);
	assert_null(set);
	assert_int_equal(probed(), 0);
	assert_int_equal(cuda_perf_events__pending(events), 0);
}

/*
 * With more events than may be waited for: they go all the same, and nobody waits. Any single time the machine may be
 * so busy that they have gone by when this thread runs again.
 */
static void test_handed_over(void **state)
{
	unsigned left = 0;

	for (unsigned i = 0; i < 20 && left < FUNCTIONS - 1; i++) {
		struct cuda_perf_events *events = new_events();

		cuda_perf_set__free(attach(events));
		cuda_perf_events__free(events);
		left = probed();
		await_probed(0);
	}
	assert_true(left >= FUNCTIONS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hottest_go_first),
		cmocka_unit_test(test_taken_over),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_handed_over),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
