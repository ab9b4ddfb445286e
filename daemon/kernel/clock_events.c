// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/clock_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/kernel/clock_periods.h"
#include "daemon/os/privileges.h"

/* Spreading the phases takes at most this long in all, however low the rate. */
#define MAX_SPREAD_NS 10000000ull

/*
 * A rate's clocks on one CPU. They tick for the first time when one of their periods is over, so all of them at once
 * would give nothing for that long, and then tick together. Instead one clock begins with the rate's nominal period p;
 * the others join it one after the other, p apart; when the first of those is about to tick, the first clock takes its
 * own long period. From begin to end there is one tick in p on average.
 */
struct cpu_clocks {
	struct rate *rate;
	int cpu;
	unsigned n; /* open */
	int fds[CLOCK_PERIODS_MAX];
	bool joining;
	uint64_t begin_ns, due_ns, sum_ns; /* next step; when the others joined, after the begin, in all */
	struct cpu_clocks *next_joining;
};

struct rate {
	unsigned hz, n;
	uint64_t single_ns, periods[CLOCK_PERIODS_MAX];
	struct cpu_clocks *cpus[CPU_SETSIZE];
	struct rate *next;
};

/*
 * Rates come and go in clock_events__set() and _free() only, whose caller sees to it that they run one at a time.
 * `lock` is for what the thread changes: a CPU's clocks, and the list of those that others join yet.
 */
struct clock_events {
	int program_fd;
	struct rate *rates;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct cpu_clocks *joining;
	size_t n_clocks; /* open or to be opened */
	pthread_t thread;
	bool has_thread, stop;
};

/* -errno. */
static int open_clock(const struct clock_events *events, int cpu, uint64_t period_ns, const char **what)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC), ret;

	*what = "open a clock event on";
	if (fd < 0)
		return -errno;
	/* Not by a link of libbpf's, which would be a second descriptor. */
	*what = "attach the sampler to";
	if (!ioctl(fd, PERF_EVENT_IOC_SET_BPF, events->program_fd) && !ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

static void leave_list(struct clock_events *events, struct cpu_clocks *c)
{
	struct cpu_clocks **at = &events->joining;

	if (!c->joining)
		return;
	while (*at != c)
		at = &(*at)->next_joining;
	*at = c->next_joining;
	c->joining = false;
}

/* All but the first `n`. */
static void close_clocks(struct clock_events *events, struct cpu_clocks *c, unsigned n)
{
	events->n_clocks -= (c->joining ? c->rate->n : c->n) - n;
	leave_list(events, c);
	while (c->n > n)
		close(c->fds[--c->n]);
}

/*
 * When the first clock takes its long period: the ticks that the others will have missed for having joined late are as
 * many as it has given too many until then. A quarter of its period after a tick, as the thread may be a little early.
 */
static uint64_t change_ns(const struct cpu_clocks *c)
{
	const struct rate *rate = c->rate;
	uint64_t others = rate->n - 1, p = 1000000000 / rate->hz;
	uint64_t ticks = (c->sum_ns / others + rate->n * p / 2 + p / 2) / p;

	return c->begin_ns + ticks * rate->single_ns + rate->single_ns / 4;
}

/* One more clock, or the first one's long period. Where that fails, the one clock goes on alone. */
static void join_next(struct clock_events *events, struct cpu_clocks *c, uint64_t now_ns)
{
	const struct rate *rate = c->rate;
	const char *what;

	if (c->n < rate->n) {
		int fd = open_clock(events, c->cpu, rate->periods[c->n], &what);

		if (fd < 0) {
			close_clocks(events, c, 1);
			return;
		}
		c->fds[c->n++] = fd;
		c->sum_ns += now_ns - c->begin_ns;
		c->due_ns = c->n < rate->n ? c->begin_ns + c->n * rate->single_ns : change_ns(c);
		return;
	}
	if (ioctl(c->fds[0], PERF_EVENT_IOC_PERIOD, &rate->periods[0]))
		close_clocks(events, c, 1);
	else
		leave_list(events, c);
}

static void *join_clocks(void *context)
{
	struct clock_events *events = context;

	pthread_mutex_lock(&events->lock);
	while (!events->stop) {
		struct cpu_clocks *next = events->joining;
		uint64_t now_ns = clock__now_ns();

		for (struct cpu_clocks *c = next; c; c = c->next_joining) {
			if (c->due_ns < next->due_ns)
				next = c;
		}
		if (!next || next->due_ns > now_ns) {
			clock__wait(&events->wake, &events->lock, next ? next->due_ns : UINT64_MAX);
		} else {
			join_next(events, next, now_ns);
			/* Whoever closes clocks is not to wait for all that are due. */
			pthread_mutex_unlock(&events->lock);
			pthread_mutex_lock(&events->lock);
		}
	}
	pthread_mutex_unlock(&events->lock);
	return NULL;
}

int clock_events__new(struct bpf_program *program, struct clock_events **out)
{
	struct clock_events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->program_fd = bpf_program__fd(program);
	pthread_mutex_init(&events->lock, NULL);
	clock__init_cond(&events->wake);
	*out = events;
	return 0;
}

/* Not before it has work: the daemon gives up capabilities first, which is for the calling thread only. */
static bool start_thread(struct clock_events *events)
{
	if (events->has_thread)
		return true;
	events->has_thread = !pthread_create(&events->thread, NULL, join_clocks, events);
	if (events->has_thread)
		pthread_setname_np(events->thread, "clocks");
	return events->has_thread;
}

/* Clocks are to take a quarter of all descriptors at most; beyond that a CPU has one for a rate. */
static bool has_room(const struct clock_events *events, unsigned n)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && events->n_clocks + n <= limit.rlim_cur / 4;
}

static int open_cpu(struct clock_events *events, struct rate *rate, int cpu, struct so_error *err)
{
	struct cpu_clocks *c = calloc(1, sizeof(*c));
	char why[PRIVILEGES_TEXT];
	const char *what;
	int fd;

	if (!c)
		return so_err(err, -ENOMEM, "out of memory");
	fd = open_clock(events, cpu, rate->single_ns, &what);
	if (fd < 0) {
		free(c);
		if (fd == -ENODEV)
			return 0; /* not online */
		if (fd == -EACCES || fd == -EPERM)
			return so_err(err, fd,
				      "no permission for system-wide clock events: run as root or with CAP_PERFMON "
				      "(kernel.perf_event_paranoid; it lacks %s)",
				      privileges__why(why));
		return so_err(err, fd, "cannot %s CPU %d: %s", what, cpu, strerror(-fd));
	}
	*c = (struct cpu_clocks){ .rate = rate, .cpu = cpu, .n = 1, .fds = { fd }, .begin_ns = clock__now_ns() };
	rate->cpus[cpu] = c;
	pthread_mutex_lock(&events->lock);
	if (rate->n > 1 && has_room(events, rate->n) && start_thread(events)) {
		c->due_ns = c->begin_ns + rate->single_ns;
		c->joining = true;
		c->next_joining = events->joining;
		events->joining = c;
		pthread_cond_signal(&events->wake);
	}
	events->n_clocks += c->joining ? rate->n : 1;
	pthread_mutex_unlock(&events->lock);
	return 0;
}

static void close_cpu(struct clock_events *events, struct rate *rate, int cpu)
{
	pthread_mutex_lock(&events->lock);
	close_clocks(events, rate->cpus[cpu], 0);
	pthread_mutex_unlock(&events->lock);
	free(rate->cpus[cpu]);
	rate->cpus[cpu] = NULL;
}

static struct rate *find_rate(struct clock_events *events, unsigned rate_hz)
{
	struct rate *rate;

	for (rate = events->rates; rate; rate = rate->next) {
		if (rate->hz == rate_hz)
			return rate;
	}
	rate = calloc(1, sizeof(*rate));
	if (!rate)
		return NULL;
	rate->hz = rate_hz;
	rate->single_ns = clock_periods__single(rate_hz);
	rate->n = clock_periods__get(rate_hz, rate->periods);
	rate->next = events->rates;
	events->rates = rate;
	return rate;
}

static void drop_rate(struct clock_events *events, struct rate *rate)
{
	struct rate **at = &events->rates;

	while (*at != rate)
		at = &(*at)->next;
	*at = rate->next;
	free(rate);
}

int clock_events__set(struct clock_events *events, unsigned rate_hz, const cpu_set_t *cpus, struct so_error *err)
{
	struct rate *rate = find_rate(events, rate_hz);
	uint64_t period_ns = 1000000000ull / rate_hz;
	uint64_t spread = period_ns < MAX_SPREAD_NS ? period_ns : MAX_SPREAD_NS;
	int n = CPU_COUNT(cpus), opened = 0, ret;
	struct timespec pause = { 0 };

	if (!rate)
		return so_err(err, -ENOMEM, "out of memory");
	pause.tv_nsec = n ? spread / n : 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, cpus)) {
			if (rate->cpus[cpu])
				close_cpu(events, rate, cpu);
			continue;
		}
		if (rate->cpus[cpu])
			continue;
		/* A clock's phase is that of its start: spread the starts, or all CPUs are interrupted at once. */
		if (opened++)
			nanosleep(&pause, NULL);
		ret = open_cpu(events, rate, cpu, err);
		if (ret)
			return ret;
	}
	if (!n)
		drop_rate(events, rate);
	return 0;
}

void clock_events__cpus(const struct clock_events *events, cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	for (const struct rate *rate = events->rates; rate; rate = rate->next) {
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (rate->cpus[cpu])
				CPU_SET(cpu, cpus);
		}
	}
}

void clock_events__free(struct clock_events *events)
{
	if (!events)
		return;
	pthread_mutex_lock(&events->lock);
	events->stop = true;
	pthread_cond_signal(&events->wake);
	pthread_mutex_unlock(&events->lock);
	if (events->has_thread)
		pthread_join(events->thread, NULL);
	while (events->rates) {
		struct rate *rate = events->rates;

		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (rate->cpus[cpu])
				close_cpu(events, rate, cpu);
		}
		drop_rate(events, rate);
	}
	pthread_cond_destroy(&events->wake);
	pthread_mutex_destroy(&events->lock);
	free(events);
}
