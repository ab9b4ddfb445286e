/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CUDA calls of one window of a target's history (.design/history.md). */
#ifndef STAKEOUT_CUDA_WINDOW_H
#define STAKEOUT_CUDA_WINDOW_H

#include "daemon/targets/cuda_taken.h"

struct engine;

/* What the windows up to a moment have had. */
struct cuda_mark;
void cuda_mark__free(struct cuda_mark *mark);
CLEANUP_DEFINE(struct cuda_mark *, cuda_mark, cuda_mark__free)

/* As cuda_snapshot__fold_threads(), of what the mark has. */
int cuda_mark__fold_threads(struct cuda_mark *mark, const struct u64_table *threads);

/*
 * With the engine's lock held, after a drain: what came since the window before, or since the target's calls are
 * timed. NULL where the target was not attached with `cuda`, and where what it had at its end could not be kept. The
 * windows add up to what engine__cuda() tells at the end; of what is counted in on-windows alone they have what is
 * settled. cuda_targets__end_window() is to follow if *since is not NULL. -ENOMEM, or of the maps.
 */
int cuda_targets__window(struct cuda_targets *c, struct target *t, struct cuda_taken **since);
/* The next window begins where this one ends; not taken: where this one began. With the lock held. */
void cuda_targets__end_window(struct target *t, bool taken);
void cuda_targets__end_windows(struct target *t);

/* What was taken, in the stored form (daemon/history/cuda_merge.h). Target held, lock not. New reference. -ENOMEM. */
int engine_cuda_document(struct engine *e, struct target *t, struct cuda_taken *taken, json_t **out);

/*
 * With the lock: what a target's calls are now (if not fresh, at most 20 ms ago), or were when it ended, and the
 * target itself, held. *own: *out is to be freed by the caller; otherwise it is the target's. -ENOENT; -ENODATA: it
 * was attached without `cuda`; as above; all in words.
 */
int engine_cuda_taken(struct engine *e, uint32_t id, bool fresh, struct cuda_taken **out, bool *own,
		      struct target **held, struct so_error *err);

#endif
