/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code made at run time, some time after the start. Usage: late_code MODE [seconds] [seconds before it]
 *   rwx           mapped writable and executable
 *   mprotect-rwx  made so after it was written
 *   mprotect-rx   made executable, and writable no more
 *   growing       a function more every 20 ms, in one mapping that is writable and executable
 */
#include "machine_code.h"
#include "work.h"

#define GROWING_BYTES (1u << 20)
#define SLOT_BYTES    64

FRAME uint64_t before_code(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, work__mix(19, 20000));
	return first;
}

FRAME uint64_t call_code(machine_code run)
{
	return run(20000) + 1;
}

static void *map(size_t bytes, int protection)
{
	void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("late_code");
		exit(1);
	}
	return at;
}

static machine_code put(char *at, const uint8_t *code, size_t bytes)
{
	machine_code run;

	memcpy(at, code, bytes);
	memcpy(&run, &at, sizeof(run));
	return run;
}

FRAME uint64_t run_one(const char *mode, double deadline)
{
	const int rwx = PROT_READ | PROT_WRITE | PROT_EXEC;
	void *at = map(CODE_PAGE_BYTES, strcmp(mode, "rwx") ? PROT_READ | PROT_WRITE : rwx);
	machine_code run = put(at, code_fp, sizeof(code_fp));
	uint64_t first = 0;

	if (!strcmp(mode, "mprotect-rwx"))
		mprotect(at, CODE_PAGE_BYTES, rwx);
	if (!strcmp(mode, "mprotect-rx"))
		mprotect(at, CODE_PAGE_BYTES, PROT_READ | PROT_EXEC);
	while (work__now_s() < deadline)
		work__same(&first, call_code(run));
	return first;
}

FRAME uint64_t run_growing(double deadline)
{
	char *area = map(GROWING_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
	uint64_t first = 0;

	for (size_t i = 0; work__now_s() < deadline; i++) {
		char *at = area + i * SLOT_BYTES % GROWING_BYTES;
		machine_code run = i % 2 ? put(at, code_fp, sizeof(code_fp)) : put(at, code_nofp, sizeof(code_nofp));
		double until = work__now_s() + 0.02;

		while (work__now_s() < until)
			work__same(&first, call_code(run));
	}
	return first;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 2, 10), code_at = work__deadline_s(argc, argv, 3, 1);
	const char *mode = argc > 1 ? argv[1] : "rwx";
	uint64_t before;

	work__ready();
	before = before_code(code_at);
	return work__done(before + (strcmp(mode, "growing") ? run_one(mode, deadline) : run_growing(deadline)));
}
