// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/sd_notify.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/clock.h"

/* A path, or '@' and a name in the abstract namespace, whose addresses begin with a NUL and do not end with one. */
static int parse_address(const char *text, struct sockaddr_un *out, socklen_t *size)
{
	size_t n = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || n < 2 || n >= sizeof(out->sun_path))
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	memcpy(out->sun_path, text, n);
	if (text[0] == '@')
		out->sun_path[0] = '\0';
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (text[0] == '/'));
	return 0;
}

int sd_notify__send(const char *state)
{
	const char *where = getenv("NOTIFY_SOCKET");
	_cleanup_close_ int fd = -1;
	struct sockaddr_un address;
	socklen_t size;
	int ret;

	if (!where || !where[0])
		return 0;
	ret = parse_address(where, &address, &size);
	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A manager that does not read must not hold up the daemon. */
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address, size) < 0)
		return -errno;
	return 1;
}

static bool parse_whole(const char *text, uint64_t *out)
{
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

uint64_t sd_notify__watchdog_us(void)
{
	const char *pid_text = getenv("WATCHDOG_PID");
	uint64_t usec, pid;

	if (pid_text && (!parse_whole(pid_text, &pid) || pid != (uint64_t)getpid()))
		return 0;
	return parse_whole(getenv("WATCHDOG_USEC"), &usec) ? usec : 0;
}

struct sd_watchdog {
	uint64_t interval_us;
	bool (*alive)(void *context);
	void *context;
	bool runs;
	pthread_t thread;
	pthread_mutex_t lock; /* guards stop */
	pthread_cond_t wake;
	bool stop;
};

/* True when the thread must end. */
static bool rest(struct sd_watchdog *w)
{
	uint64_t at_ns = clock__now_ns() + (w->interval_us / 2 > 1000 ? w->interval_us / 2 : 1000) * 1000;
	bool stop;

	pthread_mutex_lock(&w->lock);
	while (!w->stop && clock__wait(&w->wake, &w->lock, at_ns) != ETIMEDOUT)
		;
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

static void *run(void *arg)
{
	struct sd_watchdog *w = arg;

	do {
		if (w->alive(w->context))
			sd_notify__send("WATCHDOG=1");
	} while (!rest(w));
	return NULL;
}

int sd_watchdog__start(uint64_t interval_us, bool (*alive)(void *context), void *context, struct sd_watchdog **out,
		       struct so_error *err)
{
	struct sd_watchdog *w = calloc(1, sizeof(*w));
	int ret = 0;

	if (!w)
		return so_err(err, -ENOMEM, "out of memory");
	*w = (struct sd_watchdog){ .interval_us = interval_us, .alive = alive, .context = context };
	pthread_mutex_init(&w->lock, NULL);
	clock__init_cond(&w->wake);
	if (interval_us)
		ret = pthread_create(&w->thread, NULL, run, w);
	w->runs = interval_us && !ret;
	if (ret) {
		sd_watchdog__free(w);
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	}
	*out = w;
	return 0;
}

void sd_watchdog__free(struct sd_watchdog *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	if (w->runs)
		pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
