/* SPDX-License-Identifier: GPL-2.0-or-later */
/* N threads that work side by side. Usage: threads [seconds] [threads] */
#include <pthread.h>

#include "work.h"

static double deadline;

FRAME uint64_t thread_burn(uint64_t x)
{
	return work__mix(x, 20000) + 1;
}

static void *thread_main(void *arg)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, thread_burn(9) + 1);
	*(uint64_t *)arg = first;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 4, made = 0;
	pthread_t *threads = calloc(n, sizeof(*threads));
	uint64_t *results = calloc(n, sizeof(*results)), first = 0;
	pthread_attr_t attr;

	deadline = work__deadline_s(argc, argv, 1, 10);
	if (!threads || !results)
		return 1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 16);
	for (; made < n; made++)
		if (pthread_create(&threads[made], &attr, thread_main, &results[made])) {
			fprintf(stderr, "threads: only %u of %u could be made\n", made, n);
			break;
		}
	work__ready();
	for (unsigned i = 0; i < made; i++) {
		pthread_join(threads[i], NULL);
		if (results[i])
			work__same(&first, results[i]);
	}
	free(threads);
	free(results);
	return work__done(first) || made != n;
}
