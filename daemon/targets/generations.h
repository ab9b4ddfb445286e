/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is kept of a target that is watched for as long as it lives. Its distinct stacks grow without end, so they are
 * kept in two generations: when the younger one has grown to its size, the older one is forgotten, its figures
 * excepted, and the younger takes its place. The target's profile begins where the older one does. Windows lose nothing
 * by it: what they and views have counted in the generation that turns old goes with them. Whoever takes windows is to
 * take them then (target_info.window_carries); the bound on what they carry is for when nobody does.
 *
 * A recording of one client is not touched: it has all of its samples, or tells what it could not keep.
 */
#ifndef STAKEOUT_GENERATIONS_H
#define STAKEOUT_GENERATIONS_H

#include "daemon/targets/targets.h"
#include "daemon/processes/process_table.h"

#define GENERATION_BYTES (48u << 20) /* of a kept target; two of them are kept */

/* Begins new generations where it is time. With the engine's lock held. max_bytes: GENERATION_BYTES, but for tests. */
void generations__turn(struct targets *ts, struct process_table *processes, size_t max_bytes);
/* The moment from which a target's samples are in memory; NULL: all are. */
const struct samples_moment *generations__oldest(const struct target *t);

#endif
