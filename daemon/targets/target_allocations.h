/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of a target's calls of allocators (allocations.h). */
#ifndef STAKEOUT_TARGET_ALLOCATIONS_H
#define STAKEOUT_TARGET_ALLOCATIONS_H

#include "daemon/memory/memory_series.h"
#include "daemon/profile/accumulator.h"

struct alloc_library;
struct alloc_link;

/* A file that was looked into. */
struct allocations_file {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	int fd;                        /* -1, and */
	struct alloc_library *library; /* NULL: it has no allocator */
};

#define ALLOCATIONS_MAX_LIBRARIES 12 /* of a process, with an allocator each */

struct allocations_process {
	pid_t pid;
	unsigned execs;  /* programs it had executed when it was looked at */
	bool looked;     /* its mappings were read */
	bool own_python; /* CPython's allocators are not malloc's in other clothes */
	struct {
		uint32_t file; /* of target_allocations.files */
		struct alloc_link *link;
	} libraries[ALLOCATIONS_MAX_LIBRARIES]; /* link NULL: in an off-window */
	unsigned n_libraries;
};

/* Readings of counters: at the last account, and when a window began. */
struct allocations_reading {
	uint64_t when_ns, cpu_ns;
	uint64_t hits, stepped_hits, stacks_ns;
};

struct allocations_window {
	double cost_ns, stacks_ns, time_ns; /* of the sums below */
	uint64_t bytes, left_out;           /* of the slot's */
};

/* All zero: it was never watched so. */
struct target_allocations {
	bool asked;     /* the target, or this view, was attached so, */
	bool wanted;    /* and has not ended, */
	unsigned views; /* or by so many of its views */
	bool on;        /* so it is watched */
	bool maps;      /* what was seen is in the kernel's maps of its slot */
	bool placed;    /* probes are: it is an on-window, or there are none */
	bool windowed;
	uint64_t on_ns, end_ns, next_tick_ns, next_look_ns;
	uint64_t window_end_ns; /* when the on-window or the off-window ends; UINT64_MAX: none does */
	uint64_t off_begin_ns;
	double credit_ns; /* what they may still take before windows are needed */
	double share;     /* of a thread's time in on-windows that probes take, smoothed; 0: not known yet */
	struct allocations_reading accounted;
	struct allocations_window window;
	/* Sums. */
	double cost_ns, stacks_ns; /* what the probes took of the target's time, and of that the stacks, */
	double time_ns;            /* of its CPU time or what went by where that is more */
	uint64_t seen_ns;          /* on-windows, and the time without off-windows */
	unsigned windows;
	double window_bytes, window_squares; /* weighted, of each window; and their squares */
	double most_scale;
	uint64_t lost;             /* stacks that there was no memory for */
	struct accumulator stacks; /* no counters */
	struct memory_series series;
	struct allocations_file *files;
	size_t n_files, files_capacity;
	struct allocations_process *processes;
	size_t n_processes, capacity;
	bool linked;       /* some process had probes */
	char problem[256]; /* why the last one that might have had some had none; "": none */
};

#endif
