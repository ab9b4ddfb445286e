/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of a time the threads that make CUDA calls had work to do, by /proc/PID/task/TID/schedstat: what probes take
 * of a thread slows it down while it works, and not while it sleeps.
 */
#ifndef STAKEOUT_CUDA_RUNNING_H
#define STAKEOUT_CUDA_RUNNING_H

#include "daemon/cuda/cuda_snapshot.h"

struct cuda_running_thread {
	uint32_t tgid, tid;
	uint64_t run_ns, wait_ns;
};

/* All zero: no threads. */
struct cuda_running {
	struct cuda_running_thread *threads;
	size_t n, cap;
};

/* Sums over threads, ns. */
struct cuda_running_time {
	double run;  /* on a CPU, */
	double wait; /* and ready to run, waiting for one */
};

/* From now on: the threads that have entries in `calls` and live, 256 of them at most. */
void cuda_running__begin(struct cuda_running *running, const struct cuda_snapshot *calls);
/* What those that still live had since then; all zero where there are none. */
struct cuda_running_time cuda_running__since(const struct cuda_running *running);
void cuda_running__release(struct cuda_running *running);

/*
 * How much of a time of wall_ns the work in it would have been shorter by, had probes not taken cost_ns of it: the
 * calls at most came that much too slowly. cpu_ns: that the whole target had; where the callers have ended it counts as
 * if none of them had slept. Threads that take turns are as one; those that work side by side share the cost.
 */
double cuda_running__slowdown(const struct cuda_running_time *time, double cost_ns, double cpu_ns, double wall_ns);

#endif
