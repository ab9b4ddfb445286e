/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files whose reads a user's program may answer, or not answer: those of FUSE, also below an overlay. */
#ifndef STAKEOUT_SERVED_FILE_H
#define STAKEOUT_SERVED_FILE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * fd: any descriptor of the file, with O_PATH too. pid: the process that has it mapped, or whose root it was opened in;
 * 0: this one's. True as well where it cannot be known. In a user namespace of its own a user mounts overlays, over
 * FUSE too, and those cannot be told from others.
 */
bool served_file(pid_t pid, int fd);

#endif
