/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Python walker: the frames of the sampled thread, innermost first (stakeout/python_abi.h says by which offsets).
 * Like the native unwinder it runs in the kernel and, from this one source, in the daemon.
 *
 * The thread state is found in the thread's own storage, which holds it also while the thread does not hold the
 * interpreter's lock; the variable that the interpreter itself uses is empty then. The sampled thread cannot run
 * meanwhile, so what belongs to it does not change under the walk; whether it is in order is not taken for granted,
 * since the sample may have hit in the middle of a push.
 *
 * A thread that goes from one interpreter into another has a thread state in each, and its storage leads to one of
 * them: the first (up to 3.11) or the innermost one. Where the process has several interpreters, the lists of thread
 * states are searched for the others, and the frames of all are taken in the order of their calls: each call of the
 * interpreter's loop keeps a record on the C stack, and that of an inner call lies lower.
 *
 * Whoever includes this defines before it:
 *   bool py_read(void *dst, __u32 bytes, __u64 address)   all or nothing; bytes is at most SO_PYTHON_FRAME_BYTES
 */
#ifndef STAKEOUT_BPF_PYTHON_H
#define STAKEOUT_BPF_PYTHON_H

#include "stakeout/sampler_abi.h"

/* Thread states of a thread whose frames are taken. */
/* Whether a thread's other thread states are looked for. */
#ifndef PY_SEARCHES
#define PY_SEARCHES true
#endif
#define PY_MAX_CHAINS 8
/* Interpreters and thread states that are looked at to find them. */
#define PY_MAX_VISITS 128

/* Between two calls of a thread, of one interpreter and of another that it entered. */
#define PY_NEAR_BYTES (256u << 10)

/*
 * Each Python frame takes a step, and at most one more what stands between two calls of the interpreter's loop. Where
 * there are several thread states, each frame may be passed once before, and each call is chosen.
 */
#define PY_MAX_STEPS (4 * SO_MAX_PYTHON_FRAMES + PY_MAX_VISITS + 3)

/*
 * Frames lie behind one another from 3.11 on, the caller's before its own. So what lies before a frame is read with it:
 * a read costs more than its bytes do. Not beyond the frame's page: what is there may be none of Python's, and whoever
 * reads it from user space may have to wait for it.
 */
#define PY_WINDOW_WORDS 64u
#define PY_BEHIND_BYTES ((PY_WINDOW_WORDS - 1) * 8)
#define PY_PAGE_BYTES   4096u

/* The frames of one thread state that are left. */
struct py_chain {
	__u64 frame; /* the next one; 0: none */
	/*
	 * Where on the C stack the record of the call of the loop is that this frame belongs to; 0: not known yet.
	 * Versions that have no such record (before 3.10): a number that grows outwards.
	 */
	__u64 call;
};

struct so_python_walk {
	__u64 thread; /* thread state: the one that has the lock, if one of this thread has, else that of its storage */
	__u64 own;    /* that of its storage */
	__u64 fsbase;
	__u64 frame;  /* the next one */
	__u64 cframe; /* SO_PYTHON_CFRAME: where that was read from */
	__u64 hash;
	__u32 n;     /* frames */
	__u16 state; /* enum so_python_state */
	__u16 flags; /* enum so_stack_flags */
	/*
	 * Where on the C stack the record of the innermost call of the loop is that has frames. 0: not known, or there
	 * is none (before 3.10).
	 */
	__u64 call;
	__u32 empty_calls; /* of the loop, whose last frame is gone: they free what that held */
	__u8 in_call;      /* a frame was met since the last end of a call */
	/* Where there are several thread states */
	__u8 searching; /* for more */
	__u8 choosing;  /* whose call is next */
	__u8 chain;     /* whose frames are taken */
	__u32 n_chains; /* 0: only one */
	__u32 visits;
	__u64 next_interpreter, next_thread;
	__u64 scout; /* the frame by which the end of a call is looked for; 0: none yet */
	struct py_chain chains[PY_MAX_CHAINS];
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

	if (w->thread != w->own)
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
	if (p->entry != SO_PYTHON_ENTRY_SHIM && p->cframe_back)
		py_read(&w->call, 8, w->thread + p->thread_cframe);
	if (!(p->flags & SO_PYTHON_CFRAME))
		return true;
	w->cframe = w->frame + p->cframe_frame;
	return py_read(&w->frame, 8, w->cframe);
}

/*
 * An interpreter that another thread made may be entered with that thread's state, `current`. It is this thread's now
 * if this one took the lock, or if its calls stand on this one's stack: below this one's, with no end of the other's
 * stack between, which is where its descriptor (id) lies.
 */
static __always_inline bool py_has_entered(const struct so_python_walk *w, const struct so_python *p, __u64 gil,
					   __u64 current, __u64 id)
{
	__u64 holder = 0, outer = 0, inner = 0;
	__u32 locked = 0;

	if (!py_read(&holder, 8, gil + p->gil_holder) || !py_read(&locked, 4, gil + p->gil_locked) || locked != 1)
		return false;
	if (holder == w->thread)
		return true;
	return p->cframe_back && py_read(&outer, 8, w->thread + p->thread_cframe) &&
	       py_read(&inner, 8, current + p->thread_cframe) && inner < outer && outer - inner < PY_NEAR_BYTES &&
	       !(inner < id && id < outer);
}

/* A thread that is within another interpreter: that one's thread state, while it has the lock. */
static __always_inline void py_enter_current(struct so_python_walk *w, const struct so_python *p, __u64 gil,
					     bool several)
{
	__u64 current = 0, id = 0;

	if (!(p->flags & SO_PYTHON_GIL_RUNTIME) || !py_read(&current, 8, gil + p->gil_current) || !current ||
	    current == w->thread || !py_read(&id, 8, current + p->thread_id))
		return;
	if (id == w->fsbase || (several && py_has_entered(w, p, gil, current, id)))
		w->thread = current;
}

/*
 * The frames of one more thread state, if it has any. rank: the place of its calls among the others', where these have
 * no record on the C stack. False: too many.
 */
static __always_inline bool py_add_chain(struct so_python_walk *w, const struct so_python *p, __u64 thread, __u64 rank)
{
	__u64 frame = 0, call = p->entry == SO_PYTHON_ENTRY_SHIM ? 0 : rank;
	struct py_chain *chain = &w->chains[w->n_chains & (PY_MAX_CHAINS - 1)];

	if (!py_read(&frame, 8, thread + p->frame))
		return true;
	if (p->flags & SO_PYTHON_CFRAME) {
		__u64 cframe = frame;

		/* The call may not have written its frame yet. */
		if (!py_read(&frame, 8, cframe + p->cframe_frame) ||
		    (!frame &&
		     (!py_read(&cframe, 8, cframe + p->cframe_back) || !py_read(&frame, 8, cframe + p->cframe_frame))))
			return true;
	}
	if (p->cframe_back && p->entry != SO_PYTHON_ENTRY_SHIM && !py_read(&call, 8, thread + p->thread_cframe))
		return true;
	if (!frame)
		return true;
	if (w->n_chains == PY_MAX_CHAINS)
		return false;
	chain->frame = frame;
	chain->call = call;
	w->n_chains++;
	return true;
}

/* Whether the thread may have several thread states. */
static __always_inline bool py_may_have_several(struct so_python_walk *w, const struct so_python *p,
						const struct so_python_place *place)
{
	return p->interp_threads && py_read(&w->next_interpreter, 8, place->interpreters) &&
	       (w->next_interpreter != place->main_interpreter || place->several);
}

/*
 * Whether the order of a thread's calls can be known. Before 3.10 only the innermost and the outermost thread state are
 * known to be that: where a thread calls its first interpreter from another, none of the other's frames are shown.
 */
static __always_inline bool py_knows_order(const struct so_python_walk *w, const struct so_python *p)
{
	return p->cframe_back || p->entry == SO_PYTHON_ENTRY_SHIM || w->thread != w->own || !(w->flags & SO_STACK_GIL);
}

/*
 * Whether the thread state that the thread's storage leads to is its own. In 3.12 a thread that enters an interpreter
 * that another one made takes that one's thread state, and notes it in its storage.
 */
static __always_inline bool py_is_own(const struct so_python_walk *w, const struct so_python *p, bool several)
{
	__u64 id = 0;

	return py_read(&id, 8, w->thread + p->thread_id) &&
	       (id == w->fsbase || (several && p->entry == SO_PYTHON_ENTRY_SHIM && p->flags & SO_PYTHON_CFRAME));
}

/* Ranks before 3.10. Of those between, an interpreter that was made later is taken for an inner one. */
#define PY_RANK_INNERMOST 1
#define PY_RANK_BETWEEN   2
#define PY_RANK_OUTERMOST (PY_RANK_BETWEEN + PY_MAX_VISITS + 1)

static __always_inline void py_begin_search(struct so_python_walk *w, const struct so_python *p)
{
	w->searching = 1;
	w->flags |= SO_STACK_SUBINTERPRETER;
	if (w->thread != w->own)
		py_add_chain(w, p, w->thread, PY_RANK_INNERMOST);
	py_add_chain(w, p, w->own, PY_RANK_OUTERMOST);
}

/* The search is over: of several thread states the frames are taken by turns. Returns as py_step(). */
static __always_inline int py_end_search(struct so_python_walk *w, bool found_all)
{
	if (found_all)
		w->flags &= ~SO_STACK_SUBINTERPRETER;
	w->searching = 0;
	w->choosing = w->n_chains > 0;
	return 0;
}

/* Looks at one interpreter or one thread state. The lists may change meanwhile. */
static __always_inline int py_search(struct so_python_walk *w, const struct so_python *p)
{
	__u64 thread = w->next_thread, interpreter = w->next_interpreter, id = 0;

	if (!thread && !interpreter)
		return py_end_search(w, true);
	if (++w->visits > PY_MAX_VISITS)
		return py_end_search(w, false);
	if (!thread) {
		if (!py_read(&w->next_thread, 8, interpreter + p->interp_threads) ||
		    !py_read(&w->next_interpreter, 8, interpreter + p->interp_next))
			return py_end_search(w, false);
		return 0;
	}
	if (!py_read(&w->next_thread, 8, thread + p->thread_next) || !py_read(&id, 8, thread + p->thread_id))
		return py_end_search(w, false);
	if (id == w->fsbase && thread != w->thread && thread != w->own &&
	    !py_add_chain(w, p, thread, PY_RANK_BETWEEN + w->visits))
		return py_end_search(w, false);
	return 0;
}

/* Looks for the end of a chain's innermost call (3.12 and later), a frame at a time. */
static __always_inline int py_scout(struct so_python_walk *w, const struct so_python *p, struct py_chain *chain)
{
	__u64 frame = w->scout ? w->scout : chain->frame, back = 0;
	__u8 owner = 0;

	w->scout = 0;
	/* It is taken last, and says then what is wrong. */
	if (!py_read(&owner, 1, frame + p->frame_entry) || !py_read(&back, 8, frame + p->frame_back))
		chain->call = ~0ull - 1;
	else if (owner >= p->entry_owner)
		chain->call = frame;
	else if (!back)
		chain->call = ~0ull - 1;
	else
		w->scout = back;
	return 0;
}

/* Finds the thread's innermost frame. Returns as py_step(). */
static __always_inline int py_begin(struct so_python_walk *w, const struct so_python *p,
				    const struct so_python_place *place, __u64 fsbase)
{
	__u64 storage = fsbase;
	bool several;

	w->hash = 0;
	w->n = 0;
	w->flags = SO_STACK_PYTHON_KNOWN;
	w->thread = 0;
	w->fsbase = fsbase;
	w->frame = 0;
	w->cframe = 0;
	w->window_base = 0;
	w->call = 0;
	w->empty_calls = 0;
	w->in_call = 0;
	w->searching = 0;
	w->choosing = 0;
	w->n_chains = 0;
	w->visits = 0;
	w->next_thread = 0;
	w->scout = 0;
	if (place->table && !py_read(&storage, 8, fsbase + place->table))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!py_read(&w->thread, 8, storage + place->tss))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	if (!w->thread)
		return py_end(w, SO_PYTHON_STATE_NONE);
	several = PY_SEARCHES && py_may_have_several(w, p, place);
	if (!py_is_own(w, p, several))
		return py_end(w, SO_PYTHON_STATE_NO_THREAD);
	w->own = w->thread;
	py_enter_current(w, p, place->gil, several);
	w->flags |= py_lock_flags(w, p, place);
	if (several && py_knows_order(w, p))
		py_begin_search(w, p);
	return py_innermost(w, p) ? 0 : py_end(w, SO_PYTHON_STATE_NO_THREAD);
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
	w->call = p->entry == SO_PYTHON_ENTRY_SHIM ? 0 : before;
	w->cframe = 0;
	w->hash = 0;
	w->n = 0;
	w->in_call = 0;
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

/* Several thread states: the innermost call that is left is the one whose record lies lowest. */
static __always_inline int py_choose(struct so_python_walk *w, const struct so_python *p)
{
	__u64 lowest = ~0ull;

	for (__u32 i = 0; i < PY_MAX_CHAINS; i++) {
		const struct py_chain *chain = &w->chains[i];

		if (i >= w->n_chains || !chain->frame || chain->call >= lowest)
			continue;
		lowest = chain->call;
		w->chain = i;
	}
	if (lowest == ~0ull) {
		py_hash_last(w);
		return py_end(w, SO_PYTHON_STATE_COMPLETE);
	}
	if (!lowest)
		return py_scout(w, p, &w->chains[w->chain & (PY_MAX_CHAINS - 1)]);
	w->frame = w->chains[w->chain & (PY_MAX_CHAINS - 1)].frame;
	if (!w->n && p->cframe_back && p->entry != SO_PYTHON_ENTRY_SHIM)
		w->call = lowest;
	/* Only what the thread runs now, which stands first, can be half made. */
	if (w->n || w->chain)
		w->cframe = 0;
	w->choosing = 0;
	return 0;
}

/* A call of the loop has no more frames: that of another thread state may be next. back: what follows in this one. */
static __always_inline void py_leave_call(struct so_python_walk *w, const struct so_python *p, __u64 back)
{
	struct py_chain *chain = &w->chains[w->chain & (PY_MAX_CHAINS - 1)];
	__u64 before = 0;

	chain->frame = back;
	if (p->entry == SO_PYTHON_ENTRY_SHIM)
		chain->call = 0;
	else if (p->cframe_back && py_read(&before, 8, chain->call + p->cframe_back))
		chain->call = before;
	w->choosing = 1;
}

/* A frame that stands between two calls. The outermost one of all, of 3.15, is none of a call. */
static __always_inline void py_pass_shim(struct so_python_walk *w, __u64 back)
{
	py_mark_entry(w);
	if (!w->in_call && back)
		w->empty_calls++;
	if (w->in_call && !w->call)
		w->call = w->frame;
	w->in_call = 0;
}

/* One frame. Not 0: this was the end, and w->state says how. */
static __always_inline int py_step(struct so_python_walk *w, const struct so_python *p)
{
	bool left;
	__u64 code, back;

	if (PY_SEARCHES && w->searching)
		return py_search(w, p);
	if (PY_SEARCHES && w->choosing)
		return py_choose(w, p);
	if (!w->frame) {
		if (py_is_unwritten(w))
			return py_failed(w, p);
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
		py_pass_shim(w, back);
		left = true;
	} else {
		py_hash_last(w);
		if (w->n == SO_MAX_PYTHON_FRAMES)
			return py_end(w, SO_PYTHON_STATE_DEPTH);
		if (!py_push(w, p, code))
			return py_failed(w, p);
		w->in_call = 1;
		left = p->entry == SO_PYTHON_ENTRY_ALL ||
		       (p->entry == SO_PYTHON_ENTRY_FLAG && py_byte(w, p->frame_entry));
	}
	w->frame = back;
	if (PY_SEARCHES && w->n_chains && (left || !back))
		py_leave_call(w, p, back);
	return 0;
}

#endif
