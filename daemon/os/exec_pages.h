/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many pages of code a process has mapped: another number tells that its mappings have changed. */
#ifndef STAKEOUT_EXEC_PAGES_H
#define STAKEOUT_EXEC_PAGES_H

#include <stdint.h>
#include <sys/types.h>

/* What mm->exec_vm counts, by the sum of two lines of /proc/PID/status (proc(5)); 0: not known. */
uint64_t exec_pages__read(pid_t tgid);

#endif
