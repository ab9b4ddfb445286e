/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * N threads that work side by side, all from the same moment on; where asked, each sleeps for some microseconds
 * after every 60 of work. Usage: threads [seconds] [threads] [microseconds]
 */
#include <pthread.h>
#include <unistd.h>

#include "work.h"

static pthread_barrier_t all_made;
static double seconds, deadline;
static unsigned rest_us;

FRAME uint64_t thread_burn(uint64_t x)
{
	return work__mix(x, 20000) + 1;
}

static void *thread_main(void *arg)
{
	uint64_t first = 0;

	if (pthread_barrier_wait(&all_made) == PTHREAD_BARRIER_SERIAL_THREAD)
		deadline = work__now_s() + seconds;
	pthread_barrier_wait(&all_made);
	while (work__now_s() < deadline) {
		work__same(&first, thread_burn(9) + 1);
		if (rest_us)
			usleep(rest_us);
	}
	*(uint64_t *)arg = first;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
	pthread_t *threads = calloc(n, sizeof(*threads));
	uint64_t *results = calloc(n, sizeof(*results)), first = 0;
	pthread_attr_t attr;

	rest_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	seconds = argc > 1 ? atof(argv[1]) : 10;
	if (!threads || !results || pthread_barrier_init(&all_made, NULL, n + 1))
		return 1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 16);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&threads[i], &attr, thread_main, &results[i])) {
			fprintf(stderr, "threads: only %u of %u could be made\n", i, n);
			return 1;
		}
	work__ready();
	if (pthread_barrier_wait(&all_made) == PTHREAD_BARRIER_SERIAL_THREAD)
		deadline = work__now_s() + seconds;
	pthread_barrier_wait(&all_made);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		if (results[i])
			work__same(&first, results[i]);
	}
	free(threads);
	free(results);
	return work__done(first);
}
