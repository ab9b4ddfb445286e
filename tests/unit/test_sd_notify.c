// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/os/sd_notify.h"

/* A manager's socket; `text` as NOTIFY_SOCKET has it. */
static int manager(const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	size_t n = strlen(text);

	memcpy(address.sun_path, text, n);
	if (text[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (text[0] == '/'))),
			 0);
	setenv("NOTIFY_SOCKET", text, 1);
	return fd;
}

/* The next datagram, or "" when none comes in that time. */
static const char *heard(int fd, int wait_ms)
{
	static char text[256];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = poll(&p, 1, wait_ms) > 0 ? recv(fd, text, sizeof(text) - 1, 0) : 0;

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void goes_to_a_path(void **state)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/stakeout-notify-%d", (int)getpid());
	fd = manager(path);
	assert_int_equal(sd_notify__send("READY=1"), 1);
	assert_string_equal(heard(fd, 1000), "READY=1");
	close(fd);
	unlink(path);
	assert_int_equal(sd_notify__send("READY=1"), -ENOENT);
}

static void goes_to_an_abstract_name(void **state)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "@stakeout-notify-%d", (int)getpid());
	fd = manager(name);
	assert_int_equal(sd_notify__send("STOPPING=1"), 1);
	assert_string_equal(heard(fd, 1000), "STOPPING=1");
	close(fd);
	assert_int_equal(sd_notify__send("READY=1"), -ECONNREFUSED);
}

static void nobody_asked(void **state)
{
	char large[256];

	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(sd_notify__send("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(sd_notify__send("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
	assert_int_equal(sd_notify__send("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "/", 1);
	assert_int_equal(sd_notify__send("READY=1"), -EINVAL);
	memset(large, '/', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	setenv("NOTIFY_SOCKET", large, 1);
	assert_int_equal(sd_notify__send("READY=1"), -EINVAL);
}

static uint64_t watchdog_us(const char *usec, const char *pid)
{
	if (usec)
		setenv("WATCHDOG_USEC", usec, 1);
	else
		unsetenv("WATCHDOG_USEC");
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	else
		unsetenv("WATCHDOG_PID");
	return sd_notify__watchdog_us();
}

static void watchdog_is_asked_of_this_process(void **state)
{
	char own[16];

	snprintf(own, sizeof(own), "%d", (int)getpid());
	assert_int_equal(watchdog_us(NULL, NULL), 0);
	assert_int_equal(watchdog_us("30000000", NULL), 30000000);
	assert_int_equal(watchdog_us("30000000", own), 30000000);
	assert_int_equal(watchdog_us("30000000", "1"), 0);
	assert_int_equal(watchdog_us("30000000", "x"), 0);
	assert_int_equal(watchdog_us("-1", NULL), 0);
	assert_int_equal(watchdog_us("5s", NULL), 0);
	assert_int_equal(watchdog_us("99999999999999999999999", NULL), 0);
}

static atomic_bool alive_;
static atomic_int asked_;

static bool alive(void *context)
{
	assert_ptr_equal(context, &alive_);
	asked_++;
	return alive_;
}

static void pings_while_alive(void **state)
{
	_cleanup_(sd_watchdog) struct sd_watchdog *watchdog = NULL;
	char name[64];
	int fd, seen;

	snprintf(name, sizeof(name), "@stakeout-watchdog-%d", (int)getpid());
	fd = manager(name);
	alive_ = true;
	assert_int_equal(sd_watchdog__start(40000, alive, &alive_, &watchdog, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_string_equal(heard(fd, 5000), "WATCHDOG=1");
	alive_ = false;
	for (seen = asked_; asked_ < seen + 2;)
		usleep(1000);
	while (heard(fd, 0)[0])
		; /* what was on its way */
	for (seen = asked_; asked_ < seen + 3;)
		usleep(1000);
	assert_string_equal(heard(fd, 0), "");
	alive_ = true;
	assert_string_equal(heard(fd, 5000), "WATCHDOG=1");
	close(fd);
}

static void no_watchdog_asks_nothing(void **state)
{
	struct sd_watchdog *watchdog = NULL;
	int before = asked_;

	assert_int_equal(sd_watchdog__start(0, alive, &alive_, &watchdog, NULL), 0);
	usleep(20000);
	sd_watchdog__free(watchdog);
	assert_int_equal(asked_, before);
}

/* An hour's interval must not hold up the end. */
static void ends_at_once(void **state)
{
	struct sd_watchdog *watchdog = NULL;

	alive_ = false;
	assert_int_equal(sd_watchdog__start(3600000000ull, alive, &alive_, &watchdog, NULL), 0);
	alarm(20);
	sd_watchdog__free(watchdog);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_to_a_path),    cmocka_unit_test(goes_to_an_abstract_name),
		cmocka_unit_test(nobody_asked),      cmocka_unit_test(watchdog_is_asked_of_this_process),
		cmocka_unit_test(pings_while_alive), cmocka_unit_test(no_watchdog_asks_nothing),
		cmocka_unit_test(ends_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
