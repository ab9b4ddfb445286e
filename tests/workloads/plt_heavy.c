/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of tiny functions through lazily bound PLT entries: many samples fall into the stubs. Usage: plt_heavy
 * [seconds] */
#include "work.h"

uint64_t tiny_rotate(uint64_t x);
uint64_t tiny_add(uint64_t x);

FRAME uint64_t plt_calls(void)
{
	uint64_t x = 1;

	for (int i = 0; i < 20000; i++)
		x = tiny_add(tiny_rotate(x));
	return x;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	uint64_t first = 0;

	work__ready();
	while (work__now_s() < deadline)
		work__same(&first, plt_calls());
	return work__done(first);
}
