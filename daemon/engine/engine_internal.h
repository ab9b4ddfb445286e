/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine's own state, for the files engine*.c and profile_export.c alone. */
#ifndef STAKEOUT_ENGINE_INTERNAL_H
#define STAKEOUT_ENGINE_INTERNAL_H

#include <pthread.h>

#include "daemon/profile/accumulator.h"
#include "daemon/engine/cuda_targets.h"
#include "daemon/engine/engine.h"
#include "daemon/files/file_registry.h"
#include "daemon/symbols/kernel_symbols.h"
#include "daemon/processes/process_table.h"
#include "daemon/profile/profile_builder.h"
#include "daemon/python/python_names.h"
#include "daemon/kernel/sampler.h"
#include "daemon/unwind/table_pool.h"
#include "daemon/unwind/unwind_cache.h"

#define TARGET_MAX_PYTHONS 4 /* different versions that are told apart in a target's figures */

#define ENGINE_ACCUMULATOR_BYTES (256u << 20) /* a target's stacks and counters; beyond: lost, out-of-memory */
#define ENGINE_GENERATION_BYTES  (48u << 20) /* of a kept target; two of them are kept (engine_generations.c) */

/* What a target had counted at a moment. */
struct engine_moment {
	struct so_slot slot; /* engine_target_lost() */
	struct python_names_stats names;
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	int64_t wall_ns;
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
	/* Of a view that goes on: what its target had counted for it before that began a new generation. */
	struct accumulator acc;
	/* Of a target that is kept, not of a view (engine_generations.c). */
	struct accumulator older;                    /* the generation before acc's */
	struct accumulator forgotten;                /* figures only, of all before that */
	struct engine_moment older_since, acc_since; /* where they begin; that of the first one is all 0 */
	uint64_t lost[SO_LOSS_COUNT]; /* those the daemon itself had to lose; the kernel's are in its slot */
	struct so_slot kernel;        /* the slot's counters once sampling has ended */
	uint64_t cpu_ns_before;       /* of the daemon, at attach */
	json_t *programs_before;
	uint32_t main_file;                   /* in the registry: its first process's program; 0: not known */
	uint16_t pythons[TARGET_MAX_PYTHONS]; /* versions met: 0x030b for 3.11; 0: none */
	char python_problem[256];             /* of an interpreter that cannot be read; "": none */
	struct python_names *python_names;    /* made when first needed */
	/*
	 * A view: a recording of a process that is a target already. It takes no samples of its own; when it ends, what
	 * its target has counted since it began is its profile. Counters are only ever added to a target, so those at
	 * the beginning are an array by index.
	 */
	struct target *of; /* NULL: no view, or one that has ended */
	bool view;
	uid_t caller_uid; /* for whom it was attached: processes of others are not followed, unless this is root */
	struct target_cuda cuda;
	uint64_t *base_counts;
	size_t n_base;
	struct so_slot base;
	struct process_label_table labels; /* of its processes; a view's own once it has ended */
	bool reads_old; /* engine_files.c: calls still work on it that began before files were looked at */
	struct window_base
		*windows; /* where its open window began; NULL: its profile is not taken in windows */
	struct window_base *next_window; /* where the one after it begins, while it is being built; borrowed */
};

/* A stack that arrived but has not been counted yet, by hash: those of the open window and of the one before. */
struct pending {
	struct u64_table by_hash;
	struct stack **stacks;
	size_t n, capacity;
};

/* A sample that waits for its process's mappings to be read. */
struct waiting_sample {
	struct waiting_sample *next;
	uint64_t arrived_ns;
	struct python_functions *functions; /* those of its Python frames, which have been read; a reference */
	struct so_raw_record record;
};

/* A process whose mappings are to be read. */
struct scan_request {
	struct scan_request *next;
	pid_t tgid;
	uint64_t reported_pages;
	uint64_t not_before_ns;
};

struct engine {
	pthread_mutex_t lock;
	pthread_t loop, scanner;
	bool loop_runs, scanner_runs, stopping;
	int wake_fd; /* eventfd: the loop has to look at its timers again */
	pthread_cond_t scan_wanted, target_changed;

	struct sampler *sampler;
	struct table_pool *pool;
	struct unwind_cache *cache; /* NULL: none */
	char cache_problem[256];    /* why not */
	struct file_registry *files;
	struct process_table *processes;
	struct kernel_symbols *kernel_symbols; /* read when first needed */

	struct target *targets[SO_MAX_SLOTS]; /* by slot; ENGINE_MAX_TARGETS, and ENGINE_MAX_VIEWS views */
	uint32_t next_id;
	struct pending pending[2]; /* [0]: since the last drain */
	struct waiting_sample *waiting, **waiting_end;
	size_t n_waiting;
	struct scan_request *scans;
	bool scan_busy;
	struct effect_reader *effects;       /* made when first needed */
	struct effect_reader *effects_ahead; /* the scanner's own */
	struct ahead_job *ahead;             /* learn.c; finished ones stay, as a note that they are */
	struct {
		pid_t tgid;
		uint32_t file; /* 0: the anonymous mapping at `start` */
		uint64_t start;
	} learned[64]; /* not published yet */
	unsigned n_learned;
	uint64_t learn_attempts, learn_failures;
	uint64_t next_unwind_ns;  /* of samples that wait */
	uint32_t n_pythons;       /* of sampler__pythons() in use */
	uint64_t python_again_ns; /* when those that were starting are asked again; 0: none was */
	struct python_functions *python_functions;
	struct cuda_targets *cuda;
	struct source_lines *source_lines; /* NULL: none are read */
	size_t generation_bytes;           /* ENGINE_GENERATION_BYTES, but for tests */
	uint64_t last_drain_ns, last_cpu_check_ns;
	uint64_t drains;                /* that succeeded */
	struct engine_files *file_life; /* engine_files.c */
	int drain_error;                /* of the last drain by the loop */
	_Atomic uint64_t rounds; /* of the loop, those with a drain_error excepted; for engine__collects() */
	uint64_t started_ns;
	char debug_root[256];
};

/* All of these want the engine's lock held. */
struct target *engine_target(struct engine *e, uint32_t id);
int engine_drain(struct engine *e);
/* For figures that may be 20 ms old: one answer about all targets drains once. */
int engine_drain_unless_fresh(struct engine *e);
int engine_update_events(struct engine *e, struct so_error *err);
void engine_request_scan(struct engine *e, pid_t tgid, uint64_t reported_pages);
void engine_end_target(struct engine *e, struct target *t, enum target_end end);
void engine_wake(struct engine *e);
void engine_free_target(struct target *t);
struct target *engine_hold(struct engine *e, uint32_t id);
void engine_unhold(struct engine *e, struct target *t);
void engine_process_gone(struct engine *e, struct process *p);
/* context: the engine. A process that has ended unheard is gone. */
void engine_check_alive(void *context, struct process *p);
/* Events were lost: nothing that they would have told may be assumed. */
void engine_look_at_everything(struct engine *e);
void engine_unwind_waiting(struct engine *e);
void engine_free_waiting(struct waiting_sample *w);
void engine_hurry_waiting(struct engine *e, uint32_t slot);
void engine_release_pending(struct pending *pending);
unsigned engine_sampling_rate_sum(const struct engine *e);
void engine_forget_if_idle(struct engine *e);
/* Losses of the kernel side and of the daemon together; returns their sum. out may be NULL. */
uint64_t engine_target_lost(struct engine *e, struct target *t, struct so_slot *out);

/* Handlers of what the kernel side sends (engine_collect.c). */
extern const struct sampler_handlers engine_handlers;

/* Reads a process's mappings and gives them to the kernel. Called without the lock. */
int engine_scan(struct engine *e, pid_t tgid, uint64_t reported_pages);

/*
 * Unwinds in user space what a raw sample holds (user_unwind.c); functions: those that its Python frames name. Rules that
 * were learned on the way are for engine_publish_learned() to give to the kernel.
 */
int user_unwind(struct engine *e, struct process *process, const struct so_raw_record *raw,
		struct python_functions *functions, struct stack **out);

/*
 * The rule of code without unwind information (learn.c), learned if need be; NULL when it cannot be had. address: the
 * interrupted instruction's (exact), or a return address minus one.
 */
const struct so_unwind_rule *engine_learn(struct engine *e, struct process *process,
					  const struct so_mapping *mapping, uint64_t address, bool exact);
/*
 * Learns some of the functions around those that engine_learn() was asked for. The scanner's: lets the lock go
 * meanwhile. False when there is nothing to do.
 */
bool engine_learn_ahead(struct engine *e);
void engine_forget_ahead(struct engine *e);
/* The files that are still to be learned of. */
void engine_mark_ahead(const struct engine *e, struct file_set *set);
/* Forgets what is noted of files that are in the registry no more. */
void engine_tidy_ahead(struct engine *e);
/* Whether a process that has just been scanned has an interpreter (engine_python.c). */
void engine_find_python(struct engine *e, struct process *p, const struct process_scan *scan);
/* Asks again for an interpreter that was not ready. */
void engine_retry_python(struct engine *e, struct process *p);
/* An interpreter that was asked for the first time a moment ago, and is asked again soon if it was not ready. */
bool engine_python_is_new(const struct process *p);
/*
 * Reads n Python frames: each one's words are replaced by a struct python_frame, whose function is NULL only when out of
 * memory. False when one could not be read; its function then is "[python:CAUSE]".
 */
bool engine_read_python(struct engine *e, pid_t tgid, uint64_t *words, size_t n);
/* Gives the kernel what engine_learn() learned since the last call. */
void engine_publish_learned(struct engine *e);

/*
 * The same for a thread that does not run, over its memory as it is; its Python frames are walked and read as well.
 */
int user_unwind_live(struct engine *e, struct process *process, struct so_raw_record *raw, uint64_t fsbase,
		     struct stack **out);
/* What a profile says of the target's interpreters: their versions, or why there are none. */
int engine_add_python_comments(const struct target *t, struct profile_builder *b);

/* Those of a target's processes; a view's are its target's. With the lock held. */
static inline const struct process_label_table *engine_labels(const struct target *t)
{
	return t->of ? &t->of->labels : &t->labels;
}

/* The stack that a count of the window belongs to, kept by the target from now on (engine_collect.c). */
bool engine_keep_stack(struct engine *e, struct target *t, uint64_t hash);

/* Bounds that targets share (engine_limits.c). */
void engine_share_sample_bytes(struct engine *e);
/* Forgets targets that have ended while they and the others take more than half of what all may. Not from within a drain. */
void engine_forget_ended(struct engine *e);
/* False, and counted, when there is none. */
bool engine_has_room_for_process(struct engine *e);

/* Views of a target (engine_view.c). */
uint64_t engine_target_samples(const struct target *t); /* so far, of a view or a target proper */
int engine_begin_view(struct engine *e, struct target *view, struct target *of);
int engine_copy_view(const struct target *view, struct accumulator *out);
/* What an accumulator has counted since its first n_base counters stood at `base`, added to what `carried` has. -ENOMEM. */
int engine_copy_since(const struct accumulator *carried, const struct accumulator *from, const uint64_t *base,
		      size_t n_base, struct accumulator *out);
/* Only what it has counted in its target's younger generation; and that is to turn old. What has no room is lost, and counted. */
int engine_copy_view_part(const struct target *view, struct accumulator *out);
void engine_turn_view(struct target *view, const struct accumulator *part);
void engine_end_view(struct engine *e, struct target *view);

/* A kept target's samples (engine_generations.c). Begins new generations where it is time. */
void engine_turn_generations(struct engine *e);
/* All that are in memory, of a view those since it began. -ENOMEM. */
int engine_copy_samples(const struct target *t, struct accumulator *out);
size_t engine_target_bytes(const struct target *t);
void engine_moment_now(struct engine *e, struct target *t, struct engine_moment *out);

/* Windows of a target (engine_window.c): of the one that is open and the one that is being built, which may be none. */
/* What they have counted in the younger generation. -ENOMEM: what was copied until then is in `out`. */
int engine_copy_window_parts(const struct target *t, struct accumulator out[2]);
/*
 * That generation is to turn old: they carry the parts from now on, which are empty then or have been added up. Of several
 * generations a window carries no more than max_bytes; it has lost what has no room, its target has not.
 */
void engine_turn_windows(struct target *t, struct accumulator parts[2], size_t max_bytes);
/* What the first or the second of them carries; NULL: there is no such window. */
const struct accumulator *engine_window_carried(const struct target *t, unsigned i);
size_t engine_windows_bytes(const struct target *t);

/* What a profile needs of a target, taken under the lock (engine_report.c). */
struct engine_snapshot {
	struct target *target;
	struct target_info info;
	struct accumulator acc; /* a copy */
	uint64_t begin_ns, begin_wall_ns, duration_ns, period_ns;
	struct so_slot slot;
	uint64_t forgotten; /* samples of before, whose stacks are in memory no more */
	uint32_t main_file;
	bool python; /* an interpreter was met */
	uint16_t pythons[TARGET_MAX_PYTHONS];
	char python_problem[256];
	struct python_names_stats names;
	struct process_label_table labels; /* a copy */
};

/* All but `acc`, and holds the target. */
void engine_fill_snapshot(struct engine *e, struct target *t, struct engine_snapshot *s);
/* Turns its figures into those since a moment; into those of the samples that are in memory. */
void engine_subtract_moment(struct engine_snapshot *s, const struct engine_moment *from);
void engine_since_oldest(const struct target *t, struct engine_snapshot *s);
struct python_names_stats engine_names_stats(const struct target *t);
/* Releases the copy, and the target. Without the lock. */
void engine_release_snapshot(struct engine *e, struct engine_snapshot *s);
/* gzip-compressed pprof; hasty: as struct profile_source has it. Without the lock. -ENOMEM. */
int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out,
			 size_t *length);
/* CPU time of the daemon and of the process that reads source lines for it. */
uint64_t engine_cpu_ns(struct engine *e);

#endif
