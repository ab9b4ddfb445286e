/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Python walker: the frames of the interpreter that the sampled thread is in, innermost first
 * (stakeout/python_abi.h says by which offsets). Like the native unwinder it runs in the kernel and, from this one
 * source, in the daemon.
 *
 * The thread state is found in the thread's own storage, which holds it also while the thread does not hold the
 * interpreter's lock; the variable that the interpreter itself uses is empty then. The sampled thread cannot run
 * meanwhile, so what belongs to it does not change under the walk; whether it is in order is not taken for granted,
 * since the sample may have hit in the middle of a push.
 *
 * Whoever includes this defines before it:
 *   bool py_read(void *dst, __u32 bytes, __u64 address)   all or nothing; bytes is at most SO_PYTHON_FRAME_BYTES
 */
#ifndef STAKEOUT_BPF_PYTHON_H
#define STAKEOUT_BPF_PYTHON_H

#include "stakeout/sampler_abi.h"

/*
 * Each Python frame takes a step, at most one more what stands between two calls of the interpreter's loop, and one the
 * way from one interpreter to the other.
 */
#define PY_MAX_STEPS (2 * SO_MAX_PYTHON_FRAMES + 3)

/*
 * Frames lie behind one another from 3.11 on, the caller's before its own. So what lies before a frame is read with it:
 * a read costs more than its bytes do. Not beyond the frame's page: what is there may be none of Python's, and whoever
 * reads it from user space may have to wait for it.
 */
#define PY_WINDOW_WORDS 64u
#define PY_BEHIND_BYTES ((PY_WINDOW_WORDS - 1) * 8)
#define PY_PAGE_BYTES   4096u

struct so_python_walk {
	__u64 thread; /* thread state */
	__u64 below;  /* the one whose frames come after this one's: 0 but for threads within another interpreter */
	__u64 frame;  /* the next one */
	__u64 cframe; /* SO_PYTHON_CFRAME: where that was read from */
	__u64 hash;
	__u32 n;           /* frames */
	__u16 state;       /* enum so_python_state */
	__u16 flags;       /* enum so_stack_flags */
	__u64 window_base; /* address of window[0]; 0: nothing was read */
	__u64 window[PY_WINDOW_WORDS - 1 + SO_PYTHON_FRAME_BYTES / 8];
	__u64 chunk[SO_PYTHON_FRAME_BYTES / 8];
	__u64 code[SO_PYTHON_SUM_WORDS];
	__u64 words[SO_MAX_PYTHON_FRAMES * SO_PYTHON_WORDS];
};

static __always_inline int py_end(struct so_python_walk *w, enum so_python_state state)
{
	w->state = state;
	return 1;
}

static __always_inline __u64 py_pointer(const struct so_python_walk *w, __u32 offset)
{
	return *(const __u64 *)((const char *)w->chunk + (offset & (SO_PYTHON_FRAME_BYTES - 8)));
}

static __always_inline __s32 py_int(const struct so_python_walk *w, __u32 offset)
{
	return *(const __s32 *)((const char *)w->chunk + (offset & (SO_PYTHON_FRAME_BYTES - 4)));
}

static __always_inline __u8 py_byte(const struct so_python_walk *w, __u32 offset)
{
	return *((const __u8 *)w->chunk + (offset & (SO_PYTHON_FRAME_BYTES - 1)));
}

/*
 * SO_STACK_GIL, SO_STACK_NO_GIL, or neither: there is a lock and this thread does not hold it, or it could not be read.
 * With SO_STACK_SUBINTERPRETER where the thread's storage leads to another interpreter than the first.
 */
static __always_inline __u16 py_lock_flags(const struct so_python_walk *w, const struct so_python *p,
					   const struct so_python_place *place)
{
	__u64 gil = place->gil, interpreter = 0, holder = 0;
	__u32 locked = 0, enabled = 0;
	__u16 flags = 0;

	if (w->below)
		return SO_STACK_GIL;
	if (!(p->flags & SO_PYTHON_GIL_RUNTIME)) {
		if (!py_read(&interpreter, 8, w->thread + p->interp) || !py_read(&gil, 8, interpreter + p->interp_gil))
			return 0;
		if (interpreter != place->main_interpreter)
			flags = SO_STACK_SUBINTERPRETER;
	}
	if (p->flags & SO_PYTHON_FREE_THREADED && py_read(&enabled, 4, gil + p->gil_enabled) && !enabled)
		return flags | SO_STACK_NO_GIL;
	if (py_read(&holder, 8, gil + p->gil_holder) && holder == w->thread &&
	    py_read(&locked, 4, gil + p->gil_locked) && locked == 1)
		return flags | SO_STACK_GIL;
	return flags;
}

/* Where the thread state's innermost frame is. False: cannot be read. */
static __always_inline bool py_innermost(struct so_python_walk *w, const struct so_python *p)
{
	w->cframe = 0;
	if (!py_read(&w->frame, 8, w->thread + p->frame))
		return false;
	if (!(p->flags & SO_PYTHON_CFRAME))
		return true;
	w->cframe = w->frame + p->cframe_frame;
	return py_read(&w->frame, 8, w->cframe);
}

/* A thread that is within another interpreter: that one's thread state, while it has the lock. */
static __always_inline void py_enter_current(struct so_python_walk *w, const struct so_python *p, __u64 gil,
					     __u64 fsbase)
{
	__u64 current = 0, id = 0;

	if (!(p->flags & SO_PYTHON_GIL_RUNTIME) || !py_read(&current, 8, gil + p->gil_current) || !current ||
	    current == w->thread || !py_read(&id, 8, current + p->thread_id) || id != fsbase)
		return;
	w->below = w->thread;
	w->thread = current;
}

/* Finds the thread's innermost frame. Returns as py_step(). */
static __always_inline int py_begin(struct so_python_walk *w, const struct so_python *p,
				    const struct so_python_place *place, __u64 fsbase)
{
	__u64 storage = fsbase, id = 0;

	w->hash = 0;
	w->n = 0;
	w->flags = 0;
	w->thread = 0;
	w->below = 0;
	w->frame = 0;
	w->cframe = 0;
	w->window_base = 0;
	if (place->table && !py_read(&storage, 8, fsbase + place->table))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!py_read(&w->thread, 8, storage + place->tss))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!w->thread)
		return py_end(w, SO_PYTHON_STATE_NONE);
	if (!py_read(&id, 8, w->thread + p->thread_id) || id != fsbase)
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	py_enter_current(w, p, place->gil, fsbase);
	if (!py_innermost(w, p))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	w->flags |= py_lock_flags(w, p, place);
	return 0;
}

/*
 * Where the instructions begin that the frame runs: in the code object, or in the thread's own copy of them. 0: cannot
 * be read. The table of copies grows by being replaced, but the old one lives until no thread can be in it.
 */
static __always_inline __u64 py_first_instruction(const struct so_python_walk *w, const struct so_python *p, __u64 code)
{
	__s32 copy = p->flags & SO_PYTHON_COPIES ? py_int(w, p->frame_copy) : 0;
	__u64 copies = 0, first = 0;

	if (copy <= 0)
		return code + p->code_first;
	if (!py_read(&copies, 8, code + p->code_copies) || !py_read(&first, 8, copies + 8 + (__u64)copy * 8))
		return 0;
	return first;
}

/* In code units from the first instruction. */
static __always_inline __u32 py_instruction(const struct so_python_walk *w, const struct so_python *p, __u64 code)
{
	__u64 units, first;

	if (p->flags & SO_PYTHON_LASTI) {
		__s32 last = py_int(w, p->frame_instruction);

		if (last < 0)
			return SO_PYTHON_NO_INSTRUCTION;
		units = p->flags & SO_PYTHON_LASTI_BYTES ? (__u32)last / 2 : (__u32)last;
	} else {
		first = py_first_instruction(w, p, code);
		if (!first)
			return SO_PYTHON_NO_INSTRUCTION;
		/* Before the first instruction this wraps around to far beyond what fits. */
		units = (py_pointer(w, p->frame_instruction) - first) >> 1;
	}
	return units < SO_PYTHON_NO_INSTRUCTION ? units : SO_PYTHON_NO_INSTRUCTION;
}

/* The last frame is complete now: whether it was the first one of its call of the loop shows only behind it. */
static __always_inline void py_hash_last(struct so_python_walk *w)
{
	__u32 at = (w->n - 1) & (SO_MAX_PYTHON_FRAMES - 1);

	if (w->n) {
		w->hash = so_mix(w->hash, w->words[at * SO_PYTHON_WORDS]);
		w->hash = so_mix(w->hash, w->words[at * SO_PYTHON_WORDS + 1]);
	}
}

static __always_inline void py_mark_entry(struct so_python_walk *w)
{
	__u32 at = (w->n - 1) & (SO_MAX_PYTHON_FRAMES - 1);

	if (w->n)
		w->words[at * SO_PYTHON_WORDS] |= SO_PYTHON_FRAME(0, 1, 0);
}

static __always_inline bool py_push(struct so_python_walk *w, const struct so_python *p, __u64 code)
{
	__u32 at = w->n & (SO_MAX_PYTHON_FRAMES - 1);
	bool entry = p->entry == SO_PYTHON_ENTRY_ALL;
	__u64 sum, hash = 0;

	if (code & 7 || !code || code >> 47 || !py_read(w->code, sizeof(w->code), code + p->code_sum))
		return false;
	if (p->entry == SO_PYTHON_ENTRY_FLAG)
		entry = py_byte(w, p->frame_entry) != 0;
	w->words[at * SO_PYTHON_WORDS] = SO_PYTHON_FRAME(code, entry, py_instruction(w, p, code));
	sum = so_python_sum(w->code, p->sum_words);
	if (p->name_hash) {
		py_read(&hash, sizeof(hash), so_python_name(w->code, p) + p->name_hash);
		sum = so_mix(sum, hash);
	}
	w->words[at * SO_PYTHON_WORDS + 1] = sum;
	w->n++;
	return true;
}

/*
 * A call of the interpreter's loop links its cframe in before it writes the frame into it: until then the innermost
 * frame is that of the cframe before (struct _PyCFrame: current_frame, previous). What is there meanwhile is what an
 * earlier call left in that place of the stack: no frame, or one that leads nowhere. Tried once, from the beginning.
 */
static __always_inline int py_failed(struct so_python_walk *w, const struct so_python *p)
{
	__u64 before = 0;

	if (!w->cframe)
		return py_end(w, SO_PYTHON_STATE_FRAME);
	if (!py_read(&before, 8, w->cframe + 8) || !py_read(&w->frame, 8, before + p->cframe_frame))
		return py_end(w, SO_PYTHON_STATE_FRAME);
	w->cframe = 0;
	w->hash = 0;
	w->n = 0;
	return 0;
}

/* Whether no frame was found where one will be written: the first cframe of a thread has none, and none before it. */
static __always_inline bool py_is_unwritten(const struct so_python_walk *w)
{
	__u64 before = 0;

	return w->cframe && !w->n && py_read(&before, 8, w->cframe + 8) && before;
}

/* Reads the frame into w->chunk. */
static __always_inline bool py_read_frame(struct so_python_walk *w, const struct so_python *p)
{
	__u64 off = w->frame - w->window_base;
	__u32 bytes = p->frame_bytes;

	if (bytes > SO_PYTHON_FRAME_BYTES)
		bytes = SO_PYTHON_FRAME_BYTES;
	if (p->flags & SO_PYTHON_LASTI || w->frame & 7)
		return py_read(w->chunk, bytes, w->frame);
	if (!w->window_base || off > PY_BEHIND_BYTES) {
		w->window_base = 0;
		off = w->frame & (PY_PAGE_BYTES - 1);
		if (off > PY_BEHIND_BYTES)
			off = PY_BEHIND_BYTES;
		if (!py_read(w->window, sizeof(w->window), w->frame - off))
			return py_read(w->chunk, bytes, w->frame);
		w->window_base = w->frame - off;
	}
	for (int i = 0; i < SO_PYTHON_FRAME_BYTES / 8; i++)
		w->chunk[i] = w->window[(off / 8 & (PY_WINDOW_WORDS - 1)) + i];
	return true;
}

/* One frame. Not 0: this was the end, and w->state says how. */
static __always_inline int py_step(struct so_python_walk *w, const struct so_python *p)
{
	__u64 code, back;

	if (!w->frame) {
		if (py_is_unwritten(w))
			return py_failed(w, p);
		if (w->below) {
			w->thread = w->below;
			w->below = 0;
			if (!py_innermost(w, p))
				return py_end(w, SO_PYTHON_STATE_FRAME);
			w->cframe = 0; /* it is not the innermost call: nothing is half made */
			return 0;
		}
		py_hash_last(w);
		return py_end(w, SO_PYTHON_STATE_COMPLETE);
	}
	if (!py_read_frame(w, p)) {
		py_hash_last(w);
		return py_failed(w, p);
	}
	code = py_pointer(w, p->frame_code);
	back = py_pointer(w, p->frame_back);
	if (p->flags & SO_PYTHON_TAGGED)
		code &= ~3ull;
	if (p->entry == SO_PYTHON_ENTRY_SHIM && py_byte(w, p->frame_entry) >= p->entry_owner) {
		py_mark_entry(w);
	} else {
		py_hash_last(w);
		if (w->n == SO_MAX_PYTHON_FRAMES)
			return py_end(w, SO_PYTHON_STATE_DEPTH);
		if (!py_push(w, p, code))
			return py_failed(w, p);
	}
	w->frame = back;
	return 0;
}

#endif
