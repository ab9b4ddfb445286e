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

/* Each Python frame takes a step, and at most one more for what stands between two calls of the interpreter's loop. */
#define PY_MAX_STEPS (2 * SO_MAX_PYTHON_FRAMES + 2)

/*
 * Frames lie behind one another from 3.11 on, the caller's before its own. So what lies before a frame is read with it:
 * a read costs more than its bytes do.
 */
#define PY_WINDOW_WORDS 64u
#define PY_BEHIND_BYTES ((PY_WINDOW_WORDS - 1) * 8)

struct so_python_walk {
	__u64 thread; /* thread state */
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

static __always_inline bool py_holds_gil(const struct so_python_walk *w, const struct so_python *p, __u64 gil)
{
	__u64 interpreter = 0, holder = 0;
	__u32 locked = 0;

	if (!(p->flags & SO_PYTHON_GIL_RUNTIME)) {
		if (!py_read(&interpreter, 8, w->thread + p->interp) || !py_read(&gil, 8, interpreter + p->interp_gil))
			return false;
	}
	return py_read(&holder, 8, gil + p->gil_holder) && holder == w->thread &&
	       py_read(&locked, 4, gil + p->gil_locked) && locked == 1;
}

/* Finds the thread's innermost frame. Returns as py_step(). */
static __always_inline int py_begin(struct so_python_walk *w, const struct so_python *p,
				    const struct so_python_place *place, __u64 fsbase)
{
	__u64 id = 0;

	w->hash = 0;
	w->n = 0;
	w->flags = 0;
	w->thread = 0;
	w->frame = 0;
	w->cframe = 0;
	w->window_base = 0;
	if (!py_read(&w->thread, 8, fsbase + place->tss))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!w->thread)
		return py_end(w, SO_PYTHON_STATE_NONE);
	if (!py_read(&id, 8, w->thread + p->thread_id) || id != fsbase)
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!py_read(&w->frame, 8, w->thread + p->frame))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (p->flags & SO_PYTHON_CFRAME) {
		w->cframe = w->frame + p->cframe_frame;
		if (!py_read(&w->frame, 8, w->cframe))
			return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	}
	if (py_holds_gil(w, p, place->gil))
		w->flags |= SO_STACK_GIL;
	return 0;
}

/* In code units from the first instruction. */
static __always_inline __u32 py_instruction(const struct so_python_walk *w, const struct so_python *p, __u64 code)
{
	__u64 units;

	if (p->flags & SO_PYTHON_LASTI) {
		__s32 last = py_int(w, p->frame_instruction);

		if (last < 0)
			return SO_PYTHON_NO_INSTRUCTION;
		units = p->flags & SO_PYTHON_LASTI_BYTES ? (__u32)last / 2 : (__u32)last;
	} else {
		/* Before the first instruction this wraps around to far beyond what fits. */
		units = (py_pointer(w, p->frame_instruction) - (code + p->code_first)) >> 1;
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
