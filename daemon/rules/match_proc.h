/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc's processes (or those of a test's folder) for rules: the list, cheap enough for each second, details of one. */
#ifndef STAKEOUT_MATCH_PROC_H
#define STAKEOUT_MATCH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/rules/match_rule.h"

struct match_entry {
	pid_t pid, ppid;
	uint64_t start_ticks; /* after boot; with the pid it names a process for good */
	/* Another after an exec: of the name and where arguments and stack lie, which the kernel chooses each time. */
	uint64_t image;
	bool unfit; /* a kernel thread, or one that has ended */
	char comm[16];
};

/* All processes by rising pid; those that end meanwhile may be missing. *out: malloc'ed, the caller's. -errno. */
int match_proc__list(int proc_fd, struct match_entry **out, size_t *n);

/* One of them. -ESRCH also when it cannot be read. */
int match_proc__read(int proc_fd, pid_t pid, struct match_entry *out);

/* Field 22 and others of a line of /proc/PID/stat, man 5 proc. false: it is none. */
bool match_proc__parse_stat(const char *text, struct match_entry *out);

/* Texts that a struct match_process points to. */
struct match_texts {
	char command[MATCH_COMMAND_MAX_BYTES + 1];
	char cgroups[MATCH_CGROUP_MAX_BYTES + 1];
};

/* What rules look at; texts that are longer are cut. cgroups is "" unless asked for. -ESRCH, or -errno. */
int match_proc__describe(int proc_fd, pid_t pid, bool cgroups, struct match_texts *texts, struct match_process *out);
/* Arguments as /proc/PID/cmdline has them, NULs between, become a line of blanks between. text[n] is written. */
void match_proc__join_arguments(char *text, size_t n);
/* Lines of /proc/PID/cgroup, "N:CONTROLLERS:PATH", become their paths, in place. */
void match_proc__cut_cgroups(char *text);

#endif
