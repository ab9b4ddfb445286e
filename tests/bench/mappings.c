/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes its mappings 20,000 times a second of its CPU time, and computes for the rest, until it is killed. A unit is
 * one change. Usage: mappings none|data|code FILE: of anonymous memory, of executable pages of this program, or none.
 */
#include <stdbool.h>
#include <string.h>

#include "tests/bench/counted.h"

#define PAGE          4096
#define CHANGES       200 /* between two counts */
#define CHANGES_HZ    20000
#define CALIBRATION_N 20000000

static volatile unsigned long sink;

static void compute(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void change(const char *kind, int program)
{
	bool code = !strcmp(kind, "code");
	void *page;

	if (!strcmp(kind, "none"))
		return;
	page = mmap(NULL, PAGE, code ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | (code ? 0 : MAP_ANONYMOUS), code ? program : -1, 0);
	if (page == MAP_FAILED || munmap(page, PAGE)) {
		perror("mappings");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	volatile struct counted *counted = counted__open(argc > 2 ? argv[2] : "");
	int program = open("/proc/self/exe", O_RDONLY);
	uint64_t began_ns = cpu_ns(), began_change_ns, work_ns, change_ns;
	unsigned long n;

	compute(CALIBRATION_N);
	work_ns = cpu_ns() - began_ns;
	began_change_ns = cpu_ns();
	for (unsigned i = 0; i < 10 * CHANGES; i++)
		change(argv[1], program);
	change_ns = (cpu_ns() - began_change_ns) / (10 * CHANGES);
	n = (unsigned long)((1e9 / CHANGES_HZ - (double)change_ns) * CALIBRATION_N / (double)work_ns);
	for (;;) {
		for (unsigned i = 0; i < CHANGES; i++) {
			change(argv[1], program);
			compute(n);
		}
		counted__add(counted, CHANGES);
	}
}
