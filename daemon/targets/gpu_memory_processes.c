// SPDX-License-Identifier: GPL-2.0-or-later
/* The processes of targets whose memory on GPUs is watched: their libc10, and the probes in it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/torch_library.h"
#include "daemon/os/uprobe_links.h"
#include "daemon/targets/gpu_memory_internal.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

/* Of one target. */
#define MOST_PROCESSES 256

struct gpu_memory_found {
	int fd; /* of the library; -1: it cannot be opened, now */
	struct torch_library library;
	char problem[256]; /* "": none */
};

static struct target *watching_target(const struct gpu_memory *g, const struct process *p)
{
	struct target *t = p && !p->gone ? targets__of_slot(g->targets, p->kernel.slot) : NULL;

	return t && t->gpu_memory.on ? t : NULL;
}

struct gpu_memory_process *gpu_memory_find_process(const struct target_gpu_memory *memory, pid_t pid)
{
	for (size_t i = 0; i < memory->n_processes; i++)
		if (memory->processes[i].pid == pid)
			return &memory->processes[i];
	return NULL;
}

/* Once it has probes its mappings may change as they like. */
bool gpu_memory__wants(const struct gpu_memory *g, pid_t tgid)
{
	const struct process *p = process_table__find(g->processes, tgid);
	const struct target *t = watching_target(g, p);
	const struct gpu_memory_process *known = t ? gpu_memory_find_process(&t->gpu_memory, tgid) : NULL;

	return t && !(known && (known->link || known->refused) && known->execs == p->execs);
}

static void look_into(const struct process_scan *scan, const struct proc_map *map, struct gpu_memory_found *found)
{
	struct so_error err = { .text = "" };
	char path[128];

	snprintf(path, sizeof(path), "%.120s", short_path(map->path));
	found->fd = proc_maps__open_file(scan->tgid, map);
	if (found->fd < 0) {
		snprintf(found->problem, sizeof(found->problem), "%s cannot be opened: %s", path, strerror(-found->fd));
		return;
	}
	if (torch_library__read(found->fd, &found->library, &err))
		snprintf(found->problem, sizeof(found->problem), "%s: %.120s", path, err.text);
	else if (found->library.kind == TORCH_LIBRARY_OLD)
		snprintf(found->problem, sizeof(found->problem),
			 "%s is of a PyTorch before 1.9, which does not report how much is allocated", path);
	else if (found->library.kind != TORCH_LIBRARY_KNOWN)
		snprintf(found->problem, sizeof(found->problem),
			 "%s does not report memory in a form that is known: PyTorch 1.9 to 2.10 do", path);
}

struct gpu_memory_found *gpu_memory__find(const struct process_scan *scan)
{
	struct gpu_memory_found *found;

	for (size_t i = 0; i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];

		if (!map->inode || !map->executable || !torch_library__may_be(map->path))
			continue;
		found = calloc(1, sizeof(*found));
		if (!found)
			return NULL;
		found->fd = -1;
		look_into(scan, map, found);
		return found;
	}
	return NULL;
}

static void place(struct gpu_memory *g, struct target *t, struct gpu_memory_process *at,
		  const struct gpu_memory_found *found)
{
	const struct torch_places places = { found->library.memory, found->library.refused };
	struct target_gpu_memory *memory = &t->gpu_memory;
	int ret;

	memcpy(memory->problem, found->problem, sizeof(memory->problem));
	at->refused = found->problem[0] && found->fd >= 0;
	if (found->problem[0] || at->link)
		return;
	ret = torch_probes__attach(g->probes, at->pid, found->fd, &places, &at->link);
	memory->linked |= !ret;
	if (ret)
		snprintf(memory->problem, sizeof(memory->problem), "the kernel refused the probes in process %d: %s",
			 at->pid, uprobe_links__error(ret));
}

/* NULL: there is no room. */
static struct gpu_memory_process *note_process(struct target_gpu_memory *memory, const struct process *p)
{
	struct gpu_memory_process *at = gpu_memory_find_process(memory, p->tgid);

	if (!at) {
		if (memory->n_processes == MOST_PROCESSES ||
		    ARRAY_RESERVE(memory->processes, memory->capacity, memory->n_processes + 1))
			return NULL;
		at = &memory->processes[memory->n_processes++];
		*at = (struct gpu_memory_process){ .pid = p->tgid };
	} else if (at->execs != p->execs) {
		torch_link__free(TAKE_PTR(at->link));
		at->refused = false;
	}
	at->execs = p->execs;
	return at;
}

void gpu_memory__add(struct gpu_memory *g, pid_t tgid, struct gpu_memory_found *found)
{
	const struct process *p = tgid ? process_table__find(g->processes, tgid) : NULL;
	struct target *t = watching_target(g, p);
	struct gpu_memory_process *at = t && found ? note_process(&t->gpu_memory, p) : NULL;

	if (at)
		place(g, t, at, found);
	if (found && found->fd >= 0)
		close(found->fd);
	free(found);
}

/*
 * One that was forked since, or has executed another program, is scanned. Libraries mapped since ask for it themselves.
 */
static void look_at_process(void *context, struct process *p)
{
	struct gpu_memory *g = context;
	struct target *t = watching_target(g, p);
	struct gpu_memory_process *known = t ? gpu_memory_find_process(&t->gpu_memory, p->tgid) : NULL;

	if (!t || (known && known->execs == p->execs))
		return;
	if (note_process(&t->gpu_memory, p))
		scan_queue__request(g->scans, p->tgid);
}

/* Of those that have ended the probes go. */
static void drop_ended(struct gpu_memory *g, struct target *t)
{
	struct target_gpu_memory *memory = &t->gpu_memory;

	for (size_t i = memory->n_processes; i-- > 0;) {
		if (watching_target(g, process_table__find(g->processes, memory->processes[i].pid)) == t)
			continue;
		torch_link__free(memory->processes[i].link);
		memory->processes[i] = memory->processes[--memory->n_processes];
	}
}

void gpu_memory_look_at_processes(struct gpu_memory *g, struct target *t)
{
	process_table__each(g->processes, t->slot, look_at_process, g);
	drop_ended(g, t);
}
