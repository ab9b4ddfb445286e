/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two threads on one CPU pass a byte to and fro: two context switches a round trip. Prints round trips a second
 * on standard error. Usage: switcher [seconds] [CPU]
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "work.h"

static int there[2], back[2];

static void *echo(void *arg)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return arg;
}

FRAME int round_trip(char *byte)
{
	return write(there[1], byte, 1) == 1 && read(back[0], byte, 1) == 1 ? 0 : -1;
}

int main(int argc, char **argv)
{
	double start = work__now_s(), deadline = work__deadline_s(argc, argv, 1, 10);
	unsigned long trips = 0;
	pthread_t thread;
	cpu_set_t one;
	char byte = 'x';

	CPU_ZERO(&one);
	CPU_SET(argc > 2 ? (unsigned)atoi(argv[2]) : 0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, echo, NULL)) {
		perror("switcher");
		return 1;
	}
	work__ready();
	while (work__now_s() < deadline)
		for (int i = 0; i < 1000; i++, trips++)
			if (round_trip(&byte))
				return 1;
	fprintf(stderr, "trips_per_s %.0f\n", (double)trips / (work__now_s() - start));
	close(there[1]);
	pthread_join(thread, NULL);
	return work__done((uint64_t)byte);
}
