/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of a function that a compiler put elsewhere (gcc's and clang's .cold, .part), found without their names: a
 * branch that leads into the middle of the text of another FDE, or to its start where that tells of a frame that is set
 * up already, leads to another part of the same function, because one function enters another only at its start.
 */
#ifndef STAKEOUT_FUNCTION_PARTS_H
#define STAKEOUT_FUNCTION_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"

struct function_part {
	uint64_t low, high; /* ELF virtual addresses, high excluded */
};

/*
 * fd: the file, which elf describes. parts: *n that are known, and room for all; those that were found are appended and
 * *n is raised. 0 also when there are none. -ENOENT: the file has no .eh_frame; -EINVAL: damaged; -ENOMEM; -ENOTSUP.
 */
int function_parts__find(int fd, const struct elf_file *elf, struct function_part *parts, size_t *n,
			 size_t room);

#endif
