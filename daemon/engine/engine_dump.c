// SPDX-License-Identifier: GPL-2.0-or-later
/* Every thread of a process, once: a waiting one is unwound from its saved registers, a running one by its samples. */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/os/memory_lock.h"
#include "daemon/os/proc_info.h"
#include "daemon/profile/profile_export.h"
#include "daemon/os/thread_list.h"
#include "daemon/targets/thread_namer.h"
#include "stakeout/array.h"

#define MAX_ATTEMPTS 5
/* For what its threads are called. */
#define MAX_NAMING_NS 1000000000ull

struct dump {
	struct engine *engine;
	struct caller caller;
	struct target *target;
	struct process *process;
	struct caught {
		struct so_thread thread;
		struct stack *stack; /* NULL: it could not be caught */
	} * caught;
	size_t n_caught, capacity;
	struct python_process python; /* a copy, if has_python */
	bool has_python;
	unsigned execs;
	struct thread_to_name *names; /* as `caught`; NULL: they have none */
};

static const struct so_thread *find(const struct so_thread *threads, size_t n, uint32_t tid)
{
	for (size_t i = 0; i < n; i++) {
		if (threads[i].tid == tid)
			return &threads[i];
	}
	return NULL;
}

static bool at_rest(const struct so_thread *t)
{
	return t->user && !t->on_cpu;
}

/* The stacks of those that do not run, at the same index; NULL: not caught, or out of memory. */
static void unwind_threads(struct dump *d, const struct so_thread *threads, size_t n, struct stack **stacks)
{
	struct thread_catch_request requests[MEMORY_LOCK_CATCH];
	_cleanup_free_ struct thread_memory *memory = malloc(MEMORY_LOCK_CATCH * sizeof(*memory));
	size_t which[MEMORY_LOCK_CATCH], i = 0, taken, caught;

	while (memory && i < n) {
		for (taken = 0; i < n && taken < MEMORY_LOCK_CATCH; i++) {
			if (!at_rest(&threads[i]))
				continue;
			user_unwind__request(d->process, &threads[i], &requests[taken]);
			which[taken++] = i;
		}
		caught = memory_lock__catch(requests, memory, taken);
		for (size_t k = 0; k < caught; k++)
			user_unwind__caught(&d->engine->collector.unwind, d->process, &threads[which[k]], &memory[k], 0,
					    &stacks[which[k]]);
	}
	user_unwind__done();
}

/* Takes the stack, also on failure. */
static int add_thread(struct dump *d, const struct so_thread *t, struct stack *stack)
{
	if (ARRAY_RESERVE(d->caught, d->capacity, d->n_caught + 1)) {
		stack__unref(stack);
		return -ENOMEM;
	}
	d->caught[d->n_caught++] = (struct caught){ *t, stack };
	return 0;
}

/* Adds the threads that were caught, and takes them out of the list. */
static int attempt(struct dump *d, struct so_thread *threads, size_t *n, struct so_error *err)
{
	_cleanup_free_ struct stack **stacks = calloc(*n + 1, sizeof(*stacks));
	_cleanup_free_ struct so_thread *after = NULL;
	size_t n_after = 0, left = 0;
	int ret = stacks ? 0 : -ENOMEM;

	if (!ret)
		unwind_threads(d, threads, *n, stacks);
	ret = ret ?: thread_list__read(d->engine->thread_list, d->process->tgid, &after, &n_after, err);
	for (size_t i = 0; !ret && i < *n; i++) {
		const struct so_thread *now = find(after, n_after, threads[i].tid);

		if (!now)
			continue; /* it has ended */
		if (stacks[i] && now->switches == threads[i].switches && !now->on_cpu)
			ret = add_thread(d, &threads[i], TAKE_PTR(stacks[i]));
		else
			threads[left++] = *now;
	}
	for (size_t i = 0; stacks && i < *n; i++)
		stack__unref(stacks[i]);
	*n = left;
	return ret;
}

static int dump_threads(struct dump *d, struct so_error *err)
{
	_cleanup_free_ struct so_thread *threads = NULL;
	size_t n = 0;
	int ret = thread_list__read(d->engine->thread_list, d->process->tgid, &threads, &n, err);

	for (unsigned i = 0; !ret && n && i < MAX_ATTEMPTS; i++)
		ret = attempt(d, threads, &n, err);
	for (size_t i = 0; !ret && i < n; i++) {
		struct stack *stack = samples__latest_stack(&d->target->samples, threads[i].tid);

		ret = add_thread(d, &threads[i], stack);
	}
	return ret;
}

/* A target's children are followed whosever they are, and may execute other programs. Also whether it is there. */
static int check_process(pid_t pid, struct caller caller, struct so_error *err)
{
	struct proc_info info;

	if (proc_info__read(pid, &info))
		return so_err(err, -ESRCH, "process %d has ended", pid);
	if (info.tgid != pid)
		return so_err(err, -ESRCH, "%d is a thread of process %d", pid, info.tgid);
	return process_access__check(pid, caller, err);
}

/* Under the lock: what is unwound by are the tables of now. */
static int dump_locked(struct dump *d, uint32_t id, pid_t pid, struct engine_snapshot *s, struct so_error *err)
{
	struct target *t = targets__find(&d->engine->targets, id);
	int ret;

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	d->target = t->of ?: t;
	if (t->info.state == TARGET_SAMPLING)
		collector__drain(&d->engine->collector);
	d->process = process_table__find(d->engine->processes, pid);
	if (pid != t->info.pid && (!d->process || d->process->kernel.slot != d->target->slot))
		return so_err(err, -ESRCH, "process %d is none of target %u", pid, id);
	if (!d->process || d->process->gone)
		return so_err(err, -ESRCH, "process %d has ended", pid);
	ret = dump_threads(d, err);
	/* It may have executed another program meanwhile. */
	ret = ret ?: process_access__check(pid, d->caller, err);
	if (ret)
		return ret;
	d->has_python = d->process->python;
	if (d->has_python)
		d->python = *d->process->python;
	d->execs = d->process->execs;
	engine_fill_snapshot(t, s);
	engine_hold_snapshot(t, s);
	return 0;
}

/* Without the lock. Names that the caller may not see, since the process is another by now, are forgotten. */
static int read_names(struct dump *d, pid_t pid, struct so_error *err)
{
	struct thread_to_name *names = d->has_python ? calloc(d->n_caught + 1, sizeof(*names)) : NULL;
	const struct process *p;

	if (!names)
		return 0;
	for (size_t i = 0; i < d->n_caught; i++) {
		names[i].tid = d->caught[i].thread.tid;
		names[i].fsbase = d->caught[i].thread.fsbase;
	}
	thread_namer__read(pid, &d->python, names, d->n_caught, MAX_NAMING_NS);
	pthread_mutex_lock(&d->engine->lock);
	p = process_table__find(d->engine->processes, pid);
	if (p && p == d->process && p->execs == d->execs && process__is_readable(p))
		d->names = TAKE_PTR(names);
	pthread_mutex_unlock(&d->engine->lock);
	free(names);
	return process_access__check(pid, d->caller, err) == -EPERM ? -EPERM : 0;
}

static int export_thread(struct profile_export *export, struct profile_builder *builder, pid_t pid,
			 const struct caught *caught, const char *name)
{
	struct profile_frame moved = { .name = "[moved]" };
	char comm[sizeof(caught->thread.comm) + 1];
	struct profile_labels labels = { .pid = pid,
					 .tid = caught->thread.tid,
					 .comm = comm,
					 .state = thread_list__state(&caught->thread),
					 .thread = name };
	uint64_t location;

	snprintf(comm, sizeof(comm), "%.16s", caught->thread.comm);
	if (caught->stack)
		return profile_export__stack(export, caught->stack, 1, &labels);
	labels.process = profile_export__process(export, pid);
	location = profile_builder__location(builder, &moved);
	return location ? profile_builder__sample_labelled(builder, &location, 1, 1, &labels) : -ENOMEM;
}

/* As it was read now, or what was known of a thread that is watched. NULL: it has none. */
static const char *name_of(const struct dump *d, const struct profile_source *source, pid_t pid, size_t i)
{
	if (d->names && d->names[i].text[0])
		return d->names[i].text;
	return thread_names__get(source->thread_names, pid, d->caught[i].thread.tid);
}

/* Without the lock: names may have to be read first. The target is held, so its files stay. */
static int export_threads(const struct dump *d, const struct profile_source *source, pid_t pid,
			  struct profile_builder *builder)
{
	struct profile_export *export = profile_export__new(source, builder);
	int ret = export ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < d->n_caught; i++)
		ret = export_thread(export, builder, pid, &d->caught[i], name_of(d, source, pid, i));
	ret = ret ?: profile_export__comment(export);
	profile_export__free(export);
	return ret;
}

static void release(struct dump *d)
{
	for (size_t i = 0; i < d->n_caught; i++)
		stack__unref(d->caught[i].stack);
	free(d->caught);
	free(d->names);
}

static int build(const struct engine *e, const struct dump *d, const struct engine_snapshot *s, uint64_t begin_ns,
		 uint64_t wall_ns, pid_t pid, uint8_t **out, size_t *length)
{
	const struct profile_source source = { .files = e->files,
					       .kernel = e->kernel_symbols,
					       .since_ns = begin_ns,
					       .uid = s->info.uid,
					       .own_namespaces = s->own_namespaces,
					       .main_file = s->main_file,
					       .labels = &s->labels,
					       .thread_names = &s->thread_names };
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new(wall_ns, 0, 0);
	int ret = builder ? engine_add_python_comments(&s->python, builder) : -ENOMEM;

	ret = ret ?: export_threads(d, &source, pid, builder);
	return ret ?: profile_builder__finish(builder, out, length);
}

int engine__threads(struct engine *e, uint32_t id, pid_t pid, struct caller caller, uint8_t **out, size_t *length,
		    struct so_error *err)
{
	uint64_t begin_ns = clock__now_ns(), wall_ns = clock__read_ns(CLOCK_REALTIME);
	struct engine_snapshot s = { 0 };
	struct dump d = { .engine = e, .caller = caller };
	struct target_info info;
	int ret = engine__info(e, id, &info);

	if (ret)
		return so_err(err, ret, "there is no target %u", id);
	pid = pid ?: info.pid;
	ret = check_process(pid, caller, err);
	if (ret)
		return ret;
	pthread_mutex_lock(&e->lock);
	/* For all dumps, since a dump of a whole job is one of each process. */
	ret = thread_list__load(&e->thread_list, &e->lock, err);
	ret = ret ?: dump_locked(&d, id, pid, &s, err);
	pthread_mutex_unlock(&e->lock);
	ret = ret ?: read_names(&d, pid, err);
	ret = ret ?: build(e, &d, &s, begin_ns, wall_ns, pid, out, length);
	release(&d);
	engine_release_snapshot(e, &s);
	return ret && !err->text[0] ? so_err(err, ret, "cannot dump the threads: %s", strerror(-ret)) : ret;
}
