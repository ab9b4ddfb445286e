// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine's life and its two threads. The loop waits for what the kernel sends, ends windows and targets when their
 * time has come, and keeps the clock events on the CPUs that the targets may use. The scanner reads the mappings of
 * processes that changed them, which can take long and must not hold up the loop.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_files.h"
#include "daemon/os/log.h"
#include "daemon/os/memory_lock.h"
#include "daemon/os/proc_info.h"

#define MS 1000000ull
/* A window ends at the latest after this; earlier when the rates could fill half of it. */
#define MAX_WINDOW_NS (1000 * MS)
#define MIN_WINDOW_NS (20 * MS)
/* How often threads are asked for the CPUs they may use: more seldom when there are many. */
#define CPU_CHECK_NS      (200 * MS)
#define CPU_CHECK_MANY_NS (1000 * MS)
#define MANY_PROCESSES    32
/* A process whose memory could not be read is asked again after this. */
#define STUCK_SCAN_NS (1000 * MS)

struct target *engine_target(struct engine *e, uint32_t id)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i] && e->targets[i]->id == id && !e->targets[i]->doomed)
			return e->targets[i];
	}
	return NULL;
}

void engine_wake(struct engine *e)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then the loop wakes anyway. */
	if (write(e->wake_fd, &one, sizeof(one)) < 0)
		return;
}

unsigned engine_sampling_rate_sum(const struct engine *e)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i] && e->targets[i]->info.state == TARGET_SAMPLING)
			sum += e->targets[i]->info.rate_hz;
	}
	return sum;
}

/* A sample makes two entries at most, so a window of this length cannot fill its map more than half. */
static uint64_t window_ns(const struct engine *e)
{
	uint64_t per_second = (uint64_t)engine_sampling_rate_sum(e) * sysconf(_SC_NPROCESSORS_ONLN) * 2;
	uint64_t ns = per_second ? sampler__window_entries(e->sampler) / 2 * 1000000000ull / per_second
				 : MAX_WINDOW_NS;

	return ns < MIN_WINDOW_NS ? MIN_WINDOW_NS : ns > MAX_WINDOW_NS ? MAX_WINDOW_NS : ns;
}

struct cpus_of_rate {
	unsigned rate_hz;
	cpu_set_t cpus;
};

static void add_cpus(void *context, struct process *p)
{
	struct cpus_of_rate *c = context;

	if (!p->gone && p->kernel.rate_hz == c->rate_hz)
		proc_info__add_cpus(p->tgid, &c->cpus);
}

/* Opens and closes clock events so that they match where the targets' threads may run. */
int engine_update_events(struct engine *e, struct so_error *err)
{
	int ret = 0;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];
		struct cpus_of_rate c;

		if (!t || t->info.state != TARGET_SAMPLING)
			continue;
		c.rate_hz = t->info.rate_hz;
		CPU_ZERO(&c.cpus);
		process_table__each(e->processes, SO_MAX_SLOTS, add_cpus, &c);
		if (CPU_COUNT(&c.cpus))
			ret = ret ?: sampler__set_events(e->sampler, t->info.rate_hz, &c.cpus, err);
	}
	e->last_cpu_check_ns = clock__now_ns();
	return ret;
}

static bool rate_in_use(const struct engine *e, unsigned rate_hz)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		const struct target *t = e->targets[i];

		if (t && t->info.state == TARGET_SAMPLING && t->info.rate_hz == rate_hz)
			return true;
	}
	return false;
}

static void deactivate(void *context, struct process *p)
{
	struct engine *e = context;

	process_table__set_flags(e->processes, p, p->kernel.flags & ~(SO_PROCESS_ACTIVE | SO_PROCESS_FOLLOW));
}

static void forget_process(void *context, struct process *p)
{
	struct engine *e = context;

	process_table__remove(e->processes, p);
}

/*
 * No sample begins after deactivation. One that had begun counts in the window that is open when it ends: the one that is drained, or the one
 * that is opened by that. All have ended when the drain returns.
 */
static void drain_at_end(struct engine *e, struct target *t)
{
	struct so_slot slot;
	uint64_t lost;

	engine_drain(e);
	engine_hurry_waiting(e, t->slot);
	lost = engine_target_lost(e, t, &slot);
	if (slot.taken == engine_target_samples(t) + lost)
		return;
	engine_drain(e);
	engine_hurry_waiting(e, t->slot);
}

void engine_end_target(struct engine *e, struct target *t, enum target_end end)
{
	cpu_set_t none;

	if (t->info.state == TARGET_ENDED)
		return;
	if (t->of) {
		engine_end_view(e, t);
		engine_files_changed(e);
		t->info.end = end;
		return;
	}
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i] && e->targets[i]->of == t)
			engine_end_target(e, e->targets[i], end);
	}
	process_table__each(e->processes, t->slot, deactivate, e);
	t->end_ns = clock__now_ns();
	sampler__consume_events(e->sampler);
	process_table__each(e->processes, t->slot, deactivate, e);
	cuda_targets__stop(t);
	drain_at_end(e, t);
	cuda_targets__end(e->cuda, t);
	sampler__read_slot(e->sampler, t->slot, &t->kernel);
	t->info.state = TARGET_ENDED;
	t->info.end = end;
	process_table__each(e->processes, t->slot, forget_process, e);
	if (!rate_in_use(e, t->info.rate_hz)) {
		CPU_ZERO(&none);
		sampler__set_events(e->sampler, t->info.rate_hz, &none, NULL);
	}
	pthread_cond_broadcast(&e->target_changed);
}

/* With no target left, nothing refers to files, tables or symbols; the next attach finds its tables in the cache. */
void engine_forget_if_idle(struct engine *e)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i])
			return;
	}
	if (e->scan_busy || process_table__count(e->processes))
		return;
	engine_forget_ahead(e);
	cuda_targets__forget_names(e->cuda);
	/* They hold numbers of files. */
	engine_release_pending(&e->pending[0]);
	engine_release_pending(&e->pending[1]);
	e->n_pythons = 0;
	/* In this order: the registry puts the vdso's table into the pool anew. */
	table_pool__reset(e->pool);
	file_registry__reset(e->files);
	engine_files_forgotten(e);
}

void engine_check_alive(void *context, struct process *p)
{
	struct engine *e = context;
	struct proc_info info;

	if (!p->gone && (proc_info__read(p->tgid, &info) == -ESRCH || proc_info__is_zombie(&info)))
		engine_process_gone(e, p);
}

static void end_due_targets(struct engine *e, uint64_t now)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];

		if (!t || t->info.state != TARGET_SAMPLING)
			continue;
		if (!t->of && !t->living)
			engine_end_target(e, t, TARGET_END_EXITED);
		else if (t->deadline_ns && now >= t->deadline_ns)
			engine_end_target(e, t, TARGET_END_DURATION);
	}
}

static void look_at_code(void *context, struct process *p)
{
	struct engine *e = context;

	if (p->gone)
		return;
	if (process__learns_again(p) || (p->learned && process_table__code_changed(e->processes, p)))
		engine_request_scan(e, p->tgid, 0);
}

static void look_for_python(void *context, struct process *p)
{
	engine_retry_python(context, p);
}

static void look_at_cpus(struct engine *e, uint64_t now)
{
	bool many = process_table__count(e->processes) > MANY_PROCESSES;

	if (now - e->last_cpu_check_ns < (many ? CPU_CHECK_MANY_NS : CPU_CHECK_NS))
		return;
	engine_update_events(e, NULL);
	if (process_table__count(e->processes))
		kernel_symbols__look(e->kernel_symbols, now);
	process_table__each(e->processes, SO_MAX_SLOTS, engine_check_alive, e);
	process_table__each(e->processes, SO_MAX_SLOTS, look_at_code, e);
	process_table__each(e->processes, SO_MAX_SLOTS, look_for_python, e);
}

static void look_for_new_python(void *context, struct process *p)
{
	if (engine_python_is_new(p))
		engine_retry_python(context, p);
}

static void look_for_pythons(struct engine *e, uint64_t now)
{
	if (!e->python_again_ns || now < e->python_again_ns)
		return;
	e->python_again_ns = 0;
	process_table__each(e->processes, SO_MAX_SLOTS, look_for_new_python, e);
}

/* Returns how long the loop may sleep. */
static uint64_t timers(struct engine *e)
{
	uint64_t now = clock__now_ns(), next, cuda_next, files_next = engine_files_tick(e, now);

	if (!engine_sampling_rate_sum(e)) {
		e->drain_error = 0;
		return files_next == UINT64_MAX ? UINT64_MAX : files_next > now ? files_next - now : 0;
	}
	if (now - e->last_drain_ns >= window_ns(e))
		e->drain_error = engine_drain(e);
	end_due_targets(e, now);
	engine_forget_ended(e);
	look_at_cpus(e, now);
	look_for_pythons(e, now);
	next = e->last_drain_ns + window_ns(e);
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];

		if (t && t->info.state == TARGET_SAMPLING && t->deadline_ns && t->deadline_ns < next)
			next = t->deadline_ns;
	}
	if (e->last_cpu_check_ns + CPU_CHECK_NS < next)
		next = e->last_cpu_check_ns + CPU_CHECK_NS;
	cuda_next = cuda_targets__tick(e->cuda, clock__now_ns());
	if (cuda_next < next)
		next = cuda_next;
	if (files_next < next)
		next = files_next;
	if (e->n_waiting && now >= e->next_unwind_ns) {
		engine_unwind_waiting(e);
		e->next_unwind_ns = clock__now_ns() + 10 * MS;
	}
	if (e->n_waiting && e->next_unwind_ns < next)
		next = e->next_unwind_ns;
	if (e->python_again_ns && e->python_again_ns < next)
		next = e->python_again_ns;
	now = clock__now_ns();
	return next > now ? next - now : 0;
}

static void take_input(struct engine *e)
{
	uint64_t wakes;

	if (read(e->wake_fd, &wakes, sizeof(wakes)) < 0 && errno != EAGAIN)
		return;
	sampler__consume_events(e->sampler);
	sampler__consume_stacks(e->sampler);
	if (sampler__take_lost_events(e->sampler))
		engine_look_at_everything(e);
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void *loop(void *context)
{
	struct engine *e = context;
	_cleanup_close_ int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[4];

	if (epoll_fd < 0 || watch(epoll_fd, e->wake_fd) || watch(epoll_fd, sampler__stacks_fd(e->sampler)) ||
	    watch(epoll_fd, sampler__events_fd(e->sampler)))
		return NULL;
	for (;;) {
		uint64_t sleep_ns;

		pthread_mutex_lock(&e->lock);
		take_input(e);
		sleep_ns = timers(e);
		if (e->stopping) {
			pthread_mutex_unlock(&e->lock);
			return NULL;
		}
		if (!e->drain_error)
			e->rounds++;
		pthread_mutex_unlock(&e->lock);
		engine_files_close(e);
		epoll_wait(epoll_fd, events, 4, sleep_ns == UINT64_MAX ? -1 : (int)((sleep_ns + MS - 1) / MS));
	}
}

/* Once a process, and again after each exec; what it inherited counts until then. */
static bool wants_labels(struct engine *e, pid_t tgid, unsigned *execs)
{
	const struct process *p = process_table__find(e->processes, tgid);

	*execs = p ? p->execs : 0;
	return p && !p->gone && !p->labelled;
}

/* A user's target may execute a program of another user (set-user-ID, sudo): that is not the user's to see. */
static bool is_foreign(struct engine *e, pid_t tgid)
{
	struct process *p = process_table__find(e->processes, tgid);
	struct target *t = p && p->kernel.slot < SO_MAX_SLOTS ? e->targets[p->kernel.slot] : NULL;
	struct proc_info info;

	if (!t || !t->caller_uid || p->gone || proc_info__read(tgid, &info))
		return false;
	if (info.one_user && info.uid == t->caller_uid)
		return false;
	log__info("process %d (%s) of target %u is not followed any more: it belongs to another user", tgid,
		  info.comm, t->id);
	engine_process_gone(e, p);
	return true;
}

/* execs: what the process had executed when the labels were read; a later program has others. */
static void set_labels(struct engine *e, pid_t tgid, const struct process_labels *labels, unsigned execs)
{
	struct process *p = process_table__find(e->processes, tgid);
	struct target *t = p && p->kernel.slot < SO_MAX_SLOTS ? e->targets[p->kernel.slot] : NULL;

	if (!t || p->execs != execs)
		return;
	p->labelled = true;
	process_label_table__set(&t->labels, tgid, labels);
}

/* A round may have been under way, and have looked at the timers already: the second one that ends is whole. */
bool engine__collects(struct engine *e, unsigned timeout_ms)
{
	uint64_t until_ns = clock__now_ns() + timeout_ms * MS, enough = e->rounds + 2;
	struct timespec pause = { .tv_nsec = MS };

	for (;;) {
		engine_wake(e);
		nanosleep(&pause, NULL);
		if (e->rounds >= enough)
			return true;
		if (clock__now_ns() >= until_ns)
			return false;
		if (pause.tv_nsec < 100 * (long)MS)
			pause.tv_nsec *= 2;
	}
}

/* The program is mapped below its libraries: what else maps code there is not a file. */
static void find_main_file(struct engine *e, const struct process *p)
{
	struct target *t = e->targets[p->kernel.slot];
	const struct so_mapping *all = sampler__mappings(e->sampler);

	if (!t || t->info.pid != p->tgid)
		return;
	for (uint32_t i = 0; p->run && i < p->run->n; i++) {
		t->main_file = all[p->run->first + i].file;
		if (t->main_file)
			return;
	}
}

/* Its memory cannot be read now. */
static void scan_later(struct engine *e, pid_t tgid, uint64_t reported_pages)
{
	struct process *p;

	pthread_mutex_lock(&e->lock);
	p = process_table__find(e->processes, tgid);
	if (p) {
		p->not_before_ns = clock__now_ns() + STUCK_SCAN_NS;
		engine_request_scan(e, tgid, reported_pages);
	}
	pthread_mutex_unlock(&e->lock);
}

int engine_scan(struct engine *e, pid_t tgid, uint64_t reported_pages)
{
	_cleanup_(process_scan) struct process_scan scan = { .reported_pages = reported_pages };
	struct cuda_found *found = NULL;
	struct process_labels labels;
	unsigned execs;
	bool cuda, label;
	int ret;

	if (memory_lock__check(tgid)) {
		scan_later(e, tgid, reported_pages);
		return -EBUSY;
	}
	ret = process_scan__read(&scan, tgid);
	if (ret)
		return ret;
	pthread_mutex_lock(&e->lock);
	ret = is_foreign(e, tgid) ? -EPERM : process_table__begin_scan(e->processes, &scan);
	cuda = cuda_targets__wants(e->cuda, tgid);
	label = wants_labels(e, tgid, &execs);
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return ret;
	process_scan__prepare(&scan, e->files);
	if (cuda)
		found = cuda_targets__find(e->cuda, &scan);
	pthread_mutex_lock(&e->lock);
	ret = process_table__end_scan(e->processes, &scan);
	if (scan.again)
		engine_request_scan(e, tgid, 0);
	if (!ret) {
		find_main_file(e, process_table__find(e->processes, tgid));
		engine_find_python(e, process_table__find(e->processes, tgid), &scan);
	}
	cuda_targets__add(e->cuda, ret ? 0 : tgid, found);
	pthread_mutex_unlock(&e->lock);
	/* 0.1 s for libtorch_cuda, seconds from a cold disk: other processes' mappings wait for this thread meanwhile. */
	cuda_targets__load_callers(e->cuda, found);
	/* Last: samples of a young process wait for its mappings, not for these. */
	if (label) {
		process_labels__read(tgid, &labels);
		pthread_mutex_lock(&e->lock);
		set_labels(e, tgid, &labels, execs);
		pthread_mutex_unlock(&e->lock);
	}
	return ret;
}

static void wait_until(struct engine *e, uint64_t at_ns)
{
	struct timespec at = { at_ns / 1000000000ull, at_ns % 1000000000ull };

	pthread_cond_timedwait(&e->scan_wanted, &e->lock, &at);
}

static void *scanner(void *context)
{
	struct engine *e = context;

	pthread_mutex_lock(&e->lock);
	while (!e->stopping) {
		struct scan_request *s = e->scans;
		struct process *p;

		if (!s || s->not_before_ns > clock__now_ns()) {
			if (engine_learn_ahead(e))
				engine_forget_if_idle(e);
			else if (s)
				wait_until(e, s->not_before_ns);
			else
				pthread_cond_wait(&e->scan_wanted, &e->lock);
			continue;
		}
		e->scans = s->next;
		e->scan_busy = true;
		pthread_mutex_unlock(&e->lock);
		engine_scan(e, s->tgid, s->reported_pages);
		pthread_mutex_lock(&e->lock);
		e->scan_busy = false;
		/* Whatever came of it, samples need not wait for it any longer. */
		p = process_table__find(e->processes, s->tgid);
		if (p)
			p->last_scan_ns = clock__now_ns();
		free(s);
		engine_unwind_waiting(e);
		engine_forget_if_idle(e);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static int start_threads(struct engine *e, struct so_error *err)
{
	int ret = pthread_create(&e->loop, NULL, loop, e);

	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	pthread_setname_np(e->loop, "collector");
	e->loop_runs = true;
	ret = pthread_create(&e->scanner, NULL, scanner, e);
	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	pthread_setname_np(e->scanner, "scanner");
	e->scanner_runs = true;
	return 0;
}

static void init_locks(struct engine *e)
{
	pthread_mutex_init(&e->lock, NULL);
	clock__init_cond(&e->scan_wanted);
	clock__init_cond(&e->target_changed);
}

static void open_cache(struct engine *e, const char *dir)
{
	struct so_error problem = { "" };

	if (dir && !*dir)
		snprintf(e->cache_problem, sizeof(e->cache_problem), "switched off");
	else if (unwind_cache__open(dir, 0, &e->cache, &problem))
		snprintf(e->cache_problem, sizeof(e->cache_problem), "%.255s", problem.text);
}

/*
 * The targets are busy by nature, maybe with many more threads than CPUs. The daemon needs little time, but promptly:
 * rings fill up meanwhile. Where it is not permitted it works all the same, only later.
 */
static void raise_priority(void)
{
	setpriority(PRIO_PROCESS, 0, -10);
}

int engine__new(const struct engine_options *options, struct engine **out, struct so_error *err)
{
	struct sampler_options so = { options->force_tail_calls, options->counts_entries };
	_cleanup_(engine) struct engine *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return so_err(err, -ENOMEM, "out of memory");
	init_locks(e);
	raise_priority();
	e->waiting_end = &e->waiting;
	e->generation_bytes = options->generation_bytes ?: ENGINE_GENERATION_BYTES;
	e->started_ns = e->last_drain_ns = clock__now_ns();
	snprintf(e->debug_root, sizeof(e->debug_root), "%s", options->debug_root ?: "/");
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->wake_fd < 0)
		return so_err(err, -errno, "cannot create an eventfd: %s", strerror(errno));
	ret = sampler__new(&so, &engine_handlers, &e->sampler, err);
	if (ret)
		return ret;
	sampler__set_context(e->sampler, e);
	open_cache(e, options->cache_dir);
	ret = table_pool__new(e->sampler, &e->pool);
	if (ret)
		return so_err(err, ret, "out of memory");
	ret = file_registry__new(e->pool, e->cache, e->debug_root, &e->files, err);
	if (ret)
		return ret;
	if (!options->no_source_lines) {
		e->source_lines =
			source_lines__new(NULL, options->lines_patience_ns ?: ENGINE_LINES_PATIENCE_NS);
		if (!e->source_lines)
			return so_err(err, -ENOMEM, "out of memory");
		file_registry__set_source_lines(e->files, e->source_lines);
	}
	ret = process_table__new(e->sampler, e->files, e->pool, &e->processes);
	if (ret)
		return so_err(err, ret, "out of memory");
	ret = python_functions__new(&e->python_functions);
	ret = ret ?: kernel_symbols__new(NULL, NULL, &e->kernel_symbols);
	ret = ret ?: cuda_targets__new(e, &e->cuda);
	ret = ret ?: engine_files_new(e, options->files_idle_ms);
	if (ret)
		return so_err(err, ret, "out of memory");
	ret = options->loaded ? options->loaded(err) : 0;
	ret = ret ?: start_threads(e, err);
	if (ret)
		return ret;
	*out = TAKE_PTR(e);
	return 0;
}

static void stop_threads(struct engine *e)
{
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	pthread_cond_broadcast(&e->scan_wanted);
	pthread_cond_broadcast(&e->target_changed);
	pthread_mutex_unlock(&e->lock);
	engine_wake(e);
	if (e->loop_runs)
		pthread_join(e->loop, NULL);
	if (e->scanner_runs)
		pthread_join(e->scanner, NULL);
}

void engine_free_target(struct target *t)
{
	accumulator__release(&t->acc);
	accumulator__release(&t->older);
	json_decref(t->programs_before);
	python_names__free(t->python_names);
	process_label_table__release(&t->labels);
	cuda_targets__free_target(t);
	free(t->base_counts);
	free(t);
}

void engine__free(struct engine *e)
{
	if (!e)
		return;
	stop_threads(e);
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i])
			engine_free_target(e->targets[i]);
	}
	while (e->waiting) {
		struct waiting_sample *w = e->waiting;

		e->waiting = w->next;
		engine_free_waiting(w);
	}
	while (e->scans) {
		struct scan_request *s = e->scans;

		e->scans = s->next;
		free(s);
	}
	engine_release_pending(&e->pending[0]);
	engine_release_pending(&e->pending[1]);
	engine_files_free(e);
	process_table__free(e->processes);
	file_registry__free(e->files);
	source_lines__free(e->source_lines);
	table_pool__free(e->pool);
	cuda_targets__free(e->cuda);
	sampler__free(e->sampler);
	unwind_cache__close(e->cache);
	kernel_symbols__free(e->kernel_symbols);
	effect_reader__free(e->effects);
	python_functions__unref(e->python_functions);
	engine_forget_ahead(e);
	close(e->wake_fd);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->scan_wanted);
	pthread_cond_destroy(&e->target_changed);
	free(e);
}
