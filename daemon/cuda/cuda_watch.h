/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CUDA calls of one target: which libraries of its processes have probes, when these are on, and what they have
 * counted, scaled to all calls where they were not on all the time. Not thread-safe.
 */
#ifndef STAKEOUT_CUDA_WATCH_H
#define STAKEOUT_CUDA_WATCH_H

#include <stdbool.h>
#include <time.h>

#include "daemon/cuda/cuda_estimate.h"
#include "daemon/cuda/cuda_ladder.h"
#include "daemon/cuda/cuda_lines.h"
#include "daemon/cuda/cuda_probes.h"
#include "daemon/cuda/cuda_running.h"
#include "daemon/cuda/cuda_stack_plan.h"
#include "daemon/cuda/handle_names.h"
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
	struct cuda_link *always;   /* on the units that are full or counted; NULL: none, or the kernel refused */
	struct cuda_link *windowed; /* on those of windows; NULL: it is an off-window, or none */
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

/* More on-windows than there are in the second after which stacks have come. */
#define CUDA_WATCH_SEGMENTS 64

/* A cycle has one on-window, at random within it. */
enum cuda_watch_phase {
	CUDA_WATCH_OFF_BEFORE,
	CUDA_WATCH_SETTLING, /* the probes are there, and count nothing yet */
	CUDA_WATCH_ON,
	CUDA_WATCH_OFF_AFTER,
};

/* What was seen of the windowed units in a time. */
struct cuda_window {
	struct cuda_snapshot *calls;
	double on_ns;
	double slowdown; /* the share of it that its work took longer for the probes, at most */
	bool own;        /* it is in the present cycle, which it is scaled to */
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
	struct cuda_snapshot *total, *last; /* of all calls up to the last settling, and what the maps held then */
	struct cuda_snapshot *folded;       /* of processes that ended long ago: their sums (cuda_snapshot__fold()) */
	uint64_t n_folded;                  /* so many */
	/* Of threads that have ended in processes that live: what the kernel's map had of them, as thread 0's. */
	struct cuda_snapshot *ended_threads;
	bool fold_wanted;  /* some of its threads may be to give their entries back */
	uint64_t ended_ns; /* when the last process with a library ended; 0: one lives */
	uint64_t begin_ns;
	bool lost;      /* counts of some time, for want of memory */
	bool estimated; /* calls of some time were not seen */

	/* The budget (cuda_watch_budget.c). */
	double budget_percent;
	struct cuda_ladder ladder;
	struct cuda_stack_plan stacks;
	bool together; /* a static runtime: what it calls in the driver is known by its own call alone */
	uint64_t checked_ns, decided_ns;
	struct so_cuda_slot checked_slot;
	double hits_per_s[SO_CUDA_UNITS], nested_per_s[SO_CUDA_UNITS], busy_per_s[SO_CUDA_UNITS];
	double cpus;          /* that the target keeps busy, lately; 1 at least */
	double coldness;      /* how much more a probe costs here than where it was calibrated, lately */
	double stack_ns;      /* what a stack costs, lately */
	double debt_ns;       /* what was spent more than the budget gives; some of what was not spent is kept */
	uint64_t cpu_ns;      /* of the target since begin_ns */
	double cost_ns;       /* that all probes and stacks have cost since begin_ns, */
	double time_ns;       /* and of what that is a share */
	double counted_calls; /* calls, for the mean cost of one */

	/* Windows (cuda_watch_windows.c). */
	uint32_t windowed, unwatched; /* units */
	uint32_t generation;          /* of the probes that are always there and of windows */
	enum cuda_watch_phase phase;
	uint64_t phase_end_ns, cycle_end_ns, window_ns; /* window_ns: how long the on-window is to be */
	uint64_t on_since_ns;
	struct so_cuda_slot on_slot; /* at on_since_ns, */
	double on_cpu_ns;            /* the CPU time of its processes, */
	struct cuda_running running; /* and that of the threads that call */
	uint64_t accounted_ns;       /* up to then the windowed units' calls are in `total` */
	struct cuda_window window;   /* the last one */
	struct cuda_snapshot *fresh; /* of this on-window, so far */
	uint64_t settled_ns;
	struct cuda_estimates estimates;     /* of what is in `total` */
	uint32_t segment;                    /* the number of the on-window, from 1 */
	double factors[CUDA_WATCH_SEGMENTS]; /* of the stacks of the last ones */
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

/* Adds what was counted up to now to `total`; windowed calls when their cycle is over. -ENOMEM, or the maps' error. */
int cuda_watch__settle(struct cuda_watch *watch);

/* Whether any of these threads is of its processes. */
bool cuda_watch__has_threads(const struct cuda_watch *watch, const struct u64_table *threads);
/*
 * Adds up the calls of these threads, which have ended (cuda_threads.h), as those of thread 0 of their processes, and
 * removes their entries from the kernel's map. Right after a settling. What is compared with `total` later must be
 * folded before. Where memory is lacking counts are wrong, which `problems` says.
 */
void cuda_watch__fold_threads(struct cuda_watch *watch, const struct u64_table *threads);

/* Keeps the budget; returns when to be called again (CLOCK_MONOTONIC). */
uint64_t cuda_watch__tick(struct cuda_watch *watch, uint64_t now_ns);
/* One entry of the window that was drained. -ENOMEM: lost. */
int cuda_watch__add_line(struct cuda_watch *watch, const struct so_cuda_line_key *key, const struct so_cuda_line *line);

/* All calls since the watch began, and how near; estimates: may be NULL. -ENOMEM, or what reading the maps gave. */
int cuda_watch__result(struct cuda_watch *watch, struct cuda_snapshot **out, struct cuda_estimates *estimates);
/* The same for a recording that may begin amid a cycle: estimates stay, the next window is scaled to what comes now. */
int cuda_watch__cut(struct cuda_watch *watch, struct cuda_snapshot **out);
/* {"installed", "kind", ...} and the list of libraries with their probes, as in .design/cuda.md. New references. */
json_t *cuda_watch__probes(const struct cuda_watch *watch);
/* What the probes cost since the watch began, in percent of the target's time. */
/*
 * Calls count from here on. Before it, the probes of libraries that are mapped already are placed: PyTorch's thousands
 * take a second or two, and what the first of them see in it is not part of the recording.
 */
void cuda_watch__count(struct cuda_watch *watch);
/* Each call that takes so long is told by itself (struct so_call_record); 0: none. */
void cuda_watch__tell_calls(struct cuda_watch *watch, uint64_t ns);
/* Whether each call is timed now: no unit that has calls is on a lower rung. */
bool cuda_watch__times_all(const struct cuda_watch *watch);
double cuda_watch__overhead(const struct cuda_watch *watch);
json_t *cuda_watch__libraries(const struct cuda_watch *watch);
json_t *cuda_watch__problems(const struct cuda_watch *watch);
/*
 * [{"pid", "tid", "api", "since_ns"}]: calls that have not returned yet. Only those whose entry was seen; before
 * Linux 6.9, of a process's first thread. New reference.
 */
json_t *cuda_watch__in_progress(const struct cuda_watch *watch);

/* How far a watch is at one moment, but for its calls and lines; or what came between two. */
struct cuda_moment {
	uint64_t begin_ns, at_ns, cpu_ns; /* cpu_ns: of the target */
	uint64_t lines_lost, lines_forgotten;
	uint64_t folded;         /* processes of which only sums are there */
	double cost_ns, time_ns; /* what the probes took, and of what that is a share */
	struct cuda_estimates estimates;
	struct so_cuda_slot slot;
};

/* -ENOMEM, or what reading the maps gave. */
int cuda_watch__moment(const struct cuda_watch *watch, struct cuda_moment *out);
/* What came after `base`. */
void cuda_moment__subtract(struct cuda_moment *moment, const struct cuda_moment *base);

/* What the files of this module share. */

/* cuda_watch_places.c: CPU time of a process, ns; 0: it has ended. */
uint64_t cuda_watch_cpu_of(const struct cuda_process *process);
/* Places the probes that are not there: those that are always there, or those of windows. */
void cuda_watch_attach_always(struct cuda_watch *w, struct cuda_mapped *m);
void cuda_watch_attach_windowed(struct cuda_watch *w, struct cuda_mapped *m);

/* cuda_watch_budget.c: measures the cost since the last look; where it is due, decides who is on which rung. */
void cuda_watch_check(struct cuda_watch *w, uint64_t now_ns);
uint64_t cuda_watch_next_check_ns(const struct cuda_watch *w);
/* Tells the kernel which calls have their stacks taken. */
void cuda_watch_set_stacks(struct cuda_watch *w);
/* cuda_watch_cost.c. The target's calls of these units: hits between the two, in so much time. */
void cuda_watch_note_rates(struct cuda_watch *w, const struct so_cuda_slot *gained, uint32_t units, double ns,
			   double part);
/* What probes cost that ran into these counters, ns, by the prices of now; stacks included. */
double cuda_watch_cost_of(const struct cuda_watch *w, const struct so_cuda_slot *gained);
/* What all may cost, what is aimed at for the probes, and for stacks, ns a second. */
double cuda_watch_budget(const struct cuda_watch *w);
double cuda_watch_allowed(const struct cuda_watch *w);
double cuda_watch_allowed_stacks(const struct cuda_watch *w);
/* Counters that are less than before began anew. */
void cuda_slot__subtract(struct so_cuda_slot *slot, const struct so_cuda_slot *base);

/* cuda_watch_windows.c: goes through the phases; returns when it wants to be called again. */
uint64_t cuda_watch_windows_tick(struct cuda_watch *w, uint64_t now_ns);
/* Other units are windowed, or have no probes, from now on. */
void cuda_watch_divide(struct cuda_watch *w, uint32_t windowed, uint32_t unwatched);

/* cuda_watch_settle.c: what the slowdown in an on-window is measured from. */
void cuda_watch_mark_window(struct cuda_watch *w);
/* The on-window ends. -ENOMEM, or what reading the maps gave; and so the others. */
int cuda_watch_end_window(struct cuda_watch *w, uint64_t now_ns);
/* Adds the windowed units' calls up to now to `total`, by the last window. */
int cuda_watch_account(struct cuda_watch *w, uint64_t now_ns);
/* These units will be windowed: until they have a window what came since the last settling tells of them. */
int cuda_watch_seed(struct cuda_watch *w, uint32_t units, uint64_t now_ns);
/* No process with a library is left. */
int cuda_watch_pause(struct cuda_watch *w, uint64_t now_ns);

#endif
