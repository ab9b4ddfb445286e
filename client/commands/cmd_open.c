// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout open: the daemon's live page for a browser of this user. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/page_server.h"

#define WAIT_MS 1000

struct opening {
	unsigned port;
	bool no_browser;
};

/*
 * A file that leads to the page. Every user of the machine may read a command line, so the browser is not given the
 * address with its secret but the path of a file that this user alone may read. "": there is none.
 */
struct redirect {
	char dir[256], path[280];
};

static void redirect__remove(struct redirect *redirect)
{
	if (redirect->path[0]) {
		interrupt__forget(redirect->path);
		unlink(redirect->path);
	}
	if (redirect->dir[0])
		rmdir(redirect->dir);
}

static int redirect__write(const char *url, struct redirect *out)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	_cleanup_close_ int fd = -1;

	if ((size_t)snprintf(out->dir, sizeof(out->dir), "%s/stakeout-open-XXXXXX",
			     runtime && runtime[0] == '/' ? runtime : "/tmp") >= sizeof(out->dir) ||
	    !mkdtemp(out->dir)) {
		out->dir[0] = '\0';
		return -errno;
	}
	snprintf(out->path, sizeof(out->path), "%s/page.html", out->dir);
	fd = open(out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		out->path[0] = '\0';
		return -errno;
	}
	interrupt__remove_on_abort(out->path);
	return dprintf(fd,
		       "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
		       "<meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>stakeout</title>"
		       "<a href=\"%s\">stakeout</a>\n",
		       url, url) < 0
		       ? -EIO
		       : 0;
}

static bool has_display(void)
{
	const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");

	return (x11 && *x11) || (wayland && *wayland);
}

/* A browser is not root's program, and does not end with this one. */
static bool start_browser(const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

		/* In the background, so that its Ctrl-C is not this program's; and nobody has to wait for it. */
		if (setsid() < 0 || fork())
			_exit(0);
		dup2(nowhere, STDIN_FILENO);
		dup2(nowhere, STDOUT_FILENO);
		dup2(nowhere, STDERR_FILENO);
		execlp("xdg-open", "xdg-open", path, NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid;
}

static int show_page(struct api_client *api, void *context, struct so_error *err)
{
	const struct opening *opening = context;
	__attribute__((cleanup(redirect__remove))) struct redirect redirect = { .dir = "" };
	_cleanup_(page_server) struct page_server *server = NULL;
	int ret = page_server__start(api, (uint16_t)opening->port, &server, err);

	if (ret)
		return ret;
	interrupt__install();
	printf("%s\n", page_server__url(server));
	if (fflush(stdout))
		return so_err(err, -EIO, "cannot write to standard output");
	message__note("the page is at that address until Ctrl-C; whoever has the address sees what you may see");
	if (!opening->no_browser && geteuid() && has_display()) {
		ret = redirect__write(page_server__url(server), &redirect);
		if (ret || !start_browser(redirect.path))
			message__note("no browser could be started: give it the address");
	}
	while (!interrupt__pending())
		interrupt__sleep_ms(WAIT_MS);
	return 0;
}

int cmd_open(const struct globals *globals, int argc, char **argv)
{
	struct opening opening = { 0 };
	const struct option_entry entries[] = {
		{ OPTION_NUMBER, 0, "port", "PORT", OPTION_RANGE(&opening.port, 1, 65535),
		  "on 127.0.0.1 (default: a free one)" },
		{ OPTION_ON, 0, "no-browser", NULL, &opening.no_browser, "only print the address" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "open [OPTION]...",
		.about = "Shows the daemon's live page: processes that are watched and those of the history, their\n"
			 "time by category, flame graphs of any range, CUDA calls. Serves it on 127.0.0.1 until\n"
			 "Ctrl-C, with your rights, to whoever has the address that it prints; opens a browser where\n"
			 "there is a display and you are not root.",
		.entries = entries,
	};
	int status = running__parse(&table, argc, argv);

	return status >= 0 ? status : running__do(globals, show_page, &opening);
}
