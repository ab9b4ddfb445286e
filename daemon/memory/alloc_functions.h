/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions allocate and free memory, by their symbols. */
#ifndef STAKEOUT_ALLOC_FUNCTIONS_H
#define STAKEOUT_ALLOC_FUNCTIONS_H

#include <stdbool.h>

#include "stakeout/alloc_abi.h"

struct alloc_function {
	const char *symbol;
	enum so_alloc_shape shape;
	enum so_alloc_kind kind; /* SO_ALLOC_MALLOC: that of the library where it is */
	bool operator_new;       /* C++'s: but in the libraries that replace it, it calls malloc, which counts */
	bool python;
	bool throws; /* C++'s std::bad_alloc, where there is no memory */
};

/* NULL: it is none. A version ("@@V") is not part of the symbol. */
const struct alloc_function *alloc_functions__find(const char *symbol);
/* Whose library has such a symbol; SO_ALLOC_MALLOC: it tells nothing. */
enum so_alloc_kind alloc_functions__library(const char *symbol);
/* "malloc", "jemalloc", … */
const char *alloc_functions__kind_word(enum so_alloc_kind kind);

#endif
