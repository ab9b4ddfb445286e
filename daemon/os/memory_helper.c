// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/memory_helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/os/process_memory.h"
#include "daemon/os/helper_process.h"
#include "daemon/os/log.h"
#include "stakeout/cleanup.h"

#define PROGRAM     "/proc/self/exe"
#define CHUNK_BYTES (32u << 10) /* of one message */
#define SPARE       2           /* that are ready, beside such as hang */

/* Of memory, or of all that a thread's stack is made of. */
struct request {
	pid_t pid;
	uint32_t size; /* CHUNK_BYTES at most; 0: `thread` is asked for, or work */
	uint64_t address;
	struct thread_catch_request thread;
	uint32_t work_bytes; /* of a request for work, which is the next message */
};

struct answer {
	uint32_t n;
	uint8_t bytes[CHUNK_BYTES];
};

struct memory_helper {
	struct memory_helper *next;           /* of those that are idle */
	struct memory_helper *before, *after; /* of all */
	struct helper_process process;
	int fd;
};

static struct {
	pthread_mutex_t lock;
	struct memory_helper *idle, *all;
	unsigned n_idle, n_starting;
	bool enabled;
	memory_helper_work work;
} helpers = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One that was started while all were killed is no exception. */
static void list(struct memory_helper *h)
{
	pthread_mutex_lock(&helpers.lock);
	if (!helpers.enabled)
		kill(h->process.pid, SIGKILL);
	h->after = helpers.all;
	if (h->after)
		h->after->before = h;
	helpers.all = h;
	pthread_mutex_unlock(&helpers.lock);
}

static void unlist(struct memory_helper *h)
{
	pthread_mutex_lock(&helpers.lock);
	if (h->after)
		h->after->before = h->before;
	*(h->before ? &h->before->after : &helpers.all) = h->after;
	pthread_mutex_unlock(&helpers.lock);
}

static void end_helper(struct memory_helper *h)
{
	unlist(h);
	close(h->fd);
	helper_process__end(&h->process);
	free(h);
}

static struct memory_helper *start_helper(void)
{
	struct memory_helper *h = calloc(1, sizeof(*h));
	int pair[2];

	if (!h || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(h);
		return NULL;
	}
	h->fd = pair[0];
	if (helper_process__start(&h->process, PROGRAM, MEMORY_HELPER_ARGUMENT, pair[1])) {
		close(h->fd);
		free(TAKE_PTR(h));
	}
	close(pair[1]);
	if (h)
		list(h);
	return h;
}

static struct memory_helper *take_helper(void)
{
	struct memory_helper *h;

	pthread_mutex_lock(&helpers.lock);
	h = helpers.idle;
	if (h) {
		helpers.idle = h->next;
		helpers.n_idle--;
	}
	pthread_mutex_unlock(&helpers.lock);
	return h;
}

/* There may be more than are wanted, when one that hung goes on. */
static void give_helper(struct memory_helper *h)
{
	pthread_mutex_lock(&helpers.lock);
	if (helpers.n_idle < 2 * SPARE) {
		h->next = helpers.idle;
		helpers.idle = TAKE_PTR(h);
		helpers.n_idle++;
	}
	pthread_mutex_unlock(&helpers.lock);
	if (h)
		end_helper(h);
}

static bool ask(struct memory_helper *h, const struct request *request, struct answer *answer)
{
	ssize_t n;

	if (send(h->fd, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
		return false;
	n = recv(h->fd, answer, sizeof(*answer), 0);
	return n >= (ssize_t)offsetof(struct answer, bytes) && answer->n <= request->size &&
	       (size_t)n == offsetof(struct answer, bytes) + answer->n;
}

/* Piece by piece, up to the first one that is not read whole. */
static bool read_all(struct memory_helper *h, pid_t pid, uint64_t address, uint8_t *buf, size_t size, size_t *n)
{
	struct answer answer;

	for (*n = 0; *n < size; *n += answer.n) {
		size_t left = size - *n;
		struct request request = { .pid = pid,
					   .size = left < CHUNK_BYTES ? left : CHUNK_BYTES,
					   .address = address + *n };

		if (!ask(h, &request, &answer))
			return false;
		memcpy(buf + *n, answer.bytes, answer.n);
		if (answer.n < request.size) {
			*n += answer.n;
			return true;
		}
	}
	return true;
}

/* Once. */
static void say_none(void)
{
	static bool said;

	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		log__error("cannot start a process that reads the memory of others: the daemon reads it itself, and "
			   "cannot end while such a read hangs");
}

/* It takes part when it has answered once: a program may take long to start. */
static void *start_spare(void *context)
{
	const struct request nothing = { .pid = getpid(), .size = 1 };
	struct memory_helper *h = start_helper();
	struct answer answer;
	bool failed;

	if (h && !ask(h, &nothing, &answer)) {
		end_helper(h);
		h = NULL;
	}
	if (h)
		give_helper(h);
	pthread_mutex_lock(&helpers.lock);
	helpers.n_starting--;
	/* At the daemon's end all are killed, also one that is starting. */
	failed = !h && helpers.enabled;
	pthread_mutex_unlock(&helpers.lock);
	if (failed)
		say_none();
	return NULL;
}

void memory_helper__replenish(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool failed = false;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&helpers.lock);
	while (helpers.enabled && helpers.n_idle + helpers.n_starting < SPARE) {
		failed = pthread_create(&thread, &attr, start_spare, NULL);
		if (failed)
			break;
		helpers.n_starting++;
	}
	pthread_mutex_unlock(&helpers.lock);
	if (failed)
		say_none();
	pthread_attr_destroy(&attr);
}

void memory_helper__kill_all(void)
{
	pthread_mutex_lock(&helpers.lock);
	helpers.enabled = false;
	for (struct memory_helper *h = helpers.all; h; h = h->after)
		if (h->process.pid > 0)
			kill(h->process.pid, SIGKILL);
	pthread_mutex_unlock(&helpers.lock);
}

void memory_helper__enable(bool now)
{
	pthread_mutex_lock(&helpers.lock);
	helpers.enabled = true;
	pthread_mutex_unlock(&helpers.lock);
	if (now)
		memory_helper__replenish();
}

static bool ask_for_thread(struct memory_helper *h, const struct thread_catch_request *thread,
			   struct thread_memory *out)
{
	const struct request request = { .pid = thread->pid, .thread = *thread };
	ssize_t n;

	if (send(h->fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		return false;
	n = recv(h->fd, out, sizeof(*out), 0);
	return n > 0 && thread_memory__is_whole(out, (size_t)n);
}

size_t memory_helper__catch(const struct thread_catch_request *requests, struct thread_memory *out, size_t n)
{
	struct memory_helper *h = take_helper();
	size_t done = 0;

	if (!h)
		memory_helper__replenish();
	for (; !h && done < n; done++)
		thread_catch(&requests[done], &out[done]);
	while (done < n && ask_for_thread(h, &requests[done], &out[done]))
		done++;
	if (h && done == n) {
		give_helper(h);
	} else if (h) {
		end_helper(h);
		memory_helper__replenish();
	}
	return done;
}

size_t memory_helper__read(pid_t pid, uint64_t address, void *buf, size_t size)
{
	struct memory_helper *h = take_helper();
	size_t n = 0;

	if (!h) {
		memory_helper__replenish();
		return process_memory__read(pid, address, buf, size);
	}
	if (read_all(h, pid, address, buf, size, &n)) {
		give_helper(h);
		return n;
	}
	end_helper(h);
	memory_helper__replenish();
	return n;
}

void memory_helper__set_work(memory_helper_work work)
{
	helpers.work = work;
}

static bool ask_for_work(struct memory_helper *h, const void *work, size_t bytes, void *out, size_t *n)
{
	const struct request request = { .work_bytes = (uint32_t)bytes };
	ssize_t got;

	if (send(h->fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
	    send(h->fd, work, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return false;
	got = recv(h->fd, out, MEMORY_HELPER_ANSWER_BYTES, 0);
	*n = got > 0 ? (size_t)got : 0;
	return got > 0;
}

size_t memory_helper__work(const void *request, size_t bytes, void *answer)
{
	struct memory_helper *h = take_helper();
	size_t n = 0;

	if (!h) {
		memory_helper__replenish();
		return helpers.work(request, bytes, answer);
	}
	if (ask_for_work(h, request, bytes, answer, &n)) {
		give_helper(h);
		return n;
	}
	end_helper(h);
	memory_helper__replenish();
	return 0;
}

static bool answer_work(const struct request *request)
{
	static _Alignas(16) uint8_t work[MEMORY_HELPER_REQUEST_BYTES], out[MEMORY_HELPER_ANSWER_BYTES];
	ssize_t n = recv(STDIN_FILENO, work, sizeof(work), 0);
	size_t bytes;

	if (!helpers.work || n != (ssize_t)request->work_bytes)
		return false;
	bytes = helpers.work(work, (size_t)n, out);
	return bytes && send(STDIN_FILENO, out, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool answer_thread(const struct request *request)
{
	static struct thread_memory memory;
	size_t bytes;

	thread_catch(&request->thread, &memory);
	bytes = thread_memory__bytes(&memory);
	return send(STDIN_FILENO, &memory, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool answer_read(const struct request *request)
{
	static struct answer answer;

	if (request->size > sizeof(answer.bytes))
		return false;
	answer.n = (uint32_t)process_memory__read(request->pid, request->address, answer.bytes, request->size);
	return send(STDIN_FILENO, &answer, offsetof(struct answer, bytes) + answer.n, MSG_NOSIGNAL) >= 0;
}

static bool answer_request(const struct request *request)
{
	if (request->work_bytes)
		return answer_work(request);
	return request->size ? answer_read(request) : answer_thread(request);
}

void memory_helper__run(void)
{
	struct request request;

	/* The name by which rules know what is never a target. */
	prctl(PR_SET_NAME, "stakeoutd");
	while (recv(STDIN_FILENO, &request, sizeof(request), 0) == sizeof(request)) {
		if (!answer_request(&request))
			break;
	}
	_exit(0);
}
