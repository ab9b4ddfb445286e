/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Told to by a line on standard input, makes children that end at once, more than fit into any buffer of news, and
 * after them two that stay: one works in late_child, one becomes this program anew and works in late_program. Usage:
 * burst [seconds] [children]
 */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

FRAME uint64_t late_child(uint64_t x)
{
	return work__mix(x, 20000) + 1;
}

FRAME uint64_t late_program(uint64_t x)
{
	return work__mix(x, 20000) + 2;
}

static int work(uint64_t (*function)(uint64_t), double seconds)
{
	double deadline = work__now_s() + seconds;
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, function(17));
	return 0;
}

static pid_t child(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	int n = argc > 2 ? atoi(argv[2]) : 10000;

	if (n < 0)
		return work(late_program, seconds);
	work__ready();
	getchar();
	for (int i = 0; i < n; i++) {
		pid_t pid = child();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	if (!child())
		_exit(work(late_child, seconds));
	if (!child()) {
		execl("/proc/self/exe", argv[0], argv[1], "-1", (char *)NULL);
		_exit(1);
	}
	puts("made");
	fflush(stdout);
	while (wait(NULL) > 0)
		;
	return work__done(1);
}
