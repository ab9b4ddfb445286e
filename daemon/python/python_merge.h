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
	/* The thread has the interpreter's lock, or there is none: else no call of the loop begins or ends. */
	bool has_lock;
	bool innermost_known; /* where frames are missing, those that are there belong to the innermost calls */
	bool within;          /* frames at the outer end may be missing: those of other interpreters */
	size_t call_at;       /* the native frame, from 1, that is the innermost call with frames; 0: not known */
	uint32_t empty_calls; /* calls that have no frame any more and still free what their last one held */
};

/*
 * Leaf first into `out`, which has room for n_native + n_python + 1; returns the number.
 *
 * Calls and their frames are matched from the outermost end, where both are sure: a sample may hit a call of the loop
 * that has not made its frame yet, or has dropped it already, as a generator does each time it is resumed. Such a call
 * is left out, and what it calls follows its caller. Where the native stack was cut, or frames are missing and the
 * innermost ones are known, they are matched from the innermost end, and Python frames beyond the cut follow it. Calls
 * of the loop for which there are no frames for another reason stay native.
 */
size_t python_merge(const struct merge_input *in, struct merged_frame *out);

/*
 * Calls of the loop whose Python frames are missing; not those that begin or end. 0 where that is not known, because
 * one of the two stacks was cut.
 */
size_t python_merge__missing(const struct merge_input *in);

#endif
