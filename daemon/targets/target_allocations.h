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
	} libraries[ALLOCATIONS_MAX_LIBRARIES]; /* link NULL: in an off-window, or it was refused */
	unsigned n_libraries;
};

/* Readings of counters. */
struct allocations_reading {
	uint64_t when_ns, cpu_ns, waited_ns; /* waited: ready to run, for a CPU; of all threads, */
	bool many_threads;                   /* or of some of them */
	uint64_t hits, stepped_hits, stacks_ns, bytes, left_out;
};

/* Sums over some time. */
struct allocations_spent {
	double cost_ns, stacks_ns; /* what the probes took of the target's CPU time, and of that the stacks */
	double own_ns;             /* the rest of its CPU time */
	double time_ns;            /* the CPU time, or what went by but for waiting for a CPU where that is more */
};

/* Of bytes (x) and own CPU time (y) of on-windows: what the ratio of both and its error are made of. */
struct allocations_windows {
	double n, x, y, xx, xy, yy;
	double own_ns;     /* own CPU time since there are windows, with the off-windows */
	double most_share; /* of a thread's time in on-windows that probes took */
};

/* All zero: it was never watched so. */
struct target_allocations {
	bool asked;     /* the target, or this view, was attached so, */
	bool wanted;    /* and has not ended, */
	unsigned views; /* or by so many of its views */
	bool on;        /* so it is watched */
	bool maps;      /* what was seen is in the kernel's maps of its slot */
	bool placed;    /* probes are, or soon: it is an on-window, or there are none, */
	bool placing;   /* or one is to begin when all are */
	bool windowed;
	uint64_t on_ns, end_ns, next_tick_ns, next_look_ns;
	uint64_t window_end_ns; /* when the on-window or the off-window ends; UINT64_MAX: none does */
	double credit_ns;       /* what they may still take before windows are needed */
	double share;           /* of the target's time in an on-window that probes take, smoothed */
	struct allocations_reading accounted, window; /* the latest reading; that at the window's begin */
	struct allocations_spent spent;
	struct allocations_windows windows;
	uint64_t seen_ns;          /* on-windows, and the time without windows */
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
