// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/memory_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/bounded_call.h"
#include "daemon/os/clock.h"
#include "daemon/os/memory_helper.h"
#include "daemon/os/proc_file.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

/*
 * What could be read just now is not tried again for so long: a process that is looked at often costs 20 tries a
 * second.
 */
#define FRESH_NS 50000000ull
#define N_FRESH  16
/* mm_access() and access_remote_vm() take the locks, whatever the address. */
#define ANY_ADDRESS 4096

static struct {
	pthread_mutex_t lock;
	struct {
		pid_t pid;
		uint64_t until_ns;
	} fresh[N_FRESH];
	unsigned next_fresh;
	void (*try_process)(pid_t pid);
	unsigned patience_ms;
} checks = { .lock = PTHREAD_MUTEX_INITIALIZER, .patience_ms = MEMORY_LOCK_PATIENCE_MS };

/* What its owner could not read, root can: the right to look at it is not what is tried. */
static void try_memory(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[32], byte;

	snprintf(path, sizeof(path), "/proc/%d/mem", live_thread__of(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && pread(fd, &byte, 1, ANY_ADDRESS) < 0)
		return;
}

struct check {
	pid_t pid;
	void (*try_process)(pid_t pid);
};

static void run_check(void *context)
{
	const struct check *c = context;

	c->try_process(c->pid);
}

static bool is_fresh(pid_t pid)
{
	uint64_t now_ns = clock__now_ns();
	bool fresh = false;

	pthread_mutex_lock(&checks.lock);
	for (unsigned i = 0; i < N_FRESH; i++)
		fresh |= checks.fresh[i].pid == pid && now_ns < checks.fresh[i].until_ns;
	pthread_mutex_unlock(&checks.lock);
	return fresh;
}

static void note_fresh(pid_t pid)
{
	unsigned at;

	pthread_mutex_lock(&checks.lock);
	at = checks.next_fresh;
	for (unsigned i = 0; i < N_FRESH; i++)
		if (checks.fresh[i].pid == pid)
			at = i;
	if (at == checks.next_fresh)
		checks.next_fresh = (at + 1) % N_FRESH;
	checks.fresh[at].pid = pid;
	checks.fresh[at].until_ns = clock__now_ns() + FRESH_NS;
	pthread_mutex_unlock(&checks.lock);
}

static int check(pid_t pid, unsigned patience_ms)
{
	struct check *c;
	int ret;

	if (pid <= 0 || is_fresh(pid))
		return 0;
	c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct check){ pid, checks.try_process ?: try_memory };
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
							 .pid = pid,
							 .patience_ms = patience_ms,
							 .run = run_check,
							 .forget = free,
							 .context = c });
	if (ret)
		return -EBUSY;
	free(c);
	note_fresh(pid);
	return 0;
}

int memory_lock__check(pid_t pid)
{
	return check(pid, checks.patience_ms);
}

int memory_lock__check_now(pid_t pid)
{
	return check(pid, MEMORY_LOCK_READ_MS);
}

struct memory_read {
	pid_t pid;
	uint64_t address;
	size_t size, n;
	uint8_t bytes[];
};

static void run_read(void *context)
{
	struct memory_read *r = context;

	r->n = memory_helper__read(r->pid, r->address, r->bytes, r->size);
}

size_t memory_lock__read(pid_t pid, uint64_t address, void *buf, size_t size)
{
	struct memory_read *r = malloc(sizeof(*r) + size);
	size_t n;
	int ret;

	if (!r)
		return 0;
	*r = (struct memory_read){ .pid = pid, .address = address, .size = size };
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
							 .pid = pid,
							 .patience_ms = MEMORY_LOCK_READ_MS,
							 .run = run_read,
							 .forget = free,
							 .context = r });
	if (ret == -EINPROGRESS)
		memory_helper__replenish();
	if (ret)
		return 0;
	n = r->n;
	memcpy(buf, r->bytes, n);
	free(r);
	return n;
}

struct work {
	size_t bytes, n;
	_Alignas(16) uint8_t request[MEMORY_HELPER_REQUEST_BYTES];
	_Alignas(16) uint8_t answer[MEMORY_HELPER_ANSWER_BYTES];
};

static void run_work(void *context)
{
	struct work *w = context;

	w->n = memory_helper__work(w->request, w->bytes, w->answer);
}

size_t memory_lock__work(pid_t pid, const void *request, size_t bytes, unsigned things, void *answer)
{
	struct work *w = bytes && bytes <= MEMORY_HELPER_REQUEST_BYTES ? malloc(sizeof(*w)) : NULL;
	size_t n;
	int ret;

	if (!w)
		return 0;
	memcpy(w->request, request, bytes);
	w->bytes = bytes;
	w->n = 0;
	ret = bounded_call__make_of(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
							    .pid = pid,
							    .patience_ms = MEMORY_LOCK_PATIENCE_MS,
							    .run = run_work,
							    .forget = free,
							    .context = w },
				    things);
	if (ret == -EINPROGRESS)
		memory_helper__replenish();
	if (ret)
		return 0;
	n = w->n;
	memcpy(answer, w->answer, n);
	free(w);
	return n;
}

struct catch
{
	struct thread_catch_request requests[MEMORY_LOCK_CATCH];
	size_t n, caught;
	struct thread_memory memory[];
};

static void run_catch(void *context)
{
	struct catch *c = context;

	c->caught = memory_helper__catch(c->requests, c->memory, c->n);
}

size_t memory_lock__catch(const struct thread_catch_request *requests, struct thread_memory *out, size_t n)
{
	struct catch *c = n && n <= MEMORY_LOCK_CATCH ? malloc(sizeof(*c) + n * sizeof(c->memory[0])) : NULL;
	size_t caught;
	int ret;

	if (!c)
		return 0;
	memcpy(c->requests, requests, n * sizeof(*requests));
	c->n = n;
	c->caught = 0;
	ret = bounded_call__make_of(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
							    .pid = requests->pid,
							    .patience_ms = MEMORY_LOCK_READ_MS,
							    .run = run_catch,
							    .forget = free,
							    .context = c },
				    (unsigned)n);
	if (ret == -EINPROGRESS)
		memory_helper__replenish();
	if (ret)
		return 0;
	caught = c->caught;
	memcpy(out, c->memory, caught * sizeof(*out));
	free(c);
	return caught;
}

struct file_read {
	int proc_fd;
	pid_t pid;
	char name[16];
	size_t size;
	ssize_t n;
	char bytes[];
};

static void run_file_read(void *context)
{
	struct file_read *r = context;

	r->n = proc_file__read(r->proc_fd, r->pid, r->name, r->bytes, r->size);
}

ssize_t memory_lock__read_file(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	struct file_read *r = malloc(sizeof(*r) + size);
	ssize_t n;

	if (!r)
		return -ENOMEM;
	*r = (struct file_read){ .proc_fd = proc_fd, .pid = pid, .size = size };
	snprintf(r->name, sizeof(r->name), "%s", name);
	if (bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
						       .pid = pid,
						       .patience_ms = MEMORY_LOCK_PATIENCE_MS,
						       .run = run_file_read,
						       .forget = free,
						       .context = r }))
		return -EBUSY;
	n = r->n;
	if (n >= 0)
		memcpy(buf, r->bytes, (size_t)n + 1);
	free(r);
	return n;
}
