/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs from a copy of its own text in anonymous memory, as programs that want it in huge pages do: the pages of its
 * code are copied and moved to where they were. Usage: text_copy [seconds]
 */
#include <string.h>
#include <sys/mman.h>

#include "work.h"

#define PAGE_BYTES 4096ul

extern const char etext;

FRAME uint64_t copied_kernel(void)
{
	return work__mix(1, 20000) + 1;
}

FRAME uint64_t copied_loop(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, copied_kernel() + 1);
	return first;
}

/* The whole pages around the functions here; what lies before and behind them may stay the file's. */
static int move_text(void)
{
	uintptr_t begin = (uintptr_t)copied_kernel & ~(PAGE_BYTES - 1), end = (uintptr_t)&etext + PAGE_BYTES - 1;
	size_t size = (end & ~(PAGE_BYTES - 1)) - begin;
	void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -1;
	memcpy(copy, (const void *)begin, size);
	if (mprotect(copy, size, PROT_READ | PROT_EXEC))
		return -1;
	return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)begin) == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);

	if (move_text()) {
		perror("text_copy");
		return 1;
	}
	work__ready();
	return work__done(copied_loop(deadline));
}
