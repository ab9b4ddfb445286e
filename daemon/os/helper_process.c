// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/helper_process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS        1000000l
#define END_TRIES 50 /* times 2 ms: how long a killed helper is waited for */

static void reap_stuck(struct helper_process *helper)
{
	unsigned n = 0;

	for (unsigned i = 0; i < helper->n_stuck; i++) {
		if (waitpid(helper->stuck[i], NULL, WNOHANG) == 0)
			helper->stuck[n++] = helper->stuck[i];
	}
	helper->n_stuck = n;
}

static int spawn(pid_t *pid, const char *program, const char *argument, int fd)
{
	char *const argv[] = { (char *)program, (char *)argument, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int ret;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	ret = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO) ?:
	    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO) ?:
	    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1) ?:
	    posix_spawn(pid, program, &files, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return -ret;
}

int helper_process__start(struct helper_process *helper, const char *program, const char *argument, int fd)
{
	pid_t pid;
	int ret;

	reap_stuck(helper);
	if (helper->pid || helper->n_stuck == HELPER_MAX_STUCK)
		return -EBUSY;
	ret = spawn(&pid, program, argument, fd);
	if (!ret)
		helper->pid = pid;
	return ret;
}

/* A process inside a driver, or waiting for a disk, may not end for long: it stays a child, its place kept ready. */
void helper_process__end(struct helper_process *helper)
{
	pid_t ended = 0;

	if (!helper->pid)
		return;
	kill(helper->pid, SIGKILL);
	for (unsigned i = 0; i < END_TRIES && !ended; i++) {
		ended = waitpid(helper->pid, NULL, WNOHANG);
		if (!ended)
			nanosleep(&(struct timespec){ 0, 2 * MS }, NULL);
	}
	if (!ended)
		helper->stuck[helper->n_stuck++] = helper->pid;
	helper->pid = 0;
}
