/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Python functions met so far, each once, at an address that does not change as long as the table lives. Names come
 * and go with the versions of what is watched, so a table is not for ever: the engine begins another one when it is
 * half full, and the old one goes with the last stack that shows a function of it.
 */
#ifndef STAKEOUT_PYTHON_FUNCTIONS_H
#define STAKEOUT_PYTHON_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/os/limits.h"
#include "stakeout/cleanup.h"
#include "stakeout/python_abi.h"

struct python_function {
	const char *name;     /* or "[python:CAUSE]" for a frame that could not be read */
	const char *filename; /* "" for such a frame */
	int first_line;
};

/* What a Python frame of a stack is once it has been read: takes the place of the kernel's two words. */
struct python_frame {
	const struct python_function *function;
	int32_t line;   /* 0: unknown */
	uint32_t entry; /* 1: the first frame of its call of the interpreter's loop */
};

_Static_assert(sizeof(struct python_frame) == SO_PYTHON_WORDS * 8, "takes the place of the kernel's words");

struct python_functions;

/* With one reference. */
int python_functions__new(struct python_functions **out);
/* NULL stays NULL. References are taken and given back by any thread, all else is one thread's at a time. */
struct python_functions *python_functions__ref(struct python_functions *functions);
void python_functions__unref(struct python_functions *functions);
/* Equal names, files and lines give the same function. NULL when out of memory or full. */
const struct python_function *python_functions__get(struct python_functions *functions, const char *name,
						    const char *filename, int first_line);
/* Puts a new table in place when *functions is over half full; true then. Not at PYTHON_FUNCTIONS_TABLES tables. */
bool python_functions__turn(struct python_functions **functions);
/* Of all tables together. */
uint64_t python_functions__all_bytes(void);
CLEANUP_DEFINE(struct python_functions *, python_functions, python_functions__unref)

#endif
