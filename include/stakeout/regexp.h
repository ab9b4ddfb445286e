/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Regular expressions from people whom nobody trusts: POSIX extended syntax (regex(7)) with \d \s \w \b, no
 * back-references. By RE2: compiling takes time and memory in proportion to the pattern with its repetitions written
 * out, which is bounded; matching takes time in proportion to the text.
 */
#ifndef STAKEOUT_REGEXP_H
#define STAKEOUT_REGEXP_H

#include <stdbool.h>
#include <stddef.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REGEXP_MAX_BYTES  1000      /* of a pattern as it is written */
#define REGEXP_MEMORY     (1 << 20) /* bytes that a compiled pattern and what it learns while matching may take */

struct regexp;

/* -EINVAL: no pattern, too long, too large when expanded; err says why, without it. -ENOMEM. *out: untouched. */
int regexp__compile(const char *pattern, struct regexp **out, struct so_error *err);
/* The same of n patterns that compile by themselves: matches where one of them does. No bound on all their bytes. */
int regexp__compile_any(const char *const *patterns, size_t n, struct regexp **out, struct so_error *err);
/* Whether it matches anywhere in the text; ^ and $ are its ends, '.' is any byte. May be called by several threads. */
bool regexp__matches(const struct regexp *regexp, const char *text, size_t bytes);
void regexp__free(struct regexp *regexp);
CLEANUP_DEFINE(struct regexp *, regexp, regexp__free)

#ifdef __cplusplus
}
#endif

#endif
