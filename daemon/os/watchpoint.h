/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hardware watchpoints: a perf event that fires in one thread each time it reads or writes a byte of its memory, in one
 * of the four debug registers that a thread has. Some virtual machines take them and never let them fire.
 */
#ifndef STAKEOUT_WATCHPOINT_H
#define STAKEOUT_WATCHPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The event's descriptor, which counts and fires each time; -errno: -ENOSPC: the thread's registers are taken. */
int watchpoint__open(pid_t tid, uint64_t address);
/* Whether they fire on this machine, tried out on this thread. */
bool watchpoint__works(void);

#endif
