/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CUDA calls of one target: which libraries of its processes have probes, when these are on, and what they have counted,
 * scaled to all calls where they were not on all the time. Not thread-safe.
 */
#ifndef STAKEOUT_CUDA_WATCH_H
#define STAKEOUT_CUDA_WATCH_H

#include <stdbool.h>
#include <time.h>

#include "daemon/cuda/cuda_active.h"
#include "daemon/cuda/cuda_budget.h"
#include "daemon/cuda/cuda_estimate.h"
#include "daemon/cuda/cuda_kinds.h"
#include "daemon/cuda/cuda_lines.h"
#include "daemon/cuda/cuda_pace.h"
#include "daemon/cuda/cuda_probes.h"
#include "daemon/cuda/cuda_progress.h"
#include "daemon/cuda/kernel_names.h"

/* A library of one process. */
struct cuda_mapped {
	uint32_t number; /* in the cookies of its probes */
	pid_t pid;
	uint64_t dev, inode;
	uint64_t text_low, text_high; /* where its code is mapped: process addresses */
	char *path;                   /* as the process calls it */
	int fd;
	struct cuda_library library;
	struct cuda_link *
		steady; /* on what is not in `cycled` of struct cuda_watch; NULL: nothing, or the kernel refused */
	struct cuda_link *cycled; /* on what is; NULL: off, or nothing */
	struct cuda_link *old;    /* while other kinds are chosen: what `steady` was */
	char problem[256];
	bool waits; /* to be probed, until fewer probes wait to be taken away */
	bool gone;  /* its process has ended, or executes another program */
};

/* A process that lives. */
struct cuda_process {
	pid_t pid;
	bool has_clock;
	clockid_t clock; /* of its CPU time */
	uint64_t cpu_ns; /* at the last look */
};

/* One that has made calls. */
struct cuda_ended {
	pid_t pid;
	uint64_t at_ns; /* CLOCK_MONOTONIC */
};

/* More than there are in the second after which stacks have come: two a cycle, and one for each process that ends. */
#define CUDA_WATCH_SEGMENTS 512

enum cuda_watch_phase {
	CUDA_WATCH_OFF_BEFORE,
	CUDA_WATCH_LIGHT, /* some of the probes are there, and count hits alone; not each time (cuda_watch_light.c) */
	CUDA_WATCH_SETTLING, /* the probes are there, and count nothing yet */
	CUDA_WATCH_ON,
	CUDA_WATCH_OFF_AFTER,
};

struct cuda_watch {
	struct cuda_probes *probes; /* borrowed */
	uint32_t slot;
	struct cuda_mapped *mapped;
	size_t n_mapped, cap_mapped;
	struct cuda_process *processes;
	size_t n_processes, cap_processes;
	struct cuda_ended *ended; /* oldest first; their numbers may be others' by now */
	size_t n_ended, cap_ended;
	struct cuda_lines lines;            /* calls whose stack was taken */
	uint64_t forget_ns;                 /* before that time none of them is forgotten */
	struct cuda_snapshot *total, *last; /* up to the last settling, and what the maps held then */
	struct cuda_snapshot *folded; /* of processes that ended long ago: their sums (cuda_snapshot__fold()) */
	uint64_t n_folded;            /* so many */
	/* Of threads that have ended in processes that live: what the kernel's map had of them, as thread 0's. */
	struct cuda_snapshot *ended_threads;
	bool fold_wanted; /* some of its threads may be to give their entries back */
	struct cuda_budget *budget;
	double budget_percent;
	struct cuda_budget_cycle cycle;
	enum cuda_watch_phase phase;
	struct cuda_kinds kinds;
	struct cuda_api_set
		cycled; /* calls of the cycled kinds that are made: those whose probes come and go */
	uint64_t phase_end_ns, check_ns, checked_ns;
	uint64_t begin_ns, on_since_ns, on_ns; /* on_ns: until the last change */
	/*
	 * Calls that were seen since segment_ns, while the probes were on, stand for all since accounted_ns. So each time on
	 * stands for itself and for the time off before it, whose length was chosen before any of these calls came. What comes
	 * after the last time on, or before one that is cut short, is like the last one.
	 */
	uint64_t accounted_ns, segment_ns;
	/*
	 * Of a time off that counts in which calls were made (cuda_active.h): up to the last look, and what of it is older than
	 * accounted_ns. A time on in which threads were away stands for less of it, and later ones for the rest.
	 */
	double off_ns, carried_ns;
	double unknown_ns; /* time off of which that is not known yet */
	struct cuda_active active;
	uint64_t ended_ns;                   /* when the last process with a library ended; 0: one lives */
	struct cuda_snapshot *last_on;       /* its calls of the cycled kinds, as seen */
	struct cuda_estimate_seen last_seen; /* of kinds that still come and go; `calls` is not kept up */
	double last_progress_ns; /* what of it the threads that make the calls had for that, and for themselves */
	double last_all_ns;      /* and by all time, waits included */
	bool last_is_of_all; /* other calls have become waits since: last_progress_ns is by all time as well */
	uint64_t last_on_ns; /* how long it was */
	struct cuda_estimate_rates rates; /* of calls of the cycled kinds */
	struct cuda_estimates estimates;  /* of all times on so far */
	struct cuda_progress progress;    /* what the probes take from the target that it goes without, */
	struct cuda_pace pace;            /* and by its waits */
	bool by_all;     /* the last time on stood for all time, waits included, and so do `rates` */
	double taken;    /* CPUs that they took in the last time on, */
	double coldness; /* and how cold the caches were then (cuda_probe_cost.h) */
	struct {
		double all,
			same; /* calls; of these so many as of two one makes the thread of the other makes */
		/* Calls that returned during another thread's, and so many as would have if threads did not care for one another. */
		double overlapped, expected, times;
	} callers; /* of the cycled kinds; what is older weighs less */
	struct {
		enum so_cuda_of of;        /* whose probes are light */
		uint64_t slices_ns;        /* when its slices begin; 0: this time on has none */
		uint64_t begin_ns, end_ns; /* of hits with light probes */
		double lost_ns;            /* what the target went without before the probes counted */
		double share;              /* of it, in which calls were made (cuda_active.h) */
		struct so_cuda_slot slot;  /* at their beginning, or that of a time on that has none */
		double stepped;            /* the part of their hits that was single-stepped */
		unsigned fruitless;        /* so many times on in a row told nothing */
	} light;
	struct so_cuda_slot segment_slot; /* at segment_ns */
	double timed, timed_ns; /* entries' programs that were timed lately; what is older weighs less */
	bool had_cycled;        /* the probes of the cycled kinds were there at some time since checked_ns */
	double stray_ns,
		stray_elapsed_ns;   /* cost of hits while the cycled kinds are off, in so much time of that */
	double cost_calls, cost_ns; /* calls that were counted lately, and what their probes have cost */
	double busy_cpu_ns, busy_elapsed_ns; /* of the last seconds; what is older weighs less */
	uint32_t segment;                    /* the number of the present time on, from 1; 0 is none */
	struct {
		uint32_t segment;
		double factor; /* of the cycled kinds */
	} factors
		[CUDA_WATCH_SEGMENTS]; /* of the last ones that are over: stacks come up to a second after their calls */
	uint64_t cpu_ns;               /* of the target since begin_ns */
	struct so_cuda_slot slot_seen;
	uint64_t on_seen_ns;
	bool lost;      /* counts of some time, for want of memory */
	bool estimated; /* the probes have been off since they first were on */
	uint64_t random;
};

/* probes: borrowed. number: the next library number, shared by all watches. -ENOMEM. */
int cuda_watch__new(struct cuda_probes *probes, uint32_t slot, double budget_percent, struct cuda_watch **out);
/* Nothing is counted from here on; what was stays until the watch is freed, which should be soon. */
void cuda_watch__stop(struct cuda_watch *watch);
/* Takes all probes away. */
void cuda_watch__free(struct cuda_watch *watch);
CLEANUP_DEFINE(struct cuda_watch *, cuda_watch, cuda_watch__free)

bool cuda_watch__has_process(const struct cuda_watch *watch, pid_t pid);
/* The processes that live or have made calls, malloc'ed. -ENOMEM. */
int cuda_watch__pids(const struct cuda_watch *watch, pid_t **out, size_t *n);
/* Remembers the process: its CPU time counts. -ENOMEM. */
int cuda_watch__add_process(struct cuda_watch *watch, pid_t pid);
/* Whether any library of this process is known. */
bool cuda_watch__has_libraries(const struct cuda_watch *watch, pid_t pid);
/* Whether this library of this process is known. */
bool cuda_watch__has_library(const struct cuda_watch *watch, pid_t pid, uint64_t dev, uint64_t inode);
/* Takes over mapped's resources (also on failure), and probes it if the probes are on. -ENOMEM, -ENOSPC. */
int cuda_watch__add_library(struct cuda_watch *watch, struct cuda_mapped *mapped);
/* The process has ended, or executes another program: its figures are kept, its probes and entries are not. */
void cuda_watch__process_gone(struct cuda_watch *watch, pid_t pid);

/* Whether calls that are seen in this time on stand for a time off before it: it should be settled at its end only. */
bool cuda_watch__is_estimate(const struct cuda_watch *watch, uint64_t now_ns);
/* Adds what was counted up to now to `total`. -ENOMEM, or what reading the maps gave. */
int cuda_watch__settle(struct cuda_watch *watch);

/* Whether any of these threads is of its processes. */
bool cuda_watch__has_threads(const struct cuda_watch *watch, const struct u64_table *threads);
/*
 * Adds up the calls of these threads, which have ended (cuda_threads.h), as those of thread 0 of their processes, and removes their
 * entries from the kernel's map. Right after a settling, and while nothing is an estimate. What is compared with `total` later must be
 * folded before. Where memory is lacking counts are wrong, which `problems` says.
 */
void cuda_watch__fold_threads(struct cuda_watch *watch, const struct u64_table *threads);

/* Keeps the budget; returns when to be called again (CLOCK_MONOTONIC). */
uint64_t cuda_watch__tick(struct cuda_watch *watch, uint64_t now_ns);
/* One entry of the window that was drained. -ENOMEM: lost. */
int cuda_watch__add_line(struct cuda_watch *watch, const struct so_cuda_line_key *key,
			 const struct so_cuda_line *line);

/* All calls since the watch began, and how near; estimates: may be NULL. -ENOMEM, or what reading the maps gave. */
int cuda_watch__result(struct cuda_watch *watch, struct cuda_snapshot **out, struct cuda_estimates *estimates);
/*
 * The same for the beginning of a recording, which may be in the midst of a time off: what is told of it now stays, and what comes
 * stands for nothing before. Else later figures would take the place of these, of other threads perhaps, and the recording have them.
 */
int cuda_watch__cut(struct cuda_watch *watch, struct cuda_snapshot **out);
/* {"installed", "kind", ...} and the list of libraries with their probes, as .design/cuda.md has them. New references. */
json_t *cuda_watch__probes(const struct cuda_watch *watch);
json_t *cuda_watch__libraries(const struct cuda_watch *watch);
json_t *cuda_watch__problems(const struct cuda_watch *watch);
/*
 * [{"pid", "tid", "api", "since_ns"}]: calls that have not returned yet. Only those whose entry was seen; before Linux 6.9, of a
 * process's first thread. New reference.
 */
json_t *cuda_watch__in_progress(const struct cuda_watch *watch);

#endif
