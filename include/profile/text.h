/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_PROFILE_TEXT_H
#define STAKEOUT_PROFILE_TEXT_H

#include <stddef.h>

#include "stakeout/cleanup.h"

/* A text that grows; all zero is an empty one. Not terminated. */
struct text {
	char *bytes;
	size_t length, capacity;
};

void text__clear(struct text *text);
CLEANUP_DEFINE(struct text *, text, text__clear)

/* These append; -ENOMEM. */
int text__append(struct text *text, const char *bytes, size_t n);
/*
 * A foreign name, for people to read. Whatever it contains, what comes out is valid UTF-8 in one line: bytes that are
 * none, and control characters (with which a name could steer a terminal), become '?'; ';', the separator of folded
 * stacks, becomes ':'; blanks at the ends are dropped, and others become `blank`.
 */
int text__append_clean(struct text *text, const char *name, char blank);

#endif
