// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/unit/http_probe.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir_[64], path_[128];
static pid_t owner_;

static void die(const char *what)
{
	perror(what);
	abort();
}

static void remove_dir(void)
{
	if (getpid() != owner_)
		return;
	unlink(path_);
	rmdir(dir_);
}

const char *http_probe__socket_path(void)
{
	if (path_[0])
		return path_;
	strcpy(dir_, "/tmp/stakeout-test-XXXXXX");
	if (!mkdtemp(dir_) || chmod(dir_, 0755))
		die("mkdtemp");
	snprintf(path_, sizeof(path_), "%s/sock", dir_);
	owner_ = getpid();
	atexit(remove_dir);
	return path_;
}

int http_probe__connect(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("connect");
	return fd;
}

/* A server that answered before it read everything may have closed: the answer is what counts. */
void http_probe__send(int fd, const char *bytes, size_t length)
{
	while (length) {
		ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);

		if (n < 0)
			return;
		bytes += n;
		length -= (size_t)n;
	}
}

static ssize_t receive(int fd, char *out, size_t size, double until_s)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int left_ms = (int)((until_s - http_probe__now_s()) * 1000);

	if (left_ms <= 0 || poll(&wait, 1, left_ms) <= 0)
		return 0;
	return recv(fd, out, size, 0);
}

struct http_answer http_probe__receive(int fd)
{
	struct http_answer answer = { 0 };
	double until_s = http_probe__now_s() + 10;
	char text[sizeof(answer.headers) + sizeof(answer.body)];
	size_t used = 0, wanted = 0, head = 0;

	while (used + 1 < sizeof(text) && (!head || used < head + wanted)) {
		ssize_t n = receive(fd, text + used, sizeof(text) - 1 - used, until_s);
		const char *end, *length;

		if (n <= 0)
			break;
		used += (size_t)n;
		text[used] = '\0';
		end = head ? NULL : strstr(text, "\r\n\r\n");
		if (!end)
			continue;
		head = (size_t)(end - text) + 4;
		length = strcasestr(text, "content-length:");
		wanted = length ? strtoul(length + 15, NULL, 10) : 0;
	}
	if (!head || head >= sizeof(answer.headers) || used - head >= sizeof(answer.body))
		return answer;
	memcpy(answer.headers, text, head);
	answer.body_bytes = used - head;
	memcpy(answer.body, text + head, answer.body_bytes);
	answer.status = (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
	return answer;
}

struct http_answer http_probe__request(const char *path, const char *method, const char *url, const char *body)
{
	struct http_answer answer;
	char head[1024];
	int fd = http_probe__connect(path);
	int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, url);

	if (body)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Content-Length: %zu\r\n", strlen(body));
	n += snprintf(head + n, sizeof(head) - (size_t)n, "\r\n");
	http_probe__send(fd, head, (size_t)n);
	if (body)
		http_probe__send(fd, body, strlen(body));
	answer = http_probe__receive(fd);
	close(fd);
	return answer;
}

struct http_answer http_probe__request_as(uid_t uid, const char *path, const char *method, const char *url,
					  const char *body)
{
	struct http_answer *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct http_answer answer;
	pid_t pid;

	if (shared == MAP_FAILED)
		die("mmap");
	pid = fork();
	if (pid == 0) {
		if (setuid(uid))
			_exit(1);
		*shared = http_probe__request(path, method, url, body);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		die("fork");
	answer = *shared;
	munmap(shared, sizeof(*shared));
	return answer;
}

double http_probe__now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}
