/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the codes that CUDA calls return. Sources: enum cudaError (driver_types.h) and enum CUresult (cuda.h) of the
 * CUDA toolkit 12, as the reference manuals of the runtime and driver API list them. Both share their numbers since
 * CUDA 10.1.
 */
#ifndef STAKEOUT_CUDA_CODES_H
#define STAKEOUT_CUDA_CODES_H

#include <stdint.h>

/* api: "cudaMalloc", "cuMemAlloc": whose enum it is. NULL: not in the table, which holds the usual ones. */
const char *cuda_codes__name(const char *api, uint32_t code);

#endif
