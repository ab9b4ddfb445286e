/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A sample with the labels that every process has. Returns as profile_builder__sample_labelled(). */
#ifndef STAKEOUT_TEST_THREAD_SAMPLE_H
#define STAKEOUT_TEST_THREAD_SAMPLE_H

#include "daemon/profile/profile_builder.h"

static inline int thread_sample(struct profile_builder *b, const uint64_t *locations, size_t n, uint64_t count,
				pid_t pid, pid_t tid, const char *comm)
{
	return profile_builder__sample_labelled(b, locations, n, count,
						&(struct profile_labels){ .pid = pid, .tid = tid, .comm = comm });
}

#endif
