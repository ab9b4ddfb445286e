/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side of timing CUDA calls: loads bpf/cuda/cuda.bpf.c beside the sampler, puts its probes on the
 * functions of a library for one process, and gives access to its maps. Knows nothing of targets. Not thread-safe:
 * the engine serialises.
 */
#ifndef STAKEOUT_CUDA_PROBES_H
#define STAKEOUT_CUDA_PROBES_H

#include <sys/types.h>

#include "daemon/cuda/cuda_library.h"
#include "daemon/cuda/cuda_calibration.h"
#include "daemon/cuda/cuda_snapshot.h"
#include "daemon/kernel/sampler.h"
#include "stakeout/cuda_abi.h"

struct cuda_probes;

/* Pointers are valid during the call only. */
struct cuda_handlers {
	void *context;
	void (*name)(void *context, const struct so_cuda_name *name);
	void (*line)(void *context, const struct so_cuda_line_key *key, const struct so_cuda_line *line);
	/* Measures what a probe costs on this machine (cuda_calibration.h). -errno: another kind of probe is tried. */
	int (*calibrate)(struct cuda_probes *probes, struct cuda_prices *out);
};

/* How the probes are attached, from best to worst. */
enum cuda_probe_kind {
	CUDA_PROBE_SESSION, /* entry and return in one program, all functions in one link (6.13) */
	CUDA_PROBE_MULTI,   /* two links for all functions (6.6) */
	CUDA_PROBE_PERF,    /* two perf events a function, slow to take away: daemon/cuda/cuda_perf_events.h (5.15) */
};

const char *cuda_probes__kind_word(enum cuda_probe_kind kind); /* "session", "multi", "perf" */

/*
 * Loads, and measures what a probe costs on this machine, which takes some 100 ms. For tests STAKEOUT_CUDA_PROBES in
 * the daemon's environment is the word of a kind: no better one is tried. -ENOTSUP: the kernel has no kind of probe
 * that will do; other errors as of sampler__new().
 */
int cuda_probes__new(const struct sampler *sampler, const struct cuda_handlers *handlers, struct cuda_probes **out,
		     struct so_error *err);
void cuda_probes__free(struct cuda_probes *probes);
CLEANUP_DEFINE(struct cuda_probes *, cuda_probes, cuda_probes__free)

enum cuda_probe_kind cuda_probes__kind(const struct cuda_probes *probes);

struct cuda_prices cuda_probes__prices(const struct cuda_probes *probes);

/* The probes on one library in one process. */
struct cuda_link;

/* Which functions: those of these units (1 << SO_CUDA_UNIT()), or all others and those that tell kernels' names. */
struct cuda_choice {
	uint32_t units;
	bool others;
	uint32_t generation; /* SO_CUDA_COOKIE_GENERATION of the cookies */
};

/*
 * fd: the library's file, borrowed. number: tells this library of this process from all others, 1 …
 * SO_CUDA_MAX_LIBRARIES. *out is NULL when the library has none of these. 0, or -errno with words.
 */
int cuda_probes__attach(struct cuda_probes *probes, pid_t pid, uint32_t slot, uint32_t number, int fd,
			const struct cuda_library *library, const struct cuda_choice *choice, struct cuda_link **out,
			struct so_error *err);
/*
 * Takes the probes away; a call that is under way then goes on unseen. What the kernel needs for it, 16 to 110 ms,
 * passes in another thread: for a part of that, 5 to 50 ms, threads of the process still run into them.
 */
void cuda_link__free(struct cuda_link *link);
CLEANUP_DEFINE(struct cuda_link *, cuda_link, cuda_link__free)
/* Where processes come faster than a kernel takes probes away (CUDA_PROBE_PERF): so many wait, none should get any. */
#define CUDA_PROBES_CROWD 8192
bool cuda_probes__are_crowded(struct cuda_probes *probes);
/* Whether links of this process are being taken away, for which cuda_probes__attach() would wait. */
bool cuda_probes__are_going(struct cuda_probes *probes, pid_t pid);

/* Tells where a process's shared runtimes are. */
void cuda_probes__set_runtimes(struct cuda_probes *probes, pid_t pid, const struct so_cuda_runtimes *runtimes);

/* The call that a thread was last seen to enter. -ENOENT; -EINVAL: before Linux 6.9, not a process's first thread. */
int cuda_probes__thread(const struct cuda_probes *probes, pid_t tid, struct so_cuda_call *out);

/* The target's switches; writing to them takes effect at once. */
struct so_cuda_control *cuda_probes__control(struct cuda_probes *probes, uint32_t slot);

/* What the maps hold now, of the processes that `takes` accepts (NULL: all) and of one slot. -ENOMEM, a map's error. */
int cuda_probes__snapshot(struct cuda_probes *probes, uint32_t slot, bool (*takes)(void *, uint32_t tgid),
			  void *context, struct cuda_snapshot *out);
/* Hands over the thread of each entry of the map of calls. What `add` returned if not 0, or the map's error. */
int cuda_probes__each_thread(struct cuda_probes *probes, int (*add)(void *context, uint32_t tgid, uint32_t tid),
			     void *context);
/* Removes one entry, and gives what it held then. -ENOENT, -errno. */
int cuda_probes__take_calls(struct cuda_probes *probes, const struct so_cuda_key *key, struct so_cuda_calls *out);
/* A slot's counters alone, summed over the CPUs. */
int cuda_probes__slot(struct cuda_probes *probes, uint32_t slot, struct so_cuda_slot *sum);
/* For a new target: waits for probes of the slot's former one that are being taken away. -ENOMEM, -errno. */
int cuda_probes__clear_slot(struct cuda_probes *probes, uint32_t slot);
/* Removes the entries of the processes that `takes` accepts from all maps. */
void cuda_probes__forget(struct cuda_probes *probes, bool (*takes)(void *, uint32_t tgid), void *context);

void cuda_probes__consume_names(struct cuda_probes *probes);
/* Ends the open window of stacks, as sampler__drain() does: its stacks must be consumed before this returns lines. */
int cuda_probes__drain(struct cuda_probes *probes, struct sampler *sampler);

#endif
