// SPDX-License-Identifier: GPL-2.0-or-later
/* The part of learning a process's mappings that needs no lock: reading its memory map and its files. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/proc_file.h"
#include "daemon/processes/past_mappings.h"
#include "daemon/processes/text_copies.h"

#define MAX_WORKERS 4
#define MAP_TRIES   3

int process_scan__read(struct process_scan *scan, pid_t tgid)
{
	struct process_scan fresh = { .tgid = tgid, .generation = scan->generation, .read_ns = clock__now_ns() };
	int ret = proc_file__uid(PROC_FILE_HERE, tgid, &fresh.uid);

	/* The thread that stands for the process may have ended meanwhile. */
	for (unsigned i = 0; i < MAP_TRIES && !ret && !fresh.maps.n; i++)
		ret = proc_maps__read(tgid, false, &fresh.maps, NULL);
	if (!ret && !fresh.maps.n)
		ret = -ESRCH;
	if (ret)
		return ret;
	fresh.was_read_ns = clock__now_ns();
	text_copies__find(tgid, &fresh.maps);
	proc_maps__keep_executable(&fresh.maps);
	*scan = fresh;
	return 0;
}

struct work {
	struct process_scan *scan;
	struct file_registry *registry;
	size_t next; /* taken by atomic increment */
};

static void *work(void *context)
{
	struct work *w = context;
	struct process_scan *scan = w->scan;

	for (;;) {
		size_t i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);

		if (i >= scan->n_missing)
			return NULL;
		if (file_registry__prepare(w->registry, scan->tgid, scan->missing[i], &scan->prepared[i]))
			scan->prepared[i] = NULL;
	}
}

void process_scan__prepare(struct process_scan *scan, struct file_registry *registry)
{
	struct work w = { .scan = scan, .registry = registry };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[MAX_WORKERS];
	unsigned n = 0;

	if (!scan->n_missing)
		return;
	scan->prepared = calloc(scan->n_missing, sizeof(struct prepared_file *));
	if (!scan->prepared)
		return;
	while (n + 1 < MAX_WORKERS && n + 1 < (unsigned long)cpus && n + 1 < scan->n_missing) {
		if (pthread_create(&threads[n], NULL, work, &w))
			break;
		n++;
	}
	work(&w);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

void process_scan__release(struct process_scan *scan)
{
	for (size_t i = 0; scan->prepared && i < scan->n_missing; i++)
		prepared_file__free(scan->prepared[i]);
	free(scan->prepared);
	free(scan->missing);
	mapping_changes__free(scan->changes, scan->n_changes);
	proc_maps__release(&scan->maps);
	*scan = (struct process_scan){ 0 };
}
