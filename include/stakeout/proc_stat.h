/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The line of /proc/PID/stat, proc(5). */
#ifndef STAKEOUT_PROC_STAT_H
#define STAKEOUT_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
	char comm[16]; /* cut, with a NUL */
	char state;    /* R, S, D, T, Z, X, … */
	pid_t ppid;
	bool kernel_thread;
	bool ended;           /* and waits for its parent; not a process whose first thread alone has ended */
	uint64_t threads;     /* a first one that has ended counts until the last one has */
	uint64_t cpu_ticks;   /* user and system time of all its threads */
	uint64_t start_ticks; /* after boot; with the pid it names a process for good */
	uint64_t stack_at, arguments_at; /* addresses; 0 for who may not know */
};

/* False: the text is no such line. */
bool proc_stat__parse(const char *text, struct proc_stat *out);

#endif
