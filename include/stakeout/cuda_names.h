/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which CUDA function an ELF symbol's name means, and the words for CUDA functions. */
#ifndef STAKEOUT_CUDA_NAMES_H
#define STAKEOUT_CUDA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cuda_abi.h"

enum cuda_name_type {
	CUDA_NAME_API,   /* number: enum so_cuda_api */
	CUDA_NAME_NAMER, /* number: enum so_cuda_namer */
};

struct cuda_name {
	uint8_t type; /* enum cuda_name_type */
	uint16_t number;
	bool per_thread; /* the variant whose stream 0 is the thread's own (_ptsz, _ptds) */
};

enum cuda_name_library { CUDA_NAME_RUNTIME, CUDA_NAME_DRIVER };

#define CUDA_NAME_MAX_BYTES 48 /* no symbol that cuda_names__find() accepts is longer, the final NUL included */

/*
 * The function of a symbol: a base name, alone or with _v2 to _v9, and each with or without _ptsz or _ptds. length:
 * bytes of the name, without a version ("@@libcudart.so.12"), which a symbol table may add. False: none. Any thread.
 */
bool cuda_names__find(const char *symbol, size_t length, struct cuda_name *out);

/* Base name of a function. The number must be one that cuda_names__find() gave. */
const char *cuda_names__base(struct cuda_name name);
enum cuda_name_library cuda_names__library(struct cuda_name name);
/* Of a base name; SO_CUDA_API_COUNT: it is no API's. */
unsigned cuda_names__api_of(const char *name);
/* "unknown" for a number that is none. */
const char *cuda_names__api(unsigned api);
enum so_cuda_kind cuda_names__kind(enum so_cuda_api api);
unsigned cuda_names__unit(enum so_cuda_api api); /* SO_CUDA_UNIT() */
/* The words of SO_CUDA_KINDS: the kind's own, and that for what it does; "other" for a number that is none. */
const char *cuda_names__kind_word(unsigned kind);
const char *cuda_names__does_word(unsigned kind);
/* The same of an API's kind; "unknown" for a number that is none. */
const char *cuda_names__does(unsigned api);

#endif
