/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recorded interpreter: the memory that stakeout read of a CPython whose threads stood still, and what these threads'
 * stacks were, as the interpreter itself (its frames) and tests/golden/referee.h (the native ones) told. Lines, then
 * bytes:
 *
 *   stakeout-python 1
 *   interpreter RUNTIME VERSION OWN hex; the process address of _PyRuntime, and Py_Version; decimal: how far from a
 *                                   descriptor a program's own thread-local state is (3.15; before, it is absent)
 *   thread DESCRIPTOR NATIVE_ID held|released
 *                                   fsbase in hex; the lock (GIL); then its stack, innermost first:
 *   native NAME
 *   loop NAME                       a call of the interpreter's loop; the Python frames that run in it follow
 *   python FUNCTION|FILE|LINE|OFFSET|entry or inner
 *                                   fields between tabs. OFFSET: f_lasti in bytes; "-": not known. entry: the first of
 *                                   its call of the loop
 *   memory PACKED UNPACKED          in bytes; then PACKED bytes of zstd
 *
 * The memory, unpacked: pieces of a u64 address, a u32 length and the bytes, little-endian, in ascending order; they
 * neither touch nor overlap. Functions return 0 or -errno.
 */
#ifndef STAKEOUT_TESTS_GOLDEN_PYTHON_RECORDING_H
#define STAKEOUT_TESTS_GOLDEN_PYTHON_RECORDING_H

#include "daemon/os/foreign_memory.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define RECORDING_MAX_THREADS 8
#define RECORDING_NAME_BYTES  128
#define RECORDING_NO_OFFSET   (-1)

enum recording_kind { RECORDING_NATIVE, RECORDING_LOOP, RECORDING_PYTHON };

struct recording_frame {
	enum recording_kind kind;
	char name[RECORDING_NAME_BYTES], file[RECORDING_NAME_BYTES];
	int line, offset;
	bool entry;
};

struct recording_thread {
	uint64_t descriptor, native_id;
	bool held;
	struct recording_frame *frames;
	size_t n_frames, cap_frames;
};

struct recording_piece {
	uint64_t address;
	uint8_t *bytes;
	size_t n;
};

struct recording {
	uint64_t runtime;
	uint32_t version;
	int32_t own; /* 0: none */
	struct recording_thread threads[RECORDING_MAX_THREADS];
	size_t n_threads;
	struct recording_piece *pieces;
	size_t n_pieces, cap_pieces;
};

/* -EBADMSG: not such a file, err says where. */
int recording__read(const char *path, struct recording *out, struct so_error *err);
int recording__write(const struct recording *r, const char *path);
void recording__release(struct recording *r);
static inline void cleanup__recording(struct recording *r)
{
	recording__release(r);
}

int recording__add_frame(struct recording_thread *t, const struct recording_frame *frame);

/* The memory of a recording that has been read or joined. */
struct foreign_memory recording__memory(const struct recording *r);
/* The byte at that address; NULL where there is none. */
uint8_t *recording__byte(const struct recording *r, uint64_t address);

/* Adds what was read, in any order; recording__join() then makes pieces of it. -EBADMSG: one byte with two values. */
int recording__add_memory(struct recording *r, uint64_t address, const void *bytes, size_t n);
int recording__join(struct recording *r);

#endif
