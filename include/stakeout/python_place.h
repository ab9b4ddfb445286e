/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A place in a Python program, as users write it: "train.py:train_step", "train.py:28". */
#ifndef STAKEOUT_PYTHON_PLACE_H
#define STAKEOUT_PYTHON_PLACE_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/error.h"

struct python_place {
	char file[128];     /* the end of its path; "": it is no place in Python */
	char function[128]; /* "": the line */
	int line;           /* from 1 on; 0: the function */
};

/* -ENOENT: the text names no file of Python; -EINVAL, in words: it does, and what follows is no function or line. */
static inline int python_place__parse(const char *text, struct python_place *out, struct so_error *err)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	char *end;
	long line;

	*out = (struct python_place){ .line = 0 };
	if (length < 4 || strncmp(colon - 3, ".py", 3))
		return -ENOENT;
	if (length >= sizeof(out->file) || strlen(colon + 1) >= sizeof(out->function))
		return so_err(err, -EINVAL,
			      "'%.100s' is too long: at most %zu bytes of the file's path and %zu of the function",
			      text, sizeof(out->file) - 1, sizeof(out->function) - 1);
	if (!colon[1])
		return so_err(err, -EINVAL, "'%.100s' is no place in Python: FILE.py:FUNCTION or FILE.py:LINE", text);
	line = strtol(colon + 1, &end, 10);
	if (!*end && (line < 1 || line > INT_MAX))
		return so_err(err, -EINVAL, "'%.100s': lines count from 1", text);
	memcpy(out->file, text, length);
	if (*end)
		strcpy(out->function, colon + 1);
	else
		out->line = (int)line;
	return 0;
}

static inline bool python_place__is_file(const struct python_place *place, const char *path)
{
	size_t n = strlen(path), m = strlen(place->file);

	return n >= m && !strcmp(path + n - m, place->file) && (n == m || path[n - m - 1] == '/');
}

/* The last part of a qualified name may be given alone. */
static inline bool python_place__is_function(const struct python_place *place, const char *name)
{
	const char *last = strrchr(name, '.');

	return !strcmp(name, place->function) || (last && !strcmp(last + 1, place->function));
}

#endif
