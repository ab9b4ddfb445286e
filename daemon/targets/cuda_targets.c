// SPDX-License-Identifier: GPL-2.0-or-later
/* CUDA calls of the targets that asked for it: probes on their libraries, as these are found. */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/targets/cuda_targets_internal.h"
#include "daemon/targets/cuda_window.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_maps.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define THREADS_NS 3000000000ull /* between looks at whose threads have ended */

/* Loading. */

static struct target *watching_target(struct cuda_targets *c, uint32_t slot)
{
	struct target *t = slot < SO_MAX_SLOTS ? c->targets[slot] : NULL;

	return t && t->cuda.watch ? t : NULL;
}

/* Probes that are being taken away still tell names of processes whose names have been forgotten. */
static void on_name(void *context, const struct so_cuda_name *name)
{
	struct cuda_targets *c = context;
	const struct process *p = process_table__find(c->processes, (pid_t)name->tgid);

	if (!p || p->gone || !watching_target(c, p->kernel.slot))
		return;
	if (name->namer >= SO_CUDA_READ_HANDLE)
		handle_names__add(c->handle_names, name);
	else
		kernel_names__add(c->kernel_names, name);
}

/* The stack of a line, kept by the target from now on. */
static bool keep_stack(const struct cuda_targets *c, struct target *t, uint64_t hash)
{
	const struct stack *stack;

	if (accumulator__has_stack(&t->cuda.stacks, hash))
		return true;
	stack = pending_stacks__find(c->pending, hash);
	return stack && !accumulator__add_stack(&t->cuda.stacks, stack);
}

static void on_line(void *context, const struct so_cuda_line_key *key, const struct so_cuda_line *line)
{
	struct cuda_targets *c = context;
	struct target *t = watching_target(c, line->slot);

	if (!t)
		return;
	if (keep_stack(c, t, key->stack))
		cuda_watch__add_line(t->cuda.watch, key, line);
	else
		t->cuda.watch->lines.lost += line->calls;
}

int cuda_targets__load(struct cuda_targets *c, struct so_error *err)
{
	const struct cuda_handlers handlers = { c, on_name, on_line, cuda_calibration__run };
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	struct cuda_probes *probes = NULL;
	int ret = 0;

	pthread_mutex_lock(&loading);
	if (!c->probes) {
		/* The driver may take seconds to start the GPUs: not under the lock. */
		nvml_watch__open(c->nvml, clock__now_ns());
		ret = cuda_probes__new(c->sampler, &handlers, &probes, err);
		ret = ret ?: cuda_threads__new(SO_CUDA_CALLS_ENTRIES, cuda_threads__lives, &c->threads);
		ret = ret ?: kernel_names__new(&c->kernel_names);
		ret = ret ?: handle_names__new(&c->handle_names);
		pthread_mutex_lock(c->lock);
		c->probes = ret ? NULL : probes;
		pthread_mutex_unlock(c->lock);
		if (ret) {
			cuda_threads__free(TAKE_PTR(c->threads));
			cuda_probes__free(probes);
		}
	}
	pthread_mutex_unlock(&loading);
	return ret;
}

int cuda_targets__new(const struct cuda_targets_parts *parts, struct cuda_targets **out)
{
	struct cuda_targets *c = calloc(1, sizeof(*c));

	if (!c || nvml_watch__new(getenv("STAKEOUT_NVML"), NULL, &c->nvml)) {
		free(c);
		return -ENOMEM;
	}
	c->lock = parts->lock;
	c->targets = parts->targets;
	c->sampler = parts->sampler;
	c->files = parts->files;
	c->processes = parts->processes;
	c->pending = parts->pending;
	c->scans = parts->scans;
	*out = c;
	return 0;
}

void cuda_targets__forget_files(struct cuda_targets *c)
{
	u64_table__release(&c->files_seen);
}

void cuda_targets__forget_names(struct cuda_targets *c)
{
	cuda_taken__forget_names(c);
}

void cuda_targets__free(struct cuda_targets *c)
{
	if (!c)
		return;
	cuda_probes__free(c->probes);
	cuda_threads__free(c->threads);
	kernel_names__free(c->kernel_names);
	handle_names__free(c->handle_names);
	cuda_targets__forget_files(c);
	cuda_taken__forget_names(c);
	free(c->kernel_texts);
	nvml_watch__free(c->nvml);
	free(c);
}

/* Targets. */

static void request_scan(void *context, struct process *p)
{
	struct cuda_targets *c = context;

	if (!p->gone)
		scan_queue__request(c->scans, p->tgid);
}

/* A time line's calls are told by themselves. */
static void tell_calls(struct target *t, uint64_t now)
{
	cuda_watch__tell_calls(t->cuda.watch, t->info.timed ? CALL_TIMES_TELL_NS : 0);
	if (t->info.timed && !cuda_watch__times_all(t->cuda.watch))
		t->calls.partial_ns = now;
}

int cuda_targets__begin(struct cuda_targets *c, struct target *t, double budget_percent, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret = 0;

	t->cuda.wanted = true;
	if (!proper->cuda.watch) {
		proper->cuda.stacks.max_bytes = TARGET_CUDA_STACK_BYTES;
		ret = cuda_watch__new(c->probes, proper->slot, budget_percent, &proper->cuda.watch);
		/* The libraries of a target that is sampled already. */
		if (!ret && proper->info.state == TARGET_SAMPLING) {
			cuda_watch__count(proper->cuda.watch);
			process_table__each(c->processes, proper->slot, request_scan, c);
		}
	}
	if (!ret && t->of)
		ret = cuda_taken__begin(c, t, &t->cuda.base);
	if (ret)
		return so_err(err, ret, "cannot watch CUDA calls: %s", strerror(-ret));
	proper->cuda.users++;
	tell_calls(proper, clock__now_ns());
	return 0;
}

void cuda_targets__count(struct target *t)
{
	if (t->cuda.watch)
		cuda_watch__count(t->cuda.watch);
}

static void forget_names(void *context, struct process *p)
{
	struct cuda_targets *c = context;

	kernel_names__forget(c->kernel_names, (uint32_t)p->tgid);
	handle_names__forget(c->handle_names, (uint32_t)p->tgid);
}

/* Nobody tells the processes' names from here on, nor when a handle or a process's number becomes another's. */
static void put_user(struct cuda_targets *c, struct target *proper)
{
	if (--proper->cuda.users)
		return;
	cuda_probes__consume_names(c->probes);
	process_table__each(c->processes, proper->slot, forget_names, c);
	cuda_watch__free(TAKE_PTR(proper->cuda.watch));
}

void cuda_targets__stop(struct target *t)
{
	if (t->cuda.watch)
		cuda_watch__stop(t->cuda.watch);
}

void cuda_targets__end(struct cuda_targets *c, struct target *t)
{
	struct target *proper = t->of ?: t;

	if (!t->cuda.wanted || !proper->cuda.watch)
		return;
	if (cuda_taken__new(c, t, &t->cuda.end))
		t->cuda.end = NULL;
	t->cuda.wanted = false;
	put_user(c, proper);
}

void cuda_targets__free_target(struct target *t)
{
	cuda_watch__free(t->cuda.watch);
	cuda_taken__free(t->cuda.base);
	cuda_taken__free(t->cuda.end);
	accumulator__release(&t->cuda.stacks);
}

bool cuda_targets__watches(const struct target *t)
{
	return t->cuda.watch;
}

const struct accumulator *cuda_targets__stacks(const struct target *t, unsigned i)
{
	const struct accumulator *all[TARGET_CUDA_STACKS] = { &t->cuda.stacks,
							      t->cuda.base ? &t->cuda.base->stacks : NULL,
							      t->cuda.end ? &t->cuda.end->stacks : NULL };

	return all[i];
}

json_t *cuda_targets__overhead(const struct target *t)
{
	return t->cuda.watch ? json_real(cuda_watch__overhead(t->cuda.watch)) : json_null();
}

json_t *cuda_targets__gpu(struct cuda_targets *c, const struct cuda_taken *taken, char *problem)
{
	return nvml_watch__report(c->nvml, taken->pids, taken->n_pids, taken->moment.begin_ns, problem);
}

int cuda_targets__pids(const struct target *t, pid_t **out, size_t *n)
{
	const struct cuda_watch *w = target__proper(t)->cuda.watch;

	return w ? cuda_watch__pids(w, out, n) : -ENODATA;
}

double cuda_targets__gpu_percent(struct cuda_targets *c, const pid_t *pids, size_t n, uint64_t since_ns)
{
	char problem[NVML_WATCH_TEXT_BYTES];
	json_t *report = nvml_watch__report(c->nvml, pids, n, since_ns, problem), *device;
	double sum = 0;
	size_t i, known = 0;

	json_array_foreach (json_object_get(report, "devices"), i, device) {
		json_t *percent = json_object_get(device, "utilisation_percent");

		if (!json_is_number(percent) || json_number_value(json_object_get(device, "process_memory_bytes")) <= 0)
			continue;
		sum += json_number_value(percent);
		known++;
	}
	json_decref(report);
	return known ? sum / (double)known : -1;
}

int cuda_targets__gpu_series(struct cuda_targets *c, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out)
{
	return nvml_watch__series(c->nvml, index, since_ns, until_ns, out);
}

void cuda_targets__forked(struct cuda_targets *c, pid_t parent, pid_t child)
{
	if (!c->probes)
		return;
	cuda_probes__consume_names(c->probes);
	kernel_names__fork(c->kernel_names, (uint32_t)parent, (uint32_t)child);
}

void cuda_targets__process_gone(struct cuda_targets *c, struct target *t, pid_t tgid)
{
	bool calls;

	if (!t->cuda.watch)
		return;
	calls = cuda_watch__has_libraries(t->cuda.watch, tgid);
	cuda_probes__consume_names(c->probes);
	cuda_watch__process_gone(t->cuda.watch, tgid);
	if (calls)
		cuda_taken__remember_names(c, t->cuda.watch->total, (uint32_t)tgid);
	kernel_names__forget(c->kernel_names, (uint32_t)tgid);
	handle_names__forget(c->handle_names, (uint32_t)tgid);
}

static int add_thread(void *context, uint32_t tgid, uint32_t tid)
{
	return cuda_threads__add(context, tgid, tid);
}

static void look_at_threads(struct cuda_targets *c, uint64_t now)
{
	int ret = cuda_threads__begin(c->threads);

	ret = ret ?: cuda_probes__each_thread(c->probes, add_thread, c->threads);
	if (ret)
		return;
	cuda_threads__end(c->threads, now);
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (c->targets[i] && c->targets[i]->cuda.watch)
			c->targets[i]->cuda.watch->fold_wanted = true;
	}
}

/* What the target's figures are compared with: where its views and its windows began. */
static int fold_bases(struct cuda_targets *c, const struct target *t, const struct u64_table *threads)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < SO_MAX_SLOTS; i++) {
		const struct target *view = c->targets[i];

		if (!view || view->of != t || !view->cuda.base)
			continue;
		ret = cuda_snapshot__fold_threads(view->cuda.base->calls, threads);
	}
	if (!ret && t->cuda.mark)
		ret = cuda_mark__fold_threads(t->cuda.mark, threads);
	if (!ret && t->cuda.next_mark)
		ret = cuda_mark__fold_threads(t->cuda.next_mark, threads);
	return ret;
}

/* Only sums are kept of threads whose entries the kernel's map needs. */
static void fold_threads(struct cuda_targets *c, struct target *t, uint64_t now)
{
	struct u64_table threads = { 0 };
	int ret;

	if (!t->cuda.watch->fold_wanted)
		return;
	t->cuda.watch->fold_wanted = false;
	ret = cuda_threads__choose(c->threads, now, &threads);
	if (!ret && cuda_watch__has_threads(t->cuda.watch, &threads) && !cuda_watch__settle(t->cuda.watch)) {
		if (fold_bases(c, t, &threads))
			t->cuda.watch->lost = true;
		cuda_watch__fold_threads(t->cuda.watch, &threads);
	}
	u64_table__release(&threads);
}

uint64_t cuda_targets__tick(struct cuda_targets *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = c->targets[i];
		uint64_t at;

		if (!t || !t->cuda.watch || t->info.state == TARGET_ENDED)
			continue;
		if (now - c->threads_ns >= THREADS_NS) {
			look_at_threads(c, now);
			c->threads_ns = now;
		}
		at = cuda_watch__tick(t->cuda.watch, now);
		tell_calls(t, now);
		fold_threads(c, t, now);
		if (at < next)
			next = at;
	}
	if (next == UINT64_MAX)
		return next;
	cuda_probes__consume_names(c->probes);
	nvml_watch__tick(c->nvml, now);
	return next;
}

/* What could not be drained stays in its window, which fills up: its losses are counted then. */
void cuda_targets__drain(struct cuda_targets *c)
{
	int ret = c->probes ? cuda_probes__drain(c->probes, c->sampler) : 0;

	if (ret && !c->drain_failed)
		log__error("reading the stacks of CUDA calls failed: %s", strerror(-ret));
	c->drain_failed = ret != 0;
	for (unsigned i = 0; c->probes && i < SO_MAX_SLOTS; i++) {
		if (watching_target(c, i))
			cuda_taken__forget_lines(c->targets[i], clock__now_ns());
	}
}

/* Libraries. */

struct cuda_found {
	struct cuda_mapped *mapped;
	size_t n, capacity;
	/* Files that may launch kernels, and whose code is read for kernels' names: some 50 ms for a large one. */
	const struct proc_map **callers;
	struct file_use *uses;
	size_t n_callers, callers_capacity;
};

bool cuda_targets__wants(struct cuda_targets *c, pid_t tgid)
{
	struct process *p = process_table__find(c->processes, tgid);

	return p && watching_target(c, p->kernel.slot);
}

static uint64_t file_key(const struct proc_map *map)
{
	return so_mix(so_mix(map->inode, makedev(map->dev_major, map->dev_minor)), 1);
}

/* Only the scanner comes here, and a caller that attaches; both may learn the same of a file. */
static bool known_without(struct cuda_targets *c, const struct proc_map *map)
{
	uint32_t has = 1;

	pthread_mutex_lock(c->lock);
	if (!u64_table__get(&c->files_seen, file_key(map), &has))
		has = 1;
	pthread_mutex_unlock(c->lock);
	return !has;
}

static void remember_file(struct cuda_targets *c, const struct proc_map *map, bool has)
{
	pthread_mutex_lock(c->lock);
	u64_table__set(&c->files_seen, file_key(map), has);
	pthread_mutex_unlock(c->lock);
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
static void keep_unreadable(const struct proc_map *map, int error, struct cuda_mapped *m, struct cuda_found *found)
{
	const char *name = short_path(map->path);

	if (strncmp(name, "libcudart", 9) && strncmp(name, "libcuda.", 8))
		return;
	snprintf(m->problem, sizeof(m->problem), "%.150s cannot be opened, its calls are not timed: %.60s", map->path,
		 strerror(error));
	m->path = strdup(map->path);
	keep_found(found, m);
}

static void look_into(struct cuda_targets *c, const struct process_scan *scan, const struct proc_map *map,
		      struct cuda_found *found)
{
	struct cuda_mapped m = { .pid = scan->tgid,
				 .inode = map->inode,
				 .dev = makedev(map->dev_major, map->dev_minor),
				 .text_low = map->start,
				 .text_high = map->end };
	bool has;

	m.fd = proc_maps__open_file(scan->tgid, map);
	if (m.fd < 0) {
		keep_unreadable(map, -m.fd, &m, found);
		return;
	}
	if (cuda_library__read(m.fd, &m.library, NULL)) {
		close(m.fd);
		return;
	}
	if (m.library.imports_runtime && !ARRAY_RESERVE(found->callers, found->callers_capacity, found->n_callers + 1))
		found->callers[found->n_callers++] = map;
	has = m.library.n_functions || m.library.problem[0];
	remember_file(c, map, has);
	m.path = has ? strdup(map->path) : NULL;
	keep_found(found, &m);
}

struct cuda_found *cuda_targets__find(struct cuda_targets *c, const struct process_scan *scan)
{
	struct cuda_found *found = calloc(1, sizeof(*found));

	for (size_t i = 0; found && i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];

		if (map->inode && map->executable && !known_without(c, map) && !is_found(found, map))
			look_into(c, scan, map, found);
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

static void hold_callers(struct cuda_targets *c, struct cuda_found *found)
{
	found->uses = calloc(found->n_callers + 1, sizeof(*found->uses));
	if (!found->uses)
		found->n_callers = 0;
	for (size_t i = 0; i < found->n_callers; i++)
		found->uses[i] = file_registry__use(c->files, found->callers[i]);
}

/* Names of kernels are made under the lock, and wait for their file's symbols there if they are not loaded. */
void cuda_targets__load_callers(struct cuda_targets *c, struct cuda_found *found)
{
	for (size_t i = 0; found && i < found->n_callers; i++)
		file_registry__load_symbols(c->files, found->uses[i].place);
	if (found && found->n_callers) {
		pthread_mutex_lock(c->lock);
		for (size_t i = 0; i < found->n_callers; i++)
			file_registry__unuse(c->files, found->uses[i]);
		pthread_mutex_unlock(c->lock);
	}
	if (found) {
		free(found->mapped);
		free(found->callers);
		free(found->uses);
	}
	free(found);
}

void cuda_targets__add(struct cuda_targets *c, pid_t tgid, struct cuda_found *found)
{
	struct process *p = tgid ? process_table__find(c->processes, tgid) : NULL;
	struct target *t = p && !p->gone ? watching_target(c, p->kernel.slot) : NULL;

	if (found && found->n)
		qsort(found->mapped, found->n, sizeof(*found->mapped), runtimes_first);
	for (size_t i = 0; found && i < found->n; i++) {
		struct cuda_mapped *m = &found->mapped[i];

		if (t && !cuda_watch__has_library(t->cuda.watch, tgid, m->dev, m->inode))
			tell_dropped(tgid, cuda_watch__add_library(t->cuda.watch, m));
		else
			drop_mapped(m);
	}
	/* Its CPU time counts, whether it has CUDA or not. */
	if (t)
		cuda_watch__add_process(t->cuda.watch, tgid);
	if (found)
		hold_callers(c, found);
}
