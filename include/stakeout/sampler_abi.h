/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Map values and ring-buffer records between bpf/sampler.bpf.c and the daemon. */
#ifndef STAKEOUT_SAMPLER_ABI_H
#define STAKEOUT_SAMPLER_ABI_H

#include "stakeout/abi.h"
#include "stakeout/python_abi.h"

/* One piece of an executable mapping. A process's pieces are a run of the `mappings` array, sorted by start. */
struct so_mapping {
	__u64 start, end;  /* process addresses */
	__u64 bias;        /* process address minus the table's; for file 0 the start of the whole mapping */
	__u64 id;          /* what is mapped there: SO_MAPPED_ANONYMOUS, so_mapped_file() */
	__u32 index;       /* offset in the shard of the index word of first_block */
	__u32 first_block; /* ELF virtual address >> SO_BLOCK_SHIFT */
	__u32 n_blocks;
	__u16 shard;
	__u16 file;  /* 0: no file (JIT code) */
	__u16 state; /* enum so_mapping_state */
	__u16 flags; /* enum so_mapping_flags */
	__u32 seen;  /* BPF's: of the generation in which the process was found to have it; 0: none */
};

#define SO_MAPPED_EXEC      1ull /* in what BPF finds: it can be executed now */
#define SO_MAPPED_ANONYMOUS 2ull
#define SO_MAPPED_ANY       0ull /* it is not known what, so that nothing is compared */

/* A mapping of a file, by the file's numbers and the process address of its first byte. */
static inline __attribute__((always_inline)) __u64 so_mapped_file(__u32 dev, __u64 inode, __u64 base)
{
	return (so_mix(so_mix(inode, dev), base) & ~SO_MAPPED_EXEC) | 4;
}

enum so_mapping_state {
	SO_MAPPING_TABLE,    /* the fields above lead to its table */
	SO_MAPPING_NO_TABLE, /* code without unwind information */
	SO_MAPPING_FULL,     /* there is a table, but the pool or the file numbers were used up */
	SO_MAPPING_BROKEN,   /* its unwind information is damaged or could not be read */
};

enum so_mapping_flags {
	/* Code here that has no rule yet may get one: send the sample, the daemon learns from the code itself. */
	SO_MAPPING_LEARN = 1 << 0,
	/* Code here may be rewritten at any moment, so what its rule gives must look like a return address. */
	SO_MAPPING_WRITABLE = 1 << 1,
};

#define SO_MAX_MAPPINGS         65536 /* pieces of all processes together; a power of two, used as a mask */
#define SO_MAX_PROCESS_MAPPINGS 16384
#define SO_MAX_PAST_MAPPINGS    64
#define SO_MAPPING_STEPS        15 /* binary search over SO_MAX_PROCESS_MAPPINGS */
#define SO_MAX_SLOTS            256
#define SO_MAX_PYTHONS          256 /* different builds of the interpreter: processes of the same one share an entry */
#define SO_MAX_PROCESSES        16384

/*
 * What was found for an address that a stack passed through, kept for each CPU: most frames of a sample were in an
 * earlier one. An entry is for one run of mappings, whose number is never used again, so a change of mappings leaves
 * all its entries behind.
 */
struct so_cached_frame {
	__u64 at;    /* process address as looked up */
	__u64 frame; /* SO_FRAME() */
	__u32 run;
	__u8 rule[SO_RULE_SHORT_BYTES]; /* of a kind without cfa_off2 */
};

#define SO_FRAME_CACHE_SHIFT 12 /* entries of a CPU's cache, a power of two */

enum so_process_flags {
	SO_PROCESS_ACTIVE = 1 << 0, /* samples count; until then only forks are followed */
	SO_PROCESS_FOLLOW = 1 << 1, /* forked children become targets too */
	SO_PROCESS_KERNEL = 1 << 2, /* keep kernel frames */
	SO_PROCESS_KNOWN = 1 << 3,  /* the daemon has given it its mappings (or its parent's at fork) */
	SO_PROCESS_OWNED = 1 << 4,  /* it is profiled for that user: only while all its rights are uid's and gid's */
	SO_PROCESS_TIMED = 1 << 5,  /* each sample is told by itself, with its time */
	SO_PROCESS_CUT = 1 << 6,    /* it has more mappings than there is room for */
};

/* A sample period's bits that name its rate, in samples a second: clocks of several rates share a CPU. */
#define SO_RATE_MASK 0x3fff

/* Value of the map `processes`, by tgid. The daemon replaces it whole; BPF changes single fields in place. */
struct so_process {
	__u64 mappings;   /* first piece << 32 | number of pieces: read and written in one access */
	__u64 past;       /* pieces of before, in the same form: a mapping may be one of these again */
	__u64 generation; /* of its address space, in which its mappings are known to be these; 0: none */
	__u64 reported;   /* the generation that SO_EVENT_MAPS reported since the daemon read them; 0: none */
	__u32 flags;      /* enum so_process_flags */
	__u32 slot;       /* target's slot: index of `slots` */
	__u32 run;        /* number of the run of mappings; 0: none */
	__u32 rate_hz;    /* belongs to the clocks of this rate, see SO_RATE_MASK */
	__u32 uid, gid;   /* of the user who may look into it beside root; 0: nobody */
	struct so_python_place python;
};

/* Value of the per-CPU array `slots`: taken = counted + lost, always. */
struct so_slot {
	__u64 taken;
	__u64 run_ns; /* what taking them took */
	__u64 lost[SO_LOSS_COUNT];
	__u64 steps_lost, entries_lost; /* steps that came too fast, and calls of other counted functions */
};

/*
 * Steps a second that are told, of one target and of all: they share the window with samples. Calls of other counted
 * functions are among them, and leave the steps a quarter.
 */
#define SO_STEPS_A_SECOND     4096
#define SO_ALL_STEPS_A_SECOND 12288
#define SO_ENTRIES_OF(steps)  ((steps) / 4 * 3)

struct so_step_rate {
	__u64 second;     /* of 2^30 ns */
	__u32 steps, pad; /* and counted calls */
};

/* What each program takes, by its own clock: BPF_ENABLE_STATS would time all programs of the machine. */
enum so_program {
	SO_PROGRAM_SAMPLE,
	SO_PROGRAM_FORK,
	SO_PROGRAM_EXEC,
	SO_PROGRAM_EXIT,
	SO_PROGRAM_COUNT,
};

struct so_program_time {
	__u64 runs;
	__u64 ns;
};

/* Of the ring buffer of stacks: the least, what there is for each CPU, and the most. Powers of two. */
#define SO_STACKS_RING_BYTES     (4u << 20)
#define SO_STACKS_RING_CPU_BYTES (256u << 10)
#define SO_STACKS_RING_MAX_BYTES (32u << 20)

/* One window's map. A count has the stack's hash and the thread; a stack sent in this window has tgid 0 and tid 0. */
#define SO_WINDOW_ENTRIES 32768 /* unless the daemon sets another capacity before it loads the programs */

struct so_count_key {
	__u32 tgid, tid;
	__u64 stack;
	__u64 when_ns; /* CLOCK_MONOTONIC; 0: any, as of all processes that are not SO_PROCESS_TIMED */
};

/*
 * In the place of a stack's hash: the thread came to a place that is counted. Mark 0 is where its program's steps
 * begin, the others are functions that somebody wants counted; mark M is SO_STEP_STACK + M.
 */
#define SO_STEP_STACK 0x73746570ull
#define SO_MARKS      4 /* as many as a thread has debug registers */

struct so_count {
	__u64 count;
	__u32 slot;
	__u32 at;      /* of a mark's (SO_STEP_STACK): the low half of the address that the thread was at */
	char comm[16]; /* the thread's name when it was first seen with this stack in this window */
};

enum so_record_type {
	SO_RECORD_STACK = 1, /* struct so_stack_record */
	SO_RECORD_RAW = 2,   /* struct so_raw_record */
	SO_RECORD_CALL = 3,  /* struct so_call_record */
	SO_RECORD_PAGE = 4,  /* struct so_page_record (stakeout/pages_abi.h) */
	SO_RECORD_TORCH = 5, /* struct so_torch_record (stakeout/torch_abi.h) */
	SO_RECORD_ALLOC = 6, /* the same, of a stack of alloc.bpf.c */
};

/*
 * A CUDA call that took long, of a process that is SO_PROCESS_TIMED (so_cuda_control.tell_ns), or a launch that such
 * a one waited for; the same launch may come several times.
 */
struct so_call_record {
	__u32 type;
	__u32 slot;
	__u32 tgid, tid;
	__u32 api;          /* enum so_cuda_api */
	__u32 missed;       /* others of the slot before it, that came too fast or for which the ring had no room */
	__u64 begin_ns, ns; /* ns 0: a launch that was not timed */
	__u64 bytes;
	__u64 kernel, stream;   /* so_cuda_key.kernel; the stream's handle */
	__u64 awaited_begin_ns; /* of a wait: when the launch that it waited for began; 0: not known */
	__u32 awaited_tid;      /* and the thread that made it */
	__u32 has_stream;
};

/* Calls a second that are reported, of one target and of all. */
#define SO_CALLS_A_SECOND     2048
#define SO_ALL_CALLS_A_SECOND 8192

/*
 * A stack not sent before in this window: this header, then n_user user frames, then n_kernel kernel frames, then
 * n_python Python frames of SO_PYTHON_WORDS words, each leaf first.
 */
struct so_stack_record {
	__u32 type;
	__u16 n_kernel, n_user;
	__u64 hash;
	__u32 tgid;  /* file-0 frames are addresses of this process; its number is part of the hash then */
	__u16 cause; /* enum so_truncation */
	__u16 flags; /* enum so_stack_flags */
	__u16 n_python;
	__u16 python; /* enum so_python_state */
	/*
	 * Not in the hash. As struct so_python_walk has it; which user frame, from 1, has that one's `call` on the
	 * stack, or 0.
	 */
	__u16 empty_calls, call_at;
	__u32 names; /* set by the daemon: window that dates the names of JIT code (jit_names.h); 0: newest names */
};

enum so_stack_flags {
	SO_STACK_FRAME_POINTER = 1 << 0, /* at least one step went by the frame pointer */
	SO_STACK_GIL = 1 << 1,           /* the thread held its interpreter's lock */
	SO_STACK_PYTHON_UNREAD = 1 << 2, /* set by the daemon: a Python frame's code object could not be read */
	SO_STACK_NO_GIL = 1 << 3,        /* the thread's interpreter ran without such a lock */
	/*
	 * The thread is within another interpreter than the first, and not all thread states could be looked through:
	 * frames that its callers have in other interpreters may be missing.
	 */
	SO_STACK_SUBINTERPRETER = 1 << 4,
	SO_STACK_PYTHON_KNOWN = 1 << 5, /* the process's interpreter was known when the sample was taken */
};

#define SO_RED_ZONE_BYTES 128 /* that leaf functions may use below the stack pointer (psABI) */
#define SO_COPY_PAGES     16
#define SO_PAGE_BYTES     4096

/* Pages of a thread's stack. One that nothing was ever written to, or that is swapped out, cannot be read. */
struct so_stack_copy {
	__u64 base;                      /* address of the first page; 0: there is no copy */
	__s32 unreadable[SO_COPY_PAGES]; /* 0 for a page that is there */
	__u64 words[SO_COPY_PAGES * SO_PAGE_BYTES / 8];
};

/* A sample for the daemon to unwind, with new mappings or learned rules: registers and both ends of the stack. */
struct so_raw_record {
	__u32 type;
	__u32 n_kernel;
	__u32 tgid, tid;
	__u32 slot;
	__u32 stale;   /* its mappings must be read first; else its code has a rule to be learned */
	__u64 when_ns; /* CLOCK_MONOTONIC */
	__u16 n_python;
	__u16 python;           /* enum so_python_state */
	__u32 flags;            /* enum so_stack_flags */
	__u32 empty_calls, pad; /* as struct so_python_walk has it, and the next one */
	__u64 call;
	__u64 python_hash;
	__u64 pc;
	__u64 regs[SO_NREGS];
	char comm[16];
	__u64 kernel[SO_MAX_KERNEL_FRAMES + 1];
	__u64 python_words[SO_MAX_PYTHON_FRAMES * SO_PYTHON_WORDS];
	struct so_return_probe returns[SO_MAX_RETURN_PROBES];
	struct so_stack_copy inner; /* from the page of the red zone on */
	/* Up to the end of the stack, where the outermost frames are: between the two may lie large arrays. */
	struct so_stack_copy outer;
};

enum so_event_type {
	SO_EVENT_FORK = 1, /* other: the parent's tgid */
	SO_EVENT_EXEC,     /* other: whether the new program has other rights than uid and gid say */
	SO_EVENT_EXIT,
	SO_EVENT_MAPS, /* the process has mapped something, to execute or not, since the daemon read its mappings */
};

/* Record of the ring buffer `events`. */
struct so_event {
	__u32 type;
	__u32 tgid, other;
	__u32 slot;
	__u64 time_ns;    /* CLOCK_MONOTONIC */
	__u64 generation; /* SO_EVENT_MAPS: so_process.generation, once the mappings are read again */
};

#endif
