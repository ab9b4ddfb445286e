/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that hardly runs. Usage: sleeper [seconds] */
#include <unistd.h>

#include "work.h"

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);

	work__ready();
	while (work__now_s() < deadline)
		usleep(20000);
	return work__done(1);
}
