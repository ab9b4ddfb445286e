/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads a process's memory from outside, without stopping it. */
#ifndef STAKEOUT_CODE_READER_H
#define STAKEOUT_CODE_READER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Returns the bytes read, up to the first page that is not there; 0 when none could be. */
static inline size_t code_reader__read(pid_t pid, uint64_t address, void *buf, size_t size)
{
	struct iovec local = { buf, size }, remote = { (void *)(uintptr_t)address, size };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n > 0 ? n : 0;
}

#endif
