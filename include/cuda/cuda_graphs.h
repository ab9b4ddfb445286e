/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often CUDA graphs were made and launched. */
#ifndef STAKEOUT_CUDA_GRAPHS_H
#define STAKEOUT_CUDA_GRAPHS_H

#include "cuda/cuda_summary.h"

/* Calls that did not fail. */
struct cuda_graphs {
	uint64_t captures, instantiations, updates; /* begun captures; updates of a graph that there is */
	uint64_t making_ns; /* the host's time in these, and in what ends a capture or uploads */
	uint64_t replays;   /* launches of graphs */
	uint64_t launches;  /* of single kernels, those that were captured included */
	const char
		*line; /* where most captures begin, else what makes graphs otherwise; the report's. NULL: not known */
	bool estimated;
};

/* The summary must outlive it. */
void cuda_graphs__of(const struct cuda_summary *summary, struct cuda_graphs *out);
static inline bool cuda_graphs__are_any(const struct cuda_graphs *graphs)
{
	return graphs->captures || graphs->instantiations || graphs->updates || graphs->replays;
}

#endif
