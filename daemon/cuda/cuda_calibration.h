/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a CUDA probe costs on this machine, measured on functions of our own that do nothing. */
#ifndef STAKEOUT_CUDA_CALIBRATION_H
#define STAKEOUT_CUDA_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cuda_link;
struct cuda_probes;

/* In a loop that does nothing else, so with warm caches. Each in ns of the thread that runs into the probe. */
struct cuda_prices {
	double timed_ns;   /* entry and return of a call that is timed, without a stack */
	double counted_ns; /* an entry that is counted, no return */
	double nested_ns;  /* the entry of a call inside another one */
	double off_ns;     /* an entry that does not count */
	double stepped_ns; /* more, where the entry's instruction is single-stepped */
	double floor_ns;   /* what an empty call would seem to take; already taken off each time */
	/* By the programs' own clock: those of a timed call and of a counted one; parts of the above. */
	double timed_program_ns, counted_program_ns;
	bool has_counted;  /* an entry can go without its return (session links) */
	bool nops_stepped; /* long nops are single-stepped (before Linux 6.16) */
};

/* Attaches to this process for some 100 ms. -errno when the kernel refuses that kind of probe. */
int cuda_calibration__run(struct cuda_probes *probes, struct cuda_prices *out);

/* Places in a file, and a cookie for each. */
struct cuda_places {
	const uint64_t *offsets, *cookies;
	uint32_t n;
};

/* cuda_probes.c's: probes in the file at fd. */
int cuda_probes__attach_places(struct cuda_probes *probes, pid_t pid, int fd, const struct cuda_places *places,
			       struct cuda_link **out);

#endif
