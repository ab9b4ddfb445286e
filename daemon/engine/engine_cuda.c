// SPDX-License-Identifier: GPL-2.0-or-later
/* CUDA calls of the targets that asked for it: probes on their libraries, as these are found. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_cuda_window.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_maps.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define LIBRARIES_NS 250000000ull  /* between looks at whether mappings have changed */
#define THREADS_NS   3000000000ull /* between looks at whose threads have ended */

/* Loading. */

static struct target *watching_target(struct engine *e, uint32_t slot)
{
	struct target *t = slot < SO_MAX_SLOTS ? e->targets[slot] : NULL;

	return t && t->cuda ? t : NULL;
}

/* Probes that are being taken away still tell names of processes whose names have been forgotten. */
static void on_name(void *context, const struct so_cuda_name *name)
{
	struct engine *e = context;
	const struct process *p = process_table__find(e->processes, (pid_t)name->tgid);

	if (p && !p->gone && watching_target(e, p->kernel.slot))
		kernel_names__add(e->kernel_names, name);
}

static void on_line(void *context, const struct so_cuda_line_key *key, const struct so_cuda_line *line)
{
	struct engine *e = context;
	struct target *t = watching_target(e, line->slot);

	if (!t)
		return;
	if (engine_keep_stack(e, t, key->stack))
		cuda_watch__add_line(t->cuda, key, line);
	else
		t->cuda->lines.lost += line->calls;
}

int engine_cuda_load(struct engine *e, struct so_error *err)
{
	const struct cuda_handlers handlers = { e, on_name, on_line };
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	struct cuda_probes *probes = NULL;
	int ret = 0;

	pthread_mutex_lock(&loading);
	if (!e->cuda) {
		/* The driver may take seconds to start the GPUs: not under the lock. */
		nvml_watch__open(e->nvml, clock__now_ns());
		ret = cuda_probes__new(e->sampler, &handlers, &probes, err);
		ret = ret ?: cuda_threads__new(SO_CUDA_CALLS_ENTRIES, cuda_threads__lives, &e->cuda_threads);
		ret = ret ?: kernel_names__new(&e->kernel_names);
		pthread_mutex_lock(&e->lock);
		e->cuda = ret ? NULL : probes;
		pthread_mutex_unlock(&e->lock);
		if (ret) {
			cuda_threads__free(TAKE_PTR(e->cuda_threads));
			cuda_probes__free(probes);
		}
	}
	pthread_mutex_unlock(&loading);
	return ret;
}

void engine_cuda_close(struct engine *e)
{
	cuda_probes__free(e->cuda);
	cuda_threads__free(e->cuda_threads);
	kernel_names__free(e->kernel_names);
	u64_table__release(&e->cuda_files);
	cuda_taken__forget_names(e);
	free(e->kernel_texts);
	nvml_watch__free(e->nvml);
}

/* Targets. */

static void request_scan(void *context, struct process *p)
{
	struct engine *e = context;

	if (!p->gone)
		engine_request_scan(e, p->tgid, 0);
}

int engine_cuda_begin(struct engine *e, struct target *t, double budget_percent, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = 0;

	t->cuda_wanted = true;
	if (!proper->cuda) {
		/* Of the slot's target before, whose stacks are gone: its lines, and its word that a stack was sent. */
		engine_drain(e);
		ret = cuda_watch__new(e->cuda, proper->slot,
				      budget_percent > 0 ? budget_percent : ENGINE_CUDA_BUDGET_PERCENT,
				      &proper->cuda);
		/* The libraries of a target that is sampled already. */
		if (!ret && proper->info.state == TARGET_SAMPLING)
			process_table__each(e->processes, proper->slot, request_scan, e);
	}
	if (!ret && t->of)
		ret = cuda_taken__begin(e, t, &t->cuda_base);
	if (ret)
		return so_err(err, ret, "cannot watch CUDA calls: %s", strerror(-ret));
	proper->cuda_users++;
	return 0;
}

static void forget_names(void *context, struct process *p)
{
	struct engine *e = context;

	kernel_names__forget(e->kernel_names, (uint32_t)p->tgid);
}

/* Nobody tells the processes' names from here on, nor when a handle or a process's number becomes another's. */
static void put_user(struct engine *e, struct target *proper)
{
	if (--proper->cuda_users)
		return;
	cuda_probes__consume_names(e->cuda);
	process_table__each(e->processes, proper->slot, forget_names, e);
	cuda_watch__free(TAKE_PTR(proper->cuda));
}

/* No call counts from here on, so that the drain that follows has the lines of all that were counted. */
void engine_cuda_stop(struct target *t)
{
	if (t->cuda)
		cuda_watch__stop(t->cuda);
}

void engine_cuda_end(struct engine *e, struct target *t)
{
	struct target *proper = t->of ?: t;

	if (!t->cuda_wanted || !proper->cuda)
		return;
	if (cuda_taken__new(e, t, &t->cuda_end))
		t->cuda_end = NULL;
	t->cuda_wanted = false;
	put_user(e, proper);
}

void engine_cuda_free(struct target *t)
{
	cuda_watch__free(t->cuda);
	cuda_taken__free(t->cuda_base);
	cuda_taken__free(t->cuda_end);
}

void engine_cuda_forked(struct engine *e, pid_t parent, pid_t child)
{
	if (!e->cuda)
		return;
	cuda_probes__consume_names(e->cuda);
	kernel_names__fork(e->kernel_names, (uint32_t)parent, (uint32_t)child);
}

void engine_cuda_process_gone(struct engine *e, struct target *t, pid_t tgid)
{
	bool calls;

	if (!t->cuda)
		return;
	calls = cuda_watch__has_libraries(t->cuda, tgid);
	cuda_probes__consume_names(e->cuda);
	cuda_watch__process_gone(t->cuda, tgid);
	if (calls)
		cuda_taken__remember_names(e, t->cuda->total, (uint32_t)tgid);
	kernel_names__forget(e->kernel_names, (uint32_t)tgid);
}

/* What mm->exec_vm counts, by the sum of two lines of /proc/PID/status (proc(5)); 0: not known. */
static uint64_t exec_pages(pid_t tgid)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long kb, sum = 0;
	char path[32], line[256];

	snprintf(path, sizeof(path), "/proc/%d/status", tgid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmExe: %llu", &kb) == 1 || sscanf(line, "VmLib: %llu", &kb) == 1)
			sum += kb;
	}
	return sum * 1024 / (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A sample tells when mappings have changed; a process that waits for the GPU has few, or none. */
static void look_for_libraries(void *context, struct process *p)
{
	struct engine *e = context;
	uint64_t pages;

	if (p->gone || !watching_target(e, p->kernel.slot))
		return;
	pages = exec_pages(p->tgid);
	if (pages && pages != p->kernel.exec_pages)
		engine_request_scan(e, p->tgid, pages);
}

static int add_thread(void *context, uint32_t tgid, uint32_t tid)
{
	return cuda_threads__add(context, tgid, tid);
}

static void look_at_threads(struct engine *e, uint64_t now)
{
	int ret = cuda_threads__begin(e->cuda_threads);

	ret = ret ?: cuda_probes__each_thread(e->cuda, add_thread, e->cuda_threads);
	if (ret)
		return;
	cuda_threads__end(e->cuda_threads, now);
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i] && e->targets[i]->cuda)
			e->targets[i]->cuda->fold_wanted = true;
	}
}

/* What the target's figures are compared with: where its views and its windows began. */
static int fold_bases(struct engine *e, const struct target *t, const struct u64_table *threads)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < SO_MAX_SLOTS; i++) {
		const struct target *view = e->targets[i];

		if (!view || view->of != t || !view->cuda_base)
			continue;
		ret = cuda_snapshot__fold_threads(view->cuda_base->calls, threads);
	}
	for (unsigned i = 0; !ret && i < 2; i++) {
		struct cuda_mark *mark = engine_window_cuda(t, i);

		if (mark)
			ret = cuda_mark__fold_threads(mark, threads);
	}
	return ret;
}

/* Only sums are kept of threads whose entries the kernel's map needs. */
static void fold_threads(struct engine *e, struct target *t, uint64_t now)
{
	struct u64_table threads = { 0 };
	int ret;

	if (!t->cuda->fold_wanted || cuda_watch__is_estimate(t->cuda, now))
		return;
	t->cuda->fold_wanted = false;
	ret = cuda_threads__choose(e->cuda_threads, now, &threads);
	if (!ret && cuda_watch__has_threads(t->cuda, &threads) && !cuda_watch__settle(t->cuda)) {
		if (fold_bases(e, t, &threads))
			t->cuda->lost = true;
		cuda_watch__fold_threads(t->cuda, &threads);
	}
	u64_table__release(&threads);
}

uint64_t engine_cuda_tick(struct engine *e, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];
		uint64_t at;

		if (!t || !t->cuda || t->info.state == TARGET_ENDED)
			continue;
		if (now - e->cuda_threads_ns >= THREADS_NS) {
			look_at_threads(e, now);
			e->cuda_threads_ns = now;
		}
		at = cuda_watch__tick(t->cuda, now);
		fold_threads(e, t, now);
		if (at < next)
			next = at;
	}
	if (next == UINT64_MAX)
		return next;
	cuda_probes__consume_names(e->cuda);
	if (now - e->cuda_looked_ns >= LIBRARIES_NS) {
		process_table__each(e->processes, SO_MAX_SLOTS, look_for_libraries, e);
		e->cuda_looked_ns = now;
	}
	nvml_watch__tick(e->nvml, now);
	return next;
}

/* What could not be drained stays in its window, which fills up: its losses are counted then. */
void engine_cuda_drain(struct engine *e)
{
	int ret = e->cuda ? cuda_probes__drain(e->cuda, e->sampler) : 0;

	if (ret && !e->cuda_drain_failed)
		log__error("reading the stacks of CUDA calls failed: %s", strerror(-ret));
	e->cuda_drain_failed = ret != 0;
	for (unsigned i = 0; e->cuda && i < SO_MAX_SLOTS; i++) {
		if (watching_target(e, i))
			cuda_taken__forget_lines(e->targets[i], clock__now_ns());
	}
}

/* Libraries. */

struct cuda_found {
	struct cuda_mapped *mapped;
	size_t n, capacity;
	/* Files that may launch kernels, and which their code has names for: reading it takes some 50 ms of a large one. */
	const struct proc_map **callers;
	struct file_use *uses;
	size_t n_callers, callers_capacity;
};

bool engine_cuda_wants(struct engine *e, pid_t tgid)
{
	struct process *p = process_table__find(e->processes, tgid);

	return p && watching_target(e, p->kernel.slot);
}

static uint64_t file_key(const struct proc_map *map)
{
	return so_mix(so_mix(map->inode, makedev(map->dev_major, map->dev_minor)), 1);
}

/* Only the scanner comes here, and a caller that attaches; both may learn the same of a file. */
static bool known_without(struct engine *e, const struct proc_map *map)
{
	uint32_t has = 1;

	pthread_mutex_lock(&e->lock);
	if (!u64_table__get(&e->cuda_files, file_key(map), &has))
		has = 1;
	pthread_mutex_unlock(&e->lock);
	return !has;
}

static void remember_file(struct engine *e, const struct proc_map *map, bool has)
{
	pthread_mutex_lock(&e->lock);
	u64_table__set(&e->cuda_files, file_key(map), has);
	pthread_mutex_unlock(&e->lock);
}

static bool is_found(const struct cuda_found *found, const struct proc_map *map)
{
	for (size_t i = 0; i < found->n; i++) {
		if (found->mapped[i].inode == map->inode &&
		    found->mapped[i].dev == makedev(map->dev_major, map->dev_minor))
			return true;
	}
	return false;
}

static void drop_mapped(struct cuda_mapped *m)
{
	cuda_library__release(&m->library);
	free(m->path);
	if (m->fd >= 0)
		close(m->fd);
}

static void keep_found(struct cuda_found *found, struct cuda_mapped *m)
{
	if (m->path && !ARRAY_RESERVE(found->mapped, found->capacity, found->n + 1))
		found->mapped[found->n++] = *m;
	else
		drop_mapped(m);
}

/* Any other file is none of CUDA's business; of one of its own, calls would go uncounted without a word. */
static void keep_unreadable(const struct proc_map *map, int error, struct cuda_mapped *m,
			    struct cuda_found *found)
{
	const char *name = short_path(map->path);

	if (strncmp(name, "libcudart", 9) && strncmp(name, "libcuda.", 8))
		return;
	snprintf(m->problem, sizeof(m->problem), "%.150s cannot be opened, its calls are not timed: %.60s",
		 map->path, strerror(error));
	m->path = strdup(map->path);
	keep_found(found, m);
}

static void look_into(struct engine *e, const struct process_scan *scan, const struct proc_map *map,
		      struct cuda_found *found)
{
	struct cuda_mapped m = { .pid = scan->tgid,
				 .inode = map->inode,
				 .dev = makedev(map->dev_major, map->dev_minor),
				 .text_low = map->start,
				 .text_high = map->end };
	bool has;

	m.fd = proc_maps__open_file(scan->reader, map);
	if (m.fd < 0) {
		keep_unreadable(map, -m.fd, &m, found);
		return;
	}
	if (cuda_library__read(m.fd, &m.library, NULL)) {
		close(m.fd);
		return;
	}
	if (m.library.imports_runtime &&
	    !ARRAY_RESERVE(found->callers, found->callers_capacity, found->n_callers + 1))
		found->callers[found->n_callers++] = map;
	has = m.library.n_functions || m.library.problem[0];
	remember_file(e, map, has);
	m.path = has ? strdup(map->path) : NULL;
	keep_found(found, &m);
}

struct cuda_found *engine_cuda_find(struct engine *e, const struct process_scan *scan)
{
	struct cuda_found *found = calloc(1, sizeof(*found));

	for (size_t i = 0; found && i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];

		if (map->inode && map->executable && !known_without(e, map) && !is_found(found, map))
			look_into(e, scan, map, found);
	}
	return found;
}

static void tell_dropped(pid_t tgid, int ret)
{
	if (ret)
		log__error("a CUDA library of process %d is not watched: %s", tgid, strerror(-ret));
}

/* Runtimes first: a driver's probes tell a nested call by the runtime that it returns to. */
static int runtimes_first(const void *a, const void *b)
{
	const struct cuda_mapped *x = a, *y = b;

	return (x->library.kind == CUDA_LIBRARY_DRIVER) - (y->library.kind == CUDA_LIBRARY_DRIVER);
}

static void hold_callers(struct engine *e, struct cuda_found *found)
{
	found->uses = calloc(found->n_callers + 1, sizeof(*found->uses));
	if (!found->uses)
		found->n_callers = 0;
	for (size_t i = 0; i < found->n_callers; i++)
		found->uses[i] = file_registry__use(e->files, found->callers[i]);
}

/* Names of kernels are made under the lock, and wait for their file's symbols there if they are not loaded. */
void engine_cuda_load_callers(struct engine *e, struct cuda_found *found)
{
	for (size_t i = 0; found && i < found->n_callers; i++)
		file_registry__load_symbols(e->files, found->uses[i].place);
	if (found && found->n_callers) {
		pthread_mutex_lock(&e->lock);
		for (size_t i = 0; i < found->n_callers; i++)
			file_registry__unuse(e->files, found->uses[i]);
		pthread_mutex_unlock(&e->lock);
	}
	if (found) {
		free(found->mapped);
		free(found->callers);
		free(found->uses);
	}
	free(found);
}

void engine_cuda_add(struct engine *e, pid_t tgid, struct cuda_found *found)
{
	struct process *p = tgid ? process_table__find(e->processes, tgid) : NULL;
	struct target *t = p && !p->gone ? watching_target(e, p->kernel.slot) : NULL;

	if (found && found->n)
		qsort(found->mapped, found->n, sizeof(*found->mapped), runtimes_first);
	for (size_t i = 0; found && i < found->n; i++) {
		struct cuda_mapped *m = &found->mapped[i];

		if (t && !cuda_watch__has_library(t->cuda, tgid, m->dev, m->inode))
			tell_dropped(tgid, cuda_watch__add_library(t->cuda, m));
		else
			drop_mapped(m);
	}
	/* Its CPU time counts, whether it has CUDA or not. */
	if (t)
		cuda_watch__add_process(t->cuda, tgid);
	if (found)
		hold_callers(e, found);
}
