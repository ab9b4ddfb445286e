// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/clock_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/privileges.h"

/* Spreading the phases takes at most this long in all, however low the rate. */
#define MAX_SPREAD_NS 10000000ull

struct rate {
	uint64_t period_ns;
	struct bpf_link *links[CPU_SETSIZE];
	struct rate *next;
};

struct clock_events {
	struct bpf_program *program;
	struct rate *rates;
};

int clock_events__new(struct bpf_program *program, struct clock_events **out)
{
	struct clock_events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->program = program;
	*out = events;
	return 0;
}

static int open_one(struct clock_events *events, struct rate *rate, int cpu, struct so_error *err)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = rate->period_ns,
		.disabled = 1,
	};
	struct bpf_link *link;
	char why[PRIVILEGES_TEXT];
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == ENODEV)
		return 0; /* not online */
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return so_err(err, -errno,
			      "no permission for system-wide clock events: run as root or with CAP_PERFMON "
			      "(kernel.perf_event_paranoid; it lacks %s)",
			      privileges__why(why));
	if (fd < 0)
		return so_err(err, -errno, "cannot open a clock event on CPU %d: %s", cpu, strerror(errno));
	link = bpf_program__attach_perf_event(events->program, fd);
	if (!link) {
		int ret = -errno;

		close(fd);
		return so_err(err, ret, "cannot attach the sampler to CPU %d: %s", cpu, strerror(-ret));
	}
	rate->links[cpu] = link; /* owns fd */
	return 0;
}

static void close_one(struct rate *rate, int cpu)
{
	bpf_link__destroy(rate->links[cpu]);
	rate->links[cpu] = NULL;
}

static struct rate *find_rate(struct clock_events *events, uint64_t period_ns)
{
	struct rate *rate;

	for (rate = events->rates; rate; rate = rate->next) {
		if (rate->period_ns == period_ns)
			return rate;
	}
	rate = calloc(1, sizeof(*rate));
	if (!rate)
		return NULL;
	rate->period_ns = period_ns;
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

int clock_events__set(struct clock_events *events, uint64_t period_ns, const cpu_set_t *cpus,
		      struct so_error *err)
{
	struct rate *rate = find_rate(events, period_ns);
	uint64_t spread = period_ns < MAX_SPREAD_NS ? period_ns : MAX_SPREAD_NS;
	int n = CPU_COUNT(cpus), opened = 0, ret;
	struct timespec pause = { 0 };

	if (!rate)
		return so_err(err, -ENOMEM, "out of memory");
	pause.tv_nsec = n ? spread / n : 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, cpus)) {
			if (rate->links[cpu])
				close_one(rate, cpu);
			continue;
		}
		if (rate->links[cpu])
			continue;
		/* An event's phase is that of its start: spread the starts, or all CPUs are interrupted at once. */
		if (opened++)
			nanosleep(&pause, NULL);
		ret = open_one(events, rate, cpu, err);
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
			if (rate->links[cpu])
				CPU_SET(cpu, cpus);
		}
	}
}

void clock_events__free(struct clock_events *events)
{
	if (!events)
		return;
	while (events->rates) {
		struct rate *rate = events->rates;

		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (rate->links[cpu])
				close_one(rate, cpu);
		}
		drop_rate(events, rate);
	}
	free(events);
}
