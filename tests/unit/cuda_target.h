/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A target whose every call is known, and the clocks, the probes and the kernel's maps by which a watch knows of it: what
 * daemon/cuda/cuda_watch*.c call of clock.h, cuda_probes.h and cuda_gate.h is defined here.
 */
#ifndef STAKEOUT_TESTS_CUDA_TARGET_H
#define STAKEOUT_TESTS_CUDA_TARGET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/cuda/cuda_watch_parts.h"

#define US       1000ull
#define MS       1000000ull
#define SECOND   1000000000ull
#define BEGIN    (1000 * SECOND)
#define SLOT     3
#define PAIR_NS  2500
#define LINK_NS  (300 * US) /* to place the probes of a link */
#define GOING_NS (200 * US)
#define READ_NS  (500 * US) /* to read the maps */
#define CALL_NS  700        /* what each call takes, as the probes see it */

/* The clocks, and what random bits are asked for. */

static uint64_t now = BEGIN, cpu;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns = clock == CLOCK_MONOTONIC ? now : cpu;

	*t = (struct timespec){ .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
	return 0;
}

int clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	*clock = CLOCK_PROCESS_CPUTIME_ID;
	return 0;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	memset(buffer, 7, length);
	return (ssize_t)length;
}

/* The target: one thread that makes its calls by the clock. */

struct made {
	enum so_cuda_api api;
	uint64_t period_ns, next_ns;
	uint64_t truth, seen; /* seen: of this process, as the kernel's map has it */
};

static struct target {
	pid_t pid, mapped;   /* 0: none runs; whose calls the kernel's map has */
	bool works;          /* what the probes take is time in which it does not get on */
	bool sleeps;         /* uses a twentieth of its time */
	uint64_t stepped_ns; /* what single-stepping an entry takes besides; 0: nothing is single-stepped */
	bool takes_turns;    /* its threads: what one's probes take all go without */
	double overlapped;   /* calls during another thread's */
	unsigned threads;    /* that make the calls by turns, each without what its probes take; 0 is 1 */
	/* After so many launches it waits, in a call that is counted all the time. */
	unsigned burst, launched;
	uint64_t wait_ns, wait_from, waited_ns; /* waited_ns: before that time */
	uint64_t waits;
	uint64_t
		others; /* calls that others made meanwhile and that were counted, while calls stood for others */
	bool hides;     /* nobody sees that it waits */
	uint64_t seen_ns; /* what is seen of waits from now on; 0: all */
	struct made made[3];
} target;

/* The probes. */

struct cuda_link {
	struct cuda_link *next;
	struct cuda_api_set apis;
	bool others, light;
	pid_t pid;
};

static struct cuda_link *links;
static struct so_cuda_control control;
static struct so_cuda_slot slot;
static struct so_cuda_slices slices;
static struct cuda_api_set called;
static enum cuda_probe_kind probe_kind;
static unsigned attached, fail_attach_at, snapshots, fail_snapshot_at;
static bool going;

static bool covers(const struct cuda_link *link, enum so_cuda_api api)
{
	return link->pid == target.pid && cuda_api_set__has(&link->apis, api) != link->others;
}

static unsigned threads(void)
{
	return target.threads ?: 1;
}

/* What it takes. */
static uint64_t hit(struct made *m)
{
	unsigned kind = cuda_names__kind(m->api);
	bool entry = false, back = false;

	for (const struct cuda_link *link = links; link; link = link->next) {
		entry |= covers(link, m->api);
		back |= covers(link, m->api) && !link->light;
	}
	if (!entry)
		return 0;
	slot.hits++;
	slot.stepped += target.stepped_ns > 0;
	cuda_api_set__add(&called, m->api);
	if (control.slices_ns && now >= control.slices_ns &&
	    (now - control.slices_ns) >> SO_CUDA_SLICE_SHIFT < SO_CUDA_SLICES)
		slices.hits[(now - control.slices_ns) >> SO_CUDA_SLICE_SHIFT]++;
	if (!control.on || control.off[kind] || !back) {
		slot.returns += back && probe_kind != CUDA_PROBE_SESSION;
		return PAIR_NS / 2 + target.stepped_ns;
	}
	slot.entries++;
	slot.stepped_counted += target.stepped_ns > 0;
	slot.entries_ns += 100;
	slot.returns++;
	slot.calls++;
	slot.kinds[kind]++;
	if (control.segment[kind] && now < target.wait_from + target.wait_ns)
		target.others++;
	if (control.segment[kind] && !target.takes_turns)
		target.overlapped += (double)CALL_NS / (double)m->period_ns * (1 - 1.0 / threads());
	slot.overlapped = (uint64_t)target.overlapped;
	m->seen++;
	return PAIR_NS + target.stepped_ns;
}

static void wait_after(struct made *m, uint64_t took)
{
	if (m != target.made || !target.burst || ++target.launched < target.burst)
		return;
	target.waited_ns += target.wait_ns;
	target.waits++;
	target.launched = 0;
	target.wait_from = now + took;
	m->next_ns = target.wait_from + target.wait_ns;
}

/* The target runs up to then. */
static void run_to(uint64_t end)
{
	for (;;) {
		struct made *first = NULL;
		uint64_t took, at;

		for (unsigned i = 0; target.pid && i < 3; i++) {
			struct made *m = &target.made[i];

			if (m->period_ns && (!first || m->next_ns < first->next_ns))
				first = m;
		}
		if (!first || first->next_ns >= end)
			break;
		at = first->next_ns > now ? first->next_ns : now;
		cpu += (at - now) / (target.sleeps ? 20 : 1);
		now = at;
		took = hit(first);
		first->truth++;
		first->next_ns += first->period_ns;
		for (unsigned i = 0; target.works && i < 3; i++)
			target.made[i].next_ns += target.takes_turns ? took : took / threads();
		wait_after(first, took);
	}
	if (target.pid && end > now)
		cpu += (end - now) / (target.sleeps ? 20 : 1);
	now = end > now ? end : now;
}

enum cuda_probe_kind cuda_probes__kind(const struct cuda_probes *probes)
{
	return probe_kind;
}

struct cuda_probe_cost cuda_probes__cost(const struct cuda_probes *probes)
{
	return (struct cuda_probe_cost){ .pair_ns = PAIR_NS,
					 .light_ns = PAIR_NS / 2,
					 .stepped_ns = (double)target.stepped_ns,
					 .program_ns = 100 };
}

int cuda_probes__attach(struct cuda_probes *probes, pid_t pid, uint32_t at, uint32_t number, int fd,
			const struct cuda_library *library, const struct cuda_choice *choice,
			struct cuda_link **out, struct so_error *err)
{
	struct cuda_link *link = *out;

	assert_true(at == SLOT && number > 0 && pid > 0);
	if (fail_attach_at && ++attached >= fail_attach_at)
		return so_err(err, -EPERM, "refused");
	if (!link) {
		link = calloc(1, sizeof(*link));
		assert_non_null(link);
		link->next = links;
		links = link;
	}
	link->pid = pid;
	link->apis = choice->apis;
	link->others = choice->others;
	link->light = choice->light && probe_kind == CUDA_PROBE_MULTI;
	*out = link;
	run_to(now + LINK_NS);
	return 0;
}

void cuda_link__free(struct cuda_link *link)
{
	struct cuda_link **at = &links;

	if (!link)
		return;
	/* The kernel takes its time, and hits go on meanwhile. */
	run_to(now + GOING_NS);
	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	free(link);
}

bool cuda_link__is_light(const struct cuda_link *link)
{
	return link->light;
}

bool cuda_probes__are_crowded(struct cuda_probes *probes)
{
	return false;
}

bool cuda_probes__are_going(struct cuda_probes *probes, pid_t pid)
{
	return going;
}

struct cuda_gate *cuda_probes__gate(const struct cuda_probes *probes)
{
	return NULL;
}

void cuda_gate__want(struct cuda_gate *gate, uint64_t until_ns)
{
}

bool cuda_gate__is_open(struct cuda_gate *gate)
{
	return true;
}

struct cuda_api_set cuda_probes__called(const struct cuda_probes *probes, uint32_t at)
{
	return called;
}

int cuda_probes__begin_slices(struct cuda_probes *probes, uint32_t at, enum so_cuda_of of, uint64_t from_ns)
{
	memset(&slices, 0, sizeof(slices));
	control.slices_ns = from_ns;
	return 0;
}

void cuda_probes__end_slices(struct cuda_probes *probes, uint32_t at)
{
	control.slices_ns = 0;
}

int cuda_probes__slices(const struct cuda_probes *probes, uint32_t at, struct so_cuda_slices *sum)
{
	*sum = slices;
	return 0;
}

void cuda_probes__set_runtimes(struct cuda_probes *probes, pid_t pid, const struct so_cuda_runtimes *runtimes)
{
}

struct so_cuda_control *cuda_probes__control(struct cuda_probes *probes, uint32_t at)
{
	return &control;
}

int cuda_probes__snapshot(struct cuda_probes *probes, uint32_t at, bool (*takes)(void *, uint32_t tgid),
			  void *context, struct cuda_snapshot *out)
{
	uint32_t octave = latency_octave(CALL_NS);

	run_to(now + READ_NS);
	if (fail_snapshot_at && ++snapshots >= fail_snapshot_at)
		return -EIO;
	for (unsigned i = 0; target.mapped && i < 3 * threads(); i++) {
		const struct made *m = &target.made[i / threads()];
		uint64_t seen = (m->seen + i % threads()) / threads();
		struct so_cuda_key key = { .tgid = (uint32_t)target.mapped,
					   .tid = (uint32_t)target.mapped + i % threads(),
					   .library = 1,
					   .api = (uint16_t)m->api,
					   .octave = (uint8_t)octave };
		struct so_cuda_calls calls = {
			.calls = seen, .total_ns = seen * CALL_NS, .min_ns = CALL_NS, .max_ns = CALL_NS
		};

		calls.buckets[latency_bucket(CALL_NS, octave)] = seen;
		if (seen && takes(context, key.tgid))
			assert_int_equal(cuda_snapshot__add_calls(out, &key, &calls), 0);
	}
	return 0;
}

int cuda_probes__take_calls(struct cuda_probes *probes, const struct so_cuda_key *key,
			    struct so_cuda_calls *out)
{
	return -ENOENT;
}

int cuda_probes__thread(const struct cuda_probes *probes, pid_t tid, struct so_cuda_call *out)
{
	uint64_t end = target.wait_from + target.wait_ns;

	*out = (struct so_cuda_call){ .cookie = SO_CUDA_COOKIE(SO_CUDA_API_cudaStreamSynchronize, SLOT, 1),
				      .begin_ns = target.wait_from,
				      .active = now >= target.wait_from && now < end,
				      .others = target.others,
				      .waits = target.waits - (now < end),
				      .away_ns = target.waited_ns - (now < end ? target.wait_ns : 0),
				      .gone_ns = now < end ? 0 : target.wait_from,
				      .back_ns = now < end ? 0 : end };
	if (target.seen_ns)
		*out = (struct so_cuda_call){ .cookie = out->cookie, .away_ns = target.seen_ns };
	return tid == target.pid && !target.hides && target.waited_ns ? 0 : -ESRCH;
}

uint64_t cuda_probes__tally(const struct cuda_probes *probes, uint32_t at)
{
	return 0;
}

int cuda_probes__slot(struct cuda_probes *probes, uint32_t at, struct so_cuda_slot *sum)
{
	*sum = slot;
	return 0;
}

int cuda_probes__clear_slot(struct cuda_probes *probes, uint32_t at)
{
	memset(&slot, 0, sizeof(slot));
	memset(&called, 0, sizeof(called));
	return 0;
}

void cuda_probes__forget(struct cuda_probes *probes, bool (*takes)(void *, uint32_t tgid), void *context)
{
	for (unsigned i = 0; i < 3; i++) {
		if (takes(context, (uint32_t)target.mapped))
			target.made[i].seen = 0;
	}
}

void cuda_library__release(struct cuda_library *library)
{
}

#endif
