// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/private_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/session/interrupt.h"

#define READY_FD        3 /* in the daemon */
#define END_WAIT_MS     10000
#define END_GRACE_MS    1000
#define END_STEP_MS     50
#define MAX_CHECK_BYTES ((size_t)1 << 20)

struct private_daemon {
	pid_t pid;    /* 0: not running */
	int ready_fd; /* kept open: the daemon ends when nobody can read from it any more */
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* Where stakeoutd lies, seen from the client's own binary; the last resort is PATH. */
static char *find_binary(void)
{
	static const char *const places[] = { "stakeoutd", "../sbin/stakeoutd", "../libexec/stakeoutd",
					      "../libexec/stakeout/stakeoutd" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *dir;
	char *path;

	if (n <= 0)
		return strdup("stakeoutd");
	self[n] = '\0';
	dir = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (asprintf(&path, "%s/%s", dir, places[i]) < 0)
			return NULL;
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return strdup("stakeoutd");
}

static bool make_dir(struct private_daemon *daemon, const char *base)
{
	int n = snprintf(daemon->dir, sizeof(daemon->dir), "%s/stakeout-XXXXXX", base);

	if (n > 0 && (size_t)n + sizeof("/sock") < sizeof(daemon->dir) && mkdtemp(daemon->dir)) {
		snprintf(daemon->socket, sizeof(daemon->socket), "%.*s/sock", n, daemon->dir);
		return true;
	}
	daemon->dir[0] = '\0';
	return false;
}

/*
 * Starts `argv` with `write_fd` as its descriptor `as_fd`. A signal that the client handles must not reach its
 * handler in the child between fork and exec, where it would remove the client's files: all are blocked around
 * it, and the child starts with none blocked.
 */
static pid_t spawn(char *const *argv, int write_fd, int as_fd)
{
	sigset_t all, old, none;
	pid_t pid;

	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0) {
		struct sigaction plain = { .sa_handler = SIG_DFL };

		sigaction(SIGINT, &plain, NULL);
		sigaction(SIGTERM, &plain, NULL);
		sigaction(SIGHUP, &plain, NULL);
		sigprocmask(SIG_SETMASK, &none, NULL);
		/* dup2 clears close-on-exec, except for a descriptor onto itself */
		if (write_fd == as_fd ? !fcntl(as_fd, F_SETFD, 0) : dup2(write_fd, as_fd) == as_fd)
			execvp(argv[0], argv);
		if (as_fd == READY_FD)
			dprintf(as_fd, "error: cannot start %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

/* One line, or what came before the other end closed. */
static int read_line(int fd, char *line, size_t size)
{
	size_t used = 0;

	while (used + 1 < size) {
		ssize_t n = read(fd, line + used, size - 1 - used);

		if (n < 0 && errno == EINTR && !interrupt__pending())
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
		if (memchr(line, '\n', used))
			break;
	}
	line[used] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

/* Whether the process ended within so many milliseconds; a signal to the client does not cut the wait short. */
static bool ends_within(int pidfd, int ms)
{
	struct pollfd wait = { .fd = pidfd, .events = POLLIN };

	for (int waited = 0; waited < ms; waited += END_STEP_MS)
		if (poll(&wait, 1, END_STEP_MS) == 1)
			return true;
	return false;
}

/* It takes its programs out of the kernel in grace_ms, or is killed, and the kernel does. Returns the wait status. */
static int end_process(pid_t pid, int grace_ms)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int status = 0;

	if (pidfd < 0 || !ends_within(pidfd, grace_ms))
		kill(pid, SIGTERM);
	if (pidfd >= 0 && !ends_within(pidfd, END_WAIT_MS))
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static int denied(const char *text, struct so_error *err)
{
	if (geteuid() == 0)
		return so_err(err, -EPERM, "%s", text);
	return so_err(err, -EPERM, "%s; the simplest way: run this command with sudo", text);
}

static int wait_until_ready(struct private_daemon *daemon, const char *binary, struct so_error *err)
{
	char line[sizeof(struct so_error) + 16];
	int ret = read_line(daemon->ready_fd, line, sizeof(line)), status = 0;

	if (ret == -EINTR)
		return so_err(err, ret, "interrupted");
	if (ret)
		return so_err(err, ret, "cannot hear from stakeoutd: %s", strerror(-ret));
	if (!strcmp(line, "ready"))
		return 0;
	if (!strncmp(line, "denied: ", 8))
		return denied(line + 8, err);
	if (!strncmp(line, "error: ", 7))
		return so_err(err, -EIO, "%s", line + 7);
	/* It hung up, or talks nonsense; without a reader it cannot get stuck. */
	cleanup__close(&daemon->ready_fd);
	daemon->ready_fd = -1;
	status = end_process(daemon->pid, END_GRACE_MS);
	daemon->pid = 0;
	if (WIFSIGNALED(status))
		return so_err(err, -EIO, "%s ended by signal %d before it was ready", binary, WTERMSIG(status));
	return so_err(err, -EIO, "%s ended with status %d before it was ready", binary, WEXITSTATUS(status));
}

int private_daemon__start(struct private_daemon **out, struct so_error *err)
{
	_cleanup_(private_daemon) struct private_daemon *daemon = calloc(1, sizeof(*daemon));
	_cleanup_free_ char *binary = find_binary();
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char *argv[] = { binary, "--private", "--ready-fd", "3", "--socket", NULL, NULL };
	int pipe_fds[2], ret;

	_Static_assert(READY_FD == 3, "argv says 3");
	if (!daemon || !binary) {
		free(TAKE_PTR(daemon));
		return so_err(err, -ENOMEM, "out of memory");
	}
	daemon->ready_fd = -1;
	if (!(runtime && runtime[0] == '/' && make_dir(daemon, runtime)) && !make_dir(daemon, "/tmp"))
		return so_err(err, -errno, "cannot make a directory in /tmp: %s", strerror(errno));
	argv[5] = daemon->socket;
	if (pipe2(pipe_fds, O_CLOEXEC))
		return so_err(err, -errno, "cannot make a pipe: %s", strerror(errno));
	daemon->ready_fd = pipe_fds[0];
	daemon->pid = spawn(argv, pipe_fds[1], READY_FD);
	ret = -errno;
	close(pipe_fds[1]);
	if (daemon->pid < 0) {
		daemon->pid = 0;
		return so_err(err, ret, "cannot start a process: %s", strerror(-ret));
	}
	ret = wait_until_ready(daemon, binary, err);
	if (!ret)
		*out = TAKE_PTR(daemon);
	return ret;
}

const char *private_daemon__socket(const struct private_daemon *daemon)
{
	return daemon->socket;
}

void private_daemon__free(struct private_daemon *daemon)
{
	if (!daemon)
		return;
	cleanup__close(&daemon->ready_fd);
	if (daemon->pid > 0)
		end_process(daemon->pid, 0);
	if (daemon->dir[0]) {
		unlink(daemon->socket);
		rmdir(daemon->dir); /* unless the daemon did it */
	}
	free(daemon);
}

static char *read_all(int fd)
{
	char *text = malloc(MAX_CHECK_BYTES + 1);
	size_t used = 0;
	ssize_t n = 0;

	while (text && used < MAX_CHECK_BYTES) {
		n = read(fd, text + used, MAX_CHECK_BYTES - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (text)
		text[used] = '\0';
	return text;
}

int private_daemon__check(char **out, struct so_error *err)
{
	_cleanup_free_ char *binary = find_binary(), *text = NULL;
	char *argv[] = { binary, "--check-json", NULL };
	int pipe_fds[2], status = 0;
	pid_t pid;

	if (!binary)
		return so_err(err, -ENOMEM, "out of memory");
	if (pipe2(pipe_fds, O_CLOEXEC))
		return so_err(err, -errno, "cannot make a pipe: %s", strerror(errno));
	pid = spawn(argv, pipe_fds[1], STDOUT_FILENO);
	close(pipe_fds[1]);
	if (pid > 0)
		text = read_all(pipe_fds[0]);
	close(pipe_fds[0]);
	if (pid < 0)
		return so_err(err, -EAGAIN, "cannot start a process");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!text)
		return so_err(err, -ENOMEM, "out of memory");
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
		return so_err(err, -EIO, "cannot run %s", binary);
	if (WEXITSTATUS(status))
		return so_err(err, -EIO, "%s --check-json failed with status %d", binary, WEXITSTATUS(status));
	*out = TAKE_PTR(text);
	return 0;
}
