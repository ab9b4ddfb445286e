/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the engine is made of: engine*.c take the lock and call the parts, which do not know it (.design/rooms.md). */
#ifndef STAKEOUT_ENGINE_INTERNAL_H
#define STAKEOUT_ENGINE_INTERNAL_H

#include "daemon/engine/engine.h"
#include "daemon/targets/file_life.h"
#include "daemon/targets/allocations.h"
#include "daemon/targets/gpu_memory.h"
#include "daemon/targets/memory_watch.h"
#include "daemon/targets/scanner.h"
#include "daemon/targets/steps.h"
#include "daemon/targets/thread_namer.h"
#include "daemon/targets/viewers.h"
#include "daemon/targets/waits.h"
#include "daemon/symbols/kernel_symbols.h"
#include "daemon/os/thread_list.h"
#include "daemon/unwind/unwind_cache.h"

struct profile_builder;

struct engine {
	pthread_mutex_t lock;
	pthread_t loop_thread, scanner_thread, looks_thread;
	bool loop_runs, scanner_runs, looks_run, stopping;
	int wake_fd; /* eventfd: the loop has to look at its timers again */
	uint64_t started_ns, last_cpu_check_ns;
	uint64_t steps_ns;       /* of the last drain whose steps were looked at */
	int drain_error;         /* of the last drain by the loop */
	_Atomic uint64_t rounds; /* of the loop, those with a drain_error excepted; for engine__collects() */

	/* Of the rooms below. */
	struct sampler *sampler;
	struct table_pool *pool;
	struct unwind_cache *cache; /* NULL: none */
	char cache_problem[256];    /* why not */
	char debug_root[256];
	struct file_registry *files;
	struct process_table *processes;
	struct kernel_symbols *kernel_symbols; /* read when first needed */
	struct source_lines *source_lines;     /* NULL: none are read */

	/* The engine's parts, each above those that it uses. */
	struct targets targets;
	struct scan_queue scans;
	struct mapping_watch mappings;
	struct pending_stacks pending;
	struct jit_names *jits;
	struct pythons pythons;
	struct learn_notes notes;
	struct learn_ahead ahead;
	struct learner learner;
	struct cuda_targets *cuda;
	struct scanner scanner; /* has the struct process_life as well */
	struct file_names *waited_files;
	struct thread_list *thread_list; /* loaded when first needed */
	struct thread_namer namer;
	struct waits *waits;
	pthread_cond_t looks_wanted; /* a target whose waits are wanted, or the end */
	struct memory_watch memory;
	struct gpu_memory gpu_memory;
	struct allocations allocations;
	struct collector collector;
	struct file_life file_life;
};

/* The lives of targets (engine_life.c). With the lock held. */
void engine_wake(struct engine *e);
/* Opens and closes clock events so that they match where the targets' threads may run. */
int engine_update_events(struct engine *e, struct so_error *err);
/* New mappings are reported from the CPUs that have clocks, and those of targets that will have some. */
void engine_watch_mappings(struct engine *e);
void engine_end_target(struct engine *e, struct target *t, enum target_end end);
void engine_drop_target(struct engine *e, struct target *t);
void engine_free_target(struct target *t);
/* For who held it by counting up target.users, to work on it without the lock. */
void engine_unhold(struct engine *e, struct target *t);
/*
 * Whether a target's waits are wanted is decided anew: by itself, or by one of its views. Begins to look, or ends it.
 * With the lock held.
 */
void engine_update_wall(struct engine *e, struct target *t);
/* Of the target's processes that are there; what they fork later does as they do. */
void engine_update_timed(struct engine *e, struct target *t);
/* With no target left, nothing refers to files, tables or symbols; the next attach finds its tables in the cache. */
void engine_forget_if_idle(struct engine *e);
/* Forgets ended targets while they and the others take more than half of what all may. Not from within a drain. */
void engine_forget_ended(struct engine *e);
/* CPU time of the daemon and of the process that reads source lines for it. */
uint64_t engine_cpu_ns(struct engine *e);

struct attach_options;
struct proc_info;

/* Whether a process can be attached to (engine_attach_check.c): 0, or what engine__attach() fails with, in words. */
int engine_check_options(const struct attach_options *o, struct so_error *err);
int engine_check_process(const struct attach_options *o, struct proc_info *info, struct so_error *err);
/* Without the lock: whether its memory can be read now. */
int engine_check_memory(struct engine *e, const struct attach_options *o, const struct proc_info *info,
			struct so_error *err);
/* *of: the target whose root process this is already, of which a recording can be a view; else NULL. With the lock. */
int engine_check_free(struct engine *e, const struct attach_options *o, struct target **of, struct so_error *err);
/* Whether a recording may be a view of that target. */
int engine_check_view(const struct attach_options *o, const struct target *of, struct so_error *err);

/* What an answer needs of a target, taken under the lock (engine_snapshot.c). */
struct engine_snapshot {
	struct target *held; /* its files stay; NULL: figures alone */
	struct target_info info;
	struct accumulator acc;  /* a copy, or the figures of one */
	struct call_times calls; /* a copy */
	bool cuda;               /* its CUDA calls are timed */
	uint64_t begin_ns, begin_wall_ns, duration_ns, period_ns, attach_ns, cpu_ns_before;
	unsigned seen_processes;
	struct so_slot slot;
	uint64_t lost; /* sum of slot.lost */
	uint64_t wall_lost_ns;
	bool of_steps;                   /* only what lies between these two is wanted: */
	uint64_t steps_ns, steps_end_ns; /* 0: not known */
	unsigned wall_hz;                /* looks a second, about; 0: its waits are not looked at */
	uint64_t forgotten;              /* samples of before, whose stacks are in memory no more */
	uint32_t main_file;
	bool own_namespaces;
	char counted[SO_MARKS][256]; /* what its marks count, as it was asked for; "": nothing */
	bool unwatched;              /* some threads had no watchpoint to be had for them */
	struct python_facts python;
	struct process_label_table labels; /* a copy */
	struct thread_names thread_names;  /* a copy */
	struct u64_table hidden;           /* processes that the caller may not see */
};

/* With the lock held: all but `acc`, `held`, `labels` and `thread_names`. */
void engine_fill_snapshot(const struct target *t, struct engine_snapshot *s);
/* And these two. */
void engine_hold_snapshot(struct target *t, struct engine_snapshot *s);
/* Turns its figures into those since a moment. */
void engine_subtract_moment(struct engine_snapshot *s, const struct samples_moment *from);
/* To be called before the lock is taken for a drain: reads what the samples will need and what takes long. */
void engine_before_drain(struct engine *e);
/*
 * Takes the lock, collects, and takes a snapshot of all samples that are in memory; to be released. -ENOENT, -ENOMEM;
 * -EPERM: the caller may see nothing of the target.
 */
int engine_take_snapshot(struct engine *e, uint32_t id, struct caller caller, struct engine_snapshot *s,
			 struct so_error *err);
/* Without the lock. */
void engine_release_snapshot(struct engine *e, struct engine_snapshot *s);

/* A clock event without its program: interrupt, timer, perf core; a busy CPU's slowdown at 10 kHz (.design/cost.md). */
#define INTERRUPT_NS 1500

/* What taking its samples has cost the target, ns of its CPU time. */
static inline uint64_t engine_cost_ns(const struct engine_snapshot *s)
{
	return s->slot.run_ns + s->slot.taken * INTERRUPT_NS;
}

/* Profiles (engine_profile.c). Without the lock. */
/* What its samples are named by: without kernel frames, waits and times, which not all have. Points into the snapshot. */
struct profile_source engine_source(const struct engine *e, const struct engine_snapshot *s);
/* gzip-compressed pprof; hasty: as struct profile_source has it. -ENOMEM. */
int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out, size_t *length);
/* When steps began and counted functions were entered (engine_marks.c), as comments. -ENOMEM. */
int engine_add_marks(struct profile_builder *b, const struct engine_snapshot *s);
/* Comments about CUDA calls, each with its time (engine_calls.c; .design/profile-format.md). -ENOMEM. */
int engine_add_calls(struct engine *e, struct profile_builder *b, const struct engine_snapshot *s);
/* What a profile says of the target's interpreters: their versions, or why there are none. */
int engine_add_python_comments(const struct python_facts *python, struct profile_builder *b);
void engine_python_version(uint16_t version, char text[16]);

/* Those of a target's processes; a view's are its target's. With the lock held. */
static inline const struct process_label_table *engine_labels(const struct target *t)
{
	return &target__proper(t)->labels;
}

#endif
