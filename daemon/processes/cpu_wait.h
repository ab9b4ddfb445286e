/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long threads were ready to run and had no CPU: /proc/PID/task/TID/schedstat, which needs no lock of theirs. */
#ifndef STAKEOUT_CPU_WAIT_H
#define STAKEOUT_CPU_WAIT_H

#include <stdint.h>
#include <sys/types.h>

/* Some 5 µs are needed for each. */
#define CPU_WAIT_MOST_THREADS 64

/* A sum over processes; all zero is none. */
struct cpu_wait {
	uint64_t ns;        /* of the threads that were read, since each began */
	unsigned n_threads; /* all of them, */
	unsigned n_read;    /* and those that were read */
};

/* Adds a process; one that has gone adds nothing. */
void cpu_wait__add(struct cpu_wait *sum, pid_t pid);
/* What those that were read waited meanwhile stands for, if the others waited as much. */
static inline uint64_t cpu_wait__scale(const struct cpu_wait *sum, uint64_t ns)
{
	return sum->n_read ? ns * sum->n_threads / sum->n_read : 0;
}

#endif
