// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that looks like CPython 3.11 by its symbols, and whose memory is nothing of the kind.
 * Usage: not_python [seconds]
 */
#include "work.h"

extern const unsigned long Py_Version;
const unsigned long Py_Version = 0x030b07f0;

uint64_t _PyRuntime[16384];

/* Addresses of itself, so that each pointer leads somewhere and every list goes round in circles. */
static void fill(void)
{
	for (unsigned i = 0; i < sizeof(_PyRuntime) / sizeof(_PyRuntime[0]); i++)
		_PyRuntime[i] = (uintptr_t)&_PyRuntime[i % 512];
	/* autoTSSkey of 3.11: made, and the key 0 */
	((int *)_PyRuntime)[592 / 4] = 1;
	((int *)_PyRuntime)[592 / 4 + 1] = 0;
	((int *)_PyRuntime)[16 / 4] = 1;
}

static FRAME uint64_t spin(void)
{
	return work__mix(1, 10000);
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	uint64_t first = 0;

	fill();
	work__ready();
	while (work__now_s() < deadline)
		work__same(&first, spin());
	return work__done(first);
}
