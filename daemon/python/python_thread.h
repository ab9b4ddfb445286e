/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a program calls a thread: threading.Thread(name="loader-3"). Up to 3.13 the kernel is not told, and 3.14 tells
 * it the first 15 bytes.
 */
#ifndef STAKEOUT_PYTHON_THREAD_H
#define STAKEOUT_PYTHON_THREAD_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_process.h"

#define PYTHON_THREAD_NAME_BYTES 64 /* of UTF-8, with the NUL; longer names are cut there, between characters */

/*
 * The name of the thread whose control block is at fsbase, which may run meanwhile. -ENOENT: it is none of Python's, or
 * was not started by the module threading; -EFAULT: its memory cannot be read, or makes no sense; -ENOMEM. name is ""
 * then.
 */
int python_thread__name(const struct foreign_memory *memory, const struct python_process *process, uint64_t fsbase,
			char name[PYTHON_THREAD_NAME_BYTES]);

#endif
