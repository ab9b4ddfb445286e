// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether a process can be attached to, and by this caller. */
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/os/memory_lock.h"
#include "daemon/os/proc_info.h"

int engine_check_process(const struct attach_options *o, struct proc_info *info, struct so_error *err)
{
	int ret = proc_info__read(o->pid, info);

	if (ret == -ESRCH)
		return so_err(err, -ESRCH, "there is no process %d", o->pid);
	if (ret)
		return so_err(err, ret, "cannot read /proc/%d: %s", o->pid, strerror(-ret));
	if (info->kernel_thread)
		return so_err(err, -ESRCH, "process %d (%s) is a kernel thread: it has no user stack to sample", o->pid,
			      info->comm);
	if (proc_info__is_zombie(info))
		return so_err(err, -ESRCH, "process %d (%s) is a zombie: it has ended and waits for its parent", o->pid,
			      info->comm);
	if (info->tgid != o->pid)
		return so_err(err, -ESRCH, "%d is a thread of process %d: attach to %d", o->pid, info->tgid,
			      info->tgid);
	return process_access__check(o->pid, o->caller, err);
}

static int check_counted(const struct attach_options *o, struct so_error *err)
{
	for (unsigned i = 1; i < SO_MARKS - 1; i++)
		for (unsigned before = 0; o->counted[i][0] && before < i; before++)
			if (!strcmp(o->counted[i], o->counted[before]))
				return so_err(err, -EINVAL, "'%s' is to be counted twice", o->counted[i]);
	return 0;
}

int engine_check_options(const struct attach_options *o, struct so_error *err)
{
	if (o->pid <= 0)
		return so_err(err, -EINVAL, "%d is no process number", o->pid);
	if (o->rate_hz < ENGINE_MIN_RATE_HZ || o->rate_hz > ENGINE_MAX_RATE_HZ)
		return so_err(err, -EINVAL, "a rate of %u Hz is out of range: give %d to %d", o->rate_hz,
			      ENGINE_MIN_RATE_HZ, ENGINE_MAX_RATE_HZ);
	if (!(o->duration_s >= 0 && o->duration_s <= 1e9))
		return so_err(err, -EINVAL, "a duration of %g s is out of range", o->duration_s);
	return check_counted(o, err);
}

int engine_check_free(struct engine *e, const struct attach_options *o, struct target **of, struct so_error *err)
{
	struct process *p = process_table__find(e->processes, o->pid);
	struct target *t = p && !p->gone ? targets__of_slot(&e->targets, p->kernel.slot) : NULL;
	pid_t pid = o->pid;

	*of = NULL;
	if (!t && o->only_watched)
		return so_err(err, -EPERM,
			      "process %d is not watched: over TCP, and of all, only those are recorded that "
			      "are (stakeout attach, stakeoutd --match)",
			      pid);
	if (!t)
		return 0;
	if (t->info.pid == pid && o->as_watched && !o->keep && t->info.state == TARGET_SAMPLING) {
		*of = t;
		return 0;
	}
	if (t->info.pid == pid && (o->keep || t->info.state != TARGET_SAMPLING))
		return so_err(err, -EEXIST, "process %d is sampled already, as target %u at %u Hz", pid, t->id,
			      t->info.rate_hz);
	if (t->info.pid == pid && t->info.rate_hz != o->rate_hz)
		return so_err(err, -EEXIST,
			      "process %d is sampled already, as target %u at %u Hz: record at that rate, or "
			      "detach it first",
			      pid, t->id, t->info.rate_hz);
	if (t->info.pid == pid && (t->info.children != o->children || t->info.kernel != o->kernel))
		return so_err(err, -EEXIST,
			      "process %d is sampled already, as target %u %s children and %s kernel frames: "
			      "record the same, or detach it first",
			      pid, t->id, t->info.children ? "with" : "without", t->info.kernel ? "with" : "without");
	if (t->info.pid == pid) {
		*of = t;
		return 0;
	}
	return so_err(err, -EEXIST,
		      "process %d is sampled already, as a child of target %u: use process %d, whose samples "
		      "tell its children apart",
		      pid, t->id, t->info.pid);
}

int engine_check_view(const struct attach_options *o, const struct target *of, struct so_error *err)
{
	if (!caller__sees(o->caller, of->info.viewer))
		return so_err(err, -EPERM, "process %d is watched already, as target %u, which is shown to root alone",
			      o->pid, of->id);
	if (o->until_slow > 0 || o->slow_factor > 0 || o->slow_ns || o->steps)
		return so_err(
			err, -EEXIST,
			"process %d is watched already, as target %u: its steps are counted by a target of its own",
			o->pid, of->id);
	return 0;
}

/* A view of a target reads nothing of the process. */
int engine_check_memory(struct engine *e, const struct attach_options *o, const struct proc_info *info,
			struct so_error *err)
{
	bool known;

	pthread_mutex_lock(&e->lock);
	known = process_table__find(e->processes, o->pid);
	pthread_mutex_unlock(&e->lock);
	if (known || !memory_lock__check(o->pid))
		return 0;
	return so_err(err, -EBUSY,
		      "process %d (%s) cannot be read: a thread of it holds the lock of its memory, as in "
		      "uninterruptible sleep (D in ps); try again when it goes on",
		      o->pid, info->comm);
}
