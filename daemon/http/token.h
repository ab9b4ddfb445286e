/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The secret of the TCP door: who presents it may read. */
#ifndef STAKEOUT_TOKEN_H
#define STAKEOUT_TOKEN_H

#include <stdbool.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define TOKEN_MIN_CHARS 16
#define TOKEN_MAX_CHARS 256

struct token;

/*
 * The first line of a file, which must be its only one: characters of a bearer token (RFC 6750, section 2.1), within
 * the limits above. -EACCES: the file can be read by any user, or written by others than its owner; -EINVAL: no token;
 * others from reading. The token itself is never in a message.
 */
int token__read(const char *path, struct token **out, struct so_error *err);
/*
 * Whether the value of an Authorization header (NULL: there is none) is "Bearer TOKEN". How long it takes depends on
 * the header's length, not on how much of the token is right.
 */
bool token__matches(const struct token *token, const char *authorization);
void token__free(struct token *token);
CLEANUP_DEFINE(struct token *, token, token__free)

#endif
