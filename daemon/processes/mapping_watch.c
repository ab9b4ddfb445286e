// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/mapping_watch.h"

#include <string.h>

#include "daemon/kernel/mapping_generation.h"
#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/processes/past_mappings.h"

int mapping_watch__begin(struct mapping_watch *w)
{
	w->compared = mapping_generation__mechanism();
	return mapping_events__new(&w->events);
}

void mapping_watch__mechanism(const struct mapping_watch *w, char *out, size_t size)
{
	snprintf(out, size, "%s; %s%s", w->compared,
		 w->error ? "the kernel does not report new ones: " : "the kernel reports new ones (PERF_RECORD_MMAP2)",
		 w->error ? strerror(-w->error) : "");
}

void mapping_watch__end(struct mapping_watch *w)
{
	mapping_events__free(TAKE_PTR(w->events));
}

void mapping_watch__set_cpus(struct mapping_watch *w, const cpu_set_t *cpus)
{
	int error = mapping_events__set(w->events, cpus);

	if (error && error != w->error)
		log__error("the kernel does not report what processes map: %s", strerror(-error));
	w->error = error;
}

static void on_event(void *context, const struct mapping_event *event)
{
	struct mapping_watch *w = context;
	struct process *p = process_table__find(w->processes, event->tgid);
	bool known;

	/* Of one that has ended meanwhile samples may wait. */
	if (!p || event->time_ns < p->memory_since_ns)
		return;
	mapping_changes__note(p, event);
	scan_queue__request(w->scans, p->tgid);
	/* It may be gone soon, with its name. */
	if (!file_registry__find(w->files, &event->map, &known) && !known)
		scan_queue__hurry(w->scans, p->tgid);
}

static void request(void *context, struct process *p)
{
	struct mapping_watch *w = context;

	scan_queue__request(w->scans, p->tgid);
}

/* A child's mappings are reported after its beginning, so what is read later is known of by then. */
void mapping_watch__take(struct mapping_watch *w)
{
	w->taken_ns = clock__now_ns();
	mapping_events__mark(w->events);
	sampler__consume_events(w->sampler);
	if (mapping_events__take(w->events, on_event, w))
		process_table__each(w->processes, SO_MAX_SLOTS, request, w);
}
