/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Puts a thread's Python frames where they belong among its native ones.
 *
 * A call of the interpreter's loop (_PyEval_EvalFrameDefault) is one native frame, in which one or more Python frames
 * run: those of a call of the loop end with the one marked `entry` (its first, so outermost, frame). The native frame
 * of the loop is replaced by its Python frames; all other native frames stay where they are.
 */
#ifndef STAKEOUT_PYTHON_MERGE_H
#define STAKEOUT_PYTHON_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum merged_kind {
	MERGED_NATIVE, /* index: of a native frame */
	MERGED_PYTHON, /* index: of a Python frame */
	MERGED_CUT,    /* where the native stack was cut */
};

struct merged_frame {
	uint32_t index;
	uint8_t kind; /* enum merged_kind */
};

struct merge_input {
	const uint8_t *loops; /* [n_native], leaf first: 1 where the frame is a call of the interpreter's loop */
	size_t n_native;
	const uint8_t *entries; /* [n_python], leaf first: 1 where the frame is the first of its call of the loop */
	size_t n_python;
	/*
	 * Where no call of the loop is known (an interpreter without names), all Python frames go before this native
	 * frame: the innermost one in the interpreter's file; n_native: none. Not where the loop is known and the stack
	 * was cut before one was met: they follow the cut.
	 */
	size_t interpreter;
	bool loop_known;
	bool native_cut, python_cut; /* frames at the outer end are missing */
	bool within; /* another interpreter than the first: the Python frames are those of the innermost calls */
	/* The thread has the interpreter's lock, or there is none: else no call of the loop begins or ends. */
	bool has_lock;
};

/*
 * Leaf first into `out`, which has room for n_native + n_python + 1; returns the number.
 *
 * Calls and their frames are matched from the outermost end, where both are sure: a sample may hit a call of the loop
 * that has not made its frame yet, or has dropped it already, as a generator does each time it is resumed. Such a call
 * is left out, and what it calls follows its caller. Where the native stack was cut, or in another interpreter, they
 * are matched from the innermost end, and Python frames beyond the cut follow it. Calls of the loop for which there are
 * no frames for another reason stay native.
 */
size_t python_merge(const struct merge_input *in, struct merged_frame *out);

#endif
