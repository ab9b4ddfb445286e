/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spends most of its time in probes. Usage: probed [seconds] [self]
 * With "self" it puts probes on its own functions, at their entries and returns, as another tool would. The kernel runs
 * a copy of the instruction that probed_stepped() begins with, emulates that of probed_pushed(), and may turn that of
 * probed_nop() into a call.
 */
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work.h"

#define PROBE_AT_RETURN 1 /* bit 0 of config: /sys/bus/event_source/devices/uprobe/format/retprobe */

/* Counts its argument down. */
void probed_stepped(unsigned long rounds);
__asm__(".text\n"
	".type probed_stepped, @function\n"
	"probed_stepped:\n"
	".cfi_startproc\n"
	"	sub $24, %rsp\n"
	".cfi_adjust_cfa_offset 24\n"
	"1:	dec %rdi\n"
	"	jnz 1b\n"
	"	add $24, %rsp\n"
	".cfi_adjust_cfa_offset -24\n"
	"	ret\n"
	".cfi_endproc\n"
	".size probed_stepped, .-probed_stepped\n");

void probed_nop(unsigned long rounds);
__asm__(".text\n"
	".type probed_nop, @function\n"
	"probed_nop:\n"
	".cfi_startproc\n"
	"	.byte 0x0f, 0x1f, 0x44, 0, 0\n"
	"1:	dec %rdi\n"
	"	jnz 1b\n"
	"	ret\n"
	".cfi_endproc\n"
	".size probed_nop, .-probed_nop\n");

/* Keeps its argument in a register that it has to save first of all. */
FRAME unsigned long probed_pushed(unsigned long rounds)
{
	probed_stepped(rounds);
	probed_nop(rounds);
	return rounds;
}

FRAME uint64_t probed_loop(double deadline)
{
	uint64_t sum = 0;

	while (work__now_s() < deadline) {
		for (unsigned i = 0; i < 100; i++)
			sum += probed_pushed(200);
	}
	return sum != 0;
}

static int read_type(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -1;

	if (!f || fscanf(f, "%d", &type) != 1)
		type = -1;
	if (f)
		fclose(f);
	return type;
}

/* Where the function lies in this program's file. */
static uint64_t offset_of(uintptr_t function)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && function >= start && function < end)
			return function - start + offset;
	}
	return 0;
}

static int probe(uintptr_t function, int config)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = (uint32_t)read_type(),
					.config = (uint64_t)config,
					.uprobe_path = (uintptr_t) "/proc/self/exe",
					.probe_offset = offset_of(function) };

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	uintptr_t functions[] = { (uintptr_t)probed_stepped, (uintptr_t)probed_pushed, (uintptr_t)probed_nop };

	for (unsigned i = 0; argc > 2 && strcmp(argv[2], "self") == 0 && i < 6; i++) {
		if (probe(functions[i / 2], i % 2 ? PROBE_AT_RETURN : 0) < 0) {
			perror("probed");
			return 1;
		}
	}
	work__ready();
	return work__done(probed_loop(deadline));
}
