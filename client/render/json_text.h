/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_CLIENT_JSON_TEXT_H
#define STAKEOUT_CLIENT_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/*
 * A text that was cleaned (frame_text.h), as a string of JSON. What could end an element of HTML, or a line in
 * JavaScript, is written by its number, so that it holds whatever reads it.
 */
void json_text__write(FILE *out, const char *text, size_t n);

#endif
