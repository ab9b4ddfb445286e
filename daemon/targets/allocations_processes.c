// SPDX-License-Identifier: GPL-2.0-or-later
/* The processes of targets whose allocations are watched: their files with allocators, and the probes in these. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/cuda/alloc_library.h"
#include "daemon/os/clock.h"
#include "daemon/os/proc_file.h"
#include "daemon/os/uprobe_links.h"
#include "daemon/processes/cpu_wait.h"
#include "daemon/targets/allocations_internal.h"
#include "stakeout/array.h"

/* Of one target. */
#define MOST_PROCESSES 64
#define MOST_FILES     4096
#define MOST_LIBRARIES 256 /* files with an allocator, which are kept open */

/* Of symbols, in one scan. libtorch_cpu has 25 MB. */
#define MOST_SYMBOL_BYTES (512u << 20)

/* Read of a process's environment. */
#define ENVIRONMENT_BYTES 65536

struct allocations_found {
	struct allocations_file *files; /* those that the target knows, without fd and library; then those found */
	size_t n_known, n, capacity;
	uint32_t *mapped; /* which of these the process has mapped */
	size_t n_mapped, mapped_capacity;
	size_t n_libraries;  /* of all these, files with an allocator */
	uint64_t bytes_left; /* that may be read of symbols */
	uint64_t on_ns;      /* of the target's watch */
	bool left_out;       /* some files were not read, or are not kept open */
	bool own_python;
};

static struct target *watching_target(const struct allocations *a, const struct process *p)
{
	struct target *t = p && !p->gone ? targets__of_slot(a->targets, p->kernel.slot) : NULL;

	return t && t->allocations.on ? t : NULL;
}

static struct allocations_process *find_process(const struct target_allocations *allocations, pid_t pid)
{
	for (size_t i = 0; i < allocations->n_processes; i++)
		if (allocations->processes[i].pid == pid)
			return &allocations->processes[i];
	return NULL;
}

/* The budget's counters. */

static uint64_t cpu_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock__read_ns(clock);
}

/* What a process did before it was looked at is none of the target's time. Returns for how long it waited since. */
static uint64_t count_process(struct target_allocations *allocations, struct allocations_process *at,
			      struct cpu_wait *wait)
{
	uint64_t cpu = cpu_ns(at->pid), waited = wait->ns, more_waited = 0;

	cpu_wait__add(wait, at->pid);
	waited = wait->ns - waited;
	if (at->counted) {
		allocations->cpu_ns += cpu > at->cpu_ns ? cpu - at->cpu_ns : 0;
		more_waited = waited > at->waited_ns ? waited - at->waited_ns : 0;
	}
	at->counted = true;
	at->cpu_ns = cpu;
	at->waited_ns = waited;
	return more_waited;
}

void allocations_count_processes(struct target_allocations *allocations)
{
	struct cpu_wait wait = { .ns = 0 };
	uint64_t waited = 0;

	for (size_t i = 0; i < allocations->n_processes; i++)
		waited += count_process(allocations, &allocations->processes[i], &wait);
	allocations->waited_ns += cpu_wait__scale(&wait, waited);
}

/* Probes. */

static void say_refused(struct target_allocations *allocations, pid_t pid, int ret)
{
	snprintf(allocations->problem, sizeof(allocations->problem), "the kernel refused the probes in process %d: %s",
		 pid, uprobe_links__error(ret));
}

/* The first probes are asked for, or are there: how much they cost is to be known soon. */
static void look_soon(struct target_allocations *allocations)
{
	allocations->early_since_ns = clock__now_ns();
	if (allocations->state == ALLOCATIONS_ALL_THE_TIME)
		allocations->window_end_ns = allocations->early_since_ns;
}

/* What has become of a link that was asked for; whether it is in progress. */
static bool look_at_link(struct target_allocations *allocations, struct allocations_process *at, unsigned which)
{
	struct alloc_link **link = &at->libraries[which].link;
	int ret = alloc_link__state(*link);

	if (ret == -EINPROGRESS) {
		if (alloc_link__waited_ns(*link) > ALLOCATIONS_LATE_NS)
			allocations->late = true;
		return true;
	}
	if (!ret && !allocations->linked)
		look_soon(allocations);
	allocations->linked |= !ret;
	/* One that has ended needs none. */
	if (ret && ret != -ESRCH)
		say_refused(allocations, at->pid, ret);
	if (ret) {
		alloc_link__free(TAKE_PTR(*link));
		at->libraries[which].refused = ret != -ENOMEM;
	}
	return false;
}

unsigned allocations_in_progress(struct target_allocations *allocations)
{
	unsigned n = 0;

	allocations->late = false;
	for (size_t i = 0; i < allocations->n_processes; i++) {
		struct allocations_process *at = &allocations->processes[i];

		for (unsigned k = 0; k < at->n_libraries; k++)
			if (at->libraries[k].link)
				n += look_at_link(allocations, at, k);
	}
	return n;
}

static void place(struct allocations *a, struct target_allocations *allocations, struct allocations_process *at,
		  unsigned which)
{
	const struct allocations_file *file = &allocations->files[at->libraries[which].file];
	uint64_t offsets[ALLOC_LIBRARY_MAX], cookies[ALLOC_LIBRARY_MAX];
	struct alloc_places places = { offsets, cookies, 0 };
	int ret;

	for (uint32_t i = 0; i < file->library->n; i++) {
		uint32_t kind = SO_ALLOC_COOKIE_KIND(file->library->cookies[i]);

		if (!at->own_python && (kind == SO_ALLOC_PY_OBJECT || kind == SO_ALLOC_PY_MEMORY))
			continue;
		offsets[places.n] = file->library->offsets[i];
		cookies[places.n++] = file->library->cookies[i];
	}
	if (!places.n)
		return;
	ret = alloc_links__ask(alloc_probes__links(a->probes), at->pid, file->fd, &places, &at->libraries[which].link);
	if (!ret && !allocations->linked)
		look_soon(allocations);
	if (ret)
		say_refused(allocations, at->pid, ret);
}

/* Not while those of the program before are going. */
static void place_in(struct allocations *a, struct target_allocations *allocations, struct allocations_process *at)
{
	bool going = alloc_links__going(alloc_probes__links(a->probes), at->pid);

	for (unsigned i = 0; !going && i < at->n_libraries; i++)
		if (!at->libraries[i].link && !at->libraries[i].refused)
			place(a, allocations, at, i);
}

static void remove_from(struct allocations_process *at)
{
	for (unsigned i = 0; i < at->n_libraries; i++) {
		alloc_link__free(TAKE_PTR(at->libraries[i].link));
		at->libraries[i].refused = false;
	}
}

void allocations_place_all(struct allocations *a, struct target *t)
{
	for (size_t i = 0; i < t->allocations.n_processes; i++)
		place_in(a, &t->allocations, &t->allocations.processes[i]);
}

void allocations_remove_all(struct target_allocations *allocations)
{
	for (size_t i = 0; i < allocations->n_processes; i++)
		remove_from(&allocations->processes[i]);
}

bool allocations_going(struct allocations *a, const struct target_allocations *allocations)
{
	for (size_t i = 0; i < allocations->n_processes; i++)
		if (alloc_links__going(alloc_probes__links(a->probes), allocations->processes[i].pid))
			return true;
	return false;
}

/* Scans. */

struct allocations_found *allocations__wants(const struct allocations *a, pid_t tgid)
{
	const struct target *t = watching_target(a, process_table__find(a->processes, tgid));
	struct allocations_found *found = t ? calloc(1, sizeof(*found)) : NULL;

	if (!found)
		return NULL;
	if (ARRAY_RESERVE(found->files, found->capacity, t->allocations.n_files + 1)) {
		free(found);
		return NULL;
	}
	for (size_t i = 0; i < t->allocations.n_files; i++) {
		found->files[i] = t->allocations.files[i];
		found->files[i].fd = -1;
		found->files[i].library = NULL;
		found->n_libraries += t->allocations.files[i].library != NULL;
	}
	found->bytes_left = MOST_SYMBOL_BYTES;
	found->on_ns = t->allocations.on_ns;
	found->n = found->n_known = t->allocations.n_files;
	return found;
}

static void free_found(struct allocations_found *found)
{
	for (size_t i = found->n_known; i < found->n; i++) {
		if (found->files[i].fd >= 0)
			close(found->files[i].fd);
		free(found->files[i].library);
	}
	free(found->files);
	free(found->mapped);
	free(found);
}

/* Without an allocator the file is not kept open. */
static void look_into(struct allocations_found *found, struct allocations_file *file, const struct process_scan *scan,
		      const struct proc_map *map, bool program)
{
	struct alloc_library *library = malloc(sizeof(*library));
	struct so_error err;
	int ret;

	file->fd = library ? proc_maps__open_file(scan->tgid, map) : -1;
	ret = file->fd < 0 ? file->fd
			   : alloc_library__read(file->fd, map->path, program, &found->bytes_left, library, &err);
	if (!ret && library->n && found->n_libraries < MOST_LIBRARIES) {
		found->n_libraries++;
		file->library = library;
		return;
	}
	found->left_out |= ret == -EFBIG || (!ret && library->n);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	free(library);
}

/* SIZE_MAX: there is no room. */
static size_t find_file(struct allocations_found *found, const struct process_scan *scan, const struct proc_map *map,
			bool program)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->files[i].inode == map->inode && found->files[i].dev_major == map->dev_major &&
		    found->files[i].dev_minor == map->dev_minor)
			return i;
	if (found->n >= MOST_FILES || ARRAY_RESERVE(found->files, found->capacity, found->n + 1))
		return SIZE_MAX;
	found->files[found->n] = (struct allocations_file){ map->inode, map->dev_major, map->dev_minor, -1, NULL };
	look_into(found, &found->files[found->n], scan, map, program);
	return found->n++;
}

/* PYTHONMALLOC=malloc and its like: all that CPython asks its own allocators for is malloc's. */
static bool has_own_python(pid_t pid)
{
	_cleanup_free_ char *text = calloc(1, ENVIRONMENT_BYTES + 1);
	ssize_t n = text ? proc_file__read(PROC_FILE_HERE, pid, "environ", text, ENVIRONMENT_BYTES + 1) : 0;

	for (const char *at = text; n > 0 && at < text + n; at += strlen(at) + 1)
		if (!strncmp(at, "PYTHONMALLOC=malloc", 19))
			return false;
	return true;
}

void allocations__find(struct allocations_found *found, const struct process_scan *scan)
{
	bool program = true;

	found->own_python = has_own_python(scan->tgid);
	for (size_t i = 0; i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];
		size_t at;

		if (!map->inode || !map->executable)
			continue;
		at = find_file(found, scan, map, program);
		program = false;
		if (at == SIZE_MAX || ARRAY_RESERVE(found->mapped, found->mapped_capacity, found->n_mapped + 1))
			continue;
		found->mapped[found->n_mapped++] = (uint32_t)at;
	}
}

/* The target's number of a file that was found; it may have learned of it meanwhile. -1: there is no room. */
static int64_t take_file(struct target_allocations *allocations, struct allocations_file *file)
{
	for (size_t i = 0; i < allocations->n_files; i++)
		if (allocations->files[i].inode == file->inode && allocations->files[i].dev_major == file->dev_major &&
		    allocations->files[i].dev_minor == file->dev_minor)
			return (int64_t)i;
	if (ARRAY_RESERVE(allocations->files, allocations->files_capacity, allocations->n_files + 1))
		return -1;
	allocations->files[allocations->n_files] = *file;
	file->library = NULL;
	file->fd = -1;
	return (int64_t)allocations->n_files++;
}

static void add_library(struct target_allocations *allocations, struct allocations_process *at, uint32_t file)
{
	if (!allocations->files[file].library)
		return;
	for (unsigned i = 0; i < at->n_libraries; i++)
		if (at->libraries[i].file == file)
			return;
	if (at->n_libraries == ALLOCATIONS_MAX_LIBRARIES)
		return;
	at->libraries[at->n_libraries].file = file;
	at->libraries[at->n_libraries].refused = false;
	at->libraries[at->n_libraries++].link = NULL;
}

/* NULL: there is no room. */
static struct allocations_process *note_process(struct target_allocations *allocations, const struct process *p)
{
	struct allocations_process *at = find_process(allocations, p->tgid);

	if (!at) {
		if (allocations->n_processes == MOST_PROCESSES ||
		    ARRAY_RESERVE(allocations->processes, allocations->capacity, allocations->n_processes + 1))
			return NULL;
		at = &allocations->processes[allocations->n_processes++];
		*at = (struct allocations_process){ .pid = p->tgid };
	} else if (at->execs != p->execs) {
		remove_from(at);
		*at = (struct allocations_process){ .pid = p->tgid };
	}
	at->execs = p->execs;
	return at;
}

void allocations__add(struct allocations *a, pid_t tgid, struct allocations_found *found)
{
	const struct process *p = tgid ? process_table__find(a->processes, tgid) : NULL;
	struct target *t = watching_target(a, p);
	/* What it knew when it was switched off and on meanwhile is gone. */
	bool same = t && found && t->allocations.on_ns == found->on_ns;
	struct allocations_process *at = same ? note_process(&t->allocations, p) : NULL;

	for (size_t i = 0; at && i < found->n_mapped; i++) {
		int64_t file = take_file(&t->allocations, &found->files[found->mapped[i]]);

		if (file >= 0)
			add_library(&t->allocations, at, (uint32_t)file);
	}
	if (at) {
		at->looked = true;
		at->own_python = found->own_python;
		if (found->left_out)
			snprintf(t->allocations.problem, sizeof(t->allocations.problem),
				 "process %d has more libraries, or symbols in them, than are read", tgid);
		/* What they cost is counted from then on, and what it did before is known. */
		if (t->info.state == TARGET_SAMPLING && t->allocations.state != ALLOCATIONS_OFF) {
			allocations_count_processes(&t->allocations);
			place_in(a, &t->allocations, at);
		}
	}
	if (found)
		free_found(found);
}

/*
 * One that was forked since, or has executed another program, is scanned. Libraries mapped since ask for it themselves.
 */
static void look_at_process(void *context, struct process *p)
{
	struct allocations *a = context;
	struct target *t = watching_target(a, p);
	struct allocations_process *known = t ? find_process(&t->allocations, p->tgid) : NULL;

	if (!t || (known && known->looked && known->execs == p->execs))
		return;
	if (note_process(&t->allocations, p))
		scan_queue__request(a->scans, p->tgid);
}

/* Of those that have ended the probes go. */
static void drop_ended(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;

	for (size_t i = allocations->n_processes; i-- > 0;) {
		if (watching_target(a, process_table__find(a->processes, allocations->processes[i].pid)) == t)
			continue;
		remove_from(&allocations->processes[i]);
		allocations->processes[i] = allocations->processes[--allocations->n_processes];
	}
}

void allocations_look_at_processes(struct allocations *a, struct target *t)
{
	/* With what those that have ended did. */
	allocations_count_processes(&t->allocations);
	process_table__each(a->processes, t->slot, look_at_process, a);
	drop_ended(a, t);
	allocations_in_progress(&t->allocations);
	/* Of one that has executed another program the old ones had to go first. */
	if (t->allocations.state != ALLOCATIONS_OFF)
		allocations_place_all(a, t);
}
