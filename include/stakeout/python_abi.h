/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the Python walker in bpf/ must know of an interpreter, and what it makes of a frame.
 *
 * All offsets are in bytes. The walker goes
 *
 *   thread control block (fsbase) [+ table ->] + tss -> thread state, checked by thread state + thread_id == fsbase
 *   thread state + frame [-> + cframe_frame]     -> innermost frame
 *   frame + frame_code, frame_back, ...          -> code object, caller, instruction, kind of frame
 *   interpreters -> interpreter + interp_threads -> thread states: those of this thread in other interpreters
 *   code object + code_sum                       -> the bytes whose checksum tells this code object from a later one
 */
#ifndef STAKEOUT_PYTHON_ABI_H
#define STAKEOUT_PYTHON_ABI_H

#include "stakeout/abi.h"

#define SO_MAX_PYTHON_FRAMES 512

/* Longest piece of a frame that is read at once; all frame_* offsets lie in it, with what they point at. */
#define SO_PYTHON_FRAME_BYTES 128
/* The piece of a code object whose words go into the checksum, where sum_words has a bit set. */
#define SO_PYTHON_SUM_WORDS 14

enum so_python_flags {
	SO_PYTHON_CFRAME = 1 << 0, /* the thread state points to a cframe, which points to the frame (3.11, 3.12) */
	SO_PYTHON_LASTI = 1 << 1,  /* frame_instruction holds a number (f_lasti, 3.8 to 3.10), not a pointer */
	SO_PYTHON_LASTI_BYTES = 1 << 2, /* and that number counts bytes, not instructions (3.8, 3.9) */
	SO_PYTHON_TAGGED = 1 << 3,      /* the low two bits of a code pointer are tags (3.14 and later) */
	SO_PYTHON_GIL_RUNTIME =
		1 << 4, /* one GIL for the process, at so_python_place.gil; else one for each interpreter */
	SO_PYTHON_FREE_THREADED = 1 << 5, /* there is a GIL only while the int at its gil_enabled is not 0 */
	SO_PYTHON_COPIES = 1 << 6,        /* frame_instruction may point into a thread's own copy of the instructions */
};

/* How a frame tells that the one before it (its caller) runs in another call of the interpreter's loop. */
enum so_python_entry {
	SO_PYTHON_ENTRY_ALL,  /* each Python frame is a call of the loop of its own (3.8 to 3.10) */
	SO_PYTHON_ENTRY_FLAG, /* the byte at frame_entry is not 0 in the first frame of a call (3.11) */
	SO_PYTHON_ENTRY_SHIM, /* a frame whose byte at frame_entry is entry_owner or more is no Python frame but stands
				 between two calls (3.12 and later) */
};

/* One build of the interpreter: what is the same in all its processes, however many come and go. */
struct so_python {
	__u16 version; /* 0x030b for 3.11 */
	__u16 flags;   /* enum so_python_flags */
	__u16 entry;   /* enum so_python_entry */
	__u16 entry_owner;
	/* thread state */
	__u16 thread_id; /* pthread_self() of its thread, which is fsbase */
	__u16 frame;     /* or cframe */
	__u16 cframe_frame;
	__u16 interp;
	/*
	 * 3.10 to 3.12: the thread state points to the cframe of its innermost call of the loop, and that to the one
	 * before. A cframe lies on the C stack, in the native frame of its call. cframe_back 0: there is none.
	 */
	__u16 thread_cframe, cframe_back;
	/*
	 * Lists of all thread states: the next one of an interpreter; an interpreter's first one, and the next
	 * interpreter. interp_threads 0: not known.
	 */
	__u16 thread_next, interp_threads, interp_next;
	/* GIL: struct _gil_runtime_state */
	__u16 interp_gil;  /* interpreter state: pointer to its GIL, without SO_PYTHON_GIL_RUNTIME */
	__u16 gil_holder;  /* pointer to the thread state that took it last */
	__u16 gil_locked;  /* int: 1 while it is taken */
	__u16 gil_enabled; /* SO_PYTHON_FREE_THREADED; else 0 */
	/*
	 * SO_PYTHON_GIL_RUNTIME: behind the GIL, a pointer to the thread state that has it. A thread that went from one
	 * interpreter into another has one in each, and its storage leads to the first one (before 3.12). Else 0.
	 */
	__u16 gil_current;
	/* frame */
	__u16 frame_code, frame_back, frame_instruction, frame_entry;
	__u16 frame_bytes; /* up to the end of the last of these: what is read of a frame */
	/* code object */
	__u16 code_first; /* its first instruction, without SO_PYTHON_LASTI */
	__u16 code_sum;   /* the SO_PYTHON_SUM_WORDS words from here on ... */
	__u16 sum_words;  /* ... of which these count: fields that never change while the object lives */
	/*
	 * Up to 3.11 all these words of two code objects of different names can be equal, where one after the other had
	 * the same memory. There the hash of the name counts too: it is kept in the str object from the moment that
	 * names it.
	 */
	__u16 sum_name;  /* which of the words points to the name */
	__u16 name_hash; /* str object: its hash; 0: does not count */
	/*
	 * SO_PYTHON_COPIES: in the frame, int32_t, which copy it runs, 0 being the instructions in the code object;
	 * in the code object, a pointer to a count and then as many pointers to copies. Else both are 0.
	 */
	__u16 frame_copy, code_copies;
};

/* Where one process has it. */
struct so_python_place {
	__u64 gil;              /* SO_PYTHON_GIL_RUNTIME: address of the GIL */
	__u64 interpreters;     /* address of the pointer to the list of interpreters, newest first */
	__u64 main_interpreter; /* the oldest one */
	__s16 tss;              /* fsbase + tss: where a thread's own pointer to its thread state is */
	__s16 table;            /* not 0: fsbase + table has a pointer, and tss is counted from there (musl) */
	__u32 build;            /* which struct so_python, from 1; 0: no interpreter is known */
	/*
	 * A thread may have several thread states of one interpreter: they are looked for although there is only one.
	 */
	__u32 several, pad;
};

/* Two of them are compared byte by byte. */
_Static_assert(sizeof(struct so_python) == 60, "no gaps in struct so_python");

/*
 * A Python frame is two words, innermost first:
 *   [0] the code object's address / 8 << 20 | first frame of its call of the loop << 19 | instruction
 *   [1] the checksum
 * The instruction is counted in code units of 2 bytes from the first one; SO_PYTHON_NO_INSTRUCTION: not known, or
 * beyond what fits. Addresses of code objects are below 2^47 and multiples of 8, not of 16: those that CPython 3.11 and
 * 3.12 have compiled in (deepfreeze) are static variables, which clang aligns as their members need it.
 */
#define SO_PYTHON_WORDS          2
#define SO_PYTHON_NO_INSTRUCTION 0x7ffffu
#define SO_PYTHON_FRAME(code, entry, instruction) \
	((__u64)(code) >> 3 << 20 | (__u64) !!(entry) << 19 | ((instruction)&SO_PYTHON_NO_INSTRUCTION))
#define SO_PYTHON_FRAME_CODE(word)        ((__u64)(word) >> 20 << 3)
#define SO_PYTHON_FRAME_ENTRY(word)       ((__u32)((word) >> 19) & 1)
#define SO_PYTHON_FRAME_INSTRUCTION(word) ((__u32)(word)&SO_PYTHON_NO_INSTRUCTION)

/* Over SO_PYTHON_SUM_WORDS words of a code object. The same in the kernel and in the daemon. */
static inline __attribute__((always_inline)) __u64 so_python_sum(const __u64 *words, __u32 which)
{
	__u64 sum = which;

#pragma GCC unroll 14
	for (__u32 i = 0; i < SO_PYTHON_SUM_WORDS; i++)
		sum = so_mix(sum, which >> i & 1 ? words[i] : 0);
	return sum;
}

/* The word that points to the name; the other part of the checksum, where p->name_hash is not 0, is the hash there. */
static inline __attribute__((always_inline)) __u64 so_python_name(const __u64 *words, const struct so_python *p)
{
	return words[p->sum_name < SO_PYTHON_SUM_WORDS ? p->sum_name : 0];
}

/* What came of the Python frames of a sample: X(enumerator, word, explanation). */
#define SO_PYTHON_STATES(X)                                                                                   \
	X(NONE, "none", "the process has no Python interpreter, or this thread none of its thread states")    \
	X(COMPLETE, "complete", "all frames up to the thread's outermost")                                    \
	X(NO_THREAD, "thread-state-unreadable", "the thread's storage or its thread state could not be read") \
	X(FRAME, "frame-unreadable", "a frame or code object could not be read, or is none")                  \
	X(DEPTH, "depth", "more Python frames than stakeout keeps")                                           \
	X(MISSING, "frames-not-found", "a native call of the interpreter's loop has no Python frames")

enum so_python_state {
#define X(name, word, why) SO_PYTHON_STATE_##name,
	SO_PYTHON_STATES(X)
#undef X
		SO_PYTHON_STATE_COUNT,
};

/* What the Python frames of a thread that has any add to what its stack is known by. */
static inline __attribute__((always_inline)) __u64 py_stack_hash(__u64 stack, __u64 python, __u32 tgid, __u32 flags,
								 __u32 state)
{
	return so_mix(so_mix(stack, python), (__u64)tgid << 32 | flags << 16 | state);
}

#endif
