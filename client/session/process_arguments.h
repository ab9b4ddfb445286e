/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a process was called with, and what that says of it. */
#ifndef STAKEOUT_CLIENT_PROCESS_ARGUMENTS_H
#define STAKEOUT_CLIENT_PROCESS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * As /proc/PID/cmdline has them, a NUL behind each; text[size - 1] is always NUL. Returns their bytes, 0 where there
 * are none; -EBUSY, and an empty text, when that takes long: while a thread in uninterruptible sleep holds the lock of
 * the process's memory, who reads there hangs.
 */
ssize_t process_arguments__read(pid_t pid, char *text, size_t size);
/* Makes a line of them, a blank between; what did not fit is "…" at its end. */
void process_arguments__join(char *text, size_t n, size_t size);

/*
 * What an interpreter among them was given to run: the base name of a script, or a module of Python's -m. NULL: it is
 * no interpreter, or runs no script. It points into text.
 */
const char *process_arguments__script(const char *text, size_t n);
/* That, or else the program's base name; "": there are no arguments. */
const char *process_arguments__name(const char *text, size_t n);

/*
 * Whether those are the arguments of a program that starts others and waits for them: a shell, make, mpirun, srun,
 * torchrun, …; or of Python running such a script or module (torch.distributed.*).
 */
bool process_arguments__are_of_launcher(const char *text, size_t n);

#endif
