/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs of the kernel's array of mappings. A freed one is reused only later: a sample that began before may read it.
 * One user's runs have a quarter of the array, and with those that are freed and not reused yet a half; three quarters
 * of it are all users' but root's.
 */
#ifndef STAKEOUT_MAPPING_RUNS_H
#define STAKEOUT_MAPPING_RUNS_H

#include "daemon/processes/process_table.h"

struct mapping_runs;

int mapping_runs__new(uint32_t capacity, struct mapping_runs **out);
/*
 * A run of n entries (n may be 0) with one reference, for a process of this user's. replaced: the run that the process
 * has now and lets go for this one, NULL: none; on success it takes no part of the share any more. -ENOSPC: there is no
 * room, or none that is the user's; -EAGAIN: there is once the user's freed runs can be reused; -ENOMEM.
 */
int mapping_runs__alloc(struct mapping_runs *runs, uid_t uid, uint32_t n, struct mapping_run *replaced,
			struct mapping_run **out);
void mapping_runs__unref(struct mapping_runs *runs, struct mapping_run *run); /* NULL is fine */
void mapping_runs__free(struct mapping_runs *runs);

#endif
