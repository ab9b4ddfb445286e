// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/denials.h"

#include <inttypes.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/limits.h"
#include "daemon/os/log.h"

#define SECOND_NS 1000000000ull
#define MAX_PATH  160 /* bytes of it that are said */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static uint64_t count;
static uint64_t second_ns; /* when the second began in which lines are counted */
static unsigned lines;     /* said in it */
static uint64_t left_out;  /* not said yet, nor in a sum */
static int timer_fd = -2;  /* -2: not tried */

static int timer(void)
{
	if (timer_fd == -2)
		timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return timer_fd;
}

int denials__timer_fd(void)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = timer();
	pthread_mutex_unlock(&lock);
	return fd;
}

/* Whether to say this one; *more: how many were left out before it. */
static bool take_line(uint64_t *more)
{
	static const struct itimerspec in_a_second = { .it_value = { .tv_sec = 1 } };
	uint64_t now = clock__now_ns();
	bool say;

	pthread_mutex_lock(&lock);
	count++;
	if (now - second_ns >= SECOND_NS) {
		second_ns = now;
		lines = 0;
	}
	say = lines < DENIALS_LINES_A_SECOND;
	*more = say ? left_out : 0;
	if (say) {
		lines++;
		left_out = 0;
	} else {
		limits__hit(LIMIT_DENIAL_LINES, 1);
		if (!left_out++ && timer() >= 0)
			timerfd_settime(timer_fd, 0, &in_a_second, NULL);
	}
	pthread_mutex_unlock(&lock);
	return say;
}

static void say_more(uint64_t more)
{
	if (more)
		log__info("denied: %" PRIu64 " more", more);
}

/* Of the peer: the user's name is looked up for lines that are said alone, since that may take a while. */
static void describe(const struct denial *d, char *text, size_t size)
{
	struct passwd entry, *found = NULL;
	char buffer[4096];

	if (d->uid == DENIALS_NO_UID) {
		snprintf(text, size, "%.100s", d->from ? d->from : "a peer over TCP");
		return;
	}
	if (getpwuid_r(d->uid, &entry, buffer, sizeof(buffer), &found) || !found)
		snprintf(text, size, "uid %u, pid %d", d->uid, d->pid);
	else
		snprintf(text, size, "uid %u (%.64s), pid %d", d->uid, found->pw_name, d->pid);
}

/* The path is the peer's to choose: quotes around it stay its only ones. */
static void quote(const char *path, char text[MAX_PATH + 1])
{
	snprintf(text, MAX_PATH + 1, "%s", path ? path : "");
	for (char *p = text; *p; p++)
		if (*p == '"')
			*p = '\'';
}

void denials__add(const struct denial *denial)
{
	char peer[256], path[MAX_PATH + 1];
	uint64_t more;

	if (!take_line(&more))
		return;
	say_more(more);
	describe(denial, peer, sizeof(peer));
	quote(denial->path, path);
	log__info("denied: %s: %.20s \"%s\": %.300s", peer, denial->method ? denial->method : "", path, denial->why);
}

void denials__flush(void)
{
	uint64_t more, expirations;

	pthread_mutex_lock(&lock);
	more = left_out;
	left_out = 0;
	if (timer_fd >= 0 && read(timer_fd, &expirations, sizeof(expirations)) < 0)
		expirations = 0; /* it had not expired */
	pthread_mutex_unlock(&lock);
	say_more(more);
}

uint64_t denials__count(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = count;
	pthread_mutex_unlock(&lock);
	return n;
}
