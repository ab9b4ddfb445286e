/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Works for a while or until SIGUSR1, then becomes another program. Usage: execer SECONDS PROGRAM [ARGUMENT …] */
#include <signal.h>
#include <unistd.h>

#include "work.h"

FRAME uint64_t before_exec(uint64_t x)
{
	return work__mix(x, 20000) + 1;
}

static volatile sig_atomic_t told;

static void tell(int signal)
{
	(void)signal;
	told = 1;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 2);
	uint64_t first = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: execer SECONDS PROGRAM [ARGUMENT …]\n");
		return 2;
	}
	signal(SIGUSR1, tell);
	work__ready();
	while (work__now_s() < deadline && !told)
		work__same(&first, before_exec(13));
	printf("exec %016llx\n", (unsigned long long)first);
	fflush(stdout);
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
