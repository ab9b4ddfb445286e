/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much memory a target's processes had resident, over time, by /proc/PID/status, added up. Not thread-safe. */
#ifndef STAKEOUT_MEMORY_SERIES_H
#define STAKEOUT_MEMORY_SERIES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Beyond these every second point goes, and from then on every second one is kept. */
#define MEMORY_SERIES_MAX 1024

struct memory_point {
	uint64_t when_ns; /* CLOCK_MONOTONIC */
	/* Bytes: RssAnon, RssFile, RssShmem and VmSwap. */
	uint64_t anonymous, file, shared, swapped;
};

/* All zero is an empty one. */
struct memory_series {
	struct memory_point *points;
	size_t n, capacity;
	unsigned keep, skipped; /* of `keep` + 1 points one is kept */
};

/* -ENOMEM. */
int memory_series__add(struct memory_series *s, const struct memory_point *point);
/* The points from since_ns on. -ENOMEM: those that there was memory for. */
int memory_series__copy(const struct memory_series *from, uint64_t since_ns, struct memory_series *to);
/* The points from since_ns on as "MS:ANON:FILE:SHARED:SWAP,…": ms since since_ns, KiB. malloc'ed; NULL: no memory. */
char *memory_series__text(const struct memory_series *s, uint64_t since_ns);
void memory_series__release(struct memory_series *s);

/* What a process has in use, and what it did. */
struct memory_usage {
	uint64_t anonymous, file, shared, swapped; /* bytes */
	uint64_t faults, cpu_ns; /* page faults and CPU time since it began, with children's that it has waited for */
};
/* Of a process: `faults` and `cpu_ns`, which take longer where it has many threads, are left 0. */
int memory_usage__read_resident(pid_t pid, struct memory_usage *out);
/* Neither file needs the lock of the process's memory. -ESRCH: it has gone, or has no memory any more. */
int memory_usage__read(pid_t pid, struct memory_usage *out);
/* The same from the texts of /proc/PID/status and /proc/PID/stat. -ESRCH: they do not say it. */
int memory_usage__parse(const char *status, const char *stat, struct memory_usage *out);

#endif
