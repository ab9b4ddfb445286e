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

#include "daemon/engine/engine_internal.h"
#include "daemon/profile/file_names.h"
#include "daemon/targets/generations.h"
#include "daemon/os/clock.h"
#include "daemon/os/proc_info.h"

#define MS 1000000ull
/* A window ends at the latest after this; earlier when the rates could fill half of it. */
#define MAX_WINDOW_NS (1000 * MS)
#define MIN_WINDOW_NS (20 * MS)
/* While perf maps are polled: shorter windows have fewer addresses with two names (jit_names.h). */
#define NAMED_WINDOW_NS (250 * MS)
/* How often threads are asked for the CPUs they may use: more seldom when there are many. */
#define CPU_CHECK_NS      (200 * MS)
#define CPU_CHECK_MANY_NS (1000 * MS)
#define MANY_PROCESSES    32
/* A target that waited for a slow step goes on for so long. */
#define AFTER_SLOW_NS (1000 * MS)
/* Least time between two polls of perf maps: before drains, and when samples arrive. */
#define TIMER_POLL_NS (10 * MS)
#define WOKEN_POLL_NS (100 * MS)

/* A sample makes two entries at most, so a window of this length cannot fill its map more than half. */
static uint64_t window_ns(const struct engine *e)
{
	uint64_t per_second = (uint64_t)targets__rate_sum(&e->targets) * sysconf(_SC_NPROCESSORS_ONLN) * 2;
	uint64_t ns = per_second ? sampler__window_entries(e->sampler) / 2 * 1000000000ull / per_second : MAX_WINDOW_NS;
	uint64_t max_ns = jit_names__follows_any(e->jits) ? NAMED_WINDOW_NS : MAX_WINDOW_NS;

	return ns < MIN_WINDOW_NS ? MIN_WINDOW_NS : ns > max_ns ? max_ns : ns;
}

static void end_due_targets(struct engine *e, uint64_t now)
{
	struct target *t;

	TARGETS_EACH(t, &e->targets)
	{
		if (t->info.state != TARGET_SAMPLING)
			continue;
		if (!t->of && !t->living)
			engine_end_target(e, t, TARGET_END_EXITED);
		else if (t->deadline_ns && now >= t->deadline_ns)
			engine_end_target(e, t, TARGET_END_DURATION);
	}
}

/* What led to a slow step is in memory; a little of what comes after is kept as well. */
static void look_for_steps(struct engine *e, uint64_t drained_ns)
{
	struct target *t;

	if (drained_ns == e->steps_ns)
		return;
	e->steps_ns = drained_ns;
	TARGETS_EACH(t, &e->targets)
	{
		bool done = t->slow.ends && t->info.slow_step_ns;

		if (t->info.state != TARGET_SAMPLING || done || (!steps__waits_for_slow(t) && !t->span.count))
			continue;
		steps__look(t, drained_ns);
		if (t->slow.ends && t->info.slow_step_ns)
			t->deadline_ns = clock__now_ns() + AFTER_SLOW_NS;
		if (t->span.to_ns && !t->deadline_ns)
			t->deadline_ns = clock__now_ns();
	}
}

static void look_at_code(void *context, struct process *p)
{
	struct engine *e = context;

	if (p->gone)
		return;
	process_table__forget_past(e->processes, p);
	if (process__learns_again(p) || (p->learned && process_table__code_changed(e->processes, p)))
		scan_queue__request(&e->scans, p->tgid);
}

static void look_at_cpus(struct engine *e, uint64_t now)
{
	bool many = process_table__count(e->processes) > MANY_PROCESSES;

	if (now - e->last_cpu_check_ns < (many ? CPU_CHECK_MANY_NS : CPU_CHECK_NS))
		return;
	engine_update_events(e, NULL);
	if (process_table__count(e->processes))
		kernel_symbols__look(e->kernel_symbols, now);
	process_life__look(&e->scanner.life);
	process_table__each(e->processes, SO_MAX_SLOTS, look_at_code, e);
	pythons__look(&e->pythons);
}

static uint64_t next_deadline(const struct engine *e)
{
	uint64_t next = UINT64_MAX;
	const struct target *t;

	TARGETS_EACH(t, &e->targets)
	{
		if (t->info.state == TARGET_SAMPLING && t->deadline_ns && t->deadline_ns < next)
			next = t->deadline_ns;
	}
	return next;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns how long the loop may sleep. */
static uint64_t timers(struct engine *e)
{
	uint64_t now = clock__now_ns(), next = file_life__tick(&e->file_life, now);

	if (!targets__rate_sum(&e->targets)) {
		e->drain_error = 0;
		return next == UINT64_MAX ? UINT64_MAX : next > now ? next - now : 0;
	}
	if (now - e->collector.last_drain_ns >= window_ns(e))
		e->drain_error = collector__drain(&e->collector);
	look_for_steps(e, e->collector.last_drain_ns);
	end_due_targets(e, now);
	engine_forget_ended(e);
	look_at_cpus(e, now);
	next = earlier(next, pythons__tick(&e->pythons, now));
	next = earlier(next, e->collector.last_drain_ns + window_ns(e));
	next = earlier(next, next_deadline(e));
	next = earlier(next, e->last_cpu_check_ns + CPU_CHECK_NS);
	next = earlier(next, cuda_targets__tick(e->cuda, clock__now_ns()));
	next = earlier(next, collector__tick(&e->collector, now));
	next = earlier(next, memory_watch__tick(&e->memory, now));
	next = earlier(next, gpu_memory__tick(&e->gpu_memory, now));
	next = earlier(next, allocations__tick(&e->allocations, now));
	next = earlier(next, now + MAPPING_WATCH_NS);
	now = clock__now_ns();
	return next > now ? next - now : 0;
}

static void take_input(struct engine *e)
{
	uint64_t wakes;

	if (read(e->wake_fd, &wakes, sizeof(wakes)) < 0 && errno != EAGAIN)
		return;
	collector__take_input(&e->collector);
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Whether a target may have to end when the loop has slept. */
static bool is_soon(uint64_t deadline_ns, uint64_t sleep_ns)
{
	return deadline_ns != UINT64_MAX && sleep_ns != UINT64_MAX &&
	       deadline_ns <= clock__now_ns() + sleep_ns + 2 * MS;
}

static void *loop(void *context)
{
	struct engine *e = context;
	_cleanup_close_ int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[4];
	bool look_first = false;
	int woken = 0;

	if (epoll_fd < 0 || watch(epoll_fd, e->wake_fd) || watch(epoll_fd, sampler__stacks_fd(e->sampler)) ||
	    watch(epoll_fd, sampler__events_fd(e->sampler)) || watch(epoll_fd, mapping_events__fd(e->mappings.events)))
		return NULL;
	for (;;) {
		uint64_t sleep_ns;

		if (look_first)
			waits__update(e->waits);
		jit_names__poll(e->jits, woken ? WOKEN_POLL_NS : TIMER_POLL_NS);
		pthread_mutex_lock(&e->lock);
		take_input(e);
		sleep_ns = timers(e);
		look_first = waits__wanted(e->waits) && is_soon(next_deadline(e), sleep_ns);
		if (e->stopping) {
			pthread_mutex_unlock(&e->lock);
			return NULL;
		}
		if (!e->drain_error)
			e->rounds++;
		pthread_mutex_unlock(&e->lock);
		file_life__close(&e->file_life);
		woken = epoll_wait(epoll_fd, events, 4, sleep_ns == UINT64_MAX ? -1 : (int)((sleep_ns + MS - 1) / MS));
	}
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

/* With the lock held, which is let go meanwhile. */
static void scan(struct engine *e, const struct scan_work *work)
{
	pthread_mutex_unlock(&e->lock);
	scanner__scan(&e->scanner, work, SCANNER_PATIENCE_MS);
	pthread_mutex_lock(&e->lock);
}

static void *scan_loop(void *context)
{
	struct engine *e = context;
	struct scan_work work;

	pthread_mutex_lock(&e->lock);
	while (!e->stopping) {
		bool scans = scan_queue__take(&e->scans, &work), works = false, late = e->scanner.late;

		e->scanner.late = false;

		e->scans.busy = true;
		if (scans)
			scan(e, &work);
		else
			works = thread_namer__work(&e->namer) || learn_ahead__work(&e->ahead);
		e->scans.busy = false;
		if (scans || late)
			collector__unwind_waiting(&e->collector);
		if (scans || works || late)
			engine_forget_if_idle(e);
		else
			scan_queue__wait(&e->scans);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* At random around the mean, lest looks keep step with what the target does. */
static uint64_t jittered_ns(uint64_t mean_ns)
{
	return mean_ns / 2 + (uint64_t)random() % mean_ns;
}

static void *look_loop(void *context)
{
	struct engine *e = context;
	uint64_t until_ns;

	pthread_mutex_lock(&e->lock);
	while (!e->stopping) {
		pthread_mutex_unlock(&e->lock);
		until_ns = jittered_ns(waits__look(e->waits));
		until_ns += clock__now_ns();
		pthread_mutex_lock(&e->lock);
		if (!e->stopping)
			clock__wait(&e->looks_wanted, &e->lock, waits__wanted(e->waits) ? until_ns : UINT64_MAX);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static int start_threads(struct engine *e, struct so_error *err)
{
	int ret = pthread_create(&e->loop_thread, NULL, loop, e);

	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	pthread_setname_np(e->loop_thread, "collector");
	e->loop_runs = true;
	ret = pthread_create(&e->scanner_thread, NULL, scan_loop, e);
	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	pthread_setname_np(e->scanner_thread, "scanner");
	e->scanner_runs = true;
	ret = pthread_create(&e->looks_thread, NULL, look_loop, e);
	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	pthread_setname_np(e->looks_thread, "looks");
	e->looks_run = true;
	return 0;
}

static void open_cache(struct engine *e, const char *dir)
{
	struct so_error problem = { "" };

	if (dir && !*dir)
		snprintf(e->cache_problem, sizeof(e->cache_problem), "switched off");
	else if (unwind_cache__open(dir, 0, &e->cache, &problem))
		snprintf(e->cache_problem, sizeof(e->cache_problem), "%.255s", problem.text);
}

/* The kernel side counts by the first namespace's numbers: elsewhere a target's number is a stranger's. */
static int check_pid_namespace(struct so_error *err)
{
	if (proc_info__in_first_pid_namespace())
		return 0;
	return so_err(err, -ENOTSUP,
		      "the PID namespace is not the machine's first one, so process numbers mean other processes here: "
		      "start stakeoutd outside of the container (--pid=host, hostPID: true), with a /proc of its own "
		      "namespace");
}

/* The rooms below. */
static int open_rooms(struct engine *e, const struct engine_options *o, struct so_error *err)
{
	struct sampler_options so = { o->force_tail_calls, o->counts_entries };
	int ret = sampler__new(&so, &collector_handlers, &e->sampler, err);

	if (ret)
		return ret;
	open_cache(e, o->cache_dir);
	ret = table_pool__new(e->sampler, &e->pool);
	if (ret)
		return so_err(err, ret, "out of memory");
	ret = file_registry__new(e->pool, e->cache, e->debug_root, &e->files, err);
	if (ret)
		return ret;
	if (!o->no_source_lines) {
		e->source_lines = source_lines__new(NULL, o->lines_patience_ns ?: ENGINE_LINES_PATIENCE_NS);
		if (!e->source_lines)
			return so_err(err, -ENOMEM, "out of memory");
		file_registry__set_source_lines(e->files, e->source_lines);
	}
	ret = process_table__new(e->sampler, e->files, e->pool, &e->processes) ?: jit_names__new(&e->jits);
	ret = ret ?: kernel_symbols__new(NULL, NULL, &e->kernel_symbols);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

/* Each part is above those that it is given. */
static int compose(struct engine *e, const struct engine_options *o)
{
	struct target **slots = e->targets.by_slot;
	const struct cuda_targets_parts cuda = { &e->lock,     slots,       e->sampler, e->files,
						 e->processes, &e->pending, &e->scans };
	int ret = cuda_targets__new(&cuda, &e->cuda);

	if (ret)
		return ret;
	e->scans.lock = &e->lock;
	e->scans.processes = e->processes;
	e->mappings = (struct mapping_watch){
		.sampler = e->sampler, .files = e->files, .processes = e->processes, .scans = &e->scans
	};
	ret = mapping_watch__begin(&e->mappings);
	if (ret)
		return ret;
	e->pythons.sampler = e->sampler;
	e->pythons.files = e->files;
	e->pythons.processes = e->processes;
	e->pythons.targets = slots;
	e->notes.files = e->files;
	e->notes.processes = e->processes;
	e->notes.scans = &e->scans;
	e->ahead = (struct learn_ahead){ .lock = &e->lock, .files = e->files, .notes = &e->notes, .scans = &e->scans };
	e->learner = (struct learner){ .files = e->files, .notes = &e->notes, .ahead = &e->ahead };
	e->scanner = (struct scanner){
		.lock = &e->lock,
		.files = e->files,
		.pythons = &e->pythons,
		.gpu_memory = &e->gpu_memory,
		.allocations = &e->allocations,
		.life = { e->sampler, e->processes, &e->targets, &e->scans, &e->mappings, e->cuda, &e->gpu_memory,
			  e->wake_fd },
	};
	e->collector = (struct collector){ .life = e->scanner.life,
					   .unwind = { e->sampler, e->processes, &e->learner, &e->pythons, e->jits },
					   .pending = &e->pending,
					   .notes = &e->notes,
					   .namer = &e->namer,
					   .jits = e->jits,
					   .generation_bytes = o->generation_bytes ?: GENERATION_BYTES,
					   .waiting_end = &e->collector.waiting,
					   .last_drain_ns = e->started_ns };
	e->namer = (struct thread_namer){ .lock = &e->lock,
					  .targets = &e->targets,
					  .processes = e->processes,
					  .scans = &e->scans,
					  .list = &e->thread_list };
	ret = file_names__new(&e->waited_files);
	ret = ret
		      ?: waits__new(&(struct waits_parts){ &e->lock, &e->targets, e->processes, &e->scans, &e->mappings,
							   &e->collector.unwind, e->waited_files, &e->namer },
				    &e->waits);
	if (ret)
		return ret;
	e->collector.waits = e->waits;
	e->memory = (struct memory_watch){ .processes = e->processes, .targets = &e->targets };
	e->collector.memory = &e->memory;
	e->gpu_memory = (struct gpu_memory){ .processes = e->processes, .targets = &e->targets, .scans = &e->scans };
	e->collector.gpu_memory = &e->gpu_memory;
	e->allocations = (struct allocations){ .processes = e->processes, .targets = &e->targets, .scans = &e->scans };
	e->collector.allocations = &e->allocations;
	sampler__set_context(e->sampler, &e->collector);
	e->file_life = (struct file_life){ .files = e->files,
					   .pool = e->pool,
					   .processes = e->processes,
					   .targets = &e->targets,
					   .pending = &e->pending,
					   .notes = &e->notes,
					   .ahead = &e->ahead,
					   .scans = &e->scans,
					   .cuda = e->cuda,
					   .collector = &e->collector };
	file_life__begin(&e->file_life, o->files_idle_ms);
	return python_functions__new(&e->pythons.functions);
}

int engine__new(const struct engine_options *options, struct engine **out, struct so_error *err)
{
	_cleanup_(engine) struct engine *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return so_err(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&e->lock, NULL);
	clock__init_cond(&e->scans.wanted);
	clock__init_cond(&e->looks_wanted);
	/* The targets may keep all CPUs busy while rings fill up. Where it is not permitted the daemon is late. */
	setpriority(PRIO_PROCESS, 0, -10);
	e->started_ns = clock__now_ns();
	snprintf(e->debug_root, sizeof(e->debug_root), "%s", options->debug_root ?: "/");
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->wake_fd < 0)
		return so_err(err, -errno, "cannot create an eventfd: %s", strerror(errno));
	ret = check_pid_namespace(err) ?: open_rooms(e, options, err);
	if (ret)
		return ret;
	if (compose(e, options))
		return so_err(err, -ENOMEM, "out of memory");
	ret = options->loaded ? options->loaded(err) : 0;
	ret = ret ?: start_threads(e, err);
	if (!ret)
		*out = TAKE_PTR(e);
	return ret;
}

/* False: some of what they do hangs, and uses what is read of files. */
static bool stop_threads(struct engine *e)
{
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	scan_queue__wake(&e->scans);
	pthread_cond_signal(&e->looks_wanted);
	pthread_mutex_unlock(&e->lock);
	engine_wake(e);
	if (e->loop_runs)
		pthread_join(e->loop_thread, NULL);
	if (e->scanner_runs)
		pthread_join(e->scanner_thread, NULL);
	if (e->looks_run)
		pthread_join(e->looks_thread, NULL);
	return scanner__stop(&e->scanner);
}

static void free_targets(struct engine *e)
{
	struct target *t;

	while ((t = targets__next(&e->targets, NULL))) {
		targets__remove(&e->targets, t);
		engine_free_target(t);
	}
}

/* What a scan uses that may hang. */
static void free_files(struct engine *e)
{
	file_registry__free(e->files);
	source_lines__free(e->source_lines);
	table_pool__free(e->pool);
	cuda_targets__free(e->cuda);
	unwind_cache__close(e->cache);
}

void engine__free(struct engine *e)
{
	bool stopped;

	if (!e)
		return;
	stopped = stop_threads(e);
	free_targets(e);
	file_life__close(&e->file_life);
	collector__forget(&e->collector);
	pending_stacks__forget(&e->pending);
	scan_queue__forget(&e->scans);
	mapping_watch__end(&e->mappings);
	thread_list__close(e->thread_list);
	waits__free(e->waits);
	file_names__free(e->waited_files);
	process_table__free(e->processes);
	if (stopped)
		free_files(e);
	jit_names__free(e->jits);
	memory_watch__free(&e->memory);
	gpu_memory__free(&e->gpu_memory);
	allocations__free(&e->allocations);
	sampler__free(e->sampler);
	kernel_symbols__free(e->kernel_symbols);
	effect_reader__free(e->learner.effects);
	learn_ahead__forget(&e->ahead);
	python_functions__unref(e->pythons.functions);
	close(e->wake_fd);
	/* The scan that hangs has the lock to look at, should it go on before the program has ended. */
	if (!stopped)
		return;
	pthread_cond_destroy(&e->scans.wanted);
	pthread_cond_destroy(&e->looks_wanted);
	pthread_mutex_destroy(&e->lock);
	free(e);
}
