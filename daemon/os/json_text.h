/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON strings of texts that others chose: a comm, a path, a rule. */
#ifndef STAKEOUT_JSON_TEXT_H
#define STAKEOUT_JSON_TEXT_H

#include <jansson.h>

/* The bytes that are not ASCII become '?' where the text as a whole is not UTF-8. New reference; NULL: no memory. */
json_t *json_text__new(const char *text);

#endif
