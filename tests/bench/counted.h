/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program that counts its units of work and its CPU time in a file, which paired_cpu.py reads meanwhile. */
#ifndef STAKEOUT_BENCH_COUNTED_H
#define STAKEOUT_BENCH_COUNTED_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct counted {
	uint64_t units;
	uint64_t cpu_ns; /* of all the process's threads, when the last unit was counted */
};

static inline volatile struct counted *counted__open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	volatile struct counted *counted = (struct counted *)MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(*counted)))
		counted = (struct counted *)mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counted == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	puts("ready");
	fflush(stdout);
	return counted;
}

static inline void counted__add(volatile struct counted *counted, uint64_t units)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	counted->units += units;
	counted->cpu_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
