/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code made at run time, in anonymous memory and without unwind information. Usage: jitter MODE [seconds] [map]
 *   fp    the code keeps a frame pointer
 *   nofp  its rbp holds a number that is no address
 *   root  its rbp is 0
 *   opaque-nofp, opaque-root  the same, and where it returns cannot be seen from its code
 * With "reuse" instead of "map" it appends another name for the same code to that file each time that the code has run
 * for GENERATION_CPU_S, and says "ready" again.
 * With "rwx" instead of "map" the page stays writable, as some compilers leave it.
 * With "map" it writes /tmp/perf-PID.map, where profilers look for the names of such code, and removes it at
 * the end.
 */
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "machine_code.h"
#include "work.h"

#define GENERATION_CPU_S 0.7

FRAME uint64_t call_jit(machine_code run)
{
	return run(20000) + 1;
}

FRAME uint64_t jit_loop(machine_code run, double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, call_jit(run) + 1);
	return first;
}

static machine_code make_code(const char *mode)
{
	if (strcmp(mode, "fp") == 0)
		return machine_code__map(code_fp, sizeof(code_fp));
	if (strcmp(mode, "root") == 0)
		return machine_code__map(code_root, sizeof(code_root));
	if (strcmp(mode, "opaque-nofp") == 0)
		return machine_code__map(code_opaque_nofp, sizeof(code_opaque_nofp));
	if (strcmp(mode, "opaque-root") == 0)
		return machine_code__map(code_opaque_root, sizeof(code_opaque_root));
	return machine_code__map(code_nofp, sizeof(code_nofp));
}

static int write_map(const char *path, machine_code run)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -1;
	fprintf(f, "%" PRIxPTR " %x jit_hot_loop\n", (uintptr_t)run, CODE_PAGE_BYTES);
	return fclose(f);
}

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The names are generation_0, until there is something on standard input, generation_1, … */
FRAME int reuse_loop(machine_code run, const char *path, double deadline)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	FILE *f = fopen(path, "we");

	for (unsigned n = 0; f && work__now_s() < deadline; n++) {
		double end_s = cpu_s() + GENERATION_CPU_S;

		fprintf(f, "%" PRIxPTR " %x generation_%u\n", (uintptr_t)run, CODE_PAGE_BYTES, n);
		fflush(f);
		work__ready();
		while (work__now_s() < deadline && (n ? cpu_s() < end_s : poll(&input, 1, 0) == 0))
			call_jit(run);
	}
	if (f)
		fclose(f);
	return unlink(path);
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 2, 10);
	machine_code run = make_code(argc > 1 ? argv[1] : "fp");
	int with_map = argc > 3 && strcmp(argv[3], "map") == 0;
	char path[64];
	uint64_t first;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	if (!run || (with_map && write_map(path, run))) {
		perror("jitter");
		return 1;
	}
	if (argc > 3 && strcmp(argv[3], "rwx") == 0 && machine_code__writable(run)) {
		perror("jitter");
		return 1;
	}
	if (argc > 3 && strcmp(argv[3], "reuse") == 0)
		return reuse_loop(run, path, deadline);
	work__ready();
	first = jit_loop(run, deadline);
	if (with_map)
		unlink(path);
	return work__done(first);
}
