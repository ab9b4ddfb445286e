// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls that threads have entered and not left: a job that hangs is in one. */
#include <dirent.h>
#include <stdlib.h>

#include "daemon/os/clock.h"
#include "stakeout/cuda_names.h"
#include "daemon/cuda/cuda_watch.h"
#include "stakeout/cuda_document.h"

#define MAX_CALLS 4096

/* A thread's entry is a call under way only if its probe has stayed in place since: it may have returned unseen. */
static bool is_under_way(const struct cuda_watch *w, const struct so_cuda_call *call)
{
	uint32_t api = SO_CUDA_COOKIE_CALL(call->cookie), unit;

	if (!call->active || api >= SO_CUDA_API_COUNT || SO_CUDA_COOKIE_SLOT(call->cookie) != w->slot)
		return false;
	unit = cuda_names__unit(api);
	return call->begin_ns >= cuda_probes__control(w->probes, w->slot)->since_ns[unit] &&
	       !cuda_probes__control(w->probes, w->slot)->off[unit];
}

static void add_thread(const struct cuda_watch *w, pid_t pid, pid_t tid, uint64_t now, json_t *all)
{
	struct so_cuda_in_progress_row row;
	struct so_cuda_call call;

	if (cuda_probes__thread(w->probes, tid, &call) || !is_under_way(w, &call) || call.begin_ns > now)
		return;
	row = (struct so_cuda_in_progress_row){ .pid = pid,
						.tid = tid,
						.api = cuda_names__api(SO_CUDA_COOKIE_CALL(call.cookie)),
						.since_ns = now - call.begin_ns };
	json_array_append_new(all, so_cuda_row__write(SO_CUDA_ROW_IN_PROGRESS, &row, false));
}

static void add_process(const struct cuda_watch *w, pid_t pid, uint64_t now, json_t *all)
{
	char path[32];
	DIR *threads;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads)) && json_array_size(all) < MAX_CALLS) {
		if (entry->d_name[0] != '.')
			add_thread(w, pid, atoi(entry->d_name), now, all);
	}
	if (threads)
		closedir(threads);
}

json_t *cuda_watch__in_progress(const struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();
	json_t *all = json_array();

	for (size_t i = 0; i < w->n_processes; i++) {
		if (cuda_watch__has_libraries(w, w->processes[i].pid))
			add_process(w, w->processes[i].pid, now, all);
	}
	return all;
}
