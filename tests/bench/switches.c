// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two threads that hand a byte to and fro through pipes, so that both switch all the time. Prints "ready", then once a
 * tenth of a second how often it went round since.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000000

static int there[2], back[2];

static void *answer(__attribute__((unused)) void *context)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return NULL;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int main(void)
{
	int64_t began_ns = now_ns();
	pthread_t thread;
	char byte = 0;
	long rounds = 0;

	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, answer, NULL))
		return EXIT_FAILURE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1) {
		rounds++;
		if (now_ns() - began_ns < PERIOD_NS)
			continue;
		printf("%ld\n", rounds);
		rounds = 0;
		began_ns = now_ns();
	}
	return EXIT_FAILURE;
}
