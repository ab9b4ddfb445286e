/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process that a name means, where a command line asks for a PID. */
#ifndef STAKEOUT_CLIENT_NAMED_PROCESS_H
#define STAKEOUT_CLIENT_NAMED_PROCESS_H

#include <sys/types.h>

#include "stakeout/error.h"

/*
 * The one process that is called exactly so: by its command name, its program's base name, or that of the script (or
 * the name of the module) that its interpreter runs. One below another that is called so belongs to that one. Kernel
 * threads, stakeout itself and what has ended are left out. -ENOENT: none; -EEXIST: several, which are listed on
 * standard error. In words.
 */
int named_process__find(const char *name, pid_t *out, struct so_error *err);

#endif
