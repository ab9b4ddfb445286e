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

#include "daemon/os/clock.h"
#include "daemon/os/code_reader.h"
#include "daemon/os/limits.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_file.h"
#include "stakeout/cleanup.h"

/*
 * What could be read just now is not tried again for so long: a process that is looked at often costs 20 tries a
 * second.
 */
#define FRESH_NS    50000000ull
#define N_FRESH     16
#define MAX_IDLE    2
#define PATIENCE_NS (MEMORY_LOCK_PATIENCE_MS * 1000000ull)
/* mm_access() and access_remote_vm() take the locks, whatever the address. */
#define ANY_ADDRESS 4096

/* A thread that tries. All fields are under the pool's lock. */
struct trier {
	struct trier *next;
	pid_t pid;  /* 0: it has nothing to do */
	bool stuck; /* nobody waits for it any more */
	pthread_cond_t wake;
};

/* One for the program: the locks are the system's, and threads that hang cannot be given back. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool ready;
	struct trier *triers;
	unsigned n_idle, n_stuck;
	struct {
		pid_t pid;
		uint64_t until_ns;
	} fresh[N_FRESH];
	unsigned next_fresh;
	void (*try_process)(pid_t pid);
	uint64_t patience_ns;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .patience_ns = PATIENCE_NS };

/* What its owner could not read, root can: the right to look at it is not what is tried. */
static void read_memory(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[32], byte;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && pread(fd, &byte, 1, ANY_ADDRESS) < 0)
		return;
}

static void say(pid_t pid, bool stuck)
{
	struct proc_stat stat = { .comm = "?" };
	char text[512];

	if (proc_file__read(PROC_FILE_HERE, pid, "stat", text, sizeof(text)) > 0)
		proc_stat__parse(text, &stat);
	if (stuck)
		log__error("process %d (%s) holds the lock of its memory, as in uninterruptible sleep: what "
			   "needs to read it waits until it lets go",
			   pid, stat.comm);
	else
		log__info("process %d (%s) has let go the lock of its memory, or ended", pid, stat.comm);
}

static void *try_for_ever(void *context)
{
	void (*try_process)(pid_t pid);
	struct trier *t = context;
	bool was_stuck;
	pid_t pid;

	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (!t->pid)
			pthread_cond_wait(&t->wake, &pool.lock);
		pid = t->pid;
		try_process = pool.try_process ?: read_memory;
		pthread_mutex_unlock(&pool.lock);
		try_process(pid);
		pthread_mutex_lock(&pool.lock);
		was_stuck = t->stuck;
		t->pid = 0;
		t->stuck = false;
		pool.n_stuck -= was_stuck;
		pool.n_idle++;
		pthread_cond_broadcast(&pool.done);
		if (was_stuck) {
			pthread_mutex_unlock(&pool.lock);
			say(pid, false);
			pthread_mutex_lock(&pool.lock);
		}
		if (pool.n_idle > MAX_IDLE && !t->pid)
			break;
	}
	for (struct trier **at = &pool.triers; *at; at = &(*at)->next) {
		if (*at == t) {
			*at = t->next;
			break;
		}
	}
	pool.n_idle--;
	pthread_mutex_unlock(&pool.lock);
	pthread_cond_destroy(&t->wake);
	free(t);
	return NULL;
}

static struct trier *new_trier(void)
{
	struct trier *t = calloc(1, sizeof(*t));
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!t)
		return NULL;
	pthread_cond_init(&t->wake, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, try_for_ever, t);
	pthread_attr_destroy(&attr);
	if (rc) {
		pthread_cond_destroy(&t->wake);
		free(t);
		return NULL;
	}
	pthread_setname_np(thread, "memory lock");
	t->next = pool.triers;
	pool.triers = t;
	pool.n_idle++;
	return t;
}

static struct trier *find_trier(pid_t pid)
{
	for (struct trier *t = pool.triers; t; t = t->next)
		if (t->pid == pid)
			return t;
	return NULL;
}

static bool is_fresh(pid_t pid, uint64_t now_ns)
{
	for (unsigned i = 0; i < N_FRESH; i++)
		if (pool.fresh[i].pid == pid && now_ns < pool.fresh[i].until_ns)
			return true;
	return false;
}

static void note_fresh(pid_t pid, uint64_t now_ns)
{
	unsigned at = pool.next_fresh;

	for (unsigned i = 0; i < N_FRESH; i++)
		if (pool.fresh[i].pid == pid)
			at = i;
	if (at == pool.next_fresh)
		pool.next_fresh = (at + 1) % N_FRESH;
	pool.fresh[at].pid = pid;
	pool.fresh[at].until_ns = now_ns + FRESH_NS;
}

/* 0 when the trier is through. */
static int wait_for(const struct trier *t, pid_t pid)
{
	uint64_t at_ns = clock__now_ns() + pool.patience_ns;
	struct timespec at = { (time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000) };
	int rc = 0;

	while (find_trier(pid) == t && !t->stuck && !rc)
		rc = pthread_cond_timedwait(&pool.done, &pool.lock, &at);
	return find_trier(pid) == t ? -EBUSY : 0;
}

/* With the lock. *began: it hangs since now. */
static int check_locked(pid_t pid, bool *began)
{
	struct trier *t = find_trier(pid);
	int rc;

	if (!pool.ready) {
		clock__init_cond(&pool.done);
		pool.ready = true;
	}
	if (is_fresh(pid, clock__now_ns()))
		return 0;
	if (t && t->stuck)
		return -EBUSY;
	if (!t) {
		t = find_trier(0);
		if (!t && pool.n_stuck >= MEMORY_LOCK_MAX_STUCK) {
			limits__hit(LIMIT_STUCK, 1);
			return -EBUSY;
		}
		t = t ?: new_trier();
		/* Without a thread to try there is nothing to be done but to read. */
		if (!t)
			return 0;
		pool.n_idle--;
		t->pid = pid;
		pthread_cond_signal(&t->wake);
	}
	rc = wait_for(t, pid);
	if (!rc) {
		note_fresh(pid, clock__now_ns());
		return 0;
	}
	if (!t->stuck) {
		t->stuck = true;
		pool.n_stuck++;
		*began = true;
	}
	return rc;
}

int memory_lock__check(pid_t pid)
{
	bool began = false;
	int rc;

	if (pid <= 0)
		return 0;
	pthread_mutex_lock(&pool.lock);
	rc = check_locked(pid, &began);
	pthread_mutex_unlock(&pool.lock);
	if (began)
		say(pid, true);
	return rc;
}

size_t memory_lock__read(pid_t pid, uint64_t address, void *buf, size_t size)
{
	return memory_lock__check(pid) ? 0 : code_reader__read(pid, address, buf, size);
}

unsigned memory_lock__stuck(void)
{
	unsigned n;

	pthread_mutex_lock(&pool.lock);
	n = pool.n_stuck;
	pthread_mutex_unlock(&pool.lock);
	return n;
}
