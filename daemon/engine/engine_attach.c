// SPDX-License-Identifier: GPL-2.0-or-later
/* Attaches to a process: as a target, or as a view of one that there is. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/os/limits.h"
#include "daemon/os/proc_info.h"

/* Children found while children are looked for are looked at again; this many rounds end a race with a fork storm,
 * whose later children the kernel side follows anyway. */
#define MAX_ROUNDS 16

static int make_room(struct engine *e, bool view, struct so_error *err)
{
	struct target *oldest = targets__oldest_ended(&e->targets, view);
	unsigned most = view ? ENGINE_MAX_VIEWS : ENGINE_MAX_TARGETS;

	if (targets__count(&e->targets, view) < most)
		return 0;
	if (oldest) {
		engine_drop_target(e, oldest);
		return 0;
	}
	limits__hit(view ? LIMIT_VIEWS : LIMIT_TARGETS, 1);
	if (view)
		return so_err(err, -ENOSPC, "%u recordings of watched processes run already, which is the most", most);
	return so_err(err, -ENOSPC, "%u targets are watched already, which is the most: detach one", most);
}

static int take_slot(struct engine *e, struct target *t, struct so_error *err)
{
	int ret = make_room(e, t->view, err);

	if (!ret && t->caller.uid)
		ret = targets__check_share(&e->targets, t->caller.uid, t->view, err);
	if (!ret && t->caller.uid && !t->view)
		ret = targets__check_rates(&e->targets, t->caller.uid, t->info.rate_hz, err);
	if (ret)
		return ret;
	if (targets__add(&e->targets, t))
		return so_err(err, -ENOSPC, "there is no room for a further target");
	samples__begin(&t->samples, e->sampler, t->slot);
	ret = sampler__clear_slot(e->sampler, t->slot);
	if (ret)
		targets__remove(&e->targets, t);
	return ret;
}

static struct target *new_target(struct engine *e, const struct attach_options *o, const struct proc_info *info)
{
	struct target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->info.pid = o->pid;
	t->info.uid = info->uid;
	t->info.viewer = process_access__viewer(o->pid);
	memcpy(t->info.comm, info->comm, sizeof(t->info.comm));
	t->info.state = TARGET_ATTACHING;
	t->info.rate_hz = o->rate_hz;
	t->info.children = o->children;
	t->info.kernel = o->kernel;
	t->info.keep = o->keep;
	t->info.rule = o->rule;
	t->own_wall = o->wall;
	t->own_timed = t->info.timed = o->timed;
	t->slow.ends = o->until_slow > 0;
	t->slow.factor = o->until_slow > 0 ? o->until_slow : o->slow_factor;
	t->slow.limit_ns = o->slow_ns;
	t->span = (struct step_span){ .skip = o->skip_steps, .count = o->steps };
	t->caller = o->caller;
	t->period_ns = 1000000000ull / o->rate_hz;
	t->programs_before = sampler__programs(e->sampler);
	t->cpu_ns_before = engine_cpu_ns(e);
	t->own_namespaces = proc_info__same_namespace(o->pid, "pid") && proc_info__same_namespace(o->pid, "mnt");
	return t;
}

static int add_process(struct engine *e, struct target *t, pid_t pid)
{
	struct caller owner = t->caller.uid ? t->caller : t->info.viewer;
	struct so_process kernel = {
		.flags = (t->info.children ? SO_PROCESS_FOLLOW : 0) | (t->info.kernel ? SO_PROCESS_KERNEL : 0) |
			 (t->caller.uid ? SO_PROCESS_OWNED : 0) | (t->info.timed ? SO_PROCESS_TIMED : 0),
		.slot = t->slot,
		.rate_hz = t->info.rate_hz,
		.uid = owner.uid,
		.gid = owner.uid ? owner.gid : 0,
	};
	struct process *p = process_table__find(e->processes, pid);
	int ret;

	if (!process_life__has_room(&e->scanner.life))
		return -ENOSPC;
	if (p && p->gone)
		process_table__remove(e->processes, p);
	ret = process_table__add(e->processes, pid, &kernel, &p);
	if (!ret) {
		t->living++;
		t->seen_processes++;
		viewers__check(t, pid);
	}
	return ret;
}

static bool is_watched(struct engine *e, pid_t pid, uint32_t slot)
{
	const struct process *p = process_table__find(e->processes, pid);

	return p && !p->gone && p->kernel.slot == slot;
}

/* Adds the descendants there are, in rounds until none is new. From here on the kernel side follows new ones. */
static void add_descendants(struct engine *e, struct target *t)
{
	bool found = true;

	for (int round = 0; found && round < MAX_ROUNDS; round++) {
		_cleanup_free_ struct proc_pair *all = NULL;
		size_t n = 0;

		found = false;
		sampler__consume_events(e->sampler);
		if (proc_info__all(&all, &n))
			return;
		for (size_t i = 0; i < n; i++) {
			/* The daemon, started by its target, is none of it; nor are its own children then. */
			if (all[i].pid != getpid() && is_watched(e, all[i].ppid, t->slot) &&
			    !process_table__find(e->processes, all[i].pid))
				found |= !add_process(e, t, all[i].pid);
		}
	}
}

struct pid_list {
	pid_t *pids;
	size_t n;
};

static void collect_unscanned(void *context, struct process *p)
{
	struct pid_list *list = context;
	pid_t *more;

	if (p->gone || p->run)
		return;
	more = reallocarray(list->pids, list->n + 1, sizeof(*more));
	if (!more)
		return;
	list->pids = more;
	list->pids[list->n++] = p->tgid;
}

/*
 * Reads the mappings of all of the target's processes. Called with the lock held, which is given up meanwhile. The
 * thread of the rules has others to attach.
 */
static void scan_all(struct engine *e, struct target *t, bool rule)
{
	unsigned patience_ms = rule ? SCANNER_PATIENCE_MS : SCANNER_ATTACH_PATIENCE_MS;
	struct pid_list list = { 0 };

	process_table__each(e->processes, t->slot, collect_unscanned, &list);
	pthread_mutex_unlock(&e->lock);
	for (size_t i = 0; i < list.n; i++)
		scanner__scan(&e->scanner, &(struct scan_work){ .tgid = list.pids[i] }, patience_ms);
	pthread_mutex_lock(&e->lock);
	free(list.pids);
}

static void activate(void *context, struct process *p)
{
	struct engine *e = context;

	if (!p->gone)
		process_table__set_flags(e->processes, p, p->kernel.flags | SO_PROCESS_ACTIVE);
}

static int begin(struct engine *e, struct target *t, double duration_s, struct so_error *err)
{
	int ret;

	t->info.state = TARGET_SAMPLING;
	ret = engine_update_events(e, err);
	if (ret)
		return ret;
	t->begin_ns = clock__now_ns();
	t->begin_wall_ns = clock__read_ns(CLOCK_REALTIME);
	cuda_targets__count(t);
	if (duration_s > 0)
		t->deadline_ns = t->begin_ns + (uint64_t)(duration_s * 1e9);
	process_table__each(e->processes, t->slot, activate, e);
	engine_update_wall(e, t);
	/* Children forked by a process that was not active yet are copies of that: activate them as well. */
	sampler__consume_events(e->sampler);
	process_table__each(e->processes, t->slot, activate, e);
	return 0;
}

/* A large program's debug information takes seconds: it is sampled first. Gives up the lock: the target may go. */
static void prepare_lines(struct engine *e, struct target *t)
{
	uint32_t number = t->main_file;

	t->users++;
	pthread_mutex_unlock(&e->lock);
	file_registry__prepare_lines(e->files, number);
	pthread_mutex_lock(&e->lock);
	engine_unhold(e, t);
}

static int begin_view(struct engine *e, struct target *view, struct target *of)
{
	int ret = collector__drain(&e->collector);

	if (ret)
		return ret;
	collector__hurry_waiting(&e->collector, of->slot);
	ret = views__begin(&view->samples, &of->samples);
	if (ret)
		return ret;
	view->of = of;
	view->begin_ns = clock__now_ns();
	view->begin_wall_ns = clock__read_ns(CLOCK_REALTIME);
	view->seen_processes = of->living;
	view->info.state = TARGET_SAMPLING;
	view->info.wall = view->own_wall;
	of->wall_views += view->info.wall;
	engine_update_wall(e, of);
	of->timed_views += view->info.timed;
	engine_update_timed(e, of);
	return 0;
}

static int begin_cuda(struct engine *e, struct target *t, const struct attach_options *o, struct so_error *err)
{
	double standard = o->keep ? ENGINE_CUDA_BUDGET_PERCENT : ENGINE_CUDA_RECORDING_PERCENT;

	/* Of the slot's target before, whose stacks are gone: its lines, and its word that a stack was sent. */
	if (!cuda_targets__watches(t->of ?: t))
		collector__drain(&e->collector);
	return cuda_targets__begin(e->cuda, t, o->cuda_budget_percent > 0 ? o->cuda_budget_percent : standard, err);
}

/* What is to be counted: first where steps begin, then the others. */
struct places {
	struct step_place list[SO_MARKS];
	unsigned n;
};

static void release_places(struct places *places)
{
	for (unsigned i = 0; i < places->n; i++)
		if (places->list[i].fd >= 0)
			close(places->list[i].fd);
}
CLEANUP_DEFINE(struct places *, places, release_places)

static const char *mark_name(const struct attach_options *o, unsigned mark)
{
	return mark ? o->counted[mark - 1] : o->step;
}

static bool has_marks(const struct attach_options *o)
{
	return o->step[0] || o->counted[0][0];
}

static int begin_marks(struct engine *e, struct target *t, const struct places *places, struct so_error *err)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < places->n; i++)
		if (places->list[i].name[0])
			ret = steps__begin(t, !i, e->sampler, &places->list[i], err);
	return ret;
}

/* Without the lock: files of the target are read. */
static int find_places(const struct attach_options *o, struct places *places, struct so_error *err)
{
	for (unsigned i = 0; i < SO_MARKS; i++) {
		struct step_place *place = &places->list[places->n++];
		int ret;

		place->fd = -1;
		snprintf(place->name, sizeof(place->name), "%s", mark_name(o, i));
		ret = place->name[0] ? python_place__parse(place->name, &place->python, err) : 0;
		if (ret && ret != -ENOENT)
			return ret;
	}
	return steps__find(o->pid, places->list, places->n, err);
}

/* What it is to have beside samples. */
static int begin_more_of_view(struct engine *e, struct target *t, const struct attach_options *o,
			      const struct places *places, struct so_error *err)
{
	int ret = begin_marks(e, t, places, err);

	if (!ret && o->memory)
		ret = memory_watch__begin(&e->memory, t, err);
	if (!ret && o->gpu_memory)
		ret = gpu_memory__begin(&e->gpu_memory, t, err);
	if (!ret && o->allocations)
		ret = allocations__begin(&e->allocations, t, err);
	if (!ret && o->cuda)
		ret = begin_cuda(e, t, o, err);
	return ret;
}

/* On an error the view is gone. */
static int attach_view(struct engine *e, struct target *t, struct target *of, const struct attach_options *o,
		       const struct places *places, struct so_error *err)
{
	int ret = begin_view(e, t, of);

	targets__stacks_moved(&e->targets);
	if (ret) {
		so_err(err, ret, "out of memory");
	} else {
		ret = begin_more_of_view(e, t, o, places, err);
		if (ret)
			engine_end_target(e, t, TARGET_END_FAILED);
	}
	if (ret) {
		engine_drop_target(e, t);
		return ret;
	}
	if (o->duration_s > 0)
		t->deadline_ns = t->begin_ns + (uint64_t)(o->duration_s * 1e9);
	return 0;
}

static int add_first_process(struct engine *e, struct target *t, pid_t pid, struct so_error *err)
{
	int ret = add_process(e, t, pid);

	if (ret == -ENOSPC)
		return so_err(err, ret, "%d processes are watched already, which is the most", SO_MAX_PROCESSES);
	return ret ? so_err(err, ret, "cannot watch process %d: %s", pid, strerror(-ret)) : 0;
}

/* Its processes, and their files: probes of calls are placed where these are read. */
static int look_at_processes(struct engine *e, struct target *t, const struct attach_options *o, struct so_error *err)
{
	int ret = add_first_process(e, t, o->pid, err);

	if (!ret && o->cuda)
		ret = begin_cuda(e, t, o, err);
	if (!ret && o->gpu_memory)
		ret = gpu_memory__begin(&e->gpu_memory, t, err);
	if (!ret && o->allocations)
		ret = allocations__begin(&e->allocations, t, err);
	if (ret)
		return ret;
	if (o->children)
		add_descendants(e, t);
	engine_watch_mappings(e);
	t->users++;
	scan_all(e, t, o->rule);
	t->users--;
	/* What they opened or forked while files were read. */
	sampler__consume_events(e->sampler);
	return t->living ? 0 : so_err(err, -ESRCH, "process %d ended while it was attached to", o->pid);
}

/* On an error the target is gone. */
static int attach_target(struct engine *e, struct target *t, const struct attach_options *o,
			 const struct places *places, struct so_error *err)
{
	int ret = look_at_processes(e, t, o, err);

	/* Before samples count: the first step is not to be missed. */
	ret = ret ?: begin_marks(e, t, places, err);
	if (!ret && o->memory)
		ret = memory_watch__begin(&e->memory, t, err);
	ret = ret ?: begin(e, t, o->duration_s, err);
	if (!ret && t->doomed)
		ret = so_err(err, -ECANCELED, "detached while attaching");
	if (ret)
		engine_drop_target(e, t);
	return ret;
}

static int attach_locked(struct engine *e, const struct attach_options *o, const struct places *places,
			 const struct proc_info *info, uint64_t called_ns, uint32_t *id, struct so_error *err)
{
	struct attach_options as = *o;
	struct target *t, *of;
	int ret = engine_check_free(e, o, &of, err);

	if (!ret && of)
		ret = engine_check_view(o, of, err);
	if (ret)
		return ret;
	/* Steps are samples with times. */
	as.timed |= has_marks(o);
	if (of) {
		as.rate_hz = of->info.rate_hz;
		as.children = of->info.children;
		as.kernel = of->info.kernel;
	}
	t = new_target(e, &as, info);
	if (!t)
		return so_err(err, -ENOMEM, "out of memory");
	t->view = of;
	ret = take_slot(e, t, err);
	if (ret) {
		engine_free_target(t);
		return ret;
	}
	ret = of ? attach_view(e, t, of, o, places, err) : attach_target(e, t, o, places, err);
	if (ret)
		return ret;
	t->attach_ns = clock__now_ns() - called_ns;
	*id = t->id;
	engine_wake(e);
	if (!of)
		prepare_lines(e, t);
	return 0;
}

/*
 * Probes on libraries that all programs map wait for the memory of each of these, while nobody else is answered. So it
 * is for root, and for whom the daemon is their own.
 */
static int check_allocations(const struct attach_options *o, struct so_error *err)
{
	if (!o->caller.uid || o->caller.uid == geteuid())
		return 0;
	return so_err(err, -EPERM,
		      "calls of allocators are for root to watch, as probes on the C library can hold up the daemon: "
		      "'stakeout memory' without --allocations is for everybody");
}

int engine__attach(struct engine *e, const struct attach_options *o, uint32_t *id, struct so_error *err)
{
	uint64_t called_ns = clock__now_ns();
	_cleanup_(places) struct places *places = &(struct places){ .n = 0 };
	struct proc_info info;
	int ret = engine_check_options(o, err);

	if (ret)
		return ret;
	ret = engine_check_process(o, &info, err) ?: engine_check_memory(e, o, &info, err);
	ret = ret ?: find_places(o, places, err);
	if (!ret && o->cuda)
		ret = cuda_targets__load(e->cuda, err);
	if (!ret && o->wall)
		ret = waits__load(e->waits, err);
	if (!ret && o->memory)
		ret = memory_watch__load(&e->memory, e->sampler, err);
	if (!ret && o->gpu_memory)
		ret = gpu_memory__load(&e->gpu_memory, e->sampler, err);
	if (!ret && o->allocations)
		ret = check_allocations(o, err) ?: allocations__load(&e->allocations, e->sampler, err);
	if (ret)
		return ret;
	engine_before_drain(e);
	pthread_mutex_lock(&e->lock);
	/* Again: the pid may have become another process's while the lock was waited for, or programs were loaded. */
	ret = engine_check_process(o, &info, err);
	ret = ret ?: attach_locked(e, o, places, &info, called_ns, id, err);
	pthread_mutex_unlock(&e->lock);
	return ret;
}
