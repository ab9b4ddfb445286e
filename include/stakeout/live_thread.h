/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread stands for a process. The first thread may end before the others (pthread_exit() in main): the kernel
 * has then let go of its memory, files and program, so /proc/PID/maps is empty, /proc/PID/exe and root cannot be read,
 * and process_vm_readv() fails, while the process runs on. Whatever is asked of the process by number of a thread that
 * lives is answered.
 */
#ifndef STAKEOUT_LIVE_THREAD_H
#define STAKEOUT_LIVE_THREAD_H

#include <sys/types.h>

/*
 * The process's first thread where it lives, or else one that does, for /proc/TID/… and system calls. pid itself where
 * none is found (the process has ended) or where it cannot be known (another user's). The thread may end at any time:
 * ask again rather than keep it. Takes no lock of the process's memory.
 */
pid_t live_thread__of(pid_t pid);
/* The same in another /proc, an open directory; -1: in this process's own. */
pid_t live_thread__in(int proc_fd, pid_t pid);

#endif
