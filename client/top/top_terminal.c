// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "client/session/interrupt.h"

/* The other screen, without a cursor and without wrapping; and back (xterm's control sequences, which all have). */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

static struct termios before_;
static volatile sig_atomic_t open_;

/* From a handler, too. */
static void restore(void)
{
	const char *bytes = LEAVE;
	size_t left = sizeof(LEAVE) - 1;
	ssize_t n = 1;

	if (!open_)
		return;
	open_ = 0;
	for (; left && n > 0; bytes += n, left -= (size_t)n)
		n = write(STDOUT_FILENO, bytes, left);
	tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

/* Only so that waiting ends. */
static void on_size(int signo)
{
}

bool top_terminal__is_there(struct so_error *err)
{
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return true;
	so_err(err, -ENOTTY, "top needs a terminal; --once prints one screen as text");
	return false;
}

int top_terminal__open(struct so_error *err)
{
	struct sigaction action = { .sa_handler = on_size };
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &before_))
		return so_err(err, -errno, "cannot set up the terminal: %s", strerror(errno));
	raw = before_;
	raw.c_iflag &= (tcflag_t) ~(ICRNL | IXON);
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO | IEXTEN);
	/* Ctrl-C is a signal as ever; the others would leave the terminal as it is now. */
	raw.c_cc[VQUIT] = raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	sigemptyset(&action.sa_mask);
	sigaction(SIGWINCH, &action, NULL);
	open_ = 1;
	interrupt__call_on_abort(restore);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) || top_terminal__write(ENTER, sizeof(ENTER) - 1)) {
		restore();
		return so_err(err, -EIO, "cannot set up the terminal: %s", strerror(errno));
	}
	return 0;
}

void top_terminal__close(void)
{
	restore();
	interrupt__call_on_abort(NULL);
}

void top_terminal__size(unsigned *width, unsigned *height)
{
	struct winsize size = { .ws_col = 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*width = size.ws_col ?: 80;
	*height = size.ws_row ?: 24;
}

ssize_t top_terminal__read(char *bytes, size_t size, unsigned wait_ms)
{
	struct pollfd wait = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;

	if (poll(&wait, 1, (int)wait_ms) <= 0)
		return 0;
	n = read(STDIN_FILENO, bytes, size);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	return n ?: -EIO;
}

int top_terminal__write(const char *bytes, size_t n)
{
	while (n) {
		ssize_t written = write(STDOUT_FILENO, bytes, n);

		if (written < 0 && errno == EINTR && !interrupt__pending())
			continue;
		if (written < 0 && errno == EAGAIN) {
			poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, 100);
			if (!interrupt__pending())
				continue;
		}
		if (written < 0)
			return -errno;
		bytes += written;
		n -= (size_t)written;
	}
	return 0;
}
