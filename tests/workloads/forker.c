/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Short-lived children: 200 a second (or the second argument), each of which works for some 2 ms and ends.
 * Prints how many it made on standard error. Usage: forker [seconds] [children a second]
 */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

FRAME uint64_t child_work(uint64_t x)
{
	return work__mix(x, 600000) + 1;
}

FRAME int fork_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit((int)(child_work(11) & 0x7f));
	return pid < 0 ? -1 : 0;
}

static void reap(int flags, uint64_t *first, unsigned *reaped)
{
	int status;

	while (waitpid(-1, &status, flags) > 0) {
		work__same(first, 256u + (unsigned)status);
		(*reaped)++;
	}
}

int main(int argc, char **argv)
{
	double start = work__now_s(), deadline = work__deadline_s(argc, argv, 1, 10), now = start;
	double a_second = argc > 2 ? atof(argv[2]) : 200;
	unsigned made = 0, reaped = 0;
	uint64_t first = 0;

	work__ready();
	for (; now < deadline; now = work__now_s()) {
		if (made < (now - start) * a_second) {
			if (fork_child()) {
				perror("fork");
				return 1;
			}
			made++;
		} else {
			usleep(500);
		}
		reap(WNOHANG, &first, &reaped);
	}
	reap(0, &first, &reaped);
	fprintf(stderr, "children %u\n", made);
	return work__done(first) || reaped != made;
}
