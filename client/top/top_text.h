/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text in columns of a terminal. */
#ifndef STAKEOUT_CLIENT_TOP_TEXT_H
#define STAKEOUT_CLIENT_TOP_TEXT_H

#include <stddef.h>
#include <stdio.h>

enum top_cut {
	TOP_CUT_END,
	TOP_CUT_MIDDLE, /* a third of what is left is the end */
};

/* So that characters have their widths; once, before the first of these. */
void top_text__prepare(void);
/* How many columns it takes as top_text__fit() writes it. */
size_t top_text__columns(const char *text, size_t length);
/*
 * Writes as much of a text as fits into so many columns, "…" in place of what does not. Whatever is in it, nothing is
 * written that a terminal would take for more than characters: the rest becomes '?'. Returns the columns.
 */
size_t top_text__fit(const char *text, size_t length, size_t columns, enum top_cut cut, FILE *out);

#endif
