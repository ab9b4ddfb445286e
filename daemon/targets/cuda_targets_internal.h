/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of cuda_targets.h, for cuda_targets.c, cuda_window.c and cuda_taken.c alone. */
#ifndef STAKEOUT_CUDA_TARGETS_INTERNAL_H
#define STAKEOUT_CUDA_TARGETS_INTERNAL_H

#include "daemon/cuda/cuda_watch.h"
#include "daemon/targets/cuda_targets.h"
#include "daemon/targets/pending_stacks.h"
#include "daemon/processes/scan_queue.h"
#include "daemon/targets/targets.h"
#include "daemon/nvml/nvml_watch.h"

/* The readable name of a kernel, and which generation of names it was made of. */
struct kernel_text {
	char *text;
	uint64_t generation;
};

struct cuda_targets {
	pthread_mutex_t *lock; /* the engine's */
	struct target **targets;
	struct sampler *sampler;
	struct file_registry *files;
	struct process_table *processes;
	struct pending_stacks *pending;
	struct scan_queue *scans;
	struct cuda_probes *probes; /* loaded when first asked for */
	struct kernel_names *kernel_names;
	struct handle_names *handle_names;
	struct u64_table kernel_by_handle; /* hash of process and handle: place in kernel_texts */
	struct kernel_text *kernel_texts;  /* readable */
	size_t n_kernel_texts, cap_kernel_texts;
	struct u64_table files_seen; /* hash of device, inode and size: 1 for a file with CUDA functions */
	struct cuda_threads *threads;
	uint64_t threads_ns; /* when it was last looked whether they live */
	struct nvml_watch *nvml;
	bool drain_failed; /* which has been said */
};

#endif
