// SPDX-License-Identifier: GPL-2.0-or-later
/* The processes and libraries of a watch: which there are, and their probes. */
#include <stdio.h>
#include <time.h>

#include "daemon/cuda/cuda_watch.h"

bool cuda_watch__has_process(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_processes; i++) {
		if (w->processes[i].pid == pid)
			return true;
	}
	return false;
}

uint64_t cuda_watch_cpu_of(const struct cuda_process *p)
{
	struct timespec t;

	return p->has_clock && !clock_gettime(p->clock, &t) ? (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec
							    : 0;
}

bool cuda_watch__has_libraries(const struct cuda_watch *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		if (w->mapped[i].pid == pid && !w->mapped[i].gone)
			return true;
	}
	return false;
}

bool cuda_watch__has_library(const struct cuda_watch *w, pid_t pid, uint64_t dev, uint64_t inode)
{
	for (size_t i = 0; i < w->n_mapped; i++) {
		const struct cuda_mapped *m = &w->mapped[i];

		if (!m->gone && m->pid == pid && m->dev == dev && m->inode == inode)
			return true;
	}
	return false;
}

static void attach(struct cuda_watch *w, struct cuda_mapped *m, const struct cuda_choice *choice,
		   struct cuda_link **link)
{
	struct so_error why = { "" };

	if (*link || m->gone || m->waits || !m->library.n_functions)
		return;
	if (cuda_probes__attach(w->probes, m->pid, w->slot, m->number, m->fd, &m->library, choice, link, &why))
		snprintf(m->problem, sizeof(m->problem), "%.150s: %.90s", m->path, why.text);
}

void cuda_watch_attach_always(struct cuda_watch *w, struct cuda_mapped *m)
{
	const struct cuda_choice choice = { w->windowed | w->unwatched, true, w->generation };

	attach(w, m, &choice, &m->always);
}

void cuda_watch_attach_windowed(struct cuda_watch *w, struct cuda_mapped *m)
{
	const struct cuda_choice choice = { w->windowed, false, w->generation };

	if (w->windowed)
		attach(w, m, &choice, &m->windowed);
}
