// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_NO_PROGRAM 127

struct child_command {
	pid_t pid; /* 0: has been waited for */
	const char *name;
	int go_fd;    /* a byte lets it go; closed: it ends */
	int error_fd; /* its errno, where it cannot execute; closed by the execution */
};

/* In the child. Whatever goes wrong here is for the parent to say. */
static void execute(char *const *argv, int go_fd, int error_fd)
{
	const char *name = strrchr(argv[0], '/');
	int error;
	char go;

	/* What is ignored stays so in the program: a closed pipe is stakeout's to look for, not the program's. */
	signal(SIGPIPE, SIG_DFL);
	/* Until then it is called as its program will be. */
	prctl(PR_SET_NAME, name ? name + 1 : argv[0]);
	/* Ctrl-C before it is let go ends it with its parent's pipe. */
	if (read(go_fd, &go, 1) != 1)
		_exit(STATUS_NO_PROGRAM);
	execvp(argv[0], argv);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(STATUS_NO_PROGRAM);
	_exit(STATUS_NO_PROGRAM);
}

int child_command__start(char *const *argv, struct child_command **out, struct so_error *err)
{
	_cleanup_(child_command) struct child_command *c = calloc(1, sizeof(*c));
	int go[2], error[2];

	if (!c)
		return so_err(err, -ENOMEM, "out of memory");
	c->go_fd = c->error_fd = -1;
	c->name = argv[0];
	if (pipe2(go, O_CLOEXEC))
		return so_err(err, -errno, "cannot make a pipe: %s", strerror(errno));
	c->go_fd = go[1];
	if (pipe2(error, O_CLOEXEC)) {
		close(go[0]);
		return so_err(err, -errno, "cannot make a pipe: %s", strerror(errno));
	}
	c->error_fd = error[0];
	c->pid = fork();
	if (!c->pid) {
		close(go[1]);
		close(error[0]);
		execute(argv, go[0], error[1]);
	}
	close(go[0]);
	close(error[1]);
	if (c->pid < 0) {
		c->pid = 0;
		return so_err(err, -errno, "cannot start '%s': %s", argv[0], strerror(errno));
	}
	*out = TAKE_PTR(c);
	return 0;
}

pid_t child_command__pid(const struct child_command *c)
{
	return c->pid;
}

int child_command__go(struct child_command *c, struct so_error *err)
{
	int error = 0;
	ssize_t n;

	if (write(c->go_fd, "", 1) != 1)
		return so_err(err, -errno, "cannot start '%s': %s", c->name, strerror(errno));
	do
		n = read(c->error_fd, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	return n == sizeof(error) ? so_err(err, -error, "cannot execute '%s': %s", c->name, strerror(error)) : 0;
}

int child_command__wait(struct child_command *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_command__free(struct child_command *c)
{
	if (!c)
		return;
	if (c->go_fd >= 0)
		close(c->go_fd);
	if (c->error_fd >= 0)
		close(c->error_fd);
	if (c->pid > 0) {
		kill(c->pid, SIGTERM);
		child_command__wait(c);
	}
	free(c);
}
