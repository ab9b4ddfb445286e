/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How `stakeout memory` watches a process that is to be looked at for a while. */
#ifndef STAKEOUT_CLIENT_MEMORY_LOOK_H
#define STAKEOUT_CLIENT_MEMORY_LOOK_H

#include <sys/types.h>

#include "client/memory/cuda_memory.h"
#include "client/session/session.h"
#include "client/session/target.h"

/* Of its own samples few are needed: they keep the process's mappings and threads' names up to date. */
#define MEMORY_LOOK_RATE_HZ 19
/* After this it is an error if there is nothing to be seen in the process. */
#define MEMORY_LOOK_CHECK_S 2

/* With progress, until it has ended, or been watched for so long, or Ctrl-C. */
int memory_look__wait(struct api_client *api, struct target *target, double duration_s, struct so_error *err);

/*
 * Where PyTorch's allocator cannot be watched: memory by CUDA call. why: the reason, which is said with what goes wrong
 * here. budget_percent: what the probes may cost of the process's time, 0: the default. *out is to be cleared in any
 * case. -ENOTSUP: there is no CUDA in the process either.
 */
int memory_look__by_call(struct session *session, pid_t pid, double duration_s, double budget_percent, const char *why,
			 struct cuda_memory *out, struct so_error *err);

#endif
