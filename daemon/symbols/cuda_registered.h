/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a file's own code tells of its CUDA kernels: nvcc compiles them into initialisers that call
 * __cudaRegisterFunction(handle, host function, …, name, …), and into stubs that, since nvcc 13, fetch a handle by
 * __cudaGetKernel(&variable, host function) and launch by __cudaLaunchKernel(variable, …). Stripped files have these
 * calls too, and through them the names. Only files that import these functions are looked into; x86-64 only.
 *
 * A call's arguments are those that the instructions before it load, one after the other: lea and mov relative to rip,
 * mov of 32-bit constants, copies between registers. What comes otherwise is left out.
 */
#ifndef STAKEOUT_CUDA_REGISTERED_H
#define STAKEOUT_CUDA_REGISTERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"

#define CUDA_REGISTERED_NAME_MAX 4096u /* bytes; longer ones are left out */

/* A kernel's host function. */
struct cuda_registered_function {
	uint64_t start; /* ELF virtual address */
	uint64_t
		/* where in the file its NUL-terminated name begins: the kernel's, mangled, in printable ASCII */
		name_at;
	uint32_t extent; /* bytes, by its FDE; 1: it has none */
};

/* A call of __cudaLaunchKernel by a handle that the file itself asks for. */
struct cuda_registered_launch {
	uint64_t return_address; /* ELF virtual address */
	uint64_t function;       /* the host function's */
};

struct cuda_registered {
	struct cuda_registered_function *functions; /* owned; by rising start, which is of one alone */
	size_t n_functions;
	struct cuda_registered_launch *launches; /* owned; by rising return address */
	size_t n_launches;
	size_t n_calls; /* registrations, those by a symbol of .dynsym included, which are no functions here */
};

/*
 * dynsym: the file's dynamic symbols. names_wanted: false leaves the functions out, as a file with symbols of its own
 * needs none. 0 also when there is nothing; -EINVAL: damaged; -ENOMEM; -ENOTSUP: the disassembler has no x86. On
 * failure *out is untouched.
 */
int cuda_registered__read(const struct elf_image *image, const struct elf_file *elf,
			  const struct elf_sections *sections, const struct elf_symtab_location *dynsym,
			  bool names_wanted, struct cuda_registered *out);
void cuda_registered__release(struct cuda_registered *registered);

static inline void cleanup__cuda_registered(struct cuda_registered *registered)
{
	cuda_registered__release(registered);
}

#endif
