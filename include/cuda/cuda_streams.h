/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Findings about what is done more often than it needs to be: waits of the host and of streams, and making graphs. */
#ifndef STAKEOUT_CUDA_STREAMS_H
#define STAKEOUT_CUDA_STREAMS_H

#include "cuda/cuda_search.h"

/* Adds them. -ENOMEM. */
int cuda_streams__find(struct cuda_search *search);

#endif
