/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of targets, and what a target is. With the engine's lock held. */
#ifndef STAKEOUT_TARGETS_H
#define STAKEOUT_TARGETS_H

#include "daemon/targets/call_times.h"
#include "daemon/targets/cuda_targets.h"
#include "daemon/targets/pythons.h"
#include "daemon/targets/target_allocations.h"
#include "daemon/targets/target_gpu_memory.h"
#include "daemon/targets/target_memory.h"
#include "daemon/targets/target_info.h"
#include "daemon/targets/windows.h"
#include "daemon/os/u64_table.h"
#include "daemon/processes/thread_names.h"
#include "stakeout/python_place.h"
#include "stakeout/sampler_abi.h"

#define PYTHON_STEP_PLACES 16
#define SLOW_WATCH_STEPS   1024 /* of which the 95th percentile is taken */
#define SLOW_WATCH_THREADS 16

/* Waits for a slow step (steps.h). */
struct slow_watch {
	double factor;     /* slow is what takes so many times the 95th percentile; 0: not by that */
	uint64_t limit_ns; /* or what takes longer than this; 0: not by that */
	bool ends;         /* the target ends with it; else it is reported to whoever asks, again and again */
	struct step_moment {
		uint32_t tid;
		uint64_t when_ns;
	} * pending; /* entries since the last look, in no order */
	size_t n_pending, capacity;
	struct step_moment last[SLOW_WATCH_THREADS]; /* entries of threads before that */
	unsigned n_last;
	uint64_t ns[SLOW_WATCH_STEPS]; /* the latest durations, as a ring */
	size_t n, next;
	uint64_t slow_begin_ns;     /* of that step, CLOCK_MONOTONIC */
	uint64_t slow_ns, usual_ns; /* that one, and the percentile before it; 0: none yet, or not known */
	bool under_way;             /* it has not ended yet */
	uint64_t forgiven_ns;       /* steps that began before do not count */
};

/* A target that is to be of some of its program's steps (steps.h): those of the thread that comes to the first one. */
struct step_span {
	uint64_t skip, count; /* so many, and then these; count 0: it is not */
	struct {
		uint32_t tid;
		uint64_t begun; /* steps */
	} threads[SLOW_WATCH_THREADS];
	unsigned n_threads;
	uint32_t tid;            /* that one; 0: not known yet */
	uint64_t from_ns, to_ns; /* where they begin and end; 0: not known yet */
};

/* A Python function, or a line of one, whose entries are counted (steps.h). */
struct python_mark {
	struct python_place place; /* its function's name as the program has it, once that is known */
	/* Processes in which its code object was seen, and where the instruction is there. */
	struct {
		pid_t tgid;
		uint64_t address;
	} places[PYTHON_STEP_PLACES];
	/* Threads that were seen in it, each with its watchpoint; NULL: there is none to be had. */
	struct {
		pid_t tid;
		struct mark_probe *probe;
	} threads[PYTHON_STEP_PLACES];
	unsigned n_places, n_threads;
	bool unwatched; /* further threads are in it, which have none: their entries are not counted */
};

/* A function whose entries are counted: mark 0 begins a step, the others are those of struct attach_options.counted. */
struct mark {
	char name[256]; /* as it was asked for by the target, or by the view; "": by none */
	bool used;      /* by it */
	/* Of a target proper, for itself and its views: */
	char shared[256]; /* what its users asked for */
	unsigned users;
	struct mark_probe *probe; /* of a native function; else NULL */
	struct python_mark python;
};

struct target {
	uint32_t id;
	uint32_t slot;
	struct target_info info; /* elapsed_s, processes, samples, lost are filled in on request */
	uint64_t period_ns;
	uint64_t begin_ns, end_ns, deadline_ns; /* CLOCK_MONOTONIC; 0: not yet, none */
	uint64_t begin_wall_ns;
	uint64_t attach_ns;      /* time from the call to the first possible sample */
	unsigned living;         /* processes */
	unsigned seen_processes; /* ever */
	unsigned users;          /* calls that work on it without the lock */
	bool doomed;             /* detached while in use */
	bool own_namespaces;     /* its root process runs in the daemon's PID and mount namespaces */
	struct caller caller;    /* for whom it was attached: what they may not look into is not followed */
	struct u64_table hidden; /* viewers.h: numbers of processes; a view's own once it has ended */
	uint64_t cpu_ns_before;  /* of the daemon, at attach */
	json_t *programs_before;
	uint32_t main_file;                /* in the registry: its first process's program; 0: not known */
	struct process_label_table labels; /* of its processes; a view's own once it has ended */
	struct thread_names thread_names;  /* of its processes; the same */
	/* A view: a recording of a process that is a target already, which takes no samples of its own (samples.h). */
	bool view;
	struct target *of;      /* NULL: no view, or one that has ended */
	uint64_t looks;         /* at its threads, since then: */
	uint64_t wall_since_ns; /* from when on its threads' time is counted (waits.h); 0: it is not */
	uint64_t looked_ns;     /* when the last of them began; 0: none has */
	unsigned wall_hz;       /* of a view that has ended: looks a second */
	bool wall_refused;      /* its user's threads are too many to be looked at */
	bool own_wall;          /* it was attached so, */
	unsigned wall_views;    /* or so many of its views were */
	bool own_timed;         /* the same for info.timed */
	unsigned timed_views;
	struct mark marks[SO_MARKS]; /* steps.h */
	struct slow_watch slow;
	struct step_span span;
	struct call_times calls; /* of its processes; a view's own once it has ended */
	bool reads_old;          /* file_life.c: calls still work on it that began before files were looked at */
	bool window_cuda, window_cuda_missed; /* engine_window.c: windows have CUDA calls; they could not be taken */
	/* Each for the part that its header names. */
	struct samples samples;
	struct target_python python;
	struct target_cuda cuda;
	struct target_memory memory;
	struct target_gpu_memory gpu_memory;
	struct target_allocations allocations;
};

/* All zero is an empty one. For targets.c; `by_slot` is given to the parts below. */
struct targets {
	struct target *by_slot[SO_MAX_SLOTS];
	uint32_t next_id;
	uint64_t moves;
};

struct target *targets__of_slot(const struct targets *ts, uint32_t slot);
/* The one after t (NULL: the first); NULL: there is no more. */
struct target *targets__next(const struct targets *ts, const struct target *t);
#define TARGETS_EACH(t, ts) for ((t) = targets__next(ts, NULL); (t); (t) = targets__next(ts, t))

/* NULL: there is none, or it is doomed. */
struct target *targets__find(const struct targets *ts, uint32_t id);
/* One whose windows are taken, doomed or not. */
struct target *targets__find_windowed(const struct targets *ts, uint32_t id);
/* One that has not ended. */
struct target *targets__find_pid(const struct targets *ts, pid_t pid);

/* Gives it a slot and an id. -ENOSPC. */
int targets__add(struct targets *ts, struct target *t);
void targets__remove(struct targets *ts, struct target *t);
/* Of targets, or of views; with doomed ones. */
unsigned targets__count(const struct targets *ts, bool view);
/* Of those that have ended and that nobody works on, the one that ended longest ago; NULL: there is none. */
struct target *targets__oldest_ended(const struct targets *ts, bool view);
struct target *targets__oldest_kept(const struct targets *ts);
/* So that neither one user nor all of them together can shut out root, nor each other. -ENOSPC. */
int targets__check_share(const struct targets *ts, uid_t uid, bool view, struct so_error *err);

/*
 * Whether a further target of the user may be sampled at this rate: those at a rate that the user has already share its
 * clocks. -ENOSPC.
 */
int targets__check_rates(const struct targets *ts, uid_t uid, unsigned rate_hz, struct so_error *err);

/* Of those that are sampled. */
unsigned targets__rate_sum(const struct targets *ts);
bool targets__use_rate(const struct targets *ts, unsigned rate_hz);

/* Memory for samples. */
size_t target__bytes(const struct target *t);
size_t targets__bytes(const struct targets *ts);
/* Divides what is left of it among them. */
void targets__share_bytes(struct targets *ts);

/*
 * Counted up when stacks have gone from one target to another, or a target with all that it had: what file_life.c has
 * gone through may not be all.
 */
void targets__stacks_moved(struct targets *ts);
uint64_t targets__moves(const struct targets *ts);

/* What it has counted until now, or until its end. */
void target__moment(const struct target *t, struct samples_moment *out);

/* The calls that may name its files without the lock: what holds it for its windows does not. */
static inline unsigned target__readers(const struct target *t)
{
	return t->users - (windows__are_taken(&t->samples) && t->users);
}

/* The one that takes its samples. */
static inline const struct target *target__proper(const struct target *t)
{
	return t->of ?: t;
}

#endif
