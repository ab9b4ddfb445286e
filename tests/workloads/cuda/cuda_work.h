/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the programs that call the stand-ins share, beside ../work.h. */
#ifndef STANDIN_CUDA_WORK_H
#define STANDIN_CUDA_WORK_H

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../work.h"

/* So that a profiler can attach first: "stdin": until a byte comes (or the end), "usr1": until SIGUSR1, "no". */
static inline bool work__wait_for(const char *what)
{
	sigset_t set;
	char byte;
	int signal_number;

	if (strcmp(what, "stdin") == 0) {
		while (read(STDIN_FILENO, &byte, 1) < 0)
			;
		return true;
	}
	if (strcmp(what, "usr1") != 0)
		return strcmp(what, "no") == 0;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwait(&set, &signal_number) == 0;
}

/* To be called before "ready" is printed: a signal that comes early is kept. */
static inline void work__expect(const char *what)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (strcmp(what, "usr1") == 0)
		sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The stand-ins' truth, one line on stdout. False: there is no stand-in. */
static inline bool work__truth(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void (*print)(FILE *) = NULL;

	if (driver)
		*(void **)&print = dlsym(driver, "standin_truth_print");
	if (print)
		print(stdout);
	return print && fflush(stdout) == 0;
}

#endif
