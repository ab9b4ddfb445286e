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
	unsigned execs; /* programs it had executed when it was looked at */
	bool counted;   /* the next two are known: */
	uint64_t cpu_ns, waited_ns;
	bool looked;     /* its mappings were read */
	bool own_python; /* CPython's allocators are not malloc's in other clothes */
	struct {
		uint32_t file;           /* of target_allocations.files */
		struct alloc_link *link; /* NULL: in an off-window; or not asked for yet, or */
		bool refused;
	} libraries[ALLOCATIONS_MAX_LIBRARIES];
	unsigned n_libraries;
};

/* Readings of counters; of processes since they are looked at. */
struct allocations_reading {
	uint64_t when_ns, cpu_ns, waited_ns; /* waited: ready to run, for a CPU */
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

enum allocations_state {
	ALLOCATIONS_ALL_THE_TIME, /* there are no windows */
	ALLOCATIONS_OFF,          /* an off-window */
	ALLOCATIONS_PLACING,      /* an on-window begins when all probes are there */
	ALLOCATIONS_ON,
};

/* All zero: it was never watched so. */
struct target_allocations {
	bool asked;     /* the target, or this view, was attached so, */
	bool wanted;    /* and has not ended, */
	unsigned views; /* or by so many of its views */
	bool on;        /* so it is watched */
	bool maps;      /* what was seen is in the kernel's maps of its slot */
	enum allocations_state state;
	uint64_t on_ns, end_ns, next_look_ns;
	uint64_t window_end_ns;     /* when a window or a look ends; UINT64_MAX: none does */
	uint64_t early_since_ns;    /* the first probes were asked for, or came, then */
	uint64_t placing_since_ns;  /* when a link was there last */
	unsigned n_placing;         /* that were not there then */
	uint64_t late_since_ns;     /* an on-window could not begin since, as probes do not come or go; 0: one could */
	bool late;                  /* some probes are asked for since long */
	uint64_t cpu_ns, waited_ns; /* sums over processes, also of those that have ended */
	double credit_ns;           /* what they may still take before windows are needed */
	double debt_ns;             /* what they took in an off-window, while they were placed */
	double share;               /* of the target's time in an on-window that probes take, smoothed */
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
