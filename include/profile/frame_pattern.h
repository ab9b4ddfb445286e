/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Regular expressions on frames, as people write them in rules and options: POSIX extended (regex(7)), case counts,
 * a match anywhere unless ^ and $ say otherwise. They come from a user's file, so what would make the C library's
 * matcher take exponential time or memory is refused: back-references, and repetitions within each other that make a
 * small pattern a large one.
 */
#ifndef STAKEOUT_PROFILE_FRAME_PATTERN_H
#define STAKEOUT_PROFILE_FRAME_PATTERN_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"
#include "stakeout/error.h"

#define FRAME_PATTERN_MAX_BYTES  1000
#define FRAME_PATTERN_MAX_DEPTH  20   /* parentheses in parentheses */
#define FRAME_PATTERN_MAX_SIZE   2000 /* characters, when all repetitions are written out ("+" twice) */
#define FRAME_PATTERN_TEXT_BYTES 4096 /* of a name; what is behind is not looked at */

/*
 * -EINVAL: not a pattern, err says why, without naming the pattern; *out is untouched. To be freed with regfree().
 */
int frame_pattern__compile(const char *pattern, regex_t *out, struct so_error *err);
/* A name: function, path of a file. */
bool frame_pattern__matches_text(const regex_t *pattern, const char *text);
/*
 * The function's name, or "function (FILE)" with the whole path of the source file or that of the mapping, where either is
 * known.
 */
bool frame_pattern__matches(const regex_t *pattern, const struct profile_line *line);

#endif
