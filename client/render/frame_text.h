/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a frame and a thread are written for people: names as text__append_clean() has them. */
#ifndef STAKEOUT_CLIENT_FRAME_TEXT_H
#define STAKEOUT_CLIENT_FRAME_TEXT_H

#include <stdbool.h>

#include "profile/profile.h"
#include "profile/text.h"

/* Code without a symbol: of a file, or of a just-in-time compiler. */
bool frame_text__is_unnamed(const struct profile_line *line);

/*
 * These append to the text; -ENOMEM.
 *
 * A frame of a folded stack: "function", "function (file.py:line)" in Python and in a script that a just-in-time
 * compiler has named, or without_line "function (file.py)",
 * "[python:CAUSE]" for a Python frame without a source file, "function_[k]" in the kernel,
 * "[libname.so]" without a symbol, "[unknown]" without a mapping either; stakeout's own profiles have
 * "[libname.so+0xADDRESS]", by where the function begins, where that is known. A name that ends in a blank and a number
 * gets '_' for the blank, wherever in the stack it is: at the end of a line the number would be read as a column.
 */
int frame_text__folded(const struct profile_line *line, bool without_line, struct text *text);
/* The function alone, with the file in which it is: "function (libname.so)", "function (file.py)". */
int frame_text__function(const struct profile_line *line, struct text *text);
/* Of a native frame whose line is known, "function (file.cpp:line in libname.so)"; else as frame_text__function(). */
int frame_text__line(const struct profile_line *line, struct text *text);
/* Any other text of a profile; and one between two texts of the program's own. */
int frame_text__words(const char *words, struct text *text);
int frame_text__between(const char *before, const char *words, const char *after, struct text *text);
/* The thread of a sample: "comm", or "comm-PID/TID"; blanks as '_', "[unknown]" without a name. */
int frame_text__thread(const struct profile_sample *sample, bool ids, struct text *text);
/* Behind that, " (loader-3)", what its program calls it, where that is known; blanks as `blank`. */
int frame_text__thread_name(const struct profile_sample *sample, char blank, struct text *text);

#endif
