/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether the device or the host bounds a process, and on what the host spends its time. */
#ifndef STAKEOUT_CUDA_HOST_H
#define STAKEOUT_CUDA_HOST_H

#include "cuda/cuda_summary.h"

/*
 * Utilisation is NVML's: the share of time in which at least one kernel ran. Training that keeps a device fed shows 95
 * % or more; below 80 % the device stands idle in a fifth of the time, which no faster kernel would win back.
 */
#define CUDA_HOST_BOUND_UTILISATION 0.8

/* X(enumerator, word in JSON, words) */
#define CUDA_HOST_PARTS(X)                                \
	X(LAUNCH, "launch", "launching")                  \
	X(SYNC, "sync", "waiting in synchronising calls") \
	X(COPY, "copy", "in copy calls")                  \
	X(MEMORY, "alloc", "allocating and freeing")      \
	X(OTHER, "other", "in other CUDA calls")          \
	X(OUTSIDE, "outside", "outside CUDA calls")

enum cuda_host_part {
#define X(name, word, words) CUDA_HOST_##name,
	CUDA_HOST_PARTS(X)
#undef X
		CUDA_HOST_PART_COUNT,
};

struct cuda_host {
	double ns[CUDA_HOST_PART_COUNT]; /* OUTSIDE: NAN if the duration is not known */
	double whole_ns;                 /* duration × processes that made calls; NAN: not known */
	enum cuda_host_part leading;
	size_t n_devices;   /* that the process uses, with a known utilisation */
	double utilisation; /* their mean, 0 … 1; NAN: not known */
	bool bottleneck;    /* utilisation below CUDA_HOST_BOUND_UTILISATION, though calls were made */
};

void cuda_host__of(const struct cuda_report *report, const struct cuda_summary *summary, struct cuda_host *out);
const char *cuda_host__word(enum cuda_host_part part);
const char *cuda_host__words(enum cuda_host_part part);
/* The process has memory on the device, or ran on it; or it is the only one and nothing is known of processes. */
bool cuda_host__uses(const struct cuda_report *report, const struct so_cuda_device_row *device);

#endif
