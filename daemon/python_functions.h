/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The Python functions met so far, each once, at an address that does not change as long as the table lives. */
#ifndef STAKEOUT_PYTHON_FUNCTIONS_H
#define STAKEOUT_PYTHON_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

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

int python_functions__new(struct python_functions **out);
/* Equal names, files and lines give the same function. NULL when out of memory or full. */
const struct python_function *python_functions__get(struct python_functions *functions, const char *name,
						    const char *filename, int first_line);
size_t python_functions__count(const struct python_functions *functions);
void python_functions__free(struct python_functions *functions);
CLEANUP_DEFINE(struct python_functions *, python_functions, python_functions__free)

#endif
