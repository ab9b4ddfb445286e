/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Works for a second, then loads a library and works in there. Usage: dlopener LIBRARY [seconds] [seconds before
 * loading]
 */
#include <dlfcn.h>

#include "work.h"

FRAME uint64_t before_dlopen(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, work__mix(19, 20000));
	return first;
}

int main(int argc, char **argv)
{
	double deadline = work__deadline_s(argc, argv, 2, 10), load_at = work__deadline_s(argc, argv, 3, 1);
	uint64_t (*run)(double);
	uint64_t before;
	void *library;

	if (argc < 2) {
		fprintf(stderr, "usage: dlopener LIBRARY [seconds] [seconds before loading]\n");
		return 2;
	}
	work__ready();
	before = before_dlopen(load_at);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "dlopener: %s\n", dlerror());
		return 1;
	}
	*(void **)&run = dlsym(library, "plugin_run");
	return work__done(before + (run ? run(deadline) : 0));
}
