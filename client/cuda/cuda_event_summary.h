/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout record --event` says of the profile that it wrote. */
#ifndef STAKEOUT_CLIENT_CUDA_EVENT_SUMMARY_H
#define STAKEOUT_CLIENT_CUDA_EVENT_SUMMARY_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "profile/profile.h"
#include "stakeout/cuda_event.h"
#include "stakeout/error.h"

/* -ENODATA in one line: the process had no CUDA library mapped, or none that can be probed. */
int cuda_event_summary__check(const struct profile *profile, pid_t pid, const char *comm, struct so_error *err);

/*
 * How many calls there were, their time and bytes, of how many the stacks were taken, what was lost, and the lines with
 * the most of the weight. bytes: the profile of the event as it came. A figure that is not in it is left out. -ENOMEM,
 * or what reading gave; nothing is printed then.
 */
int cuda_event_summary__print(const uint8_t *bytes, size_t length, const struct so_cuda_event_info *event,
			      enum so_cuda_weight weight, FILE *out);

#endif
