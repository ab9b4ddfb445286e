/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A profile in wall time: threads that ran, and threads that waited. */
#ifndef STAKEOUT_PROFILE_WALL_H
#define STAKEOUT_PROFILE_WALL_H

#include "daemon/profile/profile_export.h"

/*
 * As profile_export__samples(), into a builder of profile_builder__new_wall(): each sample with a label "state" and its
 * wall time. A thread's samples on a CPU share the time that the kernel says it ran; where it has none, that time is on
 * "[not sampled]", and waiting whose place was never seen on "[not seen]". looks_hz: looks a second. -ENOMEM.
 */
int profile_wall__samples(const struct profile_source *source, uint64_t period_ns, unsigned looks_hz,
			  struct profile_builder *builder);

#endif
