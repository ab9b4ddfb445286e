/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads two libraries in turn, each where the other one was, and works in each for a while. Begins when a line can be
 * read. Usage: reloader LIBRARY LIBRARY [loads] [ms in a] [ms in b]. The libraries are reload_a.so and reload_b.so, or
 * what is renamed to their paths meanwhile. At the end it prints the CPU time spent in each, and how many loads were
 * not where the first one was: "a NS b NS moved N".
 */
#include <dlfcn.h>
#include <inttypes.h>

#include "work.h"

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

FRAME uint64_t run_library(void *library, double seconds)
{
	uint64_t (*run)(double);

	*(void **)&run = dlsym(library, "reloaded_run");
	return run ? run(work__now_s() + seconds) + 1 : 0;
}

static void *load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "reloader: %s\n", dlerror());
		exit(1);
	}
	return library;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 3 ? (unsigned)atoi(argv[3]) : 1000, moved = 0;
	double seconds[2] = { argc > 4 ? atof(argv[4]) * 1e-3 : 0.006, argc > 5 ? atof(argv[5]) * 1e-3 : 0.014 };
	uint64_t spent_ns[2] = { 0, 0 };
	const char *first = NULL;

	if (argc < 3) {
		fprintf(stderr, "usage: reloader LIBRARY LIBRARY [loads] [ms in a] [ms in b]\n");
		return 2;
	}
	work__ready();
	getchar();
	for (unsigned i = 0; i < n; i++) {
		void *library = load(argv[1 + i % 2]);
		const char *letter = dlsym(library, "reloaded_letter");
		unsigned which = letter && *letter == 'b';
		uint64_t began_ns = cpu_ns();

		if (!first)
			first = letter;
		moved += letter != first;
		run_library(library, seconds[which]);
		spent_ns[which] += cpu_ns() - began_ns;
		dlclose(library);
	}
	printf("a %" PRIu64 " b %" PRIu64 " moved %u\n", spent_ns[0], spent_ns[1], moved);
	return work__done(n);
}
