/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sources: Include/internal/pycore_runtime.h of 3.13.0, Include/internal/pycore_debug_offsets.h of 3.14 and 3.15.2. The
 * table is a row of 64-bit words: a cookie, the version, whether the build is free-threaded, then for one structure
 * after the other its size and the offsets in it. Which word is which differs from one minor version to the next.
 */
#ifndef STAKEOUT_PYTHON_DEBUG_TABLE_INTERNAL_H
#define STAKEOUT_PYTHON_DEBUG_TABLE_INTERNAL_H

#include <stdint.h>

#include "stakeout/python_abi.h"

/* The words that every version has. */
enum { COOKIE_AT, VERSION_AT, FREE_THREADED_AT, N_FIXED };

/* The words that are used: X(name, which word in 3.13, in 3.14, in 3.15). */
#define TABLE_WORDS(X)                    \
	X(RUNTIME, 3, 3, 3)               \
	X(INTERPRETERS_HEAD, 5, 5, 5)     \
	X(INTERPRETER, 6, 6, 6)           \
	X(INTERPRETER_NEXT, 8, 8, 8)      \
	X(THREADS_HEAD, 9, 9, 9)          \
	X(CEVAL_GIL, 14, 15, 15)          \
	X(GIL, 15, 16, 16)                \
	X(LOCKED, 17, 18, 18)             \
	X(HOLDER, 18, 19, 19)             \
	X(THREAD, 19, 22, 22)             \
	X(THREAD_PREV, 20, 23, 23)        \
	X(THREAD_NEXT, 21, 24, 24)        \
	X(THREAD_INTERPRETER, 22, 25, 25) \
	X(CURRENT_FRAME, 23, 26, 26)      \
	X(THREAD_ID, 24, 27, 30)          \
	X(NATIVE_ID, 25, 28, 31)          \
	X(FRAME, 28, 31, 39)              \
	X(PREVIOUS, 29, 32, 40)           \
	X(EXECUTABLE, 30, 33, 41)         \
	X(INSTRUCTION, 31, 34, 42)        \
	X(OWNER, 33, 36, 44)              \
	X(LOCALS, 32, 35, 43)             \
	X(CODE, 34, 39, 47)               \
	X(FILENAME, 35, 40, 48)           \
	X(NAME, 36, 41, 49)               \
	X(QUALNAME, 37, 42, 50)           \
	X(LINETABLE, 38, 43, 51)          \
	X(FIRSTLINENO, 39, 44, 52)        \
	X(ARGCOUNT, 40, 45, 53)           \
	X(FIRST_INSTRUCTION, 43, 48, 56)  \
	X(OBJECT, 44, 50, 58)             \
	X(OBJECT_TYPE, 45, 51, 59)        \
	X(TYPE_NAME, 47, 53, 61)          \
	X(BYTES_OBJECT, 64, 74, 86)       \
	X(BYTES_SIZE, 65, 75, 87)         \
	X(BYTES_DATA, 66, 76, 88)         \
	X(STR, 67, 77, 89)                \
	X(STR_STATE, 68, 78, 90)          \
	X(STR_LENGTH, 69, 79, 91)         \
	X(ASCII_DATA, 70, 80, 92)

enum table_word {
#define X(name, ...) W_##name,
	TABLE_WORDS(X)
#undef X
		N_WORDS,
};

struct table_format {
	uint16_t version;
	uint16_t n; /* words in all */
	uint8_t at[N_WORDS];
	uint32_t autotss_key; /* of _PyRuntimeState, which the table does not tell; 0: not known */
	uint8_t gil_enabled_at;
	/* Free-threaded, a thread may run a copy of a code object's instructions: the words for which and where. */
	uint8_t frame_copy_at, code_copies_at; /* 0: there are no copies (3.13) */
	uint8_t kind_bit;                      /* of a str object's state, where free-threaded */
	uint16_t flags;                        /* enum so_python_flags */
	/* FRAME_OWNED_BY_CSTACK in 3.13. 3.14 has FRAME_OWNED_BY_INTERPRETER in its place, and the other one behind. */
	uint16_t entry_owner;
	uint16_t cached_keys_at; /* the word for PyHeapTypeObject.ht_cached_keys; 0: HEAP_TYPE_CACHED_KEYS */
};

static const struct table_format formats[] = {
	{
		.version = 0x030d,
		.n = 73,
		.at = {
#define X(name, in_3_13, in_3_14, in_3_15) in_3_13,
			TABLE_WORDS(X)
#undef X
		},
		.autotss_key = 2160,
		.gil_enabled_at = 16,
		.kind_bit = 2,
		.entry_owner = 3,
	},
	{
		.version = 0x030e,
		.n = 95,
		.at = {
#define X(name, in_3_13, in_3_14, in_3_15) in_3_14,
			TABLE_WORDS(X)
#undef X
		},
		.gil_enabled_at = 17,
		.frame_copy_at = 38,
		.code_copies_at = 49,
		.kind_bit = 8,
		.flags = SO_PYTHON_TAGGED,
		.entry_owner = 3,
	},
	{
		.version = 0x030f,
		.n = 111,
		.at = {
#define X(name, in_3_13, in_3_14, in_3_15) in_3_15,
			TABLE_WORDS(X)
#undef X
		},
		.gil_enabled_at = 17,
		.frame_copy_at = 46,
		.code_copies_at = 57,
		.kind_bit = 8,
		.flags = SO_PYTHON_TAGGED,
		.entry_owner = 3,
		.cached_keys_at = 67,
	},
};

#endif
