/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Its first thread has ended; one thread works, from SIGUSR1 on in a library that it loads then, another one sleeps.
 * Usage: leader_exits LIBRARY [seconds]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work.h"

static const char *library_path;
static double deadline;
static volatile sig_atomic_t load;

static void on_signal(int number)
{
	load = number;
}

FRAME uint64_t works(void)
{
	uint64_t first = 0;

	while (!load && work__now_s() < deadline)
		work__same(&first, work__mix(19, 20000));
	return first;
}

static void *worker(void *context)
{
	uint64_t (*run)(double), before = works();
	void *library = dlopen(library_path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "leader_exits: %s\n", dlerror());
		exit(1);
	}
	*(void **)&run = dlsym(library, "plugin_run");
	exit(work__done(before + (run ? run(deadline) : 0)));
	return context;
}

FRAME void *sleeper(void *context)
{
	while (work__now_s() < deadline)
		sleep(600);
	return context;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2) {
		fprintf(stderr, "usage: leader_exits LIBRARY [seconds]\n");
		return 2;
	}
	library_path = argv[1];
	deadline = work__deadline_s(argc, argv, 2, 10);
	signal(SIGUSR1, on_signal);
	if (pthread_create(&thread, NULL, worker, NULL) || pthread_create(&thread, NULL, sleeper, NULL))
		return 1;
	work__ready();
	syscall(SYS_exit, 0);
}
