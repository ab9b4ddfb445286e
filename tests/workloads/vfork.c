/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vfork and posix_spawn in a loop. The child of vfork works in its parent's memory, above its parent's stack.
 * Usage: vfork [seconds]
 */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

extern char **environ;

FRAME uint64_t vfork_child_work(uint64_t x)
{
	return work__mix(x, 300000) + 1;
}

FRAME uint64_t vfork_once(void)
{
	volatile uint64_t result = 0;
	int status = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		result = vfork_child_work(5);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return 0;
	return result;
}

FRAME uint64_t spawn_once(void)
{
	char *arguments[] = { (char *)"true", NULL };
	int status = 0;
	pid_t pid;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) || waitpid(pid, &status, 0) != pid)
		return 0;
	return (uint64_t)(status == 0);
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 1, 10);
	uint64_t first = 0;

	work__ready();
	while (work__now_s() < deadline)
		work__same(&first, vfork_once() + spawn_once());
	return work__done(first);
}
