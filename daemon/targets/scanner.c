// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/scanner.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/targets/viewers.h"
#include "daemon/os/bounded_call.h"
#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/os/process_access.h"

/* A process whose memory could not be read, or whose user's mappings wait to be reused, is scanned again after this. */
#define STUCK_SCAN_NS 1000000000ull

/* How often, and at what distance, the end of scans is asked for. */
#define STOP_TRIES    100
#define STOP_PAUSE_NS 10000000

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

/* It cannot be read now, or its mappings cannot be placed. */
static void scan_later(const struct scanner *s, const struct scan_work *work)
{
	struct process *p;

	pthread_mutex_lock(s->lock);
	p = process_table__find(s->life.processes, work->tgid);
	if (p) {
		p->not_before_ns = clock__now_ns() + STUCK_SCAN_NS;
		scan_queue__request(s->life.scans, work->tgid);
	}
	pthread_mutex_unlock(s->lock);
}

/* -ECANCELED, and no lock: the engine ends. */
static int lock(const struct scanner *s)
{
	pthread_mutex_lock(s->lock);
	if (!s->stopping)
		return 0;
	pthread_mutex_unlock(s->lock);
	return -ECANCELED;
}

static void read_labels(const struct scanner *s, pid_t tgid, unsigned execs)
{
	struct process_labels labels;

	process_labels__read(tgid, &labels);
	if (lock(s))
		return;
	set_labels(s, tgid, &labels, execs);
	pthread_mutex_unlock(s->lock);
}

static int scan_now(const struct scanner *s, const struct scan_work *work)
{
	_cleanup_(process_scan) struct process_scan scan = { .generation = work->generation };
	pid_t tgid = work->tgid;
	struct gpu_memory_found *torch = NULL;
	struct allocations_found *allocators;
	struct cuda_found *found = NULL;
	unsigned execs;
	bool cuda, gpu_memory, label;
	int ret = process_scan__read(&scan, tgid) ?: lock(s);

	if (ret)
		return ret;
	mapping_watch__take(s->life.mappings);
	ret = is_foreign(s, tgid) ? -EPERM : process_table__begin_scan(s->life.processes, &scan);
	cuda = cuda_targets__wants(s->life.cuda, tgid);
	gpu_memory = gpu_memory__wants(s->gpu_memory, tgid);
	allocators = ret ? NULL : allocations__wants(s->allocations, tgid);
	label = wants_labels(s, tgid, &execs);
	pthread_mutex_unlock(s->lock);
	if (ret)
		return ret;
	process_scan__prepare(&scan, s->files);
	if (cuda)
		found = cuda_targets__find(s->life.cuda, &scan);
	if (gpu_memory)
		torch = gpu_memory__find(&scan);
	if (allocators)
		allocations__find(allocators, &scan);
	pthread_mutex_lock(s->lock);
	ret = s->stopping ? -ECANCELED : process_table__end_scan(s->life.processes, &scan);
	if (!ret && scan.again)
		scan_queue__request(s->life.scans, tgid);
	if (!ret) {
		find_main_file(s, process_table__find(s->life.processes, tgid));
		pythons__find(s->pythons, process_table__find(s->life.processes, tgid), &scan);
	}
	cuda_targets__add(s->life.cuda, ret ? 0 : tgid, found);
	gpu_memory__add(s->gpu_memory, ret ? 0 : tgid, torch);
	allocations__add(s->allocations, ret ? 0 : tgid, allocators);
	pthread_mutex_unlock(s->lock);
	if (ret == -EAGAIN)
		scan_later(s, work);
	/*
	 * 0.1 s for libtorch_cuda, seconds from a cold disk: other processes' mappings wait for this thread meanwhile.
	 */
	cuda_targets__load_callers(s->life.cuda, found);
	/* Last: samples of a young process wait for its mappings, not for these. */
	if (label)
		read_labels(s, tgid, execs);
	return ret;
}

struct scan_job {
	struct scanner *scanner;
	struct scan_work work;
	uint64_t began_ns;
	int ret;
	bool run;
};

static void run_job(void *context)
{
	struct scan_job *job = context;

	job->run = true;
	job->ret = scan_now(job->scanner, &job->work);
}

/* The process may have ended since, and its number be another's: that one has no scan under way. */
static void count_scan(const struct scanner *s, const struct scan_job *job, bool begins)
{
	struct process *p = process_table__find(s->life.processes, job->work.tgid);

	if (p && begins)
		p->scanning++;
	else if (p && p->scanning)
		p->scanning--;
	if (!p || begins)
		return;
	/* Whatever came of it, samples of before need not wait for it any longer. */
	p->last_scan_ns = clock__now_ns();
	if (p->last_read_ns < job->began_ns)
		p->last_read_ns = job->began_ns;
}

static void end_job(struct scan_job *job, bool late)
{
	struct scanner *s = job->scanner;

	pthread_mutex_lock(s->lock);
	s->under_way--;
	if (!s->stopping)
		count_scan(s, job, false);
	if (late && !s->stopping) {
		s->late = true;
		scan_queue__wake(s->life.scans);
	}
	pthread_mutex_unlock(s->lock);
	free(job);
}

static void forget_job(void *context)
{
	struct scan_job *job = context;

	/* It was not begun. */
	if (!job->run)
		scan_later(job->scanner, &job->work);
	end_job(job, job->run);
}

int scanner__scan(struct scanner *s, const struct scan_work *work, unsigned patience_ms)
{
	struct scan_job *job = calloc(1, sizeof(*job));
	int ret;

	if (!job)
		return -ENOMEM;
	*job = (struct scan_job){ .scanner = s, .work = *work, .began_ns = clock__now_ns() };
	pthread_mutex_lock(s->lock);
	s->under_way++;
	count_scan(s, job, true);
	pthread_mutex_unlock(s->lock);
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_FILES,
							 .pid = work->tgid,
							 .patience_ms = patience_ms,
							 .run = run_job,
							 .forget = forget_job,
							 .context = job });
	if (ret)
		return ret;
	ret = job->ret;
	end_job(job, false);
	return ret;
}

bool scanner__stop(struct scanner *s)
{
	bool ended;

	/* The engine could not be made. */
	if (!s->lock)
		return true;
	pthread_mutex_lock(s->lock);
	s->stopping = true;
	for (unsigned i = 0; s->under_way && i < STOP_TRIES; i++) {
		pthread_mutex_unlock(s->lock);
		nanosleep(&(struct timespec){ 0, STOP_PAUSE_NS }, NULL);
		pthread_mutex_lock(s->lock);
	}
	ended = !s->under_way;
	pthread_mutex_unlock(s->lock);
	return ended;
}
