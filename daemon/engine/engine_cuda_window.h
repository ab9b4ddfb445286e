/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CUDA calls of one window of a target's history (.design/history.md). */
#ifndef STAKEOUT_ENGINE_CUDA_WINDOW_H
#define STAKEOUT_ENGINE_CUDA_WINDOW_H

#include "daemon/engine/cuda_taken.h"

/* What the windows up to a moment have had. */
struct cuda_mark;
void cuda_mark__free(struct cuda_mark *mark);
CLEANUP_DEFINE(struct cuda_mark *, cuda_mark, cuda_mark__free)

/* As cuda_snapshot__fold_threads(), of what the mark has. */
int cuda_mark__fold_threads(struct cuda_mark *mark, const struct u64_table *threads);

/*
 * With the engine's lock held, after a drain: what came since the mark `from` (NULL: since the target's calls are timed), and
 * the mark for the next window. *since and *to are NULL where the target was not attached with `cuda`, and where what it had
 * at its end could not be kept. The windows add up to what engine__cuda() tells at the end; while a duty cycle runs, they
 * have what it has settled. -ENOMEM, or of the maps.
 */
int engine_cuda_window(struct engine *e, struct target *t, const struct cuda_mark *from,
		       struct cuda_taken **since, struct cuda_mark **to);

/*
 * The document of what was taken, in the stored form of daemon/history/cuda_merge.h (engine_cuda_answer.c). The target is held, the
 * lock is not. New reference. -ENOMEM.
 */
int engine_cuda_document(struct engine *e, struct target *t, struct cuda_taken *taken, json_t **out);

#endif
