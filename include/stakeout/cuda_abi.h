/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Maps and records between bpf/cuda/cuda.bpf.c and the daemon.
 *
 * All counters only ever grow while the process lives; what happened between two moments is a difference. A key belongs
 * to one thread, which runs in one place at a time, so its values are written without atomic operations.
 */
#ifndef STAKEOUT_CUDA_ABI_H
#define STAKEOUT_CUDA_ABI_H

#include "stakeout/cuda_api.h"
#include "stakeout/latency.h"
#include "stakeout/sampler_abi.h"

/* Of targets; the first of the second half is for measuring what a probe itself costs. */
#define SO_CUDA_SLOTS              (2 * SO_MAX_SLOTS)
#define SO_CUDA_MAX_LIBRARIES      4096 /* of all processes together; number 0 is none */
#define SO_CUDA_CALLS_ENTRIES      65536
#define SO_CUDA_ERROR_ENTRIES      4096
#define SO_CUDA_ALLOCATION_ENTRIES (1u << 20)
#define SO_CUDA_SITE_ENTRIES       16384
#define SO_CUDA_HEAT_ENTRIES       16384
#define SO_CUDA_EVENT_ENTRIES      16384 /* each CPU keeps up to 128 of them ready for itself */
#define SO_CUDA_LAUNCH_ENTRIES     8192  /* the same */
#define SO_CUDA_STACKS_A_CPU       2     /* a thread may be preempted while its stack is taken */
#define SO_CUDA_NAME_BYTES         512

/* A probe's cookie: which call (enum so_cuda_api, or SO_CUDA_API_COUNT + enum so_cuda_namer), target and library. */
#define SO_CUDA_COOKIE(call, slot, library) ((__u64)(library) << 32 | (__u64)(slot) << 16 | (call))
#define SO_CUDA_COOKIE_CALL(cookie)         ((__u32)(cookie)&0x3fff)
#define SO_CUDA_COOKIE_PER_THREAD           0x4000ull /* _ptsz, _ptds: stream 0 is the thread's own */
#define SO_CUDA_COOKIE_STEPPED              0x8000ull /* the entry's instruction is single-stepped */
#define SO_CUDA_COOKIE_SLOT(cookie)         ((__u32)((cookie) >> 16) & 0xfff)
/* Newly placed probes are of the next generation: where an entry has two for a moment, one counts (so_cuda_control). */
#define SO_CUDA_COOKIE_GENERATION(cookie) ((__u32)((cookie) >> 28) & 0xf)
#define SO_CUDA_COOKIE_LIBRARY(cookie)    ((__u32)((cookie) >> 32))

/*
 * Map `cuda_calls`: the calls of one thread to one API, of one kernel, that took times of one octave. The sum over
 * the octaves is the API's. Calls that were counted at their entry and not timed are in the octave SO_CUDA_UNTIMED,
 * all in bucket 0.
 */
#define SO_CUDA_UNTIMED LATENCY_OCTAVES

struct so_cuda_key {
	__u32 tgid, tid;
	__u64 kernel;   /* host stub's address, or driver's function handle; 0: no launch, or a graph */
	__u32 library;  /* the one of the probe */
	__u16 api;      /* enum so_cuda_api */
	__u8 direction; /* enum so_cuda_direction */
	__u8 octave;    /* latency_octave() */
};

struct so_cuda_calls {
	__u64 calls;    /* failed ones included */
	__u64 errors;   /* calls that did not return 0 */
	__u64 total_ns; /* on the host, from entry to return */
	__u64 min_ns, max_ns;
	__u64 squares;           /* sum of squares, in units of latency_square_shift(octave) */
	__u64 bytes;             /* of calls that succeeded: copied, set, allocated */
	__u64 blocks;            /* launched: sum over the launches of the grid's blocks, */
	__u64 threads;           /* and of blocks × threads of a block */
	__u32 grid[3], block[3]; /* of the last launch */
	__u64 stream;            /* of the last call that has one */
	__u64 caller;            /* where the last call returned to */
	__u64 buckets[LATENCY_BUCKETS];
};

/* Map `cuda_errors`: failed calls by the code that they returned. Values: __u64 */
struct so_cuda_error_key {
	__u32 tgid;
	__u32 library;
	__u32 api;
	__u32 code;
};

/* Map `cuda_allocations`, by process and address or handle: what is allocated now, and where handles are mapped. */
struct so_cuda_pointer {
	__u32 tgid;
	__u32 space; /* enum so_cuda_space */
	__u64 address;
};

enum so_cuda_space {
	SO_CUDA_SPACE_DEVICE, /* memory of the device, and managed memory, by address */
	SO_CUDA_SPACE_HOST,
	SO_CUDA_SPACE_HANDLE,  /* memory without an address: cuMemCreate */
	SO_CUDA_SPACE_MAPPING, /* where such a handle is mapped, by address: `site` is the handle */
};

struct so_cuda_allocation {
	__u64 bytes;
	__u64 site;       /* hash of the stack that allocated it; 0: not known */
	__u16 kind;       /* of the call that did: enum so_cuda_kind */
	__u16 host;       /* memory of the host */
	__u32 references; /* of a handle: those that were asked for, and where it is mapped */
};

/* Map `cuda_sites`, by process and allocating stack; and kind, as stacks that are not known are of any. */
struct so_cuda_site_key {
	__u32 tgid;
	__u16 host;
	__u16 kind; /* of the allocations: enum so_cuda_kind */
	__u64 stack;
};

struct so_cuda_site {
	__u64 allocations, frees;
	__u64 bytes;         /* ever allocated */
	__s64 current_bytes; /* now; memory that was allocated before watching began is freed unseen */
	__s64 peak_bytes;
};

/* Causes for which a call, or something of it, is not in the maps: X(enumerator, word, explanation) */
#define SO_CUDA_LOSSES(X)                                                                                 \
	X(CALLS_FULL, "calls-map-full", "the map of calls was full")                                      \
	X(STATE, "no-thread-state", "no memory for the state of a thread in a call")                      \
	X(UNFINISHED, "unfinished", "calls that were never seen to return")                               \
	X(ERRORS_FULL, "error-codes-full", "the code of a failed call, not the failure, is unknown")      \
	X(ALLOCATIONS_FULL, "allocations-map-full", "an allocation whose release will not be recognised") \
	X(SITES_FULL, "sites-map-full", "an allocation that is in no site's figures")                     \
	X(STACK_BUSY, "stack-busy", "a stack that was due, but the CPU's buffers were in use")            \
	X(STACK_FULL, "stack-full", "a stack that was due, but the window's map or ring was full")        \
	X(NAMES_FULL, "names-full", "a kernel's name, for which the ring had no room")                    \
	X(BATCH, "batch-bytes", "a batch of which only the bytes of the first copies are known")          \
	X(STACK_RIGHTS, "stack-not-permitted",                                                            \
	  "a stack that was due, of a thread with rights that the target's user has not")

/* Copies of a batch whose bytes are read, of one and of three dimensions; before Linux 5.17 (bpf_loop) 16 and 1. */
#define SO_CUDA_BATCH_COPIES    1024
#define SO_CUDA_BATCH_3D_COPIES 64

enum so_cuda_loss {
#define X(name, word, why) SO_CUDA_LOSS_##name,
	SO_CUDA_LOSSES(X)
#undef X
		SO_CUDA_LOSS_COUNT,
};

#define SO_CUDA_API_ROOM 256 /* a power of two, for the verifier's sake */
_Static_assert(SO_CUDA_API_COUNT <= SO_CUDA_API_ROOM, "each call has a place");

#define SO_CUDA_KIND_ROOM 16 /* a power of two, for the verifier's sake */
_Static_assert(SO_CUDA_KIND_COUNT <= SO_CUDA_KIND_ROOM, "each kind has a place");

/*
 * Units of the budget: the calls of one kind, of the runtime or of the driver. What a call of the runtime makes of
 * the driver's calls is of its own kind, so the driver's unit has the nested ones.
 */
#define SO_CUDA_UNITS          (2 * SO_CUDA_KIND_ROOM)
#define SO_CUDA_UNIT(of, kind) ((of)*SO_CUDA_KIND_ROOM + (kind))

/* Of a unit whose calls are counted at their entries, one in so many is timed, at random. */
#define SO_CUDA_TIMED_ONE_IN 16

/* Map `cuda_slots`, per CPU and target slot. */
struct so_cuda_slot {
	__u64 hits;      /* at entries */
	__u64 returns;   /* and at returns */
	__u64 nested;    /* entries that were inside another call, and did not count */
	__u64 stepped;   /* hits at entries whose instruction is single-stepped */
	__u64 calls;     /* counted */
	__u64 stacks;    /* taken */
	__u64 stacks_ns; /* time spent on them */
	/* What the programs took, by their own clock: entry and return of calls, and entries without a return. */
	__u64 timed, timed_ns;
	__u64 untimed, untimed_ns;
	__u64 lost[SO_CUDA_LOSS_COUNT];
	__u64 unit_hits[SO_CUDA_UNITS];   /* entries while the unit counts */
	__u64 unit_nested[SO_CUDA_UNITS]; /* of which nested ones */
	__u64 unit_ns[SO_CUDA_UNITS];     /* what timed calls took, each up to so_cuda_control.stack_time_ns */
	__u64 pairs;                      /* told, as SO_CUDA_READ_PAIR */
};

/*
 * Map `cuda_launches`, of targets whose calls are reported by themselves (so_cuda_control.tell_ns): the last launch of
 * a kernel or a graph into a stream, into any of the process's, and before an event's last record.
 */
enum so_cuda_launches_of {
	SO_CUDA_LAUNCH_OF_STREAM,
	SO_CUDA_LAUNCH_OF_PROCESS,
	SO_CUDA_LAUNCH_OF_EVENT,
};

struct so_cuda_launch_key {
	__u32 tgid;
	__u32 tid; /* of a stream that each thread has for itself; else 0 */
	__u64 handle;
	__u32 of; /* enum so_cuda_launches_of */
	__u32 pad;
};

struct so_cuda_launch {
	__u64 begin_ns;
	__u64 ns; /* on the host; 0: it was counted at its entry and not timed */
	__u64 kernel, stream;
	__u32 tid;
	__u16 api;
	__u16 has_stream;
};

/* Map `cuda_threads`, a task's storage: the call that a thread is in. Written to by that thread alone. */
struct so_cuda_call {
	__u64 cookie;
	__u64 sp; /* at the entry: nested calls have a lower one */
	__u64 begin_ns;
	__u64 kernel, stream, pointer, bytes;
	__u64 handle_mapped, bytes_mapped; /* of cuMemMap, cuMemUnmap */
	__u32 grid[3], block[3];
	__u32 direction;
	__u32 host;       /* cuMemCreate: of memory of the host */
	__u32 has_stream; /* stream was read in this call */
	__u32 active;
	__u32 seen;     /* launches */
	__u32 needless; /* it waited for nothing, as in so_cuda_line */
	/* A call that tells a name; it may be nested in one that is counted. */
	__u32 naming;
	__u64 naming_cookie, naming_sp;
	__u64 out, handle, text;
	__u64 program_ns; /* the entry's program */
	__u64 own_ns;     /* what the probes have added to the call's time so far */
	struct so_cuda_launch
		awaited; /* of a call that waits: the last launch that it waits for; begin_ns 0: not known */
};

enum so_cuda_on {
	SO_CUDA_OFF,   /* nothing counts, and nothing is written */
	SO_CUDA_NAMES, /* kernels' names are told; no call counts yet */
	SO_CUDA_ON,
};

/* What the daemon decides, by target slot; changes take effect at once. */
struct so_cuda_control {
	__u32 on;                 /* enum so_cuda_on */
	__u32 generation;         /* probes of others do not count (SO_CUDA_COOKIE_GENERATION) */
	__u32 off[SO_CUDA_UNITS]; /* not 0: calls of the unit do not count now */
	__u32 counted
		/* not 0: they are counted at their entries, and some are timed (SO_CUDA_TIMED_ONE_IN) */
		[SO_CUDA_UNITS];
	/* One stack in so many calls that are timed, at random; 0: none. */
	__u32 stack_period[SO_CUDA_KIND_ROOM];
	/* More of calls that take long: one stack in so much of their time, and each as long as that. 0: no more. */
	__u64 stack_time_ns[SO_CUDA_KIND_ROOM];
	/* What the probes add to a call's time, taken off it: its own, each nested entry, each single-stepped one. */
	__u32 floor_ns, nested_ns, stepped_ns;
	/* The number of the on-window, whose calls are scaled by its own factor; 0: calls are not scaled. */
	__u32 segment[SO_CUDA_UNITS];
	/* CLOCK_MONOTONIC. Of a call that was entered before, the return is not seen: its probe had gone. */
	__u64 since_ns[SO_CUDA_UNITS];
	/* Each call that takes so long is reported by itself, with its time (struct so_call_record); 0: none. */
	__u64 tell_ns;
};

/* Of calls that are told by themselves, by slot. */
struct so_cuda_call_rate {
	__u64 second; /* of 2^30 ns */
	__u32 calls, missed;
};

/*
 * A synchronisation that returns sooner found its work done: one that waits for the smallest kernel also waits until
 * the host sees it end. A bucket of the histogram begins here. Chosen from what a system call and a look at a finished
 * stream take, a few microseconds; not measured by itself.
 */
#define SO_CUDA_IDLE_NS 8192

/*
 * Map `cuda_events`: when an event was recorded last (stream SO_CUDA_EVENT_RECORD), and what a stream has waited for.
 * Each thread has the streams below SO_CUDA_DEFAULT_STREAMS for itself: they are the default ones, of the thread or of
 * its device.
 */
#define SO_CUDA_EVENT_RECORD    (~0ull)
#define SO_CUDA_DEFAULT_STREAMS 3

struct so_cuda_event_key {
	__u32 tgid;
	__u32 tid; /* 0: the stream is the same in all threads */
	__u64 event, stream;
};

struct so_cuda_event_times {
	/* CLOCK_MONOTONIC. Of a record that was before its event's first wait: when that was. */
	__u64 recorded_ns;
	__u64 waited_ns; /* of a stream's entry: its last wait, and recorded_ns is that of the record it was for */
};

/*
 * Maps `cuda_window_a` and `_b`, one of them open: calls whose stack was taken, each as often as the sampling period
 * says. A stack that the daemon has been sent in this window has an entry of tgid 0 and tid 0.
 */
#define SO_CUDA_WINDOW_ENTRIES 32768

struct so_cuda_line_key {
	__u32 tgid, tid;
	__u64 stack;
	__u32 api;
	__u32 segment; /* so_cuda_control's when the call was made */
};

struct so_cuda_line {
	__u64 calls; /* those whose stacks were taken, times the sampling period */
	__u64 total_ns;
	__u64 bytes;
	__u64 seen, seen_ns, seen_bytes; /* these calls themselves */
	/*
	 * Of `calls` and `total_ns`, those that waited for nothing: synchronisations that took less than
	 * SO_CUDA_IDLE_NS, and waits of a stream for an event that it had waited for, not recorded since. Failed calls
	 * are not among them.
	 */
	__u64 needless, needless_ns;
	__u32 slot;
	__u32 pad;
};

/*
 * Map `cuda_runtimes`, by process: where its shared runtimes are mapped. A driver call that returns there is nested,
 * also when its runtime call was entered before the probes were on. Unused ranges are empty.
 */
#define SO_CUDA_MAX_RUNTIMES 4

struct so_cuda_runtimes {
	__u64 low[SO_CUDA_MAX_RUNTIMES], high[SO_CUDA_MAX_RUNTIMES];
};

/*
 * Map `cuda_owners`, for probes that are perf events: which libraries are watched in which process. The return of a
 * call runs the programs of all events on the function, also those of another process; and an event is closed long
 * after watching has ended.
 */
struct so_cuda_owner {
	__u32 tgid;
	__u32 library; /* as in the cookie */
};

/*
 * Where a CUfunction, and a CUkernel, has the address of its name: as measured with driver 580.159 (CUDA 13.0), in no
 * documentation. It is believed where it proves right alone (daemon/cuda/handle_names.h).
 */
#define SO_CUDA_HANDLE_NAME_AT 8

/* What else a record of the ring tells: a name that was read behind the handle of a launch of the driver's. */
enum so_cuda_read {
	SO_CUDA_READ_HANDLE = SO_CUDA_NAMER_COUNT,
	SO_CUDA_READ_PAIR, /* `other` is the host function whose launch by the runtime made this one */
};

/* Record of the ring `cuda_names`. */
struct so_cuda_name {
	__u32 tgid;
	__u32 namer;                   /* enum so_cuda_namer, enum so_cuda_read */
	__u64 handle;                  /* the kernel's, as in so_cuda_key.kernel */
	__u64 other;                   /* __cudaGetKernel, cuKernelGetFunction: what the handle was made of */
	char name[SO_CUDA_NAME_BYTES]; /* mangled; "" if it has no name of its own */
};

_Static_assert(sizeof(struct so_cuda_key) == 24, "no gaps in struct so_cuda_key");

#endif
