/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A set of CUDA calls, enum so_cuda_api. */
#ifndef STAKEOUT_CUDA_API_SET_H
#define STAKEOUT_CUDA_API_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cuda_abi.h"

struct cuda_api_set {
	uint64_t words[SO_CUDA_API_WORDS]; /* bit api % 64 of word api / 64 */
};

static inline bool cuda_api_set__has(const struct cuda_api_set *set, unsigned api)
{
	return api < SO_CUDA_API_ROOM && set->words[api / 64] >> api % 64 & 1;
}

static inline void cuda_api_set__add(struct cuda_api_set *set, unsigned api)
{
	if (api < SO_CUDA_API_ROOM)
		set->words[api / 64] |= 1ull << api % 64;
}

static inline bool cuda_api_set__is_empty(const struct cuda_api_set *set)
{
	for (unsigned i = 0; i < SO_CUDA_API_WORDS; i++) {
		if (set->words[i])
			return false;
	}
	return true;
}

#endif
