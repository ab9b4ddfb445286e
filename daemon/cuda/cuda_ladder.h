/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is measured of which calls, so that the probes of a target cost no more than allowed: a ladder that each unit
 * (SO_CUDA_UNIT()) is on. It has no clock and does no I/O.
 *
 * One rule for going down: while the probes that are always there cost too much, the unit that costs most goes down a
 * rung. Nested calls cost without being counted, so a unit of these goes first, and to the foot. Going up: when the
 * rule, with less allowed, has chosen a higher rung for CUDA_LADDER_CALM_S.
 */
#ifndef STAKEOUT_CUDA_LADDER_H
#define STAKEOUT_CUDA_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cuda_abi.h"

#define CUDA_LADDER_CALM_S 3.0
#define CUDA_LADDER_CALM   0.7 /* of what is allowed */
/* Of what is allowed, for probes that are always there while others come and go with windows. */
#define CUDA_LADDER_ALWAYS 0.6
/* On-windows must be such a share of the time at least, or they tell nothing within a recording. */
#define CUDA_LADDER_LEAST_ON 0.002

/* A unit of nested calls alone: they are counted by their outer calls, and would only slow down an on-window. */
#define CUDA_LADDER_ALL_NESTED 0.99

enum cuda_rung {
	CUDA_RUNG_FULL,        /* each call is timed */
	CUDA_RUNG_COUNTED,     /* each call is counted, some are timed */
	CUDA_RUNG_WINDOWED,    /* only in on-windows: counts are estimates */
	CUDA_RUNG_NOT_WATCHED, /* no probes */
};

/* "full", "counted", "windowed", "not-watched" */
const char *cuda_ladder__word(enum cuda_rung rung);

/* What a unit would cost in ns a second with its probes always there, by the rate of its calls. */
struct cuda_ladder_unit {
	double full, counted;
	double nested;    /* the share of its hits that are nested calls */
	bool has_counted; /* it can be on that rung */
};

/* All zero: all units are at the top. */
struct cuda_ladder {
	enum cuda_rung rung[SO_CUDA_UNITS];
	double calm_s[SO_CUDA_UNITS];
	double always;   /* what the probes cost that are always there, ns a second, */
	double windowed; /* and those of windows, if they were always there */
};

/* allowed: what all may cost, ns a second. elapsed_s: since the last decision. */
void cuda_ladder__decide(struct cuda_ladder *ladder, const struct cuda_ladder_unit units[SO_CUDA_UNITS], double allowed,
			 double elapsed_s);

/* The units on that rung, 1 << unit. */
uint32_t cuda_ladder__units(const struct cuda_ladder *ladder, enum cuda_rung rung);

#endif
