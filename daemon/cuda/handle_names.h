/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of CUDA kernels that were read behind their handles. Whoever attaches late has missed the calls that tell names
 * (kernel_names.h), but the driver keeps the name: at SO_CUDA_HANDLE_NAME_AT of what a CUfunction or a CUkernel points
 * to there is the address of the text. That is no promise of the driver's, so it is believed of a process only when it
 * has proved right there:
 *
 *   - where the runtime's launch of a kernel made the driver's of a handle, the name behind the handle is that which is
 *     known of the kernel otherwise: twice at least, and four times as often as not; or
 *   - where there are none of these, each handle has a name of its own behind it, at least HANDLE_NAMES_DISTINCT.
 *
 * Handles and texts are the target's: any bytes. Of one process HANDLE_NAMES_MAX handles are kept, the first ones.
 */
#ifndef STAKEOUT_HANDLE_NAMES_H
#define STAKEOUT_HANDLE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/cuda_abi.h"

#define HANDLE_NAMES_MAX      16384
#define HANDLE_NAMES_PROOFS   2
#define HANDLE_NAMES_SURE     4 /* right answers for each wrong one: symbols of equal functions are folded into one */
#define HANDLE_NAMES_DISTINCT 3

struct handle_names;

int handle_names__new(struct handle_names **out);
void handle_names__free(struct handle_names *names);
CLEANUP_DEFINE(struct handle_names *, handle_names, handle_names__free)

/* Takes a record of the ring `cuda_names` whose namer is SO_CUDA_READ_HANDLE or SO_CUDA_READ_PAIR. -ENOMEM. */
int handle_names__add(struct handle_names *names, const struct so_cuda_name *record);
/* The process has ended, or executes another program. */
void handle_names__forget(struct handle_names *names, uint32_t tgid);

/* Whether a kernel that the runtime launches by `kernel` has that name: 1, 0, or -1 where that is not known (yet). */
typedef int handle_names_compare_fn(void *context, uint32_t tgid, uint64_t kernel, const char *name);
/* Asks of all pairs that wait for an answer. Whether another process is believed, or not any more. */
bool handle_names__compare(struct handle_names *names, handle_names_compare_fn *compare, void *context);

/* The name, mangled; one of SO_CUDA_NAME_BYTES - 1 bytes may be cut. NULL: none, or none that is proved. */
const char *handle_names__find(const struct handle_names *names, uint32_t tgid, uint64_t handle);

/* Changes whenever a name may have. */
uint64_t handle_names__generation(const struct handle_names *names);

#endif
