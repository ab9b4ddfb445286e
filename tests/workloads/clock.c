/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the clock all the time: most samples fall into the vdso. Usage: clock [seconds] */
#include "work.h"

FRAME double read_clock(void)
{
	double sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += work__now_s();
	return sum;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);

	work__ready();
	while (read_clock() < deadline * 1000)
		;
	return work__done(1);
}
