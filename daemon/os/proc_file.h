/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of /proc/PID as several parts read them, proc(5). */
#ifndef STAKEOUT_PROC_FILE_H
#define STAKEOUT_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_FILE_HERE (-1) /* the daemon's own /proc */

/*
 * What the process's file `name` begins with, size - 1 bytes at most, and a NUL. proc_fd: an open directory, or
 * PROC_FILE_HERE. Returns the number of bytes. -ESRCH: there is no such process; -errno.
 */
ssize_t proc_file__read(int proc_fd, pid_t pid, const char *name, char *buf, size_t size);

/*
 * The real user of the process, by its file "status"; the owner of /proc/PID is root's for a process that made itself
 * unreadable. Errors as above.
 */
int proc_file__uid(int proc_fd, pid_t pid, uid_t *uid);

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

/* The line of /proc/PID/stat. False: it is none. */
bool proc_stat__parse(const char *text, struct proc_stat *out);

#endif
