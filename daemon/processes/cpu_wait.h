/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long threads were ready to run and had no CPU: /proc/PID/task/TID/schedstat, which needs no lock of the process. */
#ifndef STAKEOUT_CPU_WAIT_H
#define STAKEOUT_CPU_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Some 5 µs are needed for each. */
#define CPU_WAIT_MOST_THREADS 64

/* A sum over processes; all zero is none. */
struct cpu_wait {
	uint64_t ns; /* since each thread began */
	unsigned n_threads;
	bool many; /* there are more threads: some were not read */
};

/* Adds a process; one that has gone adds nothing. */
void cpu_wait__add(struct cpu_wait *sum, pid_t pid);

#endif
