// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/os/clock.h"

/*
 * After a writer the gate stays open for a grace period, which takes some ticks (of 1 to 10 ms) as a rule: a writer before that keeps it
 * open for another one. Where that one has to wait, it was too late, and the gate is closed until it has passed.
 */
#define AGAIN_NS 2500000ull
#define OPEN_NS  4500000ull
#define WAIT_NS  1000000ull /* a writer that takes longer is waiting */
#define AVOID_NS 10000000000ull

struct cuda_gate {
	int (*write)(void *context);
	void (*close)(void *context, int fd);
	void *context;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t wanted_ns;  /* until then */
	uint64_t written_ns; /* the last writer has passed; 0: none has */
	uint64_t writing_ns; /* since then one is on its way; 0: none is */
	uint64_t tried_ns;   /* as written_ns, and where there was none to be had */
	uint64_t avoided_ns; /* no writer until then */
	bool failed, stop;
};

static void wait_until(struct cuda_gate *gate, uint64_t at_ns)
{
	struct timespec at = { (time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000) };

	pthread_cond_timedwait(&gate->changed, &gate->lock, &at);
}

static void be_writer(struct cuda_gate *gate)
{
	int fd;

	gate->writing_ns = clock__now_ns();
	pthread_mutex_unlock(&gate->lock);
	fd = gate->write(gate->context);
	if (fd >= 0)
		gate->close(gate->context, fd);
	pthread_mutex_lock(&gate->lock);
	gate->writing_ns = 0;
	gate->tried_ns = clock__now_ns();
	if (fd == -EBUSY)
		gate->avoided_ns = gate->tried_ns + AVOID_NS;
	if (fd == -EAGAIN || fd == -EBUSY)
		return;
	gate->failed = fd < 0;
	gate->written_ns = gate->tried_ns;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void *work(void *context)
{
	struct cuda_gate *gate = context;

	pthread_mutex_lock(&gate->lock);
	while (!gate->stop) {
		uint64_t now = clock__now_ns(), next = later(gate->tried_ns + AGAIN_NS, gate->avoided_ns);

		if (now >= gate->wanted_ns || gate->wanted_ns <= gate->avoided_ns)
			pthread_cond_wait(&gate->changed, &gate->lock);
		else if (now < next)
			wait_until(gate, next);
		else
			be_writer(gate);
	}
	pthread_mutex_unlock(&gate->lock);
	return NULL;
}

int cuda_gate__new(int (*write)(void *context), void (*close)(void *context, int fd), void *context,
		   struct cuda_gate **out)
{
	struct cuda_gate *gate = calloc(1, sizeof(*gate));
	int ret;

	if (!gate)
		return -ENOMEM;
	gate->write = write;
	gate->close = close;
	gate->context = context;
	pthread_mutex_init(&gate->lock, NULL);
	clock__init_cond(&gate->changed);
	ret = -pthread_create(&gate->thread, NULL, work, gate);
	if (ret) {
		pthread_cond_destroy(&gate->changed);
		pthread_mutex_destroy(&gate->lock);
		free(gate);
		return ret;
	}
	pthread_setname_np(gate->thread, "gate");
	*out = gate;
	return 0;
}

void cuda_gate__want(struct cuda_gate *gate, uint64_t until_ns)
{
	pthread_mutex_lock(&gate->lock);
	if (until_ns > gate->wanted_ns) {
		gate->wanted_ns = until_ns;
		pthread_cond_signal(&gate->changed);
	}
	pthread_mutex_unlock(&gate->lock);
}

bool cuda_gate__is_open(struct cuda_gate *gate)
{
	uint64_t now = clock__now_ns();
	bool open;

	pthread_mutex_lock(&gate->lock);
	open = gate->failed || now < gate->avoided_ns ||
	       (gate->written_ns && now < gate->written_ns + OPEN_NS &&
		(!gate->writing_ns || now < gate->writing_ns + WAIT_NS));
	pthread_mutex_unlock(&gate->lock);
	return open;
}

void cuda_gate__free(struct cuda_gate *gate)
{
	if (!gate)
		return;
	pthread_mutex_lock(&gate->lock);
	gate->stop = true;
	pthread_cond_signal(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
	pthread_join(gate->thread, NULL);
	pthread_cond_destroy(&gate->changed);
	pthread_mutex_destroy(&gate->lock);
	free(gate);
}
