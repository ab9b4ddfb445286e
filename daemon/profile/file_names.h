/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of files that threads wait for, by number. In a stack a number stands as the innermost kernel frame, an address
 * that no kernel has. Thread-safe.
 */
#ifndef STAKEOUT_FILE_NAMES_H
#define STAKEOUT_FILE_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/limits.h"
#include "stakeout/cleanup.h"

/* Not canonical on x86-64 (bits 63 to 47 differ): never an address. */
#define FILE_FRAME(number)   (0x00f1ull << 48 | (number))
#define FILE_FRAME_IS(frame) ((frame) >> 48 == 0x00f1ull)
#define FILE_FRAME_OF(frame) ((uint32_t)(frame))

struct file_names;
int file_names__new(struct file_names **out);
void file_names__free(struct file_names *names);
CLEANUP_DEFINE(struct file_names *, file_names, file_names__free)

/* Forgets all; nobody may have numbers or names of them any more. */
void file_names__reset(struct file_names *names);

/* From 1; 0: there is no room for another, or for another of that user's. */
uint32_t file_names__number(struct file_names *names, const char *path, uid_t uid);
/* Stays until they are reset; NULL: there is none of that number. */
const char *file_names__get(struct file_names *names, uint32_t number);

#endif
