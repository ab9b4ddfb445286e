// SPDX-License-Identifier: GPL-2.0-or-later
/* The calls of threads that have ended, as one; and stacks, as they come. */

#include "daemon/cuda/cuda_threads.h"
#include "daemon/cuda/cuda_watch.h"
#include "daemon/os/clock.h"

bool cuda_watch__has_threads(const struct cuda_watch *w, const struct u64_table *threads)
{
	for (size_t i = 0; i < threads->capacity; i++) {
		const struct u64_entry *entry = &threads->entries[i];

		if (entry->used && cuda_watch__has_process(w, (pid_t)(entry->key >> 32)))
			return true;
	}
	return false;
}

/*
 * What the kernel's map holds of them, taken out of it. A thread's entries are written by itself alone, so none
 * changes any more. Its number may be another thread's by then: that one's calls up to the removal are in what is
 * taken, and later ones make new entries.
 */
static int take_entries(struct cuda_watch *w, const struct u64_table *threads, struct cuda_snapshot *taken)
{
	const struct cuda_calls_entry *entries;
	struct so_cuda_calls calls;
	uint32_t value;
	size_t n;
	int ret = 0;

	entries = cuda_snapshot__calls(w->last, &n);
	for (size_t i = 0; !ret && i < n; i++) {
		const struct so_cuda_key *key = &entries[i].key;

		if (u64_table__get(threads, cuda_threads__key(key->tgid, key->tid), &value) &&
		    !cuda_probes__take_calls(w->probes, key, &calls))
			ret = cuda_snapshot__add_calls(taken, key, &calls);
	}
	return ret;
}

void cuda_watch__fold_threads(struct cuda_watch *w, const struct u64_table *threads)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *taken = NULL;
	int ret = cuda_snapshot__new(&taken);

	ret = ret ?: take_entries(w, threads, taken);
	ret = ret ?: cuda_snapshot__fold_threads(taken, threads);
	ret = ret ?: cuda_snapshot__merge(w->ended_threads, taken, 0);
	ret = ret ?: cuda_snapshot__fold_threads(w->last, threads);
	ret = ret ?: cuda_snapshot__fold_threads(w->total, threads);
	ret = ret ?: cuda_snapshot__fold_threads(w->window.calls, threads);
	ret = ret ?: cuda_snapshot__fold_threads(w->fresh, threads);
	if (ret)
		w->lost = true;
}

/* Stacks come up to a second after their calls. */
static double factor_of(const struct cuda_watch *w, uint32_t segment)
{
	if (!segment || w->segment - segment >= CUDA_WATCH_SEGMENTS)
		return 1;
	return w->factors[segment % CUDA_WATCH_SEGMENTS];
}

int cuda_watch__add_line(struct cuda_watch *w, const struct so_cuda_line_key *key, const struct so_cuda_line *line)
{
	return cuda_lines__add(&w->lines, key, line, factor_of(w, key->segment), clock__now_ns());
}
