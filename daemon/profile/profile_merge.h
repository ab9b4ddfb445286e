/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adds up pprof messages (stakeout/profile.proto) that stakeout itself made: daemon/profile/profile_builder.h, or this
 * module. Samples of equal stack and equal labels become one whose values are the sums; equal strings, mappings,
 * functions and locations are kept once. One message is decoded at a time, so memory grows with the distinct stacks and
 * not with the number of messages.
 *
 * The bytes may be damaged all the same: every reference in them is checked, and what they can make this module
 * allocate is bounded.
 *
 * What becomes of the other fields:
 * - sample types, period type: those of the first message; one that has others is refused. But messages with wall time
 *   and without add up to one with it: a thread that ran has its CPU time as wall time then, and the comment
 *   "stakeout.wall.without_ns=N" says of how long waiting threads are not known.
 * - period: the largest, as pprof's own merge does. Values are sums, so nothing is computed from it.
 * - time_nanos: the earliest; duration_nanos: the sum; or what profile_merge__set_times() says.
 * - comments "stakeout.KEY=N", N a whole number: summed, but "pid" and "sample_hz", which are properties; those and all
 *   other comments are kept once for each text that occurs.
 */
#ifndef STAKEOUT_PROFILE_MERGE_H
#define STAKEOUT_PROFILE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define PROFILE_MERGE_MAX_MESSAGE_BYTES ((size_t)256 << 20) /* of one message */
#define PROFILE_MERGE_MAX_BYTES         ((size_t)1 << 30)   /* of the tables of all distinct things together */

struct profile_merge;

/* NULL: out of memory. */
struct profile_merge *profile_merge__new(void);

/*
 * Adds one message, not compressed. -EINVAL: damaged, or it cannot be added to those before it; -EFBIG: a limit above;
 * -EOVERFLOW: a sum passes 2^63; -ENOMEM. What was added of a refused message is not taken back: free the merger then.
 */
int profile_merge__add(struct profile_merge *merge, const uint8_t *message, size_t length, struct so_error *err);

/* Both in ns; time since 1970-01-01 UTC. In place of what the messages say. */
void profile_merge__set_times(struct profile_merge *merge, int64_t time_ns, int64_t duration_ns);

/*
 * The sum of all messages, gzipped or not. *out is malloc'ed, the caller frees it. The merger can go on being used.
 * -ENODATA: no message was added; -EFBIG: the result would pass PROFILE_MERGE_MAX_MESSAGE_BYTES, so that it could not
 * be read back; -ENOMEM.
 */
int profile_merge__finish(struct profile_merge *merge, bool gzip, uint8_t **out, size_t *length);

void profile_merge__free(struct profile_merge *merge);
CLEANUP_DEFINE(struct profile_merge *, profile_merge, profile_merge__free)

#endif
