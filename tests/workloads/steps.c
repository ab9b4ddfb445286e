/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of steps that knows its own times. Usage: steps STEPS MS [SLOW_MS]; begins at a byte on standard input.
 * Of a hundred steps four take SLOW_MS longer: one computes, one waits for a lock, one for a pipe, one sleeps. The last
 * line is JSON: when each step began, in nanoseconds since the first one.
 */
#include <pthread.h>
#include <unistd.h>

#include "work.h"

#define FAST_NS 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int asked[2], answered[2], held[2];
static unsigned slow_us;
static uint64_t sink;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static FRAME void compute(uint64_t ns)
{
	for (uint64_t end = now_ns() + ns; now_ns() < end;)
		sink = work__mix(sink, 100);
}

/* Holds the lock, or writes to the pipe after a while. */
static void *other(void *unused)
{
	char what;

	while (read(asked[0], &what, 1) == 1) {
		if (what == 'l') {
			pthread_mutex_lock(&lock);
			if (write(held[1], "x", 1) != 1)
				break;
			usleep(slow_us);
			pthread_mutex_unlock(&lock);
		} else {
			usleep(slow_us);
			if (write(answered[1], "x", 1) != 1)
				break;
		}
	}
	return unused;
}

static FRAME void collect_garbage(void)
{
	compute(slow_us * 1000ull);
}

static FRAME void take_lock(void)
{
	char byte;

	if (write(asked[1], "l", 1) != 1 || read(held[0], &byte, 1) != 1)
		abort();
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	__asm__ volatile("");
}

static FRAME void read_batch(void)
{
	char byte;

	if (write(asked[1], "p", 1) != 1 || read(answered[0], &byte, 1) != 1)
		abort();
	__asm__ volatile("");
}

static FRAME void launch_slowly(void)
{
	usleep(slow_us);
	__asm__ volatile("");
}

static FRAME void training_step(unsigned i, uint64_t fast_ns)
{
	compute(fast_ns);
	if (!slow_us)
		return;
	if (i % 100 == 20)
		collect_garbage();
	else if (i % 100 == 40)
		take_lock();
	else if (i % 100 == 60)
		read_batch();
	else if (i % 100 == 80)
		launch_slowly();
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	uint64_t fast_ns = argc > 2 ? (uint64_t)(atof(argv[2]) * 1e6) : FAST_NS,
		 *begins = calloc(n + 1, sizeof(*begins));
	pthread_t thread;

	slow_us = argc > 3 ? (unsigned)(atof(argv[3]) * 1e3) : 0;
	if (!begins || pipe(asked) || pipe(answered) || pipe(held) || pthread_create(&thread, NULL, other, NULL))
		return 1;
	printf("ready\n");
	fflush(stdout);
	getchar();
	for (unsigned i = 0; i < n; i++) {
		begins[i] = now_ns();
		training_step(i, fast_ns);
	}
	printf("[");
	for (unsigned i = 0; i < n; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)(begins[i] - begins[0]));
	printf("]\n");
	return 0;
}
