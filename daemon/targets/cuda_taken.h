/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a target's CUDA calls were at one moment, kept for a view's beginning, for a target's end, and for an answer. */
#ifndef STAKEOUT_CUDA_TAKEN_H
#define STAKEOUT_CUDA_TAKEN_H

#include "daemon/cuda/cuda_watch.h"
#include "daemon/targets/targets.h"

struct cuda_taken {
	struct cuda_snapshot *calls;
	struct cuda_line *lines; /* as sampled; in the places that they have in the watch, vacant ones too */
	size_t n_lines;
	struct cuda_moment moment;
	uint64_t steps;                 /* that began meanwhile; 0 also: they are not told */
	uint64_t steps_ns;              /* from the first to the last of these */
	bool estimated;                 /* some of its calls were not seen */
	struct cuda_snapshot *reported; /* `calls`, with times of those that were not timed; NULL: a beginning */
	json_t *probes, *libraries, *problems, *in_progress;
	size_t n_libraries;
	pid_t *pids;
	size_t n_pids;
	struct accumulator stacks; /* those that lines and allocations name; without counts */
};

/*
 * Forgets lines that have been quiet for long, and stacks that only they have, where a target has more than half of
 * what it may have. To be called after a drain, which brings stacks and lines together.
 */
void cuda_taken__forget_lines(struct target *t, uint64_t now);
/* Of the target proper; of a view, what came since it began. With the engine's lock held. -ENOMEM, or of the maps. */
int cuda_taken__new(struct cuda_targets *c, struct target *t, struct cuda_taken **out);
/* Of a view's target when the view begins. As above. */
int cuda_taken__begin(struct cuda_targets *c, struct target *view, struct cuda_taken **out);
void cuda_taken__free(struct cuda_taken *taken);
CLEANUP_DEFINE(struct cuda_taken *, cuda_taken, cuda_taken__free)

/*
 * Its lines, as they were sampled, or by all that is known: then they add up to its calls. *out: n_lines of them,
 * malloc'ed, with `sampled`. -ENOMEM.
 */
int cuda_taken__lines(const struct cuda_taken *taken, bool as_sampled, struct cuda_line **out);

/* Makes `reported` of `calls`, and `probes`' cost that of its time. unwatched: some calls had no probes. -ENOMEM. */
int cuda_taken__report(struct cuda_taken *taken, bool unwatched);

/* The stacks that its lines and allocations name. -ENOMEM. */
int cuda_taken__copy_stacks(const struct accumulator *from, struct cuda_taken *to);

/*
 * A thread's name; that of the target's first process when it has ended. Bytes are the target's own. Thread 0 of a
 * process is those that ended long ago, together.
 */
void cuda_taken__comm(const struct target *t, uint32_t tgid, uint32_t tid, char *out, size_t size);

/*
 * Names of the kernels that were launched by processes whose mappings are still known: they are asked for later.
 * tgid: by this process alone; 0: by any.
 */
void cuda_taken__remember_names(struct cuda_targets *c, const struct cuda_snapshot *calls, uint32_t tgid);
/* The same for what the target, or a view's target, has launched up to now. With the engine's lock held. */
void cuda_taken__learn_names(struct cuda_targets *c, struct target *t);
/* Of all processes: with the lock, when nobody asks for them any more. */
void cuda_taken__forget_names(struct cuda_targets *c);
/* The readable name of a kernel that was remembered; NULL: not known. Borrowed until the next one is remembered. */
const char *cuda_taken__kernel(const struct cuda_targets *c, uint32_t tgid, uint64_t kernel);

#endif
