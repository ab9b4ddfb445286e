/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words of --only: KEY=VALUE, where KEY is pid, tid, comm, rank or container (whose value is the id or how it
 * begins). Of several, those of one key are alternatives, and a sample must have one of each key. No words take every
 * sample.
 */
#ifndef STAKEOUT_CLIENT_ONLY_H
#define STAKEOUT_CLIENT_ONLY_H

#include <stdbool.h>

#include "stakeout/options.h"
#include "profile/profile.h"
#include "stakeout/error.h"

/* -EINVAL, in words: one is not of that form. */
int only__check(const struct option_texts *only, struct so_error *err);
/* The words are known to be good. */
bool only__takes(const struct option_texts *only, const struct profile_sample *sample);
/* -ENODATA, in words: which of them no sample has, and what there is instead. For a profile of which none is taken. */
int only__refuse(const struct option_texts *only, const struct profile *profile, struct so_error *err);

#endif
