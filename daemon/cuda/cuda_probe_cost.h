/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the probes of CUDA calls cost a target, by what they cost us. */
#ifndef STAKEOUT_CUDA_PROBE_COST_H
#define STAKEOUT_CUDA_PROBE_COST_H

#include <stdbool.h>

/*
 * What a probe costs, as calibrated on functions of our own: in a loop that does nothing else, and with the caches used for other
 * things between the calls. Entries time themselves in every target, which tells where between the two it is.
 */
struct cuda_probe_cost {
	double pair_ns;    /* entry and return, the program's work without a stack in it */
	double light_ns;   /* an entry that does not count, of a light link where there are such */
	double nested_ns;  /* the entry of a call inside another one */
	double stepped_ns; /* more, where the entry's instruction is single-stepped */
	double floor_ns;   /* what an empty call would seem to take; already taken off each time */
	double program_ns; /* what an entry's program takes by its own clock; a part of pair_ns */
	struct {
		double pair_ns, light_ns, nested_ns, stepped_ns, floor_ns, program_ns;
	} cold;            /* all of that with cold caches */
	double coldness;   /* 0: as in the loop; 1: as with cold caches, or colder */
	bool nops_stepped; /* whether long nops are single-stepped (before Linux 6.16) */
};
/* Where an entry's program takes program_ns. What is less than calibrated is as calibrated. */
struct cuda_probe_cost cuda_probe_cost__at(const struct cuda_probe_cost *cost, double program_ns);

#endif
