/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of CUDA kernels by process and handle, as the processes told them to the CUDA libraries while they were
 * watched, and the readable form of a kernel's name or of its host function's symbol.
 *
 * A handle, as in so_cuda_key.kernel, is the address of the kernel's host function, a cudaKernel_t, a CUfunction or a
 * CUkernel. Names and numbers of handles are the target's: any bytes, as many as it likes. What is kept of one
 * process is bounded: KERNEL_NAMES_MAX handles (limits.h, where it is counted what is forgotten), each with a
 * name of less than SO_CUDA_NAME_BYTES.
 */
#ifndef STAKEOUT_KERNEL_NAMES_H
#define STAKEOUT_KERNEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/os/limits.h"
#include "stakeout/cleanup.h"
#include "stakeout/cuda_abi.h"

#define KERNEL_NAMES_MAX_CHAIN 4     /* handles of handles that a look-up follows */

struct kernel_names;

int kernel_names__new(struct kernel_names **out);
void kernel_names__free(struct kernel_names *names);
CLEANUP_DEFINE(struct kernel_names *, kernel_names, kernel_names__free)

/*
 * Takes a record of the ring `cuda_names`. With a name, the handle has that name from now on; without one but with
 * another handle (`other`), it is a handle of the same kernel as that one, whether its name is known by now or not;
 * with neither it is forgotten. Whatever was known of the handle before is void: handles are used again. A name may
 * lack its terminating zero. -ENOMEM.
 */
int kernel_names__add(struct kernel_names *names, const struct so_cuda_name *record);

/* A forked child has its parent's memory, and so its handles; what it has itself under that number is void. -ENOMEM. */
int kernel_names__fork(struct kernel_names *names, uint32_t parent, uint32_t child);

/* The process has ended, or executes another program. */
void kernel_names__forget(struct kernel_names *names, uint32_t tgid);

struct kernel_name {
	const char *name; /* as told, mangled; NULL: not told. Borrowed until the names next change */
	bool cut;         /* the name may go on: it fills the record */
	uint64_t address; /* the handle that the chain of handles ends at: if no name was told, or it was cut, that of a
			   * host function, perhaps, whose symbol then has the name */
};

void kernel_names__find(const struct kernel_names *names, uint32_t tgid, uint64_t handle, struct kernel_name *out);

/* Changes whenever a name may have. */
uint64_t kernel_names__generation(const struct kernel_names *names);

/*
 * The readable name of a kernel, malloc'ed, with its parameters as c++filt prints them: "add(float*)", "void
 * add<float>(float*)". `symbol` is the kernel's mangled name, the symbol of its host function, or that of a stub that
 * a CUDA compiler puts before it:
 *
 *   nvcc   __device_stub_ + the kernel's whole mangled name, mangled once more as a function, static for templates and
 *          static kernels (_Z22__device_stub__Z3addPfPf, _ZL29__device_stub__Z4taddIfEvPT_iPfi), and
 *          __wrapper__device_stub_ + its last name (_ZN2nsL24__wrapper__device_stub_kIiLi3EEEvRPT_), whose parameters
 *          are references to the kernel's; seen in the object files of nvcc 13.0
 *   clang  __device_stub__ + its last name (_ZN2ns23__device_stub__nskernelEv);
 *   clang/test/CodeGenCUDA/kernel-stub-name.cu
 *
 * cut: the symbol may lack its end; "..." then follows what cannot be read. A name that nobody can read comes back as
 * it is; more than 4096 bytes are cut with "...". NULL: out of memory.
 */
char *kernel_names__readable(const char *symbol, bool cut);

#endif
