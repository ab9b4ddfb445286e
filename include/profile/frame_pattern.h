/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regular expressions on frames, as people write them in rules and options: case counts, a match anywhere. */
#ifndef STAKEOUT_PROFILE_FRAME_PATTERN_H
#define STAKEOUT_PROFILE_FRAME_PATTERN_H

#include <stdbool.h>

#include "profile/profile.h"
#include "stakeout/regexp.h"

#define FRAME_PATTERN_TEXT_BYTES 4096 /* of a name; what is behind is not looked at */

/* A name: function, path of a file. */
bool frame_pattern__matches_text(const struct regexp *pattern, const char *text);
/* The function's name, or "function (FILE)" with the path of the source file or the mapping, where either is known. */
bool frame_pattern__matches(const struct regexp *pattern, const struct profile_line *line);

#endif
