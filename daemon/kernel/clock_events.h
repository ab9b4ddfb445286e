/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CPU clock events that drive the sampler: for each rate in use some software events of different periods on each
 * CPU that its targets may run on, each with the sampling program attached. They begin as one, and a thread adds the
 * others in the course of the first eight periods; where that fails, the CPU keeps the one.
 */
#ifndef STAKEOUT_CLOCK_EVENTS_H
#define STAKEOUT_CLOCK_EVENTS_H

#include <bpf/libbpf.h>
#include <sched.h>

#include "stakeout/error.h"

struct clock_events;

/* program: borrowed, must outlive the events. -ENOMEM. */
int clock_events__new(struct bpf_program *program, struct clock_events **out);
/* See sampler__set_events(). One call at a time, of this and the functions below. */
int clock_events__set(struct clock_events *events, unsigned rate_hz, const cpu_set_t *cpus, struct so_error *err);
void clock_events__cpus(const struct clock_events *events, cpu_set_t *cpus);
void clock_events__free(struct clock_events *events);

#endif
