/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sampling engine: loads the BPF programs, holds the targets, collects their samples. The HTTP API and
 * main() know this header and nothing below it. All functions are thread-safe; none of them blocks longer than
 * reading the target's ELF files takes.
 *
 * A target is a process, and unless asked otherwise every process that descends from it, sampled at one rate
 * from attach until detach, until its duration is over, or until its last process has ended.
 */
#ifndef STAKEOUT_ENGINE_H
#define STAKEOUT_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/targets/target_info.h"
#include "stakeout/cleanup.h"
#include "stakeout/cuda_event.h"
#include "stakeout/error.h"
#include "stakeout/sampler_abi.h"

/* Of the target's time, for probes of CUDA calls: a standing watch's, a recording's (struct attach_options.keep). */
#define ENGINE_CUDA_BUDGET_PERCENT    1.0
#define ENGINE_CUDA_RECORDING_PERCENT 3.0

#define ENGINE_LINES_PATIENCE_NS 5000000000ull

struct engine;

struct engine_options {
	const char *cache_dir;      /* unwind table cache; NULL: the default place; "": none */
	const char *debug_root;     /* where separate debug files are looked up; NULL: "/" */
	bool no_source_lines;       /* read no DWARF information */
	uint64_t lines_patience_ns; /* how long a profile waits for it; 0: ENGINE_LINES_PATIENCE_NS */
	bool force_tail_calls;      /* use the unwinder for kernels without bpf_loop even where bpf_loop is there
				    (tests) */
	unsigned counts_entries;    /* capacity of the counts map; 0: chosen by rate (tests make it small) */
	size_t generation_bytes;    /* of a kept target's samples; 0: ENGINE_GENERATION_BYTES (tests make it small) */
	unsigned files_idle_ms;     /* a file that is mapped nowhere is let go after this; 0: 10 minutes (tests) */
	/* Called once all is loaded, before there is any thread; what it returns ends engine__new(). NULL: none. */
	int (*loaded)(struct so_error *err);
};

/*
 * Opens and loads. Needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN); the error says what is missing. The
 * target's memory map files need CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE and CAP_SYS_PTRACE.
 */
int engine__new(const struct engine_options *options, struct engine **out, struct so_error *err);
/* Detaches everything and frees. */
void engine__free(struct engine *engine);
CLEANUP_DEFINE(struct engine *, engine, engine__free)

struct attach_options {
	pid_t pid;
	unsigned rate_hz;                /* ENGINE_MIN_RATE_HZ … ENGINE_MAX_RATE_HZ */
	double duration_s;               /* 0: until stopped */
	bool children;                   /* follow descendants, existing and later ones */
	bool kernel;                     /* keep kernel frames */
	bool keep;                       /* a long-lived target of a daemon, as opposed to one client's recording */
	bool cuda;                       /* time its CUDA calls as well */
	bool wall;                       /* look where its threads wait as well */
	bool timed;                      /* keep its samples with their times */
	bool memory;                     /* see how its memory grows */
	bool gpu_memory;                 /* see what its PyTorch has on GPUs */
	bool allocations;                /* see its calls of malloc and its like */
	char step[256];                  /* the function that begins its steps (steps.h); "": none */
	char counted[SO_MARKS - 1][256]; /* other functions whose calls are to be counted, as `step`; "": no more */
	/* It is of so many steps, which come after others, and ends with them; steps 0: it is not. */
	unsigned skip_steps, steps;
	double until_slow; /* it ends itself after a step of so many times the 95th percentile; 0: it does not */
	/*
	 * Slow steps are reported by engine__activity(): of so many times the 95th percentile, or longer than that. 0:
	 * not.
	 */
	double slow_factor;
	uint64_t slow_ns;
	double cuda_budget_percent; /* of the target's time; 0: as above */
	bool as_watched;   /* of a process that is a target already: at its rate, with its children and kernel frames */
	bool only_watched; /* nothing is attached to that is no target yet: -EPERM */
	struct caller caller; /* whose rights decide */
	uint32_t rule;        /* that attaches it (match_table.h); 0: none */
};

/*
 * Begins to watch. *id names the target from now on. Returns when sampling has begun. -ESRCH: no such process, a kernel
 * thread or a zombie; -EPERM: the caller may not look into the process; -EEXIST: already a target, its id in the
 * message; -EINVAL: rate; -ENOSPC: too many targets; others from the kernel. The message is one line for the user.
 */
int engine__attach(struct engine *engine, const struct attach_options *options, uint32_t *id, struct so_error *err);
/* Ends sampling, keeps the data. 0 also when it had ended. -ENOENT: no such target. */
int engine__stop(struct engine *engine, uint32_t id, struct so_error *err);
/* Ends sampling if need be and forgets the target. -ENOENT. */
int engine__detach(struct engine *engine, uint32_t id, struct so_error *err);

int engine__info(struct engine *engine, uint32_t id, struct target_info *out);
/* *out: malloc'ed array, caller frees. */
int engine__list(struct engine *engine, struct target_info **out, size_t *n);

/*
 * The profile up to this call, as a gzip-compressed pprof message (stakeout/profile.proto), but for processes that
 * `caller` may not see. last_s: of the latest seconds alone, for a target that keeps times (else -EINVAL); 0: all.
 * Of one that is of some steps these alone; -ENODATA: the first has not begun.
 * *out: malloc'ed. -ENOENT; -EPERM; -ENOMEM.
 */
int engine__profile(struct engine *engine, uint32_t id, struct caller caller, double last_s, uint8_t **out,
		    size_t *length, struct so_error *err);
/* What a target does, for whoever looks at it once a second (incidents/). */
struct engine_activity {
	uint64_t now_ns;                 /* CLOCK_MONOTONIC */
	uint64_t running_ns;             /* CPU time of all its processes since it was attached, by samples */
	double gpu_percent;              /* mean of the GPUs that it uses since since_ns; negative: not known */
	uint64_t slow_begin_ns;          /* when that step began */
	uint64_t slow_step_ns, usual_ns; /* the slowest since the last engine__forgive_slow(); 0: none was slow */
	bool slow_under_way;             /* that step has not ended */
	uint64_t refused;                /* times that PyTorch had no memory on a GPU; 0 also: not known */
	bool ended;                      /* the target has */
	pid_t pid;
	char comm[17];
};
/* since_ns: of the GPUs' figures; 0: none is wanted. -ENOENT: no such target. */
int engine__activity(struct engine *engine, uint32_t id, uint64_t since_ns, struct engine_activity *out);
/* The slow step has been dealt with: the next one counts. */
void engine__forgive_slow(struct engine *engine, uint32_t id);

/*
 * How the memory of a target that was attached with `memory` grew, until now (.design/memory.md): pprof of what its
 * stacks touched first, and of that what is in use now. *out: malloc'ed. -ENODATA: it was attached without; -ENOENT;
 * -EPERM; -ENOMEM.
 */
int engine__memory(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		   struct so_error *err);

/* What processes have, added up, in bytes: RssAnon, RssFile, RssShmem and VmSwap of /proc/PID/status. */
struct engine_memory_use {
	uint64_t anonymous, file, shared, swapped;
};

#define ENGINE_MEMORY_PROCESSES 1024

/*
 * Of all processes of a target whose windows are taken, now. -ENOENT: there is no such target, or it takes no samples
 * of its own; -ESRCH: none of its processes could be read; -E2BIG: they are more than ENGINE_MEMORY_PROCESSES; -ENOMEM.
 */
int engine__memory_use(struct engine *engine, uint32_t id, struct engine_memory_use *out);

/*
 * What a target that was attached with `allocations` allocated and freed since, by calls of malloc and its like that
 * were chosen at random (.design/allocations.md), in the same form. Errors as above.
 */
int engine__allocations(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
			struct so_error *err);

/*
 * What the PyTorch of a target that was attached with `gpu_memory` has in use on GPUs now, and what it was given since
 * (.design/gpu-memory.md), in the same form. Errors as above.
 */
int engine__gpu_memory(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		       struct so_error *err);

/*
 * Every thread of one of the target's processes as it is now, in the same form: one sample a thread, which carries its
 * state as a label. pid: 0 for its root process. -ESRCH: it has ended, or is none of the target's; -EPERM: the caller
 * may not look into it.
 */
int engine__threads(struct engine *engine, uint32_t id, pid_t pid, struct caller caller, uint8_t **out, size_t *length,
		    struct so_error *err);

/*
 * The tasks of asyncio in one of the target's processes as they are now (.design/tasks.md). pid and errors as above;
 * -ENODATA: it has no Python with tasks that can be read, which err says, or its interpreter is starting. *out: new
 * reference.
 */
int engine__tasks(struct engine *engine, uint32_t id, pid_t pid, struct caller caller, json_t **out,
		  struct so_error *err);

/*
 * The profile in windows, one after the other without a moment or a sample between them: the sums of all windows are
 * what engine__profile() and engine__info() tell. For one consumer at a time. A target whose windows are taken stays,
 * ended or detached, until engine__end_windows(), so that its last window can be taken; detached, it is found by these
 * functions alone. All windows have to be ended before engine__free().
 *
 * -ENOENT: no such target; -EEXIST: they are taken already; -EINVAL: a view of another target; -ENOMEM.
 */
int engine__begin_windows(struct engine *engine, uint32_t id, bool cuda, struct so_error *err);

struct engine_window {
	uint8_t *profile; /* gzip-compressed pprof; malloc'ed, the caller frees it */
	size_t length;    /* bytes */
	/* JSON, the stored form of daemon/history/cuda_merge.h; malloc'ed; NULL: calls are not timed, or not wanted */
	char *cuda;
	int64_t begin_ns, end_ns; /* since 1970-01-01 UTC */
	uint64_t samples, lost;   /* samples: those in the profile */
	bool last;                /* the target had ended, */
	bool exited;              /* as its last process had */
	bool hides;               /* it has processes, or had, that its viewer may not see */
};

/* What was sampled since the last call or attach, and its figures. -ENOENT; -ENOMEM: the window goes on, complete. */
int engine__window(struct engine *engine, uint32_t id, struct engine_window *out, struct so_error *err);
void engine__end_windows(struct engine *engine, uint32_t id);

/* The CUDA calls of a target that was attached with `cuda`, for the same span (.design/cuda.md). -ENODATA: without. */
int engine__cuda(struct engine *engine, uint32_t id, json_t **out, struct so_error *err);
/* The same without lines and allocations, whose stacks take long to name. */
int engine__cuda_calls(struct engine *engine, uint32_t id, json_t **out, struct so_error *err);
/* Stacks of one event's CUDA calls, as engine__profile() (.design/cuda.md). *out: malloc'ed. -ENODATA: no `cuda`. */
int engine__cuda_profile(struct engine *engine, uint32_t id, enum so_cuda_event event, uint8_t **out, size_t *length,
			 struct so_error *err);
/* The figures of `--stats` (fields: the project's README), for the same span. New reference. */
json_t *engine__stats(struct engine *engine, uint32_t id, struct so_error *err);
/*
 * What watching a target costs, as far as it has been counted: nothing is drained for it. {"overhead_percent" (null:
 * not known), "cuda_overhead_percent" (null: calls are not timed), "sample_bytes"}. New reference; NULL: no such
 * target.
 */
json_t *engine__cost(struct engine *engine, uint32_t id);
/* Whether the collecting thread works: waits up to timeout_ms for a whole round of it, its drain without an error. */
bool engine__collects(struct engine *engine, unsigned timeout_ms);
/* The daemon's own state: version, uptime, targets, mechanisms in use, cost, tables, memory. New reference. */
json_t *engine__status(struct engine *engine);

/*
 * Whether this machine can do the work, without loading anything for good: an array of
 * {"name", "found": bool, "required": bool, "used": string, "without": string}, the last one saying what its
 * absence costs. Needs no engine. New reference.
 */
json_t *engine__check(void);

#endif
