// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/engine/scanner.h"

#include <errno.h>

#include "daemon/engine/viewers.h"
#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/os/memory_lock.h"
#include "daemon/os/process_access.h"

/* A process whose memory could not be read is asked again after this. */
#define STUCK_SCAN_NS 1000000000ull

static struct target *target_of(const struct scanner *s, const struct process *p)
{
	return p ? targets__of_slot(s->life.targets, p->kernel.slot) : NULL;
}

/* Once a process, and again after each exec; what it inherited counts until then. */
static bool wants_labels(const struct scanner *s, pid_t tgid, unsigned *execs)
{
	const struct process *p = process_table__find(s->life.processes, tgid);

	*execs = p ? p->execs : 0;
	return p && !p->gone && !p->labelled;
}

/* A user's target may execute a program with rights that the user has not: that is not the user's to see. */
static bool is_foreign(const struct scanner *s, pid_t tgid)
{
	struct process *p = process_table__find(s->life.processes, tgid);
	struct target *t = target_of(s, p);
	struct so_error why;

	if (!t || p->gone)
		return false;
	viewers__check(t, tgid);
	if (process_access__check(tgid, t->caller, &why) != -EPERM)
		return false;
	log__info("process %d of target %u is not followed any more: %s", tgid, t->id, why.text);
	process_life__gone(&s->life, p);
	return true;
}

/* execs: what the process had executed when the labels were read; a later program has others. */
static void set_labels(const struct scanner *s, pid_t tgid, const struct process_labels *labels, unsigned execs)
{
	struct process *p = process_table__find(s->life.processes, tgid);
	struct target *t = target_of(s, p);

	if (!t || p->execs != execs)
		return;
	p->labelled = true;
	process_label_table__set(&t->labels, tgid, labels);
}

/* The program is mapped below its libraries: what else maps code there is not a file. */
static void find_main_file(const struct scanner *s, const struct process *p)
{
	struct target *t = target_of(s, p);
	const struct so_mapping *all = sampler__mappings(s->life.sampler);

	if (!t || t->info.pid != p->tgid)
		return;
	for (uint32_t i = 0; p->run && i < p->run->n; i++) {
		t->main_file = all[p->run->first + i].file;
		if (t->main_file)
			return;
	}
}

/* Its memory cannot be read now. */
static void scan_later(const struct scanner *s, const struct scan_work *work)
{
	struct process *p;

	pthread_mutex_lock(s->lock);
	p = process_table__find(s->life.processes, work->tgid);
	if (p) {
		p->not_before_ns = clock__now_ns() + STUCK_SCAN_NS;
		scan_queue__request(s->life.scans, work->tgid, work->reported_pages);
	}
	pthread_mutex_unlock(s->lock);
}

int scanner__scan(const struct scanner *s, const struct scan_work *work)
{
	_cleanup_(process_scan) struct process_scan scan = { .reported_pages = work->reported_pages };
	pid_t tgid = work->tgid;
	struct cuda_found *found = NULL;
	struct process_labels labels;
	unsigned execs;
	bool cuda, label;
	int ret;

	if (memory_lock__check(tgid)) {
		scan_later(s, work);
		return -EBUSY;
	}
	ret = process_scan__read(&scan, tgid);
	if (ret)
		return ret;
	pthread_mutex_lock(s->lock);
	ret = is_foreign(s, tgid) ? -EPERM : process_table__begin_scan(s->life.processes, &scan);
	cuda = cuda_targets__wants(s->life.cuda, tgid);
	label = wants_labels(s, tgid, &execs);
	pthread_mutex_unlock(s->lock);
	if (ret)
		return ret;
	process_scan__prepare(&scan, s->files);
	if (cuda)
		found = cuda_targets__find(s->life.cuda, &scan);
	pthread_mutex_lock(s->lock);
	ret = process_table__end_scan(s->life.processes, &scan);
	if (scan.again)
		scan_queue__request(s->life.scans, tgid, 0);
	if (!ret) {
		find_main_file(s, process_table__find(s->life.processes, tgid));
		pythons__find(s->pythons, process_table__find(s->life.processes, tgid), &scan);
	}
	cuda_targets__add(s->life.cuda, ret ? 0 : tgid, found);
	pthread_mutex_unlock(s->lock);
	/*
	 * 0.1 s for libtorch_cuda, seconds from a cold disk: other processes' mappings wait for this thread meanwhile.
	 */
	cuda_targets__load_callers(s->life.cuda, found);
	/* Last: samples of a young process wait for its mappings, not for these. */
	if (label) {
		process_labels__read(tgid, &labels);
		pthread_mutex_lock(s->lock);
		set_labels(s, tgid, &labels, execs);
		pthread_mutex_unlock(s->lock);
	}
	return ret;
}
